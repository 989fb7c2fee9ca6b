/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The shared-memory fabric: segment checks, ring, lane, hostile peers. */

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fabric/shm/shm.h"

#define KEY 0x1234567890abcdefull

struct two {
	int fd;
	struct shm_end a, b; /* maker, opener; each with its own mapping */
};

static uint64_t rnd(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static void two_make(struct two *t, uint32_t ring)
{
	struct shm_seg m, o;

	t->fd = shm_make(&m, ring);
	assert_true(t->fd >= 0);
	assert_int_equal(shm_open_seg(&o, t->fd, m.len), 0);
	shm_end_init(&t->a, &m, true, KEY);
	shm_end_init(&t->b, &o, false, KEY);
}

static void two_drop(struct two *t)
{
	shm_ops.destroy(&t->a.end);
	shm_ops.destroy(&t->b.end);
	close(t->fd);
}

/* Content of message `n`: pattern that depends on number and offset. */
static void fill(uint8_t *p, uint32_t len, uint64_t n)
{
	uint32_t i, word;

	memset(p, 0, 16);
	p[0] = 0xff;
	word = htobe32((uint32_t)n);
	memcpy(p + 8, &word, 4);
	for (i = 16; i < len; i++)
		p[i] = (uint8_t)(n * 31 + i);
}

static void check(const struct fab_msg *m, uint32_t len, uint64_t n)
{
	uint32_t i, word;

	assert_int_equal(m->len, len);
	memcpy(&word, m->mem + 4, 4);
	assert_int_equal(be32toh(word), len);
	memcpy(&word, m->mem + 8, 4);
	assert_int_equal(be32toh(word), (uint32_t)n);
	for (i = 16; i < len; i++)
		if (m->mem[i] != (uint8_t)(n * 31 + i))
			fail_msg("message %llu: byte %u is wrong",
				 (unsigned long long)n, i);
}

/* Size of message `n` under `seed`: mostly small, sometimes the largest. */
static uint32_t size_of(uint64_t seed, uint64_t n)
{
	uint64_t s =
		seed * 0x9e3779b97f4a7c15ull + n * 0x2545f4914f6cdd1dull + 1;
	uint64_t r = (rnd(&s), rnd(&s));

	switch (r % 8) {
	case 0:
		return 16 + (uint32_t)(r >> 32) % (SHM_MSG_MAX - 15);
	case 1:
		return SHM_MSG_MAX;
	case 2:
		return 16 + (uint32_t)(r >> 32) % 4000;
	default:
		return 16 + (uint32_t)(r >> 32) % 200;
	}
}

static bool try_send(struct shm_end *e, uint32_t len, uint64_t n)
{
	uint32_t room = shm_ops.room(&e->end);
	uint8_t *p = shm_ops.buf(&e->end, len);

	if (room >= len)
		assert_non_null(p);
	if (!p)
		return false;
	assert_in_range(p - e->tx, 8, e->seg.ring - len);
	fill(p, len, n);
	assert_int_equal(shm_ops.send(&e->end, len, false), 0);
	return true;
}

static void send_ctrl(struct shm_end *e, uint64_t n)
{
	uint8_t *p = shm_ops.ctrl(&e->end);

	assert_non_null(p);
	fill(p, 36, n);
	assert_int_equal(shm_ops.send(&e->end, 36, true), 0);
}

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
	assert_int_equal(ftruncate(fd, size), 0);
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
		bytes += (len + 8 + 63) / 64 * 64;
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

/* --- two processes, two threads ---------------------------------------- */

struct talk {
	struct shm_end *e;
	uint64_t seed, count;
	int bad;
};

static void relax(unsigned int *idle)
{
	if (++*idle % 64)
		clock_relax();
	else
		sched_yield();
}

/* Send `count` messages and take as many; asserts nothing, counts. */
static void *talk(void *arg)
{
	uint64_t sent = 0, got = 0, i;
	struct talk *k = arg;
	struct fab_msg m;
	unsigned int idle = 0;

	while ((sent < k->count || got < k->count) && !k->bad) {
		uint32_t len = size_of(k->seed, sent);
		uint8_t *p = NULL;

		if (sent < k->count)
			p = shm_ops.buf(&k->e->end, len);
		if (p) {
			fill(p, len, sent++);
			shm_ops.send(&k->e->end, len, false);
		}
		if (shm_ops.poll(&k->e->end, &m) == 1) {
			len = size_of(k->seed ^ 1, got);
			k->bad |= m.len != len;
			for (i = 16; i < len && !k->bad; i += 7)
				k->bad |= m.mem[i] != (uint8_t)(got * 31 + i);
			got++;
			shm_ops.release(&k->e->end);
		} else if (!p) {
			shm_publish(k->e);
			k->bad |= k->e->error;
			relax(&idle);
		}
	}
	shm_publish(k->e);
	return NULL;
}

static void test_threads(void **state)
{
	struct talk a = { .seed = 4, .count = 20000 }, b = a;
	pthread_t th;
	struct two t;

	(void)state;
	two_make(&t, 131072);
	a.e = &t.a;
	b.e = &t.b;
	b.seed ^= 1;
	assert_int_equal(pthread_create(&th, NULL, talk, &b), 0);
	talk(&a);
	pthread_join(th, NULL);
	assert_int_equal(a.bad | b.bad, 0);
	assert_true(shm_tx_empty(&t.a) && shm_tx_empty(&t.b));
	two_drop(&t);
}

static void test_processes(void **state)
{
	struct talk a = { .seed = 10, .count = 30000 }, b = a;
	struct two t;
	int status;
	pid_t pid;

	(void)state;
	two_make(&t, 131072);
	a.e = &t.a;
	b.e = &t.b;
	b.seed ^= 1;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		talk(&b);
		_exit(b.bad ? 1 : 0);
	}
	talk(&a);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(a.bad, 0);
	two_drop(&t);
}

