/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* faults - memory that is not there, or only in part, in every call. */
#include "prog.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

/* `good` pages, and behind them one that cannot be touched. */
static char *cliff(size_t good)
{
	char *p = mmap(NULL, (good + 1) * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	CHECK(!mprotect(p + good * PAGE, PAGE, PROT_NONE));
	return p;
}

static void cliff_end(char *p, size_t good)
{
	CHECK(!munmap(p, (good + 1) * PAGE));
}

static void sender(struct end *e)
{
	prog_feed(e);
	prog_sync(e);
}

static void send_me(struct end *e, size_t n)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };

	prog_ask(e, n);
	CHECK(poll(&p, 1, 5000) == 1);
}

/* What a receive is given does not fit in front of the cliff, or does. */
static void recv_run(struct end *e)
{
	char *p = cliff(1), *edge = p + PAGE - 100;
	struct iovec v[2] = { { edge, 60 }, { edge + 60, 200 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	int fd = e->l.fd, i;

	for (i = 0; i < 3; i++) {
		send_me(e, 90);
		CHECK(recv(fd, edge, 200, 0) == 90);
		flow_check(&e->l.rx, edge, 90);
		send_me(e, 150);
		FAILS(recv(fd, edge, 200, MSG_DONTWAIT), EFAULT);
		FAILS(read(fd, edge, 300), EFAULT);
		FAILS(recv(fd, edge, 200, MSG_PEEK), EFAULT);
		FAILS(recvmsg(fd, &m, 0), EFAULT);
		CHECK(recv(fd, edge, 100, 0) == 100);
		flow_check(&e->l.rx, edge, 100);
		CHECK(recv(fd, edge, 200, 0) == 50);
		flow_check(&e->l.rx, edge, 50);
		send_me(e, 90);
		CHECK(recvmsg(fd, &m, 0) == 90);
		flow_check(&e->l.rx, edge, 90);
	}
	prog_tell(e, 0);
	prog_sync(e);
	cliff_end(p, 1);
}

/* Where data are received memory has to be writable. */
static void const_run(struct end *e)
{
	char *p = cliff(1);
	int fd = e->l.fd;

	send_me(e, 50);
	CHECK(!mprotect(p, PAGE, PROT_READ));
	FAILS(recv(fd, p, 100, MSG_DONTWAIT), EFAULT);
	FAILS(read(fd, p + 10, 10), EFAULT);
	link_get(&e->l, 50);
	prog_tell(e, 0);
	prog_sync(e);
	cliff_end(p, 1);
}

/* Nothing of a small send goes; a large one may be cut short. */
static void send_run(struct end *e)
{
	char *p = cliff(64), *edge = p + 64 * PAGE - 100;
	struct iovec v[2] = { { edge, 60 }, { edge + 60, 200 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	int fd = e->l.fd, i;
	ssize_t n;

	for (i = 0; i < 3; i++) {
		struct flow was = e->l.tx;

		flow_fill(&e->l.tx, p, 64 * PAGE);
		e->l.tx = was;
		FAILS(send(fd, edge, 200, 0), EFAULT);
		FAILS(send(fd, edge, 200, MSG_DONTWAIT), EFAULT);
		FAILS(write(fd, edge - 3000, 3101), EFAULT);
		FAILS(writev(fd, v, 2), EFAULT);
		FAILS(sendmsg(fd, &m, 0), EFAULT);
		n = send(fd, p, 65 * PAGE, 0);
		CHECK(n > 0 && n <= 64 * PAGE);
		e->l.tx.off += (uint64_t)n;
		prog_tell(e, (uint64_t)n);
		CHECK(prog_hear(e) == 1);
		link_put(&e->l, 100);
		CHECK(prog_hear(e) == 1);
	}
	prog_tell(e, 0);
	prog_sync(e);
	cliff_end(p, 64);
}

static void send_peer(struct end *e)
{
	uint64_t n;

	while ((n = prog_hear(e))) {
		link_get(&e->l, (size_t)n);
		prog_tell(e, 1);
		link_get(&e->l, 100);
		prog_tell(e, 1);
	}
	prog_sync(e);
}

/* What is beside the bytes: headers, vectors, values, sets. */
static void beside_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT };
	char *p = cliff(1), *bad = p + PAGE, *wild = (char *)8;
	struct msghdr m = { .msg_iovlen = 1 };
	int fd = e->l.fd, ep = epoll_create1(0), i;
	struct iovec one = { &i, 1 };
	socklen_t len = 4;

	CHECK(ep >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	send_me(e, 50);
	for (i = 0; i < 2; i++, bad = wild) {
		FAILS(sendmsg(fd, (void *)bad, 0), EFAULT);
		FAILS(recvmsg(fd, (void *)bad, 0), EFAULT);
		FAILS(readv(fd, (void *)bad, 1), EFAULT);
		FAILS(writev(fd, (void *)bad, 1), EFAULT);
		m.msg_iov = (void *)bad;
		FAILS(sendmsg(fd, &m, 0), EFAULT);
		FAILS(recvmsg(fd, &m, 0), EFAULT);
		FAILS(sendmmsg(fd, (void *)bad, 1, 0), EFAULT);
		FAILS(recvmmsg(fd, (void *)bad, 1, 0, NULL), EFAULT);
		FAILS(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, bad, 4), EFAULT);
		FAILS(setsockopt(fd, IPPROTO_TCP, TCP_CORK, bad, 4), EFAULT);
		FAILS(setsockopt(fd, SOL_SOCKET, SO_LINGER, bad, 8), EFAULT);
		FAILS(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, bad, 16), EFAULT);
		FAILS(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, bad, 4), EFAULT);
		FAILS(setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, bad, 4), EFAULT);
		FAILS(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, bad, 4), EFAULT);
		FAILS(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, bad, &len),
		      EFAULT);
		FAILS(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &i, (void *)bad),
		      EFAULT);
		FAILS(getsockopt(fd, IPPROTO_TCP, TCP_INFO, bad, &len), EFAULT);
		FAILS(epoll_wait(ep, (void *)bad, 4, 0), EFAULT);
		FAILS(epoll_ctl(ep, EPOLL_CTL_MOD, fd, (void *)bad), EFAULT);
		FAILS(poll((void *)bad, 1, 0), EFAULT);
		FAILS(select(fd + 1, (void *)bad, NULL, NULL, NULL), EFAULT);
		FAILS(ioctl(fd, FIONREAD, bad), EFAULT);
		FAILS(ioctl(fd, FIONBIO, bad), EFAULT);
		FAILS(getsockname(fd, (void *)bad, &len), EFAULT);
		FAILS(getpeername(fd, (void *)bad, &len), EFAULT);
	}
	CHECK(readv(fd, &one, 1) == 1);
	prog_tell(e, 0);
	prog_sync(e);
	CHECK(!close(ep));
	cliff_end(p, 1);
}

