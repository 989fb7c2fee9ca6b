/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The account of the program's resources, and what limits are read from. */
#include "shm_util.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/cgroup.h"
#include "base/proc.h"
#include "socket/core/budget.h"

#define MIB (1024ull * 1024)

/* --- control groups ------------------------------------------------------ */

static char dir[] = "/tmp/test_budget.XXXXXX";

static void put(const char *file, const char *text)
{
	char path[512], *p;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	for (p = path + sizeof(dir); (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0700);
		*p = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void put_n(const char *file, uint64_t n)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)n);
	put(file, text);
}

static int groups_new(void **state)
{
	static char own[64];

	(void)state;
	memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
	assert_non_null(mkdtemp(dir));
	snprintf(own, sizeof(own), "%s/own", dir);
	cgroup_own = own;
	cgroup_root = dir;
	shm_account = (struct shm_account){ .most = UINT64_MAX,
					    .look_at = UINT64_MAX };
	return 0;
}

static int groups_gone(void **state)
{
	char cmd[64];

	(void)state;
	cgroup_own = "/proc/self/cgroup";
	cgroup_root = "/sys/fs/cgroup";
	snprintf(cmd, sizeof(cmd), "rm -r '%s'", dir);
	return system(cmd);
}

static void memory_is(uint64_t limit, uint64_t left)
{
	struct cgroup g;

	cgroup_memory(&g);
	assert_true(g.limit == limit);
	assert_true(g.left == left);
}

static void version_two(void **state)
{
	(void)state;
	memory_is(CGROUP_NONE, CGROUP_NONE); /* nothing there */
	put("own", "0::/a.slice/b.service\n");
	memory_is(CGROUP_NONE, CGROUP_NONE);
	put("a.slice/b.service/memory.max", "max\n");
	put("a.slice/b.service/memory.high", "max\n");
	put_n("a.slice/b.service/memory.current", 5 * MIB);
	memory_is(CGROUP_NONE, CGROUP_NONE);
	/* the nearest limit is further up */
	put_n("a.slice/memory.max", 100 * MIB);
	put_n("a.slice/memory.current", 70 * MIB);
	memory_is(100 * MIB, 30 * MIB);
	/* files that are not in use do not count */
	put("a.slice/memory.stat", "anon 7\nfile 9\ninactive_file 20971520\n");
	memory_is(100 * MIB, 50 * MIB);
	put_n("a.slice/b.service/memory.high", 40 * MIB);
	memory_is(40 * MIB, 35 * MIB);
	put_n("a.slice/b.service/memory.max", 30 * MIB);
	memory_is(30 * MIB, 25 * MIB);
	/* more in use than there may be */
	put_n("a.slice/memory.current", 170 * MIB);
	memory_is(30 * MIB, 0);
}

static void version_one(void **state)
{
	(void)state;
	put("own", "9:cpu,cpuacct:/x\n7:xmemory:/no\n8:blkio,memory:/x/y\n"
		   "0::/z\n");
	put("memory/memory.limit_in_bytes", "9223372036854771712\n");
	put_n("memory/memory.usage_in_bytes", 5 * MIB);
	put_n("memory/no/memory.limit_in_bytes", MIB);
	put_n("memory/no/memory.usage_in_bytes", 0);
	memory_is(CGROUP_NONE, CGROUP_NONE);
	put_n("memory/x/y/memory.limit_in_bytes", 150 * MIB);
	put_n("memory/x/y/memory.usage_in_bytes", 50 * MIB);
	put("memory/x/y/memory.stat",
	    "inactive_file 1\ntotal_inactive_file 10485760\n");
	memory_is(150 * MIB, 110 * MIB);
	put_n("memory/x/memory.limit_in_bytes", 120 * MIB);
	put_n("memory/x/memory.usage_in_bytes", 100 * MIB);
	memory_is(120 * MIB, 20 * MIB);
}

/* Its path is the host's; what it sees is its own group. */
static void in_a_container(void **state)
{
	(void)state;
	put("own", "4:memory:/docker/0123456789abcdef\n0::/docker/0123\n");
	put_n("memory/memory.limit_in_bytes", 64 * MIB);
	put_n("memory/memory.usage_in_bytes", 4 * MIB);
	memory_is(64 * MIB, 60 * MIB);
	put("own", "0::/\n");
	put_n("memory.max", 32 * MIB);
	put_n("memory.current", 8 * MIB);
	memory_is(32 * MIB, 24 * MIB);
}

static void threads_are_counted(void **state)
{
	struct cgroup g;

	(void)state;
	put("own", "0::/s\n");
	put("s/pids.max", "max\n");
	put_n("s/pids.current", 3);
	assert_true(budget_thread());
	put_n("s/pids.max", 100);
	cgroup_threads(&g);
	assert_true(g.limit == 100 && g.left == 97);
	assert_true(budget_thread());
	put_n("s/pids.current", 95);
	assert_false(budget_thread());
	put_n("s/pids.max", 10);
	put_n("s/pids.current", 1);
	assert_false(budget_thread());
}

/* --- decisions ----------------------------------------------------------- */

static enum reason make(uint32_t *ring)
{
	*ring = 2097152;
	budget_look();
	return budget_make(ring);
}

