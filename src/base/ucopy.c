/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/ucopy.h"

#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

/*
 * From ucopy() to ucopy_fault nothing else is touched than the two memories,
 * and nothing lies on the stack: a fault goes on at ucopy_fault. Short copies
 * are two that overlap, from the front and from the end; of long ones the end
 * is loaded first.
 */
extern const char ucopy_fault[];

#if defined(__x86_64__)
#define PC(uc) ((uc)->uc_mcontext.gregs[REG_RIP])

/* Bytes from which on `rep movsb` is the faster way; never, where it is slow. */
uint64_t ucopy_rep_from = UINT64_MAX;

/*
 * `rep movsb` does not read the lines that it writes, which with two processors
 * are the other one's. It begins where a line begins: elsewhere some processors
 * make it many times slower, and behind a message's header `to` never is there.
 */
__asm__(".text\n"
	".globl ucopy, ucopy_fault\n"
	".hidden ucopy, ucopy_fault\n"
	".type ucopy, @function\n"
	".p2align 6\n"
	"ucopy:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	cmpq $16, %rdx\n"
	"	jb 4f\n"
	"	cmpq $32, %rdx\n"
	"	ja 1f\n"
	"	movups (%rsi), %xmm0\n"
	"	movups -16(%rsi,%rdx), %xmm1\n"
	"	movups %xmm0, (%rdi)\n"
	"	movups %xmm1, -16(%rdi,%rdx)\n"
	"	movl $1, %eax\n"
	"	ret\n"
	"1:	cmpq $64, %rdx\n"
	"	ja 2f\n"
	"	movups (%rsi), %xmm0\n"
	"	movups 16(%rsi), %xmm1\n"
	"	movups -32(%rsi,%rdx), %xmm2\n"
	"	movups -16(%rsi,%rdx), %xmm3\n"
	"	movups %xmm0, (%rdi)\n"
	"	movups %xmm1, 16(%rdi)\n"
	"	movups %xmm2, -32(%rdi,%rdx)\n"
	"	movups %xmm3, -16(%rdi,%rdx)\n"
	"	movl $1, %eax\n"
	"	ret\n"
	"2:	cmpq ucopy_rep_from(%rip), %rdx\n"
	"	jae 8f\n"
	"	movups (%rsi), %xmm0\n"
	"	movups -64(%rsi,%rdx), %xmm4\n"
	"	movups -48(%rsi,%rdx), %xmm5\n"
	"	movups -32(%rsi,%rdx), %xmm6\n"
	"	movups -16(%rsi,%rdx), %xmm7\n"
	"	leaq -64(%rdi,%rdx), %rcx\n"
	"	movups %xmm0, (%rdi)\n"
	"	leaq 16(%rdi), %rax\n"
	"	andq $-16, %rax\n"
	"	subq %rdi, %rax\n"
	"	addq %rax, %rsi\n"
	"	addq %rax, %rdi\n"
	"	cmpq %rcx, %rdi\n"
	"	jae 9f\n"
	"	.p2align 4\n"
	"3:	movups (%rsi), %xmm0\n"
	"	movups 16(%rsi), %xmm1\n"
	"	movups 32(%rsi), %xmm2\n"
	"	movups 48(%rsi), %xmm3\n"
	"	movaps %xmm0, (%rdi)\n"
	"	movaps %xmm1, 16(%rdi)\n"
	"	movaps %xmm2, 32(%rdi)\n"
	"	movaps %xmm3, 48(%rdi)\n"
	"	addq $64, %rsi\n"
	"	addq $64, %rdi\n"
	"	cmpq %rcx, %rdi\n"
	"	jb 3b\n"
	"9:	movups %xmm4, (%rcx)\n"
	"	movups %xmm5, 16(%rcx)\n"
	"	movups %xmm6, 32(%rcx)\n"
	"	movups %xmm7, 48(%rcx)\n"
	"	movl $1, %eax\n"
	"	ret\n"
	"8:	movups (%rsi), %xmm0\n"
	"	movups 16(%rsi), %xmm1\n"
	"	movups 32(%rsi), %xmm2\n"
	"	movups 48(%rsi), %xmm3\n"
	"	movq %rdi, %r8\n"
	"	leaq 64(%rdi), %rdi\n"
	"	andq $-64, %rdi\n"
	"	movq %rdi, %rax\n"
	"	subq %r8, %rax\n"
	"	addq %rax, %rsi\n"
	"	movq %rdx, %rcx\n"
	"	subq %rax, %rcx\n"
	"	rep movsb\n"
	"	movups %xmm0, (%r8)\n"
	"	movups %xmm1, 16(%r8)\n"
	"	movups %xmm2, 32(%r8)\n"
	"	movups %xmm3, 48(%r8)\n"
	"	movl $1, %eax\n"
	"	ret\n"
	"4:	movl $1, %eax\n"
	"	cmpl $8, %edx\n"
	"	jb 5f\n"
	"	movq (%rsi), %rcx\n"
	"	movq -8(%rsi,%rdx), %r8\n"
	"	movq %rcx, (%rdi)\n"
	"	movq %r8, -8(%rdi,%rdx)\n"
	"	ret\n"
	"5:	cmpl $4, %edx\n"
	"	jb 6f\n"
	"	movl (%rsi), %ecx\n"
	"	movl -4(%rsi,%rdx), %r8d\n"
	"	movl %ecx, (%rdi)\n"
	"	movl %r8d, -4(%rdi,%rdx)\n"
	"	ret\n"
	"6:	testl %edx, %edx\n"
	"	jz 7f\n"
	"	movl %edx, %r10d\n"
	"	shrl $1, %r10d\n"
	"	movzbl (%rsi), %ecx\n"
	"	movzbl (%rsi,%r10), %r8d\n"
	"	movzbl -1(%rsi,%rdx), %r9d\n"
	"	movb %cl, (%rdi)\n"
	"	movb %r8b, (%rdi,%r10)\n"
	"	movb %r9b, -1(%rdi,%rdx)\n"
	"7:	ret\n"
	"ucopy_fault:\n"
	"	xorl %eax, %eax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size ucopy, .-ucopy\n");

