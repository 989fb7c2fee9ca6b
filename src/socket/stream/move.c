/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* splice(): the kernel's while TCP, copied while lifted. */

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/scratch.h"
#include "socket/stream/stream.h"

#define SPLICE_FLAGS                                                        \
	((unsigned int)(SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | \
			SPLICE_F_GIFT))

/* As the kernel; -ERESTART: it is not the kernel's. */
static ssize_t tcp_splice_to(struct sock *s, int fd, int pipe, size_t n,
			     unsigned int flags)
{
	__attribute__((
		cleanup(tcp_tx_lost))) struct tcp_tx held = { .s = NULL };
	ssize_t ret;

	if (lift_tx(s, fd) || !tcp_tx_enter(&held, s))
		return -ERESTART;
	ret = sys_call6(SYS_splice, pipe, 0, fd, 0,
			(long)tcp_tx_piece(s, n, s->opt.nonblock), flags);
	tcp_tx_done(&held, s, ret);
	lift_count(s, fd, ret, true);
	return ret;
}

/* As do_splice() refuses it, which looks at this before any byte. */
static int pipe_sound(int pipe, int mode)
{
	int fl = sys_fcntl(pipe, F_GETFL, 0);
	struct stat st;

	if (fl < 0 || sys_fstat(pipe, &st) || (fl & O_PATH) ||
	    ((fl & O_ACCMODE) != mode && (fl & O_ACCMODE) != O_RDWR))
		return -EBADF;
	return S_ISFIFO(st.st_mode) ? 0 : -EINVAL;
}

/* 0: something happened there; -EAGAIN: it is not to be waited for. */
static int pipe_wait(int pipe, short events, bool wait)
{
	struct pollfd p = { .fd = pipe, .events = events };
	struct timespec now = { 0, 0 };
	int n = sys_ppoll(&p, 1, &now, NULL);

	if (!n && wait && !(sys_fcntl(pipe, F_GETFL, 0) & O_NONBLOCK))
		n = sys_ppoll(&p, 1, NULL, NULL);
	return n > 0 ? 0 : n ? n : -EAGAIN;
}

/* Without waiting, whatever the pipe's flags are. */
static ssize_t pipe_read(int pipe, void *buf, size_t n)
{
	struct iovec iov = { buf, n };
	struct pollfd p = { .fd = pipe, .events = POLLIN };
	struct timespec now = { 0, 0 };
	ssize_t got = sys_call6(SYS_vmsplice, pipe, (long)&iov, 1,
				SPLICE_F_NONBLOCK, 0, 0);

	if (likely(got != -ENOSYS && got != -EPERM))
		return got;
	return sys_ppoll(&p, 1, &now, NULL) ? sys_read(pipe, buf, n) : -EAGAIN;
}

ssize_t load_from_pipe(struct sock *s, struct load *w)
{
	size_t space, left = w->len - w->done;
	struct iovec iov = { .iov_len = PIPE_BUF };
	ssize_t n = 0;
	SCRATCH(room);

	pump_control(s); /* what is due would take their room */
	space = pump_room(s) ? carrier_space(s) : 0;
	if (!space)
		return 0;
	iov.iov_base = scratch_take(&room, PIPE_BUF);
	if (!iov.iov_base) {
		w->pipe_said = -ENOMEM;
		w->pipe_over = true;
		return 0;
	}
	if (iov.iov_len > space)
		iov.iov_len = space;
	if (iov.iov_len > left)
		iov.iov_len = left;
	if (!ring_put_begin(s)) {
		ring_put_end(s);
		return 0;
	}
	w->pipe_said = pipe_read(w->pipe, iov.iov_base, iov.iov_len);
	w->pipe_over = w->pipe_said <= 0;
	if (!w->pipe_over) {
		iov.iov_len = (size_t)w->pipe_said;
		cursor_set(&w->c, &iov, 1);
		/* the reader that asks from here on waits for them (rule 5) */
		s->window.sure = true;
		n = way_out(s, w, iov.iov_len);
		s->window.sure = false;
		if (unlikely(n >= 0 && n < w->pipe_said)) {
			s->conn.fault = "bytes of a pipe found no room";
			n = pump_fail(s, -EPROTO);
		}
	}
	ring_put_end(s);
	return n;
}

/*
 * Pipe to socket. SPLICE_F_NONBLOCK is the pipe's; whether the socket is waited
 * for is O_NONBLOCK's affair.
 */
