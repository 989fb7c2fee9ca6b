/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * poll() over anchors and rings (anchor.md 5.4): an entry whose data travel
 * through the ring becomes two, the wake-up descriptor for news, the anchor
 * for what is still the kernel's.
 */
#include "preload/pollset.h"

#include <errno.h>

#include "base/clock.h"
#include "base/pollmany.h"
#include "base/settle.h"
#include "base/sigdefer.h"
#include "base/sys.h"
#include "preload/fd/asleep.h"
#include "preload/fd/deadline.h"
#include "preload/epoll/epset.h"
#include "preload/fd/real.h"

/* What a TCP socket can report at all. */
#define TCP_BITS                                                            \
	(POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLPRI | POLLRDHUP | \
	 POLLERR | POLLHUP)
#define SPINS	    4 /* in a call, with nothing to report after them */
#define SPIN_SURE   8u /* looks: what is found before tells nothing */
#define SPIN_SOCKS  16
#define SPIN_ASKS   4
#define SPIN_OPEN   3000 /* ns, then signals are held back */
#define SPIN_LOOK   8000 /* ns between looks at the kernel */
#define YIELD_AFTER 128 /* looks in vain, then others may run, too */
#define STRIKES	    3 /* wake-ups for nothing before an entry is muted */
#define MUTED_NAP   ((uint64_t)DL_MS)

static uint32_t want(const struct pollfd *f)
{
	return ((uint16_t)f->events & EP_BITS) | POLLERR | POLLHUP | POLLNVAL;
}

/* --- birth and end -------------------------------------------------------- */

static struct pollent entry_of(const struct pollset *p, nfds_t i)
{
	struct pollent e = { .at = i, .ms = -1 };

	e.sock = fdt_sock(p->in, p->fds[i].fd);
	if (!e.sock)
		e.set = fdt_set(p->in, p->fds[i].fd);
	return e;
}

int pollset_begin(struct pollset *p)
{
	nfds_t i;

	sock_wait_begins();
	p->hold.on = false;
	p->doze.s = NULL;
	p->nent = 0;
	p->room = (struct scratch){ NULL, 0 };
	p->ent = scratch_take(&p->room,
			      p->n * (2 * sizeof(*p->kern) + sizeof(*p->ent)));
	if (!p->ent)
		return -ENOMEM;
	p->kern = (struct pollfd *)(void *)(p->ent + p->n);
	for (i = 0; i < p->n; i++) {
		p->ent[p->nent] = entry_of(p, i);
		if (p->ent[p->nent].sock || p->ent[p->nent].set)
			p->nent++;
	}
	p->seen = p->nent == p->n;
	p->gone = false;
	return 0;
}

/* A sleeper no more: of itself, or of a jump out of it (asleep.h). */
static void uncount_sleeper(struct pollset *p)
{
	nfds_t i;

	asleep_out(p);
	sock_dozed(&p->doze);
	for (i = 0; i < p->nent; i++) {
		struct pollent *e = &p->ent[i];

		if (!e->asleep)
			continue;
		e->asleep = false;
		if (e->sock) {
			sock_awake(e->sock, e->number);
			sock_disarm(e->sock);
		} else {
			epset_sleeps(e->set, -1);
		}
	}
}

static void jumped_out(void *p, void *what)
{
	(void)what;
	uncount_sleeper(p);
}

static const struct asleep_kind in_poll = { .out = jumped_out };

void pollset_end(struct pollset *p)
{
	uncount_sleeper(p);
	hold_end(&p->hold);
	scratch_give(&p->room);
}

/* --- looking --------------------------------------------------------------- */

/* Not all the kernel's, and not closed by another thread meanwhile? */
static bool living(const struct pollset *p, const struct pollent *e)
{
	return !sock_cold(e->sock) && fdt_is(p->fds[e->at].fd, e->sock);
}

static void look(struct pollset *p, struct pollent *e)
{
	int fd = p->fds[e->at].fd;
	struct sock_ready r = { .ms = -1 };

	e->was = e->ours;
	if (e->set) {
		epset_wanted(e->set);
		e->ours = 0;
		e->now = epset_ready(e->set, NULL) ? POLLIN | POLLRDNORM : 0;
		return;
	}
	if (e->sock && living(p, e))
		sock_ready(e->sock, fd, want(&p->fds[e->at]), &r);
	e->ours = ep_expand(r.ours);
	e->now = ep_expand(r.now) & e->ours;
	e->ms = r.ms;
}

