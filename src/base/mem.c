/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "base/sys.h"

#define PAGE_BITS  12 /* the smallest there is */
#define KNOWN_BITS 5
#define COPY_BITS  12 /* a server has a buffer for each connection */
#define KNOWN	   (1u << KNOWN_BITS)
#define COPIES	   (1u << COPY_BITS)
#define SPREAD	   0x9e3779b97f4a7c15ull /* 2^64 by the golden ratio */
#define WALK	   4096 /* pages */

/* A page's number and whether it was found writable; 0: none. */
static __thread uintptr_t known[KNOWN]
	__attribute__((tls_model("initial-exec")));
static uintptr_t copies[COPIES]; /* the same, of what is copied; atomic */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/*
 * Does valgrind interpret this process? Its memory checker takes the probes
 * below for mistakes. A processor finds five instructions that change nothing.
 */
static bool interpreted(void)
{
	static int8_t yes = -1; /* atomic */
	const uint64_t ask[6] = { 0x1001 };
	int8_t now = __atomic_load_n(&yes, __ATOMIC_RELAXED);

	if (__builtin_expect(now >= 0, 1))
		return now;
#if defined(__x86_64__)
	uint64_t answer = 0;

	__asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi\n\t"
			 "rolq $61, %%rdi; rolq $51, %%rdi\n\t"
			 "xchgq %%rbx, %%rbx"
			 : "+d"(answer)
			 : "a"(ask)
			 : "cc", "memory");
#elif defined(__aarch64__)
	register const uint64_t *x4 __asm__("x4") = ask;
	register uint64_t answer __asm__("x3") = 0;

	__asm__ volatile("ror x12, x12, #3; ror x12, x12, #13\n\t"
			 "ror x12, x12, #51; ror x12, x12, #61\n\t"
			 "orr x10, x10, x10"
			 : "+r"(answer)
			 : "r"(x4)
			 : "cc", "memory");
#endif
	now = answer != 0;
	__atomic_store_n(&yes, now, __ATOMIC_RELAXED);
	return now;
}

/* Slower, and nothing that a memory checker looks at. */
static bool there_interpreted(const void *at)
{
	char byte;
	struct iovec here = { &byte, 1 };
	struct iovec there = { (void *)(uintptr_t)at, 1 };

	return sys_call6(SYS_process_vm_readv, sys_getpid(), (long)&here, 1,
			 (long)&there, 1, 0) != -EFAULT;
}

static bool writable_interpreted(uintptr_t at)
{
	long ret = sys_call3(SYS_madvise,
			     at & ~(((uintptr_t)1 << PAGE_BITS) - 1),
			     1ul << PAGE_BITS, MADV_POPULATE_WRITE);

	return !ret || ret == -EINVAL; /* the kernel is too old to tell */
}

/*
 * The kernel reads a signal set before it looks at what to do with it: EFAULT
 * says that the memory is not there, EINVAL that it is.
 */
static bool readable(const void *at)
{
	uintptr_t word = (uintptr_t)at & ~(uintptr_t)7;

	if (interpreted())
		return there_interpreted(at);
	return sys_call6(SYS_rt_sigprocmask, -1, (long)word, 0, 8, 0, 0) !=
	       -EFAULT;
}

/* Adds nothing to the word, and wakes threads that wait for it in vain. */
static bool writable(uintptr_t at)
{
	uint32_t own = 0, *word = (uint32_t *)(at & ~(uintptr_t)3);

	if (interpreted())
		return writable_interpreted(at);
	return sys_call6(SYS_futex, (long)&own,
			 FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, (long)word,
			 FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_LT, -2048)) !=
	       -EFAULT;
}

bool mem_there(const void *at, bool write)
{
	if (write && !interpreted())
		return writable((uintptr_t)at);
	return readable(at) && (!write || writable((uintptr_t)at));
}

void mem_forget(void)
{
	unsigned int i;

	memset(known, 0, sizeof(known));
	for (i = 0; i < COPIES; i++)
		__atomic_store_n(&copies[i], 0, __ATOMIC_RELAXED);
}

static inline bool page_good(uintptr_t at, bool write, bool copied)
{
	uintptr_t page = at >> PAGE_BITS, key = page << 1 | write;
	/* first and last page of a buffer are often a power of two apart */
	uint64_t hash = (uint64_t)key * SPREAD;
	uintptr_t *slot = copied ? &copies[hash >> (64 - COPY_BITS)] :
				   &known[hash >> (64 - KNOWN_BITS)];

	if (__builtin_expect(
		    __atomic_load_n(slot, __ATOMIC_RELAXED) == key && page, 1))
		return true;
	if (!page || !mem_there((const void *)at, write))
		return false;
	__atomic_store_n(slot, key, __ATOMIC_RELAXED);
	return true;
}

/* The last byte is bad, the first is good. */
static size_t walk(uintptr_t at, size_t n, bool write, bool copied)
{
	uintptr_t page = at >> PAGE_BITS, end = page + WALK;
	size_t len;

	while (++page < end && page_good(page << PAGE_BITS, write, copied))
		;
	len = (page << PAGE_BITS) - at;
	return len < n ? len : n - 1;
}

static inline size_t front(const void *at, size_t n, bool write, bool copied)
{
	uintptr_t from = (uintptr_t)at, last = from + n - 1;

	if (!n)
		return 0;
	if (!page_good(from, write, copied))
		return 0;
	if ((from ^ last) >> PAGE_BITS && !page_good(last, write, copied))
		return walk(from, n, write, copied);
	return n;
}

size_t mem_front(const void *at, size_t n, bool write)
{
	return front(at, n, write, false);
}

size_t mem_front_copied(const void *at, size_t n, bool write)
{
	return front(at, n, write, true);
}

bool mem_read_protected(void *to, const void *from, size_t n)
{
	const int flags = O_RDONLY | O_CLOEXEC;
	int fd = sys_open("/proc/thread-self/mem", flags, 0);
	long got;

	if (fd < 0)
		return false;
	got = sys_call6(SYS_pread64, fd, (long)to, (long)n, (long)from, 0, 0);
	sys_close(fd);
	return got == (long)n;
}
