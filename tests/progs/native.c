/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * native - programs that ask for the address families 27 and 28 by number
 *
 * native plain: without a library the kernel refuses; exits 0 if it does.
 * native: the conversations of section 6 of the old native clients.
 */
#include "prog.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INET_SDP  27
#define INET6_SDP 28

static int sdp_socket(int family, int proto)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, proto);

	CHECK(fd >= 0);
	return fd;
}

static void start(struct link *l, int fd, bool peer)
{
	memset(l, 0, sizeof(*l));
	l->fd = fd;
	l->tx.seed = peer ? 2 : 1;
	l->rx.seed = peer ? 1 : 2;
}

/* Turns, a megabyte each way, and the end. */
static void converse(struct link *l, bool peer)
{
	prog_warm(l, !peer, 200);
	link_turn(l, 1000000, !peer);
	CHECK(!shutdown(l->fd, SHUT_WR));
	link_eof(l);
	link_close(l);
}

/* The port a listener got, told as the old clients read it. */
static uint64_t port_of(int fd, int family)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	CHECK(!getsockname(fd, (struct sockaddr *)&ss, &len));
	CHECK(ss.ss_family == family);
	CHECK(prog_port(&ss) != 0);
	return (uint64_t)prog_port(&ss);
}

/* qperf: socket 27, bind of an IPv6 wildcard, accept without an address. */
static void qperf_run(struct end *e)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int one = 1, fd = sdp_socket(INET_SDP, IPPROTO_TCP), c;
	struct link l;

	CHECK(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	CHECK(!bind(fd, (struct sockaddr *)&any, sizeof(any)));
	CHECK(!listen(fd, 1));
	CHECK(!getsockname(fd, (struct sockaddr *)&ss, &len));
	CHECK(ss.ss_family == AF_INET || ss.ss_family == AF_INET6);
	prog_tell(e, (uint64_t)prog_port(&ss));
	c = accept(fd, NULL, NULL);
	CHECK(c >= 0);
	CHECK(!close(fd));
	start(&l, c, false);
	converse(&l, false);
	prog_sync(e);
}

static void v4_peer(struct end *e)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	struct link l;
	int fd;

	sa.sin_port = htons((uint16_t)prog_hear(e));
	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fd = sdp_socket(INET_SDP, 0);
	CHECK(!connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
	start(&l, fd, true);
	converse(&l, true);
	prog_sync(e);
}

/* netperf: listen on the unbound socket, sixteen bytes of address. */
static void netperf_run(struct end *e)
{
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);
	int fd = sdp_socket(INET_SDP, 0), c, v;
	struct link l;

	len = sizeof(v);
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &v, &len));
	CHECK(!listen(fd, 5));
	prog_tell(e, port_of(fd, AF_INET));
	len = sizeof(sa);
	c = accept(fd, (struct sockaddr *)&sa, &len);
	CHECK(c >= 0);
	CHECK(len == sizeof(sa) && sa.sin_family == AF_INET);
	len = sizeof(v);
	CHECK(!getsockopt(c, IPPROTO_TCP, TCP_MAXSEG, &v, &len));
	start(&l, c, false);
	converse(&l, false);
	CHECK(!close(fd));
	prog_sync(e);
}

/* Addresses may carry the family's number themselves. */
static void number_run(struct end *e)
{
	struct sockaddr_in sa = { .sin_family = INET_SDP };
	int fd = sdp_socket(INET_SDP, 0), c;
	struct link l;

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(fd, (struct sockaddr *)&sa, sizeof(sa)));
	CHECK(!listen(fd, 5));
	prog_tell(e, port_of(fd, AF_INET));
	c = accept4(fd, NULL, NULL, SOCK_NONBLOCK);
	CHECK(c >= 0);
	prog_nonblock(c, false);
	start(&l, c, false);
	converse(&l, false);
	CHECK(!close(fd));
	prog_sync(e);
}

