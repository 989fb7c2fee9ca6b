/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * handlers - what a signal handler may call, it may call wherever it
 * interrupts: a timer fires every 150 us at a thread in a dialogue, and its
 * handler uses the same socket and others.
 */
#include "prog.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define EACH_US 150
#define BATCH	50 /* turns */

static struct end *here; /* of the handler's thread */
static atomic_int hits;
static volatile int wrong; /* line of a call that did not give what it should */

#define EXPECT(cond)                      \
	do {                              \
		if (!(cond) && !wrong)    \
			wrong = __LINE__; \
	} while (0)

/* The signals are main's: a peer that is a thread must not get them. */
static void not_here(void)
{
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, SIGALRM);
	sigaddset(&s, SIGRTMIN);
	CHECK(!pthread_sigmask(SIG_BLOCK, &s, NULL));
}

static void timer_us(long us, long again)
{
	struct itimerval it = { .it_value = { 0, us },
				.it_interval = { 0, again } };

	CHECK(!setitimer(ITIMER_REAL, &it, NULL));
}

static atomic_long rest_us;

/* The end of a handler that may take long: the dialogue has its turn. */
static void rest(void)
{
	long us = atomic_load(&rest_us);

	if (us)
		timer_us(us, 0);
}

static void rests(long us)
{
	atomic_store(&rest_us, us);
	rest();
}

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };

	CHECK(!sigaction(sig, &sa, NULL));
	atomic_store(&hits, 0);
	wrong = 0;
}

/* --- the dialogue ----------------------------------------------------------- */

static void turns(struct end *e, bool leader)
{
	size_t i;

	for (i = 0; i < BATCH; i++)
		link_turn(&e->l, 1 + (i * 739) % 9000, leader);
}

static void talk(struct end *e)
{
	prog_tell(e, 1);
	turns(e, true);
}

static void talk_end(struct end *e)
{
	rests(0);
	timer_us(0, 0);
	prog_tell(e, 0);
	prog_sync(e);
	if (wrong)
		prog_fail(__FILE__, wrong, "in a handler");
}

static void talker(struct end *e)
{
	not_here();
	while (prog_hear(e))
		turns(e, false);
	prog_sync(e);
}

/* --- calls on the socket that its thread is in ------------------------------ */

static int other_ep = -1;

static void ask_names(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	int v = 0;

	EXPECT(!getpeername(fd, (struct sockaddr *)&sa, &len));
	len = sizeof(sa);
	EXPECT(!getsockname(fd, (struct sockaddr *)&sa, &len));
	len = sizeof(v);
	EXPECT(!getsockopt(fd, SOL_SOCKET, SO_TYPE, &v, &len) &&
	       v == SOCK_STREAM);
	len = sizeof(v);
	EXPECT(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &v, &len) && !v);
	v = 1;
	EXPECT(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, sizeof(v)));
	EXPECT(!setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &v, sizeof(v)));
	EXPECT(!sockatmark(fd));
}

static void ask_flags(int fd)
{
	int flags = fcntl(fd, F_GETFL), n = -1;

	EXPECT(flags >= 0 && !(flags & O_NONBLOCK));
	EXPECT(!fcntl(fd, F_SETFL, flags));
	EXPECT(fcntl(fd, F_GETFD) >= 0);
	EXPECT(!ioctl(fd, FIONREAD, &n) && n >= 0);
}

static void ask_ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
	struct timeval now = { 0, 0 };
	struct epoll_event ev;
	fd_set r;

	EXPECT(poll(&p, 1, 0) >= 0 && !(p.revents & (POLLERR | POLLNVAL)));
	FD_ZERO(&r);
	FD_SET(fd, &r);
	EXPECT(select(fd + 1, &r, NULL, NULL, &now) >= 0);
	EXPECT(epoll_wait(other_ep, &ev, 1, 0) >= 0);
}

static void peek(int fd)
{
	char b[64];
	struct iovec iov = { b, sizeof(b) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n = recv(fd, b, sizeof(b), MSG_PEEK | MSG_DONTWAIT);

	EXPECT(n > 0 || (n < 0 && errno == EAGAIN));
	n = recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT);
	EXPECT(n > 0 || (n < 0 && errno == EAGAIN));
	n = read(fd, b, 0);
	EXPECT(n == 0);
}

