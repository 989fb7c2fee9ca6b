/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lifted members and the kernel's, in one order (D6).
 *
 * When a member of the kernel's became ready is not known. Known is: it was
 * not before the last look that was whole, or it is a level that was reported
 * since and may have been on the list ever since. And a message has along what
 * its writer's process had sent through the kernel before it, and from which
 * ports (stamp.h). So a lifted member is put behind the kernel's events that it
 * has to follow, and in front of all others: what one writer did keeps its
 * order, whatever it did it by.
 */
#include <string.h>

#include "base/stamp.h"
#include "preload/epoll/epready.h"

#define SPAN   16 /* events until another one is marked, at first */
#define OTHERS 4 /* events for nothing that end no asking, but rings */

static bool log_of(const struct epreg *r, struct stamp_log *log)
{
	return ep_unlikely((r->since | r->news) & STAMP_MIXED) && r->sock &&
	       sock_sends(r->sock, log);
}

/* Did the writer send anything through the kernel at `from` or later? */
static bool sent_since(const struct epreg *r, uint64_t from)
{
	struct stamp_log log;
	int i;

	if (ep_likely(!log_of(r, &log)))
		return false;
	for (i = 0; i < STAMP_LOG; i++)
		if (stamp_log_within(log.entry[i], from, r->key))
			return true;
	return false;
}

/*
 * The kernel has told `k` in this turn. In front of `r` is what was sent to it
 * before `r` was, and was neither reported nor read since; and a level that was
 * reported before `r` was sent and may have been on the list since.
 */
static bool behind(const struct epset *set, const struct epreg *r,
		   const struct epreg *k, const struct stamp_log *log)
{
	uint64_t from = set->kern.whole, read;
	uint16_t port;
	int i;

	if (k == set->kern.was_kept && later(r->key, set->kern.kept_at))
		return true;
	if (k->was_level && !later(set->kern.passed_by, k->was))
		return later(r->key, k->was);
	/* what it had when it was added counts from then on */
	if (!k->was_told && later(k->was, r->key))
		return false;
	if (!log || !k->sock)
		return false;
	port = sock_peer_port(k->sock, k->fd, &read);
	if (k->was_told && later(k->was, from))
		from = k->was;
	else if (later(k->was, from))
		from = k->was - STAMP_LATELY;
	if (read && later(read, from))
		from = read;
	for (i = 0; port && i < STAMP_LOG; i++)
		if (stamp_log_port(log->entry[i]) == port &&
		    stamp_log_within(log->entry[i], from, r->key))
			return true;
	return false;
}

/*
 * A level that was reported in a later turn than `turn`, of a look at the
 * kernel's list: what is on that list may have been there before.
 */
static bool since(const struct epreg *r, uint32_t turn)
{
	return r->stays && !later(r->key, r->at) &&
	       (int32_t)(r->turn - turn) > 0;
}

/* Behind how many of the kernel's events `r` comes, `old` of the first look. */
static int behind_all(const struct epset *set, const struct epreg *r, int n,
		      int old)
{
	struct stamp_log log;
	bool logged = log_of(r, &log);
	const struct epreg *k;
	int at = 0, i;

	if (since(r, set->kern.whole_turn))
		return n;
	if (later(r->key, set->kern.began))
		at = old;
	for (k = set->kern.first; k; k = k->rnext)
		if (k->pos >= at && behind(set, r, k, logged ? &log : NULL))
			at = k->pos + 1;
	for (i = 0; logged && i < STAMP_LOG && at < set->kern.odd; i++)
		if (!stamp_log_port(log.entry[i]) &&
		    stamp_log_within(log.entry[i], set->kern.whole, r->key))
			at = set->kern.odd; /* a connection: a listener's */
	return at;
}

/* Nothing that the kernel has can come before it. */
static bool certain(const struct epset *set, const struct epreg *r)
{
	const struct epkern *k = &set->kern;

	/* a level that was reported has its turn when the kernel had one */
	if (r->stays && !later(r->key, r->at))
		return !since(r, k->turn);
	return !(k->passed && later(r->key, k->passed)) &&
	       !(k->added && later(r->key, k->added)) &&
	       !(set->nquiet && later(r->key, k->look)) &&
	       !(k->kept && later(r->key, k->kept_at)) &&
	       !(k->level && later(r->key, k->level)) &&
	       !sent_since(r, k->whole);
}

/* Must the kernel be looked at first? */
static bool to_ask(const struct epset *set, const struct epreg *r,
		   const struct epask *ask)
{
	if (ask->rest)
		return !certain(set, r);
	return sent_since(r, ask->began ? ask->began : set->kern.look);
}

/* What stays on the list was looked at, and is found again. */
static void keep_rest(struct epset *set)
{
	struct epreg *r;

	for (r = set->ready; ep_unlikely(r != NULL); r = r->rnext)
		if (r->bits) {
			r->bits = 0;
			epreg_kept(r);
		}
}

