/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Between hosts: the queue pair breaks while the reader's program has not read
 * all that is on the anchor in front of the lift, and the thread that would read
 * it waits in fork() or the like for the stream to be on TCP. What lies in front
 * is kept, and comes first.
 */
#include "both_util.h"

#define FRONT "in front"

/* Lifted ahead: its marker waits until all in front was read. */
static int broken(void **state)
{
	two_hosts(state);
	says(FRONT);
	assert_int_equal(anc_switch(writer.dir, &writer.at, true), 1);
	told();
	assert_int_equal(anc_state(sock.rx), ANC_SWITCHING);
	arrives("abc");
	return 0;
}

/* It wrote no marker and goes back to x: what came by SDP comes again. */
static void goes_over(void)
{
	on_anchor("abcdef", 6);
}

static bool steps(void)
{
	bool mended;

	assert_int_equal(lock_take(&sock.lock), 0);
	if (rd.state == RDMA_UP)
		failover_begin(&sock, -ECONNRESET);
	failover_step(&sock);
	mended = rd.failover.mended;
	lock_drop(&sock.lock);
	return mended;
}

/* The program reads what is its own to read. */
static void test_read(void **state)
{
	(void)state;
	goes_over();
	assert_false(steps());
	gets_all(FRONT);
	assert_true(steps());
	gets_all("abcdef");
}

static void test_waits(void **state)
{
	(void)state;
	goes_over();
	sock.fallback.falling_back = 1;
	assert_true(steps());
	sock.fallback.falling_back = 0;
	assert_int_equal(sock.got.avail, strlen(FRONT));
	gets_all(FRONT "abcdef");
}

/* It waits no more when the rest comes, and reads a part before that. */
static void test_gave_up(void **state)
{
	(void)state;
	sock.fallback.falling_back = 1;
	assert_false(steps());
	sock.fallback.falling_back = 0;
	assert_int_equal(sock.ar.kept, strlen(FRONT));
	gets_all("in ");
	goes_over();
	assert_true(steps());
	gets_all("frontabcdef");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, broken, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_read),
		CASE(test_waits),
		CASE(test_gave_up),
	};
	const struct sock_hooks lent = { .recv = recv, .ppoll = ppoll };

	alarm(120);
	sock_setup(&lent);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
