/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * meet - two ends of a connection that are started apart, each wherever a
 * test wants it
 *
 * meet serve ADDRESS PORT [COUNT]	echoes COUNT connections, then ends
 * meet talk ADDRESS PORT [ROUNDS [FROM]]	talks to it (from port FROM),
 *	checks every byte
 * meet forbid ...	as the first two; forbids itself new processes before
 */
#include "prog.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct sockaddr_in address(char **argv)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };

	CHECK(inet_aton(argv[0], &sa.sin_addr));
	sa.sin_port = htons((uint16_t)atoi(argv[1]));
	return sa;
}

static int opened(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	return fd;
}

static void forbid_processes(void)
{
	struct rlimit none = { 0, 0 };

	CHECK(!setrlimit(RLIMIT_NPROC, &none));
}

static void echo(int fd)
{
	uint8_t buf[4096];
	ssize_t n, k, w;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		for (k = 0; k < n; k += w) {
			w = write(fd, buf + k, (size_t)(n - k));
			CHECK(w > 0);
		}
	CHECK(n == 0);
	CHECK(!close(fd));
}

static void serve(char **argv, int count, bool forbids)
{
	struct sockaddr_in sa = address(argv);
	int one = 1, fd = opened();

	CHECK(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	CHECK(!bind(fd, (struct sockaddr *)&sa, sizeof(sa)));
	CHECK(!listen(fd, 10));
	if (forbids)
		forbid_processes();
	while (count--) {
		int conn = accept(fd, NULL, NULL);

		CHECK(conn >= 0);
		echo(conn);
	}
}

static void talk(char **argv, int rounds, int from, bool forbids)
{
	struct sockaddr_in sa = address(argv);
	struct link l = { .tx.seed = 5, .rx.seed = 5 };
	int i;

	l.fd = opened();
	if (from) {
		struct sockaddr_in own = { .sin_family = AF_INET };

		own.sin_port = htons((uint16_t)from);
		CHECK(!bind(l.fd, (struct sockaddr *)&own, sizeof(own)));
	}
	if (forbids)
		forbid_processes();
	CHECK(!connect(l.fd, (struct sockaddr *)&sa, sizeof(sa)));
	for (i = 0; i < rounds; i++) {
		link_put(&l, (size_t)(1 + i * 37 % 3000));
		link_get(&l, (size_t)(1 + i * 37 % 3000));
	}
	CHECK(!shutdown(l.fd, SHUT_WR));
	link_eof(&l);
	link_close(&l);
	printf("ok\n");
}

int main(int argc, char **argv)
{
	bool forbids = argc > 1 && !strcmp(argv[1], "forbid");
	int n;

	argv += 1 + forbids;
	argc -= 1 + forbids;
	CHECK(argc >= 3);
	n = argc > 3 ? atoi(argv[3]) : 0;
	if (!strcmp(argv[0], "serve"))
		serve(argv + 1, n ? n : 1, forbids);
	else
		talk(argv + 1, n ? n : 300, argc > 4 ? atoi(argv[4]) : 0,
		     forbids);
	return 0;
}
