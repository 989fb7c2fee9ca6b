/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rules are read again, because a word in the page says so (base/page.h,
 * decisions/15): by the service thread, or by the first of the calls that make
 * or name a socket. What connections that exist owe to new rules needs no sleep
 * but a fallback of one that is paired, which the service thread waits for.
 */

#include "base/event.h"
#include "base/guard.h"
#include "base/scratch.h"
#include "base/text.h"
#include "config/config.h"
#include "socket/core/registry.h"
#include "socket/life/life.h"

/* A thread reads, or brings back to TCP; the others go on. */
static uint32_t busy;
/* The service thread was called for this one. */
static uint32_t called;

bool sock_rules_now(enum rule_role role, const struct sockaddr *sa,
		    struct verdict *v)
{
	GUARDED(in);

	*v = config_match(config_now(), role, sa);
	return v->use != USE_TCP;
}

bool sock_rules_changed(void)
{
	return __atomic_load_n(&config_generation, __ATOMIC_RELAXED) != 0;
}

/* As the listener's own name, which is what rules are about. */
bool sock_rules_server(int fd, bool any, struct verdict *v)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	memset(v, 0, sizeof(*v));
	if (sys_getsockname(fd, &ss, &len))
		return true;
	if (any && ss.ss_family == AF_INET)
		((struct sockaddr_in *)&ss)->sin_addr.s_addr = INADDR_ANY;
	else if (any && ss.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&ss)->sin6_addr = in6addr_any;
	return sock_rules_now(ROLE_SERVER, (void *)&ss, v);
}

bool sock_rules_any(const struct sockaddr_storage *ss)
{
	const struct sockaddr_in6 *in6 = (const void *)ss;
	const struct sockaddr_in *in = (const void *)ss;

	return ss->ss_family == AF_INET6 ?
		       IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr) :
		       in->sin_addr.s_addr == INADDR_ANY;
}

/* --- connections that exist ---------------------------------------------- */

/* False: no rule is about it (a listener, family 27, a bridge). */
static bool decided(struct sock *s, int fd, struct verdict *v)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct stat st;

	if (s->id.phase != PH_CONNECTED || s->id.native ||
	    s->id.use == USE_NATIVE)
		return false;
	/* the number may be another file's by now */
	if (fd < 0 || sys_fstat(fd, &st) || st.st_ino != sock_inode(s))
		return false;
	if (s->id.role == ROLE_ACCEPTED) {
		sock_rules_server(fd, s->id.any, v);
		return v->use != USE_NATIVE;
	}
	if (sys_getpeername(fd, &ss, &len))
		return false;
	sock_rules_now(ROLE_CLIENT, (void *)&ss, v);
	return v->use != USE_NATIVE;
}

/*
 * Lock held. A connection that has moved bytes cannot be held up until it is
 * lifted: there `sdp` is as `both`. True: it is to be on TCP now, and was not.
 */
static bool ruled(struct sock *s, const struct verdict *v)
{
	bool tcp = v->use == USE_TCP, was = s->fallback.ruled;

	s->fallback.ruled = tcp;
	if (tcp || was)
		s->id.use = tcp ? USE_TCP : USE_BOTH;
	s->id.rule_line = v->line;
	sock_publish(s);
	return tcp && !was;
}

static bool to_tcp(struct sock *s, struct verdict *v)
{
	return s->paired && !s->fallback.ruled && decided(s, sock_fd(s), v) &&
	       v->use == USE_TCP;
}

struct served {
	uint64_t until;
	struct page_reload *r;
};

/* Asks the peers of all that go back to TCP, before one is waited for. */
static void begin_one(struct sock *s, void *arg)
{
	struct verdict v;

	(void)arg;
	if (to_tcp(s, &v))
		sock_fallback_begin(s, -1, WHY_RULE_CHANGED);
}

static void fallback_one(struct sock *s, void *arg)
{
	struct served *to = arg;
	struct verdict v;
	bool now;

	if (!to_tcp(s, &v) || sock_lock(s))
		return;
	now = ruled(s, &v);
	sock_unlock(s);
	if (!now)
		return;
	if (!sock_fallback_until(s, -1, WHY_RULE_CHANGED, to->until))
		to->r->back++;
	else
		to->r->stay++;
}

/* Lock held: it has not met its peer, and will not. */
static void keep_on_tcp(struct sock *s)
{
	pair_cancel(&s->seek.pair);
	s->fallback.callers++;
	s->seek.look = LOOK_NEVER;
	sock_why(s, WHY_RULE_CHANGED);
}