/* Looks at all; true if user space has something to report. */
static bool look_all(struct pollset *p)
{
	bool found = false;
	nfds_t i;

	for (i = 0; i < p->nent; i++) {
		look(p, &p->ent[i]);
		found = found || (p->ent[i].now & want(&p->fds[p->ent[i].at]));
	}
	return found;
}

/* Does the answer need the kernel, beside what user space knows? */
static bool mixed(const struct pollset *p)
{
	nfds_t i, n = 0;

	for (i = 0; i < p->nent; i++) {
		const struct pollent *e = &p->ent[i];

		if ((uint16_t)p->fds[e->at].events & ~e->ours & TCP_BITS)
			return true;
		n++;
	}
	for (i = 0; i < p->n && n < p->n; i++)
		n += p->fds[i].fd < 0;
	return n < p->n;
}

/* --- the kernel's part ------------------------------------------------------ */

/*
 * The kernel's array. `sleep`: with kicks, FIN and wake-up descriptors; an
 * entry that came out for nothing too often (a byte that must stay unread for
 * another sleeper) is asked for less, the nap is bounded instead.
 */
static void translate(struct pollset *p, bool sleep)
{
	nfds_t i;

	for (i = 0; i < p->n; i++)
		p->kern[i] = (struct pollfd){ .fd = p->fds[i].fd,
					      .events = p->fds[i].events };
	p->nkern = p->n;
	for (i = 0; i < p->nent; i++) {
		struct pollent *e = &p->ent[i];
		struct pollfd *k = &p->kern[e->at];
		int wake;

		e->wake = 0;
		if (!e->sock || !(e->ours || living(p, e)))
			continue;
		k->events = (short)((uint16_t)k->events & ~e->ours);
		if (!sleep)
			continue;
		if (e->strikes > STRIKES) {
			if (e->strikes > 2 * STRIKES && e->ours)
				k->fd = -1;
			continue;
		}
		if (e->ours && !(e->now & POLLIN))
			k->events |= POLLIN;
		wake = sock_wake_fd(e->sock);
		if (wake < 0)
			continue;
		e->wake = p->nkern++;
		p->kern[e->wake] =
			(struct pollfd){ .fd = wake, .events = POLLIN };
	}
}

/*
 * The kernel refuses more entries than a process may have descriptors. That is
 * asked in front of a large call; of a small one when the kernel has said so.
 */
#define LARGE 256

static bool too_many(const struct pollset *p)
{
	return p->kind != POLL_SELECT && pollmany_refused(p->n);
}

/* A look does not sleep; a sleep ends with what was put off. */
static int ask_kernel(struct pollset *p, uint64_t span, const sigset_t *mask)
{
	struct timespec ts = dl_ts(0);
	int ret;

	if (!span) {
		ret = neg_errno(real_poll(p->kern, p->nkern, 0));
		if (unlikely(ret == -EINVAL) && !too_many(p))
			ret = sys_ppoll(p->kern, p->nkern, &ts, NULL);
		return ret;
	}
	if (p->kind == POLL_MS && span != DL_NEVER)
		span = (uint64_t)dl_ms(span) * DL_MS;
	ts = dl_ts(span == DL_NEVER ? 0 : span);
	return sigdefer_ppoll(p->kern, p->nkern,
			      p->kind == POLL_SELECT ? 0 : p->n,
			      span == DL_NEVER ? NULL : &ts, mask);
}

/*
 * A peer's wake-up socket hangs up microseconds before its anchor: a thread
 * that comes out for the one asks for the other just while the kernel notes a
 * reset.
 */
static int kernel(struct pollset *p, uint64_t span, const sigset_t *mask)
{
	int ret = ask_kernel(p, span, mask);
	nfds_t i;

	for (i = 0; ret > 0 && i < p->nent; i++) {
		struct pollfd *k = &p->kern[p->ent[i].at];

		if (p->ent[i].sock)
			k->revents = settled(k->fd, k->events, k->revents);
	}
	return ret;
}

/*
 * A direction may have been lifted between the look and the kernel's answer:
 * what the kernel calls readable then is a kick or a token. Only a look behind
 * the answer tells.
 */
static void look_behind(struct pollset *p)
{
	nfds_t i;

	for (i = 0; i < p->nent; i++) {
		struct pollent *e = &p->ent[i];
		uint32_t bits = (uint16_t)p->kern[e->at].revents;

		if (e->sock && (bits & EP_INS & ~e->ours))
			look(p, e);
	}
}

