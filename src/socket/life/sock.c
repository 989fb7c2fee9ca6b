/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Birth and names of a sock. */

#include "base/guard.h"
#include "config/rules.h"
#include "socket/life/life.h"

void sock_setup(const struct sock_hooks *h)
{
	hooks = *h;
	sock_pid = sys_getpid();
	reports = (struct sock_reports){
		.background = service_main,
		.left = sock_orphan_end,
		.sleep_left = wait_cancelled,
		.tcp_rx_over = option_left,
		.abandoned = tcp_abandoned,
		.broke = failover_begin,
		.strayed = failover_strayed,
		.revive = failover_revive,
		.kept_is_void = keep_drop,
		.give = rdma_give,
		.put_came = rdma_put_came,
		.zc_paired = zc_paired,
		.zc_offered = zc_offered,
		.zc_freed = zc_freed,
		.zc_reported = zcr_reported,
		.zc_due = zc_tell,
		.zc_over = zcr_over,
		.zc_sink_over = zcr_sink_over,
	};
	if (sock_possible())
		capture_begin();
}

/* --- birth ------------------------------------------------------------- */

static struct sock *sock_make(int fd, int family, bool nonblock)
{
	struct sock *s;

	s = store_get();
	if (!s)
		return NULL;
	s->waits.orphan_fd = -1;
	s->waits.wake = -1;
	s->zc.least = SIZE_MAX;
	s->seek.pair.fd = -1;
	s->tx = &s->local[0];
	s->rx = &s->local[1];
	s->id.family = (uint8_t)family;
	s->opt.nonblock = nonblock;
	s->stats.why = WHY_NEW;
	s->seek.look = LOOK_NEVER;
	s->mem.holder[0].pid = sock_pid;
	s->mem.holder[0].fds = 1;
	s->mem.holder[0].fd = fd;
	row_open(s, fd);
	return s;
}

bool sock_possible(void)
{
	GUARDED(in);

	if (config.disabled || (config.secure && !settings.allow_setuid))
		return false;
	return config_concerns(config_now(), ROLE_CLIENT) ||
	       config_concerns(config_now(), ROLE_SERVER);
}

struct sock *sock_new(int fd, int family, int type, bool native)
{
	struct sock *s;

	if (!native && !sock_possible()) {
		page_add(sockets, 1);
		page_add(reasons[WHY_RULE], 1);
		return NULL;
	}
	s = sock_make(fd, family, type & SOCK_NONBLOCK);
	if (!s)
		return NULL;
	s->id.native = native;
	s->id.use = native ? USE_SDP : USE_BOTH;
	return s;
}

/* A new connection, with what it has from its listener. */
static struct sock *accepted(struct sock *s, int fd)
{
	s->id.role = ROLE_ACCEPTED;
	s->id.phase = PH_CONNECTED;
	log_at(LOG_NOTE, "ACCEPT: accepted fd %d on listener, rule %s", fd,
	       s->id.use == USE_SDP ? "sdp" : "both");
	lift_connected(s, fd);
	return s;
}

bool sock_legacy(struct sock *l, struct sock_legacy *to)
{
	if (l->id.phase != PH_LISTEN || l->id.use == USE_TCP)
		return false;
	if (unlikely(l->stats.row_pid != sock_pid))
		row_miss(l);
	*to = (struct sock_legacy){
		.rcvtimeo = l->opt.rcvtimeo,
		.sndtimeo = l->opt.sndtimeo,
		.rule_line = l->id.rule_line,
		.any = l->id.any,
		.family = l->id.family,
		.use = l->id.use,
		.bars = l->opt.bars,
		.bufs = l->opt.bufs & (uint8_t)~BUF_CLAMP,
		.inq = l->opt.inq,
		.native = l->id.native,
		.linger0 = l->opt.linger0,
		.stamps = l->opt.stamps,
	};
	return true;
}

struct sock *sock_accepted(const struct sock_legacy *from, int fd, int flags)
{
	struct verdict v = { from->use, from->rule_line };
	struct sock *s;

	sock_row_first();
	if (unlikely(sock_rules_changed()) && !from->native &&
	    !sock_rules_server(fd, from->any, &v))
		return NULL;
	s = sock_make(fd, from->family, flags & SOCK_NONBLOCK);
	if (!s)
		return NULL;
	s->id.native = from->native;
	s->id.use = (uint8_t)v.use;
	s->id.rule_line = v.line;
	s->id.any = from->any;
	s->opt.rcvtimeo = from->rcvtimeo;
	s->opt.sndtimeo = from->sndtimeo;
	s->opt.linger0 = from->linger0;
	s->opt.stamps = from->stamps;
	s->opt.inq = from->inq;
	s->opt.bufs = from->bufs;
	option_heir(s, from->bars);
	return accepted(s, fd);
}

