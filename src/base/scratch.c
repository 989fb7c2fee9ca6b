/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/scratch.h"

#include <stdint.h>
#include <sys/mman.h>

#include "base/guard.h"
#include "base/sys.h"
#include "base/table.h"

#define ROOM (32u * 1024) /* of a thread; only what is used becomes memory */

/* At the front of a thread's mapping. */
struct stack {
	uint32_t used; /* bytes, this one included */
	uint32_t last; /* where the last piece begins; 0: there is none */
};

/* In front of each piece. */
struct piece {
	uintptr_t frame; /* of its taker: lies above what that calls */
	uint32_t below; /* `last` before it */
	uint32_t pad;
} __attribute__((aligned(16)));

static size_t rounded(size_t n)
{
	return (n + 15) & ~(size_t)15;
}

void scratch_fresh(void *mem)
{
	struct stack *st = mem;

	if (!st)
		return;
	st->used = (uint32_t)rounded(sizeof(*st));
	st->last = 0;
}

/*
 * For threads that get no mapping, since the program has used up what there may
 * be: what they call must not fail for that. Each is a slot's for good.
 */
#define SPARES 8

TABLE static struct {
	char mem[ROOM] __attribute__((aligned(16)));
} spare[SPARES];
static uint32_t spares; /* atomic: so many are taken, or were asked for */

static struct stack *spare_of(void)
{
	uint32_t i = __atomic_load_n(&spares, __ATOMIC_RELAXED);

	if (i < SPARES)
		i = __atomic_fetch_add(&spares, 1, __ATOMIC_RELAXED);
	return i < SPARES ? (struct stack *)(void *)spare[i].mem : NULL;
}

static bool is_spare(const void *mem)
{
	return (const char *)mem >= spare[0].mem &&
	       (const char *)mem < spare[SPARES - 1].mem + ROOM;
}

void *scratch_drop(void *mem)
{
	if (!mem || is_spare(mem))
		return mem;
	sys_munmap(mem, ROOM);
	return NULL;
}

static struct stack *stack_of(void)
{
	struct guard *g = guard_own ? guard_own : guard_slot();
	struct stack *st = g->scratch;

	if (__builtin_expect(st != NULL, 1))
		return st;
	if (!g->tid)
		return NULL; /* a slot that threads share */
	st = sys_mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_is_err(st)) {
		st = spare_of();
		if (!st)
			return NULL;
	}
	scratch_fresh(st);
	/* a handler in between has made one, too */
	if (g->scratch) {
		scratch_drop(st);
		return g->scratch;
	}
	g->scratch = st;
	return st;
}

static void *map_one(struct scratch *s, size_t n)
{
	void *p = sys_mmap(NULL, n, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_is_err(p))
		return NULL;
	s->mapped = n;
	s->at = p;
	return p;
}

void *scratch_take(struct scratch *s, size_t n)
{
	struct stack *st = n < ROOM ? stack_of() : NULL;
	struct piece *p;
	uint32_t at;

	if (!st || st->used + sizeof(*p) + rounded(n) > ROOM)
		return map_one(s, n);
	at = st->used;
	p = (struct piece *)((char *)st + at);
	st->used = at + (uint32_t)(sizeof(*p) + rounded(n));
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	p->frame = (uintptr_t)s;
	p->below = st->last;
	st->last = at;
	s->at = p + 1;
	return s->at;
}

/* The piece goes, and those that were left above it. */
static void pop(struct stack *st, struct piece *p)
{
	st->last = p->below;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	st->used = (uint32_t)((char *)p - (char *)st);
}

void scratch_give(struct scratch *s)
{
	if (!s->at)
		return;
	if (s->mapped)
		sys_munmap(s->at, s->mapped);
	else
		pop(guard_own->scratch, (struct piece *)s->at - 1);
	s->at = NULL;
	s->mapped = 0;
}

bool scratch_held(void)
{
	const struct stack *st = guard_own ? guard_own->scratch : NULL;

	return st && st->last;
}

void scratch_jumping(uintptr_t to)
{
	struct stack *st = guard_own ? guard_own->scratch : NULL;
	struct piece *p;

	while (st && st->last) {
		p = (struct piece *)((char *)st + st->last);
		if (p->frame >= to)
			break;
		pop(st, p);
	}
}
