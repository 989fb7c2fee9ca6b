/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_GUARD_H
#define LIBSDP_BASE_GUARD_H

/*
 * The guard: what a thread may touch, and when a signal handler may run.
 *
 * A thread is *inside* the library from guard_enter() to guard_leave(). As
 * long as it is, two things hold:
 *  - memory that another thread retires meanwhile stays what it is
 *    (guard_retire());
 *  - handlers of the program do not run in it: signals that come are put off
 *    until it is outside (sigdefer.h).
 *
 * A pointer to a sock, a set or a row of the registry is good from the
 * look-up, which must happen inside, to the matching guard_leave() or
 * guard_sleep(). Before a thread sleeps it goes outside; what it needs behind
 * the sleep it must have counted, under the lock of what it sleeps in, and
 * looks at again when it is awake.
 *
 * Entering is one plain store to memory of the thread's own. The price is paid
 * by the thread that frees: one membarrier() for a batch of retired memory, or,
 * where the kernel has none, an exchange in place of the store.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A thread's own part. Slots are never unmapped; those of the dead are reused.
 */
struct guard {
	uint64_t epoch; /* atomic; of the moment it went inside, 0: outside */
	uintptr_t frame; /* of the call that is inside; 0: not known */
	uint32_t nested; /* calls in that one */
	uint32_t tid; /* atomic; 0: free */
	uint32_t number; /* atomic; in a call by this descriptor, + 1, */
	const void *what; /* atomic; on this; NULL: not looked up yet */
	uintptr_t by; /* the frame of that one */
	uint64_t put_off; /* signals that wait until then, bit number - 1 */
	void *scratch; /* scratch.c; goes with the slot */
};

/* NULL until its thread enters for the first time. */
extern __thread struct guard *guard_own
	__attribute__((tls_model("initial-exec")));
extern uint64_t guard_now; /* atomic: the current epoch, never 0 */
extern bool guard_exchanges; /* atomic: no membarrier() here */

/*
 * Once in a process, while it has one thread if possible (a first registration
 * in a process of many costs milliseconds). `barriers`: membarrier() may be
 * called. Until then, and without it, entering is by exchange.
 */
void guard_begin(bool barriers);
struct guard *guard_slot(void); /* never NULL */
/*
 * Scratch memory of threads that have ended is unmapped, of whatever they were
 * in. guard_exit(): this thread, outside and about to end, gives back its own.
 */
void guard_sweep(void);
void guard_exit(void);
/*
 * In a child: of all threads this one is left, in the call that made the child
 * if it was inside. What was retired is its parent's to free.
 */
void guard_forked(void);
/*
 * It is inside already. In a call of that call it stays as it is; but if that
 * one's frame is below this one's it is no more: a handler jumped out of it,
 * and this is the first call again. Returns what guard_enter() does.
 */
uint64_t guard_nested(struct guard *g, uintptr_t frame);
/* Does a frame lie on this thread's stack for signals? In doubt: true. */
bool guard_on_signal_stack(uintptr_t at);
/* A handler is about to jump to where the stack pointer is `to`. */
void guard_jumping(uintptr_t to);

/*
 * The epoch is read before what is looked up: with a younger one a thread finds
 * nothing that was unlinked before (acquire). What it did before it went out is
 * over by then (release).
 */
