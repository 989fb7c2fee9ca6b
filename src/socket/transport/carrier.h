/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_TRANSPORT_CARRIER_H
#define LIBSDP_SOCKET_TRANSPORT_CARRIER_H

/*
 * What shared memory and a queue pair do differently, as operations: callers
 * above say what they want done or known, and none of them asks which of the
 * two a sock has. Inline, since sends, receives and waits come by here; none
 * fails but where it says so. With the lock held, where nothing else is said.
 * transport.h includes it.
 */

#include "socket/transport/transport.h"

/* --- what it can do, lock held or not ------------------------------------- */

/*
 * Both ends, and all processes that have the sock, see each other's words and
 * bytes in memory: much is known without an answer. Else the words come by
 * messages, to the process alone that made the queue pair.
 */
static inline bool carrier_shared(const struct sock *s)
{
	return likely(!s->rd);
}

/* What the reader hands back its writer puts on the anchor by itself. */
static inline bool carrier_puts_back(const struct sock *s)
{
	return likely(!s->rd);
}

/* It is doing so, with the peer or without. */
static inline bool carrier_restores(const struct sock *s)
{
	return carrier_puts_back(s) && anc_state(s->tx) == ANC_RESTORING;
}

/* What is kept of the anchor has a place of its own at each end: its stash. */
static inline bool carrier_has_stash(const struct sock *s)
{
	return s->rd != NULL;
}

/* There: its bytes from `at` on, and how many they are. */
static inline ssize_t carrier_stash(const struct sock *s, uint64_t at,
				    uint8_t **mem)
{
	*mem = s->rd->failover.stash.mem + at;
	return (ssize_t)(s->rd->failover.stash.len - at);
}

/* Is there a writer that hears what its reader asks for? */
static inline bool carrier_hears(const struct sock *s)
{
	return !s->rd || s->rd->state == RDMA_UP;
}

/* --- bytes -------------------------------------------------------------- */

/* pump_send() of stream bytes, a copy kept where they may be lost. */
static inline ssize_t carrier_send(struct sock *s, struct cursor *c, size_t n)
{
	return likely(!s->rd) ? pump_send(s, c, n) : failover_send(s, c, n);
}

/* Lock held: so many bytes it surely takes, if nothing else is sent before. */
static inline size_t carrier_space(struct sock *s)
{
	size_t space = pump_space(s);

	return likely(!s->rd) ? space : failover_space(s, space);
}

/*
 * No credits, and hardly more than `few` bytes of the program's went since the
 * last came: the peer gives others as soon as it looks.
 */
static inline bool carrier_credit_due(const struct sock *s, size_t few)
{
	const struct rdma *r = s->rd;

	return unlikely(r != NULL) && !s->fallback.stand &&
	       r->state == RDMA_UP && s->conn.tx_stream - r->load.given <= few;
}

/* The notes of MSG_ZEROCOPY can be given for what is sent by it. */
static inline bool carrier_notes(const struct sock *s)
{
	return likely(!s->rd);
}

/* What was left to the program's answer (rdma_report()) goes out now. */
static inline void carrier_report(struct sock *s)
{
	if (unlikely(s->rd))
		pump_control(s);
}

/* DisConn, as soon as it can be sent: the program has shut its half down. */
static inline void carrier_shut(struct sock *s)
{
	if (likely(!s->rd))
		conn_shutdown(&s->conn, clock_ns(), false);
	else
		rdma_may_end(s, false);
}

/* May the kernel's FIN follow DisConn, as far as the marker goes? */
static inline bool carrier_may_end(struct sock *s)
{
	return !s->rd || rdma_may_end(s, false);
}

/*
 * The peer has ended by a reset of which the kernel may not know. On one host
 * the kernel hears of it first.
 */
static inline bool carrier_reset(const struct sock *s)
{
	return s->rd && was_reset(s);
}

/* The peer is gone: has it not taken all that was sent? */
static inline bool carrier_lost(const struct sock *s)
{
	return s->rd ? rdma_was_reset(s) :
		       s->at.sent >
			       __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);
}

/*
 * Its end shows `revents` on the anchor, behind a peer that is gone: is it a
 * reset, where was_reset() does not say so?
 */
static inline bool carrier_torn(const struct sock *s, short revents)
{
	return s->rd ? s->eos.eaten : tcp_torn(s, revents);
}

/* --- before it is paired -------------------------------------------------- */

/* A peer on another host is sought, or was found: by the service thread. */
static inline bool carrier_far(const struct sock *s)
{
	return unlikely(s->rd != NULL);
}

/* By another process, which looked and left it to us. */
static inline bool carrier_elsewhere(const struct sock *s)
{
	return s->rd && s->rd->owner != sock_pid;
}

/* --- the anchor, before and behind a lift --------------------------------- */

/* The writer may leave the anchor, and what its program was told holds. */
static inline bool carrier_may_rise(struct sock *s)
{
	return !s->rd || rdma_may_rise(s);
}

