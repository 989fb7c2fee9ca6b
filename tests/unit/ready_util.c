/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ready_util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/stamp.h"
#include "preload/fd/real.h"

/* --- the kernel's calls --------------------------------------------------- */

unsigned int waits, ctls, polls;
void (*fake_meanwhile)(void);
short fake_hidden;
void (*fake_looked)(void);
struct sock *fake_looked_at;

static int count_wait(int ep, struct epoll_event *ev, int max, int ms)
{
	waits++;
	return epoll_wait(ep, ev, max, ms);
}

static int count_pwait(int ep, struct epoll_event *ev, int max, int ms,
		       const sigset_t *mask)
{
	waits++;
	return epoll_pwait(ep, ev, max, ms, mask);
}

static int count_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
	ctls++;
	return epoll_ctl(ep, op, fd, ev);
}

static void meanwhile(void)
{
	void (*it)(void) = fake_meanwhile;

	polls++;
	fake_meanwhile = NULL;
	if (it)
		it();
}

/* Of one answer; the first number is all that is asked for. */
static int halved(struct pollfd *p, int n)
{
	if (n > 0)
		p->revents = (short)(p->revents & ~fake_hidden);
	fake_hidden = 0;
	return n;
}

static int count_poll(struct pollfd *p, nfds_t n, int ms)
{
	meanwhile();
	return halved(p, poll(p, n, ms));
}

/* Sleeps do not go by real_ppoll(): the linker leads them here. */
int __real_sigdefer_ppoll(struct pollfd *p, size_t n, size_t theirs,
			  const struct timespec *ts, const void *mask);
int __wrap_sigdefer_ppoll(struct pollfd *p, size_t n, size_t theirs,
			  const struct timespec *ts, const void *mask);

int __wrap_sigdefer_ppoll(struct pollfd *p, size_t n, size_t theirs,
			  const struct timespec *ts, const void *mask)
{
	meanwhile();
	return halved(p, __real_sigdefer_ppoll(p, n, theirs, ts, mask));
}

static int count_ppoll(struct pollfd *p, nfds_t n, const struct timespec *ts,
		       const sigset_t *mask)
{
	meanwhile();
	return ppoll(p, n, ts, mask);
}

bool preload_off;

int (*real_epoll_wait)(int, struct epoll_event *, int, int) = count_wait;
int (*real_epoll_pwait)(int, struct epoll_event *, int, int,
			const sigset_t *) = count_pwait;
int (*real_epoll_pwait2)(int, struct epoll_event *, int,
			 const struct timespec *,
			 const sigset_t *) = epoll_pwait2;
int (*real_epoll_ctl)(int, int, int, struct epoll_event *) = count_ctl;
int (*real_poll)(struct pollfd *, nfds_t, int) = count_poll;
int (*real_ppoll)(struct pollfd *, nfds_t, const struct timespec *,
		  const sigset_t *) = count_ppoll;
int (*real_select)(int, fd_set *, fd_set *, fd_set *,
		   struct timeval *) = select;
int (*real_pselect)(int, fd_set *, fd_set *, fd_set *, const struct timespec *,
		    const sigset_t *) = pselect;

/* --- what fdtable.c needs --------------------------------------------------- */

bool sock_hold(struct sock *s)
{
	return s != NULL;
}

void sock_forget(struct sock *s, int fd)
{
	(void)s;
	(void)fd;
}

uint64_t sock_inode(struct sock *s)
{
	(void)s;
	return 0;
}

static void no_child(void)
{
}

__attribute__((constructor)) static void table(void)
{
	fdt_setup(&(struct fdt_above){
		.closing = ep_fd_closing,
		.dup = ep_dup,
		.child = no_child,
		.parent_forked = ep_parent_forked,
	});
}

bool sock_shared(struct sock *s)
{
	return s->shared;
}

/* --- the socket room ---------------------------------------------------------- */

bool sock_wait_seen;

void sock_unwaited(struct sock *s, int delta)
{
	s->unwaited += delta;
}

bool sock_substituted(const struct sock *s)
{
	(void)s;
	return false;
}

bool sock_cold(const struct sock *s)
{
	return s->cold;
}

bool sock_listening(const struct sock *s)
{
	(void)s;
	return false;
}

int sock_wake_fd(const struct sock *s)
{
	return s->cold ? -1 : s->wake;
}

void sock_ready(struct sock *s, int fd, uint32_t asks, struct sock_ready *r)
{
	char kick;

	(void)fd;
	(void)asks;
	s->looks++;
	if (s->ours & EPOLLIN) /* nothing but kicks there */
		while (recv(s->fd, &kick, 1, MSG_DONTWAIT) == 1)
			;
	*r = (struct sock_ready){ .ours = s->ours,
				  .now = s->now,
				  .ms = s->ms,
				  .in_gen = s->in_gen,
				  .out_gen = s->out_gen,
				  .since = s->since,
				  .news = s->news };
	s->seen = true;
	if (s == fake_looked_at) {
		fake_looked_at = NULL;
		fake_looked();
	}
}

bool sock_sends(struct sock *s, struct stamp_log *log)
{
	*log = s->log;
	return true;
}

uint16_t sock_peer_port(struct sock *s, int fd, uint64_t *read)
{
	(void)fd;
	*read = s->read_at;
	return s->peer_port;
}

void sock_wait_begins(void)
{
}

bool sock_promise(struct sock *s)
{
	if (s->broken)
		s->now &= ~(uint32_t)EPOLLOUT;
	return !s->broken;
}

