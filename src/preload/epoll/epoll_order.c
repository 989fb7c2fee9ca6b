/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The order of what a wait reports (D6).
 *
 * The kernel keeps a ready list: what becomes ready goes to its tail, what is
 * reported leaves it, and a level that was reported goes to the tail again.
 * Here a member has a place, the stamp `key`: when what it has to report was
 * sent, but not before it was added, reported or looked at in vain (`at`). All
 * hot members are looked at, what is ready is sorted by its place, and what
 * finds no room in the array stays listed and is first the next time, without
 * another look at all of them.
 *
 * A look at many members takes time. Of two messages of one writer it may miss
 * the first and find the second. So what was sent after the look began waits
 * for another one, which finds everything that was sent before.
 */
#include <string.h>

#include "base/stamp.h"
#include "preload/epoll/epready.h"

#define IDLE_MAX 64 /* looks in vain before a member becomes quiet */
#define AGAIN	 32 /* so many are looked at once more for what is new */

void epset_turn(struct epset *set)
{
	set->turn++;
	set->now = set->kern.began = stamp_now();
	set->kern.odd = 0;
	set->kern.round = set->kern.anew = false;
	set->kern.first = set->kern.was_kept = NULL;
	set->kern.end = &set->kern.first;
}

/* --- the ready list ------------------------------------------------------ */

void epready_append(struct epset *set, struct epreg *r)
{
	r->listed = true;
	set->nready++;
	r->rnext = NULL;
	r->rprev = set->ready_last;
	if (set->ready_last)
		set->ready_last->rnext = r;
	else
		set->ready = r;
	set->ready_last = r;
}

/* Where its place is now, which is further back. */
static void move(struct epset *set, struct epreg *r, uint64_t key)
{
	struct epreg *before;

	epreg_unlist(r);
	r->key = key;
	epready_append(set, r);
	for (before = r->rprev; before && later(before->key, key);
	     before = before->rprev)
		;
	if (before == r->rprev)
		return;
	/* not the last after all */
	set->ready_last = r->rprev;
	r->rprev->rnext = NULL;
	r->rprev = before;
	r->rnext = before ? before->rnext : set->ready;
	r->rnext->rprev = r;
	if (before)
		before->rnext = r;
	else
		set->ready = r;
}

/* Two sorted lists; of equals those of `a` are first. */
static struct epreg *merge(struct epreg *a, struct epreg *b)
{
	struct epreg *head, **to = &head;

	while (a && b) {
		struct epreg **from = later(a->key, b->key) ? &b : &a;

		*to = *from;
		to = &(*from)->rnext;
		*from = *to;
	}
	*to = a ? a : b;
	return head;
}

/* The first row of *list that is sorted already; *list is what is left. */
static struct epreg *run(struct epreg **list)
{
	struct epreg *head = *list, *last = head;

	while (last->rnext && !later(last->key, last->rnext->key))
		last = last->rnext;
	*list = last->rnext;
	last->rnext = NULL;
	return head;
}

/* Stable, and quick where little is out of order. */
void epready_sort(struct epset *set)
{
	struct epreg *left = set->ready, *part[32] = { NULL }, *r, *prev = NULL;
	int i;

	if (!left || !left->rnext)
		return;
	while (left) {
		r = run(&left);
		for (i = 0; part[i]; i++) {
			r = merge(part[i], r);
			part[i] = NULL;
		}
		part[i] = r;
	}
	for (r = NULL, i = 0; i < 32; i++)
		if (part[i])
			r = merge(part[i], r);
	set->ready = r;
	for (; r; r = r->rnext) {
		r->rprev = prev;
		prev = r;
	}
	set->ready_last = prev;
}

/* --- places ---------------------------------------------------------------- */

uint64_t epreg_came(const struct epreg *r, uint32_t bits)
{
	uint64_t at = r->since;

	if (!(bits & EP_INS))
		return 0;
	if (at && (r->mask & (uint32_t)EPOLLET) && !later(at, r->at))
		at = r->news; /* what was there before was reported */
	return (at ^ r->at) & STAMP_CLOCK ? 0 : at & ~STAMP_MIXED;
}

/* A level stays where it was put when it was reported. */
static uint64_t place(const struct epset *set, const struct epreg *r,
		      uint32_t bits)
{
	uint64_t at = epreg_came(r, bits);
	bool news = at && later(at, r->at);

	/* an edge that was modified, and had something unread */
	if (at && (r->mask & (uint32_t)EPOLLET) && later(r->modded, r->at) &&
	    !later(r->since, r->modded))
		return news && later(r->modded, at) ? at : r->modded;
	if (news)
		return at;
	if (r->stays)
		return r->at;
	return at ? r->at : set->now;
}

static void list(struct epset *set, struct epreg *r, uint32_t bits)
{
	r->bits |= bits;
	if (r->listed || r->pos < 0)
		return; /* its place is an earlier one */
	r->key = place(set, r, bits);
	epready_append(set, r);
}

void epready_put(struct epset *set, struct epoll_event *ev, int n,
		 struct epreg *r, uint32_t bits)
{
	epreg_unlist(r);
	r->turn = set->turn;
	r->pos = n;
	/* the next that is reported is behind this one */
	r->at = set->now + 2 * (uint64_t)(uint32_t)n;
	r->told = true;
	ev[n].events = bits;
	ev[n].data.u64 = r->data;
	epreg_told(r);
}

void epready_was(struct epreg *r)
{
	r->was = r->at;
	r->was_told = r->told;
	r->was_level = r->stays;
}

