/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Waiting for a set with managed members: look at the hot ones, spin a
 * little, arm them, sleep in the kernel on anchors and wake-up sockets,
 * translate what comes.
 *
 * Within one turn (epoll_order.c) a registration goes into the program's array
 * once, whatever the sources are: kernel, wake-up socket, hot list.
 */
#include <pthread.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/hold.h"
#include "base/page.h"
#include "base/sigdefer.h"
#include "base/stamp.h"
#include "base/sys.h"
#include "preload/epoll/epoll.h"
#include "preload/epoll/epset.h"
#include "preload/fd/deadline.h"
#include "preload/fd/real.h"

#define SPINS	  4 /* in a call, with nothing to report after them */
#define SPIN_OPEN 3000 /* ns, then signals are held back */
#define SPIN_LOOK 8000 /* ns between looks at the kernel while spinning */

enum epkind { WAIT, PWAIT, PWAIT2 };

struct epwait {
	struct epset *set;
	uint32_t life;
	int ep, max;
	int room; /* of the next look at the kernel */
	uint64_t asked; /* stamp: the last one began */
	struct epoll_event *ev;
	enum epkind kind;
	const sigset_t *mask;
	bool asleep;
	bool armed; /* hot members were armed since the last fill() */
	bool filled; /* wake-ups of others were taken, perhaps */
	struct hold hold;
	struct epask ask;
};

static int kernel_look(struct epwait *w)
{
	w->asked = stamp_now();
	return neg_errno(real_epoll_wait(w->ep, w->ev, w->room, 0));
}

/* A sleep, which ends with what was put off. */
static int kernel_wait(struct epwait *w, uint64_t span, const sigset_t *mask)
{
	struct timespec ts = dl_ts(span == DL_NEVER ? 0 : span);
	struct sigdefer_sleep how = {
		.nr = SYS_epoll_pwait,
		.arg = { w->ep, (long)w->ev, w->room, dl_ms(span), (long)mask,
			 8 },
		.mask = mask,
	};

	/* a filter may allow the program's system call only */
	if (ep_unlikely(preload_off) && w->kind == WAIT && !mask)
		return neg_errno(
			real_epoll_wait(w->ep, w->ev, w->room, dl_ms(span)));
	if (!span && !mask)
		return kernel_look(w);
	w->asked = stamp_now();
#ifdef SYS_epoll_pwait2
	if (w->kind == PWAIT2) {
		how.nr = SYS_epoll_pwait2;
		how.arg[3] = span == DL_NEVER ? 0 : (long)&ts;
	}
#endif
	return (int)sigdefer_sleep(&how);
}

/* Take the lock for one round of filling the array. */
static int begin(struct epwait *w)
{
	if (!epset_take(w->set))
		return -EDEADLK;
	if (ep_unlikely(w->set->life != w->life)) {
		epset_release(w->set);
		return -EBADF; /* closed meanwhile */
	}
	epset_turn(w->set);
	epset_inbox(w->set);
	return 0;
}

/*
 * The wake-up socket of `r` was rung: that concerns every set of the sock. A
 * kick, EPOLLOUT alone, is this set's, and all were told that the peer is gone:
 * passed on it might come back to us for ever.
 */
static void rang(struct epreg *r, uint32_t events)
{
	struct epbucket *b = epbucket_of(r->sock, r->fd);

	sock_rang(r->sock, false);
	/* what was armed is used up: arm again before the next sleep */
	epreg_watch(r, false);
	epreg_heat(r);
	r->still = false;
	if (!epbucket_take(b))
		return;
	if (events & EPOLLOUT)
		epreg_unkick(r);
	epreg_wake(b, r);
	epbucket_drop(b);
	if ((events & ~(uint32_t)EPOLLOUT) && sock_wake_fd(r->sock) >= 0)
		ep_risen(r->sock);
}

/*
 * One event of the kernel at ev[i]; entries before n are done. n <= i always:
 * an event makes at most one entry.
 */
static int translate_one(struct epwait *w, int i, int n)
{
	struct epoll_event ev = w->ev[i];
	struct epreg *r;

	if (!ep_is_word(ev.data.u64)) {
		epset_odd(w->set, n);
		w->ev[n] = ev;
		return n + 1;
	}
	r = epreg_of(w->set, ev.data.u64);
	if (!r)
		return n;
	if (ep_unlikely(r->deleted)) {
		if (ev.data.u64 & EP_WAKE) {
			sock_rang(r->sock, false);
			ep_risen(r->sock);
		} else {
			epreg_bury(r);
		}
		return n;
	}
	if (ev.data.u64 & EP_WAKE) {
		rang(r, ev.events); /* it is hot now */
		epset_rung(w->set, w->ev, r);
		return n;
	}
	if (ep_unlikely(!ep_word_modded(ev.data.u64, r->mod)))
		return epset_put_old(w->set, w->ev, n, r, ev.events);
	return epset_put(w->set, w->ev, n, r, epreg_look(r, ev.events));
}

