/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The words of the anchor machine between two hosts: remote_world.h. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "remote_world.h"
#include "scale.h"

#define WORLDS	 SIM_SEEDS(20000)
#define LONGS	 SIM_SEEDS(4000)
#define CONTROLS 300000

/* --- tests ------------------------------------------------------------- */

static void test_worlds(void **state)
{
	uint64_t lifts = 0, stalls = 0, homes = 0, resumes = 0, ties = 0, seed;
	uint64_t aheads = 0, early = 0, sources = 0, read = 0, sunk = 0;

	(void)state;
	for (seed = 1; seed <= WORLDS; seed++) {
		if (play(seed, 0, 0))
			fail_msg("seed %llu: %s", (unsigned long long)seed,
				 w.fault);
		lifts += w.lifts;
		aheads += w.aheads;
		early += w.early;
		stalls += w.stalls;
		homes += w.homes;
		resumes += w.resumes;
		ties += w.ties;
		sources += w.sources;
		read += w.read;
		sunk += w.sunk;
	}
	/* the worlds are not empty */
	assert_true(lifts > WORLDS / 2);
	assert_true(aheads > WORLDS / 8);
	assert_true(early > WORLDS / 100);
	assert_true(stalls > WORLDS / 8);
	assert_true(homes > WORLDS / 8);
	assert_true(resumes > WORLDS / 200);
	assert_true(ties > WORLDS / 1000);
	assert_true(sources > WORLDS / 4);
	assert_true(read > WORLDS / 4);
	assert_true(sunk > WORLDS / 4);
}

/* The same where the queue pair breaks between any two steps. */
static void test_breaks(void **state)
{
	uint64_t breaks = 0, records = 0, backs = 0, again = 0, lost = 0, seed;
	uint64_t sources = 0, given_up = 0;

	(void)state;
	for (seed = 1; seed <= WORLDS; seed++) {
		if (play(seed, 0, PLAY_BREAKS))
			fail_msg("seed %llu: %s", (unsigned long long)seed,
				 w.fault);
		breaks += w.breaks;
		records += w.records;
		backs += w.backs;
		again += w.again;
		lost += w.lost;
		sources += w.sources;
		given_up += w.given_up;
	}
	print_message("%llu breaks, %llu records, %llu back, %llu again, "
		      "%llu lost, %llu sources, %llu of them given up\n",
		      (unsigned long long)breaks, (unsigned long long)records,
		      (unsigned long long)backs, (unsigned long long)again,
		      (unsigned long long)lost, (unsigned long long)sources,
		      (unsigned long long)given_up);
	assert_true(breaks > WORLDS / 2);
	assert_true(records > WORLDS / 8);
	assert_true(backs > WORLDS / 16);
	assert_true(again > WORLDS / 16);
	assert_true(sources > WORLDS / 50);
	assert_true(given_up > WORLDS / 500);
	assert_int_equal(lost, 0);
}

/* Lifts and stalls in a row, and ways home that were in vain. */
static void test_long(void **state)
{
	uint64_t lifts = 0, stalls = 0, early = 0, homes = 0, sources = 0;
	uint64_t breaks = 0, again = 0, writes = 0, sinks_up = 0, seed;
	unsigned int kind;

	(void)state;
	for (seed = 1; seed <= 2 * LONGS; seed++) {
		kind = seed & 1 ? PLAY_LONG : PLAY_LONG | PLAY_BREAKS;
		if (play(seed, 0, kind))
			fail_msg("seed %llu: %s", (unsigned long long)seed,
				 w.fault);
		lifts += w.lifts;
		stalls += w.stalls;
		early += w.early;
		homes += w.homes;
		sources += w.sources;
		breaks += w.breaks;
		again += w.again;
		writes += w.writes;
		sinks_up += w.sinks_up;
	}
	assert_true(writes > LONGS);
	assert_true(sinks_up > LONGS / 200);
	assert_true(lifts > 8 * LONGS);
	assert_true(stalls > 4 * LONGS);
	assert_true(early > LONGS);
	assert_true(homes > LONGS);
	assert_true(sources > 4 * LONGS);
	assert_true(breaks > LONGS);
	assert_true(again > LONGS);
}

/*
 * Programs speak by turns. One that waits for an answer says nothing that would
 * tell it that the queue pair is no more.
 */
static void test_turns(void **state)
{
	uint64_t lifts = 0, aheads = 0, breaks = 0, again = 0, seed;
	unsigned int kind;

	(void)state;
	for (seed = 1; seed <= 2 * WORLDS; seed++) {
		kind = seed & 1 ? PLAY_TURNS : PLAY_TURNS | PLAY_BREAKS;
		if (play(seed, 0, kind))
			fail_msg("seed %llu: %s", (unsigned long long)seed,
				 w.fault);
		lifts += w.lifts;
		aheads += w.aheads;
		breaks += w.breaks;
		again += w.again;
	}
	print_message("%llu lifts, %llu ahead, %llu breaks, %llu again\n",
		      (unsigned long long)lifts, (unsigned long long)aheads,
		      (unsigned long long)breaks, (unsigned long long)again);
	assert_true(lifts > WORLDS);
	assert_true(aheads > WORLDS / 8);
	assert_true(breaks > WORLDS / 2);
	assert_true(again > WORLDS / 16);
}

