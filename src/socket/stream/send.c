/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sending. */

#include "base/mem.h"
#include "socket/stream/notice.h"
#include "socket/stream/rest.h"
#include "socket/stream/stream.h"

static ssize_t broken_pipe(int flags)
{
	if (!(flags & MSG_NOSIGNAL))
		sys_call3(SYS_tgkill, sys_getpid(), sys_gettid(), SIGPIPE);
	return -EPIPE;
}

/* --- the ring ---------------------------------------------------------- */

/* Nothing more can be sent. On the anchor the kernel knows that. */
static bool ended(const struct sock *s)
{
	return s->eos.shut_wr || s->conn.error ||
	       (s->peer_gone && tx_by_ring(s));
}

/*
 * The reset is told once, then there is no peer to send to. Behind the end of
 * the peer's stream it is EPIPE from the first, as in CLOSE_WAIT.
 */
static ssize_t reset(struct sock *s, int flags)
{
	return s->eos.rx_eof || told_reset(s) ? broken_pipe(flags) :
						-reset_errno(s);
}

/*
 * Lock held: no room for (the rest of) it, and not to wait: when there is some,
 * that will be news. False: look again after all.
 */
static bool refused(struct sock *s, int fd)
{
	struct sock_ready r;

	rdma_unspare(s); /* it will look again, if it waits */
	sock_unlock(s);
	sock_ready(s, fd, 0, &r); /* starts the stall clock */
	return sock_lock(s) || (tx_by_ring(s) && !pump_room(s));
}

/* Over RDMA the reader knows of a stall before bytes follow. 1: look again. */
static int stand_by(struct sock *s, int fd, struct load *w)
{
	int err;

	if (likely(!s->fallback.stand) || s->peer_gone)
		return 0;
	if (!s->conn.error)
		pump_poll(s);
	if (!s->fallback.stand)
		return 1;
	if (w->nonblock)
		return -EAGAIN;
	err = sleep_for_room(s, fd, w);
	return err ? err : 1;
}

static void went(struct sock *s, struct load *w, size_t n)
{
	if (!n)
		return;
	if (s->waits.full) { /* an edge, for one that was refused before */
		s->waits.full = false;
		__atomic_add_fetch(&s->waits.out_gen, 1, __ATOMIC_RELAXED);
	}
	w->done += n;
	notice_done(w);
}

/*
 * Without a copy. True: the lock was not held all the time, w->done counts
 * what went, which may be nothing; *err ends the send.
 */
static bool ring_lend(struct sock *s, int fd, struct load *w, int *err)
{
	uint32_t ran = sigdefer_handlers();
	size_t n;

	w->zc.part = load_part(w);
	if (!zc_send(s, fd, &w->c, &w->zc, load_deadline(s, w), &n, err))
		return zc_torn(&w->zc, &w->c, w->done, &w->len, err);
	went(s, w, n);
	if (w->done < w->len)
		*err = sleep_ended(*err, load_part(w), ran);
	if (!w->zc.lend && !*err && w->done < w->len)
		*err = iov_still(&w->c, w->done, &w->len);
	return true;
}

/* The peer is taking the direction home. 1: look again; 0: by the kernel. */
static int taken_back(struct sock *s, int fd, struct load *w)
{
	int err;

	if (s->peer_gone && carrier_reset(s))
		return (int)reset(s, w->flags); /* the kernel may not know */
	if (s->peer_gone && !carrier_restores(s)) {
		/* it died over it: the kernel knows the rest */
		__atomic_store_n(&s->tx, &s->local[0], __ATOMIC_SEQ_CST);
		return 0;
	}
	if (w->nonblock)
		return -EAGAIN;
	err = sleep_for_room(s, fd, w);
	return err ? err : 1;
}

/* As much as goes now. */
static ssize_t ring_some(struct sock *s, int fd, struct load *w)
{
	ssize_t n = likely(!w->by_pipe) ? way_out(s, w, w->len - w->done) :
					  load_from_pipe(s, w);

	if (n > 0) {
		went(s, w, (size_t)n);
		if (likely(!s->window.holdback))
			ring_reader(s, fd);
	}
	return n;
}

