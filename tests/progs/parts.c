/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * parts - calls that have moved a part of their bytes. A handler ends them with
 * that part, SA_RESTART or not, and so does a time limit.
 */
#include "prog.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#define PART 5u
#define ALL  100u
#define RING ((size_t)16 << 20) /* more than rings hold */

static size_t much; /* more than all buffers hold */

/* What the kernel lets a buffer of TCP grow to. */
static size_t tcp_most(const char *path)
{
	FILE *f = fopen(path, "r");
	size_t most = 0;

	CHECK(f && fscanf(f, "%*u %*u %zu", &most) == 1);
	CHECK(!fclose(f));
	return most;
}

static void on_signal(int sig)
{
	(void)sig;
}

/* --- signals until the call is over ------------------------------------ */

struct kicker {
	pthread_t thread, whom;
	pid_t tid;
	atomic_bool over;
};

/* The first finds it asleep; one that it had no use for is followed by more. */
static void *kick(void *arg)
{
	struct kicker *k = arg;

	prog_asleep(k->tid, 50);
	while (!atomic_load(&k->over)) {
		CHECK(!pthread_kill(k->whom, SIGUSR1));
		prog_nap_ms(20);
	}
	return NULL;
}

static void kick_begin(struct kicker *k)
{
	k->whom = pthread_self();
	k->tid = (pid_t)syscall(SYS_gettid);
	atomic_store(&k->over, false);
	CHECK(!pthread_create(&k->thread, NULL, kick, k));
}

static void kick_end(struct kicker *k)
{
	atomic_store(&k->over, true);
	CHECK(!pthread_join(k->thread, NULL));
}

/* --- receiving --------------------------------------------------------- */

/* Each asks for ALL, of which PART comes. */
typedef ssize_t rx_fn(int fd, uint8_t *b);

static ssize_t rx_recv(int fd, uint8_t *b)
{
	return recv(fd, b, ALL, MSG_WAITALL);
}

static ssize_t rx_recvfrom(int fd, uint8_t *b)
{
	return recvfrom(fd, b, ALL, MSG_WAITALL, NULL, NULL);
}

