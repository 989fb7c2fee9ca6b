/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Between hosts: the reader has handed back what its program has not read, and
 * the writer has ended its direction before it was asked for that. The end is
 * behind those bytes, which come again on the anchor.
 */
#include "both_util.h"

#include <poll.h>
#include <sys/epoll.h>

#define TAKEN 100
#define GIVEN "handed back"

static int returned(void **state)
{
	struct rdma_given *g = &rd.failover.give;

	two_hosts(state);
	memset(rd.mark.secret_rx, 0x77, sizeof(rd.mark.secret_rx));
	sock.ar.taken = sock.ar.from = sock.rx->taken = TAKEN;
	sock.rx->from = TAKEN;
	sock.rx->sent = TAKEN + strlen(GIVEN);
	sock.rx->state = ANC_RESTORING;
	sock.ar.unsure = true;
	sock.eos.rx_eof = true; /* its DisConn came */
	g->len = g->at = strlen(GIVEN);
	g->mem = bytebuf_map(g->len + WIRE_BSDH);
	assert_non_null(g->mem);
	memcpy(g->mem + WIRE_BSDH, GIVEN, g->len);
	return 0;
}

/* What the writer owes: the record, the bytes, its end. */
static void comes_again(void)
{
	uint8_t rec[RESUME_RECORD];

	resume_give(rec, rd.mark.secret_rx, TAKEN);
	on_anchor(rec, sizeof(rec));
	on_anchor(GIVEN, strlen(GIVEN));
	assert_int_equal(shutdown(writer.fd, SHUT_WR), 0);
}

static void gets_given(void)
{
	char byte;

	gets_all(GIVEN);
	assert_int_equal(sock_recv(&sock, fd, &byte, 1, 0), 0);
}

static void test_no_end_before(void **state)
{
	char got[64];

	(void)state;
	assert_int_equal(sock_recv(&sock, fd, got, sizeof(got), MSG_DONTWAIT),
			 -EAGAIN);
	comes_again();
	gets_given();
}

static void test_not_ready_before(void **state)
{
	struct sock_ready r = { 0 };

	(void)state;
	sock_ready(&sock, fd, EPOLLIN, &r);
	assert_false(r.now & EPOLLIN);
	assert_true(r.ms >= 0); /* it is looked at again */
	comes_again();
	gets_given();
}

/*
 * Both have ended, so no word passes any more; the writer had not got all of it,
 * and gave up. What lies here counts.
 */
static void test_given_up(void **state)
{
	(void)state;
	rd.failover.give.at--;
	sock.conn.dis_sent = sock.conn.dis_rcvd = true;
	assert_int_equal(shutdown(writer.fd, SHUT_WR), 0);
	gets_given();
}

/* Nothing was handed back: the end is next, whatever the writer does. */
static void test_end(void **state)
{
	char got[64];

	(void)state;
	bytebuf_unmap(rd.failover.give.mem, strlen(GIVEN) + WIRE_BSDH);
	memset(&rd.failover.give, 0, sizeof(rd.failover.give));
	sock.rx->sent = TAKEN;
	assert_int_equal(sock_recv(&sock, fd, got, sizeof(got), MSG_DONTWAIT),
			 0);
}

/* --- the writer is gone, and the queue pair with it ------------------------ */

static void breaks(void)
{
	int i;

	sock.peer->reset = 1;
	sock.tx->state = ANC_GONE;
	assert_int_equal(lock_take(&sock.lock), 0);
	failover_begin(&sock, -ECONNRESET);
	for (i = 0; i < 10 && rd.state == RDMA_FAILOVER; i++)
		failover_step(&sock);
	lock_drop(&sock.lock);
}

/* It had all of it, and put it back before it closed. */
static void test_gone_behind(void **state)
{
	(void)state;
	comes_again();
	breaks();
	gets_given();
}

/* It was killed in the record: what lies here counts. */
static void test_gone_within(void **state)
{
	uint8_t rec[RESUME_RECORD];

	(void)state;
	resume_give(rec, rd.mark.secret_rx, TAKEN);
	on_anchor(rec, sizeof(rec) / 2);
	assert_int_equal(shutdown(writer.fd, SHUT_WR), 0);
	breaks();
	gets_given();
}

/* Its record comes later than the news of its end. */
static void test_gone_before(void **state)
{
	char got[64];

	(void)state;
	breaks();
	assert_int_equal(sock_recv(&sock, fd, got, sizeof(got), MSG_DONTWAIT),
			 -EAGAIN);
	comes_again();
	breaks();
	gets_given();
}

/* It never had all of it, so no record comes. */
static void test_gone_without(void **state)
{
	(void)state;
	rd.failover.give.at--;
	breaks();
	gets_all(GIVEN);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, returned, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_no_end_before), CASE(test_not_ready_before),
		CASE(test_given_up),	  CASE(test_end),
		CASE(test_gone_behind),	  CASE(test_gone_within),
		CASE(test_gone_before),	  CASE(test_gone_without),
	};
	const struct sock_hooks lent = { .recv = recv, .ppoll = ppoll };

	alarm(120);
	sock_setup(&lent);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
