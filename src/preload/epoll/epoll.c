/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_create, epoll_ctl, and what sockets and descriptors tell the sets.
 */
#include <errno.h>

#include "base/mem.h"
#include "base/stamp.h"
#include "base/sys.h"
#include "preload/epoll/epoll.h"
#include "preload/epoll/epset.h"
#include "preload/fd/real.h"

static bool has_forked; /* others may hold our sets */

/* --- epoll_ctl ----------------------------------------------------------- */

/* One of the numbers is something else by now. */
#define CTL_AGAIN 1

struct ctl {
	int ep, op, fd;
	struct epoll_event *ev;
	struct sock *s;
	struct epset *set, *inner;
	struct epbucket *b;
};

static int ctl_real(const struct ctl *c)
{
	return neg_errno(real_epoll_ctl(c->ep, c->op, c->fd, c->ev));
}

/* The program's call with our word and (while narrowed) our mask. */
static int ctl_ours(const struct ctl *c, uint32_t mask, uint64_t word)
{
	struct epoll_event ev = { .events = mask, .data.u64 = word };

	return neg_errno(real_epoll_ctl(c->ep, c->op, c->fd, &ev));
}

/* `r` was added or modified: it shall be looked at if it is user space's. */
static void ctl_fresh(const struct ctl *c, struct epreg *r)
{
	r->edge.fresh = true;
	r->still = r->off = false;
	r->idle = 0;
	if (r->inner) {
		epreg_heat(r);
	} else if (r->sock && (r->ours || !sock_cold(r->sock))) {
		epreg_watch(r, false);
		epreg_heat(r);
		if (epset_asleep(r->set) && !epreg_kick(c->b, r))
			epreg_widen(r);
	}
}

/* Add; also a MOD of a member whose registration we never saw. */
static int ctl_add(struct ctl *c)
{
	bool bare = !c->set->wanted && (!c->s || sock_cold(c->s));
	struct epreg *r, *old;
	int ret;

	r = epreg_new(c->set, c->s, c->fd);
	if (!r || !epbucket_take(c->b)) {
		if (r)
			epreg_free(r, false);
		if (c->s) /* cannot be served: must stay the kernel's */
			sock_fallback_begin(c->s, c->fd, WHY_NO_MEMORY);
		return ctl_real(c);
	}
	/* closed meanwhile: the closing thread takes the bucket behind us */
	if (c->s && !fdt_has(c->fd, c->s)) {
		epbucket_drop(c->b);
		epreg_free(r, false);
		return CTL_AGAIN;
	}
	r->inner = c->inner;
	r->data = c->ev->data.u64;
	r->mask = r->kmask = c->ev->events;
	ret = bare ? ctl_real(c) : ctl_ours(c, r->mask, epreg_word(r));
	if (ret < 0) {
		epbucket_drop(c->b);
		epreg_free(r, false);
		return ret;
	}
	if (bare)
		epreg_bare(r);
	else if (c->inner)
		epset_wanted(c->inner);
	/* the kernel has forgotten what we still believed in */
	old = epreg_find(c->b, c->set, c->s, c->fd);
	epreg_link(c->b, r);
	epreg_wake(c->b, r);
	ctl_fresh(c, r);
	epbucket_drop(c->b);
	if (old)
		epreg_free(old, true);
	return 0;
}

static int ctl_mod(struct ctl *c, struct epreg *r)
{
	uint32_t mask = c->ev->events, k = ep_kmask(mask, r->ours);
	uint32_t anchors = ep_want(mask) & ~ep_expand(r->ours);
	bool asked = !r->off && !(mask & ~r->mask & EP_INS);
	int ret;

	if ((mask | r->mask) & (uint32_t)EPOLLEXCLUSIVE)
		return -EINVAL;
	if (r->bare) {
		ret = ctl_real(c);
		if (ret < 0)
			return ret;
		r->mask = r->kmask = mask;
		r->data = c->ev->data.u64;
		return 0;
	}
	/* the entry is right, and everything is decided in user space? */
	if (!r->ours || k != r->kmask || r->spent ||
	    (anchors & (EP_INS | EP_OUTS))) {
		r->mod++;
		ret = ctl_ours(c, k, epreg_word(r));
		if (ret < 0) {
			r->mod--;
			return ret;
		}
		if (r->rearm)
			r->set->nrearm--;
		r->rearm = r->spent = false;
	}
	r->mask = mask;
	r->kmask = k;
	r->data = c->ev->data.u64;
	if (r->set->kern.kept == r) /* the kernel tells it again */
		r->set->kern.kept = NULL;
	/* what is on the kernel's list already keeps its place there */
	if (!r->edge.fresh)
		r->modded = stamp_now();
	if (!asked)
		epreg_anew(r);
	ctl_fresh(c, r);
	return 0;
}