ssize_t sock_splice_to(struct sock *s, int fd, int pipe, size_t n,
		       unsigned int flags)
{
	ssize_t ret;
	bool tcp;

	for (;;) {
		ret = tcp_splice_to(s, fd, pipe, n, flags);
		if (ret != -ERESTART)
			return ret;
		ret = flags & ~SPLICE_FLAGS ? -EINVAL :
					      pipe_sound(pipe, O_RDONLY);
		if (ret)
			return ret;
		ret = pipe_wait(pipe, POLLIN, !(flags & SPLICE_F_NONBLOCK));
		if (ret == -EINTR && wait_restarts(UINT64_MAX))
			continue;
		if (ret)
			return ret;
		ret = sock_send_pipe(s, fd, pipe, n, &tcp);
		/* else another reader of the pipe was quicker */
		if (ret > 0 || (!tcp && ret != -ERESTART))
			return ret;
	}
}

/*
 * What was received goes into the pipe, now or when another writer has left
 * room again. Without a reader it is lost, as it is when the reader goes a
 * moment later.
 */
static void into_pipe(int pipe, const uint8_t *buf, size_t n)
{
	struct pollfd p = { .fd = pipe, .events = POLLOUT };
	ssize_t put;

	while (n) {
		put = sys_write(pipe, buf, n);
		if (put == -EAGAIN || put == -EINTR) {
			sys_ppoll(&p, 1, NULL, NULL);
			continue;
		}
		if (put < 0)
			return;
		buf += put;
		n -= (size_t)put;
	}
}

/* The kernel's answer then comes with its signal. */
static bool no_reader(int pipe)
{
	struct pollfd p = { .fd = pipe, .events = POLLOUT };
	struct timespec now = { 0, 0 };

	if (sys_ppoll(&p, 1, &now, NULL) <= 0 || !(p.revents & POLLERR))
		return false;
	sys_call3(SYS_tgkill, sys_getpid(), sys_gettid(), SIGPIPE);
	return true;
}

/* The first bytes of a call, or what follows them at once. */
static ssize_t receive(struct sock *s, int fd, void *buf, size_t n,
		       bool follows)
{
	struct iovec iov = { buf, n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	return follows ? sock_recvmsg_next(s, fd, &m, MSG_DONTWAIT) :
			 sock_recv(s, fd, buf, n, 0);
}

/* Socket to pipe: no more than the pipe surely takes. */
ssize_t sock_splice_from(struct sock *s, int fd, int pipe, size_t n,
			 unsigned int flags)
{
	SCRATCH(room);
	uint8_t *buf;
	bool now = flags & SPLICE_F_NONBLOCK;
	ssize_t got, ret;
	size_t done = 0;

	if (unlikely(tx_lifted_elsewhere(s))) {
		ret = user_comes(s, now || s->opt.nonblock ? 0 : UINT64_MAX,
				 false);
		if (ret)
			return ret;
	}
	if (tcp_holds(s) &&
	    (!sock_up(s, fd) || !s->paired || rx_state_seen(s) == ANC_TCP)) {
		struct tcp_rx in = { 0 };

		/* its bytes cannot be told from kicks */
		if (tcp_rx_enter(&in, s) && tcp_rx_hold(&in)) {
			got = sys_call6(SYS_splice, fd, 0, pipe, 0, (long)n,
					flags);
			in.back = true;
			if (got > 0)
				tcp_took(s, in.d, got, false);
			tcp_rx_leave(&in);
			lift_count(s, fd, got, false);
			if (sock_orphan_fd(s) >= 0)
				reports.left(s);
			return got;
		}
		in.back = true;
		tcp_rx_leave(&in);
	}
	ret = flags & ~SPLICE_FLAGS ? -EINVAL : pipe_sound(pipe, O_WRONLY);
	if (ret)
		return ret;
	buf = scratch_take(&room, PIPE_BUF);
	if (!buf)
		return -ENOMEM;
	do {
		/* written whole or not at all */
		size_t want = n - done < PIPE_BUF ? n - done : PIPE_BUF;

		ret = pipe_wait(pipe, POLLOUT, !now && !done);
		if (ret == -EINTR && !done && wait_restarts(UINT64_MAX))
			continue;
		if (!ret && no_reader(pipe))
			ret = -EPIPE;
		if (ret)
			return done ? (ssize_t)done : ret;
		got = receive(s, fd, buf, want, done);
		if (got <= 0)
			return done ? (ssize_t)done : got;
		into_pipe(pipe, buf, (size_t)got);
		done += (size_t)got;
	} while (done < n);
	return (ssize_t)done;
}
