/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* options - getsockopt, setsockopt, ioctl and names of a live connection. */
#include "prog.h"

#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/sockios.h>

#ifndef SO_MAX_PACING_RATE
#define SO_MAX_PACING_RATE 47
#endif

/* Integer options: set to a value, read back as another (or the same). */
static const struct {
	int level, name, set, get;
} table[] = {
	{ SOL_SOCKET, SO_REUSEADDR, 1, 1 },
	{ SOL_SOCKET, SO_REUSEADDR, 0, 0 },
	{ SOL_SOCKET, SO_KEEPALIVE, 1, 1 },
	{ SOL_SOCKET, SO_KEEPALIVE, 0, 0 },
	{ SOL_SOCKET, SO_OOBINLINE, 1, 1 },
	{ SOL_SOCKET, SO_OOBINLINE, 0, 0 },
	{ SOL_SOCKET, SO_SNDBUF, 30000, 60000 },
	{ SOL_SOCKET, SO_RCVBUF, 40000, 80000 },
	{ SOL_SOCKET, SO_PRIORITY, 3, 3 },
	{ SOL_SOCKET, SO_RCVLOWAT, 1, 1 },
	{ IPPROTO_TCP, TCP_NODELAY, 0, 0 },
	{ IPPROTO_TCP, TCP_NODELAY, 1, 1 },
	{ IPPROTO_TCP, TCP_CORK, 1, 1 },
	{ IPPROTO_TCP, TCP_CORK, 0, 0 },
	{ IPPROTO_TCP, TCP_KEEPIDLE, 77, 77 },
	{ IPPROTO_TCP, TCP_KEEPINTVL, 11, 11 },
	{ IPPROTO_TCP, TCP_KEEPCNT, 4, 4 },
	{ IPPROTO_TCP, TCP_USER_TIMEOUT, 30000, 30000 },
	{ IPPROTO_TCP, TCP_SYNCNT, 3, 3 },
	{ IPPROTO_TCP, TCP_LINGER2, 5, 5 },
	{ IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384, 16384 },
};

static int get_int(int fd, int level, int name)
{
	int v = -12345;
	socklen_t len = sizeof(v);

	CHECK(!getsockopt(fd, level, name, &v, &len));
	CHECK(len == sizeof(v));
	return v;
}

static void table_run(struct end *e)
{
	int fd = e->l.fd, copy = dup(fd);
	size_t i;

	CHECK(copy >= 0);
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		CHECK(!setsockopt(i % 2 ? copy : fd, table[i].level,
				  table[i].name, &table[i].set, sizeof(int)));
		CHECK(get_int(fd, table[i].level, table[i].name) ==
		      table[i].get);
		link_turn(&e->l, 40, true);
		if (i == 9)
			prog_mid(fd);
		CHECK(get_int(copy, table[i].level, table[i].name) ==
		      table[i].get);
	}
	CHECK(!close(copy));
	CHECK(get_int(fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
	CHECK(get_int(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP);
	CHECK(get_int(fd, SOL_SOCKET, SO_DOMAIN) == e->addr.ss_family);
	CHECK(get_int(fd, SOL_SOCKET, SO_ACCEPTCONN) == 0);
	CHECK(get_int(fd, SOL_SOCKET, SO_ERROR) == 0);
	CHECK(get_int(fd, IPPROTO_TCP, TCP_MAXSEG) > 500);
}

static void table_peer(struct end *e)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table); i++)
		link_turn(&e->l, 40, false);
}

/* Values left alone are what a fresh TCP connection has. */
static void fresh_run(struct end *e)
{
	static const struct {
		int level, name;
	} list[] = {
		{ SOL_SOCKET, SO_KEEPALIVE },
		{ SOL_SOCKET, SO_OOBINLINE },
		{ SOL_SOCKET, SO_RCVLOWAT },
		{ SOL_SOCKET, SO_SNDLOWAT },
		{ IPPROTO_TCP, TCP_CORK },
		{ IPPROTO_TCP, TCP_KEEPIDLE },
		{ IPPROTO_TCP, TCP_KEEPINTVL },
		{ IPPROTO_TCP, TCP_KEEPCNT },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT },
		{ IPPROTO_TCP, TCP_DEFER_ACCEPT },
	};
	int fd = socket(e->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t i;

	CHECK(fd >= 0);
	CHECK(get_int(fd, IPPROTO_TCP, TCP_NODELAY) == 0);
	for (i = 0; i < ARRAY_SIZE(list); i++)
		CHECK(get_int(e->l.fd, list[i].level, list[i].name) ==
		      get_int(fd, list[i].level, list[i].name));
	CHECK(!close(fd));
	link_turn(&e->l, 40, true);
}

