/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Snapshots of the words, see remote.h. Layout, integers big-endian:
 *
 *        writer's half               reader's half
 *    0   REMOTE_WRITER               REMOTE_READER
 *    1   state                       state
 *    2   flags                       flags
 *    3   0                           messages to be sent for our sake
 *    4   epoch                       epoch
 *    8   question after `taken`      question answered
 *   12   kicks written               kicks asked for
 *   16   y in DRAINING, else x          from
 *   24   sent                        taken
 */

#include <errno.h>
#include <string.h>

#include "sdp_proto/wire.h"
#include "handover_proto/remote.h"

#define KICKS_AHEAD 4096u /* kicks that may be unread at a time */
#define NEWS_LEN    24 /* the rest are counts, told on demand */

enum { /* flags */
       IS_READY = 0x01, /* either half: the sender's words are in force, */
       IS_RESET = 0x02, /* and its end is or will be a reset */
       IS_HELD = 0x04, /* writer: the reader's busy calls are counted */
       IS_TCP_RX = 0x04, /* reader: threads are in a receive begun in TCP */
       IS_SEEN = 0x08, /* writer: knows that the reader knows of DRAINING */
       IS_BUSY = 0x08, /* reader: wants the direction to stay in TCP */
       IS_GONE = 0x10, /* reader: closed */
       IS_COUNTED = 0x20, /* either half: it counts all that it receives */
       IS_GIVEN = 0x40, /* reader, in RESTORING: found what it handed back */
};

#define TO(s) (1u << ANC_##s)

/* The moves of each end; those of both are the union in anchor.c. */
static const uint32_t writer_moves[ANC_STATES] = {
	[ANC_TCP] = TO(SWITCHING) | TO(LIFTED),
	[ANC_SWITCHING] = TO(LIFTED) | TO(DRAINING),
	[ANC_LIFTED] = TO(DRAINING),
	[ANC_RECALLED] = TO(PAUSED),
	[ANC_RESTORING] = TO(TCP),
};

static const uint32_t reader_moves[ANC_STATES] = {
	[ANC_SWITCHING] = TO(RECALLED),
	[ANC_LIFTED] = TO(RECALLED),
	[ANC_DRAINING] = TO(TCP) | TO(RECALLED),
	[ANC_PAUSED] = TO(RESTORING),
};

static uint32_t epoch_of(const struct anc_dir *d)
{
	return __atomic_load_n(&d->epoch, __ATOMIC_ACQUIRE);
}

static bool before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/* Do `n` moves of that end lead from one state to the other? */
static bool leads(const uint32_t *moves, enum anc_state from, enum anc_state to,
		  uint32_t n)
{
	uint32_t at = 1u << from, next;
	unsigned int s;

	for (; n && at; n--) {
		next = 0;
		for (s = 0; s < ANC_STATES; s++)
			if (at & (1u << s))
				next |= moves[s];
		at = next;
	}
	return !n && (at & (1u << to));
}

void remote_init(struct remote *r, struct anc_page *mirror,
		 const struct anc_tx *at, struct anc_rx *ar)
{
	r->tx = &mirror->dir[0];
	r->rx = &mirror->dir[1];
	r->own = &mirror->side[0];
	r->peer = &mirror->side[1];
	r->rx->far = 1;
	r->at = at;
	r->ar = ar;
	r->kicks = (uint32_t)ar->kicks;
	r->rx->kicks = ar->kicks;
}

bool remote_sure(const struct remote *r)
{
	uint32_t behind = epoch_of(r->rx) - r->writer_epoch;

	if (anc_state(r->rx) == ANC_DRAINING)
		return !r->ar->unsure;
	/*
	 * a reader that left DRAINING had been told that the writer knew of it
	 */
	return !behind || (behind == 1 && anc_state(r->rx) == ANC_TCP &&
			   r->writer_state == ANC_DRAINING);
}

bool remote_seen(const struct remote *r)
{
	return r->reader_epoch == epoch_of(r->tx) &&
	       r->reader_state == anc_state(r->tx);
}

void remote_kicks_ahead(struct remote *r)
{
	uint64_t own = __atomic_load_n(&r->ar->kicks, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&r->rx->kicks, __ATOMIC_ACQUIRE) < own)
		__atomic_store_n(&r->rx->kicks, own, __ATOMIC_RELEASE);
}

/* --- making ------------------------------------------------------------ */

static uint8_t side_flags(const struct anc_side *own)
{
	return (uint8_t)((own->ready ? IS_READY : 0) |
			 (own->reset ? IS_RESET : 0) |
			 (own->counted & ANC_COUNTED_RX ? IS_COUNTED : 0));
}

