/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "preload/asleep.h"

#include "preload/epset.h"
#include "preload/pollset.h"

/* A handler that interrupts one may begin another; more are not noted. */
#define DEEP 4

static __thread struct {
	struct {
		uintptr_t at; /* in the frame of the wait */
		struct epset *set; /* NULL: it is a struct pollset */
	} wait[DEEP];
	uint32_t n;
} row __attribute__((tls_model("initial-exec")));

bool asleep_any(void)
{
	return row.n;
}

/*
 * What lies at or above `at`, on the same stack, did not make this call. The frame
 * is another one's by now: a pollset is forgotten, with what it counted.
 */
static void drop_left(uintptr_t at)
{
	if (guard_on_signal_stack(at))
		return;
	while (row.n && row.wait[row.n - 1].at <= at) {
		struct epset *set = row.wait[--row.n].set;

		if (set)
			epset_sleeps(set, -1);
	}
}

static void begin(uintptr_t at, struct epset *set)
{
	if (unlikely(row.n))
		drop_left(at);
	if (unlikely(row.n == DEEP))
		return;
	row.wait[row.n].at = at;
	row.wait[row.n].set = set;
	row.n++;
}

static void end(uintptr_t at)
{
	uint32_t i = row.n;

	while (i-- > 0)
		if (row.wait[i].at == at)
			row.n = i;
}

void asleep_in_set(bool *in, struct epset *set)
{
	begin((uintptr_t)in, set);
	*in = true;
	epset_sleeps(set, 1);
}

void asleep_out_of_set(bool *in, struct epset *set)
{
	if (!*in)
		return;
	*in = false;
	end((uintptr_t)in);
	epset_sleeps(set, -1);
}

void asleep_in_poll(struct pollset *p)
{
	begin((uintptr_t)p, NULL);
}

void asleep_out_of_poll(struct pollset *p)
{
	if (row.n)
		end((uintptr_t)p);
}

/* Its frames are whole: the handler that jumps lies below them, or elsewhere. */
void asleep_jumping(uintptr_t to)
{
	GUARDED(in);

	if (!row.n || guard_on_signal_stack(to))
		return;
	while (row.n && row.wait[row.n - 1].at < to) {
		uintptr_t at = row.wait[row.n - 1].at;
		struct epset *set = row.wait[row.n - 1].set;

		row.n--;
		if (set)
			asleep_out_of_set((bool *)at, set);
		else
			pollset_out_of_bed((struct pollset *)at);
	}
}

void asleep_forked(void)
{
	row.n = 0;
}
