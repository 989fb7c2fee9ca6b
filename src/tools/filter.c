/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/filter.h"

#include <arpa/inet.h>
#include <fnmatch.h>
#include <string.h>

#include "base/reason.h"
#include "base/text.h"
#include "tools/names.h"

void filter_init(struct filter *f)
{
	*f = (struct filter){ .port = -1,
			      .sport = -1,
			      .dport = -1,
			      .path = -1,
			      .state = -1,
			      .reason = -1 };
}

/* --- words -------------------------------------------------------------- */

static const char *number(const char *s, uint64_t most, int *to)
{
	uint64_t v;
	size_t n = text_number(s, most, &v);

	if (!n || s[n])
		return "expected a number in range";
	*to = (int)v;
	return NULL;
}

static const char *network(struct filter_net *net, char *s)
{
	char *slash = strchr(s, '/');
	int bits = 0, most;

	if (slash)
		*slash = '\0';
	net->family = strchr(s, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(net->family, s, net->ip) != 1)
		return "expected an address, or one with /BITS";
	most = net->family == AF_INET6 ? 128 : 32;
	bits = most;
	if (slash && number(slash + 1, (uint64_t)most, &bits))
		return "more bits than the address has";
	if (slash)
		*slash = '/';
	net->bits = (unsigned int)bits;
	net->set = true;
	return NULL;
}

static const char *path_word(struct filter *f, const char *s)
{
	f->sdp = !strcmp(s, "sdp");
	if (f->sdp)
		return NULL;
	f->path = path_find(s);
	return f->path < 0 ? "expected tcp, shm, rdma, sdp or listen" : NULL;
}

static const char *reason_word(struct filter *f, const char *s)
{
	f->reason = (int)reason_find(s);
	return f->reason == WHY_COUNT ? "no such reason (see libsdp(7))" : NULL;
}

static const char *state_word(struct filter *f, const char *s)
{
	if (!strcmp(s, "all"))
		return NULL;
	f->state = state_find(s);
	return f->state < 0 ? "expected new, listening, established, closing "
			      "or all" :
			      NULL;
}

static const char *const keys[] = { "program", "pid",	  "port", "sport",
				    "dport",   "address", "src",  "dst",
				    "path",    "reason",  "state" };

/* Has there been one with that key before? Both would have to fit. */
static bool again(struct filter *f, const char *key)
{
	const size_t n = sizeof(keys) / sizeof(keys[0]);
	unsigned int bit;
	size_t i;

	for (i = 0; i < n && strcmp(key, keys[i]); i++)
		;
	bit = i < n ? 1u << i : 0;
	if (f->given & bit)
		return true;
	f->given |= bit;
	return false;
}

static const char *pair(struct filter *f, const char *key, char *value)
{
	const char *why;

	if (!strcmp(key, "program")) {
		f->program = value;
		return NULL;
	}
	if (!strcmp(key, "pid")) {
		why = number(value, 1u << 30, &f->pid);
		return why || f->pid ? why : "expected a process id";
	}
	if (!strcmp(key, "port"))
		return number(value, 65535, &f->port);
	if (!strcmp(key, "sport"))
		return number(value, 65535, &f->sport);
	if (!strcmp(key, "dport"))
		return number(value, 65535, &f->dport);
	if (!strcmp(key, "address"))
		return network(&f->address, value);
	if (!strcmp(key, "src"))
		return network(&f->src, value);
	if (!strcmp(key, "dst"))
		return network(&f->dst, value);
	if (!strcmp(key, "path"))
		return path_word(f, value);
	if (!strcmp(key, "reason"))
		return reason_word(f, value);
	if (!strcmp(key, "state"))
		return state_word(f, value);
	return "keys are program, pid, port, sport, dport, address, src, dst, "
	       "path, reason and state";
}

const char *filter_add(struct filter *f, char *word)
{
	char *value = strchr(word, '=');
	const char *why;

	if (!value)
		return "expected KEY=VALUE or state STATE";
	*value++ = '\0';
	why = again(f, word) ? "that key is given twice" : pair(f, word, value);
	value[-1] = '='; /* for a message */
	return why;
}

/* --- sockets ------------------------------------------------------------ */

static bool in_net(const struct filter_net *net, const struct page_addr *a)
{
	unsigned int whole = net->bits / 8, rest = net->bits % 8;
	uint8_t mask = (uint8_t)(0xff << (8 - rest));
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	const uint8_t *ip = a->ip;

	/* of a socket for both families, with a peer by IPv4 */
	if (net->family == AF_INET && a->family == AF_INET6 &&
	    !memcmp(ip, mapped, sizeof(mapped)))
		ip += sizeof(mapped);
	else if (a->family != net->family)
		return false;
	return !memcmp(net->ip, ip, whole) &&
	       (!rest || !((net->ip[whole] ^ ip[whole]) & mask));
}

static bool names_fit(const struct filter *f, const struct page_row *r)
{
	if (f->sport >= 0 && r->local.port != f->sport)
		return false;
	if (f->dport >= 0 && r->peer.port != f->dport)
		return false;
	if (f->port >= 0 && r->local.port != f->port && r->peer.port != f->port)
		return false;
	if (f->src.set && !in_net(&f->src, &r->local))
		return false;
	if (f->dst.set && !in_net(&f->dst, &r->peer))
		return false;
	return !f->address.set || in_net(&f->address, &r->local) ||
	       in_net(&f->address, &r->peer);
}

static bool over_sdp(uint8_t path)
{
	return path == PATH_SHM || path == PATH_RDMA;
}

bool filter_process(const struct filter *f, const struct found *in)
{
	return (!f->pid || in->pid == f->pid) &&
	       (!f->program || !fnmatch(f->program, in->page->program, 0));
}

bool filter_rows(const struct filter *f)
{
	return f->family || f->port >= 0 || f->sport >= 0 || f->dport >= 0 ||
	       f->address.set || f->src.set || f->dst.set || f->path >= 0 ||
	       f->state >= 0 || f->reason >= 0 || f->sdp || f->listening;
}

bool filter_any(const struct filter *f, const struct found *in)
{
	size_t i;

	if (!filter_rows(f))
		return filter_process(f, in);
	for (i = 0; i < in->page->rows; i++)
		if (filter_fits(f, in, &in->page->row[i]))
			return true;
	for (i = 0; i < in->strays; i++)
		if (filter_fits(f, in, &in->stray[i]))
			return true;
	return false;
}

bool filter_fits(const struct filter *f, const struct found *in,
		 const struct page_row *r)
{
	if (!row_used(r) || !filter_process(f, in) ||
	    (f->family && r->local.family != f->family))
		return false;
	if (f->path >= 0 && r->path[0] != f->path && r->path[1] != f->path)
		return false;
	if (f->listening && r->state != 1)
		return false;
	if (f->sdp && !over_sdp(r->path[0]) && !over_sdp(r->path[1]))
		return false;
	return (f->state < 0 || r->state == (uint32_t)f->state) &&
	       (f->reason < 0 || r->why == (uint32_t)f->reason) &&
	       names_fit(f, r);
}
