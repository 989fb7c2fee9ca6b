/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How much a receive reads at once from another host's memory; by a clock of
 * its own. */

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "far_util.h"

#define AHEAD 2u

/* Reads under way, oldest first; the device does one after the other. */
static struct reading {
	uint64_t id, at;
	size_t len;
} under_way[AHEAD];
static unsigned int count;
static uint64_t free_at;
static uint64_t per_mib_us;
static unsigned int regions, looks, reads_begun, most_under_way;
static unsigned int look_us;
static bool stuck, down;
static volatile sig_atomic_t handled;
static unsigned int fails_at; /* this read, counted from 1, brings an error */
static unsigned int unregistered_at;
static void (*in_between)(void); /* behind the first piece */

static int read_begins(struct end *e, void *to, uint64_t vaddr, uint32_t rkey,
		       size_t len, uint64_t id)
{
	(void)e;
	(void)rkey;
	assert_int_equal((uintptr_t)to, vaddr);
	assert_true(count < AHEAD);
	assert_int_equal(regions, count + 1);
	if (free_at < now_us)
		free_at = now_us;
	free_at += per_mib_us * len / MIB;
	under_way[count++] = (struct reading){ id, free_at, len };
	if (count > most_under_way)
		most_under_way = count;
	reads_begun++;
	return 0;
}

/* Each look takes its time. */
static int read_done(struct end *e, struct fab_done *d)
{
	(void)e;
	looks++;
	now_us += look_us;
	if (stuck || !count || now_us < under_way[0].at)
		return 0;
	*d = (struct fab_done){ .id = under_way[0].id,
				.len = under_way[0].len };
	if (fails_at && reads_begun - count + 1 == fails_at) {
		d->status = -ECONNRESET;
		d->len = 0;
	}
	under_way[0] = under_way[1];
	count--;
	if (in_between)
		in_between();
	return 1;
}

static int reg(struct end *e, void *mem, size_t len, bool remote_read,
	       bool remote_write, struct verbs_region *r)
{
	(void)e;
	(void)mem;
	(void)len;
	assert_false(remote_read || remote_write);
	if (unregistered_at && reads_begun + 1 == unregistered_at)
		return -ENOMEM;
	r->mr = r;
	regions++;
	return 0;
}

static void dereg(struct end *e, struct verbs_region *r)
{
	(void)e;
	if (r->mr)
		regions--;
	r->mr = NULL;
}

static void disconnect(struct end *e)
{
	(void)e;
	down = true;
	count = 0;
}

static const struct fabric_ops ops = { .read = read_begins, .done = read_done };
static const struct verbs_api api = { .reg = reg,
				      .dereg = dereg,
				      .disconnect = disconnect };

static void setup_one(struct sock *s, struct rdma *r, struct end *e)
{
	far_setup(s, r, e, &ops);
	rdma_api = &api;
	settings.zcopy_wait_ms = 40;
	s->conn.may_read = true;
	s->conn.peer_rcv_size = 8192;
	stuck = down = false;
	in_between = NULL;
	fails_at = unregistered_at = 0;
	look_us = 100;
}

/* So much is lent, and wanted by one receive. */
static size_t take(struct sock *s, uint32_t len)
{
	size_t n;

	s->conn.peer_src[0] = (struct conn_advert){ .vaddr = 4096, .len = len };
	s->conn.peer_src_count = 1;
	s->conn.read_failed = s->conn.refuse = false;
	reads_begun = most_under_way = count = 0;
	n = zcr_read(s, (void *)4096, len);
	assert_int_equal(regions, 0);
	assert_int_equal(s->conn.reads, 0);
	assert_int_equal(s->conn.peer_src[0].done, n);
	return n;
}

/* All of it, which takes so long. */
static void reads(struct sock *s, uint32_t len, uint64_t us)
{
	per_mib_us = us * MIB / len;
	assert_int_equal(take(s, len), len);
	assert_int_equal(s->zc.broke, 0);
}

static void test_grows(void **state)
{
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	assert_int_equal(zcr_read_most(&s), 256 * KIB);
	/* 256 MiB/s: 20 ms are more than the most */
	reads(&s, 256 * KIB, 1000);
	assert_int_equal(zcr_read_most(&s), 4 * MIB);
	reads(&s, MIB, 4000);
	assert_int_equal(zcr_read_most(&s), 4 * MIB);
	/* 64 MiB/s: a quarter more than a MiB */
	reads(&s, MIB, 16000);
	assert_in_range(zcr_read_most(&s), 1240 * KIB, 1280 * KIB);
}

/* The writer does not wait longer for a report, and would go on by copy. */
static void test_in_time(void **state)
{
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	settings.zcopy_wait_ms = 1;
	/* 100 MiB/s: half a MiB in 5 ms */
	reads(&s, 256 * KIB, 2400);
	assert_in_range(zcr_read_most(&s), 480 * KIB, 540 * KIB);
	settings.zcopy_wait_ms = 1000;
	assert_in_range(zcr_read_most(&s), 1920 * KIB, 2160 * KIB);
}

