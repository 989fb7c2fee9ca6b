/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/reason.h"
#include "base/text.h"

/* --- text ------------------------------------------------------------- */

static void check_same(const char *fmt, ...)
	__attribute__((format(printf, 1, 2)));
static void check_same(const char *fmt, ...)
{
	char ours[256], libc[256];
	struct text t = TEXT_IN(ours);
	va_list ap;

	ours[0] = '\0';
	va_start(ap, fmt);
	text_vadd(&t, fmt, ap);
	va_end(ap);
	va_start(ap, fmt);
	vsnprintf(libc, sizeof(libc), fmt, ap);
	va_end(ap);
	assert_string_equal(ours, libc);
	assert_int_equal(t.len, strlen(libc));
}

static void text_formats_like_libc(void **state)
{
	(void)state;
	check_same("plain");
	check_same("%d %i %u", -5, INT_MIN, 7u);
	check_same("%ld %lu %lld %llu", LONG_MIN, ULONG_MAX, LLONG_MAX, 0ull);
	check_same("%zu %jd", SIZE_MAX, INTMAX_MIN);
	check_same("%hd %hhu %hx", (short)-3, (unsigned char)250,
		   (unsigned short)0xfffe);
	check_same("[%5d] [%-5d] [%05d] [%05d]", 42, 42, 42, -42);
	check_same("[%.4d] [%8.3u]", 42, 7u);
	check_same("%x %X %08x", 0xbeefu, 0xBEEFu, 0x1au);
	check_same("[%s] [%8s] [%-8s] [%.2s] [%.*s]", "abc", "abc", "abc",
		   "abc", 1, "abc");
	check_same("[%*d] [%*d]", 6, 1, -6, 1);
	check_same("%c%% [%3c]", 'x', 'y');
	check_same("%p", (void *)0x1234);
	check_same("%d%s%d", 1, "", 2);
}

static void text_cuts_off(void **state)
{
	char small[6];
	struct text t = TEXT_IN(small);

	(void)state;
	text_add(&t, "%s", "abc");
	assert_false(t.cut);
	text_add(&t, "%d", 123456);
	assert_true(t.cut);
	assert_string_equal(small, "abc12");
	text_char(&t, 'x');
	assert_string_equal(small, "abc12");
}

static void text_json_escapes(void **state)
{
	char buf[64];
	struct text t = TEXT_IN(buf);

	(void)state;
	text_json(&t, "a\"b\\c\n\xff");
	assert_string_equal(buf, "\"a\\\"b\\\\c\\u000a\\u00ff\"");
	t.len = 0;
	text_json(&t, "\xc3\xa9 \xc3");
	assert_string_equal(buf, "\"\xc3\xa9 \\u00c3\"");
}

static void text_utf8_characters(void **state)
{
	(void)state;
	assert_int_equal(text_utf8("a"), 1);
	assert_int_equal(text_utf8("\xc3\xa9"), 2);
	assert_int_equal(text_utf8("\xe2\x82\xac"), 3);
	assert_int_equal(text_utf8("\xf0\x9f\x98\x80"), 4);
	assert_int_equal(text_utf8(""), 0);
	assert_int_equal(text_utf8("\x1b["), 0);
	assert_int_equal(text_utf8("\x7f"), 0);
	assert_int_equal(text_utf8("\xc2\x9b"), 0); /* CSI */
	assert_int_equal(text_utf8("\x9b"), 0);
	assert_int_equal(text_utf8("\xc3"), 0); /* cut off */
	assert_int_equal(text_utf8("\xe2\x82"), 0);
	assert_int_equal(text_utf8("\xc0\xaf"), 0); /* too long */
	assert_int_equal(text_utf8("\xed\xa0\x80"), 0); /* surrogate */
	assert_int_equal(text_utf8("\xf4\x90\x80\x80"), 0); /* beyond */
	assert_int_equal(text_utf8("\xff"), 0);
}

