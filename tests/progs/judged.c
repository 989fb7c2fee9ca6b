/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* judged - calls that the kernel alone judges, or does. */
#include "prog.h"

#include <linux/aio_abi.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * MSG_FASTOPEN is a connect; where there is none to be made it is refused, and
 * nothing goes.
 */
static void fastopen_run(struct end *e)
{
	struct sockaddr_in none = { .sin_family = AF_UNSPEC };
	struct sockaddr *sa = (struct sockaddr *)&none;
	struct msghdr m = { 0 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	FAILS(sendto(e->l.fd, "x", 1, MSG_FASTOPEN, sa, sizeof(none)),
	      EOPNOTSUPP);
	FAILS(send(e->l.fd, "x", 1, MSG_FASTOPEN), EISCONN);
	FAILS(sendmsg(e->l.fd, &m, MSG_FASTOPEN), EISCONN);
	FAILS(sendto(fd, "x", 1, MSG_FASTOPEN, sa, sizeof(none)), EOPNOTSUPP);
	FAILS(sendto(fd, "x", 1, MSG_FASTOPEN, sa, 1), EINVAL);
	FAILS(sendto(fd, "x", 1, MSG_FASTOPEN, NULL, 0), EINVAL);
	CHECK(!listen(fd, 1));
	none.sin_family = AF_INET;
	FAILS(sendto(fd, "x", 1, MSG_FASTOPEN, sa, sizeof(none)), EISCONN);
	CHECK(!close(fd));
	link_turn(&e->l, 100, true);
}

static void turns_peer(struct end *e)
{
	link_turn(&e->l, 100, false);
}

/* A flag that only some kernels know: refused, or in its turn. */
static void rwf_run(struct end *e)
{
	static const int rwf[] = { 0x20, 0x40, 0x80, 0x100, 0x8000 };
	uint8_t b[10], c[10];
	struct iovec v = { b, sizeof(b) }, w = { c, sizeof(c) };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rwf); i++) {
		struct flow f = e->l.tx;

		flow_fill(&f, b, sizeof(b));
		if (pwritev2(e->l.fd, &v, 1, -1, rwf[i]) == sizeof(b))
			e->l.tx.off += sizeof(b);
		else
			CHECK(errno == EOPNOTSUPP);
		prog_tell(e, e->l.tx.off);
		CHECK(prog_hear(e) == 1);
		if (preadv2(e->l.fd, &w, 1, -1, rwf[i]) < 0) {
			CHECK(errno == EOPNOTSUPP);
			CHECK(recv(e->l.fd, c, 10, MSG_WAITALL) == 10);
		}
		flow_check(&e->l.rx, c, 10);
		link_turn(&e->l, 100, true);
	}
}

static void rwf_peer(struct end *e)
{
	int i;

	for (i = 0; i < 5; i++) {
		link_get(&e->l, (size_t)(prog_hear(e) - e->l.rx.off));
		link_put(&e->l, 10);
		prog_tell(e, 1);
		link_turn(&e->l, 100, false);
	}
}

/* What syscall() is given is no better than what the kernel is. */
static void raw_run(struct end *e)
{
	struct {
		const void *mask;
		size_t size;
	} sixth = { "12345678", 4 };
	struct pollfd p = { .fd = e->l.fd, .events = POLLOUT };
	struct timespec ts = { 0, 0 };
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(0);

	CHECK(ep >= 0);
	FAILS(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &ts, (void *)-1),
	      EFAULT);
	FAILS(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &ts, &sixth), EINVAL);
	FAILS(syscall(SYS_ppoll, &p, 1, &ts, "12345678", 4), EINVAL);
	FAILS(syscall(SYS_clone3, (void *)-1, 64), EFAULT);
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, e->l.fd, &ev));
	FAILS(syscall(SYS_epoll_pwait, ep, &ev, 1, 0, "12345678", 4), EINVAL);
	/* the event is not looked at */
	CHECK(!epoll_ctl(ep, EPOLL_CTL_DEL, e->l.fd, (void *)-1));
	FAILS(epoll_ctl(ep, EPOLL_CTL_DEL, e->l.fd, &ev), ENOENT);
	CHECK(!close(ep));
	link_turn(&e->l, 100, true);
}

