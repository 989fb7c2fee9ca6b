/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What user space knows about the members of a set (anchor.md 5.3).
 */
#include "base/sys.h"
#include "preload/epoll/epset.h"
#include "preload/fd/asleep.h"
#include "preload/fd/deadline.h"

/* A report of these is not repeated. */
#define LASTING (EPOLLONESHOT | (uint32_t)EPOLLET)

__thread struct sock *ep_looking __attribute__((tls_model("initial-exec")));

/* A nested set is ready when a wait on it would find something. */
static uint32_t look_inner(struct epreg *r, uint32_t kernel)
{
	struct sock_ready now = { .ours = EPOLLIN, .ms = -1 };

	r->since = 0;
	if (kernel ? epset_probe(r->inner, &r->since) :
		     epset_ready(r->inner, &r->since))
		now.now = EPOLLIN;
	if (!now.now)
		r->edge.last = 0;
	else if (kernel || !(r->edge.last & EPOLLIN))
		now.in_gen = r->edge.in_gen + 1;
	else
		now.in_gen = r->edge.in_gen;
	return ep_edge_take(&r->edge, r->mask, &now);
}

/*
 * The kernel said `told` of an entry that was modified since. What is true of
 * the anchor now has its place here. An edge counts where something came, and
 * the kernel, which was asked anew, may repeat it; room alone can wait for that.
 */
static uint32_t in_place(const struct epreg *r, uint32_t told)
{
	uint32_t want = ep_want(r->mask), now;
	struct pollfd p = { .fd = r->fd, .events = (short)(want & 0xffff) };
	struct timespec zero = { 0, 0 };

	if (r->fd < 0 || sys_ppoll(&p, 1, &zero, NULL) != 1)
		return 0;
	now = (uint16_t)p.revents & want;
	if ((r->mask & LASTING) && !(now & told & (EP_INS | EP_ENDS)))
		return 0;
	return now;
}

/*
 * The kernel decides, alone or (`ours`) again: then `told`, what it said, was
 * harvested while narrowed, where IN may be a kick. MOD asks anew, behind all
 * that is on the kernel's list; what is true can be asked for at once.
 */
static uint32_t look_raw(struct epreg *r, uint32_t ours, uint32_t kernel,
			 uint32_t told)
{
	epreg_follow(r);
	epreg_cool(r);
	epreg_watch(r, false);
	if (ours)
		return told ? in_place(r, told) : 0;
	return kernel & ep_want(r->mask);
}

/*
 * User space has something to report, and the program also asked for bits that
 * are the kernel's: the direction that was never lifted. A level is reported
 * whole, and the kernel's set, whose entry is an edge now, would tell the rest
 * only later. IN counts only if it is still the kernel's afterwards: a kick may
 * have come in between.
 */
static uint32_t look_anchor(const struct epreg *r, uint32_t ours)
{
	uint32_t ask = r->mask & (EP_INS | EP_OUTS) & ~ours;
	struct pollfd p = { .fd = r->fd, .events = (short)ask };
	struct timespec zero = { 0, 0 };
	struct sock_ready now;

	if (ep_likely(!ask) || r->fd < 0 || sys_ppoll(&p, 1, &zero, NULL) != 1)
		return 0;
	ask &= (uint16_t)p.revents;
	if (ask & EP_INS) {
		ep_looking = r->sock;
		sock_ready(r->sock, r->fd, 0, &now);
		ep_looking = NULL;
		ask &= ~ep_expand(now.ours);
	}
	return ask;
}

/* What the program will be told if it is so: of an edge only what is new. */
static uint32_t asks(const struct epreg *r)
{
	return r->edge.fresh ? r->mask & ~(uint32_t)EPOLLET : r->mask;
}

/* An edge of other news says that there is room, too. */
static uint32_t keep_promise(struct epreg *r, uint32_t bits)
{
	if (ep_likely(sock_promise(r->sock)))
		return bits;
	r->edge.last &= ~(uint32_t)EP_OUTS;
	return bits & ~(uint32_t)EP_OUTS;
}

