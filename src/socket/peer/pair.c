/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rendezvous on one host (anchor.md section 3). The offering end listens on a
 * name, the answering end connects, makes the segment and sends PAIR; the
 * offering end checks and answers PAIRED. Both check what the other one is.
 */

#include <errno.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>

#include "base/sys.h"
#include "base/text.h"
#include "base/uid.h"
#include "config/settings.h"
#include "socket/peer/peer.h"

#define PAIR_MAGIC   0x72696170706473ull /* "sdppair" */
#define PAIR_VERSION 1
#define HELLO_LEN    56 /* compact [2.6] */

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/* What both messages begin with; native order, one host. */
struct pair_head {
	uint64_t magic;
	uint32_t version, features;
	uint64_t cookie; /* of the sender's anchor, by itself */
	uint64_t seen; /* of the receiver's anchor, by diagnosis */
	uint64_t unused; /* 0 */
	uint8_t token[16];
};

struct pair_ask { /* PAIR, with the memfd */
	struct pair_head h;
	uint64_t size; /* of the segment */
	uint8_t hello[HELLO_LEN];
};

struct pair_answer { /* PAIRED */
	struct pair_head h;
	uint64_t verdict; /* enum reason, WHY_NONE: agreed */
	uint8_t hello[CONN_HELLO_ACK_LEN];
	uint8_t pad[4];
};

/* --- names and proofs -------------------------------------------------- */

static void hex(struct text *t, const uint8_t *p, size_t n)
{
	while (n--)
		text_add(t, "%02x", *p++);
}

/* "\0libsdp/1/NETNS/LOCAL:PORT/PEER:PORT" as the offering end sees it. */
socklen_t pair_name(const struct pair *p, struct sockaddr_un *un)
{
	const struct conn_names *n = &p->names;
	size_t at = n->ipv == 4 ? 12 : 0;
	struct text t = { .buf = un->sun_path + 1,
			  .size = sizeof(un->sun_path) - 1 };
	bool off = p->offering;

	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	text_add(&t, "libsdp/1/%llx/", (unsigned long long)p->netns);
	hex(&t, (off ? n->src : n->dst) + at, 16 - at);
	text_add(&t, ":%u/", off ? n->local_port : n->remote_port);
	hex(&t, (off ? n->dst : n->src) + at, 16 - at);
	text_add(&t, ":%u", off ? n->remote_port : n->local_port);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + t.len);
}

/* The Hello's form of an address: IPv4 in the last four bytes [1.4]. */
static void hello_names(struct pair *p, const struct diag_names *n)
{
	size_t at = n->v4 ? 12 : 0;

	memset(&p->names, 0, sizeof(p->names));
	p->names.ipv = n->v4 ? 4 : 6;
	p->names.local_port = n->local_port;
	p->names.remote_port = n->peer_port;
	memcpy(p->names.src + at, n->local, 16 - at);
	memcpy(p->names.dst + at, n->peer, 16 - at);
	memcpy(&p->names.token, p->token, sizeof(p->names.token));
}

static int get64(int fd, int opt, uint64_t *v)
{
	socklen_t len = sizeof(*v);

	return sys_getsockopt(fd, SOL_SOCKET, opt, v, &len);
}

/* -ENOENT also comes from a kernel that knows no diagnosis of TCP at all. */
static enum reason no_peer(const struct diag_names *n, int err)
{
	struct diag own;

	if (err == -ENOENT && !diag_find(n, false, &own))
		return WHY_REMOTE;
	if (err == -EMFILE || err == -ENFILE)
		return WHY_NO_FD;
	return settings.same_user_without_diag ? WHY_NONE : WHY_NO_DIAG;
}

enum reason pair_begin(struct pair *p, int anchor)
{
	uint64_t netns = 0;
	struct diag_names n;
	struct diag d = { 0 };
	int diff, err = diag_names(anchor, &n);
	enum reason why;

	if (err)
		return err == -ENOTCONN ? WHY_CLOSED : WHY_REMOTE;
	diff = (n.local_port > n.peer_port) - (n.local_port < n.peer_port);
	if (!diff)
		diff = memcmp(n.local, n.peer, 16);
	if (!diff)
		return WHY_SELF;
	if (get64(anchor, SO_NETNS_COOKIE, &netns) ||
	    get64(anchor, SO_COOKIE, &p->cookie))
		return WHY_NETNS;
	err = diag_find(&n, true, &d);
	why = err ? no_peer(&n, err) : WHY_NONE;
	if (why)
		return why;
	if (sys_call3(SYS_getrandom, p->token, sizeof(p->token),
		      1 /* GRND_NONBLOCK */) != sizeof(p->token))
		return WHY_SANDBOX;
	p->peer_cookie = d.cookie;
	p->offering = diff > 0;
	p->netns = netns;
	hello_names(p, &n);
	p->state = PAIR_NONE;
	p->fd = -1;
	return WHY_NONE;
}

