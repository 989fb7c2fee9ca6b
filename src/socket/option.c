/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Socket options and ioctls: the anchor's answers, and where ours differ. */

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#include "socket/impl.h"

#define SOL_SDP_KEEPALIVE 27 /* SO_KEEPALIVE at level AF_INET_SDP */
#define SDP_ZCOPY_THRESH  80
#define SDP_LAST_BIND_ERR 81
#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif

/* --- set --------------------------------------------------------------- */

static int64_t time_ns(const void *v, socklen_t len)
{
	const struct timeval *tv = v;

	if (len < sizeof(*tv) || tv->tv_sec < 0)
		return 0;
	if (tv->tv_sec > INT64_MAX / 2000000000)
		return 0;
	return (int64_t)tv->tv_sec * 1000000000 + (int64_t)tv->tv_usec * 1000;
}

/* The kernel's own TCP must carry the stream from now on, or -errno. */
static int kernel_only(struct sock *s, int fd, enum reason why)
{
	return sock_home(s, fd, why);
}

/* While lifted, Nagle and cork are off on the anchor; the values are kept. */
static int nagle(struct sock *s, int opt, const void *v, socklen_t len)
{
	int value;

	if (len < sizeof(value))
		return -EINVAL;
	memcpy(&value, v, sizeof(value));
	if (sock_lock(s))
		return -EINTR;
	if (opt == TCP_NODELAY)
		s->nodelay = value != 0;
	else
		s->cork = value != 0;
	sock_unlock(s);
	return 0;
}

/* As the kernel module of old: 0 never, a page to 1 MiB, -1 the default. */
static int set_least(struct sock *s, const void *v, socklen_t len)
{
	int value;

	if (len < sizeof(value))
		return -EINVAL;
	memcpy(&value, v, sizeof(value));
	if (value && value != -1 && (value < 4096 || value > 1 << 20))
		return -EINVAL;
	if (sock_lock(s))
		return -EINTR;
	zc_threshold(s, value);
	sock_unlock(s);
	return 0;
}

static int set_socket(struct sock *s, int fd, int opt, const void *v,
		      socklen_t len)
{
	int one = 0;

	if (len >= sizeof(one) && v)
		memcpy(&one, v, sizeof(one));
	switch (opt) {
	case SO_LINGER:
		if (len >= sizeof(struct linger)) {
			const struct linger *l = v;

			s->linger0 = l->l_onoff && !l->l_linger;
			if (s->paired)
				__atomic_store_n(&s->own->reset, s->linger0,
						 __ATOMIC_RELEASE);
		}
		break;
	case SO_RCVTIMEO:
		s->rcvtimeo = time_ns(v, len);
		break;
	case SO_SNDTIMEO:
		s->sndtimeo = time_ns(v, len);
		break;
	case SO_RCVLOWAT:
		if (one > 1 && kernel_only(s, fd, WHY_OPTION))
			return -EAGAIN;
		break;
	case SO_OOBINLINE:
		if (one && kernel_only(s, fd, WHY_OOB))
			return -EAGAIN;
		break;
	case SO_ZEROCOPY:
	case SO_TIMESTAMPING:
	case SO_TIMESTAMP:
	case SO_TIMESTAMPNS:
	case SO_ATTACH_FILTER:
	case SO_ATTACH_BPF:
		if (one && kernel_only(s, fd, WHY_OPTION))
			return -EAGAIN;
		break;
	default:
		break;
	}
	return 1;
}

int sock_setsockopt(struct sock *s, int fd, int level, int opt, const void *v,
		    socklen_t len)
{
	if (level == SOL_SDP_KEEPALIVE && opt == SO_KEEPALIVE)
		return sys_setsockopt(fd, SOL_SOCKET, opt, v, len);
	if (level == SOL_SOCKET)
		return set_socket(s, fd, opt, v, len);
	if (level != IPPROTO_TCP)
		return 1;
	switch (opt) {
	case TCP_NODELAY:
	case TCP_CORK:
		if (s->paired && tx_by_ring(s))
			return nagle(s, opt, v, len);
		return 1;
	case TCP_ULP:
	case TCP_REPAIR:
	case TCP_MD5SIG:
		return kernel_only(s, fd, WHY_OPTION) ? -EAGAIN : 1;
	case SDP_ZCOPY_THRESH:
		return s->native ? set_least(s, v, len) : 1;
	default:
		return 1;
	}
}

