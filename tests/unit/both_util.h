/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TEST_BOTH_UTIL_H
#define TEST_BOTH_UTIL_H

/*
 * A sock on one end of a real TCP connection, and what the writer at the other
 * end does: on one host, or between hosts on a made-up queue pair.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn_util.h"
#include "fabric/nowhere.h"
#include "socket/life/life.h"
#include "tcp_util.h"

/* --- the fabric: messages that came, room for none ------------------------ */

static uint8_t came[4][64];
static uint32_t came_len[4];
static unsigned int ncame, polled, released;

static int poll_one(struct end *e, struct fab_msg *m)
{
	(void)e;
	if (polled == ncame)
		return 0;
	*m = (struct fab_msg){ .mem = came[polled],
			       .len = came_len[polled],
			       .held = true };
	polled++;
	return 1;
}

static int oldest(struct end *e, struct fab_msg *m)
{
	(void)e;
	if (released == polled)
		return 0;
	*m = (struct fab_msg){ .mem = came[released],
			       .len = came_len[released],
			       .held = true };
	return 1;
}

static int seen(struct end *e, bool own, struct fab_walk *w, struct fab_msg *m)
{
	unsigned int i = released + w->off;

	(void)e;
	if (own)
		return -EOPNOTSUPP;
	if (i >= polled)
		return 0;
	*m = (struct fab_msg){ .mem = came[i],
			       .len = came_len[i],
			       .held = true };
	w->off++;
	return 1;
}

static void let_go(struct end *e)
{
	(void)e;
	released++;
}

static bool more(struct end *e)
{
	(void)e;
	return polled < __atomic_load_n(&ncame, __ATOMIC_ACQUIRE);
}

static const struct fabric_ops ops = {
	.name = "test",
	.room = nowhere_room,
	.buf = nowhere_buf,
	.ctrl = nowhere_ctrl,
	.send = nowhere_send,
	.poll = poll_one,
	.front = oldest,
	.release = let_go,
	.next = seen,
	.pending = more,
	.trim = nowhere_nothing,
	.destroy = nowhere_nothing,
};

static void info(const struct end *e, struct verbs_info *i)
{
	(void)e;
	memset(i, 0, sizeof(*i));
}

static int arm(struct end *e, bool solicited)
{
	(void)e;
	(void)solicited;
	return 0;
}

static int flushed(struct end *e)
{
	(void)e;
	return 1;
}

static const struct verbs_api api = { .disconnect = nowhere_nothing,
				      .info = info,
				      .arm = arm,
				      .flushed = flushed };

/* --- both ends ------------------------------------------------------------ */

static struct sock sock;
static struct rdma rd;
static struct end end;
static struct anc_page page; /* on one host */
static int fd; /* the reader's */

static struct writer {
	int fd;
	struct anc_dir *dir;
	struct anc_tx at;
	/* between hosts */
	struct anc_page mirror;
	struct anc_rx ar;
	struct remote words;
	struct conn conn;
} writer;

static const uint8_t marker[RDMA_MARKER] = "sixteen bytes!!";

static void both_ends(void)
{
	struct conn_params p = params(false), q = params(false);
	int pair[2];

	memset(&sock, 0, sizeof(sock));
	memset(&rd, 0, sizeof(rd));
	memset(&page, 0, sizeof(page));
	memset(&writer, 0, sizeof(writer));
	ncame = polled = released = 0;
	tcp_pair(pair);
	fd = pair[0];
	writer.fd = pair[1];
	join(&sock.conn, &p, &writer.conn, &q);
	end = (struct end){ &ops, 4096, 64 };
	sock.end = &end;
	sock.stats.row = &sock_spare;
	sock.stats.row_pid = sock_pid;
	sock.id.phase = PH_CONNECTED;
	sock.id.role = ROLE_CONNECTED;
	sock.seek.look = LOOK_NEVER;
	sock.waits.wake = sock.waits.orphan_fd = -1;
	sock.mem.holder[0] = (struct holder){ .pid = sock_pid, .fds = 1 };
	sock.mem.holder[0].fd = fd;
}

