#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# sdpconf lint and convert.
# shellcheck disable=SC2154 # `run` sets stderr

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
}

# lints TEXT...: of standard input, one each, and no more.
lints() {
	cat >rules
	run sdpconf lint rules
	[ "${#lines[@]}" -eq $# ] || {
		echo "$output"
		return 1
	}
	local i=0 text
	for text; do
		[[ ${lines[i]} == rules:*"$text"* ]] || {
			echo "no $text in ${lines[i]}"
			return 1
		}
		i=$((i + 1))
	done
	[ "$status" -eq 1 ]
}

# converts NAME STATUS: that file; the result is sound, and stays in $output.
converts() {
	run --separate-stderr sdpconf convert "$1"
	[ "$status" -eq "$2" ] || {
		echo "$status: $output $stderr"
		return 1
	}
	printf '%s\n' "$output" >converted
	sdpconf check converted
}

@test "lint: nothing to be said" {
	printf '%s\n' 'use tcp client * *:22' 'use sdp server redis *:6379' \
		'use both client redis *:*' 'use tcp client * *:*' \
		'use tcp server * *:*' >rules
	run sdpconf lint rules
	[ "$status" -eq 0 ]
	[[ $output == *"nothing found in 5 rules" ]]
}

@test "lint: rules that never hold" {
	lints "line 1 goes before it" <<-END
		use tcp client * *:*
		use sdp client redis 192.0.2.1:6379
	END
	lints "line 1 goes before it, and says the same" <<-END
		use tcp client * 192.0.2.0/24:1-1000
		use tcp client * 192.0.2.128/25:80
	END
	lints "line 1 goes before it" "line 3 goes before it" <<-END
		use tcp server re* *:*
		use sdp server redis *:6379
		use tcp client * [2001:db8::]/32:*
		use sdp client * [2001:db8:1::]/48:*
	END
	lints "changes nothing" <<-END
		use tcp client * *:22
		use both client * *:*
	END
}

@test "lint: what only looks like it" {
	printf '%s\n' 'use tcp client * 192.0.2.0/25:*' \
		'use sdp client * 192.0.2.0/24:*' 'use tcp server a *:1-10' \
		'use sdp server a *:5-11' 'use tcp server b? *:*' \
		'use sdp server b* *:*' 'use tcp client * 0.0.0.0/0:1-5' \
		'use sdp client * [::]/0:1-5' >rules
	run sdpconf lint rules
	[ "$status" -eq 0 ] || {
		echo "$output"
		false
	}
}

@test "lint: bad lines are said as well" {
	printf '%s\n' 'use tcp' >rules
	run sdpconf lint rules
	[ "$status" -eq 1 ]
	[[ $output == *"rules:1:"*"error"* ]]
}

@test "convert: the JDK's rules" {
	cat >sdp.conf <<-END
		# Use SDP when binding to 192.0.2.1
		bind 192.0.2.1 *
		connect 192.0.2.0/24     1024-*
		connect 2001:db8::1 80
		connect * 3306-3310
	END
	converts sdp.conf 0
	[[ $output == *"
use both server java 192.0.2.1:*
use both client java 192.0.2.0/24:1024-65535
use both client java [2001:db8::1]:80
use both client java *:3306-3310
use tcp server java *:*
use tcp client java *:*" ]]
	[ "$(sdpconf -p java explain 192.0.2.9:1024 converted | tail -n 1)" = \
		"=> both, by line 3" ]
	[ "$(sdpconf -p java explain 192.0.2.9:1023 converted | tail -n 1)" = \
		"=> tcp, by line 7" ]
	printf 'connect localhost 80\nconnect no.such.host.invalid 80\nlisten x\n' \
		>sdp.conf
	converts sdp.conf 1
	[[ $output == *"localhost, as it is resolved now"*"java 127.0.0.1:80"* ]]
	[[ $stderr == *"sdp.conf:2: "*"resolved"*"sdp.conf:3: "*"expected bind"* ]]
	# what is printed are rules that hold
	printf 'connect %s\n' '192.0.2.0/64 80' '192.0.2.1 0' 'fe80::1%lo 80' \
		'192.0.2.1 80' >sdp.conf
	converts sdp.conf 1
	[[ $stderr == *"sdp.conf:1: "*"sdp.conf:2: "*"sdp.conf:3: "* ]] ||
		fail "$stderr"
	[[ $output == *"use both client java 192.0.2.1:80"* ]]
	[ "$(grep -c ^use converted)" -eq 3 ]
}

@test "convert: rsockets' rules" {
	cat >preload_config <<-END
		# program domain type protocol
		redis-server * stream tcp
		iperf3 AF_INET SOCK_STREAM IPPROTO_TCP
		nginx inet6 stream *
		dns inet dgram udp
	END
	converts preload_config 1
	[[ $output == *"use both server redis-server *:*
use both client redis-server *:*
use both server iperf3 0.0.0.0/0:*
use both client iperf3 0.0.0.0/0:*
use both server nginx [::]/0:*
use both client nginx [::]/0:*"*"dns inet dgram udp"*"use tcp client * *:*" ]]
	[[ $stderr == *"preload_config:5: no stream socket"* ]]
}

@test "convert: the rules of VMA and XLIO" {
	cat >libvma.conf <<-END
		log-stderr
		application-id * *
		use os udp_server *:53
		use vma tcp_server *:80
		application-id ttcp *
		use os tcp_client 10.0.0.0/8:5001-5010
		use vma tcp_client *:*
	END
	converts libvma.conf 1
	[[ $output == *"use both server * *:80
use tcp client ttcp 10.0.0.0/8:5001-5010
use both client ttcp *:*" ]]
	[[ $output != *"use tcp server * *:*"* ]]
	[[ $stderr == *":1: "*":3: of UDP"* ]]
}

@test "convert: what is none of them" {
	printf 'hello world\n' >odd
	run sdpconf convert odd
	[ "$status" -eq 2 ]
	[[ $output == *"odd:1: of no library"* ]]
	run sdpconf convert missing
	[ "$status" -eq 2 ]
	: >empty
	run sdpconf convert empty
	[ "$status" -eq 2 ]
	head -c 100000 /dev/zero | tr '\0' x >long
	run sdpconf convert long
	[ "$status" -eq 2 ]
	run sdpconf convert
	[ "$status" -eq 64 ]
	printf 'bind 1.2.3.4 %%s%%n\n' >odd
	run sdpconf convert odd
	[ "$status" -eq 1 ]
}

@test "check: what was meant" {
	meant() {
		printf '%s\n' "$1" >rules
		run sdpconf check rules
		[ "$status" -eq 1 ]
		[[ $output == *"did you mean \`$2\`?"* ]] || {
			echo "$output"
			return 1
		}
	}
	meant 'set spin_uss 3' spin_us
	meant 'set zcopy alwyas' always
	meant 'use sdp clinet * *:*' client
	meant 'log min-levl 3' min-level
	printf 'use sdp client * *:*x\nset qqqq 1\n' >rules
	run sdpconf check rules
	[ "$status" -eq 1 ]
	[[ $output != *"did you mean"* ]]
}
