#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# sdprun --check, --enable and --disable: what works is said beforehand, a service
# gets the library and loses it again, and nothing else changes.

load helpers

setup() {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the tools"
	unset LD_PRELOAD LIBSDP_CONFIG_FILE LIBSDP_DISABLE
	ROOT=$BATS_TEST_TMPDIR/root
	UNITS=$ROOT/usr/lib/systemd/system
	DROPINS=$ROOT/etc/systemd/system
	mkdir -p "$UNITS" "$ROOT/usr/bin" "$ROOT/etc"
	cp /bin/true "$ROOT/usr/bin/daemon"
}

# unit NAME LINE...: its [Service] section.
unit() {
	{
		printf '[Unit]\nDescription=of the test\n\n[Service]\n'
		printf '%s\n' "${@:2}"
		printf '[Install]\nWantedBy=multi-user.target\n'
	} >"$UNITS/$1"
}

enable() {
	sdprun --root "$ROOT" --enable "$@"
}

# refused TEXT UNIT: with a reason, status 1, and nothing is written.
refused() {
	run enable "$2"
	[ "$status" -eq 1 ] || fail "$output"
	[[ $output == *"$1"* ]] || fail "$output"
	[ ! -e "$DROPINS" ]
}

# known_groups LINE...: systemd-analyze says this of groups of system
# calls.
known_groups() {
	mkdir -p "$BATS_TEST_TMPDIR/bin"
	printf '%s\n' "$@" >"$BATS_TEST_TMPDIR/groups"
	printf '#!/bin/sh\n[ "$*" != syscall-filter ] || cat %s\n' \
		"$BATS_TEST_TMPDIR/groups" >"$BATS_TEST_TMPDIR/bin/systemd-analyze"
	chmod +x "$BATS_TEST_TMPDIR/bin/systemd-analyze"
	PATH=$BATS_TEST_TMPDIR/bin:$PATH
}

# said TEXT UNIT: it is enabled, and that is said.
said() {
	run enable "$2"
	[ "$status" -eq 0 ] || fail "$output"
	[[ $output == *"$1"* ]] || fail "$output"
}

# preload UNIT: what its drop-in sets.
preload() {
	sed -n 's/^Environment="LD_PRELOAD=\(.*\)"$/\1/p' \
		"$DROPINS/$1.d/50-libsdp.conf"
}

@test "units: enabled and disabled again, and nothing is left" {
	unit plain.service 'ExecStart=/usr/bin/daemon --fast'
	run enable plain
	[ "$status" -eq 0 ]
	[[ $(preload plain.service) == */libsdp.so ]]
	[ -r "$(preload plain.service)" ]
	run enable plain.service
	[ "$status" -eq 0 ]
	[ "$(find "$DROPINS" -type f | wc -l)" -eq 1 ]
	run sdprun --root "$ROOT" --disable plain
	[ "$status" -eq 0 ]
	[ -z "$(find "$DROPINS" -name 'plain*')" ]
	run sdprun --root "$ROOT" --disable plain
	[ "$status" -eq 1 ]
	[[ $output == *"is not enabled"* ]]
}

@test "units: a preload that is there is kept, with either separator" {
	unit a.service 'Environment="X=y z" LD_PRELOAD=/lib/one.so:/lib/two.so' \
		"ExecStart=-@/usr/bin/daemon daemon \\" '  --more'
	enable a
	[[ $(preload a.service) == */libsdp.so:/lib/one.so:/lib/two.so ]]
	unit b.service 'Environment="LD_PRELOAD=/lib/one.so /lib/two.so"' \
		'ExecStart=/usr/bin/daemon'
	enable b
	[[ $(preload b.service) == */libsdp.so:"/lib/one.so /lib/two.so" ]]
	# an administrator's drop-in counts, the last one most
	mkdir -p "$DROPINS/c.service.d"
	unit c.service 'Environment=LD_PRELOAD=/lib/one.so' \
		'ExecStart=/usr/bin/daemon'
	printf '[Service]\nEnvironment=LD_PRELOAD=/lib/three.so\n' \
		>"$DROPINS/c.service.d/10-own.conf"
	enable c
	[[ $(preload c.service) == */libsdp.so:/lib/three.so ]]
	sdprun --root "$ROOT" --disable c
	[ "$(ls "$DROPINS/c.service.d")" = 10-own.conf ]
	# one that has the library already
	unit d.service "Environment=LD_PRELOAD=$(preload a.service)" \
		'ExecStart=/usr/bin/daemon'
	enable d
	[ "$(preload d.service)" = "$(preload a.service)" ]
}