/* Deleted while user space decides: see epset.h. Bucket lock held. */
static bool ctl_deleted(const struct ctl *c, struct epreg *r)
{
	if (!r->ours || !(r->kmask & (uint32_t)EPOLLET) || c->set->inherited ||
	    (r->mask & (uint32_t)EPOLLEXCLUSIVE) || r->fd < 0)
		return false;
	epreg_cool(r);
	epreg_watch(r, false);
	if (r->set->kern.kept == r)
		r->set->kern.kept = NULL;
	if (r->rearm)
		r->set->nrearm--;
	r->rearm = r->stays = false;
	r->deleted = true;
	return true;
}

/* Added again: true, or the kernel does not have it any more. */
static bool ctl_revive(struct ctl *c, struct epreg *r)
{
	bool ok = false;

	r->off = true; /* whatever it was; it is added */
	if (!(c->ev->events & (uint32_t)EPOLLEXCLUSIVE) && r->ours)
		ok = ctl_mod(c, r) == 0;
	r->deleted = false;
	epbucket_drop(c->b);
	if (!ok)
		epreg_bury(r);
	return ok;
}

/* With the set's lock. */
static int ctl_locked(struct ctl *c)
{
	struct epreg *r;
	int ret;

	c->b = epbucket_of(c->s, c->fd);
	epset_inbox(c->set);
	if (!epbucket_take(c->b))
		return ctl_real(c);
	r = epreg_find(c->b, c->set, c->s, c->fd);
	if (c->op == EPOLL_CTL_ADD) {
		if (r && r->deleted)
			return ctl_revive(c, r) ? 0 : ctl_add(c);
		epbucket_drop(c->b);
		return ctl_add(c);
	}
	if (r && r->deleted) {
		epbucket_drop(c->b);
		return -ENOENT;
	}
	if (r && c->op == EPOLL_CTL_DEL && ctl_deleted(c, r)) {
		epbucket_drop(c->b);
		return 0;
	}
	if (r && c->op == EPOLL_CTL_MOD) {
		ret = ctl_mod(c, r);
		epbucket_drop(c->b);
		return ret;
	}
	epbucket_drop(c->b);
	if (c->op == EPOLL_CTL_MOD && c->s && !sock_listening(c->s))
		return ctl_add(c);
	ret = ctl_real(c);
	if (r && ret == 0 && c->op == EPOLL_CTL_DEL)
		epreg_free(r, true);
	return ret;
}

/*
 * A set shared with the parent process: members are brought back to TCP and
 * stay so, what is registered from now on has the program's own words.
 */
static int ctl_inherited(struct ctl *c)
{
	struct epreg *r = NULL;
	int ret;

	if (!c->set->settled)
		epset_settle(c->set, false);
	if (c->s && c->op == EPOLL_CTL_ADD && !sock_listening(c->s))
		sock_fallback(c->s, c->fd, WHY_FD_SHARED);
	if (!epset_take(c->set))
		return ctl_real(c);
	ret = ctl_real(c);
	c->b = epbucket_of(c->s, c->fd);
	if (ret == 0 && epbucket_take(c->b)) {
		r = epreg_find(c->b, c->set, c->s, c->fd);
		epbucket_drop(c->b);
	}
	if (r)
		epreg_free(r, false);
	epset_release(c->set);
	return ret;
}

/* Must this call be looked at? */
static bool ctl_concerns(struct ctl *c)
{
	bool add = c->op == EPOLL_CTL_ADD;

	if (!c->ev && c->op != EPOLL_CTL_DEL)
		return false;
	if (c->set && c->set->inherited)
		return true;
	if (c->s && sock_listening(c->s) && add)
		c->s = NULL;
	if (!c->s && add && c->fd != c->ep && ep_is_set(c->fd))
		c->inner = epset_get(c->fd);
	if (!add)
		return c->set && (c->s || ep_nodd);
	return c->s || c->inner || ep_is_word(c->ev->data.u64);
}

