/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The shared-memory fabric: segment checks, ring and lane. */

#include "shm_util.h"

#include <sys/resource.h>

/* --- segment ----------------------------------------------------------- */

static void test_segment(void **state)
{
	struct two t;
	uint64_t *w;
	int i;

	(void)state;
	two_make(&t, 65536);
	assert_int_equal(t.a.seg.len, 4096 + 2 * 65536);
	w = shm_words(&t.a.seg);
	for (i = 0; i < SHM_WORDS_LEN / 8; i++)
		assert_true(w[i] == 0);
	w[3] = 77;
	assert_true(((uint64_t *)shm_words(&t.b.seg))[3] == 77);
	assert_int_equal(ftruncate(t.fd, 4096), -1);
	assert_int_equal(fcntl(t.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	two_drop(&t);
	assert_int_equal(shm_make(&t.a.seg, 4096), -EINVAL);
	assert_int_equal(shm_make(&t.a.seg, 65536 + 64), -EINVAL);
	assert_int_equal(shm_make(&t.a.seg, 2 * SHM_RING_HIGH), -EINVAL);
}

static int open_with(int seals, off_t size, size_t stated, const void *head)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;
	struct shm_seg s = { 0 };

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size + 2 * (off_t)SHM_KEEP), 0);
	if (head)
		assert_int_equal(pwrite(fd, head, 24, 0), 24);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	err = shm_open_seg(&s, fd, stated);
	if (!err)
		shm_unmap(&s);
	close(fd);
	return err;
}

static uint8_t pattern(uint64_t at)
{
	return (uint8_t)(at * 7 + (at >> 12));
}

/*
 * n bytes from `at` on, written or compared. Returns windows it took, or
 * -errno.
 */
static int keep(struct shm_end *e, bool tx, uint64_t at, size_t n, bool put)
{
	struct shm_keep a = { 0 };
	int windows = 0;
	ssize_t len = 0;
	uint8_t *mem;
	size_t i;

	for (; n; n -= (size_t)len, at += (uint64_t)len, windows++) {
		len = shm_keep_at(&a, e, tx, at, &mem);
		if (len <= 0)
			break;
		if ((size_t)len > n)
			len = (ssize_t)n;
		for (i = 0; i < (size_t)len; i++) {
			if (put)
				mem[i] = pattern(at + i);
			else if (mem[i] != pattern(at + i))
				fail_msg("byte %zu of %llu is wrong", i,
					 (unsigned long long)at);
		}
	}
	shm_keep_close(&a);
	return n ? (int)len : windows;
}

static uint8_t keep_byte(struct shm_end *e, bool tx, uint64_t at)
{
	struct shm_keep a = { 0 };
	uint8_t *mem, is;

	assert_true(shm_keep_at(&a, e, tx, at, &mem) > 0);
	is = *mem;
	shm_keep_close(&a);
	return is;
}

static void keep_set(struct shm_end *e, bool tx, uint64_t at, uint8_t v)
{
	struct shm_keep a = { 0 };
	uint8_t *mem;

	assert_true(shm_keep_at(&a, e, tx, at, &mem) > 0);
	*mem = v;
	shm_keep_close(&a);
}

/*
 * What one end puts into a keep area the other finds there, until it is gone.
 */
