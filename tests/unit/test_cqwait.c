/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What hears of the next completion: the sleeper, or the service thread. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "socket/life/life.h"

#define FD 99

int32_t sock_pid = 1;
static struct rdma rdma;
static struct sock sock;
static struct end end;
static int fd, no_room, deaf, changes, heard, armed, pokes, owed, rung;

static int ear(struct end *e)
{
	assert_ptr_equal(e, &end);
	return fd;
}

static int be_deaf(struct end *e, bool on)
{
	assert_ptr_equal(e, &end);
	if (!on && no_room)
		return -ENOMEM;
	deaf = on;
	changes++;
	return 0;
}

static void hear(struct end *e)
{
	assert_ptr_equal(e, &end);
	heard++;
}

static int arm(struct end *e, bool solicited)
{
	assert_ptr_equal(e, &end);
	assert_false(solicited);
	armed++;
	return 0;
}

static const struct verbs_api api = {
	.ear = ear, .deaf = be_deaf, .heard = hear, .arm = arm
};
const struct verbs_api *rdma_api = &api;

uint64_t service_id(void)
{
	return 7;
}

void service_poke(uint64_t id)
{
	assert_int_equal(id, 7);
	pokes++;
}

void rdma_owe(struct sock *s)
{
	s->rd->due.calm = false;
	s->rd->due.restless = true;
	owed++;
}

/* Before it is owed: the debt is what came, not a look. */
void rdma_wake_writers(struct sock *s)
{
	assert_ptr_equal(s, &sock);
	assert_int_equal(owed, 0);
	assert_int_equal(heard, 1);
	rung++;
}

static int begin(void **state)
{
	(void)state;
	memset(&rdma, 0, sizeof(rdma));
	memset(&sock, 0, sizeof(sock));
	rdma.state = RDMA_UP;
	rdma.owner = sock_pid;
	rdma.end = &end;
	sock.rd = &rdma;
	fd = FD;
	no_room = deaf = changes = heard = armed = pokes = owed = rung = 0;
	return 0;
}

static void sleep_once(void)
{
	assert_true(rdma_cqwait_free(&sock, false));
	assert_int_equal(rdma_cqwait_take(&sock, false), FD);
	rdma_cqwait_arm(&sock);
	rdma_cqwait_leave(&sock);
}

/* One system call in many waits, and one word to the service thread. */
static void it_stays_lent(void **state)
{
	(void)state;
	sleep_once();
	assert_true(deaf);
	assert_int_equal(pokes, 1);
	assert_true(rdma.due.cqwait_owed && rdma.due.restless && rdma.due.calm);
	sleep_once();
	sleep_once();
	assert_int_equal(changes, 1);
	assert_int_equal(pokes, 1);
	/* what woke one is taken before the next arms, not when it answers */
	assert_int_equal(heard, 2);
	assert_int_equal(armed, 3);
	/* it has looked, and armed for good, while a thread slept */
	rdma.due.cqwait_owed = rdma.due.restless = false;
	sleep_once();
	assert_int_equal(pokes, 2);
}

/* It may sleep in spite of a debt that it was not told of. */
static void a_debt_is_told_of(void **state)
{
	(void)state;
	rdma.due.restless = true;
	sleep_once();
	assert_int_equal(pokes, 1);
	assert_false(rdma.due.calm);
}

static void who_arms_and_goes_has_it_watched(void **state)
{
	(void)state;
	rdma_cqwait_back(&sock);
	assert_int_equal(changes, 0);
	assert_int_equal(rdma_cqwait_take(&sock, false), FD);
	/* the service thread: the sleeper tells it when it leaves */
	rdma.due.cqwait_by++;
	rdma.due.serving = true;
	rdma_cqwait_back(&sock);
	assert_true(deaf);
	rdma.due.cqwait_by--;
	rdma.due.serving = false;
	rdma_cqwait_leave(&sock);
	rdma_cqwait_back(&sock);
	assert_false(deaf);
	assert_int_equal(changes, 2);
}

/* It may have been jumped out, and would not tell. */
static void what_another_arms_is_not_left_to_the_sleeper(void **state)
{
	(void)state;
	assert_int_equal(rdma_cqwait_take(&sock, false), FD);
	rdma.due.cqwait_by++;
	rdma_cqwait_back(&sock);
	assert_false(deaf);
	assert_int_equal(rdma.due.cqwait_by, 0);
	/* it comes back, and hears anew */
	rdma_cqwait_leave(&sock);
	assert_int_equal(heard, 0);
	sleep_once();
	assert_true(deaf);
	assert_int_equal(heard, 0);
	assert_int_equal(rdma_cqwait_take(&sock, false), FD);
	assert_int_equal(heard, 1);
}

