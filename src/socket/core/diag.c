/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Socket diagnosis (anchor.md 2.3): the kernel's word about the socket at the
 * other end. One netlink socket is kept per process; a caller that finds it
 * busy, or changed under our hands, uses one of its own.
 */

#include <endian.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/lock.h"
#include "base/sys.h"
#include "socket/core/core.h"

static struct lock kept_lock;
static int kept_fd = -1;
static uint64_t kept_ino;
static uint32_t sequence;

static int name_of(const struct sockaddr_storage *ss, uint8_t ip[16],
		   uint16_t *port, bool *v4, uint32_t *scope)
{
	struct sockaddr_in6 a6;
	struct sockaddr_in a4;

	memset(ip, 0, 16);
	if (ss->ss_family == AF_INET) {
		memcpy(&a4, ss, sizeof(a4));
		memcpy(ip, &a4.sin_addr, 4);
		*port = be16toh(a4.sin_port);
		*v4 = true;
		return 0;
	}
	if (ss->ss_family != AF_INET6)
		return -EAFNOSUPPORT;
	memcpy(&a6, ss, sizeof(a6));
	*port = be16toh(a6.sin6_port);
	*v4 = IN6_IS_ADDR_V4MAPPED(&a6.sin6_addr);
	if (*v4)
		memcpy(ip, &a6.sin6_addr.s6_addr[12], 4);
	else
		memcpy(ip, &a6.sin6_addr, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&a6.sin6_addr))
		*scope = a6.sin6_scope_id;
	return 0;
}

int diag_names(int anchor, struct diag_names *n)
{
	struct sockaddr_storage local, peer;
	socklen_t llen = sizeof(local), plen = sizeof(peer);
	bool v4 = false;
	int err;

	memset(n, 0, sizeof(*n));
	memset(&local, 0, sizeof(local));
	memset(&peer, 0, sizeof(peer));
	err = sys_getsockname(anchor, &local, &llen);
	if (!err)
		err = sys_getpeername(anchor, &peer, &plen);
	if (!err)
		err = name_of(&local, n->local, &n->local_port, &n->v4,
			      &n->scope);
	if (!err)
		err = name_of(&peer, n->peer, &n->peer_port, &v4, &n->scope);
	if (!err && v4 != n->v4)
		err = -EAFNOSUPPORT;
	return err;
}

/* A new netlink socket; *ino tells it from anything that takes its place. */
static int diag_open(uint64_t *ino)
{
	struct stat st;
	int fd = sys_socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC,
			    NETLINK_SOCK_DIAG);

	if (fd >= 0)
		fd = fd_hide(fd);
	if (fd < 0)
		return fd;
	*ino = sys_fstat(fd, &st) ? 0 : st.st_ino;
	return fd;
}

static void diag_close(int fd)
{
	fd_unhide(fd);
	sys_close(fd);
}

struct ask {
	struct nlmsghdr nl;
	struct inet_diag_req_v2 req;
};

union answer {
	struct nlmsghdr nl;
	struct {
		struct nlmsghdr nl;
		struct inet_diag_msg msg;
	} ok;
	struct {
		struct nlmsghdr nl;
		struct nlmsgerr e;
	} bad;
	char room[256]; /* attributes are cut off */
};

/* One answer with our number; the kernel has queued it before send returned. */
static int diag_answer(int fd, uint32_t seq, struct diag *d)
{
	struct sockaddr_nl from;
	struct iovec iov;
	union answer a;
	struct msghdr m = {
		.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = &iov,
		.msg_iovlen = 1,
	};
	ssize_t n;

	do {
		iov.iov_base = &a;
		iov.iov_len = sizeof(a);
		m.msg_namelen = sizeof(from);
		n = sys_recvmsg(fd, &m, MSG_DONTWAIT);
		if (n < 0)
			return n == -EAGAIN ? -EIO : (int)n;
	} while (n < (ssize_t)sizeof(a.nl) || from.nl_pid ||
		 a.nl.nlmsg_seq != seq);
	if (a.nl.nlmsg_type == NLMSG_ERROR && n >= (ssize_t)sizeof(a.bad))
		return a.bad.e.error ? a.bad.e.error : -EIO;
	if (a.nl.nlmsg_type != SOCK_DIAG_BY_FAMILY || n < (ssize_t)sizeof(a.ok))
		return -EIO;
	/* No connection of these names: a listener's socket answers. */
	if (a.ok.msg.idiag_state == TCP_LISTEN)
		return -ENOENT;
	d->cookie = (uint64_t)a.ok.msg.id.idiag_cookie[1] << 32 |
		    a.ok.msg.id.idiag_cookie[0];
	d->uid = a.ok.msg.idiag_uid;
	d->inode = a.ok.msg.idiag_inode;
	d->rqueue = a.ok.msg.idiag_rqueue;
	d->state = a.ok.msg.idiag_state;
	return 0;
}

