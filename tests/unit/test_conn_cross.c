/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The crossings of zero copy [4.3 to 4.6], each as one story: what both ends
 * say and hear, in which order, and how it comes out. "a>X" is posted by a,
 * "b<X" reaches b later: what stands between crossed it. "b=5:100" is memory
 * number 5 that came free at b with 100 bytes carried.
 */
#include <stdio.h>
#include <string.h>

#include "conn_util.h"
#include "wire_name.h"

#define SINK_LEN 8192

enum { A, B };

static struct {
	struct conn c;
	struct {
		uint8_t hdr[CONN_HDR_MAX];
		uint32_t len;
	} way[32]; /* said and not heard yet: from heard to said */
	unsigned int said, heard;
} end[2];

static char tape[1024];

static void note(int who, char how, const char *what)
{
	size_t at = strlen(tape);

	snprintf(tape + at, sizeof(tape) - at, "%s%c%c%s", at ? " " : "",
		 'a' + who, how, what);
}

static void begin(unsigned int mode)
{
	struct conn_params pa = params(false), pb = params(false);

	pa.reads = pb.reads = true;
	memset(end, 0, sizeof(end));
	join(&end[A].c, &pa, &end[B].c, &pb);
	end[A].c.tx_mode = end[B].c.rx_mode = (uint8_t)mode;
	tape[0] = '\0';
}

/* One step of conn_next(); false: it has nothing to say. */
static bool say_one(int who, const struct conn_offer *offer)
{
	unsigned int i = end[who].said % 32;
	struct conn_op op;

	conn_next(&end[who].c, 1, offer, 1 << 20, &op);
	if (op.type == CONN_WRITE) {
		note(who, '>', "write");
		assert_int_equal(conn_on_done(&end[who].c, CONN_WRITE, op.len),
				 0);
		return true;
	}
	if (op.type != CONN_SEND)
		return false;
	assert_true(end[who].said++ - end[who].heard < 32);
	memset(end[who].way[i].hdr, 0, CONN_HDR_MAX);
	memcpy(end[who].way[i].hdr, op.hdr, op.hdr_len);
	end[who].way[i].len = op.hdr_len + op.payload;
	note(who, '>', wire_name(op.hdr[0]));
	return true;
}

static void say(int who)
{
	struct conn_offer none = { 0 };

	while (say_one(who, &none))
		;
}

static void data(int who, uint64_t bytes)
{
	struct conn_offer offer = { .bytes = bytes };

	assert_true(say_one(who, &offer));
}

static void source(int who, uint32_t len, uint64_t key)
{
	struct conn_zc zc = { .src = { 0x1000, key, 7, len }, .inl = 8 };
	struct conn_offer offer = { .bytes = len, .zc = &zc };

	assert_true(conn_src_wanted(&end[who].c, len));
	assert_true(say_one(who, &offer));
}

static void sink(int who, uint64_t key)
{
	struct conn_zc zc = { .sink = { 0x2000, key, 9, SINK_LEN } };
	struct conn_offer offer = { .zc = &zc };

	assert_true(conn_sink_wanted(&end[who].c, SINK_LEN));
	assert_true(say_one(who, &offer));
}

/* Into the peer's sink; `more` of it is to come. */
static void writes(int who, uint32_t bytes, bool more)
{
	struct conn_zc zc = { .write = bytes };
	struct conn_offer offer = { .bytes = bytes, .more = more, .zc = &zc };

	assert_true(say_one(who, &offer));
}

/* The oldest message that is under way to `who` arrives. */
static void hear(int who)
{
	unsigned int i = end[!who].heard % 32;
	struct conn_freed f;
	struct conn_in in;
	char text[32];

	assert_true(end[!who].heard++ != end[!who].said);
	note(who, '<', wire_name(end[!who].way[i].hdr[0]));
	assert_int_equal(conn_on_recv(&end[who].c, 1, end[!who].way[i].hdr,
				      end[!who].way[i].len, &in),
			 0);
	conn_reposted(&end[who].c, 1);
	while (conn_freed(&end[who].c, &f)) {
		snprintf(text, sizeof(text), "%llu:%u",
			 (unsigned long long)f.key, f.bytes);
		note(who, '=', text);
	}
}

