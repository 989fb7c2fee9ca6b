/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_HANDOVER_PROTO_ANCHOR_H
#define LIBSDP_HANDOVER_PROTO_ANCHOR_H

/*
 * The anchor machine: what carries a direction of the stream, the kernel's TCP
 * connection (the anchor) or SDP, and how it changes hands without losing,
 * repeating or reordering a byte (reference/anchor.md sections 1, 4 and 6).
 *
 * A direction has a writer W and a reader R, in two processes. They share one
 * struct anc_dir; what each knows for certain it keeps in its own anc_tx or
 * anc_rx. The functions here do no I/O and never wait: the caller moves the
 * bytes. That is how the simulated world can stop them between any two steps.
 *
 *        switch (W)            passed x (R or W)
 *   TCP -----------> SWITCHING ---------------------> LIFTED
 *    ^                 |  \                        /  |
 *    |           stall |   \---- ask (R) ----+----/   | stall
 *    | passed          v                      |        v
 *    +---------------DRAINING <------------------|--------+
 *    |                 +------- ask (R) ----->|
 *    | passed (R, which keeps nothing)        v      answer (W)
 *    +------------------------------------- RECALLED -----------> PAUSED
 *    |  nothing unread (R)                                       |
 *    +-----------------------------------------------------------+
 *    |                                              else (R)     v
 *    +------------ resumed (W wrote [from, sent)) ----------- RESTORING
 *
 *  any --- gone (R closed) ---> GONE
 *
 * In every state but TCP and RESTORING the stream lies
 *
 *   [taken, x) on the anchor, [x, y) in the ring, kicks, [y, ...) on the anchor
 *
 * as far as it is unread, whichever end asks or answers meanwhile. y is
 * ANC_OPEN until W stalls. What R takes off the anchor before its turn it keeps
 * (anc_rx.kept), and `taken` counts it when its turn comes.
 *
 * The rules, each with its control in tests/sim/test_anchor.c:
 *  1 no kick before R passed x: in front of x lie stream bytes only;
 *  2 stall only when no thread of R is inside a receive begun before y;
 *  3 R uses the descriptor as TCP only after PAUSED (or in TCP, held busy), and
 *    W answers only when no thread of its own is inside a send;
 *  4 kicks are taken exactly, and only when the ring is empty;
 *  5 W raises `putting` before it reads the state, around all that it puts
 *    anywhere. So R, once it has asked, may answer for a W that has it down
 *    (anc_answer_for()), alive or not.
 */

#include <stdbool.h>
#include <stdint.h>

enum anc_state {
	ANC_TCP, /* bits 8.., in RESTORING too: calls that hold it busy */
	ANC_SWITCHING, /* W is in the ring, R not yet past x */
	ANC_LIFTED,
	ANC_DRAINING,
	ANC_RECALLED,
	ANC_PAUSED,
	ANC_RESTORING,
	ANC_GONE,
	ANC_STATES
};

#define ANC_BUSY_ONE 0x100u
#define ANC_OPEN     UINT64_MAX /* y: W has not left the ring */

enum { /* anc_dir.armed, anc_dir.sticky: what R's sleepers listen to */
       ANC_WAKE = 1, /* the wake-up socket */
       ANC_ANCHOR = 2, /* the anchor: a kick is needed */
};

enum { /* anc_dir.wait: what W waits for; another value counts as room */
       ANC_WAIT_ROOM = 1,
       ANC_WAIT_LENT = 2, /* the end of a source, no part of it */
};

enum { /* anc_side.counted */
       ANC_COUNTED_RX = 1, /* no other process ever received on its socket */
       ANC_COUNTED_TX = 2, /* nor sent */
};

enum { /* anc_side.leaves */
       ANC_LEAVES = 1, /* what is in the ring it cannot hand back for long, */
       ANC_LEFT, /* nor any more: other processes write to the anchor */
};

