/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * corners - what few programs do and the kernel does in its own way: bad
 * pointers, odd time limits, options that a listener hands down.
 */
#include "prog.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include <linux/sockios.h>

/* --- pointers ----------------------------------------------------------- */

/* The compiler shall not know them. */
static void *volatile nowhere;
static void *volatile wild = (void *)0x10000;

static void pointers_run(struct end *e)
{
	int fd = e->l.fd, n = 0;

	FAILS(send(fd, nowhere, 10, 0), EFAULT);
	FAILS(send(fd, wild, 10, 0), EFAULT);
	FAILS(write(fd, nowhere, 10), EFAULT);
	prog_sync(e);
	while (n < 100)
		CHECK(!ioctl(fd, FIONREAD, &n));
	FAILS(recv(fd, nowhere, 10, 0), EFAULT);
	FAILS(read(fd, wild, 10), EFAULT);
	FAILS(ioctl(fd, FIONREAD, nowhere), EFAULT);
	FAILS(ioctl(fd, FIONREAD, wild), EFAULT);
	FAILS(ioctl(fd, SIOCOUTQ, wild), EFAULT);
	/* MSG_TRUNC looks at no buffer */
	CHECK(recv(fd, wild, 10, MSG_TRUNC | MSG_PEEK) == 10);
	CHECK(recv(fd, nowhere, 10, MSG_TRUNC) == 10);
	CHECK(recv(fd, wild, 10, MSG_TRUNC) == 10);
	e->l.rx.off += 20;
	link_get(&e->l, 80);
	link_turn(&e->l, 100, true);
}

static void pointers_peer(struct end *e)
{
	prog_sync(e);
	link_put(&e->l, 100);
	link_turn(&e->l, 100, false);
}

/* A receive that fails leaves the program's msghdr as it was. */
static void header_run(struct end *e)
{
	char byte, control[64];
	struct iovec iov = { &byte, 1 };
	struct sockaddr_storage ss;
	struct msghdr m = { .msg_name = &ss,
			    .msg_namelen = sizeof(ss),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control),
			    .msg_flags = 0x55 };

	FAILS(recvmsg(e->l.fd, &m, MSG_DONTWAIT), EAGAIN);
	CHECK(m.msg_namelen == sizeof(ss));
	CHECK(m.msg_controllen == sizeof(control));
	CHECK(m.msg_flags == 0x55);
	prog_sync(e);
	CHECK(recvmsg(e->l.fd, &m, 0) == 1);
	flow_check(&e->l.rx, &byte, 1);
	CHECK(m.msg_namelen == 0);
	CHECK(m.msg_controllen == 0);
	CHECK(m.msg_flags == 0);
}

static void header_peer(struct end *e)
{
	prog_sync(e);
	link_put(&e->l, 1);
}

/* --- waiting for more than is there ------------------------------------- */

/* MSG_PEEK with MSG_WAITALL looks when all is there, not before. */
static void peekall_run(struct end *e)
{
	struct flow f;
	uint8_t b[300];
	int i;

	for (i = 0; i < 20; i++) {
		prog_tell(e, 1);
		f = e->l.rx;
		CHECK(recv(e->l.fd, b, 300, MSG_PEEK | MSG_WAITALL) == 300);
		flow_check(&f, b, 300);
		link_get(&e->l, 300);
		link_put(&e->l, 10);
	}
	prog_tell(e, 0);
	/* the end, or no wish to wait, makes it less */
	CHECK(prog_hear(e) == 7);
	CHECK(recv(e->l.fd, b, 300, MSG_PEEK | MSG_WAITALL) == 7);
	link_get(&e->l, 7);
	CHECK(recv(e->l.fd, b, 300, MSG_PEEK | MSG_WAITALL) == 0);
}

