/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* files - sendfile() of all kinds of files, beside the kernel's own. */
#include "prog.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#ifndef O_DIRECT
#define O_DIRECT 0
#endif

#define SIZE	10000u
#define BIG	(1u << 20)
#define NOWHERE 0x7000000000000000

static void fill(int fd, size_t n)
{
	uint8_t buf[SIZE];
	struct flow f = { .seed = 77 };
	size_t part;

	for (; n; n -= part) {
		part = n < sizeof(buf) ? n : sizeof(buf);
		flow_fill(&f, buf, part);
		CHECK(write(fd, buf, part) == (ssize_t)part);
	}
}

/* In memory, or on a disk, if there is one. */
static int new_file(bool disk)
{
	const char *dir = getenv("TMPDIR");
	char path[PATH_MAX];
	int fd;

	if (!disk)
		return memfd_create("files", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "%s/files.XXXXXX", dir ? dir : "/var/tmp");
	fd = mkostemp(path, O_CLOEXEC);
	CHECK(fd >= 0 && !unlink(path));
	return fd;
}

static int reopened(int fd, int flags)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, flags | O_CLOEXEC);
	close(fd);
	return again;
}

/* --- one call of each kind, and what the kernel says to the same ---------- */

static int in_disk(void)
{
	int fd = new_file(true);

	fill(fd, SIZE);
	return fd;
}

static int in_memory(void)
{
	int fd = new_file(false);

	fill(fd, SIZE);
	return fd;
}

static int in_empty(void)
{
	return new_file(true);
}

static int in_hole(void)
{
	int fd = new_file(true);

	CHECK(!ftruncate(fd, SIZE));
	return fd;
}

static int in_write_only(void)
{
	return reopened(in_disk(), O_WRONLY);
}

static int in_direct(void)
{
	int fd = in_disk(), again;

	fsync(fd);
	again = reopened(dup(fd), O_RDONLY | O_DIRECT);
	if (again < 0)
		return fd;
	close(fd);
	return again;
}

static int in_path(void)
{
	return reopened(in_disk(), O_PATH);
}

static int in_directory(void)
{
	return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int in_proc(void)
{
	return open("/proc/version", O_RDONLY | O_CLOEXEC);
}

static int in_sys(void)
{
	return open("/sys/kernel/mm/transparent_hugepage/enabled",
		    O_RDONLY | O_CLOEXEC);
}

static int in_zero(void)
{
	return open("/dev/zero", O_RDONLY | O_CLOEXEC);
}

static int in_null(void)
{
	return open("/dev/null", O_RDWR | O_CLOEXEC);
}

static int in_pipe(void)
{
	int p[2];

	CHECK(!pipe2(p, O_CLOEXEC));
	CHECK(write(p[1], "0123456789", 10) == 10);
	close(p[1]);
	return p[0];
}

static int in_unix(void)
{
	int p[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p));
	CHECK(write(p[1], "0123456789", 10) == 10);
	close(p[1]);
	return p[0];
}

static int in_none(void)
{
	return -1;
}

static int (*const ins[])(void) = {
	in_disk,   in_memory, in_empty,	    in_hole, in_write_only,
	in_direct, in_path,   in_zero,	    in_null, in_proc,
	in_sys,	   in_pipe,   in_directory, in_unix, in_none,
};

/* Where to begin: by the file's own position, or by an offset. */
static const struct way {
	off_t at;
	size_t n;
	bool by_offset;
} ways[] = {
	{ 0, 5000, false },	{ 1234, 5000, false },
	{ 0, 5000, true },	{ 4096, 5000, true },
	{ 7, SSIZE_MAX, true }, { 7, SIZE + 1, false },
	{ SIZE - 1, 10, true }, { SIZE, 10, true },
	{ SIZE, 10, false },	{ SIZE + 1, 10, true },
	{ -1, 10, true },	{ INT64_MIN, 10, true },
	{ NOWHERE, 10, true },	{ INT64_MAX, 10, true },
	{ 0, 0, true },		{ 0, 0, false },
	{ -5, 0, true },	{ 0, SIZE_MAX, false },
};

struct said {
	ssize_t ret;
	int err;
	off_t at, position;
};

static struct said call(int out, int in, const struct way *w)
{
	struct said s = { .at = w->at };

	if (!w->by_offset && in >= 0)
		lseek(in, w->at, SEEK_SET);
	errno = 0;
	s.ret = sendfile(out, in, w->by_offset ? &s.at : NULL, w->n);
	s.err = s.ret < 0 ? errno : 0;
	s.position = in >= 0 ? lseek(in, 0, SEEK_CUR) : 0;
	return s;
}

