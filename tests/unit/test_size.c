/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What gets more receives: a stream, and not a dialogue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "conn_util.h"
#include "socket/life/life.h"

#define PAYLOAD (RCV_SIZE - WIRE_BSDH)

static int more; /* receives that were asked for */

static int resize(struct end *e, uint32_t size, uint16_t count)
{
	(void)size;
	more = count - (int)e->depth;
	e->depth = count;
	return more;
}

static const struct verbs_api api = { .resize = resize };
static struct fabric_ops ops = { .name = "test" };
static struct end end;
static struct anc_dir dir = { .state = ANC_LIFTED };
static struct rdma rd;
static struct anc_side own;
static struct sock s;

static int begin(void **state)
{
	struct conn_params mine = params(false);
	struct conn_params other = params(false);
	struct conn peer;

	(void)state;
	memset(&s, 0, sizeof(s));
	memset(&rd, 0, sizeof(rd));
	mine.posted = VERBS_RCV_REST;
	join(&s.conn, &mine, &peer, &other);
	end = (struct end){ &ops, VERBS_RCV_MAX, VERBS_RCV_REST };
	rd.state = RDMA_UP;
	rd.end = s.end = &end;
	s.rd = &rd;
	s.link = &rdma_link;
	s.paired = true;
	s.rx = s.tx = &dir;
	s.stats.row = &sock_spare;
	s.stats.row_pid = -1;
	rdma_api = &api;
	more = 0;
	return 0;
}

/* So many bytes come, are looked at, and are read at once. */
static void come(uint32_t bytes)
{
	assert_int_equal(give(&s.conn, msg(&s.conn, WIRE_DATA), bytes, NULL),
			 0);
	rdma_grow(&s);
	conn_reposted(&s.conn, 1);
}

static void a_dialogue_keeps_its_few(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		come(PAYLOAD);
		assert_int_equal(take_at(&s.conn, 1, 100, false).mid,
				 WIRE_DATA);
	}
	assert_int_equal(more, 0);
}

/* However quickly the program reads: the peer has to wait for credits. */
static void a_stream_gets_more(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 64 && !more; i++) {
		come(PAYLOAD);
		if (conn_wants_send(&s.conn))
			take_at(&s.conn, 1, 0, false);
	}
	assert_int_equal(more, VERBS_RCV_MOST - VERBS_RCV_REST);
	assert_in_range(i, 8, 32);
}

/* A program that has set its receive buffer gets no more than that ahead. */
static void a_bound_reader_keeps_its_few(void **state)
{
	unsigned int i;

	(void)state;
	s.own = &own;
	own.room = 0x80000000u | 65536;
	for (i = 0; i < 64; i++) {
		come(PAYLOAD);
		if (conn_wants_send(&s.conn))
			take_at(&s.conn, 1, 0, false);
	}
	assert_int_equal(more, 0);
	/* one that was not set bounds nothing */
	own.room = 65536;
	a_stream_gets_more(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_dialogue_keeps_its_few, begin),
		cmocka_unit_test_setup(a_stream_gets_more, begin),
		cmocka_unit_test_setup(a_bound_reader_keeps_its_few, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