static void reads(int who, uint64_t bytes)
{
	struct conn_op op;

	assert_true(conn_read(&end[who].c, bytes, &op));
	assert_int_equal(op.len, bytes);
}

static void has_read(int who, uint64_t bytes)
{
	assert_int_equal(conn_on_done(&end[who].c, CONN_READ, bytes), 0);
}

/* Everything under way arrives and is answered; then nothing is out. */
static void came_out(const char *story, uint64_t bytes)
{
	int i;

	do {
		for (i = 0; i < 4; i++) {
			say(i % 2);
			while (end[i % 2].heard != end[i % 2].said)
				hear(!(i % 2));
		}
	} while (end[A].heard != end[A].said || end[B].heard != end[B].said);
	assert_string_equal(tape, story);
	for (i = 0; i < 2; i++) {
		assert_int_equal(end[i].c.error | end[i].c.want, 0);
		assert_int_equal(end[i].c.src_count + end[i].c.sink_count, 0);
		assert_int_equal(end[i].c.peer_src_count, 0);
		assert_false(end[i].c.cancel_tx || end[i].c.cancel_rx ||
			     end[i].c.sink_cancel);
		assert_int_equal(end[i].c.nond_sent, end[!i].c.nond_recv);
	}
	assert_int_equal(end[A].c.tx_stream, bytes);
	assert_int_equal(end[B].c.rx_stream, bytes);
}

/* --- SrcAvailCancel: the rows of 4.3 ------------------------------------ */

static void cancel_nothing_left(void **state)
{
	(void)state;
	begin(WIRE_COMBINED);
	source(A, 108, 1);
	hear(B);
	reads(B, 100);
	has_read(B, 100);
	say(B);
	conn_cancel_sources(&end[A].c);
	say(A);
	came_out("a>SrcAvail b<SrcAvail b>RdmaRdCompl a>SrcAvailCancel "
		 "b<SrcAvailCancel a<RdmaRdCompl a=1:100",
		 108);
}

static void cancel_read_under_way(void **state)
{
	uint64_t part;

	(void)state;
	for (part = 60; part <= 100; part += 40) {
		begin(WIRE_COMBINED);
		source(A, 108, 1);
		hear(B);
		reads(B, part);
		conn_cancel_sources(&end[A].c);
		say(A);
		hear(B);
		say(B); /* nothing before the read has ended */
		has_read(B, part);
		came_out(part < 100 ? "a>SrcAvail b<SrcAvail a>SrcAvailCancel "
				      "b<SrcAvailCancel b>RdmaRdCompl b>SendSm "
				      "a<RdmaRdCompl a<SendSm a=1:60" :
				      "a>SrcAvail b<SrcAvail a>SrcAvailCancel "
				      "b<SrcAvailCancel b>RdmaRdCompl "
				      "a<RdmaRdCompl a=1:100",
			 8 + part);
	}
}

static void cancel_part_unreported(void **state)
{
	(void)state;
	begin(WIRE_COMBINED);
	source(A, 108, 1);
	hear(B);
	reads(B, 60);
	has_read(B, 60);
	conn_cancel_sources(&end[A].c);
	say(A);
	hear(B);
	came_out("a>SrcAvail b<SrcAvail a>SrcAvailCancel b<SrcAvailCancel "
		 "b>RdmaRdCompl b>SendSm a<RdmaRdCompl a<SendSm a=1:60",
		 68);
}

static void cancel_untouched(void **state)
{
	(void)state;
	begin(WIRE_COMBINED);
	source(A, 108, 1);
	conn_cancel_sources(&end[A].c);
	say(A);
	came_out("a>SrcAvail a>SrcAvailCancel b<SrcAvail b<SrcAvailCancel "
		 "b>SendSm a<SendSm a=1:0",
		 8);
}

/* It crosses the SendSm that gives the source back: one answer is enough. */
static void cancel_crosses_sendsm(void **state)
{
	(void)state;
	begin(WIRE_COMBINED);
	source(A, 108, 1);
	hear(B);
	conn_refuse_sources(&end[B].c);
	say(B);
	conn_cancel_sources(&end[A].c);
	say(A);
	hear(A);
	source(A, 50, 2); /* allowed again at once */
	hear(B);
	hear(B);
	reads(B, 42);
	has_read(B, 42);
	came_out("a>SrcAvail b<SrcAvail b>SendSm a>SrcAvailCancel a<SendSm "
		 "a=1:0 a>SrcAvail b<SrcAvailCancel b<SrcAvail b>RdmaRdCompl "
		 "a<RdmaRdCompl a=2:42",
		 58);
}

