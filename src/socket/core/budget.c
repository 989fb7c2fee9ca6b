/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "socket/core/core.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/proc.h"
#include "base/scratch.h"
#include "base/sys.h"
#include "fabric/shm/shm.h"

#define NONE	 UINT64_MAX
#define BASE	 12288u /* bytes of a segment that are not ring: three pages */
#define MANY	 8192 /* mappings that take milliseconds to be counted, */
#define COUNT_NS 1000000000u /* and are not counted so often */
#define PAGE	 4096u /* of /proc/self/statm: sysconf() would be libc's */

static struct budget now = { NONE, 0, NONE, 0, NONE };
static struct lock lock;
static uint32_t lifts; /* atomic */
static uint64_t counted_ns;

static uint64_t get(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static void set(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t rlimit_of(int what)
{
	uint64_t lim[2];

	if (sys_call6(SYS_prlimit64, 0, what, 0, (long)lim, 0, 0))
		return NONE;
	return lim[0]; /* RLIM_INFINITY is NONE */
}

/* Or negative. */
static int64_t lines_of(const char *path)
{
	const size_t size = 4096;
	SCRATCH(room);
	char *buf = scratch_take(&room, size);
	int64_t lines = 0;
	ssize_t n, i;
	int fd;

	if (!buf)
		return -ENOMEM;
	fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	while ((n = sys_read(fd, buf, size)) > 0)
		for (i = 0; i < n; i++)
			lines += buf[i] == '\n';
	sys_close(fd);
	return n < 0 ? n : lines;
}

/* --- the limits --------------------------------------------------------- */

/* vm.max_map_count, and what the program has of it. */
static void look_at_maps(void)
{
	uint64_t most = NONE, ns = clock_coarse_ns();
	int64_t n;

	proc_value("/proc/sys/vm/max_map_count", &most);
	set(&now.maps_most, most);
	if (get(&now.maps_others) > MANY && ns - counted_ns < COUNT_NS)
		return;
	counted_ns = ns;
	n = most == NONE ? 0 : lines_of("/proc/self/maps");
	set(&now.maps_others,
	    n > 0 ? minus((uint64_t)n, get(&shm_account.maps)) : 0);
}

static void look_at_space(void)
{
	uint64_t most = rlimit_of(RLIMIT_AS), pages = 0;

	set(&now.space_most, most);
	if (most != NONE && !proc_value("/proc/self/statm", &pages))
		set(&now.space_others,
		    minus(pages * PAGE, get(&shm_account.space)));
}

/*
 * Our share, but a quarter of what is left beyond our own: others of the group
 * may be doing the same.
 */
static void look_at_memory(void)
{
	uint64_t most = NONE, own, left, maps = get(&shm_account.maps);
	struct cgroup g;

	cgroup_memory(&g);
	if (g.limit != CGROUP_NONE) {
		own = get(&shm_account.rings) + maps * BASE;
		left = minus(g.left, g.limit / BUDGET_SHARE) / 4;
		most = g.limit / BUDGET_SHARE;
		if (most > own + left)
			most = own + left;
	}
	set(&now.memory_most, most);
	set(&shm_account.most, most == NONE ? NONE : minus(most, maps * BASE));
	set(&shm_account.look_at,
	    most == NONE ? NONE :
			   get(&shm_account.rings) + most / BUDGET_SHARE + 1);
}

/*
 * mlockall(MCL_FUTURE): is what is mapped now in memory at once? By three quick
 * calls, for each lift.
 */
static bool maps_present(void)
{
	unsigned char in = 0;
	void *mem = sys_mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_is_err(mem))
		return false;
	sys_call3(SYS_mincore, mem, PAGE, &in);
	sys_munmap(mem, PAGE);
	return in & 1;
}

/* With MCL_ONFAULT it is locked only when it is touched. */
static bool maps_locked(void)
{
	uint64_t with = 0, without = 0;
	void *mem = sys_mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);

	if (sys_is_err(mem))
		return false;
	proc_field("/proc/self/status", "VmLck:", &with);
	sys_munmap(mem, PAGE);
	if (with)
		proc_field("/proc/self/status", "VmLck:", &without);
	return with > without;
}