static void copies(int fd)
{
	int to = dup(fd), third = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	EXPECT(to >= 0 && third >= 0);
	EXPECT(dup2(fd, third) == third);
	EXPECT(!close(third));
	EXPECT(!close(to));
}

static void on_same(int sig)
{
	static void (*const call[])(int fd) = {
		ask_names, ask_flags, ask_ready, peek, copies,
	};
	int saved = errno;

	(void)sig;
	call[atomic_load(&hits) % (int)ARRAY_SIZE(call)](here->l.fd);
	atomic_fetch_add(&hits, 1);
	errno = saved;
}

static void same_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN };

	here = e;
	other_ep = epoll_create1(EPOLL_CLOEXEC);
	CHECK(!epoll_ctl(other_ep, EPOLL_CTL_ADD, e->l.fd, &ev));
	handle(SIGALRM, on_same, SA_RESTART);
	timer_us(EACH_US, EACH_US);
	while (atomic_load(&hits) < 1500)
		talk(e);
	talk_end(e);
	CHECK(!close(other_ep));
}

/* --- calls on others ----------------------------------------------------------- */

static struct link one, two; /* the ends of one connection */
static int lfd = -1;
static struct sockaddr_in at;

static void exchange(void)
{
	char b[8] = "1234567";
	struct iovec iov = { b, sizeof(b) };

	EXPECT(write(one.fd, b, 7) == 7);
	EXPECT(read(two.fd, b, 8) == 7 && !memcmp(b, "1234567", 7));
	EXPECT(writev(two.fd, &iov, 1) == 8);
	EXPECT(recv(one.fd, b, 8, MSG_WAITALL) == 8);
	EXPECT(send(one.fd, b, 3, MSG_NOSIGNAL) == 3);
	EXPECT(recvfrom(two.fd, b, 3, 0, NULL, NULL) == 3);
	EXPECT(recv(two.fd, b, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
}

/* A connection from its first call to its last. */
static void connection(void)
{
	int a = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), b;
	char c = 'x';

	EXPECT(a >= 0);
	EXPECT(!connect(a, (const struct sockaddr *)&at, sizeof(at)));
	b = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
	EXPECT(b >= 0);
	EXPECT(write(a, &c, 1) == 1);
	c = 0;
	EXPECT(read(b, &c, 1) == 1 && c == 'x');
	EXPECT(!shutdown(a, SHUT_WR));
	EXPECT(read(b, &c, 1) == 0);
	EXPECT(!close(b));
	EXPECT(read(a, &c, 1) == 0);
	EXPECT(!close(a));
}

static void on_others(int sig)
{
	int saved = errno;

	(void)sig;
	if (atomic_load(&hits) % 4 == 3)
		connection();
	else
		exchange();
	atomic_fetch_add(&hits, 1);
	rest();
	errno = saved;
}

static void others_run(struct end *e)
{
	socklen_t len = sizeof(at);

	here = e;
	link_self(&one, &two, 40);
	lfd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	at = (struct sockaddr_in){ .sin_family = AF_INET };
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(lfd, (struct sockaddr *)&at, sizeof(at)));
	CHECK(!listen(lfd, 5));
	CHECK(!getsockname(lfd, (struct sockaddr *)&at, &len));
	handle(SIGALRM, on_others, SA_RESTART);
	rests(1000);
	while (atomic_load(&hits) < 400)
		talk(e);
	talk_end(e);
	link_close(&one);
	link_close(&two);
	CHECK(!close(lfd));
}

/* --- the end of the socket that its thread is in ------------------------------ */

static int ending = -1;

static void on_end(int sig)
{
	int saved = errno;

	(void)sig;
	if (ending % 2)
		EXPECT(!shutdown(ending, SHUT_RDWR));
	else
		EXPECT(!close(ending));
	atomic_fetch_add(&hits, 1);
	errno = saved;
}

