/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The last number of a sock is closed while a thread sleeps in a receive of the
 * kernel's: the receive keeps what it stands for, as in the kernel.
 */
#include "both_util.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/ioctl.h>

/* --- a thread in the kernel ----------------------------------------------- */

static sem_t in, on;
static bool jumps, ends;
static _Thread_local sigjmp_buf out;
static int file; /* the kernel holds it for the thread inside */

static ssize_t kernel_recv(int from, void *buf, size_t n, int flags)
{
	if (flags & MSG_DONTWAIT || file >= 0)
		return recv(from, buf, n, flags);
	file = dup(from);
	assert_true(file >= 0);
	assert_int_equal(sem_post(&in), 0);
	while (sem_wait(&on))
		assert_int_equal(errno, EINTR);
	if (jumps)
		siglongjmp(out, 1);
	if (ends)
		pthread_exit(NULL);
	return recv(file, buf, n, flags);
}

static struct {
	pthread_t thread;
	pid_t tid;
	char buf[64];
	size_t len;
	int flags;
	ssize_t n;
} sleeper;

static void *sleeps(void *arg)
{
	sleeper.tid = gettid();
	if (!sigsetjmp(out, 1))
		sleeper.n = sock_recv(&sock, fd, sleeper.buf, sleeper.len,
				      sleeper.flags);
	return arg;
}

static void goes_in(size_t len, int flags)
{
	file = -1;
	sleeper.len = len;
	sleeper.flags = flags;
	sleeper.n = -1;
	assert_int_equal(sem_init(&in, 0, 0), 0);
	assert_int_equal(sem_init(&on, 0, 0), 0);
	assert_int_equal(pthread_create(&sleeper.thread, NULL, sleeps, NULL),
			 0);
	while (sem_wait(&in))
		assert_int_equal(errno, EINTR);
}

static void joins(void)
{
	void *ret;

	assert_int_equal(pthread_join(sleeper.thread, &ret), 0);
}

static void comes_out(void)
{
	assert_int_equal(sem_post(&on), 0);
	joins();
}

static void gets(const char *bytes)
{
	comes_out();
	assert_int_equal(sleeper.n, strlen(bytes));
	assert_memory_equal(sleeper.buf, bytes, strlen(bytes));
}

/* The number is something else at once, from which nothing can be taken. */
static void closes(void)
{
	int null = open("/dev/null", O_RDONLY);

	sock.stats.row_pid = 0;
	sock_close(&sock, fd);
	assert_int_equal(dup2(null, fd), fd);
	close(null);
	if (file < 0)
		return;
	close(fd);
	fd = file; /* for those that look at what has arrived */
}

/* Closed in earnest, or between hosts about to be. */
static void is_over(void)
{
	if (sock.rd)
		assert_true(sock.rd->lingers);
	else
		assert_int_equal(sock.waits.orphan_fd, -1);
	assert_true(sock.rd || !sock.paired);
}

/* --- tests ---------------------------------------------------------------- */

/* The stream goes over to the ring meanwhile. */
static void t_lifted(void **state)
{
	(void)state;
	goes_in(64, 0);
	closes();
	assert_true(sock.waits.orphan_fd >= 0);
	lifts();
	arrives("abc");
	gets("abc");
	assert_null(sock.conn.fault);
	is_over();
}

/* And stays where it was. */
static void t_stays(void **state)
{
	(void)state;
	goes_in(64, 0);
	closes();
	assert_true(sock.waits.orphan_fd >= 0);
	says("abc");
	gets("abc");
	is_over();
}

/* A part comes each way: what the number is now has nothing to do with it. */
static void t_all(void **state)
{
	(void)state;
	goes_in(6, MSG_WAITALL);
	closes();
	says("abc");
	assert_int_equal(anc_switch(writer.dir, &writer.at, true), 1);
	arrives("def");
	gets("abcdef");
	assert_null(sock.conn.fault);
	is_over();
}

/* A thread that jumped out is not inside, */
static void t_jumped(void **state)
{
	(void)state;
	jumps = true;
	goes_in(64, 0);
	comes_out();
	jumps = false;
	/* joined, it may still be about to end */
	while (!tgkill(getpid(), sleeper.tid, 0))
		usleep(100);
	assert_int_equal(sock.in.users, 1);
	closes();
	assert_int_equal(sock.waits.orphan_fd, -1);
	assert_false(sock.paired);
}

