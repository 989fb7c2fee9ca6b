/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A receive where the stream goes over from one carrier to the other gives what
 * a look has shown, and a look shows what has come.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "both_util.h"
#include "socket/stream/stream.h"

static void sees(const char *bytes)
{
	char buf[64];
	ssize_t n =
		sock_recv(&sock, fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT);

	assert_int_equal(n, strlen(bytes));
	assert_memory_equal(buf, bytes, strlen(bytes));
}

/* It may sleep, and must not. */
static void gets(const char *bytes)
{
	char buf[64];
	ssize_t n = sock_recv(&sock, fd, buf, sizeof(buf), 0);

	assert_int_equal(n, strlen(bytes));
	assert_memory_equal(buf, bytes, strlen(bytes));
}

static void gets_nothing(void)
{
	char byte;

	assert_int_equal(sock_recv(&sock, fd, &byte, 1, MSG_DONTWAIT), -EAGAIN);
}

/* --- from the ring to the anchor ------------------------------------------ */

static void in_ring_and_behind(void)
{
	lifts();
	gets_nothing();
	arrives("abc");
	stalls();
	says("tail");
}

static void t_spill(void **state)
{
	(void)state;
	in_ring_and_behind();
	sees("abctail");
	gets("abctail");
	gets_nothing();
}

static void t_nothing_behind(void **state)
{
	(void)state;
	lifts();
	gets_nothing();
	arrives("abc");
	stalls();
	gets("abc");
	says("tail");
	gets("tail");
}

