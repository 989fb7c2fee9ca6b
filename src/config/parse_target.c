/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/text.h"
#include "config/parse.h"
#include "config/rules.h"

static const char want_address[] =
	"an address (*, 192.0.2.0/24, 2001:db8::/32) and a port";
static const char want_port[] = "a port from 1 to 65535, a range or *";

/* Takes `c` with blanks around it, as releases up to 1.1.106 did. */
static bool parse_char(struct parser *ps, char c)
{
	const char *back = ps->at;

	parse_blanks(ps);
	if (*ps->at != c) {
		ps->at = back;
		return false;
	}
	ps->at++;
	parse_blanks(ps);
	return true;
}

static bool parse_number(struct parser *ps, uint32_t max, const char *expected,
			 uint32_t *value)
{
	uint64_t v;
	size_t n = text_number(ps->at, max, &v);

	if (!n)
		return parse_fail(ps, ps->at, expected);
	ps->at += n;
	*value = (uint32_t)v;
	return true;
}

static bool parse_ports(struct parser *ps, struct rule *r)
{
	const char *from;
	uint32_t lo = 0, hi;

	if (!parse_char(ps, ':'))
		return parse_fail(ps, ps->at, "`:` and a port");
	from = ps->at;
	if (*ps->at == '*') {
		ps->at++;
		r->port_lo = 0;
		r->port_hi = 65535;
		return true;
	}
	if (!parse_number(ps, 65535, want_port, &lo))
		return false;
	hi = lo;
	if (parse_char(ps, '-') && !parse_number(ps, 65535, want_port, &hi))
		return false;
	if (!lo)
		return parse_fail(ps, from, want_port);
	if (lo > hi)
		return parse_fail(ps, from,
				  "a range that does not end before it starts");
	r->port_lo = (uint16_t)lo;
	r->port_hi = (uint16_t)hi;
	return true;
}

static bool parse_ipv4(struct parser *ps, struct rule *r)
{
	const char *from = ps->at;
	uint32_t v = 0, prefix = 32;
	int i;

	for (i = 0; i < 4; i++) {
		if (i && !parse_char(ps, '.'))
			return parse_fail(ps, from, want_address);
		if (!parse_number(ps, 255, want_address, &v))
			return false;
		r->addr[i] = (uint8_t)v;
	}
	r->family = AF_INET;
	if (parse_char(ps, '/')) {
		if (!parse_number(ps, 32, "a prefix length from 0 to 32",
				  &prefix))
			return false;
	} else if (!memcmp(r->addr, "\0\0\0\0", 4)) {
		r->family = 0;
		prefix = 0;
		ps->doubtful = from;
		ps->doubt = "`*` for every address (taken so, as of old), "
			    "0.0.0.0/0 for all of IPv4 or 0.0.0.0/32 for a "
			    "wildcard bind";
	}
	r->prefix = (uint8_t)prefix;
	return true;
}

/* An IPv4 network written as IPv6 can only match as IPv4. */
static void rule_unmap(struct rule *r)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (r->prefix < 96 || memcmp(r->addr, mapped, sizeof(mapped)))
		return;
	memmove(r->addr, r->addr + 12, 4);
	memset(r->addr + 4, 0, 12);
	r->family = AF_INET;
	r->prefix = (uint8_t)(r->prefix - 96);
}

/* The address between `from` and `end`, and a prefix if there is one. */
static bool parse_ipv6_text(struct parser *ps, struct rule *r, const char *from,
			    const char *end)
{
	const char *slash = memchr(from, '/', (size_t)(end - from));
	size_t len = (size_t)((slash ? slash : end) - from);
	uint32_t prefix = 128;
	char buf[INET6_ADDRSTRLEN];

	if (len >= sizeof(buf))
		return parse_fail(ps, from, want_address);
	memcpy(buf, from, len);
	buf[len] = '\0';
	if (inet_pton(AF_INET6, buf, r->addr) != 1)
		return parse_fail(ps, from, want_address);
	ps->at = end;
	if (slash) {
		static const char want[] = "a prefix length from 0 to 128";

		ps->at = slash + 1;
		if (!parse_number(ps, 128, want, &prefix))
			return false;
		if (ps->at != end)
			return parse_fail(ps, ps->at, want);
	}
	r->family = AF_INET6;
	r->prefix = (uint8_t)prefix;
	return true;
}

/* "[2001:db8::1]", "[2001:db8::]/32" or "[2001:db8::/32]" */
static bool parse_ipv6_bracketed(struct parser *ps, struct rule *r)
{
	const char *from = ps->at + 1, *end = strchr(from, ']');
	uint32_t prefix = 128;

	if (!end)
		return parse_fail(ps, ps->at, "`]` behind the address");
	if (!parse_ipv6_text(ps, r, from, end))
		return false;
	ps->at = end + 1;
	if (parse_char(ps, '/')) {
		if (!parse_number(ps, 128, "a prefix length from 0 to 128",
				  &prefix))
			return false;
		r->prefix = (uint8_t)prefix;
	}
	return true;
}

/* Characters of a bare address with its port, before `*` or `-`. */
static size_t address_run(const char *s)
{
	return strspn(s, "0123456789abcdefABCDEF.:/");
}

/* Two colons or a letter before the first make it IPv6. */
static bool looks_ipv6(const char *s)
{
	size_t run = address_run(s), i;
	int colons = 0;

	for (i = 0; i < run; i++) {
		if (s[i] == ':')
			colons++;
		else if (!colons && strchr("abcdefABCDEF", s[i]))
			return true;
	}
	return colons > 1;
}

/* The last colon belongs to the port. */
static bool parse_ipv6_bare(struct parser *ps, struct rule *r)
{
	const char *end = memrchr(ps->at, ':', address_run(ps->at));

	if (!end)
		return parse_fail(ps, ps->at, want_address);
	return parse_ipv6_text(ps, r, ps->at, end);
}

bool parse_target(struct parser *ps, struct rule *r)
{
	bool ok = true;

	parse_blanks(ps);
	memset(r->addr, 0, sizeof(r->addr));
	r->family = 0;
	r->prefix = 0;
	if (*ps->at == '*')
		ps->at++;
	else if (*ps->at == '[')
		ok = parse_ipv6_bracketed(ps, r);
	else if (looks_ipv6(ps->at))
		ok = parse_ipv6_bare(ps, r);
	else
		ok = parse_ipv4(ps, r);
	if (!ok || !parse_ports(ps, r))
		return false;
	if (r->family == AF_INET6)
		rule_unmap(r);
	if (r->family)
		rule_mask(r);
	return true;
}