static void test_shrinks(void **state)
{
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	reads(&s, 256 * KIB, 100);
	assert_int_equal(zcr_read_most(&s), 4 * MIB);
	/* 1 MiB/s, all of a sudden */
	reads(&s, 256 * KIB, 250000);
	assert_int_equal(zcr_read_most(&s), 256 * KIB);
	/* what is small shows how far it is, not how fast */
	reads(&s, 256 * KIB, 100);
	reads(&s, 16 * KIB, 250000);
	assert_int_equal(zcr_read_most(&s), 4 * MIB);
}

static uint64_t real_ms(void)
{
	struct timespec ts;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* What takes long is not looked for all the time; what does not is. */
static void test_rests(void **state)
{
	unsigned int i, n;
	uint64_t begun;
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	reads(&s, MIB, 16000);
	begun = real_ms();
	reads(&s, MIB, 16000);
	assert_true(real_ms() - begun >= 7);
	/* however slow it was, no more than half of what a piece may take */
	reads(&s, 256 * KIB, 900000);
	begun = real_ms();
	reads(&s, 256 * KIB, 100);
	assert_true(real_ms() - begun >= 9);
	/* that was too long: it is not done again soon, and then later */
	for (n = 4; n <= 16; n *= 2) {
		assert_int_equal(s.zc.awake, n);
		s.zc.pace = 1000000;
		begun = real_ms();
		looks = 0;
		for (i = 0; i < n; i++) {
			reads(&s, 256 * KIB, 2000);
			s.zc.pace = 1000000;
		}
		assert_int_equal(looks, 20 * n);
		assert_int_equal(s.zc.awake, 0);
		reads(&s, 256 * KIB, 100);
		assert_true(real_ms() - begun >= 9);
	}
	/* until it paid once */
	s.zc.awake = 0;
	s.zc.pace = 1000000;
	reads(&s, 256 * KIB, 30000);
	assert_int_equal(s.zc.awakes, 0);
}

/*
 * A read that does not end gives the queue pair up, however fast the last was.
 */
static void test_gives_up(void **state)
{
	uint64_t begun;
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	reads(&s, MIB, 10000);
	assert_false(down);
	begun = now_us;
	stuck = true;
	look_us = 2000;
	assert_int_equal(take(&s, MIB), 0);
	assert_true(down);
	assert_int_equal(s.zc.broke, -ETIMEDOUT);
	assert_in_range(now_us - begun, 1000000, 1004000);
	/* and one begins small again */
	assert_int_equal(zcr_read_most(&s), 256 * KIB);
}

/* The device always has the next piece, and nothing comes too late for one. */
static void test_pieces(void **state)
{
	uint64_t begun;
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	begun = now_us;
	reads(&s, 256 * KIB, 4000);
	assert_int_equal(reads_begun, 1);
	reads(&s, MIB, 16000);
	assert_int_equal(reads_begun, 4);
	assert_int_equal(most_under_way, 2);
	reads(&s, 4 * MIB, 16000);
	assert_int_equal(reads_begun, 4);
	reads(&s, 300 * KIB, 3600);
	assert_int_equal(reads_begun, 2);
	assert_in_range(now_us - begun, 39600, 41000);
	/* it has become slow: what is begun behind its time is not */
	per_mib_us = 16000;
	assert_int_equal(take(&s, 4 * MIB), 3 * MIB);
}

static void signal_comes(void)
{
	if (!handled)
		raise(SIGUSR1);
	assert_false(handled);
}

static void handle(int sig)
{
	(void)sig;
	handled = 1;
}

/* One that is waited for takes what the device has already, and no more. */
static void test_wanted(void **state)
{
	struct sigaction sa = { .sa_handler = handle };
	unsigned int i;
	struct rdma r;
	struct sock s;
	struct end e;
	sigset_t usr1;

	(void)state;
	setup_one(&s, &r, &e);
	per_mib_us = 16000;
	sigaction(SIGUSR1, &sa, NULL);
	in_between = signal_comes;
	assert_int_equal(take(&s, MIB), 512 * KIB);
	/* under a sanitizer a handler runs at the next call that it knows */
	for (i = 0; i < 5000 && !handled; i++)
		usleep(1000);
	assert_int_equal(handled, 1);
	/* what the program itself has put off does not count */
	in_between = NULL;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	raise(SIGUSR1);
	assert_int_equal(take(&s, MIB), MIB);
	sigprocmask(SIG_UNBLOCK, &usr1, NULL);
}

/* What came before a piece that failed is the program's, the rest is not. */
static void test_breaks(void **state)
{
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	per_mib_us = 16000;
	for (fails_at = 1; fails_at <= 4; fails_at++) {
		assert_int_equal(take(&s, MIB), (fails_at - 1) * 256 * KIB);
		assert_int_equal(s.zc.broke, -ECONNRESET);
		assert_true(s.conn.read_failed);
		s.zc.broke = 0;
	}
	fails_at = 0;
	for (unregistered_at = 1; unregistered_at <= 4; unregistered_at++) {
		assert_int_equal(take(&s, MIB),
				 (unregistered_at - 1) * 256 * KIB);
		assert_int_equal(s.zc.broke, 0);
		/* beside another one: that says little */
		assert_int_equal(s.zc.rx_off, unregistered_at == 1);
		s.zc.rx_off = false;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grows),	 cmocka_unit_test(test_in_time),
		cmocka_unit_test(test_shrinks),	 cmocka_unit_test(test_rests),
		cmocka_unit_test(test_gives_up), cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_wanted),	 cmocka_unit_test(test_breaks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