/* io_submit() is not the library's: the stream is TCP's before it. */
static void submit_run(struct end *e)
{
	uint8_t b[10];
	struct iocb one = { .aio_fildes = (uint32_t)e->l.fd,
			    .aio_lio_opcode = IOCB_CMD_PWRITE,
			    .aio_buf = (uintptr_t)b,
			    .aio_nbytes = sizeof(b) };
	struct iocb *list[] = { &one };
	struct io_event done;
	aio_context_t ctx = 0;

	link_turn(&e->l, 100, true);
	if (syscall(SYS_io_setup, 1, &ctx)) {
		CHECK(errno == ENOSYS);
		link_put(&e->l, sizeof(b));
	} else {
		flow_fill(&e->l.tx, b, sizeof(b));
		CHECK(syscall(SYS_io_submit, ctx, 1, list) == 1);
		CHECK(syscall(SYS_io_getevents, ctx, 1, 1, &done, NULL) == 1);
		CHECK(done.res == sizeof(b));
		CHECK(!syscall(SYS_io_destroy, ctx));
	}
	link_turn(&e->l, 100, true);
}

static void submit_peer(struct end *e)
{
	link_turn(&e->l, 100, false);
	link_get(&e->l, 10);
	link_turn(&e->l, 100, false);
}

/* A message that asks for times by itself is told them. */
static void times_run(struct end *e)
{
	union {
		struct cmsghdr c;
		uint8_t room[CMSG_SPACE(sizeof(uint32_t))];
	} u = { .c = { .cmsg_len = CMSG_LEN(sizeof(uint32_t)),
		       .cmsg_level = SOL_SOCKET,
		       .cmsg_type = SO_TIMESTAMPING } };
	uint32_t how = SOF_TIMESTAMPING_TX_SOFTWARE;
	uint8_t b[10];
	struct iovec v = { b, sizeof(b) };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };
	struct pollfd p = { .fd = e->l.fd };

	memcpy(CMSG_DATA(&u.c), &how, sizeof(how));
	link_turn(&e->l, 100, true);
	flow_fill(&e->l.tx, b, sizeof(b));
	CHECK(sendmsg(e->l.fd, &m, 0) == sizeof(b));
	CHECK(poll(&p, 1, 5000) == 1 && p.revents == POLLERR);
	link_turn(&e->l, 100, true);
}

/* No room for a byte, and yet the header is filled in. */
static void header_run(struct end *e)
{
	struct msghdr m = { .msg_namelen = 7,
			    .msg_controllen = 0,
			    .msg_flags = -1 };
	uint8_t name[16];

	link_turn(&e->l, 100, true);
	prog_sync(e);
	CHECK(recvmsg(e->l.fd, &m, 0) == 0);
	CHECK(!m.msg_flags && m.msg_namelen == 7);
	m.msg_name = name;
	CHECK(recvmsg(e->l.fd, &m, MSG_CMSG_CLOEXEC) == 0);
	CHECK(m.msg_flags == MSG_CMSG_CLOEXEC && !m.msg_namelen);
	link_get(&e->l, 10);
}

static void header_peer(struct end *e)
{
	link_turn(&e->l, 100, false);
	link_put(&e->l, 10);
	prog_sync(e);
}

static const struct prog_case cases[] = {
	{ "fastopen", fastopen_run, turns_peer, 0 },
	{ "rwf", rwf_run, rwf_peer, 0 },
	{ "raw", raw_run, turns_peer, 0 },
	{ "submit", submit_run, submit_peer, 0 },
	{ "times", times_run, submit_peer, 0 },
	{ "header", header_run, header_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