/* The first of them is full in the middle of what lies on the anchor. */
static void t_vector(void **state)
{
	char a[5], b[10];
	struct iovec v[] = { { a, sizeof(a) }, { b, sizeof(b) } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	(void)state;
	in_ring_and_behind();
	assert_int_equal(sock_recvmsg(&sock, fd, &m, 0), 7);
	assert_memory_equal(a, "abcta", 5);
	assert_memory_equal(b, "il", 2);
}

/* Control messages belong to the bytes of one carrier. */
static void t_control(void **state)
{
	char a[16], room[256];
	struct iovec v = { a, sizeof(a) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	int flags;

	for (flags = 0; flags <= MSG_DONTWAIT; flags += MSG_DONTWAIT) {
		in_ring_and_behind();
		m.msg_control = room;
		m.msg_controllen = sizeof(room);
		m.msg_flags = MSG_CTRUNC;
		assert_int_equal(sock_recvmsg(&sock, fd, &m, flags), 3);
		assert_int_equal(m.msg_controllen, 0);
		assert_int_equal(m.msg_flags, 0);
		gets("tail");
		tear_down(state);
		sock.rd ? two_hosts(state) : one_host(state);
	}
	/* one that waits for all gets both, and none of them */
	in_ring_and_behind();
	v.iov_len = 7;
	m.msg_controllen = sizeof(room);
	m.msg_flags = MSG_CTRUNC;
	assert_int_equal(sock_recvmsg(&sock, fd, &m, MSG_WAITALL), 7);
	assert_int_equal(m.msg_controllen, 0);
	assert_int_equal(m.msg_flags, 0);
}

/* A kick lies in front of the rest, and was counted before it is there. */
static void t_kick_to_come(void **state)
{
	(void)state;
	lifts();
	gets_nothing();
	arrives("abc");
	anc_kick(writer.dir, &writer.at);
	stalls();
	gets("abc");
	on_anchor("", 1);
	says("tail");
	gets("tail");
}

/* The end behind it is the next receive's. */
static void t_end(void **state)
{
	(void)state;
	in_ring_and_behind();
	assert_int_equal(shutdown(writer.fd, SHUT_WR), 0);
	gets("abctail");
	gets("");
}

/* DisConn, and the writer leaves the ring; its FIN is to come. */
static void ends_in_ring(void)
{
	struct conn_offer offer = { .bytes = 0 };
	struct conn_op op;

	conn_shutdown(&writer.conn, 0, false);
	conn_next(&writer.conn, 0, &offer, sizeof(came[0]), &op);
	assert_int_equal(op.type, CONN_SEND);
	memcpy(came[ncame], op.hdr, op.hdr_len);
	came_len[ncame] = op.hdr_len;
	__atomic_store_n(&ncame, ncame + 1, __ATOMIC_RELEASE);
}

static void found(void)
{
	struct sock_ready r;

	sock_ready(&sock, fd, EPOLLIN, &r);
	assert_int_equal(r.ours & r.now & (EPOLLIN | EPOLLRDHUP),
			 EPOLLIN | EPOLLRDHUP);
}

static void end_found(void)
{
	char byte;

	assert_int_equal(sock_recv(&sock, fd, &byte, 1, MSG_DONTWAIT), 0);
	found();
	assert_int_equal(
		sock_recv(&sock, fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT), 0);
	assert_int_equal(shutdown(writer.fd, SHUT_WR), 0);
	gets("");
	found();
}

/* An end that was reported is there while the kernel's FIN is on its way. */
static void t_end_before_fin(void **state)
{
	(void)state;
	lifts();
	gets_nothing();
	arrives("abc");
	gets("abc");
	ends_in_ring();
	found();
	stalls();
	end_found();
}

/* The same where nothing has looked at the DisConn before. */
static void t_end_unseen(void **state)
{
	(void)state;
	lifts();
	gets_nothing();
	arrives("abc");
	gets("abc");
	ends_in_ring();
	stalls();
	end_found();
}

/* --- from the anchor to the ring ------------------------------------------ */

static void t_lift(void **state)
{
	(void)state;
	says("head");
	assert_int_equal(anc_switch(writer.dir, &writer.at, true), 1);
	told();
	arrives("abc");
	sees("headabc");
	gets("headabc");
}

/* And back, before anything has looked. */
static void t_both(void **state)
{
	(void)state;
	says("head");
	assert_int_equal(anc_switch(writer.dir, &writer.at, true), 1);
	told();
	arrives("abc");
	stalls();
	says("tail");
	gets("headabctail");
}

/*
 * An edge is due for what comes on the anchor after a look, though it is read
 * in one go with a part of the ring, of which the look had told.
 */
static void t_edge_in_front(void **state)
{
	struct sock_ready before, after;
	char buf[8];

	(void)state;
	says("head");
	anc_sent(writer.dir, &writer.at, 4); /* and on its way */
	assert_int_equal(anc_switch(writer.dir, &writer.at, true), 1);
	arrives("ring");
	sock_ready(&sock, fd, 0, &before);
	assert_true(before.now & EPOLLIN);
	on_anchor("tail", 4);
	assert_int_equal(sock_recv(&sock, fd, buf, 8, MSG_DONTWAIT), 8);
	assert_memory_equal(buf, "headtail", 8);
	sock_ready(&sock, fd, 0, &after);
	assert_true(after.now & EPOLLIN);
	assert_int_not_equal(after.in_gen, before.in_gen);
	/* and no other */
	sock_ready(&sock, fd, 0, &before);
	assert_int_equal(after.in_gen, before.in_gen);
	gets("ring");
}

/* --- handed back to the writer -------------------------------------------- */

/* Seen in the ring; then the writer is to put it on the anchor. */
static void handed_back(void)
{
	lifts();
	gets_nothing();
	arrives("abc");
	sees("abc");
	anc_ask(sock.rx);
	assert_int_equal(anc_answer(writer.dir, &writer.at), 0);
	assert_int_equal(lock_take(&sock.lock), 0);
	fallback_abandoned(&sock, fd);
	lock_drop(&sock.lock);
	assert_int_equal(anc_state(sock.rx), ANC_RESTORING);
}

/*
 * What a writer that leaves had put was asked for, and a receive that had begun
 * took all of it: the direction goes home all the same, with none to come.
 */
static void t_taken_meanwhile(void **state)
{
	(void)state;
	lifts();
	gets_nothing();
	arrives("abc");
	stalls();
	sock.peer->leaves = ANC_LEAVES;
	anc_ask(sock.rx);
	assert_int_equal(anc_answer(writer.dir, &writer.at), 0);
	anc_put_begin(
		writer.dir); /* as a receive that began before the answer */
	gets("abc");
	anc_put_end(writer.dir);
	assert_int_equal(anc_state(sock.rx), ANC_PAUSED);
	assert_int_equal(lock_take(&sock.lock), 0);
	fallback_take_back(&sock, fd);
	lock_drop(&sock.lock);
	assert_int_equal(anc_state(sock.rx), ANC_TCP);
}

static void unread(int n)
{
	int there = -1;

	assert_int_equal(sock_ioctl(&sock, fd, FIONREAD, &there), 0);
	assert_int_equal(there, n);
}

static useconds_t late;
static uint64_t begun, wrote;

static void *put_back(void *arg)
{
	usleep(late);
	assert_int_equal(write(writer.fd, "abc", 3), 3);
	wrote = clock_ns();
	return arg;
}

/*
 * What a look has shown is there, for a receive that must not wait, too. Such a
 * receive waits for a moment only: a writer that got no processor before most
 * of that was over shows nothing, and has to begin again.
 */
static bool seen_in_time(void **state, const pthread_t *writes, uint64_t moment)
{
	char buf[4];
	ssize_t n =
		sock_recv(&sock, fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT);

	assert_int_equal(pthread_join(*writes, NULL), 0);
	if (n == -EAGAIN && wrote - begun > moment / 4 * 3) {
		tear_down(state);
		one_host(state);
		return false;
	}
	assert_int_equal(n, 3);
	unread(3);
	gets("abc");
	unread(0);
	return true;
}

static void is_put_back(void **state, useconds_t us, int peer_pid)
{
	pthread_t writes;

	late = us;
	do {
		sock.seek.pair.peer_pid = peer_pid;
		handed_back();
		unread(3);
		begun = sock.fallback.handed_at;
		assert_int_equal(pthread_create(&writes, NULL, put_back, NULL),
				 0);
	} while (!seen_in_time(state, &writes, 200000000));
}

static void t_put_back(void **state)
{
	is_put_back(state, 2000, 0);
}

/* The writer has to share its processor. */
static void t_put_back_by_a_busy_one(void **state)
{
	is_put_back(state, 40000, (int)getpid());
}

static bool narrowly, leaves;
static pthread_t narrow;

/* The writer is done with it behind a receive that found nothing. */
static ssize_t recv_lent(int at, void *buf, size_t len, int flags)
{
	ssize_t n = recv(at, buf, len, flags);

	if (n >= 0 || !narrowly)
		return n;
	narrowly = false;
	late = 2000;
	begun = clock_ns();
	assert_int_equal(pthread_create(&narrow, NULL, put_back, NULL), 0);
	anc_resumed(writer.dir);
	/* another thread is the first to see that */
	assert_int_equal(lock_take(&sock.lock), 0);
	assert_int_equal(pump_poll(&sock), 0);
	lock_drop(&sock.lock);
	sock.peer_gone = leaves;
	unread(3);
	errno = EAGAIN;
	return -1;
}

/* And before the receive has looked why; the bytes are still under way. */
static void put_back_narrowly(void **state, bool and_leaves)
{
	leaves = and_leaves;
	do {
		handed_back();
		narrowly = true;
	} while (!seen_in_time(state, &narrow, 20000000));
	assert_false(narrowly);
	gets_nothing();
}

static void t_put_back_narrowly(void **state)
{
	put_back_narrowly(state, false);
}

static void t_put_back_and_left(void **state)
{
	put_back_narrowly(state, true);
}

/* Code that is not seen has taken it: looked for once, and not shown. */
static void t_put_back_for_others(void **state)
{
	char bytes[3];

	(void)state;
	handed_back();
	anc_resumed(writer.dir);
	on_anchor("abc", 3);
	assert_int_equal(recv(fd, bytes, 3, 0), 3);
	unread(3);
	gets_nothing();
	unread(0);
	gets_nothing();
}

/*
 * A writer that is stopped does not hold up a receive that must not wait: of
 * some tries the shortest says so, for this process may have to wait itself.
 */
static void t_put_back_late(void **state)
{
	uint64_t since, took = 0;
	pid_t pid = fork();
	int status, tries;

	assert_true(pid >= 0);
	while (!pid)
		pause();
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	for (tries = 0; tries < 400; tries++) {
		sock.seek.pair.peer_pid = pid;
		handed_back();
		since = clock_ns();
		gets_nothing();
		gets_nothing();
		took = clock_ns() - since;
		if (took <= 150000000)
			break;
		tear_down(state);
		one_host(state);
	}
	assert_in_range(took, 0, 150000000);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void closes(void)
{
	sock.stats.row_pid = 0;
	sock_close(&sock, fd);
	assert_int_equal(close(fd), 0);
	fd = -1;
}

/* All of it was read, and the writer has not said so yet: an end in order. */
static void t_put_back_and_closed(void **state)
{
	char byte;

	(void)state;
	handed_back();
	on_anchor("abc", 3);
	gets("abc");
	closes();
	assert_int_equal(read(writer.fd, &byte, 1), 0);
}

/* Some of it was not. */
static void t_put_back_and_unread(void **state)
{
	char byte;

	(void)state;
	handed_back();
	closes();
	assert_int_equal(read(writer.fd, &byte, 1), -1);
	assert_int_equal(errno, ECONNRESET);
}

/* A thread waits for it, of a process that has closed it meanwhile. */
static void t_waited_for_elsewhere(void **state)
{
	struct sock_ready r;

	(void)state;
	lifts();
	gets_nothing();
	sock.fallback.falling_back = 1;
	anc_ask(sock.rx);
	assert_int_equal(anc_answer(writer.dir, &writer.at), 0);
	sock_ready(&sock, fd, EPOLLIN, &r);
	assert_int_equal(anc_state(sock.rx), ANC_TCP);
	assert_int_equal(anc_switch(writer.dir, &writer.at, false), -EBUSY);
}

/* Another thread closed it, and others have it: its words are not mapped here. */
static void t_closed_meanwhile(void **state)
{
	void *gone = mmap(NULL, sizeof(page), PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	sock.rx = gone;
	sock.tx = sock.rx + 1;
	sock.mem.holder[0] = (struct holder){ .pid = getppid(), .fds = 1 };
	sock.user = getppid();
	assert_int_equal(sock_fallback(&sock, fd, WHY_EXEC), 0);
	assert_int_equal(user_comes(&sock, 0, false), 0);
	assert_int_equal(sock.user, getppid());
	assert_int_equal(munmap(gone, sizeof(page)), 0);
}

/* --- within the ring ------------------------------------------------------ */

/* One that does nothing but look sees what comes behind bytes seen before. */
static void t_look(void **state)
{
	(void)state;
	lifts();
	gets_nothing();
	arrives("abc");
	sees("abc");
	arrives("de");
	sees("abcde");
	arrives("f");
	sees("abcdef");
	gets("abcdef");
}

#define CASE(name, where) \
	cmocka_unit_test_setup_teardown(name, where, tear_down)
#define BOTH(name) CASE(name, one_host), CASE(name, two_hosts)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(t_spill),
		BOTH(t_nothing_behind),
		BOTH(t_vector),
		BOTH(t_control),
		BOTH(t_end),
		CASE(t_end_before_fin, one_host),
		CASE(t_end_unseen, one_host),
		CASE(t_kick_to_come, one_host),
		CASE(t_lift, one_host),
		CASE(t_both, one_host),
		CASE(t_edge_in_front, one_host),
		BOTH(t_look),
		CASE(t_taken_meanwhile, one_host),
		CASE(t_put_back, one_host),
		CASE(t_put_back_by_a_busy_one, one_host),
		CASE(t_put_back_narrowly, one_host),
		CASE(t_put_back_and_left, one_host),
		CASE(t_put_back_for_others, one_host),
		CASE(t_put_back_late, one_host),
		CASE(t_put_back_and_closed, one_host),
		CASE(t_put_back_and_unread, one_host),
		CASE(t_waited_for_elsewhere, one_host),
		CASE(t_closed_meanwhile, one_host),
	};
	const struct sock_hooks lent = { .recv = recv_lent,
					 .recvmsg = recvmsg,
					 .ppoll = ppoll };

	alarm(120);
	sock_setup(&lent);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
