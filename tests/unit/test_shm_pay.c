/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The account of rings: what writers may touch, and what they are promised. */

#include "shm_util.h"

#define ENDS	 40
#define ONE_MORE 40960u /* the largest message, and the least of an end */

static uint64_t looks;

static void look(void)
{
	looks++;
}

static int account_new(void **state)
{
	(void)state;
	shm_account.rings = 0;
	shm_account.most = UINT64_MAX;
	shm_account.look_at = UINT64_MAX;
	shm_account.look = look;
	shm_account.strict = shm_account.locks = false;
	looks = 0;
	return 0;
}

static uint64_t resident(const struct shm_end *e)
{
	static unsigned char in[SHM_RING_HIGH / 4096 * 2 + 2];
	uint64_t n = 0;
	size_t i;

	assert_int_equal(mincore(e->seg.mem, e->seg.len, in), 0);
	for (i = 0; i < (e->seg.len + 4095) / 4096; i++)
		n += in[i] & 1;
	return n * 4096;
}

/* The largest that it has room for now, as its pump does. */
static bool send_some(struct shm_end *e, uint64_t n, uint32_t *len)
{
	uint32_t room = shm_ops.room(&e->end);

	*len = room < SHM_MSG_MAX ? room : SHM_MSG_MAX;
	return room && try_send(e, *len, n);
}

static void all_write(struct two *t, uint64_t most)
{
	uint64_t sum = 0;
	uint32_t len;
	int i;

	shm_account.most = most;
	for (i = 0; i < ENDS; i++)
		two_make(&t[i], 2097152);
	for (i = 0; i < ENDS; i++)
		while (send_some(&t[i].a, 0, &len))
			;
	assert_true(shm_account.rings <= most + 2 * ENDS * (uint64_t)ONE_MORE);
	for (i = 0; i < ENDS; i++)
		sum += resident(&t[i].a);
	/* what is in memory is what is in the account */
	assert_true(sum <= shm_account.rings + ENDS * 4 * 4096u);
	assert_true(shm_account.rings >= most / 2);
}

static void no_more_than_the_account(void **state)
{
	static const uint64_t limits[] = { 0, 500000, 4000000, 20000000 };
	static struct two t[ENDS];
	size_t k;
	int i;

	(void)state;
	for (k = 0; k < sizeof(limits) / sizeof(limits[0]); k++) {
		all_write(t, limits[k]);
		for (i = 0; i < ENDS; i++)
			two_drop(&t[i]);
		assert_true(shm_account.rings == 0);
		assert_int_equal(shm_account.maps, 0);
		assert_int_equal(shm_account.space, 0);
	}
}

static void drain(struct two *t, uint64_t *from, uint32_t len)
{
	struct fab_msg m;

	while (shm_ops.poll(&t->b.end, &m) == 1) {
		if (len)
			check(&m, len, *from);
		++*from;
		shm_ops.release(&t->b.end);
	}
	shm_publish(&t->b);
}

/* A walled end goes on for ever, and grows when there is memory again. */
static void walled_ends_go_on(void **state)
{
	uint64_t sent = 0, got = 0;
	uint32_t len, paid;
	struct two t;
	int i;

	(void)state;
	shm_account.most = 0;
	two_make(&t, 262144);
	for (i = 0; i < 20000; i++) {
		len = 16 + (uint32_t)i * 37 % 900;
		while (shm_ops.room(&t.a.end) >= len &&
		       try_send(&t.a, len, sent))
			sent++;
		assert_true(sent > got);
		drain(&t, &got, len);
		assert_true(sent == got);
	}
	paid = t.a.tx_paid;
	assert_true(t.a.tx_walled && paid <= 2 * SHM_RING_MIN);
	shm_account.most = UINT64_MAX;
	while (send_some(&t.a, sent, &len))
		sent++;
	assert_true(t.a.tx_paid == 262144);
	assert_true(resident(&t.a) > 131072);
	drain(&t, &got, 0);
	shm_ops.trim(&t.a.end);
	assert_false(t.a.tx_walled);
	assert_true(t.a.tx_paid < 3 * SHM_RING_MIN);
	assert_true(resident(&t.a) <= 8 * 4096);
	two_drop(&t);
}

/*
 * Random traffic while the limit comes and goes: room is always kept, order
 * and content are right.
 */
