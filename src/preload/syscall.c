/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * syscall(): the numbers that take or make descriptors are what their
 * wrappers are; the rest passes through. One switch per family.
 */
#include "preload/fd/real.h"

#include <sched.h>
#include <sys/syscall.h>

#include "base/mem.h"
#include "base/sys.h"
#include "preload/preload.h"
#include "preload/ready.h"

struct args {
	long a, b, c, d, e, f;
};

#define P(x) ((void *)(x))
#define I(x) ((int)(x))
#define N(x) ((size_t)(x))

#define MASK_SIZE 8 /* of the kernel's sigset_t */

/* Each family: true when the number was its own, *ret then holds. */
static bool data_call(long nr, const struct args *g, long *ret)
{
	switch (nr) {
	case SYS_read:
		*ret = do_read(I(g->a), P(g->b), N(g->c));
		return true;
	case SYS_write:
		*ret = do_write(I(g->a), P(g->b), N(g->c));
		return true;
	case SYS_readv:
		*ret = do_readv(I(g->a), P(g->b), I(g->c));
		return true;
	case SYS_writev:
		*ret = do_writev(I(g->a), P(g->b), I(g->c));
		return true;
	case SYS_preadv2:
		*ret = do_preadv2(I(g->a), P(g->b), I(g->c), g->d, I(g->f));
		return true;
	case SYS_pwritev2:
		*ret = do_pwritev2(I(g->a), P(g->b), I(g->c), g->d, I(g->f));
		return true;
	case SYS_recvfrom:
		*ret = do_recvfrom(I(g->a), P(g->b), N(g->c), I(g->d), P(g->e),
				   P(g->f));
		return true;
	case SYS_sendto:
		*ret = do_sendto(I(g->a), P(g->b), N(g->c), I(g->d), P(g->e),
				 (socklen_t)g->f);
		return true;
	case SYS_recvmsg:
		*ret = do_recvmsg(I(g->a), P(g->b), I(g->c));
		return true;
	case SYS_sendmsg:
		*ret = do_sendmsg(I(g->a), P(g->b), I(g->c));
		return true;
	case SYS_recvmmsg:
		*ret = do_recvmmsg(I(g->a), P(g->b), (unsigned int)g->c,
				   I(g->d), P(g->e));
		return true;
	case SYS_sendmmsg:
		*ret = do_sendmmsg(I(g->a), P(g->b), (unsigned int)g->c,
				   I(g->d));
		return true;
	case SYS_sendfile:
		*ret = do_sendfile(I(g->a), I(g->b), P(g->c), N(g->d));
		return true;
	case SYS_splice:
		*ret = do_splice(I(g->a), P(g->b), I(g->c), P(g->d), N(g->e),
				 (unsigned int)g->f);
		return true;
	}
	return false;
}

static bool socket_call(long nr, const struct args *g, long *ret)
{
	switch (nr) {
	case SYS_socket:
		*ret = do_socket(I(g->a), I(g->b), I(g->c));
		return true;
	case SYS_bind:
		*ret = do_bind(I(g->a), P(g->b), (socklen_t)g->c);
		return true;
	case SYS_listen:
		*ret = do_listen(I(g->a), I(g->b));
		return true;
	case SYS_accept:
		*ret = do_accept(I(g->a), P(g->b), P(g->c));
		return true;
	case SYS_accept4:
		*ret = do_accept4(I(g->a), P(g->b), P(g->c), I(g->d));
		return true;
	case SYS_connect:
		*ret = do_connect(I(g->a), P(g->b), (socklen_t)g->c);
		return true;
	case SYS_getsockopt:
		*ret = do_getsockopt(I(g->a), I(g->b), I(g->c), P(g->d),
				     P(g->e));
		return true;
	case SYS_setsockopt:
		*ret = do_setsockopt(I(g->a), I(g->b), I(g->c), P(g->d),
				     (socklen_t)g->e);
		return true;
	case SYS_shutdown:
		*ret = do_shutdown(I(g->a), I(g->b));
		return true;
	}
	return false;
}

static bool file_call(long nr, const struct args *g, long *ret)
{
	switch (nr) {
	case SYS_close:
		*ret = do_close(I(g->a));
		return true;
	case SYS_close_range:
		*ret = do_close_range((unsigned int)g->a, (unsigned int)g->b,
				      I(g->c));
		return true;
	case SYS_dup:
		*ret = do_dup(I(g->a));
		return true;
#ifdef SYS_dup2
	case SYS_dup2:
		*ret = do_dup2(I(g->a), I(g->b));
		return true;
#endif
	case SYS_dup3:
		*ret = do_dup3(I(g->a), I(g->b), I(g->c));
		return true;
	case SYS_fcntl:
		*ret = do_fcntl(I(g->a), I(g->b), g->c);
		return true;
#ifdef SYS_pidfd_getfd
	case SYS_pidfd_getfd:
		*ret = do_pidfd_getfd(I(g->a), I(g->b), (unsigned int)g->c);
		return true;
#endif
	case SYS_ioctl:
		*ret = do_ioctl(I(g->a), (unsigned long)g->b, P(g->c));
		return true;
	}
	return false;
}

struct sixth { /* of pselect6 */
	const sigset_t *mask;
	size_t size;
};