/* Lock held; w->done counts. *tcp: go on at the anchor. */
static ssize_t ring_send(struct sock *s, int fd, struct load *w, bool *tcp)
{
	ssize_t n;
	int err;

	for (;;) {
		fallback_serve(s, fd = sock_at(s, fd));
		if (!s->paired) {
			*tcp = true;
			return 0;
		}
		if (w->done && ended(s))
			return 0; /* the next call is told */
		if (s->eos.shut_wr)
			return broken_pipe(w->flags);
		switch (anc_state(s->tx)) {
		case ANC_DRAINING:
			err = stand_by(s, fd, w);
			if (err > 0)
				continue;
			*tcp = !err;
			return err;
		case ANC_TCP:
		case ANC_GONE:
			*tcp = true;
			return 0;
		case ANC_SWITCHING:
		case ANC_LIFTED:
			break;
		default:
			err = taken_back(s, fd, w);
			if (err > 0)
				continue;
			*tcp = !err;
			return err;
		}
		if (s->conn.error || (s->peer_gone && was_reset(s)))
			return reset(s, w->flags);
		if (s->peer_gone) {
			/* as on TCP: the kernel answers RST, then EPIPE */
			lift_stall(s, fd, WHY_CLOSED, true);
			*tcp = true;
			return 0;
		}
		if (unlikely(w->note) && !notice_send(s, fd, w)) {
			*tcp = w->leave;
			if (*tcp)
				return 0;
			continue;
		}
		/* told of, its first bytes go before the lock does */
		if (unlikely(w->zc.lend) && !w->note && !w->nonblock &&
		    ring_lend(s, fd, w, &err)) {
			if (err || w->done == w->len)
				return err;
			continue;
		}
		/* room that came since may not be used ahead of the notice */
		n = unlikely(w->note && !w->noted) ? 0 : ring_some(s, fd, w);
		if (unlikely(n == -EFAULT))
			return w->done ? 0 : n;
		if (n < 0)
			continue;
		if (w->done == w->len || unlikely(w->pipe_over) ||
		    (w->c.file && w->c.file->stop))
			return 0;
		if (pump_poll(s) || pump_room(s))
			continue;
		if (w->nonblock && !w->done &&
		    credit_comes(s, fd, &w->deadline))
			continue;
		if (w->nonblock && refused(s, fd))
			return w->done ? 0 : -EAGAIN;
		if (w->nonblock)
			continue;
		err = sleep_for_room(s, fd, w);
		if (err)
			return err;
	}
}

/* The same for a send that may be worth to be spared the copy. */
static ssize_t large_send(struct sock *s, int fd, struct load *w, bool *tcp)
{
	size_t len = w->len - w->done;
	ssize_t ret;

	/* on one host only one that may block lends */
	if (!zc_concerns(s, w->nonblock))
		return ring_send(s, fd, w, tcp);
	zc_choose(s, len, &w->zc);
	ret = ring_send(s, fd, w, tcp);
	zc_chosen(&w->zc, len, w->done == w->len);
	w->zc.lend = false;
	return ret;
}

/* --- the anchor -------------------------------------------------------- */

static ssize_t kernel_send(int fd, const struct msghdr *m, int flags)
{
	int saved = errno;

	return tcp_said(hooks.sendmsg(fd, m, flags), saved);
}

/* By the kernel. One that has sent does not wait: tcp_rest(). */
static ssize_t load_send(const struct load *w, int fd, const struct iovec *v,
			 int flags)
{
	int saved = errno;

	if (unlikely(load_part(w)))
		return rest_send(fd, v->iov_base, v->iov_len, flags);
	return tcp_said(hooks.send(fd, v->iov_base, v->iov_len, flags), saved);
}

static ssize_t load_sendmsg(const struct load *w, int fd,
			    const struct msghdr *m, int flags)
{
	return likely(!load_part(w)) ? kernel_send(fd, m, flags) :
				       rest_sendmsg(fd, m, flags);
}

