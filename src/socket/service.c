/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The service thread (D7): one per process, started with the first pairing,
 * stopped with the last. It answers the peer's request to come home while
 * the program computes, and notices at once when a peer's process ends. It
 * sleeps otherwise: messages and their wake-up bytes never wake it.
 *
 * It listens on a datagram socket with an abstract name; what comes there is
 * only ever "look", so anybody may send it. It watches the wake-up sockets
 * for hang-up through an epoll set of its own.
 */

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "base/told.h"
#include "socket/budget.h"
#include "socket/fdshare.h"
#include "socket/rdma.h"

#define RETIRE_MS 200
#define IDLE_MS	  30000
#define SOON_MS	  250
#define TRIM_NS	  30000000000u
#define TICK_MS	  5
#define CALM_MS	  20 /* is a busy program still busy? */
#define ANCHOR	  ((uintptr_t)1) /* in an event's word, beside the sock */

static struct {
	struct lock lock;
	struct sock **socks;
	uint32_t count, room;
	uint64_t id;
	int dgram, epoll;
	pthread_t thread;
	bool running, failed, quit, stays;
} svc = { .dgram = -1, .epoll = -1 };

uint64_t service_id(void)
{
	return svc.id;
}

void service_poke(uint64_t id)
{
	static const char look = 'L';
	struct sockaddr_un un;
	socklen_t len = told_name(&un, id);
	int fd = svc.dgram;
	int own = -1;

	if (fd < 0)
		fd = own = sys_socket(
			AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		sys_sendto(fd, &look, 1, MSG_DONTWAIT | MSG_NOSIGNAL, &un, len);
	if (own >= 0)
		sys_close(own);
}

/* --- the registry ------------------------------------------------------ */

static void watch(struct sock *s)
{
	struct epoll_event ev = { .events = EPOLLRDHUP | EPOLLET,
				  .data.ptr = s };

	if (svc.epoll >= 0 && s->waits.wake >= 0)
		sys_epoll_ctl(svc.epoll, EPOLL_CTL_ADD, s->waits.wake, &ev);
}

/*
 * Under a rule `sdp`, or as a candidate, it may be there since before it was
 * paired.
 */
static bool known(const struct sock *s)
{
	uint32_t i;

	for (i = 0; (s->id.use == USE_SDP || s->rd) && i < svc.count; i++)
		if (svc.socks[i] == s)
			return true;
	return false;
}

void service_add(struct sock *s)
{
	lock_take(&svc.lock);
	if (svc.count == svc.room) {
		uint32_t room = svc.room ? svc.room * 2 : 512;
		void *mem = sys_mmap(NULL, room * sizeof(struct sock *),
				     PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (!sys_is_err(mem)) {
			if (svc.room) {
				memcpy(mem, svc.socks,
				       svc.count * sizeof(struct sock *));
				sys_munmap(svc.socks,
					   svc.room * sizeof(struct sock *));
			}
			svc.socks = mem;
			svc.room = room;
		}
	}
	if (svc.count < svc.room && !known(s))
		svc.socks[svc.count++] = s;
	watch(s);
	if (lift_awaited(s))
		service_poke(svc.id);
	lock_drop(&svc.lock);
}

void service_del(struct sock *s)
{
	uint32_t i;

	lock_take(&svc.lock);
	for (i = 0; i < svc.count; i++) {
		if (svc.socks[i] != s)
			continue;
		svc.socks[i] = svc.socks[--svc.count];
		break;
	}
	if (svc.epoll >= 0 && s->waits.wake >= 0)
		sys_epoll_ctl(svc.epoll, EPOLL_CTL_DEL, s->waits.wake, NULL);
	if (!svc.count && svc.running)
		service_poke(svc.id); /* it looks at the clock from now on */
	lock_drop(&svc.lock);
}

/* --- visits ------------------------------------------------------------ */

/*
 * Who goes through the registry looks at a sock without its lock, or waits for
 * the lock, while another thread closes it. So the visitor leaves a note of
 * where it is: until it has gone on, the sock's memory is nobody else's
 * and its segment stays mapped here (store.c). The first note is the service thread's. A handler that
 * jumps out of a homecoming leaves its note lying: the others have their own.
 * Who brings one home goes through them all again meanwhile: two notes each.
 */
#define VISITS 64

static struct sock *at[VISITS]; /* atomic */
static uint32_t visits_end = 1; /* atomic: those from here on were never used */
static bool taken[VISITS];

#define NOWHERE UINT32_MAX

/* On to s, or to the i-th of the registry; NULL: there is none. */
static struct sock *visit(uint32_t v, struct sock *s, uint32_t i)
{
	if (lock_take(&svc.lock))
		return NULL;
	if (!s && i < svc.count)
		s = svc.socks[i];
	__atomic_store_n(&at[v], s, __ATOMIC_SEQ_CST);
	taken[v] = s != NULL;
	lock_drop(&svc.lock);
	return s;
}

bool service_visits(const struct sock *s)
{
	uint32_t i;

	for (i = 0; i < __atomic_load_n(&visits_end, __ATOMIC_SEQ_CST); i++)
		if (__atomic_load_n(&at[i], __ATOMIC_SEQ_CST) == s)
			return true;
	return false;
}

static void visit_all(uint32_t v, void (*fn)(struct sock *s, void *arg),
		      void *arg)
{
	struct sock *s;
	uint32_t i;

	for (i = 0; (s = visit(v, NULL, i)); i++)
		fn(s, arg);
}

/*
 * fn may take sock locks but must not add to or take from the registry. A
 * sock that goes meanwhile is type-stable memory: fn finds it unpaired.
 */
void service_each(void (*fn)(struct sock *s, void *arg), void *arg)
{
	uint32_t v;

	if (lock_take(&svc.lock))
		return;
	for (v = 1; v < VISITS && taken[v]; v++)
		;
	if (v < VISITS)
		taken[v] = true;
	if (v < VISITS && v >= visits_end)
		__atomic_store_n(&visits_end, v + 1, __ATOMIC_SEQ_CST);
	lock_drop(&svc.lock);
	if (v < VISITS)
		visit_all(v, fn, arg);
	else
		log_once(LOG_WARN, "more than %d threads bring sockets home",
			 VISITS - 1);
}

/* --- the thread -------------------------------------------------------- */

/* Takes the lock, if this process still has the sock. */
static bool enter(struct sock *s)
{
	if (sock_lock(s))
		return false;
	if (sock_here(s))
		return true;
	sock_unlock(s);
	return false;
}

static void serve(struct sock *s, void *arg)
{
	bool bell, asked;

	(void)arg;
	if (unlikely(__atomic_load_n(&s->window.holdback, __ATOMIC_RELAXED)))
		holdback_serve(s);
	if (unlikely(s->rd))
		rdma_serve(s);
	if (sock_ghost(s) >= 0)
		sock_exorcise(s);
	if (lift_awaited(s) && sock_fd(s) >= 0)
		lift_look(s, sock_fd(s));
	holders_visit(s);
	bell = __atomic_load_n(&s->tx->armed, __ATOMIC_SEQ_CST) & ANC_ANCHOR;
	asked = zc_asked(s) || zc_unanswered(s);
	if ((anc_state(s->tx) <= ANC_SPILL && !s->eos.fin_due && !bell &&
	     !asked) ||
	    !enter(s))
		return;
	if (asked)
		zc_answer(s, sock_anchor(s));
	if (s->paired && bell)
		ring_reader(s, sock_anchor(s));
	if (s->paired)
		home_serve(s, sock_anchor(s));
	sock_unlock(s);
	sock_changed(s);
	if (asked && hooks.risen)
		hooks.risen(s); /* other messages may have come along */
}

static void hung_up(struct sock *s)
{
	if (!enter(s))
		return;
	/* the slot may be another connection's by now: ask its own socket */
	/* our own SHUT_RD looks alike; over RDMA its end is told otherwise */
	if (s->paired && !(s->rd && s->eos.shut_rd) && wake_hung_up(s))
		lift_orphan(s);
	sock_unlock(s);
	sock_changed(s);
	if (hooks.risen)
		hooks.risen(s);
}

static int tick; /* ms until the next look at what is unfinished; 0: nothing */
static bool soon;

/* atomic: when it wakes; UINT64_MAX: not known yet, 0: there is no thread */
static uint64_t due;

void service_by(uint64_t ns)
{
	if (__atomic_load_n(&due, __ATOMIC_SEQ_CST) > ns)
		service_poke(svc.id);
}

static void see(struct sock *s, void *arg)
{
	(void)arg;
	if (anc_state(s->tx) == ANC_RESUME || lift_awaited(s) ||
	    (s->rd && rdma_restless(s) && !rdma_calm(s)))
		tick = TICK_MS;
	else if (unlikely(s->rd) && rdma_restless(s) && !tick)
		tick = CALM_MS;
	else if (unlikely(s->rd) && (rdma_seeks(s) || rdma_fat(s) ||
				     rdma_parted(s) || rdma_waits(s)))
		soon = true;
	if (unlikely(__atomic_load_n(&s->window.holdback, __ATOMIC_SEQ_CST)))
		tick = holdback_tick(s, tick);
}

static void drop_sockets(void)
{
	if (svc.dgram >= 0) {
		fd_unhide(svc.dgram);
		sys_close(svc.dgram);
	}
	if (svc.epoll >= 0) {
		fd_unhide(svc.epoll);
		sys_close(svc.epoll);
	}
	svc.dgram = svc.epoll = -1;
	svc.id = 0;
	__atomic_store_n(&due, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&page_self->service, 0, __ATOMIC_RELAXED);
}

/* No connection left for a while: thread and descriptors go. */
static bool retire(void)
{
	bool done;

	lock_take(&svc.lock);
	done = !svc.count && !svc.stays && svc.running && !rdma_busy();
	if (done) {
		rdma_rest();
		drop_sockets();
		svc.running = false;
		pthread_detach(svc.thread);
	}
	lock_drop(&svc.lock);
	if (done)
		diag_rest();
	return done;
}

/* ms until the next look, whatever happens. */
static int patience(bool empty, uint64_t now)
{
	int rest = soon || budget_pressed() ? SOON_MS : IDLE_MS;
	int ms = tick ? tick : empty ? RETIRE_MS : rest;
	int other = rdma_patience_ms(), heavy = reap_ms(now, IDLE_MS);

	if (ms > heavy)
		ms = heavy;

	if (unlikely(holdback_lately()) && ms > HOLDBACK_TICK)
		ms = HOLDBACK_TICK;
	return other >= 0 && other < ms ? other : ms;
}

/* On an anchor that carries control bytes only: rdma_look_after() looks. */
static void came(struct sock *s)
{
	if (!enter(s))
		return;
	if (rdma_here(s))
		s->rd->mend.called = s->rd->due.restless = true;
	sock_unlock(s);
}

/* One event; true: something else than the RDMA module's. */
static bool heard(void *who)
{
	struct sock *s;

	if (who == (void *)&rdma_api) {
		rdma_run();
		return false;
	}
	s = visit(0, (void *)((uintptr_t)who & ~ANCHOR), NOWHERE);
	if (s && ((uintptr_t)who & ANCHOR))
		came(s);
	else if (s)
		hung_up(s);
	return true;
}

static void look_after_all(void)
{
	struct epoll_event ev[16];
	uint64_t looked = 0, trimmed = 0, was, now;
	int n, i, ms;
	GUARDED(in);

	for (;;) {
		bool empty = !__atomic_load_n(&svc.count, __ATOMIC_ACQUIRE) &&
			     !svc.stays;
		bool look, kept;

		tick = 0;
		soon = false;
		__atomic_store_n(&due, UINT64_MAX, __ATOMIC_SEQ_CST);
		visit_all(0, see, NULL);
		now = clock_ns();
		ms = patience(empty, now);
		__atomic_store_n(&due, now + (uint64_t)ms * 1000000u,
				 __ATOMIC_SEQ_CST);
		was = guard_sleep();
		n = (int)sys_call6(SYS_epoll_pwait, svc.epoll, (long)ev, 16, ms,
				   0, 8);
		guard_wake(was);
		if (n == -EBADF)
			return; /* the program closed it by force */
		look = n <= 0;
		for (i = 0; i < n; i++)
			look |= heard(ev[i].data.ptr);
		visit(0, NULL, NOWHERE);
		if (look)
			told_hear(svc.dgram);
		if (__atomic_load_n(&svc.quit, __ATOMIC_ACQUIRE))
			return;
		/* not a walk for each message, but in time */
		if (!look &&
		    (!tick || clock_ns() < looked + (uint64_t)tick * 1000000u))
			continue;
		looked = clock_ns();
		rdma_run();
		kept = reap(looked);
		if (!n && empty && !kept &&
		    (guard_drain(), guard_sweep(), retire()))
			return;
		visit_all(0, serve, NULL);
		/* idle for a HOLDBACK_TICK, or until a reap(), is not idle */
		if (n || tick ||
		    ((ms == HOLDBACK_TICK || kept) &&
		     looked < trimmed + TRIM_NS))
			continue;
		trimmed = looked;
		visit_all(0, reap_trim, NULL);
	}
}

static void *service_main(void *arg)
{
	look_after_all();
	guard_exit();
	return arg;
}

int service_watch(int fd, void *tag)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = tag };

	return sys_epoll_ctl(svc.epoll, EPOLL_CTL_ADD, fd, &ev);
}

