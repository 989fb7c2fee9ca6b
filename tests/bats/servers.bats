#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Servers with processes of many kinds: PostgreSQL (accepts and forks), sshd
# (filters system calls, executes itself), Apache (preforks; threads), Open MPI.

load helpers

# Some servers give up the rights to see what only root may see: library,
# rules and statistics lie in a directory of their own.
setup() {
	PUB=$(mktemp -d /tmp/libsdp-servers.XXXXXX)
	chmod 755 "$PUB"
	STATS=$PUB/stats
	if [ -f "$LIBSDP" ]; then
		cp "$LIBSDP" "$PUB/libsdp.so"
		LIBSDP=$PUB/libsdp.so
	fi
	AS=()
}

teardown() {
	stop_all
	rm -rf "$PUB"
}

public_mode() {
	mode "$1"
	[ "$MODE" != plain ] || return 0
	cp "$BATS_TEST_DIRNAME/rules/both.conf" "$PUB/"
	chmod 755 "$PUB"/*
	with "LIBSDP_CONFIG_FILE=$PUB/both.conf"
	: >"$STATS"
	chmod 666 "$STATS"
}

# --- PostgreSQL ----------------------------------------------------------

start_postgres() {
	local bin=$1
	if [ "$(id -u)" -eq 0 ]; then
		id postgres >/dev/null || lack "no user postgres"
		AS=(setpriv --reuid postgres --regid postgres --clear-groups)
		install -d -o postgres "$PUB/data"
	fi
	PORT=$(free_port)
	"${AS[@]}" "$bin/initdb" -D "$PUB/data" -A trust -U postgres -N >/dev/null
	server postgres "${AS[@]}" "$bin/postgres" -D "$PUB/data" -F -p "$PORT" \
		-h 127.0.0.1 -k ''
	wait_port "$PORT"
	export PGHOST=127.0.0.1 PGPORT=$PORT PGUSER=postgres \
		PGDATABASE=postgres PGSSLMODE=disable
	until_true 10 "$bin/psql" -c 'select 1'
}

postgres_scenario() {
	local bin
	bin=$(echo /usr/lib/postgresql/*/bin)
	need "${bin##* }/postgres" "${bin##* }/pgbench" psql setpriv
	bin=${bin##* }
	public_mode "$1"
	start_postgres "$bin"
	client "$bin/pgbench" -i -q
	client "$bin/pgbench" -n -S -c 1 -t 1000 >"$TMP/one"
	client "$bin/pgbench" -n -c 8 -j 2 -t 50 >"$TMP/eight"
	client "$bin/pgbench" -n -S -C -c 4 -t 10 >"$TMP/connects"
	grep -q 'actually processed: 1000/1000' "$TMP/one"
	grep -q 'actually processed: 400/400' "$TMP/eight"
	grep -q 'actually processed: 40/40' "$TMP/connects"
	seq 1 200000 | sed 's/$/\tsome text that is copied/' >"$TMP/in"
	client psql -q -c 'create table t(a int, b text)' \
		-c "\\copy t from '$TMP/in'" \
		-c "\\copy (select * from t order by a) to '$TMP/out'"
	same "$TMP/in" "$TMP/out"
	stop postgres INT
	silent postgres
	proof 100000 pgbench postgres
}

@test "postgres: plain" {
	postgres_scenario plain
}

@test "postgres: lifted" {
	postgres_scenario lifted
}

@test "postgres: lifted from the first message" {
	postgres_scenario now
	# the server forks in the midst of pairing; of some 3800 messages on the
	# connections that last, nearly all go over SDP
	[ "$MODE" = plain ] || [ "$(stat_sum pgbench msgs_tx)" -ge 2000 ]
}

@test "postgres: only the server preloaded" {
	postgres_scenario half
}

# --- OpenSSH -------------------------------------------------------------

