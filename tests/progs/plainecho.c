/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * plainecho - a static program, so that no preload can follow into it
 *
 * plainecho FD [BYTES]: reads from FD and writes back to FD (FD 0: writes to
 * 1), until the end of the stream or until BYTES have come by. Exits 0 when
 * all went well, 1 on an error, 2 if the stream ended too early.
 */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char buf[30000];
	int in = argc > 1 ? atoi(argv[1]) : 0;
	int out = in ? in : 1;
	long left = argc > 2 ? atol(argv[2]) : -1;

	while (left) {
		struct pollfd p = { .fd = in, .events = POLLIN };
		size_t most = sizeof(buf);
		ssize_t r, k, w;

		if (left > 0 && (size_t)left < most)
			most = (size_t)left;
		if (poll(&p, 1, -1) != 1)
			return 1;
		r = read(in, buf, most);
		if (r < 0)
			return 1;
		if (r == 0)
			return left > 0 ? 2 : 0;
		for (k = 0; k < r; k += w) {
			w = write(out, buf + k, (size_t)(r - k));
			if (w <= 0)
				return 1;
		}
		if (left > 0)
			left -= r;
	}
	return 0;
}