struct sock *sock_inherited(int listener, int fd, int flags)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct verdict v;
	struct sock *s;

	if (option_int(listener, SO_PROTOCOL) != IPPROTO_TCP)
		return NULL;
	sock_row_first();
	if (!sock_possible() || sys_getsockname(listener, &ss, &len) ||
	    (ss.ss_family != AF_INET && ss.ss_family != AF_INET6))
		return NULL;
	s = sock_rules_now(ROLE_SERVER, (void *)&ss, &v) ?
		    sock_make(fd, ss.ss_family, flags & SOCK_NONBLOCK) :
		    NULL;
	if (!s)
		return NULL;
	s->id.any = sock_rules_any(&ss);
	s->id.use = (uint8_t)v.use;
	s->id.rule_line = v.line;
	option_inherit(s, fd);
	return accepted(s, fd);
}

bool sock_before_listen(struct sock *s, int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct verdict v = { USE_SDP, 0 };

	if (sock_up(s, fd))
		return true; /* the kernel refuses it */
	if (!s->id.native) {
		if (sys_getsockname(fd, &ss, &len))
			return true;
		sock_rules_now(ROLE_SERVER, (void *)&ss, &v);
		s->id.any = sock_rules_any(&ss);
	}
	s->id.use = (uint8_t)v.use;
	s->id.rule_line = v.line;
	s->id.role = ROLE_ACCEPTED;
	log_at(LOG_NOTE, "LISTEN: fd:%d listening on %s", fd,
	       v.use == USE_TCP ? "TCP" :
	       v.use == USE_SDP ? "SDP" :
				  "both");
	if (v.use == USE_TCP) {
		s->stats.why = WHY_RULE;
		return false;
	}
	s->id.phase = PH_LISTEN;
	s->stats.why = WHY_LISTENER;
	sock_publish(s);
	return true;
}

bool sock_before_connect(struct sock *s, int fd, const struct sockaddr *sa,
			 socklen_t len)
{
	struct verdict v = { USE_BOTH, 0 };
	char buf[64];
	struct text t = TEXT_IN(buf);

	if (len < sizeof(sa->sa_family) || s->id.phase == PH_CONNECTED)
		return true;
	if (sa->sa_family != AF_INET && sa->sa_family != AF_INET6)
		return true;
	if (len >= (sa->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
					       sizeof(struct sockaddr_in6)))
		sock_rules_now(ROLE_CLIENT, sa, &v);
	/*
	 * a program that asks for the family 27 gets SDP, but a rule may say
	 * which
	 */
	if (s->id.native && v.use != USE_NATIVE)
		v = (struct verdict){ USE_SDP, 0 };
	s->id.use = (uint8_t)v.use;
	s->id.rule_line = v.line;
	s->id.role = ROLE_CONNECTED;
	if (log_on(LOG_NOTE)) {
		rule_print_verdict(&t, v);
		log_at(LOG_NOTE, "CONNECT: fd %d: %s", fd, buf);
	}
	if (v.use == USE_TCP)
		s->stats.why = WHY_RULE;
	return v.use != USE_TCP;
}

void sock_after_connect(struct sock *s, int fd, int ret)
{
	if (ret == -EINPROGRESS || ret == -EINTR || ret == -EALREADY) {
		order_connected();
		s->id.phase = PH_CONNECTING;
		return;
	}
	if (ret)
		return;
	order_connected();
	s->id.phase = PH_CONNECTED;
	sock_why(s, option_reason(s));
	lift_connected(s, fd);
}

/* What was said of the end of one connection is not said of the next. */
void sock_dissolved(struct sock *s)
{
	if (sock_lock(s))
		return;
	if (s->paired)
		lift_unpaired(s, s->stats.why);
	s->eos.shut_rd = s->eos.shut_wr = s->eos.rx_eof = false;
	s->eos.rx_ended = false;
	s->eos.rst_told = s->eos.epipe = s->eos.kicked = false;
	s->eos.eaten = 0;
	s->id.port = s->id.peer_port = 0; /* the next one has other names */
	sock_unlock(s);
}

void sock_fork_hold(void)
{
	bridge_hold();
	rdma_hold();
}

void sock_fork_resume(void)
{
	rdma_resume();
	bridge_resume();
}

void sock_renamed(void)
{
	int32_t pid = sys_getpid();

	if (sock_pid == pid)
		return; /* since then threads may have been made */
	sock_pid = pid;
	lock_forked();
	guard_forked();
}

void sock_forked(void)
{
	sock_renamed();
	stamp_forked();
	tcp_forked();
	log_forked();
	row_forked();
	store_forked();
	budget_forked();
	diag_forked();
	service_forked();
	sigblock_forked();
	reload_forked();
	rdma_open_forked();
	rdma_forked();
	bridge_forked();
}
