/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * uring - what passes libc by. An io_uring of the program's own, made and
 * entered by syscall() as libuv does it: readiness asked for there, data moved
 * there, ends made there. Sets that are waited for by the bare instruction.
 *
 * `uring -t` ends with 0 where the kernel gives out rings.
 */
#include "prog.h"

#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/io_uring.h>

#define ENTRIES	  8
#define LAST_DATA 400u

struct ring {
	int fd;
	unsigned int mask, cq_mask;
	unsigned int *tail, *array, *cq_head, *cq_tail;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
	unsigned int filled;
};

static int ring_setup(struct io_uring_params *p, unsigned int flags)
{
	memset(p, 0, sizeof(*p));
	p->flags = flags;
	return (int)syscall(SYS_io_uring_setup, ENTRIES, p);
}

static void *ring_map(const struct ring *r, size_t len, off_t at)
{
	void *p =
		mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, at);

	CHECK(p != MAP_FAILED);
	return p;
}

/* Where the kernel says everything lies. */
static void ring_place(struct ring *r, const struct io_uring_params *p)
{
	char *sq, *cq;

	sq = ring_map(r, p->sq_off.array + p->sq_entries * sizeof(int),
		      IORING_OFF_SQ_RING);
	cq = ring_map(r, p->cq_off.cqes + p->cq_entries * sizeof(*r->cqes),
		      IORING_OFF_CQ_RING);
	r->sqes =
		ring_map(r, p->sq_entries * sizeof(*r->sqes), IORING_OFF_SQES);
	r->mask = p->sq_entries - 1;
	r->cq_mask = p->cq_entries - 1;
	r->tail = (void *)(sq + p->sq_off.tail);
	r->array = p->sq_off.array ? (void *)(sq + p->sq_off.array) : NULL;
	r->cq_head = (void *)(cq + p->cq_off.head);
	r->cq_tail = (void *)(cq + p->cq_off.tail);
	r->cqes = (void *)(cq + p->cq_off.cqes);
}

static void ring_open(struct ring *r, unsigned int flags)
{
	struct io_uring_params p;

	memset(r, 0, sizeof(*r));
	r->fd = ring_setup(&p, flags);
	CHECK(r->fd >= 0);
	ring_place(r, &p);
}

/* The next entry: the one that asked names it by `tag`. */
static struct io_uring_sqe *ring_add(struct ring *r, uint8_t op, int fd,
				     uint64_t tag)
{
	unsigned int slot = (*r->tail + r->filled++) & r->mask;
	struct io_uring_sqe *e = &r->sqes[slot];

	if (r->array)
		r->array[slot] = slot;
	memset(e, 0, sizeof(*e));
	e->opcode = op;
	e->fd = fd;
	e->user_data = tag;
	return e;
}

static struct io_uring_sqe *ring_data(struct ring *r, uint8_t op, int fd,
				      void *buf, uint32_t n)
{
	struct io_uring_sqe *e = ring_add(r, op, fd, n);

	e->addr = (uintptr_t)buf;
	e->len = n;
	return e;
}

static void ring_enter(struct ring *r, unsigned int wait)
{
	long ret;

	__atomic_store_n(r->tail, *r->tail + r->filled, __ATOMIC_RELEASE);
	do
		ret = syscall(SYS_io_uring_enter, r->fd, r->filled, wait,
			      IORING_ENTER_GETEVENTS, NULL, 0);
	while (ret < 0 && errno == EINTR);
	CHECK(ret == (long)r->filled);
	r->filled = 0;
}

/* One completion: that of `tag`. Its result. */
static int ring_reap(struct ring *r, uint64_t tag)
{
	unsigned int head = *r->cq_head;
	struct io_uring_cqe *c = &r->cqes[head & r->cq_mask];
	int res;

	while (__atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE) == head)
		CHECK(syscall(SYS_io_uring_enter, r->fd, 0, 1,
			      IORING_ENTER_GETEVENTS, NULL, 0) >= 0);
	CHECK(c->user_data == tag);
	res = c->res;
	__atomic_store_n(r->cq_head, head + 1, __ATOMIC_RELEASE);
	return res;
}

