# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# lines/client.*: send 200 numbered lines to the echo server at port $1, read each
# back, and print how many came back right. The same in every language.
# shellcheck shell=bash
exec {s}<>"/dev/tcp/127.0.0.1/$1"
good=0
for ((i = 1; i <= 200; i++)); do
	echo "line $i from bash" >&"$s"
	read -r -u "$s" back
	[ "$back" = "line $i from bash" ] && good=$((good + 1))
done
exec {s}>&-
echo "$good"
