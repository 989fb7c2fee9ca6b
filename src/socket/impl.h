/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_IMPL_H
#define LIBSDP_SOCKET_IMPL_H

/*
 * What the files of the socket room share.
 *
 * Locking. sock.lock guards everything in struct sock that is not marked
 * atomic; it lies in shared memory and is never held over a call that may
 * sleep, nor over a hook. The registry (service.c) has its own lock, taken
 * before sock.lock.
 */

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/page.h"
#include "base/stamp.h"
#include "base/sys.h"
#include "config/config.h"
#include "sdp_proto/zcopy.h"
#include "handover_proto/anchor.h"
#include "socket/bridged.h"
#include "socket/holder.h"
#include "socket/iov.h"
#include "socket/pair.h"
#include "socket/sock.h"
#include "socket/state.h"
#include "socket/wait.h"
#include "socket/zcopy.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define NAMES_AT   4 /* turns after which the page shows names */
#define LOOK_NEVER INT32_MAX

extern struct sock_hooks hooks;
extern int32_t sock_pid; /* this process */
extern enum reason sock_off; /* why nothing is lifted any more, or 0 */
extern struct page_row sock_spare; /* sums of sockets without a row */

/* --- counting ---------------------------------------------------------- */

/* `name` is a counter of rows; a sock of another process's page is spared. */
#define COUNT(s, name, n)                                           \
	__atomic_add_fetch(likely((s)->stats.row_pid == sock_pid) ? \
				   &(s)->stats.row->name :          \
				   &sock_spare.name,                \
			   (uint64_t)(n), __ATOMIC_RELAXED)

/* --- sock.c ------------------------------------------------------------ */

static inline int sock_lock(struct sock *s);
int sock_lock_odd(struct sock *s, int ret);
/* Takes the lock; -EDEADLK in a handler that was not put off: final. */
static inline int sock_lock(struct sock *s)
{
	int ret = lock_take(&s->lock);

	return likely(!ret) ? 0 : sock_lock_odd(s, ret);
}
static inline void sock_unlock(struct sock *s)
{
	lock_drop(&s->lock);
}
void sock_why(struct sock *s, enum reason why);
void sock_is_lifted(struct sock *s);
void sock_publish(struct sock *s); /* the page's row: paths, reason */
uint64_t sock_inode_at(struct sock *s, int fd);
void sock_exorcise(struct sock *s); /* a sleeper leaves a closed sock */
/*
 * Lock held, or the sock entered: this thread is counted in until sock_go_on(),
 * also while the lock is let go. Who closes it takes neither memory nor mapping
 * away.
 */
static inline void sock_keep(struct sock *s)
{
	__atomic_add_fetch(&s->in.users, 1, __ATOMIC_SEQ_CST);
}
int sock_fd(struct sock *s); /* a number in this process, or -1 */
/*
 * Lock held: does this process still have it? What others hold is theirs
 * alone: its descriptors have other meanings here, its segment may be gone.
 */
bool sock_here(struct sock *s);
bool sock_up(struct sock *s, int fd); /* CONNECTED now? */

/* --- option.c ---------------------------------------------------------- */

int option_int(int fd, int opt); /* at SOL_SOCKET; -1: no such thing */
/* A new connection: all from the anchor, or the bars of its listener. */
void option_inherit(struct sock *s, int fd);
void option_heir(struct sock *s, uint16_t bars);
int option_shown(struct sock *s, int fd); /* time stamps; 0 or -EAGAIN */
/* TCP_INQ behind a receive from the ring; `room` for control messages. */
void option_inq(struct sock *s, int fd, struct msghdr *m, size_t room);

/* --- store.c ----------------------------------------------------------- */

struct sock *store_get(void); /* zeroed; NULL: no memory */
void store_forked(void);
/* It was closed for good: its memory is given back when no thread is inside. */
void sock_bury(struct sock *s);
/* The same for the segment of a sock that only others hold from now on. */
void store_leave(const struct sock *s, struct shm_seg seg);
/* This process lets go of what others hold. */
void store_ward(struct sock *s);

