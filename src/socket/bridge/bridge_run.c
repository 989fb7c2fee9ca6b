/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bridge's thread: one per process, there while it has a flow. It has an
 * RDMA module's context of its own, apart from the service thread's.
 */

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/text.h"
#include "socket/bridge/bridge.h"

#define RETIRE_MS  200
#define RESOLVE_MS 5000
#define CONNECT_MS 60000 /* the kernel's limit for TCP is twice that */
#define STUCK_NS   5000000000u /* nothing moves: at exit no longer than this */

static struct {
	struct lock lock;
	struct flow *flows;
	struct verbs *v; /* NULL: not open */
	int epoll, kick;
	bool running, held;
	uint64_t serials;
} bridge = { .epoll = -1, .kick = -1 };

/* --- flows ------------------------------------------------------------- */

struct flow *bridge_flow_new(void)
{
	struct flow *f = sys_mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_is_err(f))
		return NULL;
	f->gate = f->listener = f->held = -1;
	f->due = true;
	return f;
}

void bridge_free(struct flow *f)
{
	if (f->end)
		f->end->ops->destroy(f->end);
	gate_settle(f);
	gate_close(f, false);
	sys_munmap(f, sizeof(*f));
}

int bridge_watch(struct flow *f)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP |
					    EPOLLET,
				  .data.ptr = f };

	return sys_epoll_ctl(bridge.epoll, EPOLL_CTL_ADD, f->gate, &ev);
}

void bridge_unwatch(struct flow *f)
{
	if (bridge.epoll >= 0 && f->gate >= 0)
		sys_epoll_ctl(bridge.epoll, EPOLL_CTL_DEL, f->gate, NULL);
}

static bool current(const struct flow *f)
{
	return bridged_serial(&f->sock->bridged) == f->serial;
}

/*
 * What connect() comes to; the program is told by the gate, after this. If it
 * has given up meanwhile, nothing.
 */
