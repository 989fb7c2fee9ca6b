/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Numbers that were once enough: how long a receive waits for threads that are
 * inside since before the switch, how many kicks a connection has, and how many
 * connections the background thread looks after.
 */
#include "both_util.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

/* --- threads inside since before the switch ------------------------------- */

static void *reads_tail(void *got)
{
	char buf[64];

	*(ssize_t *)got = sock_recv(&sock, fd, buf, sizeof(buf), 0);
	return got;
}

/* Behind a stall: a kick, and then what a receive is to bring. */
static void kick_and_tail(void)
{
	lifts();
	stalls();
	says("tail");
}

static uint32_t naps(void)
{
	return __atomic_load_n(&sock.fallback.kick_naps, __ATOMIC_RELAXED);
}

/* A thread of a process that lives, however long it does not run. */
static void t_there(void **state)
{
	struct holder *h;
	ssize_t got = -1;
	pid_t pid = fork();
	pthread_t t;

	(void)state;
	if (!pid)
		for (;;)
			pause();
	kick_and_tail();
	h = holder_new(&sock, pid, -1);
	assert_non_null(h);
	h->inside[HOLDS_RX] = 1;
	sock.rx->tcp_rx = 1;
	assert_int_equal(pthread_create(&t, NULL, reads_tail, &got), 0);
	while (naps() < 400)
		usleep(1000);
	assert_int_equal(__atomic_load_n(&sock.rx->tcp_rx, __ATOMIC_SEQ_CST),
			 1);
	assert_false(sock.in.strayed);
	/* it comes out */
	__atomic_store_n(&h->inside[HOLDS_RX], 0, __ATOMIC_SEQ_CST);
	anc_tcp_leave(sock.rx);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(got, 4);
	assert_int_equal(sock.rx->tcp_rx, 0);
	assert_int_equal(sock.fallback.kick_naps, 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* One that is not known is counted out, with all that it was counted in. */
static void t_lost(void **state)
{
	ssize_t got = -1;
	pthread_t t;

	(void)state;
	kick_and_tail();
	sock.rx->tcp_rx = 1;
	sock.in.users = 1;
	assert_int_equal(pthread_create(&t, NULL, reads_tail, &got), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(got, 4);
	assert_int_equal(sock.rx->tcp_rx, 0);
	assert_int_equal(sock.in.users, 0);
}

/* It comes back after all. */
static void t_back(void **state)
{
	t_lost(state);
	anc_tcp_leave(sock.rx);
	assert_int_equal(sock.rx->tcp_rx, 0);
}

/* --- kicks ------------------------------------------------------------------ */

static void t_kicks(void **state)
{
	struct anc_dir *d = sock.tx;
	struct anc_rx reader = { 0 };
	char got[3];

	(void)state;
	assert_int_equal(sock_send(&sock, fd, "abc", 3, 0), 3);
	assert_int_equal(recv(writer.fd, got, 3, MSG_WAITALL), 3);
	anc_taken(d, &reader, 3);
	sock.peer->ready = 1;
	sock.peer->counted = ANC_COUNTED_RX;
	lift_try_tx(&sock, fd);
	assert_int_equal(anc_state(d), ANC_LIFTED);
	sock.at.kicks = 3000000;
	d->kicks = 3000000;
	while (recv(writer.fd, got, 1, MSG_DONTWAIT) == 1)
		;
	/* a thread sleeps there */
	assert_int_equal(lock_take(&sock.lock), 0);
	anc_arm(d, ANC_ANCHOR);
	ring_reader(&sock, fd);
	lock_drop(&sock.lock);
	assert_int_equal(d->kicks, 3000001);
	assert_int_equal(recv(writer.fd, got, 1, 0), 1);
}

/* --- the registry ----------------------------------------------------------- */

#define MANY 70000u

static void count(struct sock *s, void *n)
{
	assert_ptr_equal(s, &sock);
	++*(unsigned int *)n;
}

static void t_many(void **state)
{
	unsigned int i, n = 0;

	(void)state;
	for (i = 0; i < MANY; i++)
		service_add(&sock);
	service_each(count, &n);
	assert_int_equal(n, MANY);
	for (i = 0; i < MANY; i++)
		service_del(&sock);
	n = 0;
	service_each(count, &n);
	assert_int_equal(n, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, one_host, tear_down)

#if defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#else
#define UNDER_SANITIZER 0
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(t_there), CASE(t_lost), CASE(t_back),
		CASE(t_kicks), CASE(t_many),
	};
	const struct sock_hooks lent = {
		.recv = recv, .send = send, .sendmsg = sendmsg, .ppoll = ppoll
	};

	alarm(60);
	sock_setup(&lent);
	if (UNDER_SANITIZER)
		return 77; /* the test looks at a count without the lock */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
