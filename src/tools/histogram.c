/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/histogram.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "tools/ended.h"
#include "tools/out.h"

#define BAR 48 /* of the fullest bucket; 80 columns with what is before it */

struct histogram {
	const char *title;
	const char *key; /* in JSON */
	const char *metric, *help, *label; /* of Prometheus; `label` or "" */
	size_t sum, first; /* offsets in struct page_counters */
	unsigned int count, least;
	bool time; /* ns, buckets by microseconds; else bytes */
};

#define AT(member)	   offsetof(struct page_counters, member)
#define SIZES(way)	   AT(h.sizes_##way.bytes), AT(h.sizes_##way.n), PAGE_SIZES
#define DIRECTION(name)	   "direction=\"" name "\""
#define SIZES_OF(key, way) "message_size_bytes", key, DIRECTION(way)

static const struct histogram list[] = {
	{ "messages sent, bytes", "sizes_tx",
	  SIZES_OF("Bytes of the stream in each SDP message.", "transmitted"),
	  SIZES(tx), PAGE_SIZE_LEAST, false },
	{ "messages received, bytes", "sizes_rx", SIZES_OF(NULL, "received"),
	  SIZES(rx), PAGE_SIZE_LEAST, false },
	{ "spun", "spun_ns", "spin_duration_seconds",
	  "Time that a waiting call spun.", "", AT(spin_ns), AT(h.spun),
	  PAGE_SPUN, 0, true },
	{ "slept", "slept_ns", "sleep_duration_seconds",
	  "Time that a blocking call slept.", "", AT(sleep_ns), AT(slept),
	  PAGE_SLEPT, 0, true },
};

#define LISTED (sizeof(list) / sizeof(list[0]))

static const uint64_t *word(const struct page_counters *c, size_t offset)
{
	return (const void *)((const char *)c + offset);
}

static uint64_t in_all(const struct histogram *h, const struct page_counters *c)
{
	uint64_t n = 0;
	unsigned int i;

	for (i = 0; i < h->count; i++)
		ended_add(&n, word(c, h->first)[i]);
	return n;
}

/* What the bucket goes up to: bytes or ns; the last has no bound. */
static uint64_t bound(const struct histogram *h, unsigned int i)
{
	return (h->time ? 1000ull : 1ull) << (h->least + i);
}

/* --- for people ---------------------------------------------------------- */

static const char *time_text(double ns, char *buf, size_t size)
{
	if (ns < 999500)
		snprintf(buf, size, "%.3g us", ns / 1e3);
	else if (ns < 999500000)
		snprintf(buf, size, "%.3g ms", ns / 1e6);
	else
		snprintf(buf, size, "%.4g s", ns / 1e9);
	return buf;
}

static const char *value_text(const struct histogram *h, double v, char *buf,
			      size_t size)
{
	if (h->time)
		return time_text(v, buf, size);
	snprintf(buf, size, "%.0f", v);
	return buf;
}

static void bar(const struct histogram *h, unsigned int i, uint64_t n,
		double all, double most)
{
	bool last = i == h->count - 1;
	char value[32], label[40], number[24];
	int len = (int)((double)n / most * BAR);

	value_text(h, (double)bound(h, last ? i - 1 : i), value, sizeof(value));
	snprintf(label, sizeof(label), "%s %s", last ? ">" : "<=", value);
	snprintf(number, sizeof(number), n < 10000000000u ? "%.0f" : "%.3e",
		 (double)n);
	printf("  %12s %10s %3.0f%%", label, number, (double)n / all * 100);
	if (n)
		printf(" %.*s", len ? len : 1,
		       "################################################");
	putchar('\n');
}

/* From the first bucket with something in it to the last. */
static void bars(const struct histogram *h, const struct page_counters *c)
{
	const uint64_t *n = word(c, h->first);
	unsigned int i, first = h->count, last = 0;
	uint64_t all = in_all(h, c), most = 0;
	char mean[32];

	for (i = 0; i < h->count; i++) {
		if (!n[i])
			continue;
		first = first < i ? first : i;
		last = i;
		most = most > n[i] ? most : n[i];
	}
	if (!all)
		return;
	value_text(h, (double)*word(c, h->sum) / (double)all, mean,
		   sizeof(mean));
	printf("  %s: %" PRIu64 " times, %s on average\n", h->title, all, mean);
	for (i = first; i <= last; i++)
		bar(h, i, n[i], (double)all, (double)most);
}

void histogram_print(const struct found *f)
{
	struct page_counters c;
	size_t i;

	scan_totals(f->page, &c);
	out_clean(stdout, f->page->program);
	printf(", process %d\n", f->pid);
	for (i = 0; i < LISTED; i++)
		bars(&list[i], &c);
}

/* --- for machines -------------------------------------------------------- */

void histogram_json(const struct page_counters *c)
{
	unsigned int k;
	size_t i;

	printf(",\"histograms\":{");
	for (i = 0; i < LISTED; i++) {
		const struct histogram *h = &list[i];

		printf("%s\"%s\":{\"count\":%" PRIu64 ",\"sum\":%" PRIu64
		       ",\"buckets\":{",
		       i ? "," : "", h->key, in_all(h, c), *word(c, h->sum));
		for (k = 0; k < h->count - 1; k++)
			printf("\"%" PRIu64 "\":%" PRIu64 ",", bound(h, k),
			       word(c, h->first)[k]);
		printf("\"more\":%" PRIu64 "}}", word(c, h->first)[k]);
	}
	printf("}");
}

static void sample(const struct histogram *h, const char *suffix,
		   const char *le, uint64_t n)
{
	const char *comma = *h->label && *le ? "," : "";
	bool labels = *h->label || *le;

	printf("libsdp_%s_%s%s%s%s%s%s %" PRIu64 "\n", h->metric, suffix,
	       labels ? "{" : "", h->label, comma, le, labels ? "}" : "", n);
}

static void samples(const struct histogram *h, const struct page_counters *c)
{
	uint64_t below = 0, sum = *word(c, h->sum);
	unsigned int i;
	char le[32];

	for (i = 0; i < h->count - 1; i++) {
		ended_add(&below, word(c, h->first)[i]);
		snprintf(le, sizeof(le), "le=\"%.7g\"",
			 (double)bound(h, i) / (h->time ? 1e9 : 1));
		sample(h, "bucket", le, below);
	}
	sample(h, "bucket", "le=\"+Inf\"", in_all(h, c));
	if (h->time)
		printf("libsdp_%s_sum %" PRIu64 ".%09" PRIu64 "\n", h->metric,
		       sum / 1000000000u, sum % 1000000000u);
	else
		sample(h, "sum", "", sum);
	sample(h, "count", "", in_all(h, c));
}

void histogram_prometheus(const struct page_counters *c)
{
	size_t i;

	for (i = 0; i < LISTED; i++) {
		if (list[i].help)
			printf("# HELP libsdp_%s %s\n"
			       "# TYPE libsdp_%s histogram\n",
			       list[i].metric, list[i].help, list[i].metric);
		samples(&list[i], c);
	}
}
