/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * kernpeer - a kernel with SDP sockets, at the far end of a pretended queue
 * pair
 *
 *   kernpeer [-f ofed|freebsd|gen1] [-o FILE] [-z N] [-a N] [-g N] [-jmx]
 *            PORT TCP-PORT
 *
 * Service 0x10000 | PORT of fake.h; the kernel is tests/sim/kernel_peer.c, the
 * program behind its socket a TCP server of this host at TCP-PORT: what it
 * says and hears goes by SDP, its ends and resets too. One line in FILE for
 * each connection, with the fault that the kernel found in the other end.
 *
 * -z N: writes of N bytes go by SrcAvail; -a N: ChRcvBuf of N bytes; -g N: one
 * message in N counts twice; -j: reserved fields hold junk. -m: REQs are never
 * answered; -x: gen1 answers although it should refuse.
 */

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake.h"
#include "kernel_peer.h"

#define MARKS	64
#define TX_MOST (1u << 20) /* taken from the server and not sent */
#define GULP	65536u

struct option_of {
	enum kp_family family;
	struct kp_plan plan;
	const char *file;
	bool mute, gen1_answers;
} opt = {
	.plan = { .chunk = GULP, .gulp = GULP, .rcvbuf = 262144 },
};

static struct peer {
	struct kp k;
	int qp, srv;
	bool up, srv_eof, srv_shut, qp_eof;
	uint8_t *tx; /* all that the server said */
	uint64_t tx_len, tx_room;
	uint8_t rx[1 << 22]; /* by offset, what the server did not take yet */
	uint64_t given;
	const uint8_t *now; /* payload under examination, from rx on */
	uint64_t marks[MARKS];
	uint32_t nmarks, marks_given;
	uint32_t got, acked, sent, fin_at;
	uint8_t in[KP_MSG_MAX + FRAME_HEAD];
	uint32_t in_len;
} p;

/* --- what the kernel asks of its world --------------------------------- */

static uint32_t seed = 1;

uint32_t native_rnd(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return n ? (uint32_t)((uint64_t)seed * n >> 32) : 0;
}

uint64_t native_pause(uint64_t most)
{
	(void)most;
	return 0;
}

uint8_t native_byte(bool kernel, uint64_t at)
{
	if (kernel)
		return p.tx[at];
	/* any byte is right, and kept for the server */
	return p.rx[at % sizeof(p.rx)] = p.now[at - p.k.rx];
}

void native_saw(enum native_seen what, bool really)
{
	(void)what;
	(void)really;
}

/* --- the queue pair ---------------------------------------------------- */

static void all_out(const void *mem, size_t len)
{
	const uint8_t *at = mem;
	ssize_t n;

	for (; len; len -= (size_t)n, at += n) {
		n = send(p.qp, at, len, MSG_NOSIGNAL);
		if (n <= 0)
			return; /* it is told by reading */
	}
}

static void frame(enum frame type, const void *mem, uint32_t len)
{
	uint32_t head[2] = { (uint32_t)type, len };

	all_out(head, sizeof(head));
	all_out(mem, len);
}

static void fin_acked(uint32_t count)
{
	static const uint8_t disconn[16] = { 2 };

	if (p.fin_at && (int32_t)(count - p.fin_at) >= 0) {
		p.fin_at = 0;
		kp_completed(&p.k, disconn);
	}
}

static void message(const uint8_t *mem, uint32_t len)
{
	p.got++;
	if (len > 16 && mem[0] == 0xff && mem[1] == 3 && p.nmarks < MARKS)
		p.marks[p.nmarks++] = p.k.rx + len - 17;
	p.k.expected = p.nmarks;
	p.now = mem + 16;
	kp_recv(&p.k, mem, len);
}

static void arrived(uint32_t type, const uint8_t *mem, uint32_t len)
{
	uint32_t count;

	switch (type) {
	case RTU:
		p.up = true;
		break;
	case MSG:
		message(mem, len);
		break;
	case PROBE:
		p.got++;
		break;
	case ACK:
		memcpy(&count, mem, sizeof(count));
		fin_acked(count);
		break;
	case DREQ:
		kp_on_dreq(&p.k);
		break;
	default:
		break;
	}
}

