/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "config/rules.h"

#include <arpa/inet.h>
#include <fnmatch.h>
#include <netinet/in.h>
#include <string.h>

const char *rule_use_name(enum rule_use use)
{
	return use == USE_TCP	 ? "tcp" :
	       use == USE_SDP	 ? "sdp" :
	       use == USE_NATIVE ? "kernel-sdp" :
				   "both";
}

const char *rule_role_name(enum rule_role role)
{
	return role == ROLE_SERVER ? "server" : "client";
}

void rule_addr_from(struct rule_addr *a, const struct sockaddr *sa)
{
	const struct sockaddr_in *in = (const void *)sa;
	const struct sockaddr_in6 *in6 = (const void *)sa;

	memset(a, 0, sizeof(*a));
	if (sa->sa_family == AF_INET) {
		a->family = AF_INET;
		a->port = ntohs(in->sin_port);
		memcpy(a->ip, &in->sin_addr, 4);
	} else if (sa->sa_family == AF_INET6) {
		a->port = ntohs(in6->sin6_port);
		if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
			a->family = AF_INET;
			memcpy(a->ip, in6->sin6_addr.s6_addr + 12, 4);
		} else {
			a->family = AF_INET6;
			memcpy(a->ip, &in6->sin6_addr, 16);
		}
	}
}

/* Do the first `bits` bits agree? */
static bool rule_same_net(const uint8_t *a, const uint8_t *b, uint32_t bits)
{
	uint32_t bytes = bits / 8, rest = bits % 8;

	if (memcmp(a, b, bytes))
		return false;
	return !rest || !((a[bytes] ^ b[bytes]) >> (8 - rest));
}

void rule_mask(struct rule *r)
{
	uint32_t i, bits = r->prefix;

	for (i = 0; i < sizeof(r->addr); i++) {
		if (bits >= 8)
			bits -= 8;
		else {
			r->addr[i] &= (uint8_t)(0xff00 >> bits);
			bits = 0;
		}
	}
}

const char *rule_miss(const struct rule *r, enum rule_role role,
		      const struct rule_addr *a)
{
	if (r->role != role)
		return "role";
	if (!r->mine)
		return "program";
	if (!a->family ||
	    (r->family && (r->family != a->family ||
			   !rule_same_net(r->addr, a->ip, r->prefix))))
		return "address";
	if (a->port < r->port_lo || a->port > r->port_hi)
		return "port range";
	return NULL;
}

static bool rule_all_programs(const struct rule *r)
{
	return !r->program[0] || !strcmp(r->program, "*");
}

bool rule_program(const struct rule *r, const char *program, const char *exe)
{
	if (rule_all_programs(r))
		return true;
	return (program[0] && !fnmatch(r->program, program, 0)) ||
	       (exe[0] && !fnmatch(r->program, exe, 0));
}

bool rule_wide(const struct rule *r)
{
	return !r->family && r->port_lo <= 1 && r->port_hi == 65535;
}

static void print_ip(struct text *t, int family, const uint8_t *ip,
		     bool bracket)
{
	char buf[INET6_ADDRSTRLEN];

	inet_ntop(family, ip, buf, sizeof(buf));
	text_add(t, bracket ? "[%s]" : "%s", buf);
}

void rule_print_addr(struct text *t, const struct rule_addr *a)
{
	if (!a->family)
		text_add(t, "?");
	else
		print_ip(t, a->family, a->ip, a->family == AF_INET6);
	text_add(t, ":%u", a->port);
}

void rule_print(struct text *t, const struct rule *r)
{
	uint8_t full = r->family == AF_INET6 ? 128 : 32;
	/* a bare 0.0.0.0 is every address */
	bool bare = r->prefix == full &&
		    (r->family == AF_INET6 || memcmp(r->addr, "\0\0\0", 4));

	text_add(t, "use %s %s %s ", rule_use_name(r->use),
		 rule_role_name(r->role), r->program[0] ? r->program : "*");
	if (!r->family)
		text_char(t, '*');
	else
		print_ip(t, r->family, r->addr, r->family == AF_INET6);
	if (r->family && !bare)
		text_add(t, "/%u", r->prefix);
	if (r->port_lo == 0 && r->port_hi == 65535)
		text_add(t, ":*");
	else if (r->port_lo == r->port_hi)
		text_add(t, ":%u", r->port_lo);
	else
		text_add(t, ":%u-%u", r->port_lo, r->port_hi);
}

void rule_print_verdict(struct text *t, struct verdict v)
{
	text_add(t, "%s ", rule_use_name(v.use));
	if (v.line)
		text_add(t, "(line %u)", v.line);
	else
		text_add(t, "(no rule of the file)");
}