static void peekall_peer(struct end *e)
{
	while (prog_hear(e) == 1) {
		prog_nap_ms(2);
		link_put(&e->l, 100);
		prog_nap_ms(2);
		link_put(&e->l, 150);
		prog_nap_ms(2);
		link_put(&e->l, 50);
		link_get(&e->l, 10);
	}
	link_put(&e->l, 7);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	prog_tell(e, 7);
}

static void set_timeo(int fd, int opt, long sec, long usec)
{
	struct timeval tv = { .tv_sec = sec, .tv_usec = usec };

	CHECK(!setsockopt(fd, SOL_SOCKET, opt, &tv, sizeof(tv)));
}

/* One limit for all of a MSG_WAITALL. With one for each piece all 60 come. */
static void drip_run(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };
	uint8_t b[1000];
	uint64_t all;
	ssize_t n;
	int i;

	set_timeo(e->l.fd, SO_RCVTIMEO, 0, 200000);
	for (i = 0; i < 2; i++) {
		prog_tell(e, 1);
		CHECK(poll(&p, 1, -1) == 1);
		n = recv(e->l.fd, b, sizeof(b), MSG_WAITALL);
		CHECK(n > 0 && n < 60);
		flow_check(&e->l.rx, b, (size_t)n);
		prog_tell(e, 0);
		all = prog_hear(e);
		CHECK(all >= (uint64_t)n);
		set_timeo(e->l.fd, SO_RCVTIMEO, 0, 0);
		link_get(&e->l, (size_t)(all - (uint64_t)n));
		set_timeo(e->l.fd, SO_RCVTIMEO, 0, 200000);
	}
	prog_tell(e, 2);
}

static void drip_peer(struct end *e)
{
	struct pollfd over = { .fd = e->ctl, .events = POLLIN };
	uint64_t n;

	while (prog_hear(e) == 1) {
		for (n = 0; n < 60 && poll(&over, 1, n ? 40 : 0) == 0; n++)
			link_put(&e->l, 1);
		CHECK(prog_hear(e) == 0);
		prog_tell(e, n);
	}
}

/* Time limits that the kernel refuses, or takes for "never wait". */
static void limits_run(struct end *e)
{
	struct timeval bad = { .tv_sec = 0, .tv_usec = 1000000 };
	int fd = e->l.fd;
	uint8_t b;

	FAILS(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bad, sizeof(bad)), EDOM);
	FAILS(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bad, 3), EINVAL);
	prog_tell(e, 1);
	CHECK(recv(fd, &b, 1, 0) == 1); /* after 1.3 s: no limit was set */
	flow_check(&e->l.rx, &b, 1);
	set_timeo(fd, SO_RCVTIMEO, 0, 30000);
	FAILS(recv(fd, &b, 1, 0), EAGAIN);
	FAILS(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bad, sizeof(bad)), EDOM);
	FAILS(recv(fd, &b, 1, 0), EAGAIN); /* the old one is still in force */
	set_timeo(fd, SO_RCVTIMEO, -1, 0);
	FAILS(recv(fd, &b, 1, 0), EAGAIN);
	set_timeo(fd, SO_RCVTIMEO, 0, 0);
	link_turn(&e->l, 100, true);
}

static void limits_peer(struct end *e)
{
	CHECK(prog_hear(e) == 1);
	prog_nap_ms(1300);
	link_put(&e->l, 1);
	link_turn(&e->l, 100, false);
}

/* --- what is on its way -------------------------------------------------- */

/* Delivered is what the other host has, whether its program reads or not. */
static void outq_run(struct end *e)
{
	int i, n = 1;

	link_put(&e->l, 3000);
	for (i = 0; i < 5000 && n; i++) {
		CHECK(!ioctl(e->l.fd, SIOCOUTQ, &n));
		prog_nap_ms(1);
	}
	CHECK(n == 0);
	prog_sync(e);
	link_turn(&e->l, 10, true);
}

static void outq_peer(struct end *e)
{
	prog_sync(e);
	link_get(&e->l, 3000);
	link_turn(&e->l, 10, false);
}