static int ctl_once(int ep, int op, int fd, struct epoll_event *ev)
{
	struct ctl c = { ep, op, fd, ev, NULL, NULL, NULL, NULL };
	bool made;
	int ret;
	GUARDED(in);
	ENTER(e, fd);

	c.s = e.sock;
	c.set = fdt_set(&in, ep);
	if ((ev && !mem_good(ev, sizeof(*ev), false)) || !ctl_concerns(&c))
		return ctl_real(&c);
	if (c.set && c.set->inherited)
		return ctl_inherited(&c);
	made = !c.set;
	if (made)
		c.set = epset_get(ep);
	if (!c.set || !epset_take(c.set)) {
		ret = ctl_real(&c);
		if (c.s && !ret) /* there is such a set, and none of ours */
			sock_fallback(c.s, fd, WHY_NO_MEMORY);
		return ret;
	}
	/* the number was the set's until just now */
	ret = c.set->life & 1 ? ctl_locked(&c) : CTL_AGAIN;
	made = made && ret < 0 && !c.set->all;
	epset_release(c.set);
	if (made && fdt_take_set(ep) == c.set)
		epset_drop(c.set); /* perhaps it is no set at all */
	return ret;
}

int do_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
	int ret;

	if (ep_likely(!fdt_has_sock(fd) && !fdt_has_set(ep) &&
		      !epbits_get(EP_SET, fd)))
		return neg_errno(real_epoll_ctl(ep, op, fd, ev));
	if (op == EPOLL_CTL_DEL)
		ev = NULL; /* is not looked at */
	do
		ret = ctl_once(ep, op, fd, ev);
	while (ret == CTL_AGAIN);
	return ret;
}

/* --- hooks of the socket room -------------------------------------------- */

/*
 * Tells the sets of `s`. Those whose sleepers have nothing but the anchor to
 * hear are left in `late`, the first `skip` of them left out: their locks are
 * taken without the bucket's, which epreg_bury() takes.
 */
#define LATE 8

static uint32_t hook_pass(struct sock *s, bool changed, struct epset **late,
			  uint32_t skip)
{
	struct epbucket *b = epbucket_of(s, -1);
	struct epset *set;
	struct epreg *r;
	uint32_t n = 0;

	if (!epbucket_take(b))
		return 0;
	for (r = b->first; r && n < LATE; r = r->bnext) {
		set = r->set;
		if (r->sock != s || set->inherited)
			continue;
		if (changed)
			epreg_wake(b, r);
		if (r->deleted && !changed)
			continue;
		if (lock_mine(&set->lock) && s == ep_looking)
			continue; /* it is being looked at */
		epreg_post(r);
		if (!epset_asleep(set))
			continue;
		epreg_kick(b, r);
		if (r->wake < 0 && !skip)
			late[n++] = set;
		else if (r->wake < 0)
			skip--;
	}
	epbucket_drop(b);
	return n;
}

static void hook(struct sock *s, bool changed)
{
	struct epset *late[LATE];
	uint32_t i, n, seen = 0;

	if (!__atomic_load_n(&ep_nregs, __ATOMIC_RELAXED))
		return;
	do {
		n = hook_pass(s, changed, late, seen);
		for (i = 0; i < n; i++)
			if (lock_try(&late[i]->lock) == 0)
				epset_release(late[i]);
		seen += n;
	} while (n == LATE);
}

void ep_changed(struct sock *s)
{
	hook(s, true);
}

void ep_risen(struct sock *s)
{
	hook(s, false);
}

/* --- descriptors ----------------------------------------------------------- */

void ep_dup(int from, int to)
{
	struct epset *set;

	if (!ep_is_set(from))
		return;
	set = epset_get(from);
	epbits_set(EP_SET, to, true);
	if (!set)
		return;
	__atomic_add_fetch(&set->numbers, 1, __ATOMIC_RELAXED);
	if (fdt_put_set(to, set))
		__atomic_sub_fetch(&set->numbers, 1, __ATOMIC_RELAXED);
}

