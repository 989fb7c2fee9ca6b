/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory of socks: taken, and given back when no thread is inside any more. */

#include <stddef.h>

#include "base/arena.h"
#include "base/proc.h"
#include "socket/core/core.h"

/* Of a sock, and its holders beyond the first, which few have. */
#define FURTHER (sizeof(struct holder) * (SOCK_HOLDERS - HOLDERS_HERE))

static struct arena arena = ARENA_INIT_RARE(sizeof(struct sock), FURTHER);

/* --- socks that were closed ---------------------------------------------- */

/*
 * A thread may still be inside a call on a sock whose last number went: it
 * keeps the open file, as in the kernel, and we keep the memory it looks at,
 * until no thread is inside the library that may have found it (guard.h), nor
 * asleep in it, nor at it in a walk through the registry.
 */

#define SOCK_OF(r)                                                 \
	((struct sock *)(void *)((char *)(r)-offsetof(struct sock, \
						      mem.retired)))

/* A thread that comes out of a sleep in poll() finds that it is another one. */
static void gen_end(struct sock *s)
{
	__atomic_store_n(&s->waits.asleep_anchor_word, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->waits.watched_word, 0, __ATOMIC_SEQ_CST);
}

static void give_back(struct sock *s)
{
	gen_end(s);
	arena_put(&arena, s);
}

static bool sock_idle(struct retired *r)
{
	const struct sock *s = SOCK_OF(r);

	return !__atomic_load_n(&s->in.users, __ATOMIC_SEQ_CST) &&
	       !__atomic_load_n(&s->waits.sleepers, __ATOMIC_SEQ_CST) &&
	       !__atomic_load_n(&s->lock.word, __ATOMIC_SEQ_CST) &&
	       !service_visits(s);
}

static void sock_free(struct retired *r)
{
	struct sock *s = SOCK_OF(r);

	if (s->seek.pair.seg.mem)
		shm_forgo(&s->shm);
	shm_unmap(&s->seek.pair.seg);
	if (s->mem.maker == sock_pid)
		give_back(s);
	else
		__atomic_store_n(&s->mem.buried, 1, __ATOMIC_RELEASE);
}

void sock_bury(struct sock *s)
{
	bool mapped = s->seek.pair.seg.mem;

	s->mem.retired.idle = sock_idle;
	s->mem.retired.free = sock_free;
	s->mem.retired.weight = mapped ? RETIRED_HEAVY : 1;
	guard_retire(&s->mem.retired);
	if (mapped)
		service_retired();
}

/* --- threads of this process -------------------------------------------- */

static bool own_thread(uint32_t tid)
{
	return tid && !sys_call3(SYS_tgkill, sock_pid, (long)tid, 0);
}

/*
 * One may have slept in it when it was closed here, and be woken by what ends
 * it, but not be out yet. The counts are no good: a child that was killed in
 * there left its own in them.
 */
static bool own_inside(const struct sock *s)
{
	int i;

	if (holders_own_inside(s))
		return true;
	for (i = 0; i < SOCK_SLEEPERS; i++)
		if (own_thread(__atomic_load_n(&s->waits.sleeper[i].tid,
					       __ATOMIC_ACQUIRE)) ||
		    own_thread(__atomic_load_n(&s->in.inside[i],
					       __ATOMIC_ACQUIRE)))
			return true;
	return false;
}

/* --- segments of socks that others hold ----------------------------------- */

struct left {
	struct retired retired;
	struct shm_seg seg;
	const struct sock *s;
};

static struct arena lefts = ARENA_INIT(sizeof(struct left));

#define LEFT_OF(r) \
	((struct left *)(void *)((char *)(r)-offsetof(struct left, retired)))

/* Others' threads, living or killed in there, have mappings of their own. */
static bool left_idle(struct retired *r)
{
	const struct sock *s = LEFT_OF(r)->s;

	return !own_inside(s) && !sleeper_unnamed(s) && !service_visits(s);
}

static void left_free(struct retired *r)
{
	struct left *l = LEFT_OF(r);

	shm_unmap(&l->seg);
	arena_put(&lefts, l);
}

/* Without memory for the note it stays mapped. */
void store_leave(const struct sock *s, struct shm_seg seg)
{
	struct left *l = seg.mem ? arena_get(&lefts) : NULL;

	if (!l)
		return;
	l->seg = seg;
	l->s = s;
	l->retired.idle = left_idle;
	l->retired.free = left_free;
	l->retired.weight = RETIRED_HEAVY;
	guard_retire(&l->retired);
	service_retired();
}

