/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sendmsg(), recvmsg() and their plural forms; descriptors that travel over
 * unix sockets (SCM_RIGHTS).
 */
#include "preload/fd/real.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sigdefer.h"
#include "preload/fd/deadline.h"
#include "preload/preload.h"

/* --- descriptors that leave -------------------------------------------- */

enum rights { RIGHTS_BEGIN, RIGHTS_HOME, RIGHTS_UNDO, RIGHTS_FORGET };

/*
 * One descriptor in a control message; -EAGAIN: cannot be brought back to TCP.
 */
static int right_do(int fd, enum rights what, uint64_t until)
{
	if (what == RIGHTS_FORGET) {
		fdt_forget(fd);
		return 0;
	}
	ENTER(e, fd);
	if (!e.sock || sock_listening(e.sock))
		return 0;
	if (what == RIGHTS_BEGIN)
		sock_fallback_begin(e.sock, fd, WHY_FD_PASSED);
	else if (what == RIGHTS_HOME)
		return sock_fallback_until(e.sock, fd, WHY_FD_PASSED, until);
	else
		sock_not_passed(e.sock);
	return 0;
}

static int rights_do(const struct msghdr *m, enum rights what)
{
	const struct cmsghdr *c;
	const unsigned char *at, *end;
	uint64_t until = what == RIGHTS_HOME ? sock_fallback_limit() : 0;
	int fd, ret, worst = 0;

	if (!m || !m->msg_control)
		return 0;
	for (c = CMSG_FIRSTHDR(m); c;
	     c = CMSG_NXTHDR((struct msghdr *)m, (struct cmsghdr *)c)) {
		if (c->cmsg_len < sizeof(*c))
			break;
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		at = CMSG_DATA(c);
		end = (const unsigned char *)c + c->cmsg_len;
		if (end >
		    (const unsigned char *)m->msg_control + m->msg_controllen)
			break;
		for (; end - at >= (long)sizeof(fd); at += sizeof(fd)) {
			memcpy(&fd, at, sizeof(fd));
			ret = right_do(fd, what, until);
			if (ret)
				worst = ret;
		}
	}
	return worst;
}

/* Before descriptors leave: what they carry must be on the anchors. */
static int rights_leave(const struct msghdr *m)
{
	int ret;

	rights_do(m, RIGHTS_BEGIN);
	ret = rights_do(m, RIGHTS_HOME);
	if (ret)
		rights_do(m, RIGHTS_UNDO);
	return ret;
}

static bool has_control(const struct msghdr *m)
{
	return fdt_any && mem_good(m, sizeof(*m), false) && m->msg_control &&
	       m->msg_controllen >= CMSG_LEN(sizeof(int)) &&
	       mem_good(m->msg_control, m->msg_controllen, false);
}

/* The kernel refuses it before it asks for anything else. */
#define COMPAT ((int)0x80000000u) /* MSG_CMSG_COMPAT */

/* An address that a stream has no use for is copied all the same. */
static bool name_bad(const struct msghdr *m)
{
	socklen_t len = m->msg_namelen;

	if (likely(!m->msg_name) || !len)
		return false;
	if (len > sizeof(struct sockaddr_storage))
		len = sizeof(struct sockaddr_storage);
	return (int)m->msg_namelen < 0 || !mem_good(m->msg_name, len, false);
}

/* Now, and not only once: or all of a call is the kernel's, in one piece. */
static bool managed(int fd)
{
	if (likely(!fdt_known(fd)))
		return false;
	ENTER(e, fd);
	return e.sock;
}

/* --- one message ------------------------------------------------------- */

/* On a socket that is none of ours. */
static ssize_t send_real(int fd, const struct msghdr *m, int flags)
{
	ssize_t ret;

	if (likely(!has_control(m)))
		return real_sendmsg(fd, m, flags);
	ret = rights_leave(m);
	if (ret)
		return ret_errno(ret);
	ret = real_sendmsg(fd, m, flags);
	if (ret < 0)
		rights_do(m, RIGHTS_UNDO);
	return ret;
}

/*
 * The messages of one call. In the kernel no handler runs between them: where
 * one has run, the call ends behind the message, as if that handler had ended
 * the wait for the next, and what it sent or received lies behind the call's.
 */