/* A number of a set goes. */
static void closing_set(int fd)
{
	struct epset *set = fdt_take_set(fd);
	int i, top;

	if (!set)
		return;
	if (__atomic_sub_fetch(&set->numbers, 1, __ATOMIC_RELAXED) == 0) {
		epset_drop(set);
		return;
	}
	if (set->fd != fd)
		return;
	for (i = 0, top = fdt_top(); i <= top; i++)
		if (fdt_is_set(i, set)) {
			__atomic_store_n(&set->fd, i, __ATOMIC_RELAXED);
			return;
		}
}

/*
 * The first registration of the bucket that goes with a number; it is doomed
 * and left to the set's holder. `shared`: the kernel's entry lives on with the
 * open file, which another process has: it gets the program's word back.
 */
static struct epset *doom(struct epbucket *b, const struct sock *s, int fd,
			  bool all, bool shared)
{
	struct epset *set = NULL;
	struct epreg *r;

	if (!epbucket_take(b))
		return NULL;
	for (r = b->first; r; r = r->bnext)
		if (r->sock == s && (all || r->fd == fd))
			break;
	if (r) {
		set = r->set;
		if (shared && !set->inherited && r->fd >= 0)
			epreg_hand_back(r);
		r->doomed = true;
		epreg_dress(r);
		epreg_unlink(b, r);
		epreg_unwake(b, r);
		epreg_post(r);
	}
	epbucket_drop(b);
	return set;
}

/* All registrations of a sock, or of a number without one, die. */
static void closing_all(struct sock *s, int fd)
{
	struct epbucket *b = epbucket_of(s, fd);
	bool shared = s ? sock_shared(s) : has_forked;
	struct epset *set;

	while ((set = doom(b, s, fd, s != NULL, shared))) {
		if (epset_take(set))
			epset_release(set); /* frees it */
		epset_shoo(set);
	}
}

/*
 * The number a registration was made with goes, but the sock stays open by
 * another: the kernel keeps the entry and it cannot be modified any more.
 * So it must be whole, and the sock the kernel's.
 */
static void closing_one(struct sock *s, int fd)
{
	struct epbucket *b = epbucket_of(s, fd);
	struct epset *set = NULL;
	struct epreg *r;
	bool fell_back = false;

	for (;;) {
		if (!epbucket_take(b))
			return;
		for (r = b->first; r; r = r->bnext)
			if (r->sock == s && r->fd == fd)
				break;
		set = r ? r->set : NULL;
		epbucket_drop(b);
		if (!set)
			return;
		if (!fell_back)
			sock_fallback(s, fd, WHY_BYPASSED);
		fell_back = true;
		if (!epset_take(set))
			return;
		for (r = set->all; r; r = r->anext)
			if (r->sock == s && r->fd == fd) {
				bool narrow = r->ours != 0;

				r->ours = 0;
				if (narrow && !set->inherited)
					epreg_tell(r, true);
				r->fd = -1;
			}
		epset_release(set);
	}
}

void ep_fd_closing(int fd, struct sock *s, bool last_number)
{
	if (fdt_has_set(fd))
		closing_set(fd);
	epbits_set(EP_SET, fd, false);
	if (!__atomic_load_n(&ep_nregs, __ATOMIC_RELAXED))
		return;
	if (s && last_number)
		closing_all(s, fd);
	else if (s)
		closing_one(s, fd);
	else if (__atomic_load_n(&ep_nodd, __ATOMIC_RELAXED))
		closing_all(NULL, fd);
}

void ep_forget(int fd, struct sock *s)
{
	struct epbucket *b = epbucket_of(s, fd);
	struct epset *set = NULL;
	struct epreg *r;

	if (!__atomic_load_n(&ep_nregs, __ATOMIC_RELAXED))
		return;
	do {
		if (!epbucket_take(b))
			return;
		for (r = b->first; r && r->sock != s; r = r->bnext)
			;
		set = r ? r->set : NULL;
		epbucket_drop(b);
		if (set && epset_take(set)) {
			epset_hand_back(set, s);
			epset_release(set);
			epset_shoo(set);
		}
	} while (set);
}

void ep_give_away(int fd)
{
	struct epset *set;
	GUARDED(in);

	set = fdt_set(&in, fd);
	if (set && !set->inherited)
		epset_settle(set, true);
}

void ep_parent_forked(void)
{
	__atomic_store_n(&has_forked, true, __ATOMIC_RELAXED);
}