/* --- socks inherited by children --------------------------------------- */

/*
 * Socks that this process made and gave to a child: the child may be killed,
 * or end without closing them, and only the maker can use their memory
 * again. So each new sock costs a look at two of them; a forking server keeps
 * no more than twice what its living children have.
 */
#define INHERITED_LOOK 2

static struct {
	struct lock lock;
	struct sock *first, *last;
} inherited;

/* With the lock of that list. */
static void inherited_append(struct sock *s)
{
	s->mem.next_inherited = NULL;
	if (inherited.last)
		inherited.last->mem.next_inherited = s;
	else
		inherited.first = s;
	inherited.last = s;
}

void store_inherited(struct sock *s)
{
	if (s->mem.maker != sock_pid || lock_take(&inherited.lock) == -EDEADLK)
		return;
	inherited_append(s);
	lock_drop(&inherited.lock);
}

/* Does no process have it any more? The last to close it says so when done. */
static bool inherited_closed(struct sock *s)
{
	if (__atomic_load_n(&s->mem.buried, __ATOMIC_ACQUIRE))
		return true;
	if (sock_held(s))
		return false;
	return !s->mem.closer || proc_ended(s->mem.closer);
}

/*
 * By a thread of whatever process: one that closes it takes itself off the
 * holders first, and is done with it when it lets go. The dead keep nothing.
 */
static bool locked(const struct sock *s)
{
	uint32_t owner = __atomic_load_n(&s->lock.word, __ATOMIC_ACQUIRE) &
			 ~LOCK_WAITERS;

	return owner && sys_call3(SYS_tkill, (long)owner, 0, 0) != -ESRCH;
}

/* Behind inherited_closed(): a closer not seen there any more is locked(). */
static bool inherited_visited(const struct sock *s)
{
	return service_visits(s) || own_inside(s) || locked(s);
}

/* Once more: one may have forked in front of a look, and closed it behind. */
static bool inherited_idle(struct retired *r)
{
	struct sock *s = SOCK_OF(r);

	return inherited_closed(s) && !inherited_visited(s);
}

static void inherited_free(struct retired *r)
{
	give_back(SOCK_OF(r));
}

static void inherited_reap(void)
{
	struct sock *alone = NULL, *next;
	int i;

	if (!__atomic_load_n(&inherited.first, __ATOMIC_RELAXED) ||
	    lock_try(&inherited.lock))
		return;
	for (i = 0; i < INHERITED_LOOK && inherited.first; i++) {
		struct sock *s = inherited.first;

		inherited.first = s->mem.next_inherited;
		if (!inherited.first)
			inherited.last = NULL;
		if (!inherited_closed(s) || inherited_visited(s)) {
			inherited_append(s);
			continue;
		}
		/*
		 * it may be locked here, and by threads that close others now
		 */
		s->mem.next_inherited = alone;
		alone = s;
	}
	lock_drop(&inherited.lock);
	for (; alone; alone = next) {
		next = alone->mem.next_inherited;
		alone->mem.retired.idle = inherited_idle;
		alone->mem.retired.free = inherited_free;
		alone->mem.retired.weight = 1;
		guard_retire(&alone->mem.retired);
	}
}

/* --- generations -------------------------------------------------------- */

/* It was cleared: a thread that comes out meanwhile finds generation 0. */
static void gen_begin(struct sock *s)
{
	static uint32_t last;
	uint32_t gen;

	do {
		gen = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	} while (!gen);
	__atomic_store_n(&s->waits.asleep_anchor_word,
			 (uint64_t)gen << GEN_SHIFT, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->waits.watched_word, (uint64_t)gen << GEN_SHIFT,
			 __ATOMIC_SEQ_CST);
}

/* --- the store ---------------------------------------------------------- */

struct sock *store_get(void)
{
	struct sock *s;

	inherited_reap();
	s = arena_get(&arena);
	if (unlikely(!s)) { /* those that wait for the others of their lot */
		guard_reap();
		guard_reap();
		s = arena_get(&arena);
	}
	if (!s)
		return NULL;
	s->mem.maker = sock_pid;
	s->mem.further = arena_rare(&arena, s);
	gen_begin(s);
	return s;
}

void store_forked(void)
{
	arena_forked(&arena);
	arena_forked(&lefts);
	memset(&inherited, 0, sizeof(inherited));
}