/* --- hostile peers ----------------------------------------------------- */

static void progress_lie(uint64_t word)
{
	struct two t;
	int i;

	two_make(&t, 65536);
	for (i = 0; i < 3; i++)
		assert_true(try_send(&t.a, 100, 0));
	*(uint64_t *)(void *)((uint8_t *)t.b.seg.mem + SHM_PROGRESS_AT) = word;
	assert_false(shm_tx_empty(&t.a));
	assert_int_equal(t.a.error, -EPROTO);
	assert_int_equal(shm_ops.room(&t.a.end), 0);
	two_drop(&t);
}

static void test_lying_reader(void **state)
{
	(void)state;
	progress_lie((uint64_t)4 << 32 | 384);
	progress_lie((uint64_t)3 << 32 | 320);
	progress_lie((uint64_t)2 << 32 | 384);
	progress_lie((uint64_t)1 << 32 | 100);
	progress_lie((uint64_t)1 << 32 | 65536);
	progress_lie((uint64_t)UINT32_MAX << 32);
	progress_lie(UINT64_MAX);
}

static void writer_lie(uint32_t len, uint32_t jump_to)
{
	struct fab_msg m;
	struct two t;
	uint8_t *at;

	two_make(&t, 65536);
	assert_true(try_send(&t.a, 100, 0));
	at = t.a.tx;
	memcpy(at + 8, &jump_to, 4);
	len = htobe32(len);
	memcpy(at + 12, &len, 4);
	assert_int_equal(shm_ops.poll(&t.b.end, &m), -EPROTO);
	assert_int_equal(shm_ops.poll(&t.b.end, &m), -EPROTO);
	two_drop(&t);
}

static void test_lying_writer(void **state)
{
	(void)state;
	writer_lie(15, 0);
	writer_lie(SHM_MSG_MAX + 1, 0);
	writer_lie(UINT32_MAX, 0);
	writer_lie(UINT32_MAX - 7, 0);
	writer_lie(0, 0); /* a jump to itself */
	writer_lie(0, 65536);
	writer_lie(0, 32);
	writer_lie(0, UINT32_MAX - 63);
}

/* Change words the peer may write; every pointer must stay inside. */
static void hostile(uint64_t seed)
{
	uint64_t s = seed * 7919 + 5, *word, i, *mem;
	struct fab_msg m = { 0 };
	struct two t;
	uint32_t len;
	uint8_t *p;

	two_make(&t, 65536);
	mem = t.a.seg.mem;
	for (i = 0; i < 3000; i++) {
		if (rnd(&s) % 4 == 0) {
			word = rnd(&s) % 2 ? mem + rnd(&s) % 512 :
					     mem + 512 + t.b.rx_parse / 8 +
						     rnd(&s) % 4;
			switch (rnd(&s) % 4) {
			case 0:
				*word = t.b.rx_tag;
				break;
			case 1:
				*word ^= 1ull << rnd(&s) % 64;
				break;
			case 2:
				*word = (uint64_t)t.b.tx_seq << 32 |
					(rnd(&s) % 1024 * 64);
				break;
			default:
				*word = rnd(&s);
			}
		}
		len = size_of(seed, i);
		p = shm_ops.buf(&t.b.end, len);
		if (p) {
			assert_true(p >= t.b.tx + 8);
			assert_true(p + len <= t.b.tx + 65536);
			memset(p, 1, len);
			shm_ops.send(&t.b.end, len, false);
		}
		p = shm_ops.buf(&t.a.end, len);
		if (p && p + len <= t.a.tx + 65536) {
			fill(p, len, i);
			shm_ops.send(&t.a.end, len, false);
		}
		while (shm_ops.poll(&t.b.end, &m) == 1 && m.held) {
			assert_true(m.mem >= t.b.rx + 8);
			assert_true(m.mem + m.len <= t.b.rx + 65536);
		}
		if (shm_ops.front(&t.b.end, &m) == 1) {
			assert_true(m.mem >= t.b.rx + 8);
			assert_true(m.mem + m.len <= t.b.rx + 65536);
			shm_ops.release(&t.b.end);
		}
		assert_true(t.b.rx_parse < 65536 && t.b.rx_front < 65536);
		assert_true(t.b.tx_head < 65536 && t.b.tx_lim < 65536);
		assert_true(t.b.tx_head <= t.b.tx_lim);
	}
	two_drop(&t);
}

static void test_hostile(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 300; seed++)
		hostile(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_segment),
		cmocka_unit_test(test_unsound),
		cmocka_unit_test(test_walk),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_grow),
		cmocka_unit_test(test_shrink),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_lying_reader),
		cmocka_unit_test(test_lying_writer),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