/* `got` events of the kernel at ev[n]. */
static int translate(struct epwait *w, int n, int got)
{
	int i = n, end = n + got;

	for (; i < end; i++)
		n = translate_one(w, i, n);
	return n;
}

/* --- epask ---------------------------------------------------------------- */

static struct epwait *waiter(struct epask *a)
{
	return (struct epwait *)(void *)((char *)a -
					 offsetof(struct epwait, ask));
}

static int look(struct epask *a, struct epoll_event *ev, int room)
{
	struct epwait *w = waiter(a);
	int got;

	/* once: a half-close behind unread bytes comes back at each look */
	if (a->rearm)
		epset_rearm(w->set);
	a->rearm = false;
	a->began = w->set->now = stamp_now();
	got = sys_epoll_look(w->ep, ev, room);
	a->whole = epset_saw(w->set, ev, got, room, a->began);
	return got < 0 ? 0 : got;
}

/* What an earlier turn took from the kernel's list, if it is still so: 1. */
static int look_kept(const struct epwait *w, struct epoll_event *e)
{
	struct epkern *k = &w->set->kern;
	struct epreg *r = k->kept;
	struct pollfd p = { .events = (short)(k->kept_events & 0xffff) };
	struct timespec now = { 0, 0 };

	if (ep_likely(!r))
		return 0;
	k->kept = NULL;
	p.fd = r->fd;
	if (r->off || r->fd < 0)
		return 0;
	if (sys_ppoll(&p, 1, &now, NULL) != 1) {
		if (r->mask & EPOLLONESHOT)
			epreg_tell(r, true); /* the kernel thinks it was told */
		return 0;
	}
	k->was_kept = r;
	e->events = (uint16_t)p.revents;
	e->data.u64 = epreg_word(r);
	return 1;
}

static int ask_more(struct epask *a, int n, int room)
{
	struct epwait *w = waiter(a);
	uint32_t listed = w->set->nready;
	int got = look_kept(w, w->ev + n), end = n + room, tries = 4, rung;

	a->whole = false;
	n = translate(w, n, got);
	/* some are nothing for the program; what was rung for has room, too */
	do {
		rung = (int)(w->set->nready - listed);
		room = end - n - (rung > 0 ? rung : 0);
		if (room <= 0 || a->whole)
			break;
		n = translate(w, n, look(a, w->ev + n, room));
	} while (!w->set->kern.odd && tries--);
	return n;
}

static int ask_one(struct epask *a, struct epoll_event *e)
{
	a->whole = false;
	return look_kept(waiter(a), e) || look(a, e, 1);
}

static int ask_put(struct epask *a, int n, const struct epoll_event *e)
{
	struct epwait *w = waiter(a);

	w->ev[n] = *e;
	return translate(w, n, 1);
}

/* Hot members, `got` events of the kernel, and, `rest`, what else it has. */
static int fill(struct epwait *w, int got, bool rest)
{
	int n, ret = begin(w);

	if (ret)
		return ret;
	w->ask = (struct epask){ .began = rest ? 0 : w->asked,
				 .whole = epset_saw(w->set, w->ev, got, w->room,
						    w->asked),
				 .rest = rest,
				 .rearm = true,
				 .more = ask_more,
				 .one = ask_one,
				 .put = ask_put };
	w->asked = 0;
	/* one that sleeps on counts on being rung */
	if (w->armed && !epset_asleep(w->set))
		epset_disarm(w->set);
	w->armed = false;
	n = epset_collect(w->set, w->ev, translate(w, 0, got), w->max, &w->ask);
	if (n == w->max || w->set->ready)
		epset_pass_on(w->set); /* the array is full */
	w->filled = true;
	epset_release(w->set);
	return n;
}

/*
 * Everything that was ready before the call, the kernel's members too, as long
 * as there is room: a program may count on seeing what it has just written to a
 * pipe. Where the array may well be too small for all, the hot ones are looked
 * at first, to know how much of the kernel's can be taken.
 */
static int harvest(struct epwait *w)
{
	struct epset *set = w->set;
	int nhot = (int)set->nhot + epset_mail(set) * w->max;
	int n;

	if (ep_unlikely(w->max < 2 * nhot + 2 || set->kern.kept)) {
		pthread_testcancel(); /* as the kernel's call does */
		return fill(w, 0, true);
	}
	epset_rearm_open(set);
	w->room = w->max - nhot;
	n = kernel_wait(w, 0, NULL);
	n = n < 0 ? n : fill(w, n, false);
	w->room = w->max;
	return n;
}

/* --- spinning ----------------------------------------------------------- */