static inline int one_host(void **state)
{
	(void)state;
	both_ends();
	sock.rx = writer.dir = &page.dir[0];
	sock.tx = &page.dir[1];
	sock.own = &page.side[0];
	sock.peer = &page.side[1];
	sock.paired = true;
	lift_audit(&sock, fd);
	return 0;
}

static inline int two_hosts(void **state)
{
	(void)state;
	both_ends();
	rdma_api = &api;
	sock.rd = &rd;
	sock.link = &rdma_link;
	rd.sock = &sock;
	rd.end = &end;
	rd.owner = sock_pid;
	rd.state = RDMA_UP;
	rd.far = rd.watch.anchor = -1;
	memcpy(rd.mark.marker_rx, marker, sizeof(marker));
	memset(rd.mark.secret_rx, 0x77, sizeof(rd.mark.secret_rx));
	bytebuf_init(&rd);
	remote_init(&rd.words, &rd.mirror, &sock.at, &sock.ar);
	sock.own = rd.words.own;
	sock.peer = rd.words.peer;
	sock.tx = rd.words.tx;
	sock.rx = rd.words.rx;
	sock.paired = true;
	lift_audit(&sock, fd);
	remote_init(&writer.words, &writer.mirror, &writer.at, &writer.ar);
	writer.dir = writer.words.tx;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	failover_drop(&rd);
	close(fd);
	close(writer.fd);
	return 0;
}

/* --- what the program does ------------------------------------------------ */

/* In as many receives as it takes. */
static inline void gets_all(const char *bytes)
{
	size_t n = strlen(bytes), at = 0;
	char got[64];
	ssize_t r;

	for (; at < n; at += (size_t)r) {
		r = sock_recv(&sock, fd, got + at, n - at, 0);
		assert_true(r > 0);
	}
	assert_memory_equal(got, bytes, n);
}

/* --- what the writer does ------------------------------------------------- */

/* They have arrived when it returns. */
static void on_anchor(const void *bytes, size_t n)
{
	int before, now, naps = 0;

	assert_int_equal(ioctl(fd, FIONREAD, &before), 0);
	assert_int_equal(write(writer.fd, bytes, n), n);
	while (!ioctl(fd, FIONREAD, &now) && now < before + (int)n) {
		assert_true(naps++ < 100000);
		usleep(100);
	}
}

static inline void says(const char *bytes)
{
	on_anchor(bytes, strlen(bytes));
	anc_sent(writer.dir, &writer.at, strlen(bytes));
}

/* A message of SDP. */
static inline void arrives(const char *bytes)
{
	struct conn_offer offer = { .bytes = strlen(bytes) };
	uint8_t *mem = came[ncame];
	struct conn_op op;

	conn_next(&writer.conn, 0, &offer, sizeof(came[0]), &op);
	assert_int_equal(op.type, CONN_SEND);
	assert_int_equal(op.payload, strlen(bytes));
	memcpy(mem, op.hdr, op.hdr_len);
	memcpy(mem + op.hdr_len, bytes, op.payload);
	came_len[ncame] = op.hdr_len + op.payload;
	__atomic_store_n(&ncame, ncame + 1, __ATOMIC_RELEASE);
	anc_sent(writer.dir, &writer.at, op.payload);
}

/* Its words reach the reader. */
static void told(void)
{
	uint8_t out[REMOTE_LEN];

	if (!sock.rd || !remote_make(&writer.words, REMOTE_WRITER, true, out))
		return;
	assert_int_equal(lock_take(&sock.lock), 0);
	assert_true(rdma_words(&sock, out) >= 0);
	lock_drop(&sock.lock);
}

static inline void lifts(void)
{
	__atomic_store_n(&writer.dir->taken, sock.ar.taken, __ATOMIC_SEQ_CST);
	assert_int_equal(anc_switch(writer.dir, &writer.at, false), 0);
	if (sock.rd) {
		writer.at.kicks += RDMA_MARKER;
		told();
		on_anchor(marker, sizeof(marker));
	} else {
		anc_kick(writer.dir, &writer.at);
		on_anchor("", 1);
	}
}

static inline void stalls(void)
{
	assert_int_equal(sock.rx->tcp_rx, 0);
	assert_int_equal(anc_stall(writer.dir, &writer.at, false), 0);
	told();
	sock.ar.unsure = false;
}

#endif