@test "units: what is kept means the same; comments do not continue" {
	unit p.service 'Environment=LD_PRELOAD=/lib/%p-100%%.so' \
		'ExecStart=/usr/bin/daemon'
	enable p
	[[ $(preload p.service) == */libsdp.so:/lib/%p-100%%.so ]]
	unit q.service "# not this \\" 'Environment=LD_PRELOAD=/lib/one.so' \
		"ExecStart=/usr/bin/daemon \\" "# nor this \\" '--more'
	enable q
	[[ $(preload q.service) == */libsdp.so:/lib/one.so ]]
}

@test "units: families of several lines" {
	unit f.service 'RestrictAddressFamilies=AF_UNIX' \
		'RestrictAddressFamilies=AF_INET' 'ExecStart=/usr/bin/daemon'
	enable f
	unit g.service 'RestrictAddressFamilies=~AF_UNIX' \
		'RestrictAddressFamilies=' 'ExecStart=/usr/bin/daemon'
	enable g
	rm -r "$DROPINS"
	unit h.service 'RestrictAddressFamilies=AF_UNIX AF_INET' \
		'RestrictAddressFamilies=~AF_UNIX' 'ExecStart=/usr/bin/daemon'
	refused "AF_UNIX" h
	unit i.service 'RestrictAddressFamilies=none' 'ExecStart=/usr/bin/daemon'
	refused "AF_UNIX" i
}

@test "units: a drop-in that would undo ours is named" {
	local line
	unit o.service 'ExecStart=/usr/bin/daemon'
	mkdir -p "$DROPINS/o.service.d"
	for line in Environment=LD_PRELOAD=/lib/x.so Environment= \
		UnsetEnvironment=LD_PRELOAD; do
		printf '[Service]\n%s\n' "$line" \
			>"$DROPINS/o.service.d/override.conf"
		run enable o
		[ "$status" -eq 1 ] || fail "$line: $output"
		[[ $output == *"${line%%=*}="* ]] || fail "$output"
		[ "$(ls "$DROPINS/o.service.d")" = override.conf ]
	done
	printf '[Service]\nEnvironment=X=y\n' >"$DROPINS/o.service.d/override.conf"
	enable o
}

@test "units: links of an image stay within it" {
	mkdir -p "$ROOT/etc/alternatives" "$DROPINS"
	ln -s /etc/alternatives/daemon "$ROOT/usr/bin/linked"
	ln -s /usr/bin/daemon "$ROOT/etc/alternatives/daemon"
	unit real.service 'ExecStart=/usr/bin/linked'
	ln -s /usr/lib/systemd/system/real.service "$DROPINS/alias.service"
	run enable real
	[ "$status" -eq 0 ] || fail "$output"
	run enable alias
	[ "$status" -eq 0 ] || fail "$output"
	# only the running system has this one
	ln -sf "$(command -v sdprun)" "$ROOT/etc/alternatives/daemon"
	run enable real
	[ "$status" -eq 1 ] || fail "$output"
}

@test "units: what is written and removed stays within the image" {
	unit real.service 'ExecStart=/usr/bin/daemon --fast'
	local out=$BATS_TEST_TMPDIR/out
	mkdir -p "$DROPINS" "$ROOT/opt/units" "$out"
	# one that leads out of it, and one that is right within it
	ln -s "$out" "$DROPINS/real.service.d"
	run enable real
	[ "$status" -eq 2 ] || fail "$output"
	[ -z "$(ls -A "$out")" ]
	rm "$DROPINS/real.service.d"
	ln -s /opt/units "$DROPINS/real.service.d"
	run enable real
	[ "$status" -eq 0 ] || fail "$output"
	[ -f "$ROOT/opt/units/50-libsdp.conf" ]
	run sdprun --root "$ROOT" --disable real
	[ "$status" -eq 0 ] || fail "$output"
	[ -z "$(ls -A "$ROOT/opt/units")" ]
	mkfifo "$ROOT/opt/units/50-libsdp.conf"
	run enable real
	[ "$status" -eq 2 ] || fail "$output"
}