/* The mark by the old ioctl, read up to byte by byte. */
static void mark_run(struct end *e)
{
	int mark, i;
	char b;

	CHECK(prog_hear(e) == 1);
	for (i = 0; i < 51; i++) {
		CHECK(!ioctl(e->l.fd, SIOCATMARK, &mark));
		CHECK(mark == (i == 50));
		if (!mark)
			link_get(&e->l, 1);
	}
	CHECK(recv(e->l.fd, &b, 1, MSG_OOB) == 1);
	CHECK(b == '!');
	link_get(&e->l, 30);
}

static void mark_peer(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd };

	link_put(&e->l, 50);
	CHECK(send(e->l.fd, "!", 1, MSG_OOB) == 1);
	link_put(&e->l, 30);
	poll(&p, 1, 20);
	prog_tell(e, 1);
	link_eof(&e->l);
}

/* --- handed down by the listener ---------------------------------------- */

/* Closing resets: the other end may not take it for an orderly end. */
static void reset_run(struct end *e)
{
	struct linger lg = { 1, 0 };
	uint8_t b;

	if (e->lfd >= 0)
		CHECK(!setsockopt(e->lfd, SOL_SOCKET, SO_LINGER, &lg,
				  sizeof(lg)));
	prog_sync(e);
	prog_link(e, &e->l);
	link_turn(&e->l, 100, e->lfd >= 0);
	prog_sync(e);
	if (e->lfd >= 0) {
		CHECK(!close(e->l.fd));
		e->l.fd = -1;
		return;
	}
	FAILS(recv(e->l.fd, &b, 1, 0), ECONNRESET);
	link_eof(&e->l);
}

/* Receives of less than that do not come back. */
static void lowat_run(struct end *e)
{
	struct pollfd p;
	uint8_t b[200];
	int i, n = 100;

	if (e->lfd >= 0)
		CHECK(!setsockopt(e->lfd, SOL_SOCKET, SO_RCVLOWAT, &n,
				  sizeof(n)));
	prog_sync(e);
	link_bare(e);
	for (i = 0; i < 100; i++)
		link_turn(&e->l, 100, e->lfd >= 0);
	if (e->lfd < 0) {
		link_put(&e->l, 40);
		prog_sync(e);
		prog_sync(e);
		prog_nap_ms(20);
		link_put(&e->l, 100);
		prog_sync(e);
		return;
	}
	prog_sync(e);
	p = (struct pollfd){ .fd = e->l.fd, .events = POLLIN };
	CHECK(poll(&p, 1, 50) == 0);
	prog_sync(e);
	CHECK(recv(e->l.fd, b, 200, 0) == 140);
	flow_check(&e->l.rx, b, 140);
	prog_sync(e);
}

/* --- splice --------------------------------------------------------------- */

static void nothing_run(struct end *e)
{
	int p[2];

	CHECK(!pipe(p));
	CHECK(splice(e->l.fd, NULL, p[1], NULL, 0, 0) == 0);
	CHECK(splice(p[0], NULL, e->l.fd, NULL, 0, 0) == 0);
	CHECK(!close(p[0]));
	CHECK(!close(p[1]));
	prog_sync(e);
}

static void nothing_peer(struct end *e)
{
	prog_sync(e);
}

/* The end of what went through a pipe: the peer has counted so many bytes. */
static void spliced(struct end *e, const int p[2], uint64_t out)
{
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	CHECK(prog_hear(e) == out);
	CHECK(!close(p[0]));
	CHECK(!close(p[1]));
}

/* Lets the other end wait, and then counts what it sends. */
static void counting_peer(struct end *e, unsigned int nap)
{
	char buf[65536];
	uint64_t got = 0;
	ssize_t n;

	CHECK(prog_hear(e) == 1);
	prog_nap_ms(nap);
	while ((n = read(e->l.fd, buf, sizeof(buf))) > 0)
		got += (uint64_t)n;
	CHECK(n == 0);
	prog_tell(e, got);
}