/* `r` and those behind it, which were taken, are on the list again. */
static void give_back(struct epset *set, struct epreg *r)
{
	struct epreg *next;

	for (; r; r = next) {
		next = r->rnext;
		r->pos = 0;
		r->bits = 0;
		epreg_kept(r);
		epready_append(set, r);
	}
	epready_sort(set);
}

static void cut(struct epset *set, struct epreg **from)
{
	struct epreg *r = *from;

	*from = NULL;
	give_back(set, r);
}

static struct epreg **last_of(struct epreg **taken)
{
	while ((*taken)->rnext)
		taken = &(*taken)->rnext;
	return taken;
}

/*
 * The member of whose anchor `e` tells, if it is the kernel's alone; or NULL.
 */
static struct epreg *cold_one(struct epset *set, const struct epoll_event *e)
{
	struct epreg *k;

	if (!ep_is_word(e->data.u64) || (e->data.u64 & EP_WAKE))
		return NULL;
	k = epreg_of(set, e->data.u64);
	if (!k || k->deleted || k->ours || !k->sock ||
	    !ep_word_modded(e->data.u64, k->mod))
		return NULL;
	if (k->turn != set->turn)
		epready_was(k);
	return k;
}

static bool last_behind(const struct epset *set, const struct epreg *last,
			const struct epreg *k)
{
	struct stamp_log log;

	return since(last, set->kern.turn) ||
	       behind(set, last, k, log_of(last, &log) ? &log : NULL);
}

static void keep(struct epset *set, struct epreg *k, uint32_t events)
{
	if (k != set->kern.was_kept)
		set->kern.kept_at = set->now;
	set->kern.kept = k;
	set->kern.kept_events = events;
}

/* The last of the kernel's that is there comes behind all that were taken? */
static bool settled_by_last(const struct epset *set, struct epreg **taken)
{
	const struct epreg *k = set->kern.first;

	while (k && k->rnext)
		k = k->rnext;
	return !*taken || (k && !last_behind(set, *last_of(taken), k));
}

/*
 * What was rung for just now may come in between. Returns how many there are.
 */
static int take_anew(struct epset *set, struct epreg **taken, int room)
{
	struct epreg **to = taken, *r = *taken;
	int m;

	*taken = NULL;
	give_back(set, r);
	m = epready_take(set, &to, room);
	keep_rest(set);
	return m;
}

/*
 * Behind an event that is nothing for the program a quiet member may have rung.
 * A ring is used up by being told, one for each member; what is asked for anew
 * may be told for ever.
 */
static bool go_on(const struct epoll_event *e, uint32_t *rings,
		  uint32_t *others)
{
	uint32_t *left = others;

	if (ep_is_word(e->data.u64) && e->data.u64 & EP_WAKE)
		left = rings;
	return *left && (*left)--;
}

/*
 * There is no room beside the `m` that were taken, and one may have to come
 * behind something of the kernel's. So its events are taken one by one, each in
 * place of the last that is behind it. One that comes behind them all is kept
 * for the next turn. Returns how many of the kernel's there are.
 */
static int ask_for_each(struct epset *set, int n, int max, int m,
			struct epreg **taken, struct epask *ask)
{
	uint32_t rings = set->nhot + set->nquiet, others = OTHERS, listed;
	struct epoll_event e;
	struct epreg *k;
	int was;

	while (n < max && !set->kern.odd && !settled_by_last(set, taken) &&
	       ask->one(ask, &e)) {
		k = cold_one(set, &e);
		if (k && k->turn == set->turn)
			break; /* a level again: that was the whole list */
		if (k && !last_behind(set, *last_of(taken), k)) {
			keep(set, k, e.events);
			break;
		}
		was = n;
		listed = set->nready;
		n = ask->put(ask, n, &e);
		if (set->nready > listed)
			m = take_anew(set, taken, max - n);
		else if (n == was && !go_on(&e, &rings, &others))
			break; /* nothing for the program; it may come again */
		if (n > was && n + m > max) {
			cut(set, last_of(taken));
			m--;
		}
	}
	return n;
}

/*
 * Looks at the kernel's list if that has to be. A second look in one turn may
 * find a level again, which shows only where that is a member. Returns the n
 * that is then.
 */
static int consult(struct epset *set, int n, int max, int m,
		   struct epreg **taken, struct epask *ask)
{
	bool left = ask->rest || !ask->whole, twice = set->kern.odd;
	int room = max - n - m;
	struct epreg **r = taken;