static void number_peer(struct end *e)
{
	struct sockaddr_in sa = { .sin_family = INET_SDP }, me;
	socklen_t len = sizeof(me);
	struct link l;
	int fd;

	sa.sin_port = htons((uint16_t)prog_hear(e));
	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fd = sdp_socket(INET_SDP, IPPROTO_TCP);
	CHECK(!connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
	CHECK(!getpeername(fd, (struct sockaddr *)&me, &len));
	CHECK(me.sin_family == AF_INET && me.sin_port == sa.sin_port);
	start(&l, fd, true);
	converse(&l, true);
	prog_sync(e);
}

static void six_run(struct end *e)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6 };
	int fd = sdp_socket(INET6_SDP, 0), c;
	struct link l;

	sa.sin6_addr = in6addr_loopback;
	CHECK(!bind(fd, (struct sockaddr *)&sa, sizeof(sa)));
	CHECK(!listen(fd, 5));
	prog_tell(e, port_of(fd, AF_INET6));
	c = accept(fd, NULL, NULL);
	CHECK(c >= 0);
	start(&l, c, false);
	converse(&l, false);
	CHECK(!close(fd));
	prog_sync(e);
}

static void six_peer(struct end *e)
{
	struct sockaddr_in6 sa = { .sin6_family = INET6_SDP };
	struct link l;
	int fd;

	sa.sin6_port = htons((uint16_t)prog_hear(e));
	sa.sin6_addr = in6addr_loopback;
	fd = sdp_socket(INET6_SDP, 0);
	CHECK(!connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
	start(&l, fd, true);
	converse(&l, true);
	prog_sync(e);
}

/* The JDK: options carried over, dup2 onto the TCP socket. */
static void jdk_run(struct end *e)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	int old = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = sdp_socket(INET_SDP, 0), one = 1, c;
	struct link l;

	CHECK(old >= 0);
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	CHECK(dup2(fd, old) == old);
	CHECK(!close(fd));
	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(old, (struct sockaddr *)&sa, sizeof(sa)));
	CHECK(!listen(old, 5));
	prog_tell(e, port_of(old, AF_INET));
	c = accept(old, NULL, NULL);
	CHECK(c >= 0);
	start(&l, c, false);
	converse(&l, false);
	CHECK(!close(old));
	prog_sync(e);
}

static void odd_run(struct end *e)
{
	int fd = sdp_socket(INET_SDP, 0), v = -1;
	socklen_t len = sizeof(v);

	(void)e;
	FAILS(socket(INET_SDP, SOCK_DGRAM, 0), ESOCKTNOSUPPORT);
	FAILS(socket(INET_SDP, SOCK_STREAM, 17), EPROTONOSUPPORT);
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &v, &len));
	CHECK(v == AF_INET);
	v = 1;
	CHECK(!setsockopt(fd, INET_SDP, SO_KEEPALIVE, &v, sizeof(v)));
	v = 65536;
	CHECK(!setsockopt(fd, IPPROTO_TCP, 80, &v, sizeof(v)));
	CHECK(!close(fd));
	fd = socket(INET_SDP, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK(fd >= 0 && fcntl(fd, F_GETFL) & O_NONBLOCK);
	CHECK(!close(fd));
}

static const struct prog_case cases[] = {
	{ "qperf", qperf_run, v4_peer, CASE_BARE },
	{ "netperf", netperf_run, v4_peer, CASE_BARE },
	{ "number", number_run, number_peer, CASE_BARE },
	{ "six", six_run, six_peer, CASE_BARE },
	{ "jdk", jdk_run, v4_peer, CASE_BARE },
	{ "odd", odd_run, NULL, CASE_SOLO },
};

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "plain")) {
		FAILS(socket(INET_SDP, SOCK_STREAM, 0), EAFNOSUPPORT);
		FAILS(socket(INET6_SDP, SOCK_STREAM, 0), EAFNOSUPPORT);
		return 0;
	}
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