static uint64_t hash_of(int fd, size_t n)
{
	uint64_t h = 14695981039346656037u;
	uint8_t buf[4096];
	ssize_t got, i;

	for (; n; n -= (size_t)got) {
		got = read(fd, buf, n < sizeof(buf) ? n : sizeof(buf));
		CHECK(got > 0);
		for (i = 0; i < got; i++)
			h = (h ^ buf[i]) * 1099511628211u;
	}
	return h;
}

static void twin(struct end *e, size_t kind, const struct way *w)
{
	int sv[2], a = ins[kind](), b = ins[kind]();
	struct said ours, theirs;
	struct way bound = *w;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	/* without an end, it would be as many as are asked for */
	if (ins[kind] == in_zero && bound.n > SIZE)
		bound.n = SIZE;
	theirs = call(sv[0], b, &bound);
	ours = call(e->l.fd, a, &bound);
	if (ours.ret != theirs.ret || ours.err != theirs.err ||
	    ours.at != theirs.at || ours.position != theirs.position) {
		fprintf(stderr,
			"file %zu at %lld by %d, %zu bytes: %zd %s at %lld, "
			"%lld, and the kernel %zd %s at %lld, %lld\n",
			kind, (long long)w->at, w->by_offset, w->n, ours.ret,
			strerror(ours.err), (long long)ours.at,
			(long long)ours.position, theirs.ret,
			strerror(theirs.err), (long long)theirs.at,
			(long long)theirs.position);
		CHECK(!"as the kernel");
	}
	if (ours.ret > 0) {
		prog_tell(e, (uint64_t)ours.ret);
		CHECK(prog_hear(e) == hash_of(sv[1], (size_t)theirs.ret));
	}
	close(a);
	close(b);
	CHECK(!close(sv[0]) && !close(sv[1]));
}

static void kinds_run(struct end *e)
{
	size_t i, k;

	for (i = 0; i < ARRAY_SIZE(ins); i++)
		for (k = 0; k < ARRAY_SIZE(ways); k++)
			twin(e, i, &ways[k]);
	prog_tell(e, 0);
	link_turn(&e->l, 100, true);
}

static void kinds_peer(struct end *e)
{
	uint64_t n;

	while ((n = prog_hear(e)))
		prog_tell(e, hash_of(e->l.fd, (size_t)n));
	link_turn(&e->l, 100, false);
}

/* --- large ones ----------------------------------------------------------- */

