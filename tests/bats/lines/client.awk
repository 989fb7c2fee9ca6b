# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
BEGIN {
	s = "/inet/tcp/0/127.0.0.1/" ARGV[1]
	for (i = 1; i <= 200; i++) {
		line = "line " i " from gawk"
		print line |& s
		if ((s |& getline back) > 0 && back == line)
			good++
	}
	close(s)
	print good
}
