/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Socket options and ioctls: the anchor's answers, and where ours differ. */

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#include "socket/peek.h"
#include "socket/bridge.h"
#include "socket/rdma.h"
#include "socket/zcopy.h"

#define SOL_SDP_KEEPALIVE 27 /* SO_KEEPALIVE at level AF_INET_SDP */
#define SDP_ZCOPY_THRESH  80
#define SDP_LAST_BIND_ERR 81

/* --- set --------------------------------------------------------------- */

/* A limit that the kernel has accepted; a negative one is: never wait. */
static int64_t time_ns(const struct timeval *tv)
{
	if (tv->tv_sec < 0)
		return 1;
	if (tv->tv_sec > INT64_MAX / 2000000000)
		return 0;
	return (int64_t)tv->tv_sec * 1000000000 + (int64_t)tv->tv_usec * 1000;
}

/* What the kernel refuses changes nothing here. */
static int set_timeo(int fd, int opt, const void *v, socklen_t len,
		     int64_t *limit)
{
	int ret = sys_setsockopt(fd, SOL_SOCKET, opt, v, len);

	if (!ret)
		*limit = time_ns(v);
	return ret;
}

static int set_linger(struct sock *s, int fd, const void *v, socklen_t len)
{
	int ret = sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, v, len);
	const struct linger *l = v;

	if (ret)
		return ret;
	s->linger0 = l->l_onoff && !l->l_linger;
	if (s->paired)
		__atomic_store_n(&s->own->reset, s->linger0, __ATOMIC_RELEASE);
	return 0;
}

/*
 * What only the kernel has: while a bit is set its own TCP carries the stream.
 * Each counts as one of s->homes.
 */
enum {
	BAR_LOWAT = 1,
	BAR_PEEK = 2,
	BAR_TIMES = 4,
	BAR_SHOWN = 8, /* time stamps, and somebody looked */
	BAR_ASYNC = 16,
	BAR_EVER = 32, /* cannot be taken back */
};

enum reason option_reason(const struct sock *s)
{
	return s->bars ? WHY_OPTION : WHY_WAITING;
}

bool option_lowat(const struct sock *s)
{
	return s->bars & BAR_LOWAT;
}

/* 0, or -EAGAIN: it cannot come home, and nothing has changed. */
static int bar(struct sock *s, int fd, uint8_t bit)
{
	if (__atomic_fetch_or(&s->bars, bit, __ATOMIC_RELAXED) & bit)
		return 0;
	if (!sock_home(s, fd, WHY_OPTION))
		return 0;
	__atomic_and_fetch(&s->bars, (uint8_t)~bit, __ATOMIC_RELAXED);
	sock_unpin(s);
	return -EAGAIN;
}

static void unbar(struct sock *s, uint8_t bit)
{
	if (!(__atomic_fetch_and(&s->bars, (uint8_t)~bit, __ATOMIC_RELAXED) &
	      bit))
		return;
	sock_unpin(s);
	lift_again(s);
}

/* An option at SOL_SOCKET that bars while it is `on`. */
static int set_barring(struct sock *s, int fd, int opt, const void *v,
		       socklen_t len, uint8_t bit, bool on)
{
	bool was = s->bars & bit;
	int ret;

	if (on && bar(s, fd, bit))
		return -EAGAIN;
	ret = sys_setsockopt(fd, SOL_SOCKET, opt, v, len);
	if (ret ? on && !was : !on)
		unbar(s, bit);
	return ret;
}

int sock_async(struct sock *s, int fd, bool on)
{
	if (on)
		return bar(s, fd, BAR_ASYNC);
	unbar(s, BAR_ASYNC);
	return 0;
}

int option_shown(struct sock *s, int fd)
{
	return bar(s, fd, BAR_SHOWN);
}