/* --- what was there a moment ago ------------------------------------------- */

static volatile sig_atomic_t hits;
static sigjmp_buf out;

static void jump(int sig)
{
	(void)sig;
	hits++;
	siglongjmp(out, 1);
}

/* A fault of the program's own reaches its handler, and no other does. */
static void own_fault(void)
{
	static char *volatile nowhere;
	int before = hits;

	if (!sigsetjmp(out, 1))
		*nowhere = 1;
	CHECK(hits == before + 1);
}

static void handle_faults(void (*handler)(int))
{
	struct sigaction sa = { .sa_handler = handler };

	CHECK(!sigaction(SIGSEGV, &sa, NULL));
	CHECK(!sigaction(SIGBUS, &sa, NULL));
	hits = 0;
}

#define ECHO 0x100000000u /* the peer is sent them first */

/* The same page to and fro, then without it: nothing moved, and no signal. */
static void used(struct end *e, char *p, size_t n)
{
	prog_tell(e, n | ECHO);
	flow_fill(&e->l.tx, p, n);
	CHECK(send(e->l.fd, p, n, 0) == (ssize_t)n);
	CHECK(recv(e->l.fd, p, n, MSG_WAITALL) == (ssize_t)n);
	flow_check(&e->l.rx, p, n);
}

static void unusable(struct end *e, char *p, size_t n)
{
	struct pollfd in = { .fd = e->l.fd, .events = POLLIN };

	/* up to a hole the kernel takes what its last segment has room for */
	if (n <= PAGE)
		FAILS(send(e->l.fd, p, n, 0), EFAULT);
	prog_tell(e, n); /* it sends, and is not sent to */
	CHECK(poll(&in, 1, 5000) == 1);
	FAILS(recv(e->l.fd, p, n, 0), EFAULT);
	FAILS(recv(e->l.fd, p, n, MSG_PEEK), EFAULT);
	link_get(&e->l, n);
	CHECK(!hits);
	own_fault();
	hits = 0;
}