/* A splice that may not wait does not, however slow the reader. */
static void slow_run(struct end *e)
{
	static char buf[65536];
	uint64_t in = 0, out = 0;
	int64_t began;
	int i, p[2];
	ssize_t n;

	CHECK(!pipe2(p, O_NONBLOCK));
	prog_nonblock(e->l.fd, true);
	for (i = 0; i < 3; i++) {
		do {
			n = write(p[1], buf, sizeof(buf));
			CHECK(n > 0 || errno == EAGAIN);
			in += n > 0 ? (uint64_t)n : 0;
			began = prog_now_ms();
			n = splice(p[0], NULL, e->l.fd, NULL, sizeof(buf),
				   SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
			CHECK(n > 0 || errno == EAGAIN);
			CHECK(prog_now_ms() - began < 8000);
			out += n > 0 ? (uint64_t)n : 0;
		} while (n > 0);
		prog_nap_ms(40);
	}
	prog_tell(e, 1); /* now it reads */
	prog_nonblock(e->l.fd, false);
	while (out < in) {
		n = splice(p[0], NULL, e->l.fd, NULL, in - out, 0);
		CHECK(n > 0);
		out += (uint64_t)n;
	}
	spliced(e, p, out);
}

static void slow_peer(struct end *e)
{
	counting_peer(e, 0);
}

/*
 * SPLICE_F_NONBLOCK is the pipe's: a blocking socket waits for bytes, and for
 * room.
 */
static void patient_run(struct end *e)
{
	char b[10];
	int p[2];

	CHECK(!pipe(p));
	prog_sync(e);
	CHECK(splice(e->l.fd, NULL, p[1], NULL, 10, SPLICE_F_NONBLOCK) == 10);
	CHECK(read(p[0], b, 10) == 10);
	flow_check(&e->l.rx, b, 10);
	FAILS(splice(p[0], NULL, e->l.fd, NULL, 10, SPLICE_F_NONBLOCK), EAGAIN);
	CHECK(!close(p[0]));
	CHECK(!close(p[1]));
	link_turn(&e->l, 100, true);
}

static void patient_peer(struct end *e)
{
	prog_sync(e);
	prog_nap_ms(40);
	link_put(&e->l, 10);
	link_turn(&e->l, 100, false);
}

static void full_run(struct end *e)
{
	static char buf[65536];
	uint64_t out = 0;
	ssize_t n;
	int i, p[2];

	CHECK(!pipe(p));
	prog_tell(e, 1);
	for (i = 0; i < 200; i++) {
		CHECK(write(p[1], buf, sizeof(buf)) == sizeof(buf));
		while (out < (uint64_t)(i + 1) * sizeof(buf)) {
			n = splice(p[0], NULL, e->l.fd, NULL, sizeof(buf),
				   SPLICE_F_NONBLOCK);
			CHECK(n > 0);
			out += (uint64_t)n;
		}
	}
	spliced(e, p, out);
}

static void full_peer(struct end *e)
{
	counting_peer(e, 300);
}

/* --- options of the kernel's own way with bytes --------------------------- */

#ifndef SO_PEEK_OFF
#define SO_PEEK_OFF 42
#endif

/* Each look goes on where the last one ended. */
static void peekoff_run(struct end *e)
{
	int off = 0, fd = e->l.fd;
	struct flow f;
	uint8_t b[100];

	if (setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off))) {
		CHECK(errno == EOPNOTSUPP); /* before Linux 6.9 */
		prog_sync(e);
		link_get(&e->l, 300);
		return;
	}
	prog_sync(e);
	f = e->l.rx;
	CHECK(recv(fd, b, 100, MSG_PEEK | MSG_WAITALL) == 100);
	flow_check(&f, b, 100);
	CHECK(recv(fd, b, 100, MSG_PEEK | MSG_WAITALL) == 100);
	flow_check(&f, b, 100);
	link_get(&e->l, 300);
}