/* --- row.c, close.c ---------------------------------------------------- */

void row_open(struct sock *s, int fd);
/* The line of statistics, if asked for; `anyway`: even if all is zero. */
void row_tell(bool anyway);
bool row_opened(void); /* this process shows a page of statistics */
void row_close(struct sock *s);
void row_refresh(struct sock *s); /* the lock is not held */
/*
 * Another process shows it. If that has it no more, we do from now on: row_seek
 * with the lock, row_miss without.
 */
void row_seek(struct sock *s);
void row_miss(struct sock *s);
void row_forked(void);

#include "socket/order.h"
#include "socket/raw.h"
#include "socket/reports.h"

/* --- the fabric -------------------------------------------------------- */

/* Stands for an end that belongs to another process: nothing moves there. */
extern struct end rdma_nowhere;

static inline struct end *sock_end(const struct sock *s)
{
	return likely(!s->end_pid) || s->end_pid == sock_pid ? s->end :
							       &rdma_nowhere;
}

#define END(s) sock_end(s)
#define FAB(s) (sock_end(s)->ops)

/* A message waits: spinners ask this without the lock. */
static inline bool fab_pending(const struct sock *s)
{
	struct end *e = sock_end(s);

	return e->ops->pending(e);
}
/* The same without the lock: over RDMA an end may go while we look. */
static inline bool fab_glance(struct sock *s)
{
	bool yes;

	if (likely(!s->rd))
		return fab_pending(s);
	__atomic_add_fetch(&s->in.lookers, 1, __ATOMIC_SEQ_CST);
	yes = fab_pending(s);
	__atomic_sub_fetch(&s->in.lookers, 1, __ATOMIC_SEQ_CST);
	return yes;
}
/* What was released is worth telling the writer now. */
static inline bool fab_publish(const struct sock *s)
{
	return FAB(s)->publish && FAB(s)->publish(END(s));
}

/* --- pump.c: where machine and fabric meet; lock held ------------------ */

int pump_poll(struct sock *s); /* parse what arrived; negative: dead */
ssize_t pump_recv(struct sock *s, struct cursor *c, size_t n, bool peek,
		  bool discard);
/* As many of n bytes as credits and room allow now; what is held back, too. */
ssize_t pump_send(struct sock *s, struct cursor *c, size_t n);
ssize_t pump_some(struct sock *s, struct cursor *c, size_t n); /* not that */
ssize_t pump_unread(struct sock *s, uint64_t back, void *buf, size_t n);
/* Post what conn_next() answered; its payload comes from c. 0 or negative. */
int pump_post(struct sock *s, struct cursor *c, const struct conn_op *op);
void pump_control(struct sock *s); /* credit updates and the like */
bool pump_room(struct sock *s); /* could a stream byte leave now? */
bool pump_roomy(struct sock *s); /* behind messages of ours, too? */
uint32_t pump_space(struct sock *s); /* how many surely could */
int pump_fail(struct sock *s, int err); /* the conn is dead */

/* --- ring.c: bells and wake-up bytes ----------------------------------- */

void ring_reader(struct sock *s, int fd); /* after publishing to R */
int ring_told(struct sock *s, int fd); /* 0, -EAGAIN, -ENOSPC: for good */
void ring_writer(struct sock *s); /* after freeing room / taking */
void ring_note(struct sock *s); /* unconditionally, after a state change */
void ring_service(struct sock *s); /* poke the peer's service thread */
/* Wake-up bytes rung up to now, to be given to ring_eat(). */
uint32_t ring_mark(struct sock *s);
void ring_eat(struct sock *s, uint32_t mark);
/* May who does not read eat the bytes that readers may sleep on? */
bool ring_may_eat(struct sock *s);
/* A bell was taken while others still sleep on the anchor: one for them. */
void ring_ask_bell(struct sock *s);
int ring_bells(struct sock *s, int fd); /* take bells while LIFTED */
/* ANC_AT_BELLS: takes up to n; lock held. False: waited a moment, without it. */
bool ring_take_bells(struct sock *s, int fd, uint64_t n);

