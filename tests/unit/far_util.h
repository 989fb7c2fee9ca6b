/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_UNIT_FAR_UTIL_H
#define TESTS_UNIT_FAR_UTIL_H

/*
 * A sock that is up towards another host, over a device of the test's, and the
 * clock that goes as the test says.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "socket/life/life.h"

#define KIB 1024u
#define MIB (1u << 20)

static uint64_t now_us = 1000000;

static int stopped_clock(clockid_t id, struct timespec *ts)
{
	(void)id;
	ts->tv_sec = (time_t)(now_us / 1000000);
	ts->tv_nsec = (long)(now_us % 1000000) * 1000;
	return 0;
}

static void __attribute__((constructor)) stop_clock(void)
{
	clock_source = stopped_clock;
}

/* All of them are the caller's, and stay while the sock is used. */
static inline void far_setup(struct sock *s, struct rdma *r, struct end *e,
			     const struct fabric_ops *ops)
{
	memset(s, 0, sizeof(*s));
	memset(r, 0, sizeof(*r));
	*e = (struct end){ .ops = ops };
	r->state = RDMA_UP;
	r->owner = sock_pid;
	r->end = e;
	s->rd = r;
	s->link = &rdma_link;
	s->end = e;
	s->end_pid = sock_pid;
	s->conn.state = CONN_EST;
}

#endif
