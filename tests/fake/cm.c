/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The connection manager of pretended devices, see fake.h. */

#include <fcntl.h>
#include <stdio.h>

#include "fake.h"

static void watch(struct verbs *v, int fd, uint32_t events, void *who, int op)
{
	struct epoll_event ev = { .events = events, .data.ptr = who };

	sys_epoll_ctl(v->ep, op, fd, &ev);
}

/* --- set-up ------------------------------------------------------------ */

static struct fend *end_new(struct verbs *v, int fd, uint64_t tag)
{
	struct fend *e = calloc(1, sizeof(*e));
	int i, on = 1;

	sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	e->end = (struct end){ &fake_ops, VERBS_RCV_MAX, VERBS_RCV_REST };
	e->v = v;
	e->fd = fd;
	e->tag = tag;
	e->gate = fake_gate();
	e->last = &e->first;
	e->held_last = &e->held;
	e->sent_last = &e->sent;
	fake_rx_init(e);
	pthread_mutex_init(&e->lock, NULL);
	pthread_mutex_lock(&v->lock);
	for (i = 0; i < ENDS && v->ends[i]; i++)
		;
	if (i < ENDS)
		v->ends[i] = e;
	pthread_mutex_unlock(&v->lock);
	return e;
}

static int hidden(struct verbs *v, int fd)
{
	return fd >= 0 && v->host.hide ? v->host.hide(fd) : fd;
}

int fake_fails(const char *what)
{
	const char *at = getenv("FAKE_FAIL");
	size_t len = strlen(what);

	return at && !strncmp(at, what, len) && at[len] == ':' ?
		       -atoi(at + len + 1) :
		       0;
}

static int v_open(struct verbs **out, const struct verbs_conf *conf)
{
	struct verbs *v;

	/* FAKE_HARD: they pretend to be real ones */
	if (!conf->allow_soft_rdma && !getenv("FAKE_HARD"))
		return -EOPNOTSUPP;
	if (fake_fails("open"))
		return fake_fails("open");
	v = calloc(1, sizeof(*v));
	v->host = conf->host;
	v->uid = sys_geteuid();
	pthread_mutex_init(&v->lock, NULL);
	v->ep = hidden(v,
		       (int)sys_call3(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0));
	v->bell = hidden(v, (int)sys_call3(SYS_eventfd2, 0,
					   EFD_CLOEXEC | EFD_NONBLOCK, 0));
	watch(v, v->bell, EPOLLIN, &v->bell, EPOLL_CTL_ADD);
	*out = v;
	return 0;
}

static void fd_drop(struct verbs *v, int fd)
{
	if (v->host.unhide)
		v->host.unhide(fd);
	sys_close(fd);
}

/* As librdmacm's locks: a fork without them may inherit one that is taken. */
static void v_hold(struct verbs *v)
{
	pthread_mutex_lock(&v->lock);
	v->held = true;
}

static void v_resume(struct verbs *v)
{
	v->held = false;
	pthread_mutex_unlock(&v->lock);
}

static void v_forget(struct verbs *v);

static void v_close(struct verbs *v)
{
	v->held = true;
	v_forget(v);
}

static void v_forget(struct verbs *v)
{
	int i;

	if (!v->held)
		abort(); /* forked without hold() */
	for (i = 0; i < v->listeners; i++)
		fd_drop(v, v->l[i].fd);
	for (i = 0; i < ENDS; i++)
		if (v->ends[i])
			fd_drop(v, v->ends[i]->fd);
	for (i = 0; i < REQS; i++)
		if (v->reqs[i])
			fd_drop(v, v->reqs[i]->fd);
	fd_drop(v, v->ep);
	fd_drop(v, v->bell);
	free(v);
}

static int v_fd(const struct verbs *v)
{
	return v->ep;
}

static uint64_t v_patience(const struct verbs *v)
{
	(void)v;
	return getenv("FAKE_DOWN") || getenv("FAKE_DEAF") ||
			       getenv("FAKE_HOLD") ?
		       20000000u :
		       UINT64_MAX;
}

