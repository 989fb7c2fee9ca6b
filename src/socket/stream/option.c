/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Socket options and ioctls: the anchor's answers, and where ours differ. */

#include <netinet/tcp.h>
#include <sys/time.h>

#include "socket/stream/stream.h"

#define SOL_SDP_KEEPALIVE 27 /* SO_KEEPALIVE at level AF_INET_SDP */
#define SDP_ZCOPY_THRESH  80
#define SDP_LAST_BIND_ERR 81

/* with times of 64 bits, where others are the default */
#define SO_TIMESTAMP_WIDE   63
#define SO_TIMESTAMPNS_WIDE 64

/*
 * Values are there: preload has looked, or the kernel has taken them.
 * NOLINTBEGIN(clang-analyzer-core.NonNullParamChecker,clang-analyzer-core.NullDereference)
 */
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
	s->opt.linger0 = l->l_onoff && !l->l_linger;
	if (s->paired)
		__atomic_store_n(&s->own->reset, s->opt.linger0,
				 __ATOMIC_RELEASE);
	return 0;
}

/* 0, or -EAGAIN: it cannot fall back, and nothing has changed. */
static int bar(struct sock *s, int fd, uint16_t bit)
{
	if (__atomic_fetch_or(&s->opt.bars, bit, __ATOMIC_RELAXED) & bit)
		return 0;
	if (!sock_fallback(s, fd, WHY_SOCKET_OPTION))
		return 0;
	__atomic_and_fetch(&s->opt.bars, (uint16_t)~bit, __ATOMIC_RELAXED);
	sock_unpin(s);
	return -EAGAIN;
}

static void unbar(struct sock *s, uint16_t bit)
{
	if (!(__atomic_fetch_and(&s->opt.bars, (uint16_t)~bit,
				 __ATOMIC_RELAXED) &
	      bit))
		return;
	sock_unpin(s);
	lift_again(s);
}

/*
 * What a receive sleeps for in the kernel was settled when it began: a kick
 * would not bring it out. So BAR_LEFT takes the place of the bit, and its
 * count, until no thread is inside any more.
 */
static void unbar_lowat(struct sock *s)
{
	struct anc_dir *rx = __atomic_load_n(&s->rx, __ATOMIC_SEQ_CST);

	if (!__atomic_load_n(&rx->tcp_rx, __ATOMIC_SEQ_CST) ||
	    !(s->opt.bars & BAR_LOWAT)) {
		unbar(s, BAR_LOWAT);
		return;
	}
	if (__atomic_fetch_or(&s->opt.bars, BAR_LEFT, __ATOMIC_SEQ_CST) &
	    BAR_LEFT)
		unbar(s, BAR_LOWAT);
	else
		__atomic_and_fetch(&s->opt.bars, (uint16_t)~BAR_LOWAT,
				   __ATOMIC_SEQ_CST);
	option_left(s);
}

void option_left(struct sock *s)
{
	struct anc_dir *rx = __atomic_load_n(&s->rx, __ATOMIC_SEQ_CST);

	if (!__atomic_load_n(&rx->tcp_rx, __ATOMIC_SEQ_CST))
		unbar(s, BAR_LEFT);
}

/* An option that bars unless what it is set to is idle. */
static int set_barring(struct sock *s, int fd, const struct option *o,
		       const void *v, socklen_t len)
{
	bool was = s->opt.bars & o->bar, on = !option_idle(o, v, len);
	int ret;

	if (on && bar(s, fd, o->bar))
		return -EAGAIN;
	ret = sys_setsockopt(fd, o->level, o->opt, v, len);
	if (!(ret ? on && !was : !on))
		return ret;
	if (o->bar == BAR_LOWAT)
		unbar_lowat(s);
	else
		unbar(s, o->bar);
	return ret;
}

/* Not known here: what the kernel takes is left to the kernel. */
static int set_unknown(struct sock *s, int fd, int level, int opt,
		       const void *v, socklen_t len)
{
	int ret = sys_setsockopt(fd, level, opt, v, len);

	if (!ret)
		bar(s, fd, BAR_EVER);
	return ret;
}

