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

@test "units: rules, templates, and names with odd characters" {
	unit t@.service 'ExecStart=/usr/bin/daemon %i'
	printf 'use tcp client * *:*\n' >"$BATS_TEST_TMPDIR/50% of \"it\""
	run enable t@one --rules "$BATS_TEST_TMPDIR/50% of \"it\""
	[ "$status" -eq 0 ] || fail "$output"
	grep -qF '50%% of \"it\""' "$DROPINS/t@one.service.d/50-libsdp.conf"
	run enable t@one --rules "$BATS_TEST_TMPDIR/none"
	[ "$status" -eq 1 ]
	grep -q LIBSDP_CONFIG_FILE "$DROPINS/t@one.service.d/50-libsdp.conf"
}

@test "units: what cannot work is refused, with the reason" {
	refused "no such unit" none
	refused "not the name of a unit" ../plain
	refused "not the name of a unit" 'a b'
	unit bare.service 'Type=oneshot'
	refused "no ExecStart=" bare
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

@test "units: what limits is said" {
	unit limits.service 'SystemCallFilter=@system-service' \
		'PrivateNetwork=yes' 'RestrictAddressFamilies=~AF_PACKET' \
		'MemoryDenyWriteExecute=yes' 'ExecStart=/usr/bin/daemon'
	run enable limits
	[ "$status" -eq 0 ]
	[[ $output == *"SystemCallFilter="*"PrivateNetwork="* ]]
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