/* One direction, in memory both ends can write: one line per writer. */
struct anc_dir {
	_Alignas(64) uint32_t state; /* both, compare and swap */
	uint32_t epoch; /* moves so far; counts between hosts only (remote.h) */
	uint64_t x, y; /* W: last switch to SDP, to the anchor */
	uint64_t kicks; /* W: kicks written, raised before the write */
	uint32_t closing; /* W: in SWITCHING, no receive may begin */
	uint32_t brim; /* W: in RESTORING, the anchor takes no more now */
	_Alignas(64) uint64_t sent; /* W: stream bytes put anywhere */
	uint32_t putting; /* W: rule 5 */
	_Alignas(64) uint64_t taken; /* R: stream bytes taken by the library */
	uint64_t from; /* R: with RESTORING, where W starts over, */
	uint64_t kept; /* and where in the keep area what R keeps begins */
	uint32_t tcp_rx; /* R: threads in a receive begun in TCP */
	uint32_t far; /* R's mirror: W alone makes SWITCHING LIFTED (remote.h) */
	_Alignas(64) uint32_t armed; /* R sets, W clears by exchange */
	uint32_t sticky; /* R */
	_Alignas(64) uint32_t wait; /* W sets, R clears by exchange */
};

/* Beside the two directions: what each end says about itself. */
struct anc_side {
	_Alignas(64) uint64_t service; /* id of its service socket */
	uint32_t rung; /* wake-up bytes sent, raised after the send */
	uint32_t ready; /* its words are in force, and its ring wakes it */
	uint32_t reset; /* its end is or will be a reset (SO_LINGER 0) */
	uint32_t counted; /* ANC_COUNTED_*: it knows of every byte */
	uint32_t urgent; /* it has sent urgent data on the anchor */
	uint32_t bound; /* 1 + the only processor it may use, 0: several */
	uint32_t room; /* what its socket holds unread; 0: not said (window.c) */
	uint32_t leaves; /* 0, ANC_LEAVES, ANC_LEFT */
};

struct anc_page {
	struct anc_dir dir[2]; /* [0]: from the maker of the segment */
	struct anc_side side[2];
};

/* W's own account. */
struct anc_tx {
	uint64_t sent, x, y, kicks;
	int64_t base; /* only if `based`: bytes on the anchor in front of x, */
	bool based; /* kicks and all, less `kicks` */
};

/* R's own account. */
struct anc_rx {
	uint64_t taken, kicks;
	uint64_t kept; /* taken off the anchor before their turn */
	uint64_t from; /* of the last RESTORING */
	int64_t base; /* only if `based`: see anc_drawn() */
	bool based;
	/*
	 * Between hosts (remote.h). In DRAINING: W may not know that R is; in
	 * RESTORING: what R handed back is not on the anchor yet. On one host
	 * from anc_revive_begin() to anc_revive().
	 */
	bool unsure;
};

static inline enum anc_state anc_state(const struct anc_dir *d)
{
	return (enum anc_state)(__atomic_load_n(&d->state, __ATOMIC_ACQUIRE) &
				0xff);
}

/*
 * Several threads count at once: the last store must be the highest, or the
 * other end waits for bytes that were counted long ago.
 */
static inline void anc_publish(uint64_t *word, uint64_t count,
			       const uint64_t *own)
{
	uint64_t now;

	__atomic_store_n(word, count, __ATOMIC_SEQ_CST);
	while ((now = __atomic_load_n(own, __ATOMIC_SEQ_CST)) != count) {
		count = now;
		__atomic_store_n(word, count, __ATOMIC_SEQ_CST);
	}
}

/*
 * The same where one thread counts alone: it holds the lock, and no thread is
 * inside a TCP call. A fence follows (anc_ring() or its kin) before W or R
 * looks for sleepers.
 */
static inline void anc_count(uint64_t *word, uint64_t n, uint64_t *own)
{
	uint64_t count = *own + n;

	__atomic_store_n(own, count, __ATOMIC_RELAXED);
	__atomic_store_n(word, count, __ATOMIC_RELEASE);
}

/* --- both -------------------------------------------------------------- */

/*
 * No switch from here on: kept TCP, or what RESTORING turns into, for a call
 * whose bytes cannot be taken back. -EAGAIN: lifted.
 */
int anc_busy(struct anc_dir *d);
void anc_idle(struct anc_dir *d);

/* --- writer ------------------------------------------------------------ */

/*
 * Around what W puts into the ring or onto the anchor as a kick, with its
 * counts. It reads the state behind the first, whose exchange is the fence.
 */
static inline void anc_put_begin(struct anc_dir *d)
{
	__atomic_exchange_n(&d->putting, 1, __ATOMIC_SEQ_CST);
}

static inline void anc_put_end(struct anc_dir *d)
{
	__atomic_store_n(&d->putting, 0, __ATOMIC_RELEASE);
}

