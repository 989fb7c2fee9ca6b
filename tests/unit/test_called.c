/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What says on the anchor that the queue pair is broken is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "socket/life/life.h"

#define TAKEN 4 /* bytes of the marker */

static struct rdma rdma;
static struct sock sock;
static int peer;

static void say(const void *p, size_t n)
{
	assert_int_equal(write(peer, p, n), n);
}

static void say_record(void)
{
	uint8_t rec[RESUME_RECORD];

	resume_record(rec, rdma.mark.secret_rx, 0);
	say(rec, sizeof(rec));
}

/* Lifted, and the rest of the marker lies on the anchor. */
static int set_up(void **state)
{
	static const uint8_t marker[RDMA_MARKER] = "sixteen bytes!!";
	static const uint8_t secret[RESUME_SECRET] = "sixteen others!";
	int fd[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	memset(&rdma, 0, sizeof(rdma));
	memset(&sock, 0, sizeof(sock));
	remote_init(&rdma.words, &rdma.mirror, &sock.at, &sock.ar);
	sock.tx = rdma.words.tx;
	sock.rx = rdma.words.rx;
	sock.own = rdma.words.own;
	sock.peer = rdma.words.peer;
	sock.rx->state = ANC_LIFTED;
	rdma.state = RDMA_UP;
	rdma.mark.marker_wait = rdma.failover.called = true;
	memcpy(rdma.mark.marker_rx, marker, sizeof(marker));
	memcpy(rdma.mark.secret_rx, secret, sizeof(secret));
	sock.rd = &rdma;
	sock.link = &rdma_link;
	sock.waits.orphan_fd = fd[0];
	peer = fd[1];
	say(marker + TAKEN, sizeof(marker) - TAKEN);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(sock.waits.orphan_fd);
	close(peer);
	return 0;
}

static void t_seen(void **state)
{
	(void)state;
	say_record();
	sock.ar.kicks = TAKEN;
	assert_true(rdma_called(&sock));
	assert_false(rdma.failover.called);
}

/*
 * A receive of before the lift has the marker's beginning, or all of it, and
 * has not counted it: what is looked at now is judged wrong, and nothing more
 * comes that would have it looked at again.
 */
static void t_receive(void **state)
{
	(void)state;
	say_record();
	sock.rx->tcp_rx = 1;
	assert_false(rdma_called(&sock));
	assert_true(rdma.failover.called);
	sock.ar.kicks = TAKEN;
	sock.rx->tcp_rx = 0;
	assert_true(rdma_called(&sock));
}

static void t_in_front(void **state)
{
	(void)state;
	say_record();
	sock.ar.kicks = TAKEN;
	sock.rx->x = 10;
	assert_false(rdma_called(&sock));
	assert_true(rdma.failover.called);
	sock.ar.taken = 10;
	assert_true(rdma_called(&sock));
}

/*
 * The marker comes when the queue pair is broken: what it hid can be read, and
 * a sleeper hears of it, however long the record takes. Its writer may
 * not know of the break, and wait for what these bytes are answered by.
 */
static void t_hidden(void **state)
{
	char byte;
	int wake[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, wake), 0);
	sock.ar.kicks = TAKEN;
	sock.end = &rdma_nowhere;
	rdma.owner = sock_pid;
	rdma.state = RDMA_FAILOVER;
	rdma.far = wake[1];
	rdma.watch.anchor = -1;
	rdma.mark.hidden = 100;
	rdma.failover.in.marker = rdma.mark.marker_rx;
	rdma.failover.in.secret = rdma.mark.secret_rx;
	rdma.failover.in.marker_got = TAKEN;
	resume_begin(&rdma.failover.in, ANC_LIFTED, true, false);
	failover_step(&sock);
	assert_int_equal(sock.got.avail, 100);
	assert_true(rdma.due.changed);
	assert_int_equal(recv(wake[0], &byte, 1, MSG_DONTWAIT), 1);
	close(wake[0]);
	close(wake[1]);
}

static void info_of(const struct end *e, struct verbs_info *i)
{
	assert_non_null(e);
	memset(i, 0, sizeof(*i));
}

