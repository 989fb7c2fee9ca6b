/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A program told that there is room can send, whatever comes in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "conn_util.h"
#include "fabric/nowhere.h"
#include "sdp_proto/wire.h"
#include "socket/life/life.h"

#define REST 5 /* receives of the other end; our own are more */
#define WAY  1024 /* messages of a test */

/* --- two queue pairs ------------------------------------------------------ */

struct message {
	uint32_t len;
	uint8_t mem[256];
};

static struct side {
	struct end end; /* first */
	struct side *other;
	struct sock sock;
	struct rdma rd;
	int fd;
	uint32_t room;
	bool far; /* what is under way to it has not come yet */
	struct message in[WAY], ctrl, out;
	unsigned int came, polled, released;
} one, two;

static struct side *side_of(struct end *e)
{
	return (struct side *)e;
}

static uint32_t has_room(struct end *e)
{
	return side_of(e)->room;
}

static void *buf(struct end *e, uint32_t len)
{
	assert_true(len <= sizeof(one.out.mem));
	return side_of(e)->out.mem;
}

static void *ctrl(struct end *e)
{
	return side_of(e)->out.mem;
}

static int xmit(struct end *e, uint32_t len, bool solicited)
{
	struct side *to = side_of(e)->other;

	(void)solicited;
	assert_true(to->came < WAY);
	to->in[to->came] = side_of(e)->out;
	to->in[to->came++].len = len;
	return 0;
}

static bool has_bytes(const struct message *m)
{
	return m->mem[0] == WIRE_DATA && m->len > WIRE_BSDH;
}

static int poll_one(struct end *e, struct fab_msg *m)
{
	struct side *s = side_of(e);

	if (s->far || s->polled == s->came)
		return 0;
	s->ctrl = s->in[s->polled++];
	*m = (struct fab_msg){ .mem = s->ctrl.mem,
			       .len = s->ctrl.len,
			       .held = has_bytes(&s->ctrl) };
	return 1;
}

static int oldest(struct end *e, struct fab_msg *m)
{
	struct side *s = side_of(e);

	while (s->released < s->polled && !has_bytes(&s->in[s->released]))
		s->released++;
	if (s->released == s->polled)
		return 0;
	*m = (struct fab_msg){ .mem = s->in[s->released].mem,
			       .len = s->in[s->released].len,
			       .held = true };
	return 1;
}

static void let_go(struct end *e)
{
	side_of(e)->released++;
}

static bool pending(struct end *e)
{
	return !side_of(e)->far && side_of(e)->polled < side_of(e)->came;
}

static const struct fabric_ops ops = {
	.name = "test",
	.room = has_room,
	.buf = buf,
	.ctrl = ctrl,
	.send = xmit,
	.poll = poll_one,
	.front = oldest,
	.release = let_go,
	.pending = pending,
	.trim = nowhere_nothing,
	.destroy = nowhere_nothing,
};

static int arm(struct end *e, bool solicited)
{
	(void)e;
	(void)solicited;
	return 0;
}

static void info(const struct end *e, struct verbs_info *i)
{
	(void)e;
	memset(i, 0, sizeof(*i));
}

static void probe(struct end *e)
{
	(void)e;
}

static const struct verbs_api api = {
	.arm = arm, .disconnect = nowhere_nothing, .info = info, .probe = probe
};

/* --- two ends of a connection --------------------------------------------- */