static int sockets(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct sockaddr_un un;
	socklen_t len;
	int fd, one = 1;

	if (getrandom(&svc.id, sizeof(svc.id), 0) != sizeof(svc.id))
		svc.id = clock_ns() ^ ((uint64_t)sock_pid << 40);
	fd = sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	svc.dgram = fd_hide(fd);
	len = told_name(&un, svc.id);
	if (svc.dgram < 0 || sys_bind(svc.dgram, &un, len) ||
	    sys_setsockopt(svc.dgram, SOL_SOCKET, SO_PASSCRED, &one,
			   sizeof(one)))
		return -EADDRINUSE;
	__atomic_store_n(&page_self->service, svc.id, __ATOMIC_RELAXED);
	fd = (int)sys_call3(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0);
	if (fd < 0)
		return fd;
	svc.epoll = fd_hide(fd);
	if (svc.epoll < 0)
		return svc.epoll;
	return sys_epoll_ctl(svc.epoll, EPOLL_CTL_ADD, svc.dgram, &ev);
}

int service_spawn(pthread_t *thread, void *(*run)(void *arg))
{
	pthread_attr_t attr;
	sigset_t all, old;
	int ret;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 * 1024);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	ret = -pthread_create(thread, &attr, run, NULL);
	if (ret == -EINVAL) /* the program's thread-local data are large */
		ret = -pthread_create(thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return ret;
}

