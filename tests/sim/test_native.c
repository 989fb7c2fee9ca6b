/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Native mode against simulated kernel sockets: thousands of random worlds.
 * A failing world prints its seed; `test_native SEED` runs that one alone
 * with a trace, `test_native FIRST COUNT` a range. Every case of kernel_peer.h
 * has to occur.
 */
#include "native_world.h"

#include <stdlib.h>
#include <string.h>

#define WORLDS 6000 /* SDP_WORLDS in the environment: so many */

static const char *const texts[] = {
#define NATIVE_TEXT(name, text) text,
	NATIVE_SEEN(NATIVE_TEXT)
};
static uint32_t counts[SEEN_COUNT];
static uint64_t rng;

void native_saw(enum native_seen what, bool really)
{
	counts[what] += really;
}

static unsigned int report(bool all)
{
	unsigned int i, missing = 0;

	for (i = 0; i < SEEN_COUNT; i++) {
		if (all || !counts[i])
			printf("%9u %s\n", counts[i], texts[i]);
		missing += !counts[i];
	}
	return missing;
}

/* --- chance ------------------------------------------------------------ */

static uint64_t rnd64(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

uint32_t native_rnd(uint32_t n)
{
	return (uint32_t)(rnd64() >> 32) % n;
}

uint64_t native_pause(uint64_t most)
{
	return most ? rnd64() % (most + 1) : 0;
}

uint8_t native_byte(bool kernel, uint64_t at)
{
	return (uint8_t)(at * 151 + (at >> 7) * 5 + (kernel ? 77 : 0));
}

/* One of a few orders of magnitude. */
static uint32_t scale(uint32_t n)
{
	return 1 + native_rnd(n >> (native_rnd(4) * 3) | 1);
}

/* --- plans ------------------------------------------------------------- */

struct pace { /* of one direction */
	uint32_t total, chunk, gulp;
	uint64_t write_gap, read_gap, lazy_until;
};

static struct pace random_pace(bool far)
{
	static const uint64_t gaps[] = { 0, 0, 300, 100000, 20 * KP_MS };
	struct pace p = {
		.total = native_rnd(10) ? scale(far ? 20000 : 200000) : 0,
		.gulp = scale(60000),
		.write_gap = gaps[native_rnd(5)],
		.read_gap = gaps[native_rnd(5)],
		.lazy_until = native_rnd(4) ? 0 : native_pause(3 * KP_S),
	};

	p.chunk = scale(60000);
	if (p.chunk < p.total / 500)
		p.chunk = p.total / 500;
	if (p.read_gap && p.gulp < 400)
		p.gulp = 400;
	if (!native_rnd(8)) { /* a minute and more */
		p.write_gap = native_pause(40 * KP_S);
		p.chunk = p.total / 4 + 1;
	}
	return p;
}

static uint32_t random_urgents(uint64_t *list, uint32_t total)
{
	uint32_t n = 0, at = 0;

	while (total && !native_rnd(3) && n < KP_URGENTS) {
		at += native_rnd(total);
		if (at >= total)
			break;
		list[n++] = at++;
	}
	return n;
}

static void random_kernel(struct kp_plan *p, bool far)
{
	static const uint32_t bufs[] = { 4096, 87380, 1 << 20 };
	struct pace pace = random_pace(far);

	p->total = pace.total;
	p->chunk = pace.chunk;
	p->gulp = pace.gulp;
	p->write_gap = pace.write_gap;
	p->read_gap = pace.read_gap;
	p->lazy_until = pace.lazy_until;
	p->urgents = random_urgents(p->urgent, pace.total);
	p->rcvbuf = bufs[native_rnd(3)];
	p->zcopy = native_rnd(3) ? 4096 : 0;
	p->nodelay = native_rnd(2);
	p->patient = !native_rnd(3);
	p->junk = !native_rnd(3);
	p->ask = native_rnd(5) ? 0 : scale(40000) - 1;
	p->gaps = native_rnd(8) ? 0 : 1 + native_rnd(50);
	p->strangers = native_rnd(8) ? 0 : 2 + native_rnd(20);
}

static void random_ours(struct native_plan *p, bool far, uint64_t delay)
{
	struct pace pace = random_pace(far);

	p->total = pace.total;
	p->chunk = pace.chunk;
	p->gulp = pace.gulp;
	p->write_gap = pace.write_gap;
	p->read_gap = pace.read_gap;
	p->lazy_until = pace.lazy_until;
	p->urgents = random_urgents(p->urgent, pace.total);
	if (!native_rnd(2))
		p->close_gap =
			native_pause(native_rnd(3) ? delay * 3 : 90 * KP_S);
	p->patient = !native_rnd(3);
	p->close = native_rnd(2);
	p->refuse = native_rnd(2) ? 0 : 1 + native_rnd(4);
	p->read_max = scale(60000);
	p->offers = native_rnd(3);
	p->tricks = native_rnd(3) ? 0 : 1 + native_rnd(20);
}

static struct conn_params random_conn(void)
{
	static const uint32_t sizes[] = { 32784, 8208, 4112 };
	uint32_t size = native_rnd(6) ? sizes[native_rnd(3)] :
					100 + native_rnd(2000);

	return (struct conn_params){
		.native = true,
		.rcv_size = size,
		.posted = (uint16_t)(5 + native_rnd(native_rnd(2) ? 4 : 60)),
		.max_adverts = (uint16_t)(1 + native_rnd(8)),
		.ext_flags = (uint8_t)native_rnd(32),
		.reads = native_rnd(2),
	};
}

/* Something ends before its time. */
static void random_end(struct native_setup *s)
{
	uint64_t at = 1 + native_pause(native_rnd(2) ? 5 * KP_S : 20 * KP_MS);

	switch (native_rnd(4)) {
	case 0:
		s->cut_at = at;
		break;
	case 1:
		s->plan.abort_at = at;
		break;
	case 2:
		s->plan.leave_at = at;
		break;
	default:
		s->kernel.leave_at = at;
	}
}

/* Few receives at both ends, much to say, and a long way. */
static void starve(struct native_setup *s)
{
	struct native_plan *p = &s->plan;
	struct kp_plan *k = &s->kernel;

	s->delay = native_rnd(2) ? 5 * KP_MS : 600 * KP_MS;
	s->conn.posted = 5;
	k->rcvbuf = 4096;
	k->nodelay = true;
	p->urgents = k->urgents = 0;
	p->total = native_rnd(3000);
	k->total = native_rnd(3000);
	p->chunk = k->chunk = p->gulp = k->gulp = 200;
	p->write_gap = k->write_gap = p->close_gap = s->delay * 3;
	p->read_gap = k->read_gap = s->delay * native_rnd(4);
	if (native_rnd(2))
		return;
	/* Its updates alone take what credits it has, while we do not read. */
	s->delay = 5 * KP_MS;
	p->total = 7000 + native_rnd(3000);
	p->lazy_until = s->delay * 200;
	p->write_gap = s->delay * 3;
	k->total = 250 + native_rnd(150);
	k->write_gap = s->delay * 60;
	k->patient = false;
}

/* Sources on so long a way that patience ends before the answer comes. */
static void far_sources(struct native_setup *s)
{
	s->delay = 600 * KP_MS;
	s->kernel.zcopy = 4096;
	s->kernel.urgents = 0;
	s->kernel.total = 60000;
	s->kernel.chunk = 30000;
}

/* We close our half over a source, to a kernel that has two receives. */
static void late_sources(struct native_setup *s)
{
	struct native_plan *p = &s->plan;

	s->conn.rcv_size = 4112;
	s->conn.reads = true;
	s->kernel.rcvbuf = 4096;
	s->kernel.lazy_until = 30 * KP_S;
	s->kernel.patient = p->patient = false;
	p->urgents = 0;
	p->total = 4096 + native_rnd(2000);
	p->chunk = 60; /* so many messages take the receives of the Hello */
	p->write_gap = 0;
	p->close_gap = native_pause(20 * KP_S);
	p->lazy_until = 0;
	p->gulp = 4000;
	p->read_max = 2000;
	p->read_gap = native_pause(s->delay);
}

/* We close our half on our last credits; the kernel has much to say yet. */
static void last_credits(struct native_setup *s)
{
	struct native_plan *p = &s->plan;
	struct kp_plan *k = &s->kernel;

	s->conn.posted = (uint16_t)(5 + native_rnd(8));
	s->conn.rcv_size = 1000;
	k->nodelay = true;
	k->rcvbuf = 4096;
	k->patient = p->patient = false;
	p->urgents = k->urgents = 0;
	s->delay = 5 * KP_MS;
	p->chunk = 60;
	p->total = 31 * p->chunk; /* 62 messages, more or less */
	k->total = 30000 + native_rnd(30000);
	k->chunk = 5000;
	k->ask = native_rnd(4) ? 28 : 0;
	p->write_gap = k->write_gap = 0;
	p->close_gap = native_rnd(2) ? 0 : native_pause(2 * s->delay);
	p->lazy_until = KP_MS + native_pause(3 * s->delay);
	p->gulp = 3000;
}

static void random_corner(struct native_setup *s)
{
	if (!native_rnd(10)) {
		starve(s);
	} else if (!native_rnd(10)) {
		last_credits(s);
	} else if (!native_rnd(10) && s->family == KP_OFED) {
		far_sources(s);
		if (native_rnd(2))
			late_sources(s);
	}
}

static bool random_world(struct native_world *w, uint64_t seed)
{
	static const uint64_t delays[] = { 0, 1000, 100000, 5 * KP_MS,
					   600 * KP_MS };
	struct native_setup *s = &w->set;
	bool far;

	memset(&w->set, 0, sizeof(w->set));
	rng = seed * 0x9e3779b97f4a7c15ull ^ 0x2545f4914f6cdd1dull;
	native_rnd(1);
	s->family = native_rnd(20) ? native_rnd(5) > 2 : KP_GEN1;
	s->active = native_rnd(2);
	s->hello_lost = s->family == KP_GEN1 && native_rnd(2);
	s->ipv = native_rnd(8) ? 4 : 6;
	if (s->family == KP_FREEBSD && !s->active)
		s->ipv = 4; /* it has no other socket */
	s->delay = delays[native_rnd(5)];
	s->stall = native_rnd(3) ? 0 : native_pause(30 * KP_MS);
	s->rtu = native_rnd(2) ? s->delay : s->delay + 2 * KP_MS;
	far = s->delay > KP_S / 10;
	s->conn = random_conn();
	random_ours(&s->plan, far, s->delay);
	random_kernel(&s->kernel, far);
	random_corner(s);
	/* One end has to close first. */
	if (s->plan.patient && s->kernel.patient)
		s->kernel.patient = false;
	if (!native_rnd(4))
		random_end(s);
	native_reset(w);
	if (native_start(w)) {
		native_saw(SEEN_OFED_ACTIVE, !s->family && !s->active);
		native_saw(SEEN_OFED_PASSIVE, !s->family && s->active);
		native_saw(SEEN_BSD_ACTIVE, s->family && !s->active);
		native_saw(SEEN_BSD_PASSIVE, s->family && s->active);
		native_saw(SEEN_IPV6, s->ipv == 6);
		return native_run(w);
	}
	return !w->fault[0];
}

/* --- the peer is strict ------------------------------------------------ */

/* Does a kernel take this message from us? Len is filled in. */
static bool takes(uint8_t mid, uint8_t flags, uint32_t len)
{
	const struct kp_plan p = { .total = 1, .rcvbuf = 1 << 20 };
	uint8_t msg[64] = {
		mid, flags, 0, 64, 0, 0, 0, (uint8_t)len, 0, 0, 0, 1
	};
	uint8_t ack[196];
	struct kp k;

	kp_start(&k, KP_OFED, &p);
	kp_hello_ack(&k, ack);
	if (len > 16 && mid == 0xff)
		msg[16] = native_byte(false, 0);
	kp_recv(&k, msg, len);
	return !k.fault[0];
}

static int strict(void)
{
	static const struct {
		uint8_t mid, flags;
		uint32_t len;
		bool taken;
	} cases[] = {
		{ 0xff, 0, 16, true },	{ 0xff, 0, 17, true },
		{ 0x02, 0, 16, true },	{ 0x02, 0, 20, false },
		{ 0xff, 2, 17, false }, { 0xff, 1, 17, false },
		{ 0xff, 4, 17, false }, { 0x02, 2, 16, false },
		{ 0x04, 0, 16, false }, { 0x06, 0, 20, false },
		{ 0x0c, 0, 20, false }, { 0x00, 0, 16, false },
		{ 0x01, 0, 24, false }, { 0x03, 0, 16, false },
		{ 0x05, 0, 20, false }, { 0x07, 0, 20, false },
		{ 0x08, 0, 16, false }, { 0x09, 0, 16, false },
		{ 0x0a, 0, 16, false }, { 0x0b, 0, 20, false },
		{ 0x0d, 0, 24, false }, { 0x0e, 0, 16, false },
		{ 0x40, 0, 48, false }, { 0xfd, 0, 36, false },
		{ 0xfe, 0, 33, false }, { 0xff, 0, 12, false },
	};
	int bad = 0;
	size_t i;

	rng = 1;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (takes(cases[i].mid, cases[i].flags, cases[i].len) ==
		    cases[i].taken)
			continue;
		printf("the kernel %s message %02x, flags %x, %u bytes\n",
		       cases[i].taken ? "does not take" : "takes", cases[i].mid,
		       cases[i].flags, cases[i].len);
		bad++;
	}
	return bad;
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, seed;
	const char *env = getenv("SDP_WORLDS");
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 0) :
			 argc > 1 ? 1 :
			 env	  ? strtoull(env, NULL, 0) :
				    WORLDS;
	static struct native_world w;
	int bad = strict();

	memset(counts, 0, sizeof(counts));
	w.trace = argc == 2 ? stdout : NULL;
	for (seed = first; seed < first + count && bad < 10; seed++) {
		if (random_world(&w, seed))
			continue;
		printf("world %llu: %s\n", (unsigned long long)seed, w.fault);
		bad++;
	}
	if (argc == 1 && !bad && report(false)) {
		printf("no world went through these\n");
		bad++;
	}
	if (argc > 1)
		report(true);
	printf("%llu worlds, %d failed\n", (unsigned long long)(seed - first),
	       bad);
	return bad != 0;
}
