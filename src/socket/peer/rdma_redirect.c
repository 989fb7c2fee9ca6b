/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What listens for requests, and what is asked for. The RDMA port with the
 * number of a TCP port has one listener on a host, but many processes may hold
 * connections of that TCP port: workers that share a listening socket, the
 * children of a server that forks. The first of them has the number. It keeps
 * a desk, a datagram socket with an abstract name made from the number, and
 * the others, which listen on a port of any number, say there what they hold
 * and where they are to be found. An end that dials the number is told so in
 * the REJ and dials again (rdma.c).
 *
 * Ports below 1024 have another number (rdma_port()), perhaps that of a second
 * TCP port: the names tell connections apart.
 *
 * A desk that is not kept refuses: its process has ended, or has no use for
 * the number any more. Then the next one takes it.
 *
 * What is said at a desk proves nothing about a connection; an end that is sent
 * to the wrong process is refused there, by the content check. It is believed
 * only from the user whose socket it is, as the kernel says, and from root.
 *
 * All of it is the service thread's, but for rdma_redirect_forked().
 */

#include "base/table.h"
#include "base/text.h"
#include "base/uid.h"
#include "socket/peer/peer.h"

#define LISTENERS 64
#define SAID	  512 /* connections that others hold */
#define SAID_NS	  3000000000ull /* what was said is believed so long, */
#define AGAIN_NS  500000000ull /* and said anew so often */
#define SOON_NS	  20000000ull
#define KEPT_NS	  30000000000ull /* a listener without a use */
#define STILL_NS  10000000000ull /* its owner says so that often */
#define MAGIC	  0x72644B31u

struct saying {
	uint32_t magic;
	uint16_t port; /* the RDMA port of the sender */
	uint16_t unused;
	struct diag_names names; /* as seen by it */
};

static struct {
	uint16_t port; /* 0: free */
	bool v4, ours; /* the number is ours, else another process has it */
	int desk;
	uint64_t until;
} listeners[LISTENERS] TABLE;

static uint16_t any_port[2]; /* of IPv6, IPv4; found by what is said */

static struct {
	struct diag_names names;
	uint16_t port;
	uint64_t until;
} said[SAID] TABLE;
static bool any_said;

static uint64_t tidy_at;

static int family(bool v4)
{
	return v4 ? AF_INET : AF_INET6;
}

/* --- the desk ---------------------------------------------------------- */

static socklen_t desk_name(struct sockaddr_un *un, bool v4, uint16_t port)
{
	struct text t = { .buf = un->sun_path + 1,
			  .size = sizeof(un->sun_path) - 1 };

	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	text_add(&t, "libsdp/rdma/%d/%u", v4 ? 4 : 6, port);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + t.len);
}

static int dgram_new(void)
{
	return sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			  0);
}

static void desk_close(unsigned int i)
{
	if (listeners[i].desk < 0)
		return;
	fd_unhide(listeners[i].desk);
	sys_close(listeners[i].desk);
	listeners[i].desk = -1;
}

/* Without one (a stranger has the name) the others are not found: on TCP. */
static void desk_open(unsigned int i)
{
	struct sockaddr_un un;
	socklen_t len = desk_name(&un, listeners[i].v4, listeners[i].port);
	int fd = dgram_new(), one = 1;

	if (fd >= 0)
		fd = fd_hide(fd);
	listeners[i].desk = fd;
	if (fd < 0)
		return;
	if (sys_bind(fd, &un, len) ||
	    sys_setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) ||
	    service_watch(fd, &rdma_api)) {
		log_once(LOG_NOTE, "RDMA port %u: nobody can be sent on",
			 listeners[i].port);
		desk_close(i);
	}
}

/* May this user speak for that connection? */
static bool believed(const struct msghdr *m, const struct diag_names *n)
{
	struct cmsghdr *c = CMSG_FIRSTHDR((struct msghdr *)(uintptr_t)m);
	struct ucred cred;
	struct diag d;
	int ret;

	if (!c || c->cmsg_level != SOL_SOCKET ||
	    c->cmsg_type != SCM_CREDENTIALS ||
	    c->cmsg_len != CMSG_LEN(sizeof(cred)))
		return false;
	memcpy(&cred, CMSG_DATA(c), sizeof(cred));
	if (uid_unmapped(cred.uid))
		return false;
	if (!cred.uid)
		return true;
	ret = diag_find(n, false, &d);
	if (!ret)
		return cred.uid == d.uid;
	return ret != -ENOENT && cred.uid == sys_geteuid();
}

static bool same(const struct diag_names *a, const struct diag_names *b)
{
	return a->v4 == b->v4 && a->local_port == b->local_port &&
	       a->peer_port == b->peer_port &&
	       !memcmp(a->local, b->local, 16) && !memcmp(a->peer, b->peer, 16);
}

static void write_down(const struct saying *say)
{
	unsigned int i, at = 0;

	for (i = 0; i < SAID; i++) {
		if (same(&said[i].names, &say->names)) {
			at = i;
			break;
		}
		if (said[i].until < said[at].until)
			at = i;
	}
	said[at].names = say->names;
	said[at].port = say->port;
	said[at].until = clock_ns() + SAID_NS;
	any_said = true;
}

