/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A queue pair breaks: what the reader's program gets, and where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn_util.h"
#include "fabric/nowhere.h"
#include "sdp_proto/wire.h"
#include "socket/life/life.h"
#include "tcp_util.h"

#define GIVEN 3 /* bytes that were handed back */

/* --- a queue pair that broke, with messages that came before ------------- */

static uint8_t came[4][64];
static uint32_t came_len[4];
static unsigned int ncame, polled, asked;
static struct anc_dir *lifts; /* by a word in front of them */

static int poll_one(struct end *e, struct fab_msg *m)
{
	(void)e;
	asked++;
	if (polled == ncame)
		return 0;
	if (lifts)
		lifts->state = ANC_LIFTED;
	lifts = NULL;
	*m = (struct fab_msg){ .mem = came[polled],
			       .len = came_len[polled],
			       .held = came_len[polled] > WIRE_BSDH,
			       .last = polled + 1 == ncame };
	polled++;
	return 1;
}

static unsigned int released;

static int oldest(struct end *e, struct fab_msg *m)
{
	(void)e;
	if (released == polled)
		return 0;
	*m = (struct fab_msg){ .mem = came[released],
			       .len = came_len[released],
			       .held = true };
	return 1;
}

static void let_go(struct end *e)
{
	(void)e;
	released++;
}

static int walk(struct end *e, bool own, struct fab_walk *w, struct fab_msg *m)
{
	int ret = own || w->begun ? 0 : oldest(e, m);

	w->begun = true;
	return ret;
}

static const struct fabric_ops ops = {
	.name = "test",
	.room = nowhere_room,
	.buf = nowhere_buf,
	.ctrl = nowhere_ctrl,
	.send = nowhere_send,
	.poll = poll_one,
	.front = oldest,
	.release = let_go,
	.next = walk,
	.pending = nowhere_pending,
	.trim = nowhere_nothing,
	.destroy = nowhere_nothing,
};

static void info(const struct end *e, struct verbs_info *i)
{
	(void)e;
	memset(i, 0, sizeof(*i));
}

static const struct verbs_api api = { .disconnect = nowhere_nothing,
				      .info = info };

/* --- the reader --------------------------------------------------------- */

static struct sock sock;
static struct rdma rd;
static struct end end;
static int writer;
static bool by_tcp; /* and not by a pair of local sockets */

static void arrives(struct conn *peer, const char *bytes)
{
	struct conn_offer offer = { .bytes = strlen(bytes) };
	uint8_t *mem = came[ncame];
	struct conn_op op;

	conn_next(peer, 0, &offer, sizeof(came[0]), &op);
	assert_int_equal(op.type, CONN_SEND);
	assert_int_equal(op.payload, strlen(bytes));
	memcpy(mem, op.hdr, op.hdr_len);
	memcpy(mem + op.hdr_len, bytes, op.payload);
	came_len[ncame++] = op.hdr_len + op.payload;
}

/* Home but for the record: 100 bytes were taken, GIVEN handed back. */
static void in_resume(struct conn *peer)
{
	struct conn_params p = params(false), q = params(false);
	int pair[2];

	memset(&sock, 0, sizeof(sock));
	memset(&rd, 0, sizeof(rd));
	ncame = polled = released = 0;
	rdma_api = &api;
	sock_pid = getpid();
	if (by_tcp)
		tcp_pair(pair);
	else
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	writer = pair[1];
	join(&sock.conn, &p, peer, &q);
	end = (struct end){ &ops, 4096, 64 };
	sock.end = &end;
	sock.stats.row = &sock_spare;
	sock.mem.holder[0] =
		(struct holder){ sock_pid, .fds = 1, .fd = pair[0] };
	sock.rd = &rd;
	sock.link = &rdma_link;
	rd.sock = &sock;
	rd.end = &end;
	rd.owner = sock_pid;
	rd.state = RDMA_UP;
	sock.waits.wake = sock.waits.orphan_fd = rd.far = rd.watch.anchor = -1;
	memset(rd.mark.secret_rx, 0x77, sizeof(rd.mark.secret_rx));
	bytebuf_init(&rd);
	remote_init(&rd.words, &rd.mirror, &sock.at, &sock.ar);
	sock.own = rd.words.own;
	sock.peer = rd.words.peer;
	sock.tx = rd.words.tx;
	sock.rx = rd.words.rx;
	sock.paired = true;
	sock.ar.taken = sock.ar.from = sock.rx->taken = 100;
	sock.rx->from = 100;
	sock.rx->sent = 100 + GIVEN;
	sock.rx->state = ANC_RESTORING;
	sock.ar.unsure = true;
	rd.failover.give.len = rd.failover.give.at = GIVEN;
	rd.failover.give.mem = bytebuf_map(GIVEN + WIRE_BSDH);
	assert_non_null(rd.failover.give.mem);
	memcpy(rd.failover.give.mem + WIRE_BSDH, "abc", GIVEN);
}