struct series {
	bool begun; /* there was a message */
	uint32_t handlers; /* that had run when the call began */
};

/* From inside: a handler is where the next message would be. */
static bool series_parted(const struct series *in)
{
	return in && in->begun && in->handlers != sigdefer_handlers();
}

static ssize_t send_managed(struct sock *s, int fd, const struct msghdr *m,
			    int flags, struct series *in)
{
	ssize_t ret;

	if (unlikely(series_parted(in)))
		return -EINTR;
	if (in && in->begun)
		ret = sock_sendmsg_next(s, fd, m, flags);
	else
		ret = sock_sendmsg(s, fd, m, flags);
	if (in && ret >= 0)
		in->begun = true;
	return ret;
}

/* `in`: it is one of several, NULL: it is alone. */
static ssize_t send_one(int fd, const struct msghdr *m, int flags,
			struct series *in)
{
	if (likely(!fdt_known(fd)))
		return send_real(fd, m, flags);
	if (unlikely((flags & COMPAT) || !mem_good(m, sizeof(*m), false) ||
		     name_bad(m)))
		return real_sendmsg(fd, m, flags);
	if (unlikely(flags & MSG_FASTOPEN) && managed(fd)) {
		if (!fastopens(fd, m->msg_name, m->msg_namelen))
			return real_sendmsg(fd, m, flags);
		if (do_connect(fd, m->msg_name, m->msg_namelen))
			return -1;
		return send_one(fd, m, flags & ~MSG_FASTOPEN, in);
	}
	FDT_CALL(fd, send_managed(e.sock, fd, m, flags, in),
		 send_real(fd, m, flags));
}

ssize_t do_sendmsg(int fd, const struct msghdr *m, int flags)
{
	return send_one(fd, m, flags, NULL);
}

static ssize_t recv_real(int fd, struct msghdr *m, int flags)
{
	ssize_t ret = real_recvmsg(fd, m, flags);

	if (unlikely(ret >= 0 && has_control(m)))
		rights_do(m, RIGHTS_FORGET);
	return ret;
}

static ssize_t recv_managed(struct sock *s, int fd, struct msghdr *m, int flags,
			    struct series *in)
{
	ssize_t ret;

	if (unlikely(series_parted(in)))
		return -EINTR;
	if (in && in->begun)
		ret = sock_recvmsg_next(s, fd, m, flags);
	else
		ret = sock_recvmsg(s, fd, m, flags);
	if (in && ret >= 0)
		in->begun = true;
	return ret;
}

static ssize_t recv_one(int fd, struct msghdr *m, int flags, struct series *in);

/* What cannot be written back is told when the bytes are taken. */
static ssize_t recv_const(int fd, const struct msghdr *m, int flags,
			  struct series *in)
{
	struct msghdr own = *m;
	ssize_t ret = recv_one(fd, &own, flags, in);

	return ret < 0 ? ret : ret_errno(-EFAULT);
}

static ssize_t recv_one(int fd, struct msghdr *m, int flags, struct series *in)
{
	if (likely(!fdt_known(fd)))
		return recv_real(fd, m, flags);
	if (unlikely((flags & COMPAT) || !mem_good(m, sizeof(*m), false) ||
		     (m->msg_name && (int)m->msg_namelen < 0)))
		return real_recvmsg(fd, m, flags);
	if (unlikely(!mem_good(m, sizeof(*m), true)))
		return recv_const(fd, m, flags, in);
	FDT_CALL(fd, recv_managed(e.sock, fd, m, flags, in),
		 recv_real(fd, m, flags));
}

ssize_t do_recvmsg(int fd, struct msghdr *m, int flags)
{
	return recv_one(fd, m, flags, NULL);
}

/* --- several ----------------------------------------------------------- */

/* At most UIO_MAXIOV messages leave in one call, as in the kernel. */
#define MESSAGES_MAX 1024u

/* How many headers there are in memory. */
static unsigned int messages(const struct mmsghdr *v, unsigned int n)
{
	if (n > MESSAGES_MAX)
		n = MESSAGES_MAX;
	return (unsigned int)(mem_front(v, n * sizeof(*v), false) / sizeof(*v));
}