/* --- several sources ----------------------------------------------------- */

/* No more than MaxAdverts; reports are for the oldest. */
static void pipelined_sources(void **state)
{
	int i;

	(void)state;
	begin(WIRE_PIPELINED);
	for (i = 0; i < 4; i++)
		source(A, 100, (uint64_t)i);
	assert_false(conn_src_wanted(&end[A].c, 100));
	for (i = 0; i < 4; i++)
		hear(B);
	assert_int_equal(conn_source(&end[B].c), 400);
	for (i = 0; i < 3; i++) {
		reads(B, 100);
		has_read(B, 100);
	}
	say(B);
	hear(A);
	assert_true(conn_src_wanted(&end[A].c, 100));
	conn_cancel_sources(&end[A].c); /* of all that are left */
	came_out("a>SrcAvail a>SrcAvail a>SrcAvail a>SrcAvail b<SrcAvail "
		 "b<SrcAvail b<SrcAvail b<SrcAvail b>RdmaRdCompl "
		 "b>RdmaRdCompl b>RdmaRdCompl a<RdmaRdCompl a=0:100 "
		 "a>SrcAvailCancel b<SrcAvailCancel b>SendSm a<RdmaRdCompl "
		 "a=1:100 a<RdmaRdCompl a=2:100 a<SendSm a=3:0",
		 300);
}

/* A source that crosses SendSm is void with those it answers. */
static void source_crosses_sendsm(void **state)
{
	(void)state;
	begin(WIRE_PIPELINED);
	source(A, 100, 1);
	hear(B);
	conn_refuse_sources(&end[B].c);
	say(B);
	source(A, 100, 2);
	hear(B);
	assert_int_equal(conn_source(&end[B].c), 0);
	hear(A);
	source(A, 100, 3);
	hear(B);
	reads(B, 100);
	has_read(B, 100);
	came_out("a>SrcAvail b<SrcAvail b>SendSm a>SrcAvail b<SrcAvail "
		 "a<SendSm a=1:0 a=2:0 a>SrcAvail b<SrcAvail b>RdmaRdCompl "
		 "a<RdmaRdCompl a=3:100",
		 100);
}

/* Both write first: in Combined mode neither waits for the other. */
static void sources_both_ways(void **state)
{
	(void)state;
	begin(WIRE_COMBINED);
	source(A, 108, 1);
	source(B, 58, 2);
	hear(A);
	hear(B);
	came_out("a>SrcAvail b>SrcAvail a<SrcAvail b<SrcAvail "
		 "a>SrcAvailCancel b<SrcAvailCancel b>SendSm "
		 "b>SrcAvailCancel a<SendSm a=1:0 a<SrcAvailCancel a>SendSm "
		 "b<SendSm b=2:0",
		 8);
}

/* --- SinkAvail [4.5] ----------------------------------------------------- */

static void sink_whole_and_part(void **state)
{
	(void)state;
	begin(WIRE_PIPELINED);
	sink(B, 1);
	sink(B, 2);
	hear(A);
	hear(A);
	writes(A, SINK_LEN, true);
	say(A);
	writes(A, 100, false);
	came_out("b>SinkAvail b>SinkAvail a<SinkAvail a<SinkAvail a>write "
		 "a>RdmaWrCompl a>write a>RdmaWrCompl b<RdmaWrCompl "
		 "b=1:8192 b<RdmaWrCompl b=2:100",
		 SINK_LEN + 100);
}

/* Data crossed it and took its place: both forget it, and agree about it. */
static void sink_crosses_data(void **state)
{
	(void)state;
	begin(WIRE_PIPELINED);
	sink(B, 1);
	data(A, 50);
	hear(A);
	assert_int_equal(conn_write_room(&end[A].c), 0);
	hear(B);
	sink(B, 2);
	hear(A);
	writes(A, 100, false);
	came_out("b>SinkAvail a>Data a<SinkAvail b<Data b=1:0 b>SinkAvail "
		 "a<SinkAvail a>write a>RdmaWrCompl b<RdmaWrCompl b=2:100",
		 150);
}

