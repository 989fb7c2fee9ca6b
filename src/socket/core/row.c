/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What sdpstat sees of a sock: its row on the page, its reason (P5, D12). */

#include "base/scratch.h"
#include "base/text.h"
#include "socket/core/core.h"

struct page_row sock_spare;
static bool opened; /* the statistics page */

bool row_opened(void)
{
	return opened;
}

static void row_addr(struct page_addr *to, const struct sockaddr_storage *ss)
{
	const struct sockaddr_in6 *v6 = (const void *)ss;
	const struct sockaddr_in *v4 = (const void *)ss;

	memset(to, 0, sizeof(*to));
	to->family = (uint8_t)ss->ss_family;
	if (ss->ss_family == AF_INET) {
		to->port = ntohs(v4->sin_port);
		memcpy(to->ip, &v4->sin_addr, 4);
	} else if (ss->ss_family == AF_INET6) {
		to->port = ntohs(v6->sin6_port);
		memcpy(to->ip, &v6->sin6_addr, 16);
	}
}

void row_begin(void)
{
	if (opened)
		return;
	opened = true;
	page_open(config.program);
}

void row_open(struct sock *s, int fd)
{
	struct page_row *r;

	row_begin();
	page_add(sockets, 1);
	r = page_row_get(fd);
	s->stats.row = r ? r : &sock_spare;
	__atomic_store_n(&s->stats.row_pid, sock_pid, __ATOMIC_RELEASE);
}

#define ROW_LOOK_NS 100000000u

/* Another process may show it, and was not looked at for a while. */
static bool row_due(struct sock *s)
{
	int32_t pid = __atomic_load_n(&s->stats.row_pid, __ATOMIC_RELAXED);

	return pid != sock_pid &&
	       clock_coarse_ns() >=
		       __atomic_load_n(&s->stats.row_look, __ATOMIC_RELAXED);
}

/* A child that ends soon need not show what its parent closed. */
static void row_later(struct sock *s)
{
	__atomic_store_n(&s->stats.row_look, clock_coarse_ns() + ROW_LOOK_NS,
			 __ATOMIC_RELAXED);
}

