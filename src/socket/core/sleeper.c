/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Threads asleep on a wake-up socket. A sleep that is cancelled counts itself
 * out; one that a signal handler jumped out of (siglongjmp, the classic
 * time-out) cannot. So sleepers leave their names: a thread that comes here
 * again from no deeper than its own sleep does not sleep any more, nor does a
 * dead one. What has no room for its name is only counted.
 */

#include "socket/core/core.h"

static uint32_t *count_of(struct sock *s, bool writer)
{
	return writer ? &s->waits.writers : &s->waits.readers;
}

static void strike_off(struct sock *s, struct sleeper *b)
{
	--*count_of(s, b->writer);
	__atomic_sub_fetch(&s->waits.sleepers, 1, __ATOMIC_RELAXED);
	b->tid = 0;
}

static bool dead(uint32_t tid)
{
	return sys_call3(SYS_tkill, (long)tid, 0, 0) == -ESRCH;
}

/* Strikes off where this thread slept and was jumped out; how often it does. */
static uint32_t mine(struct sock *s, uintptr_t here)
{
	uint32_t n = 0;
	int i;

	for (i = 0; i < SOCK_SLEEPERS; i++) {
		struct sleeper *b = &s->waits.sleeper[i];

		if (b->tid != lock_tid())
			continue;
		if (b->frame <= here)
			strike_off(s, b);
		else
			n++; /* this is a signal handler, perhaps */
	}
	return n;
}

static uint32_t *name_of(struct sock *s)
{
	return &s->in.inside[lock_tid() % SOCK_SLEEPERS];
}

void sock_named(struct sock *s)
{
	__atomic_store_n(name_of(s), lock_tid(), __ATOMIC_RELAXED);
}

void sock_unnamed(struct sock *s)
{
	if (likely(__atomic_load_n(name_of(s), __ATOMIC_RELAXED) == lock_tid()))
		__atomic_store_n(name_of(s), 0, __ATOMIC_RELAXED);
}

/*
 * Threads that left their names. A process that is killed meanwhile leaves its
 * names, and its counts, to the others of its family.
 */
static uint32_t named_others(const struct sock *s)
{
	uint32_t n = 0, tid;
	int i;

	if (!__atomic_load_n(&s->in.users, __ATOMIC_SEQ_CST))
		return 0;
	for (i = 0; i < SOCK_SLEEPERS; i++) {
		tid = __atomic_load_n(&s->in.inside[i], __ATOMIC_RELAXED);
		n += tid && tid != lock_tid() &&
		     !sys_call3(SYS_tgkill, sock_pid, (long)tid, 0);
	}
	return n;
}

bool sleeper_unnamed(const struct sock *s)
{
	uint32_t n = __atomic_load_n(&s->waits.sleepers, __ATOMIC_SEQ_CST);
	int i;

	for (i = 0; i < SOCK_SLEEPERS && n; i++)
		n -= __atomic_load_n(&s->waits.sleeper[i].tid,
				     __ATOMIC_ACQUIRE) != 0;
	return n;
}

uint32_t sleeper_others(struct sock *s)
{
	uint32_t named = named_others(s), own;
	int i;

	if (likely(!(s->waits.readers + s->waits.writers)))
		return named;
	own = mine(s, (uintptr_t)__builtin_frame_address(0));
	for (i = 0; i < SOCK_SLEEPERS; i++)
		if (s->waits.sleeper[i].tid && dead(s->waits.sleeper[i].tid))
			strike_off(s, &s->waits.sleeper[i]);
	return s->waits.readers + s->waits.writers - own + named;
}

void sleeper_in(struct sock *s, struct sleeper *me, bool writer)
{
	int i;

	*me = (struct sleeper){ .tid = lock_tid(),
				.writer = writer,
				.frame = (uintptr_t)me };
	if (unlikely(s->waits.readers + s->waits.writers))
		mine(s, me->frame);
	++*count_of(s, writer);
	__atomic_add_fetch(&s->waits.sleepers, 1, __ATOMIC_RELAXED);
	for (i = 0; i < SOCK_SLEEPERS; i++)
		if (!s->waits.sleeper[i].tid) {
			s->waits.sleeper[i] = *me;
			return;
		}
	me->tid = 0;
}

void sleeper_out(struct sock *s, struct sleeper *me)
{
	int i;

	if (!me->tid) {
		strike_off(s, me);
		return;
	}
	/* not there: taken for one that will not come back */
	for (i = 0; i < SOCK_SLEEPERS; i++)
		if (s->waits.sleeper[i].tid == me->tid &&
		    s->waits.sleeper[i].frame == me->frame)
			strike_off(s, &s->waits.sleeper[i]);
	me->tid = 0;
}