/* Two sinks, of which Data crossed one. */
static void one_of_two_sinks_stale(void **state)
{
	(void)state;
	begin(WIRE_PIPELINED);
	sink(B, 1);
	data(A, 50);
	hear(B);
	sink(B, 2); /* counts the Data */
	hear(A);
	hear(A);
	assert_int_equal(conn_write_room(&end[A].c), SINK_LEN);
	writes(A, 100, false);
	came_out("b>SinkAvail a>Data b<Data b=1:0 b>SinkAvail a<SinkAvail "
		 "a<SinkAvail a>write a>RdmaWrCompl b<RdmaWrCompl b=2:100",
		 150);
}

/* Data sent while it is held spends it. */
static void data_spends_sink(void **state)
{
	(void)state;
	begin(WIRE_PIPELINED);
	sink(B, 1);
	hear(A);
	data(A, 50);
	assert_int_equal(conn_write_room(&end[A].c), 0);
	came_out("b>SinkAvail a<SinkAvail a>Data b<Data b=1:0", 50);
}

/* A valid one voids sources, at both ends, and ends a cancel of them. */
static void sink_voids_sources(void **state)
{
	(void)state;
	begin(WIRE_PIPELINED);
	sink(B, 1);
	source(A, 100, 5);
	source(A, 100, 6);
	conn_cancel_sources(&end[A].c);
	say(A);
	hear(B);
	hear(B);
	hear(B);
	assert_int_equal(conn_source(&end[B].c), 0);
	hear(A);
	assert_int_equal(conn_tx_at(&end[A].c), 0);
	writes(A, 200, false);
	came_out("b>SinkAvail a>SrcAvail a>SrcAvail a>SrcAvailCancel "
		 "b<SrcAvail b<SrcAvail b<SrcAvailCancel a<SinkAvail a=5:0 "
		 "a=6:0 a>write a>RdmaWrCompl b<RdmaWrCompl b=1:200",
		 200);
}

static void cancel_no_sink_held(void **state)
{
	(void)state;
	begin(WIRE_PIPELINED);
	sink(B, 1);
	hear(A);
	writes(A, 100, false);
	say(A);
	conn_cancel_sinks(&end[B].c);
	say(B);
	hear(A); /* it was reported already: no answer */
	came_out("b>SinkAvail a<SinkAvail a>write a>RdmaWrCompl "
		 "b>SinkAvailCancel a<SinkAvailCancel b<RdmaWrCompl b=1:100",
		 100);
}

static void cancel_sink_begun(void **state)
{
	(void)state;
	begin(WIRE_PIPELINED);
	sink(B, 1);
	sink(B, 2);
	hear(A);
	hear(A);
	writes(A, 100, true);
	conn_cancel_sinks(&end[B].c);
	say(B);
	hear(A);
	assert_int_equal(conn_write_room(&end[A].c), 0);
	came_out("b>SinkAvail b>SinkAvail a<SinkAvail a<SinkAvail a>write "
		 "b>SinkAvailCancel a<SinkAvailCancel a>RdmaWrCompl "
		 "a>SinkCancelAck b<RdmaWrCompl b=1:100 b<SinkCancelAck "
		 "b=2:0",
		 100);
}

static void cancel_sinks_unused(void **state)
{
	(void)state;
	begin(WIRE_PIPELINED);
	sink(B, 1);
	conn_cancel_sinks(&end[B].c);
	say(B);
	came_out("b>SinkAvail b>SinkAvailCancel a<SinkAvail "
		 "a<SinkAvailCancel a>SinkCancelAck b<SinkCancelAck b=1:0",
		 0);
}

/* Data that crossed the cancel ended what it was about. */
static void cancel_sink_crosses_data(void **state)
{
	(void)state;
	begin(WIRE_PIPELINED);
	sink(B, 1);
	data(A, 50);
	conn_cancel_sinks(&end[B].c);
	say(B);
	hear(A);
	hear(A);
	came_out("b>SinkAvail a>Data b>SinkAvailCancel a<SinkAvail "
		 "a<SinkAvailCancel b<Data b=1:0",
		 50);
}

/* --- modes [4.6] and the end [5.2] ---------------------------------------- */