/*
 * Lock held, a rule allows it: `was`, it was brought back by one; or its peer was
 * not found, and is looked for as if it were new. Other reasons hold on.
 */
static bool seek_again(struct sock *s, bool was)
{
	if (was)
		fallback_unpin(s, true);
	if (!s->paired && !carrier_far(s) && !never_lift(s) &&
	    (was || (s->stats.why == WHY_PEER_DECLINED &&
		     s->seek.look == LOOK_NEVER))) {
		pair_cancel(&s->seek.pair);
		s->seek.probes = s->seek.offer_looks = 0;
		s->seek.turns = 0;
		s->seek.patient_since = 0;
		return s->seek.pair.state == PAIR_NONE;
	}
	return was;
}

/* What can be done without waiting for a peer. */
static void apply_one(struct sock *s, int fd, void *arg)
{
	struct page_reload *r = arg;
	bool was, again = false;
	struct verdict v;

	if (!decided(s, fd, &v) || sock_lock(s))
		return;
	was = s->fallback.ruled;
	if (v.use == USE_TCP && s->paired) {
		r->stay += !was;
	} else if (ruled(s, &v)) {
		keep_on_tcp(s);
		r->back++;
	} else if (v.use != USE_TCP) {
		again = seek_again(s, was);
	}
	sock_unlock(s);
	if (again)
		lift_again(s);
	r->again += again;
}

/* --- the file ------------------------------------------------------------ */

static __attribute__((noinline)) void read_again(struct page_reload *r)
{
	SCRATCH(room);
	struct config_news *news = scratch_take(&room, sizeof(*news));

	r->failed = true;
	if (!news) {
		text_copy(r->said, sizeof(r->said), "no memory");
		return;
	}
	config_reload(news);
	if (lift_off)
		settings.lift_after_messages = LOOK_NEVER;
	r->failed = news->failed;
	r->rules = news->rules;
	text_copy(r->said, sizeof(r->said), news->said);
	event_note(news->failed ? EVENT_REFUSED : EVENT_RULES, 0,
		   (int)news->line, WHY_NONE);
	if (news->failed)
		log_err("RELOAD: the old rules hold: %s", news->said);
	else
		log_note("RELOAD: %u rules%s%s", news->rules,
			 news->said[0] ? "; " : "", news->said);
}

/*
 * What is asked for, behind a reading of the file; 0: nothing, or another
 * thread does it. Otherwise taken() has to follow.
 */
static uint32_t take(struct page_reload *r)
{
	uint32_t asked;

	if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
		return 0;
	asked = __atomic_load_n(&r->asked, __ATOMIC_ACQUIRE);
	if (!asked) {
		__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
	} else if (__atomic_load_n(&r->read, __ATOMIC_RELAXED) != asked) {
		r->back = r->again = r->stay = 0;
		read_again(r);
		__atomic_store_n(&r->read, asked, __ATOMIC_RELEASE);
	}
	return asked;
}

static void taken(struct page_reload *r, uint32_t asked, bool done)
{
	if (done) {
		__atomic_store_n(&r->done, asked, __ATOMIC_RELEASE);
		__atomic_compare_exchange_n(&r->asked, &asked, 0, 0,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

static bool applies(const struct page_reload *r, uint32_t asked)
{
	return (asked & PAGE_ASK_APPLY) && !r->failed;
}

void reload_serve(void)
{
	struct page_reload *r = &page_self->reload;
	struct served to = { .r = r };
	uint32_t asked = take(r);

	if (!asked)
		return;
	if (applies(r, asked)) {
		service_each(begin_one, NULL);
		to.until = sock_fallback_limit();
		service_each(fallback_one, &to);
		hooks.each(apply_one, r);
	}
	taken(r, asked, true);
}

/* Where there is a service thread it does what may take its time. */
void sock_reload(void)
{
	struct page_reload *r = &page_self->reload;
	uint32_t asked = take(r);
	bool served = asked && applies(r, asked) && service_running();

	if (!asked)
		return;
	if (served && called != asked)
		service_poke(service_id());
	else if (!served && applies(r, asked))
		hooks.each(apply_one, r);
	called = asked;
	taken(r, asked, !served);
}

void sock_row_first(void)
{
	if (likely(row_opened()))
		return;
	row_begin();
	if (page_asked())
		sock_reload();
}

void sock_listens(int fd)
{
	if (!row_opened() && option_int(fd, SO_PROTOCOL) == IPPROTO_TCP)
		sock_row_first();
}

void reload_forked(void)
{
	busy = called = 0;
}
