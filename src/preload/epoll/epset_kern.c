/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>

#include "base/sys.h"
#include "preload/epoll/epset.h"

static int ctl(const struct epset *set, int op, int fd, uint32_t mask,
	       uint64_t word)
{
	struct epoll_event ev = { .events = mask, .data.u64 = word };

	return sys_epoll_ctl(__atomic_load_n(&set->fd, __ATOMIC_RELAXED), op,
			     fd, &ev);
}

/*
 * Every MOD gives the entry a new word: what was harvested before it is then
 * recognised as old, and need not be believed, because MOD makes the kernel
 * report again whatever is true. (Not in a forked child: its parent reads the
 * words too.) EPOLLEXCLUSIVE entries cannot be modified.
 */
void epreg_tell(struct epreg *r, bool again)
{
	uint32_t k = ep_kmask(r->mask, r->ours), was = r->kmask;

	if (r->rearm) {
		/* its edge is used up, whatever else made us come here */
		again = true;
		r->rearm = false;
		r->set->nrearm--;
	}
	if (k == was && !again)
		return;
	if (r->fd < 0 || !fdt_is(r->fd, r->sock))
		return;
	if (!r->set->inherited)
		r->mod++;
	r->kmask = k;
	r->spent = false;
	if ((k | was) & (uint32_t)EPOLLEXCLUSIVE) {
		ctl(r->set, EPOLL_CTL_DEL, r->fd, 0, 0);
		ctl(r->set, EPOLL_CTL_ADD, r->fd, k, epreg_word(r));
	} else if (ctl(r->set, EPOLL_CTL_MOD, r->fd, k, epreg_word(r)) ==
		   -ENOENT) {
		/* the number has become a stand-in, another open file */
		ctl(r->set, EPOLL_CTL_ADD, r->fd, k, epreg_word(r));
	}
}

void epreg_follow(struct epreg *r)
{
	if (ep_likely(!r->sock || r->followed || r->off ||
		      !sock_substituted(r->sock)))
		return;
	r->followed = true;
	epreg_tell(r, true);
}

void epreg_bare(struct epreg *r)
{
	r->bare = true;
	if (r->sock)
		sock_unwaited(r->sock, 1);
}

void epreg_dress(struct epreg *r)
{
	if (__atomic_exchange_n(&r->bare, false, __ATOMIC_ACQ_REL) && r->sock)
		sock_unwaited(r->sock, -1);
}

void epset_want(struct epset *set)
{
	struct epreg *r;

	if (!epset_take(set))
		return;
	set->wanted = true;
	for (r = set->all; r; r = r->anext) {
		if (!r->bare || r->doomed)
			continue;
		epreg_tell(r, true);
		epreg_dress(r);
		if (r->inner)
			epset_wanted(r->inner);
	}
	epset_release(set);
}

/* The registration of the same sock in the same set with the wake-up entry */
static struct epreg *owner(struct epbucket *b, const struct epreg *r)
{
	struct epreg *o;

	for (o = b->first; o; o = o->bnext)
		if (o->sock == r->sock && o->set == r->set && o->wake >= 0)
			return o;
	return NULL;
}

void epreg_wake(struct epbucket *b, struct epreg *r)
{
	int fd = r->sock ? sock_wake_fd(r->sock) : -1;
	uint32_t mask = EPOLLIN | (uint32_t)EPOLLET;

	if (fd == r->wake)
		return;
	/* hung up, it still brings a sleeper out, which then drops it */
	if (fd < 0 && !r->doomed && epset_asleep(r->set))
		return;
	if (r->wake >= 0) {
		ctl(r->set, EPOLL_CTL_DEL, r->wake, 0, 0);
		r->wake = -1;
	}
	/* two numbers of one sock: one entry serves both */
	if (fd < 0 || r->doomed || r->set->inherited || owner(b, r))
		return;
	if (ctl(r->set, EPOLL_CTL_ADD, fd, mask, epreg_wake_word(r)) == 0 ||
	    ctl(r->set, EPOLL_CTL_MOD, fd, mask, epreg_wake_word(r)) == 0)
		r->wake = fd;
}