/*
 * The direction has just left the anchor, `ahead` of its reader or not. True:
 * the marker wakes its sleepers; false: that is for a kick to do.
 */
static inline bool carrier_rises(struct sock *s, bool ahead)
{
	if (!s->rd)
		return false;
	if (ahead)
		rdma_rising(s);
	else
		rdma_marker_begin(s);
	return true;
}

/*
 * It has left it: an edge for sets where that may be done by the service thread
 * while they wait for the kernel.
 */
static inline void carrier_risen(struct sock *s)
{
	if (s->rd)
		__atomic_add_fetch(&s->waits.out_gen, 1, __ATOMIC_RELAXED);
}

/* Lock not held, in TCP: asks what the reader has taken, and to be told. */
static inline void carrier_ask(struct sock *s)
{
	if (s->rd && !lock_try(&s->lock)) {
		rdma_ask(s);
		sock_unlock(s);
	}
}

/* About to stall: 0, or -EBUSY: first the marker, or the reader's word. */
static inline int carrier_may_stall(struct sock *s, int fd, bool fin)
{
	if (!s->rd)
		return 0;
	if (anc_state(s->tx) == ANC_SWITCHING) /* no reader, no marker */
		return s->peer_gone ? 0 : rdma_marker_ahead(s, fd);
	return fin || rdma_anchor_free(s) ? 0 : -EBUSY;
}

/*
 * The process that has the queue pair has the connection no more: no word of
 * the reader comes, and nothing could be asked for.
 */
static inline bool carrier_unserved(struct sock *s)
{
	return unlikely(s->rd != NULL) && s->waits.orphan_fd < 0 &&
	       !holder_of(s, s->rd->owner);
}

/* Then: between hosts nothing is sent until the reader knows of the stall. */
static inline void carrier_stand(struct sock *s, bool fin)
{
	if (s->rd && !fin)
		__atomic_store_n(&s->fallback.stand, 1, __ATOMIC_SEQ_CST);
}

/* The peer is gone: what it was to put back between hosts is unread again. */
static inline void carrier_revive(struct sock *s)
{
	if (s->rd)
		reports.revive(s);
}

/* RECALLED: may the answer be given, with the marker on the anchor? */
static inline bool carrier_may_answer(struct sock *s, int fd)
{
	return !s->rd || rdma_may_answer(s, fd);
}

/* The peer's marker is not complete yet, and what came behind it is hidden. */
static inline bool marker_waits(const struct sock *s)
{
	return unlikely(s->rd != NULL) && s->rd->mark.marker_wait;
}

/* Where marker_waits(): reads what has come of it; is it complete now? */
static inline bool marker_complete(struct sock *s, int fd)
{
	rdma_marker_read(s, fd);
	return !s->rd->mark.marker_wait;
}

/* Reads what has come of the marker: bytes that it hides still. */
static inline uint64_t marker_hides(struct sock *s, int fd)
{
	if (likely(!s->rd))
		return 0;
	rdma_marker_read(s, fd);
	return s->rd->mark.hidden;
}

/* The marker hides bytes, and a peek may be one that waits for them. */
static inline bool carrier_hides(const struct sock *s)
{
	return unlikely(s->rd != NULL) && s->rd->mark.hidden &&
	       clock_ns() >= s->rd->mark.peek_at;
}

/* Then: a peek at byte `at`; was the last one there, too? */
static inline bool carrier_peeked(struct sock *s, uint64_t at)
{
	struct rdma *r = s->rd;
	bool again = r->mark.peeked == at + 1;

	r->mark.peeked = at + 1;
	return again;
}

/* Until then no peek is taken for one that waits for more (peek_starves()). */
static inline void carrier_unpeeked(struct sock *s, uint64_t until)
{
	if (unlikely(s->rd))
		s->rd->mark.peek_at = until;
}

/*
 * RESTORING: stream bytes that are unread, of which `kernel` lie on the anchor.
 * A record that goes before the rest is not the program's.
 */
static inline uint64_t carrier_returned(const struct sock *s, uint64_t kernel)
{
	if (likely(!s->rd))
		return anc_unread(&s->ar, s->got.avail + s->ar.kept);
	return s->ar.unsure ? s->rd->failover.give.len : kernel;
}

/*
 * Are there bytes that were handed back, and come again on the anchor? What came
 * of the stream's end by SDP is behind them.
 */
static inline bool carrier_comes_again(const struct sock *s)
{
	return unlikely(s->ar.unsure) && s->rd && s->rd->failover.give.len;
}

/*
 * May a receive on the anchor hold the direction in TCP while it sleeps there?
 * Not where the writer switches without asking, by a marker.
 */
static inline bool tcp_holds(const struct sock *s)
{
	return likely(!s->rd);
}

/*
 * Lock not held, no look: may what a receive takes off the anchor be a marker?
 * Then it has to be looked at, also what the program throws away.
 */
static inline bool carrier_looks_at_tcp(const struct sock *s)
{
	return unlikely(s->rd != NULL);
}