/* Programs end their directions, read no more, and want home. */
static void test_ends(void **state)
{
	uint64_t homes = 0, ended = 0, silent = 0, seed;

	(void)state;
	for (seed = 1; seed <= WORLDS; seed++) {
		if (play(seed, 0, PLAY_ENDS))
			fail_msg("seed %llu: %s", (unsigned long long)seed,
				 w.fault);
		homes += w.homes;
		ended += w.ended;
		silent += w.silent;
	}
	print_message("%llu homes, %llu behind both ends, %llu with bytes\n",
		      (unsigned long long)homes, (unsigned long long)ended,
		      (unsigned long long)silent);
	assert_true(homes > WORLDS / 8);
	assert_true(ended > WORLDS / 16);
	assert_true(silent > WORLDS / 16);
}

static const char *const rules[RULES] = {
	[RULE_SEEN] = "nothing on the anchor before the reader knows",
	[RULE_TCP_RX] = "no stream bytes around an old receive",
	[RULE_HELD] = "TCP use only when the writer holds still",
	[RULE_ANEW] = "and it said so of this time",
	[RULE_DRAINED] = "the switch only when drained",
	[RULE_EXACT] = "no answer before the marker is out",
	[RULE_BOUNDED] = "in front of x exact receives",
	[RULE_PASSED] = "no marker before x has been passed",
	[RULE_KEPT] = "what is sent before the lift is known is kept",
	[RULE_STAND] = "nothing follows a stall before it is known",
	[RULE_UNSURE] = "the reader leaves DRAINING when told",
	[RULE_JUDGE] = "failover alone takes the control bytes",
	[RULE_TRY] = "a wait for a word tries the queue pair",
	[RULE_SHOWN] = "the marker goes out before an answer",
	[RULE_HIDDEN] = "nothing is let go of in front of the marker",
	[RULE_LENT] = "what is lent when it breaks counts as sent",
	[RULE_RECALL] = "nothing moves while memory is lent",
	[RULE_REPORT] = "a report goes before words that count it",
	[RULE_GIVEN] = "TCP use only behind what came back",
	[RULE_WHOLE] = "nothing is put back before all of it came",
	[RULE_LAST] = "the last piece goes when the writer is in RESTORING",
	[RULE_HEARD] = "what is written is kept until it was heard of",
	[RULE_ANSWER] = "memory on offer comes back by an answer",
	[RULE_FIN] = "behind both DisConns the FIN waits for no word",
	[RULE_OVER] = "behind both DisConns a fallback asks for nothing",
	[RULE_DEAF] = "behind both DisConns words say nothing",
};

/* Seeds that are tried first: it went wrong there once. */
static const uint64_t first[RULES] = {
	[RULE_PASSED] = 3482, [RULE_HIDDEN] = 8266, [RULE_REPORT] = 2862,
	[RULE_WHOLE] = 3036,  [RULE_LAST] = 3222,   [RULE_HEARD] = 17409,
	[RULE_ANSWER] = 1786, [RULE_DEAF] = 1776,
};

static void test_controls(void **state)
{
	uint64_t seed = 0, i;
	unsigned int kind;
	int r;

	(void)state;
	for (r = 0; r < RULES; r++) {
		kind = r >= RULE_FIN  ? PLAY_ENDS :
		       r == RULE_ANEW ? PLAY_LONG :
		       r == RULE_TRY  ? PLAY_BREAKS | PLAY_TURNS :
		       r >= RULE_KEPT ? PLAY_BREAKS :
					0;
		for (i = 0; i <= CONTROLS; i++) {
			seed = i ? i : first[r];
			if (play(seed, 1u << r, kind))
				break;
		}
		if (i > CONTROLS)
			fail_msg("nothing goes wrong without: %s", rules[r]);
		print_message("%s: seed %llu: %s\n", rules[r],
			      (unsigned long long)seed, w.fault);
	}
}

/* Whatever a peer says, an unsound word is refused and none is half taken. */
static void test_liars(void **state)
{
	uint8_t in[REMOTE_LEN];
	uint64_t seed, refused = 0;
	uint32_t i, n;

	(void)state;
	for (seed = 1; seed <= WORLDS / 4; seed++) {
		struct end *e = &w.end[seed & 1];
		struct anc_page was;

		play(seed, 0, 0);
		n = 1 + rnd(4);
		memcpy(in, e->r.told[rnd(2)], sizeof(in));
		for (i = 0; i < n; i++)
			in[rnd(REMOTE_LEN)] = (uint8_t)rnd(256);
		was = e->mirror;
		if (remote_take(&e->r, in) < 0) {
			refused++;
			assert_memory_equal(&was, &e->mirror, sizeof(was));
		}
		assert_true(anc_state(e->rx) < ANC_STATES);
		assert_true(anc_state(e->tx) < ANC_STATES);
	}
	assert_true(refused > WORLDS / 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worlds), cmocka_unit_test(test_breaks),
		cmocka_unit_test(test_long),   cmocka_unit_test(test_controls),
		cmocka_unit_test(test_liars),  cmocka_unit_test(test_ends),
		cmocka_unit_test(test_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
