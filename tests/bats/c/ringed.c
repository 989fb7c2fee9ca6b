/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ringed PORT: 200 lines there and back by send() and recv(); behind the first
 * fifty each answer is waited for by liburing, in one way or another. Says how
 * many came back as they were.
 */
#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int await(struct io_uring *ring, int fd, int i)
{
	struct __kernel_timespec ts = { .tv_sec = 30 };
	struct io_uring_sqe *e = io_uring_get_sqe(ring);
	struct io_uring_cqe *c = NULL;
	int ret;

	io_uring_prep_poll_add(e, fd, POLLIN);
	if (i % 3 == 0) {
		ret = io_uring_submit(ring);
		if (ret == 1)
			ret = io_uring_wait_cqe(ring, &c);
	} else if (i % 3 == 1) {
		ret = io_uring_submit_and_wait(ring, 1);
		if (ret == 1)
			ret = io_uring_peek_cqe(ring, &c);
	} else {
		ret = io_uring_submit_and_wait_timeout(ring, &c, 1, &ts, NULL);
	}
	if (ret < 0 || !c || c->res != POLLIN)
		return 0;
	io_uring_cqe_seen(ring, c);
	return 1;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int i, good = 0, fd = socket(AF_INET, SOCK_STREAM, 0);
	struct io_uring ring;

	if (argc < 2 || io_uring_queue_init(8, &ring, 0))
		return 77;
	to.sin_port = htons((unsigned short)atoi(argv[1]));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		return 3;
	for (i = 1; i <= 200; i++) {
		char line[64], back[64];
		int n = snprintf(line, 64, "line %d from C\n", i);

		good += send(fd, line, (size_t)n, 0) == n &&
			(i <= 50 || await(&ring, fd, i)) &&
			recv(fd, back, (size_t)n, MSG_WAITALL) == n &&
			!memcmp(line, back, (size_t)n);
	}
	io_uring_queue_exit(&ring);
	close(fd);
	printf("%d\n", good);
	return 0;
}
