/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TEST_TCP_UTIL_H
#define TEST_TCP_UTIL_H

/* A TCP connection of this host: the calling end, and the called one. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

static inline void tcp_pair(int pair[2])
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof(in);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(l, (struct sockaddr *)&in, len), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&in, &len), 0);
	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(pair[0], (struct sockaddr *)&in, len), 0);
	pair[1] = accept(l, NULL, NULL);
	assert_true(pair[1] >= 0);
	close(l);
}

#endif