/* or whose thread ends in it, as one does that is cancelled. */
static void t_ends(void **state)
{
	(void)state;
	goes_in(64, 0);
	closes();
	assert_true(sock.waits.orphan_fd >= 0);
	ends = true;
	comes_out();
	ends = false;
	is_over();
}

/* A send in the kernel has the open file by itself. */
static void t_sender(void **state)
{
	(void)state;
	goes_in(64, 0);
	sock.in.users++;
	sock.in.tcp_tx++;
	closes();
	assert_true(sock.waits.orphan_fd >= 0);
	says("abc");
	gets("abc");
	is_over();
}

/* On its way from the kernel to the ring it waits for the lock. */
static void t_between(void **state)
{
	int i;

	(void)state;
	goes_in(64, 0);
	lifts();
	assert_int_equal(sock_lock(&sock), 0);
	assert_int_equal(sem_post(&on), 0);
	for (i = 0; i < 50; i++) {
		assert_int_equal(sleeper_others(&sock), 1);
		usleep(1000);
	}
	arrives("abc");
	sock_unlock(&sock);
	joins();
	assert_int_equal(sleeper.n, 3);
}

/* Where it spins is not seen. */
static void t_spins(void **state)
{
	int64_t before = settings.spin_us;

	(void)state;
	settings.spin_us = 100000000;
	goes_in(64, 0);
	lifts();
	assert_int_equal(sem_post(&on), 0);
	while (__atomic_load_n(&sock.rx->tcp_rx, __ATOMIC_SEQ_CST))
		usleep(100);
	usleep(20000); /* time to get there: before, it stays as well */
	closes();
	assert_true(sock.waits.orphan_fd >= 0);
	arrives("abc");
	joins();
	assert_int_equal(sleeper.n, 3);
	assert_memory_equal(sleeper.buf, "abc", 3);
	is_over();
	settings.spin_us = before;
}

/* A kick that came before its word is no byte that was left unread. */
static void t_kick(void **state)
{
	char bytes[3];

	(void)state;
	lifts();
	arrives("abc");
	assert_int_equal(sock_recv(&sock, fd, bytes, 3, 0), 3);
	on_anchor("", 1);
	file = -1;
	sock.stats.row_pid = 0;
	sock_close(&sock, fd);
	assert_int_equal(close(fd), 0);
	fd = -1;
	is_over();
	rd.seek.give_up_at = 1; /* nothing goes out in here */
	sock_orphan_end(&sock);
	assert_int_equal(sock.waits.orphan_fd, -1);
	assert_int_equal(recv(writer.fd, bytes, 1, 0), 0);
}

/* The same where the program ends without a close. */
static void t_exits(void **state)
{
	char bytes[3];
	int n;

	(void)state;
	lifts();
	arrives("abc");
	assert_int_equal(sock_recv(&sock, fd, bytes, 3, 0), 3);
	on_anchor("", 1);
	service_add(&sock);
	rdma_exit();
	service_del(&sock);
	assert_int_equal(ioctl(fd, FIONREAD, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(recv(writer.fd, bytes, 1, 0), 0);
}

/* With bytes unread it is the kernel's to say how it ended. */
static void t_exits_unread(void **state)
{
	char byte;

	(void)state;
	lifts();
	arrives("abc");
	assert_int_equal(sock_recv(&sock, fd, &byte, 1, 0), 1);
	service_add(&sock);
	rdma_exit();
	service_del(&sock);
	assert_int_equal(recv(writer.fd, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

#define CASE(name, where) \
	cmocka_unit_test_setup_teardown(name, where, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(t_lifted, one_host),   CASE(t_lifted, two_hosts),
		CASE(t_stays, one_host),    CASE(t_stays, two_hosts),
		CASE(t_ends, one_host),	    CASE(t_ends, two_hosts),
		CASE(t_jumped, one_host),   CASE(t_jumped, two_hosts),
		CASE(t_sender, one_host),   CASE(t_sender, two_hosts),
		CASE(t_all, one_host),	    CASE(t_between, one_host),
		CASE(t_between, two_hosts), CASE(t_spins, one_host),
		CASE(t_spins, two_hosts),   CASE(t_kick, two_hosts),
		CASE(t_exits, two_hosts),   CASE(t_exits_unread, two_hosts),
	};
	const struct sock_hooks lent = { .recv = kernel_recv, .ppoll = ppoll };

	alarm(120);
	sock_setup(&lent);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
