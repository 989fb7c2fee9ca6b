/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "preload/fd/asleep.h"

#include "preload/fd/fdtable.h"

/* A handler that interrupts one may begin another; more are not noted. */
#define DEEP 4

static __thread struct {
	struct {
		uintptr_t at; /* in the frame of the wait */
		const struct asleep_kind *kind;
		void *what;
	} wait[DEEP];
	uint32_t n;
} row __attribute__((tls_model("initial-exec")));

bool asleep_any(void)
{
	return row.n;
}

/*
 * What lies at or above `at`, on the same stack, did not make this call. The
 * frame is another one's by now: a pollset is forgotten, with what it counted.
 */
static void drop_left(uintptr_t at)
{
	if (guard_on_signal_stack(at))
		return;
	while (row.n && row.wait[row.n - 1].at <= at) {
		row.n--;
		if (row.wait[row.n].kind->lost)
			row.wait[row.n].kind->lost(row.wait[row.n].what);
	}
}

void asleep_in(const struct asleep_kind *kind, void *frame, void *what)
{
	uintptr_t at = (uintptr_t)frame;

	if (unlikely(row.n))
		drop_left(at);
	if (unlikely(row.n == DEEP))
		return;
	row.wait[row.n].at = at;
	row.wait[row.n].kind = kind;
	row.wait[row.n].what = what;
	row.n++;
}

void asleep_out(const void *frame)
{
	uint32_t i = row.n;

	while (i-- > 0)
		if (row.wait[i].at == (uintptr_t)frame)
			row.n = i;
}

/*
 * Its frames are whole: the handler that jumps lies below them, or elsewhere.
 */
void asleep_jumping(uintptr_t to)
{
	GUARDED(in);

	if (!row.n || guard_on_signal_stack(to))
		return;
	while (row.n && row.wait[row.n - 1].at < to) {
		row.n--;
		row.wait[row.n].kind->out((void *)row.wait[row.n].at,
					  row.wait[row.n].what);
	}
}

void asleep_forked(void)
{
	row.n = 0;
}