static int start(void)
{
	uint32_t i;
	int ret = budget_thread() ? sockets() : -EAGAIN;

	if (!ret)
		ret = service_spawn(&svc.thread, service_main);
	if (ret)
		return ret;
	svc.running = true;
	for (i = 0; i < svc.count; i++)
		watch(svc.socks[i]);
	return 0;
}

int service_start(void)
{
	int ret = 0;

	if (likely(svc.running))
		return 0;
	lock_take(&svc.lock);
	if (svc.failed) {
		ret = -ENOSYS;
	} else if (!svc.running) {
		ret = start();
		if (ret) {
			drop_sockets();
			svc.failed = true;
		}
	}
	lock_drop(&svc.lock);
	return ret;
}

void sock_serve_always(void)
{
	bool stays = !settings.background_thread;

	while (!stays && !service_start()) {
		lock_take(&svc.lock);
		stays = svc.stays = svc.running; /* or it has just retired */
		lock_drop(&svc.lock);
	}
}

bool service_running(void)
{
	return svc.running;
}

void service_anchor(struct sock *s, int fd, bool on)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };

	ev.data.u64 = (uintptr_t)s | ANCHOR;
	if (svc.epoll >= 0)
		sys_epoll_ctl(svc.epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd,
			      &ev);
}