static int ring_one(struct ring *r, uint64_t tag)
{
	ring_enter(r, 1);
	return ring_reap(r, tag);
}

/* --- readiness ---------------------------------------------------------- */

static int ctl(struct ring *r, int ep, int op, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u64 = 0x5dull << 40 };
	struct io_uring_sqe *e = ring_add(r, IORING_OP_EPOLL_CTL, ep, 1);

	e->off = (uint64_t)fd;
	e->len = (uint32_t)op;
	e->addr = (uintptr_t)&ev;
	return ring_one(r, 1);
}

static void ready(int ep, uint32_t events)
{
	struct epoll_event ev;

	CHECK(epoll_wait(ep, &ev, 1, -1) == 1);
	CHECK(ev.events == events && ev.data.u64 == 0x5dull << 40);
}

static void epoll_run(struct end *e)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), fd = e->l.fd, i;
	struct ring r;

	ring_open(&r, 0);
	CHECK(ctl(&r, ep, EPOLL_CTL_MOD, fd, EPOLLIN) == -ENOENT);
	CHECK(ctl(&r, ep, EPOLL_CTL_ADD, fd, EPOLLOUT) == 0);
	ready(ep, EPOLLOUT);
	CHECK(ctl(&r, ep, EPOLL_CTL_ADD, fd, EPOLLIN) == -EEXIST);
	CHECK(ctl(&r, ep, EPOLL_CTL_MOD, fd, EPOLLIN) == 0);
	for (i = 0; i < 300; i++) {
		link_put(&e->l, 100);
		ready(ep, EPOLLIN);
		link_get(&e->l, 100);
		if (i == 100)
			prog_mid(fd);
	}
	CHECK(ctl(&r, ep, EPOLL_CTL_DEL, fd, 0) == 0);
	CHECK(ctl(&r, ep, EPOLL_CTL_DEL, fd, 0) == -ENOENT);
	close(r.fd);
	link_turn(&e->l, 100, true);
	close(ep);
}

static void epoll_peer(struct end *e)
{
	int i;

	for (i = 0; i < 300; i++) {
		link_get(&e->l, 100);
		link_put(&e->l, 100);
	}
	link_turn(&e->l, 100, false);
}

/* The ring is there before any socket is, as in an event loop. */
static void early_run(struct end *e)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), i;
	struct link a, b;
	struct ring r;

	(void)e;
	ring_open(&r, 0);
	link_self(&a, &b, 64);
	CHECK(ctl(&r, ep, EPOLL_CTL_ADD, a.fd, EPOLLIN) == 0);
	for (i = 0; i < 300; i++) {
		link_put(&b, 100);
		ready(ep, EPOLLIN);
		link_get(&a, 100);
		link_put(&a, 100);
		link_get(&b, 100);
	}
	CHECK(ctl(&r, ep, EPOLL_CTL_DEL, a.fd, 0) == 0);
	link_close(&b);
	link_eof(&a);
}

/* epoll_wait() without libc, where we know how: Bun waits like this. */
static long bare_wait(int ep, struct epoll_event *ev)
{
#ifdef __x86_64__
	register long wait __asm__("r10") = -1;
	register long mask __asm__("r8") = 0;
	register long size __asm__("r9") = 8;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(SYS_epoll_pwait), "D"(ep), "S"(ev), "d"(1L),
			   "r"(wait), "r"(mask), "r"(size)
			 : "rcx", "r11", "memory");
	return ret;
#else
	return epoll_wait(ep, ev, 1, -1);
#endif
}

static void bare_ready(int ep, uint32_t events, uint64_t data)
{
	struct epoll_event ev;

	CHECK(bare_wait(ep, &ev) == 1);
	CHECK(ev.events == events && ev.data.u64 == data);
}

