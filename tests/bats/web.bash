# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# nginx on a free port with files to fetch; used by nginx.bats, haproxy.bats.

# www: $TMP/www with a page, two big files and forty small ones. Of the larger
# one most must travel by SDP: no more than the kernel holds goes before.
www() {
	mkdir -p "$TMP/www"
	random_file "$TMP/www/big" 8000000
	random_file "$TMP/www/huge" 40000000
	random_file "$TMP/www/page" 1024
	random_file "$TMP/www/all" 801140
	local i
	for i in {1..40}; do
		head -c $((i * 977)) >"$TMP/www/f$i"
	done <"$TMP/www/all"
	rm "$TMP/www/all"
}

# start_nginx on|off: two workers, sendfile on or off; sets $PORT.
start_nginx() {
	PORT=$(free_port)
	cat >"$TMP/nginx.conf" <<END
worker_processes 2;
pid $TMP/nginx.pid;
error_log $TMP/error.log info;
events { worker_connections 256; }
http {
	access_log off;
	sendfile $1;
	tcp_nopush $1;
	keepalive_requests 100000;
	client_body_temp_path $TMP/body;
	proxy_temp_path $TMP/proxy;
	fastcgi_temp_path $TMP/fastcgi;
	uwsgi_temp_path $TMP/uwsgi;
	scgi_temp_path $TMP/scgi;
	server {
		listen $HOST:$PORT reuseport;
		root $TMP/www;
	}
}
END
	[ "$(id -u)" -ne 0 ] || sed -i '1i user root;' "$TMP/nginx.conf"
	server nginx nginx -p "$TMP" -c "$TMP/nginx.conf" -g 'daemon off;'
	wait_port "$PORT"
	until_true 5 test -s "$TMP/nginx.pid"
}

# Ends it gracefully; no worker may have died of a signal.
stop_nginx() {
	stop nginx QUIT 20
	if grep -E 'exited on signal|\[(alert|emerg|crit)\]' \
		"$TMP/error.log"; then
		return 1
	fi
}

# fetch URL-PREFIX: forty files on one kept connection, then the big ones.
fetch() {
	rm -rf "$TMP/got"
	mkdir "$TMP/got"
	client curl -sS --fail "$1/f[1-40]" -o "$TMP/got/f#1" \
		-w '%{num_connects}\n' >"$TMP/connects"
	[ "$(awk '{ n += $1 } END { print n }' "$TMP/connects")" -eq 1 ]
	diff -r -x big -x huge -x page "$TMP/www" "$TMP/got"
	local i
	for i in big huge; do
		client curl -sS --fail "$1/$i" -o "$TMP/got/$i"
		same "$TMP/www/$i" "$TMP/got/$i"
	done
}

# wrk_some REQUESTS CONNECTIONS URL: so many at least, in a second where the
# machine is idle, and in as many as it takes where it is not.
wrk_some() {
	local seconds=1 done=0
	while :; do
		client wrk -t 1 -c "$2" -d "${seconds}s" --timeout 100s "$3" \
			>"$TMP/wrk"
		refuse grep -E 'Non-2xx|Socket errors' "$TMP/wrk"
		done=$(awk '/requests in/ { print $1 }' "$TMP/wrk")
		[ "$done" -lt "$1" ] || break
		seconds=$((seconds * 4))
		[ "$seconds" -lt 100 ] || fail "$done requests in all"
	done
}
