/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Windows into the keep areas. No process keeps a descriptor of the segment's
 * file, but a mapping that is shared can be doubled, and the double may reach
 * further: from the last page of the segment, window by window, to any place
 * behind it. So neither the 64 MiB of a keep area nor those of the other in
 * front of it need address space.
 */

#include <stdbool.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "fabric/shm/shm.h"

#define PAGE	4096u
#define LARGEST 1048576u

#define SMALL 65536u

static uint8_t *spare; /* atomic; 2 * SMALL bytes, not to be touched */

void shm_keep_spare(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	uint8_t *mem, *none = NULL;

	if (__atomic_load_n(&spare, __ATOMIC_RELAXED))
		return;
	mem = sys_mmap(NULL, 2 * SMALL, PROT_NONE, flags, -1, 0);
	if (!sys_is_err(mem) &&
	    !__atomic_compare_exchange_n(&spare, &none, mem, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		sys_munmap(mem, 2 * SMALL);
}

static void unmap(uint8_t *map, size_t len)
{
	if (map)
		sys_munmap(map, len);
}

/* `len` bytes of the file from where the page `from` lies. */
static uint8_t *window(uint8_t *from, size_t len)
{
	return (uint8_t *)sys_call6(SYS_mremap, (long)from, 0, (long)len,
				    MREMAP_MAYMOVE, 0, 0);
}

/* Windows of `len` bytes up to one that has the page `far` behind `from`. */
static int reach(struct shm_keep *a, uint8_t *from, uint64_t far, size_t len)
{
	uint8_t *map, *last = NULL;

	for (;;) {
		map = window(from, len);
		unmap(last, len);
		if (sys_is_err(map))
			return (int)(long)map;
		if (far < len)
			break;
		last = map;
		from = map + len - PAGE;
		far -= len - PAGE;
	}
	a->map = map;
	a->len = len;
	a->lead = (uint32_t)far;
	return 0;
}

static int reach_spared(struct shm_keep *a, uint8_t *from, uint64_t far)
{
	uint8_t *was = __atomic_exchange_n(&spare, NULL, __ATOMIC_RELAXED);
	int err = -ENOMEM;

	if (was) {
		sys_munmap(was, 2 * SMALL);
		err = reach(a, from, far, SMALL);
	}
	if (was && err)
		shm_keep_spare();
	return err;
}

/* The window begins `lead` bytes in front of the page that was asked for. */
static ssize_t within(struct shm_keep *a, uint64_t at, uint8_t **mem)
{
	uint64_t skip = a->lead + (at - a->at), end = SHM_KEEP - at;

	*mem = a->map + skip;
	return (ssize_t)(a->len - skip < end ? a->len - skip : end);
}

ssize_t shm_keep_at(struct shm_keep *a, const struct shm_end *e, bool tx,
		    uint64_t at, uint8_t **mem)
{
	const struct shm_seg *s = &e->seg;
	bool maker = e->tx < e->rx;
	uint64_t skip = tx == maker ? 0 : SHM_KEEP;
	size_t len = LARGEST;
	uint8_t *last;
	int err;

	if (!s->mem)
		return -ENODEV;
	if (at >= SHM_KEEP)
		return -EINVAL;
	if (a->map && a->tx == tx && at >= a->at &&
	    at - a->at < a->len - a->lead)
		return within(a, at, mem);
	shm_keep_close(a);
	skip += PAGE + at / PAGE * PAGE;
	last = (uint8_t *)s->mem + s->len - PAGE;
	do {
		err = reach(a, last, skip, len);
		len /= 2;
	} while (err == -ENOMEM && len >= SMALL);
	if (err == -ENOMEM)
		err = reach_spared(a, last, skip);
	if (err)
		return err;
	a->tx = tx;
	a->at = at / PAGE * PAGE;
	return within(a, at, mem);
}

void shm_keep_close(struct shm_keep *a)
{
	unmap(a->map, a->len);
	if (a->map)
		shm_keep_spare();
	*a = (struct shm_keep){ 0 };
}

void shm_keep_drop(const struct shm_end *e, bool tx, uint64_t to)
{
	struct shm_keep a = { 0 };
	uint64_t at = 0;
	uint8_t *mem;
	ssize_t n;

	while (at < to) {
		n = shm_keep_at(&a, e, tx, at, &mem);
		if (n <= 0)
			break;
		/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): n > 0 */
		sys_madvise(mem, (size_t)n, MADV_REMOVE);
		at += (uint64_t)n;
	}
	shm_keep_close(&a);
}