static void look_at_kernel(void)
{
	uint64_t overcommit = 0;

	proc_value("/proc/sys/vm/overcommit_memory", &overcommit);
	__atomic_store_n(&shm_account.strict, overcommit == 2,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&shm_account.locks, maps_locked(), __ATOMIC_RELAXED);
}

/* Only the memory: rings have grown since. */
static void look_again(void)
{
	if (lock_try(&lock))
		return;
	look_at_memory();
	lock_drop(&lock);
}

void budget_look(void)
{
	if (lock_try(&lock))
		return; /* another thread does */
	look_at_maps();
	look_at_space();
	look_at_memory();
	look_at_kernel();
	shm_account.look = look_again;
	lock_drop(&lock);
}

void budget_forked(void)
{
	lock = (struct lock){ 0 };
}

/* --- the decisions ------------------------------------------------------ */

static uint64_t length(uint32_t ring)
{
	return SHM_HEAD_LEN + SHM_LANES_LEN + 2 * (uint64_t)ring;
}

/* What may be taken more of a limit of which we and others use that much. */
static uint64_t may(uint64_t most, uint64_t ours, uint64_t others)
{
	uint64_t share = most / BUDGET_SHARE, all, own;

	if (most == NONE)
		return NONE;
	own = minus(share, ours);
	all = minus(most - share, ours + others);
	return own < all ? own : all;
}

static uint64_t may_space(void)
{
	return may(get(&now.space_most), get(&shm_account.space),
		   get(&now.space_others));
}

static enum reason begin(void)
{
	uint64_t maps = get(&shm_account.maps), memory;

	if (!(__atomic_fetch_add(&lifts, 1, __ATOMIC_RELAXED) % BUDGET_EACH))
		budget_look();
	else if (maps_present())
		__atomic_store_n(&shm_account.locks, true, __ATOMIC_RELAXED);
	if (!may(get(&now.maps_most), maps, get(&now.maps_others)))
		return WHY_NO_MAPS;
	memory = get(&now.memory_most);
	if (get(&shm_account.rings) + (maps + 1) * BASE > memory)
		return WHY_MEMORY_LIMIT;
	return WHY_NONE;
}

/*
 * A quarter of what is left for one: those that come later get smaller rings.
 */
enum reason budget_make(uint32_t *ring)
{
	enum reason why = begin();
	uint64_t space = may_space();

	if (why)
		return why;
	while (*ring > SHM_RING_LOW && length(*ring) > space / 4)
		*ring /= 2;
	return length(*ring) > space ? WHY_NO_SPACE : WHY_NONE;
}

enum reason budget_map(uint64_t len)
{
	enum reason why = begin();

	if (why)
		return why;
	return len > may_space() ? WHY_NO_SPACE : WHY_NONE;
}

enum reason budget_refused(int err)
{
	switch (err) {
	case -EMFILE:
	case -ENFILE:
		return WHY_NO_FD;
	case -EFBIG:
		return WHY_FILE_LIMIT;
	case -ENOMEM:
	case -EAGAIN: /* locked memory */
	case -ENOSPC:
		return WHY_NO_MEMORY;
	default:
		return WHY_NO_MEMFD;
	}
}

bool budget_pressed(void)
{
	return get(&shm_account.rings) > get(&shm_account.most) / 4 * 3;
}

/* Root has as many as there are. */
bool budget_thread(void)
{
	struct cgroup g;

	if (sys_geteuid() && rlimit_of(RLIMIT_NPROC) < BUDGET_SHARE)
		return false;
	cgroup_threads(&g);
	return g.limit == CGROUP_NONE ||
	       (g.limit >= BUDGET_SHARE && g.left > g.limit / BUDGET_SHARE);
}
