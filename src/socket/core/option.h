/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_OPTION_H
#define LIBSDP_SOCKET_CORE_OPTION_H

/* Socket options: the table of option.def, and what others ask of it. */

#include "socket/core/core.h"

enum option_way { WAY_OBEYED, WAY_PASSED, WAY_TCP };

/* Which value of an option that keeps the stream on TCP does not. */
enum option_idle {
	IDLE_ANY,
	IDLE_NONE,
	IDLE_ZERO,
	IDLE_ZERO_OR_ONE,
	IDLE_NEGATIVE,
	IDLE_ALL_ONES,
};

/* Each set bit of sock.bars counts as one of sock.homes. */
enum {
	BAR_LOWAT = 1,
	BAR_PEEK = 2,
	BAR_TIMES = 4,
	BAR_SHOWN = 8, /* time stamps, and the program looked */
	BAR_ASYNC = 16,
	BAR_EVER = 32, /* cannot be taken back */
	BAR_PACING = 64,
	BAR_DELAY = 128,
	BAR_LEFT = 0x8000, /* SO_RCVLOWAT, for receives of before (option.c) */
};

enum option_id {
#define OPTION(level, name, number, way, idle, bar) OPT_##name,
#include "socket/core/option.def"
	OPTIONS
};

struct option {
	const char *name;
	int level, opt;
	uint16_t id; /* enum option_id */
	uint16_t bar;
	uint8_t way, idle; /* enum option_way, option_idle */
};

extern const struct option option_list[OPTIONS];

/* NULL: it is not in the table. */
const struct option *option_find(int level, int opt);
/* Of WAY_TCP: may the stream be lifted at this value of `len` bytes? */
bool option_idle(const struct option *o, const void *v, socklen_t len);
/* The bars of what is set at this socket, of those that can be asked for. */
uint16_t option_bars(int fd);

static inline enum reason option_reason(const struct sock *s)
{
	return s->opt.bars ? WHY_SOCKET_OPTION : WHY_WAITING;
}

static inline bool option_lowat(const struct sock *s) /* SO_RCVLOWAT > 1 */
{
	return s->opt.bars & BAR_LOWAT;
}

#endif