/* The service thread's look finds it broken, and the end is let go by it. */
static void t_let_go(void **state)
{
	static const struct verbs_api api = { .info = info_of };

	(void)state;
	rdma_api = &api;
	rdma.state = RDMA_FAILOVER;
	rdma.end = NULL;
	rdma.load.fat = true;
	rdma_slim(&sock, true);
	assert_false(rdma.load.fat);
	rdma_api = NULL;
}

static unsigned int sent, armed;
static uint8_t out[64];

static uint32_t room(struct end *e)
{
	assert_non_null(e);
	return sizeof(out);
}

static void *buf(struct end *e, uint32_t len)
{
	assert_non_null(e);
	assert_true(len <= sizeof(out));
	return out;
}

static int send_one(struct end *e, uint32_t len, bool solicited)
{
	assert_non_null(e);
	assert_int_equal(len, 16);
	assert_true(solicited);
	sent++;
	return 0;
}

static int nothing(struct end *e, struct fab_msg *m)
{
	assert_non_null(e);
	assert_non_null(m);
	return 0;
}

static bool none(struct end *e)
{
	assert_non_null(e);
	return false;
}

static int arm(struct end *e, bool solicited)
{
	assert_non_null(e);
	assert_false(solicited);
	armed++;
	return 0;
}

static const struct fabric_ops ops = { .room = room,
				       .buf = buf,
				       .send = send_one,
				       .poll = nothing,
				       .pending = none };
static struct page_row row;
static struct end an_end = { .ops = &ops };

/* At rest: five receives, of which the peer has used `since`. */
static void up(uint32_t since)
{
	sock.end = rdma.end = &an_end;
	sock.end_pid = rdma.owner = sock_pid;
	rdma.mark.marker_wait = rdma.failover.called = rdma.due.serving = false;
	memset(&sock.conn, 0, sizeof(sock.conn));
	sock.conn.state = CONN_EST;
	sock.conn.credits = sock.conn.posted = sock.conn.bufs_told = 5;
	sock.conn.mseq_rcvd = since;
	sock.stats.row = &row;
	sock.stats.row_pid = sock_pid;
	sock.got.avail = 0;
	sent = 0;
}

/*
 * An update came, and bytes: what the program answers says that their receives
 * are there again, and one that waits says it, or looks for it.
 */
static void t_answer(void **state)
{
	static const struct verbs_api api = { .arm = arm };

	(void)state;
	rdma_api = &api;
	up(2);
	rdma_report(&sock);
	assert_int_equal(sent, 0);
	sock.paired = true;
	sock.mem.holder[0] = (struct holder){ .pid = sock_pid, .fds = 1 };
	sock_arm(&sock, true, false);
	assert_int_equal(sent, 1);
	rdma_api = NULL;
	armed = 0;
	up(2);
	rdma_report(&sock);
	assert_int_equal(sent, 0);
	pump_control(&sock);
	assert_int_equal(sent, 1);
	up(2);
	rdma.due.serving = true;
	rdma_report(&sock);
	assert_int_equal(sent, 1);
	/* the peer has bytes unread here, or can send none */
	up(2);
	sock.got.avail = 1;
	rdma_report(&sock);
	assert_int_equal(sent, 1);
	up(3);
	rdma_report(&sock);
	assert_int_equal(sent, 1);
	/* a large number of receives is not used up to the last */
	up(31);
	sock.conn.posted = sock.conn.bufs_told = 64;
	rdma_report(&sock);
	assert_int_equal(sent, 0);
	sock.conn.mseq_rcvd++;
	rdma_report(&sock);
	assert_int_equal(sent, 1);
}