static void limits_that_change(uint64_t seed, uint32_t ring)
{
	static const uint64_t limits[] = { 0, 30000, 200000, UINT64_MAX };
	uint64_t s = seed * 2654435761u + 88172645463325252ull;
	uint64_t sent = 0, polled = 0, freed = 0;
	static uint32_t size[1 << 16];
	struct fab_msg m;
	struct two t;
	int i, burst;

	two_make(&t, ring);
	for (i = 0; i < 1500; i++) {
		burst = (int)(rnd(&s) % 12);
		if (rnd(&s) % 16 == 0)
			shm_account.most = limits[rnd(&s) % 4];
		switch (rnd(&s) % 4) {
		case 0:
		case 1:
			while (burst--) {
				uint32_t room = shm_ops.room(&t.a.end);
				uint32_t len = size_of(seed, sent);

				len = len < room ? len : room;
				if (!room)
					break;
				assert_true(try_send(&t.a, len, sent));
				size[sent++ % 65536] = len;
			}
			break;
		case 2:
			while (burst-- && shm_ops.poll(&t.b.end, &m) == 1) {
				check(&m, size[polled % 65536], polled);
				polled++;
			}
			break;
		default:
			while (burst-- && freed < polled) {
				assert_int_equal(shm_ops.front(&t.b.end, &m),
						 1);
				check(&m, size[freed % 65536], freed);
				shm_ops.release(&t.b.end);
				freed++;
			}
			if (rnd(&s) % 4 == 0)
				shm_publish(&t.b);
			if (rnd(&s) % 16 == 0)
				shm_ops.trim(&t.a.end);
		}
		assert_int_equal(t.a.error | t.b.error, 0);
		assert_true(t.a.tx_head <= t.a.tx_lim);
	}
	assert_true(sent > 100);
	two_drop(&t);
}

static void promises_are_kept(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 150; seed++) {
		account_new(state);
		shm_account.strict = seed % 3 == 0;
		limits_that_change(seed, 65536u << seed % 6);
	}
}

static void limits_are_looked_at(void **state)
{
	struct two t;
	uint32_t len;

	(void)state;
	shm_account.look_at = 1000000;
	two_make(&t, 2097152);
	while (shm_account.rings < 500000 && send_some(&t.a, 0, &len))
		;
	assert_true(looks == 0);
	while (send_some(&t.a, 0, &len))
		;
	assert_true(looks > 0);
	two_drop(&t);
}

/* Where pages may be refused, those that are used are there before. */
static void strict_pages_are_there(void **state)
{
	uint32_t len, fresh;
	struct two t;

	(void)state;
	shm_account.strict = true;
	two_make(&t, 262144);
	assert_true(t.a.tx_walled);
	while (send_some(&t.a, 0, &len)) {
		fresh = (uint32_t)resident(&t.a);
		assert_true(fresh >= t.a.tx_paid);
	}
	assert_true(t.a.tx_paid == 262144);
	two_drop(&t);
}

static bool dumped(const void *mem)
{
	char line[256], want[32];
	bool found = false, is = true;
	FILE *f = fopen("/proc/self/smaps", "re");

	assert_non_null(f);
	snprintf(want, sizeof(want), "%lx-", (unsigned long)mem);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, want, strlen(want)))
			found = true;
		if (found && !strncmp(line, "VmFlags:", 8)) {
			is = !strstr(line, " dd");
			break;
		}
	}
	fclose(f);
	assert_true(found);
	return is;
}

static void segments_are_not_dumped(void **state)
{
	struct shm_keep a = { 0 };
	uint8_t *mem;
	struct two t;

	(void)state;
	two_make(&t, 65536);
	assert_false(dumped(t.a.seg.mem));
	assert_false(dumped(t.b.seg.mem));
	assert_true(shm_keep_at(&a, &t.a, true, 0, &mem) > 0);
	assert_false(dumped(a.map));
	shm_keep_close(&a);
	two_drop(&t);
}

/* mlockall(MCL_FUTURE): a segment neither is locked nor brought in whole. */
static void segments_are_not_locked(void **state)
{
	struct two t;

	(void)state;
	if (mlockall(MCL_FUTURE))
		skip(); /* RLIMIT_MEMLOCK is 0 */
	shm_account.locks = true;
	two_make(&t, 65536);
	munlockall();
	assert_true(resident(&t.a) < 65536);
	*(volatile uint8_t *)t.b.tx = 1;
	two_drop(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(no_more_than_the_account, account_new),
		cmocka_unit_test_setup(walled_ends_go_on, account_new),
		cmocka_unit_test_setup(promises_are_kept, account_new),
		cmocka_unit_test_setup(limits_are_looked_at, account_new),
		cmocka_unit_test_setup(strict_pages_are_there, account_new),
		cmocka_unit_test_setup(segments_are_not_dumped, account_new),
		cmocka_unit_test_setup(segments_are_not_locked, account_new),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
