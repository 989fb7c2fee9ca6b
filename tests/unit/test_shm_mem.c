/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory lent from one process to another: what counts as read, and which
 * process is not read at all. The lender is a child that does what it is told.
 */

#include "shm_util.h"

#define LEN  300000
#define PAGE 4096u
#define SPAN ((LEN + PAGE - 1) / PAGE * PAGE)
#define HUGE ((size_t)2 << 20)
#define HOLE (64 * PAGE) /* where memory goes away */

enum tell {
	LEND = 1,
	BACK,
	UNLEND,
	LIE,
	FORK,
	FILE_SHARED, /* other memory in its place: a file, to be read only */
	FILE_PRIVATE,
	READ_ONLY,
	HUGE_PAGE,
	UNMAP, /* from HOLE on */
	TRUNCATE, /* the file */
	REMAP, /* the same bytes, other memory */
	QUIT
};

struct lender {
	pid_t pid;
	int sock; /* ours to it: its credentials are the child's */
	struct two t;
	uint8_t *map;
	uint8_t *mem; /* the child's, the same address here; in `map` */
};

static void put_bytes(uint8_t *mem)
{
	int i;

	for (i = 0; i < LEN; i++)
		mem[i] = (uint8_t)(i * 7 + 1);
}

/* 0, or -1: this machine has no such memory. */
static int64_t change(struct lender *l, int what)
{
	static int file = -1;
	uint8_t *tmp;

	switch (what) {
	case FILE_SHARED:
	case FILE_PRIVATE:
		file = memfd_create("lent", 0);
		if (file < 0 || ftruncate(file, SPAN) ||
		    pwrite(file, l->mem, LEN, 0) != LEN)
			return -1;
		tmp = mmap(l->mem, SPAN, PROT_READ,
			   MAP_FIXED | (what == FILE_SHARED ? MAP_SHARED :
							      MAP_PRIVATE),
			   file, 0);
		return tmp == l->mem ? 0 : -1;
	case READ_ONLY:
		return mprotect(l->mem, SPAN, PROT_READ);
	case HUGE_PAGE:
		tmp = mmap(l->mem, HUGE, PROT_READ | PROT_WRITE,
			   MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (tmp != l->mem || madvise(tmp, HUGE, MADV_HUGEPAGE))
			return -1;
		put_bytes(tmp);
		return 0;
	case UNMAP:
		return munmap(l->mem + HOLE, SPAN - HOLE);
	case TRUNCATE:
		return ftruncate(file, HOLE);
	default:
		tmp = mmap(NULL, SPAN, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		put_bytes(tmp);
		return mremap(tmp, SPAN, SPAN, MREMAP_MAYMOVE | MREMAP_FIXED,
			      l->mem) == l->mem ?
			       0 :
			       -1;
	}
}

static int64_t obey(struct lender *l, uint32_t *rkey, int what)
{
	struct end *e = &l->t.a.end;
	pid_t pid;

	switch (what) {
	case LEND:
		return shm_ops.lend(e, l->mem, LEN, rkey);
	case BACK:
		return shm_ops.lent(e, true);
	case UNLEND:
		shm_ops.unlend(e);
		return 0;
	case LIE:
		l->t.a.src->seal++;
		return 0;
	case FORK: /* lent by one that the reader does not know */
		pid = fork();
		if (!pid) {
			shm_ops.lend(e, l->mem, LEN, rkey);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		return 0;
	case QUIT:
		_exit(0);
	default:
		return change(l, what);
	}
}

static void child(struct lender *l, const struct sockaddr_un *un, socklen_t len)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	uint32_t rkey = 0;
	int64_t said[2];
	uint8_t what;

	put_bytes(l->mem);
	if (connect(fd, (const struct sockaddr *)un, len))
		_exit(1);
	while (read(fd, &what, 1) == 1) {
		said[0] = obey(l, &rkey, what);
		said[1] = rkey;
		if (write(fd, said, sizeof(said)) != sizeof(said))
			break;
	}
	_exit(0);
}

static void start(struct lender *l)
{
	struct sockaddr_un un;
	socklen_t len;
	int lfd = listen_here(&un, &len);

	two_make(&l->t, 65536);
	l->map = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	l->mem = l->map + (HUGE - (uintptr_t)l->map % HUGE) % HUGE;
	l->pid = fork();
	if (!l->pid)
		child(l, &un, len);
	l->sock = accept(lfd, NULL, NULL);
	assert_true(l->sock >= 0);
	l->t.b.peer = l->sock;
	close(lfd);
}

static int64_t tell(struct lender *l, uint8_t what, uint32_t *rkey)
{
	int64_t said[2];

	assert_int_equal(write(l->sock, &what, 1), 1);
	assert_int_equal(read(l->sock, said, sizeof(said)), sizeof(said));
	if (rkey)
		*rkey = (uint32_t)said[1];
	return said[0];
}

/* Starts it, and it lends: the key of that. */
static uint32_t lend(struct lender *l)
{
	uint32_t rkey;

	start(l);
	assert_int_equal(tell(l, LEND, &rkey), 0);
	return rkey;
}

static void stop(struct lender *l)
{
	kill(l->pid, SIGKILL);
	waitpid(l->pid, NULL, 0);
	close(l->sock);
	munmap(l->map, 2 * HUGE);
	two_drop(&l->t);
}

static uint8_t got[LEN + 4096];

/* Reads n bytes at `at`: the status; *len bytes are good. */
static int fetch(struct lender *l, uint32_t rkey, size_t at, size_t n,
		 size_t *len)
{
	struct end *e = &l->t.b.end;
	struct fab_done d;

	assert_int_equal(shm_ops.done(e, &d), 0);
	assert_int_equal(
		shm_ops.read(e, got, (uintptr_t)l->mem + at, rkey, n, at), 0);
	assert_int_equal(shm_ops.done(e, &d), 1);
	assert_int_equal(d.id, at);
	*len = d.len;
	return d.status;
}

/* Of the source that is out. */
static uint32_t number(const struct lender *l)
{
	return (uint32_t)(l->t.b.peer_src->word >> 32);
}

static void good(size_t at, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		assert_int_equal(got[i], (uint8_t)((at + i) * 7 + 1));
}

static void test_read(void **state)
{
	struct lender l;
	uint32_t rkey, again;
	size_t len;

	(void)state;
	start(&l);
	assert_false(shm_ops.recalled(&l.t.b.end));
	assert_int_equal(tell(&l, LEND, &rkey), 0);
	assert_int_equal(fetch(&l, rkey, 0, 1000, &len), 0);
	assert_int_equal(len, 1000);
	good(0, len);
	assert_int_equal(fetch(&l, rkey, 1000, LEN - 1000, &len), 0);
	assert_int_equal(len, LEN - 1000);
	good(1000, len);
	assert_int_equal(tell(&l, BACK, NULL), LEN);
	tell(&l, UNLEND, NULL);
	assert_int_equal(tell(&l, LEND, &again), 0);
	assert_int_not_equal(again, rkey);
	/* an old number reads nothing */
	assert_int_equal(fetch(&l, rkey, 0, 1000, &len), -ECANCELED);
	assert_int_equal(len, 0);
	stop(&l);
}

static void test_recall(void **state)
{
	struct lender l;
	uint32_t rkey;
	size_t len;

	(void)state;
	rkey = lend(&l);
	fetch(&l, rkey, 0, 5000, &len);
	assert_int_equal(tell(&l, BACK, NULL), 5000);
	assert_true(shm_ops.recalled(&l.t.b.end));
	assert_int_equal(fetch(&l, rkey, 5000, 10, &len), -ECANCELED);
	assert_int_equal(len, 0);
	assert_int_equal(tell(&l, BACK, NULL), 5000);
	tell(&l, UNLEND, NULL);
	assert_false(shm_ops.recalled(&l.t.b.end));
	stop(&l);
}

/* Behind what it lent there is nothing; what was there counts. */
static void test_fault(void **state)
{
	struct lender l;
	uint32_t rkey;
	size_t len, end = (LEN + 4095) / 4096 * 4096;

	(void)state;
	rkey = lend(&l);
	munmap(l.mem + end, 4096);
	assert_int_equal(fetch(&l, rkey, LEN, 1, &len), 0);
	assert_int_equal(fetch(&l, rkey, 1u << 30, 100, &len), -EFAULT);
	assert_int_equal(len, 0);
	assert_int_equal(tell(&l, BACK, NULL), 1);
	stop(&l);
}

/* Whatever memory it is, it can be read, in parts and as a whole. */
static void test_kinds(void **state)
{
	static const uint8_t kinds[] = { FILE_SHARED, FILE_PRIVATE, READ_ONLY,
					 HUGE_PAGE };
	struct lender l;
	uint32_t rkey;
	size_t i, len;

	(void)state;
	for (i = 0; i < sizeof(kinds); i++) {
		start(&l);
		/* a kernel without huge pages has only ordinary ones to show */
		if (tell(&l, kinds[i], NULL)) {
			assert_int_equal(kinds[i], HUGE_PAGE);
			stop(&l);
			continue;
		}
		assert_int_equal(tell(&l, LEND, &rkey), 0);
		assert_int_equal(fetch(&l, rkey, 0, 5001, &len), 0);
		good(0, len);
		memset(got, 0, sizeof(got));
		assert_int_equal(fetch(&l, rkey, 5001, LEN - 5001, &len), 0);
		assert_int_equal(len, LEN - 5001);
		good(5001, len);
		assert_int_equal(tell(&l, BACK, NULL), LEN);
		stop(&l);
	}
}

/* Memory that goes while it is lent: what was in front of the hole counts. */
static void test_gone(void **state)
{
	static const uint8_t ways[][2] = { { 0, UNMAP },
					   { FILE_SHARED, UNMAP },
					   { FILE_SHARED, TRUNCATE },
					   { FILE_PRIVATE, TRUNCATE } };
	struct lender l;
	uint32_t rkey;
	size_t i, len;

	(void)state;
	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		start(&l);
		if (ways[i][0])
			assert_int_equal(tell(&l, ways[i][0], NULL), 0);
		tell(&l, LEND, &rkey);
		assert_int_equal(fetch(&l, rkey, 0, 10000, &len), 0);
		assert_int_equal(tell(&l, ways[i][1], NULL), 0);
		assert_int_equal(fetch(&l, rkey, 10000, LEN - 10000, &len),
				 -EFAULT);
		assert_int_equal(len, HOLE - 10000);
		good(10000, len);
		assert_int_equal(fetch(&l, rkey, HOLE, 100, &len), -EFAULT);
		assert_int_equal(len, 0);
		assert_int_equal(tell(&l, BACK, NULL), HOLE);
		stop(&l);
	}
}

/* Other memory at its address: bytes are what lies there when they are read. */
static void test_moved(void **state)
{
	struct lender l;
	uint32_t rkey;
	size_t len;

	(void)state;
	rkey = lend(&l);
	assert_int_equal(fetch(&l, rkey, 0, 10000, &len), 0);
	assert_int_equal(tell(&l, REMAP, NULL), 0);
	assert_int_equal(fetch(&l, rkey, 10000, LEN - 10000, &len), 0);
	assert_int_equal(len, LEN - 10000);
	good(10000, len);
	stop(&l);
}

static void test_strangers(void **state)
{
	struct lender l;
	uint32_t rkey;
	size_t len;

	(void)state;
	rkey = lend(&l);
	tell(&l, LIE, NULL); /* another address space has another seal */
	assert_int_equal(fetch(&l, rkey, 0, 1000, &len), -ESTALE);
	assert_int_equal(len, 0);
	assert_int_equal(tell(&l, BACK, NULL), 0);
	tell(&l, UNLEND, NULL);
	/* a child of it lends: its memory is not what would be read */
	tell(&l, FORK, NULL);
	assert_int_equal(fetch(&l, number(&l), 0, 1000, &len), -ESTALE);
	assert_int_equal(len, 0);
	l.t.b.peer = -1;
	assert_int_equal(fetch(&l, number(&l), 0, 1000, &len), -EPERM);
	stop(&l);
}

static void test_dead(void **state)
{
	struct lender l;
	uint32_t rkey;
	size_t len;
	int st;

	(void)state;
	rkey = lend(&l);
	kill(l.pid, SIGKILL);
	waitid(P_PID, (id_t)l.pid, NULL, WEXITED | WNOWAIT);
	st = fetch(&l, rkey, 0, 1000, &len);
	assert_true(st == -ESRCH || st == -EPERM);
	assert_int_equal(len, 0);
	waitpid(l.pid, NULL, 0);
	assert_true(fetch(&l, rkey, 0, 1000, &len) < 0);
	assert_int_equal(len, 0);
	stop(&l);
}

/* What a hostile peer writes into the word ends the connection at most. */
static void test_liar(void **state)
{
	struct lender l;
	uint32_t rkey;

	(void)state;
	start(&l);
	assert_int_equal(shm_ops.lend(&l.t.a.end, l.mem, LEN, &rkey), 0);
	assert_int_equal(shm_ops.lend(&l.t.a.end, l.mem, 0, &rkey), -EINVAL);
	l.t.b.peer_src->word = 0;
	assert_int_equal(shm_ops.lent(&l.t.a.end, false), -EPROTO);
	stop(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),  cmocka_unit_test(test_recall),
		cmocka_unit_test(test_fault), cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_dead),  cmocka_unit_test(test_liar),
		cmocka_unit_test(test_kinds), cmocka_unit_test(test_gone),
		cmocka_unit_test(test_moved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