static void gone_run(struct end *e)
{
	char name[] = "/tmp/faults.XXXXXX", *p;
	int round, fd = mkstemp(name);
	const size_t n = 1000, all = 3 * PAGE;

	CHECK(fd >= 0 && !unlink(name));
	handle_faults(jump);
	for (round = 0; round < 3; round++) {
		p = mmap(NULL, all, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(p != MAP_FAILED);
		used(e, p, n);
		CHECK(!mprotect(p, PAGE, PROT_NONE));
		unusable(e, p, n);
		CHECK(!mprotect(p, PAGE, PROT_READ | PROT_WRITE));
		used(e, p, all);
		CHECK(!mprotect(p + PAGE, PAGE, PROT_NONE)); /* a hole */
		unusable(e, p, all);
		used(e, p, n);
		CHECK(!munmap(p, all));
		CHECK(!ftruncate(fd, PAGE));
		p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		CHECK(p != MAP_FAILED);
		used(e, p, n);
		CHECK(!ftruncate(fd, 0));
		unusable(e, p, n); /* SIGBUS */
		CHECK(!munmap(p, PAGE));
	}
	handle_faults(SIG_DFL);
	prog_tell(e, 0);
	prog_sync(e);
	CHECK(!close(fd));
}

static void gone_peer(struct end *e)
{
	uint64_t n;

	while ((n = prog_hear(e))) {
		if (n & ECHO)
			link_get(&e->l, n & ~ECHO);
		link_put(&e->l, n & ~ECHO);
	}
	prog_sync(e);
}

/* --- what goes while it is used -------------------------------------------- */

struct flicker {
	char *p;
	size_t len;
	pthread_mutex_t hold; /* it is there, and stays */
	volatile bool over;
};

static void *flicker(void *arg)
{
	struct flicker *f = arg;
	uint32_t r = 1;

	while (!f->over) {
		CHECK(!pthread_mutex_lock(&f->hold));
		CHECK(!mprotect(f->p + prog_rand(&r) % 4 * PAGE, PAGE,
				PROT_NONE));
		sched_yield();
		CHECK(!mprotect(f->p, f->len, PROT_READ | PROT_WRITE));
		CHECK(!pthread_mutex_unlock(&f->hold));
		sched_yield();
	}
	return NULL;
}

static void flicker_run(struct end *e)
{
	struct flicker f = { .len = 4 * PAGE,
			     .hold = PTHREAD_MUTEX_INITIALIZER };
	unsigned int took = 0;
	int64_t until = prog_now_ms() + 400;
	pthread_t t;
	ssize_t n, got;

	f.p = mmap(NULL, f.len, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(f.p != MAP_FAILED);
	handle_faults(jump);
	CHECK(!pthread_create(&t, NULL, flicker, &f));
	while (prog_now_ms() < until || !took) {
		struct flow was = e->l.tx;

		CHECK(!pthread_mutex_lock(&f.hold));
		flow_fill(&e->l.tx, f.p, f.len);
		CHECK(!pthread_mutex_unlock(&f.hold));
		e->l.tx = was;
		n = send(e->l.fd, f.p, f.len, 0);
		CHECK(n > 0 || (n < 0 && errno == EFAULT));
		if (n < 0)
			continue;
		took++;
		e->l.tx.off += (uint64_t)n;
		prog_tell(e, (uint64_t)n); /* and back */
		for (; n; n -= got) {
			do
				got = recv(e->l.fd, f.p, (size_t)n, 0);
			while (got < 0 && errno == EFAULT);
			CHECK(got > 0);
			CHECK(!pthread_mutex_lock(&f.hold));
			flow_check(&e->l.rx, f.p, (size_t)got);
			CHECK(!pthread_mutex_unlock(&f.hold));
		}
	}
	f.over = true;
	CHECK(!pthread_join(t, NULL));
	CHECK(!hits);
	handle_faults(SIG_DFL);
	CHECK(!munmap(f.p, f.len));
	prog_tell(e, 0);
	prog_sync(e);
	link_turn(&e->l, 100000, true);
}

static void flicker_peer(struct end *e)
{
	uint64_t n;

	while ((n = prog_hear(e))) {
		link_get(&e->l, n);
		link_put(&e->l, n);
	}
	prog_sync(e);
	link_turn(&e->l, 100000, false);
}

/* --- the program's own ---------------------------------------------------- */

static void die_nowhere(void)
{
	static char *volatile nowhere;

	*nowhere = 1;
}

static void die_killed(void)
{
	CHECK(!kill(getpid(), SIGSEGV));
	pause();
}

static void die_behind_file(void)
{
	char name[] = "/tmp/faults.XXXXXX", *volatile p;
	int fd = mkstemp(name);

	CHECK(fd >= 0 && !unlink(name) && !ftruncate(fd, PAGE));
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED && !ftruncate(fd, 0));
	*p = 1;
}

static void die_once_handled(void)
{
	struct sigaction sa = { .sa_handler = jump,
				.sa_flags = (int)SA_RESETHAND };

	CHECK(!sigaction(SIGSEGV, &sa, NULL));
	hits = 0;
	own_fault();
	die_nowhere();
}

static void dies(void (*how)(void), int sig)
{
	struct rlimit none = { 0, 0 };
	siginfo_t si;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		CHECK(!setrlimit(RLIMIT_CORE, &none));
		how();
		_exit(0);
	}
	CHECK(!waitid(P_PID, (id_t)pid, &si, WEXITED));
	CHECK(si.si_code == CLD_KILLED && si.si_status == sig);
}

