/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/mem.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>

#include "base/sys.h"

#define PAGE_BITS 12 /* the smallest there is */
#define KNOWN	  32
#define SPREAD	  0x9e3779b97f4a7c15ull /* 2^64 by the golden ratio */
#define WALK	  4096 /* pages */

/* A page's number and whether it was found writable; 0: none. */
static __thread uintptr_t known[KNOWN]
	__attribute__((tls_model("initial-exec")));

/*
 * The kernel reads a signal set before it looks at what to do with it: EFAULT
 * says that the memory is not there, EINVAL that it is.
 */
bool mem_there(const void *at)
{
	uintptr_t word = (uintptr_t)at & ~(uintptr_t)7;

	return sys_call6(SYS_rt_sigprocmask, -1, (long)word, 0, 8, 0, 0) !=
	       -EFAULT;
}

/* Adds nothing to the word, and wakes who waits for it in vain. */
static bool writable(uintptr_t at)
{
	uint32_t own = 0, *word = (uint32_t *)(at & ~(uintptr_t)3);

	return sys_call6(SYS_futex, (long)&own,
			 FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, (long)word,
			 FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_LT, -2048)) !=
	       -EFAULT;
}

static bool page_good(uintptr_t at, bool write)
{
	uintptr_t page = at >> PAGE_BITS, key = page << 1 | write;
	/* first and last page of a buffer are often a power of two apart */
	uintptr_t *slot = &known[((uint64_t)key * SPREAD) >> 59];

	if (__builtin_expect(*slot == key && page, 1))
		return true;
	if (!page || !mem_there((const void *)at) || (write && !writable(at)))
		return false;
	*slot = key;
	return true;
}

/* The last byte is bad, the first is good. */
static size_t walk(uintptr_t at, size_t n, bool write)
{
	uintptr_t page = at >> PAGE_BITS, end = page + WALK;
	size_t len;

	while (++page < end && page_good(page << PAGE_BITS, write))
		;
	len = (page << PAGE_BITS) - at;
	return len < n ? len : n - 1;
}

size_t mem_front(const void *at, size_t n, bool write)
{
	uintptr_t from = (uintptr_t)at, last = from + n - 1;

	if (!n)
		return 0;
	if (!page_good(from, write))
		return 0;
	if ((from ^ last) >> PAGE_BITS && !page_good(last, write))
		return walk(from, n, write);
	return n;
}
