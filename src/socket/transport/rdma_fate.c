/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is known of the end of a connection between hosts. */

#include <netinet/tcp.h>

#include "socket/transport/transport.h"

#define HIDE_NS 1000000000u /* then nothing more comes in front of a FIN */

bool rdma_was_reset(const struct sock *s)
{
	if (__atomic_load_n(&s->peer->reset, __ATOMIC_ACQUIRE))
		return true;
	/* its DisConn came: it ended in order and said what it took; and what
	 * went to the anchor is the kernel's to judge */
	return !s->conn.dis_rcvd && anc_state(s->tx) != ANC_TCP &&
	       s->at.sent > __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);
}

/*
 * DisConn is queued as soon as the reader knows of the lift. An end that has
 * sent its own gets no word out once ours has come, and its knowing is what the
 * marker waits for.
 */
bool rdma_may_end(struct sock *s, bool closes)
{
	struct rdma *r = s->rd;

	conn_spare(&s->conn, false); /* nothing more will be sent */
	if (r->state == RDMA_UP &&
	    (anc_state(s->tx) == ANC_SWITCHING || !remote_seen(&r->words)))
		return false;
	conn_shutdown(&s->conn, clock_ns(), closes);
	pump_control(s);
	return !r->mark.marker_due;
}

static bool peer_may_write(int fd)
{
	struct tcp_info i = { .tcpi_state = TCP_CLOSE };
	socklen_t len = sizeof(i);

	return sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len) ||
	       i.tcpi_state == TCP_ESTABLISHED ||
	       i.tcpi_state == TCP_FIN_WAIT1 || i.tcpi_state == TCP_FIN_WAIT2;
}

bool rdma_fin_came(const struct sock *s, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	struct timespec now = { 0, 0 };

	/* POLLERR alone is what MSG_ZEROCOPY says */
	return sys_ppoll(&p, 1, &now, NULL) == 1 &&
	       (p.revents & (POLLRDHUP | POLLHUP)) &&
	       !(s->eos.shut_rd && peer_may_write(fd));
}

bool rdma_hides_fin(struct sock *s, int fd)
{
	struct rdma *r = s->rd;
	uint64_t now;

	if (!rdma_fin_came(s, fd))
		return false;
	now = clock_ns();
	if (!r->watch.fin_at)
		r->watch.fin_at = now;
	return now <= r->watch.fin_at + HIDE_NS;
}

bool rdma_cut_short(struct sock *s, int fd, size_t n)
{
	uint8_t buf[RESUME_RECORD];

	/* behind a FIN nothing comes, so what is there now is all */
	return rdma_fin_came(s, fd) &&
	       bytebuf_glance(s, fd, buf, sizeof(buf)) == (ssize_t)n &&
	       bytebuf_swallow(s, fd, buf, n);
}

bool rdma_all_on_tcp(const struct sock *s)
{
	return !s->paired ||
	       (anc_state(s->tx) == ANC_TCP && anc_state(s->rx) == ANC_TCP &&
		!s->fallback.pins && !s->got.avail && !s->eos.rx_eof &&
		!s->eos.shut_wr && !s->eos.shut_rd && !s->peer_gone);
}

void rdma_anchor_watch(struct sock *s, int fd)
{
	struct rdma *r = s->rd;

	if (r->watch.anchor == fd)
		return;
	if (r->watch.anchor >= 0)
		service_anchor(s, r->watch.anchor, false);
	r->watch.anchor = fd;
	if (fd >= 0)
		service_anchor(s, fd, true);
}

/*
 * To a thread counted in and never counted out a marker would be left, and
 * what comes behind it would not be shown.
 */
bool rdma_alone(struct sock *s)
{
	return sock_holders(s) == 1 && !holders_lost(s);
}
