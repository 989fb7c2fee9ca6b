/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How long a wait for another host spins, and what a signal is to it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "socket/life/life.h"

#define LOOK_NS 1000u

static uint64_t now_ns = 1000000000;
static uint64_t found_at; /* something is there from then on; 0: never */
static uint64_t signal_at; /* SIGUSR1 comes then; 0: none does */
static int handled;

static int stopped_clock(clockid_t id, struct timespec *ts)
{
	(void)id;
	ts->tv_sec = (time_t)(now_ns / 1000000000u);
	ts->tv_nsec = (long)(now_ns % 1000000000u);
	return 0;
}

static void __attribute__((constructor)) stop_clock(void)
{
	clock_source = stopped_clock;
}

static void on_signal(int sig)
{
	(void)sig;
	handled++;
}

static bool look(struct end *e)
{
	(void)e;
	now_ns += LOOK_NS;
	if (signal_at && now_ns >= signal_at) {
		signal_at = 0;
		raise(SIGUSR1);
	}
	return found_at && now_ns >= found_at;
}

static const struct fabric_ops ops = { .pending = look };
static struct end an_end = { .ops = &ops };
static struct anc_dir rx = { .state = ANC_LIFTED };
static struct anc_side side[2];
static struct rdma rd;
static struct sock s;

/* A sock over RDMA. */
static void setup_one(void)
{
	memset(&s, 0, sizeof(s));
	s.paired = true;
	s.rd = &rd;
	s.link = &rdma_link;
	s.end = &an_end;
	s.rx = &rx;
	s.own = &side[0];
	s.peer = &side[1];
	s.waits.orphan_fd = -1;
	s.own->bound = 0;
	settings.spin_us = 50;
	settings.spin_rdma_us = 2000;
	found_at = signal_at = 0;
	handled = 0;
}

static void woken_after(uint64_t ns)
{
	spin_to_sleep(&s);
	now_ns += 5000000;
	spin_rung(&s);
	now_ns += ns;
	spin_awake(&s);
}

/* As the last eight were. */
static void woken_all(uint64_t ns)
{
	int i;

	for (i = 0; i < 8; i++)
		woken_after(ns + (uint64_t)i);
}

static void test_measure(void **state)
{
	(void)state;
	setup_one();
	assert_int_equal(sock_spin_ns(&s), 50000);
	woken_all(100000);
	assert_in_range(sock_spin_ns(&s), 800000, 801000);
	/* three that were quick, or slow, do not count; five do */
	woken_after(20000);
	woken_after(20000);
	woken_after(20000);
	assert_in_range(sock_spin_ns(&s), 800000, 801000);
	woken_all(100000);
	woken_after(90000000);
	woken_after(90000000);
	woken_after(90000000);
	assert_in_range(sock_spin_ns(&s), 800000, 801000);
	woken_after(20000);
	woken_after(20000);
	woken_after(20000);
	woken_after(20000);
	woken_after(20000);
	assert_in_range(sock_spin_ns(&s), 160000, 161000);
	woken_all(100000);
	assert_in_range(sock_spin_ns(&s), 800000, 801000);
	/* a wake-up that found no thread asleep is none */
	spin_rung(&s);
	spin_to_sleep(&s);
	spin_awake(&s);
	assert_in_range(sock_spin_ns(&s), 800000, 801000);
	woken_all(100);
	assert_int_equal(sock_spin_ns(&s), 50000);
}

static void test_bounds(void **state)
{
	(void)state;
	setup_one();
	woken_all(3000000000u);
	assert_int_equal(sock_spin_ns(&s), 2000000);
	settings.spin_rdma_us = 0;
	assert_int_equal(sock_spin_ns(&s), 50000);
	settings.spin_rdma_us = 2000;
	settings.spin_us = 5000;
	assert_int_equal(sock_spin_ns(&s), 5000000);
	settings.spin_us = 0;
	assert_int_equal(sock_spin_ns(&s), 0);
	settings.spin_us = 50;
	/* one processor alone, or the peer on this host */
	s.own->bound = 1;
	assert_int_equal(sock_spin_ns(&s), 50000);
	s.own->bound = 0;
	s.rd = NULL;
	s.link = NULL;
	assert_int_equal(sock_spin_ns(&s), 50000);
}

/*
 * A spin that ended late was kept from a processor, and is rested from; not
 * where being woken takes longer.
 */
static void test_late(void **state)
{
	(void)state;
	setup_one();
	woken_all(200000);
	sock_spin_ended(now_ns, now_ns - 1000000, 1600000);
	assert_in_range(sock_spin_ns(&s), 1600000, 1601000);
	/* of a short one that is late */
	sock_spin_ended(now_ns, now_ns - 1000000, 50000);
	assert_int_equal(sock_spin_ns(&s), 0);
	now_ns += 10000000;
	/* nor longer than all may spin: that is a crowd */
	woken_all(5000000);
	sock_spin_ended(now_ns, now_ns - 3000000, 5000000);
	assert_int_equal(sock_spin_ns(&s), 0);
	now_ns += 10000000;
	woken_all(1000);
	sock_spin_ended(now_ns, now_ns - 1000000, 2000000);
	assert_int_equal(sock_spin_ns(&s), 0);
	now_ns += 20000000;
	assert_int_equal(sock_spin_ns(&s), 50000);
}

