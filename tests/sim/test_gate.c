/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The gate in front of a sink (fabric/shm/gate.h): all orders of the steps of
 * a writer, of the kernel that writes for it, and of an owner that wants its
 * memory back; with the writer stopped for good or killed at any of them, and
 * memory that is missing. In no order is a byte written after the owner has
 * left, both ends count the same, and the owner gets away from a writer that is
 * stopped. Rules broken on purpose are found out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/shm/gate.h"

#define PIECES 2u /* of a write */
#define BASE   5u /* bytes that an earlier write has brought */
#define STATES (1u << 18)

enum writer { W_ENTER, W_CALL, K_IN, K_GATE, K_BYTES, K_OUT, W_LEAVE, W_END };
enum owner { O_SHUT, O_GATE, O_LOOK, O_SEE, O_DECIDE, O_LEFT, O_AGAIN };

/* What is broken on purpose. */
enum control {
	NONE,
	NO_GATE, /* the page stays */
	LOOK_FIRST, /* at the mark, and then the page goes */
	SEE_EARLY, /* the thread was seen stopped before the page went */
	NO_SWAP, /* the owner decides without looking */
	MARK_LATE, /* the writer asks where the gate is after it has entered */
	GATE_AGAIN, /* a gate something stands in front of is used again */
	CONTROLS
};

struct world {
	struct shm_sink k;
	struct gate_mark m[2]; /* of the first sink, of the one after it */
	bool open[2];
	uint64_t op, shut;
	uint32_t written, n, counted;
	uint8_t w, o, way;
	uint8_t at; /* whose gate the writer knows */
	bool again; /* it is the second's */
	bool out, stopped, dead;
	uint32_t got; /* what the owner returns */
};

static struct world *seen;
static uint8_t *used;
static unsigned int states;
static const char *fault;
static enum control control;

static bool in_kernel(const struct world *s)
{
	return s->w >= K_IN && s->w <= K_OUT;
}

/* --- the writer and its kernel; `missing`: memory that is not there ----- */

static void writer(struct world *s, bool missing)
{
	switch (s->w) {
	case W_ENTER:
		s->w = gate_enter(&s->k, 1, &s->op) ? W_CALL : W_END;
		break;
	case W_CALL:
		if (control == MARK_LATE)
			s->at = s->again;
		s->w = K_IN;
		break;
	case K_IN:
		s->m[s->at].in = s->op;
		s->w = K_GATE;
		break;
	case K_GATE:
		s->w = s->open[s->at] ? K_BYTES : W_LEAVE;
		break;
	case K_BYTES:
		if (missing || s->dead) {
			s->w = W_LEAVE;
			break;
		}
		if (s->o >= O_LEFT)
			fault = "written after the owner left";
		s->n = ++s->written;
		if (s->written == PIECES)
			s->w = K_OUT;
		break;
	case K_OUT:
		s->m[s->at].out = s->op;
		s->w = W_LEAVE;
		break;
	case W_LEAVE:
		if (gate_leave(&s->k, s->op, s->n, &s->counted))
			s->w = W_END;
		break;
	}
}

/* --- the owner --------------------------------------------------------- */

static void leave(struct world *s)
{
	s->got = (uint32_t)(s->k.word & GATE_COUNT) - BASE;
	s->o = O_LEFT;
	if (s->got > s->written)
		fault = "counted what is not there";
}

static void look(struct world *s)
{
	s->way = (uint8_t)gate_look(&s->k, &s->m[0], s->shut, s->out);
	if (s->way == GATE_CLEAR)
		leave(s);
	else
		s->o = s->way == GATE_WAIT ? O_SEE : O_DECIDE;
}

static void decide(struct world *s)
{
	uint32_t len = s->way == GATE_TAKE ? PIECES : 0;

	if (control == NO_SWAP) {
		s->k.word = (s->shut | GATE_SHUT) & ~(uint64_t)GATE_BUSY;
		leave(s);
	} else if (gate_decide(&s->k, s->shut, len)) {
		leave(s);
	} else {
		s->o = O_LOOK;
	}
}

