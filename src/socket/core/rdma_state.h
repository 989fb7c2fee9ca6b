/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_RDMA_STATE_H
#define LIBSDP_SOCKET_CORE_RDMA_STATE_H

/*
 * What a sock whose peer is on another host has beside struct sock: struct
 * rdma, made of a part for each subject. Guarded by the sock's lock where
 * nothing else is said.
 */

#include "fabric/verbs/verbs.h"
#include "handover_proto/remote.h"
#include "handover_proto/resume.h"
#include "socket/core/state.h"

struct sock;
struct rdma;
struct page_row;

#define RDMA_MARKER 16

/* Sent, and not yet known to the reader: failover_keep.c. */

#define RDMA_KEPT 16376

struct rdma_kept {
	uint32_t len;
	uint8_t mem[RDMA_KEPT];
};

/* Unread bytes of an end that was let go: a fabric of one message. */
struct rdma_bytebuf {
	struct end end; /* first */
	uint8_t *mem;
	uint32_t len, room; /* of mem: in use, mapped */
};

/* What the reader hands back: `len` bytes behind room for a BSDH. */
struct rdma_given {
	uint8_t *mem; /* NULL: none */
	size_t len, at; /* at: sent so far */
};

/* The same at the writer: a record, and the bytes as they come. */
struct rdma_put {
	uint8_t *mem;
	size_t len, got, at; /* at: on the anchor */
};

enum rdma_state {
	RDMA_WANTED, /* candidate: to be dialled, or waiting to be */
	RDMA_DIALING, /* route asked for, or REQ on its way */
	RDMA_ANSWERING, /* REP sent */
	RDMA_UP, /* the sock is paired */
	RDMA_FAILOVER, /* the queue pair broke: rdma_failover.c */
	RDMA_ENDED, /* the queue pair is of no use any more */
};

/* Looking for the other end: rdma.c, rdma_turn.c, rdma_proof.c. */
struct rdma_seek {
	bool dials, serves; /* it dials a client: rdma_turn.c */
	bool trusted; /* the peer need not show what was moved */
	bool answered; /* a host did, if only to refuse */
	bool records; /* the peer: capture.h */
	bool queued; /* others are dialled first */
	uint8_t tries, moves;
	uint16_t port; /* to be dialled */
	struct diag_names names;
	uint64_t token, peer_token;
	uint64_t sent_then; /* bytes sent at the try before */
	uint64_t retry_at, begun, give_up_at;
	struct rdma_hist *hist;
};

/* The two marks of a lift, and what lies behind the peer's: rdma_ahead.c. */
struct rdma_marks {
	uint8_t marker_tx[RDMA_MARKER], marker_rx[RDMA_MARKER];
	uint8_t secret_tx[RESUME_SECRET], secret_rx[RESUME_SECRET];
	uint8_t marker_due; /* bytes of ours to be written into the anchor */
	bool ahead; /* it is not due yet: the reader has not passed x */
	bool marker_wait; /* the peer's is not complete yet */
	bool eof_hidden;
	uint64_t marker_at; /* kicks before the peer's marker */
	uint64_t hidden, peeked, peek_at; /* behind the marker; peek.c */
};

/*
 * What the service thread owes, and which thread hears of completions:
 * rdma_cqwait.c.
 */
struct rdma_due {
	bool restless; /* the service thread looks again soon: rdma_owe() */
	bool calm; /* not so soon: only to see if the program is still busy */
	bool serving; /* the service thread is at it, */
	bool active; /* and the program polled since it was last */
	bool fresh; /* it took in what the program has not seen yet */
	bool changed; /* a direction changed hands: sets must be told */
	bool cqwait_lent; /* the service thread hears of no completion, */
	bool cqwait_owed; /* knows it, and looks again soon; */
	bool cqwait_room,
		cqwait_rang; /* it waits for room; it may be readable: */
	uint32_t cqwait_by; /* the thread that hears of them, 0: none */
	uint8_t shown_tx, shown_rx; /* states that peer and sets know of */
	uint64_t spare_at; /* the program was told that it can send, */
	uint64_t spare_by; /* by this wait; 0: none in particular */
};

/* How much it has received, and with how many receives: rdma_size.c. */
struct rdma_load {
	uint64_t seen_rx; /* bytes received when last looked at, and */
	uint64_t pressed; /* those that took the peer its last credits */
	uint64_t idle_moved; /* bytes moved when last looked at */
	uint64_t idle_taken; /* those of them that were received */
	uint64_t quiet_at; /* no more than when it was looked at here */
	bool fat; /* has memory that a quiet one gives back */
	bool bulk, sizing; /* receives are to be large; are not so far yet */
	uint64_t tried_at; /* whether the queue pair is alive, */
	uint64_t waits_since; /* for words of the other end; 0: for none */
	uint32_t heard; /* conn.mseq_sent, when it was last polled */
	uint64_t given; /* conn.tx_stream, when credits came last */
};

/* Broken, or to be able to bear it: rdma_failover.c. */
struct rdma_failover {
	struct rdma_kept *kept; /* sent since the lift, until confirmed */
	bool confirmed; /* the reader knows of this lift, past x */
	bool mended; /* the receive half is done */
	bool again; /* it was up once */
	bool called; /* something came on the anchor */
	uint8_t *out; /* to be written to the anchor first */
	size_t out_len, out_at;
	uint64_t out_from; /* not before */
	struct resume in;
	struct rdma_bytebuf bytebuf;
	struct rdma_bytebuf stash; /* taken off the anchor by receives, or the
				   * ar.kept bytes of a fallback (keep.c) */
	struct rdma_given give; /* in RESTORING, with ar.unsure */
	struct rdma_put put;
};

/* What it knows of the anchor's own state: alive.c, rdma_end.c. */
struct rdma_watch {
	int anchor; /* number watched by the service thread, -1 */
	uint64_t dead_at; /* the kernel has given it up */
	uint64_t fin_at; /* its FIN was seen, and what it means was not known */
	bool probes; /* its keep-alive is ours: alive.c, */
	int keep[4]; /* and what the program set */
};

struct rdma {
	uint8_t state; /* enum rdma_state */
	bool lingers; /* closed by the program, bytes may be under way */
	bool rx_whole; /* its end found the receive direction lifted */
	bool down; /* VE_DOWN came */
	uint8_t forks; /* one soon after another */
	int32_t owner; /* the process whose `end` it is */
	struct end *end;
	struct sock *sock; /* NULL: detached */
	struct rdma *next; /* in the service thread's list, then */
	uint64_t apart_till; /* at least, behind a fork */
	struct rdma_seek seek;
	/* paired */
	struct anc_page mirror;
	struct remote words;
	int far; /* the other end of s->waits.wake, -1 */
	struct rdma_marks mark;
	struct rdma_due due;
	struct rdma_load load;
	struct rdma_failover failover;
	struct rdma_watch watch;
	struct verbs_region from; /* what is written into the peer's sink */
	struct end *old; /* to be destroyed when no thread looks at it */
	struct sock *was; /* whose it was */
};

#endif
