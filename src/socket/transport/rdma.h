/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_TRANSPORT_RDMA_H
#define LIBSDP_SOCKET_TRANSPORT_RDMA_H

/*
 * A sock whose peer is on another host (anchor.md section 7).
 *
 * rdma.c       connection management: candidates, dialling; all of it done by
 *              the service thread
 * rdma_open.c  the module's life
 * rdma_answer.c  answering
 * rdma_turn.c  which of many is dialled when, and how long that may take
 * rdma_redirect.c  listeners, and where others of the same TCP port are found
 * rdma_proof.c what the two ends show each other before anything is written
 *              into an anchor
 * rdma_link.c  a lifted sock: words that came; rdma_tell.c: words that go, waking
 * rdma_marker.c what shows that anchor and queue pair have the same two ends
 * rdma_back.c  unread bytes handed back, falling back
 * rdma_serve.c what the service thread does for it; rdma_size.c: its receives
 * rdma_cqwait.c   a sleep on its completions; rdma_end.c: its end
 * alive.c      keep-alive on the anchor
 * rdma_failover.c  a broken queue pair; failover_keep.c: what may have to be
 *              sent again
 *
 * A sock becomes a candidate (s->rd) when pairing on this host says `remote`.
 * From then on the bytes it moves are remembered, up to HIST of them per
 * direction, until the other end is found and has shown that it moved the
 * same. The end with the higher (port, address) dials; the other listens on
 * the RDMA port that stands for its TCP port (rdma_port()).
 *
 * The queue pair belongs to the process that made it (`owner`): the fabric's
 * end is of use nowhere else (rdma-facts.md 1.1, 5), in relatives END(s) is
 * rdma_nowhere.
 *
 * Locking: struct rdma is guarded by the lock of its sock, and once it is
 * detached from it by none: then it is the service thread's. That thread
 * alone opens, dials, listens and destroys.
 *
 * Wake-ups that are owed. The other host rings none: what comes is found by the
 * thread that polls the queue pair, one of the program (P) in its calls or the
 * service thread (V), and the finder owes the rest. What may wait:
 *
 *   B  receives and sends asleep on the wake-up socket, a receive on its
 *      completions, too (rdma_cqwait.c). Receives in LIFTED only, sends until
 *      the stall at most; in all other states calls nap for 1 ms and look
 *   K  receives and sends asleep in the kernel on the anchor
 *   S  poll, select, sets: on both; a set's entries follow the states
 *   C  the other end, for words, credits, a marker, a record
 *
 *   found                      owed to                        paid in
 *   stream bytes, the end      B S  a byte, if armed          wake_readers()
 *   credits, room              C    words kept for want of it rdma_polled()
 *                              B S  a byte                    rdma_wake_writers()
 *   credits to be given late   C    an update, when it is due V, update_waits()
 *   bytes taken, credits left  C    an update, or the answer  wait_read(), V
 *   words: another state       B S  a byte; S entries         rdma_polled(), V
 *   words: our lift is known   C    the marker                 rdma_marker_write()
 *                              B S  room beyond what is kept  failover_seen()
 *   words: our stall is known  B S  a byte; S entries         failover_seen(), V
 *   words: taken, our wait     B S  a byte                    rdma_polled()
 *                              C    a FIN, an answer due      V, fallback_serve()
 *   the last byte of a         C    the end of it             V, fallback_abandoned()
 *   fallback refused
 *   words: a kick is wanted    C    the kick, when it may be  ring_reader(), V
 *   the marker                  K S  they have come out by it
 *                              B    a byte, V leaves it there rdma_marker_read()
 *   the marker, when broken     B S  a byte; S entries         V, marker_came()
 *   x passed, a receive of     C    words                     rdma_took_tcp(),
 *   before the lift over                                      rdma_left()
 *   the machine has failed     B S  a byte; S entries         rdma_failed()
 *   broken (event, poll,       B S  a byte; S entries         failover_begin()
 *   marker or kicks amiss)      C    the record                failover_flush(), V
 *                              V    a look each 5 ms          failover_step()
 *   a record, all news known   B S  a byte; S entries         V, settle()
 *   our bytes are on the anchor B S a byte; S entries         failover_flush()
 *   beyond repair              all  the sockets' end          end_it()
 *
 * Three rules make it whole:
 * 1 A debt to be paid by V is a flag (restless, changed), which stays until V
 *   has paid; the poke only says so early. So V may find the lock taken.
 *   Words that P found are always V's to look at once more: rdma_owe().
 * 2 The completion channel is armed whenever V has no debt: V arms it last,
 *   looks again, and does not leave it unarmed without a debt of its own.
 * 3 A thread that goes to sleep notes the number of the last wake-up byte, arms
 *   itself and the channel, and then looks at all that might have been found
 *   since: messages, the state, in_gen, room, the marker.
 */

#include "fabric/verbs/verbs.h"
#include "handover_proto/remote.h"
#include "handover_proto/resume.h"
#include "socket/transport/transport.h"

extern const struct link_ops rdma_link;

