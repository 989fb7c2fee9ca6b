/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * vfork(): raise fdt_vforked (a thread-local of the static model) and go on to
 * libc's with the caller's return address in its place.
 */
#include "preload/fd/real.h"

#include "preload/preload.h"

#if defined(__x86_64__)
__asm__(".text\n"
	".globl vfork, __vfork\n"
	".type vfork, @function\n"
	".type __vfork, @function\n"
	"vfork:\n"
	"__vfork:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	movq fdt_vforked@gottpoff(%rip), %rax\n"
	"	movl $1, %fs:(%rax)\n"
	"	jmpq *real_vfork(%rip)\n"
	"	.cfi_endproc\n"
	".size vfork, .-vfork\n"
	".size __vfork, .-__vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl vfork, __vfork\n"
	".type vfork, %function\n"
	".type __vfork, %function\n"
	"vfork:\n"
	"__vfork:\n"
	"	.cfi_startproc\n"
	"	hint 34\n" /* bti c */
	"	mrs x0, tpidr_el0\n"
	"	adrp x1, :gottprel:fdt_vforked\n"
	"	ldr x1, [x1, :gottprel_lo12:fdt_vforked]\n"
	"	mov w2, 1\n"
	"	str w2, [x0, x1]\n"
	"	adrp x16, real_vfork\n"
	"	ldr x16, [x16, :lo12:real_vfork]\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size vfork, .-vfork\n"
	".size __vfork, .-__vfork\n");
#endif