static void make_writer(struct remote *r, uint8_t *out)
{
	enum anc_state st = anc_state(r->tx);

	/*
	 * One question at a time: the answer tells the newest count. One that
	 * waits for room need not ask, it comes with credits; asking would use
	 * them up.
	 */
	if (st != ANC_LIFTED && r->wait_no == r->wait_done &&
	    __atomic_exchange_n(&r->tx->wait, 0, __ATOMIC_SEQ_CST))
		r->wait_no++;
	out[0] = REMOTE_WRITER;
	out[1] = (uint8_t)st;
	out[2] = side_flags(r->own) | (r->reader_busy ? IS_HELD : 0);
	if (st == ANC_DRAINING && remote_seen(r))
		out[2] |= IS_SEEN;
	wire_put32(out + 4, epoch_of(r->tx));
	wire_put32(out + 8, r->wait_no);
	wire_put32(out + 12, (uint32_t)r->at->kicks);
	wire_put64(out + 16, st == ANC_DRAINING ? r->tx->y : r->at->x);
	wire_put64(out + 24, r->at->sent);
}

/*
 * The writer wants to hear of a drained direction, or, where it has switched
 * since it asked, of any progress. `wait` is cleared where bytes are taken
 * (ring.c) or here.
 */
static void answer(struct remote *r)
{
	enum anc_state st = anc_state(r->rx);

	if (r->wait_told == r->wait_seen)
		return;
	if (st <= ANC_SWITCHING && r->ar->taken < remote_awaited(r->rx))
		return;
	if (st > ANC_SWITCHING &&
	    __atomic_load_n(&r->rx->wait, __ATOMIC_SEQ_CST))
		return;
	__atomic_store_n(&r->rx->wait, 0, __ATOMIC_SEQ_CST);
	r->wait_told = r->wait_seen;
}

/* Within an epoch one answer for each change, so that it is known to which. */
static bool busy(struct remote *r, uint32_t word)
{
	uint32_t epoch = epoch_of(r->rx);

	if (epoch != r->busy_epoch || r->busy == r->held) {
		r->busy = word >= ANC_BUSY_ONE;
		r->busy_epoch = epoch;
	}
	return r->busy;
}

static void make_reader(struct remote *r, uint8_t *out)
{
	uint32_t word = __atomic_load_n(&r->rx->state, __ATOMIC_ACQUIRE);
	uint32_t armed = __atomic_load_n(&r->rx->armed, __ATOMIC_SEQ_CST);

	answer(r);
	if (armed & ANC_ANCHOR) {
		__atomic_and_fetch(&r->rx->armed, ~(uint32_t)ANC_ANCHOR,
				   __ATOMIC_SEQ_CST);
		r->kick_no++;
	}
	out[0] = REMOTE_READER;
	out[1] = (uint8_t)word;
	out[2] = side_flags(r->own);
	if (__atomic_load_n(&r->rx->tcp_rx, __ATOMIC_SEQ_CST))
		out[2] |= IS_TCP_RX;
	if (busy(r, word))
		out[2] |= IS_BUSY;
	if ((word & 0xff) == ANC_GONE)
		out[2] |= IS_GONE;
	if ((word & 0xff) == ANC_RESTORING && !r->ar->unsure)
		out[2] |= IS_GIVEN;
	out[3] = r->burn_no;
	wire_put32(out + 4, epoch_of(r->rx));
	wire_put32(out + 8, r->wait_told);
	wire_put32(out + 12, r->kick_no);
	wire_put64(out + 16, r->rx->from);
	wire_put64(out + 24, r->ar->taken);
}

bool remote_make(struct remote *r, enum remote_half half, bool idle,
		 uint8_t out[REMOTE_LEN])
{
	/* a closed end reads no more: there is nothing to tell of a writer */
	if (half == REMOTE_WRITER && anc_state(r->tx) == ANC_GONE)
		return false;
	memset(out, 0, REMOTE_LEN);
	if (half == REMOTE_WRITER)
		make_writer(r, out);
	else
		make_reader(r, out);
	if (!memcmp(out, r->told[half],
		    idle && half == REMOTE_READER ? REMOTE_LEN : NEWS_LEN))
		return false;
	memcpy(r->told[half], out, REMOTE_LEN);
	return true;
}

/* --- taking ------------------------------------------------------------ */

static void take_side(struct remote *r, uint8_t flags)
{
	if (flags & IS_READY)
		__atomic_store_n(&r->peer->ready, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&r->peer->counted,
			 flags & IS_COUNTED ? ANC_COUNTED_RX : 0,
			 __ATOMIC_RELEASE);
	if (flags & IS_RESET)
		__atomic_store_n(&r->peer->reset, 1, __ATOMIC_RELEASE);
}

