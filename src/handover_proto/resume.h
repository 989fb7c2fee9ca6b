/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_HANDOVER_PROTO_RESUME_H
#define LIBSDP_HANDOVER_PROTO_RESUME_H

/*
 * Going on over the anchor when the queue pair has broken (anchor.md 6.2).
 *
 * Each direction for itself, and the two ends learn of it when they do. The
 * writer W keeps what is not known to have arrived. Where its reader R may
 * take what comes on the anchor for control bytes, W writes a *record* first:
 * "the stream goes on here, from offset `from`". R drops what it has of that
 * already. What R has not heard of the last moves of W does not matter:
 *
 *   W is in          its anchor then gets        because R is in
 *   TCP              the stream                  TCP, or past y and sure of it
 *   LIFTED, R has    the stream from x           TCP, or LIFTED and waits for
 *   not confirmed                                the marker, which does not come
 *   SWITCHING           the same: a receive of R's from before the lift may take
 *                    what lies in front of x and what comes behind together
 *   LIFTED, RECALLED    (rest of) marker, kicks,     LIFTED or RECALLED
 *                    record, stream
 *   RECALLED, PAUSED,   the stream from x           RECALLED, PAUSED or TCP, and no
 *   no marker begun                               marker has come
 *   DRAINING, R has     record, stream              LIFTED, DRAINING, TCP
 *   not confirmed
 *   DRAINING, and what  the stream                  DRAINING, all up to y arrived;
 *   was asked there                              RECALLED, PAUSED or RESTORING
 *   PAUSED           record, stream              RECALLED, PAUSED, RESTORING
 *   RESTORING, not all  record, stream              RESTORING
 *   of it came back
 *   RESTORING           a record of its own, the    RESTORING, until that record came
 *                    stream from `from`
 *
 * In RESTORING R cannot tell which of the last two it is before it comes, and
 * may wait for it only if it does come: so the last piece of what is handed
 * back is sent when W has said that it is in RESTORING. If it had not, what R
 * has counts.
 *
 * For this W, until R has confirmed, keeps a copy of what it sends after a lift
 * and writes nothing to the anchor after a stall; and R, having passed y, does
 * not let go of the direction before W has said that it knows. A record cannot
 * be mistaken: it begins with a secret that both ends made at the pairing.
 *
 * Pure: no I/O, nothing waits. All calls under the lock of the sock.
 */

#include <stddef.h>

#include "handover_proto/anchor.h"

#define RESUME_MARKER 16
#define RESUME_SECRET 16
#define RESUME_RECORD 32 /* 1, secret, 3 x 0, from, check */

/* What W has to write. */
enum resume_tx {
	RESUME_NOTHING, /* the stream goes on at `sent` */
	RESUME_BACK, /* the stream from x, which W kept */
	RESUME_RECORDED, /* the rest of the marker, a record, what is unacked */
};
/* `confirmed`: R knows of the state that W is in. */
enum resume_tx resume_tx(enum anc_state st, bool confirmed);
void resume_record(uint8_t to[RESUME_RECORD],
		   const uint8_t secret[RESUME_SECRET], uint64_t from);

/* In RESTORING: all was handed back and follows, from offset `from` on. */
void resume_give(uint8_t to[RESUME_RECORD], const uint8_t secret[RESUME_SECRET],
		 uint64_t from);
/* Is it that? 1; 0: more has to come; -EPROTO: something else. */
int resume_given(const uint8_t secret[RESUME_SECRET], const uint8_t *p,
		 size_t n, uint64_t from);

enum resume_phase {
	RESUME_PLAIN, /* stream bytes follow */
	RESUME_AT_MARKER, /* a marker, or the stream from x */
	RESUME_AT_KICKS, /* kicks, then a record */
	RESUME_MAYBE, /* exactly `kicks` kicks, then a record or the stream */
	RESUME_AT_GIVEN, /* that of resume_give(), or a record, or the stream */
	RESUME_SKIP, /* `skip` bytes that R has already */
};

/* R's account of what lies on the anchor. */
struct resume {
	uint8_t phase;
	bool stalled; /* begun in DRAINING, */
	bool sure; /* and W knew: nothing but marker, kicks, stream */
	bool home; /* begun in RESTORING: what is unread was handed back */
	uint8_t marker_got; /* bytes of the marker that were taken */
	const uint8_t *marker, *secret;
	uint64_t kicks, skip;
	bool given; /* it is that of resume_give(): from `from` on */
	uint64_t from;
	bool back; /* W went back to x: what came by SDP does not count */
};

/*
 * R is in `st` and knows that the queue pair is broken. `marker_wait`: the
 * marker has not come completely; `sure`: W knows that R is there, in RESTORING:
 * what was handed back has come. `marker`, `secret`, in RESTORING `from`, `marker_got`, and in DRAINING `kicks` (the marker counts), are set.
 */
void resume_begin(struct resume *r, enum anc_state st, bool marker_wait,
		  bool sure);
/*
 * Are the next bytes on the anchor for R to look at? Those in front of x, and
 * those that a receive from before the lift gets, are the program's; falling
 * back there are none of either, and x says nothing of what was handed back.
 */
bool resume_turn(const struct resume *r, const struct anc_dir *rx,
		 const struct anc_rx *ar);
/*
 * The next bytes on the anchor are these; `arrived`: offset behind the last
 * byte that came by SDP. *eat: so many of them are no news to the program, to
 * be taken now; then, if it is not 0, look again. 1: all that follows is the
 * stream, 0: more has to come, -EPROTO.
 */
int resume_look(struct resume *r, const uint8_t *p, size_t n, uint64_t arrived,
		size_t *eat);
/* `n` bytes of marker and kicks were taken, and cannot be looked at. */
void resume_lost(struct resume *r, uint64_t n);
/* Nothing will follow what was looked at: may it be the stream? */
bool resume_ended(const struct resume *r);
/*
 * Does an end that follows here mean that W's process is no more? Where it may
 * have ended its direction in order, it may still read the other.
 */
bool resume_fatal(const struct resume *r);
/*
 * Does a record lie behind the kicks, while R knows of no break? Never true
 * where the stream may lie.
 */
bool resume_called(const struct resume *r, const uint8_t *p, size_t n);

#endif