/*
 * From offset sent on W's bytes go to the ring. 0: R has passed sent, the
 * caller rings one kick; 1: SWITCHING, R has not taken all yet, which only
 * `ahead` allows, the promise that both ends counted every byte. -EAGAIN: not
 * drained; -EBUSY: held; -EPROTO: R claims more than was sent. No other thread
 * may send.
 */
int anc_switch(struct anc_dir *d, struct anc_tx *t, bool ahead);
/* W, at once after the switch: R has passed x already, a kick is due. */
bool anc_risen(struct anc_dir *d, const struct anc_tx *t);
/* May W write a kick (rule 1)? */
bool anc_may_kick(const struct anc_dir *d, const struct anc_tx *t);
/*
 * 0: from sent on the anchor carries the stream; -EBUSY: see rule 2; -EAGAIN:
 * not lifted. `fin`: nothing but the kernel's FIN will follow, so that rule 2
 * has nothing to protect.
 */
int anc_stall(struct anc_dir *d, struct anc_tx *t, bool fin);
/*
 * R asked: PAUSED at exactly sent, kicks. 0 or -EAGAIN (not asked). No
 * thread of W is inside a send and none can begin one (it finds RECALLED).
 */
int anc_answer(struct anc_dir *d, struct anc_tx *t);
/*
 * In RESTORING: the offset to start over from and the place in the keep area
 * where what R keeps begins, in a keep area of `room` bytes; -EPROTO if
 * unsound.
 */
int anc_resume_from(struct anc_dir *d, struct anc_tx *t, uint64_t room,
		    uint64_t *from, uint64_t *kept);
/*
 * Where byte `off` of a RESTORING from `from` lies: true: in the keep area,
 * `*at` bytes behind the place R named, for `*n` bytes; false: in the ring.
 */
bool anc_in_keep(const struct anc_tx *t, uint64_t from, uint64_t off,
		 uint64_t *at, uint64_t *n);
/* All of [from, sent) is on the anchor: TCP. */
void anc_resumed(struct anc_dir *d);
/* n more bytes went out, by whatever way. */
static inline void anc_sent(struct anc_dir *d, struct anc_tx *t, uint64_t n)
{
	anc_publish(&d->sent, __atomic_add_fetch(&t->sent, n, __ATOMIC_SEQ_CST),
		    &t->sent);
}
/* The same in LIFTED and SWITCHING: only the holder of the lock sends. */
static inline void anc_sent_alone(struct anc_dir *d, struct anc_tx *t,
				  uint64_t n)
{
	anc_count(&d->sent, n, &t->sent);
}
/*
 * After publishing anything to R: which sleepers must be rung, as ANC_* bits.
 */
static inline uint32_t anc_ring(struct anc_dir *d)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&d->armed, __ATOMIC_RELAXED) &&
	    !__atomic_load_n(&d->sticky, __ATOMIC_RELAXED))
		return 0;
	return (__atomic_exchange_n(&d->armed, 0, __ATOMIC_SEQ_CST) |
		__atomic_load_n(&d->sticky, __ATOMIC_RELAXED));
}
/* One more kick: call before writing it. */
static inline void anc_kick(struct anc_dir *d, struct anc_tx *t)
{
	__atomic_store_n(&d->kicks, ++t->kicks, __ATOMIC_SEQ_CST);
}

/* --- reader ------------------------------------------------------------ */

enum anc_where {
	ANC_AT_ANCHOR, /* the kernel has the next byte */
	ANC_AT_RING, /* up to `n` bytes from the ring */
	ANC_AT_KICKS, /* exactly `n` kicks lie on the anchor first; 0: a
			 thread inside a receive since before the switch has
			 to come out first, or W has to say something (unsure) */
	ANC_AT_QUEUE, /* up to `n` from what is kept, then from the anchor: by
			 receives under the lock, which do not sleep, while
			 tcp_rx is 0 */
};

/*
 * Where does the next stream byte come from, and how much? Moves DRAINING to
 * TCP when R has passed it. Negative: -EPROTO.
 */