static int diag_ask(int fd, const struct diag_names *n, bool peer,
		    struct diag *d)
{
	struct inet_diag_sockid *id;
	struct ask q;
	ssize_t ret;

	memset(&q, 0, sizeof(q));
	q.nl.nlmsg_len = sizeof(q);
	q.nl.nlmsg_type = SOCK_DIAG_BY_FAMILY;
	q.nl.nlmsg_flags = NLM_F_REQUEST;
	q.nl.nlmsg_seq = __atomic_add_fetch(&sequence, 1, __ATOMIC_RELAXED);
	q.req.sdiag_family = n->v4 ? AF_INET : AF_INET6;
	q.req.sdiag_protocol = IPPROTO_TCP;
	q.req.idiag_states = UINT32_MAX;
	id = &q.req.id;
	id->idiag_sport = htobe16(peer ? n->peer_port : n->local_port);
	id->idiag_dport = htobe16(peer ? n->local_port : n->peer_port);
	memcpy(id->idiag_src, peer ? n->peer : n->local, 16);
	memcpy(id->idiag_dst, peer ? n->local : n->peer, 16);
	id->idiag_if = n->scope;
	id->idiag_cookie[0] = INET_DIAG_NOCOOKIE;
	id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	ret = sys_send(fd, &q, sizeof(q), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (ret != (ssize_t)sizeof(q))
		return ret < 0 ? (int)ret : -EIO;
	return diag_answer(fd, q.nl.nlmsg_seq, d);
}

/* The program may have closed it; the number may be its own now. */
static void kept_check(void)
{
	struct stat st;

	if (kept_fd < 0 || (!sys_fstat(kept_fd, &st) && st.st_ino == kept_ino))
		return;
	fd_unhide(kept_fd);
	kept_fd = -1;
}

/* The kept socket, made or replaced as needed; under its lock. */
static int diag_kept(void)
{
	kept_check();
	if (kept_fd < 0)
		kept_fd = diag_open(&kept_ino);
	return kept_fd;
}

int diag_find(const struct diag_names *n, bool peer, struct diag *d)
{
	int fd, ret = lock_try(&kept_lock);
	uint64_t ino;

	if (!ret) {
		fd = diag_kept();
		ret = fd < 0 ? fd : diag_ask(fd, n, peer, d);
		lock_drop(&kept_lock);
		return ret;
	}
	fd = diag_open(&ino);
	if (fd < 0)
		return fd;
	ret = diag_ask(fd, n, peer, d);
	diag_close(fd);
	return ret;
}

int diag_peer(int anchor, struct diag *d)
{
	struct diag_names n;
	int err = diag_names(anchor, &n);

	return err ? err : diag_find(&n, true, d);
}

/* Nothing is lifted: no descriptor is kept for the next time. */
void diag_rest(void)
{
	if (lock_try(&kept_lock))
		return;
	kept_check();
	if (kept_fd >= 0)
		diag_close(kept_fd);
	kept_fd = -1;
	lock_drop(&kept_lock);
}

bool diag_vacate(int fd)
{
	bool done;

	if (lock_try(&kept_lock))
		return false;
	done = fd_move(&kept_fd, fd);
	lock_drop(&kept_lock);
	return done;
}

void diag_forked(void)
{
	kept_check();
	if (kept_fd >= 0)
		diag_close(kept_fd);
	kept_fd = -1;
	kept_lock = (struct lock){ 0 };
}
