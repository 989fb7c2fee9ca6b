/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* calls - every call that moves bytes, each against each. */
#include "prog.h"

#include <aio.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST 20000u /* bytes in one message at most */

/* Each sends some of n bytes and says how many. */
typedef ssize_t tx_fn(int fd, uint8_t *p, size_t n);
/* Each receives at most n bytes and says how many. */
typedef ssize_t rx_fn(int fd, uint8_t *p, size_t n);

/* Three pieces that together are n bytes, the middle one maybe empty. */
static int pieces(struct iovec *v, uint8_t *p, size_t n)
{
	size_t a = n / 3, b = n > 7 ? n / 5 : 0;

	v[0] = (struct iovec){ p, a };
	v[1] = (struct iovec){ p + a, b };
	v[2] = (struct iovec){ p + a + b, n - a - b };
	return 3;
}

static ssize_t tx_write(int fd, uint8_t *p, size_t n)
{
	return write(fd, p, n);
}

static ssize_t tx_writev(int fd, uint8_t *p, size_t n)
{
	struct iovec v[3];

	return writev(fd, v, pieces(v, p, n));
}

static ssize_t tx_send(int fd, uint8_t *p, size_t n)
{
	return send(fd, p, n, MSG_NOSIGNAL);
}

static ssize_t tx_more(int fd, uint8_t *p, size_t n)
{
	ssize_t a = n > 1 ? send(fd, p, n / 2, MSG_MORE) : 0;
	ssize_t b;

	CHECK(a >= 0);
	b = send(fd, p + a, n - (size_t)a, 0);
	return b < 0 ? b : a + b;
}

static ssize_t tx_sendto(int fd, uint8_t *p, size_t n)
{
	return sendto(fd, p, n, 0, NULL, 0);
}

static ssize_t tx_sendmsg(int fd, uint8_t *p, size_t n)
{
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v };

	m.msg_iovlen = (size_t)pieces(v, p, n);
	return sendmsg(fd, &m, 0);
}

