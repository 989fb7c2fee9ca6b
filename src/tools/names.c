/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/names.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/text.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const char *const paths[] = {
	[PATH_TCP] = "tcp",
	[PATH_SHM] = "shm",
	[PATH_RDMA] = "rdma",
	[PATH_LISTEN] = "listen",
};

static const char *const states[] = { "new", "listen", "open", "closing" };

/* Those of ss(8), in the order of `states`. */
static const char *const states_too[] = { "unconnected", "listening",
					  "established", "closing" };

const char *path_name(uint8_t path)
{
	return path < COUNT(paths) ? paths[path] : "?";
}

const char *state_name(uint32_t state)
{
	return state < COUNT(states) ? states[state] : "?";
}

const char *rule_name(uint8_t rule)
{
	static const char *const names[] = { "both", "tcp", "sdp",
					     "kernel-sdp" };

	return rule < COUNT(names) ? names[rule] : "-";
}

const char *role_name(uint8_t role)
{
	return role == 1 ? "client" : role == 2 ? "server" : "none";
}

const char *addr_text(const struct page_addr *a, char *buf, size_t size)
{
	struct text t = { .buf = buf, .size = size };
	char ip[INET6_ADDRSTRLEN];

	if (a->family != AF_INET && a->family != AF_INET6)
		return "-";
	inet_ntop(a->family, a->ip, ip, sizeof(ip));
	text_add(&t, a->family == AF_INET6 ? "[%s]:%u" : "%s:%u", ip, a->port);
	return buf;
}

int path_find(const char *name)
{
	size_t i;

	for (i = 0; i < COUNT(paths); i++)
		if (!strcmp(paths[i], name))
			return (int)i;
	return -1;
}

int state_find(const char *name)
{
	size_t i;

	for (i = 0; i < COUNT(states); i++)
		if (!strcmp(states[i], name) || !strcmp(states_too[i], name))
			return (int)i;
	return strcmp(name, "connected") ? -1 : 2;
}