/* Whole frames that have come; what follows is left for later. */
static void intake(void)
{
	uint32_t head[2], want;
	ssize_t n;

	for (;;) {
		want = FRAME_HEAD;
		if (p.in_len >= FRAME_HEAD) {
			memcpy(head, p.in, sizeof(head));
			want += head[1];
		}
		if (want > sizeof(p.in))
			_exit(3);
		if (p.in_len == want && p.in_len >= FRAME_HEAD) {
			p.in_len = 0;
			arrived(head[0], p.in + FRAME_HEAD, head[1]);
			continue;
		}
		n = recv(p.qp, p.in + p.in_len, want - p.in_len, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			p.qp_eof = true;
			return;
		}
		p.in_len += (uint32_t)n;
	}
}

/* --- the server behind the socket -------------------------------------- */

static void urgent_at(uint64_t at)
{
	struct kp_plan *plan = &p.k.plan;
	uint32_t i, n = 0;

	for (i = 0; i < plan->urgents; i++)
		if (plan->urgent[i] >= p.k.tx)
			plan->urgent[n++] = plan->urgent[i];
	if (n < KP_URGENTS)
		plan->urgent[n++] = at;
	plan->urgents = n;
}

static void hear_server(void)
{
	int mark = 0;
	ssize_t n;

	while (!p.srv_eof && p.tx_len - p.k.tx < TX_MOST) {
		if (p.tx_room - p.tx_len < GULP) {
			p.tx_room = p.tx_room * 2 + 2 * GULP;
			p.tx = realloc(p.tx, p.tx_room);
		}
		/* the mark of a byte is there when the byte is, not before */
		n = recv(p.srv, p.tx + p.tx_len, 1, MSG_DONTWAIT | MSG_PEEK);
		if (n > 0) {
			ioctl(p.srv, SIOCATMARK, &mark);
			n = recv(p.srv, p.tx + p.tx_len, mark ? 1 : GULP,
				 MSG_DONTWAIT);
		}
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			kp_reset(&p.k, -ECONNABORTED);
		if (n <= 0) {
			p.srv_eof = true;
			return;
		}
		if (mark)
			urgent_at(p.tx_len);
		p.tx_len += (uint64_t)n;
	}
}

static void tell_server(void)
{
	while (p.given < p.k.read) {
		uint64_t off = p.given % sizeof(p.rx), end = p.k.read;
		bool urgent = false;
		ssize_t n;

		if (end > p.given - off + sizeof(p.rx))
			end = p.given - off + sizeof(p.rx);
		if (p.marks_given < p.nmarks) {
			urgent = p.marks[p.marks_given] == p.given;
			if (urgent)
				end = p.given + 1;
			else if (end > p.marks[p.marks_given])
				end = p.marks[p.marks_given];
		}
		n = send(p.srv, p.rx + off, end - p.given,
			 MSG_DONTWAIT | MSG_NOSIGNAL | (urgent ? MSG_OOB : 0));
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			kp_reset(&p.k, -ECONNABORTED);
			return;
		}
		p.marks_given += urgent;
		p.given += (uint64_t)n;
	}
	if (p.k.fin_rcvd && p.given == p.k.rx && !p.srv_shut) {
		p.srv_shut = true;
		shutdown(p.srv, SHUT_WR);
	}
}

/* What the program may do now: as much as the server said, and took. */
static void leash(void)
{
	bool more = p.tx_len > p.k.written;

	p.k.plan.total = p.tx_len;
	p.k.write_at = more || p.srv_eof ? 0 : UINT64_MAX;
	p.k.read_at = p.given == p.k.read ? 0 : UINT64_MAX;
}

/* --- one connection ---------------------------------------------------- */

static uint64_t clock_now(void)
{
	return clock_ns() + 1; /* never 0 */
}

static void speak(uint64_t now)
{
	static uint8_t buf[KP_MSG_MAX];
	uint32_t len;

	while (p.up && (len = kp_send(&p.k, now, buf))) {
		frame(MSG, buf, len);
		p.sent++;
		if (buf[0] == 2)
			p.fin_at = p.sent;
	}
	if (p.got != p.acked)
		frame(ACK, &p.got, sizeof(p.got));
	p.acked = p.got;
	if (kp_dreq(&p.k)) {
		frame(DREQ, NULL, 0);
		shutdown(p.qp, SHUT_WR);
	}
}

static void turn(void)
{
	uint64_t now = clock_now();

	hear_server();
	leash();
	while (kp_step(&p.k, now)) {
		tell_server();
		leash();
	}
	tell_server();
	speak(now);
}

static void report(void)
{
	FILE *f = opt.file ? fopen(opt.file, "a") : NULL;

	fprintf(f ? f : stderr, "rx %llu tx %llu urgent %u error %d fault %s\n",
		(unsigned long long)p.k.rx, (unsigned long long)p.k.tx,
		p.nmarks, p.k.error, p.k.fault[0] ? p.k.fault : "none");
	fflush(NULL);
}