static void text_numbers(void **state)
{
	uint64_t v = 99;

	(void)state;
	assert_int_equal(text_number("0", 10, &v), 1);
	assert_int_equal(v, 0);
	assert_int_equal(text_number("65535:", 65535, &v), 5);
	assert_int_equal(v, 65535);
	assert_int_equal(text_number("65536", 65535, &v), 0);
	assert_int_equal(text_number("007", 65535, &v), 0);
	assert_int_equal(text_number("-1", 65535, &v), 0);
	assert_int_equal(text_number("", 65535, &v), 0);
	assert_int_equal(text_number("7", 5, &v), 0);
	assert_int_equal(text_number("18446744073709551615", UINT64_MAX, &v),
			 20);
	assert_true(v == UINT64_MAX);
	assert_int_equal(text_number("18446744073709551616", UINT64_MAX, &v),
			 0);
}

static void reasons_have_names(void **state)
{
	int i, k;

	(void)state;
	for (i = 0; i < WHY_COUNT; i++) {
		assert_true(strlen(reason_name((enum reason)i)) > 1);
		assert_true(strlen(reason_text((enum reason)i)) > 1);
		for (k = 0; k < i; k++)
			assert_string_not_equal(reason_name((enum reason)i),
						reason_name((enum reason)k));
	}
	assert_string_equal(reason_name(WHY_PEER_DECLINED), "peer-declined");
	assert_int_equal(reason_find("peer-declined"), WHY_PEER_DECLINED);
	assert_int_equal(reason_find("peer-plain"), WHY_PEER_DECLINED);
	assert_int_equal(reason_find("told"), WHY_REQUESTED);
	assert_int_equal(reason_find("no such"), WHY_COUNT);
	assert_string_equal(reason_name(WHY_COUNT), "?");
	assert_string_equal(reason_text((enum reason) - 1), "?");
}

/* --- lock ------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS	50000

struct shared {
	struct lock lock;
	unsigned long inside; /* changed only under the lock, plainly */
	int ready;
};

static struct shared *shared_new(void)
{
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(s, MAP_FAILED);
	return s;
}

static void *lock_hammer(void *arg)
{
	struct shared *s = arg;
	unsigned long bad = 0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		bad += lock_take(&s->lock) != 0;
		bad += !lock_mine(&s->lock);
		s->inside++;
		lock_drop(&s->lock);
	}
	return (void *)bad;
}

static void lock_between_threads(void **state)
{
	struct shared *s = shared_new();
	pthread_t t[THREADS];
	void *bad;
	int i;

	(void)state;
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, lock_hammer, s),
				 0);
	for (i = 0; i < THREADS; i++) {
		pthread_join(t[i], &bad);
		assert_null(bad);
	}
	assert_int_equal(s->inside, THREADS * ROUNDS);
	assert_int_equal(s->lock.word, 0);
	munmap(s, sizeof(*s));
}

static void lock_between_processes(void **state)
{
	struct shared *s = shared_new();
	int i, status;

	(void)state;
	for (i = 0; i < THREADS; i++) {
		if (fork())
			continue;
		lock_forked();
		_exit(lock_hammer(s) ? 1 : 0);
	}
	for (i = 0; i < THREADS; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(s->inside, THREADS * ROUNDS);
	munmap(s, sizeof(*s));
}

/* A fork before anything was locked need not be told. */
static void lock_unused_knows_a_child(void **state)
{
	int status;

	(void)state;
	if (!fork())
		_exit(lock_tid() == (uint32_t)getpid() ? 0 : 1);
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
}

static void lock_knows_its_owner(void **state)
{
	struct lock l = { 0 };

	(void)state;
	assert_false(lock_mine(&l));
	assert_int_equal(lock_take(&l), 0);
	assert_true(lock_mine(&l));
	assert_int_equal(lock_take(&l), -EDEADLK);
	assert_int_equal(lock_try(&l), -EBUSY);
	lock_drop(&l);
	assert_int_equal(l.word, 0);
	assert_int_equal(lock_try(&l), 0);
	lock_drop(&l);

	/* another's is left alone */
	l.word = 1;
	lock_drop(&l);
	assert_int_equal(l.word, 1);
}

/*
 * A child takes the lock and is killed in it. With `reap` the parent waits
 * for it first; without, the owner is still there as a zombie.
 */
static void lock_from_dead(int reap)
{
	struct shared *s = shared_new();
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		lock_forked();
		if (lock_take(&s->lock))
			_exit(1);
		__atomic_store_n(&s->ready, 1, __ATOMIC_RELEASE);
		for (;;)
			pause();
	}
	while (!__atomic_load_n(&s->ready, __ATOMIC_ACQUIRE))
		usleep(1000);
	kill(pid, SIGKILL);
	if (reap)
		assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(lock_take(&s->lock), -EOWNERDEAD);
	assert_true(lock_mine(&s->lock));
	lock_drop(&s->lock);
	assert_int_equal(s->lock.word, 0);
	if (!reap)
		assert_int_equal(waitpid(pid, &status, 0), pid);
	munmap(s, sizeof(*s));
}