static void turn_peer(struct end *e)
{
	link_turn(&e->l, 40, false);
}

static void odd_run(struct end *e)
{
	struct linger lg = { 1, 7 }, was;
	struct timeval tv = { 3, 500000 }, tw;
	struct tcp_info ti;
	int fd = e->l.fd, v = 1;
	socklen_t len;
	char name[16], c;

	len = sizeof(was);
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_LINGER, &was, &len));
	CHECK(was.l_onoff == 1 && was.l_linger == 7 && len == sizeof(was));
	lg.l_onoff = 0;
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	len = sizeof(tw);
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tw, &len));
	CHECK(tw.tv_sec == 3 && tw.tv_usec == 500000);
	len = sizeof(tw);
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tw, &len));
	CHECK(tw.tv_sec == 0 && tw.tv_usec == 0);
	len = sizeof(name);
	CHECK(!getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len));
	CHECK(name[0] >= 'a' && name[0] <= 'z');
	len = sizeof(ti);
	CHECK(!getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &len));
	CHECK(ti.tcpi_state == TCP_ESTABLISHED);
	FAILS(setsockopt(fd, IPPROTO_TCP, 250, &v, sizeof(v)), ENOPROTOOPT);
	len = sizeof(v);
	FAILS(getsockopt(fd, IPPROTO_TCP, 250, &v, &len), ENOPROTOOPT);
	FAILS(setsockopt(fd, SOL_SOCKET, 9999, &v, sizeof(v)), ENOPROTOOPT);
	FAILS(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, 1), EINVAL);
	FAILS(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, NULL, sizeof(v)),
	      EFAULT);
	FAILS(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, 4), EINVAL);
	len = 1;
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &c, &len));
	CHECK(len == 1);
	FAILS(setsockopt(0, SOL_SOCKET, SO_KEEPALIVE, &v, sizeof(v)), ENOTSOCK);
	FAILS(getsockopt(-1, SOL_SOCKET, SO_ERROR, &v, &len), EBADF);
	link_turn(&e->l, 40, true);
}

/* --- ioctl ------------------------------------------------------------- */

static int count(int fd, unsigned long what)
{
	int n = -1;

	CHECK(!ioctl(fd, what, &n));
	return n;
}

static void await_count(int fd, int want)
{
	int i;

	for (i = 0; i < 5000 && count(fd, FIONREAD) != want; i++)
		prog_nap_ms(1);
	CHECK(count(fd, FIONREAD) == want);
}

static void ioctl_run(struct end *e)
{
	char conf[4096];
	struct ifconf ic = { .ifc_len = sizeof(conf), .ifc_buf = conf };
	struct ifreq ir;
	int fd = e->l.fd, i;

	CHECK(count(fd, FIONREAD) == 0);
	prog_tell(e, 1000);
	await_count(fd, 1000);
	link_get(&e->l, 400);
	CHECK(count(fd, FIONREAD) == 600);
	CHECK(count(fd, SIOCINQ) == 600);
	prog_tell(e, 500);
	await_count(fd, 1100);
	link_get(&e->l, 1100);
	CHECK(count(fd, FIONREAD) == 0);
	CHECK(count(fd, SIOCATMARK) == 0);
	/* all that we sent has been read: nothing waits */
	prog_tell(e, 0);
	link_put(&e->l, 3000);
	CHECK(prog_hear(e) == 3000);
	for (i = 0; i < 5000 && count(fd, SIOCOUTQ); i++)
		prog_nap_ms(1);
	CHECK(count(fd, SIOCOUTQ) == 0);
	/* questions about interfaces are asked on any socket */
	CHECK(!ioctl(fd, SIOCGIFCONF, &ic));
	CHECK(ic.ifc_len > 0);
	memset(&ir, 0, sizeof(ir));
	snprintf(ir.ifr_name, sizeof(ir.ifr_name), "lo");
	CHECK(!ioctl(fd, SIOCGIFFLAGS, &ir));
	CHECK(ir.ifr_flags & IFF_LOOPBACK);
	FAILS(ioctl(fd, TIOCGWINSZ, conf), ENOTTY);
	link_turn(&e->l, 40, true);
}

