/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "preload/epoll/epset.h"

#include <sys/mman.h>

#include "base/clock.h"
#include "base/stamp.h"
#include "base/sys.h"
#include "base/table.h"
#include "preload/epoll/epoll.h"

#define CHUNK	256 /* registrations */
#define CHUNKS	((1u << EP_IDX_BITS) / CHUNK)
#define BUCKETS 4096

uint32_t ep_tag, ep_nregs, ep_nodd;
TABLE uint32_t ep_plain[EP_PLAIN];

/* The pool's lock guards chunks, free registrations and the list of sets. */
static struct lock pool_lock;
static TABLE struct epreg *chunks[CHUNKS];
static uint32_t nchunks;
static struct epreg *free_regs;
static uint64_t nmade; /* registrations, ever */
static struct epset *sets;
static TABLE struct epbucket buckets[BUCKETS];

static bool pool_take(void)
{
	return lock_take(&pool_lock) != -EDEADLK;
}

/*
 * A tag no program's word begins with by accident: neither zero (numbers,
 * small indices), nor all ones, nor the top of a pointer.
 */
static void make_tag(void)
{
	uint32_t tag;

	if (sys_call3(SYS_getrandom, &tag, sizeof(tag), 1) != sizeof(tag))
		tag = (uint32_t)(clock_ns() * 0x9e3779b97f4a7c15u >> 17);
	tag = (tag >> 8 & 0x00ffffffu) | 0x02000000u;
	__atomic_store_n(&ep_tag, tag, __ATOMIC_RELEASE);
}

/* --- sets --------------------------------------------------------------- */

static struct epset *epset_new(void)
{
	struct epset *set;
	size_t i, n = 4096 / sizeof(*set);

	for (set = sets; set; set = set->next)
		if (!(set->life & 1) &&
		    !__atomic_load_n(&set->waits, __ATOMIC_ACQUIRE))
			return set;
	set = sys_mmap(NULL, n * sizeof(*set), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_is_err(set))
		return NULL;
	for (i = 0; i < n; i++) {
		set[i].next = sets;
		__atomic_store_n(&sets, &set[i], __ATOMIC_RELEASE);
	}
	return sets;
}

struct epset *epset_get(int fd)
{
	struct epset *set;
	GUARDED(in);

	set = fdt_set(&in, fd);
	if (set || !pool_take())
		return set;
	set = fdt_set(&in, fd); /* another thread was faster? */
	if (!set) {
		set = epset_new();
		if (set) {
			set->life++;
			set->numbers = 1;
			set->inherited = set->settled = false;
			set->wanted = epbits_get(EP_WAITED, fd);
			set->kern = (struct epkern){ .whole = stamp_now() };
			set->kern.passed_by = set->kern.whole;
			set->fd = fd;
			if (fdt_put_set(fd, set)) {
				set->life++;
				set = NULL;
			}
		}
	}
	lock_drop(&pool_lock);
	return set;
}

#define SET_OF(r) \
	((struct epset *)(void *)((char *)(r)-offsetof(struct epset, retired)))

static bool epset_idle(struct retired *r)
{
	const struct epset *set = SET_OF(r);

	return !__atomic_load_n(&set->sleepers, __ATOMIC_SEQ_CST) &&
	       !__atomic_load_n(&set->spinners, __ATOMIC_SEQ_CST);
}

static void epset_free(struct retired *r)
{
	__atomic_store_n(&SET_OF(r)->waits, false, __ATOMIC_RELEASE);
}

void epset_drop(struct epset *set)
{
	if (!epset_take(set))
		return; /* closed by a handler inside us: never used again */
	while (set->all)
		epreg_free(set->all, false);
	__atomic_store_n(&set->waits, true, __ATOMIC_RELAXED);
	__atomic_add_fetch(&set->life, 1, __ATOMIC_RELEASE);
	epset_release(set);
	epset_shoo(set);
	set->retired.weight = 1;
	set->retired.idle = epset_idle;
	set->retired.free = epset_free;
	guard_retire(&set->retired);
}

/* --- registrations ------------------------------------------------------ */

static bool chunk_new(void)
{
	struct epreg *r;
	uint32_t i;

	if (nchunks == CHUNKS)
		return false;
	r = sys_mmap(NULL, CHUNK * sizeof(*r), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_is_err(r))
		return false;
	if (!ep_tag)
		make_tag();
	for (i = CHUNK; i-- > 0;) {
		r[i].idx = nchunks * CHUNK + i;
		r[i].inext = free_regs;
		free_regs = &r[i];
	}
	__atomic_store_n(&chunks[nchunks], r, __ATOMIC_RELEASE);
	nchunks++;
	return true;
}

struct epreg *epreg_of(struct epset *set, uint64_t word)
{
	uint32_t idx = ep_word_idx(word);
	struct epreg *r =
		__atomic_load_n(&chunks[idx / CHUNK], __ATOMIC_ACQUIRE);

