/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The registry: the connections of this process that the background thread
 * serves.
 */

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "base/told.h"
#include "socket/core/registry.h"
#include "socket/core/core.h"

struct registry registry = { .dgram = -1, .epoll = -1 };

uint64_t service_id(void)
{
	return registry.id;
}

void service_poke(uint64_t id)
{
	static const char look = 'L';
	struct sockaddr_un un;
	socklen_t len = told_name(&un, id);
	int fd = registry.dgram;
	int own = -1;

	if (fd < 0)
		fd = own = sys_socket(
			AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		sys_sendto(fd, &look, 1, MSG_DONTWAIT | MSG_NOSIGNAL, &un, len);
	if (own >= 0)
		sys_close(own);
}

static void watch(struct sock *s)
{
	struct epoll_event ev = { .events = EPOLLRDHUP | EPOLLET,
				  .data.ptr = s };

	if (registry.epoll >= 0 && s->waits.wake >= 0)
		sys_epoll_ctl(registry.epoll, EPOLL_CTL_ADD, s->waits.wake,
			      &ev);
}

static bool known(const struct sock *s)
{
	uint32_t i;

	for (i = 0; served_early(s) && i < registry.count; i++)
		if (registry.socks[i] == s)
			return true;
	return false;
}

void service_add(struct sock *s)
{
	lock_take(&registry.lock);
	if (registry.count == registry.room) {
		uint32_t room = registry.room ? registry.room * 2 : 512;
		void *mem = sys_mmap(NULL, room * sizeof(struct sock *),
				     PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (!sys_is_err(mem)) {
			if (registry.room) {
				memcpy(mem, registry.socks,
				       registry.count * sizeof(struct sock *));
				sys_munmap(registry.socks,
					   registry.room *
						   sizeof(struct sock *));
			}
			registry.socks = mem;
			registry.room = room;
		}
	}
	if (registry.count < registry.room && !known(s)) {
		registry.socks[registry.count] = s;
		__atomic_add_fetch(&registry.count, 1, __ATOMIC_RELEASE);
	}
	watch(s);
	if (lift_awaited(s))
		service_poke(registry.id);
	lock_drop(&registry.lock);
}

void service_del(struct sock *s)
{
	uint32_t i;

	lock_take(&registry.lock);
	for (i = 0; i < registry.count; i++) {
		if (registry.socks[i] != s)
			continue;
		registry.socks[i] = registry.socks[registry.count - 1];
		__atomic_sub_fetch(&registry.count, 1, __ATOMIC_RELEASE);
		break;
	}
	if (registry.epoll >= 0 && s->waits.wake >= 0)
		sys_epoll_ctl(registry.epoll, EPOLL_CTL_DEL, s->waits.wake,
			      NULL);
	if (!registry.count && registry.running)
		service_poke(
			registry.id); /* it looks at the clock from now on */
	lock_drop(&registry.lock);
}

#define VISITS 64

static struct sock *at[VISITS]; /* atomic */

static uint32_t visits_end = 1; /* atomic: those from here on were never used */

static bool taken[VISITS];

/* On to s, or to the i-th of the registry; NULL: there is none. */
struct sock *registry_visit(uint32_t v, struct sock *s, uint32_t i)
{
	if (lock_take(&registry.lock) == -EDEADLK)
		return NULL;
	if (!s && i < registry.count)
		s = registry.socks[i];
	__atomic_store_n(&at[v], s, __ATOMIC_SEQ_CST);
	taken[v] = s != NULL;
	lock_drop(&registry.lock);
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

void registry_walk(uint32_t v, void (*fn)(struct sock *s, void *arg), void *arg)
{
	struct sock *s;
	uint32_t i;

	for (i = 0; (s = registry_visit(v, NULL, i)); i++)
		fn(s, arg);
}

/*
 * fn may take sock locks but must not add to or take from the registry. A
 * sock that goes meanwhile is type-stable memory: fn finds it unpaired.
 */
void service_each(void (*fn)(struct sock *s, void *arg), void *arg)
{
	uint32_t v;

	if (lock_take(&registry.lock) == -EDEADLK)
		return;
	for (v = 1; v < VISITS && taken[v]; v++)
		;
	if (v < VISITS)
		taken[v] = true;
	if (v < VISITS && v >= visits_end)
		__atomic_store_n(&visits_end, v + 1, __ATOMIC_SEQ_CST);
	lock_drop(&registry.lock);
	if (v < VISITS)
		registry_walk(v, fn, arg);
	else
		log_once(LOG_WARN,
			 "more than %d threads bring sockets back to TCP",
			 VISITS - 1);
}

void service_by(uint64_t ns)
{
	if (__atomic_load_n(&registry.due, __ATOMIC_SEQ_CST) > ns)
		service_poke(registry.id);
}

void registry_close(void)
{
	if (registry.dgram >= 0) {
		fd_unhide(registry.dgram);
		sys_close(registry.dgram);
	}
	if (registry.epoll >= 0) {
		fd_unhide(registry.epoll);
		sys_close(registry.epoll);
	}
	registry.dgram = registry.epoll = -1;
	registry.id = 0;
	__atomic_store_n(&registry.due, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&page_self->service, 0, __ATOMIC_RELAXED);
}

int service_watch(int fd, void *tag)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = tag };

	return sys_epoll_ctl(registry.epoll, EPOLL_CTL_ADD, fd, &ev);
}

static int sockets(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct sockaddr_un un;
	socklen_t len;
	int fd, one = 1;

	if (getrandom(&registry.id, sizeof(registry.id), 0) !=
	    sizeof(registry.id))
		registry.id = clock_ns() ^ ((uint64_t)sock_pid << 40);
	fd = sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	registry.dgram = fd_hide(fd);
	len = told_name(&un, registry.id);
	if (registry.dgram < 0 || sys_bind(registry.dgram, &un, len) ||
	    sys_setsockopt(registry.dgram, SOL_SOCKET, SO_PASSCRED, &one,
			   sizeof(one)))
		return -EADDRINUSE;
	__atomic_store_n(&page_self->service, registry.id, __ATOMIC_RELAXED);
	fd = (int)sys_call3(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0);
	if (fd < 0)
		return fd;
	registry.epoll = fd_hide(fd);
	if (registry.epoll < 0)
		return registry.epoll;
	return sys_epoll_ctl(registry.epoll, EPOLL_CTL_ADD, registry.dgram,
			     &ev);
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
		ret = service_spawn(&registry.thread, reports.background);
	if (ret)
		return ret;
	registry.running = true;
	for (i = 0; i < registry.count; i++)
		watch(registry.socks[i]);
	return 0;
}

int service_start(void)
{
	int ret = 0;

	if (likely(registry.running))
		return 0;
	lock_take(&registry.lock);
	if (registry.failed) {
		ret = -ENOSYS;
	} else if (!registry.running) {
		ret = start();
		if (ret) {
			registry_close();
			registry.failed = true;
		}
	}
	lock_drop(&registry.lock);
	return ret;
}

bool service_running(void)
{
	return registry.running;
}

void service_anchor(struct sock *s, int fd, bool on)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };

	ev.data.u64 = (uintptr_t)s | REGISTRY_ANCHOR;
	if (registry.epoll >= 0)
		sys_epoll_ctl(registry.epoll,
			      on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &ev);
}

void service_stop(void)
{
	pthread_t thread;
	bool mine;

	lock_take(&registry.lock);
	mine = registry.running;
	thread = registry.thread;
	registry.running = false;
	registry.failed = true; /* nothing is lifted any more */
	__atomic_store_n(&registry.quit, true, __ATOMIC_RELEASE);
	lock_drop(&registry.lock);
	if (!mine)
		return;
	service_poke(registry.id);
	pthread_join(thread, NULL); /* a filter may not allow what it does */
}

bool service_vacate(int fd)
{
	bool done;

	if (lock_take(&registry.lock) == -EDEADLK)
		return false;
	done = fd_move(&registry.epoll, fd) || fd_move(&registry.dgram, fd);
	lock_drop(&registry.lock);
	return done;
}

void registry_forked(void)
{
	uint32_t i;

	for (i = 0; i < VISITS; i++) {
		taken[i] = false;
		at[i] = NULL;
	}
	if (registry.room)
		sys_munmap(registry.socks,
			   registry.room * sizeof(struct sock *));
	registry.socks = NULL;
	registry.count = registry.room = 0;
	registry_close();
	registry.running = registry.failed = registry.quit = false;
	registry.stays = false;
	registry.lock.word = 0;
}