static void ioctl_peer(struct end *e)
{
	uint64_t n;

	while ((n = prog_hear(e)))
		link_put(&e->l, (size_t)n);
	link_get(&e->l, 3000);
	prog_tell(e, 3000);
	link_turn(&e->l, 40, false);
}

/* --- low water --------------------------------------------------------- */

static void lowat_run(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };
	int v = 500;

	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_RCVLOWAT, &v, sizeof(v)));
	CHECK(get_int(e->l.fd, SOL_SOCKET, SO_RCVLOWAT) == 500);
	prog_tell(e, 300);
	CHECK(prog_hear(e) == 300);
	CHECK(poll(&p, 1, 30) == 0);
	prog_tell(e, 300);
	CHECK(prog_hear(e) == 300);
	CHECK(poll(&p, 1, 5000) == 1);
	link_get(&e->l, 600);
	v = 1;
	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_RCVLOWAT, &v, sizeof(v)));
	prog_tell(e, 1);
	CHECK(prog_hear(e) == 1);
	CHECK(poll(&p, 1, 5000) == 1);
	link_get(&e->l, 1);
	prog_tell(e, 0);
	link_turn(&e->l, 40, true);
}

static void lowat_peer(struct end *e)
{
	prog_feed(e);
	link_turn(&e->l, 40, false);
}

/* --- names ------------------------------------------------------------- */

static void names(struct end *e)
{
	struct sockaddr_storage a, b;
	socklen_t la = sizeof(a), lb = sizeof(b);
	char shortbuf[4];
	bool listener = e->lfd >= 0;

	CHECK(!getsockname(e->l.fd, (struct sockaddr *)&a, &la));
	CHECK(!getpeername(e->l.fd, (struct sockaddr *)&b, &lb));
	CHECK(la == e->addrlen && lb == e->addrlen);
	CHECK(a.ss_family == e->addr.ss_family);
	CHECK(b.ss_family == e->addr.ss_family);
	CHECK(prog_port(listener ? &a : &b) == prog_port(&e->addr));
	/* each end's peer is the other end's own name */
	prog_tell(e, (uint64_t)prog_port(&a));
	CHECK(prog_hear(e) == (uint64_t)prog_port(&b));
	la = sizeof(shortbuf);
	CHECK(!getsockname(e->l.fd, (struct sockaddr *)shortbuf, &la));
	CHECK(la == e->addrlen);
	FAILS(bind(e->l.fd, (struct sockaddr *)&a, e->addrlen), EINVAL);
	FAILS(connect(e->l.fd, (struct sockaddr *)&b, e->addrlen), EISCONN);
	FAILS(listen(e->l.fd, 1), EINVAL);
	FAILS(accept(e->l.fd, NULL, NULL), EINVAL);
	prog_mid(e->l.fd);
	prog_sync(e);
	link_turn(&e->l, 40, !e->peer);
	FAILS(getsockname(0, (struct sockaddr *)&a, &la), ENOTSOCK);
}

/* After the peer's end of stream the state is CLOSE_WAIT. */
static void state_run(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };
	struct tcp_info ti;
	socklen_t len = sizeof(ti);

	link_turn(&e->l, 40, true);
	CHECK(poll(&p, 1, 5000) == 1);
	link_eof(&e->l);
	CHECK(!getsockopt(e->l.fd, IPPROTO_TCP, TCP_INFO, &ti, &len));
	CHECK(ti.tcpi_state == TCP_CLOSE_WAIT);
}

static void state_peer(struct end *e)
{
	link_turn(&e->l, 40, false);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	link_eof(&e->l);
}

/* --- what connections have from their listener -------------------------- */

static void heir_set(struct end *e, int opt, const void *v, socklen_t len)
{
	if (e->lfd >= 0)
		CHECK(!setsockopt(e->lfd, SOL_SOCKET, opt, v, len));
	prog_sync(e);
}

