/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory of rings, as an account of the process. A ring pays as it grows.
 * An end is free as long as the account allows: its writer is promised room
 * that is paid for when it is used. Once the account is overdrawn, by the room
 * for one message at each end at most, ends are walled: what they are promised
 * is paid for, and they grow only as the account allows.
 *
 * Where the kernel may refuse a page when it is touched (strict overcommit:
 * that would be SIGBUS), ends are walled from the beginning, and pages asked
 * for ahead.
 */

#include <sys/mman.h>

#include "base/page.h"
#include "base/sys.h"
#include "fabric/shm/frame.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE 4096u

static bool strict(void)
{
	return __atomic_load_n(&shm_account.strict, __ATOMIC_RELAXED);
}

/* Everything that was paid, and `more` of it now. */
static uint64_t rings(uint64_t more)
{
	uint64_t sum =
		__atomic_add_fetch(&shm_account.rings, more, __ATOMIC_RELAXED);

	if (more)
		__atomic_store_n(&page_self->shm_rings, sum, __ATOMIC_RELAXED);
	return sum;
}

static uint64_t most(void)
{
	return __atomic_load_n(&shm_account.most, __ATOMIC_RELAXED);
}

/* Limits are looked at anew, now and then as what is used grows. */
static void looked(uint64_t sum)
{
	if (sum >= __atomic_load_n(&shm_account.look_at, __ATOMIC_RELAXED) &&
	    shm_account.look)
		shm_account.look();
}

/*
 * Pages [from, to) of the ring, if they have to be there before they are used.
 */
static bool backed(const struct shm_end *e, uint32_t from, uint32_t to)
{
	/* the first half page of the ring and the last are there */
	if (from < SHM_RING_BIRTH)
		from = SHM_RING_BIRTH;
	from -= (from - SHM_RING_BIRTH) % PAGE;
	if (to > e->seg.ring - SHM_RING_BIRTH)
		to = e->seg.ring - SHM_RING_BIRTH;
	return !strict() || to <= from ||
	       !sys_madvise(e->tx + from, to - from, MADV_POPULATE_WRITE);
}

static void wall(struct shm_end *e)
{
	e->tx_walled = true;
	shm_tx_limit(e);
}

void shm_pay(struct shm_end *e, uint32_t end)
{
	uint64_t sum;

	if (end <= e->tx_paid)
		return;
	sum = rings(end - e->tx_paid);
	e->tx_paid = end;
	looked(sum);
}

void shm_settle(struct shm_end *e)
{
	if (!e->tx_walled && rings(0) > most())
		wall(e);
}

/* A share of what is left: later ones shall have some, too. */
bool shm_affords(uint32_t more)
{
	uint64_t sum = rings(0), lim = most();

	return sum < lim && more <= (lim - sum) / 4;
}

/* From half page to half page: what lies between are whole pages. */
static uint32_t next_size(const struct shm_end *e)
{
	uint32_t to = 2 * (e->tx_paid / PAGE * PAGE);

	if (to < SHM_RING_MIN)
		to = SHM_RING_MIN;
	to += SHM_RING_BIRTH;
	return to < e->seg.ring ? to : e->seg.ring;
}

bool shm_raise(struct shm_end *e)
{
	uint32_t to = next_size(e), from = e->tx_paid;

	if (!e->tx_walled || from >= e->seg.ring)
		return false;
	looked(rings(0));
	if (!shm_affords(to - from) || !backed(e, from, to))
		return false;
	rings(to - from);
	e->tx_paid = to;
	shm_tx_limit(e);
	return true;
}

/*
 * The least that a writer needs is paid whatever the account says: how many
 * ends there are is the socket room's to decide. Where not even that is to be
 * had the ring has no room for anything, and shm_raise() asks again.
 */
void shm_pay_begin(struct shm_end *e)
{
	const uint32_t least = SHM_RING_MIN + SHM_RING_BIRTH;
	bool there = backed(e, 0, least);

	e->tx_paid = there ? least : SHM_RING_BIRTH;
	rings(e->tx_paid);
	e->tx_walled = false;
	if (strict() || rings(0) > most() / 4 * 3)
		wall(e);
}

void shm_forgo(struct shm_end *e)
{
	uint64_t sum = __atomic_load_n(&shm_account.rings, __ATOMIC_RELAXED);
	uint64_t less;

	/* a child may let go of what its parent paid */
	do {
		less = sum < e->tx_paid ? sum : e->tx_paid;
	} while (!__atomic_compare_exchange_n(
		&shm_account.rings, &sum, sum - less, false, __ATOMIC_RELAXED,
		__ATOMIC_RELAXED));
	__atomic_store_n(&page_self->shm_rings, sum - less, __ATOMIC_RELAXED);
	e->tx_paid = 0;
}
