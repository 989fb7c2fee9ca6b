/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_HANDOVER_HANDOVER_H
#define LIBSDP_SOCKET_HANDOVER_HANDOVER_H

#include "socket/zcopy/zcopy.h"
#include "socket/peer/peer.h"

/* --- fallback.c ------------------------------------------------------------ */

extern enum reason sock_off; /* why nothing is lifted any more, or 0 */

/* W's part: answer RECALLED, write back after RESTORING. Lock held. */
void fallback_serve(struct sock *s, int fd);
/*
 * R's part: the next step; 0 home, -EAGAIN not yet, -ENOTCONN: others that have
 * the socket read on, and this number holds a copy at most; other: cannot be.
 */
int fallback_rx(struct sock *s, int fd, enum reason why);
extern bool fallback_executes; /* this process: sock_executes() */
/*
 * Lock held: the peer does not answer. Its byte is not waited for to bring our
 * sleeping readers out: they come out now, and it is never lifted again.
 */
void fallback_rouse(struct sock *s);
/*
 * A fallback that no thread waits for is ended by the next that comes by. On one
 * host that one takes the next step in any case: a thread that does wait may be
 * a process's that has closed it by now.
 */
void fallback_abandoned(struct sock *s, int fd);
/*
 * Its peer has said that it leaves, and is there: what is unread in its ring can
 * be handed back, and what was asked for goes on, though it was read meanwhile.
 * No lock; the next step, lock held, by the background thread.
 * Once the peer is gone those bytes are read where they are: a stand-in would
 * end a connection that lives on.
 */
bool fallback_leaver(const struct sock *s);
void fallback_take_back(struct sock *s, int fd);

/* --- pin.c -------------------------------------------------------------- */

/* All with the lock held. What is on TCP now of its directions stays there. */
void fallback_pin(struct sock *s);
/*
 * A call that counted itself in `fallback.callers` needs it no more. `ours`: the
 * words that were held are still the sock's.
 */
void fallback_unpin(struct sock *s, bool ours);
/* Unless others need it there; a fallback that was only begun is none. */
void fallback_left(struct sock *s);

/* --- lift.c ------------------------------------------------------------ */

bool sock_up(struct sock *s, int fd); /* CONNECTED now? */

extern bool lift_off; /* nothing is lifted any more in this process */

void lift_look(struct sock *s, int fd);
void lift_connected(struct sock *s, int fd);
/* A non-blocking send was cut short. */
void lift_full(struct sock *s, int fd);
void lift_peer_gone(struct sock *s); /* the peer's process is gone */
/*
 * The anchor says end of stream, lock not held: is it a reset to be told? One
 * of which the library met the kernel's, or that the kernel knows nothing of.
 */
int lift_end_errno(struct sock *s); /* 0: it is an end as any */
/* On TCP for good. The second: by another socket at the anchor's number. */
void lift_unpaired(struct sock *s, enum reason why);
void lift_replaced(struct sock *s, enum reason why);

void lift_again(struct sock *s); /* what kept it on TCP is taken back */

/*
 * The anchor gave nothing (n 0) or an error (n < 0) behind `done` bytes of the
 * same receive: what that returns. The kernel tells a reset only once, so one
 * behind bytes is kept for the next call.
 */
ssize_t tcp_ended(struct sock *s, size_t done, ssize_t n);

/* --- switch.c ---------------------------------------------------------- */

/* Before a transmit in TCP: switch if that can be. Lock not held. */
void lift_try_tx(struct sock *s, int fd);
int lift_stall(struct sock *s, int fd, enum reason why, bool fin);
/* The anchor has the direction again: its options are the program's. */
void lift_left(struct sock *s, int fd);

/* lift_try_tx(); do our bytes go by SDP, then? */
bool lift_tx(struct sock *s, int fd);

/* --- keep.c ------------------------------------------------------------ */

/* All with the lock held. 1: nothing more will come, 0: not yet; negative. */
int keep_pull(struct sock *s, int fd);
int keep_kicks(struct sock *s, int fd); /* exactly those there; -EAGAIN */
int keep_rest(struct sock *s, int fd); /* the peer is dead: everything */
void keep_drop(struct sock *s); /* it was written back */
/*
 * The writer died while it wrote back what it was handed (RESTORING): the rest
 * is where it was. With `fd`, the anchor, what is there is thrown away, for it
 * is here as well; -1: it has all been received. 1, or 0: it is not so;
 * -EAGAIN: a thread is inside a receive.
 */
int keep_revive(struct sock *s, int fd);
/*
 * Lock not held. A receive that began when something was stale returned n (0,
 * -ECONNRESET): true: that was only the anchor's end, look again.
 */
bool keep_revived(struct sock *s, int fd, ssize_t n);
/* Up to n bytes behind the first `skip`; c may be NULL. */
ssize_t keep_take(struct sock *s, struct cursor *c, uint64_t skip, size_t n,
		  bool peek);
/*
 * What is unread and not the kernel's, by a look: s->got.avail + s->ar.kept
 * bytes, but where keep_short() less. Returns how many, or a negative errno.
 */
ssize_t keep_unread(struct sock *s, struct cursor *c);
void keep_put_back(struct sock *s, int fd); /* the writer, in RESTORING */