/* Where no entry can help it is found in front of the copy. */
static void blocked(int fd)
{
	char *p = cliff(0);
	sigset_t set, was;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, &was));
	FAILS(send(fd, p, 100, 0), EFAULT);
	CHECK(!pthread_sigmask(SIG_SETMASK, &was, NULL));
	cliff_end(p, 0);
}

/* Without a handler a fault ends the process as ever, and none is shown. */
static void dies_run(struct end *e)
{
	static const int sig[] = { SIGSEGV, SIGBUS };
	struct sigaction sa;
	char *p = cliff(1);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sig); i++) {
		CHECK(!sigaction(sig[i], NULL, &sa));
		CHECK(sa.sa_handler == SIG_DFL && !(sa.sa_flags & SA_SIGINFO));
		CHECK(signal(sig[i], SIG_IGN) == SIG_DFL);
		CHECK(!raise(sig[i]));
		CHECK(signal(sig[i], SIG_DFL) == SIG_IGN);
	}
	blocked(e->l.fd);
	dies(die_nowhere, SIGSEGV);
	dies(die_killed, SIGSEGV);
	dies(die_behind_file, SIGBUS);
	dies(die_once_handled, SIGSEGV);
	link_turn(&e->l, 1000, true);
	used(e, p, 1000);
	CHECK(!mprotect(p, PAGE, PROT_NONE));
	FAILS(send(e->l.fd, p, 1000, 0), EFAULT);
	prog_tell(e, 0);
	prog_sync(e);
	link_turn(&e->l, 1000, true);
	cliff_end(p, 1);
}

static void dies_peer(struct end *e)
{
	link_turn(&e->l, 1000, false);
	gone_peer(e);
	link_turn(&e->l, 1000, false);
}

static const struct prog_case cases[] = {
	{ "recv", recv_run, sender, 0 },
	{ "const", const_run, sender, 0 },
	{ "send", send_run, send_peer, 0 },
	{ "beside", beside_run, sender, 0 },
	{ "gone", gone_run, gone_peer, 0 },
	{ "flicker", flicker_run, flicker_peer, 0 },
	{ "dies", dies_run, dies_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