static void owner(struct world *s)
{
	switch (s->o) {
	case O_SHUT:
		s->shut = gate_shut(&s->k);
		if (!(s->shut & GATE_BUSY))
			leave(s);
		else
			s->o = O_GATE;
		if (control == LOOK_FIRST && s->o == O_GATE)
			s->way = (uint8_t)gate_look(&s->k, &s->m[0], s->shut,
						    false);
		if (control == SEE_EARLY)
			s->out = s->stopped || (s->dead && !in_kernel(s));
		break;
	case O_GATE:
		s->open[0] = control == NO_GATE;
		s->o = control == LOOK_FIRST && s->way == GATE_DROP ? O_DECIDE :
								      O_LOOK;
		break;
	case O_LOOK:
		look(s);
		break;
	case O_SEE:
		s->out = s->stopped || (s->dead && !in_kernel(s));
		s->o = O_LOOK;
		break;
	case O_DECIDE:
		decide(s);
		break;
	case O_LEFT: /* and there is another sink */
		s->again = true;
		s->k.word = 2ull << 32;
		s->open[1] = true;
		s->open[0] = control == GATE_AGAIN || s->way != GATE_DROP;
		s->o = O_AGAIN;
		break;
	}
}

/* --- all orders -------------------------------------------------------- */

static bool known(const struct world *s)
{
	const uint8_t *p = (const uint8_t *)s;
	uint32_t h = 2166136261u;
	size_t i;

	for (i = 0; i < sizeof(*s); i++)
		h = (h ^ p[i]) * 16777619u;
	for (h %= STATES; used[h]; h = (h + 1) % STATES)
		if (!memcmp(&seen[h], s, sizeof(*s)))
			return true;
	used[h] = 1;
	seen[h] = *s;
	if (++states > STATES / 2)
		fault = "more states than expected";
	return false;
}

/* The owner alone, the writer as it is. */
static void gets_away(struct world s)
{
	int i;

	for (i = 0; i < 20 && s.o < O_LEFT; i++)
		owner(&s);
	if (s.o < O_LEFT)
		fault = "the owner waits for a writer that does not go on";
}

static void both_over(const struct world *s)
{
	if (s->dead || s->o < O_LEFT || s->w != W_END)
		return;
	if (s->counted != s->got)
		fault = "the ends count differently";
}

/* A copy, because what is compared must not have holes with other values. */
#define BRANCH(s, t, what)                        \
	do {                                      \
		if (!fault) {                     \
			memcpy(t, s, sizeof(*t)); \
			what;                     \
			explore(t);               \
		}                                 \
	} while (0)

static void explore(const struct world *s)
{
	bool halted = s->stopped || (s->dead && !in_kernel(s));
	struct world t;

	if (fault || known(s))
		return;
	both_over(s);
	if (halted)
		gets_away(*s);
	/* where something counts, the writer has to say first that it knows */
	if (s->o < O_LEFT ||
	    (s->o == O_LEFT && (s->w == W_END || s->way == GATE_DROP)))
		BRANCH(s, &t, owner(&t));
	if (s->w != W_END && !halted) {
		BRANCH(s, &t, writer(&t, false));
		if (s->w == K_BYTES)
			BRANCH(s, &t, writer(&t, true));
	}
	/* signals work on the way to the program; SIGKILL is seen at once */
	if (!in_kernel(s) && !s->stopped && !s->dead && s->w != W_END)
		BRANCH(s, &t, t.stopped = true);
	if (s->stopped)
		BRANCH(s, &t, t.stopped = false);
	if (!s->dead && s->w != W_END)
		BRANCH(s, &t, (t.dead = true, t.stopped = false));
}

static const char *run(enum control c)
{
	struct world s;

	memset(&s, 0, sizeof(s));
	memset(used, 0, STATES);
	states = 0;
	fault = NULL;
	control = c;
	s.k.word = 1ull << 32 | BASE;
	s.open[0] = true;
	explore(&s);
	return fault;
}

static void test_all_orders(void **state)
{
	const char *bad = run(NONE);

	(void)state;
	if (bad)
		fail_msg("%s", bad);
	assert_in_range(states, 100, STATES / 2);
	print_message("%u states\n", states);
}

static void test_controls(void **state)
{
	enum control c;

	(void)state;
	for (c = NONE + 1; c < CONTROLS; c++)
		if (!run(c))
			fail_msg("control %d is not found out", (int)c);
}

static int start(void **state)
{
	(void)state;
	seen = calloc(STATES, sizeof(*seen));
	used = calloc(STATES, 1);
	return seen && used ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	free(seen);
	free(used);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_orders),
		cmocka_unit_test(test_controls),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