static void lock_from_dead_process(void **state)
{
	(void)state;
	lock_from_dead(1);
}

static void lock_from_zombie(void **state)
{
	(void)state;
	lock_from_dead(0);
}

static void *lock_and_exit(void *arg)
{
	struct shared *s = arg;

	return (void *)(long)lock_take(&s->lock);
}

static void lock_from_dead_thread(void **state)
{
	struct shared *s = shared_new();
	pthread_t t;
	void *err;

	(void)state;
	pthread_create(&t, NULL, lock_and_exit, s);
	pthread_join(t, &err);
	assert_null(err);
	assert_int_equal(lock_take(&s->lock), -EOWNERDEAD);
	lock_drop(&s->lock);
	munmap(s, sizeof(*s));
}

/* A live owner keeps the lock for longer than waiters' patience. */
static void *lock_hold_long(void *arg)
{
	struct shared *s = arg;

	lock_take(&s->lock);
	__atomic_store_n(&s->ready, 1, __ATOMIC_RELEASE);
	usleep(180000);
	s->inside = 1;
	lock_drop(&s->lock);
	return NULL;
}

static void lock_from_living_is_not_taken(void **state)
{
	struct shared *s = shared_new();
	pthread_t t;

	(void)state;
	pthread_create(&t, NULL, lock_hold_long, s);
	while (!__atomic_load_n(&s->ready, __ATOMIC_ACQUIRE))
		usleep(1000);
	assert_int_equal(lock_take(&s->lock), 0);
	assert_int_equal(s->inside, 1);
	lock_drop(&s->lock);
	pthread_join(t, NULL);
	munmap(s, sizeof(*s));
}

/* --- arena ------------------------------------------------------------ */

#define SLOTS 3000

static void arena_gives_different_slots(void **state)
{
	struct arena a = ARENA_INIT(100);
	static char *slot[SLOTS];
	int i;

	(void)state;
	assert_int_equal(a.size, 128);
	for (i = 0; i < SLOTS; i++) {
		slot[i] = arena_get(&a);
		assert_non_null(slot[i]);
		assert_int_equal((uintptr_t)slot[i] % 64, 0);
		assert_int_equal(slot[i][0], 0);
		memset(slot[i], 1 + i % 100, a.size);
	}
	for (i = 0; i < SLOTS; i++) {
		assert_int_equal(slot[i][0], 1 + i % 100);
		assert_int_equal(slot[i][a.size - 1], 1 + i % 100);
	}
	for (i = 0; i < SLOTS; i++)
		arena_put(&a, slot[i]);
	i = (int)a.count;
	assert_non_null(arena_get(&a));
	assert_int_equal(a.count, i);
}

static void arena_reuses_and_clears(void **state)
{
	struct arena a = ARENA_INIT(64);
	char *first = arena_get(&a), zero[64] = { 0 };
	int i;

	(void)state;
	memset(first, 7, 64);
	arena_put(&a, first + 1); /* no slot: ignored */
	arena_put(&a, zero);
	assert_ptr_not_equal(arena_get(&a), first);
	arena_put(&a, first);
	for (i = 0; i < 64; i++)
		if (arena_get(&a) == first)
			break;
	assert_true(i < 64);
	assert_memory_equal(first, zero, 64);
}

