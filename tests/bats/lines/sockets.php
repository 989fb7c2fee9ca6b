<?php
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
$s = socket_create(AF_INET, SOCK_STREAM, SOL_TCP);
socket_connect($s, "127.0.0.1", (int)$argv[1]);
$good = 0;
for ($i = 1; $i <= 200; $i++) {
	$line = "line $i from php\n";
	socket_write($s, $line);
	if (socket_read($s, 64) === $line)
		$good++;
}
socket_close($s);
echo "$good\n";