int epset_put(struct epset *set, struct epoll_event *ev, int n, struct epreg *r,
	      uint32_t bits)
{
	if (!bits)
		return n;
	if (r->turn == set->turn) {
		ev[r->pos].events |= bits;
		return n;
	}
	if (r->pos < 0) { /* taken: it has its place among those */
		r->bits |= bits;
		return n;
	}
	/* what the kernel has told it may not tell again */
	if (!(bits & ~ep_expand(r->ours)) || (r->inner && r->since)) {
		list(set, r, bits);
		return n;
	}
	epready_was(r);
	/* with what was found when its wake-up socket rang, in this turn */
	epready_put(set, ev, n, r, bits | r->bits);
	if (r->stays && !set->kern.level)
		set->kern.level = set->now;
	if (r->stays && !set->kern.mark_level)
		set->kern.mark_level = set->now;
	r->rnext = NULL;
	*set->kern.end = r;
	set->kern.end = &r->rnext;
	return n + 1;
}

void epset_odd(struct epset *set, int n)
{
	set->kern.odd = n + 1;
}

/* --- looking --------------------------------------------------------------- */

/* Long quiet: let the wake-up socket bring it back. */
static uint32_t retire(struct epreg *r)
{
	uint32_t bits;

	if (r->ms >= 0 || !r->sock || r->rearm)
		return 0;
	if (!r->watched) {
		epreg_watch(r, true);
		sock_arm(r->sock, true,
			 (ep_want(r->mask) & r->ours & EPOLLOUT) &&
				 !(r->edge.last & EPOLLOUT));
		bits = epreg_look(r, 0);
		if (bits)
			return bits;
	}
	epreg_cool(r);
	r->quiet = true;
	r->set->nquiet++;
	return 0;
}

static uint32_t look(struct epreg *r)
{
	uint32_t bits;

	if (r->still && (r->ours & EPOLLIN) &&
	    sock_quiet(r->sock, r->edge.in_gen)) {
		bits = 0;
		r->idle++;
	} else {
		bits = epreg_look(r, 0);
	}
	if (ep_unlikely(!bits && r->idle > IDLE_MAX && r->hot))
		bits = retire(r);
	return bits;
}

static void found(struct epset *set, struct epoll_event *ev, struct epreg *r,
		  uint32_t bits)
{
	if (ep_unlikely(r->turn == set->turn))
		ev[r->pos].events |= bits;
	else
		list(set, r, bits);
}

void epset_rung(struct epset *set, struct epoll_event *ev, struct epreg *r)
{
	uint32_t bits = r->listed || r->pos < 0 ? 0 : epreg_look(r, 0);

	if (bits)
		found(set, ev, r, bits);
}

/*
 * At all hot members but those on the list. False: something was sent after it
 * began, and what was sent before that may have been missed.
 */
static bool look_at_all(struct epset *set, struct epoll_event *ev)
{
	uint32_t left = set->nhot, bits;
	struct epreg *r, *next;
	bool all = true;

	set->looked = set->now = stamp_before();
	/* found by now, whatever the peer says */
	for (r = set->ready_last; r && later(r->key, set->now); r = r->rprev)
		r->key = set->now;
	for (r = set->hot; left; left--, r = next) {
		next = r->hnext;
		if (r->listed || r->pos < 0)
			continue;
		bits = look(r);
		if (!bits) {
			/* of what is the kernel's to say it tells nothing */
			if (!r->sock || (r->ours & EPOLLIN))
				r->at = set->looked;
			continue;
		}
		found(set, ev, r, bits);
		all = all && !(r->listed && later(r->key, set->looked));
	}
	epready_sort(set);
	return all;
}

/*
 * Does the list fill the array with what is older than all that is not on it?
 */
bool epready_enough(const struct epset *set, int room)
{
	return room <= 0 || (set->nready >= (uint32_t)room &&
			     !later(set->ready_last->key, set->looked));
}

void epready_find(struct epset *set, struct epoll_event *ev)
{
	if (ep_likely(look_at_all(set, ev)) || set->nready >= set->nhot)
		return;
	if (set->nhot <= AGAIN || later(set->ready->key, set->looked))
		look_at_all(set, ev);
}

/*
 * Left over from an earlier turn: is it still so? What was read and came anew
 * has another place.
 */
static uint32_t look_again(struct epset *set, struct epreg *r,
			   struct epreg **next)
{
	uint32_t bits = epreg_look(r, 0);

	uint64_t since = r->since & ~STAMP_MIXED;

	if ((bits & EP_INS) && since && epreg_came(r, EPOLLIN) == since &&
	    later(since, r->key)) {
		epreg_kept(r);
		move(set, r, since);
		if (r->rnext == *next)
			*next = r;
		return 0;
	}
	if (!bits)
		epreg_unlist(r);
	return bits;
}

/* Off the list and to **to, up to `room`; returns how many. */
int epready_take(struct epset *set, struct epreg ***to, int room)
{
	struct epreg *r, *next;
	uint32_t bits;
	int n = 0;

	for (r = set->ready; r && n < room; r = next) {
		next = r->rnext;
		if (later(r->key, set->looked))
			break;
		bits = r->bits ? r->bits : look_again(set, r, &next);
		if (!bits)
			continue;
		epreg_unlist(r);
		r->bits = bits;
		r->pos = -1; /* known by epset_collect() only */
		r->rnext = NULL;
		**to = r;
		*to = &r->rnext;
		n++;
	}
	return n;
}