	if (left && room > 0 && !twice) {
		uint32_t listed = set->nready;

		n = ask->more(ask, n, room);
		if (set->nready > listed) {
			m = take_anew(set, taken, max - n);
			r = taken;
		}
		if (ask->whole || !m)
			return n;
		twice = set->kern.odd;
		room = max - n - m;
	}
	while (*r && !set->kern.anew && !to_ask(set, *r, ask))
		r = &(*r)->rnext;
	if (!*r)
		return n;
	if (room > 0 && !twice)
		return ask->more(ask, n, room);
	/* a level that is no member's would be told twice: by what is known */
	return twice ? n : ask_for_each(set, n, max, m, taken, ask);
}

static void mark(struct epset *set, uint64_t word, uint64_t began)
{
	struct epkern *k = &set->kern;

	/* longer each time: the old one may never come again */
	k->mark_span = k->mark ? 2 * k->mark_span : SPAN;
	k->mark_left = k->mark_span;
	k->mark = began;
	k->mark_word = word;
	k->mark_turn = set->turn;
	k->mark_level = k->mark_added = 0;
}

bool epset_saw(struct epset *set, const struct epoll_event *ev, int got,
	       int room, uint64_t began)
{
	struct epkern *k = &set->kern;
	int i;

	if (ep_likely(got < room))
		return true;
	for (i = 0; i < got && !k->round; i++) {
		uint64_t word = ev[i].data.u64;

		if (ep_is_word(word))
			word = ep_word_entry(word);
		/* in one look only what has the same word comes twice */
		if (k->mark && k->mark != began && k->mark_word == word)
			k->round = true;
		else if (!k->mark || !k->mark_left--)
			mark(set, word, began);
	}
	return false;
}

/* What was there at the mark has been told: as after a whole look then. */
static void went_round(struct epkern *k)
{
	k->look = k->whole = k->mark;
	if (later(k->mark, k->passed_by))
		k->passed_by = k->mark;
	k->whole_turn = k->mark_turn;
	k->level = k->mark_level;
	k->added = k->mark_added;
	k->mark = 0;
}

/* What the next turns know of the kernel's list. */
static void remember(struct epset *set, const struct epask *ask)
{
	struct epkern *k = &set->kern;
	struct epreg *r;

	if (!ask->began) {
		if (!k->passed)
			k->passed = set->now;
		return;
	}
	for (r = k->first; r; r = r->rnext)
		if (!r->was_level || later(k->passed_by, r->was))
			k->passed_by = ask->began;
	k->passed = 0;
	k->turn = set->turn;
	if (!ask->whole) {
		/* a quiet member may have rung further back */
		if (k->round)
			went_round(k);
		return;
	}
	k->look = k->whole = k->passed_by = ask->began;
	k->whole_turn = set->turn;
	k->level = k->added = k->mark = 0;
	for (r = k->first; r && !k->level; r = r->rnext)
		if (r->stays)
			k->level = r->at;
}

/* The kernel's make room for `m`, which come in front of what `pos` says. */
static void move_on(struct epset *set, struct epoll_event *ev, int n,
		    const struct epreg *taken, int m)
{
	struct epreg *k;
	int before = 0;

	if (m)
		memmove(ev + m, ev, (size_t)n * sizeof(*ev));
	for (k = set->kern.first; k; k = k->rnext) {
		for (; taken && taken->pos <= k->pos; taken = taken->rnext)
			before++;
		k->at = set->now + 2 * (uint64_t)(uint32_t)(k->pos + before);
	}
}

/* The kernel's n events and what was taken, together. */
static int mix(struct epset *set, struct epoll_event *ev, int n, int old,
	       struct epreg *taken)
{
	struct epreg *r, *next;
	int m = 0, at = 0, from, out = 0;

	for (r = taken; r; r = r->rnext, m++) {
		if (n && at < n) {
			int pos = behind_all(set, r, n, old);

			if (pos > at)
				at = pos;
		}
		r->pos = at;
	}
	if (n)
		move_on(set, ev, n, taken, m);
	for (r = taken, from = m; r; r = next) {
		next = r->rnext;
		while (from < m + r->pos)
			ev[out++] = ev[from++];
		epready_put(set, ev, out++, r, r->bits);
	}
	return n + m;
}

int epset_collect(struct epset *set, struct epoll_event *ev, int n, int max,
		  struct epask *ask)
{
	struct epreg *taken = NULL, **to = &taken;
	bool skip = epready_enough(set, max - n);
	int m = 0, old = n;

	if (ep_unlikely(skip))
		m = epready_take(set, &to, max - n);
	if (ep_likely(!skip || m < max - n)) {
		epready_find(set, ev);
		m += epready_take(set, &to, max - n - m);
	}
	keep_rest(set);
	if (m || ask->rest || !ask->whole)
		n = consult(set, n, max, m, &taken, ask);
	keep_rest(set); /* what was rung for in between */
	n = mix(set, ev, n, old, taken);
	remember(set, ask);
	return n;
}
