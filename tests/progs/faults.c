/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* faults - memory that is not there, or only in part, in every call. */
#include "prog.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/uio.h>
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

static const struct prog_case cases[] = {
	{ "recv", recv_run, sender, 0 },
	{ "const", const_run, sender, 0 },
	{ "send", send_run, send_peer, 0 },
	{ "beside", beside_run, sender, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
