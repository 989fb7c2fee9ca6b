/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TEST_PAIR_UTIL_H
#define TEST_PAIR_UTIL_H

/* Both ends of a real TCP connection in one process. */

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "socket/peer/peer.h"

#define TRIES	   5
#define RING	   65536u
#define ASK_LEN	   120
#define ANSWER_LEN 264
/* Offsets inside PAIR and PAIRED. */
enum {
	AT_MAGIC = 0,
	AT_VERSION = 8,
	AT_COOKIE = 16,
	AT_SEEN = 24,
	AT_SIZE = 56,
	AT_HELLO = 64
};

struct side {
	int fd;
	struct pair p;
	struct conn c;
	struct conn_params cp;
};

struct both {
	int listener;
	struct side o, q; /* offering, answering */
};

static inline int fds_open(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static inline void side_init(struct side *s, int fd)
{
	memset(s, 0, sizeof(*s));
	s->fd = fd;
	s->p.fd = -1;
	s->p.ring = RING;
	s->cp = (struct conn_params){
		.rcv_size = SHM_MSG_MAX,
		.posted = SHM_DEPTH,
		.max_adverts = 4,
	};
}

static inline enum pair_state step(struct side *s)
{
	return pair_step(&s->p, s->fd, &s->c, &s->cp, TRIES);
}

/* A TCP connection; `to` as text, the listener bound to `on`. */
static inline int tcp(struct both *b, const char *on, const char *to)
{
	struct sockaddr_in6 l6 = { .sin6_family = AF_INET6 }, c6 = l6;
	struct sockaddr_in l4 = { .sin_family = AF_INET }, c4 = l4;
	bool lv6 = strchr(on, ':'), cv6 = strchr(to, ':');
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int zero = 0, fd, other;

	b->listener = socket(lv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
	if (b->listener < 0)
		return -1;
	if (lv6) {
		setsockopt(b->listener, IPPROTO_IPV6, IPV6_V6ONLY, &zero,
			   sizeof(zero));
		inet_pton(AF_INET6, on, &l6.sin6_addr);
	} else {
		inet_pton(AF_INET, on, &l4.sin_addr);
	}
	if (bind(b->listener, lv6 ? (void *)&l6 : (void *)&l4,
		 lv6 ? sizeof(l6) : sizeof(l4)) ||
	    listen(b->listener, 4) ||
	    getsockname(b->listener, (void *)&ss, &len)) {
		close(b->listener);
		return -1;
	}
	c6.sin6_port = c4.sin_port = ((struct sockaddr_in *)&ss)->sin_port;
	fd = socket(cv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
	if (cv6)
		inet_pton(AF_INET6, to, &c6.sin6_addr);
	else
		inet_pton(AF_INET, to, &c4.sin_addr);
	assert_int_equal(connect(fd, cv6 ? (void *)&c6 : (void *)&c4,
				 cv6 ? sizeof(c6) : sizeof(c4)),
			 0);
	other = accept(b->listener, NULL, NULL);
	assert_true(other >= 0);
	side_init(&b->o, fd);
	side_init(&b->q, other);
	return 0;
}

static inline void begin(struct both *b)
{
	struct sockaddr_un un[2];
	struct side x;
	socklen_t len;

	assert_int_equal(pair_begin(&b->o.p, b->o.fd), WHY_NONE);
	assert_int_equal(pair_begin(&b->q.p, b->q.fd), WHY_NONE);
	assert_true(b->o.p.offering != b->q.p.offering);
	if (!b->o.p.offering) {
		x = b->o;
		b->o = b->q;
		b->q = x;
	}
	len = pair_name(&b->o.p, &un[0]);
	assert_int_equal(len, pair_name(&b->q.p, &un[1]));
	assert_memory_equal(&un[0], &un[1], len);
}

/* bind() or connect() of fd to where the ends of *p meet. */
static inline int at_meeting(const struct pair *p, int fd,
			     int (*call)(int, const struct sockaddr *,
					 socklen_t))
{
	struct sockaddr_un un;
	socklen_t len = pair_name(p, &un);

	return call(fd, (struct sockaddr *)&un, len);
}

static inline void local(struct both *b)
{
	assert_int_equal(tcp(b, "127.0.0.1", "127.0.0.1"), 0);
	begin(b);
}

static inline void side_drop(struct side *s)
{
	pair_cancel(&s->p);
	if (s->p.fd >= 0) {
		fd_unhide(s->p.fd);
		close(s->p.fd);
	}
	shm_unmap(&s->p.seg);
	close(s->fd);
}

static inline void drop(struct both *b)
{
	side_drop(&b->o);
	side_drop(&b->q);
	close(b->listener);
}

#endif