static ssize_t rx_recvmsg(int fd, uint8_t *b)
{
	struct iovec v[2] = { { b, 2 }, { b + 2, ALL - 2 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	return recvmsg(fd, &m, MSG_WAITALL);
}

/* The part of a peek stays where it is. */
static ssize_t rx_peek(int fd, uint8_t *b)
{
	uint8_t seen[ALL];
	ssize_t n = recv(fd, seen, ALL, MSG_PEEK | MSG_WAITALL);

	CHECK(n == PART);
	CHECK(recv(fd, b, PART, MSG_WAITALL) == n);
	CHECK(!memcmp(b, seen, (size_t)n));
	return n;
}

static ssize_t rx_peekmsg(int fd, uint8_t *b)
{
	uint8_t seen[ALL];
	struct iovec v[2] = { { seen, 3 }, { seen + 3, ALL - 3 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	ssize_t n = recvmsg(fd, &m, MSG_PEEK | MSG_WAITALL);

	CHECK(n == PART);
	CHECK(recv(fd, b, PART, MSG_WAITALL) == n);
	CHECK(!memcmp(b, seen, (size_t)n));
	return n;
}

/* How many are thrown away is all that it says. */
static ssize_t rx_trunc(int fd, uint8_t *b)
{
	CHECK(recv(fd, b, ALL, MSG_TRUNC | MSG_WAITALL) == PART);
	return -1;
}

/* recvmmsg() says an error behind messages to the next call; not this one's. */
static void forget_error(int fd)
{
	int err;
	socklen_t len = sizeof(err);

	CHECK(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
}

/* A message is whole, and the second has nothing. */
static ssize_t rx_second(int fd, uint8_t *b)
{
	struct iovec v[2] = { { b, PART }, { b + PART, ALL - PART } };
	struct mmsghdr m[2];

	memset(m, 0, sizeof(m));
	m[0].msg_hdr.msg_iov = &v[0];
	m[1].msg_hdr.msg_iov = &v[1];
	m[0].msg_hdr.msg_iovlen = m[1].msg_hdr.msg_iovlen = 1;
	CHECK(recvmmsg(fd, m, 2, 0, NULL) == 1);
	forget_error(fd);
	return m[0].msg_len;
}

/* The first message has a part. */
static ssize_t rx_first(int fd, uint8_t *b)
{
	struct iovec v[2] = { { b, ALL }, { b, ALL } };
	struct mmsghdr m[2];
	int n;

	memset(m, 0, sizeof(m));
	m[0].msg_hdr.msg_iov = &v[0];
	m[1].msg_hdr.msg_iov = &v[1];
	m[0].msg_hdr.msg_iovlen = m[1].msg_hdr.msg_iovlen = 1;
	n = recvmmsg(fd, m, 1, MSG_WAITALL, NULL);
	CHECK(n == 1);
	return m[0].msg_len;
}

static rx_fn *const rxs[] = {
	rx_recv,    rx_recvfrom, rx_recvmsg, rx_peek,
	rx_peekmsg, rx_trunc,	 rx_second,  rx_first,
};

static void receive(struct end *e, rx_fn *rx, bool kicked)
{
	uint8_t b[ALL], thrown[PART];
	struct kicker k;
	ssize_t n;

	prog_ask(e, PART);
	if (kicked)
		kick_begin(&k);
	n = rx(e->l.fd, b);
	if (kicked)
		kick_end(&k);
	if (n < 0) {
		flow_fill(&e->l.rx, thrown, PART);
		return;
	}
	CHECK(n == PART);
	flow_check(&e->l.rx, b, PART);
}

static void handle(int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	CHECK(!sigaction(SIGUSR1, &sa, NULL));
}

static void recv_run(struct end *e)
{
	size_t i;

	for (i = 0; i < 2 * ARRAY_SIZE(rxs); i++) {
		handle(i % 2 ? SA_RESTART : 0);
		receive(e, rxs[i / 2], true);
		/* the stream goes on as it was */
		if (i % 3 == 2)
			prog_mid(e->l.fd);
		prog_ask(e, ALL);
		link_get(&e->l, ALL);
	}
	prog_tell(e, 0);
}

static void limit_run(struct end *e)
{
	struct timeval tv = { .tv_usec = 60000 };
	size_t i;

	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	for (i = 0; i < ARRAY_SIZE(rxs); i++) {
		receive(e, rxs[i], false);
		prog_ask(e, ALL);
		link_get(&e->l, ALL);
	}
	prog_tell(e, 0);
}

/* --- sending ----------------------------------------------------------- */

/* Each sends n bytes, none of which is read. */
typedef ssize_t tx_fn(int fd, uint8_t *p, size_t n);

static ssize_t tx_send(int fd, uint8_t *p, size_t n)
{
	return send(fd, p, n, 0);
}

static ssize_t tx_write(int fd, uint8_t *p, size_t n)
{
	return write(fd, p, n);
}

static ssize_t tx_writev(int fd, uint8_t *p, size_t n)
{
	struct iovec v[2] = { { p, n / 3 }, { p + n / 3, n - n / 3 } };

	return writev(fd, v, 2);
}

static ssize_t tx_sendmsg(int fd, uint8_t *p, size_t n)
{
	struct iovec v[2] = { { p, n / 2 }, { p + n / 2, n - n / 2 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	return sendmsg(fd, &m, 0);
}

/* Messages of a mebibyte, the last of them cut short or not begun. */
static ssize_t tx_sendmmsg(int fd, uint8_t *p, size_t n)
{
	static struct iovec v[32];
	static struct mmsghdr m[32];
	size_t sum = 0, each = n / 32;
	int i, k;

	for (i = 0; i < 32; i++) {
		v[i] = (struct iovec){ p + (size_t)i * each, each };
		m[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &v[i],
						      .msg_iovlen = 1 } };
	}
	k = sendmmsg(fd, m, 32, 0);
	CHECK(k > 0 && k <= 32);
	for (i = 0; i < k; i++) {
		CHECK(i == k - 1 || m[i].msg_len == each);
		sum += m[i].msg_len;
	}
	return (ssize_t)sum;
}

static ssize_t tx_sendfile(int fd, uint8_t *p, size_t n)
{
	int f = memfd_create("parts", MFD_CLOEXEC);
	ssize_t sent;
	size_t done;

	CHECK(f >= 0);
	for (done = 0; done < n; done += (size_t)sent) {
		sent = write(f, p + done, n - done);
		CHECK(sent > 0);
	}
	CHECK(!lseek(f, 0, SEEK_SET));
	sent = sendfile(fd, f, NULL, n);
	CHECK(lseek(f, 0, SEEK_CUR) == sent);
	CHECK(!close(f));
	return sent;
}

static tx_fn *const txs[] = { tx_send,	  tx_write,    tx_writev,
			      tx_sendmsg, tx_sendmmsg, tx_sendfile };

static void transmit(struct end *e, tx_fn *tx, bool kicked)
{
	struct flow begun = e->l.tx;
	struct kicker k;
	uint8_t *p = malloc(much);
	ssize_t n;

	CHECK(p);
	flow_fill(&begun, p, much);
	if (kicked)
		kick_begin(&k);
	n = tx(e->l.fd, p, much);
	if (kicked)
		kick_end(&k);
	CHECK(n > 0 && (size_t)n < much);
	flow_fill(&e->l.tx, p, (size_t)n);
	free(p);
	prog_tell(e, (uint64_t)n);
	CHECK(prog_hear(e) == (uint64_t)n);
}

static void send_run(struct end *e)
{
	size_t i;

	for (i = 0; i < 2 * ARRAY_SIZE(txs); i++) {
		handle(i % 2 ? SA_RESTART : 0);
		transmit(e, txs[i / 2], true);
	}
	prog_tell(e, 0);
}

static void within_run(struct end *e)
{
	struct timeval tv = { .tv_usec = 60000 };
	size_t i;

	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	for (i = 0; i < ARRAY_SIZE(txs); i++)
		transmit(e, txs[i], false);
	prog_tell(e, 0);
}

static void drain(struct end *e)
{
	uint64_t n;

	while ((n = prog_hear(e))) {
		link_get(&e->l, (size_t)n);
		prog_tell(e, n);
	}
}

/* --- SO_RCVLOWAT, taken back while a receive sleeps -------------------- */

struct reader {
	struct end *e;
	pthread_t thread;
	atomic_int tid;
	atomic_bool done;
};

static void *read_on(void *arg)
{
	struct reader *r = arg;

	atomic_store(&r->tid, (int)syscall(SYS_gettid));
	link_get(&r->e->l, 200 * ALL);
	atomic_store(&r->done, true);
	return NULL;
}

static void lowat(int fd, int n)
{
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &n, sizeof(n)));
}

/* What it sleeps for was settled when it began. */
static void lowat_run(struct end *e)
{
	struct reader r = { .e = e };
	int i;

	lowat(e->l.fd, 1000);
	CHECK(!pthread_create(&r.thread, NULL, read_on, &r));
	while (!atomic_load(&r.tid))
		prog_nap_ms(1);
	prog_asleep(atomic_load(&r.tid), 50);
	lowat(e->l.fd, 1);
	/* both ends look whether it may be lifted, and only then bytes come */
	for (i = 0; i < 400; i++) {
		link_put(&e->l, ALL);
		CHECK(prog_hear(e) == 1);
	}
	/* nothing more comes that could bring it out, nor an end */
	for (i = 0; i < 10000 && !atomic_load(&r.done); i += 5)
		prog_nap_ms(5);
	CHECK(atomic_load(&r.done));
	CHECK(!pthread_join(r.thread, NULL));
	prog_tell(e, 1);
}

static void lowat_peer(struct end *e)
{
	int i;

	for (i = 0; i < 400; i++) {
		link_get(&e->l, ALL);
		if (i >= 200)
			link_put(&e->l, ALL);
		prog_tell(e, 1);
	}
	CHECK(prog_hear(e) == 1);
}

static const struct prog_case cases[] = {
	{ "recv", recv_run, prog_feed, 0 },
	{ "limit", limit_run, prog_feed, 0 },
	{ "send", send_run, drain, 0 },
	{ "within", within_run, drain, 0 },
	{ "lowat", lowat_run, lowat_peer, 0 },
};

int main(int argc, char **argv)
{
	much = RING + tcp_most("/proc/sys/net/ipv4/tcp_rmem") +
	       tcp_most("/proc/sys/net/ipv4/tcp_wmem");
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
