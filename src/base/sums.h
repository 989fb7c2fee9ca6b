/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_SUMS_H
#define LIBSDP_BASE_SUMS_H

/*
 * What processes counted that have ended: one file of sums for each user, in
 * PAGE_DIR, mode 0600, so that counters only grow. A process adds what its page
 * has when it ends or becomes another program; of a killed one, the process
 * that removes its page does. A new file is all zeros, which is sound. It is
 * mapped when the page is opened: adding makes no system call and waits for
 * nothing.
 *
 * `begun` counts before, `done` behind each addition, and the removal of a page
 * lies between them: a reader that finds both alike, and `begun` the same
 * before and behind its look at the pages, has nothing twice and nothing
 * missing. A process killed in between leaves them different; sums_mend().
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/page.h"

/* Then user id and layout: "libsdp.sums.1000.5". */
#define SUMS_PREFIX PAGE_PREFIX "sums."

struct sums {
	uint64_t begun, done; /* additions */
	uint64_t word[PAGE_WORDS]; /* struct page_counters */
};

/*
 * Map this user's file, made if need be; memory for it is taken at once. Not
 * again when it is mapped, but for another user (`anew`: the caller has become
 * one). 0 or negative errno (logged once).
 */
int sums_open(bool anew);
/*
 * Add what `now` has beyond `had`, which becomes equal. Nothing without a file.
 * Async-signal-safe; one thread at a time for one `had`.
 */
void sums_add(const struct page_counters *now, struct page_counters *had);
/*
 * The same for a dead process's page, if it is this call that removes it;
 * behind sums_open(), which logs and needs the stack for that.
 */
void sums_inherit(const struct page_counters *now, struct page_counters *had,
		  int dir, const char *name);
/* `s` has long been where a reader found it: an adder was killed. */
void sums_mend(uint64_t begun, uint64_t done);

#endif