static void live(void)
{
	uint64_t now, at;

	while (!p.qp_eof && !p.k.fault[0]) {
		struct pollfd fds[] = {
			{ .fd = p.qp, .events = POLLIN },
			{ .fd = p.srv, .events = 0 },
		};

		turn();
		if (!p.srv_eof && p.tx_len - p.k.tx < TX_MOST)
			fds[1].events |= POLLIN;
		if (p.given < p.k.read)
			fds[1].events |= POLLOUT;
		if (!fds[1].events)
			fds[1].fd = -1;
		now = clock_now();
		at = kp_deadline(&p.k, now);
		if (at > now + KP_S)
			at = now + KP_S;
		poll(fds, 2, (int)((at - now) / KP_MS) + 1);
		intake();
	}
	if (p.k.state != KP_TIME_WAIT)
		kp_on_lost(&p.k);
	tell_server();
	report();
	if (p.k.error) { /* its program sees a reset */
		struct linger hard = { 1, 0 };

		setsockopt(p.srv, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	}
	_exit(p.k.fault[0] ? 1 : 0);
}

/* As the Hello has it; 4 or 6. */
static uint8_t name(uint8_t to[16], bool peer)
{
	const struct in6_addr *in6;
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (peer)
		getpeername(p.qp, (struct sockaddr *)&ss, &len);
	else
		getsockname(p.qp, (struct sockaddr *)&ss, &len);
	in6 = &((struct sockaddr_in6 *)&ss)->sin6_addr;
	memcpy(to, in6, 16);
	if (IN6_IS_ADDR_V4MAPPED(in6))
		memset(to, 0, 12);
	return IN6_IS_ADDR_V4MAPPED(in6) ? 4 : 6;
}

static void connection(uint16_t back)
{
	struct sockaddr_in srv = { .sin_family = AF_INET,
				   .sin_port = htons(back) };
	uint8_t req[FRAME_HEAD + VERBS_REQ_LONG], rep[196];
	static const uint8_t rej[VERBS_REJ_LEN];
	struct kp_names n;
	int one = 1;
	bool fine;

	if (recv(p.qp, req, sizeof(req), MSG_WAITALL) != sizeof(req))
		_exit(3);
	setsockopt(p.qp, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	name(n.src, true);
	n.ipv = name(n.dst, false);
	n.port = (uint16_t)(req[FRAME_HEAD + 28] << 8 | req[FRAME_HEAD + 29]);
	kp_start(&p.k, opt.family, &opt.plan);
	p.k.expect = p.marks;
	fine = kp_take_hello(&p.k, &n, req + FRAME_HEAD, VERBS_REQ_LONG);
	while (opt.mute)
		pause();
	srv.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	p.srv = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (!fine && !opt.gen1_answers) {
		frame(REJ, rej, sizeof(rej));
		report();
		_exit(0);
	}
	if (connect(p.srv, (struct sockaddr *)&srv, sizeof(srv)))
		_exit(3);
	setsockopt(p.srv, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one));
	kp_hello_ack(&p.k, rep);
	frame(REP, rep, sizeof(rep));
	live();
}

static void options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "f:o:z:a:g:jmx")) != -1) {
		if (c == 'f')
			opt.family = !strcmp(optarg, "ofed")	? KP_OFED :
				     !strcmp(optarg, "freebsd") ? KP_FREEBSD :
								  KP_GEN1;
		else if (c == 'o')
			opt.file = optarg;
		else if (c == 'z')
			opt.plan.zcopy = (uint32_t)atoi(optarg);
		else if (c == 'a')
			opt.plan.ask = (uint32_t)atoi(optarg);
		else if (c == 'g')
			opt.plan.gaps = (uint32_t)atoi(optarg);
		else if (c == 'j')
			opt.plan.junk = true;
		else if (c == 'm')
			opt.mute = true;
		else if (c == 'x')
			opt.gen1_answers = true;
		else
			exit(2);
	}
	if (argc - optind != 2)
		exit(2);
}

int main(int argc, char **argv)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6 };
	int one = 1, fd;

	options(argc, argv);
	at.sin6_port = htons(NATIVE_PORT(atoi(argv[optind])));
	signal(SIGCHLD, SIG_IGN);
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 64))
		return 2;
	while ((p.qp = accept(fd, NULL, NULL)) >= 0) {
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(fd);
			connection((uint16_t)atoi(argv[optind + 1]));
		}
		close(p.qp);
	}
	return 2;
}
