/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* tells - what a receive tells beside the bytes. */
#include "prog.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>

/* recvmsg() of n bytes, which tells how many more there are; -1: it does not */
static int inq_take(struct link *l, size_t n)
{
	char buf[200], room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { buf, n };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room) };
	struct cmsghdr *c;
	int left;

	CHECK(recvmsg(l->fd, &m, 0) == (ssize_t)n);
	CHECK(!(m.msg_flags & MSG_CTRUNC));
	flow_check(&l->rx, buf, n);
	c = CMSG_FIRSTHDR(&m);
	if (!c)
		return -1;
	CHECK(c->cmsg_level == IPPROTO_TCP && c->cmsg_type == TCP_CM_INQ);
	CHECK(c->cmsg_len == CMSG_LEN(sizeof(left)));
	memcpy(&left, CMSG_DATA(c), sizeof(left));
	CHECK(!CMSG_NXTHDR(&m, c));
	return left;
}

static void inq_run(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };
	int on = 1, off = 0, i;

	for (i = 0; i < 3; i++) {
		CHECK(!setsockopt(p.fd, IPPROTO_TCP, TCP_INQ, &on, sizeof(on)));
		prog_sync(e);
		prog_sync(e);
		CHECK(poll(&p, 1, 5000) == 1);
		CHECK(inq_take(&e->l, 30) == 70);
		CHECK(inq_take(&e->l, 60) == 10);
		CHECK(!setsockopt(p.fd, IPPROTO_TCP, TCP_INQ, &off,
				  sizeof(off)));
		CHECK(inq_take(&e->l, 5) == -1);
		CHECK(!setsockopt(p.fd, IPPROTO_TCP, TCP_INQ, &on, sizeof(on)));
		CHECK(inq_take(&e->l, 5) == 0);
	}
	p.events = POLLRDHUP;
	prog_sync(e);
	prog_sync(e);
	CHECK(poll(&p, 1, 5000) == 1);
	/* the end counts as one */
	CHECK(inq_take(&e->l, 30) == 21);
	CHECK(inq_take(&e->l, 20) == 1);
	link_eof(&e->l);
}

static void inq_peer(struct end *e)
{
	int i;

	for (i = 0; i < 3; i++) {
		prog_sync(e);
		link_put(&e->l, 100);
		prog_sync(e);
	}
	prog_sync(e);
	link_put(&e->l, 50);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	prog_sync(e);
}

static const struct prog_case cases[] = {
	{ "inq", inq_run, inq_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