static void peekoff_peer(struct end *e)
{
	prog_sync(e);
	link_put(&e->l, 300);
}

/* What can be mapped, and what is left to be read in the ordinary way. */
static void mapped_run(struct end *e)
{
	struct tcp_zerocopy_receive z;
	int64_t end = prog_now_ms() + 5000;
	socklen_t len;

	prog_sync(e);
	do {
		CHECK(prog_now_ms() < end);
		memset(&z, 0, sizeof(z));
		len = sizeof(z);
		CHECK(!getsockopt(e->l.fd, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE,
				  &z, &len));
	} while (z.recv_skip_hint < 300);
	link_get(&e->l, 300);
}

static atomic_int sigios;

static void on_io(int sig)
{
	(void)sig;
	atomic_fetch_add(&sigios, 1);
}

/* Signals for input, asked for by ioctl(). */
static void fioasync_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_io }, old;
	int on = 1, i;

	CHECK(!sigaction(SIGIO, &sa, &old));
	CHECK(!fcntl(e->l.fd, F_SETOWN, getpid()));
	CHECK(!ioctl(e->l.fd, FIOASYNC, &on));
	for (i = 0; i < 5; i++) {
		int64_t end = prog_now_ms() + 5000;

		atomic_store(&sigios, 0);
		prog_sync(e);
		while (!atomic_load(&sigios)) {
			CHECK(prog_now_ms() < end);
			prog_nap_ms(1);
		}
		link_get(&e->l, 10);
	}
	on = 0;
	CHECK(!ioctl(e->l.fd, FIOASYNC, &on));
	CHECK(!sigaction(SIGIO, &old, NULL));
}

static void fioasync_peer(struct end *e)
{
	int i;

	for (i = 0; i < 5; i++) {
		prog_sync(e);
		link_put(&e->l, 10);
	}
}

/* --- calls that fail ------------------------------------------------------ */

/* What a connection refuses changes nothing about it. */
static void refused_run(struct end *e)
{
	struct sockaddr_storage any = e->addr;
	socklen_t len = sizeof(any);

	FAILS(listen(e->l.fd, 5), EINVAL);
	link_turn(&e->l, 1000, true);
	FAILS(connect(e->l.fd, (struct sockaddr *)&any, e->addrlen), EISCONN);
	link_turn(&e->l, 1000, true);
	CHECK(!getsockname(e->l.fd, (struct sockaddr *)&any, &len));
	FAILS(bind(e->l.fd, (struct sockaddr *)&any, e->addrlen), EINVAL);
	FAILS(accept(e->l.fd, NULL, NULL), EINVAL);
	link_turn(&e->l, 1000, true);
}

static void refused_peer(struct end *e)
{
	int i;

	for (i = 0; i < 3; i++)
		link_turn(&e->l, 1000, false);
}

static const struct prog_case cases[] = {
	{ "pointers", pointers_run, pointers_peer, 0 },
	{ "header", header_run, header_peer, 0 },
	{ "peekall", peekall_run, peekall_peer, 0 },
	{ "drip", drip_run, drip_peer, 0 },
	{ "limits", limits_run, limits_peer, 0 },
	{ "outq", outq_run, outq_peer, 0 },
	{ "mark", mark_run, mark_peer, 0 },
	{ "reset", reset_run, reset_run, CASE_BARE },
	{ "lowat", lowat_run, lowat_run, CASE_BARE },
	{ "nothing", nothing_run, nothing_peer, 0 },
	{ "slow", slow_run, slow_peer, 0 },
	{ "patient", patient_run, patient_peer, 0 },
	{ "full", full_run, full_peer, 0 },
	{ "refused", refused_run, refused_peer, 0 },
	{ "peekoff", peekoff_run, peekoff_peer, 0 },
	{ "mapped", mapped_run, peekoff_peer, 0 },
	{ "fioasync", fioasync_run, fioasync_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