/* Lock not held: n <= 0 of the anchor, and bytes come first: tcp_overtaken(). */
static inline bool carrier_overtook(struct sock *s, ssize_t n)
{
	return s->rd && tcp_overtaken(s, n);
}

/* --- zero copy ------------------------------------------------------------ */

/*
 * A read of the peer's memory is a work request that completes later; else it is
 * a copy that is done when the call returns.
 */
static inline bool carrier_reads_later(const struct sock *s)
{
	return unlikely(s->rd != NULL);
}

/* Memory is lent by registering it, which may fail for want of memlock. */
static inline bool carrier_registers(const struct sock *s)
{
	return unlikely(s->rd != NULL);
}

/* --- waiting -------------------------------------------------------------- */

/*
 * Progress of the reader's side that its count of taken bytes does not show
 * yet: between hosts the credits granted so far tell of it first.
 */
static inline uint64_t carrier_progress(const struct sock *s)
{
	return s->rd ? s->conn.mseq_sent + s->conn.credits : 0;
}

/*
 * Without progress for so long a writer stalls. What a queue pair holds is soon
 * full, and says less about the reader.
 */
static inline uint64_t carrier_stall_ns(const struct sock *s)
{
	return (uint64_t)settings.stall_ms * (s->rd ? 5000000u : 1000000u);
}

/* Lock held or not: a sleeper is woken by way of the service thread. */
static inline bool carrier_wakes_late(const struct sock *s)
{
	const struct rdma *r = s->rd;

	return unlikely(r != NULL) && !r->due.cqwait_lent;
}

/*
 * Can this thread hear of completions itself, as the only one that waits? With
 * `room`: it waits for room alone. See rdma_cqwait.h.
 */
static inline bool carrier_ear_free(const struct sock *s, bool room)
{
	return unlikely(s->rd != NULL) && rdma_cqwait_free(s, room);
}

/* It has grown under load: one that comes a little late misses nothing. */
static inline bool carrier_buffers(const struct sock *s)
{
	return unlikely(s->rd != NULL) && s->rd->load.fat;
}

/* Room that was seen is there until this end sends, whatever comes. */
static inline bool carrier_room_stays(const struct sock *s)
{
	return likely(!s->rd);
}

/* This wait tells the program that there is room, which stays so. */
static inline void carrier_promise(struct sock *s)
{
	if (unlikely(s->rd))
		rdma_spare(s, ready_wait());
}

/*
 * Is the kernel's word on the end of the connection to be doubted? It may come
 * before that of the queue pair. `asked`: the program wants to know of an end.
 */
static inline bool carrier_end_doubtful(const struct sock *s, bool asked)
{
	return unlikely(s->rd != NULL) && ((s->rd->state == RDMA_UP && asked) ||
					   s->rd->state == RDMA_FAILOVER);
}

/* Then: a FIN is there, and what lies in front of it may come still. */
static inline bool carrier_hides_fin(struct sock *s, int fd)
{
	return s->rd && rdma_hides_fin(s, fd);
}

/* --- processes and the end ---------------------------------------------- */

/*
 * A child is about to have it, too. False: a queue pair is of no use there
 * (rdma-facts.md 1.1), and it stays apart while both have it.
 */
static inline bool carrier_forks(struct sock *s)
{
	if (unlikely(s->rd != NULL)) {
		s->fallback.apart = true;
		return false;
	}
	/* one killed in a receive has taken what is not counted yet */
	__atomic_and_fetch(&s->own->counted, ~(uint32_t)ANC_COUNTED_RX,
			   __ATOMIC_SEQ_CST);
	return true;
}

/* The last number of this process goes, while others hold it. */
static inline void carrier_forgo(struct sock *s)
{
	if (s->paired && !s->rd)
		shm_forgo(&s->shm);
}

/* The last number of all goes: what a broken queue pair left waits no longer. */
static inline void carrier_closes(struct sock *s)
{
	if (unlikely(s->rd != NULL))
		s->rd->failover.out_from = 0;
}

/* --- the service thread ----------------------------------------------------- */

/* When it has to look at this one again by itself, lock not held. */
enum carrier_look {
	CARRIER_IDLE,
	CARRIER_SOON,
	CARRIER_CALM, /* a busy program looks, most likely */
	CARRIER_BUSY,
};

static inline enum carrier_look carrier_look(const struct sock *s)
{
	if (likely(!s->rd))
		return CARRIER_IDLE;
	if (rdma_restless(s))
		return rdma_calm(s) ? CARRIER_CALM : CARRIER_BUSY;
	return rdma_seeks(s) || rdma_fat(s) || rdma_parted(s) || rdma_waits(s) ?
		       CARRIER_SOON :
		       CARRIER_IDLE;
}

/*
 * Is a wake-up socket that has hung up the end of the peer's library? Our own
 * SHUT_RD looks alike, where that end is told otherwise.
 */
static inline bool carrier_ends_by_hangup(const struct sock *s)
{
	return !(s->rd && s->eos.shut_rd);
}

#endif