static void anchors(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t len = sizeof(at);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(l, (void *)&at, len), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (void *)&at, &len), 0);
	one.fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(one.fd, (void *)&at, len), 0);
	two.fd = accept(l, NULL, NULL);
	assert_true(two.fd >= 0);
	close(l);
	assert_int_equal(fcntl(one.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(fcntl(two.fd, F_SETFL, O_NONBLOCK), 0);
}

static void live(struct side *me, struct side *other)
{
	struct rdma *r = &me->rd;
	struct sock *s = &me->sock;

	me->other = other;
	me->room = 32768;
	me->end = (struct end){ &ops, RCV_SIZE, REST };
	s->end = &me->end;
	s->stats.row = &sock_spare;
	s->waits.wake = s->waits.orphan_fd = -1;
	s->id.phase = PH_CONNECTED;
	s->opt.nonblock = true;
	s->seek.look = LOOK_NEVER;
	s->opt.nodelay = s->opt.cork = -1;
	s->zc.least = SIZE_MAX;
	s->mem.holder[0] = (struct holder){ .pid = sock_pid, .fds = 1 };
	s->mem.holder[0].fd = me->fd;
	s->rd = r;
	s->link = &rdma_link;
	r->sock = s;
	r->end = &me->end;
	r->owner = sock_pid;
	r->state = RDMA_UP;
	r->far = r->watch.anchor = -1;
	r->failover.confirmed = true;
	bytebuf_init(r);
	remote_init(&r->words, &r->mirror, &s->at, &s->ar);
	s->own = r->words.own;
	s->peer = r->words.peer;
	s->tx = r->words.tx;
	s->rx = r->words.rx;
	s->own->ready = 1;
	s->paired = true;
}

static void look(struct side *me)
{
	assert_int_equal(lock_take(&me->sock.lock), 0);
	rdma_look_after(&me->sock);
	lock_drop(&me->sock.lock);
}

/* Words and credits go to and fro until all is said. */
static void settle(void)
{
	do {
		look(&one);
		look(&two);
	} while (pending(&one.end) || pending(&two.end));
}

static int set_up(void **state)
{
	struct conn_params p = params(false), q = params(false);

	(void)state;
	memset(&one, 0, sizeof(one));
	memset(&two, 0, sizeof(two));
	memset(&hooks, 0, sizeof(hooks));
	hooks.send = send;
	hooks.recv = recv;
	rdma_api = &api;
	sock_pid = getpid();
	anchors();
	live(&one, &two);
	live(&two, &one);
	p.posted = 2 * REST;
	q.posted = REST;
	p.ext_flags = q.ext_flags = EXT | CONN_EXT_WORDS;
	join(&one.sock.conn, &p, &two.sock.conn, &q);
	settle();
	assert_true(one.sock.peer->ready);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	failover_drop(&one.rd);
	failover_drop(&two.rd);
	close(one.fd);
	close(two.fd);
	return 0;
}

static ssize_t put(struct side *me)
{
	return sock_send(&me->sock, me->fd, "x", 1, 0);
}

/* What was sent to the anchor may take its time. */
static ssize_t get(struct side *me)
{
	ssize_t n = -EAGAIN;
	char byte;
	int i;

	for (i = 0; i < 10000 && n == -EAGAIN; i++) {
		if (i)
			usleep(1000);
		n = sock_recv(&me->sock, me->fd, &byte, 1, 0);
	}
	return n;
}

/* Its program sends the first byte by the ring, and the peer has it. */
static void lift(struct side *me)
{
	assert_int_equal(put(me), 1);
	assert_int_equal(anc_state(me->sock.tx), ANC_LIFTED);
	settle();
	assert_int_equal(get(me->other), 1);
	settle();
	assert_true(me->rd.failover.confirmed);
}

static bool told(struct side *me, uint32_t asks)
{
	struct sock_ready r;

	sock_ready(&me->sock, me->fd, asks, &r);
	assert_true(r.ours & EPOLLOUT);
	return r.now & EPOLLOUT;
}

/* So many messages may still go: the peer's program does not read. */
static void left(struct side *me, uint32_t credits)
{
	while (me->sock.conn.credits > credits) {
		assert_int_equal(put(me), 1);
		settle();
	}
	assert_int_equal(me->sock.conn.credits, credits);
}

/* --- what comes in between ------------------------------------------------ */

/*
 * The peer leaves the anchor: that we know of it needs a message, and there are
 * credits for one with a byte in it.
 */
static void words_wait(void **state)
{
	(void)state;
	two.sock.fallback.lift_not_before = UINT64_MAX;
	assert_int_equal(put(&two), 1);
	two.sock.fallback.lift_not_before = 0;
	lift(&one);
	left(&one, 3);
	sock_wait_begins();
	assert_true(told(&one, EPOLLOUT));
	two.far = true;
	two.sock.own->counted = ANC_COUNTED_TX;
	two.sock.peer->counted = ANC_COUNTED_RX;
	assert_int_equal(put(&two), 1);
	look(&one);
	assert_int_equal(anc_state(one.sock.rx), ANC_SWITCHING);
	assert_int_equal(put(&one), 1);
	two.far = false;
	assert_int_equal(get(&one), 1);
	settle();
	assert_true(two.rd.failover.confirmed);
	assert_int_equal(get(&one), 1);
}

/* Nor is it said by a second look of the same wait. */
static void in_one_wait(void **state)
{
	(void)state;
	lift(&one);
	left(&one, 3);
	sock_wait_begins();
	assert_true(told(&one, EPOLLOUT | EPOLLIN));
	one.sock.own->counted ^= ANC_COUNTED_RX; /* to be told */
	assert_true(told(&one, EPOLLOUT | EPOLLIN));
	assert_true(told(&one, 0));
	assert_int_equal(one.sock.conn.credits, 3);
	/* but in the next wait, and that one is told so */
	sock_wait_begins();
	assert_false(told(&one, EPOLLOUT | EPOLLIN));
	assert_true(one.sock.conn.credits < 3);
}

/* An edge of other news says OUT, too: asked for anew, since OUT is none. */
static void edges(void **state)
{
	(void)state;
	lift(&one);
	left(&one, 3);
	sock_wait_begins();
	assert_true(told(&one, EPOLLOUT | EPOLLIN | EPOLLET));
	assert_false(one.sock.conn.spare);
	assert_true(sock_promise(&one.sock));
	assert_int_equal(put(&two), 1);
	look(&one);
	assert_int_equal(put(&one), 1);
	assert_false(sock_promise(&one.sock));
	assert_true(one.sock.waits.full);
}

static void meets(struct sock *s)
{
	hooks.changed = NULL;
	if (s != &one.sock)
		return;
	assert_int_equal(put(&two), 1);
	look(&one);
}

/*
 * The kernel said that there is room, and this send leaves the anchor. Before
 * its first byte is in the ring the peer does the same, and the service thread
 * hears of it.
 */
static void leaving(void **state)
{
	(void)state;
	hooks.changed = meets;
	two.far = true;
	while (one.sock.conn.credits > 4) {
		anc_arm(one.sock.rx, ANC_ANCHOR); /* to be told */
		look(&one);
	}
	assert_int_equal(put(&one), 1);
	two.far = false;
	assert_int_equal(anc_state(one.sock.tx), ANC_LIFTED);
	assert_int_equal(anc_state(one.sock.rx), ANC_LIFTED);
	settle();
	assert_int_equal(get(&one), 1);
	assert_int_equal(get(&two), 1);
}

/* The ring stays full, and the look stalls: the reader has to know first. */
static void stalled(void **state)
{
	struct sock_ready r;

	(void)state;
	lift(&one);
	left(&one, 2);
	one.rd.load.given =
		one.sock.conn.tx_stream - 1000; /* bytes took them */
	assert_int_equal(put(&one), -EAGAIN);
	one.sock.waits.full_since = 0;
	sock_ready(&one.sock, one.fd, EPOLLOUT, &r);
	assert_int_equal(anc_state(one.sock.tx), ANC_DRAINING);
	assert_true(one.sock.fallback.stand);
	assert_true(r.ours & EPOLLOUT);
	assert_false(r.now & EPOLLOUT);
	assert_int_equal(r.ms, 1);
	settle();
	sock_ready(&one.sock, one.fd, EPOLLOUT, &r);
	assert_false(one.sock.fallback.stand);
	assert_false(r.ours & EPOLLOUT);
	assert_int_equal(put(&one), 1);
}

/* On one host as well a few messages of ours leave room enough. */
static void margin(void **state)
{
	(void)state;
	lift(&one);
	one.sock.rd = NULL;
	one.sock.link = NULL;
	one.room = CONN_SPARE_ROOM - 1;
	assert_false(told(&one, EPOLLOUT));
	assert_true(one.sock.waits.full);
	one.room = CONN_SPARE_ROOM;
	assert_true(told(&one, EPOLLOUT));
	one.room = 1024;
	assert_int_equal(put(&one), 1);
	one.sock.rd = &one.rd;
	one.sock.link = &rdma_link;
}

/* --- what else waits, or does not ------------------------------------------ */

/*
 * The peer's end is here, and not what it sent by the anchor in front of x: as
 * from TCP, the end is not told before all of it is here.
 */
static void end_in_front(void **state)
{
	struct sock_ready r;

	(void)state;
	two.sock.fallback.lift_not_before = UINT64_MAX;
	assert_int_equal(put(&two), 1);
	two.sock.fallback.lift_not_before = 0;
	lift(&one);
	two.sock.own->counted = ANC_COUNTED_TX;
	two.sock.peer->counted = ANC_COUNTED_RX;
	assert_int_equal(put(&two), 1);
	assert_int_equal(sock_shutdown(&two.sock, two.fd, SHUT_WR), 0);
	look(&one);
	assert_int_equal(anc_state(one.sock.rx), ANC_SWITCHING);
	one.sock.eos.rx_eof = true; /* not hidden by a marker, as on one host */
	sock_ready(&one.sock, one.fd, EPOLLIN | EPOLLRDHUP, &r);
	assert_false(r.now & EPOLLRDHUP);
	one.sock.eos.rx_eof = false;
	assert_int_equal(get(&one), 1);
	settle();
	assert_int_equal(get(&one), 1);
	assert_int_equal(get(&one), 0);
	sock_ready(&one.sock, one.fd, EPOLLIN | EPOLLRDHUP, &r);
	assert_int_equal(r.now & (EPOLLIN | EPOLLRDHUP), EPOLLIN | EPOLLRDHUP);
}

static struct timespec slept;

static int reads_it(struct pollfd *p, nfds_t n, const struct timespec *ts,
		    const sigset_t *mask)
{
	assert_true(p && n && !mask);
	slept = *ts;
	one.sock.zc.out = ZC_NONE;
	return 0;
}

/* A source takes no more than half of the time that its send has. */
static void src_limit(void **state)
{
	const int64_t was = settings.zcopy_wait_ms;

	(void)state;
	lift(&one);
	settings.zcopy_wait_ms = 100000;
	hooks.ppoll = reads_it;
	assert_int_equal(lock_take(&one.sock.lock), 0);
	slept = (struct timespec){ 0, 0 };
	while (!slept.tv_sec && !slept.tv_nsec) { /* not too late to sleep */
		one.sock.zc.out = ZC_OUT;
		zcr_await(&one.sock, one.fd, clock_ns() + 1600000000u, -1);
	}
	lock_drop(&one.sock.lock);
	assert_int_equal(slept.tv_sec, 0);
	assert_true(slept.tv_nsec <= 800000000);
	settings.zcopy_wait_ms = was;
}

/* A look that could not have all on the anchor: both ways are lifted again. */
static void looked_in_vain(void **state)
{
	const int64_t was = settings.fallback_timeout_ms;
	int i;

	(void)state;
	lift(&two);
	settings.fallback_timeout_ms = 1;
	peek_fallback(&one.sock, one.fd);
	settings.fallback_timeout_ms = was;
	assert_int_not_equal(anc_state(one.sock.rx), ANC_TCP);
	for (i = 0; i < 100; i++) {
		settle();
		assert_int_equal(put(&two), 1);
		settle();
		assert_int_equal(get(&one), 1);
	}
	assert_int_equal(anc_state(two.sock.tx), ANC_LIFTED);
	lift(&one);
}

static unsigned int naps;

static int naps_in_vain(struct pollfd *p, nfds_t n, const struct timespec *ts,
			const sigset_t *mask)
{
	assert_true(++naps < 100);
	assert_false(n || mask);
	return ppoll(p, n, ts, mask);
}

/* A look for all that comes is shown what lies in front of the mark. */
static void marked(void **state)
{
	char buf[8];
	int in_line;

	(void)state;
	hooks.ppoll = naps_in_vain;
	for (in_line = 0; in_line < 2; in_line++) {
		assert_int_equal(setsockopt(one.fd, SOL_SOCKET, SO_OOBINLINE,
					    &in_line, sizeof(in_line)),
				 0);
		assert_int_equal(fcntl(one.fd, F_SETFL, 0), 0);
		assert_int_equal(send(two.fd, "ab", 2, 0), 2);
		assert_int_equal(send(two.fd, "c", 1, MSG_OOB), 1);
		assert_int_equal(send(two.fd, "defg", 4, 0), 4);
		/* all of it has come */
		assert_int_equal(recv(one.fd, buf, 2, MSG_PEEK | MSG_WAITALL),
				 2);
		while (poll(&(struct pollfd){ one.fd, POLLPRI, 0 }, 1, -1) != 1)
			;
		naps = 0;
		one.sock.opt.nonblock = false;
		assert_int_equal(sock_recv(&one.sock, one.fd, buf, 5,
					   MSG_PEEK | MSG_WAITALL),
				 2);
		assert_int_equal(recv(one.fd, buf, 2, 0), 2);
		assert_int_equal(recv(one.fd, buf, (size_t)(4 + in_line),
				      MSG_WAITALL),
				 4 + in_line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(words_wait, set_up, tear_down),

		cmocka_unit_test_setup_teardown(in_one_wait, set_up, tear_down),
		cmocka_unit_test_setup_teardown(edges, set_up, tear_down),
		cmocka_unit_test_setup_teardown(leaving, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stalled, set_up, tear_down),
		cmocka_unit_test_setup_teardown(margin, set_up, tear_down),
		cmocka_unit_test_setup_teardown(end_in_front, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(src_limit, set_up, tear_down),
		cmocka_unit_test_setup_teardown(marked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(looked_in_vain, set_up,
						tear_down),
	};

	sock_setup(&(struct sock_hooks){ 0 });
	return cmocka_run_group_tests(tests, NULL, NULL);
}