/* Left unarmed for a busy program, it is looked at once more, but not soon. */
static void t_busy(void **state)
{
	static const struct verbs_api api = { .arm = arm };

	(void)state;
	rdma_api = &api;
	up(0);
	rdma.due.restless = rdma.due.calm = false;
	rdma.due.active = true;
	rdma_readable(&sock);
	assert_int_equal(armed, 0);
	assert_true(rdma_restless(&sock) && rdma_calm(&sock));
	/* one that owes a look has it soon */
	rdma.due.serving = true;
	rdma_owe(&sock);
	assert_true(rdma_restless(&sock) && !rdma_calm(&sock));
	/* the program did not come by */
	rdma.due.active = false;
	rdma_readable(&sock);
	assert_int_equal(armed, 1);
	assert_false(rdma_calm(&sock));
	/* nor is it busy while something waits for what may come */
	rdma.due.active = true;
	sock.rx->armed = ANC_WAKE;
	rdma_readable(&sock);
	assert_int_equal(armed, 2);
	assert_false(rdma_calm(&sock));
	rdma_api = NULL;
}

static unsigned int tried;

static void try_it(struct end *e)
{
	assert_ptr_equal(e, &an_end);
	tried++;
}

static uint32_t no_room(struct end *e)
{
	assert_non_null(e);
	return 0;
}

static void look(void)
{
	assert_int_equal(sock_lock(&sock), 0);
	rdma_look_after(&sock);
	sock_unlock(&sock);
}

/* It waits from now on: is it tried, and then no more than is due? */
static void is_tried(const char *what)
{
	uint64_t second = 1000000000u;

	print_message("%s\n", what);
	rdma.load.waits_since = 0;
	tried = 0;
	look();
	assert_true(rdma_waits(&sock));
	assert_int_equal(tried, 0);
	rdma.load.waits_since -= second;
	rdma.load.tried_at -= second;
	look();
	assert_int_equal(tried, 1);
	look();
	assert_int_equal(tried, 1);
	/* after a long time not so soon again */
	rdma.load.waits_since -= 4 * second;
	rdma.load.tried_at -= second;
	look();
	assert_int_equal(tried, 1);
	rdma.load.tried_at -= 2 * second;
	look();
	assert_int_equal(tried, 2);
}

/*
 * One that waits for words, with nothing of its own under way, would never hear
 * that the queue pair has broken where the other end, whose words were lost by
 * that, has nothing to say on the anchor.
 */
static void t_tried(void **state)
{
	static const struct fabric_ops full = { .room = no_room,
						.poll = nothing,
						.pending = none };
	static const struct verbs_api api = { .arm = arm,
					      .info = info_of,
					      .probe = try_it };
	struct remote *w = &rdma.words;

	(void)state;
	rdma_api = &api;
	up(0);
	an_end.ops = &full;
	rdma.failover.called = false;
	rdma.far = rdma.watch.anchor = -1;
	sock.rx->state = ANC_TCP;
	sock.ar.based = true;
	look();
	assert_false(rdma_waits(&sock));
	w->wait_no = 1;
	is_tried("how much is taken");
	w->wait_done = 1;
	look();
	assert_false(rdma_waits(&sock));
	/*
	 * a question that is answered with the next byte keeps no thread awake
	 */
	w->wait_no = 2;
	sock.tx->state = w->reader_state = ANC_LIFTED;
	assert_true(remote_seen(w));
	look();
	assert_false(rdma_waits(&sock));
	w->wait_done = 2;
	sock.tx->tcp_rx = 1;
	is_tried("a receive of before the lift is over");
	sock.tx->state = w->reader_state = ANC_RECALLED;
	is_tried("and the fallback is asked for");
	sock.tx->tcp_rx = 0;
	sock.tx->state = w->reader_state = ANC_SWITCHING;
	sock.at.x = sock.tx->x = 10;
	rdma.mark.ahead = true;
	is_tried("x was passed");
	rdma.mark.ahead = false;
	sock.tx->state = w->reader_state = ANC_PAUSED;
	is_tried("it falls back");
	sock.tx->state = ANC_LIFTED;
	w->reader_state = ANC_TCP;
	is_tried("our state is known");
	an_end.ops = &ops;
	rdma_api = NULL;
}

/* What is a relative's alone by now lies where nothing is mapped here. */
static void t_relative(void **state)
{
	void *there = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	(void)state;
	assert_ptr_not_equal(there, MAP_FAILED);
	sock_pid = getpid();
	memset(&sock.mem.holder, 0, sizeof(sock.mem.holder));
	sock.mem.holder[0] = (struct holder){ .pid = getppid(), .fds = 1 };
	sock.rd = there;
	rdma_serve(&sock);
	sock_pid = 0;
	assert_int_equal(munmap(there, 65536), 0);
}