static void test_keep(void **state)
{
	static const uint64_t places[] = { 0,	  1,	   4095,     4096,
					   65535, 1044480, 33554431, 67108863 };
	struct shm_keep a = { 0 };
	struct two t;
	uint8_t *mem;
	size_t i;

	(void)state;
	two_make(&t, 65536);
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		keep_set(&t.a, false, places[i], (uint8_t)(i + 1));
		keep_set(&t.a, true, places[i], (uint8_t)(i + 101));
	}
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		assert_int_equal(keep_byte(&t.b, true, places[i]), i + 1);
		assert_int_equal(keep_byte(&t.b, false, places[i]), i + 101);
	}
	/* to the last byte, and no further */
	assert_int_equal(shm_keep_at(&a, &t.a, true, SHM_KEEP - 1, &mem), 1);
	assert_int_equal(shm_keep_at(&a, &t.a, true, SHM_KEEP, &mem), -EINVAL);
	shm_keep_close(&a);
	shm_keep_drop(&t.b, true, 40000000);
	assert_int_equal(keep_byte(&t.a, false, 33554431), 0);
	assert_int_equal(keep_byte(&t.a, false, 67108863), 8);
	assert_int_equal(keep_byte(&t.a, true, 33554431), 107);
	two_drop(&t);
}

static void little_space(struct two *t, uint64_t spare)
{
	struct rlimit rl = { 0, RLIM_INFINITY };
	uint64_t pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%llu", (unsigned long long *)&pages) != 1)
		_exit(2);
	fclose(f);
	rl.rlim_cur = pages * 4096 + spare;
	if (setrlimit(RLIMIT_AS, &rl))
		_exit(3);
	if (keep(&t->a, false, 3000000, 200000, true) < 0 ||
	    keep(&t->b, false, 60000000, 100000, true) < 0)
		_exit(4);
	_exit(0);
}

/* A process that has hardly any address space left gets at it all the same. */
static void test_keep_space(void **state)
{
	static const uint64_t spare[] = { 0, 20480, 300000, 16777216 };
	struct two t;
	int status;
	size_t i;
	pid_t pid;

	(void)state;
	two_make(&t, 65536);
	for (i = 0; i < sizeof(spare) / sizeof(spare[0]); i++) {
		pid = fork();
		assert_true(pid >= 0);
		if (!pid)
			little_space(&t, spare[i]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		assert_true(keep(&t.b, true, 3000000, 200000, false) > 0);
		shm_keep_drop(&t.b, true, SHM_KEEP);
	}
	two_drop(&t);
}

static void test_unsound(void **state)
{
	const int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	const size_t len = 4096 + 2 * 65536;
	struct {
		uint64_t magic, size;
		uint32_t version, ring;
	} h = { SHM_MAGIC, len, SHM_VERSION, 65536 }, bad;
	struct shm_seg s = { 0 };
	int p[2];

	(void)state;
	assert_int_equal(open_with(all, (off_t)len, len, &h), 0);
	assert_int_equal(open_with(0, (off_t)len, len, &h), -EPROTO);
	assert_int_equal(open_with(F_SEAL_GROW, (off_t)len, len, &h), -EPROTO);
	assert_int_equal(open_with(all & ~F_SEAL_SHRINK, (off_t)len, len, &h),
			 -EPROTO);
	assert_int_equal(open_with(all & ~F_SEAL_SEAL, (off_t)len, len, &h),
			 -EPROTO);
	assert_int_equal(open_with(all, (off_t)len - 1, len, &h), -EPROTO);
	assert_int_equal(open_with(all, (off_t)len, len + 1, &h), -EPROTO);
	assert_int_equal(open_with(all, 100, 100, &h), -EPROTO);
	assert_int_equal(open_with(all, 0, 0, NULL), -EPROTO);
	assert_int_equal(open_with(all, (off_t)len, len, NULL), -EPROTO);
	bad = h;
	bad.magic++;
	assert_int_equal(open_with(all, (off_t)len, len, &bad), -EPROTO);
	bad = h;
	bad.version++;
	assert_int_equal(open_with(all, (off_t)len, len, &bad), -EPROTO);
	bad = h;
	bad.ring *= 2;
	assert_int_equal(open_with(all, (off_t)len, len, &bad), -EPROTO);
	assert_int_not_equal(open_with(all | F_SEAL_WRITE, (off_t)len, len, &h),
			     0);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(shm_open_seg(&s, p[0], len), -EPROTO);
	close(p[0]);
	close(p[1]);
	assert_int_equal(shm_open_seg(&s, -1, len), -EPROTO);
}

/* --- ring -------------------------------------------------------------- */

/* Random sends, polls, late releases; both directions from one thread. */
static void walk(uint32_t ring, uint64_t seed, int steps)
{
	uint64_t s = seed * 2654435761u + 88172645463325252ull;
	uint64_t sent = 0, polled = 0, freed = 0;
	struct fab_msg m;
	struct two t;
	int i, burst;

	two_make(&t, ring);
	if (seed & 1) { /* exercise the other ring */
		struct shm_end x = t.a;

		t.a = t.b;
		t.b = x;
	}
	for (i = 0; i < steps; i++) {
		burst = (int)(rnd(&s) % (i % 50 < 25 ? 20 : 3));
		switch (rnd(&s) % 4) {
		case 0:
		case 1:
			while (burst-- &&
			       try_send(&t.a, size_of(seed, sent), sent))
				sent++;
			break;
		case 2:
			while (burst-- && shm_ops.poll(&t.b.end, &m) == 1) {
				assert_true(m.held);
				check(&m, size_of(seed, polled), polled);
				polled++;
			}
			break;
		default:
			while (burst-- && freed < polled) {
				assert_int_equal(shm_ops.front(&t.b.end, &m),
						 1);
				check(&m, size_of(seed, freed), freed);
				shm_ops.release(&t.b.end);
				freed++;
			}
			if (rnd(&s) % 4 == 0)
				shm_publish(&t.b);
			if (rnd(&s) % 64 == 0)
				shm_ops.trim(&t.a.end);
		}
		assert_true(sent - freed <= ring / 64);
		assert_int_equal(shm_ops.pending(&t.b.end), sent != polled);
		assert_int_equal(t.a.error | t.b.error, 0);
	}
	assert_true(sent > (uint64_t)steps / 16);
	two_drop(&t);
}

static void test_walk(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 200; seed++)
		walk(131072u << seed % 5, seed, 400);
}

