/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The anchor machine, see anchor.h. */

#include <errno.h>

#include "handover_proto/anchor.h"

/* More kicks than this cannot lie in a socket's queue: the peer lies. */
#define KICKS_MAX (1u << 20)

static const char *const names[ANC_STATES] = {
	[ANC_TCP] = "tcp",	    [ANC_SWITCHING] = "rising",
	[ANC_LIFTED] = "lifted",    [ANC_DRAINING] = "stall",
	[ANC_RECALLED] = "asked",   [ANC_PAUSED] = "paused",
	[ANC_RESTORING] = "resume", [ANC_GONE] = "gone",
};

/* Which states may follow which: bit s of allowed[from] (both ends' moves). */
#define TO(s) (1u << ANC_##s)
static const uint32_t allowed[ANC_STATES] = {
	[ANC_TCP] = TO(SWITCHING) | TO(LIFTED) | TO(GONE),
	[ANC_SWITCHING] = TO(LIFTED) | TO(DRAINING) | TO(RECALLED) | TO(GONE),
	[ANC_LIFTED] = TO(DRAINING) | TO(RECALLED) | TO(GONE),
	[ANC_DRAINING] = TO(TCP) | TO(RECALLED) | TO(GONE),
	[ANC_RECALLED] = TO(TCP) | TO(PAUSED) | TO(GONE),
	[ANC_PAUSED] = TO(TCP) | TO(RESTORING) | TO(GONE),
	[ANC_RESTORING] = TO(TCP) | TO(GONE),
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

static bool holdable(uint32_t state)
{
	return (state & 0xff) == ANC_TCP || (state & 0xff) == ANC_RESTORING;
}

int anc_busy(struct anc_dir *d)
{
	uint32_t old = __atomic_load_n(&d->state, __ATOMIC_ACQUIRE);

	do {
		if (!holdable(old))
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
		if (!holdable(old) || old < ANC_BUSY_ONE)
			return; /* GONE meanwhile, or the peer wrote here */
	} while (!__atomic_compare_exchange_n(
		&d->state, &old, old - ANC_BUSY_ONE, 0, __ATOMIC_SEQ_CST,
		__ATOMIC_ACQUIRE));
}

/*
 * R has all in front of x: LIFTED. Whichever end made it so, or asked
 * meanwhile, those that sleep in the kernel need a kick. The state is read
 * first: x is of the last switch only then.
 */
static bool past_x(struct anc_dir *d, const uint64_t *taken, const uint64_t *x)
{
	enum anc_state st;
	uint32_t word;

	do {
		word = __atomic_load_n(&d->state, __ATOMIC_ACQUIRE);
		st = (enum anc_state)(word & 0xff);
		if (st < ANC_SWITCHING || st > ANC_RECALLED ||
		    __atomic_load_n(taken, __ATOMIC_SEQ_CST) <
			    __atomic_load_n(x, __ATOMIC_ACQUIRE))
			return false;
		/* no call holds it there: the peer wrote here, and may go on */
		if (word >= ANC_BUSY_ONE)
			return false;
	} while (st == ANC_SWITCHING && !d->far &&
		 !move(d, ANC_SWITCHING, ANC_LIFTED));
	return true;
}

/* --- writer ------------------------------------------------------------ */

int anc_switch(struct anc_dir *d, struct anc_tx *t, bool ahead)
{
	uint64_t taken = __atomic_load_n(&d->taken, __ATOMIC_ACQUIRE);

	if (taken > t->sent)
		return -EPROTO;
	if (taken < t->sent && !ahead)
		return -EAGAIN;
	t->x = t->sent;
	t->y = ANC_OPEN;
	__atomic_store_n(&d->sent, t->sent, __ATOMIC_RELEASE);
	__atomic_store_n(&d->x, t->x, __ATOMIC_RELEASE);
	__atomic_store_n(&d->y, t->y, __ATOMIC_RELEASE);
	if (taken == t->sent)
		return move(d, ANC_TCP, ANC_LIFTED) ? 0 : -EBUSY;
	if (!move(d, ANC_TCP, ANC_SWITCHING))
		return -EBUSY;
	/* R may have passed x before it could see the state */
	return anc_risen(d, t) ? 0 : 1;
}

bool anc_risen(struct anc_dir *d, const struct anc_tx *t)
{
	return past_x(d, &d->taken, &t->x);
}

bool anc_may_kick(const struct anc_dir *d, const struct anc_tx *t)
{
	enum anc_state st = anc_state(d);

	return (st == ANC_SWITCHING || st == ANC_LIFTED ||
		st == ANC_RECALLED) &&
	       t->y == ANC_OPEN &&
	       __atomic_load_n(&d->taken, __ATOMIC_SEQ_CST) >= t->x;
}

/* In SWITCHING a receive could begin while we look whether one is inside. */
static int stall_switching(struct anc_dir *d, bool fin)
{
	int ret = -EBUSY;

	__atomic_store_n(&d->closing, 1, __ATOMIC_SEQ_CST);
	if (fin || !__atomic_load_n(&d->tcp_rx, __ATOMIC_SEQ_CST))
		ret = move(d, ANC_SWITCHING, ANC_DRAINING) ? 0 : -EAGAIN;
	__atomic_store_n(&d->closing, 0, __ATOMIC_SEQ_CST);
	return ret;
}

int anc_stall(struct anc_dir *d, struct anc_tx *t, bool fin)
{
	/* once it is DRAINING others of W may send */
	uint64_t y = __atomic_load_n(&t->sent, __ATOMIC_SEQ_CST);
	int ret = 0;

	if (!fin && __atomic_load_n(&d->tcp_rx, __ATOMIC_SEQ_CST))
		return -EBUSY;
	anc_put_begin(d);
	if (!move(d, ANC_LIFTED, ANC_DRAINING))
		ret = stall_switching(d, fin);
	if (!ret) {
		/* only now: R must not find it in another state */
		t->y = y;
		__atomic_store_n(&d->y, y, __ATOMIC_SEQ_CST);
	}
	anc_put_end(d);
	return ret;
}

int anc_answer(struct anc_dir *d, struct anc_tx *t)
{
	__atomic_store_n(&d->sent, t->sent, __ATOMIC_RELEASE);
	__atomic_store_n(&d->brim, 0, __ATOMIC_RELEASE);
	anc_put_end(d);
	return move(d, ANC_RECALLED, ANC_PAUSED) ? 0 : -EAGAIN;
}

int anc_resume_from(struct anc_dir *d, struct anc_tx *t, uint64_t room,
		    uint64_t *from, uint64_t *kept)
{
	uint64_t at = __atomic_load_n(&d->from, __ATOMIC_ACQUIRE);
	uint64_t need = 0;

	*kept = __atomic_load_n(&d->kept, __ATOMIC_ACQUIRE);
	if (at > t->sent || (at < t->x && t->y == ANC_OPEN))
		return -EPROTO;
	if (at < t->x)
		need = t->x - at;
	if (t->y < t->sent)
		need += t->sent - (at > t->y ? at : t->y);
	if (need > room || *kept > room - need)
		return -EPROTO;
	*from = at;
	return 0;
}

bool anc_in_keep(const struct anc_tx *t, uint64_t from, uint64_t off,
		 uint64_t *at, uint64_t *n)
{
	uint64_t ring;

	if (off < t->x) {
		*at = off - from;
		*n = t->x - off;
		return true;
	}
	if (off < t->y) {
		*n = (t->y < t->sent ? t->y : t->sent) - off;
		return false;
	}
	/* what of [from, off) is in the ring */
	ring = from > t->y ? 0 : t->y - (from > t->x ? from : t->x);
	*at = off - from - ring;
	*n = t->sent - off;
	return true;
}

void anc_resumed(struct anc_dir *d)
{
	uint32_t old = __atomic_load_n(&d->state, __ATOMIC_ACQUIRE);

	do {
		if ((old & 0xff) != ANC_RESTORING)
			return;
	} while (!__atomic_compare_exchange_n(
		&d->state, &old, old - ANC_RESTORING + ANC_TCP, 0,
		__ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE));
	__atomic_add_fetch(&d->epoch, 1, __ATOMIC_RELEASE);
}

/* --- reader ------------------------------------------------------------ */

/*
 * Of the stream, taken off the anchor. The state is read first: see past_x().
 */
static uint64_t off_anchor(const struct anc_dir *d, const struct anc_rx *r,
			   uint64_t kept)
{
	enum anc_state st = anc_state(d);
	uint64_t x, y;

	if (st == ANC_TCP || st == ANC_RESTORING || st == ANC_GONE)
		return r->taken;
	x = __atomic_load_n(&d->x, __ATOMIC_ACQUIRE);
	y = __atomic_load_n(&d->y, __ATOMIC_ACQUIRE);
	if (r->taken < x)
		return r->taken + kept;
	return x + kept + (r->taken > y ? r->taken - y : 0);
}

int64_t anc_drawn(const struct anc_dir *d, const struct anc_rx *r, bool stale)
{
	uint64_t off = off_anchor(d, r, stale ? 0 : r->kept);

	return (int64_t)(off + r->kicks) + r->base;
}

/* Past x, with W out of the ring at y: the kicks, and then? */
static int behind_ring(struct anc_dir *d, struct anc_rx *r, uint64_t *n)
{
	enum anc_state st = anc_state(d);
	int64_t kicks = anc_kicks(d, r), ring;
	/* R has read what it asked for and keeps nothing: no answer is due */
	bool passes = st == ANC_DRAINING ||
		      (st == ANC_RECALLED && !r->kept && !d->far);

	if (kicks < 0)
		return -EPROTO;
	*n = (uint64_t)kicks;
	if (kicks)
		return ANC_AT_KICKS;
	if (passes &&
	    (r->unsure || __atomic_load_n(&d->tcp_rx, __ATOMIC_SEQ_CST)))
		return ANC_AT_KICKS; /* one may have been looked at */
	*n = UINT64_MAX;
	if (!passes)
		return ANC_AT_QUEUE;
	/* before the move, behind which others take */
	ring = (int64_t)(off_anchor(d, r, 0) - r->taken);
	if (move(d, st, ANC_TCP))
		r->base += ring;
	else if (st == ANC_RECALLED)
		return ANC_AT_QUEUE; /* it was answered this instant */
	return ANC_AT_ANCHOR;
}

int anc_where(struct anc_dir *d, struct anc_rx *r, uint64_t *n)
{
	enum anc_state st = anc_state(d);
	uint64_t x, y;

	*n = UINT64_MAX;
	switch (st) {
	case ANC_LIFTED:
		return ANC_AT_RING;
	case ANC_SWITCHING:
	case ANC_DRAINING:
	case ANC_RECALLED:
	case ANC_PAUSED:
		break;
	case ANC_RESTORING:
		*n = r->unsure ? 0 : *n;
		return r->unsure ? ANC_AT_KICKS : ANC_AT_ANCHOR;
	default:
		return ANC_AT_ANCHOR;
	}
	x = __atomic_load_n(&d->x, __ATOMIC_ACQUIRE);
	y = __atomic_load_n(&d->y, __ATOMIC_ACQUIRE);
	if (y < x || (st == ANC_DRAINING && y < r->taken))
		return -EPROTO;
	if (r->taken < x) {
		*n = x - r->taken;
		if (st == ANC_SWITCHING &&
		    !__atomic_load_n(&d->closing, __ATOMIC_ACQUIRE))
			return ANC_AT_ANCHOR;
		return ANC_AT_QUEUE;
	}
	if (y == ANC_OPEN) {
		if (!d->far)
			move(d, ANC_SWITCHING, ANC_LIFTED);
		return ANC_AT_RING;
	}
	if (r->taken >= y)
		return behind_ring(d, r, n);
	*n = y - r->taken;
	return ANC_AT_RING;
}

int64_t anc_kicks(const struct anc_dir *d, const struct anc_rx *r)
{
	uint64_t kicks = __atomic_load_n(&d->kicks, __ATOMIC_ACQUIRE);

	if (kicks < r->kicks || kicks - r->kicks > KICKS_MAX)
		return -EPROTO;
	return (int64_t)(kicks - r->kicks);
}

bool anc_passed(struct anc_dir *d, const struct anc_rx *r)
{
	return past_x(d, &r->taken, &d->x);
}

bool anc_tcp_enter(struct anc_dir *d, const struct anc_rx *r)
{
	bool closing;

	__atomic_add_fetch(&d->tcp_rx, 1, __ATOMIC_SEQ_CST);
	/* before the state: see stall_switching() */
	closing = __atomic_load_n(&d->closing, __ATOMIC_SEQ_CST);
	switch (anc_state(d)) {
	case ANC_TCP:
	case ANC_GONE:
		return true;
	case ANC_RESTORING: /* W is writing stream bytes there */
		if (!__atomic_load_n(&r->unsure, __ATOMIC_SEQ_CST))
			return true;
		break;
	case ANC_SWITCHING:
		if (!closing &&
		    __atomic_load_n(&r->taken, __ATOMIC_SEQ_CST) <
			    __atomic_load_n(&d->x, __ATOMIC_ACQUIRE))
			return true;
		break;
	default:
		break;
	}
	anc_tcp_leave(d);
	return false;
}

bool anc_tcp_stream(const struct anc_dir *d, const struct anc_rx *r)
{
	switch (anc_state(d)) {
	case ANC_TCP:
	case ANC_GONE:
	case ANC_RESTORING:
		return true;
	default:
		return __atomic_load_n(&r->taken, __ATOMIC_SEQ_CST) <
		       __atomic_load_n(&d->x, __ATOMIC_ACQUIRE);
	}
}

void anc_tcp_leave(struct anc_dir *d)
{
	uint32_t n = __atomic_load_n(&d->tcp_rx, __ATOMIC_SEQ_CST);

	while (n &&
	       !__atomic_compare_exchange_n(&d->tcp_rx, &n, n - 1, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

int anc_ask(struct anc_dir *d)
{
	enum anc_state st = anc_state(d);

	switch (st) {
	case ANC_SWITCHING:
	case ANC_LIFTED:
	case ANC_DRAINING:
		return move(d, st, ANC_RECALLED) ? 0 : -EINTR;
	case ANC_RECALLED:
	case ANC_PAUSED:
		return -EALREADY;
	default:
		return -EAGAIN;
	}
}

int anc_answer_for(struct anc_dir *d, const struct anc_rx *r)
{
	uint64_t x, from;

	if (d->far || anc_state(d) != ANC_RECALLED ||
	    __atomic_load_n(&d->putting, __ATOMIC_SEQ_CST) ||
	    __atomic_load_n(&d->tcp_rx, __ATOMIC_SEQ_CST) ||
	    __atomic_load_n(&d->y, __ATOMIC_ACQUIRE) != ANC_OPEN)
		return -EAGAIN;
	x = __atomic_load_n(&d->x, __ATOMIC_ACQUIRE);
	from = r->taken < x ? x : r->taken;
	if (from != __atomic_load_n(&d->sent, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	return move(d, ANC_RECALLED, ANC_PAUSED) ? 0 : -EAGAIN;
}

int anc_keep(const struct anc_dir *d, const struct anc_rx *r, uint64_t *n)
{
	enum anc_state st = anc_state(d); /* first: PAUSED makes sent final */
	uint64_t x = __atomic_load_n(&d->x, __ATOMIC_ACQUIRE);
	uint64_t y = __atomic_load_n(&d->y, __ATOMIC_ACQUIRE);
	uint64_t sent = __atomic_load_n(&d->sent, __ATOMIC_ACQUIRE);
	uint64_t front = r->taken < x ? x - r->taken : 0, all;
	int64_t kicks;

	*n = 0;
	if (y == ANC_OPEN && front && !(d->far && st == ANC_PAUSED))
		return ANC_AT_ANCHOR; /* it lies where it shall be */
	if (r->kept < front) {
		*n = front - r->kept;
		return ANC_AT_QUEUE;
	}
	kicks = anc_kicks(d, r);
	if (kicks < 0)
		return -EPROTO;
	*n = (uint64_t)kicks;
	if (kicks)
		return st == ANC_PAUSED || y != ANC_OPEN ? ANC_AT_KICKS :
							   ANC_AT_ANCHOR;
	if (y == ANC_OPEN)
		return ANC_AT_ANCHOR;
	*n = UINT64_MAX;
	if (st != ANC_PAUSED)
		return ANC_AT_QUEUE;
	all = front + sent - (r->taken > y ? r->taken : y);
	if (sent < y || sent < r->taken || r->kept > all)
		return -EPROTO;
	*n = all - r->kept;
	return *n ? ANC_AT_QUEUE : ANC_AT_ANCHOR;
}

bool anc_fall_back(struct anc_dir *d, struct anc_rx *r, uint64_t kept)
{
	uint64_t x = __atomic_load_n(&d->x, __ATOMIC_ACQUIRE);
	uint64_t y = __atomic_load_n(&d->y, __ATOMIC_ACQUIRE);
	uint64_t from = r->taken;

	r->base += (int64_t)(off_anchor(d, r, r->kept) - from);
	r->based &= !d->far; /* a record follows, and is no kick */
	if (y == ANC_OPEN && from < x && !d->far)
		from = x;
	if (!d->far && from >= __atomic_load_n(&d->sent, __ATOMIC_ACQUIRE))
		return move(d, ANC_PAUSED, ANC_TCP);
	r->from = from;
	__atomic_store_n(&d->from, from, __ATOMIC_RELEASE);
	__atomic_store_n(&d->kept, kept, __ATOMIC_RELEASE);
	move(d, ANC_PAUSED, ANC_RESTORING);
	return false;
}

bool anc_revive_begin(struct anc_dir *d, struct anc_rx *r)
{
	bool was = __atomic_exchange_n(&r->unsure, true, __ATOMIC_SEQ_CST);

	if (!__atomic_load_n(&d->tcp_rx, __ATOMIC_SEQ_CST))
		return true;
	__atomic_store_n(&r->unsure, was, __ATOMIC_SEQ_CST);
	return false;
}

void anc_revive(struct anc_dir *d, struct anc_rx *r)
{
	__atomic_store_n(&d->state, ANC_RECALLED, __ATOMIC_SEQ_CST);
	if (!d->far)
		__atomic_store_n(&r->unsure, false, __ATOMIC_SEQ_CST);
}

enum anc_state anc_gone(struct anc_dir *d)
{
	uint32_t was =
		__atomic_exchange_n(&d->state, ANC_GONE, __ATOMIC_SEQ_CST);

	return (enum anc_state)(was & 0xff);
}
