/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ring between threads and processes, and against hostile peers. */

#include "shm_util.h"

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

/* It was farther before. */
static void test_reader_goes_back(void **state)
{
	uint64_t *word;
	struct two t;
	int i;

	(void)state;
	two_make(&t, 65536);
	for (i = 0; i < 3; i++)
		assert_true(try_send(&t.a, 100, 0));
	word = (uint64_t *)(void *)((uint8_t *)t.b.seg.mem + SHM_PROGRESS_AT);
	*word = (uint64_t)1 << 32 | 128;
	assert_false(shm_tx_empty(&t.a));
	assert_int_equal(t.a.error, 0);
	*word = (uint64_t)2 << 32 | 64;
	assert_false(shm_tx_empty(&t.a));
	assert_int_equal(t.a.error, -EPROTO);
	two_drop(&t);
}

static void writer_lie(uint32_t len, uint32_t jump_to)
{
	struct fab_msg m;
	struct two t;
	uint8_t *at;

	two_make(&t, 65536);
	assert_true(try_send(&t.a, 100, 0));
	at = t.a.tx;
	memcpy(at + 16, &jump_to, 4);
	len = htobe32(len);
	memcpy(at + 20, &len, 4);
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
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_lying_reader),
		cmocka_unit_test(test_reader_goes_back),
		cmocka_unit_test(test_lying_writer),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