int anc_where(struct anc_dir *d, struct anc_rx *r, uint64_t *n);
/* Kicks that may lie on the anchor while LIFTED; -EPROTO if unsound. */
int64_t anc_kicks(const struct anc_dir *d, const struct anc_rx *r);
/* In RESTORING, of `held` bytes that R handed back: what it has to come yet. */
static inline uint64_t anc_unread(const struct anc_rx *r, uint64_t held)
{
	return r->from + held > r->taken ? r->from + held - r->taken : 0;
}
/* n bytes were taken from ring or anchor, in their turn. */
static inline void anc_taken(struct anc_dir *d, struct anc_rx *r, uint64_t n)
{
	anc_publish(&d->taken,
		    __atomic_add_fetch(&r->taken, n, __ATOMIC_SEQ_CST),
		    &r->taken);
}
/*
 * The same, lock held. In LIFTED a thread that begins a TCP receive only now is
 * refused or, when W has left meanwhile, finds nothing to count.
 */
static inline void anc_taken_alone(struct anc_dir *d, struct anc_rx *r,
				   uint64_t n)
{
	if (anc_state(d) == ANC_LIFTED &&
	    !__atomic_load_n(&d->tcp_rx, __ATOMIC_SEQ_CST))
		anc_count(&d->taken, n, &r->taken);
	else
		anc_taken(d, r, n);
}
/*
 * After anc_taken() of bytes from the anchor, whichever thread took them: true
 * when x was passed by this. Others may sleep in the kernel where nothing will
 * come: the caller asks W for a kick.
 */
bool anc_passed(struct anc_dir *d, const struct anc_rx *r);
/*
 * A receive on the anchor begins in TCP or before x: true, count it out by
 * anc_tcp_leave() after what it took was accounted. False: not there.
 */
bool anc_tcp_enter(struct anc_dir *d, const struct anc_rx *r);
/* Nothing, for one that was taken for lost and counted out. */
void anc_tcp_leave(struct anc_dir *d);
/*
 * Bytes that the kernel has given off the anchor, by what was counted: those
 * of the stream, kicks, and `base` more (fewer). `stale`: what is kept was
 * written back.
 */
int64_t anc_drawn(const struct anc_dir *d, const struct anc_rx *r, bool stale);
/* What a receive on the anchor returned: stream bytes, not kicks? */
bool anc_tcp_stream(const struct anc_dir *d, const struct anc_rx *r);
/* R wants to fall back: 0 asked, or -EALREADY / -EAGAIN (TCP: use anc_busy). */
int anc_ask(struct anc_dir *d);
/*
 * RECALLED: 0, PAUSED, as W would have answered. -EAGAIN: W has to. Only on
 * one host, where all that W put is seen, and while tcp_rx is 0.
 */
int anc_answer_for(struct anc_dir *d, const struct anc_rx *r);
/*
 * RECALLED or PAUSED, lock held: what R has to take off the anchor now and
 * keep. `n` more stream bytes (ANC_AT_QUEUE, never for kicks), or `n` kicks
 * (ANC_AT_KICKS); ANC_AT_ANCHOR: nothing, or nothing more. While RECALLED `n`
 * may be more than will come. Negative: -EPROTO.
 */
int anc_keep(const struct anc_dir *d, const struct anc_rx *r, uint64_t *n);
/*
 * In PAUSED, when W's `putting` is down (else a kick may be under way) and
 * anc_keep() says nothing more: TCP and true when nothing is unread that does
 * not lie on the anchor, else RESTORING; `kept`: where in the keep area it
 * begins. Between hosts (anc_dir.far) nothing unread is left on the anchor, and
 * it is always RESTORING.
 */
bool anc_fall_back(struct anc_dir *d, struct anc_rx *r, uint64_t kept);
/*
 * R finds W dead in RESTORING: what W did not write back, R has, in the ring
 * and kept. Where that begins is known only while no receive takes more off the
 * anchor: from anc_revive_begin() on none begins there. False: one is inside,
 * and all is as before. Behind anc_revive() it lies as in RECALLED.
 */
bool anc_revive_begin(struct anc_dir *d, struct anc_rx *r);
void anc_revive(struct anc_dir *d, struct anc_rx *r);
/* R closed for good; the state until then. */
enum anc_state anc_gone(struct anc_dir *d);
static inline void anc_arm(struct anc_dir *d, uint32_t bits)
{
	if ((__atomic_load_n(&d->armed, __ATOMIC_RELAXED) & bits) != bits)
		__atomic_or_fetch(&d->armed, bits, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

const char *anc_state_name(enum anc_state s);

#endif
