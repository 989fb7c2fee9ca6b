/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cases of fabtest: bytes go there and back. */

#include "fabtest.h"

static void begin(struct rig *r)
{
	rig_open(r);
	rig_meet(r);
}

static void finish(struct rig *r)
{
	rig_part(r);
	rig_close(r);
}

/* n bytes there, then n back. */
static void turn(struct rig *r, uint32_t n)
{
	if (r->server) {
		rig_run(r, 0, n, n);
		rig_run(r, n, 0, n);
	} else {
		rig_run(r, n, 0, n);
		rig_run(r, 0, n, n);
	}
}

/* Sizes around every boundary, sleeping; an idle end is small. */
void fab_echo(struct rig *r)
{
	static const uint32_t sizes[] = { 1,	2,    40,    64,    239,
					  240,	241,  1024,  4096,  8191,
					  8192, 8193, 20000, 65536, 100000 };
	struct verbs_info info;
	int fds = rig_low_fds();
	unsigned int i;

	begin(r);
	IS(rig_low_fds(), fds);
	r->api->info(r->end, &info);
	CHECK(info.soft && !info.iwarp && info.device[0]);
	IS(info.posted, VERBS_RCV_REST);
	CHECK(info.registered && info.registered <= VERBS_IDLE_MAX);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		turn(r, sizes[i]);
	CHECK(r->got == r->sent);
	finish(r);
	/* librdmacm's context stays, and stays hidden */
	IS(rig_hidden, 2);
	IS(rig_low_fds(), fds);
}

/* One way, as fast as it goes, then the other; small again when idle. */
void fab_stream(struct rig *r)
{
	const uint64_t total = 16 << 20;
	struct verbs_info info;

	r->grow = true;
	begin(r);
	rig_run(r, r->server ? 0 : total, r->server ? total : 0, 1 << 20);
	rig_run(r, r->server ? total : 0, r->server ? 0 : total, 1 << 20);
	turn(r, 1);
	r->api->info(r->end, &info);
	CHECK(info.registered > VERBS_IDLE_MAX);
	finish(r);
}

/* Both ways at once, in odd sizes. */
void fab_duplex(struct rig *r)
{
	begin(r);
	rig_run(r, 3 << 20, 3 << 20, 777);
	r->grow = true;
	rig_run(r, 6 << 20, 6 << 20, 33333);
	finish(r);
}

/* Every size across the boundary of inline sends. */
void fab_inlines(struct rig *r)
{
	uint32_t n;

	begin(r);
	for (n = VERBS_INLINE - 24; n < VERBS_INLINE + 24; n++)
		turn(r, n);
	finish(r);
}

#define ROUNDS 1000

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Half a round trip: the least, and the median. */
static void lat(struct rig *r, uint32_t n, bool spin)
{
	static uint64_t t[ROUNDS];
	int i;

	r->spin = spin;
	for (i = 0; i < 100; i++)
		turn(r, n);
	for (i = 0; i < ROUNDS; i++) {
		t[i] = rig_ns();
		turn(r, n);
		t[i] = rig_ns() - t[i];
	}
	qsort(t, ROUNDS, sizeof(t[0]), compare);
	if (!r->server)
		printf("lat %u bytes, %s: least %.2f, median %.2f us\n", n,
		       spin ? "polling" : "events", (double)t[0] / 2000,
		       (double)t[ROUNDS / 2] / 2000);
}

void fab_lat(struct rig *r)
{
	begin(r);
	r->blind = true;
	lat(r, 1, true);
	lat(r, 1024, true);
	lat(r, 1, false);
	lat(r, 1024, false);
	r->spin = false;
	finish(r);
}

void fab_bw(struct rig *r)
{
	const uint64_t total = 16 << 20;
	uint64_t t;
	int spin;

	r->grow = r->blind = true;
	begin(r);
	for (spin = 1; spin >= 0; spin--) {
		r->spin = spin;
		turn(r, 1 << 20);
		t = rig_ns();
		rig_run(r, r->server ? 0 : total, r->server ? total : 0, 65536);
		turn(r, 1);
		t = rig_ns() - t;
		if (!r->server)
			printf("bw 64 KiB, %s: %.1f MB/s\n",
			       spin ? "polling" : "events",
			       (double)total * 1000 / (double)t);
	}
	finish(r);
}