@test "units: drop-ins of all services, and of those with a prefix" {
	unit a-b-c.service 'ExecStart=/usr/bin/daemon'
	mkdir -p "$DROPINS/a-.service.d" "$DROPINS/service.d"
	printf '[Service]\nEnvironment=LD_PRELOAD=/one.so\n' \
		>"$DROPINS/a-.service.d/10.conf"
	enable a-b-c
	[[ $(preload a-b-c.service) == *"/one.so"* ]]
	printf '[Service]\nEnvironment=LD_PRELOAD=/two.so\n' \
		>"$DROPINS/service.d/60.conf"
	run enable a-b-c
	[ "$status" -eq 1 ] || fail "$output"
	[[ $output == *"/service.d/60.conf"* ]] || fail "$output"
}

@test "units: rules, templates, and names with odd characters" {
	unit t@.service 'ExecStart=/usr/bin/daemon %i'
	printf 'use tcp client * *:*\n' >"$BATS_TEST_TMPDIR/50% of \"it\""
	run enable t@one --rules "$BATS_TEST_TMPDIR/50% of \"it\""
	[ "$status" -eq 0 ] || fail "$output"
	grep -qF '50%% of \"it\""' "$DROPINS/t@one.service.d/50-libsdp.conf"
	run enable t@one --rules "$BATS_TEST_TMPDIR/none"
	[ "$status" -eq 1 ]
	run enable t@one --rules "$BATS_TEST_TMPDIR"
	[ "$status" -eq 1 ]
	[[ $output == *"not a file"* ]] || fail "$output"
	grep -q LIBSDP_CONFIG_FILE "$DROPINS/t@one.service.d/50-libsdp.conf"
}

@test "units: what cannot work is refused, with the reason" {
	refused "no such unit" none
	refused "not the name of a unit" ../plain
	refused "not the name of a unit" 'a b'
	unit bare.service 'Type=oneshot'
	refused "no ExecStart=" bare
	unit off.service 'ExecStart=/usr/bin/daemon' \
		'Environment=A=b LIBSDP_DISABLE=1'
	refused "LIBSDP_DISABLE" off
	unit tcp.service 'ExecStart=/usr/bin/daemon' 'Environment=LIBSDP_USE=tcp'
	refused "LIBSDP_USE=tcp" tcp
	unit jail.service 'ExecStart=/usr/bin/daemon' RootDirectory=/srv/jail
	refused "a root of its own" jail
	unit gone.service 'ExecStart=/usr/bin/gone'
	refused "cannot be read" gone
	cp /sbin/ldconfig "$ROOT/usr/bin/static"
	unit static.service 'ExecStart=/usr/bin/static'
	refused "a static program" static
	cp /bin/true "$ROOT/usr/bin/raised"
	chmod 4755 "$ROOT/usr/bin/raised"
	unit raised.service 'ExecStart=/usr/bin/raised'
	refused "raises privileges" raised
	unit family.service 'RestrictAddressFamilies=AF_INET AF_INET6' \
		'ExecStart=/usr/bin/daemon'
	refused "AF_UNIX" family
	echo LD_PRELOAD=/lib/x.so >"$ROOT/etc/env"
	unit file.service 'EnvironmentFile=-/etc/env' 'ExecStart=/usr/bin/daemon'
	refused "EnvironmentFile=" file
}

@test "units: masked, and what only looks as if it could not work" {
	unit on.service 'ExecStart=/usr/bin/daemon' \
		'Environment=LIBSDP_DISABLE=0' RootDirectory=/
	enable on
	ln -s /dev/null "$DROPINS/on.service"
	run enable on
	[ "$status" -eq 1 ] || fail "$output"
	[[ $output == *"it is masked"* ]] || fail "$output"
}

@test "units: what limits is said" {
	unit limits.service 'SystemCallFilter=@system-service' \
		'PrivateNetwork=yes' 'RestrictAddressFamilies=~AF_PACKET' \
		'MemoryDenyWriteExecute=yes' 'ExecStart=/usr/bin/daemon'
	run enable limits
	[ "$status" -eq 0 ]
	[[ $output == *"SystemCallFilter="*"PrivateNetwork="* ]]
	[[ $output != *AF_NETLINK* ]]
}