/*
 * From any state the ring takes most of its size before it says no, control
 * messages still pass, and everything comes out in order.
 */
static void fill_up(struct two *t, uint64_t *n, uint32_t len)
{
	uint64_t first = *n, i, bytes = 0;
	struct fab_msg m;

	while (try_send(&t->a, len, *n)) {
		bytes += (len + 16 + 63) / 64 * 64;
		++*n;
	}
	assert_true(bytes + 2 * (uint64_t)len + 4096 >= t->a.seg.ring / 2);
	while (shm_ops.room(&t->a.end))
		assert_true(try_send(&t->a, 900, ++*n - 1));
	for (i = 0; i < SHM_LANE; i++)
		send_ctrl(&t->a, *n + i);
	assert_null(shm_ops.ctrl(&t->a.end));
	for (i = first; i < *n; i++)
		assert_int_equal(shm_ops.poll(&t->b.end, &m), 1);
	for (i = 0; i < SHM_LANE; i++) {
		assert_true(shm_ops.pending(&t->b.end));
		assert_int_equal(shm_ops.poll(&t->b.end, &m), 1);
		assert_false(m.held);
		check(&m, 36, *n + i);
	}
	assert_int_equal(shm_ops.poll(&t->b.end, &m), 0);
	/* The lane is free again though nothing of the ring was released. */
	*n += SHM_LANE;
	send_ctrl(&t->a, *n);
	assert_int_equal(shm_ops.poll(&t->b.end, &m), 1);
	assert_false(m.held);
	check(&m, 36, (*n)++);
}

static void drain(struct two *t, uint64_t keep)
{
	struct fab_msg m;

	while (t->b.rx_parse_seq - t->b.rx_front_seq > keep &&
	       shm_ops.front(&t->b.end, &m) == 1)
		shm_ops.release(&t->b.end);
	shm_publish(&t->b);
}

