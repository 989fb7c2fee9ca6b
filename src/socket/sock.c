/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Birth, names, holders and death of a sock. */

#include "base/arena.h"
#include "socket/impl.h"

struct sock_hooks hooks;
int32_t sock_pid;
static int32_t forker; /* the process that forked this one */
struct page_row sock_spare;

static struct arena arena = ARENA_INIT(sizeof(struct sock));
static bool opened; /* the statistics page */

void sock_setup(const struct sock_hooks *h)
{
	hooks = *h;
	sock_pid = sys_getpid();
}

/*
 * The lock was not free in the ordinary way: its owner was killed inside
 * (what it guarded may be half changed: the stream cannot be trusted), or
 * this thread holds it and we are in a signal handler.
 */
int sock_lock_odd(struct sock *s, int ret)
{
	if (ret == -EOWNERDEAD) {
		log_err("Error: a process died inside socket inode %llu",
			(unsigned long long)s->inode);
		if (s->paired)
			conn_on_lost(&s->conn, -ECONNRESET);
		return 0;
	}
	return -EINTR;
}

/* --- the page's row ---------------------------------------------------- */

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

void sock_publish(struct sock *s)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct page_row *r = s->row;
	int fd;

	if (s->row_pid != sock_pid || r == &sock_spare)
		return;
	fd = r->fd;
	page_row_begin(r);
	r->inode = s->inode;
	r->role = s->role;
	r->rule = s->use;
	r->rule_line = s->rule_line;
	r->why = (uint32_t)s->why;
	r->state = s->phase == PH_LISTEN ? 1 : s->phase == PH_CONNECTED ? 2 : 0;
	r->path[0] = s->phase == PH_LISTEN		      ? PATH_LISTEN :
		     anc_state(s->tx) != ANC_RAW && s->paired ? PATH_SHM :
								PATH_TCP;
	r->path[1] = s->phase == PH_LISTEN		      ? PATH_LISTEN :
		     anc_state(s->rx) != ANC_RAW && s->paired ? PATH_SHM :
								PATH_TCP;
	/* short connections are over before anybody could look */
	if ((s->turns >= NAMES_AT || s->paired || s->phase == PH_LISTEN) &&
	    !r->local.family && !sys_getsockname(fd, &ss, &len))
		row_addr(&r->local, &ss);
	len = sizeof(ss);
	if (s->phase == PH_CONNECTED && r->local.family && !r->peer.family &&
	    !sys_getpeername(fd, &ss, &len))
		row_addr(&r->peer, &ss);
	r->inode = s->inode;
	page_row_end(r);
}

void sock_why(struct sock *s, enum reason why)
{
	if (s->why == why)
		return;
	s->why = why;
	sock_publish(s);
	log_debug("fd %d: %s: %s", sock_fd(s), reason_name(why),
		  reason_text(why));
}

/* One direction carries SDP now: counted once for the connection. */
void sock_is_lifted(struct sock *s)
{
	if (!s->counted)
		page_add(lifted, 1);
	s->counted = true;
	s->why = WHY_NONE;
	sock_publish(s);
}

static void row_open(struct sock *s, int fd)
{
	if (!opened) {
		opened = true;
		page_open(config.program);
	}
	page_add(sockets, 1);
	s->row = page_row_get(fd);
	if (!s->row)
		s->row = &sock_spare;
	s->row_pid = sock_pid;
}

static void row_fold(const struct page_row *r)
{
	page_add(bytes_sdp_tx, r->bytes_sdp_tx);
	page_add(bytes_sdp_rx, r->bytes_sdp_rx);
	page_add(bytes_tcp_tx, r->bytes_tcp_tx);
	page_add(bytes_tcp_rx, r->bytes_tcp_rx);
	page_add(msgs_tx, r->msgs_tx);
	page_add(msgs_rx, r->msgs_rx);
	page_add(wakeups_tx, r->wakeups);
	page_add(homecomings, r->homecomings);
}