bool option_async(const struct sock *s)
{
	return s->opt.bars & BAR_ASYNC;
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

void option_heir(struct sock *s, uint16_t bars)
{
	s->opt.bars = bars & (uint16_t) ~(BAR_ASYNC | BAR_LEFT);
	s->fallback.callers = (uint8_t)__builtin_popcount(s->opt.bars);
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
		return -EDEADLK;
	if (!tx_by_ring(s) && s->opt.nodelay < 0) {
		sock_unlock(s); /* given back to the anchor meanwhile */
		return 1;
	}
	if (opt == TCP_NODELAY)
		s->opt.nodelay = value != 0;
	else
		s->opt.cork = value != 0;
	s->opt.corked = s->opt.cork > 0;
	/* as TCP: either of the two sends what was kept back */
	if (s->window.holdback &&
	    (opt == TCP_NODELAY ? s->opt.nodelay : !s->opt.cork))
		holdback_show(s);
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
		return -EDEADLK;
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
	s->opt.stamps = on;
	if (!on)
		unbar(s, BAR_SHOWN);
	return 0;
}

static int set_inq(struct sock *s, int fd, const void *v, socklen_t len)
{
	int ret = sys_setsockopt(fd, IPPROTO_TCP, TCP_INQ, v, len), on;

	if (ret)
		return ret;
	memcpy(&on, v, sizeof(on));
	s->opt.inq = on != 0;
	return 0;
}

/* A bound of what may be under way (window.h). */
static int set_room(struct sock *s, int fd, const struct option *o,
		    const void *v, socklen_t len, uint8_t buf)
{
	int ret = sys_setsockopt(fd, o->level, o->opt, v, len), value;

	if (ret)
		return ret;
	memcpy(&value, v, sizeof(value));
	window_set(s, fd, buf, value || buf != BUF_TIMEOUT);
	return 0;
}

static int set_lock(struct sock *s, int fd, const struct option *o,
		    const void *v, socklen_t len)
{
	int ret = sys_setsockopt(fd, o->level, o->opt, v, len), lock;

	if (ret)
		return ret;
	memcpy(&lock, v, sizeof(lock));
	window_set(s, fd, BUF_SND, lock & BUF_SND);
	window_set(s, fd, BUF_RCV, lock & BUF_RCV);
	return 0;
}

static int obey(struct sock *s, int fd, const struct option *o, const void *v,
		socklen_t len)
{
	int on = 0;

	if (len >= sizeof(on) && v)
		memcpy(&on, v, sizeof(on));
	switch (o->id) {
	case OPT_SO_LINGER:
		return set_linger(s, fd, v, len);
	case OPT_SO_RCVTIMEO:
	case OPT_SO_RCVTIMEO_NEW:
		return set_timeo(fd, o->opt, v, len, &s->opt.rcvtimeo);
	case OPT_SO_SNDTIMEO:
	case OPT_SO_SNDTIMEO_NEW:
		return set_timeo(fd, o->opt, v, len, &s->opt.sndtimeo);
	case OPT_SO_TIMESTAMP:
	case OPT_SO_TIMESTAMPNS:
	case OPT_SO_TIMESTAMP_NEW:
	case OPT_SO_TIMESTAMPNS_NEW:
		return set_stamps(s, fd, o->opt, v, len, on != 0);
	case OPT_TCP_NODELAY:
	case OPT_TCP_CORK:
		/* or what the anchor gets back before long */
		if (s->paired && (tx_by_ring(s) || s->opt.nodelay >= 0))
			return nagle(s, o->opt, v, len);
		return 1;
	case OPT_SO_SNDBUF:
	case OPT_SO_SNDBUFFORCE:
		return set_room(s, fd, o, v, len, BUF_SND);
	case OPT_SO_RCVBUF:
	case OPT_SO_RCVBUFFORCE:
		return set_room(s, fd, o, v, len, BUF_RCV);
	case OPT_SO_BUF_LOCK:
		return set_lock(s, fd, o, v, len);
	case OPT_TCP_WINDOW_CLAMP:
		return set_room(s, fd, o, v, len, BUF_CLAMP);
	case OPT_TCP_USER_TIMEOUT:
		return set_room(s, fd, o, v, len, BUF_TIMEOUT);
	case OPT_TCP_NOTSENT_LOWAT:
		return set_room(s, fd, o, v, len, BUF_LOWAT);
	case OPT_TCP_INQ:
		return set_inq(s, fd, v, len);
	default: /* as it is asked for, or as it sends */
		return 1;
	}
}

int sock_setsockopt(struct sock *s, int fd, int level, int opt, const void *v,
		    socklen_t len)
{
	bool of_sdp = level == SOL_SDP_KEEPALIVE && opt == SO_KEEPALIVE;
	const struct option *o;
	int ret;

	if (of_sdp)
		level = SOL_SOCKET;
	ret = alive_set(s, fd, level, opt, v, len);
	if (ret == 1 && of_sdp)
		ret = sys_setsockopt(fd, level, opt, v, len);
	if (ret != 1 || of_sdp)
		return ret;
	if (level == IPPROTO_TCP && opt == SDP_ZCOPY_THRESH && s->id.native)
		return set_least(s, v, len);
	o = option_find(level, opt);
	if (!o)
		return level == SOL_SOCKET || level == IPPROTO_TCP ?
			       set_unknown(s, fd, level, opt, v, len) :
			       1;
	switch (o->way) {
	case WAY_OBEYED:
		return obey(s, fd, o, v, len);
	case WAY_TCP:
		return set_barring(s, fd, o, v, len);
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
 * a query of the connection's state shall see both agree.
 */
static void await_fin(struct sock *s, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	struct timespec ts = { 1, 0 };
	struct anc_dir *rx = __atomic_load_n(&s->rx, __ATOMIC_SEQ_CST);

	if (!s->eos.rx_eof || s->peer_gone || s->eos.fin_missed)
		return;
	/* before the last byte is taken it does not come */
	if (s->got.avail ||
	    __atomic_load_n(&s->ar.taken, __ATOMIC_RELAXED) <
		    __atomic_load_n(&rx->sent, __ATOMIC_ACQUIRE))
		return;
	ring_service(s);
	s->eos.fin_missed =
		!sys_ppoll(&p, 1, &ts, NULL); /* a peer that stands */
}

/*
 * What poll() shows of an end that the kernel does not know of, or has told to
 * us: as lift_end_errno() where the anchor carries the rest, and else as a
 * receive says it.
 */
static int shown_error(struct sock *s)
{
	enum anc_state rx = anc_state(s->rx);
	bool at_anchor = rx == ANC_TCP || (rx == ANC_DRAINING && !s->got.avail);

	if (s->eos.eaten || !s->paired)
		return s->eos.eaten;
	if (s->conn.error && s->stats.why == WHY_PROTOCOL)
		return ECONNRESET;
	if (!s->peer_gone && tx_by_ring(s) && wake_hung_up(s))
		lift_peer_gone(s);
	if (!s->peer_gone || (at_anchor && !tx_by_ring(s)))
		return 0;
	return was_reset(s) ? ECONNRESET : 0;
}

/*
 * The end of the connection is told once, by whichever call. The kernel may say
 * EPIPE, of a reset behind an end that the program has not seen. Under the
 * lock: the service thread may be about to note what it was told.
 */
static int end_error(struct sock *s, int fd)
{
	int err;

	if (sock_lock(s))
		return option_int(fd, SO_ERROR);
	fd = sock_at(s, fd);
	err = option_int(fd, SO_ERROR);
	if (unlikely(s->eos.kicked) && err == ECONNRESET)
		err = 0;
	if (err == EPIPE && s->paired && was_reset(s))
		err = ECONNRESET;
	else if (err <= 0)
		err = shown_error(s);
	if ((err == EPIPE || err == ECONNRESET || err == s->eos.eaten) && err &&
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
	if (alive_get(s, level, opt, &value))
		return give_int(value, v, len);
	if (of_sdp)
		return sys_getsockopt(fd, level, opt, v, len);
	if (level == SOL_SOCKET && opt == SO_ERROR && !s->bridged.word &&
	    unlikely(s->paired || s->eos.eaten))
		return give_int(end_error(s, fd), v, len);
	if (level == IPPROTO_TCP && s->id.native && opt == SDP_LAST_BIND_ERR)
		return give_int(0, v, len);
	if (level == IPPROTO_TCP && s->id.native && opt == SDP_ZCOPY_THRESH)
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
	if (level == IPPROTO_TCP && opt == TCP_NODELAY && s->opt.nodelay >= 0)
		return give_int(s->opt.nodelay, v, len);
	if (level == IPPROTO_TCP && opt == TCP_CORK && s->opt.cork >= 0)
		return give_int(s->opt.cork, v, len);
	return 1;
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
	uint16_t bars = option_bars(fd);
	int on = 0;

	s->opt.rcvtimeo = timeo_of(fd, SO_RCVTIMEO);
	s->opt.sndtimeo = timeo_of(fd, SO_SNDTIMEO);
	if (!sys_getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len))
		s->opt.linger0 = l.l_onoff && !l.l_linger;
	len = sizeof(on);
	s->opt.inq = !sys_getsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, &len) && on;
	s->opt.stamps = option_int(fd, SO_TIMESTAMP) > 0 ||
			option_int(fd, SO_TIMESTAMPNS) > 0 ||
			option_int(fd, SO_TIMESTAMP_WIDE) > 0 ||
			option_int(fd, SO_TIMESTAMPNS_WIDE) > 0;
	if (filtered(fd))
		bars |= BAR_EVER;
	s->opt.bufs = window_inherited(fd);
	option_heir(s, bars);
}

/* NOLINTEND(clang-analyzer-core.NonNullParamChecker,clang-analyzer-core.NullDereference) */