static void verdict(struct flow *f, int error)
{
	uint64_t was = bridged_word(f->serial, 0, BRIDGED_PENDING);
	uint64_t is = bridged_word(f->serial, error,
				   error ? BRIDGED_FAILED : BRIDGED_UP);

	__atomic_compare_exchange_n(&f->sock->bridged.word, &was, is, 0,
				    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* The program's socket leaves SYN_SENT, by force if need be. */
static void open_gate(struct flow *f)
{
	static const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
	int ret = gate_open(f);

	f->state = FLOW_OPENING;
	if (!ret)
		return;
	log_err("Error: native: the gate could not be opened (%d)", ret);
	sys_connect(f->held, &nowhere, sizeof(nowhere));
	f->state = FLOW_OVER;
}

static int plain_error(int err)
{
	switch (err) {
	case -ETIMEDOUT:
	case -ENOMEM:
	case -EACCES:
		return err;
	case -EHOSTUNREACH:
	case -EOPNOTSUPP:
	case -EPERM:
	case -ENODEV:
	case -ENXIO:
	case -ENETUNREACH:
	case -EADDRNOTAVAIL:
		return -EHOSTUNREACH;
	default:
		return -ECONNREFUSED;
	}
}

static void say(const struct flow *f, const char *what, int err)
{
	const union verbs_addr *a = &f->peer;
	bool v4 = a->sa.sa_family == AF_INET;
	char name[INET6_ADDRSTRLEN] = "?";

	inet_ntop(a->sa.sa_family,
		  v4 ? (const void *)&a->in.sin_addr :
		       (const void *)&a->in6.sin6_addr,
		  name, sizeof(name));
	log_note("CONNECT: native to %s port %u: %s (%d)", name,
		 ntohs(a->in.sin_port), what, err);
}

static void refuse(struct flow *f, int err, const char *what)
{
	say(f, what, err);
	if (f->end)
		f->end->ops->destroy(f->end);
	f->end = NULL;
	f->refused = true;
	verdict(f, plain_error(err));
	open_gate(f);
}

/* --- the module -------------------------------------------------------- */

static int open_module(void)
{
	struct verbs_conf conf = {
		.allow_soft_rdma = settings.allow_soft_rdma,
		.may_use = rdma_may_use,
		.foreign_cm = rdma_foreign_cm(),
		.resolve_ms = RESOLVE_MS,
		.connect_ms = CONNECT_MS,
		.disconnect_ms = 2000,
		.requests_max = 1,
		.host = { fd_hide, fd_unhide, rdma_say },
	};
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &bridge };
	int ret;

	if (bridge.v)
		return 0;
	if (!rdma_api)
		rdma_api = rdma_load();
	if (!rdma_api)
		return -ENODEV;
	ret = rdma_api->open(&bridge.v, &conf);
	if (ret) {
		log_once(LOG_WARN, "no RDMA: cannot open a device (%d)", ret);
		bridge.v = NULL;
		return ret;
	}
	ret = sys_epoll_ctl(bridge.epoll, EPOLL_CTL_ADD, rdma_api->fd(bridge.v),
			    &ev);
	if (ret) { /* nothing would hear its events */
		rdma_api->close(bridge.v);
		bridge.v = NULL;
	}
	return ret;
}

static void dial(struct flow *f)
{
	int ret = open_module();

	f->state = FLOW_DIALING;
	if (!ret)
		ret = rdma_api->dial_native(bridge.v, &f->local, &f->peer,
					    (uintptr_t)f, &f->end);
	if (ret)
		refuse(f, ret, "no device or no route");
}

static void ready(struct flow *f)
{
	struct conn_params p = flow_params(f);
	struct conn_names n = flow_names(f);
	uint8_t hello[CONN_HELLO_MAX];
	int ret;

	conn_init(&f->conn, &p);
	conn_hello(&f->conn, &n, hello);
	capture_setup(&n, true, hello);
	ret = rdma_api->connect(f->end, hello);
	if (ret)
		refuse(f, ret, "the request could not be sent");
}

static void answered(struct flow *f, const struct verbs_event *ev)
{
	struct conn_names n;
	int ret = conn_on_hello_ack(&f->conn, ev->data, ev->len, &n);

	if (!ret) {
		n = flow_names(f);
		capture_setup(&n, false, ev->data);
		ret = rdma_api->establish(f->end);
		if (ret)
			refuse(f, ret, "it broke at once");
		return;
	}
	rdma_api->disconnect(f->end); /* REJ */
	refuse(f, ret, f->conn.fault ? f->conn.fault : "a bad answer");
}

static void up(struct flow *f)
{
	struct verbs_info info;

	rdma_api->info(f->end, &info);
	say(f, info.device, 0);
	flow_begin(f);
	verdict(f, 0);
	open_gate(f);
}

static void heard(const struct verbs_event *ev)
{
	struct flow *f = (struct flow *)(uintptr_t)ev->tag;

	f->due = true;
	switch (ev->type) {
	case VE_READY:
		ready(f);
		break;
	case VE_ANSWERED:
		answered(f, ev);
		break;
	case VE_REFUSED:
		refuse(f, -ECONNREFUSED, "refused");
		break;
	case VE_FAILED:
		refuse(f, ev->error, "not reached");
		break;
	case VE_UP:
		up(f);
		break;
	case VE_DOWN:
		f->down = true;
		f->down_error = ev->error;
		break;
	default:
		break;
	}
}

/* Other credentials than those that opened the devices: nothing is of use. */
static void denied(void)
{
	struct flow *f;

	log_warn("native: other credentials than those that opened the "
		 "devices: connections end");
	for (f = bridge.flows; f; f = f->next) {
		if (!f->end)
			continue;
		f->due = true;
		if (f->state == FLOW_DIALING) {
			refuse(f, -EACCES, "the program's credentials changed");
			continue;
		}
		gate_close(f, true);
		f->state = FLOW_OVER;
	}
}

/* --- the thread -------------------------------------------------------- */

static void opening(struct flow *f)
{
	int ret = gate_opened(f);

	if (!ret)
		return;
	if (ret < 0 || f->refused) {
		gate_close(f, true);
		f->state = FLOW_OVER;
		return;
	}
	gate_settle(f);
	f->state = FLOW_UP;
}

static void step(struct flow *f)
{
	f->due = false;
	if (f->state == FLOW_NEW)
		dial(f);
	if (f->state == FLOW_DIALING && !current(f)) {
		f->state = FLOW_OVER; /* the program closed it */
		return;
	}
	if (f->state == FLOW_OPENING)
		opening(f);
	if (f->state == FLOW_UP)
		flow_step(f);
}

static void sweep(void)
{
	struct flow **at = &bridge.flows, *f;

	while ((f = *at)) {
		if (f->due || f->state <= FLOW_DIALING)
			step(f);
		if (f->state != FLOW_OVER) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		bridge_free(f);
	}
}

static void work(const struct epoll_event *ev, int n)
{
	struct verbs_event what;
	uint64_t sink;
	int i, ret = 0;

	for (i = 0; i < n; i++)
		if (ev[i].data.ptr && ev[i].data.ptr != &bridge)
			((struct flow *)ev[i].data.ptr)->due = true;
	sys_read(bridge.kick, &sink, sizeof(sink));
	while (bridge.v && (ret = rdma_api->event(bridge.v, &what)) == 1)
		heard(&what);
	if (ret == -EACCES)
		denied();
	sweep();
	if (ret == -EACCES) {
		rdma_api->close(bridge.v);
		bridge.v = NULL;
	}
}

/* ms until something is due by itself. */
static int patience(void)
{
	uint64_t at = UINT64_MAX, now = clock_ns(), ns;
	struct flow *f;

	if (!bridge.flows)
		return RETIRE_MS;
	for (f = bridge.flows; f; f = f->next) {
		if (f->due)
			return 0;
		if (f->state != FLOW_UP)
			continue;
		ns = conn_deadline(&f->conn);
		f->due = ns <= now;
		at = ns < at ? ns : at;
	}
	ns = at <= now ? 0 : at - now;
	if (bridge.v && rdma_api->patience(bridge.v) < ns)
		ns = rdma_api->patience(bridge.v);
	return ns > 1000000000u ? 1000 : (int)(ns / 1000000u) + 1;
}

static void drop_all(void)
{
	if (bridge.v)
		rdma_api->close(bridge.v);
	bridge.v = NULL;
	gate_fd_drop(&bridge.epoll);
	gate_fd_drop(&bridge.kick);
	bridge.running = false;
}

static void *run(void *arg)
{
	struct epoll_event ev[16];
	bool done = false;
	int n, ms = 0;

	(void)arg;
	while (!done) {
		n = (int)sys_call6(SYS_epoll_pwait, bridge.epoll, (long)ev, 16,
				   ms, 0, 8);
		if (n == -EBADF)
			return NULL; /* the program closed it by force */
		lock_take(&bridge.lock);
		done = !n && !bridge.flows;
		if (done)
			drop_all();
		else
			work(ev, n);
		ms = patience();
		lock_drop(&bridge.lock);
	}
	return NULL;
}

static int sockets(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int fd = (int)sys_call3(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0);

	bridge.epoll = fd < 0 ? fd : fd_hide(fd);
	if (bridge.epoll < 0)
		return bridge.epoll;
	fd = (int)sys_call3(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK, 0);
	bridge.kick = fd < 0 ? fd : fd_hide(fd);
	if (bridge.kick < 0)
		return bridge.kick;
	return sys_epoll_ctl(bridge.epoll, EPOLL_CTL_ADD, bridge.kick, &ev);
}

static int start(void)
{
	pthread_t thread;
	int ret = sockets();

	if (!ret)
		ret = service_spawn(&thread, run);
	if (!ret)
		pthread_detach(thread);
	return ret;
}

static void ring(void)
{
	uint64_t one = 1;

	sys_write(bridge.kick, &one, sizeof(one));
}

int bridge_submit(struct flow *f)
{
	struct flow **at = &bridge.flows;
	int ret = 0;

	if (lock_take(&bridge.lock) == -EDEADLK)
		return -EAGAIN;
	if (!bridge.running) {
		ret = start();
		bridge.running = !ret;
		if (ret)
			drop_all();
	}
	if (!ret) {
		f->serial = ((uint64_t)sock_pid << 18 |
			     (++bridge.serials & 0x3ffff))
			    << 24;
		__atomic_store_n(&f->sock->bridged.word,
				 bridged_word(f->serial, 0, BRIDGED_PENDING),
				 __ATOMIC_RELEASE);
		while (*at)
			at = &(*at)->next;
		*at = f;
		ring();
	}
	lock_drop(&bridge.lock);
	return ret;
}

void bridge_poke(void)
{
	if (!bridge.running || lock_take(&bridge.lock) == -EDEADLK)
		return;
	if (bridge.running)
		ring();
	lock_drop(&bridge.lock);
}

/* --- processes --------------------------------------------------------- */

/* Until `done` holds for all, or nothing has moved for a while. */
static void await(bool (*done)(struct flow *f))
{
	uint64_t moved = 0, now, until = clock_ns() + STUCK_NS;
	struct timespec nap = { 0, 200000 };
	struct flow *f;
	bool left = true;

	while (left && clock_ns() < until) {
		left = false;
		now = 0;
		if (lock_take(&bridge.lock) == -EDEADLK)
			return;
		for (f = bridge.flows; f; f = f->next) {
			left |= !done(f);
			now += f->moved;
		}
		lock_drop(&bridge.lock);
		if (now != moved)
			until = clock_ns() + STUCK_NS;
		moved = now;
		if (left)
			sys_ppoll(NULL, 0, &nap, NULL);
	}
}

static bool gone(struct flow *f)
{
	return f->state < FLOW_OPENING;
}

void bridge_exit(void)
{
	struct flow *f;
	int fd;

	if (!bridge.running || lock_take(&bridge.lock) == -EDEADLK)
		return;
	for (f = bridge.flows; f; f = f->next) {
		f->leaving = true;
		fd = current(f) ? sock_fd(f->sock) : -1;
		if (fd >= 0)
			sys_shutdown(fd, SHUT_WR);
	}
	lock_drop(&bridge.lock);
	await(gone);
}

void bridge_settle(void)
{
	if (bridge.running)
		await(flow_settled);
}

void bridge_hold(void)
{
	if (!bridge.running || lock_take(&bridge.lock) == -EDEADLK)
		return;
	bridge.held = true;
	if (bridge.v)
		rdma_api->hold(bridge.v);
}

void bridge_resume(void)
{
	if (!bridge.held)
		return;
	bridge.held = false;
	if (bridge.v)
		rdma_api->resume(bridge.v);
	lock_drop(&bridge.lock);
}

/*
 * The child: flows are the parent's, and end with it. Another thread may have
 * been about to start the bridge, with the lock.
 */
void bridge_forked(void)
{
	struct flow *f;

	if (!bridge.running && !bridge.lock.word)
		return;
	if (bridge.v)
		rdma_api->forget(bridge.v);
	bridge.v = NULL;
	/* before the gates: what is watched there is the parent's */
	gate_fd_drop(&bridge.epoll);
	gate_fd_drop(&bridge.kick);
	while ((f = bridge.flows)) {
		bridge.flows = f->next;
		f->end = NULL;
		bridge_free(f);
	}
	bridge.running = bridge.held = false;
	bridge.lock.word = 0;
}