void option_heir(struct sock *s, uint8_t bars)
{
	s->bars = bars & (uint8_t)~BAR_ASYNC;
	s->homes = (uint8_t)__builtin_popcount(s->bars);
	sock_why(s, option_reason(s));
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

/* Either of the two takes back both. */
static int set_stamps(struct sock *s, int fd, int opt, const void *v,
		      socklen_t len, bool on)
{
	int ret = sys_setsockopt(fd, SOL_SOCKET, opt, v, len);

	if (ret)
		return ret;
	s->stamps = on;
	if (!on)
		unbar(s, BAR_SHOWN);
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
		return set_linger(s, fd, v, len);
	case SO_RCVTIMEO:
		return set_timeo(fd, opt, v, len, &s->rcvtimeo);
	case SO_SNDTIMEO:
		return set_timeo(fd, opt, v, len, &s->sndtimeo);
	case SO_RCVLOWAT: /* below zero: more than there can be */
		return set_barring(s, fd, opt, v, len, BAR_LOWAT,
				   one > 1 || one < 0);
	case SO_PEEK_OFF:
		return set_barring(s, fd, opt, v, len, BAR_PEEK, one >= 0);
	case SO_TIMESTAMPING:
		return set_barring(s, fd, opt, v, len, BAR_TIMES, one != 0);
	case SO_TIMESTAMP:
	case SO_TIMESTAMPNS:
		return set_stamps(s, fd, opt, v, len, one != 0);
	case SO_ATTACH_FILTER:
	case SO_ATTACH_BPF:
		return one && bar(s, fd, BAR_EVER) ? -EAGAIN : 1;
	default:
		return 1;
	}
}

static int set_inq(struct sock *s, int fd, const void *v, socklen_t len)
{
	int ret = sys_setsockopt(fd, IPPROTO_TCP, TCP_INQ, v, len), on;

	if (ret)
		return ret;
	memcpy(&on, v, sizeof(on));
	s->inq = on != 0;
	return 0;
}

int sock_setsockopt(struct sock *s, int fd, int level, int opt, const void *v,
		    socklen_t len)
{
	bool of_sdp = level == SOL_SDP_KEEPALIVE && opt == SO_KEEPALIVE;
	int ret = 1;

	if (of_sdp)
		level = SOL_SOCKET;
	if (unlikely(s->rd))
		ret = alive_set(s, fd, level, opt, v, len);
	if (ret == 1 && of_sdp)
		ret = sys_setsockopt(fd, level, opt, v, len);
	if (ret != 1 || of_sdp)
		return ret;
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
	case TCP_INQ:
		return set_inq(s, fd, v, len);
	case TCP_ULP:
	case TCP_REPAIR:
	case TCP_MD5SIG:
		return bar(s, fd, BAR_EVER) ? -EAGAIN : 1;
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
	struct timespec ts = { 1, 0 };
	struct anc_dir *rx = __atomic_load_n(&s->rx, __ATOMIC_SEQ_CST);

	if (!s->rx_eof || s->orphan || s->fin_missed)
		return;
	/* before the last byte is taken it does not come */
	if (s->rx_avail || __atomic_load_n(&s->ar.taken, __ATOMIC_RELAXED) <
				   __atomic_load_n(&rx->sent, __ATOMIC_ACQUIRE))
		return;
	ring_service(s);
	s->fin_missed = !sys_ppoll(&p, 1, &ts, NULL); /* a peer that stands */
}

/*
 * What poll() shows of an end that the kernel does not know of, or has told to
 * us: as lift_end_errno() where the anchor carries the rest, and else as a
 * receive says it.
 */
static int shown_error(struct sock *s)
{
	enum anc_state rx = anc_state(s->rx);
	bool at_anchor = rx == ANC_RAW || (rx == ANC_SPILL && !s->rx_avail);

	if (s->eaten || !s->paired)
		return s->eaten;
	if (s->conn.error && s->why == WHY_PROTOCOL)
		return ECONNRESET;
	if (!s->orphan && tx_by_ring(s) && wake_hung_up(s))
		lift_orphan(s);
	if (!s->orphan || (at_anchor && !tx_by_ring(s)))
		return 0;
	return was_reset(s) ? ECONNRESET : 0;
}

