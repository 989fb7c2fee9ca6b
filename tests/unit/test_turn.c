/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How long the other end is looked for, and what bars it; by its own clock. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "socket/life/life.h"

static uint64_t now_ms = 1000000;

static int stopped_clock(clockid_t id, struct timespec *ts)
{
	(void)id;
	ts->tv_sec = (time_t)(now_ms / 1000);
	ts->tv_nsec = (long)(now_ms % 1000) * 1000000;
	return 0;
}

static void __attribute__((constructor)) stop_clock(void)
{
	clock_source = stopped_clock;
}

static void setup_one(struct rdma *r, uint8_t host, bool dials)
{
	memset(r, 0, sizeof(*r));
	r->seek.names.v4 = true;
	r->seek.names.peer[3] = host;
	r->seek.names.peer_port = dials ? 7907 : 40000;
	r->seek.names.local_port = dials ? 40000 : 7907;
	r->seek.dials = dials;
	rdma_await(r);
}

/* So long a candidate is kept that is not asked for. */
static uint64_t kept_ms(uint8_t host)
{
	uint64_t begun = now_ms;
	struct rdma r;

	setup_one(&r, host, false);
	while (!rdma_out_of_patience(&r))
		now_ms += 100;
	return now_ms - begun;
}

static void test_unasked(void **state)
{
	struct rdma r;

	(void)state;
	settings.rdma_retry_s = 60;
	assert_in_range(kept_ms(1), 30000, 30100);
	assert_in_range(kept_ms(1), 3000, 3100);
	assert_in_range(kept_ms(2), 30000, 30100);
	setup_one(&r, 1, false);
	rdma_is_asked(&r.seek.names);
	assert_in_range(kept_ms(1), 30000, 30100);
	assert_in_range(kept_ms(1), 3000, 3100);
	/* and after rdma_retry_s */
	now_ms += 60000;
	assert_in_range(kept_ms(1), 30000, 30100);
	/*
	 * no dialler's time: one that waits for its turn may have been held up
	 */
	setup_one(&r, 1, true);
	r.seek.names.local_port = 7907;
	rdma_await(&r);
	now_ms += 29000;
	assert_int_equal(rdma_out_of_patience(&r), WHY_NONE);
}

/* Dials once, in vain; false: it may not. */
static bool dial(uint8_t host, unsigned int count, bool *over)
{
	struct rdma r;

	setup_one(&r, host, true);
	if (!rdma_turn_free(&r))
		return false;
	rdma_turn(&r);
	*over = rdma_fails(&r, count);
	now_ms += 5000; /* a holder of the turn for so long is gone */
	return true;
}

static void test_fails(void **state)
{
	bool over = false;
	struct rdma r;
	int i;

	(void)state;
	setup_one(&r, 3, true);
	for (i = 0; i < 22; i++) {
		assert_true(dial(3, 1, &over));
		assert_false(over);
	}
	assert_true(dial(3, 1, &over));
	assert_true(over);
	/* one answers: none of them counts any more */
	rdma_answers(&r, false);
	assert_false(rdma_fails(&r, 100));
	/* barred, and anew when that is over */
	rdma_bar(&r, WHY_PEER_DECLINED);
	assert_int_equal(rdma_barred(&r.seek.names, false), WHY_PEER_DECLINED);
	now_ms += 61000;
	assert_int_equal(rdma_barred(&r.seek.names, false), WHY_NONE);
	assert_true(dial(3, 8, &over));
	assert_false(over);
	assert_true(dial(3, 8, &over));
	assert_false(over);
	assert_true(dial(3, 8, &over));
	assert_true(over);
}

/* Asks, and is not answered, for as long as the test likes. */
static bool hang(struct rdma *r, uint8_t host)
{
	static struct end end;
	static struct sock sock;

	setup_one(r, host, true);
	if (!rdma_turn_free(r))
		return false;
	rdma_turn(r);
	r->sock = &sock;
	r->end = &end;
	r->owner = sock_pid;
	r->state = RDMA_DIALING;
	return true;
}

/* Silent hosts hold turns of their own; a dial may take 10 s. */
static void test_silent(void **state)
{
	static struct rdma r[64];
	struct rdma *other = &r[63];
	int i;

	(void)state;
	setup_one(other, 20, true);
	rdma_answers(other, true);
	for (i = 0; i < 16; i++)
		assert_true(hang(&r[i], 20));
	assert_false(hang(&r[i], 20));
	for (; i < 48; i++)
		assert_true(hang(&r[i], (uint8_t)(30 + i)));
	/* one tries for all that go there */
	assert_false(hang(other, 30 + 47));
	assert_true(hang(other, 100));
	/* time alone frees none of them */
	now_ms += 9000;
	assert_false(hang(&r[48], 20));
	r[3].state = RDMA_WANTED;
	assert_true(hang(&r[48], 20));
	for (i = 0; i < 64; i++)
		r[i].state = RDMA_ENDED;
}

/* Goes on asking, where it had a turn before. */
static bool again(struct rdma *r)
{
	if (!rdma_turn_free(r))
		return false;
	rdma_turn(r);
	r->state = RDMA_DIALING;
	return true;
}

