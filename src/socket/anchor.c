/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The anchor machine, see anchor.h. */

#include <errno.h>

#include "socket/anchor.h"

/* More bells than this cannot lie in a socket's queue: the peer lies. */
#define BELLS_MAX (1u << 20)

static const char *const names[ANC_STATES] = {
	[ANC_RAW] = "raw",     [ANC_LIFTED] = "lifted", [ANC_SPILL] = "spill",
	[ANC_ASKED] = "asked", [ANC_PAUSED] = "paused", [ANC_RESUME] = "resume",
	[ANC_GONE] = "gone",
};

/* Which states may follow which: bit s of allowed[from] (both ends' moves). */
#define TO(s) (1u << ANC_##s)
static const uint32_t allowed[ANC_STATES] = {
	[ANC_RAW] = TO(LIFTED) | TO(GONE),
	[ANC_LIFTED] = TO(SPILL) | TO(ASKED) | TO(GONE),
	[ANC_SPILL] = TO(RAW) | TO(GONE),
	[ANC_ASKED] = TO(PAUSED) | TO(GONE),
	[ANC_PAUSED] = TO(RAW) | TO(RESUME) | TO(GONE),
	[ANC_RESUME] = TO(RAW) | TO(GONE),
	[ANC_GONE] = 0,
};

const char *anc_state_name(enum anc_state s)
{
	return s < ANC_STATES ? names[s] : "?";
}

/* The one place where a state changes. */
static bool move(struct anc_dir *d, enum anc_state from, enum anc_state to)
{
	uint32_t old = from;

	if (!(allowed[from] & (1u << to)))
		return false;
	if (!__atomic_compare_exchange_n(&d->state, &old, (uint32_t)to, 0,
					 __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
		return false;
	__atomic_add_fetch(&d->epoch, 1, __ATOMIC_RELEASE);
	return true;
}

int anc_busy(struct anc_dir *d)
{
	uint32_t old = __atomic_load_n(&d->state, __ATOMIC_ACQUIRE);

	do {
		if ((old & 0xff) != ANC_RAW)
			return -EAGAIN;
	} while (!__atomic_compare_exchange_n(
		&d->state, &old, old + ANC_BUSY_ONE, 0, __ATOMIC_SEQ_CST,
		__ATOMIC_ACQUIRE));
	return 0;
}

void anc_idle(struct anc_dir *d)
{
	uint32_t old = __atomic_load_n(&d->state, __ATOMIC_ACQUIRE);

	do {
		if ((old & 0xff) != ANC_RAW || old < ANC_BUSY_ONE)
			return; /* GONE meanwhile, or the peer wrote here */
	} while (!__atomic_compare_exchange_n(
		&d->state, &old, old - ANC_BUSY_ONE, 0, __ATOMIC_SEQ_CST,
		__ATOMIC_ACQUIRE));
}

int anc_switch(struct anc_dir *d, struct anc_tx *t)
{
	uint64_t taken = __atomic_load_n(&d->taken, __ATOMIC_ACQUIRE);

	if (taken > t->sent)
		return -EPROTO;
	if (taken < t->sent)
		return -EAGAIN;
	t->x = t->sent;
	__atomic_store_n(&d->sent, t->sent, __ATOMIC_RELEASE);
	__atomic_store_n(&d->x, t->x, __ATOMIC_RELEASE);
	return move(d, ANC_RAW, ANC_LIFTED) ? 0 : -EBUSY;
}

int anc_spill(struct anc_dir *d, struct anc_tx *t, bool fin)
{
	if (!fin && __atomic_load_n(&d->rawrx, __ATOMIC_SEQ_CST))
		return -EBUSY;
	__atomic_store_n(&d->y, t->sent, __ATOMIC_RELEASE);
	return move(d, ANC_LIFTED, ANC_SPILL) ? 0 : -EAGAIN;
}

int anc_answer(struct anc_dir *d, struct anc_tx *t)
{
	__atomic_store_n(&d->sent, t->sent, __ATOMIC_RELEASE);
	return move(d, ANC_ASKED, ANC_PAUSED) ? 0 : -EAGAIN;
}

int anc_resume_from(struct anc_dir *d, struct anc_tx *t, uint64_t *from)
{
	uint64_t at = __atomic_load_n(&d->from, __ATOMIC_ACQUIRE);

	if (at < t->x || at > t->sent)
		return -EPROTO;
	*from = at;
	return 0;
}

void anc_resumed(struct anc_dir *d)
{
	move(d, ANC_RESUME, ANC_RAW);
}

int anc_where(struct anc_dir *d, struct anc_rx *r, uint64_t *n)
{
	uint64_t y;
	int64_t bells;

	switch (anc_state(d)) {
	case ANC_LIFTED:
	case ANC_ASKED:
	case ANC_PAUSED:
		*n = UINT64_MAX;
		return ANC_AT_RING;
	case ANC_SPILL:
		y = __atomic_load_n(&d->y, __ATOMIC_ACQUIRE);
		if (y < r->taken)
			return -EPROTO;
		*n = y - r->taken;
		if (*n)
			return ANC_AT_RING;
		bells = anc_bells(d, r);
		if (bells < 0)
			return -EPROTO;
		*n = (uint64_t)bells;
		if (bells)
			return ANC_AT_BELLS;
		move(d, ANC_SPILL, ANC_RAW);
		/* fall through */
	default:
		*n = UINT64_MAX;
		return ANC_AT_ANCHOR;
	}
}

int64_t anc_bells(const struct anc_dir *d, const struct anc_rx *r)
{
	uint64_t bells = __atomic_load_n(&d->bells, __ATOMIC_ACQUIRE);

	if (bells < r->bells || bells - r->bells > BELLS_MAX)
		return -EPROTO;
	return (int64_t)(bells - r->bells);
}

bool anc_raw_enter(struct anc_dir *d)
{
	__atomic_add_fetch(&d->rawrx, 1, __ATOMIC_SEQ_CST);
	switch (anc_state(d)) {
	case ANC_RAW:
	case ANC_GONE:
	case ANC_RESUME: /* W is writing stream bytes there */
		return true;
	default:
		anc_raw_leave(d);
		return false;
	}
}

void anc_raw_leave(struct anc_dir *d)
{
	__atomic_sub_fetch(&d->rawrx, 1, __ATOMIC_SEQ_CST);
}

int anc_ask(struct anc_dir *d)
{
	switch (anc_state(d)) {
	case ANC_LIFTED:
		return move(d, ANC_LIFTED, ANC_ASKED) ? 0 : -EINTR;
	case ANC_ASKED:
	case ANC_PAUSED:
		return -EALREADY;
	default:
		return -EAGAIN;
	}
}

bool anc_come_home(struct anc_dir *d, struct anc_rx *r, bool unread)
{
	if (!unread)
		return move(d, ANC_PAUSED, ANC_RAW);
	__atomic_store_n(&d->from, r->taken, __ATOMIC_RELEASE);
	move(d, ANC_PAUSED, ANC_RESUME);
	return false;
}

void anc_revive(struct anc_dir *d)
{
	__atomic_store_n(&d->state, ANC_LIFTED, __ATOMIC_SEQ_CST);
}

void anc_gone(struct anc_dir *d)
{
	__atomic_store_n(&d->state, ANC_GONE, __ATOMIC_SEQ_CST);
}
