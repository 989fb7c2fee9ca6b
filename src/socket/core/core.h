/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_CORE_H
#define LIBSDP_SOCKET_CORE_CORE_H

/*
 * What all folders of the socket room share.
 *
 * Locking. sock.lock guards everything in struct sock that is not marked
 * atomic; it lies in shared memory and is never held over a call that may
 * sleep, nor over a hook. The registry (registry.c) has its own lock, taken
 * before sock.lock.
 */

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/guard.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/page.h"
#include "base/probe.h"
#include "base/stamp.h"
#include "base/sys.h"
#include "config/config.h"
#include "handover_proto/anchor.h"
#include "sdp_proto/zcopy.h"
#include "socket/sock.h"
#include "socket/core/link.h"
#include "socket/core/rdma_state.h"

/* `name` is a counter of rows; a sock of another process's page is spared. */
#define COUNT(s, name, n)                                           \
	__atomic_add_fetch(likely((s)->stats.row_pid == sock_pid) ? \
				   &(s)->stats.row->name :          \
				   &sock_spare.name,                \
			   (uint64_t)(n), __ATOMIC_RELAXED)

#define END(s) sock_end(s)
#define FAB(s) (sock_end(s)->ops)

/* What a signal is to a wait. */
enum spin_how {
	SPIN_RESTARTS, /* its end, but for handlers with SA_RESTART */
	SPIN_ENDS,
	SPIN_DEAF, /* nothing: the caller has blocked all */
	SPIN_BRIEF, /* nothing: no more than spin_us */
};

#define sock_anchor(s) sock_at(s, sock_fd(s))

struct tcp_rx {
	struct sock *s;
	struct anc_dir *d;
	struct anc_dir *held;
	bool back; /* the kernel's call has returned */
	bool stays;
	bool noted; /* inside.c */
};

struct tcp_tx {
	struct sock *s; /* NULL: not inside */
	bool noted;
};

struct inside {
	struct sock *s; /* NULL: not counted in */
	uintptr_t at; /* of what lies on the stack, s in front */
	uint8_t kind;
	bool left; /* it was jumped out of */
	bool parents; /* counted in by the process that forked this one */
	union {
		struct tcp_rx rx;
		struct sleeper sleeper;
	};
};

/* --- process.c --------------------------------------------------------- */

extern struct sock_hooks hooks;
extern int32_t sock_pid; /* this process */
int sock_lock_odd(struct sock *s, int ret);

void spin_bound(struct sock *s); /* publishes s->own->bound, of this thread */

/* --- row.c ------------------------------------------------------------- */

extern struct page_row sock_spare; /* sums of sockets without a row */
void sock_why(struct sock *s, enum reason why);
void sock_is_lifted(struct sock *s);
void sock_publish(struct sock *s); /* the page's row: paths, reason */

void row_begin(void); /* it will show one */
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

/* --- ident.c ----------------------------------------------------------- */

uint64_t sock_inode_at(struct sock *s, int fd);
int sock_fd(struct sock *s); /* a number in this process, or -1 */
/*
 * Lock held: does this process still have it? What others hold is theirs
 * alone: its descriptors have other meanings here, its segment may be gone.
 */
bool sock_here(struct sock *s);

/*
 * Do calls move more than the kernel does: is a direction on the ring, or on its
 * way from or to it?
 */
bool sock_by_ring(const struct sock *s);

/*
 * The anchor's number for a call by `fd`, which may be closed by now, and be
 * something else: another one of this process, or -1. Holds as long as the lock
 * is held: closing takes it before the number goes.
 */
int sock_at_slow(struct sock *s, int fd);

/* --- option_list.c ----------------------------------------------------- */

int option_int(int fd, int opt); /* at SOL_SOCKET; -1: no such thing */

/* --- store.c ----------------------------------------------------------- */

struct sock *store_get(void); /* zeroed; NULL: no memory */
void store_forked(void);
/* It was closed for good: its memory is given back when no thread is inside. */
void sock_bury(struct sock *s);
/* The same for the segment of a sock that only others hold from now on. */
void store_leave(const struct sock *s, struct shm_seg seg);
/* This process lets go of what others hold. */
void store_inherited(struct sock *s);

/* --- nowhere.c --------------------------------------------------------- */

/* Stands for an end that belongs to another process: nothing moves there. */
extern struct end rdma_nowhere;

extern const struct verbs_api *rdma_api; /* NULL until it is loaded */

/* --- sleeper.c --------------------------------------------------------- */