	if (!r)
		return NULL;
	r += idx % CHUNK;
	if (r->set != set || r->doomed || !ep_word_used(word, r->use))
		return NULL;
	return r;
}

struct epreg *epreg_new(struct epset *set, struct sock *s, int fd)
{
	struct epreg *r;
	uint64_t age;

	if (!pool_take())
		return NULL;
	if (!free_regs && !chunk_new()) {
		lock_drop(&pool_lock);
		return NULL;
	}
	r = free_regs;
	free_regs = r->inext;
	age = nmade++;
	lock_drop(&pool_lock);
	*r = (struct epreg){
		.set = set,
		.sock = s,
		.fd = fd,
		.ms = -1,
		.wake = -1,
		.idx = r->idx,
		.age = age,
		.use = (uint16_t)(r->use + 1),
		.edge.fresh = true,
		.turn = set->turn - 1,
	};
	epreg_anew(r);
	r->anext = set->all;
	if (set->all)
		set->all->aprev = r;
	set->all = r;
	__atomic_add_fetch(&ep_nregs, 1, __ATOMIC_RELAXED);
	if (!s)
		__atomic_add_fetch(&ep_nodd, 1, __ATOMIC_RELAXED);
	return r;
}

void epreg_free(struct epreg *r, bool kernel)
{
	struct epset *set = r->set;
	struct epbucket *b = epbucket_of(r->sock, r->fd);

	if (epbucket_take(b)) {
		epreg_unlink(b, r);
		if (kernel)
			epreg_unwake(b, r);
		epbucket_drop(b);
	}
	epreg_dress(r);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): in a list still */
	if (set->kern.kept == r)
		set->kern.kept = NULL;
	/* it is not found any more, and now not held either */
	r->doomed = r->deleted = false;
	r->off = true;
	epset_inbox(set);
	epreg_cool(r);
	epreg_watch(r, false);
	if (r->rearm)
		set->nrearm--;
	if (r->aprev)
		r->aprev->anext = r->anext;
	else
		set->all = r->anext;
	if (r->anext)
		r->anext->aprev = r->aprev;
	__atomic_sub_fetch(&ep_nregs, 1, __ATOMIC_RELAXED);
	if (!r->sock)
		__atomic_sub_fetch(&ep_nodd, 1, __ATOMIC_RELAXED);
	r->set = NULL;
	if (pool_take()) {
		r->inext = free_regs;
		free_regs = r;
		lock_drop(&pool_lock);
	}
}

/* --- buckets ------------------------------------------------------------ */

struct epbucket *epbucket_of(const struct sock *s, int fd)
{
	uint64_t key = s ? (uint64_t)(uintptr_t)s >> 6 : (uint64_t)(uint32_t)fd;

	return &buckets[key * 0x9e3779b97f4a7c15u >> 52];
}

bool epbucket_take(struct epbucket *b)
{
	return lock_take(&b->lock) != -EDEADLK;
}

void epbucket_drop(struct epbucket *b)
{
	lock_drop(&b->lock);
}

void epreg_link(struct epbucket *b, struct epreg *r)
{
	r->bnext = b->first;
	b->first = r;
}

void epreg_unlink(struct epbucket *b, struct epreg *r)
{
	struct epreg **at;

	for (at = &b->first; *at; at = &(*at)->bnext)
		if (*at == r) {
			*at = r->bnext;
			return;
		}
}

struct epreg *epreg_find(struct epbucket *b, struct epset *set,
			 const struct sock *s, int fd)
{
	struct epreg *r;

	for (r = b->first; r; r = r->bnext)
		if (r->set == set && r->sock == s && r->fd == fd)
			return r;
	return NULL;
}

/* --- fork ----------------------------------------------------------------- */

static void set_inherit(struct epset *set)
{
	struct epreg *r;

	set->lock.word = 0;
	set->sleepers = set->spinners = 0;
	set->inbox = set->hot = set->ready = set->ready_last = NULL;
	set->nhot = set->nrearm = set->nready = set->nquiet = 0;
	set->kern = (struct epkern){ 0 };
	set->inherited = set->life & 1;
	set->settled = false;
	set->waits = false; /* its parent's threads did */
	for (r = set->all; r; r = r->anext) {
		r->hot = r->watched = r->rearm = r->listed = false;
		r->quiet = false;
		r->bare = false; /* the parent has counted it */
		r->queued = 0;
		r->wake = -1;
	}
}

void ep_forked(void)
{
	struct epset *set;
	int i;

	pool_lock.word = 0;
	/* where there never was a registration, no page of them is touched */
	for (i = 0; ep_tag && i < BUCKETS; i++)
		if (buckets[i].lock.word)
			buckets[i].lock.word = 0;
	for (i = 0; i < EP_PLAIN; i++)
		if (ep_plain[i])
			ep_plain[i] = 0;
	for (set = sets; set; set = set->next)
		set_inherit(set);
}
