/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A rule `native`: what the program sees of it (bridge.h). */

#include <stddef.h>

#include "socket/bridge/bridge.h"

static enum bridged_state state_of(const struct sock *s)
{
	return bridged_state(&s->bridged);
}

static void forget(struct sock *s)
{
	__atomic_store_n(&s->bridged.word, 0, __ATOMIC_RELEASE);
}

bool sock_bridges(const struct sock *s)
{
	return s->id.use == USE_NATIVE;
}

/* Is there a device at all? As with `sdp`, there is no way by TCP. */
static enum reason possible(void)
{
	enum reason why = rdma_devices_now();

	if (!why && !settings.background_thread)
		why = WHY_NO_THREAD;
	if (!why && !rdma_load())
		why = WHY_NO_VERBS;
	if (why)
		log_once(LOG_ERR,
			 "Error connect: rule kernel-sdp, but %s: refused",
			 why == WHY_REMOTE ? "there is no RDMA device" :
					     reason_text(why));
	return why;
}

/* As getpeername() tells it, whatever lay around the name. */
static void remember(struct sock *s, const struct sockaddr *sa, socklen_t len)
{
	struct bridged *b = &s->bridged;
	bool v4 = sa->sa_family == AF_INET;
	size_t said = v4 ? offsetof(struct sockaddr_in, sin_zero) :
			   sizeof(b->peer);

	memset(b, 0, sizeof(*b));
	b->peer_len = v4 ? sizeof(struct sockaddr_in) : sizeof(b->peer);
	memcpy(&b->peer, sa, len < said ? len : said);
}

/* The socket is as new again, as far as the kernel can do that. */
static void as_new(struct sock *s, int fd)
{
	static const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };

	forget(s);
	s->id.phase = PH_NEW;
	sys_connect(fd, &nowhere, sizeof(nowhere));
	option_int(fd, SO_ERROR); /* the reset of that */
}

static int begin(struct sock *s, int fd, const struct sockaddr *sa,
		 socklen_t len)
{
	struct flow *f = bridge_flow_new();
	int ret;

	if (!f)
		return -ENOMEM;
	f->sock = s;
	ret = gate_names(f, fd, s->id.family, sa, len);
	if (ret) {
		bridge_free(f);
		return ret;
	}
	remember(s, sa, len);
	ret = gate_begin(f, fd, s->id.family);
	if (!ret)
		ret = bridge_submit(f);
	if (ret) {
		log_err("Error connect: rule kernel-sdp, but no gate (%d)",
			ret);
		bridge_free(f);
		as_new(s, fd);
	}
	return ret;
}

/* The program is told of the failure, once. */
static int told(struct sock *s, int fd)
{
	int err = bridged_error(&s->bridged);

	as_new(s, fd);
	return err;
}

/*
 * Where the kernel's connect() goes on; its address does not matter any more.
 */
static void door(const struct sock *s, int fd, struct sockaddr_storage *to,
		 socklen_t *to_len)
{
	*to_len = sizeof(*to);
	memset(to, 0, sizeof(*to));
	if (sys_getsockname(fd, to, to_len))
		to->ss_family = s->id.family;
}

int sock_bridge(struct sock *s, int fd, const struct sockaddr *sa,
		socklen_t len, struct sockaddr_storage *to, socklen_t *to_len)
{
	enum bridged_state now = state_of(s);
	enum reason why = now == BRIDGED_NOT ? possible() : WHY_NONE;
	int ret = 0;

	if (why) {
		sock_why(s, why);
		return -EHOSTUNREACH;
	}
	if (sock_lock(s))
		return -EDEADLK;
	now = state_of(s);
	if (now == BRIDGED_FAILED)
		ret = told(s, fd);
	else if (now == BRIDGED_NOT && s->id.phase != PH_NEW)
		ret = -EISCONN;
	else if (now == BRIDGED_NOT)
		ret = begin(s, fd, sa, len);
	if (!ret && now == BRIDGED_NOT) {
		s->id.phase = PH_CONNECTING;
		if (sys_fcntl(fd, F_GETFL, 0) & O_NONBLOCK)
			ret = -EINPROGRESS;
	}
	sock_unlock(s);
	if (ret)
		return ret;
	door(s, fd, to, to_len);
	return now == BRIDGED_NOT ? 2 : 1;
}

int sock_bridged(struct sock *s, int fd, int ret, bool first)
{
	bool waits = ret == -EINPROGRESS || ret == -EINTR || ret == -EALREADY;

	if (ret == -EALREADY && first)
		return -EINPROGRESS; /* it was the kernel's second */
	if (waits || sock_lock(s))
		return ret;
	if (state_of(s) == BRIDGED_FAILED) {
		ret = told(s, fd);
	} else if (!ret) {
		s->id.phase = PH_CONNECTED;
		lift_connected(s, fd);
	} else if (state_of(s) == BRIDGED_PENDING) {
		as_new(s, fd); /* the kernel gave up first */
		bridge_poke();
	}
	sock_unlock(s);
	return ret;
}

int bridge_error(struct sock *s, int fd)
{
	int err = 0;

	if (sock_lock(s))
		return 0;
	if (state_of(s) == BRIDGED_FAILED)
		err = told(s, fd);
	sock_unlock(s);
	return err;
}

int sock_peername(struct sock *s, struct sockaddr *sa, socklen_t room,
		  socklen_t *len)
{
	const struct bridged *b = &s->bridged;

	if (state_of(s) == BRIDGED_FAILED)
		return -ENOTCONN;
	if (state_of(s) != BRIDGED_UP)
		return 0;
	memcpy(sa, &b->peer, room < b->peer_len ? room : b->peer_len);
	*len = b->peer_len;
	return 0;
}

void sock_bridge_off(struct sock *s)
{
	if (!state_of(s) || sock_lock(s))
		return;
	s->id.phase = PH_NEW; /* it may be connected again */
	bridge_left(s);
	sock_unlock(s);
}

void bridge_left(struct sock *s)
{
	forget(s);
	bridge_poke();
}