static int stream_file(struct flow *f, bool disk, size_t n)
{
	uint8_t *buf = malloc(n);
	int fd = new_file(disk);

	CHECK(buf && fd >= 0);
	flow_fill(f, buf, n);
	CHECK(write(fd, buf, n) == (ssize_t)n);
	free(buf);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

/*
 * By the file's own position; a reader that is slow, and a file that is cold.
 */
static void whole(struct end *e, bool disk, bool now)
{
	int fd = stream_file(&e->l.tx, disk, BIG);
	off_t sum = 0;
	ssize_t n;

	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	prog_nonblock(e->l.fd, now);
	while (sum < (off_t)BIG) {
		n = sendfile(e->l.fd, fd, NULL, BIG);
		if (n < 0) {
			struct pollfd p = { .fd = e->l.fd, .events = POLLOUT };

			CHECK(now && errno == EAGAIN);
			CHECK(poll(&p, 1, -1) == 1);
			n = 0;
		}
		CHECK(now || n == (ssize_t)(BIG));
		sum += n;
		CHECK(lseek(fd, 0, SEEK_CUR) == sum);
	}
	CHECK(sendfile(e->l.fd, fd, NULL, BIG) == 0);
	prog_nonblock(e->l.fd, false);
	CHECK(!close(fd));
}

static void large_run(struct end *e)
{
	int i;

	for (i = 0; i < 4; i++)
		whole(e, i & 1, i & 2);
	link_turn(&e->l, 100, true);
}

static void large_peer(struct end *e)
{
	link_get(&e->l, 4 * (size_t)BIG);
	link_turn(&e->l, 100, false);
}

/* --- between other sends -------------------------------------------------- */

/* A head, a file in two pieces and a tail: the order is that of the calls. */
static void between_run(struct end *e)
{
	size_t half = SIZE / 2;
	off_t at;
	int i, fd;

	for (i = 0; i < 40; i++) {
		uint8_t head[100];
		struct flow *f = &e->l.tx;

		flow_fill(f, head, sizeof(head));
		CHECK(send(e->l.fd, head, sizeof(head), i & 1 ? MSG_MORE : 0) ==
		      sizeof(head));
		fd = stream_file(f, i & 2, SIZE);
		at = 0;
		CHECK(sendfile(e->l.fd, fd, &at, half) == (ssize_t)half);
		CHECK(sendfile(e->l.fd, fd, &at, SIZE) == (ssize_t)half);
		CHECK(at == (off_t)SIZE && !close(fd));
		link_put(&e->l, 3);
	}
	link_turn(&e->l, 100, true);
}

static void between_peer(struct end *e)
{
	link_get(&e->l, 40 * (100 + SIZE + 3));
	link_turn(&e->l, 100, false);
}

/* --- shorter than asked for ----------------------------------------------- */

/* A file that loses its end: what is left comes, and then nothing. */
static void cut_run(struct end *e)
{
	off_t at = 0;
	int i, fd;

	for (i = 0; i < 2; i++) {
		struct flow was = e->l.tx;
		uint8_t sink[5000];

		fd = stream_file(&e->l.tx, i, BIG);
		e->l.tx = was;
		flow_fill(&e->l.tx, sink, sizeof(sink));
		CHECK(!ftruncate(fd, sizeof(sink)));
		at = 0;
		CHECK(sendfile(e->l.fd, fd, &at, BIG) == sizeof(sink));
		/* the kernel sends the pages themselves */
		prog_sync(e);
		CHECK(!ftruncate(fd, 10));
		CHECK(sendfile(e->l.fd, fd, &at, BIG) == 0);
		CHECK(at == sizeof(sink) && !close(fd));
	}
	link_turn(&e->l, 100, true);
}

static void cut_peer(struct end *e)
{
	int i;

	for (i = 0; i < 2; i++) {
		link_get(&e->l, 5000);
		prog_sync(e);
	}
	link_turn(&e->l, 100, false);
}

/* --- peers that nothing can be sent to ------------------------------------ */

static volatile sig_atomic_t pipes;

static void on_pipe(int sig)
{
	(void)sig;
	pipes++;
}

static void ended_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_pipe }, was;
	int fd = in_disk();
	off_t at = 3;

	pipes = 0;
	CHECK(!sigaction(SIGPIPE, &sa, &was));
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	FAILS(sendfile(e->l.fd, fd, &at, 100), EPIPE);
	CHECK(pipes == 1 && at == 3);
	/* there is nothing to be sent */
	at = SIZE;
	CHECK(sendfile(e->l.fd, fd, &at, 100) == 0 && pipes == 1);
	CHECK(!sigaction(SIGPIPE, &was, NULL) && !close(fd));
	link_get(&e->l, 10);
}

static void ended_peer(struct end *e)
{
	link_eof(&e->l);
	link_put(&e->l, 10);
}

/* --- one wake-up ---------------------------------------------------------- */

#define TIMES 40

static void settled(pid_t pid)
{
	char path[64], line[512], *end;
	unsigned int slept = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (slept < 20) {
		prog_nap_ms(5);
		f = fopen(path, "re");
		CHECK(f && fgets(line, sizeof(line), f));
		fclose(f);
		end = strrchr(line, ')');
		slept = end && end[2] == 'S' ? slept + 5 : 0;
	}
}

/* A reader that sleeps before each call: the counters tell (files.bats). */
static void wakes_run(struct end *e)
{
	size_t n = 100000;
	off_t at;
	int i, fd;

	for (i = 0; i < TIMES; i++) {
		fd = stream_file(&e->l.tx, true, n);
		at = 0;
		settled(e->pid);
		CHECK(sendfile(e->l.fd, fd, &at, n) == (ssize_t)n);
		CHECK(!close(fd));
	}
}

static void wakes_peer(struct end *e)
{
	int i;

	for (i = 0; i < TIMES; i++)
		link_get(&e->l, 100000);
}

static const struct prog_case cases[] = {
	{ "kinds", kinds_run, kinds_peer, 0 },
	{ "large", large_run, large_peer, 0 },
	{ "between", between_run, between_peer, 0 },
	{ "cut", cut_run, cut_peer, 0 },
	{ "ended", ended_run, ended_peer, 0 },
	{ "wakes", wakes_run, wakes_peer, CASE_PROCESS },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