/*
 * The end of the connection is told once, whoever tells it. The kernel may say
 * EPIPE, of a reset behind an end that the program has not seen. Under the lock:
 * the service thread may be about to note what it was told.
 */
static int end_error(struct sock *s, int fd)
{
	int err;

	if (sock_lock(s))
		return option_int(fd, SO_ERROR);
	err = option_int(fd, SO_ERROR);
	if (err == EPIPE && s->paired && was_reset(s))
		err = ECONNRESET;
	else if (err <= 0)
		err = shown_error(s);
	if ((err == EPIPE || err == ECONNRESET || err == s->eaten) && err &&
	    told_reset(s))
		err = 0;
	sock_unlock(s);
	return err;
}

int sock_getsockopt(struct sock *s, int fd, int level, int opt, void *v,
		    socklen_t *len)
{
	bool of_sdp = level == SOL_SDP_KEEPALIVE && opt == SO_KEEPALIVE;
	int value;

	if (of_sdp)
		level = SOL_SOCKET;
	if (unlikely(s->rd) && alive_get(s, level, opt, &value))
		return give_int(value, v, len);
	if (of_sdp)
		return sys_getsockopt(fd, level, opt, v, len);
	if (level == SOL_SOCKET && opt == SO_ERROR && !s->bridged.word &&
	    unlikely(s->paired || s->eaten))
		return give_int(end_error(s, fd), v, len);
	if (level == IPPROTO_TCP && s->native && opt == SDP_LAST_BIND_ERR)
		return give_int(0, v, len);
	if (level == IPPROTO_TCP && s->native && opt == SDP_ZCOPY_THRESH)
		return give_int((int)(s->zc.asked ? s->zc.wish :
						    settings.zcopy_threshold),
				v, len);
	if (level == SOL_SOCKET && opt == SO_ERROR && s->bridged.word) {
		int err = bridge_error(s, fd);

		return err ? give_int(-err, v, len) : 1;
	}
	if (!s->paired)
		return 1;
	/* it takes bytes; before the pairing that shows in the counts */
	if (level == IPPROTO_TCP && opt == TCP_ZEROCOPY_RECEIVE)
		return bar(s, fd, BAR_EVER) ? -EAGAIN : 1;
	if (level == IPPROTO_TCP && opt == TCP_INFO)
		await_fin(s, fd);
	if (level == IPPROTO_TCP && opt == TCP_NODELAY && s->nodelay >= 0)
		return give_int(s->nodelay, v, len);
	if (level == IPPROTO_TCP && opt == TCP_CORK && s->cork >= 0)
		return give_int(s->cork, v, len);
	return 1;
}

int option_int(int fd, int opt)
{
	socklen_t len = sizeof(int);
	int v = 0;

	return sys_getsockopt(fd, SOL_SOCKET, opt, &v, &len) ? -1 : v;
}

static int64_t timeo_of(int fd, int opt)
{
	struct timeval tv = { 0, 0 };
	socklen_t len = sizeof(tv);

	if (sys_getsockopt(fd, SOL_SOCKET, opt, &tv, &len))
		return 0;
	return time_ns(&tv);
}

/* A filter without a program that can be shown is one, too. */
static bool filtered(int fd)
{
	socklen_t len = 0;

	return sys_getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &len) || len;
}

void option_inherit(struct sock *s, int fd)
{
	struct linger l = { 0, 0 };
	socklen_t len = sizeof(l);
	uint8_t bars = 0;
	int on = 0;

	s->rcvtimeo = timeo_of(fd, SO_RCVTIMEO);
	s->sndtimeo = timeo_of(fd, SO_SNDTIMEO);
	if (!sys_getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len))
		s->linger0 = l.l_onoff && !l.l_linger;
	len = sizeof(on);
	s->inq = !sys_getsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, &len) && on;
	s->stamps = option_int(fd, SO_TIMESTAMP) > 0 ||
		    option_int(fd, SO_TIMESTAMPNS) > 0;
	if (option_int(fd, SO_RCVLOWAT) > 1)
		bars |= BAR_LOWAT;
	if (option_int(fd, SO_TIMESTAMPING) > 0)
		bars |= BAR_TIMES;
	if (filtered(fd))
		bars |= BAR_EVER;
	option_heir(s, bars);
}

