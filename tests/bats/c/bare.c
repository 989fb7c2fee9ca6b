/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A program of the dynamic linker's that has no libc. */
#if defined(__x86_64__)
static long call(long nr, long a, long b, long c)
{
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}
#define NR_WRITE 1
#define NR_EXIT	 231
#elif defined(__aarch64__)
static long call(long nr, long a, long b, long c)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2)
			 : "memory");
	return x0;
}
#define NR_WRITE 64
#define NR_EXIT	 94
#endif

void _start(void);
void _start(void)
{
	static const char text[] = "works\n";

	call(NR_WRITE, 1, (long)text, sizeof(text) - 1);
	call(NR_EXIT, 0, 0, 0);
}
