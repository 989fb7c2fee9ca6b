/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/json.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/reason.h"
#include "tools/histogram.h"
#include "tools/names.h"
#include "tools/out.h"

static void json_addr(const char *name, const struct page_addr *a)
{
	char ip[INET6_ADDRSTRLEN];

	if (a->family != AF_INET && a->family != AF_INET6) {
		printf(",\"%s\":null", name);
		return;
	}
	inet_ntop(a->family, a->ip, ip, sizeof(ip));
	printf(",\"%s\":{\"address\":\"%s\",\"port\":%u}", name, ip, a->port);
}

static void json_socket(const struct page_row *r)
{
	enum reason why = (enum reason)r->why;

	printf("{\"fd\":%d,\"inode\":%" PRIu64 ",\"state\":\"%s\","
	       "\"role\":\"%s\"",
	       r->fd, r->inode, state_name(r->state), role_name(r->role));
	json_addr("local", &r->local);
	json_addr("peer", &r->peer);
	printf(",\"path\":{\"tx\":\"%s\",\"rx\":\"%s\"},\"rule\":\"%s\","
	       "\"rule_line\":%u,\"reason\":\"%s\",\"text\":",
	       path_name(r->path[0]), path_name(r->path[1]), rule_name(r->rule),
	       r->rule_line, reason_name(why));
	out_json(stdout, reason_text(why));
#define X(name) printf(",\"" #name "\":%" PRIu64, r->name);
	X(bytes_sdp_tx)
	X(bytes_sdp_rx)
	X(bytes_tcp_tx)
	X(bytes_tcp_rx)
	X(msgs_tx)
	X(msgs_rx)
	X(wakeups)
	X(zcopy)
	X(fallbacks)
#undef X
	printf(",\"homecomings\":%" PRIu64, r->fallbacks);
	if (r->device[0]) {
		printf(",\"device\":");
		out_json(stdout, r->device);
		printf(",\"registered\":%" PRIu64, r->registered);
	}
	printf("}");
}

static uint64_t registered(const struct found *f)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < f->page->rows; i++)
		if (row_used(&f->page->row[i]))
			sum += f->page->row[i].registered;
	return sum;
}

static void json_process(const struct found *f, const struct filter *filter,
			 bool sockets)
{
	const struct page *p = f->page;
	const char *comma = "";
	struct page_counters c;
	size_t i;

	scan_totals(p, &c);
	printf("{\"pid\":%d,\"program\":", f->pid);
	out_json(stdout, p->program);
	printf(",\"uid\":%u,\"start\":%" PRIu64, p->uid, p->start);
#define X(name) printf(",\"" #name "\":%" PRIu64, c.name);
	PAGE_COUNTERS(X)
#undef X
#define X(name, former) printf(",\"" #former "\":%" PRIu64, c.name);
	PAGE_FORMER(X)
#undef X
	printf(",\"reasons\":{");
	for (i = 0; i < WHY_COUNT; i++) {
		if (!c.reasons[i])
			continue;
		printf("%s\"%s\":%" PRIu64, comma, reason_name((enum reason)i),
		       c.reasons[i]);
		comma = ",";
	}
	printf("},\"open\":%zu,\"registered\":%" PRIu64, scan_open(f),
	       registered(f));
	histogram_json(&c);
	if (sockets)
		printf(",\"list\":[");
	for (i = 0, comma = ""; sockets && i < p->rows; i++) {
		if (!filter_fits(filter, f, &p->row[i]))
			continue;
		printf("%s", comma);
		json_socket(&p->row[i]);
		comma = ",";
	}
	for (i = 0; sockets && i < f->strays; i++) {
		if (!filter_fits(filter, f, &f->stray[i]))
			continue;
		printf("%s", comma);
		json_socket(&f->stray[i]);
		comma = ",";
	}
	printf(sockets ? "]}" : "}");
}

void json_print(const struct found *found, size_t count,
		const struct filter *filter, bool sockets)
{
	const char *comma = "";
	size_t i;

	printf("[");
	for (i = 0; i < count; i++) {
		if (!filter_any(filter, &found[i]))
			continue;
		printf("%s\n", comma);
		json_process(&found[i], filter, sockets);
		comma = ",";
	}
	printf("\n]\n");
}
