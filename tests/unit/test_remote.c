/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Snapshots of a peer that cannot be true are refused (remote.h). */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sdp_proto/wire.h"
#include "handover_proto/remote.h"

static struct end {
	struct anc_page mirror;
	struct anc_tx at;
	struct anc_rx ar;
	struct remote r;
	struct anc_dir *tx;
} end;

static void snapshot(uint8_t *in, uint8_t half, enum anc_state st,
		     uint32_t epoch, uint64_t at, uint64_t count)
{
	memset(in, 0, REMOTE_LEN);
	in[0] = half;
	in[1] = (uint8_t)st;
	wire_put32(in + 4, epoch);
	wire_put64(in + 16, at);
	wire_put64(in + 24, count);
}

/* Each thing that cannot be true, by itself. */
static void test_unsound(void **state)
{
	struct end *e = &end;
	uint8_t in[REMOTE_LEN];

	(void)state;
	memset(&end, 0, sizeof(end));
	remote_init(&e->r, &e->mirror, &e->at, &e->ar);
	e->tx = e->r.tx;
	anc_sent(e->tx, &e->at, 10);
	snapshot(in, 2, ANC_TCP, 0, 0, 0);
	assert_int_equal(remote_take(&e->r, in), -EPROTO); /* no half */
	snapshot(in, REMOTE_READER, ANC_LIFTED, 1, 0, 10);
	assert_int_equal(remote_take(&e->r, in), -EPROTO); /* not its move */
	snapshot(in, REMOTE_READER, ANC_LIFTED, 0, 0, 10);
	assert_int_equal(remote_take(&e->r, in), -EPROTO); /* same epoch */
	snapshot(in, REMOTE_READER, ANC_TCP, 0, 0, 10);
	assert_true(remote_take(&e->r, in) >= 0);
	snapshot(in, REMOTE_READER, ANC_TCP, 0, 0, 9);
	assert_int_equal(remote_take(&e->r, in), -EPROTO); /* backwards */
	assert_int_equal(anc_switch(e->tx, &e->at, false), 0);
	snapshot(in, REMOTE_READER, ANC_TCP, 0, 0, 11);
	assert_int_equal(remote_take(&e->r, in), -EPROTO); /* never sent */
	snapshot(in, REMOTE_WRITER, ANC_PAUSED, 1, 0, 0);
	assert_int_equal(remote_take(&e->r, in), -EPROTO); /* not asked */
	snapshot(in, REMOTE_WRITER, ANC_LIFTED, 1, 5, 4);
	assert_int_equal(remote_take(&e->r, in), -EPROTO); /* x beyond sent */
	snapshot(in, REMOTE_WRITER, ANC_LIFTED, 1, 4, 4);
	wire_put32(in + 12, 5000);
	assert_int_equal(remote_take(&e->r, in), -EPROTO); /* kicks */
	snapshot(in, REMOTE_WRITER, ANC_GONE, 1, 0, 0);
	assert_int_equal(remote_take(&e->r, in), -EPROTO); /* a reader's word */
	snapshot(in, REMOTE_WRITER, ANC_LIFTED, 1, 4, 4);
	assert_true(remote_take(&e->r, in) & REMOTE_STATE);
	assert_int_equal(anc_state(e->r.rx), ANC_LIFTED);
	anc_taken(e->r.rx, &e->ar, 4);
	snapshot(in, REMOTE_WRITER, ANC_DRAINING, 2, 3, 4);
	assert_int_equal(remote_take(&e->r, in), -EPROTO); /* y was passed */
}

/* What was taken is asked for before the lift; behind it credits tell. */
static void test_asks(void **state)
{
	struct end *e = &end;
	uint8_t out[REMOTE_LEN], in[REMOTE_LEN];

	(void)state;
	memset(&end, 0, sizeof(end));
	remote_init(&e->r, &e->mirror, &e->at, &e->ar);
	e->tx = e->r.tx;
	anc_sent(e->tx, &e->at, 10);
	e->tx->wait = 1;
	assert_true(remote_make(&e->r, REMOTE_WRITER, false, out));
	assert_int_equal(wire_get32(out + 8), 1);
	snapshot(in, REMOTE_READER, ANC_TCP, 0, 0, 10);
	wire_put32(in + 8, 1);
	assert_true(remote_take(&e->r, in) & REMOTE_TAKEN);
	assert_int_equal(anc_switch(e->tx, &e->at, false), 0);
	assert_true(remote_make(&e->r, REMOTE_WRITER, false, out));
	e->tx->wait = 1;
	assert_false(remote_make(&e->r, REMOTE_WRITER, false, out));
}