static void row_close(struct sock *s)
{
	if (s->row_pid != sock_pid)
		return;
	if (s->row != &sock_spare)
		row_fold(s->row);
	if (s->why < 64)
		__atomic_add_fetch(&page_self->c.reasons[s->why], 1,
				   __ATOMIC_RELAXED);
	if (s->row != &sock_spare)
		page_row_put(s->row);
	s->row = NULL;
	s->row_pid = 0;
}

void sock_exit(void)
{
	static bool done;
	uint32_t i;

	if (!opened || done)
		return;
	done = true;
	for (i = 0; i < page_rows(); i++) {
		const struct page_row *r = &page_self->row[i];

		if (!r->gen)
			break;
		if (r->fd < 0)
			continue;
		row_fold(r);
		if (r->why < 64)
			page_self->c.reasons[r->why]++;
	}
	row_fold(&sock_spare);
	if (config.stats_file[0])
		page_append_json(config.stats_file);
	page_close();
}

/* --- limbo ------------------------------------------------------------ */

/*
 * A thread may still be inside a call on a sock whose last number went: it
 * keeps the open file, as in the kernel, and we keep the memory it looks at.
 */
#define LIMBO 64
static struct sock *limbo[LIMBO];

static bool bury(struct sock *s)
{
	if (__atomic_load_n(&s->users, __ATOMIC_SEQ_CST) ||
	    __atomic_load_n(&s->sleepers, __ATOMIC_SEQ_CST) || s->lock.word)
		return false;
	if (s->pair.seg.mem)
		shm_unmap(&s->pair.seg);
	arena_put(&arena, s);
	return true;
}

static void limbo_reap(void)
{
	int i;

	for (i = 0; i < LIMBO; i++) {
		struct sock *s =
			__atomic_exchange_n(&limbo[i], NULL, __ATOMIC_ACQ_REL);

		if (s && !bury(s))
			__atomic_store_n(&limbo[i], s, __ATOMIC_RELEASE);
	}
}