/* Both ends of a connection over which nothing has gone. */
static void pair_new(struct link *a, struct link *b)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);
	int lfd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(lfd, (struct sockaddr *)&sa, len) && !listen(lfd, 1));
	CHECK(!getsockname(lfd, (struct sockaddr *)&sa, &len));
	*a = (struct link){ .tx.seed = 1, .rx.seed = 2 };
	*b = (struct link){ .tx.seed = 2, .rx.seed = 1 };
	a->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(!connect(a->fd, (struct sockaddr *)&sa, len));
	b->fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
	CHECK(b->fd >= 0 && !close(lfd));
}

static void bare_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLOUT, .data.u64 = 77 };
	int ep = epoll_create1(EPOLL_CLOEXEC), i;
	struct link a, b;

	(void)e;
	pair_new(&a, &b);
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, a.fd, &ev));
	bare_ready(ep, EPOLLOUT, 77);
	ev = (struct epoll_event){ .events = EPOLLIN, .data.u64 = 78 };
	FAILS(epoll_ctl(ep, EPOLL_CTL_ADD, a.fd, &ev), EEXIST);
	CHECK(!epoll_ctl(ep, EPOLL_CTL_MOD, a.fd, &ev));
	for (i = 0; i < 300; i++) {
		link_put(&b, 100);
		bare_ready(ep, EPOLLIN, 78);
		link_get(&a, 100);
		link_put(&a, 100);
		link_get(&b, 100);
	}
	/* from here on as most programs do it */
	for (i = 0; i < 300; i++) {
		link_put(&b, 100);
		CHECK(epoll_wait(ep, &ev, 1, -1) == 1);
		CHECK(ev.events == EPOLLIN && ev.data.u64 == 78);
		link_get(&a, 100);
		link_put(&a, 100);
		link_get(&b, 100);
	}
	CHECK(!epoll_ctl(ep, EPOLL_CTL_DEL, a.fd, NULL));
	FAILS(epoll_ctl(ep, EPOLL_CTL_DEL, a.fd, NULL), ENOENT);
	link_close(&b);
	link_eof(&a);
}

#ifdef __x86_64__
static long bare_call(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}
#else
#define bare_call(nr, a, b, c, d) syscall(nr, a, b, c, d)
#endif

/* Not even the registration is seen: Rust programs with rustix. */
static void deaf_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 79 };
	long ep = bare_call(SYS_epoll_create1, 0, 0, 0, 0);
	struct link a, b;
	char byte;
	int i;

	(void)e;
	pair_new(&a, &b);
	prog_nonblock(a.fd, true);
	CHECK(!bare_call(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, a.fd, (long)&ev));
	for (i = 0; i < 300; i++) {
		link_put(&b, 100);
		bare_ready((int)ep, EPOLLIN, 79);
		link_get(&a, 100);
		FAILS(recv(a.fd, &byte, 1, 0), EAGAIN);
		link_put(&a, 100);
		link_get(&b, 100);
	}
	link_close(&b);
	bare_ready((int)ep, EPOLLIN, 79);
	link_eof(&a);
}

/* A poll entry is the kernel's, and so is the stream from there on. */
static void poll_run(struct end *e)
{
	struct ring r;

	ring_open(&r, 0);
	ring_add(&r, IORING_OP_POLL_ADD, e->l.fd, 7)->poll_events = POLLIN;
	ring_enter(&r, 0);
	prog_sync(e);
	CHECK(ring_reap(&r, 7) & POLLIN);
	link_get(&e->l, 1000);
	link_turn(&e->l, 100, true);
}

static void poll_peer(struct end *e)
{
	prog_sync(e);
	link_put(&e->l, 1000);
	link_turn(&e->l, 100, false);
}

/* --- data --------------------------------------------------------------- */