/* Of what came before the switch some will never come. */
bool keep_short(const struct sock *s);

/* --- standin.c --------------------------------------------------------- */

/*
 * Lock held, peer gone: 0, the number holds the unread bytes now. The second
 * leaves them to others, too: -ENOTCONN.
 */
int standin_take(struct sock *s, int fd);
int standin_copy(struct sock *s, int fd);

/* --- mark.c ------------------------------------------------------------ */

/* Between hosts: may what comes next on the anchor be a marker or a record? */
bool peek_no_kick(const struct sock *s);

/* --- rdma_failover.c --------------------------------------------------- */

void failover_begin(struct sock *s, int error); /* the queue pair is broken */
void failover_flush(struct sock *s, int fd); /* on one host: nothing */
void failover_step(struct sock *s); /* the service thread, while RDMA_FAILOVER */
/*
 * Lock not held: the stream goes over to the anchor. 0, or -EAGAIN: not until
 * then (monotonic ns), nor in the least time that each is given.
 */
int failover_now(struct sock *s, int fd, uint64_t until);
void failover_revive(struct sock *s); /* its peer is gone, in RESTORING */
void failover_strayed(struct sock *s, uint64_t n); /* as rdma_strayed() */

/* --- rdma_back.c ------------------------------------------------------- */

/*
 * All with the lock held. The reader, about to go into RESTORING: 0, on one host
 * always; and in it: sends what can be sent, and looks for the record. 0: the
 * anchor has the stream; -EAGAIN, or the stream is lost.
 */
int rdma_give_begin(struct sock *s);
void rdma_give(struct sock *s);
int rdma_back_to_tcp(struct sock *s, int fd);
/* The record has come; the copy is void, or of no use. */
void rdma_given(struct sock *s);
/* The writer: bytes came: 0 or -EPROTO; all of them; onto the anchor. */
int rdma_put_came(struct sock *s, const uint8_t *bytes, uint32_t n);
bool rdma_put_whole(const struct rdma *r);
void rdma_put_back(struct sock *s, int fd);

/* --- rdma_over.c ------------------------------------------------------- */

/*
 * Before anything is done about a queue pair that is no more: is it a break, or
 * the end of one that carried nothing? The peer's process ends like that.
 */
void rdma_lost(struct sock *s, int error);
void rdma_ended(struct sock *s); /* nothing more comes or goes */
/*
 * Lock held, one that wants to fall back finds it silent: true, not yet; false:
 * it is back on TCP, or as if the peer were gone.
 */
bool rdma_over(struct sock *s, int fd);
/*
 * Between hosts the peer does not say any more what is taken, nor asks: the
 * FIN is all that its reader can still hear. False: it would be too early.
 */
bool rdma_last_word(struct sock *s, int fd);
/*
 * The writer may switch until it has said that it will not, or has ended: our
 * hold on TCP is in its hands.
 */
bool rdma_unheld(const struct sock *s);
/* One that wants to fall back: what came is looked at, and our words are sent. */
void rdma_look_for_peer(struct sock *s);

/* --- user.c ------------------------------------------------------------- */

/*
 * Lock held, before a call that moves the stream, or a look at it, if
 * user_other(). True: another living process uses it lifted, and was asked to
 * bring it back to TCP: wait, and ask again. False: this process uses it from
 * now on; within fallback_timeout_ms.
 */
bool user_asks(struct sock *s);
bool user_asked(const struct sock *s); /* and we are the user; no lock */
void user_takes(struct sock *s); /* lock held: uses it from now on, as it is */
/*
 * Lock held, before a lift, if user_other(). True: another living process that
 * has it has used it last: it is apart from now on.
 */
bool user_parts(struct sock *s);
/*
 * Lock held, before a lift. True: a thread of another process is inside of a call,
 * in the kernel perhaps, where it serves nothing: not for a while.
 */
bool user_inside_elsewhere(struct sock *s);
/*
 * Lock not held, a call by TCP while the sock is apart: lets it be lifted again
 * once no other process has used it for a while.
 */
void user_rests(struct sock *s);
/* Lock held: another living process that has it has used it last. */
bool user_elsewhere(struct sock *s);
bool user_told(struct sock *s); /* the same; its background thread looks */
/*
 * Lock held, paired on one host: the peer asks the user's background thread
 * from now on. Else it asks that of a process that has it too, and passes it on.
 */
void user_shown(struct sock *s);

/* --- what hot paths ask --------------------------------------------------- */

/* Did another process use it last? Asked before a lifted call. */
static inline bool user_other(const struct sock *s)
{
	return __atomic_load_n(&s->user, __ATOMIC_RELAXED) != sock_pid;
}

/* A TCP call moved n bytes: is it time to think of lifting? */
static inline void lift_count(struct sock *s, int fd, ssize_t n, bool sent)
{
	if (unlikely(s->seek.look != LOOK_NEVER) && n > 0) {
		s->seek.turns += s->seek.sent_last != sent;
		if (s->seek.turns == NAMES_AT && s->seek.sent_last != sent)
			row_refresh(s);
		s->seek.sent_last = sent;
		s->seek.look -= 1 + (int32_t)(n / s->seek.byte_weight);
		if (s->seek.look <= 0)
			lift_look(s, fd);
	}
}

#endif
