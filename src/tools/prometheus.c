/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/prometheus.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/reason.h"
#include "tools/ended.h"
#include "tools/histogram.h"

_Static_assert(WHY_COUNT <= PAGE_REASONS, "room for each reason");

struct sum {
	struct page_counters c;
	uint64_t sockets, unlifted[PAGE_REASONS];
	uint64_t shared, registered;
};

static void add_row(struct sum *s, const struct page_row *r)
{
	if (r->fd < 0)
		return;
	s->sockets++;
	ended_add(&s->registered, r->registered);
	if (r->path[0] == PATH_TCP && r->path[1] == PATH_TCP &&
	    r->why < WHY_COUNT)
		s->unlifted[r->why]++;
}

static void add_process(struct sum *s, const struct found *f)
{
	const struct page *p = f->page;
	struct page_counters now;
	const uint64_t *word = (const void *)&now, *had;
	uint64_t *to = (void *)&s->c;
	size_t i;

	scan_totals(p, &now);
	had = (const void *)&p->summed;
	for (i = 0; i < PAGE_WORDS; i++)
		ended_add(&to[i], word[i] > had[i] ? word[i] - had[i] : 0);
	for (i = 0; i < p->rows; i++)
		add_row(s, &p->row[i]);
	for (i = 0; i < f->strays; i++)
		add_row(s, &f->stray[i]);
	ended_add(&s->shared, p->shm_rings);
	ended_add(&s->shared, p->shm_heads);
}

static void head(const char *name, const char *type, const char *help)
{
	printf("# HELP libsdp_%s %s\n# TYPE libsdp_%s %s\n", name, help, name,
	       type);
}

static void plain(const char *name, const char *type, const char *help,
		  uint64_t value)
{
	head(name, type, help);
	printf("libsdp_%s %" PRIu64 "\n", name, value);
}

/* All of them, zeros too: a series that begins with 1 has no increase. */
static void by_reason(const char *name, const uint64_t *value)
{
	int i;

	for (i = 0; i < WHY_COUNT; i++)
		if (i != WHY_NONE && i != WHY_LISTENER)
			printf("libsdp_%s{reason=\"%s\"} %" PRIu64 "\n", name,
			       reason_name((enum reason)i), value[i]);
}

static void by_path(const char *name, uint64_t tcp, uint64_t sdp, uint64_t rdma)
{
	printf("libsdp_%s{path=\"tcp\"} %" PRIu64 "\n", name, tcp);
	printf("libsdp_%s{path=\"shm\"} %" PRIu64 "\n", name,
	       sdp > rdma ? sdp - rdma : 0);
	printf("libsdp_%s{path=\"rdma\"} %" PRIu64 "\n", name, rdma);
}

static void print_counters(const struct page_counters *c)
{
	uint64_t messages = c->msgs_tx;

	ended_add(&messages, c->msgs_rx);
	plain("lifts_total", "counter", "Connections lifted to SDP.",
	      c->lifted);
	head("fallbacks_total", "counter",
	     "Lifted connections that went on over TCP, by cause.");
	by_reason("fallbacks_total", c->fallbacks_for);
	head("transmitted_bytes_total", "counter",
	     "Bytes sent by programs, by the way they took.");
	by_path("transmitted_bytes_total", c->bytes_tcp_tx, c->bytes_sdp_tx,
		c->bytes_rdma_tx);
	head("received_bytes_total", "counter",
	     "Bytes received by programs, by the way they took.");
	by_path("received_bytes_total", c->bytes_tcp_rx, c->bytes_sdp_rx,
		c->bytes_rdma_rx);
	plain("messages_total", "counter", "SDP messages sent and received.",
	      messages);
	plain("wakeups_total", "counter", "Sleepers woken at the other end.",
	      c->wakeups_tx);
	head("spin_seconds_total", "counter",
	     "Time that waiting calls spent spinning, in seconds.");
	printf("libsdp_spin_seconds_total %" PRIu64 ".%09" PRIu64 "\n",
	       c->spin_ns / 1000000000u, c->spin_ns % 1000000000u);
}

void prometheus_print(const struct found *found, size_t count,
		      const struct page_counters *ended)
{
	struct sum s = { .c = *ended };
	size_t i;

	for (i = 0; i < count; i++)
		add_process(&s, &found[i]);
	head("build_info", "gauge", "Version of the tool that wrote this.");
	printf("libsdp_build_info{version=\"%s\"} 1\n", PACKAGE_VERSION);
	plain("sockets", "gauge", "Open TCP sockets of programs with libsdp.",
	      s.sockets);
	head("unlifted_sockets", "gauge",
	     "Open sockets on TCP both ways, by reason.");
	by_reason("unlifted_sockets", s.unlifted);
	print_counters(&s.c);
	histogram_prometheus(&s.c);
	plain("shared_memory_bytes", "gauge",
	      "Shared memory of connections within the host.", s.shared);
	plain("registered_memory_bytes", "gauge",
	      "Memory registered with RDMA devices.", s.registered);
}
