/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "preload/preload.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/stamp.h"
#include "base/seccomp.h"
#include "base/sigdefer.h"
#include "config/config.h"
#include "preload/ready.h"
#include "preload/fd/real.h"

/* --- the calls that the socket room sleeps in, outside of the library ----- */

static ssize_t recv_outside(int fd, void *buf, size_t n, int flags)
{
	ASLEEP(out);

	return real_recv(fd, buf, n, flags);
}

static ssize_t send_outside(int fd, const void *buf, size_t n, int flags)
{
	ASLEEP(out);

	return real_send(fd, buf, n, flags);
}

static ssize_t recvmsg_outside(int fd, struct msghdr *m, int flags)
{
	ASLEEP(out);

	return real_recvmsg(fd, m, flags);
}

static ssize_t sendmsg_outside(int fd, const struct msghdr *m, int flags)
{
	ASLEEP(out);

	return real_sendmsg(fd, m, flags);
}

/* The end or a part of a sleep of ours, which a signal has to end. */
static int ppoll_outside(struct pollfd *p, nfds_t n, const struct timespec *ts,
			 const sigset_t *mask)
{
	return (int)ret_errno(sigdefer_ppoll(p, n, 0, ts, mask));
}

/* --- the beginning and the end --------------------------------------------- */

/*
 * Programs built with gcc's address sanitizer refuse to start where its library
 * is not the first one, unless told that it need not be. Nothing in here stands
 * in its way: what libsdp calls is found behind it, in that library. A
 * program's own function of this name and ASAN_OPTIONS go before. It is asked
 * before any constructor has run.
 */
SDP_EXPORT const char *__asan_default_options(void);

__attribute__((no_sanitize_address)) const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}

/*
 * quick_exit() runs handlers in the reverse order of registration, so ours,
 * registered before main(), comes last, as the destructor does for exit().
 */
static void ended(void *arg)
{
	(void)arg;
	sock_exit();
}

__attribute__((constructor)) static void preload_begin(int argc, char **argv)
{
	int keep = errno;
	struct sock_hooks hooks;

	real_resolve();
	deepbind_resolve();
	if (foreign_libc() || seccomp_bars()) {
		errno = keep;
		return;
	}
	log_begin();
	config_load(argc > 0 ? argv[0] : NULL);
	if (!config.disabled && (!config.secure || settings.allow_setuid)) {
		hooks = (struct sock_hooks){
			.recv = recv_outside,
			.send = send_outside,
			.recvmsg = recvmsg_outside,
			.sendmsg = sendmsg_outside,
			.ppoll = ppoll_outside,
			.changed = ep_changed,
			.risen = ep_risen,
			.by_inode = fdt_by_inode,
			.each = fdt_each,
			.another = fdt_another,
			.numbers = fdt_numbers,
			.has = fdt_has,
			.dlopen = real_dlopen,
			.elsewhere = fdt_elsewhere,
		};
		fdt_setup(&(struct fdt_above){
			.closing = ep_fd_closing,
			.dup = ep_dup,
			.child = proc_child,
			.parent_forked = ep_parent_forked,
		});
		if (clock_learn())
			log_debug("an emulated processor: "
				  "spins do not pause");
		stamp_learn();
		guard_begin(true);
		sock_setup(&hooks);
		jump_learn();
		__cxa_at_quick_exit(ended, NULL);
		fork_handlers();
		if (sock_possible())
			sigaction_begin();
		preload_off = false;
	}
	errno = keep;
}

__attribute__((destructor)) static void preload_end(void)
{
	if (!preload_off)
		sock_exit();
}
