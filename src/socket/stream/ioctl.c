/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ioctl(): the anchor's answers, and where ours differ. */

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "base/mem.h"
#include "socket/stream/stream.h"

/* By then what was handed back is here, or code that is not seen has it. */
#define LATELY_NS 1000000000u

/* Bytes at hand: the kernel's, the ring's, and what was kept. */
static int unread_bytes(struct sock *s, int fd, int *n)
{
	int kernel = 0, ret = 0;
	enum anc_state st;
	int64_t kicks;
	uint64_t sum;

	if (unlikely(!mem_good(n, sizeof(*n), true)))
		return sys_ioctl(fd, FIONREAD, n);
	if (sock_lock(s))
		return -EDEADLK;
	fd = sock_at(s, fd);
	pump_poll(s);
	/* what the marker hides has come, and a program may wait for it */
	sum = marker_hides(s, fd);
	kicks = anc_kicks(s->rx, &s->ar);
	st = anc_state(s->rx);
	/* lifted, the kernel has kicks only: it is not asked */
	if (st != ANC_LIFTED)
		ret = sys_ioctl(fd, FIONREAD, &kernel);
	switch (st) {
	case ANC_LIFTED:
		sum += s->got.avail;
		sum += zc_here(s) ? conn_source(&s->conn) : 0;
		break;
	case ANC_SWITCHING:
	case ANC_DRAINING:
	case ANC_RECALLED:
	case ANC_PAUSED:
		sum += s->got.avail + s->ar.kept;
		if (kicks > 0)
			kernel -= kernel < kicks ? kernel : (int)kicks;
		sum += (uint64_t)kernel;
		break;
	case ANC_RESTORING:
		sum = carrier_returned(s, (uint64_t)kernel);
		break;
	default:
		sum = (uint64_t)kernel;
		/* the rest of it is on its way, but not for long */
		if (sum < stream_handed(s) && !s->conn.error &&
		    clock_ns() < s->fallback.handed_at + LATELY_NS)
			sum = stream_handed(s);
		break;
	}
	sock_unlock(s);
	if (!ret)
		*n = sum > INT32_MAX ? INT32_MAX : (int)sum;
	return ret;
}

void option_inq(struct sock *s, int fd, struct msghdr *m, size_t room)
{
	struct cmsghdr *c = m->msg_control;
	size_t len = CMSG_LEN(sizeof(int));
	int n = 0;

	m->msg_controllen = 0;
	if (!c || room < sizeof(*c)) {
		m->msg_flags |= MSG_CTRUNC;
		return;
	}
	if (unread_bytes(s, fd, &n))
		return;
	n += s->eos.rx_eof; /* the end counts as one */
	if (room < len) {
		m->msg_flags |= MSG_CTRUNC;
		len = room;
	}
	c->cmsg_level = IPPROTO_TCP;
	c->cmsg_type = TCP_CM_INQ;
	c->cmsg_len = len;
	memcpy(CMSG_DATA(c), &n, len - CMSG_LEN(0));
	m->msg_controllen =
		room < CMSG_SPACE(sizeof(n)) ? room : CMSG_SPACE(sizeof(n));
}

/*
 * SIOCOUTQ: what the other host does not have yet, whether its program reads or
 * not; SIOCOUTQNSD: what was not sent to it. On one host it has what its socket
 * has room for, and the rest was not sent; between hosts what the queue pair
 * has not seen acknowledged is added to what the kernel has not.
 */
static int unsent_bytes(struct sock *s, int fd, unsigned long req, int *n)
{
	int ret = sys_ioctl(fd, req, n);
	uint64_t sum;

	if (ret || sock_lock(s))
		return ret;
	if (carrier_far(s)) {
		if (req == SIOCOUTQ)
			*n += (int)zcr_unacked(s);
	} else if (s->paired && tx_by_ring(s)) {
		sum = window_queued(s) + s->window.holdback + (uint64_t)*n;
		*n = sum > INT32_MAX ? INT32_MAX : (int)sum;
	}
	sock_unlock(s);
	return 0;
}

/* The kernel reads the number first: what it cannot read changes nothing. */
static int set_async(struct sock *s, int fd, void *arg)
{
	bool was = option_async(s);
	int ret;

	if (!was && sock_async(s, fd, true))
		return -EAGAIN;
	ret = sys_ioctl(fd, FIOASYNC, arg);
	if (ret ? !was : !*(int *)arg)
		sock_async(s, fd, false);
	return ret;
}

int sock_ioctl(struct sock *s, int fd, unsigned long req, void *arg)
{
	int ret;

	switch (req) {
	case FIONBIO:
		ret = sys_ioctl(fd, FIONBIO, arg);
		if (!ret)
			sock_nonblock(s, *(int *)arg != 0);
		return ret;
	case FIOASYNC: /* SIGIO comes from the kernel's queue or not at all */
		return set_async(s, fd, arg);
	case FIONREAD:
		return s->paired ? unread_bytes(s, fd, arg) : 1;
	case SIOCOUTQ:
	case SIOCOUTQNSD:
		return s->paired && tx_by_ring(s) ?
			       unsent_bytes(s, fd, req, arg) :
			       1;
	case SIOCATMARK:
		ret = sys_ioctl(fd, SIOCATMARK, arg);
		if (!ret && s->paired)
			*(int *)arg = sock_atmark(s, fd);
		return ret;
	default:
		return 1;
	}
}