static void test_full(void **state)
{
	static const uint32_t sizes[] = { 16, 56, 57, 1000, 8192, 30000 };
	uint64_t n = 0, s = 99;
	struct two t;
	int round;

	(void)state;
	two_make(&t, 262144);
	for (round = 0; round < 120; round++) {
		fill_up(&t, &n, sizes[rnd(&s) % 6]);
		drain(&t, rnd(&s) % 3 ? 0 : rnd(&s) % 8);
		assert_int_equal(t.a.error | t.b.error, 0);
		if (t.b.rx_parse_seq != t.b.rx_front_seq)
			drain(&t, 0);
	}
	two_drop(&t);
}

/* A full lap behind the reader: the writer still reaches beyond its cap. */
static void test_grow(void **state)
{
	struct fab_msg m;
	struct two t;
	uint64_t n;
	int i;

	(void)state;
	for (i = 1; i < 64; i++) {
		two_make(&t, 262144);
		for (n = 0; n < 200; n++) { /* several laps of a page */
			assert_true(try_send(&t.a, 40, n));
			assert_int_equal(shm_ops.poll(&t.b.end, &m), 1);
			shm_ops.release(&t.b.end);
			assert_true(t.a.tx_head <= SHM_RING_MIN);
		}
		for (n = 0; n < (uint64_t)i; n++)
			assert_true(try_send(&t.a, 40, n));
		for (n = 0; try_send(&t.a, 8000, n); n++)
			;
		assert_true(n >= 262144 / 8000 - 3);
		two_drop(&t);
	}
}

/* Messages tell when they were sent, and what was sent otherwise before. */
static void test_stamps(void **state)
{
	const struct stamp_log *log;
	uint64_t began = stamp_now(), before, last = 0, n;
	struct fab_msg m;
	struct two t;
	int i, found;

	(void)state;
	two_make(&t, 65536);
	log = shm_ops.sends(&t.b.end);
	for (n = 0; n < 300; n++) { /* jumps among them */
		before = stamp_now();
		assert_true(try_send(&t.a, size_of(7, n) % 3000 + 16, n));
		assert_int_equal(shm_ops.poll(&t.b.end, &m), 1);
		assert_int_equal((m.stamp ^ before) & STAMP_CLOCK, 0);
		assert_true((m.stamp & ~STAMP_MIXED) >= before);
		assert_true(m.stamp > last);
		assert_true((m.stamp & ~STAMP_MIXED) <= stamp_now());
		last = m.stamp;
		assert_int_equal(m.stamp & STAMP_MIXED, n > 100);
		if (n >= 100 && n % 3 == 1)
			stamp_log_add((uint16_t)n);
		shm_ops.release(&t.b.end);
		if (n <= 100)
			continue;
		for (i = found = 0; i < STAMP_LOG; i++)
			if (stamp_log_port(log->entry[i]) ==
			    (n - 2) / 3 * 3 + 1)
				found += stamp_log_within(log->entry[i], began,
							  last);
		assert_int_equal(found, 1);
	}
	/* in the lane there is no stamp */
	while (try_send(&t.a, 900, n))
		n++;
	while (shm_ops.room(&t.a.end))
		assert_true(try_send(&t.a, 16, n++));
	send_ctrl(&t.a, n);
	while (shm_ops.poll(&t.b.end, &m) == 1)
		last = m.stamp;
	assert_int_equal(last, 0);
	two_drop(&t);
	stamp_forked();
}

/*
 * What is held back is not there, wherever it lies, until it is shown; then it
 * is all there, with the time of that. Half of it is left to the one that finds
 * the writer dead.
 */