#define RDMA_HIST 8192 /* bytes remembered per direction, a power of two */

/*
 * A request is refused with a REJ of these bytes: the magic of the extension
 * block, the verdict, 1 if the connection looks for its other end there and
 * only what was shown is not known (yet), else 0, an RDMA port.
 */

#define RDMA_REJ_LEN 8

#define RDMA_TRIES 22 /* where no process of ours has answered */

enum rdma_verdict {
	RDMA_LATER = 1, /* not known here, or not yet all that was shown */
	RDMA_NEVER, /* it cannot: this ends the dialler's tries */
	RDMA_MOVED, /* another process has it, at that port */
};

/* Behind each multiple of MARK_STEP MARK_LEN bytes are digested. */

#define MARK_STEP 262144u
#define MARK_LEN  4096u
#define MARKS	  256u /* remembered: 64 MiB, more than kernels hold */

struct rdma_mark {
	uint64_t no; /* its number and one; 0: none */
	uint64_t digest[2];
};

struct rdma_dir {
	uint64_t start, end; /* seen without a gap */
	uint32_t busy; /* atomic: a thread is at it */
	uint32_t got; /* behind the newest mark, so far */
	uint8_t behind[MARK_LEN];
	uint8_t ring[RDMA_HIST]; /* the last bytes */
	struct rdma_mark mark[MARKS];
};

struct rdma_hist {
	struct rdma_dir dir[2]; /* [0] sent, [1] taken */
	uint8_t window[RDMA_HIST / 2]; /* what the proof is about */
	uint32_t window_len;
};

/* All with the lock held; but for failover_step() by any thread. */

/* Before a lift: false, it cannot be. */
bool failover_keep(struct sock *s);
/* As pump_send(); pump_room() asks failover_room(). */
ssize_t failover_send(struct sock *s, struct cursor *c, size_t n);
bool failover_room(const struct sock *s);
/* How many of n bytes it takes. */
size_t failover_space(const struct sock *s, size_t n);
void failover_seen(struct sock *s); /* the reader may have confirmed */
/* What a receive got that is for failover_step() to judge. */
void failover_ahead(struct sock *s, const uint8_t *p, size_t n);
void failover_drop(struct rdma *r);
void failover_confirmed(
	struct rdma *r); /* what was kept is of no use any more */
/* Stream bytes that may not have arrived; copied to `to` unless it is NULL. */
size_t failover_unacked(struct rdma *r, uint8_t *to);
void failover_forked(void);

/* Lock held: the direction left the anchor; is the anchor's. */
void alive_begin(struct sock *s, int fd);
void alive_end(struct sock *s, int fd);
/* The program's: 1, or false, if the kernel is to be asked. Lock not held. */
int alive_set(struct sock *s, int fd, int level, int opt, const void *v,
	      socklen_t len);
bool alive_get(struct sock *s, int level, int opt, int *value);

void bytebuf_init(struct rdma *r);
void bytebuf_drop(struct rdma *r);
void *bytebuf_map(size_t len); /* shared with children; NULL */
void bytebuf_unmap(void *mem, size_t len);
/*
 * Unread bytes in front of x, on the anchor or kept (s->ar.kept), while nothing
 * lies behind what came by SDP.
 */
uint64_t bytebuf_front_unread(const struct sock *s);
/* What the program has not read, and r->stash, become END(s)'s to be. */
bool bytebuf_store(struct sock *s);
/*
 * What lies on the anchor, behind r->stash but what is kept in front: as recv()
 * with MSG_PEEK.
 */
ssize_t bytebuf_glance(struct sock *s, int fd, uint8_t *buf, size_t size);
bool bytebuf_swallow(struct sock *s, int fd, uint8_t *buf, size_t n);
/* keep.c: a receive of up to n bytes that are kept; what was kept is used. */
ssize_t bytebuf_pull(struct sock *s, int fd, size_t n);
void bytebuf_use(struct sock *s, size_t n);
/* What was to be handed back is unread again, and nothing else is. */
void bytebuf_again(struct sock *s);
void rdma_give_end(struct rdma *r);
void rdma_put_drop(struct rdma *r);
void rdma_put_end(struct rdma *r); /* the same, of one that is there */

/*
 * The RDMA port that stands for a TCP port. The spaces are separate, but below
 * 1024 both are root's (rdma-facts.md 1.9), and a server that got its port
 * from root may not be: those move up, beside what has the number by nature.
 */
static inline uint16_t rdma_port(uint16_t tcp)
{
	return tcp < 1024 ? tcp | 0xfc00 : tcp;
}

/* All with the lock held. The writer: the marker is the next on the anchor. */
void rdma_marker_begin(struct sock *s);
/* It has left the anchor ahead of the reader; has that one passed x now? */
void rdma_rising(struct sock *s);
void rdma_risen(struct sock *s);
/* SWITCHING, about to stall: 0, the whole marker is on the anchor; -EBUSY. */
int rdma_marker_ahead(struct sock *s, int fd);
/* RECALLED: may the answer be given? */
bool rdma_may_answer(struct sock *s, int fd);
/* The reader: the direction is the anchor's, no marker will come. */
void rdma_marker_end(struct sock *s);

