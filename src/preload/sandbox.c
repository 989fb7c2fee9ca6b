/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the library can no longer do its work: system call filters, other
 * namespaces.
 *
 * A filter allows what its program calls, not what we would call instead: a
 * write() that we make a send(), a look at the clock, a line of statistics at
 * the end. So before a filter comes into force this process is left to libc
 * altogether. Its sockets fall back and stay there, for the other processes
 * of the family as well.
 */
#include "preload/fd/real.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "base/log.h"
#include "base/sigdefer.h"
#include "preload/preload.h"
#include "preload/ready.h"

static struct sock *next_sock(const struct guarded *in, int *fd)
{
	struct sock *s;

	for (*fd = fdt_next(*fd); *fd >= 0; *fd = fdt_next(*fd + 1)) {
		s = fdt_sock(in, *fd);
		if (s)
			return s;
	}
	return NULL;
}

/* The socks stay: other holders must not take them for closed by us. */
static void forget_all(const struct guarded *in)
{
	struct sock *s;
	int fd;

	for (fd = 0; (s = next_sock(in, &fd)); fd++) {
		ep_forget(fd, s);
		fdt_take_sock(fd);
	}
	for (fd = fdt_next(0); fd >= 0; fd = fdt_next(fd + 1)) {
		if (!fdt_has_set(fd))
			continue;
		ep_give_away(fd);
		fdt_take_set(fd);
	}
}

static void retreat(void)
{
	struct sock *s;
	uint64_t until;
	int fd;
	GUARDED_LATER(in);

	if (preload_off || !fdt_is_owner())
		return;
	guarded_begin(&in);
	for (fd = 0; (s = next_sock(&in, &fd)); fd++)
		if (!sock_listening(s))
			sock_fallback_begin(s, fd, WHY_SANDBOX);
	until = sock_fallback_limit();
	for (fd = 0; (s = next_sock(&in, &fd)); fd++)
		if (!sock_listening(s) &&
		    sock_fallback_until(s, fd, WHY_SANDBOX, until))
			log_warn(
				"descriptor %d could not be brought back to TCP",
				fd);
	sock_fallback_all(WHY_SANDBOX);
	forget_all(&in);
	fatal_end();
	sigdefer_end();
	sigaction_end();
	sock_last_words();
	preload_off = true;
	__atomic_store_n(&fdt_ever, false, __ATOMIC_RELEASE);
}

/* Programs also ask in vain, to learn what the kernel knows. */
void sandbox_by_call(unsigned int op, unsigned int flags, const void *arg)
{
	if ((op == SECCOMP_SET_MODE_STRICT && !flags && !arg) ||
	    (op == SECCOMP_SET_MODE_FILTER && arg))
		retreat();
}

int do_prctl(int op, unsigned long a, unsigned long b, unsigned long c,
	     unsigned long d)
{
	if (unlikely(op == PR_SET_SECCOMP) &&
	    (a == SECCOMP_MODE_STRICT || (a == SECCOMP_MODE_FILTER && b)))
		retreat();
	return real_prctl(op, a, b, c, d);
}

int do_unshare(int flags)
{
	if (fdt_ever)
		sock_fallback_all(WHY_NO_THREAD);
	return real_unshare(flags);
}

int do_setns(int fd, int type)
{
	if (fdt_ever)
		sock_fallback_all(WHY_NO_THREAD);
	return real_setns(fd, type);
}