/* It dies while the direction is on its way to SDP: no word is waited for. */
static void t_died(void **state)
{
	(void)state;
	sock.paired = true;
	sock.end = &rdma_nowhere;
	sock.tx->state = ANC_SWITCHING;
	sock.stats.row = &row;
	sock.stats.row_pid = sock_pid;
	assert_int_equal(lift_stall(&sock, sock.waits.orphan_fd, WHY_CLOSED,
				    false),
			 -EBUSY);
	sock.peer_gone = true;
	assert_int_equal(
		lift_stall(&sock, sock.waits.orphan_fd, WHY_CLOSED, true), 0);
	assert_int_equal(anc_state(sock.tx), ANC_DRAINING);
}

/*
 * The program has ended its direction, and the reader has not said that it has
 * all: nothing will tell once the owner of the queue pair has left.
 */
static void t_left(void **state)
{
	int fd = sock.waits.orphan_fd;
	char byte;

	(void)state;
	sock_pid = getpid();
	sock.waits.orphan_fd = -1;
	sock.paired = true;
	sock.tx->state = ANC_DRAINING;
	sock.at.y = 104;
	sock.eos.shut_wr = sock.eos.fin_due = true;
	rdma.owner = getppid();
	sock.mem.holder[0] = (struct holder){ .pid = sock_pid, .fds = 1 };
	sock.mem.holder[1] = (struct holder){ .pid = rdma.owner, .fds = 1 };
	sock.mem.holders = 1;
	fallback_serve(&sock, fd);
	assert_true(sock.eos.fin_due);
	assert_int_equal(recv(peer, &byte, 1, MSG_DONTWAIT), -1);
	sock.mem.holder[1].fds = 0;
	fallback_serve(&sock, fd);
	assert_false(sock.eos.fin_due);
	assert_int_equal(recv(peer, &byte, 1, MSG_DONTWAIT), 0);
	sock_pid = 0;
	sock.waits.orphan_fd = fd;
}

static unsigned int refused;

static int refuse(struct verbs *v, struct verbs_request *q, const void *why,
		  size_t len)
{
	assert_null(v);
	assert_null(q);
	assert_non_null(why);
	assert_true(len > 0);
	refused++;
	return 0;
}

/* A request for a sock whose lock a process has that was killed: it goes on. */
static void t_killed(void **state)
{
	static const struct verbs_api api = { .refuse = refuse };
	const struct conn_params p = { .rcv_size = VERBS_RCV_SIZE,
				       .posted = VERBS_RCV_REST,
				       .max_adverts = 1,
				       .ext_flags = CONN_EXT_WORDS };
	struct verbs_event ev = { .type = VE_REQUEST };
	struct conn_names n = { .ipv = 4 };
	struct conn asker;
	pid_t dead = fork();

	(void)state;
	if (!dead)
		_exit(0);
	assert_int_equal(waitpid(dead, NULL, 0), dead);
	sock_pid = getpid();
	rdma_api = &api;
	sock.mem.holder[0] = (struct holder){ .pid = sock_pid, .fds = 1 };
	rdma.owner = sock_pid;
	rdma.seek.names.v4 = true;
	rdma.seek.names.local_port = n.remote_port = 7;
	rdma.seek.names.peer_port = n.local_port = 8;
	ev.local.sa.sa_family = ev.peer.sa.sa_family = AF_INET;
	conn_init(&asker, &p);
	ev.len = conn_hello(&asker, &n, ev.data);
	service_add(&sock);
	sock.lock.word = (uint32_t)dead;
	rdma_request(NULL, &ev);
	service_del(&sock);
	assert_int_equal(refused, 1);
	assert_int_equal(sock.lock.word, 0);
	rdma_api = NULL;
	sock_pid = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(t_seen, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_receive, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_in_front, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_hidden, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_let_go, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_answer, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_busy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_tried, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_relative, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_killed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_died, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_left, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