void epreg_unwake(struct epbucket *b, struct epreg *r)
{
	struct epreg *o;

	if (r->wake < 0)
		return;
	if (!r->set->inherited)
		ctl(r->set, EPOLL_CTL_DEL, r->wake, 0, 0);
	r->wake = -1;
	for (o = b->first; o; o = o->bnext)
		if (o != r && o->sock == r->sock && o->set == r->set) {
			epreg_wake(b, o);
			return;
		}
}

void epreg_bury(struct epreg *r)
{
	if (r->fd >= 0 && !r->set->inherited && fdt_is(r->fd, r->sock))
		ctl(r->set, EPOLL_CTL_DEL, r->fd, 0, 0);
	epreg_free(r, true);
}

/* The wake-up socket is always writable, or its peer has much to read. */
bool epreg_kick(struct epbucket *b, struct epreg *r)
{
	struct epreg *o = owner(b, r);

	if (!o)
		return false;
	o->kicked = true;
	ctl(o->set, EPOLL_CTL_MOD, o->wake,
	    EPOLLIN | EPOLLOUT | (uint32_t)EPOLLET, epreg_wake_word(o));
	return true;
}

void epreg_unkick(struct epreg *r)
{
	r->kicked = false;
	if (r->wake >= 0)
		ctl(r->set, EPOLL_CTL_MOD, r->wake, EPOLLIN | (uint32_t)EPOLLET,
		    epreg_wake_word(r));
}

/* --- leaving ------------------------------------------------------------ */

/*
 * Take the next member that was not brought back to TCP yet. They are counted
 * off by ms = -2, which no look ever leaves behind.
 */
static struct sock *next_lifted(struct epset *set, int *fd)
{
	struct sock *s = NULL;
	struct epreg *r;

	if (!epset_take(set))
		return NULL;
	for (r = set->all; r; r = r->anext)
		if (r->sock && r->ms != -2) {
			r->ms = -2;
			if (r->fd < 0 || !fdt_is(r->fd, r->sock))
				continue;
			s = r->sock;
			*fd = r->fd;
			break;
		}
	epset_release(set);
	return s;
}

void epreg_hand_back(const struct epreg *r)
{
	uint32_t mask = r->off ? EPOLLONESHOT | (uint32_t)EPOLLET : r->mask;

	if (r->deleted) {
		ctl(r->set, EPOLL_CTL_DEL, r->fd, 0, 0);
	} else if ((mask | r->kmask) & (uint32_t)EPOLLEXCLUSIVE) {
		ctl(r->set, EPOLL_CTL_DEL, r->fd, 0, 0);
		ctl(r->set, EPOLL_CTL_ADD, r->fd, mask, r->data);
	} else {
		ctl(r->set, EPOLL_CTL_MOD, r->fd, mask, r->data);
	}
}

void epset_hand_back(struct epset *set, const struct sock *only)
{
	struct epreg *r, *next;

	for (r = set->all; r; r = next) {
		next = r->anext;
		if (only && r->sock != only)
			continue;
		if (r->deleted) {
			epreg_bury(r);
			continue;
		}
		if (r->fd < 0 || set->inherited ||
		    (r->sock && !fdt_is(r->fd, r->sock))) {
			epreg_free(r, true);
			continue;
		}
		epreg_hand_back(r);
		epreg_free(r, true);
	}
}

/*
 * `give_away`: foreign code will wait on the set, the entries get the
 * program's words back. Else this process, a forked child, shares it with its
 * parent, whose table must stay true: words are translated by our copy.
 */
void epset_settle(struct epset *set, bool give_away)
{
	uint64_t until = sock_fallback_limit();
	struct sock *s;
	struct epreg *r;
	int fd;

	while ((s = next_lifted(set, &fd)))
		sock_fallback_begin(s, fd, WHY_FD_SHARED);
	if (!epset_take(set))
		return;
	for (r = set->all; r; r = r->anext)
		r->ms = -1;
	epset_release(set);
	while ((s = next_lifted(set, &fd)))
		sock_fallback_until(s, fd, WHY_FD_SHARED, until);
	if (!epset_take(set))
		return;
	if (give_away) {
		epset_hand_back(set, NULL);
	} else {
		for (r = set->all; r; r = r->anext) {
			bool narrow = r->ours != 0;

			if (r->deleted) /* the parent may revive it */
				continue;
			r->ms = -1;
			r->ours = 0;
			if (narrow && !r->off)
				epreg_tell(r, true);
		}
		set->settled = true;
	}
	epset_release(set);
}