static void data_run(struct end *e)
{
	char out[500], in[500];
	struct ring r;

	ring_open(&r, 0);
	prog_sync(e); /* the peer's bytes may be on their way by any path */
	flow_fill(&e->l.tx, out, sizeof(out));
	ring_data(&r, IORING_OP_SEND, e->l.fd, out, sizeof(out));
	CHECK(ring_one(&r, sizeof(out)) == sizeof(out));
	ring_data(&r, IORING_OP_RECV, e->l.fd, in, sizeof(in))->msg_flags =
		MSG_WAITALL;
	CHECK(ring_one(&r, sizeof(in)) == sizeof(in));
	flow_check(&e->l.rx, in, sizeof(in));
	link_turn(&e->l, 100, true);
}

static void data_peer(struct end *e)
{
	link_put(&e->l, 500);
	prog_sync(e);
	link_get(&e->l, 500);
	link_turn(&e->l, 100, false);
}

/* By a number that only the ring knows. */
static void files_run(struct end *e)
{
	int32_t fds[3] = { -1, e->l.fd, -1 };
	char out[500];
	struct ring r;

	ring_open(&r, 0);
	CHECK(!syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_FILES, fds,
		       3));
	flow_fill(&e->l.tx, out, sizeof(out));
	ring_data(&r, IORING_OP_SEND, 1, out, sizeof(out))->flags =
		IOSQE_FIXED_FILE;
	CHECK(ring_one(&r, sizeof(out)) == sizeof(out));
	link_get(&e->l, 500);
	link_turn(&e->l, 100, true);
}

static void files_peer(struct end *e)
{
	link_get(&e->l, 500);
	link_put(&e->l, 500);
	link_turn(&e->l, 100, false);
}

/* --- ends --------------------------------------------------------------- */

static void shut_run(struct end *e)
{
	struct ring r;

	ring_open(&r, 0);
	ring_add(&r, IORING_OP_SHUTDOWN, e->l.fd, 3)->len = SHUT_WR;
	CHECK(ring_one(&r, 3) == 0);
	link_get(&e->l, LAST_DATA);
	link_eof(&e->l);
	ring_add(&r, IORING_OP_CLOSE, e->l.fd, 4);
	CHECK(ring_one(&r, 4) == 0);
	FAILS(close(e->l.fd), EBADF);
	e->l.fd = -1;
}

static void shut_peer(struct end *e)
{
	link_eof(&e->l);
	link_put(&e->l, LAST_DATA);
	link_close(&e->l);
}

/* What hangs on another entry must not overtake it. */
static void linked_run(struct end *e)
{
	char out[LAST_DATA];
	struct ring r;

	ring_open(&r, 0);
	flow_fill(&e->l.tx, out, sizeof(out));
	ring_data(&r, IORING_OP_SEND, e->l.fd, out, sizeof(out))->flags =
		IOSQE_IO_LINK;
	ring_add(&r, IORING_OP_SHUTDOWN, e->l.fd, 5)->len = SHUT_WR;
	ring_enter(&r, 2);
	CHECK(ring_reap(&r, sizeof(out)) == sizeof(out));
	CHECK(ring_reap(&r, 5) == 0);
	link_get(&e->l, LAST_DATA);
	link_eof(&e->l);
}

static void linked_peer(struct end *e)
{
	link_get(&e->l, LAST_DATA);
	link_eof(&e->l);
	link_put(&e->l, LAST_DATA);
	link_close(&e->l);
}

/* --- rings of other kinds ----------------------------------------------- */

/* A kernel thread takes the entries: they are not seen in time. */
static void thread_run(struct end *e)
{
	struct ring r;
	char in[500];

	ring_open(&r, IORING_SETUP_SQPOLL);
	ring_data(&r, IORING_OP_RECV, e->l.fd, in, sizeof(in))->msg_flags =
		MSG_WAITALL;
	__atomic_store_n(r.tail, *r.tail + 1, __ATOMIC_SEQ_CST);
	CHECK(syscall(SYS_io_uring_enter, r.fd, 1, 0, IORING_ENTER_SQ_WAKEUP,
		      NULL, 0) == 1);
	prog_sync(e);
	CHECK(ring_reap(&r, sizeof(in)) == sizeof(in));
	flow_check(&e->l.rx, in, sizeof(in));
	link_turn(&e->l, 100, true);
}