/* --- spin.c ------------------------------------------------------------ */

/* What a signal is to a wait. */
enum spin_how {
	SPIN_RESTARTS, /* its end, but for handlers with SA_RESTART */
	SPIN_ENDS,
	SPIN_DEAF, /* nothing: the caller has blocked all */
	SPIN_BRIEF, /* nothing: no more than spin_us */
};

void spin_bound(struct sock *s); /* publishes s->own->bound, of this thread */
/*
 * Lock held at entry and exit. 1: there is something to look at; 0: nothing in
 * time, or it does not pay now; -EINTR: by a signal that ends the kernel's wait.
 * `was`: the state seen before the ring was found empty.
 */
int spin_rx(struct sock *s, enum anc_state was, uint64_t deadline,
	    enum spin_how how);
bool spin_tx(struct sock *s);
/* Over RDMA, what being woken costs: who rings and who slept say when. */
void spin_rung(struct sock *s);
void spin_awake(struct sock *s);
uint64_t spin_woken_ns(void); /* what it is of late; 0: not known */
static inline void spin_to_bed(struct sock *s)
{
	__atomic_store_n(&s->waits.rung_at, 0, __ATOMIC_RELAXED);
}

extern bool lift_off; /* nothing is lifted any more in this process */

/* --- lift.c ------------------------------------------------------------ */

void lift_look(struct sock *s, int fd);
void lift_connected(struct sock *s, int fd);
/* A non-blocking send was cut short. */
void lift_full(struct sock *s, int fd);
/* Under an `sdp` rule: 0 when lifted, or the errno of the failed call. */
int lift_demand(struct sock *s, int fd, bool tx);
void lift_orphan(struct sock *s); /* the peer's process is gone */
/*
 * The anchor says end of stream, lock not held: is it a reset to be told? One
 * of which the library met the kernel's, or that the kernel knows nothing of.
 */
int lift_end_errno(struct sock *s); /* 0: it is an end as any */
void lift_unpaired(struct sock *s, enum reason why);
/* Words that both ends know take over from the local ones. */
void lift_adopt(struct sock *s, struct anc_dir *tx, struct anc_dir *rx);

/* --- switch.c ---------------------------------------------------------- */

/* Before a transmit in RAW: switch if that can be. Lock not held. */
void lift_try_tx(struct sock *s, int fd);
/* Our transmit direction goes back to the anchor for good. */
int lift_leave(struct sock *s, int fd, enum reason why);
int lift_spill(struct sock *s, int fd, enum reason why, bool fin);
/* The anchor has the direction again: its options are the program's. */
void lift_left(struct sock *s, int fd);

/* Lock held, a writer: room is what the ring has (RISING or LIFTED). */
static inline bool tx_by_ring(const struct sock *s)
{
	enum anc_state st = anc_state(s->tx);

	return st == ANC_LIFTED || st == ANC_RISING;
}

/* --- vouch.c ----------------------------------------------------------- */

/*
 * Lock held, this thread outside of any raw call: compares our counts with the
 * kernel's and tells the peer. Returns calls until it should be tried again,
 * or LOOK_NEVER.
 */
int32_t lift_vouch(struct sock *s, int fd);
/* Both ends know of every byte of our transmit direction. */
bool lift_vouched(const struct sock *s);

/* --- keep.c: what is taken off the anchor before its turn -------------- */

/* All with the lock held. 1: nothing more will come, 0: not yet; negative. */
int keep_pull(struct sock *s, int fd);
int keep_bells(struct sock *s, int fd); /* exactly those there; -EAGAIN */
int keep_rest(struct sock *s, int fd); /* the peer is dead: everything */
void keep_drop(struct sock *s); /* it was written back */
/*
 * Lock not held. A receive in RESUME returned n (0, -ECONNRESET): the peer died
 * over it, and what it did not write back is unread where it was.
 */
bool keep_revived(struct sock *s, ssize_t n);
/*
 * The writer died in RESUME, and what it wrote back has been taken off the
 * anchor: the rest is where it was. False: nothing is missing.
 */