static ssize_t tx_sendmmsg(int fd, uint8_t *p, size_t n)
{
	struct iovec v[3];
	struct mmsghdr m[3];
	ssize_t sum = 0;
	int i, k;

	memset(m, 0, sizeof(m));
	pieces(v, p, n);
	for (i = 0; i < 3; i++) {
		m[i].msg_hdr.msg_iov = &v[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	k = sendmmsg(fd, m, 3, 0);
	CHECK(k == 3);
	for (i = 0; i < k; i++) {
		CHECK(m[i].msg_len == v[i].iov_len);
		sum += m[i].msg_len;
	}
	return sum;
}

static ssize_t tx_pwritev2(int fd, uint8_t *p, size_t n)
{
	struct iovec v[3];

	return pwritev2(fd, v, pieces(v, p, n), -1, 0);
}

static ssize_t tx_dprintf(int fd, uint8_t *p, size_t n)
{
	return dprintf(fd, "%.*s", (int)n, (char *)p);
}

static int file_with(const uint8_t *p, size_t n)
{
	int f = memfd_create("prog", MFD_CLOEXEC);

	CHECK(f >= 0);
	CHECK(write(f, p, n) == (ssize_t)n);
	return f;
}

static ssize_t tx_sendfile(int fd, uint8_t *p, size_t n)
{
	int f = file_with(p, n);
	ssize_t r;

	CHECK(lseek(f, 0, SEEK_SET) == 0);
	r = sendfile(fd, f, NULL, n + 100);
	if (r >= 0)
		CHECK(lseek(f, 0, SEEK_CUR) == r);
	CHECK(!close(f));
	return r;
}

static ssize_t tx_sendfile_at(int fd, uint8_t *p, size_t n)
{
	int f = file_with(p, n);
	off_t at = 0;
	ssize_t r;

	r = sendfile(fd, f, &at, n);
	CHECK(r < 0 || at == r);
	CHECK(lseek(f, 0, SEEK_CUR) == (off_t)n);
	CHECK(!close(f));
	return r;
}

static ssize_t tx_splice(int fd, uint8_t *p, size_t n)
{
	ssize_t sum = 0;
	int pp[2];

	CHECK(!pipe2(pp, O_CLOEXEC));
	CHECK(write(pp[1], p, n) == (ssize_t)n);
	CHECK(!close(pp[1]));
	while ((size_t)sum < n) {
		ssize_t r = splice(pp[0], NULL, fd, NULL, n - (size_t)sum, 0);

		CHECK(r > 0);
		sum += r;
	}
	CHECK(!close(pp[0]));
	return sum;
}

static ssize_t tx_syscall(int fd, uint8_t *p, size_t n)
{
	return syscall(SYS_write, fd, p, n);
}

static ssize_t rx_read(int fd, uint8_t *p, size_t n)
{
	return read(fd, p, n);
}

/* What a fortified program calls: the compiler cannot know that n fits. */
static ssize_t rx_chk(int fd, uint8_t *p, size_t n)
{
	uint8_t buf[MOST];
	ssize_t r;

	if (n % 3 == 0)
		r = read(fd, buf, n);
	else if (n % 3 == 1)
		r = recv(fd, buf, n, 0);
	else
		r = recvfrom(fd, buf, n, 0, NULL, NULL);
	if (r > 0)
		memcpy(p, buf, (size_t)r);
	return r;
}

static ssize_t rx_readv(int fd, uint8_t *p, size_t n)
{
	struct iovec v[3];

	return readv(fd, v, pieces(v, p, n));
}

static ssize_t rx_recv(int fd, uint8_t *p, size_t n)
{
	return recv(fd, p, n, 0);
}

static ssize_t rx_waitall(int fd, uint8_t *p, size_t n)
{
	ssize_t r = recv(fd, p, n, MSG_WAITALL);

	CHECK(r == (ssize_t)n);
	return r;
}

static ssize_t rx_peek(int fd, uint8_t *p, size_t n)
{
	static _Thread_local uint8_t again[MOST];
	ssize_t r = recv(fd, again, n < MOST ? n : MOST, MSG_PEEK);

	CHECK(r > 0);
	CHECK(recv(fd, p, (size_t)r, MSG_WAITALL) == r);
	CHECK(!memcmp(p, again, (size_t)r));
	return r;
}

static ssize_t rx_recvfrom(int fd, uint8_t *p, size_t n)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	ssize_t r = recvfrom(fd, p, n, 0, (struct sockaddr *)&ss, &len);

	CHECK(len == 0);
	return r;
}

static ssize_t rx_recvmsg(int fd, uint8_t *p, size_t n)
{
	char control[64];
	struct sockaddr_storage ss;
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v,
			    .msg_control = control,
			    .msg_controllen = sizeof(control),
			    .msg_name = &ss,
			    .msg_namelen = sizeof(ss),
			    .msg_flags = -1 };
	ssize_t r;

	m.msg_iovlen = (size_t)pieces(v, p, n);
	r = recvmsg(fd, &m, 0);
	CHECK(m.msg_flags == 0);
	CHECK(m.msg_controllen == 0);
	CHECK(m.msg_namelen == 0);
	return r;
}