static void thread_peer(struct end *e)
{
	prog_sync(e);
	link_put(&e->l, 500);
	link_turn(&e->l, 100, false);
}

/* Many, one after another and side by side, with old numbers among the new. */
static void many_run(struct end *e)
{
	struct ring r[4];
	int i, ep = epoll_create1(EPOLL_CLOEXEC);

	for (i = 0; i < 40; i++) {
		ring_open(&r[i % 4], 0);
		CHECK(!ctl(&r[i % 4], ep, EPOLL_CTL_ADD, e->l.fd, EPOLLIN));
		link_put(&e->l, 100);
		ready(ep, EPOLLIN);
		link_get(&e->l, 100);
		CHECK(!ctl(&r[(i - (i > 0)) % 4], ep, EPOLL_CTL_DEL, e->l.fd,
			   0));
		if (i >= 3 && i % 2)
			close(r[(i + 1) % 4].fd);
		else if (i >= 3)
			CHECK(dup2(ep, r[(i + 1) % 4].fd) >= 0);
	}
	link_turn(&e->l, 100, true);
}

static void many_peer(struct end *e)
{
	int i;

	for (i = 0; i < 40; i++) {
		link_get(&e->l, 100);
		link_put(&e->l, 100);
	}
	link_turn(&e->l, 100, false);
}

/* Where the kernel can do that (6.13) the ring is another one afterwards. */
static void resized_run(struct end *e)
{
	/* SINGLE_ISSUER, DEFER_TASKRUN, NO_SQARRAY */
	const unsigned int flags = 1u << 12 | 1u << 13 | 1u << 16;
	struct io_uring_params p;
	int ep = epoll_create1(EPOLL_CLOEXEC), i;
	struct ring r;

	ring_open(&r, ring_setup(&p, flags) < 0 ? 0 : flags);
	p = (struct io_uring_params){ .sq_entries = 4 * ENTRIES,
				      .cq_entries = 8 * ENTRIES };
	if (!syscall(SYS_io_uring_register, r.fd, 33, &p, 1))
		ring_place(&r, &p);
	CHECK(!ctl(&r, ep, EPOLL_CTL_ADD, e->l.fd, EPOLLIN));
	for (i = 0; i < 100; i++) {
		link_put(&e->l, 100);
		ready(ep, EPOLLIN);
		link_get(&e->l, 100);
	}
	CHECK(!ctl(&r, ep, EPOLL_CTL_DEL, e->l.fd, 0));
	link_turn(&e->l, 100, true);
}

static void resized_peer(struct end *e)
{
	int i;

	for (i = 0; i < 100; i++) {
		link_get(&e->l, 100);
		link_put(&e->l, 100);
	}
	link_turn(&e->l, 100, false);
}

static const struct prog_case cases[] = {
	{ "early", early_run, NULL, CASE_SOLO },
	{ "bare", bare_run, NULL, CASE_SOLO },
	{ "deaf", deaf_run, NULL, CASE_SOLO },
	{ "epoll", epoll_run, epoll_peer, 0 },
	{ "poll", poll_run, poll_peer, 0 },
	{ "data", data_run, data_peer, 0 },
	{ "files", files_run, files_peer, 0 },
	{ "shut", shut_run, shut_peer, 0 },
	{ "linked", linked_run, linked_peer, 0 },
	{ "thread", thread_run, thread_peer, 0 },
	{ "many", many_run, many_peer, 0 },
	{ "resized", resized_run, resized_peer, 0 },
};

int main(int argc, char **argv)
{
	struct io_uring_params p;

	if (argc == 2 && !strcmp(argv[1], "-t"))
		return ring_setup(&p, 0) < 0;
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