/* Its end is a reset. */
static void heir_linger(struct end *e)
{
	struct linger reset = { 1, 0 }, none = { 0, 0 };
	struct link l;
	char b;

	heir_set(e, SO_LINGER, &reset, sizeof(reset));
	prog_link(e, &l);
	heir_set(e, SO_LINGER, &none, sizeof(none));
	link_turn(&l, 40, !e->peer);
	prog_sync(e);
	if (e->lfd < 0)
		FAILS(read(l.fd, &b, 1), ECONNRESET);
	CHECK(!close(l.fd));
}

/* Without warming up: that moves less than the mark, and would wait. */
static void heir_link(struct end *e, struct link *l)
{
	*l = (struct link){ .tx.seed = e->l.tx.seed, .rx.seed = e->l.rx.seed };
	if (e->lfd >= 0) {
		l->fd = accept(e->lfd, NULL, NULL);
		CHECK(l->fd >= 0);
		return;
	}
	l->fd = socket(e->addr.ss_family, SOCK_STREAM, 0);
	CHECK(l->fd >= 0);
	CHECK(!connect(l->fd, (struct sockaddr *)&e->addr, e->addrlen));
}

static void heir_lowat(struct end *e)
{
	int many = 500, one = 1, i;
	struct link l;

	heir_set(e, SO_RCVLOWAT, &many, sizeof(many));
	heir_link(e, &l);
	for (i = 0; i < 100; i++)
		link_turn(&l, 600, !e->peer);
	heir_set(e, SO_RCVLOWAT, &one, sizeof(one));
	if (e->lfd < 0) {
		link_put(&l, 300);
		prog_sync(e);
		prog_sync(e);
		link_put(&l, 300);
	} else {
		struct pollfd p = { .fd = l.fd, .events = POLLIN };

		prog_sync(e);
		CHECK(poll(&p, 1, 30) == 0);
		prog_sync(e);
		CHECK(poll(&p, 1, 5000) == 1);
		link_get(&l, 600);
	}
	prog_sync(e);
	link_close(&l);
}

static void heir_urgent(struct end *e)
{
	int on = 1, off = 0;
	struct link l;
	char b[8];

	heir_set(e, SO_OOBINLINE, &on, sizeof(on));
	prog_link(e, &l);
	heir_set(e, SO_OOBINLINE, &off, sizeof(off));
	if (e->lfd < 0) {
		link_put(&l, 50);
		CHECK(send(l.fd, "!", 1, MSG_OOB) == 1);
		link_put(&l, 30);
	} else {
		link_get(&l, 50);
		CHECK(recv(l.fd, b, 1, 0) == 1);
		CHECK(b[0] == '!');
		link_get(&l, 30);
	}
	prog_sync(e);
	link_close(&l);
}

/* The time at which bytes came, for a receive with room for it. */
static bool stamped(int fd, size_t n)
{
	char buf[1000], room[256];
	struct iovec iov = { buf, n };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room) };
	struct cmsghdr *c;

	CHECK(recvmsg(fd, &m, 0) > 0);
	for (c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == SOL_SOCKET &&
		    c->cmsg_type == SCM_TIMESTAMP)
			return true;
	return false;
}

/* It takes the kernel a moment until it stamps what comes. */
static void heir_stamps(struct end *e)
{
	int on = 1, off = 0, i;
	bool any = false;
	struct link l;

	heir_set(e, SO_TIMESTAMP, &on, sizeof(on));
	prog_link(e, &l);
	heir_set(e, SO_TIMESTAMP, &off, sizeof(off));
	for (i = 0; i < 5000 && (i < 200 || !any); i++) {
		link_turn(&l, 100, !e->peer);
		prog_nap_ms(1);
		if (e->lfd < 0) {
			CHECK(send(l.fd, "x", 1, 0) == 1);
			any = prog_hear(e);
		} else {
			any = stamped(l.fd, 1) || any;
			prog_tell(e, any);
		}
	}
	CHECK(any);
	link_close(&l);
}

/* --- set, and taken back ------------------------------------------------- */

/* Bytes are the kernel's alone while one of these is set. */
static const struct {
	int name, on, off;
} bars[] = {
	{ SO_RCVLOWAT, 7, 1 },	    { SO_RCVLOWAT, -1, 0 },
	{ SO_TIMESTAMPING, 16, 0 }, /* SOF_TIMESTAMPING_SOFTWARE */
	{ SO_TIMESTAMP, 1, 0 },	    { SO_MAX_PACING_RATE, 100000000, -1 },
};

