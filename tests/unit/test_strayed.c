/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel gives to a receive that never returns, since a handler jumped
 * out of it or its thread ended in it: the marker of a lift, kicks, stream
 * bytes.
 */
#include "both_util.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "base/sigdefer.h"

/* --- a receive that does not return --------------------------------------- */

static void (*meanwhile)(void); /* what the writer does during a receive */
static bool ends; /* its thread does, else it is jumped out of */
static sigjmp_buf out;
static size_t taken;

static ssize_t kernel_recv(int from, void *buf, size_t n, int flags)
{
	void (*now)(void) = meanwhile;
	ssize_t got;

	if (!now)
		return recv(from, buf, n, flags);
	meanwhile = NULL;
	now();
	got = recv(from, buf, n, flags);
	assert_true(got > 0);
	taken = (size_t)got;
	if (ends)
		pthread_exit(NULL);
	siglongjmp(out, 1);
}

static void *in_vain(void *room)
{
	char buf[64];

	sock_recv(&sock, fd, buf, *(size_t *)room, 0);
	return room;
}

/* A receive of up to `room` bytes; it takes n. */
static void left(void (*then)(void), size_t room, size_t n)
{
	pthread_t t;

	meanwhile = then;
	taken = 0;
	if (ends) {
		assert_int_equal(pthread_create(&t, NULL, in_vain, &room), 0);
		assert_int_equal(pthread_join(t, NULL), 0);
	} else if (!sigsetjmp(out, 1)) {
		in_vain(&room);
	}
	assert_null(meanwhile);
	assert_int_equal(taken, n);
}

static void gets(const char *bytes)
{
	char buf[64];
	ssize_t n = sock_recv(&sock, fd, buf, sizeof(buf), MSG_DONTWAIT);

	assert_int_equal(n, strlen(bytes));
	assert_memory_equal(buf, bytes, strlen(bytes));
}

static void gets_nothing(void)
{
	char byte;

	assert_int_equal(sock_recv(&sock, fd, &byte, 1, MSG_DONTWAIT), -EAGAIN);
}

/* Lifted, stalled and lifted once more: each byte comes, once. */
static void goes_on(void)
{
	stalls();
	says("tail");
	gets("tail");
	assert_int_equal(anc_state(sock.rx), ANC_TCP);
	assert_null(sock.conn.fault);
	assert_int_equal(sock.ar.taken, writer.at.sent);
	assert_int_equal(sock.ar.kicks, writer.at.kicks);
}

/* --- tests ---------------------------------------------------------------- */

static void t_marker(void **state)
{
	(void)state;
	left(lifts, 64, RDMA_MARKER);
	arrives("abc");
	gets("abc");
	gets_nothing();
	goes_on();
}

/* What the stall lets out is no marker. */
static void t_marker_spill(void **state)
{
	(void)state;
	left(lifts, 64, RDMA_MARKER);
	gets_nothing();
	goes_on();
}

/* The rest of it lies on the anchor. */
static void t_marker_part(void **state)
{
	(void)state;
	left(lifts, 5, 5);
	arrives("abc");
	gets("abc");
	goes_on();
}

static void t_kick(void **state)
{
	(void)state;
	left(lifts, 64, 1);
	gets_nothing();
	goes_on();
}

static void t_thread(void **state)
{
	ends = true;
	sock.rd ? t_marker(state) : t_kick(state);
	ends = false;
}

/* Stream bytes are lost, as on TCP; but the writer may have counted on them. */
static void says_abc(void)
{
	says("abc");
}

static void t_stream(void **state)
{
	(void)state;
	left(says_abc, 2, 2);
	gets("c");
	assert_int_equal(sock.ar.taken, 3);
	left(lifts, 64, sock.rd ? RDMA_MARKER : 1);
	gets_nothing();
	goes_on();
}

/* A new queue pair counts kicks anew. */
static void t_up_again(void **state)
{
	t_marker(state);
	assert_int_equal(lock_take(&sock.lock), 0);
	assert_int_equal(rdma_up(&sock), 0);
	lock_drop(&sock.lock);
	assert_int_equal(sock.ar.kicks, 0);
	left(says_abc, 2, 2);
	gets("c");
	assert_int_equal(sock.ar.taken, writer.at.sent);
}

/* The same when the writer has left the anchor ahead of its reader. */
static void says_and_lifts(void)
{
	says("abc");
	assert_int_equal(anc_switch(writer.dir, &writer.at, true), 1);
	told();
}

static void t_stream_ahead(void **state)
{
	(void)state;
	left(says_and_lifts, 64, 3);
	gets_nothing();
	assert_int_equal(sock.ar.taken, 3);
	assert_int_equal(anc_state(sock.rx),
			 sock.rd ? ANC_SWITCHING : ANC_LIFTED);
}

/* What cannot be counted is not vouched for. */
static void t_doubt(void **state)
{
	(void)state;
	assert_true(sock.own->counted & ANC_COUNTED_RX);
	sock.ar.based = false;
	left(says_abc, 64, 3);
	gets_nothing();
	assert_false(sock.own->counted & ANC_COUNTED_RX);
}

/* Another one is inside, and gets what came behind the marker. */
static void rings(void)
{
	on_anchor("", 1);
	writer.at.kicks++;
}

static void t_others(void **state)
{
	char byte;

	(void)state;
	left(lifts, 64, RDMA_MARKER);
	sock.rx->tcp_rx++; /* it began in TCP */
	gets_nothing();
	/* it sleeps in the kernel: a kick is asked for */
	assert_true((sock.rx->armed & ANC_ANCHOR) || sock.rd->words.kick_no);
	rings();
	assert_int_equal(recv(fd, &byte, 1, 0), 1);
	assert_true(rdma_tcp_took(&sock, &(struct iovec){ &byte, 1 }, 1, 0, 1));
	sock.rx->tcp_rx--;
	assert_false(rd.mark.marker_wait);
	assert_int_equal(rd.state, RDMA_UP);
	goes_on();
}

