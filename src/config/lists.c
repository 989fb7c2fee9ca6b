/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "config/lists.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/text.h"
#include "config/rules.h"

#define NET_MAX	 (INET6_ADDRSTRLEN + 4)
#define NAME_MAX 63 /* of a device, in the kernel */

/* The next entry of at most `max` bytes: 1, 0 no more, -1 no good one. */
static int entry(const char **list, char *to, size_t max)
{
	size_t n = strcspn(*list, ",");

	if (!**list)
		return 0;
	if (!n || n > max || ((*list)[n] && !(*list)[n + 1]))
		return -1;
	memcpy(to, *list, n);
	to[n] = '\0';
	*list += n + ((*list)[n] == ',');
	return 1;
}

/* ADDRESS or ADDRESS/PREFIX as the target of a rule. */
static bool net(struct rule *r, char *text)
{
	char *slash = strchr(text, '/');
	uint64_t prefix;
	size_t n;
	uint8_t most;

	memset(r, 0, sizeof(*r));
	if (slash)
		*slash++ = '\0';
	r->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	most = r->family == AF_INET6 ? 128 : 32;
	if (inet_pton(r->family, text, r->addr) != 1)
		return false;
	r->prefix = most;
	if (slash) {
		n = text_number(slash, most, &prefix);
		if (!n || slash[n])
			return false;
		r->prefix = (uint8_t)prefix;
	}
	rule_mask(r);
	return true;
}

bool list_nets_sound(const char *list)
{
	char text[NET_MAX + 1];
	struct rule r;
	int ret;

	if (!strcmp(list, "none"))
		return true;
	if (!*list)
		return false;
	while ((ret = entry(&list, text, NET_MAX)) == 1)
		if (!net(&r, text))
			return false;
	return !ret;
}

bool list_nets_have(const char *list, const struct sockaddr *sa)
{
	char text[NET_MAX + 1];
	struct rule_addr a;
	struct rule r;

	rule_addr_from(&a, sa);
	while (a.family && entry(&list, text, NET_MAX) == 1) {
		if (!net(&r, text))
			continue;
		r.mine = true;
		r.port_hi = 65535;
		if (!rule_miss(&r, r.role, &a))
			return true;
	}
	return false;
}

bool list_names_sound(const char *list)
{
	char text[NAME_MAX + 1];
	int ret;

	if (!*list)
		return false;
	while ((ret = entry(&list, text, NAME_MAX)) == 1)
		if (strchr(text, '/') || text[0] == '.')
			return false;
	return !ret;
}

bool list_names_have(const char *list, const char *name)
{
	char text[NAME_MAX + 1];

	if (!strcmp(list, "any"))
		return true;
	while (entry(&list, text, NAME_MAX) == 1)
		if (!strcmp(text, name))
			return true;
	return false;
}