static ssize_t rx_recvmmsg(int fd, uint8_t *p, size_t n)
{
	struct iovec v[3];
	struct mmsghdr m[3];
	size_t sum = 0;
	int i, k;

	memset(m, 0, sizeof(m));
	k = pieces(v, p, n);
	for (i = 0; i < k; i++) {
		m[i].msg_hdr.msg_iov = &v[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	/* One message: a second could be short and leave a hole. */
	k = recvmmsg(fd, m, v[0].iov_len ? 1 : 3, MSG_WAITALL, NULL);
	CHECK(k >= 1);
	for (i = 0; i < k; i++) {
		CHECK(m[i].msg_len == v[i].iov_len);
		sum += m[i].msg_len;
	}
	return (ssize_t)sum;
}

static ssize_t rx_preadv2(int fd, uint8_t *p, size_t n)
{
	struct iovec v[3];

	return preadv2(fd, v, pieces(v, p, n), -1, 0);
}

static ssize_t rx_splice(int fd, uint8_t *p, size_t n)
{
	ssize_t r, k, got = 0;
	int pp[2];

	CHECK(!pipe2(pp, O_CLOEXEC));
	r = splice(fd, NULL, pp[1], NULL, n, 0);
	CHECK(r > 0 && (size_t)r <= n);
	while (got < r) {
		k = read(pp[0], p + got, (size_t)(r - got));
		CHECK(k > 0);
		got += k;
	}
	CHECK(!close(pp[0]));
	CHECK(!close(pp[1]));
	return r;
}

static ssize_t rx_syscall(int fd, uint8_t *p, size_t n)
{
	return syscall(SYS_read, fd, p, n);
}

static tx_fn *const txs[] = {
	tx_write,	tx_writev,   tx_send,	  tx_more,    tx_sendto,
	tx_sendmsg,	tx_sendmmsg, tx_pwritev2, tx_dprintf, tx_sendfile,
	tx_sendfile_at, tx_splice,   tx_syscall,
};

static rx_fn *const rxs[] = {
	rx_read,     rx_chk,	 rx_readv,    rx_recv,
	rx_waitall,  rx_peek,	 rx_recvfrom, rx_recvmsg,
	rx_recvmmsg, rx_preadv2, rx_splice,   rx_syscall,
};

static size_t amount(uint32_t *seed)
{
	uint32_t r = prog_rand(seed);

	return r % 3 ? 1 + r % 300 : 1 + r % MOST;
}

static void send_by(struct link *l, tx_fn *tx, size_t n)
{
	uint8_t buf[MOST + 1];
	size_t done = 0;

	flow_fill(&l->tx, buf, n);
	buf[n] = 0;
	while (done < n) {
		ssize_t r = tx(l->fd, buf + done, n - done);

		CHECK(r > 0 && (size_t)r <= n - done);
		done += (size_t)r;
	}
}

static void recv_by(struct link *l, rx_fn *rx, size_t n)
{
	uint8_t buf[MOST];

	while (n) {
		ssize_t r = rx(l->fd, buf, n);

		CHECK(r > 0 && (size_t)r <= n);
		flow_check(&l->rx, buf, (size_t)r);
		n -= (size_t)r;
	}
}

/* In which order the sender goes round decides what meets what. */
static void matrix_send(struct end *e)
{
	uint32_t seed = 5;
	size_t t, r, k;

	for (r = 0; r < ARRAY_SIZE(rxs); r++) {
		for (t = 0; t < ARRAY_SIZE(txs); t++)
			for (k = 0; k < 8; k++)
				send_by(&e->l, txs[t], amount(&seed));
		if (r % 4 == 2)
			prog_mid(e->l.fd);
	}
}

static void matrix_recv(struct end *e)
{
	uint32_t seed = 5;
	size_t t, r, k;

	for (r = 0; r < ARRAY_SIZE(rxs); r++) {
		for (t = 0; t < ARRAY_SIZE(txs); t++)
			for (k = 0; k < 8; k++)
				recv_by(&e->l, rxs[r], amount(&seed));
		if (r % 5 == 3)
			prog_mid(e->l.fd);
	}
}

/* The same in turns: every call meets a sleeping partner. */
static void turns(struct end *e)
{
	uint32_t seed = 6;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rxs) * ARRAY_SIZE(txs); i++) {
		size_t n = amount(&seed), m = amount(&seed);

		if (!e->peer)
			send_by(&e->l, txs[i % ARRAY_SIZE(txs)], n);
		recv_by(&e->l, rxs[i % ARRAY_SIZE(rxs)], e->peer ? n : m);
		if (e->peer)
			send_by(&e->l, txs[i % ARRAY_SIZE(txs)], m);
	}
}

/* --- whole files, pipes, asynchronous I/O ------------------------------ */

#define FILE_BYTES (3u << 20)

static void sendfile_run(struct end *e)
{
	uint8_t *p = malloc(FILE_BYTES);
	size_t left = FILE_BYTES - 1000;
	off_t at = 1000;
	int f;

	CHECK(p);
	memset(p, 7, 1000);
	flow_fill(&e->l.tx, p + 1000, left);
	f = file_with(p, FILE_BYTES);
	free(p);
	prog_nonblock(e->l.fd, true);
	while (left) {
		off_t before = at;
		ssize_t r = sendfile(e->l.fd, f, &at, left);

		if (r < 0) {
			CHECK(errno == EAGAIN && at == before);
			prog_nap_ms(1);
			continue;
		}
		CHECK(r > 0 && at == before + r);
		left -= (size_t)r;
	}
	CHECK(sendfile(e->l.fd, f, &at, 10) == 0);
	FAILS(sendfile(f, e->l.fd, NULL, 10), EINVAL);
	CHECK(!close(f));
	prog_nonblock(e->l.fd, false);
	link_turn(&e->l, 10, true);
}

static void sendfile_peer(struct end *e)
{
	link_get(&e->l, FILE_BYTES - 1000);
	link_turn(&e->l, 10, false);
}

/* A relay in the manner of haproxy: socket, pipe, socket. */
static void relay_run(struct end *e)
{
	struct link out;
	ssize_t r, k;
	int pp[2];

	prog_link(e, &out);
	CHECK(!pipe2(pp, O_CLOEXEC));
	while ((r = splice(e->l.fd, NULL, pp[1], NULL, 60000, 0)) > 0) {
		while (r) {
			k = splice(pp[0], NULL, out.fd, NULL, (size_t)r,
				   r > 30000 ? SPLICE_F_MORE : 0);
			CHECK(k > 0);
			r -= k;
		}
	}
	CHECK(r == 0);
	CHECK(!close(pp[0]));
	CHECK(!close(pp[1]));
	link_close(&out);
}

