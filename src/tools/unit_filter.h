/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_UNIT_FILTER_H
#define LIBSDP_TOOLS_UNIT_FILTER_H

/*
 * What SystemCallFilter= of a unit does to the calls that lifting needs
 * (probe.h), as systemd.exec(5) has it.
 */

#include <stdbool.h>

struct filter_verdict {
	/*
	 * Calls in the way, with blanks between: those that are needed, and,
	 * where the filter kills, those that the library could do without.
	 */
	char barred[512];
	bool kills; /* for one of them */
	char unknown[64]; /* a group that `groups` does not have, or "" */
};

/*
 * `lines`: the assignments, each ended by a newline. `error`: what
 * SystemCallErrorNumber= says, "" if nothing. `groups`: filter_groups(), or
 * NULL. Where a group is not known, the rest is of no use.
 */
void filter_judge(const char *lines, const char *error, const char *groups,
		  struct filter_verdict *v);

/*
 * What this machine's systemd-analyze(1) says of groups such as
 * @system-service; malloced, NULL where it does not run.
 */
char *filter_groups(void);

#endif