/* Apart from all slots, and each apart from the others. */
static void arena_rare_parts(void **state)
{
	struct arena a = ARENA_INIT_RARE(100, 200);
	char *slot[100], *rare[100], none[64];
	int i;

	(void)state;
	for (i = 0; i < 100; i++) { /* more than a chunk holds */
		slot[i] = arena_get(&a);
		rare[i] = arena_rare(&a, slot[i]);
		assert_non_null(rare[i]);
		memset(slot[i], i, 100);
		memset(rare[i], 100 + i, 200);
	}
	for (i = 0; i < 100; i++) {
		assert_ptr_equal(arena_rare(&a, slot[i]), rare[i]);
		assert_int_equal((uint8_t)slot[i][0], i);
		assert_int_equal((uint8_t)slot[i][99], i);
		assert_int_equal((uint8_t)rare[i][0], 100 + i);
		assert_int_equal((uint8_t)rare[i][199], 100 + i);
	}
	assert_null(arena_rare(&a, none));
}

static void arena_shared_by_family(void **state)
{
	struct arena a = ARENA_INIT(64);
	char *s = arena_get(&a), *p;
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (!pid) {
		char *mine;

		arena_forked(&a);
		mine = arena_get(&a);
		if (!mine || mine == s || a.count != 2)
			_exit(1);
		strcpy(s, "from the child");
		arena_put(&a, s);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_string_equal(s, "from the child");
	p = arena_get(&a); /* given back by the child, so free here too */
	assert_ptr_equal(p, s);
	assert_int_equal(p[0], 0);
	assert_int_equal(a.count, 1);
}

struct churn {
	struct arena *a;
	int id;
};

static void *arena_churn(void *arg)
{
	struct churn *c = arg;
	int *held[32], i, k;
	long bad = 0;

	for (i = 0; i < 2000; i++) {
		for (k = 0; k < 32; k++) {
			held[k] = arena_get(c->a);
			bad += *held[k] != 0;
			*held[k] = c->id;
		}
		for (k = 0; k < 32; k++) {
			bad += *held[k] != c->id;
			arena_put(c->a, held[k]);
		}
	}
	return (void *)bad;
}

static void arena_between_threads(void **state)
{
	struct arena a = ARENA_INIT(64);
	struct churn c[THREADS];
	pthread_t t[THREADS];
	void *bad;
	int i;

	(void)state;
	for (i = 0; i < THREADS; i++) {
		c[i] = (struct churn){ &a, i + 1 };
		pthread_create(&t[i], NULL, arena_churn, &c[i]);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(t[i], &bad);
		assert_null(bad);
	}
}

/* --- clock ------------------------------------------------------------ */

static void emulated_processor_does_not_pause(void **state)
{
	(void)state;
	assert_true(clock_no_pause("TCGTCGTCGTCG"));
	assert_false(clock_no_pause("KVMKVMKVM\0\0"));
	assert_false(clock_no_pause("Microsoft Hv"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lock_unused_knows_a_child), /* first */
		cmocka_unit_test(text_formats_like_libc),
		cmocka_unit_test(text_cuts_off),
		cmocka_unit_test(text_json_escapes),
		cmocka_unit_test(text_utf8_characters),
		cmocka_unit_test(text_numbers),
		cmocka_unit_test(reasons_have_names),
		cmocka_unit_test(lock_knows_its_owner),
		cmocka_unit_test(lock_between_threads),
		cmocka_unit_test(lock_between_processes),
		cmocka_unit_test(lock_from_dead_process),
		cmocka_unit_test(lock_from_zombie),
		cmocka_unit_test(lock_from_dead_thread),
		cmocka_unit_test(lock_from_living_is_not_taken),
		cmocka_unit_test(arena_gives_different_slots),
		cmocka_unit_test(arena_reuses_and_clears),
		cmocka_unit_test(arena_rare_parts),
		cmocka_unit_test(arena_shared_by_family),
		cmocka_unit_test(arena_between_threads),
		cmocka_unit_test(emulated_processor_does_not_pause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
