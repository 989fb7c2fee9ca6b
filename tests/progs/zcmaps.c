/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zcmaps - large blocking transfers from and to every kind of memory: files,
 * read-only and huge pages, stacks, memory never touched, holes.
 */
#include "zcopy.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define HUGE (2 * MIB)
#define ODD  4321 /* where a buffer begins, and how much it is cut short */

/* n bytes of the stream from there; they stay as they are. */
static void give(struct link *l, const uint8_t *from, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = send(l->fd, from + done, n - done, 0);

		CHECK(r > 0);
		done += (size_t)r;
	}
	l->tx.off += n;
}

static void take(struct link *l, uint8_t *to, size_t n)
{
	CHECK(recv(l->fd, to, n, MSG_WAITALL) == (ssize_t)n);
	flow_check(&l->rx, to, n);
}

static void *map(size_t n, int prot, int flags, int fd)
{
	void *p = mmap(NULL, n, prot, flags, fd, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* A file that holds the next n bytes of the stream, from ODD on. */
static int stream_file(struct link *l, size_t n)
{
	int fd = memfd_create("zcmaps", 0);
	struct flow f = l->tx;
	uint8_t *buf = buffer();

	CHECK(fd >= 0 && n <= BIG);
	flow_fill(&f, buf, n);
	CHECK(pwrite(fd, buf, n, ODD) == (ssize_t)n);
	CHECK(!munmap(buf, BIG));
	return fd;
}

/* --- files ------------------------------------------------------------- */

/* From a mapping that nothing has touched, shared or not. */
static void file_run(struct end *e)
{
	const size_t n = 3 * MIB;
	int i;

	for (i = 0; i < 6; i++) {
		int fd = stream_file(&e->l, n);
		uint8_t *p = map(n + ODD, PROT_READ,
				 i % 2 ? MAP_SHARED : MAP_PRIVATE, fd);

		give(&e->l, p + ODD, n);
		CHECK(!munmap(p, n + ODD));
		CHECK(!close(fd));
	}
}

/* Into one; what the file says then is what came. */
static void file_peer(struct end *e)
{
	const size_t n = 3 * MIB;
	uint8_t *copy = buffer();
	int i;

	for (i = 0; i < 6; i++) {
		int fd = memfd_create("zcmaps", 0);
		struct flow f = e->l.rx;
		uint8_t *p;

		CHECK(fd >= 0 && !ftruncate(fd, (off_t)(n + ODD)));
		p = map(n + ODD, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
		take(&e->l, p + ODD, n);
		CHECK(!munmap(p, n + ODD));
		CHECK(pread(fd, copy, n, ODD) == (ssize_t)n);
		flow_check(&f, copy, n);
		CHECK(!close(fd));
	}
	CHECK(!munmap(copy, BIG));
}

/* --- protection, size of pages ----------------------------------------- */

static void readonly_run(struct end *e)
{
	uint8_t *buf = buffer();
	struct flow f;
	int i;

	for (i = 0; i < 6; i++) {
		f = e->l.tx;
		flow_fill(&f, buf, BIG);
		CHECK(!mprotect(buf, BIG, PROT_READ));
		give(&e->l, buf, BIG);
		CHECK(!mprotect(buf, BIG, PROT_READ | PROT_WRITE));
	}
	CHECK(!munmap(buf, BIG));
}

static void readonly_peer(struct end *e)
{
	uint8_t *buf = buffer();
	int i;

	for (i = 0; i < 6; i++)
		take(&e->l, buf, BIG);
	CHECK(!munmap(buf, BIG));
}

/* Reserved huge pages if the machine has some, else what the kernel gives. */
static uint8_t *huge(uint8_t **whole)
{
	void *p = mmap(NULL, BIG, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	uintptr_t at;

	*whole = p;
	if (p != MAP_FAILED)
		return p;
	*whole = map(BIG + HUGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1);
	at = ((uintptr_t)*whole + HUGE - 1) / HUGE * HUGE;
	madvise((void *)at, BIG, MADV_HUGEPAGE);
	return (uint8_t *)at;
}

static void huge_run(struct end *e)
{
	uint8_t *whole, *buf = huge(&whole);
	struct flow f;
	int i;

	for (i = 0; i < 6; i++) {
		f = e->l.tx;
		flow_fill(&f, buf + ODD, BIG - 2 * ODD);
		give(&e->l, buf + ODD, BIG - 2 * ODD);
	}
}

static void huge_peer(struct end *e)
{
	uint8_t *whole, *buf = huge(&whole);
	int i;

	for (i = 0; i < 6; i++)
		take(&e->l, buf + 1, BIG - 2 * ODD);
}

/* --- stacks ------------------------------------------------------------ */

static void *stack_thread(void *arg)
{
	struct end *e = arg;
	uint8_t buf[3 * MIB];
	struct flow f;
	int i;

	for (i = 0; i < 6; i++) {
		if (e->peer) {
			take(&e->l, buf + ODD, 2 * MIB);
			continue;
		}
		f = e->l.tx;
		flow_fill(&f, buf + ODD, 2 * MIB);
		give(&e->l, buf + ODD, 2 * MIB);
	}
	return NULL;
}

static void stack(struct end *e)
{
	pthread_attr_t attr;
	pthread_t t;

	CHECK(!pthread_attr_init(&attr));
	CHECK(!pthread_attr_setstacksize(&attr, 8 * MIB));
	CHECK(!pthread_create(&t, &attr, stack_thread, e));
	CHECK(!pthread_join(t, NULL));
}

/* --- never touched ----------------------------------------------------- */

/* Zeros, from pages that are not there yet, to such. */
static void untouched_run(struct end *e)
{
	int i;

	for (i = 0; i < 6; i++) {
		uint8_t *buf = buffer();
		size_t done = 0;

		while (done < 3 * MIB) {
			ssize_t r = send(e->l.fd, buf + ODD + done,
					 3 * MIB - done, 0);

			CHECK(r > 0);
			done += (size_t)r;
		}
		CHECK(!munmap(buf, BIG));
	}
}

static void untouched_peer(struct end *e)
{
	int i;

	for (i = 0; i < 6; i++) {
		uint8_t *buf = buffer();
		size_t k;

		CHECK(recv(e->l.fd, buf + ODD, 3 * MIB, MSG_WAITALL) ==
		      (ssize_t)(3 * MIB));
		for (k = 0; k < BIG; k += 509)
			CHECK(!buf[k]);
		CHECK(!munmap(buf, BIG));
	}
}

/* --- holes ------------------------------------------------------------- */

/*
 * Bytes in front of a hole go, the rest is told. By copy the library does not
 * find out about holes in the middle: only where it lends.
 */
static void hole_run(struct end *e)
{
	const char *way = getenv("LIBSDP_ZCOPY");
	uint8_t *buf = buffer(), *bad = buf + 5 * MIB;
	struct flow f;
	ssize_t r;
	int i;

	prog_sync(e);
	for (i = 0; i < 4; i++) {
		if (getenv("LD_PRELOAD") && (!way || strcmp(way, "always")))
			break;
		f = e->l.tx;
		flow_fill(&f, buf, 5 * MIB);
		CHECK(!munmap(bad, MIB));
		r = send(e->l.fd, buf, BIG, 0);
		CHECK(r > 0 && r <= (ssize_t)(5 * MIB));
		e->l.tx.off += (uint64_t)r;
		FAILS(send(e->l.fd, bad, MIB, 0), EFAULT);
		CHECK(mmap(bad, MIB, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			   0) == bad);
		prog_tell(e, (uint64_t)r);
	}
	prog_tell(e, 0);
	prog_sync(e);
	CHECK(!munmap(buf, BIG));
}

/* Reads what comes, until it is told how much that is. */
static void hole_peer(struct end *e)
{
	struct pollfd p[2] = { { .fd = e->l.fd, .events = POLLIN },
			       { .fd = e->ctl, .events = POLLIN } };
	uint64_t sum = 0, said = 1;
	uint8_t *buf = buffer();
	ssize_t r;

	prog_sync(e);
	while (said) {
		CHECK(poll(p, 2, 60000) > 0);
		if (p[0].revents) {
			r = read(e->l.fd, buf, BIG);
			CHECK(r > 0);
			flow_check(&e->l.rx, buf, (size_t)r);
			sum += (uint64_t)r;
			continue;
		}
		said = prog_hear(e);
		/* the next ones may have begun to come */
		if (sum < said) {
			link_get(&e->l, (size_t)(said - sum));
			sum = said;
		}
		sum -= said;
	}
	prog_sync(e);
	CHECK(!munmap(buf, BIG));
}

static const struct prog_case cases[] = {
	{ "file", file_run, file_peer, 0 },
	{ "readonly", readonly_run, readonly_peer, 0 },
	{ "huge", huge_run, huge_peer, 0 },
	{ "stack", stack, stack, 0 },
	{ "untouched", untouched_run, untouched_peer, 0 },
	{ "hole", hole_run, hole_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