/* A spin of up to 2 ms, SIGUSR1 and a message so many us after its begin. */
static int spin(enum spin_how how, int flags, uint64_t sig, uint64_t found)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };
	sigset_t before, after;
	int ret;

	setup_one();
	woken_all(1000000);
	assert_int_equal(sigaction(SIGUSR1, &sa, NULL), 0);
	sigprocmask(SIG_SETMASK, NULL, &before);
	signal_at = sig ? now_ns + sig * 1000 : 0;
	found_at = found ? now_ns + found * 1000 : 0;
	lock_take(&s.lock);
	ret = spin_rx(&s, ANC_LIFTED, UINT64_MAX, how);
	assert_int_equal(s.waits.readers + s.in.users, 0);
	sock_unlock(&s);
	sigprocmask(SIG_SETMASK, NULL, &after);
	assert_memory_equal(&before, &after, 8);
	return ret;
}

/* A time limit ends the spin, and is no lateness. */
static void test_limit(void **state)
{
	uint64_t begun;
	uint64_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		setup_one();
		woken_all(1000000);
		begun = now_ns;
		lock_take(&s.lock);
		assert_int_equal(spin_rx(&s, ANC_LIFTED, begun + 300000 * i,
					 SPIN_ENDS),
				 0);
		sock_unlock(&s);
		assert_in_range(now_ns - begun, 300000 * i, 300000 * i + 70000);
		s.waits.spin_skip = 0;
		assert_int_equal(sock_spin_ns(&s), 2000000);
	}
}

static void test_signals(void **state)
{
	(void)state;
	assert_int_equal(spin(SPIN_RESTARTS, 0, 0, 0), 0);
	assert_int_equal(spin(SPIN_RESTARTS, 0, 0, 1000), 1);
	/* as one just before the call */
	assert_int_equal(spin(SPIN_RESTARTS, 0, 20, 0), 0);
	assert_int_equal(handled, 1);
	/* what it would do to the kernel's wait */
	assert_int_equal(spin(SPIN_RESTARTS, 0, 500, 0), -EINTR);
	assert_int_equal(handled, 1);
	assert_int_equal(spin(SPIN_RESTARTS, SA_RESTART, 500, 0), 0);
	assert_int_equal(handled, 1);
	assert_int_equal(spin(SPIN_ENDS, SA_RESTART, 500, 0), -EINTR);
	assert_int_equal(handled, 1);
	/* what has come goes first */
	assert_int_equal(spin(SPIN_ENDS, 0, 500, 1000), 1);
	assert_int_equal(handled, 1);
	/* no more than spin_us, and nothing is held back */
	assert_int_equal(spin(SPIN_BRIEF, 0, 500, 1000), 0);
	assert_int_equal(handled, 0);
}

/* --- a send on its own ear ------------------------------------------------ */

static int ear[2];

static int its_ear(struct end *e)
{
	(void)e;
	return ear[0];
}

static int be_deaf(struct end *e, bool on)
{
	(void)e;
	(void)on;
	return 0;
}

static int arm(struct end *e, bool solicited)
{
	(void)e;
	(void)solicited;
	return 0;
}

/* The completion is taken, it brought no room, and with it a signal came. */
static void hear(struct end *e)
{
	char byte;

	(void)e;
	assert_int_equal(read(ear[0], &byte, 1), 1);
	raise(SIGUSR1);
	assert_int_equal(handled, 0);
}

static uint32_t no_room(struct end *e)
{
	(void)e;
	return 0;
}

static int nothing_came(struct end *e, struct fab_msg *m)
{
	(void)e;
	(void)m;
	return 0;
}

/* It has to end the send, as it would end the kernel's: none comes again. */
static void test_signal_beside_a_completion(void **state)
{
	const struct verbs_api api = {
		.ear = its_ear, .deaf = be_deaf, .heard = hear, .arm = arm
	};
	const struct fabric_ops full = { .pending = look,
					 .poll = nothing_came,
					 .room = no_room };
	struct sigaction sa = { .sa_handler = on_signal };
	struct end end = { .ops = &full };
	int wake[2];

	(void)state;
	setup_one();
	settings.spin_us = 0;
	settings.stall_ms = 60000;
	rdma_api = &api;
	assert_int_equal(pipe(ear), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, wake), 0);
	assert_int_equal(sigaction(SIGUSR1, &sa, NULL), 0);
	rd.state = RDMA_UP;
	rd.owner = sock_pid;
	rd.end = s.end = &end;
	rd.far = -1;
	remote_init(&rd.words, &rd.mirror, &s.at, &s.ar);
	s.tx = rd.words.tx;
	s.rx = rd.words.rx;
	s.tx->state = s.rx->state = ANC_LIFTED;
	s.waits.wake = wake[0];
	s.stats.row = &sock_spare;
	s.stats.row_pid = -1;
	s.conn.state = CONN_EST;
	assert_int_equal(write(ear[1], "", 1), 1);
	lock_take(&s.lock);
	assert_int_equal(wait_tx(&s, -1, UINT64_MAX, false), -EINTR);
	sock_unlock(&s);
	assert_int_equal(handled, 1);
}

/* A wait for room behind much that is under way does not spin. */
static void test_much(void **state)
{
	uint64_t then = now_ns;

	(void)state;
	setup_one();
	rd.load.fat = true;
	assert_false(spin_tx(&s));
	assert_int_equal(now_ns, then);
	rd.load.fat = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_measure),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_much),
		cmocka_unit_test(test_signal_beside_a_completion),
	};
	const struct sock_hooks lent = { .ppoll = ppoll };

	sock_setup(&lent);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