/* With a mask that the kernel refuses it is left to the kernel. */
static bool ready_call(long nr, const struct args *g, long *ret)
{
	const struct sixth *m;

	switch (nr) {
#ifdef SYS_poll
	case SYS_poll:
		*ret = do_poll(P(g->a), (nfds_t)g->b, I(g->c));
		break;
	case SYS_select:
		*ret = do_select(I(g->a), P(g->b), P(g->c), P(g->d), P(g->e));
		break;
	case SYS_epoll_wait:
		*ret = do_epoll_wait(I(g->a), P(g->b), I(g->c), I(g->d));
		break;
#endif
	case SYS_ppoll:
		if (g->d && g->e != MASK_SIZE)
			return false;
		*ret = do_ppoll(P(g->a), (nfds_t)g->b, P(g->c), P(g->d));
		break;
	case SYS_pselect6:
		m = P(g->f);
		if (m && (!mem_good(m, sizeof(*m), false) ||
			  (m->mask && m->size != MASK_SIZE)))
			return false;
		*ret = do_pselect(I(g->a), P(g->b), P(g->c), P(g->d), P(g->e),
				  m ? m->mask : NULL);
		break;
	case SYS_epoll_ctl:
		*ret = do_epoll_ctl(I(g->a), I(g->b), I(g->c), P(g->d));
		break;
	case SYS_epoll_pwait:
		if (g->e && g->f != MASK_SIZE)
			return false;
		*ret = do_epoll_pwait(I(g->a), P(g->b), I(g->c), I(g->d),
				      P(g->e));
		break;
#ifdef SYS_epoll_pwait2
	case SYS_epoll_pwait2:
		if (g->e && g->f != MASK_SIZE)
			return false;
		*ret = do_epoll_pwait2(I(g->a), P(g->b), I(g->c), P(g->d),
				       P(g->e));
		break;
#endif
	default:
		return false;
	}
	*ret = ret_errno(*ret);
	return true;
}

/*
 * A raw clone without CLONE_VM is a fork; its child finds out by itself at
 * its first call that changes the table. The parent brings back to TCP what
 * both would use, since the new holder is not counted.
 */
static void cloning(uint64_t flags)
{
	if (!fdt_any || flags & CLONE_THREAD || !fdt_is_owner())
		return;
	ep_parent_forked();
	if (flags & CLONE_VM)
		fdt_vforked = 1;
	else
		sock_fallback_all(WHY_FD_SHARED);
}

static bool process_call(long nr, const struct args *g, long *ret)
{
	switch (nr) {
#ifdef SYS_fork
	case SYS_fork:
		*ret = do__Fork();
		return true;
#endif
#ifdef SYS_vfork
	case SYS_vfork:
		fdt_vforked = 1;
		return false;
#endif
	case SYS_clone:
		cloning((uint64_t)g->a);
		return false;
	case SYS_execve:
		*ret = do_execve(P(g->a), P(g->b), P(g->c));
		return true;
	case SYS_execveat:
		*ret = do_execveat(I(g->a), P(g->b), P(g->c), P(g->d), I(g->e));
		return true;
	case SYS_exit_group:
		do__exit(I(g->a));
		return true;
	case SYS_prctl:
		*ret = do_prctl(I(g->a), (unsigned long)g->b,
				(unsigned long)g->c, (unsigned long)g->d,
				(unsigned long)g->e);
		return true;
	case SYS_unshare:
		*ret = do_unshare(I(g->a));
		return true;
	case SYS_setns:
		*ret = do_setns(I(g->a), I(g->b));
		return true;
	case SYS_seccomp:
		sandbox_by_call((unsigned int)g->a, (unsigned int)g->b,
				P(g->c));
		return false;
#ifdef SYS_clone3
	case SYS_clone3:
		if (g->b >= 8 && mem_good(P(g->a), sizeof(uint64_t), false))
			cloning(*(const uint64_t *)g->a);
		return false;
#endif
	}
	return false;
}

static bool ring_call(long nr, const struct args *g, long *ret)
{
	switch (nr) {
	case SYS_io_submit:
		*ret = aio_submitting(g->b, P(g->c));
		if (!*ret)
			return false;
		*ret = ret_errno(*ret);
		return true;
	case SYS_io_uring_setup:
		*ret = real_syscall(nr, g->a, g->b, 0, 0, 0, 0);
		if (*ret >= 0)
			uring_made(I(*ret), P(g->b));
		return true;
	case SYS_io_uring_enter:
		uring_entering(I(g->a), (unsigned int)g->b, (unsigned int)g->d);
		return false;
	case SYS_io_uring_register:
		uring_registering((unsigned int)g->b, (uint64_t)g->c,
				  (unsigned int)g->d);
		return false;
	}
	return false;
}

long do_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	struct args g = { a, b, c, d, e, f };
	long ret;

	if (preload_off)
		return real_syscall(nr, a, b, c, d, e, f);
	if (data_call(nr, &g, &ret) || file_call(nr, &g, &ret) ||
	    ready_call(nr, &g, &ret) || socket_call(nr, &g, &ret) ||
	    process_call(nr, &g, &ret) || ring_call(nr, &g, &ret))
		/* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.UndefReturn) */
		return ret;
	return real_syscall(nr, a, b, c, d, e, f);
}