/* VE_UP, lock held: 0, or the sock stays on TCP. */
int rdma_up(struct sock *s);
/* Lock held: tell the peer what is new. `idle`: counts, too. */
void rdma_tell(struct sock *s, bool idle);
/* Lock held: poll, and unless all was taken ask to be told when it is. */
void rdma_ask(struct sock *s);
/* Something was taken; the lock is held or not. */
void rdma_took(struct sock *s);
void rdma_took_tcp(struct sock *s);
/* A receive on the anchor ended; the writer may wait for the last from TCP. */
void rdma_left(struct sock *s);
/* pump_poll(): a message carried words; at its end: what came of it all. */
int rdma_words(struct sock *s, const uint8_t *in);
void rdma_polled(struct sock *s, int news, bool in, bool credits);
/* pump_control(), but for what the program's answer would say, too. */
void rdma_report(struct sock *s);
/* Stream bytes, or the end, came: may the program have them yet? */
bool rdma_hide(struct sock *s, uint32_t len, bool eof);
/* A receive that began in TCP returned these bytes: were they not stream? */
bool rdma_tcp_took(struct sock *s, const struct iovec *iov, size_t cnt,
		   size_t at, size_t n);
/* Lock held: read what is missing of the peer's marker. */
void rdma_marker_read(struct sock *s, int fd);
/*
 * Lock held: `n` bytes of marker and kicks were taken, and are not to be had.
 */
void rdma_strayed(struct sock *s, uint64_t n);
/*
 * ring.c, lock held: the peer has ended; does its marker still lie in front of
 * what it sent? Then it was read, or waited for a little: look again.
 */
bool ring_marker(struct sock *s, int fd);
/* Write what is due of ours; may the anchor carry other bytes then? */
void rdma_marker_write(struct sock *s, int fd);
bool rdma_anchor_free(struct sock *s);
/* May a kick be written? */
bool rdma_may_kick(struct sock *s);
/* Ask to be told of the next completion, before a sleep. */
void rdma_arm(struct sock *s);
/*
 * The service thread owes this sock a look, and makes it: the flag is the debt
 * and stays until then, the poke only says so early.
 */
void rdma_owe(struct sock *s);
/* Does the service thread have to see to it that the marker is taken? */
bool rdma_marker_urgent(const struct sock *s);
bool rdma_update_waits(const struct sock *s); /* for its time */
void rdma_wake_writers(struct sock *s);
/* The machine has failed; sleepers have to hear of it. */
void rdma_failed(struct sock *s);
/* Wake the threads that sleep on the wake-up socket. */
void rdma_wake(struct sock *s);
/*
 * Lock held, after a look where the next byte comes from: a direction that
 * fell back by this is news for the peer and for the sets.
 */
void rdma_moved(struct sock *s);

static inline void rdma_passed(struct sock *s)
{
	if (unlikely(s->rd != NULL) &&
	    (s->rd->due.shown_rx != (uint8_t)anc_state(s->rx) ||
	     s->rd->due.shown_tx != (uint8_t)anc_state(s->tx)))
		rdma_moved(s);
}

/* The service thread hears of what comes on this number; -1: of none. */
void rdma_anchor_watch(struct sock *s, int fd);

/* Without the lock: is there something the service thread waits to do? */
static inline bool rdma_restless(const struct sock *s)
{
	const struct rdma *r = s->rd;

	return r && r->owner == sock_pid &&
	       (r->due.restless || r->due.changed || r->lingers);
}

/* Something came on the anchor, where nothing but control bytes may. */
static inline void rdma_anchor_came(struct sock *s)
{
	if (rdma_here(s))
		s->rd->failover.called = s->rd->due.restless = true;
}

/* Only because the channel was left unarmed for a busy program? */
static inline bool rdma_calm(const struct sock *s)
{
	const struct rdma *r = s->rd;

	return r && r->due.calm && !r->due.changed && !r->lingers;
}

/* Will it have something to give back, when it is quiet? */
static inline bool rdma_fat(const struct sock *s)
{
	const struct rdma *r = s->rd;

	return r && r->owner == sock_pid && r->load.fat;
}

/* Did the service thread take something in since the program looked? */
static inline bool rdma_fresh(const struct sock *s)
{
	const struct rdma *r = s->rd;

	return unlikely(r != NULL) && r->due.fresh;
}

/* Is it a candidate, whose bytes are remembered? */
static inline bool rdma_seeks(const struct sock *s)
{
	const struct rdma *r = s->rd;

	return unlikely(r != NULL) && r->seek.hist && r->owner == sock_pid;
}

/*
 * What lies on the anchor is for rdma_failover.c to judge, and for no other
 * thread to take.
 */
static inline bool rdma_failing_over(const struct sock *s)
{
	const struct rdma *r = s->rd;

	return unlikely(r != NULL) && r->state == RDMA_FAILOVER &&
	       !r->failover.mended;
}

#endif