static void limbo_add(struct sock *s)
{
	int i;

	for (i = 0; i < LIMBO; i++) {
		struct sock *none = NULL;

		if (__atomic_compare_exchange_n(&limbo[i], &none, s, 0,
						__ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return;
	}
	log_once(LOG_WARN, "more than %d sockets closed under their threads",
		 LIMBO);
}

/* --- birth ------------------------------------------------------------- */

static struct sock *sock_make(int fd, int family, bool nonblock)
{
	struct sock *s;

	limbo_reap();
	s = arena_get(&arena);
	if (!s)
		return NULL;
	s->life++;
	s->ghost = -1;
	s->wake = -1;
	s->pair.fd = -1;
	s->tx = &s->local[0];
	s->rx = &s->local[1];
	s->family = (uint8_t)family;
	s->nonblock = nonblock;
	s->why = WHY_NEW;
	s->look = LOOK_NEVER;
	s->holder[0].pid = sock_pid;
	s->holder[0].fds = 1;
	s->holder[0].fd = fd;
	row_open(s, fd);
	return s;
}

static bool may_ever(void)
{
	if (config.disabled || (config.secure && !settings.secure_sdp))
		return false;
	return config_concerns(&config, ROLE_CLIENT) ||
	       config_concerns(&config, ROLE_SERVER);
}

struct sock *sock_new(int fd, int family, int type, bool native)
{
	struct sock *s;

	if (!native && !may_ever())
		return NULL;
	s = sock_make(fd, family, type & SOCK_NONBLOCK);
	if (!s)
		return NULL;
	s->native = native;
	s->use = native ? USE_SDP : USE_BOTH;
	return s;
}

struct sock *sock_accepted(struct sock *l, int fd, int flags)
{
	struct sock *s;

	if (l->phase != PH_LISTEN || l->use == USE_TCP)
		return NULL;
	s = sock_make(fd, l->family, flags & SOCK_NONBLOCK);
	if (!s)
		return NULL;
	s->native = l->native;
	s->use = l->use;
	s->rule_line = l->rule_line;
	s->role = 2;
	s->rcvtimeo = l->rcvtimeo;
	s->sndtimeo = l->sndtimeo;
	s->busy_rx = l->busy_rx;
	s->zerocopy = l->zerocopy;
	s->why = WHY_WAITING;
	s->phase = PH_CONNECTED;
	log_at(LOG_NOTE, "ACCEPT: accepted fd %d on listener, rule %s", fd,
	       s->use == USE_SDP ? "sdp" : "both");
	lift_connected(s, fd);
	return s;
}

bool sock_before_listen(struct sock *s, int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct verdict v = { USE_SDP, 0 };

	if (!s->native) {
		if (sys_getsockname(fd, &ss, &len))
			return true;
		v = config_match(&config, ROLE_SERVER, (void *)&ss);
	}
	s->use = (uint8_t)v.use;
	s->rule_line = v.line;
	s->role = 2;
	log_at(LOG_NOTE, "LISTEN: fd:%d listening on %s", fd,
	       v.use == USE_TCP ? "TCP" :
	       v.use == USE_SDP ? "SDP" :
				  "both");
	if (v.use == USE_TCP) {
		s->why = WHY_RULE;
		return false;
	}
	s->phase = PH_LISTEN;
	s->why = WHY_LISTENER;
	sock_publish(s);
	return true;
}

bool sock_before_connect(struct sock *s, int fd, const struct sockaddr *sa,
			 socklen_t len)
{
	struct verdict v = { USE_SDP, 0 };

	if (len < sizeof(sa->sa_family) || s->phase == PH_CONNECTED)
		return true;
	if (sa->sa_family != AF_INET && sa->sa_family != AF_INET6)
		return true;
	if (!s->native &&
	    len >= (sa->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
					       sizeof(struct sockaddr_in6)))
		v = config_match(&config, ROLE_CLIENT, sa);
	s->use = (uint8_t)v.use;
	s->rule_line = v.line;
	s->role = 1;
	log_at(LOG_NOTE, "CONNECT: fd %d: rule %s (line %u)", fd,
	       v.use == USE_TCP ? "tcp" :
	       v.use == USE_SDP ? "sdp" :
				  "both",
	       v.line);
	if (v.use == USE_TCP)
		s->why = WHY_RULE;
	return v.use != USE_TCP;
}

void sock_after_connect(struct sock *s, int fd, int ret)
{
	if (ret == -EINPROGRESS || ret == -EINTR || ret == -EALREADY) {
		s->phase = PH_CONNECTING;
		return;
	}
	if (ret)
		return;
	s->phase = PH_CONNECTED;
	sock_why(s, WHY_WAITING);
	lift_connected(s, fd);
}

/* A non-blocking connect is over when the socket has a peer. */
bool sock_up(struct sock *s, int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (s->phase == PH_CONNECTED)
		return true;
	if (s->phase != PH_CONNECTING || sys_getpeername(fd, &ss, &len))
		return false;
	s->phase = PH_CONNECTED;
	sock_why(s, WHY_WAITING);
	lift_connected(s, fd);
	return true;
}

bool sock_listening(const struct sock *s)
{
	return s->phase == PH_LISTEN;
}

bool sock_native(const struct sock *s)
{
	return s->native;
}

bool sock_lifted(const struct sock *s)
{
	return s->paired &&
	       (anc_state(s->tx) != ANC_RAW || anc_state(s->rx) != ANC_RAW);
}

bool sock_cold(const struct sock *s)
{
	return !__atomic_load_n(&s->paired, __ATOMIC_ACQUIRE);
}

/* Asked for seldom, so it is looked up when it is. */
uint64_t sock_inode(struct sock *s)
{
	struct stat st;
	int fd = sock_fd(s);

	if (!s->inode && fd >= 0 && !sys_fstat(fd, &st))
		s->inode = st.st_ino;
	return s->inode;
}

void sock_nonblock(struct sock *s, bool on)
{
	s->nonblock = on;
}

static uint64_t sock_inode_at(struct sock *s, int fd)
{
	struct stat st;

	if (!s->inode && !sys_fstat(fd, &st))
		s->inode = st.st_ino;
	return s->inode;
}

/* --- holders ----------------------------------------------------------- */

static struct holder *holder_of(struct sock *s, int32_t pid)
{
	int i;

	for (i = 0; i < SOCK_HOLDERS; i++)
		if (s->holder[i].pid == pid)
			return &s->holder[i];
	return NULL;
}

int sock_holders(struct sock *s)
{
	int i, n = 0;

	for (i = 0; i < SOCK_HOLDERS; i++) {
		struct holder *h = &s->holder[i];

		if (h->pid > 0 && h->pid != sock_pid &&
		    sys_kill(h->pid, 0) == -ESRCH)
			h->pid = 0;
		n += h->pid != 0;
	}
	return n;
}

int sock_fd(struct sock *s)
{
	struct holder *h = holder_of(s, sock_pid);

	return h ? h->fd : -1;
}

void sock_hold(struct sock *s)
{
	struct holder *h;

	if (sock_lock(s))
		return;
	h = holder_of(s, sock_pid);
	if (h)
		h->fds++;
	sock_unlock(s);
}

void sock_fork_before(struct sock *s, int fd)
{
	struct holder *h, *child;
	bool home = false;

	if (sock_lock(s))
		return;
	child = holder_of(s, -sock_pid);
	if (child) {
		child->fds++;
	} else if ((h = holder_of(s, 0))) {
		h->pid = -sock_pid;
		h->fds = 1;
		h->fd = sock_fd(s);
	} else {
		/* more processes than we can count: the kernel's for good */
		s->pinned = true;
		home = s->paired && s->pins != 3;
		sock_why(s, WHY_SHARED);
	}
	sock_unlock(s);
	if (home)
		sock_home(s, fd, WHY_SHARED);
}

/*
 * Whoever is first gives the child its place, parent or child: the parent's
 * next fork must not find this one's still open.
 */
void sock_fork_parent(struct sock *s, int pid)
{
	struct holder *h;

	if (sock_lock(s))
		return;
	h = holder_of(s, -sock_pid);
	if (h)
		h->pid = pid > 0 ? pid : 0;
	sock_unlock(s);
}

bool sock_fork_child(struct sock *s)
{
	struct holder *h;
	bool known;

	if (sock_lock(s))
		return false;
	/* the parent may be at its next fork: then -forker is not ours */
	h = holder_of(s, sock_pid);
	if (!h && (h = holder_of(s, -forker)))
		h->pid = sock_pid;
	known = h != NULL;
	/* steps of a pairing are taken by the process that began it */
	if (s->pair.fd >= 0 && s->pair.state != PAIR_DONE && h)
		sys_close(s->pair.fd);
	sock_unlock(s);
	if (h && s->paired)
		service_add(s);
	return known;
}

void sock_forked(void)
{
	forker = sock_pid;
	sock_pid = sys_getpid();
	lock_forked();
	log_forked();
	page_forked();
	opened = false;
	memset(&sock_spare, 0, sizeof(sock_spare));
	arena_forked(&arena);
	diag_forked();
	service_forked();
}

/* --- death ------------------------------------------------------------- */

/* What of ours must be reset, not closed: the program left bytes unread. */
static bool unread(struct sock *s)
{
	if (!s->paired || s->shut_rd)
		return false;
	if (!s->conn.error)
		pump_poll(s);
	return s->rx_avail > 0;
}

static void close_lifted(struct sock *s, int fd)
{
	struct linger reset = { 1, 0 };
	int64_t bells;
	char sink[64];

	home_serve(s, fd); /* bytes on their way home go first */
	if (unread(s) || s->linger0) {
		__atomic_store_n(&s->own->reset, 1, __ATOMIC_RELEASE);
		sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset,
			       sizeof(reset));
	} else {
		/* a bell left unread would make the kernel say reset */
		bells = anc_bells(s->rx, &s->ar);
		while (bells > 0 && anc_state(s->rx) != ANC_RAW) {
			ssize_t n = sys_recv(fd, sink,
					     bells < 64 ? (size_t)bells : 64,
					     MSG_DONTWAIT);
			if (n <= 0)
				break;
			bells -= n;
		}
	}
	if (anc_state(s->tx) == ANC_LIFTED) {
		conn_shutdown(&s->conn, clock_ns(), true);
		pump_control(s);
		if (anc_spill(s->tx, &s->at, true))
			home_serve(s, fd);
	}
	anc_gone(s->rx);
	ring_note(s);
}

/* The last number of this process went. `last`: of all processes. */
static void release(struct sock *s, int fd, bool last)
{
	int wake = s->wake;

	if (s->paired)
		service_del(s);
	if (!last) {
		if (wake >= 0) {
			fd_unhide(wake);
			sys_close(wake);
		}
		/* our mapping only: the other holders have theirs */
		if (s->paired && !s->users && !s->sleepers) {
			struct shm_seg seg = s->pair.seg;

			shm_unmap(&seg);
		}
		return;
	}
	if (s->paired) {
		close_lifted(s, fd);
		if (wake >= 0) {
			fd_unhide(wake);
			sys_close(wake);
		}
		s->paired = false;
		s->tx = &s->local[0];
		s->rx = &s->local[1];
	} else if (s->pair_pid == sock_pid) {
		pair_cancel(&s->pair);
	}
	row_close(s);
}

/*
 * A thread of this process sleeps in the sock whose last number goes: in the
 * kernel it would keep the open file. It keeps a number nobody sees.
 */
static bool haunt(struct sock *s, int fd)
{
	int ghost;

	if (!s->paired || !(s->readers + s->writers))
		return false;
	ghost = sys_fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (ghost < 0)
		return false;
	s->ghost = fd_hide(ghost);
	return s->ghost >= 0;
}

void sock_exorcise(struct sock *s)
{
	int ghost = -1;

	if (sock_lock(s))
		return;
	if (s->ghost >= 0 && !s->readers && !s->writers && !s->users) {
		ghost = s->ghost;
		s->ghost = -1;
		release(s, ghost, true);
	}
	sock_unlock(s);
	if (ghost < 0)
		return;
	fd_unhide(ghost);
	sys_close(ghost);
	if (!bury(s))
		limbo_add(s);
}

/* Counts one number less; true when it was this process's last. */
static bool drop(struct sock *s, int fd, bool *last)
{
	struct holder *h = holder_of(s, sock_pid);

	*last = false;
	if (!h)
		return false;
	if (h->fds > 1) {
		h->fds--;
		if (h->fd == fd)
			h->fd = -1;
		return false;
	}
	h->pid = 0;
	*last = sock_holders(s) == 0;
	return true;
}

enum sock_close sock_close(struct sock *s, int fd)
{
	bool last, gone;

	if (sock_lock(s))
		return SOCK_CLOSE_IT;
	gone = drop(s, fd, &last);
	if (!gone && hooks.by_inode && sock_fd(s) < 0) {
		struct holder *h = holder_of(s, sock_pid);
		int other = -1;

		/* another number stands for it from now on */
		if (h && hooks.by_inode(sock_inode_at(s, fd), &other) &&
		    other != fd)
			h->fd = other;
	}
	if (gone && last && haunt(s, fd))
		gone = false;
	if (gone)
		release(s, fd, last);
	sock_unlock(s);
	if (gone && last && !bury(s))
		limbo_add(s);
	return SOCK_CLOSE_IT;
}

void sock_forget(struct sock *s)
{
	sock_close(s, sock_fd(s));
}