/* Each byte that was taken arrives, and then the end. */
static void ended_run(struct end *e)
{
	static uint8_t buf[60000];
	uint64_t sum = 0;
	struct link l;
	ssize_t n;
	int i;

	for (i = 0; i < 20; i++) {
		prog_link(e, &l);
		prog_warm(&l, true, 40);
		ending = l.fd;
		sum = l.tx.off;
		handle(SIGALRM, on_end, 0);
		timer_us(1000 + 137 * i, 0);
		while (!atomic_load(&hits)) {
			struct flow f = l.tx;

			flow_fill(&f, buf, sizeof(buf));
			n = send(l.fd, buf, sizeof(buf), MSG_NOSIGNAL);
			if (n > 0)
				l.tx.off += (uint64_t)n;
			else
				CHECK(errno == EINTR || atomic_load(&hits));
		}
		prog_tell(e, l.tx.off - sum);
		if (l.fd % 2)
			CHECK(!close(l.fd));
		prog_sync(e);
		CHECK(!wrong);
	}
}

static void ended_peer(struct end *e)
{
	uint8_t b[4096];
	uint64_t sum;
	struct link l;
	ssize_t n;
	int i;

	not_here();
	for (i = 0; i < 20; i++) {
		prog_link(e, &l);
		prog_warm(&l, false, 40);
		sum = l.rx.off;
		while ((n = read(l.fd, b, sizeof(b))) > 0)
			flow_check(&l.rx, b, (size_t)n);
		CHECK(!n);
		CHECK(prog_hear(e) == l.rx.off - sum);
		CHECK(!close(l.fd));
		prog_sync(e);
	}
}

/* --- order, and SA_RESETHAND --------------------------------------------------- */

static volatile int last;

static void in_order(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	(void)context;
	EXPECT(si->si_value.sival_int == last + 1);
	EXPECT(si->si_code == SI_QUEUE);
	last = si->si_value.sival_int;
	if (here)
		ask_names(here->l.fd);
	atomic_fetch_add(&hits, 1);
}

static atomic_bool queues;
static pthread_t to;

static void *queuer(void *arg)
{
	union sigval v = { .sival_int = 1 };
	int i;

	not_here();
	while (atomic_load(&queues)) {
		for (i = 0; i < 5; i++) {
			CHECK(!pthread_sigqueue(to, SIGRTMIN, v));
			v.sival_int++;
		}
		usleep(EACH_US);
	}
	return arg;
}

/* Values that another thread queues come in their order, and all of them. */
static void order_run(struct end *e)
{
	struct sigaction sa = { .sa_sigaction = in_order,
				.sa_flags = SA_SIGINFO | SA_RESTART };
	pthread_t t;

	here = e;
	last = 0;
	wrong = 0;
	atomic_store(&hits, 0);
	CHECK(!sigaction(SIGRTMIN, &sa, NULL));
	to = pthread_self();
	atomic_store(&queues, true);
	CHECK(!pthread_create(&t, NULL, queuer, NULL));
	while (atomic_load(&hits) < 3000)
		talk(e);
	atomic_store(&queues, false);
	CHECK(!pthread_join(t, NULL));
	talk_end(e);
	CHECK(last == atomic_load(&hits));
}

static void on_once(int sig)
{
	(void)sig;
	ask_names(here->l.fd);
	atomic_fetch_add(&hits, 1);
}

static void reset_run(struct end *e)
{
	struct sigaction sa;
	int i;

	here = e;
	for (i = 0; i < 100; i++) {
		handle(SIGALRM, on_once, (int)SA_RESETHAND | SA_RESTART);
		timer_us(50 + 3 * i, 0);
		while (!atomic_load(&hits))
			talk(e);
		CHECK(!sigaction(SIGALRM, NULL, &sa));
		CHECK(sa.sa_handler == SIG_DFL);
	}
	talk_end(e);
}

/* --- children ------------------------------------------------------------------ */

static void on_fork(int sig)
{
	int saved = errno, status = -1;
	pid_t pid = fork();

	(void)sig;
	if (!pid)
		_exit(7);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	EXPECT(pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 7);
	atomic_fetch_add(&hits, 1);
	errno = saved;
}

static void on_fork_again(int sig)
{
	on_fork(sig);
	rest();
}

static void fork_run(struct end *e)
{
	here = e;
	handle(SIGALRM, on_fork_again, SA_RESTART);
	rests(3000);
	while (atomic_load(&hits) < 60)
		talk(e);
	talk_end(e);
}

/* What was put off is not blocked in a program that is executed. */
static void spawn_run(struct end *e)
{
	int i;

	here = e;
	handle(SIGALRM, on_once, SA_RESTART);
	timer_us(EACH_US, EACH_US);
	for (i = 0; i < 20; i++) {
		talk(e);
		CHECK(!system("set -- $(grep SigBlk /proc/self/status); "
			      "test $2 = 0000000000000000"));
	}
	talk_end(e);
}