/* Whose row it was is dead, or has become another program. */
static bool row_ownerless(struct sock *s)
{
	int32_t pid = __atomic_load_n(&s->stats.row_pid, __ATOMIC_ACQUIRE);

	row_later(s);
	if (pid <= 0)
		return !pid;
	sock_holders(s); /* strikes off those that have it no more */
	return !holder_of(s, pid) &&
	       __atomic_compare_exchange_n(&s->stats.row_pid, &pid, 0, 0,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void row_seek(struct sock *s)
{
	if (row_due(s) && row_ownerless(s))
		sock_publish(s);
}

void row_miss(struct sock *s)
{
	if (!row_due(s) || lock_try(&s->lock))
		return;
	row_seek(s);
	sock_unlock(s);
}

/* Whose row it was has it no more: a child shows it from now on. */
static void row_adopt(struct sock *s)
{
	int32_t nobody = 0;
	int fd = sock_fd(s);

	if (fd >= 0 &&
	    __atomic_compare_exchange_n(&s->stats.row_pid, &nobody, -1, 0,
					__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		row_open(s, fd);
}

/* Does its writer's next byte go by SDP? */
static bool on_sdp(struct anc_dir *d)
{
	return anc_state(d) != ANC_TCP && anc_state(d) != ANC_DRAINING;
}

static uint8_t path_of(const struct sock *s, bool lifted)
{
	if (s->id.phase == PH_LISTEN)
		return PATH_LISTEN;
	if (!lifted)
		return PATH_TCP;
	return s->link ? s->link->path : PATH_SHM;
}

/* Apart: the name's room is not on the stack while the page is opened. */
static __attribute__((noinline)) void row_names(struct sock *s, int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct page_row *r = s->stats.row;

	/* short connections are over before sdpstat could look */
	if ((s->seek.turns >= NAMES_AT || s->paired ||
	     s->id.phase == PH_LISTEN) &&
	    !r->local.family && !sys_getsockname(fd, &ss, &len))
		row_addr(&r->local, &ss);
	len = sizeof(ss);
	if (s->id.phase == PH_CONNECTED && r->local.family && !r->peer.family &&
	    !sys_getpeername(fd, &ss, &len))
		row_addr(&r->peer, &ss);
}

void sock_publish(struct sock *s)
{
	struct page_row *r;
	int fd;

	/* tcp_passed_by() looks without the lock */
	__atomic_store_n(&s->stats.tx_shown, s->paired && on_sdp(s->tx),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&s->stats.rx_shown, s->paired && on_sdp(s->rx),
			 __ATOMIC_RELAXED);
	/* the peer brought it back to TCP, for a reason of its own */
	if (s->paired && !s->stats.tx_shown && !s->stats.rx_shown &&
	    s->stats.why == WHY_NONE)
		s->stats.why = WHY_PAIRED;
	if (!s->stats.row_pid)
		row_adopt(s);
	r = s->stats.row;
	if (s->stats.row_pid != sock_pid || r == &sock_spare)
		return;
	fd = sock_fd(s);
	if (fd < 0)
		fd = r->fd; /* closed, not yet gone */
	page_row_begin(r);
	r->fd = fd;
	r->inode = s->id.inode;
	r->role = s->id.role;
	r->rule = s->id.use;
	r->rule_line = s->id.rule_line;
	r->why = (uint32_t)s->stats.why;
	r->state = s->id.phase == PH_LISTEN    ? 1 :
		   s->id.phase == PH_CONNECTED ? 2 :
						 0;
	r->path[0] = path_of(s, s->stats.tx_shown);
	r->path[1] = path_of(s, s->stats.rx_shown);
	if (s->link)
		s->link->row(s, r);
	row_names(s, fd);
	r->inode = s->id.inode;
	page_row_end(r);
}

void row_refresh(struct sock *s)
{
	if (lock_try(&s->lock))
		return;
	sock_publish(s);
	sock_unlock(s);
}

void sock_why(struct sock *s, enum reason why)
{
	if (s->stats.why == why)
		return;
	s->stats.why = why;
	if (why > WHY_PAIRED && why != WHY_LISTENER)
		sock_event(s, EVENT_REASON, why);
	sock_publish(s);
	log_debug("fd %d: %s: %s", sock_fd(s), reason_name(why),
		  reason_text(why));
}

/* One direction carries SDP now: counted once for the connection. */
void sock_is_lifted(struct sock *s)
{
	if (!s->stats.counted)
		page_add(lifted, 1);
	if (!s->stats.counted || s->stats.why != WHY_NONE)
		sock_event(s, EVENT_LIFTED, WHY_NONE);
	s->stats.counted = true;
	s->stats.why = WHY_NONE;
	sock_publish(s);
}

void row_close(struct sock *s)
{
	if (s->stats.row_pid != sock_pid)
		return;
	if (s->stats.counted)
		sock_event(s, EVENT_CLOSED, WHY_NONE);
	if (s->stats.why < 64)
		__atomic_add_fetch(&page_self->c.reasons[s->stats.why], 1,
				   __ATOMIC_RELAXED);
	if (s->stats.row != &sock_spare)
		page_row_put(s->stats.row);
	/* s->row stays good: a thread may be about to count there */
	row_later(s);
	__atomic_store_n(&s->stats.row_pid, 0, __ATOMIC_RELEASE);
}

/* --- last words -------------------------------------------------------- */

/* Said in an earlier line, before an exec that failed. */
static union {
	struct page_counters c;
	uint64_t word[PAGE_WORDS];
} told;

void row_forked(void)
{
	page_forked();
	opened = false;
	memset(&sock_spare, 0, sizeof(sock_spare));
	memset(&told, 0, sizeof(told));
}

static void totals(struct page_counters *c)
{
	page_totals(page_self, page_rows(), c);
	page_fold(c, &sock_spare);
}

void row_tell(bool anyway)
{
	__typeof__(told) *new;
	uint64_t now, any = 0;
	SCRATCH(room);
	size_t i;
	int err;

	if (!config.stats_file[0])
		return;
	new = scratch_take(&room, sizeof(*new));
	if (!new)
		return;
	totals(&new->c);
	for (i = 0; i < PAGE_WORDS; i++) {
		now = new->word[i];
		new->word[i] -= now > told.word[i] ? told.word[i] : now;
		told.word[i] = now;
		any |= new->word[i];
	}
	if (!any && !anyway)
		return;
	err = page_append_json(config.stats_file, &new->c);
	if (err)
		log_warn("no statistics in %s (%d)", config.stats_file, -err);
}