/* --- get --------------------------------------------------------------- */

static int give_int(int value, void *v, socklen_t *len)
{
	if ((int)*len < 0)
		return -EINVAL;
	if (*len > sizeof(value))
		*len = sizeof(value);
	memcpy(v, &value, *len);
	return 0;
}

/*
 * The end of the stream was shown by DisConn, the kernel's FIN is on its way:
 * who asks for the connection's state shall see both agree.
 */
static void await_fin(struct sock *s, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	struct timespec ts = { 0, 100000000 };

	if (!s->rx_eof || s->orphan)
		return;
	ring_service(s);
	sys_ppoll(&p, 1, &ts, NULL);
}

int sock_getsockopt(struct sock *s, int fd, int level, int opt, void *v,
		    socklen_t *len)
{
	if (level == SOL_SDP_KEEPALIVE && opt == SO_KEEPALIVE)
		return sys_getsockopt(fd, SOL_SOCKET, opt, v, len);
	if (level == IPPROTO_TCP && s->native && opt == SDP_LAST_BIND_ERR)
		return give_int(0, v, len);
	if (level == IPPROTO_TCP && s->native && opt == SDP_ZCOPY_THRESH)
		return give_int((int)(s->zc.asked ? s->zc.wish :
						    settings.zcopy_threshold),
				v, len);
	if (!s->paired)
		return 1;
	if (level == IPPROTO_TCP && opt == TCP_INFO)
		await_fin(s, fd);
	if (level == IPPROTO_TCP && opt == TCP_NODELAY && s->nodelay >= 0)
		return give_int(s->nodelay, v, len);
	if (level == IPPROTO_TCP && opt == TCP_CORK && s->cork >= 0)
		return give_int(s->cork, v, len);
	return 1;
}

/* --- ioctl ------------------------------------------------------------- */

/* Bytes at hand: the kernel's, the ring's, and what was kept. */
static int unread_bytes(struct sock *s, int fd, int *n)
{
	int kernel = 0, ret;
	uint64_t sum = 0;
	int64_t bells;

	if (sock_lock(s))
		return -EINTR;
	pump_poll(s);
	bells = anc_bells(s->rx, &s->ar);
	ret = sys_ioctl(fd, FIONREAD, &kernel);
	switch (anc_state(s->rx)) {
	case ANC_LIFTED:
		/* the kernel has bells only */
		sum = s->rx_avail + (zc_here(s) ? conn_source(&s->conn) : 0);
		break;
	case ANC_RISING:
	case ANC_SPILL:
	case ANC_ASKED:
	case ANC_PAUSED:
		sum = s->rx_avail + s->ar.kept;
		if (bells > 0)
			kernel -= kernel < bells ? kernel : (int)bells;
		sum += (uint64_t)kernel;
		break;
	default:
		sum = (uint64_t)kernel;
		break;
	}
	sock_unlock(s);
	if (!ret)
		*n = sum > INT32_MAX ? INT32_MAX : (int)sum;
	return ret;
}

int sock_ioctl(struct sock *s, int fd, unsigned long req, void *arg)
{
	uint64_t taken;
	int ret;

	switch (req) {
	case FIONBIO:
		ret = sys_ioctl(fd, FIONBIO, arg);
		if (!ret)
			sock_nonblock(s, *(int *)arg != 0);
		return ret;
	case FIONREAD:
		if (!s->paired)
			return 1;
		return unread_bytes(s, fd, arg);
	case SIOCOUTQ:
		if (!s->paired || !tx_by_ring(s))
			return 1;
		taken = __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);
		*(int *)arg = taken <= s->at.sent ? (int)(s->at.sent - taken) :
						    0;
		return 0;
	case SIOCATMARK:
		return 1;
	default:
		return 1;
	}
}

int sock_atmark(struct sock *s, int fd)
{
	int mark = 0, ret;

	/* the mark lies on the anchor, behind everything in the ring */
	if (s->paired && anc_state(s->rx) != ANC_RAW &&
	    (s->rx_avail || s->ar.kept || zc_here(s)))
		return 0;
	ret = sys_ioctl(fd, SIOCATMARK, &mark);
	return ret < 0 ? ret : mark;
}