/* --- ioctl ------------------------------------------------------------- */

/* Bytes at hand: the kernel's, the ring's, and what was kept. */
static int unread_bytes(struct sock *s, int fd, int *n)
{
	int kernel, ret = sys_ioctl(fd, FIONREAD, n);
	uint64_t sum = 0;
	int64_t bells;

	if (ret)
		return ret;
	if (sock_lock(s))
		return -EINTR;
	pump_poll(s);
	/* what the token hides has come, and a program may wait for it */
	if (unlikely(s->rd))
		sum = peek_hidden(s, fd);
	bells = anc_bells(s->rx, &s->ar);
	ret = sys_ioctl(fd, FIONREAD, &kernel);
	switch (anc_state(s->rx)) {
	case ANC_LIFTED:
		/* the kernel has bells only */
		sum += s->rx_avail;
		sum += zc_here(s) ? conn_source(&s->conn) : 0;
		break;
	case ANC_RISING:
	case ANC_SPILL:
	case ANC_ASKED:
	case ANC_PAUSED:
		sum += s->rx_avail + s->ar.kept;
		if (bells > 0)
			kernel -= kernel < bells ? kernel : (int)bells;
		sum += (uint64_t)kernel;
		break;
	case ANC_RESUME:
		/* the record is not the program's */
		sum = s->ar.unsure ? s->rd->give.len : (uint64_t)kernel;
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
	n += s->rx_eof; /* the end counts as one */
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
 * not. On one host it has all of the ring; between hosts what the queue pair
 * has not seen acknowledged is added to what the kernel has not.
 */
static int unsent_bytes(struct sock *s, int fd, int *n)
{
	int ret = sys_ioctl(fd, SIOCOUTQ, n);
	struct rdma *r = s->rd;

	if (ret || !r || sock_lock(s))
		return ret;
	if (rdma_here(s) && r->state == RDMA_UP && r->end) {
		pump_poll(s);
		if (!rdma_api->flushed(r->end))
			*n += (int)(mend_unacked(r, NULL) + zcr_left(s));
	}
	sock_unlock(s);
	return 0;
}

/* The kernel reads the number first: what it cannot read changes nothing. */
static int set_async(struct sock *s, int fd, void *arg)
{
	bool was = s->bars & BAR_ASYNC;
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
		return s->paired && tx_by_ring(s) ? unsent_bytes(s, fd, arg) :
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

/* Does anything lie in front of the first byte that the kernel would give? */
static bool behind(struct sock *s, int fd)
{
	bool ret = true;
	uint64_t n;
	int where;

	if (sock_lock(s))
		return true;
	pump_poll(s);
	where = raw_where(s, &n);
	if (where == ANC_AT_BELLS && !peek_no_bell(s) &&
	    !__atomic_load_n(&s->rx->rawrx, __ATOMIC_SEQ_CST)) {
		keep_bells(s, fd);
		where = raw_where(s, &n);
	}
	if (where == ANC_AT_RING)
		ret = s->rx_avail > 0 || zc_here(s);
	else if (where != ANC_AT_BELLS)
		ret = s->ar.kept > 0;
	sock_unlock(s);
	return ret;
}

int sock_atmark(struct sock *s, int fd)
{
	int mark = 0, ret;

	if (s->paired && anc_state(s->rx) != ANC_RAW && behind(s, fd))
		return 0;
	ret = sys_ioctl(fd, SIOCATMARK, &mark);
	return ret < 0 ? ret : mark;
}