/* All with the lock held. `me` is of the frame that sleeps. */
void sleeper_in(struct sock *s, struct sleeper *me, bool writer);
void sleeper_out(struct sock *s, struct sleeper *me);
/*
 * Readers and writers asleep, and threads in a TCP receive, as far as they are
 * known by name: of this process, but for this thread.
 */
uint32_t sleeper_others(struct sock *s);
/* Lock not held: does one sleep that had no room for its name? */
bool sleeper_unnamed(const struct sock *s);
/*
 * The name of a thread that is inside a receive without the lock and without a
 * struct sleeper, for the one that closes the sock meanwhile. A later one may
 * lie over it: then that one keeps the sock for both.
 */
void sock_named(struct sock *s);
void sock_unnamed(struct sock *s);

/* --- what hot paths ask --------------------------------------------------- */

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

/*
 * Lock held, or the sock entered: this thread is counted in until sock_go_on(),
 * also while the lock is let go. A close takes neither memory nor mapping
 * away.
 */
static inline void sock_keep(struct sock *s)
{
	__atomic_add_fetch(&s->in.users, 1, __ATOMIC_SEQ_CST);
}

static inline struct end *sock_end(const struct sock *s)
{
	return likely(!s->end_pid) || s->end_pid == sock_pid ? s->end :
							       &rdma_nowhere;
}

/*
 * The states of the two directions for a look without the lock: their words may
 * be replaced meanwhile, and those that were there stay mapped until close.
 */
static inline enum anc_state rx_state_seen(const struct sock *s)
{
	return anc_state(__atomic_load_n(&s->rx, __ATOMIC_SEQ_CST));
}

static inline enum anc_state tx_state_seen(const struct sock *s)
{
	return anc_state(__atomic_load_n(&s->tx, __ATOMIC_SEQ_CST));
}

/* A message waits: spinners ask this without the lock. */
static inline bool fab_pending(const struct sock *s)
{
	struct end *e = sock_end(s);

	return e->ops->pending(e);
}

/* What was released is worth telling the writer now. */
static inline bool fab_publish(const struct sock *s)
{
	return FAB(s)->publish && FAB(s)->publish(END(s));
}

static inline void spin_to_sleep(struct sock *s)
{
	__atomic_store_n(&s->waits.rung_at, 0, __ATOMIC_RELAXED);
}

/* Lock held, a writer: room is what the ring has (SWITCHING or LIFTED). */
static inline bool tx_by_ring(const struct sock *s)
{
	enum anc_state st = tx_state_seen(s);

	return st == ANC_LIFTED || st == ANC_SWITCHING;
}

/* For people to see: event.def. */
static inline void sock_event(struct sock *s, enum event what, enum reason why)
{
	event_note(what, s->id.inode, sock_fd(s), why);
}

/* Hook calls that were due while the lock was held. */
static inline void sock_changed(struct sock *s)
{
	if (hooks.changed)
		hooks.changed(s);
}

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
	return s->fallback.pinned || s->fallback.callers || s->fallback.apart ||
	       s->id.use == USE_NATIVE;
}

static inline bool tx_ours(const struct sock *s)
{
	return anc_state(s->tx) != ANC_TCP;
}

/* Lock not held: the carrier's operations, for one call. */
static inline const struct link_ops *sock_link(const struct sock *s)
{
	return __atomic_load_n(&s->link, __ATOMIC_ACQUIRE);
}

/* A message waits, for a look without the lock. */
static inline bool fab_glance(struct sock *s)
{
	const struct link_ops *link = sock_link(s);

	return likely(!link) ? fab_pending(s) : link->glance(s);
}

static inline int sock_orphan_fd(const struct sock *s)
{
	return __atomic_load_n(&s->waits.orphan_fd, __ATOMIC_SEQ_CST);
}

static inline int sock_at(struct sock *s, int fd)
{
	return likely(!__atomic_load_n(&s->mem.parted, __ATOMIC_RELAXED)) ?
		       fd :
		       sock_at_slow(s, fd);
}

/* Served before it is paired: by a rule `sdp`, or sought between hosts. */
static inline bool served_early(const struct sock *s)
{
	return s->id.use == USE_SDP || s->link;
}

#include "socket/core/order.h"
#include "socket/core/option.h"
#include "socket/core/budget.h"
#include "socket/core/capture.h"
#include "socket/core/fdshare.h"
#include "socket/core/service.h"
#include "socket/core/reports.h"

#endif