/* Messages that the other end wants for its receives' sake, counted mod 256. */
static void test_burns(void **state)
{
	struct end *e = &end;
	uint8_t out[REMOTE_LEN], in[REMOTE_LEN];

	(void)state;
	memset(&end, 0, sizeof(end));
	remote_init(&e->r, &e->mirror, &e->at, &e->ar);
	assert_true(remote_make(&e->r, REMOTE_READER, false, out));
	e->r.burn_no = 30;
	assert_true(remote_make(&e->r, REMOTE_READER, false, out));
	assert_int_equal(out[3], 30);
	assert_false(remote_make(&e->r, REMOTE_READER, false, out));
	snapshot(in, REMOTE_READER, ANC_TCP, 0, 0, 0);
	assert_false(remote_take(&e->r, in) & REMOTE_BURN);
	in[3] = 250;
	assert_true(remote_take(&e->r, in) & REMOTE_BURN);
	assert_int_equal(e->r.burn, 250);
	assert_false(remote_take(&e->r, in) & REMOTE_BURN);
	in[3] = 4;
	assert_true(remote_take(&e->r, in) & REMOTE_BURN);
	assert_int_equal(e->r.burn, 10);
}

/* A reader that has gone is told nothing of the writer any more. */
static void test_gone(void **state)
{
	struct end *e = &end;
	uint8_t out[REMOTE_LEN], in[REMOTE_LEN];

	(void)state;
	memset(&end, 0, sizeof(end));
	remote_init(&e->r, &e->mirror, &e->at, &e->ar);
	snapshot(in, REMOTE_READER, ANC_GONE, 0, 0, 0);
	in[2] = 0x10; /* IS_GONE */
	assert_true(remote_take(&e->r, in) & REMOTE_STATE);
	assert_int_equal(anc_state(e->r.tx), ANC_GONE);
	e->r.own->ready = 1;
	assert_false(remote_make(&e->r, REMOTE_WRITER, true, out));
	assert_true(remote_make(&e->r, REMOTE_READER, true, out));
}

/* The reader's half now, as told: is it busy? -1: there is nothing to tell. */
static int tells(struct end *e)
{
	uint8_t out[REMOTE_LEN];

	if (!remote_make(&e->r, REMOTE_READER, false, out))
		return -1;
	return out[2] & 0x08 ? 1 : 0; /* IS_BUSY */
}

static void says(struct end *e, bool held)
{
	uint8_t in[REMOTE_LEN];

	snapshot(in, REMOTE_WRITER, ANC_TCP, 0, 0, 0);
	in[2] = held ? 0x04 : 0; /* IS_HELD */
	assert_true(remote_take(&e->r, in) >= 0);
}

/* What the writer said of an older stay on TCP does not count for this one. */
static void test_held_anew(void **state)
{
	struct end *e = &end;

	(void)state;
	memset(&end, 0, sizeof(end));
	remote_init(&e->r, &e->mirror, &e->at, &e->ar);
	assert_int_equal(anc_busy(e->r.rx), 0);
	assert_int_equal(tells(e), 1);
	assert_false(remote_held(&e->r));
	says(e, true);
	assert_true(remote_held(&e->r));
	anc_idle(e->r.rx);
	assert_int_equal(tells(e), 0);
	assert_int_equal(anc_busy(e->r.rx), 0);
	assert_false(remote_held(&e->r));
	assert_int_equal(tells(e), -1); /* before that was answered */
	says(e, true); /* under way since before */
	assert_false(remote_held(&e->r));
	says(e, false);
	assert_int_equal(tells(e), 1);
	says(e, false);
	assert_false(remote_held(&e->r));
	says(e, true);
	assert_true(remote_held(&e->r));
	/* an end that was not told is none */
	anc_idle(e->r.rx);
	assert_int_equal(anc_busy(e->r.rx), 0);
	assert_true(remote_held(&e->r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unsound),	  cmocka_unit_test(test_asks),
		cmocka_unit_test(test_burns),	  cmocka_unit_test(test_gone),
		cmocka_unit_test(test_held_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