bool keep_revive(struct sock *s);
/* Up to n bytes behind the first `skip`; c may be NULL. */
ssize_t keep_take(struct sock *s, struct cursor *c, uint64_t skip, size_t n,
		  bool peek);
/* All that is unread and not the kernel's, by a look: false, it is not there. */
bool keep_unread(struct sock *s, struct cursor *c);
void keep_put_back(struct sock *s, int fd); /* the writer, in RESUME */

/* --- home.c ------------------------------------------------------------ */

/* W's part: answer ASKED, write back after RESUME. Lock held. */
void home_serve(struct sock *s, int fd);
/* R's part: the next step; 0 home, -EAGAIN not yet, other: cannot be. */
int home_rx(struct sock *s, int fd);
/* Its directions are held by nobody, and may go on as they are. */
bool home_unheld(const struct sock *s);
void home_unpin(struct sock *s, bool force);
/* A homecoming nobody waits for any more is ended by who comes by. */
void home_abandoned(struct sock *s, int fd);
/* Unless others need it there; a homecoming that was only begun is none. */
void home_left(struct sock *s);

/* --- standin.c --------------------------------------------------------- */

/* Lock held, peer gone: 0, the number holds the unread bytes now. */
int standin_take(struct sock *s, int fd);

#include "socket/service.h"

/* A raw call moved n bytes: is it time to think of lifting? */
void lift_again(struct sock *s); /* what kept it at home is taken back */
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

/* --- zcopy.c: what hot paths ask --------------------------------------- */

static inline bool zc_recall(struct sock *s)
{
	return likely(s->zc.out != ZC_OUT) || zc_recall_slow(s);
}

/* The next bytes of the stream lie in the peer's memory, behind rx_avail. */
static inline bool zc_here(const struct sock *s)
{
	return unlikely(s->conn.peer_src_count) && !s->orphan && zc_shown(s) &&
	       conn_source(&s->conn);
}

/* May a receive that has to wait for n bytes here offer its memory? */
static inline bool zc_may_sink(struct sock *s, const struct cursor *c,
			       uint64_t n)
{
	return unlikely(n >= s->zc.least) && zc_would_sink(s, c);
}

/* pump_recv(), or what the peer has lent. */
static inline ssize_t zc_recv(struct sock *s, struct cursor *c, size_t n,
			      int flags)
{
	if (zc_here(s) && zc_next(s, flags, n))
		return (ssize_t)zc_take(s, c, n);
	return pump_recv(s, c, n, flags & MSG_PEEK, flags & MSG_TRUNC);
}

/* Hook calls that were due while the lock was held. */
static inline void sock_changed(struct sock *s)
{
	if (hooks.changed)
		hooks.changed(s);
}

bool rdma_was_reset(const struct sock *s); /* the same over RDMA */

/*
 * The peer's process has ended: did it end in a reset, as TCP would show? What
 * went to the anchor is left to the kernel, which shows `revents`: its reset is
 * one, too, but for bells alone (raw_torn()).
 */
bool was_reset(const struct sock *s);
bool raw_torn(const struct sock *s, short revents);

/* Did the peer's last process close its wake-up socket (or die)? */
bool wake_hung_up(const struct sock *s);

/* Under a rule `sdp`, connected and not yet paired. */
static inline bool lift_awaited(const struct sock *s)
{
	return s->id.use == USE_SDP && !s->paired &&
	       s->id.phase == PH_CONNECTED && s->seek.look != LOOK_NEVER;
}

/* Was the reset told before? From now on it was. */
static inline bool told_reset(struct sock *s)
{
	bool was = s->eos.rst_told;

	s->eos.rst_told = true;
	return was;
}

/* May it be lifted at all? */
static inline bool never_lift(const struct sock *s)
{
	return s->fallback.pinned || s->fallback.homes || s->fallback.apart ||
	       s->id.use == USE_NATIVE;
}

static inline bool tx_ours(const struct sock *s)
{
	return anc_state(s->tx) != ANC_RAW;
}

#include "socket/holdback.h"
#include "socket/window.h"

#endif