static ssize_t tcp_send(struct sock *s, int fd, struct load *w,
			const struct msghdr *m, bool *lifted)
{
	__attribute__((cleanup(tcp_tx_lost))) struct tcp_tx in = { .s = NULL };
	struct msghdr rest = { 0 };
	struct iovec one;
	int flags = w->flags;
	bool part, told = s->eos.rst_told;
	ssize_t n;

	*lifted = !tcp_tx_enter(&in, s);
	if (*lifted)
		return 0;
	if (unlikely(w->note) && notice_ahead(s, w))
		flags &= ~MSG_ZEROCOPY;
	if (unlikely(w->done))
		flags |= MSG_NOSIGNAL; /* bytes of this call have gone */
	w->ask = w->len - w->done;
	part = tcp_tx_piece(s, w->ask, w->nonblock) < w->ask;
	if (unlikely(s->eos.eaten) && !w->done && !told_reset(s)) {
		n = -s->eos.eaten;
	} else if (m && !w->done && (!part || m->msg_controllen)) {
		n = load_sendmsg(w, fd, m, flags);
	} else if (w->c.left == 1 || w->c.at || part) {
		one.iov_base = (char *)w->c.iov->iov_base + w->c.at;
		w->ask = w->c.iov->iov_len - w->c.at;
		one.iov_len = w->ask = tcp_tx_piece(s, w->ask, w->nonblock);
		n = load_send(w, fd, &one, flags);
	} else {
		rest.msg_iov = (struct iovec *)w->c.iov;
		rest.msg_iovlen = w->c.left;
		n = load_sendmsg(w, fd, &rest, flags);
	}
	/* a kick lay unread as the peer closed; or our kernel hears later */
	if (unlikely(n == -ECONNRESET) && (s->eos.rx_eof || (told && !w->done)))
		n = broken_pipe(flags);
	else if (unlikely(n == -ECONNRESET) && !w->done)
		s->eos.rst_told = true;
	tcp_tx_done(&in, s, n);
	if (n > 0)
		notice_done(w);
	if (rdma_seeks(s) && n > 0)
		rdma_remember(s, true, w->c.iov, w->c.left, w->c.at, (size_t)n);
	s->eos.epipe |= n == -EPIPE;
	return n;
}

/*
 * As tcp_send() when bytes of the call have gone and it may block. The kernel
 * would take the rest for a call of its own, and restart it behind a handler,
 * and count its time limit anew: so it waits here.
 */
static ssize_t tcp_rest(struct sock *s, int fd, struct load *w,
			const struct msghdr *m, bool *lifted)
{
	ssize_t n;

	for (;;) {
		w->flags |= MSG_DONTWAIT;
		n = tcp_send(s, fd, w, m, lifted);
		w->flags &= ~MSG_DONTWAIT;
		w->urged = !*lifted && n > 0;
		if (*lifted || n != -EAGAIN)
			return n;
		s->seek.dry = false; /* the program asks but once */
		n = wait_rest(s, fd, load_deadline(s, w));
		if (n < 0)
			return n;
		fd = sock_at(s, fd);
	}
}

/* The reader has not taken yet what is on the anchor. */
static bool behind(const struct sock *s)
{
	const struct anc_dir *tx = s->tx;

	return !tx ||
	       s->at.sent != __atomic_load_n(&tx->taken, __ATOMIC_ACQUIRE);
}

/* 0: the lock is held, and the stream is this process's to move. */
static inline int lock_ours(struct sock *s, struct load *w)
{
	int err = 0;

	if (unlikely(user_other(s)))
		err = user_comes(s, w->nonblock ? 0 : load_deadline(s, w),
				 load_part(w));
	return err ? err : sock_lock(s) ? -EDEADLK : 0;
}