/* --- what is asked back ---------------------------------------------------------- */

static void on_info(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	(void)context;
	(void)si;
}

static void asked_run(struct end *e)
{
	struct sigaction sa = { .sa_sigaction = on_info }, old;

	(void)e;
	sa.sa_flags = SA_SIGINFO | SA_NODEFER | (int)SA_RESETHAND;
	sigaddset(&sa.sa_mask, SIGUSR2);
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	CHECK(!sigaction(SIGUSR1, NULL, &old));
	CHECK(old.sa_sigaction == on_info);
	CHECK((old.sa_flags & 0xf3ffffff) == (sa.sa_flags & (int)0xf3ffffff));
	CHECK(sigismember(&old.sa_mask, SIGUSR2));
	CHECK(!raise(SIGUSR1));
	CHECK(!sigaction(SIGUSR1, NULL, &old) && old.sa_handler == SIG_DFL);
	CHECK(signal(SIGUSR1, on_once) == SIG_DFL);
	CHECK(signal(SIGUSR1, SIG_IGN) == on_once);
	CHECK(signal(SIGUSR1, on_once) == SIG_IGN);
	CHECK(sysv_signal(SIGUSR1, on_end) == on_once);
	CHECK(sigset(SIGUSR1, on_fork) == on_end);
	CHECK(sigset(SIGUSR1, SIG_HOLD) == on_fork);
	CHECK(sigset(SIGUSR1, SIG_DFL) == SIG_HOLD);
	CHECK(signal(SIGUSR2, on_once) == SIG_DFL);
	CHECK(!siginterrupt(SIGUSR2, 1));
	CHECK(!sigaction(SIGUSR2, NULL, &old));
	CHECK(old.sa_handler == on_once && !(old.sa_flags & SA_RESTART));
	CHECK(signal(SIGUSR2, on_end) == on_once);
	CHECK(!sigaction(SIGUSR2, NULL, &old));
	CHECK(!(old.sa_flags & SA_RESTART));
	CHECK(!siginterrupt(SIGUSR2, 0));
	CHECK(!sigaction(SIGUSR2, NULL, &old));
	CHECK(old.sa_flags & SA_RESTART);
	FAILS(sigaction(SIGKILL, &sa, NULL), EINVAL);
	FAILS(sigaction(32, &sa, NULL), EINVAL);
	FAILS(sigaction(65, &sa, NULL), EINVAL);
	CHECK(!system("exit 0"));
	CHECK(!sigaction(SIGINT, NULL, &old) && old.sa_handler == SIG_DFL);
}

static void on_close(int sig)
{
	int saved = errno;

	(void)sig;
	EXPECT(!close(ending));
	atomic_fetch_add(&hits, 1);
	errno = saved;
}

/*
 * The handler closes what its own thread is receiving on. A receive that would
 * be restarted finds no such number: that is no end of the stream.
 */
static void closed_run(struct end *e)
{
	static const int flags[] = { 0, MSG_WAITALL, MSG_PEEK };
	struct link a, b;
	char got[16];
	size_t i;

	(void)e;
	for (i = 0; i < ARRAY_SIZE(flags) * 2; i++) {
		link_self(&a, &b, 60);
		ending = a.fd;
		handle(SIGALRM, on_close, i % 2 ? SA_RESTART : 0);
		timer_us(20000, 0);
		CHECK(recv(a.fd, got, sizeof(got), flags[i / 2]) == -1);
		CHECK(errno == EBADF || (errno == EINTR && !(i % 2)));
		CHECK(atomic_load(&hits) == 1 && !wrong);
		CHECK(read(b.fd, got, 1) == 0);
		CHECK(!close(b.fd));
	}
}

static const struct prog_case cases[] = {
	{ "same", same_run, talker, 0 },
	{ "others", others_run, talker, 0 },
	{ "ended", ended_run, ended_peer, CASE_BARE },
	{ "closed", closed_run, NULL, CASE_SOLO },
	{ "order", order_run, talker, 0 },
	{ "reset", reset_run, talker, 0 },
	{ "fork", fork_run, talker, CASE_PROCESS },
	{ "spawn", spawn_run, talker, 0 },
	{ "asked", asked_run, NULL, CASE_SOLO },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
