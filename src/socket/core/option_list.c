/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table of option.def. */

#include <netinet/tcp.h>

#include "socket/core/core.h"

#define LEVEL_SOCKET SOL_SOCKET
#define LEVEL_TCP    IPPROTO_TCP
#define LEVEL_IP     IPPROTO_IP
#define LEVEL_IPV6   IPPROTO_IPV6

const struct option option_list[OPTIONS] = {
#define OPTION(level, name, number, way, idle, bar)           \
	{                                                     \
		#name, LEVEL_##level, number,	  OPT_##name, \
		bar,   WAY_##way,     IDLE_##idle             \
	},
#include "socket/core/option.def"
};

const struct option *option_find(int level, int opt)
{
	size_t i;

	for (i = 0; i < OPTIONS; i++)
		if (option_list[i].opt == opt && option_list[i].level == level)
			return &option_list[i];
	return NULL;
}

/* A rate is a long, or an int of which all bits say the same. */
static bool all_ones(const void *v, socklen_t len)
{
	uint32_t half;
	uint64_t whole;

	if (len >= sizeof(whole) && sizeof(long) == sizeof(whole)) {
		memcpy(&whole, v, sizeof(whole));
		return whole == UINT64_MAX;
	}
	memcpy(&half, v, sizeof(half));
	return half == UINT32_MAX;
}

bool option_idle(const struct option *o, const void *v, socklen_t len)
{
	int value;

	/* the kernel refuses it */
	if (o->idle != IDLE_NONE && (!v || len < sizeof(value)))
		return true;
	if (o->idle == IDLE_ALL_ONES)
		return all_ones(v, len);
	if (o->idle != IDLE_NONE)
		memcpy(&value, v, sizeof(value));
	switch (o->idle) {
	case IDLE_NONE:
		return false;
	case IDLE_ZERO:
		return !value;
	case IDLE_ZERO_OR_ONE: /* below zero: more than there can be */
		return value == 0 || value == 1;
	case IDLE_NEGATIVE:
		return value < 0;
	default:
		return true;
	}
}

uint16_t option_bars(int fd)
{
	uint16_t bars = 0;
	size_t i;

	for (i = 0; i < OPTIONS; i++) {
		const struct option *o = &option_list[i];
		socklen_t len = sizeof(int);
		int value;

		if (o->way == WAY_TCP && o->idle != IDLE_NONE &&
		    !sys_getsockopt(fd, o->level, o->opt, &value, &len) &&
		    !option_idle(o, &value, len))
			bars |= o->bar;
	}
	return bars;
}

int option_int(int fd, int opt)
{
	socklen_t len = sizeof(int);
	int v = 0;

	return sys_getsockopt(fd, SOL_SOCKET, opt, &v, &len) ? -1 : v;
}