/* The kernel has no memory for it: V looks until it has. */
static void what_cannot_be_watched_is_looked_at(void **state)
{
	(void)state;
	no_room = 1;
	assert_int_equal(rdma_cqwait_take(&sock, false), FD);
	rdma_cqwait_back(&sock);
	assert_true(rdma.due.cqwait_lent && rdma.due.cqwait_owed &&
		    rdma.due.restless);
	assert_int_equal(rdma.due.cqwait_by, 0);
	assert_int_equal(owed, 1);
	rdma_cqwait_back(&sock);
	assert_int_equal(owed, 1);
	no_room = 0;
	rdma_cqwait_back(&sock);
	assert_false(rdma.due.cqwait_lent || deaf);
}

static void others_are_not_left_waiting(void **state)
{
	(void)state;
	assert_int_equal(rdma_cqwait_take(&sock, false), FD);
	sock.waits.sleepers = 1;
	rdma_cqwait_leave(&sock);
	assert_false(deaf);
	assert_int_equal(owed, 1);
	assert_int_equal(rung, 1);
	assert_false(rdma_cqwait_free(&sock, false));
	sock.waits.sleepers = 0;
	sock.waits.watched = 1;
	assert_false(rdma_cqwait_free(&sock, false));
	sock.waits.watched = 0;
	sock.waits.full = true;
	assert_false(rdma_cqwait_free(&sock, false));
	sock.waits.full = false;
	assert_true(rdma_cqwait_free(&sock, false));
}

/* That it was refused is its own word: no thread is to be rung for it. */
static void who_waits_for_room_may_hear(void **state)
{
	(void)state;
	sock.waits.full = true;
	assert_true(rdma_cqwait_free(&sock, true));
	assert_int_equal(rdma_cqwait_take(&sock, true), FD);
	rdma_cqwait_leave(&sock);
	assert_true(deaf);
	assert_int_equal(heard, 0);
	assert_int_equal(rung + owed, 0);
	/* a receiving thread has others told of it */
	assert_int_equal(rdma_cqwait_take(&sock, false), FD);
	assert_int_equal(heard, 1);
	heard = 0;
	rdma_cqwait_leave(&sock);
	assert_int_equal(rung, 1);
	assert_int_equal(owed, 1);
	/* others are rung by the thread that they wake */
	sock.waits.watched = 1;
	assert_false(rdma_cqwait_free(&sock, true));
}

static void there_is_one_at_a_time(void **state)
{
	(void)state;
	rdma.due.cqwait_by = lock_tid() + 1;
	rdma.due.cqwait_lent = true;
	assert_false(rdma_cqwait_free(&sock, false));
	rdma_cqwait_leave(&sock);
	assert_int_equal(rdma.due.cqwait_by, lock_tid() + 1);
	assert_int_equal(heard, 0);
}

/* A handler of what a fault raises: it never came back to leave. */
static void who_was_jumped_out_hears_no_more(void **state)
{
	(void)state;
	assert_int_equal(rdma_cqwait_take(&sock, false), FD);
	rdma_cqwait_back(&sock); /* it asks in another way now */
	assert_false(deaf);
	assert_int_equal(rdma.due.cqwait_by, 0);
	assert_int_equal(rdma_cqwait_take(&sock, false), FD);
	sleep_once();
	assert_int_equal(rdma.due.cqwait_by, 0);
	assert_true(rdma.due.cqwait_owed);
}

static void an_end_that_is_gone_is_left_alone(void **state)
{
	(void)state;
	assert_int_equal(rdma_cqwait_take(&sock, false), FD);
	rdma.state = RDMA_FAILOVER;
	rdma_cqwait_leave(&sock);
	assert_int_equal(rdma.due.cqwait_by, 0);
	assert_int_equal(heard, 0);
	assert_false(rdma_cqwait_free(&sock, false));
	rdma.state = RDMA_UP;
	assert_int_equal(rdma_cqwait_take(&sock, false), FD);
	sock.rd = NULL;
	rdma_cqwait_leave(&sock);
	assert_false(rdma_cqwait_free(&sock, false));
	/* another process has it, or it shares its channel */
	sock.rd = &rdma;
	rdma.due.cqwait_by = 0;
	rdma.owner = sock_pid + 1;
	assert_false(rdma_cqwait_free(&sock, false));
	rdma.owner = sock_pid;
	fd = -1;
	assert_false(rdma_cqwait_free(&sock, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(it_stays_lent, begin),
		cmocka_unit_test_setup(a_debt_is_told_of, begin),
		cmocka_unit_test_setup(who_arms_and_goes_has_it_watched, begin),
		cmocka_unit_test_setup(
			what_another_arms_is_not_left_to_the_sleeper, begin),
		cmocka_unit_test_setup(what_cannot_be_watched_is_looked_at,
				       begin),
		cmocka_unit_test_setup(others_are_not_left_waiting, begin),
		cmocka_unit_test_setup(who_waits_for_room_may_hear, begin),
		cmocka_unit_test_setup(there_is_one_at_a_time, begin),
		cmocka_unit_test_setup(who_was_jumped_out_hears_no_more, begin),
		cmocka_unit_test_setup(an_end_that_is_gone_is_left_alone,
				       begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