static void adopt(struct anc_dir *d, uint32_t epoch, enum anc_state st)
{
	__atomic_store_n(&d->epoch, epoch, __ATOMIC_RELEASE);
	/* what the reader takes in front of x it takes exactly */
	__atomic_store_n(&d->closing, st == ANC_SWITCHING, __ATOMIC_SEQ_CST);
	__atomic_store_n(&d->state, (uint32_t)st, __ATOMIC_SEQ_CST);
}

static bool tied(const struct remote *r, uint32_t epoch, enum anc_state st)
{
	return (st == ANC_LIFTED || st == ANC_DRAINING) &&
	       leads(writer_moves, r->writer_state, st,
		     epoch - r->writer_epoch);
}

/* Where busy calls of the reader count. */
static bool holds(enum anc_state st)
{
	return st == ANC_TCP || st == ANC_RESTORING;
}

/*
 * The writer of our receive direction is at (epoch, st). 1: we follow it, 0:
 * nothing new, -EPROTO. Where both moved it is the writer's move that counts:
 * we have asked, and it had moved on from where we last saw it.
 */
static int follow(const struct remote *r, uint32_t epoch, enum anc_state st)
{
	uint32_t own = epoch_of(r->rx);
	enum anc_state was = anc_state(r->rx);

	if (was == ANC_GONE || before(epoch, own))
		return 0;
	if (epoch == own) {
		if (st == was)
			return 0;
		return was == ANC_RECALLED && tied(r, epoch, st) ? 1 : -EPROTO;
	}
	if (was == ANC_RECALLED && tied(r, epoch, st))
		return 1;
	return leads(writer_moves, was, st, epoch - own) ? 1 : -EPROTO;
}

static int take_writer(struct remote *r, const uint8_t *in)
{
	enum anc_state st = in[1];
	uint32_t epoch = wire_get32(in + 4), no = wire_get32(in + 8);
	uint32_t kicks = wire_get32(in + 12);
	uint64_t at = wire_get64(in + 16), sent = wire_get64(in + 24);
	struct anc_dir *d = r->rx;
	int news = 0, ret;
	bool held;

	if (st >= ANC_GONE || sent < d->sent || at > sent ||
	    kicks - r->kicks > KICKS_AHEAD || before(no, r->wait_seen))
		return -EPROTO;
	ret = follow(r, epoch, st);
	if (ret < 0 || (ret && st == ANC_DRAINING && at < r->ar->taken))
		return -EPROTO;
	/* exact from here on: no kick is written behind these */
	if ((st == ANC_DRAINING || st == ANC_PAUSED) &&
	    (int32_t)(kicks - (uint32_t)r->ar->kicks) < 0)
		return -EPROTO;
	r->kicks = kicks;
	if ((int32_t)(kicks - (uint32_t)d->kicks) > 0)
		__atomic_store_n(&d->kicks,
				 d->kicks + (kicks - (uint32_t)d->kicks),
				 __ATOMIC_RELEASE);
	__atomic_store_n(&d->sent, sent, __ATOMIC_RELEASE);
	if (st != ANC_DRAINING)
		__atomic_store_n(&d->x, at, __ATOMIC_RELEASE);
	/* asked behind a stall: y is what it was */
	if (st == ANC_DRAINING || st < ANC_DRAINING)
		__atomic_store_n(&d->y, st == ANC_DRAINING ? at : ANC_OPEN,
				 __ATOMIC_RELEASE);
	if (!before(epoch, epoch_of(d))) {
		r->writer_epoch = epoch;
		r->writer_state = (uint8_t)st;
	}
	if (ret && st == ANC_TCP && anc_state(d) == ANC_RESTORING) {
		anc_resumed(d); /* with the calls that hold it */
		r->ar->unsure = false;
		news |= REMOTE_STATE;
	} else if (ret) {
		if (__atomic_load_n(&d->state, __ATOMIC_ACQUIRE) >=
		    ANC_BUSY_ONE)
			news |= REMOTE_VOID;
		r->ar->unsure = st == ANC_DRAINING;
		adopt(d, epoch, st);
		news |= REMOTE_STATE;
	}
	if (r->ar->unsure && (in[2] & IS_SEEN) && epoch == epoch_of(d) &&
	    anc_state(d) == ANC_DRAINING) {
		r->ar->unsure = false;
		news |= REMOTE_STATE;
	}
	held = (in[2] & IS_HELD) && epoch == epoch_of(d) && holds(st);
	if (held != r->held)
		news |= REMOTE_STATE;
	r->held = held;
	if (no != r->wait_seen) {
		r->wait_seen = no;
		__atomic_store_n(&d->wait, 1, __ATOMIC_SEQ_CST);
		news |= REMOTE_ASKS;
	}
	return news;
}

