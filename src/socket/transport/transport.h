/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_TRANSPORT_TRANSPORT_H
#define LIBSDP_SOCKET_TRANSPORT_TRANSPORT_H

#include "socket/core/core.h"

/* --- pump.c ------------------------------------------------------------ */

int pump_poll(struct sock *s); /* parse what arrived; negative: dead */
/*
 * Up to n stream bytes of what was parsed; discard: c is not used. -EFAULT: the
 * program's memory is not there.
 */
ssize_t pump_recv(struct sock *s, struct cursor *c, size_t n, bool peek,
		  bool discard);
/*
 * As many of n bytes as credits and room allow now; what is held back, too.
 * -EFAULT: the next ones are not there.
 */
ssize_t pump_send(struct sock *s, struct cursor *c, size_t n);
ssize_t pump_some(struct sock *s, struct cursor *c, size_t n); /* not that */
ssize_t pump_unread(struct sock *s, uint64_t back, void *buf, size_t n);
/*
 * Post what conn_next() answered; its payload comes from c: op->payload is 0
 * afterwards if it was not there. 0 or negative.
 */
int pump_post(struct sock *s, struct cursor *c, struct conn_op *op);
void pump_control(struct sock *s); /* credit updates and the like */
bool pump_room(struct sock *s); /* could a stream byte leave now? */
bool pump_roomy(struct sock *s); /* behind messages of ours, too? */
uint32_t pump_space(struct sock *s); /* how many surely could */
/* The conn is dead; the log says which function found that. */
#define pump_fail(s, err) pump_fail_in(s, err, __func__)
int pump_fail_in(struct sock *s, int err, const char *where);

/*
 * Lock held: around whatever goes into the ring or to the anchor as a kick,
 * with its counts (anchor.h, rule 5). The first answers whether our direction
 * is in the ring; if not, nothing may be put. The second leaves the word up
 * while there is something that the reader cannot see: held back, or lent.
 */
static inline bool ring_put_begin(struct sock *s)
{
	enum anc_state st;

	anc_put_begin(s->tx);
	st = anc_state(s->tx);
	return st == ANC_LIFTED || st == ANC_SWITCHING ||
	       unlikely(s->window.sure);
}

static inline void ring_put_end(struct sock *s)
{
	if (likely(!s->window.holding && !s->window.holdback && !s->zc.out &&
		   !s->conn.src_count && !s->window.sure))
		anc_put_end(s->tx);
}

/* --- ring.c ------------------------------------------------------------ */

void ring_reader(struct sock *s, int fd); /* after publishing to R */
/*
 * A kick was not taken: what is acknowledged late may fill a small send buffer.
 * It is tried again with the next message, and by the background thread.
 */
void ring_kick_owed(struct sock *s);
int ring_told(struct sock *s, int fd); /* 0, -EAGAIN, -ENOSPC: for good */
void ring_writer(struct sock *s); /* after freeing room / taking */
void ring_note(struct sock *s); /* unconditionally, after a state change */
void ring_service(struct sock *s); /* poke the peer's service thread */
/* Wake-up bytes rung up to now, to be given to ring_eat(). */
uint32_t ring_mark(struct sock *s);
void ring_eat(struct sock *s, uint32_t mark);
/* May a thread that does not read eat the bytes that readers may sleep on? */
bool ring_may_eat(struct sock *s);
/* A kick was taken while others still sleep on the anchor: one for them. */
void ring_ask_kick(struct sock *s);
int ring_kicks(struct sock *s, int fd); /* take kicks while LIFTED */
void ring_throw(struct sock *s, int fd, int64_t n); /* n, as far as they came */
/*
 * ANC_AT_KICKS: takes up to n; lock held. False: waited a moment, without it.
 */
bool ring_take_kicks(struct sock *s, int fd, uint64_t n);

/* Did the peer's last process close its wake-up socket (or die)? */
bool wake_hung_up(const struct sock *s);

/* --- rdma_woken.c ------------------------------------------------------ */

/*
 * Over RDMA, what being woken costs: the ringing thread and the sleeper say
 * when.
 */
void spin_rung(struct sock *s);
void spin_awake(struct sock *s);
uint64_t spin_woken_ns(void); /* what it is of late; 0: not known */

/* --- audit.c ----------------------------------------------------------- */

/* Words that both ends know take over from the local ones. */
void lift_adopt(struct sock *s, struct anc_dir *tx, struct anc_dir *rx);

/*
 * Lock held, this thread outside of any TCP call: compares our counts with the
 * kernel's and tells the peer. Returns calls until it should be tried again,
 * or LOOK_NEVER.
 */
int32_t lift_audit(struct sock *s, int fd);
/* Both ends know of every byte of our transmit direction. */
bool lift_audited(const struct sock *s);

/* --- rdma_fate.c ------------------------------------------------------- */

bool rdma_was_reset(const struct sock *s); /* the same over RDMA */

/* --- rdma_shown.c ------------------------------------------------------ */

/* Of struct link_ops: `row`, `names` and `records`. */
void rdma_row(const struct sock *s, struct page_row *r);
struct conn_names rdma_shown_names(const struct sock *s);
bool rdma_peer_records(const struct sock *s);

/* --- tcp.c ------------------------------------------------------------- */

/*
 * The peer's process has ended: did it end in a reset, as TCP would show? What
 * went to the anchor is left to the kernel, which shows `revents`: its reset is
 * one, too, but for kicks alone (tcp_torn()).
 */
bool was_reset(const struct sock *s);
bool tcp_torn(const struct sock *s, short revents);
/*
 * Then: it had taken all, all that it sent is here, and it was not to reset the
 * connection; if the kernel does, that is for kicks which nothing took off the
 * anchor. TCP would show an end. Not for programs that do not count, which have
 * it on TCP.
 */
bool tcp_kicks_left(const struct sock *s);

/* --- inside.c ---------------------------------------------------------- */

/* The wait that this thread is in, or was in last: no other has it. */
uint64_t ready_wait(void);

/* --- what hot paths ask --------------------------------------------------- */

/* Between hosts: is its end this process's? */
static inline bool rdma_here(const struct sock *s)
{
	return s->rd && s->rd->owner == sock_pid;
}

/* Is the carrier there? And may the program see what it brings? */
static inline bool zc_live(const struct sock *s)
{
	return !s->rd || (rdma_here(s) && s->rd->state == RDMA_UP);
}

static inline bool zc_shown(const struct sock *s)
{
	return zc_live(s) && !(s->rd && s->rd->mark.marker_wait);
}

/* The next bytes of the stream lie in the peer's memory, behind rx_avail. */
static inline bool zc_here(const struct sock *s)
{
	return unlikely(s->conn.peer_src_count) && !s->peer_gone &&
	       zc_shown(s) && conn_source(&s->conn);
}

/* Nothing more of it goes by this way; 0, as of what went. */
static inline ssize_t file_stop(struct file_in *f, int err)
{
	f->stop = true;
	f->err = err;
	return 0;
}

#include "socket/transport/tcp.h"
#include "socket/transport/rdma.h"
#include "socket/transport/rdma_cqwait.h"
#include "socket/transport/rdma_end.h"
#include "socket/transport/rdma_room.h"
#include "socket/transport/rdma_size.h"
#include "socket/transport/holdback.h"
#include "socket/transport/window.h"
#include "socket/transport/carrier.h"

#endif
