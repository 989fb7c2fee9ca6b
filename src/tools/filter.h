/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_FILTER_H
#define LIBSDP_TOOLS_FILTER_H

/* Which sockets are shown: all conditions of a filter have to hold. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/page.h"
#include "tools/scan.h"

/* An address and how many of its bits count; 0: any. */
struct filter_net {
	uint8_t family, ip[16];
	unsigned int bits;
	bool set;
};

struct filter {
	pid_t pid; /* 0: any */
	uint8_t family; /* AF_INET, AF_INET6, 0: both */
	const char *program; /* a pattern of fnmatch(3), NULL: any */
	int port, sport, dport; /* host order, -1: any */
	struct filter_net address, src, dst;
	int path, state, reason; /* -1: any */
	bool sdp; /* SDP in one direction at least */
	bool listening; /* listeners only */
	unsigned int given; /* keys that there were, a bit each */
};

void filter_init(struct filter *f);
/*
 * A word of the command line, "key=value". NULL, or why it is none: constant
 * text. `value` is kept, not copied.
 */
const char *filter_add(struct filter *f, char *word);
/* Does a process fit as far as it alone can? Is anything asked of sockets? */
bool filter_process(const struct filter *f, const struct found *in);
bool filter_rows(const struct filter *f);
bool filter_fits(const struct filter *f, const struct found *in,
		 const struct page_row *r);
/* Has it a socket that fits; where none is asked for, does it fit itself? */
bool filter_any(const struct filter *f, const struct found *in);

#endif