/* The same of the reader of our transmit direction: only its own next move. */
static int yield(const struct remote *r, uint32_t epoch, enum anc_state st)
{
	uint32_t own = epoch_of(r->tx);
	enum anc_state now = anc_state(r->tx);

	if (r->gone || before(epoch, own))
		return 0;
	if (epoch == own)
		return st == now || (st == ANC_RECALLED &&
				     (now == ANC_DRAINING ||
				      now == ANC_LIFTED)) ?
			       0 :
			       -EPROTO;
	return epoch == own + 1 && (reader_moves[now] & (1u << st)) ? 1 :
								      -EPROTO;
}

/* Its busy calls hold our word as one of ours would. */
static void hold(struct remote *r, bool busy)
{
	if (busy == r->reader_busy)
		return;
	if (busy && anc_busy(r->tx))
		return;
	if (!busy)
		anc_idle(r->tx);
	r->reader_busy = busy;
}

/*
 * More than was sent cannot have been taken. On the anchor bytes may arrive
 * before the call that sent them has returned and counted them.
 */
static bool too_much(const struct remote *r, uint64_t taken)
{
	enum anc_state st = anc_state(r->tx);

	return taken > r->at->sent &&
	       (st == ANC_LIFTED || st == ANC_PAUSED ||
		(st == ANC_RECALLED && r->at->y == ANC_OPEN));
}

static int take_reader(struct remote *r, const uint8_t *in)
{
	enum anc_state st = in[1];
	uint32_t epoch = wire_get32(in + 4), done = wire_get32(in + 8);
	uint32_t asked = wire_get32(in + 12);
	uint64_t from = wire_get64(in + 16), taken = wire_get64(in + 24);
	struct anc_dir *d = r->tx;
	int news = 0, ret;

	if (st >= ANC_STATES || (st == ANC_GONE) != !!(in[2] & IS_GONE) ||
	    too_much(r, taken) || taken < d->taken ||
	    before(r->wait_no, done) || before(done, r->wait_done) ||
	    asked - r->kicks_asked > KICKS_AHEAD)
		return -EPROTO;
	ret = st == ANC_GONE ? 0 : yield(r, epoch, st);
	if (ret < 0 || (ret && st == ANC_RESTORING && from != taken))
		return -EPROTO;
	__atomic_store_n(&d->taken, taken, __ATOMIC_RELEASE);
	__atomic_store_n(&d->tcp_rx, in[2] & IS_TCP_RX ? 1u : 0u,
			 __ATOMIC_SEQ_CST);
	if (ret) {
		__atomic_store_n(&d->from, from, __ATOMIC_RELEASE);
		adopt(d, epoch, st);
		r->reader_busy = false; /* said anew below */
		news |= REMOTE_STATE;
	}
	if (st == ANC_GONE && !r->gone) {
		r->gone = true;
		anc_gone(d);
		news |= REMOTE_STATE;
	}
	r->reader_epoch = epoch;
	r->reader_state = (uint8_t)st;
	r->given = st == ANC_RESTORING && (in[2] & IS_GIVEN) && remote_seen(r);
	if (!holds(anc_state(d)))
		r->reader_busy = false;
	else if (epoch == epoch_of(d))
		hold(r, in[2] & IS_BUSY);
	if (remote_seen(r))
		news |= REMOTE_SEEN;
	if (done != r->wait_done) {
		r->wait_done = done;
		news |= REMOTE_TAKEN;
	}
	if (in[3] != r->burn_seen) {
		r->burn = (uint8_t)(in[3] - r->burn_seen);
		r->burn_seen = in[3];
		news |= REMOTE_BURN;
	}
	if (asked != r->kicks_asked) {
		r->kicks_asked = asked;
		anc_arm(d, ANC_ANCHOR);
		news |= REMOTE_KICK;
	}
	return news;
}

int remote_take(struct remote *r, const uint8_t in[REMOTE_LEN])
{
	uint32_t ready = r->peer->ready;
	int news;

	if (in[0] == REMOTE_WRITER)
		news = take_writer(r, in);
	else if (in[0] == REMOTE_READER)
		news = take_reader(r, in);
	else
		return -EPROTO;
	if (news < 0)
		return news;
	take_side(r, in[2]);
	return r->peer->ready != ready ? news | REMOTE_STATE : news;
}
