<?php
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
$s = stream_socket_client("tcp://127.0.0.1:" . $argv[1]);
$good = 0;
for ($i = 1; $i <= 200; $i++) {
	fwrite($s, "line $i from php\n");
	if (fgets($s) === "line $i from php\n")
		$good++;
}
fclose($s);
echo "$good\n";