static void memory_of_a_group(void **state)
{
	uint32_t ring;
	int i;

	(void)state;
	put("own", "0::/s\n");
	put_n("s/memory.max", 160 * MIB);
	put_n("s/memory.current", 16 * MIB);
	assert_int_equal(make(&ring), WHY_NONE);
	assert_true(shm_account.most == 10 * MIB);
	assert_false(budget_pressed());
	shm_account.rings = 9 * MIB;
	assert_true(budget_pressed());
	shm_account.rings = 0;
	/* the mappings themselves cost something */
	for (i = 0; !make(&ring); i++)
		shm_account.maps++;
	assert_in_range(i, 500, 2000);
	assert_int_equal(make(&ring), WHY_MEMORY_LIMIT);
	shm_account.maps = 0;
	/* others have nearly all of it */
	put_n("s/memory.current", 149 * MIB);
	assert_int_equal(make(&ring), WHY_NONE);
	assert_true(shm_account.most < MIB);
	put_n("s/memory.current", 150 * MIB);
	assert_int_equal(make(&ring), WHY_MEMORY_LIMIT);
	/* what is in use already is kept, and nothing is added */
	shm_account.rings = 3 * MIB;
	assert_int_equal(make(&ring), WHY_MEMORY_LIMIT);
	assert_true(shm_account.most == 3 * MIB);
}

static void limit(__rlimit_resource_t what, uint64_t n)
{
	struct rlimit rl = { n, RLIM_INFINITY };

	if (getrlimit(what, &rl))
		_exit(90);
	rl.rlim_cur = n;
	if (setrlimit(what, &rl))
		_exit(91);
}

/* Runs in a child, since it takes limits down. */
static void apart(void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define MUST(x)                                                     \
	do {                                                        \
		if (!(x))                                           \
			_exit(__LINE__ & 127 ? __LINE__ & 127 : 1); \
	} while (0)

static void with_little_space(void)
{
	struct shm_seg seg[1000];
	uint64_t pages;
	uint32_t ring, last = 2097152;
	int n = 0, fd;

	MUST(!proc_value("/proc/self/statm", &pages));
	limit(RLIMIT_AS, pages * 4096 + 512 * MIB);
	while (make(&ring) == WHY_NONE) {
		MUST(ring <= last && ring >= SHM_RING_LOW);
		last = ring;
		fd = shm_make(&seg[n], ring);
		MUST(fd >= 0);
		close(fd);
		MUST(++n < 1000);
	}
	MUST(make(&ring) == WHY_NO_SPACE);
	MUST(last == SHM_RING_LOW && n > 10);
	MUST(shm_account.space <= (pages * 4096 + 512 * MIB) / 16);
	MUST(budget_map(4200000) == WHY_NO_SPACE);
	while (n--)
		shm_unmap(&seg[n]);
	MUST(make(&ring) == WHY_NONE && ring > 65536);
	/* the program has used it all by itself */
	limit(RLIMIT_AS, pages * 4096 + 8 * MIB);
	MUST(make(&ring) == WHY_NONE || make(&ring) == WHY_NO_SPACE);
	limit(RLIMIT_AS, pages * 4096);
	MUST(make(&ring) == WHY_NO_SPACE);
}

static void address_space(void **state)
{
	(void)state;
	apart(with_little_space);
}

static void with_many_maps(void)
{
	uint64_t most, i;
	uint32_t ring;

	MUST(!proc_value("/proc/sys/vm/max_map_count", &most));
	MUST(make(&ring) == WHY_NONE);
	/* neighbours with other rights are not joined */
	for (i = 0; i < most; i++)
		if (mmap(NULL, 4096, i & 1 ? PROT_READ : PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			break;
	MUST(i < most);
	MUST(make(&ring) == WHY_NO_MAPS);
	MUST(budget_map(200000) == WHY_NO_MAPS);
}

static void mappings(void **state)
{
	uint64_t most = 0;
	uint32_t ring;

	(void)state;
	assert_int_equal(proc_value("/proc/sys/vm/max_map_count", &most), 0);
	assert_int_equal(make(&ring), WHY_NONE);
	shm_account.maps = most / 16;
	assert_int_equal(make(&ring), WHY_NO_MAPS);
	shm_account.maps = 0;
	if (most <= 262144)
		apart(with_many_maps);
}

static void sizes_of_files(void **state)
{
	(void)state;
	assert_int_equal(budget_refused(-EFBIG), WHY_FILE_LIMIT);
	assert_int_equal(budget_refused(-EMFILE), WHY_NO_FD);
	assert_int_equal(budget_refused(-ENOMEM), WHY_NO_MEMORY);
	assert_int_equal(budget_refused(-EPERM), WHY_NO_MEMFD);
}

static void with_locks(void)
{
	uint32_t ring;

	MUST(make(&ring) == WHY_NONE && !shm_account.locks);
	if (mlockall(MCL_FUTURE))
		return; /* RLIMIT_MEMLOCK is too small */
	MUST(make(&ring) == WHY_NONE && shm_account.locks);
	munlockall();
	MUST(make(&ring) == WHY_NONE && !shm_account.locks);
	if (mlockall(MCL_FUTURE | MCL_ONFAULT))
		return;
	MUST(make(&ring) == WHY_NONE && shm_account.locks);
}

static void mappings_that_are_born_locked(void **state)
{
	(void)state;
	apart(with_locks);
}

static void with_few_processes(void)
{
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return; /* only root can be another user */
	limit(RLIMIT_NPROC, 15);
	MUST(!budget_thread());
	limit(RLIMIT_NPROC, 16);
}

static void processes_of_the_user(void **state)
{
	(void)state;
	apart(with_few_processes);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, groups_new, groups_gone)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#else
#define UNDER_SANITIZER 0
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(version_two),
		TEST(version_one),
		TEST(in_a_container),
		TEST(threads_are_counted),
		TEST(memory_of_a_group),
		TEST(address_space),
		TEST(mappings),
		TEST(sizes_of_files),
		TEST(mappings_that_are_born_locked),
		TEST(processes_of_the_user),
	};

	if (UNDER_SANITIZER)
		return 77; /* its own address space is past limits */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
