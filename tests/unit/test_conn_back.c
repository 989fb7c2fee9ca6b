/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Unread bytes handed back, by both ends at once, while neither program reads:
 * what was sent holds as many receives as Data may take, and words go in
 * between. Every order of steps that a seed gives comes to an end, because
 * what is handed back holds no receive.
 */
#include <string.h>

#include "conn_util.h"

#define WORLDS	   2000
#define STEPS	   20000
#define WAY	   64
#define NS_A_STEP  100000u /* 0.1 ms */
#define WHOLE	   60000u
#define DATA_BYTES 1000u

static struct end {
	struct conn c;
	struct {
		uint8_t hdr[CONN_HDR_MAX];
		uint32_t len;
	} way[WAY]; /* said and not heard yet */
	unsigned int said, heard;
	uint64_t data, back; /* to be sent, to be handed back */
	uint32_t words;
} end[2];

static uint64_t seed, now;

static unsigned int any(unsigned int n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned int)(seed >> 33) % n;
}

static void begin(uint64_t world)
{
	struct conn_params pa = params(false), pb = params(false);
	int i;

	seed = world * 0x9e3779b97f4a7c15ull + 1;
	any(2);
	pa.ext_flags |= CONN_EXT_WORDS;
	pb.ext_flags |= CONN_EXT_WORDS;
	pa.posted = (uint16_t)(4 + any(6));
	pb.posted = (uint16_t)(4 + any(6));
	memset(end, 0, sizeof(end));
	join(&end[0].c, &pa, &end[1].c, &pb);
	now = 1;
	for (i = 0; i < 2; i++) {
		end[i].data = any(4) ? WHOLE : 0;
		end[i].back = any(4) ? WHOLE : 1 + any(WHOLE);
		end[i].words = any(20);
	}
}

static void say(struct end *e)
{
	struct conn_offer offer = { 0 };
	static uint8_t w[CONN_WORDS];
	struct conn_op op;

	if (e->words && !any(3)) {
		e->words--;
		w[0]++;
		assert_int_equal(conn_words(&e->c, any(2), w), 0);
	}
	if (e->data && any(2))
		offer.bytes = e->data < DATA_BYTES ? e->data : DATA_BYTES;
	else
		offer.back = e->back;
	conn_next(&e->c, now, &offer, 1 << 20, &op);
	if (op.type != CONN_SEND)
		return;
	assert_in_range(e->said - e->heard, 0, WAY - 1);
	memcpy(e->way[e->said % WAY].hdr, op.hdr, op.hdr_len);
	e->way[e->said++ % WAY].len = op.hdr_len + op.payload;
	if (op.hdr[0] == WIRE_BACK)
		e->back -= op.payload;
	else
		e->data -= op.payload;
}

/* `leaks`: a receive is gone with each that was handed back. */
static void hear(struct end *e, struct end *peer, bool leaks)
{
	struct conn_in in;

	if (peer->said == peer->heard)
		return;
	assert_int_equal(conn_on_recv(&e->c, now,
				      peer->way[peer->heard % WAY].hdr,
				      peer->way[peer->heard % WAY].len, &in),
			 0);
	peer->heard++;
	/* what has stream bytes stays: nothing reads */
	if (!in.len && !(leaks && in.back))
		conn_reposted(&e->c, 1);
}

/* Has all come back? */
static bool play(uint64_t world, bool leaks)
{
	unsigned int k, i;

	begin(world);
	for (k = 0; k < STEPS; k++) {
		i = any(2);
		now += NS_A_STEP;
		assert_int_equal(conn_on_timer(&end[i].c, now), 0);
		if (any(2))
			say(&end[i]);
		else
			hear(&end[i], &end[!i], leaks);
		if (!end[0].back && !end[1].back && !end[0].words &&
		    !end[1].words && end[0].said == end[0].heard &&
		    end[1].said == end[1].heard && !end[0].c.words_due &&
		    !end[1].c.words_due)
			return true;
	}
	return false;
}

static void both_at_once(void **state)
{
	uint64_t world;

	(void)state;
	for (world = 1; world <= WORLDS; world++)
		if (!play(world, false))
			fail_msg("world %u: it does not come back",
				 (unsigned int)world);
}

static void not_if_receives_leak(void **state)
{
	uint64_t world, stuck = 0;

	(void)state;
	for (world = 1; world <= WORLDS / 20; world++)
		stuck += !play(world, true);
	assert_int_equal(stuck, WORLDS / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_at_once),
		cmocka_unit_test(not_if_receives_leak),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