static void hear(int desk)
{
	char ctl[CMSG_SPACE(sizeof(struct ucred))] __attribute__((aligned(8)));
	struct saying say;
	struct iovec iov = { &say, sizeof(say) };
	struct msghdr m;
	ssize_t n;

	for (;;) {
		m = (struct msghdr){ .msg_iov = &iov,
				     .msg_iovlen = 1,
				     .msg_control = ctl,
				     .msg_controllen = sizeof(ctl) };
		n = sys_recvmsg(desk, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n < 0)
			return;
		if (n == (ssize_t)sizeof(say) && say.magic == MAGIC &&
		    say.port && believed(&m, &say.names))
			write_down(&say);
	}
}

uint16_t rdma_redirect_ask(const struct diag_names *n)
{
	uint64_t now = clock_ns();
	unsigned int i;

	for (i = 0; i < LISTENERS; i++)
		if (listeners[i].port && listeners[i].desk >= 0)
			hear(listeners[i].desk);
	for (i = 0; i < SAID; i++)
		if (said[i].until > now && same(&said[i].names, n))
			return said[i].port;
	return 0;
}

/* 0: heard; -ECONNREFUSED: no process keeps that desk. */
static int say_it(const struct rdma *r, uint16_t port)
{
	struct saying say = { .magic = MAGIC,
			      .port = port,
			      .names = r->seek.names };
	struct sockaddr_un un;
	socklen_t len = desk_name(&un, r->seek.names.v4,
				  rdma_port(r->seek.names.local_port));
	int fd = dgram_new();
	ssize_t n;

	if (fd < 0)
		return fd;
	n = sys_sendto(fd, &say, sizeof(say), MSG_DONTWAIT | MSG_NOSIGNAL, &un,
		       len);
	sys_close(fd);
	return n < 0 ? (int)n : 0;
}

/* --- listeners --------------------------------------------------------- */

/* The port of that number, if no other process has it. */
static void take_number(struct verbs *v, unsigned int i)
{
	int ret =
		rdma_api->listen(v, family(listeners[i].v4), listeners[i].port);

	listeners[i].ours = ret >= 0;
	if (ret >= 0)
		desk_open(i);
	else if (ret != -EADDRINUSE)
		log_once(LOG_NOTE, "cannot listen on RDMA port %u: %d",
			 listeners[i].port, ret);
}

static int any_number(struct verbs *v, bool v4)
{
	int ret;

	if (any_port[v4])
		return 0;
	ret = rdma_api->listen(v, family(v4), 0);
	if (ret == -EACCES)
		rdma_denied(); /* of any port: not for want of privilege */
	if (ret > 0)
		any_port[v4] = (uint16_t)ret;
	else
		log_once(LOG_NOTE, "cannot listen on any RDMA port: %d", ret);
	return ret < 0 ? ret : 0;
}

static int listener_of(const struct rdma *r)
{
	uint16_t port = rdma_port(r->seek.names.local_port);
	int i, at = -1;

	for (i = 0; i < LISTENERS; i++) {
		if (listeners[i].port == port &&
		    listeners[i].v4 == r->seek.names.v4)
			return i;
		if (!listeners[i].port)
			at = i;
	}
	if (at < 0) {
		log_once(LOG_WARN, "more than %d RDMA ports", LISTENERS);
		return at;
	}
	listeners[at].port = port;
	listeners[at].v4 = r->seek.names.v4;
	listeners[at].ours = false;
	listeners[at].desk = -1;
	return at;
}

uint64_t rdma_listen(struct verbs *v, const struct rdma *r)
{
	uint64_t now = clock_ns();
	int i = listener_of(r);

	if (i < 0)
		return now + AGAIN_NS;
	listeners[i].until = now + KEPT_NS;
	if (!listeners[i].ours &&
	    (!any_port[r->seek.names.v4] ||
	     say_it(r, any_port[r->seek.names.v4]) == -ECONNREFUSED))
		take_number(v, (unsigned int)i);
	if (listeners[i].ours)
		return now + STILL_NS;
	if (any_number(v, r->seek.names.v4))
		return now + AGAIN_NS;
	return now +
	       (say_it(r, any_port[r->seek.names.v4]) ? SOON_NS : AGAIN_NS);
}

/* Both families go at once, so both have to be without use. */
static bool in_use(uint16_t port, uint64_t now)
{
	unsigned int i;

	for (i = 0; i < LISTENERS; i++)
		if (listeners[i].port == port && listeners[i].until > now)
			return true;
	return false;
}

void rdma_redirect_tidy(struct verbs *v)
{
	uint64_t now = clock_ns();
	unsigned int i;

	for (i = 0; i < LISTENERS; i++)
		if (listeners[i].port && listeners[i].desk >= 0)
			hear(listeners[i].desk);
	if (now < tidy_at)
		return;
	tidy_at = now + 1000000000u;
	for (i = 0; i < LISTENERS; i++) {
		uint16_t port = listeners[i].port;

		if (!port || in_use(port, now))
			continue;
		if (listeners[i].ours)
			rdma_api->unlisten(v, port);
		desk_close(i);
		listeners[i].port = 0;
	}
}

void rdma_unlisten(void)
{
	unsigned int i;

	for (i = 0; i < LISTENERS; i++) {
		if (listeners[i].port)
			desk_close(i);
		listeners[i].port = 0;
	}
	any_port[0] = any_port[1] = 0;
	/* not touched in vain: a forked child pays for each page */
	if (any_said)
		memset(said, 0, sizeof(said));
	any_said = false;
}