static int send_rights(int fd, struct mmsghdr *v, unsigned int n, int flags)
{
	unsigned int i;
	int ret;

	for (i = 0; i < n; i++) {
		ret = (int)do_sendmsg(fd, &v[i].msg_hdr, flags);
		if (ret < 0)
			return i ? (int)i : ret;
		v[i].msg_len = (unsigned int)ret;
	}
	return (int)n;
}

/* What of it did not go must not be overtaken by the next message. */
static bool cut_short(const struct msghdr *m, size_t sent)
{
	size_t sum = 0, i;

	for (i = 0; i < m->msg_iovlen; i++)
		sum += m->msg_iov[i].iov_len;
	return sum > sent;
}

int do_sendmmsg(int fd, struct mmsghdr *v, unsigned int n, int flags)
{
	struct series in = { .handlers = sigdefer_handlers() };
	unsigned int i, left;
	ssize_t ret;

	if (likely(!managed(fd))) {
		left = fdt_any ? messages(v, n) : 0;
		for (i = 0; i < left; i++)
			if (has_control(&v[i].msg_hdr))
				return send_rights(
					fd, v,
					n < MESSAGES_MAX ? n : MESSAGES_MAX,
					flags);
		return real_sendmmsg(fd, v, n, flags);
	}
	left = messages(v, n);
	if ((flags & COMPAT) || (n && !left))
		return real_sendmmsg(fd, v, n, flags);
	for (i = 0; i < left; i++) {
		ret = send_one(fd, &v[i].msg_hdr, flags, &in);
		if (ret >= 0 && !mem_good(&v[i], sizeof(*v), true))
			ret = ret_errno(-EFAULT);
		if (ret < 0)
			return i ? (int)i : -1;
		v[i].msg_len = (unsigned int)ret;
		if (cut_short(&v[i].msg_hdr, (size_t)ret))
			return (int)i + 1;
	}
	return (int)i;
}

/* The kernel says first what SO_ERROR would say, as errno. */
static bool error_told(int fd)
{
	int keep = errno, err = 0;
	socklen_t len = sizeof(err);

	if (do_getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = 0;
	errno = err ? err : keep;
	return err != 0;
}

/* The time limit is looked at between messages only, as in the kernel. */
int do_recvmmsg(int fd, struct mmsghdr *v, unsigned int n, int flags,
		struct timespec *ts)
{
	struct series in = { .handlers = sigdefer_handlers() };
	uint64_t end = 0, now;
	unsigned int i, left;
	ssize_t ret;

	if (likely(!managed(fd))) {
		int got = real_recvmmsg(fd, v, n, flags, ts);

		for (i = 0; fdt_any && (int)i < got; i++)
			if (has_control(&v[i].msg_hdr))
				rights_do(&v[i].msg_hdr, RIGHTS_FORGET);
		return got;
	}
	if ((flags & COMPAT) || (ts && !mem_good(ts, sizeof(*ts), false)))
		return real_recvmmsg(fd, v, n, flags, ts);
	if (!v || (ts && (ts->tv_sec < 0 || ts->tv_nsec < 0 ||
			  ts->tv_nsec > 999999999)))
		return real_recvmmsg(fd, v, n, flags, ts);
	if (ts)
		end = dl_after(clock_ns(), dl_span(ts));
	if (!(flags & MSG_ERRQUEUE) && error_told(fd))
		return -1;
	left = messages(v, n);
	if (n && !left)
		return (int)ret_errno(-EFAULT);
	for (i = 0; i < left; i++) {
		ret = recv_one(fd, &v[i].msg_hdr, flags & ~MSG_WAITFORONE, &in);
		if (ret >= 0 && !mem_good(&v[i], sizeof(*v), true))
			ret = ret_errno(-EFAULT);
		if (ret < 0 && !i)
			return -1;
		if (ret < 0)
			break;
		v[i].msg_len = (unsigned int)ret;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (ts && clock_ns() >= end) {
			i++;
			break;
		}
	}
	if (!ts || !i)
		return (int)i;
	if (!mem_good(ts, sizeof(*ts), true))
		return (int)ret_errno(-EFAULT);
	now = clock_ns();
	now = now < end ? end - now : 0;
	ts->tv_sec = (time_t)(now / 1000000000u);
	ts->tv_nsec = (long)(now % 1000000000u);
	return (int)i;
}