/* A sink that crosses ModeChange is void; Data behind it is Data. */
static void sink_crosses_mode(void **state)
{
	(void)state;
	begin(WIRE_PIPELINED);
	sink(B, 1);
	assert_int_equal(conn_set_mode(&end[A].c, WIRE_COMBINED), 0);
	say(A);
	data(A, 50);
	hear(A);
	assert_int_equal(conn_write_room(&end[A].c), 0);
	assert_int_equal(conn_set_mode(&end[A].c, WIRE_PIPELINED), -EBUSY);
	hear(B);
	assert_false(conn_sink_wanted(&end[B].c, SINK_LEN));
	came_out("b>SinkAvail a>ModeChange a>Data a<SinkAvail b<ModeChange "
		 "b=1:0 b<Data",
		 50);
}

/* The same with a Data that it crossed as well, and a cancel. */
static void sink_data_cancel_mode(void **state)
{
	(void)state;
	begin(WIRE_PIPELINED);
	sink(B, 1);
	data(A, 50);
	conn_cancel_sinks(&end[B].c);
	say(B);
	assert_int_equal(conn_set_mode(&end[A].c, WIRE_COMBINED), 0);
	say(A);
	hear(A);
	hear(A);
	came_out("b>SinkAvail a>Data b>SinkAvailCancel a>ModeChange "
		 "a<SinkAvail a<SinkAvailCancel b<Data b=1:0 b<ModeChange",
		 50);
}

/* With sources out the mode stays; Pipelined bars what Combined allows. */
static void mode_waits_for_sources(void **state)
{
	(void)state;
	begin(WIRE_COMBINED);
	source(A, 108, 1);
	assert_int_equal(conn_set_mode(&end[A].c, WIRE_BUFFERED), -EINVAL);
	assert_int_equal(conn_set_mode(&end[A].c, WIRE_PIPELINED), 0);
	say(A);
	source(A, 100, 2); /* the first was one of Combined mode */
	assert_int_equal(conn_set_mode(&end[A].c, WIRE_COMBINED), -EINVAL);
	hear(B);
	hear(B);
	hear(B);
	reads(B, 100);
	reads(B, 100);
	has_read(B, 100);
	has_read(B, 100);
	came_out("a>SrcAvail a>ModeChange a>SrcAvail b<SrcAvail b<ModeChange "
		 "b<SrcAvail b>RdmaRdCompl b>RdmaRdCompl a<RdmaRdCompl "
		 "a=1:100 a<RdmaRdCompl a=2:100",
		 208);
}

/* DisConn waits for the report, and ends what is held besides. */
static void disconn_ends_sinks(void **state)
{
	(void)state;
	begin(WIRE_PIPELINED);
	sink(B, 1);
	sink(B, 2);
	hear(A);
	hear(A);
	writes(A, 100, true);
	conn_shutdown(&end[A].c, 1, false);
	conn_cancel_sinks(&end[B].c);
	say(A);
	say(B);
	came_out("b>SinkAvail b>SinkAvail a<SinkAvail a<SinkAvail a>write "
		 "a>RdmaWrCompl a>DisConn b>SinkAvailCancel b<RdmaWrCompl "
		 "b=1:100 b<DisConn b=2:0 a<SinkAvailCancel",
		 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cancel_nothing_left),
		cmocka_unit_test(cancel_read_under_way),
		cmocka_unit_test(cancel_part_unreported),
		cmocka_unit_test(cancel_untouched),
		cmocka_unit_test(cancel_crosses_sendsm),
		cmocka_unit_test(pipelined_sources),
		cmocka_unit_test(source_crosses_sendsm),
		cmocka_unit_test(sources_both_ways),
		cmocka_unit_test(sink_whole_and_part),
		cmocka_unit_test(sink_crosses_data),
		cmocka_unit_test(one_of_two_sinks_stale),
		cmocka_unit_test(data_spends_sink),
		cmocka_unit_test(sink_voids_sources),
		cmocka_unit_test(cancel_no_sink_held),
		cmocka_unit_test(cancel_sink_begun),
		cmocka_unit_test(cancel_sinks_unused),
		cmocka_unit_test(cancel_sink_crosses_data),
		cmocka_unit_test(sink_crosses_mode),
		cmocka_unit_test(sink_data_cancel_mode),
		cmocka_unit_test(mode_waits_for_sources),
		cmocka_unit_test(disconn_ends_sinks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
