/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * longjmp() and its kin. A signal handler may leave by them the call that it
 * interrupted: the socket room is told where to. All other jumps cost a look at
 * one thread-local word, and libc's function gets what the program gave.
 *
 * Where to is the stack pointer in the jmp_buf, which libc mangles. How to read
 * it is tried at the start; where that fails nothing is told, and a jump shows
 * later (inside.c). Where it is not known at all the names are not ours.
 */
#include "preload/fd/real.h"

#include <setjmp.h>

#include "base/scratch.h"
#include "preload/fd/asleep.h"
#include "preload/preload.h"

#if defined(__x86_64__) && defined(__LP64__) && defined(__GLIBC__)

#define STACK_POINTER 6 /* word of a jmp_buf */
#define FRAME_MOST    4096

static bool known;

/* Plain again: rotated by 17, and the guard of the thread's header. */
static uintptr_t target(const void *env)
{
	uintptr_t to = ((const uintptr_t *)env)[STACK_POINTER];

	__asm__("ror $17, %0\n\t"
		"xor %%fs:0x30, %0"
		: "+r"(to)
		:
		: "cc");
	return to;
}

__attribute__((noinline)) void jump_learn(void)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	jmp_buf here;

	if (!_setjmp(here))
		known = frame - target(here) < FRAME_MOST;
}

static void tell(const void *env)
{
	int keep = errno;

	if (known) {
		sock_jumping(target(env));
		asleep_jumping(target(env));
		guard_jumping(target(env));
		scratch_jumping(target(env));
	}
	errno = keep;
}

static bool to_be_told(void)
{
	return sock_within() || guard_inside() || guard_told() ||
	       scratch_held() || asleep_any();
}

#define JUMP(name)                          \
	void do_##name(void *env, int val)  \
	{                                   \
		if (unlikely(to_be_told())) \
			tell(env);          \
		real_##name(env, val);      \
	}
JUMP(longjmp)
JUMP(_longjmp)
JUMP(siglongjmp)
JUMP(__longjmp_chk)

#else

void jump_learn(void)
{
}

#endif
