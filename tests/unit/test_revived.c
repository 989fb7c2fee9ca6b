/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * On one host: the writer was killed while it wrote back what its reader had
 * handed to it. What it had written comes once, and so does the rest, whichever
 * threads receive meanwhile.
 */
#include "both_util.h"

#include <pthread.h>

#include "sdp_proto/wire.h"

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

/* --- a receive while the copy is thrown away ------------------------------- */

#define LARGE 120000
#define COPY  50000 /* so much of it was written back */

static uint8_t large[WIRE_BSDH + LARGE];

static int front_large(struct end *e, struct fab_msg *m)
{
	(void)e;
	*m = (struct fab_msg){ .mem = large, .len = sizeof(large) };
	return sock.got.avail > 0;
}

static int next_large(struct end *e, bool own, struct fab_walk *w,
		      struct fab_msg *m)
{
	return !own && !w->off++ ? front_large(e, m) : 0;
}

static struct fabric_ops large_ops;

static int killed_large(void **state)
{
	size_t i;

	one_host(state);
	large[0] = WIRE_DATA;
	for (i = 0; i < LARGE; i++)
		large[WIRE_BSDH + i] = (uint8_t)(i / 250 + i % 250);
	large_ops = ops;
	large_ops.front = front_large;
	large_ops.next = next_large;
	end.ops = &large_ops;
	sock.rx->y = ANC_OPEN;
	sock.rx->sent = sock.got.avail = LARGE;
	sock.got.stale = true;
	sock.rx->state = ANC_RESTORING;
	on_anchor(large + WIRE_BSDH, COPY);
	assert_int_equal(shutdown(writer.fd, SHUT_WR), 0);
	sock.peer_gone = true;
	return 0;
}

/* The first byte that is not in its place, or LARGE. */
static void *receives(void *arg)
{
	size_t *at = arg;
	uint8_t got[8];
	ssize_t n = 1;

	while (*at < LARGE && n > 0) {
		n = sock_recv(&sock, fd, got, sizeof(got), 0);
		if (n > 0 &&
		    memcmp(got, large + WIRE_BSDH + *at, (size_t)n) != 0)
			break;
		__atomic_fetch_add(at, n > 0 ? (size_t)n : 0, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void test_meanwhile(void **state)
{
	pthread_t t;
	size_t at = 0;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, receives, &at), 0);
	while (__atomic_load_n(&at, __ATOMIC_SEQ_CST) < COPY / 10)
		;
	while (brought_back() == -EAGAIN)
		;
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(at, LARGE);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, killed, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_receives),
		CASE(test_stand_in),
		CASE(test_inside),
		CASE(test_refused),
		CASE(test_quicker),
		cmocka_unit_test_setup_teardown(test_meanwhile, killed_large,
						tear_down),
	};
	const struct sock_hooks lent = { .recv = recv, .ppoll = ppoll };

	alarm(120);
	sock_setup(&lent);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