/* Without diagnosis only our own user is let through, by a setting. */
static enum reason proof_by_user(struct pair *p, uint32_t uid,
				 const struct pair_head *h)
{
	uint32_t us = sys_geteuid();

	if (!settings.same_user_without_diag)
		return WHY_NO_DIAG;
	if (h)
		p->peer_cookie = h->cookie;
	return uid == us && !uid_unmapped(us) ? WHY_NONE : WHY_OWNER_MISMATCH;
}

/*
 * Does the process at the other end of the unix socket own the other end of
 * the anchor (3.3)? `h`, when it came, says what that process believes to be
 * its own cookie and ours (0: it has no diagnosis).
 */
static enum reason pair_proof(struct pair *p, int anchor,
			      const struct pair_head *h)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	struct diag d;
	int err;

	if (sys_getsockopt(p->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return WHY_OWNER_MISMATCH;
	p->peer_pid = cred.pid;
	if (h && h->seen != p->cookie &&
	    (h->seen || proof_by_user(p, cred.uid, h)))
		return WHY_OWNER_MISMATCH;
	err = diag_peer(anchor, &d);
	if (err == -ENOTCONN || (err == -ENOENT && p->peer_cookie))
		return WHY_CLOSED;
	if (err)
		return proof_by_user(p, cred.uid, h);
	if ((p->peer_cookie && p->peer_cookie != d.cookie) ||
	    (h && h->cookie != d.cookie))
		return WHY_OWNER_MISMATCH;
	/* no file: not accepted yet, so no process can own it, or closed */
	if (!d.inode)
		return d.state == TCP_ESTABLISHED ? WHY_OWNER_MISMATCH :
						    WHY_CLOSED;
	p->peer_cookie = d.cookie;
	if (!uid_unmapped(cred.uid) &&
	    (cred.uid == d.uid || !cred.uid || cred.uid == sys_geteuid()))
		return WHY_NONE;
	return WHY_OWNER_MISMATCH;
}

/* One key of both halves, the same at both ends. */
static void pair_key(struct pair *p)
{
	const uint8_t *half[2] = { p->token, p->peer_token };
	uint64_t w[4], k = PAIR_MAGIC;
	int i;

	memcpy(w, half[p->offering ? 0 : 1], 16);
	memcpy(w + 2, half[p->offering ? 1 : 0], 16);
	for (i = 0; i < 4; i++) { /* murmur's finaliser */
		k = (k ^ w[i]) * 0xff51afd7ed558ccdull;
		k = (k ^ k >> 33) * 0xc4ceb9fe1a85ec53ull;
		k ^= k >> 29;
	}
	p->key = k;
}

static void head_make(const struct pair *p, struct pair_head *h)
{
	*h = (struct pair_head){
		.magic = PAIR_MAGIC,
		.version = PAIR_VERSION,
		.cookie = p->cookie,
		.seen = p->peer_cookie,
	};
	memcpy(h->token, p->token, sizeof(h->token));
}

static bool head_sound(const struct pair_head *h)
{
	return h->magic == PAIR_MAGIC && h->version == PAIR_VERSION;
}

static void head_take(struct pair *p, const struct pair_head *h)
{
	memcpy(p->peer_token, h->token, sizeof(p->peer_token));
	pair_key(p);
}

/* Ports are all that a compact Hello says about the connection. */
static bool names_meet(const struct pair *p, const struct conn_names *peer)
{
	return peer->local_port == p->names.remote_port &&
	       peer->remote_port == p->names.local_port;
}

/* --- steps ------------------------------------------------------------- */

static void fd_drop(struct pair *p)
{
	if (p->fd >= 0) {
		fd_unhide(p->fd);
		sys_close(p->fd);
	}
	p->fd = -1;
}

static enum pair_state fail(struct pair *p, enum reason why)
{
	fd_drop(p);
	shm_unmap(&p->seg);
	p->met = false;
	p->why = why;
	return p->state = PAIR_FAILED;
}

static enum reason socket_reason(int err)
{
	switch (err) {
	case -EMFILE:
	case -ENFILE:
		return WHY_NO_FD;
	case -ENOMEM:
	case -ENOBUFS:
		return WHY_NO_MEMORY;
	case -EADDRINUSE:
		return WHY_NAME_TAKEN;
	default:
		return WHY_NO_UNIX;
	}
}

/* A hidden unix stream socket in p->fd: 0 or a negative errno. */
static int unix_socket(struct pair *p)
{
	int fd = sys_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
			    0);

	if (fd >= 0)
		fd = fd_hide(fd);
	if (fd < 0)
		return fd;
	p->fd = fd;
	return 0;
}

