/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two machines joined by a queue of messages in each direction, few receives,
 * random sizes, delays and readers: every byte arrives once and in order,
 * urgent bytes keep their place, and both ends close cleanly. A failing world
 * prints its seed; `test_conn_stream SEED` runs that one alone.
 */
#include "conn_util.h"

#include <stdio.h>
#include <stdlib.h>

#define WORLDS	3000
#define QUEUE	64
#define MSG_MAX 600
#define STEPS	400000

static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 33) % n;
}

struct packet {
	uint8_t bytes[MSG_MAX];
	uint32_t len;
};

struct end {
	struct conn c;
	struct packet in[QUEUE]; /* under way to this end */
	uint32_t first, count;
	uint32_t unread[QUEUE]; /* payloads not read by the program */
	uint32_t unread_first, unread_count;
	uint64_t total, sent, got, urgent_seen;
	uint32_t which;
	bool eof, down, shut, pending;
};

static uint8_t byte_at(uint32_t which, uint64_t at)
{
	return (uint8_t)(at * 167 + (at >> 8) + which * 31);
}

/* Every so many bytes one is urgent. */
static uint64_t next_urgent(uint64_t at)
{
	return at + (813 - at % 800) % 800;
}

static bool is_urgent(uint64_t at)
{
	return at % 800 == 13;
}

static void push(struct end *to, const struct end *from,
		 const struct conn_op *op)
{
	struct packet *p;
	uint32_t i;

	assert_true(to->count < QUEUE);
	p = &to->in[(to->first + to->count++) % QUEUE];
	p->len = op->hdr_len + op->payload;
	assert_true(p->len <= MSG_MAX);
	memcpy(p->bytes, op->hdr, op->hdr_len);
	for (i = 0; i < op->payload; i++)
		p->bytes[op->hdr_len + i] =
			byte_at(from->which, from->sent + i);
}

/* One answer of conn_next() carried out; false: nothing to do. */
static bool pump(struct end *e, struct end *peer, uint64_t now)
{
	struct conn_offer offer = { 0 };
	struct conn_op op;
	uint64_t urgent = next_urgent(e->sent);
	uint64_t left = e->total - e->sent;

	if (left)
		offer.bytes = 1 + rnd((uint32_t)left);
	if (offer.bytes && e->sent + offer.bytes > urgent) {
		offer.bytes = urgent - e->sent + 1;
		offer.oob_last = true;
	}
	if (!left && !e->shut) {
		conn_shutdown(&e->c, now, false);
		e->shut = true;
	}
	conn_next(&e->c, now, &offer, rnd(4) ? MSG_MAX : rnd(MSG_MAX), &op);
	switch (op.type) {
	case CONN_SEND:
		/* the program's memory is gone, now and then */
		if (op.hdr[0] == WIRE_DATA && op.payload && !rnd(8) &&
		    !is_urgent(e->sent + op.payload - 1))
			conn_bare(&e->c, &op);
		push(peer, e, &op);
		e->sent += op.payload;
		return true;
	case CONN_DISCONNECT:
		e->down = true;
		return true;
	default:
		assert_int_equal(op.type, CONN_NOTHING);
		return false;
	}
}

static void check_bytes(struct end *e, const struct end *peer,
			const struct packet *p, const struct conn_in *in)
{
	uint32_t i;

	if (in->oob_pending)
		e->pending = true;
	for (i = 0; i < in->len; i++) {
		bool last = i + 1 == in->len;

		assert_int_equal(p->bytes[in->off + i],
				 byte_at(peer->which, e->got + i));
		assert_int_equal(is_urgent(e->got + i), last && in->oob);
	}
	e->got += in->len;
	if (in->oob) {
		assert_true(e->pending);
		e->pending = false;
		e->urgent_seen++;
	}
}

static bool deliver(struct end *e, struct end *peer, uint64_t now)
{
	struct conn_in in;
	struct packet *p;

	if (!e->count) {
		if (!peer->down || e->down)
			return false;
		assert_int_equal(conn_on_disconnected(&e->c, now), 0);
		e->down = true;
		return true;
	}
	p = &e->in[e->first];
	e->first = (e->first + 1) % QUEUE;
	e->count--;
	assert_int_equal(conn_on_recv(&e->c, now, p->bytes, p->len, &in), 0);
	check_bytes(e, peer, p, &in);
	e->eof |= in.eof;
	if (in.len) {
		assert_true(e->unread_count < QUEUE);
		e->unread[(e->unread_first + e->unread_count++) % QUEUE] =
			in.len;
	} else {
		conn_reposted(&e->c, 1);
	}
	return true;
}

static bool program_reads(struct end *e)
{
	if (!e->unread_count)
		return false;
	e->unread_first = (e->unread_first + 1) % QUEUE;
	e->unread_count--;
	conn_reposted(&e->c, 1);
	return true;
}

static void sometimes(struct end *e, uint64_t now)
{
	switch (rnd(20)) {
	case 0:
		conn_set_mode(&e->c, rnd(3));
		break;
	case 1:
		assert_int_equal(conn_on_timer(&e->c, now), 0);
		break;
	}
}

static bool over(const struct end *e)
{
	return e->down && !e->count && !e->unread_count;
}

static void birth(struct end *a, struct end *b)
{
	struct conn_params p[2];

	for (int i = 0; i < 2; i++) {
		p[i] = params(false);
		p[i].posted = (uint16_t)(4 + rnd(rnd(2) ? 1 : 12));
		p[i].rcv_size = 24 + rnd(rnd(2) ? 8 : 200);
	}
	memset(a, 0, sizeof(*a));
	memset(b, 0, sizeof(*b));
	join(&a->c, &p[0], &b->c, &p[1]);
	b->which = 1;
	a->total = rnd(3) ? rnd(6000) : 0;
	b->total = rnd(3) ? rnd(6000) : 0;
}

static void step(struct end *e, struct end *peer, uint32_t lazy, uint64_t *now)
{
	switch (rnd(4)) {
	case 0:
		pump(e, peer, *now);
		break;
	case 1:
		deliver(e, peer, *now);
		break;
	case 2:
		if (!rnd(lazy))
			program_reads(e);
		break;
	default:
		sometimes(e, *now);
		*now += rnd(3000000);
	}
}

static void world(uint64_t seed)
{
	static struct end e[2];
	uint64_t now = 1000000000;
	uint32_t i, side, lazy[2];

	rng = seed * 0x9e3779b97f4a7c15ull | 1;
	birth(&e[0], &e[1]);
	lazy[0] = 1 + rnd(8);
	lazy[1] = 1 + rnd(8);
	for (i = 0; i < STEPS && !(over(&e[0]) && over(&e[1])); i++) {
		side = rnd(2);
		step(&e[side], &e[!side], lazy[side], &now);
	}
	for (side = 0; side < 2; side++) {
		uint64_t total = e[!side].total;

		assert_true(i < STEPS);
		assert_true(e[side].got == total);
		assert_true(e[side].eof);
		assert_int_equal(e[side].c.error, 0);
		assert_true(e[side].c.rx_stream == total);
		assert_true(e[side].urgent_seen == (total + 786) / 800);
	}
}

static uint64_t only, running; /* seeds; 0: all, none */

static void worlds(void **state)
{
	uint64_t last = only ? only : WORLDS;

	(void)state;
	for (running = only ? only : 1; running <= last; running++)
		world(running);
	running = 0;
}

static int tell_seed(void **state)
{
	(void)state;
	if (running)
		print_error("failing seed: %llu\n",
			    (unsigned long long)running);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(
		worlds, tell_seed) };

	if (argc > 1)
		only = strtoull(argv[1], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