void service_stop(void)
{
	pthread_t thread;
	bool mine;

	lock_take(&svc.lock);
	mine = svc.running;
	thread = svc.thread;
	svc.running = false;
	svc.failed = true; /* nothing is lifted any more */
	__atomic_store_n(&svc.quit, true, __ATOMIC_RELEASE);
	lock_drop(&svc.lock);
	if (!mine)
		return;
	service_poke(svc.id);
	pthread_join(thread, NULL); /* a filter may not allow what it does */
}

bool service_vacate(int fd)
{
	bool done;

	if (lock_take(&svc.lock))
		return false;
	done = fd_move(&svc.epoll, fd) || fd_move(&svc.dgram, fd);
	lock_drop(&svc.lock);
	return done;
}

/* The child has neither thread nor socks; its own are made when needed. */
void service_forked(void)
{
	uint32_t i;

	for (i = 0; i < VISITS; i++) {
		taken[i] = false;
		at[i] = NULL;
	}
	if (svc.room)
		sys_munmap(svc.socks, svc.room * sizeof(struct sock *));
	svc.socks = NULL;
	svc.count = svc.room = 0;
	drop_sockets();
	reap_forked();
	svc.running = svc.failed = svc.quit = svc.stays = false;
	svc.lock.word = 0;
}