static enum pair_state offer(struct pair *p)
{
	int err = unix_socket(p);
	struct sockaddr_un un;

	if (!err)
		err = sys_bind(p->fd, &un, pair_name(p, &un));
	if (!err)
		err = sys_listen(p->fd, 1);
	if (err)
		return fail(p, socket_reason(err));
	return p->state = PAIR_OFFERED;
}

static void close_rights(const struct cmsghdr *c)
{
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int), i;
	int fd;

	for (i = 0; i < n; i++) {
		memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
		sys_close(fd);
	}
}

/*
 * Receive exactly `len` bytes, with one descriptor when `memfd` is given.
 * 0, -EAGAIN nothing there yet, -ECONNRESET hung up, -EPROTO.
 */
static int take(int sock, void *buf, size_t len, int *memfd)
{
	char ctl[CMSG_SPACE(2 * sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = { buf, len };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = ctl,
		.msg_controllen = sizeof(ctl),
	};
	ssize_t n = sys_recvmsg(sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c;
	int fd = -1;

	if (n < 0)
		return n == -EAGAIN || n == -EINTR ? -EAGAIN : -ECONNRESET;
	for (c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		if (memfd && fd < 0 && c->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		else
			close_rights(c);
	}
	if (!n)
		return -ECONNRESET;
	if (n == (ssize_t)len && (!memfd || fd >= 0) &&
	    !(m.msg_flags & MSG_CTRUNC)) {
		if (memfd)
			*memfd = fd;
		return 0;
	}
	if (fd >= 0)
		sys_close(fd);
	return -EPROTO;
}

static int give(int sock, const void *buf, size_t len, int memfd)
{
	char ctl[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;
	ssize_t n;

	if (memfd >= 0) {
		memset(ctl, 0, sizeof(ctl));
		m.msg_control = ctl;
		m.msg_controllen = sizeof(ctl);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &memfd, sizeof(memfd));
	}
	n = sys_sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n == (ssize_t)len ? 0 : -ECONNRESET;
}

/* Everything the offering end checks in a PAIR; the segment gets mapped. */
static enum reason ask_check(struct pair *p, int anchor,
			     const struct pair_ask *a, int memfd,
			     struct conn *c, const struct conn_params *cp)
{
	struct conn_names peer;
	enum reason why;
	int err;

	if (!head_sound(&a->h))
		return WHY_PROTOCOL;
	why = pair_proof(p, anchor, &a->h);
	if (why)
		return why;
	why = budget_map(a->size);
	if (why)
		return why;
	err = shm_open_seg(&p->seg, memfd, a->size);
	if (err)
		return err == -EPROTO ? WHY_BAD_SEGMENT : budget_refused(err);
	conn_init(c, cp);
	if (conn_on_hello(c, a->hello, sizeof(a->hello), &peer) ||
	    !names_meet(p, &peer))
		return WHY_BAD_HELLO;
	return WHY_NONE;
}

static enum pair_state answer(struct pair *p, int anchor, struct conn *c,
			      const struct conn_params *cp)
{
	struct pair_answer a;
	struct pair_ask ask;
	enum reason why;
	int memfd, err = take(p->fd, &ask, sizeof(ask), &memfd);

	if (err == -EAGAIN)
		return p->state;
	if (err)
		return fail(p,
			    err == -EPROTO ? WHY_PROTOCOL : WHY_PEER_DECLINED);
	why = ask_check(p, anchor, &ask, memfd, c, cp);
	sys_close(memfd);
	memset(&a, 0, sizeof(a));
	a.verdict = why;
	if (!why) {
		head_take(p, &ask.h);
		conn_hello_ack(c, &p->names, a.hello);
		p->records = capture_greeted(&p->names, ask.hello);
		capture_greet(&p->names, a.hello);
	}
	head_make(p, &a.h);
	err = give(p->fd, &a, sizeof(a), -1);
	if (why || err)
		return fail(p, why ? why : WHY_PEER_DECLINED);
	return p->state = PAIR_DONE;
}

static enum pair_state offered(struct pair *p, int anchor, struct conn *c,
			       const struct conn_params *cp)
{
	enum reason why;
	int fd;

	if (!p->met) {
		fd = sys_accept4(p->fd, NULL, NULL,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd == -EAGAIN || fd == -EINTR || fd == -ECONNABORTED)
			return p->state;
		if (fd >= 0)
			fd = fd_hide(fd);
		if (fd < 0)
			return fail(p, socket_reason(fd));
		fd_drop(p);
		p->fd = fd;
		p->met = true;
		/* A stranger is refused whatever it may have to say. */
		why = pair_proof(p, anchor, NULL);
		if (why)
			return fail(p, why);
	}
	return answer(p, anchor, c, cp);
}

/* Connected: check what listens there, make the segment, send PAIR. */
static enum pair_state ask(struct pair *p, int anchor, struct conn *c,
			   const struct conn_params *cp)
{
	enum reason why = pair_proof(p, anchor, NULL);
	uint8_t hello[CONN_HELLO_MAX];
	struct pair_ask a;
	int memfd, err;

	if (!why)
		why = budget_make(&p->ring);
	if (why)
		return fail(p, why);
	memfd = shm_make(&p->seg, p->ring);
	if (memfd < 0)
		return fail(p, budget_refused(memfd));
	memset(&a, 0, sizeof(a));
	head_make(p, &a.h);
	a.size = p->seg.len;
	conn_init(c, cp);
	if (conn_hello(c, &p->names, hello) == HELLO_LEN)
		memcpy(a.hello, hello, HELLO_LEN);
	capture_greet(&p->names, a.hello);
	err = give(p->fd, &a, sizeof(a), memfd);
	sys_close(memfd);
	if (err)
		return fail(p, WHY_PEER_DECLINED);
	return p->state = PAIR_ASKED;
}

static enum pair_state probe(struct pair *p, int anchor, struct conn *c,
			     const struct conn_params *cp,
			     unsigned int max_tries)
{
	int err = p->fd < 0 ? unix_socket(p) : 0;
	struct sockaddr_un un;

	if (err)
		return fail(p, socket_reason(err));
	err = sys_connect(p->fd, &un, pair_name(p, &un));
	if (!err)
		return ask(p, anchor, c, cp);
	if (err != -ECONNREFUSED && err != -EAGAIN && err != -EINTR)
		return fail(p, err == -EPERM || err == -EACCES ?
				       WHY_NO_UNIX :
				       WHY_PEER_DECLINED);
	if (++p->tries >= max_tries)
		return fail(p, WHY_PEER_DECLINED);
	return p->state = PAIR_PROBING;
}

static enum pair_state asked(struct pair *p, int anchor, struct conn *c)
{
	struct pair_answer a;
	struct conn_names peer;
	enum reason why;
	int err = take(p->fd, &a, sizeof(a), NULL);

	if (err == -EAGAIN)
		return p->state;
	if (err)
		return fail(p,
			    err == -EPROTO ? WHY_PROTOCOL : WHY_PEER_DECLINED);
	if (!head_sound(&a.h) || a.verdict >= WHY_COUNT)
		return fail(p, WHY_PROTOCOL);
	if (a.verdict)
		return fail(p, (enum reason)a.verdict);
	why = pair_proof(p, anchor, &a.h);
	if (why)
		return fail(p, why);
	if (conn_on_hello_ack(c, a.hello, sizeof(a.hello), &peer))
		return fail(p, WHY_BAD_HELLO);
	p->records = capture_greeted(&p->names, a.hello);
	head_take(p, &a.h);
	return p->state = PAIR_DONE;
}

enum pair_state pair_step(struct pair *p, int anchor, struct conn *c,
			  const struct conn_params *cp, unsigned int max_tries)
{
	switch (p->state) {
	case PAIR_NONE:
		return p->offering ? offer(p) :
				     probe(p, anchor, c, cp, max_tries);
	case PAIR_OFFERED:
		return offered(p, anchor, c, cp);
	case PAIR_PROBING:
		return probe(p, anchor, c, cp, max_tries);
	case PAIR_ASKED:
		return asked(p, anchor, c);
	default:
		return p->state;
	}
}

void pair_cancel(struct pair *p)
{
	if (p->state != PAIR_OFFERED && p->state != PAIR_PROBING &&
	    p->state != PAIR_ASKED)
		return;
	fd_drop(p);
	shm_unmap(&p->seg);
	p->met = false;
	p->state = PAIR_NONE;
}