/* A turn that is over was lent: another host has had it, and others of this. */
static void test_over(void **state)
{
	static struct rdma a[32], b[16];
	int i;

	(void)state;
	setup_one(a, 120, true);
	rdma_answers(a, true);
	setup_one(b, 121, true);
	rdma_answers(b, true);
	for (i = 0; i < 16; i++)
		assert_true(hang(&b[i], 121));
	for (i = 0; i < 16; i++)
		assert_true(hang(&a[i], 120));
	for (i = 0; i < 16; i++) {
		b[i].state = RDMA_UP;
		a[i].state = RDMA_WANTED;
	}
	for (i = 16; i < 32; i++)
		assert_true(hang(&a[i], 120));
	for (i = 0; i < 16; i++)
		assert_false(again(&a[i]));
	for (i = 0; i < 16; i++) {
		a[i + 16].state = RDMA_ENDED;
		assert_true(again(&a[i]));
	}
	for (i = 0; i < 16; i++)
		a[i].state = RDMA_ENDED;
}

/* Asking for a turn takes no other's place in what is known. */
static void test_asked(void **state)
{
	struct rdma r, barred;
	int i;

	(void)state;
	setup_one(&barred, 200, true);
	rdma_bar(&barred, WHY_PEER_DECLINED);
	for (i = 0; i < 1000; i++) {
		setup_one(&r, 201, true);
		r.seek.names.peer_port = (uint16_t)(8000 + i);
		assert_true(rdma_turn_free(&r));
	}
	assert_int_equal(rdma_barred(&barred.seek.names, false),
			 WHY_PEER_DECLINED);
}

/*
 * A server that dials has clients at ports of their own: they count together.
 */
static void test_serves(void **state)
{
	struct rdma r;
	bool over;
	int i;

	(void)state;
	for (i = 0; i < 23; i++) {
		setup_one(&r, 210, true);
		r.seek.serves = true;
		r.seek.names.peer_port = (uint16_t)(33000 + i);
		assert_int_equal(rdma_barred(&r.seek.names, true), WHY_NONE);
		assert_true(rdma_turn_free(&r));
		rdma_turn(&r);
		over = rdma_fails(&r, 1);
		assert_int_equal(over, i == 22);
		now_ms += 5000;
	}
	rdma_bar(&r, WHY_PEER_DECLINED);
	r.seek.names.peer_port = 33333;
	assert_int_equal(rdma_barred(&r.seek.names, true), WHY_PEER_DECLINED);
	/* not a client that goes there, by another port, to another host */
	assert_int_equal(rdma_barred(&r.seek.names, false), WHY_NONE);
	r.seek.names.peer_port = 40000;
	assert_int_equal(rdma_barred(&r.seek.names, false), WHY_NONE);
	r.seek.names.local_port--;
	assert_int_equal(rdma_barred(&r.seek.names, true), WHY_NONE);
	r.seek.names.local_port++;
	r.seek.names.peer[3]++;
	assert_int_equal(rdma_barred(&r.seek.names, true), WHY_NONE);
}

/* Another dials; how long it had to wait for that. */
static uint64_t waits_ms(uint8_t host)
{
	uint64_t since = now_ms;
	struct rdma r;

	setup_one(&r, host, true);
	while (!rdma_turn_free(&r))
		now_ms++;
	return now_ms - since;
}

/* A connection that closes `ms` later than it began to dial. */
static void short_one(struct rdma *r, uint8_t host, unsigned int ms)
{
	struct sock *s;

	assert_true(hang(r, host));
	s = r->sock;
	r->seek.retry_at = clock_ns();
	r->far = r->watch.anchor = -1;
	now_ms += ms;
	s->rd = r;
	s->link = &rdma_link;
	rdma_detach(s);
	assert_null(s->rd);
}

/*
 * One that tried for all closes, and the next one need not wait until it would
 * have been answered; nor is none left to try, nor does every short one.
 */
static void test_left(void **state)
{
	static struct rdma r[40];
	uint64_t begun;
	int i;

	(void)state;
	short_one(&r[0], 220, 1);
	assert_in_range(waits_ms(220), 30, 40);
	short_one(&r[1], 220, 100);
	assert_int_equal(waits_ms(220), 0);
	/* between its tries: when it would have tried */
	assert_true(hang(&r[2], 220));
	r[2].state = RDMA_WANTED;
	r[2].seek.retry_at = clock_ns() + 700000000;
	r[2].far = r[2].watch.anchor = -1;
	r[2].sock->rd = &r[2];
	r[2].sock->link = &rdma_link;
	rdma_detach(r[2].sock);
	assert_int_equal(waits_ms(220), 700);
	/* another's leaving frees no turn */
	assert_true(hang(&r[3], 221));
	setup_one(&r[4], 221, true);
	rdma_turn_left(&r[4]);
	assert_false(rdma_turn_free(&r[4]));
	r[3].state = RDMA_ENDED;
	/*
	 * where all are short it is not barred sooner than by one that is not
	 */
	begun = now_ms;
	for (i = 5; !rdma_barred(&r[4].seek.names, false); i++) {
		assert_true(i < 40);
		waits_ms(222);
		short_one(&r[i], 222, 1);
		memcpy(&r[4].seek.names, &r[i].seek.names,
		       sizeof(r[i].seek.names));
	}
	assert_in_range(now_ms - begun, 60000, 92000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unasked), cmocka_unit_test(test_fails),
		cmocka_unit_test(test_silent),	cmocka_unit_test(test_asked),
		cmocka_unit_test(test_serves),	cmocka_unit_test(test_over),
		cmocka_unit_test(test_left),
	};

	sock_setup(&(struct sock_hooks){ 0 });
	return cmocka_run_group_tests(tests, NULL, NULL);
}