static ssize_t transmit(struct sock *s, int fd, struct load *w,
			const struct msghdr *m)
{
	bool lifted = false, tcp, none;
	size_t len;
	ssize_t n;

	if (unlikely(s->id.use == USE_SDP) && !s->id.met) {
		n = lift_demand(s, fd, true);
		if (n)
			return n;
	}
	for (;;) {
		if (s->paired && !(w->note && w->nonblock && behind(s)))
			lift_try_tx(s, fd);
		if (unlikely(s->eos.fin_due)) /* the kernel's FIN is to come */
			return w->done ? (ssize_t)w->done :
					 broken_pipe(w->flags);
		if (tcp_passed_by(&lifted, &s->stats.tx_shown, &lifted))
			n = 0;
		else if (unlikely(load_part(w)) && !w->nonblock)
			n = tcp_rest(s, fd, w, m, &lifted);
		else
			n = tcp_send(s, fd, w, m, &lifted);
		if (!lifted) {
			lift_count(s, fd, n, true);
			if (w->nonblock && n < (ssize_t)(w->len - w->done))
				lift_full(s, fd);
			if (n <= 0) {
				if (w->done)
					sock_eats(s, n);
				return w->done ? (ssize_t)w->done : n;
			}
			w->done += (size_t)n;
			/* cut short, the kernel has its reason */
			if (w->done == w->len || w->nonblock ||
			    (!w->urged && (size_t)n < w->ask))
				return (ssize_t)w->done;
			cursor_skip(&w->c, (size_t)n);
			continue;
		}
		len = w->len;
		none = unlikely(!load_whole(w)) && !load_torn(w);
		tcp = false;
		n = lock_ours(s, w);
		if (unlikely(n))
			return w->done ? (ssize_t)w->done : n;
		if (unlikely(w->len - w->done >= s->zc.least))
			n = large_send(s, fd, w, &tcp);
		else
			n = ring_send(s, fd, w, &tcp);
		sock_unlock(s);
		fd = sock_at(s, fd);
		if (unlikely(sock_orphan_fd(s) >= 0) && !tcp)
			reports.left(s);
		if (unlikely(n == -EFAULT) && load_faulted(w))
			continue;
		if (!tcp && none && !n)
			n = -EFAULT;
		if (!tcp)
			return w->done ? (ssize_t)w->done : n;
		if (none)
			w->len = len;
		if (w->done == w->len)
			return (ssize_t)w->done;
		if (unlikely(w->leave)) {
			n = lift_leave(s, fd, WHY_SOCKET_OPTION);
			if (n)
				return n;
			w->leave = false;
		}
	}
}

static void load_set(struct load *w, struct sock *s, const struct iovec *iov,
		     size_t cnt, size_t len, int flags)
{
	cursor_set(&w->c, iov, cnt);
	w->len = len;
	w->done = 0;
	w->flags = flags;
	w->note = w->noted = w->leave = w->zc.lend = false;
	w->begun = w->urged = w->by_pipe = w->pipe_over = false;
	w->deadline = 0;
	w->naps = 0;
	w->nonblock = s->opt.nonblock || (flags & MSG_DONTWAIT);
	/* one for all that it takes */
	if (unlikely(s->opt.sndtimeo) && !w->nonblock)
		load_deadline(s, w);
}

#define ODD_FLAGS (MSG_OOB | MSG_ZEROCOPY)

/*
 * Can the kernel alone do it? Its own it must be, then, for good. SO_ZEROCOPY
 * by itself changes nothing; programs set it to see if they can.
 */
static bool by_kernel(struct sock *s, int fd, struct load *w)
{
	w->note = (w->flags & MSG_ZEROCOPY) && option_int(fd, SO_ZEROCOPY) > 0;
	return (w->flags & MSG_OOB) || (w->note && !carrier_notes(s));
}

static ssize_t send_fallback(struct sock *s, int fd, const struct msghdr *m,
			     int flags)
{
	enum reason why = flags & MSG_OOB ? WHY_OOB : WHY_SOCKET_OPTION;
	__attribute__((cleanup(tcp_tx_lost))) struct tcp_tx in = { .s = NULL };
	ssize_t n;

	do { /* not paired, it is not lifted from here on either */
		tcp_urgent(s, flags);
		n = lift_leave(s, fd, why);
		if (n)
			return n;
		tcp_urgent(s, flags); /* paired meanwhile */
	} while (!tcp_tx_enter(&in, s));
	n = kernel_send(fd, m, flags);
	tcp_tx_done(&in, s, n);
	return n;
}