static inline void guard_in_plain(struct guard *g, uintptr_t frame)
{
	uint64_t now = __atomic_load_n(&guard_now, __ATOMIC_ACQUIRE);

	__atomic_store_n(&g->epoch, now, __ATOMIC_RELEASE);
	__atomic_store_n(&g->frame, frame, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* The same where that may be no barrier for a thread that frees. */
static inline void guard_in(struct guard *g, uintptr_t frame)
{
	uint64_t now = __atomic_load_n(&guard_now, __ATOMIC_ACQUIRE);

	if (__builtin_expect(
		    __atomic_load_n(&guard_exchanges, __ATOMIC_RELAXED), 0)) {
		(void)__atomic_exchange_n(&g->epoch, now, __ATOMIC_SEQ_CST);
#ifndef __x86_64__
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
	} else {
		__atomic_store_n(&g->epoch, now, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&g->frame, frame, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* The frame goes first: a handler in between takes it for a call of its own. */
static inline void guard_out(struct guard *g)
{
	__atomic_store_n(&g->frame, 0, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&g->epoch, 0, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* The calling thread's. */
static inline struct guard *guard_self(void)
{
	struct guard *g = guard_own;

	return __builtin_expect(g != NULL, 1) ? g : guard_slot();
}

/*
 * Inside from here on. Returns what guard_leave() wants back: calls may nest,
 * as in a handler that was not put off. Async-signal-safe. The frame is that of
 * the function which calls it.
 */
static inline uint64_t guard_enter_at(struct guard *g, uintptr_t frame)
{
	if (__builtin_expect(g->epoch != 0, 0))
		return guard_nested(g, frame);
	guard_in(g, frame);
	return 0;
}

static inline __attribute__((always_inline)) uint64_t guard_enter(void)
{
	return guard_enter_at(guard_self(),
			      (uintptr_t)__builtin_frame_address(0));
}

/* Inside until guard_leave(), though the function that went inside is left. */
static inline void guard_stays(void)
{
	__atomic_store_n(&guard_own->frame, 0, __ATOMIC_RELAXED);
}

/* Signals that were put off are let in: handlers of the program run here. */
void guard_let_in(struct guard *g);

/* Back to what it was before guard_enter(). errno stays. */
static inline void guard_leave_by(struct guard *g, uint64_t was)
{
	if (__builtin_expect(was != 0, 0)) {
		g->nested--;
		return;
	}
	guard_out(g);
	if (__builtin_expect(g->put_off != 0, 0))
		guard_let_in(g);
}

static inline void guard_leave(uint64_t was)
{
	guard_leave_by(guard_own, was);
}

static inline bool guard_inside(void)
{
	return guard_own && guard_own->epoch;
}

/*
 * Something was put off: a thread that spins goes to sleep, which ends there.
 */
static inline bool guard_called(void)
{
	return guard_own &&
	       __atomic_load_n(&guard_own->put_off, __ATOMIC_RELAXED);
}

/*
 * Around a call of the kernel's that may sleep: outside, where what was put off
 * is let in; and inside again, in a new epoch. Returns what guard_wake() wants
 * back. A call in another call's handler stays inside, for that one's sake.
 *
 * A signal that comes in between is as one that came just before the kernel's
 * call. A sleep that has to end for it is sigdefer_sleep() (sigdefer.h), alone.
 */
static inline uint64_t guard_sleep(void)
{
	struct guard *g = guard_own;
	uint64_t was = g && g->epoch && !g->nested ? g->frame : 0;

	if (was) {
		guard_out(g);
		if (__builtin_expect(g->put_off != 0, 0))
			guard_let_in(g);
	}
	return was;
}

static inline void guard_wake(uint64_t was)
{
	if (was)
		guard_in(guard_own, (uintptr_t)was);
}

/* --- calls by number ------------------------------------------------------ */

/*
 * A call that hands a descriptor's number to the kernel may get there when the
 * number is another file's by now: it says by which it came, before it looks up
 * what it is, and until it is over, asleep or not. Calls of handlers may come
 * in between: guard_call_end() gets what guard_call_by() returned. g: its own.
 */
struct guard_call {
	uint32_t number;
	const void *what;
	uintptr_t by;
};

static inline struct guard_call guard_call_by(struct guard *g, int fd,
					      uintptr_t frame)
{
	struct guard_call was = { g->number, g->what, g->by };

	g->by = frame;
	__atomic_store_n(&g->what, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&g->number, (uint32_t)fd + 1, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return was;
}

/* Neither inside nor in a call by a number, and an entry is a plain store. */
static inline bool guard_plain(const struct guard *g)
{
	return !(g->epoch | g->number) &&
	       !__atomic_load_n(&guard_exchanges, __ATOMIC_RELAXED);
}

/* guard_call_by() of one that is: guard_call_end() gets GUARD_NO_CALL. */
#define GUARD_NO_CALL ((struct guard_call){ 0, NULL, 0 })
static inline void guard_call_new(struct guard *g, int fd, uintptr_t frame)
{
	g->by = frame;
	__atomic_store_n(&g->number, (uint32_t)fd + 1, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void guard_call_on(struct guard *g, const void *what)
{
	__atomic_store_n(&g->what, what, __ATOMIC_RELAXED);
}

static inline void guard_call_end(struct guard *g, struct guard_call was)
{
	__atomic_store_n(&g->number, was.number, __ATOMIC_RELEASE);
	__atomic_store_n(&g->what, was.what, __ATOMIC_RELAXED);
	if (__builtin_expect(was.number != 0, 0))
		g->by = was.by;
}

/*
 * A call by `fd` begins at that frame: one that was told before it and cannot
 * have called it is no more, a handler jumped out of it.
 */
void guard_call_left(struct guard *g, int fd, uintptr_t frame);
static inline bool guard_told(void)
{
	return guard_own && guard_own->number;
}

/*
 * Is another thread in a call by `fd` on something else than `what`, which can
 * be found there now? Once it is not, it is not until what is found changes.
 */
bool guard_elsewhere(int fd, const void *what);

/* --- the same by scope, left by whatever leaves the block ---------------- */

/* Proof that its holder is inside, for functions that look something up. */
struct guarded {
	uint64_t was;
	bool on;
};

static inline void guarded_begin(struct guarded *in)
{
	if (!in->on)
		in->was = guard_enter();
	in->on = true;
}

static inline void guarded_end(struct guarded *in)
{
	if (in->on)
		guard_leave(in->was);
	in->on = false;
}

/* GUARDED: inside to the end of the block; GUARDED_LATER: from begin() on. */
#define GUARDED_LATER(name) \
	struct guarded name __attribute__((cleanup(guarded_end))) = { 0, false }
#define GUARDED(name)                                            \
	struct guarded name __attribute__((cleanup(guarded_end), \
					   unused)) = { guard_enter(), true }

static inline void guarded_woken(const uint64_t *was)
{
	guard_wake(*was);
}

/* Outside to the end of the block, which sleeps in the kernel. */
#define ASLEEP(name)                                                    \
	uint64_t name __attribute__((cleanup(guarded_woken), unused)) = \
		guard_sleep()

/* --- memory --------------------------------------------------------------- */

/*
 * Memory that no look-up finds any more. free() is called when no thread is
 * inside that may have found it before, and idle() (NULL: always) says that
 * none has counted itself in to sleep in it: since a sleeper is inside again
 * before it counts itself out, idle() is asked twice, all threads being out of
 * the epoch of the first time. Both may be called by any thread, inside or not,
 * without locks. The struct lies in that memory.
 */
#define RETIRED_HEAVY 2
struct retired {
	struct retired *next;
	uint64_t epoch;
	bool was_idle;
	uint8_t weight; /* 1 or RETIRED_HEAVY, which is freed sooner */
	bool (*idle)(struct retired *r);
	void (*free)(struct retired *r);
};
void guard_retire(struct retired *r);
/*
 * How many of weight RETIRED_HEAVY are not freed yet. Sequentially consistent:
 * a thread that says when it looks next, and then finds none here, is seen to
 * have said so by the thread that retires one behind that.
 */
uint32_t guard_heavy(void);
/* Frees what can be by now: of the background thread, or for want of memory. */
void guard_reap(void);
/*
 * Inside: found idle, then freed; from inside the caller would be waited for.
 */
static inline void guard_drain(void)
{
	uint64_t was = guard_sleep();

	guard_reap();
	guard_reap();
	guard_wake(was);
}

#endif