/*
 * The marker came into memory that another thread has taken away since: the
 * proof is there, and the kernel reads it.
 */
static void t_protected(void **state)
{
	char *mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec iov = { mem, RDMA_MARKER };
	struct sigdefer_action none = { .handler = NULL };
	struct sigaction sa = { .sa_sigaction = sigdefer_entry,
				.sa_flags = SA_SIGINFO },
			 was;

	(void)state;
	assert_ptr_not_equal(mem, MAP_FAILED);
	/* as preload does it */
	sigdefer_set(SIGSEGV, &none);
	assert_int_equal(sigaction(SIGSEGV, &sa, &was), 0);
	lifts();
	assert_int_equal(recv(fd, mem, 4096, 0), RDMA_MARKER);
	assert_int_equal(mprotect(mem, 4096, PROT_NONE), 0);
	assert_true(rdma_tcp_took(&sock, &iov, 1, 0, RDMA_MARKER));
	assert_false(rd.mark.marker_wait);
	assert_int_equal(rd.state, RDMA_UP);
	assert_int_equal(sock.conn.error, 0);
	assert_int_equal(munmap(mem, 4096), 0);
	assert_int_equal(sigaction(SIGSEGV, &was, NULL), 0);
	goes_on();
}

/* The queue pair breaks before any look. */
static void t_broken(void **state)
{
	uint8_t rec[RESUME_RECORD];

	(void)state;
	left(lifts, 64, RDMA_MARKER);
	arrives("abc");
	resume_record(rec, rd.mark.secret_rx, 3);
	on_anchor(rec, sizeof(rec));
	on_anchor("def", 3);
	assert_int_equal(lock_take(&sock.lock), 0);
	failover_begin(&sock, -ECONNRESET);
	failover_step(&sock);
	assert_false(rd.failover.mended); /* the thread inside may come back */
	lock_drop(&sock.lock);
	gets("abc");
	assert_int_equal(lock_take(&sock.lock), 0);
	failover_step(&sock);
	assert_true(rd.failover.mended);
	lock_drop(&sock.lock);
	gets("def");
}

/* --- a send that does not return ------------------------------------------ */

static size_t cut_off; /* what it writes first, of the next send */

static ssize_t kernel_send(int to, const struct msghdr *m, int flags)
{
	size_t n = cut_off;

	if (!n)
		return sendmsg(to, m, flags);
	cut_off = 0;
	assert_int_equal(send(to, m->msg_iov->iov_base, n, 0), n);
	siglongjmp(out, 1);
}

static ssize_t kernel_send_plain(int to, const void *buf, size_t n, int flags)
{
	struct iovec iov = { (void *)buf, n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	return kernel_send(to, &m, flags);
}

/*
 * Behind a stall. When the reader wants to fall back all that it has to take
 * off the anchor first is what was written, whatever its writer was told.
 */
static void t_send(void **state)
{
	struct anc_dir *d = sock.tx;
	struct anc_rx reader = { 0 };
	char got[3];

	(void)state;
	assert_int_equal(sock_send(&sock, fd, "abc", 3, 0), 3);
	assert_int_equal(recv(writer.fd, got, 3, MSG_WAITALL), 3);
	anc_taken(d, &reader, 3);
	sock.peer->ready = 1;
	sock.peer->counted = ANC_COUNTED_RX;
	lift_try_tx(&sock, fd);
	assert_int_equal(anc_state(d), ANC_LIFTED);
	assert_int_equal(lock_take(&sock.lock), 0);
	anc_sent(d, &sock.at, 10); /* by the ring */
	assert_int_equal(anc_stall(d, &sock.at, false), 0);
	lock_drop(&sock.lock);
	assert_int_equal(sock_send(&sock, fd, "defg", 4, 0), 4);
	cut_off = 2;
	if (!sigsetjmp(out, 1))
		sock_send(&sock, fd, "hijk", 4, 0);
	assert_int_equal(cut_off, 0);
	assert_int_equal(sock_send(&sock, fd, "l", 1, 0), 1);
	assert_int_equal(anc_ask(d), 0);
	assert_int_equal(lock_take(&sock.lock), 0);
	fallback_serve(&sock, fd);
	lock_drop(&sock.lock);
	assert_int_equal(anc_state(d), ANC_PAUSED);
	assert_int_equal(d->sent, 3 + 10 + 4 + 2 + 1);
}

#define CASE(name, where) \
	cmocka_unit_test_setup_teardown(name, where, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(t_marker, two_hosts),	 CASE(t_thread, two_hosts),
		CASE(t_marker_spill, two_hosts), CASE(t_marker_part, two_hosts),
		CASE(t_kick, one_host),		 CASE(t_thread, one_host),
		CASE(t_stream, one_host),	 CASE(t_stream, two_hosts),
		CASE(t_up_again, two_hosts),	 CASE(t_stream_ahead, one_host),
		CASE(t_stream_ahead, two_hosts), CASE(t_doubt, one_host),
		CASE(t_others, two_hosts),	 CASE(t_broken, two_hosts),
		CASE(t_protected, two_hosts),	 CASE(t_send, one_host),
	};
	const struct sock_hooks lent = { .recv = kernel_recv,
					 .send = kernel_send_plain,
					 .sendmsg = kernel_send,
					 .ppoll = ppoll };

	alarm(120);
	sock_setup(&lent);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