static ssize_t send_buffer(struct sock *s, int fd, const void *buf, size_t len,
			   int flags, bool begun)
{
	struct iovec iov = { (void *)buf, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct load w;
	ssize_t n;

	if (unlikely(len > SSIZE_MAX))
		iov.iov_len = len = SSIZE_MAX;
	if (unlikely(!len) || !sock_up(s, fd))
		return kernel_send(fd, &m, flags);
	load_set(&w, s, &iov, 1, len, flags);
	w.begun = begun;
	if (unlikely(flags & ODD_FLAGS) && by_kernel(s, fd, &w))
		return send_fallback(s, fd, &m, flags);
	n = transmit(s, fd, &w, NULL);
	if (unlikely(w.noted))
		notice_keep(s, &w);
	return n;
}

ssize_t sock_send(struct sock *s, int fd, const void *buf, size_t len,
		  int flags)
{
	return send_buffer(s, fd, buf, len, flags, false);
}

ssize_t sock_send_next(struct sock *s, int fd, const void *buf, size_t len,
		       int flags)
{
	return send_buffer(s, fd, buf, len, flags, true);
}

/* Are times of this one to be told? Its control data are sound. */
static bool wants_timestamps(const struct msghdr *m)
{
	struct msghdr copy = *m;
	struct cmsghdr *c;

	if (!mem_good(m->msg_control, m->msg_controllen, false))
		return false;
	for (c = CMSG_FIRSTHDR(&copy); c; c = CMSG_NXTHDR(&copy, c))
		if (c->cmsg_level == SOL_SOCKET &&
		    c->cmsg_type == SO_TIMESTAMPING)
			return true;
	return false;
}

static ssize_t send_message(struct sock *s, int fd, const struct msghdr *m,
			    int flags, bool begun)
{
	struct load w;
	ssize_t len;

	if (!sock_up(s, fd) || unlikely(!iov_message(m)) || !m->msg_iovlen)
		return kernel_send(fd, m, flags);
	if (unlikely(m->msg_controllen) && s->paired) {
		len = tcp_judged(s, fd, m);
		if (len)
			return len;
		if (wants_timestamps(m))
			return send_fallback(s, fd, m, flags);
	}
	len = iov_sum(m->msg_iov, m->msg_iovlen);
	if (len <= 0)
		return kernel_send(fd, m, flags);
	load_set(&w, s, m->msg_iov, m->msg_iovlen, (size_t)len, flags);
	w.begun = begun;
	if (unlikely(flags & ODD_FLAGS) && by_kernel(s, fd, &w))
		return send_fallback(s, fd, m, flags);
	len = transmit(s, fd, &w, m);
	if (unlikely(w.noted))
		notice_keep(s, &w);
	return len;
}

ssize_t sock_sendmsg(struct sock *s, int fd, const struct msghdr *m, int flags)
{
	return send_message(s, fd, m, flags, false);
}

ssize_t sock_sendmsg_next(struct sock *s, int fd, const struct msghdr *m,
			  int flags)
{
	return send_message(s, fd, m, flags, true);
}

ssize_t sock_send_pipe(struct sock *s, int fd, int pipe, size_t n, bool *tcp)
{
	struct load w;
	ssize_t ret;

	*tcp = false;
	load_set(&w, s, NULL, 0, n, 0);
	w.by_pipe = true;
	w.pipe = pipe;
	ret = lock_ours(s, &w);
	if (ret)
		return ret;
	ret = ring_send(s, fd, &w, tcp);
	sock_unlock(s);
	if (unlikely(sock_orphan_fd(s) >= 0))
		reports.left(s);
	if (w.done)
		return (ssize_t)w.done;
	if (!w.pipe_over)
		return ret;
	return w.pipe_said == -EAGAIN ? -ERESTART : w.pipe_said;
}

ssize_t send_file(struct sock *s, int fd, struct file_in *f, size_t n,
		  bool *tcp)
{
	struct load w;
	ssize_t ret;

	*tcp = false;
	load_set(&w, s, NULL, 0, n, 0);
	w.c.file = f;
	w.begun = f->begun;
	f->stop = false;
	ret = lock_ours(s, &w);
	if (ret)
		return ret == -EDEADLK ? -EINTR : ret;
	ret = ring_send(s, fd, &w, tcp);
	sock_unlock(s);
	/* else the call goes on, and whatever it does next ends it */
	if (unlikely(sock_orphan_fd(s) >= 0) && !*tcp && !(f->stop && f->err))
		reports.left(s);
	return w.done ? (ssize_t)w.done : ret;
}