@test "units: a filter of system calls is judged" {
	known_groups '@default' '    # of each' '    futex' '' '@some' '    splice' \
		'    mincore'
	unit deny.service 'SystemCallFilter=~@some' 'ExecStart=/usr/bin/daemon'
	said "kills for calls that lifting needs" deny
	[[ $output == *"
  SystemCallFilter=splice mincore
  Environment=LIBSDP_SECCOMP=trust"* ]]
	# as it says, it is heeded
	mkdir -p "$DROPINS/deny.service.d"
	printf '[Service]\nSystemCallFilter=splice mincore\nEnvironment=%s\n' \
		LIBSDP_SECCOMP=trust >"$DROPINS/deny.service.d/override.conf"
	run enable deny
	[ "$status" -eq 0 ]
	[[ $output != *note:* ]] || fail "$output"
	# what can be done without may be refused
	unit errno.service 'SystemCallFilter=~@some' \
		'SystemCallErrorNumber=EPERM' 'ExecStart=/usr/bin/daemon'
	said "refuses calls that lifting needs" errno
	[[ $output == *"SystemCallFilter=splice
"* ]]
	unit spare.service 'SystemCallFilter=~mincore:EPERM' \
		'ExecStart=/usr/bin/daemon'
	said "allows what lifting needs" spare
	unit other.service 'RestrictRealtime=yes' 'LockPersonality=yes' \
		'LockPersonality=no' \
		'ExecStart=/usr/bin/daemon'
	said "RestrictRealtime= makes a filter" other
	unit none.service 'RestrictRealtime=yes' 'RestrictRealtime=no' \
		'ExecStart=/usr/bin/daemon'
	run enable none
	[[ $output != *note:* ]] || fail "$output"
	unit secret.service 'SystemCallFilter=~@secret' \
		'ExecStart=/usr/bin/daemon'
	said "could not be judged, since systemd-analyze does not say" secret
	rm -r "$DROPINS"
	unit trust.service 'SystemCallFilter=~@some' \
		'Environment=LIBSDP_SECCOMP=trust' 'ExecStart=/usr/bin/daemon'
	refused "LIBSDP_SECCOMP=trust is set" trust
}

@test "units: without AF_NETLINK peers are not verified" {
	unit n.service 'RestrictAddressFamilies=AF_UNIX AF_INET' \
		'ExecStart=/usr/bin/daemon'
	said "RestrictAddressFamilies=AF_NETLINK" n
	unit o.service 'RestrictAddressFamilies=~AF_NETLINK' \
		'ExecStart=/usr/bin/daemon'
	said "RestrictAddressFamilies=AF_NETLINK" o
	unit p.service 'RestrictAddressFamilies=AF_UNIX AF_INET AF_NETLINK' \
		'Environment=LIBSDP_SECCOMP=trust' 'ExecStart=/usr/bin/daemon'
	run enable p
	[[ $output != *note:* ]] || fail "$output"
}

@test "units: files of the environment, by pattern and specifier" {
	mkdir -p "$ROOT/etc/env.d"
	echo X=y >"$ROOT/etc/env.d/10-x"
	unit a.service 'EnvironmentFile=/etc/env.d/*' 'EnvironmentFile=-/none' \
		'ExecStart=/usr/bin/daemon'
	run enable a
	[ "$status" -eq 0 ] || fail "$output"
	[[ $output != *note:* ]] || fail "$output"
	rm -r "$DROPINS"
	echo ' LD_PRELOAD=/lib/x.so' >"$ROOT/etc/env.d/20-y"
	refused "etc/env.d/20-y: a file of EnvironmentFile=" a
	unit b@.service 'EnvironmentFile=-/etc/env.d/20-%i' \
		'ExecStart=/usr/bin/daemon'
	refused "20-y: a file" b@y
	run enable b@z
	[ "$status" -eq 0 ] || fail "$output"
	unit c.service 'EnvironmentFile=%E/c' 'ExecStart=/usr/bin/daemon'
	said "EnvironmentFile=%E/c: could not be read" c
	# what is a pattern in the name of the folder is none
	local odd=$ROOT/[odd
	mkdir -p "$odd/usr/lib/systemd/system" "$odd/usr/bin"
	cp /bin/true "$odd/usr/bin/daemon"
	echo LD_PRELOAD=/lib/x.so >"$odd/x"
	printf '[Service]\nEnvironmentFile=/*\nExecStart=/usr/bin/daemon\n' \
		>"$odd/usr/lib/systemd/system/d.service"
	run sdprun --root "$odd" --enable d
	[ "$status" -eq 1 ]
	[[ $output == *"/x: a file"* ]] || fail "$output"
}

@test "units: a program that a specifier names" {
	cp "$ROOT/usr/bin/daemon" "$ROOT/usr/bin/a-one"
	cp /sbin/ldconfig "$ROOT/usr/bin/a-two"
	unit a@.service 'ExecStart=/usr/bin/%p-%i --name=%n'
	refused "a-two: a static program" a@two
	run enable a@one
	[ "$status" -eq 0 ] || fail "$output"
	[[ $output != *note:* ]] || fail "$output"
	said "ExecStart=/usr/bin/%p-%i: only systemd knows which program" a@
	cp /sbin/ldconfig "$ROOT/usr/bin/b.service"
	unit b.service 'ExecStart=/usr/bin/%n'
	cp /sbin/ldconfig "$ROOT/usr/bin/c%"
	unit c.service 'ExecStart=/usr/bin/%N%%'
	unit e.service 'ExecStart=%h/bin/daemon'
	rm -r "$DROPINS"
	refused "b.service: a static program" b
	refused "c%: a static program" c
	said "ExecStart=%h/bin/daemon: only systemd" e
}

@test "units: another's file stays, a failure leaves nothing half done" {
	unit plain.service 'ExecStart=/usr/bin/daemon'
	mkdir -p "$DROPINS/plain.service.d"
	echo '# mine' >"$DROPINS/plain.service.d/50-libsdp.conf"
	run enable plain
	[ "$status" -eq 2 ]
	run sdprun --root "$ROOT" --disable plain
	[ "$status" -eq 2 ]
	[ "$(cat "$DROPINS/plain.service.d/50-libsdp.conf")" = '# mine' ]
	rm -r "$ROOT/etc/systemd"
	echo "in the way" >"$ROOT/etc/systemd"
	run enable plain
	[ "$status" -eq 2 ]
	[[ $output == *"Not a directory"* ]]
}

@test "units: Debian's own" {
	local name seen=0
	for name in redis-server nginx memcached haproxy; do
		[ -f "/usr/lib/systemd/system/$name.service" ] ||
			[ -f "/lib/systemd/system/$name.service" ] || continue
		cp "/lib/systemd/system/$name.service" "$UNITS"
		mkdir -p "$ROOT/usr/sbin" "$ROOT/usr/share/memcached/scripts"
		cp "$(command -v $name)" "$ROOT/usr/bin"
		cp "$(command -v $name)" "$ROOT/usr/sbin"
		cp /usr/share/memcached/scripts/* \
			"$ROOT/usr/share/memcached/scripts" 2>/dev/null || :
		cp /usr/bin/perl "$ROOT/usr/bin" 2>/dev/null || :
		run enable "$name"
		[ "$status" -eq 0 ] || fail "$name: $output"
		[[ $(preload "$name.service") == */libsdp.so ]]
		seen=$((seen + 1))
	done
	[ "$seen" -gt 0 ]
}

@test "check: what kind of program it is" {
	run sdprun --check /bin/true
	[ "$status" -eq 0 ]
	[[ $output == *"dynamic, with glibc"*"can be lifted."* ]]
	run sdprun --check /sbin/ldconfig
	[ "$status" -eq 1 ]
	[[ $output == *"a static program"*"-> "*"stay on TCP."* ]]
	run sdprun --check "$ROOT/none"
	[ "$status" -eq 1 ]
	printf '#!/usr/bin/env -S X=y bash -u\n' >"$ROOT/script"
	chmod +x "$ROOT/script"
	run sdprun --check "$ROOT/script"
	[ "$status" -eq 0 ]
	[[ $output == *"script: a script of "*"/bash: dynamic"* ]]
	echo nothing >"$ROOT/usr/bin/text"
	chmod +x "$ROOT/usr/bin/text"
	run sdprun --check "$ROOT/usr/bin/text"
	[ "$status" -eq 1 ]
	chmod 4755 "$ROOT/usr/bin/daemon"
	run sdprun --check "$ROOT/usr/bin/daemon"
	[ "$status" -eq 1 ]
	[[ $output == *"runs with more than its caller's"* ]]
	LIBSDP_DISABLE=1 run sdprun --check /bin/true
	[ "$status" -eq 1 ]
	LIBSDP_DISABLE=0 run sdprun --check /bin/true
	[ "$status" -eq 0 ] || fail "$output"
	printf 'use sdp\n' >"$ROOT/rules"
	run sdprun --rules "$ROOT/rules" --check /bin/true
	[ "$status" -eq 0 ]
	[[ $output == *"1 bad lines"* ]]
}

@test "check: rules that leave a program nothing" {
	local rules=$BATS_TEST_TMPDIR/rules
	printf 'use tcp %s true *:*\n' server client >"$rules"
	run sdprun --rules "$rules" --check /bin/true
	[ "$status" -eq 1 ] || fail "$output"
	[[ $output == *"2 of 2 rules"*"keep all of it on TCP"*"-> "* ]]
	run sdprun --rules "$rules" --check /bin/false
	[ "$status" -eq 0 ] || fail "$output"
	[[ $output == *"0 of 2 rules"* ]]
	printf 'use tcp server true *:*\nuse tcp client true *:22\n' >"$rules"
	run sdprun --rules "$rules" --check /bin/true
	[ "$status" -eq 0 ] || fail "$output"
	[[ $output == *"limit"*"keep what it accepts on TCP"* ]]
	# what goes before them
	printf 'use tcp %s * *:*\n' server client >"$rules"
	LIBSDP_USE=both run sdprun --rules "$rules" --check /bin/true
	[ "$status" -eq 0 ] || fail "$output"
	run sdprun --both --check /bin/true
	[ "$status" -eq 0 ] || fail "$output"
	run sdprun --tcp --check /bin/true
	[ "$status" -eq 1 ] || fail "$output"
	run sdprun --rules "$rules.none" --check /bin/true
	[ "$status" -eq 2 ] || fail "$output"
	# a script is known by its interpreter
	printf '#!/bin/bash\n' >"$BATS_TEST_TMPDIR/script"
	chmod +x "$BATS_TEST_TMPDIR/script"
	printf 'use tcp %s bash *:*\n' server client >"$rules"
	run sdprun --rules "$rules" --check "$BATS_TEST_TMPDIR/script"
	[ "$status" -eq 1 ] || fail "$output"
	LIBSDP_USE=tcp run sdprun --check /bin/true
	[ "$status" -eq 1 ] || fail "$output"
}

@test "check: JSON" {
	sdprun --check --json /bin/true | "$PY" -c '
import json, sys
d = json.load(sys.stdin)
assert d["liftable"] is True
f = {x["check"]: x for x in d["findings"]}
assert f["program"]["result"] == "ok" and f["program"]["remedy"] is None
assert all(x["result"] == "ok" or x["remedy"] for x in d["findings"])
'
	run sdprun --json true
	[ "$status" -eq 64 ]
	run sdprun --enable a --disable b
	[ "$status" -eq 64 ]
	run sdprun --check
	[ "$status" -eq 64 ]
}

@test "check: /dev/shm is full, or not there" {
	need unshare
	unshare -rm true 2>/dev/null || lack "no namespaces for mounting"
	# shellcheck disable=SC2016 # it is for the shell within
	unshare -rm sh -c 'mount -t tmpfs -o size=64k none /dev/shm &&
		head -c 32768 /dev/zero >/dev/shm/fill &&
		exec sdprun --check /bin/true' >"$BATS_TEST_TMPDIR/full"
	grep -A 1 '^/dev/shm *limit *is full' "$BATS_TEST_TMPDIR/full" |
		grep -e '-> remove files'
	unshare -rm sh -c 'mount -t tmpfs none /dev && exec sdprun --check /bin/true' \
		>"$BATS_TEST_TMPDIR/none"
	grep -A 1 '^/dev/shm *limit *is not there' "$BATS_TEST_TMPDIR/none" |
		grep -e '-> mount a tmpfs'
}

@test "check: a machine with many RDMA devices" {
	local out=$BATS_TEST_TMPDIR/many
	need unshare
	unshare -rm true 2>/dev/null || lack "no namespaces for mounting"
	# shellcheck disable=SC2016 # it is for the shell within
	unshare -rm bash -c 'mount -t tmpfs none /sys/class &&
		mkdir -p /sys/class/infiniband/mlx5_{0..63}/device &&
		exec sdprun --check /bin/true' >"$out"
	[ "$(grep -c '^RDMA .*mlx5_' "$out")" -eq 64 ]
	grep -q 'can be lifted' "$out"
}