/* Everything but the consequences of a report. */
static uint32_t look_bits(struct epreg *r, uint32_t kernel)
{
	uint32_t ours, bits, anchor, was = r->ours, told = kernel;
	uint16_t mod = r->mod;
	struct sock_ready now;
	bool fresh;

	if (ep_unlikely(!r->sock))
		return r->inner ? look_inner(r, kernel) :
				  kernel & ep_want(r->mask);
	if (!was && sock_cold(r->sock))
		return look_raw(r, 0, kernel, 0);
	ep_looking = r->sock;
	sock_ready(r->sock, r->fd, asks(r), &now);
	ep_looking = NULL;
	r->ms = now.ms;
	r->since = now.since;
	r->news = now.news;
	if (ep_unlikely(now.ours != was)) {
		r->ours = now.ours;
		if (!was)
			r->edge.fresh = true;
		/*
		 * What becomes the kernel's again it may have told already,
		 * while it did not count: it is made to tell it once more.
		 */
		epreg_tell(r, was & ~now.ours);
		if (r->mod != mod)
			kernel = 0; /* once is enough */
	}
	if (!now.ours)
		return look_raw(r, was, kernel, told);
	epreg_heat(r);
	ours = ep_expand(now.ours);
	now.now &= now.ours;
	fresh = r->edge.fresh || !(r->mask & (uint32_t)EPOLLET);
	bits = ep_edge_take(&r->edge, r->mask, &now);
	if (bits && fresh)
		bits |= look_anchor(r, ours);
	else if (bits & ours & EP_OUTS)
		bits = keep_promise(r, bits);
	r->still = !bits && now.ms < 0 &&
		   !(now.ours & ~now.now & r->mask & EPOLLOUT);
	anchor = kernel & ep_want(r->mask) & ~ours;
	if (anchor && (r->kmask & (uint32_t)EPOLLET)) {
		r->spent = true;
		if (!r->rearm && !(r->mask & LASTING)) {
			r->rearm = true;
			r->set->nrearm++;
		}
	}
	return bits | anchor;
}

uint32_t epreg_look(struct epreg *r, uint32_t kernel)
{
	uint32_t bits;

	if (r->off)
		return 0;
	bits = look_bits(r, kernel);
	if (!bits) {
		r->stays = false;
		if (r->idle < UINT16_MAX)
			r->idle++;
		return 0;
	}
	r->idle = 0;
	epreg_watch(r, false);
	return bits;
}

int epset_put_old(struct epset *set, struct epoll_event *ev, int n,
		  struct epreg *r, uint32_t told)
{
	uint32_t now = r->off || r->ours ? 0 : in_place(r, told);

	if (now)
		return epset_put(set, ev, n, r, epreg_look(r, now));
	if (!r->off) {
		epreg_tell(r, true);
		set->kern.anew = true;
	}
	return n;
}

void epreg_told(struct epreg *r)
{
	r->stays = !(r->mask & LASTING);
	if (r->mask & EPOLLONESHOT) {
		r->off = true;
		epreg_cool(r);
	}
}

void epreg_kept(struct epreg *r)
{
	r->edge.fresh = true;
	r->still = false;
}

/* A look that reports nothing: the bits. */
static uint32_t peek(struct epreg *r)
{
	uint32_t bits = r->off ? 0 : look_bits(r, 0);

	if (bits)
		epreg_kept(r);
	return bits;
}

bool epset_ready(struct epset *set, uint64_t *since)
{
	struct epreg *r, *next;
	uint32_t left, bits;
	uint64_t came;
	bool found = false;

	if (!set->hot && !epset_mail(set) && !set->kern.kept)
		return false;
	if (!epset_take(set))
		return true;
	epset_inbox(set);
	epset_rearm(set);
	found = set->kern.kept != NULL;
	for (r = set->hot, left = set->nhot; left; left--, r = next) {
		next = r->hnext;
		bits = peek(r);
		if (!bits)
			continue;
		came = epreg_came(r, bits);
		if (since && (!found || came < *since))
			*since = came;
		found = true;
		if (!since)
			break;
	}
	epset_release(set);
	return found;
}

/*
 * What makes the kernel's set readable may be ours alone: wake-up bytes,
 * kicks. The kernel forgets such an entry once the bytes are gone.
 */
bool epset_probe(struct epset *set, uint64_t *since)
{
	struct pollfd p = { .fd = set->fd, .events = POLLIN };
	struct timespec now = { 0, 0 };
	struct epreg *r, *next;
	bool found = false;
	uint64_t came;
	uint32_t bits;

	if (!epset_take(set))
		return true;
	for (r = set->all; r; r = next) {
		next = r->anext;
		if (r->inner)
			found = epset_probe(r->inner, NULL) || found;
		if (!r->sock || (!r->ours && sock_cold(r->sock)))
			continue;
		sock_rang(r->sock, false);
		if (r->deleted)
			continue;
		epreg_watch(r, false);
		epreg_heat(r);
		if (r->kicked)
			epreg_unkick(r);
		bits = peek(r);
		if (!bits)
			continue;
		came = epreg_came(r, bits);
		if (since && (!found || came < *since))
			*since = came;
		found = true;
	}
	epset_release(set);
	return found || sys_ppoll(&p, 1, &now, NULL) == 1;
}