/*
 * Spin for the hot members, at most `left` ns, with looks at the kernel in
 * between. Returns events or a negative errno; 0: look again (`*again`) or
 * sleep.
 */
static int spin(struct epwait *w, uint64_t left, bool *again)
{
	struct epset *set = w->set;
	uint64_t now = clock_ns(), end = 0, till, begin, slice = SPIN_OPEN;
	const uint64_t first = now;
	struct epspin sp;
	enum spun out;
	bool over;
	int n;

	*again = false;
	for (;;) {
		if (!epspin_begin(set, &sp))
			return 0;
		if (!end) {
			end = dl_after(now, sp.ns < left ? sp.ns : left);
			sp.clocks = clock_looks(end - now);
		}
		begin = now;
		till = dl_after(now, slice);
		out = epspin_some(set, &sp, till < end ? till : end);
		now = clock_ns();
		sock_spin_ended(now, till < end ? till : end, sp.ns);
		*again = out != SPUN_OUT;
		over = *again || now >= end || !sp.clocks || guard_called();
		sock_spin_spent(sp.best, now - begin, over ? now - first : 0);
		if (out == SPUN_PAID || (!*again && now >= end))
			sock_spun(sp.best, out == SPUN_PAID);
		epspin_end(set, &sp);
		if (over)
			return 0;
		hold_signals(&w->hold);
		n = slice == SPIN_OPEN ? 0 : kernel_wait(w, 0, NULL);
		slice = SPIN_LOOK;
		if (n > 0)
			n = fill(w, n, false);
		if (n) {
			page_spun(now - first);
			return n;
		}
	}
}

/* --- sleeping ------------------------------------------------------------ */

static void uncount_sleeper(struct epwait *w)
{
	epset_wakes(&w->asleep, w->set);
}

/* However the call ends, cancellation included. */
static void leave(struct epwait *w)
{
	uncount_sleeper(w);
	hold_end(&w->hold);
}

/*
 * One kernel wait of at most *left, which is 0 behind it if it is over. Returns
 * what the kernel says; 0 with *again set: there is something in user space.
 */
static int sleep_once(struct epwait *w, uint64_t *left, bool *again)
{
	uint64_t nap = *left;
	int n;

	*again = false;
	if (nap) {
		/*
		 * Counted first, and then the lock: a thread that changed
		 * a member before is seen here, one that does it later kicks.
		 */
		w->armed = true;
		epset_falls_asleep(&w->asleep, w->set);
		if (epset_arm(w->set, &nap) ||
		    ep_unlikely(epset_mail(w->set))) {
			uncount_sleeper(w);
			*again = true;
			return 0;
		}
	}
	epset_rearm_open(w->set);
	n = kernel_wait(w, nap, hold_mask(&w->hold, w->mask));
	hold_on(&w->hold);
	uncount_sleeper(w);
	if (dl_slept(n, nap, *left))
		*left = 0;
	return n;
}

static int wait_for(struct epwait *w, uint64_t span)
{
	struct epset *set = w->set;
	uint64_t left = span, end = DL_NEVER;
	int spins = 0, n;
	bool again, last;

	if (span && span != DL_NEVER)
		end = dl_after(clock_ns(), span);
	for (;;) {
		if (set->hot || epset_mail(set) || set->kern.kept) {
			n = spins ? fill(w, 0, false) : harvest(w);
			if (n)
				return n;
			if (spins && end != DL_NEVER)
				left = dl_left(clock_ns(), end);
			if (left && !w->mask && set->hot && spins++ < SPINS) {
				n = spin(w, left, &again);
				if (n)
					return n;
				if (again)
					continue;
			}
		}
		if (end != DL_NEVER)
			left = dl_left(clock_ns(), end);
		last = !left;
		n = sleep_once(w, &left, &again);
		if (n > 0)
			n = fill(w, n, false);
		if (n || (!again && last))
			return n;
		if (!left)
			end = 0; /* one look more */
	}
}

/*
 * A child that shares the set with its parent: everything is the kernel's;
 * words are translated by the table as it was at the fork.
 */
static int wait_inherited(struct epwait *w, uint64_t span)
{
	uint64_t left = span, end = DL_NEVER;
	struct epreg *r;
	int i, got, n = 0;

	if (!w->set->settled)
		epset_settle(w->set, false);
	if (span && span != DL_NEVER)
		end = dl_after(clock_ns(), span);
	for (;;) {
		epset_falls_asleep(&w->asleep, w->set);
		got = kernel_wait(w, left, w->mask);
		uncount_sleeper(w);
		if (got <= 0)
			return got;
		if (begin(w))
			return -EBADF;
		for (i = 0; i < got; i++) {
			struct epoll_event ev = w->ev[i];

			if (ep_is_word(ev.data.u64)) {
				r = epreg_of(w->set, ev.data.u64);
				if (!r || r->deleted || (ev.data.u64 & EP_WAKE))
					continue;
				ev.data.u64 = r->data;
				ev.events &= ep_want(r->mask);
			}
			if (ev.events)
				w->ev[n++] = ev;
		}
		epset_release(w->set);
		if (end != DL_NEVER)
			left = dl_left(clock_ns(), end);
		if (n || !left)
			return n;
	}
}