/* 100 bytes were taken, the peer lifted: its marker has not come. */
static void in_lift(struct conn *peer)
{
	in_resume(peer);
	bytebuf_unmap(rd.failover.give.mem, GIVEN + WIRE_BSDH);
	memset(&rd.failover.give, 0, sizeof(rd.failover.give));
	memset(rd.mark.marker_rx, 0x55, sizeof(rd.mark.marker_rx));
	sock.ar.unsure = false;
	sock.rx->from = 0;
	sock.rx->sent = sock.rx->x = 100;
	sock.rx->y = ANC_OPEN;
	sock.rx->state = ANC_LIFTED;
	rd.mark.marker_wait = true;
}

static void on_anchor(const char *bytes, bool record)
{
	uint8_t rec[RESUME_RECORD];

	if (record) {
		resume_give(rec, rd.mark.secret_rx, 100);
		assert_int_equal(write(writer, rec, sizeof(rec)), sizeof(rec));
	}
	assert_int_equal(write(writer, bytes, strlen(bytes)), strlen(bytes));
}

/* All that the program gets now: what is unread here, and then the anchor's. */
static void gets(const char *all)
{
	char got[64];
	struct iovec iov = { got, sizeof(got) };
	struct cursor c = { .iov = &iov, .left = 1 };
	ssize_t n = pump_recv(&sock, &c, sock.got.avail, false, false), more;

	assert_true(n >= 0);
	more = recv(sock.mem.holder[0].fd, got + n, sizeof(got) - (size_t)n,
		    MSG_DONTWAIT);
	n += more > 0 ? more : 0;
	assert_int_equal(n, strlen(all));
	assert_memory_equal(got, all, (size_t)n);
	close(sock.mem.holder[0].fd);
	close(writer);
	failover_drop(&rd);
}

static void a_step(void)
{
	assert_int_equal(lock_take(&sock.lock), 0);
	failover_begin(&sock, -ECONNRESET);
	failover_step(&sock);
	lock_drop(&sock.lock);
}

static void breaks(void)
{
	a_step();
	assert_true(rd.failover.mended);
	assert_int_equal(rd.state, RDMA_WANTED);
}

/*
 * All had come back, the writer put it onto the anchor and lifted once more.
 * Of that lift the reader has heard nothing, and its bytes came by SDP: the
 * writer puts them onto the anchor as well.
 */
static void test_lift_unknown(void **state)
{
	struct conn peer;

	(void)state;
	in_resume(&peer);
	arrives(&peer, "defg");
	on_anchor("abc", true);
	on_anchor("defg", false);
	breaks();
	gets("abcdefg");
}

/* The same where they had been looked for before it broke. */
static void test_lift_later(void **state)
{
	struct conn peer;

	(void)state;
	in_resume(&peer);
	on_anchor("abc", true);
	assert_int_equal(lock_take(&sock.lock), 0);
	failover_begin(&sock, -ECONNRESET);
	arrives(&peer, "de");
	failover_step(&sock);
	arrives(&peer, "fg");
	assert_int_equal(pump_poll(&sock), 0);
	lock_drop(&sock.lock);
	on_anchor("defg", false);
	gets("abcdefg");
}

/* Nothing was put back: what was handed back is unread here. */
static void test_kept(void **state)
{
	struct conn peer;
	uint8_t rec[RESUME_RECORD];

	(void)state;
	in_resume(&peer);
	resume_record(rec, rd.mark.secret_rx, 100 + GIVEN);
	assert_int_equal(write(writer, rec, sizeof(rec)), sizeof(rec));
	on_anchor("defg", false);
	breaks();
	assert_int_equal(sock.got.avail, GIVEN);
	gets("abcdefg");
}

/* --- the writer is killed behind a lift ---------------------------------- */

/* What it had sent is there, though it wrote no marker any more. */
static void test_no_marker(void **state)
{
	struct conn peer;

	(void)state;
	in_lift(&peer);
	arrives(&peer, "defg");
	shutdown(writer, SHUT_WR);
	breaks();
	assert_int_equal(sock.got.avail, 4);
	gets("defg");
}

static void test_last(void **state)
{
	struct conn peer;

	(void)state;
	in_lift(&peer);
	arrives(&peer, "de");
	assert_int_equal(lock_take(&sock.lock), 0);
	asked = 0;
	assert_int_equal(pump_poll(&sock), 0);
	lock_drop(&sock.lock);
	assert_int_equal(asked, 1); /* nothing asks behind the last */
}