static void relay_peer(struct end *e)
{
	struct link in;
	int i;

	prog_link(e, &in);
	in.rx = (struct flow){ e->l.tx.off, e->l.tx.seed };
	for (i = 0; i < 100; i++) {
		link_put(&e->l, 20000);
		link_get(&in, 20000);
	}
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	link_eof(&in);
	link_close(&in);
}

static ssize_t aio_end(struct aiocb *cb)
{
	const struct aiocb *list[1] = { cb };

	while (aio_error(cb) == EINPROGRESS)
		CHECK(!aio_suspend(list, 1, NULL) || errno == EINTR);
	return aio_return(cb);
}

static void aio(struct end *e)
{
	uint8_t buf[4000];
	struct aiocb cb;
	size_t got;
	int i;

	for (i = 0; i < 10; i++) {
		memset(&cb, 0, sizeof(cb));
		cb.aio_fildes = e->l.fd;
		cb.aio_buf = buf;
		cb.aio_nbytes = sizeof(buf);
		flow_fill(&e->l.tx, buf, sizeof(buf));
		CHECK(!aio_write(&cb));
		CHECK(aio_end(&cb) == (ssize_t)sizeof(buf));
		for (got = 0; got < sizeof(buf);) {
			ssize_t r;

			cb.aio_nbytes = sizeof(buf) - got;
			CHECK(!aio_read(&cb));
			r = aio_end(&cb);
			CHECK(r > 0);
			flow_check(&e->l.rx, buf, (size_t)r);
			got += (size_t)r;
		}
	}
	link_turn(&e->l, 100, !e->peer);
}

/* --- what must fail, and leave the stream as it was -------------------- */

static void errors_run(struct end *e)
{
	static struct iovec many[IOV_MAX + 1];
	struct msghdr m = { .msg_iov = many, .msg_iovlen = IOV_MAX + 1 };
	uint8_t b[8], *bad = mmap(NULL, 4096, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = e->l.fd;

	CHECK(bad != MAP_FAILED);
	prog_sync(e);
	FAILS(read(fd, bad, 8), EFAULT);
	FAILS(recv(fd, bad, 8, MSG_PEEK), EFAULT);
	FAILS(write(fd, bad, 8), EFAULT);
	FAILS(send(fd, bad, 8, MSG_DONTWAIT), EFAULT);
	FAILS(readv(fd, many, IOV_MAX + 1), EINVAL);
	FAILS(writev(fd, many, IOV_MAX + 1), EINVAL);
	FAILS(recvmsg(fd, &m, 0), EMSGSIZE);
	FAILS(sendmsg(fd, &m, 0), EMSGSIZE);
	FAILS(pread(fd, b, 8, 0), ESPIPE);
	FAILS(pwrite(fd, b, 8, 0), ESPIPE);
	FAILS(lseek(fd, 0, SEEK_CUR), ESPIPE);
	FAILS(recv(fd, b, 8, MSG_ERRQUEUE | MSG_DONTWAIT), EAGAIN);
	FAILS(recv(fd, b, 8, MSG_OOB), EINVAL);
	CHECK(readv(fd, many, 0) == 0);
	CHECK(writev(fd, many, 0) == 0);
	CHECK(read(fd, b, 0) == 0);
	CHECK(write(fd, b, 0) == 0);
	CHECK(send(fd, b, 0, 0) == 0);
	CHECK(!munmap(bad, 4096));
	link_get(&e->l, 100);
	FAILS(recv(fd, b, 8, MSG_DONTWAIT), EAGAIN);
	FAILS(recv(fd, b, 0, MSG_DONTWAIT), EAGAIN);
	prog_sync(e);
	link_turn(&e->l, 100, true);
}

static void errors_peer(struct end *e)
{
	link_put(&e->l, 100);
	prog_sync(e);
	prog_sync(e);
	link_turn(&e->l, 100, false);
}

static const struct prog_case cases[] = {
	{ "out", matrix_send, matrix_recv, 0 },
	{ "in", matrix_recv, matrix_send, 0 },
	{ "turns", turns, turns, 0 },
	{ "sendfile", sendfile_run, sendfile_peer, 0 },
	{ "relay", relay_run, relay_peer, 0 },
	{ "aio", aio, aio, 0 },
	{ "errors", errors_run, errors_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
