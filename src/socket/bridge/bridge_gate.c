/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The TCP connection between the program's socket and the gate (bridge.h).
 * Both ends have the address of this host that leads to the peer, so that
 * getsockname() is right for all callers, code that libsdp does not see
 * included.
 */

#include <linux/filter.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>

#include "socket/bridge/bridge.h"

#ifndef TCP_FASTOPEN_CONNECT
#define TCP_FASTOPEN_CONNECT 30
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

#define SIN6_LEN_OLD 24 /* a name without its scope, RFC 2133 */

#define IDLE_S 60 /* then the gate asks whether the program's socket is there */

static socklen_t size_of(const union verbs_addr *a)
{
	return a->sa.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6);
}

static bool anywhere(const union verbs_addr *a)
{
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr);
}

static int name_of(int fd, union verbs_addr *a, bool peer)
{
	socklen_t len = sizeof(*a);

	memset(a, 0, sizeof(*a));
	return peer ? sys_getpeername(fd, a, &len) :
		      sys_getsockname(fd, a, &len);
}

socklen_t gate_door(const struct flow *f, int family, struct sockaddr_in6 *to)
{
	memset(to, 0, sizeof(*to));
	if (f->door.sa.sa_family == AF_INET6 || family == AF_INET) {
		memcpy(to, &f->door, size_of(&f->door));
		return size_of(&f->door);
	}
	to->sin6_family = AF_INET6;
	to->sin6_port = f->door.in.sin_port;
	to->sin6_addr.s6_addr[10] = to->sin6_addr.s6_addr[11] = 0xff;
	memcpy(&to->sin6_addr.s6_addr[12], &f->door.in.sin_addr, 4);
	return sizeof(*to);
}

/*
 * The kernel's routes choose the address: a datagram socket is asked, which
 * sends nothing. What they say of an unreachable peer is connect()'s answer.
 */
int gate_names(struct flow *f, int fd, int family, const struct sockaddr *sa,
	       socklen_t len)
{
	union verbs_addr own;
	int ret, probe;

	/* as TCP; datagram sockets would take it */
	if (family == AF_INET6 && sa->sa_family == AF_INET)
		return len < SIN6_LEN_OLD ? -EINVAL : -EAFNOSUPPORT;
	ret = name_of(fd, &own, false);
	if (ret)
		return ret;
	if (option_int(fd, SO_BINDTOIFINDEX) > 0) {
		log_err("Error: native: a socket that is bound to a device "
			"cannot reach the gate inside this host");
		return -EHOSTUNREACH;
	}
	probe = sys_socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (probe < 0)
		return probe;
	if (!anywhere(&own)) {
		own.in.sin_port = 0;
		ret = sys_bind(probe, &own, size_of(&own));
	}
	if (!ret)
		ret = sys_connect(probe, sa, len);
	if (!ret)
		ret = name_of(probe, &f->local, false);
	if (!ret)
		ret = name_of(probe, &f->peer, true);
	sys_close(probe);
	verbs_addr_plain(&f->local);
	verbs_addr_plain(&f->peer);
	return ret;
}

static int tcp_socket(const union verbs_addr *at)
{
	int fd = sys_socket(at->sa.sa_family,
			    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int one = 1, ret;

	if (fd >= 0)
		fd = fd_hide(fd);
	if (fd < 0)
		return fd;
	ret = sys_setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	if (!ret)
		ret = sys_bind(fd, at, size_of(at));
	if (ret) {
		fd_unhide(fd);
		sys_close(fd);
	}
	return ret ? ret : fd;
}

/* Takes every packet and lets none through; no answer leaves. */
static int listen_deaf(struct flow *f)
{
	struct sock_filter nothing = { BPF_RET | BPF_K, 0, 0, 0 };
	struct sock_fprog filter = { 1, &nothing };
	union verbs_addr at = f->local;
	int ret;

	at.in.sin_port = 0;
	f->listener = tcp_socket(&at);
	if (f->listener < 0)
		return f->listener;
	ret = sys_setsockopt(f->listener, SOL_SOCKET, SO_ATTACH_FILTER, &filter,
			     sizeof(filter));
	if (!ret)
		ret = sys_listen(f->listener, 1);
	return ret ? ret : name_of(f->listener, &f->door, false);
}

/*
 * A connect() that does not wait, on a file that may be blocking: with a limit
 * of next to nothing (a tick of the kernel's clock). The flag O_NONBLOCK would
 * be seen by others that have the file. A signal in that tick ends nothing
 * either: the socket dials.
 */
static int dial_door(struct flow *f, int fd, int family)
{
	struct timeval was, now = { 0, 1 };
	socklen_t len = sizeof(was);
	struct sockaddr_in6 to;
	int ret, off = 0;

	sys_setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &off,
		       sizeof(off));
	ret = sys_getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &was, &len);
	if (!ret)
		ret = sys_setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &now,
				     sizeof(now));
	if (ret)
		return ret;
	len = gate_door(f, family, &to);
	ret = sys_connect(fd, &to, len);
	sys_setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &was, sizeof(was));
	if (ret == -EINPROGRESS || ret == -EINTR)
		return 0;
	return ret ? ret : -EISCONN;
}

int gate_begin(struct flow *f, int fd, int family)
{
	int ret = listen_deaf(f);

	if (!ret)
		ret = dial_door(f, fd, family);
	if (ret)
		return ret;
	ret = name_of(fd, &f->local, false);
	verbs_addr_plain(&f->local);
	if (ret)
		return ret;
	f->held = sys_fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (f->held >= 0)
		f->held = fd_hide(f->held);
	return f->held < 0 ? f->held : 0;
}

int gate_open(struct flow *f)
{
	int one = 1, idle = IDLE_S, ret;

	f->gate = tcp_socket(&f->door);
	if (f->gate < 0)
		return f->gate;
	sys_setsockopt(f->gate, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* an urgent byte is read in its place, SIOCATMARK tells it */
	sys_setsockopt(f->gate, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one));
	/* a peer that never closes is not waited for when nothing else does */
	sys_setsockopt(f->gate, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	sys_setsockopt(f->gate, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	ret = sys_connect(f->gate, &f->local, size_of(&f->local));
	if (ret && ret != -EINPROGRESS)
		return ret;
	return bridge_watch(f);
}

int gate_opened(struct flow *f)
{
	union verbs_addr peer;
	int err = option_int(f->gate, SO_ERROR);

	if (err)
		return err < 0 ? -EBADF : -err;
	return name_of(f->gate, &peer, true) ? 0 : 1;
}

ssize_t gate_peek(int gate, size_t most, bool *urgent)
{
	int mark = 0;
	ssize_t n =
		sys_recv(gate, NULL, most, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);

	/* asked first it would say nothing of a byte that comes in between */
	*urgent = n > 0 && !sys_ioctl(gate, SIOCATMARK, &mark) && mark;
	return *urgent ? 1 : n;
}

void gate_fd_drop(int *fd)
{
	if (*fd < 0)
		return;
	fd_unhide(*fd);
	sys_close(*fd);
	*fd = -1;
}

void gate_settle(struct flow *f)
{
	gate_fd_drop(&f->listener);
	gate_fd_drop(&f->held);
}

void gate_close(struct flow *f, bool reset)
{
	struct linger hard = { 1, 0 };

	if (f->gate >= 0 && reset)
		sys_setsockopt(f->gate, SOL_SOCKET, SO_LINGER, &hard,
			       sizeof(hard));
	/* by hand: a child that was just born may have the file, too */
	bridge_unwatch(f);
	gate_fd_drop(&f->gate);
}