static void test_hold(void **state)
{
	uint64_t n = 0, shown, turn, stamp, seed = 99;
	struct fab_msg m;
	struct two t;

	(void)state;
	two_make(&t, 65536);
	for (turn = 0; turn < 2000; turn++) {
		shm_ops.hold(&t.a.end, true);
		for (shown = n; n < shown + 1 + rnd(&seed) % 4; n++)
			assert_true(
				try_send(&t.a, size_of(7, n) % 3000 + 16, n));
		if (rnd(&seed) % 2) { /* what follows waits behind it */
			assert_true(
				try_send(&t.a, size_of(7, n) % 3000 + 16, n));
			n++;
		}
		assert_false(shm_ops.pending(&t.b.end));
		assert_int_equal(shm_ops.poll(&t.b.end, &m), 0);
		stamp = stamp_now();
		if (turn % 3 == 0)
			shm_ops.unhold(&t.b.end);
		else
			shm_ops.hold(&t.a.end, false);
		for (; shown < n; shown++) {
			assert_true(shm_ops.pending(&t.b.end));
			assert_int_equal(shm_ops.poll(&t.b.end, &m), 1);
			check(&m, size_of(7, shown) % 3000 + 16, shown);
			if (turn % 3 && stamp) {
				assert_true((m.stamp & ~STAMP_MIXED) >= stamp);
				stamp = 0;
			}
			shm_ops.release(&t.b.end);
		}
		shm_ops.hold(&t.a.end, false);
		assert_false(shm_ops.pending(&t.b.end));
	}
	/* nothing is held: nothing changes */
	shm_ops.unhold(&t.b.end);
	assert_int_equal(shm_ops.poll(&t.b.end, &m), 0);
	two_drop(&t);
}

static long pages(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (long)st.st_blocks / 8;
}

static void test_shrink(void **state)
{
	struct fab_msg m;
	struct two t;
	uint64_t n;

	(void)state;
	two_make(&t, 1048576);
	for (n = 0; n < 3000; n++) {
		assert_true(try_send(&t.a, 50, n));
		assert_int_equal(shm_ops.poll(&t.b.end, &m), 1);
		shm_ops.release(&t.b.end);
	}
	assert_true(pages(t.fd) <= 3);
	for (n = 0; try_send(&t.a, 30000, n); n++)
		assert_int_equal(shm_ops.poll(&t.b.end, &m), 1);
	assert_true(pages(t.fd) > 200);
	assert_false(shm_tx_empty(&t.a));
	shm_ops.trim(&t.a.end); /* not empty: nothing happens */
	drain(&t, 0);
	assert_true(shm_tx_empty(&t.a));
	shm_ops.trim(&t.a.end);
	assert_true(pages(t.fd) <= 3);
	for (n = 0; n < 200; n++) {
		assert_true(try_send(&t.a, 50, n));
		assert_int_equal(shm_ops.poll(&t.b.end, &m), 1);
		check(&m, 50, n);
		shm_ops.release(&t.b.end);
		assert_true(t.a.tx_head <= SHM_RING_MIN);
	}
	assert_true(pages(t.fd) <= 5);
	two_drop(&t);
}

/* Small messages in both directions, and looks in vain, cost two pages. */
static void test_small(void **state)
{
	struct fab_msg m;
	struct two t;
	uint64_t n;

	(void)state;
	two_make(&t, 65536);
	for (n = 0; n < 500; n++) {
		struct shm_end *from = n % 2 ? &t.b : &t.a;
		struct shm_end *to = n % 2 ? &t.a : &t.b;

		assert_int_equal(shm_ops.poll(&to->end, &m), 0);
		assert_true(try_send(from, 100, n));
		assert_int_equal(shm_ops.poll(&to->end, &m), 1);
		check(&m, 100, n);
		shm_ops.release(&to->end);
	}
	assert_int_equal(pages(t.fd), 2);
	two_drop(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_segment),
		cmocka_unit_test(test_unsound),
		cmocka_unit_test(test_keep),
		cmocka_unit_test(test_keep_space),
		cmocka_unit_test(test_walk),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_grow),
		cmocka_unit_test(test_shrink),
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_stamps),
		cmocka_unit_test(test_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