/* Its buffer was full: of what announces the stream a part is there. */
static void test_cut_short(void **state)
{
	/* bytes of marker, record; sent by SDP; and it had ended in order */
	static const struct {
		size_t marker, record;
		const char *sent;
		bool ended, lost;
	} cases[] = {
		{ 5, 0, "defgh", false, false },
		{ 5, 0, "defg", false, true },
		{ 0, 31, "defg", false, true },
		{ 0, 20, "defg", true, false },
	};
	uint8_t rec[RESUME_RECORD];
	struct conn peer;
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		in_lift(&peer);
		arrives(&peer, cases[i].sent);
		rd.mark.marker_wait = cases[i].marker;
		resume_record(rec, rd.mark.secret_rx, 100);
		assert_int_equal(write(writer, rd.mark.marker_rx,
				       cases[i].marker),
				 cases[i].marker);
		assert_int_equal(write(writer, rec, cases[i].record),
				 cases[i].record);
		sock.conn.dis_rcvd = sock.eos.rx_eof = cases[i].ended;
		a_step();
		assert_int_equal(rd.state, RDMA_FAILOVER);
		shutdown(writer, SHUT_WR);
		a_step();
		assert_int_equal(rd.state,
				 cases[i].lost ? RDMA_ENDED : RDMA_WANTED);
		gets(rd.mark.hidden ? "" : cases[i].sent);
	}
}

/* It had gone back to where it lifted: that counts, and nothing twice. */
static void test_went_back(void **state)
{
	struct conn peer;

	(void)state;
	in_lift(&peer);
	arrives(&peer, "de");
	on_anchor("defg", false);
	shutdown(writer, SHUT_WR);
	breaks();
	gets("defg");
}

/* It left bytes of ours unread: behind its last ones that is a reset. */
static void test_reset(void **state)
{
	struct sock_ready ready;
	struct conn peer;

	(void)state;
	in_lift(&peer);
	arrives(&peer, "defg");
	assert_int_equal(write(sock.mem.holder[0].fd, "x", 1), 1);
	close(writer);
	breaks();
	assert_int_equal(sock.got.avail, 4);
	sock_ready(&sock, sock.mem.holder[0].fd, 0, &ready);
	assert_int_equal(ready.now & (EPOLLIN | EPOLLERR), EPOLLIN | EPOLLERR);
	sock.eos.rst_told = true;
	sock_ready(&sock, sock.mem.holder[0].fd, 0, &ready);
	assert_int_equal(ready.now & EPOLLERR, 0);
	gets("defg");
}

/* --- the reader is killed ------------------------------------------------ */

/* One message of ours, not yet known to have arrived. */
static int one_unacked(struct end *e, uint32_t *pos, struct fab_msg *m)
{
	static uint8_t msg[WIRE_BSDH + 5] = { WIRE_DATA };

	(void)e;
	if ((*pos)++)
		return 0;
	*m = (struct fab_msg){ .mem = msg, .len = sizeof(msg) };
	return 1;
}

static const struct verbs_api api_unacked = { .disconnect = nowhere_nothing,
					      .unacked = one_unacked,
					      .info = info };

/* Both are lifted and know it, and 5 bytes of ours are not taken. */
static void both_lifted(struct conn *peer)
{
	in_lift(peer);
	rdma_api = &api_unacked;
	rd.mark.marker_wait = false;
	rd.failover.confirmed = true;
	sock.tx->state = ANC_LIFTED;
	sock.at.sent = 105;
	sock.tx->taken = 100;
}

static size_t on_its_way(void)
{
	char got[64];
	ssize_t n = recv(writer, got, sizeof(got), MSG_DONTWAIT);

	return n > 0 ? (size_t)n : 0;
}

/* Until it is over, or ours has gone and the peer's record may never come. */
static void steps(bool no_record)
{
	uint64_t until = clock_ns() + 5000000000u;

	assert_int_equal(lock_take(&sock.lock), 0);
	failover_begin(&sock, -ECONNRESET);
	while (clock_ns() < until && rd.state == RDMA_FAILOVER &&
	       (!no_record || anc_state(sock.tx) != ANC_TCP))
		failover_step(&sock);
	lock_drop(&sock.lock);
}