static void freed_turns(struct link *l, bool leader)
{
	int i;

	for (i = 0; i < 500; i++)
		link_turn(l, 1000, leader);
}

static void back_run(struct end *e)
{
	int fd = e->l.fd, on = 1, off = 0, i, flags = fcntl(fd, F_GETFL);
	size_t k;

	CHECK(!fcntl(fd, F_SETOWN, getpid()));
	CHECK(signal(SIGIO, SIG_IGN) != SIG_ERR);
	for (i = 0; i < 3; i++) {
		for (k = 0; k < ARRAY_SIZE(bars); k++) {
			CHECK(!setsockopt(fd, SOL_SOCKET, bars[k].name,
					  &bars[k].on, sizeof(int)));
			if (bars[k].on > 0)
				link_turn(&e->l, 40, true);
			CHECK(!setsockopt(fd, SOL_SOCKET, bars[k].name,
					  &bars[k].off, sizeof(int)));
			link_turn(&e->l, 40, true);
			if (bars[k].on <= 0)
				link_turn(&e->l, 40, true);
		}
		CHECK(!ioctl(fd, FIOASYNC, &on));
		link_turn(&e->l, 40, true);
		CHECK(!ioctl(fd, FIOASYNC, &off));
		link_turn(&e->l, 40, true);
		CHECK(!fcntl(fd, F_SETFL, flags | O_ASYNC));
		link_turn(&e->l, 40, true);
		CHECK(!fcntl(fd, F_SETFL, flags));
		link_turn(&e->l, 40, true);
	}
	/* a socket that left SDP more than once rests for a second */
	prog_nap_ms(1100);
	freed_turns(&e->l, true);
}

static void back_peer(struct end *e)
{
	size_t i;

	for (i = 0; i < 3 * (2 * ARRAY_SIZE(bars) + 4); i++)
		link_turn(&e->l, 40, false);
	freed_turns(&e->l, false);
}

/* Of the listener, before it has the connection. */
static void freed(struct end *e)
{
	struct link l;
	size_t k;

	for (k = 0; k < ARRAY_SIZE(bars); k++) {
		heir_set(e, bars[k].name, &bars[k].on, sizeof(int));
		heir_set(e, bars[k].name, &bars[k].off, sizeof(int));
	}
	prog_sync(e);
	heir_link(e, &l);
	freed_turns(&l, !e->peer);
	link_close(&l);
}

/* The peer has closed: what is set is what is read, as ever. */
static void closed_run(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };
	socklen_t len = sizeof(int);
	int i, v, names[] = { TCP_NODELAY, TCP_CORK };

	link_turn(&e->l, 100, true);
	prog_tell(e, 1);
	CHECK(poll(&p, 1, 5000) == 1);
	for (i = 0; i < 8; i++) {
		v = i / 2 % 2;
		CHECK(!setsockopt(e->l.fd, IPPROTO_TCP, names[i % 2], &v, len));
		v = -1;
		CHECK(!getsockopt(e->l.fd, IPPROTO_TCP, names[i % 2], &v,
				  &len));
		CHECK(v == i / 2 % 2);
	}
}

static void closed_peer(struct end *e)
{
	link_turn(&e->l, 100, false);
	CHECK(prog_hear(e) == 1);
	CHECK(!close(e->l.fd));
	e->l.fd = -1;
}

static const struct prog_case cases[] = {
	{ "back", back_run, back_peer, 0 },
	{ "freed", freed, freed, 0 },
	{ "table", table_run, table_peer, 0 },
	{ "fresh", fresh_run, turn_peer, 0 },
	{ "odd", odd_run, turn_peer, 0 },
	{ "ioctl", ioctl_run, ioctl_peer, 0 },
	{ "lowat", lowat_run, lowat_peer, 0 },
	{ "names", names, names, 0 },
	{ "state", state_run, state_peer, 0 },
	{ "linger", heir_linger, heir_linger, 0 },
	{ "marked", heir_lowat, heir_lowat, 0 },
	{ "inline", heir_urgent, heir_urgent, 0 },
	{ "stamps", heir_stamps, heir_stamps, 0 },
	{ "closed", closed_run, closed_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
