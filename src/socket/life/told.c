/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the service thread is told: to look, by any process, and to bring
 * sockets back to TCP, by its own user or root (told.h). A socket that was told
 * to stays there.
 */

#include "base/told.h"
#include "base/uid.h"
#include "socket/life/life.h"

struct telling {
	uint64_t inode;
	enum reason why;
	uint64_t until;
	struct told_answer a;
};

static bool meant(struct sock *s, const struct telling *t)
{
	return s->paired && (!t->inode || sock_inode(s) == t->inode);
}

static void begin_one(struct sock *s, void *arg)
{
	const struct telling *t = arg;

	if (meant(s, t))
		sock_fallback_begin(s, -1, t->why);
}

static void fallback_one(struct sock *s, void *arg)
{
	struct telling *t = arg;

	if (!meant(s, t))
		return;
	t->a.found++;
	if (!sock_fallback_until(s, -1, t->why, t->until))
		t->a.home++;
	else if (t->why == WHY_FD_PASSED)
		sock_not_passed(s); /* no other process gets it */
}

/* Not paired yet: it is not in the registry, and never will be. */
static void pin_one(struct telling *t)
{
	struct sock *s;
	int fd;

	s = hooks.by_inode ? hooks.by_inode(t->inode, &fd) : NULL;
	if (!s)
		return;
	t->a.found++;
	if (!sock_fallback(s, fd, t->why))
		t->a.home++;
}

/* Did root or our own user send it, by the kernel's word? */
static bool may_tell(struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	struct ucred cred;

	if (!c || c->cmsg_level != SOL_SOCKET ||
	    c->cmsg_type != SCM_CREDENTIALS ||
	    c->cmsg_len != CMSG_LEN(sizeof(cred)))
		return false;
	memcpy(&cred, CMSG_DATA(c), sizeof(cred));
	return !cred.uid ||
	       (cred.uid == sys_geteuid() && !uid_unmapped(cred.uid));
}

void told_hear(int dgram)
{
	char ctl[CMSG_SPACE(sizeof(struct ucred))] __attribute__((aligned(8)));
	struct sockaddr_un from;
	struct told_ask ask;
	struct iovec iov = { &ask, sizeof(ask) };
	struct msghdr m;
	struct telling t;
	ssize_t n;

	for (;;) {
		m = (struct msghdr){ .msg_name = &from,
				     .msg_namelen = sizeof(from),
				     .msg_iov = &iov,
				     .msg_iovlen = 1,
				     .msg_control = ctl,
				     .msg_controllen = sizeof(ctl) };
		n = sys_recvmsg(dgram, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n < 0)
			return;
		if (n != (ssize_t)sizeof(ask) ||
		    (ask.magic != TOLD_HOME && ask.magic != TOLD_PASSED) ||
		    (ask.magic == TOLD_PASSED && !ask.inode) || !may_tell(&m))
			continue;
		t = (struct telling){ .inode = ask.inode,
				      .why = ask.magic == TOLD_HOME ?
						     WHY_REQUESTED :
						     WHY_FD_PASSED,
				      .a.magic = ask.magic };
		service_each(begin_one, &t);
		t.until = sock_fallback_limit();
		service_each(fallback_one, &t);
		if (!t.a.found && t.inode)
			pin_one(&t);
		log_note("TOLD: %u of %u sockets fell back", t.a.home,
			 t.a.found);
		sys_sendto(dgram, &t.a, sizeof(t.a),
			   MSG_DONTWAIT | MSG_NOSIGNAL, &from, m.msg_namelen);
	}
}