bool sock_pending(struct sock *s)
{
	s->asked++;
	while (s->stuck)
		usleep(100);
	return s->now & EPOLLIN;
}

bool sock_quiet(struct sock *s, uint32_t in_gen)
{
	return !sock_pending(s) && s->in_gen == in_gen;
}

bool sock_stay(struct sock *s)
{
	s->stays++;
	s->stayed++;
	return true;
}

void sock_go_on(struct sock *s)
{
	s->stays--;
}

_Atomic uint64_t fake_spin_ns;

uint64_t sock_spin_ns(struct sock *s)
{
	(void)s;
	return fake_spin_ns;
}

void sock_spin_spent(struct sock *s, uint64_t ns, uint64_t whole)
{
	(void)s;
	(void)ns;
	(void)whole;
}

void sock_spin_ended(uint64_t now, uint64_t end, uint64_t ns)
{
	(void)ns;
	(void)now;
	(void)end;
}

void sock_spun(struct sock *s, bool paid)
{
	(void)s;
	(void)paid;
}

void sock_arm(struct sock *s, bool in, bool out)
{
	if (in || out)
		s->armed = true;
}

void sock_disarm(struct sock *s)
{
	if (!s->watched)
		s->armed = false;
}

void sock_rang(struct sock *s, bool asleep)
{
	char sink[64];

	(void)asleep;
	s->rang++;
	while (recv(s->wake, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
}

uint32_t sock_sleep(struct sock *s)
{
	s->watched++;
	s->sleepers++;
	s->slept++;
	return 7;
}

void sock_awake(struct sock *s, uint32_t number)
{
	assert_int_equal(number, 7);
	s->watched--;
	s->sleepers--;
}

bool sock_doze(struct sock_doze *in, struct sock *s)
{
	if (in->s)
		return false;
	in->s = s;
	sock_sleep(s);
	return true;
}

void sock_dozed(struct sock_doze *in)
{
	if (in->s)
		sock_awake(in->s, 7);
	in->s = NULL;
}

void sock_watch(struct sock *s, int delta)
{
	s->watched += delta;
}

void sock_fallback_begin(struct sock *s, int fd, enum reason why)
{
	(void)s;
	(void)fd;
	(void)why;
}

uint64_t sock_fallback_limit(void)
{
	return 0;
}

int sock_fallback_until(struct sock *s, int fd, enum reason why, uint64_t until)
{
	(void)fd;
	(void)why;
	(void)until;
	s->fell_back++;
	s->ours = s->now = 0;
	return 0;
}

int sock_fallback(struct sock *s, int fd, enum reason why)
{
	return sock_fallback_until(s, fd, why, 0);
}

/* --- knobs --------------------------------------------------------------------- */

struct sock *fake_new(void)
{
	struct sock *s = aligned_alloc(64, sizeof(*s));
	int v[2];

	assert_non_null(s);
	memset(s, 0, sizeof(*s));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, v), 0);
	s->fd = v[0];
	s->peer = v[1];
	s->wake = s->wake_peer = s->ms = -1;
	s->cold = s->seen = true;
	assert_int_equal(fdt_put_sock(s->fd, s), 0);
	return s;
}

void fake_pair(struct sock *s)
{
	int v[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, v), 0);
	s->wake = v[0];
	s->wake_peer = v[1];
	s->ours = EPOLLIN | EPOLLOUT;
	s->now = EPOLLOUT;
	s->cold = false;
	ep_changed(s);
}

static void ring(struct sock *s)
{
	if (atomic_exchange(&s->armed, false))
		assert_int_equal(send(s->wake_peer, "", 1, 0), 1);
}

void fake_data(struct sock *s)
{
	uint64_t now = stamp_now();

	if (stamp_mixed(now)) {
		s->log = stamp_log;
		now |= STAMP_MIXED;
	}
	if (!(s->now & EPOLLIN))
		s->since = now;
	if (s->seen)
		s->news = now;
	s->seen = false;
	s->in_gen++;
	s->now |= EPOLLIN;
	ring(s);
}

void fake_room(struct sock *s, bool on)
{
	if (!on) {
		s->now &= ~(uint32_t)EPOLLOUT;
		return;
	}
	s->out_gen++;
	s->now |= EPOLLOUT;
	ring(s);
}

void fake_take(struct sock *s)
{
	s->now &= ~(uint32_t)EPOLLIN;
}

void fake_home(struct sock *s)
{
	s->ours = s->now = 0;
	ep_changed(s);
}

void fake_close(struct sock *s)
{
	ep_fd_closing(s->fd, s, true);
	assert_ptr_equal(fdt_take_sock(s->fd), s);
	assert_int_equal(s->watched, 0);
	assert_int_equal(s->sleepers, 0);
	close(s->fd);
	close(s->peer);
	if (s->wake >= 0) {
		close(s->wake);
		close(s->wake_peer);
	}
	free(s);
}

int set_ctl(int ep, int op, int fd, uint32_t mask, uint64_t data)
{
	struct epoll_event ev = { .events = mask, .data.u64 = data };

	return do_epoll_ctl(ep, op, fd, &ev);
}

uint32_t set_one(int ep, uint64_t data, int ms)
{
	struct epoll_event ev[8];
	int n = do_epoll_wait(ep, ev, 8, ms);

	assert_in_range(n, 0, 1);
	if (!n)
		return 0;
	assert_true(ev[0].data.u64 == data);
	return ev[0].events;
}
