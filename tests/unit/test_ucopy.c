/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Copies that may fault: every length and alignment byte for byte, and with the
 * end of either memory at each of their instructions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sigdefer.h"
#include "base/ucopy.h"

#define PAGE 4096
#define MOST 400 /* bytes: several turns of the longest way */
#define EDGE 0x5a

static volatile int hits;

#ifdef __x86_64__
extern uint64_t ucopy_rep_from;
#else
static uint64_t ucopy_rep_from; /* there is one way only */
#endif

/* Each of the two ways for long copies, though the processor prefers one. */
static void both_ways(void (*fn)(void))
{
	uint64_t was = ucopy_rep_from;

	ucopy_rep_from = UINT64_MAX;
	fn();
	ucopy_rep_from = 65;
	fn();
	ucopy_rep_from = was;
}

static void count(int sig, siginfo_t *si, void *context)
{
	(void)si;
	(void)context;
	hits++;
	_exit(sig);
}

/* As preload does it; NULL: the program has no handler. */
static void handle(int sig, void (*handler)(int, siginfo_t *, void *))
{
	struct sigdefer_action a = { .handler = handler };
	struct sigaction sa = { .sa_sigaction = sigdefer_entry,
				.sa_flags = SA_SIGINFO };

	sigdefer_set(sig, &a);
	assert_int_equal(sigaction(sig, &sa, NULL), 0);
}

/* In each test: cmocka sets its own. */
static void handlers(void)
{
	handle(SIGSEGV, NULL);
	handle(SIGBUS, count);
}

/* Two pages, the second of which is not there. */
static unsigned char *cliff(void)
{
	unsigned char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(mprotect(p + PAGE, PAGE, PROT_NONE), 0);
	return p + PAGE;
}

static void lengths(void)
{
	unsigned char from[MOST + 64], to[MOST + 64];
	size_t n, a, b, i;

	for (i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)(i * 7 + i / 256);
	for (n = 0; n <= MOST; n++)
		for (a = 0; a < 4; a++)
			for (b = 0; b < 17; b += 4) {
				memset(to, EDGE, sizeof(to));
				assert_true(ucopy(to + 1 + b, from + a, n));
				assert_memory_equal(to + 1 + b, from + a, n);
				assert_int_equal(to[b], EDGE);
				assert_int_equal(to[1 + b + n], EDGE);
			}
}

static void every_length(void **state)
{
	(void)state;
	both_ways(lengths);
}

/* `good` of n bytes are there, before what is missing or behind it. */
static void faults_at(unsigned char *end, size_t good, size_t n)
{
	unsigned char buf[MOST];

	memset(buf, EDGE, sizeof(buf));
	assert_int_equal(ucopy(buf, end - good, n), good >= n);
	assert_int_equal(ucopy(end - good, buf, n), good >= n);
}

static void edges(void)
{
	unsigned char *end = cliff();
	size_t n, good;

	for (n = 1; n <= MOST; n++)
		for (good = 0; good <= n; good += n > 70 ? 13 : 1)
			faults_at(end, good, n);
	munmap(end - PAGE, 2 * PAGE);
}

static void every_edge(void **state)
{
	(void)state;
	handlers();
	both_ways(edges);
}

static void read_only(void **state)
{
	unsigned char *end = cliff(), buf[100] = { 1 };

	(void)state;
	handlers();
	assert_int_equal(mprotect(end - PAGE, PAGE, PROT_READ), 0);
	assert_true(ucopy(buf, end - 100, 100));
	assert_false(ucopy(end - 100, buf, 100));
	munmap(end - PAGE, 2 * PAGE);
}

/* SIGBUS, and the program has a handler for it. */
static void behind_a_file(void **state)
{
	char name[] = "/tmp/ucopy.XXXXXX";
	unsigned char buf[100] = { 1 }, *p;
	int fd = mkstemp(name);

	(void)state;
	handlers();
	assert_true(fd >= 0);
	unlink(name);
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(p != MAP_FAILED);
	assert_false(ucopy(buf, p, 100));
	assert_false(ucopy(p, buf, 100));
	assert_int_equal(ftruncate(fd, PAGE), 0);
	assert_true(ucopy(p, buf, 100));
	assert_int_equal(hits, 0);
	munmap(p, PAGE);
	close(fd);
}

/* What a child of the process ends with. */
static int ends(int sig, bool own)
{
	unsigned char *volatile end = cliff();
	struct rlimit none = { 0, 0 };
	siginfo_t si;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		setrlimit(RLIMIT_CORE, &none);
		if (own)
			*end = 1;
		else
			kill(getpid(), sig);
		_exit(0);
	}
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED), 0);
	munmap(end - PAGE, 2 * PAGE);
	return si.si_code == CLD_EXITED ? -si.si_status : si.si_status;
}

/* No other fault is a copy's, and what asks for none either. */
static void others(void **state)
{
	(void)state;
	handlers();
	assert_int_equal(ends(SIGSEGV, true), SIGSEGV);
	assert_int_equal(ends(SIGSEGV, false), SIGSEGV);
	handle(SIGSEGV, count);
	assert_int_equal(ends(SIGSEGV, true), -SIGSEGV);
	assert_int_equal(ends(SIGBUS, false), -SIGBUS);
	handle(SIGSEGV, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length), cmocka_unit_test(every_edge),
		cmocka_unit_test(read_only),	cmocka_unit_test(behind_a_file),
		cmocka_unit_test(others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