static bool arm_one(struct epreg *r)
{
	uint32_t want = ep_want(r->mask);

	if (r->watched || !r->sock || r->off)
		return false;
	epreg_watch(r, true);
	sock_arm(r->sock, (want & (EP_INS | EPOLLRDHUP)) != 0,
		 (want & r->ours & EPOLLOUT) && !(r->edge.last & EPOLLOUT));
	return peek(r) != 0;
}

bool epset_arm(struct epset *set, uint64_t *nap)
{
	struct epreg *r, *next;
	bool found = false;
	uint32_t left;

	if (!epset_take(set))
		return false;
	epset_inbox(set);
	epset_rearm(set);
	for (r = set->hot, left = set->nhot; left && !found; left--, r = next) {
		next = r->hnext;
		if (r->inner)
			found = epset_arm(r->inner, nap) ||
				epset_ready(r->inner, NULL);
		else
			found = arm_one(r);
		if (r->ms >= 0 && (uint64_t)r->ms * DL_MS < *nap)
			*nap = (uint64_t)r->ms * DL_MS;
	}
	epset_release(set);
	return found;
}

void epset_pass_on(struct epset *set)
{
	struct epreg *r = set->hot;
	struct epbucket *b;

	if (!r || !r->sock || !epset_asleep(set))
		return;
	b = epbucket_of(r->sock, r->fd);
	if (epbucket_take(b)) {
		epreg_kick(b, r);
		epbucket_drop(b);
	}
}

void epset_hand_over(struct epset *set)
{
	uint64_t nap = DL_NEVER;
	struct epreg *r;
	bool found = false;
	uint32_t left;

	if (ep_likely(!epset_asleep(set)) || !epset_take(set))
		return;
	for (r = set->hot, left = set->nhot; left && !found;
	     left--, r = r->hnext)
		found = r->inner ? epset_arm(r->inner, &nap) ||
					   epset_ready(r->inner, NULL) :
				   arm_one(r) || r->ms >= 0;
	if (found)
		epset_pass_on(set);
	epset_release(set);
}

void epset_disarm(struct epset *set)
{
	struct epreg *r = set->hot;
	uint32_t left;

	for (left = set->nhot; left; left--, r = r->hnext)
		if (r->watched) {
			epreg_watch(r, false);
			sock_disarm(r->sock);
		}
}

/* Entries that are edge-triggered only in the kernel. Lock held. */
void epset_rearm(struct epset *set)
{
	struct epreg *r, *next;
	uint32_t left;

	if (ep_likely(!set->nrearm))
		return;
	for (r = set->hot, left = set->nhot; left; left--, r = next) {
		next = r->hnext;
		if (r->rearm)
			epreg_tell(r, true);
	}
}

void epset_rearm_open(struct epset *set)
{
	if (set->nrearm && epset_take(set)) {
		epset_rearm(set);
		epset_release(set);
	}
}

void epset_sleeps(struct epset *set, int delta)
{
	struct epreg *r;
	uint32_t left;

	__atomic_add_fetch(&set->sleepers, (uint32_t)delta, __ATOMIC_SEQ_CST);
	if (ep_likely(!__atomic_load_n(&ep_nodd, __ATOMIC_RELAXED)))
		return;
	if (!epset_take(set))
		return;
	for (r = set->hot, left = set->nhot; left; left--, r = r->hnext)
		if (r->inner)
			epset_sleeps(r->inner, delta);
	epset_release(set);
}

static void lost_asleep(void *set)
{
	epset_sleeps(set, -1);
}

static void jumped_out(void *in, void *set)
{
	epset_wakes(in, set);
}

static const struct asleep_kind in_set = { .out = jumped_out,
					   .lost = lost_asleep };

void epset_falls_asleep(bool *in, struct epset *set)
{
	asleep_in(&in_set, in, set);
	*in = true;
	epset_sleeps(set, 1);
}

void epset_wakes(bool *in, struct epset *set)
{
	if (!*in)
		return;
	*in = false;
	asleep_out(in);
	epset_sleeps(set, -1);
}