static int do_wait(struct epwait *w, uint64_t span)
{
	struct epwait held __attribute__((cleanup(leave))) = *w;
	struct epoll_event none;
	size_t room;
	int n;

	sock_saw_wait();
	sock_wait_begins();
	epset_wanted(held.set);
	held.life = held.set->life;
	if (ep_refused(held.ev, held.max) || dl_mask_lost(held.mask))
		return kernel_wait(&held, span, held.mask);
	room = mem_front(held.ev, (size_t)held.max * sizeof(*held.ev), true);
	held.max = held.room = (int)(room / sizeof(*held.ev));
	if (ep_unlikely(!held.max)) { /* told when there is one */
		held.ev = &none;
		held.max = held.room = 1;
		w->max = 0;
	}
	n = (held.set->inherited ? wait_inherited : wait_for)(&held, span);
	if (held.filled)
		epset_hand_over(held.set);
	return ep_unlikely(!w->max) && n > 0 ? -EFAULT : n;
}

static void plain_back(uint32_t **at)
{
	__atomic_sub_fetch(*at, 1, __ATOMIC_SEQ_CST);
}

/* Sleep where there is no struct; -EAGAIN: there is one now. */
static int plain_sleep(struct epwait *w, uint64_t span)
{
	uint32_t *at __attribute__((cleanup(plain_back))) = ep_plain_at(w->ep);

	__atomic_add_fetch(at, 1, __ATOMIC_SEQ_CST);
	if (ep_unlikely(fdt_has_set(w->ep)))
		return -EAGAIN;
	return kernel_wait(w, span, w->mask);
}

static uint64_t rest(uint64_t began, uint64_t span)
{
	return began ? dl_left(clock_ns(), dl_after(began, span)) : span;
}

/*
 * The set had no managed members when the wait began; another thread may have
 * added some since, and their events carry our words.
 */
static int do_plain(struct epwait *w, uint64_t span)
{
	uint64_t began = 0;
	int n;
	GUARDED_LATER(in);

	epbits_set(EP_WAITED, w->ep, true);
	if (span && span != DL_NEVER && fdt_any)
		began = clock_ns();
	n = span ? plain_sleep(w, span) : kernel_wait(w, span, w->mask);
	if (ep_likely(n <= 0) && n != -EAGAIN)
		return n;
	if (ep_likely(n > 0 && !ep_tag && !fdt_has_set(w->ep)))
		return n;
	guarded_begin(&in);
	w->set = fdt_set(&in, w->ep);
	if (ep_likely(!w->set)) {
		guarded_end(&in);
		n = n > 0 ? ep_strangers(w->ev, n) : 0;
		return n || !span ? n : do_plain(w, rest(began, span));
	}
	if (ep_unlikely(n == -EAGAIN))
		return do_wait(w, span);
	w->life = w->set->life;
	n = fill(w, n, false);
	if (!n && span)
		return do_wait(w, rest(began, span));
	epset_hand_over(w->set);
	return n;
}

static int enter(int ep, struct epoll_event *ev, int max, enum epkind kind,
		 uint64_t span, const sigset_t *mask)
{
	GUARDED_LATER(in);
	struct epwait w = { .ep = ep,
			    .max = max,
			    .room = max,
			    .ev = ev,
			    .kind = kind,
			    .mask = mask };

	if (ep_likely(!fdt_has_set(ep)))
		return do_plain(&w, span);
	guarded_begin(&in);
	w.set = fdt_set(&in, ep);
	if (ep_likely(w.set != NULL))
		return do_wait(&w, span);
	guarded_end(&in);
	return do_plain(&w, span);
}

int do_epoll_wait(int ep, struct epoll_event *ev, int max, int ms)
{
	return enter(ep, ev, max, WAIT, dl_span_ms(ms), NULL);
}

int do_epoll_pwait(int ep, struct epoll_event *ev, int max, int ms,
		   const sigset_t *mask)
{
	return enter(ep, ev, max, PWAIT, dl_span_ms(ms), mask);
}

int do_epoll_pwait2(int ep, struct epoll_event *ev, int max,
		    const struct timespec *ts, const sigset_t *mask)
{
	if (!dl_sound(ts))
		return neg_errno(real_epoll_pwait2(ep, ev, max, ts, mask));
	return enter(ep, ev, max, PWAIT2, ts ? dl_span(ts) : DL_NEVER, mask);
}