/* Enhanced rep movsb: leaf 7, ebx bit 9. */
__attribute__((constructor)) static void find_way(void)
{
	unsigned int a, b, c, d;

	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 9))
		ucopy_rep_from = 1024;
}
#elif defined(__aarch64__)
#define PC(uc) ((uc)->uc_mcontext.pc)

__asm__(".text\n"
	".globl ucopy, ucopy_fault\n"
	".hidden ucopy, ucopy_fault\n"
	".type ucopy, %function\n"
	".p2align 6\n"
	"ucopy:\n"
	"	.cfi_startproc\n"
	"	hint 34\n" /* bti c */
	"	add x3, x0, x2\n"
	"	add x4, x1, x2\n"
	"	cmp x2, 16\n"
	"	b.lo 4f\n"
	"	cmp x2, 32\n"
	"	b.hi 1f\n"
	"	ldr q0, [x1]\n"
	"	ldr q1, [x4, -16]\n"
	"	str q0, [x0]\n"
	"	str q1, [x3, -16]\n"
	"	mov w0, 1\n"
	"	ret\n"
	"1:	cmp x2, 64\n"
	"	b.hi 2f\n"
	"	ldp q0, q1, [x1]\n"
	"	ldp q2, q3, [x4, -32]\n"
	"	stp q0, q1, [x0]\n"
	"	stp q2, q3, [x3, -32]\n"
	"	mov w0, 1\n"
	"	ret\n"
	"2:	ldp q4, q5, [x4, -64]\n"
	"	ldp q6, q7, [x4, -32]\n"
	"	sub x5, x3, 64\n"
	"	.p2align 4\n"
	"3:	ldp q0, q1, [x1]\n"
	"	ldp q2, q3, [x1, 32]\n"
	"	add x1, x1, 64\n"
	"	stp q0, q1, [x0]\n"
	"	stp q2, q3, [x0, 32]\n"
	"	add x0, x0, 64\n"
	"	cmp x0, x5\n"
	"	b.lo 3b\n"
	"	stp q4, q5, [x5]\n"
	"	stp q6, q7, [x5, 32]\n"
	"	mov w0, 1\n"
	"	ret\n"
	"4:	tbz w2, 3, 5f\n"
	"	ldr x6, [x1]\n"
	"	ldr x7, [x4, -8]\n"
	"	str x6, [x0]\n"
	"	str x7, [x3, -8]\n"
	"	mov w0, 1\n"
	"	ret\n"
	"5:	tbz w2, 2, 6f\n"
	"	ldr w6, [x1]\n"
	"	ldr w7, [x4, -4]\n"
	"	str w6, [x0]\n"
	"	str w7, [x3, -4]\n"
	"	mov w0, 1\n"
	"	ret\n"
	"6:	cbz w2, 7f\n"
	"	lsr w8, w2, 1\n"
	"	ldrb w5, [x1]\n"
	"	ldrb w6, [x1, x8]\n"
	"	ldrb w7, [x4, -1]\n"
	"	strb w5, [x0]\n"
	"	strb w6, [x0, x8]\n"
	"	strb w7, [x3, -1]\n"
	"7:	mov w0, 1\n"
	"	ret\n"
	"ucopy_fault:\n"
	"	mov w0, 0\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size ucopy, .-ucopy\n");
#endif

#ifdef PC
bool ucopy_ends(int sig, const siginfo_t *si, void *context)
{
	ucontext_t *uc = context;
	uintptr_t pc = (uintptr_t)PC(uc);

	if ((sig != SIGSEGV && sig != SIGBUS) || si->si_code <= 0 ||
	    pc < (uintptr_t)ucopy || pc >= (uintptr_t)ucopy_fault)
		return false;
	PC(uc) = (__typeof__(PC(uc)))(uintptr_t)ucopy_fault;
	return true;
}
#else /* no range is marked: a fault is the program's, as in its own code */
bool ucopy(void *to, const void *from, size_t n)
{
	memcpy(to, from, n);
	return true;
}

bool ucopy_ends(int sig, const siginfo_t *si, void *context)
{
	(void)sig;
	(void)si;
	(void)context;
	return false;
}
#endif