/* Fill in the program's array; how many entries have something. */
static int answer(struct pollset *p, bool asked)
{
	nfds_t i, count = 0;

	for (i = 0; i < p->n; i++)
		p->fds[i].revents = asked ? p->kern[i].revents : 0;
	for (i = 0; i < p->nent; i++) {
		struct pollent *e = &p->ent[i];
		struct pollfd *f = &p->fds[e->at];
		uint32_t bits = (uint16_t)f->revents & ~e->ours & ~e->was;

		if (e->set && !e->now && (bits & POLLIN) &&
		    !epset_probe(e->set, NULL))
			bits &= ~(uint32_t)(POLLIN | POLLRDNORM);
		f->revents = (short)((bits | e->now) & want(f));
	}
	for (i = 0; i < p->n; i++)
		count += p->fds[i].revents != 0;
	return (int)count;
}

/*
 * The kernel has a say in something only since the look behind its answer: what
 * it said of that may be of before, a kick or the half of a reset.
 */
static bool stale(const struct pollset *p)
{
	nfds_t i;

	for (i = 0; i < p->nent; i++) {
		const struct pollent *e = &p->ent[i];

		if ((uint16_t)p->kern[e->at].revents & e->was & ~e->ours)
			return true;
	}
	return false;
}

/* What is there now, by the last look and the kernel. */
static int at_once(struct pollset *p)
{
	nfds_t i;
	int ret;

	do {
		for (i = 0; i < p->nent; i++)
			p->ent[i].was = 0;
		translate(p, false);
		ret = kernel(p, 0, NULL);
		if (ret < 0)
			return ret;
		look_behind(p);
	} while (stale(p));
	p->gone = p->seen;
	p->seen = true;
	return answer(p, true);
}

/* --- spinning ---------------------------------------------------------------- */

/* Whose rings are looked at, and how long. */
struct spinners {
	struct sock *sock[SPIN_SOCKS];
	nfds_t n;
	struct sock *best; /* asked for the time */
	uint64_t ns;
};

static bool looked_at(const struct pollent *e)
{
	return e->sock && (e->ours & POLLIN) && !sock_cold(e->sock);
}

/* How long do the first few of them want to spin? */
static void ask(const struct pollset *p, struct spinners *sp)
{
	nfds_t i, asked = 0;
	uint64_t ns;

	for (i = 0; i < p->nent && asked < SPIN_ASKS; i++) {
		if (!looked_at(&p->ent[i]))
			continue;
		asked++;
		ns = sock_spin_ns(p->ent[i].sock);
		if (ns > sp->ns) {
			sp->ns = ns;
			sp->best = p->ent[i].sock;
		}
	}
}

/* Each stays what it is meanwhile, even if it is closed. */
static void gather(const struct pollset *p, struct spinners *sp)
{
	struct sock *best = sp->best;
	nfds_t i;

	sp->best = NULL;
	for (i = 0; i < p->nent && sp->n < SPIN_SOCKS; i++) {
		struct sock *s = p->ent[i].sock;

		if (!looked_at(&p->ent[i]) || !sock_stay(s))
			continue;
		if (!sp->best || s == best)
			sp->best = s;
		sp->sock[sp->n++] = s;
	}
}

/* However the spin ends, cancellation included. */
static void leave(struct spinners *sp)
{
	while (sp->n)
		sock_go_on(sp->sock[--sp->n]);
}

/*
 * Look at the rings for a while. True: look at everything again, or (*ret not
 * 0) done.
 */
static bool spin_for(struct pollset *p, const struct spinners *sp,
		     uint64_t left, int *ret)
{
	struct sock *const *socks = sp->sock;
	const nfds_t n = sp->n;
	uint64_t begin, now, end, look_at, open_till;
	unsigned int looks = 0, turn = 0, clock_at = 16;
	uint64_t clocks;
	nfds_t i;
	bool others;

	others = mixed(p);
	begin = now = clock_ns();
	end = dl_after(now, sp->ns < left ? sp->ns : left);
	clocks = clock_looks(end - now);
	look_at = dl_after(now, SPIN_LOOK);
	open_till = dl_after(now, SPIN_OPEN);
	for (;;) {
		for (i = 0; i < n; i++)
			if (sock_pending(socks[i])) {
				if (looks > SPIN_SURE) {
					now = clock_ns();
					sock_spin_ended(now, end, sp->ns);
					sock_spin_spent(socks[i], now - begin,
							now - begin);
				}
				sock_spun(socks[i], true);
				return true;
			}
		looks += (unsigned int)n;
		if (looks > YIELD_AFTER && (++turn & 3) == 0)
			sys_call3(SYS_sched_yield, 0, 0, 0);
		else
			clock_relax();
		if (looks < clock_at)
			continue;
		clock_at = looks + 16;
		now = clock_ns();
		if (now >= end || !clocks-- || guard_called())
			break;
		if (now >= open_till)
			hold_signals(&p->hold);
		if (!others || now < look_at)
			continue;
		look_at = dl_after(now, SPIN_LOOK);
		*ret = at_once(p);
		if (*ret)
			return true;
	}
	sock_spin_ended(now, end, sp->ns);
	sock_spin_spent(sp->best, now - begin, now - begin);
	sock_spun(sp->best, false);
	return false;
}