start_sshd() {
	[ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd
	PORT=$(free_port)
	ssh-keygen -q -t ed25519 -N '' -f "$TMP/host"
	ssh-keygen -q -t ed25519 -N '' -f "$TMP/user"
	server sshd "$(command -v sshd)" "$@" -D -e -f /dev/null -p "$PORT" \
		-h "$TMP/host" -o ListenAddress=127.0.0.1 -o PidFile=none \
		-o "AuthorizedKeysFile=$TMP/user.pub" -o StrictModes=no \
		-o UsePAM=no -o PermitRootLogin=yes \
		-o Subsystem='sftp internal-sftp'
	wait_port "$PORT"
	SSH=(-F none -i "$TMP/user" -o StrictHostKeyChecking=no
		-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR
		-o BatchMode=yes)
}

ssh_scenario() {
	local rc=0
	need sshd ssh sftp rsync openssl
	mode "$1"
	shift
	start_sshd "$@"
	random_file "$TMP/big" 3000000
	client ssh "${SSH[@]}" -p "$PORT" 127.0.0.1 cat <"$TMP/big" >"$TMP/back"
	same "$TMP/big" "$TMP/back"
	client ssh "${SSH[@]}" -p "$PORT" 127.0.0.1 exit 7 || rc=$?
	[ "$rc" -eq 7 ]
	echo "put $TMP/big $TMP/big.sftp" |
		client sftp -q -b - "${SSH[@]}" -P "$PORT" 127.0.0.1 >"$TMP/sftp"
	same "$TMP/big" "$TMP/big.sftp"
	mkdir "$TMP/tree"
	for i in {1..40}; do
		random_file "$TMP/tree/$i" $((i * 997))
	done
	client rsync -a -e "ssh ${SSH[*]} -p $PORT" "$TMP/tree/" \
		"127.0.0.1:$TMP/there/"
	client rsync -acz -e "ssh ${SSH[*]} -p $PORT" "127.0.0.1:$TMP/there/" \
		"$TMP/again/"
	diff -r "$TMP/tree" "$TMP/again"
	stop sshd
	silent sshd
}

@test "ssh: plain" {
	ssh_scenario plain
}

@test "ssh: lifted" {
	ssh_scenario lifted
}

@test "ssh: lifted from the first message" {
	ssh_scenario now
}

@test "ssh: a server that filters system calls and does not execute itself" {
	ssh_scenario now -r
}

# --- Apache --------------------------------------------------------------

start_apache() {
	local dir=/usr/lib/apache2/modules
	PORT=$(free_port)
	mkdir -p "$PUB/www" "$PUB/run"
	random_file "$PUB/www/big" 5000000
	random_file "$PUB/www/page" 2000
	cat >"$PUB/apache.conf" <<END
ServerRoot $PUB
ServerName localhost
PidFile $PUB/run/pid
DefaultRuntimeDir $PUB/run
Mutex file:$PUB/run
ErrorLog $PUB/run/log
Listen 127.0.0.1:$PORT
LoadModule mpm_$1_module $dir/mod_mpm_$1.so
LoadModule authz_core_module $dir/mod_authz_core.so
MaxKeepAliveRequests 0
DocumentRoot $PUB/www
END
	# a reload is told to the whole process group
	server apache setsid apache2 -DFOREGROUND -f "$PUB/apache.conf"
	wait_port "$PORT"
	until_true 5 test -s "$PUB/run/pid"
}

# resumed N: it has begun to serve that often.
resumed() {
	[ "$(grep -c 'resuming normal operations' "$PUB/run/log")" -ge "$1" ]
}

ab_run() {
	client ab -q -k "$@" >"$TMP/ab" 2>"$TMP/ab.err"
	grep -q '^Failed requests: *0$' "$TMP/ab"
	refuse grep -q '^Non-2xx' "$TMP/ab"
}

apache_scenario() {
	local url
	need apache2 ab curl openssl
	public_mode "$1"
	start_apache "$2"
	url=http://127.0.0.1:$PORT
	client curl -sS "$url/big" >"$TMP/big"
	same "$PUB/www/big" "$TMP/big"
	ab_run -n 500 -c 1 "$url/page"
	ab_run -n 1000 -c 10 "$url/page"
	ab_run -n 8 -c 2 "$url/big"
	kill -USR1 "$(cat "$PUB/run/pid")"
	until_true 10 resumed 2
	ab_run -n 500 -c 5 "$url/page"
	kill "$(cat "$PUB/run/pid")"
	wait_end apache 15 || :
	refuse grep -E 'exit signal|Segmentation' "$PUB/run/log"
	silent apache
	proof 100000 ab
}

@test "apache: plain" {
	apache_scenario plain event
}

@test "apache: worker threads, lifted" {
	apache_scenario lifted event
}

@test "apache: worker threads, lifted from the first message" {
	apache_scenario now event
}

@test "apache: preforked, lifted" {
	apache_scenario lifted prefork
}

# --- Open MPI ------------------------------------------------------------

mpi_scenario() {
	need mpicc mpirun
	mpirun --version | grep -q 'Open MPI' || lack "mpirun is not Open MPI's"
	mode "$1"
	mpicc -O2 -o "$TMP/mpi" "$BATS_TEST_DIRNAME/c/mpi.c"
	client mpirun --allow-run-as-root --oversubscribe -n 3 \
		--mca btl tcp,self --mca btl_tcp_if_include lo \
		--mca pml ob1 "$TMP/mpi" >"$TMP/out" 2>"$TMP/err"
	grep -qx ok "$TMP/out"
	proof 1000000 mpi
}

@test "openmpi: plain" {
	mpi_scenario plain
}

@test "openmpi: lifted" {
	mpi_scenario lifted
}

@test "openmpi: lifted from the first message" {
	mpi_scenario now
}
