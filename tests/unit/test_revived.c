/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * On one host: the writer was killed while it wrote back what its reader had
 * handed to it. What it had written comes once, and so does the rest, whichever
 * threads receive meanwhile.
 */
#include "both_util.h"

#define GIVEN	"handed back"
#define WRITTEN 6 /* bytes of it that are on the anchor */

static int killed(void **state)
{
	one_host(state);
	sock.rx->state = ANC_LIFTED;
	sock.rx->y = writer.at.y = ANC_OPEN;
	arrives(GIVEN);
	assert_int_equal(pump_poll(&sock), 0);
	sock.got.stale = true;
	sock.rx->state = ANC_RESTORING;
	on_anchor(GIVEN, WRITTEN);
	assert_int_equal(shutdown(writer.fd, SHUT_WR), 0);
	sock.peer_gone = true;
	return 0;
}

static int brought_back(void)
{
	int ret;

	assert_int_equal(lock_take(&sock.lock), 0);
	ret = fallback_rx(&sock, fd, WHY_EXEC);
	lock_drop(&sock.lock);
	return ret;
}

static void test_receives(void **state)
{
	char byte;

	(void)state;
	gets_all(GIVEN);
	assert_int_equal(sock_recv(&sock, fd, &byte, 1, 0), 0);
}

/* What was written back is read from here on, or lies in the stand-in. */
static void test_stand_in(void **state)
{
	char byte;

	(void)state;
	gets_all("han");
	assert_int_equal(brought_back(), 0);
	assert_true(sock_substituted(&sock));
	gets_all("ded back");
	assert_int_equal(sock_recv(&sock, fd, &byte, 1, 0), 0);
}

/* It has bytes that are not counted, or will take some. */
static void test_inside(void **state)
{
	int n = 0;

	(void)state;
	assert_true(anc_tcp_enter(sock.rx, &sock.ar));
	assert_int_equal(brought_back(), -EAGAIN);
	assert_true(keep_revived(&sock, fd, 0)); /* look again */
	assert_int_equal(anc_state(sock.rx), ANC_RESTORING);
	assert_int_equal(ioctl(fd, FIONREAD, &n), 0);
	assert_int_equal(n, WRITTEN);
	anc_tcp_leave(sock.rx);
	gets_all(GIVEN);
}

static void test_refused(void **state)
{
	(void)state;
	assert_true(anc_revive_begin(sock.rx, &sock.ar));
	assert_false(anc_tcp_enter(sock.rx, &sock.ar));
	assert_int_equal(sock.rx->tcp_rx, 0);
	anc_revive(sock.rx, &sock.ar);
	assert_int_equal(anc_state(sock.rx), ANC_RECALLED);
	assert_false(sock.ar.unsure);
}

/* Another thread was quicker than the one that met the anchor's end. */
static void test_quicker(void **state)
{
	(void)state;
	assert_false(keep_revived(&sock, fd, -EAGAIN));
	assert_int_equal(brought_back(), 0);
	assert_true(keep_revived(&sock, fd, 0));
	gets_all(GIVEN);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, killed, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_receives), CASE(test_stand_in), CASE(test_inside),
		CASE(test_refused),  CASE(test_quicker),
	};
	const struct sock_hooks lent = { .recv = recv, .ppoll = ppoll };

	alarm(120);
	sock_setup(&lent);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