/* What would make its end in order a reset is not written, and EPIPE of it. */
static void test_to_the_dead(void **state)
{
	struct sock_ready ready;
	struct conn peer;
	uint64_t began;

	(void)state;
	both_lifted(&peer);
	assert_int_equal(lock_take(&sock.lock), 0);
	began = clock_ns();
	failover_begin(&sock, -ECONNRESET);
	/* the queue pair goes first */
	assert_true(rd.failover.out_from > began);
	rd.failover.out_from = began + 60000000000u;
	failover_flush(&sock, sock.mem.holder[0].fd);
	assert_int_equal(on_its_way(), 0);
	/* it was waited for, and a send comes by before we look */
	shutdown(writer, SHUT_WR);
	rd.failover.out_from = began;
	failover_flush(&sock, sock.mem.holder[0].fd);
	lock_drop(&sock.lock);
	assert_int_equal(on_its_way(), 0);
	steps(false);
	assert_int_equal(rd.state, RDMA_ENDED);
	assert_int_equal(on_its_way(), 0);
	/* what it did not take is a reset */
	assert_true(was_reset(&sock));
	close(writer);
	sock_ready(&sock, sock.mem.holder[0].fd, 0, &ready);
	assert_int_equal(ready.now & (EPOLLERR | EPOLLHUP),
			 EPOLLERR | EPOLLHUP);
	close(sock.mem.holder[0].fd);
	failover_drop(&rd);
}

/* It ended its direction in order, which is all here; ours goes on. */
static void test_behind_its_end(void **state)
{
	struct conn peer;

	(void)state;
	both_lifted(&peer);
	arrives(&peer, "defg");
	sock.conn.dis_rcvd = sock.eos.rx_eof = true;
	shutdown(writer, SHUT_WR);
	steps(false);
	assert_true(rd.failover.mended);
	assert_int_equal(anc_state(sock.tx), ANC_TCP);
	assert_int_equal(on_its_way(), RESUME_RECORD + 5);
	gets("defg");
}

/* Where we read no more the kernel shows no other end. */
static void test_own_end(void **state)
{
	struct conn peer;

	(void)state;
	by_tcp = true;
	both_lifted(&peer);
	by_tcp = false;
	sock.eos.shut_rd = true;
	shutdown(sock.mem.holder[0].fd, SHUT_RD);
	steps(true);
	assert_int_equal(rd.state, RDMA_FAILOVER);
	assert_int_equal(on_its_way(), RESUME_RECORD + 5);
	assert_int_equal(anc_state(sock.tx), ANC_TCP);
	close(writer);
	close(sock.mem.holder[0].fd);
	failover_drop(&rd);
}

/* And yet one that has died is not waited for. */
static void test_end_behind_own(void **state)
{
	struct conn peer;

	(void)state;
	by_tcp = true;
	both_lifted(&peer);
	by_tcp = false;
	sock.eos.shut_rd = true;
	shutdown(sock.mem.holder[0].fd, SHUT_RD);
	close(writer);
	steps(false);
	assert_int_equal(rd.state, RDMA_ENDED);
	assert_true(was_reset(&sock));
	close(sock.mem.holder[0].fd);
	failover_drop(&rd);
}

/* A living peer gets it, soon, also when it has ended its direction. */
static void test_to_the_living(void **state)
{
	uint8_t rec[RESUME_RECORD];
	struct conn peer;
	int ends;

	(void)state;
	for (ends = 0; ends < 2; ends++) {
		both_lifted(&peer);
		resume_record(rec, rd.mark.secret_rx, 100);
		assert_int_equal(write(writer, rec, sizeof(rec)), sizeof(rec));
		if (ends)
			shutdown(writer, SHUT_WR);
		steps(false);
		assert_int_equal(rd.state, RDMA_WANTED);
		assert_int_equal(on_its_way(), RESUME_RECORD + 5);
		gets("");
	}
}

static ssize_t at_kernel(int fd, void *buf, size_t n, int flags)
{
	return recv(fd, buf, n, flags);
}

/*
 * The receive hears of the end by the kernel; the lift and the bytes behind it
 * lie in the queue pair.
 */
static void test_overtaken(void **state)
{
	struct conn peer;
	char got[8];

	(void)state;
	sock_setup(&(struct sock_hooks){ .recv = at_kernel });
	in_lift(&peer);
	rd.mark.marker_wait = false; /* nothing looks at the anchor here */
	sock.id.phase = PH_CONNECTED;
	sock.seek.look = LOOK_NEVER;
	arrives(&peer, "defg");
	lifts = sock.rx;
	lifts->state = ANC_TCP;
	shutdown(writer, SHUT_WR);
	assert_int_equal(sock_recv(&sock, sock.mem.holder[0].fd, got, 8, 0), 4);
	assert_memory_equal(got, "defg", 4);
	gets("");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lift_unknown),
		cmocka_unit_test(test_lift_later),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_no_marker),
		cmocka_unit_test(test_last),
		cmocka_unit_test(test_cut_short),
		cmocka_unit_test(test_went_back),
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_to_the_dead),
		cmocka_unit_test(test_to_the_living),
		cmocka_unit_test(test_own_end),
		cmocka_unit_test(test_end_behind_own),
		cmocka_unit_test(test_behind_its_end),
		cmocka_unit_test(test_overtaken),
	};

	sock_setup(&(struct sock_hooks){ 0 });
	return cmocka_run_group_tests(tests, NULL, NULL);
}