static bool spin(struct pollset *p, uint64_t left, int *ret)
{
	struct spinners sp __attribute__((cleanup(leave)));

	*ret = 0;
	sp.n = 0;
	sp.ns = 0;
	ask(p, &sp);
	if (!sp.ns)
		return false;
	gather(p, &sp);
	return sp.n && spin_for(p, &sp, left, ret);
}

/* --- sleeping ----------------------------------------------------------------- */

/* To sleep: count, arm, look once more. True: there is something after all. */
static bool arm(struct pollset *p, uint64_t *nap)
{
	bool found = false;
	nfds_t i;

	asleep_in(&in_poll, p, NULL);
	for (i = 0; i < p->nent; i++) {
		struct pollent *e = &p->ent[i];
		uint32_t w = want(&p->fds[e->at]);

		if (e->set) {
			epset_sleeps(e->set, 1);
			e->asleep = true;
			found = epset_arm(e->set, nap) || found;
			continue;
		}
		if (!e->sock)
			continue;
		if (!living(p, e)) {
			found = (!pollset_doze(p->in, &p->doze, &p->fds[e->at],
					       1) &&
				 living(p, e)) ||
				found;
			continue;
		}
		e->number = sock_sleep(e->sock);
		e->asleep = true;
		sock_arm(e->sock, (w & (EP_INS | POLLRDHUP)) != 0,
			 (w & e->ours & ~e->now & POLLOUT) != 0);
		look(p, e);
		found = found || (e->now & w);
		if (e->ms >= 0 && (uint64_t)e->ms * DL_MS < *nap)
			*nap = (uint64_t)e->ms * DL_MS;
		if (e->strikes > STRIKES && *nap > MUTED_NAP)
			*nap = MUTED_NAP;
	}
	return found;
}

/*
 * Out of the kernel: take wake-up bytes (still counted as a sleeper, so that
 * the last one takes them), count what woke us.
 */
static void woken(struct pollset *p)
{
	nfds_t i;

	for (i = 0; i < p->nent; i++) {
		struct pollent *e = &p->ent[i];
		bool rang = e->wake && p->kern[e->wake].revents;

		if (!e->sock)
			continue;
		if (rang)
			sock_rang(e->sock, true);
		if (rang || p->kern[e->at].revents)
			e->strikes++;
	}
	uncount_sleeper(p);
	/* what was not counted may be no more, or the number another's */
	for (i = 0; i < p->nent; i++) {
		struct pollent *e = &p->ent[i], now = entry_of(p, e->at);

		if (now.sock != e->sock || now.set != e->set)
			*e = now;
	}
}

int pollset_wait(struct pollset *p, uint64_t span)
{
	uint64_t left = span, end = DL_NEVER, nap;
	int spins = 0, ret;

	if (unlikely(p->n > LARGE) && too_many(p))
		return -EINVAL;
	if (span && span != DL_NEVER)
		end = dl_after(clock_ns(), span);
	for (;;) {
		if (look_all(p)) {
			if (!mixed(p))
				return answer(p, false);
			ret = at_once(p);
			if (ret)
				return ret;
		}
		if (end != DL_NEVER)
			left = dl_left(clock_ns(), end);
		if (left && !p->mask && spins++ < SPINS &&
		    spin(p, left, &ret)) {
			if (ret)
				return ret;
			continue;
		}
		if (left && p->kind == POLL_SELECT && !p->seen) {
			ret = at_once(p);
			if (ret)
				return ret;
		}
		nap = left;
		if (left && arm(p, &nap)) {
			uncount_sleeper(p);
			continue;
		}
		translate(p, left != 0);
		ret = kernel(p, nap, hold_mask(&p->hold, p->mask));
		hold_on(&p->hold);
		woken(p);
		if (ret < 0)
			return ret;
		if (dl_slept(ret, nap, left))
			left = 0;
		look_all(p);
		p->gone = p->seen;
		p->seen = true;
		ret = stale(p) ? at_once(p) : answer(p, true);
		if (ret || !left)
			return ret;
	}
}