static int v_listen(struct verbs *v, int family, uint16_t port)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof(in);
	int on = 1, ret, fd;

	if (fake_denied(v))
		return -EACCES;
	if (v->listeners == LISTENERS)
		return -ENOMEM;
	if (port && port < 1024 && v->uid)
		return -EACCES; /* as in TCP (rdma-facts.md 1.9) */
	in6.sin6_port = in.sin_port = port ? htons(PORT(port)) : 0;
	fd = hidden(v,
		    sys_socket(family,
			       SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return fd;
	sys_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (family == AF_INET)
		ret = sys_bind(fd, &in, sizeof(in));
	else
		ret = sys_bind(fd, &in6, sizeof(in6));
	if (!ret)
		ret = sys_listen(fd, 64);
	if (ret) {
		fd_drop(v, fd);
		return ret;
	}
	/* the port is at the same place in both */
	if (!port && !sys_getsockname(fd, &in, &len))
		port = PORT(ntohs(in.sin_port));
	v->l[v->listeners].fd = fd;
	v->l[v->listeners++].port = port;
	watch(v, fd, EPOLLIN, v, EPOLL_CTL_ADD);
	return port;
}

static void v_unlisten(struct verbs *v, uint16_t port)
{
	int i;

	for (i = v->listeners; i--;)
		if (v->l[i].port == port) {
			fd_drop(v, v->l[i].fd);
			v->l[i] = v->l[--v->listeners];
		}
}

static int dial(struct verbs *v, const union verbs_addr *peer, uint16_t port,
		uint64_t tag, struct end **end)
{
	union verbs_addr to = *peer;
	socklen_t len = sizeof(to.in6);
	struct fend *e;
	int fd, ret;

	if (fake_denied(v))
		return -EACCES;
	if (fake_down())
		return -EHOSTUNREACH;
	if (fake_fails("dial"))
		return fake_fails("dial");
	to.in.sin_port = htons(port);
	fd = hidden(v,
		    sys_socket(to.sa.sa_family,
			       SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return fd;
	if (to.sa.sa_family == AF_INET)
		len = sizeof(to.in);
	ret = sys_connect(fd, &to, len);
	if (ret && ret != -EINPROGRESS) {
		fd_drop(v, fd);
		return ret;
	}
	e = end_new(v, fd, tag);
	e->connecting = e->active = true;
	watch(v, fd, EPOLLOUT, e, EPOLL_CTL_ADD);
	*end = &e->end;
	return 0;
}

static int v_dial(struct verbs *v, const union verbs_addr *local,
		  const union verbs_addr *peer, uint64_t tag, struct end **end)
{
	(void)local;
	return dial(v, peer, PORT(ntohs(peer->in.sin_port)), tag, end);
}

static int v_dial_native(struct verbs *v, const union verbs_addr *local,
			 const union verbs_addr *peer, uint64_t tag,
			 struct end **end)
{
	int ret =
		dial(v, peer, NATIVE_PORT(ntohs(peer->in.sin_port)), tag, end);

	(void)local;
	if (!ret)
		of(*end)->native = true;
	return ret;
}

static int v_connect(struct end *end, const uint8_t *req)
{
	return fake_frame(of(end), REQ, req,
			  of(end)->native ? VERBS_REQ_LONG : VERBS_REQ_LEN);
}

static int v_establish(struct end *end)
{
	struct fend *e = of(end);
	int ret = fake_frame(e, RTU, NULL, 0);

	e->up = true;
	fake_who(e);
	if (!ret)
		fake_tell_end(e, VE_UP, 0);
	return ret;
}

static void req_drop(struct verbs *v, struct verbs_request *q)
{
	int i;

	for (i = 0; i < REQS; i++)
		if (v->reqs[i] == q)
			v->reqs[i] = NULL;
	free(q);
}

/*
 * A child may have the descriptor for a moment longer: closed, it would still be
 * told of, by the address of whatever comes to lie there.
 */
static void req_end(struct verbs *v, struct verbs_request *q)
{
	watch(v, q->fd, 0, q, EPOLL_CTL_DEL);
	fd_drop(v, q->fd);
	req_drop(v, q);
}

static int v_prepare(struct verbs *v, struct verbs_request *q, uint64_t tag,
		     struct end **end)
{
	struct fend *e;

	if (fake_fails("prepare"))
		return fake_fails("prepare");
	fake_slow();
	e = end_new(v, q->fd, tag);
	watch(v, e->fd, EPOLLIN | EPOLLRDHUP, e, EPOLL_CTL_ADD);
	req_drop(v, q);
	*end = &e->end;
	return 0;
}

static int v_accept(struct end *end, const uint8_t rep[VERBS_REP_LEN])
{
	int ret = fake_frame(of(end), REP, rep, VERBS_REP_LEN);

	fake_who(of(end));
	return ret;
}

static int v_refuse(struct verbs *v, struct verbs_request *q, const void *data,
		    size_t len)
{
	uint8_t f[FRAME_HEAD + VERBS_REJ_LEN] = { REJ, 0, 0, 0, VERBS_REJ_LEN };

	if (data)
		memcpy(f + FRAME_HEAD, data, len);
	sys_send(q->fd, f, sizeof(f), MSG_DONTWAIT | MSG_NOSIGNAL);
	req_end(v, q);
	return 0;
}

/* --- events ------------------------------------------------------------ */

static void met(struct verbs *v, uint16_t port, int fd)
{
	struct verbs_request *q = calloc(1, sizeof(*q));
	int i;

	for (i = 0; i < REQS && v->reqs[i]; i++)
		;
	if (i == REQS) {
		free(q);
		fd_drop(v, fd);
		return;
	}
	v->reqs[i] = q;
	q->fd = fd;
	q->port = port;
	watch(v, fd, EPOLLIN, q, EPOLL_CTL_ADD);
}

static void asked(struct verbs *v, struct verbs_request *q)
{
	struct verbs_event ev = { .type = VE_REQUEST,
				  .request = q,
				  .port = q->port,
				  .len = VERBS_REQ_LEN };
	socklen_t len = sizeof(ev.peer);
	ssize_t n = sys_recv(q->fd, q->in + q->got, sizeof(q->in) - q->got,
			     MSG_DONTWAIT);

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		req_end(v, q);
		return;
	}
	q->got += (uint32_t)n;
	if (q->got < sizeof(q->in))
		return;
	/* it is answered now, even where its other end has gone */
	watch(v, q->fd, 0, q, EPOLL_CTL_DEL);
	memcpy(ev.data, q->in + FRAME_HEAD, VERBS_REQ_LEN);
	sys_getpeername(q->fd, &ev.peer, &len);
	len = sizeof(ev.local);
	sys_getsockname(q->fd, &ev.local, &len);
	fake_tell(v, &ev);
}

static void moved(struct fend *e, uint32_t events)
{
	socklen_t len = sizeof(int);
	int err = 0;
	bool over;

	if (e->connecting) {
		e->connecting = false;
		sys_getsockopt(e->fd, SOL_SOCKET, SO_ERROR, &err, &len);
		watch(e->v, e->fd, EPOLLIN | EPOLLRDHUP, e, EPOLL_CTL_MOD);
		fake_tell_end(e, err ? VE_FAILED : VE_READY, -err);
		return;
	}
	if (e->broken || (e->up && fake_down())) {
		watch(e->v, e->fd, 0, e, EPOLL_CTL_DEL);
		e->missed = !e->broken;
		return;
	}
	/*
	 * once it is up, what comes is taken in by threads that have its lock:
	 * one of them may be walking over what is not acknowledged
	 */
	pthread_mutex_lock(&e->lock);
	if (!e->up)
		fake_intake(e);
	over = e->eof || e->error ||
	       (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
	pthread_mutex_unlock(&e->lock);
	if (over) {
		watch(e->v, e->fd, 0, e, EPOLL_CTL_DEL);
		if (!e->told)
			fake_tell_end(e, e->up ? VE_DOWN : VE_FAILED,
				      e->up ? e->error : -ECONNRESET);
		e->told = true;
		return;
	}
	if (!e->up)
		return;
	/* silent until it is armed again */
	pthread_mutex_lock(&e->lock);
	watch(e->v, e->fd, EPOLLRDHUP, e, EPOLL_CTL_MOD);
	if (e->armed)
		fake_tell_end(e, VE_READABLE, 0);
	e->armed = false;
	pthread_mutex_unlock(&e->lock);
}

/* The way is back, or its absence lasts too long. */
static void tick(struct verbs *v)
{
	int k;

	for (k = 0; getenv("FAKE_DEAF") && k < ENDS; k++)
		if (v->ends[k] && v->ends[k]->up)
			fake_patience(v->ends[k]);
	for (k = 0; getenv("FAKE_DOWN") && k < ENDS; k++) {
		struct fend *e = v->ends[k];

		if (!e || fake_silent(e) || !e->missed)
			continue;
		e->missed = false;
		watch(v, e->fd, EPOLLIN | EPOLLRDHUP, e, EPOLL_CTL_ADD);
	}
}

/* Calls at listeners. */
static void accept_at(struct verbs *v, int k)
{
	const int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
	int fd;

	while ((fd = hidden(v, sys_accept4(v->l[k].fd, NULL, NULL, flags))) >=
	       0)
		met(v, v->l[k].port, fd);
}

/* One descriptor of the set is ready. */
static void look(struct verbs *v, const struct epoll_event *ev)
{
	void *who = ev->data.ptr;
	uint64_t sink;
	int k;

	if (who == &v->bell) {
		sys_read(v->bell, &sink, 8);
		return;
	}
	if (who == v) {
		for (k = 0; k < v->listeners; k++)
			accept_at(v, k);
		return;
	}
	for (k = 0; k < REQS; k++)
		if (who == v->reqs[k] && who)
			asked(v, who);
	for (k = 0; k < ENDS; k++)
		if (who == v->ends[k] && who)
			moved(who, ev->events);
}

/* FAKE_HOLD: nothing is up before it is gone; that it waits is shown. */
static bool kept_back(const struct verbs_event *ev)
{
	const char *file = getenv("FAKE_HOLD");
	char shown[256];
	int fd;

	if (ev->type != VE_UP || !file || !*file ||
	    sys_call3(SYS_access, (long)file, 0, 0))
		return false;
	snprintf(shown, sizeof(shown), "%s.waits", file);
	fd = (int)sys_call3(SYS_open, (long)shown, O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		sys_close(fd);
	return true;
}

/* The oldest event that is not told yet. */
static bool told(struct verbs *v, struct verbs_event *out)
{
	bool some;

	do {
		pthread_mutex_lock(&v->lock);
		some = v->get != v->put && !kept_back(&v->q[v->get % 256]);
		if (some)
			*out = v->q[v->get++ % 256];
		pthread_mutex_unlock(&v->lock);
	} while (some && out->type == VE_NONE);
	return some;
}

static int v_event(struct verbs *v, struct verbs_event *out)
{
	struct epoll_event ev[32];
	uint64_t sink;
	int n, i;

	if (fake_denied(v))
		return -EACCES;
	sys_read(v->bell, &sink, 8);
	tick(v);
	for (;;) {
		if (told(v, out))
			return 1;
		n = (int)sys_call6(SYS_epoll_pwait, v->ep, (long)ev, 32, 0, 0,
				   8);
		for (i = 0; i < n; i++)
			look(v, &ev[i]);
		if (n <= 0 || v->get == v->put ||
		    kept_back(&v->q[v->get % 256]))
			return 0;
	}
}

static int v_unacked(struct end *end, uint32_t *pos, struct fab_msg *m)
{
	struct fend *e = of(end);

	e->walk = *pos ? e->walk->next : e->sent;
	if (!e->walk)
		return 0;
	*m = (struct fab_msg){ .mem = e->walk->mem,
			       .len = e->walk->len,
			       .held = true };
	++*pos;
	return 1;
}

static void v_probe(struct end *end)
{
	fake_probe(of(end));
}

static void v_disconnect(struct end *end)
{
	if (of(end)->broken && getenv("FAKE_DEAF"))
		return;
	/* what the peer still sends must not make a reset of this */
	fake_frame(of(end), DREQ, NULL, 0);
	sys_shutdown(of(end)->fd, SHUT_WR);
}

static int v_resize(struct end *end, uint32_t size, uint16_t count)
{
	return fake_rx_resize(of(end), size, count);
}

static int v_shed(struct end *end)
{
	end->ops->release(end);
	return 0;
}

__attribute__((visibility("default"))) const struct verbs_api libsdp_verbs = {
	.version = VERBS_API,
	.open = v_open,
	.close = v_close,
	.hold = v_hold,
	.resume = v_resume,
	.forget = v_forget,
	.fd = v_fd,
	.event = v_event,
	.patience = v_patience,
	.listen = v_listen,
	.unlisten = v_unlisten,
	.dial = v_dial,
	.dial_native = v_dial_native,
	.connect = v_connect,
	.establish = v_establish,
	.prepare = v_prepare,
	.accept = v_accept,
	.refuse = v_refuse,
	.arm = fake_arm,
	.ear = fake_ear,
	.deaf = fake_deaf,
	.heard = fake_heard,
	.unacked = v_unacked,
	.flushed = fake_flushed,
	.probe = v_probe,
	.disconnect = v_disconnect,
	.resize = v_resize,
	.shed = v_shed,
	.drop = fake_drop,
	.info = fake_info,
	.reg = fake_reg,
	.dereg = fake_dereg,
	.reg_from = fake_reg_from,
};
