/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Waits of poll() and select() that sleep in the kernel as they are. */
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

#include "preload/pollset.h"

/* No other thread could read what this one sleeps on. */
static bool alone(void)
{
#if __has_include(<sys/single_threaded.h>)
	return &__libc_single_threaded && __libc_single_threaded;
#else
	return false;
#endif
}

bool pollset_doze(const struct guarded *inside, struct sock_doze *in,
		  const struct pollfd *fds, nfds_t n)
{
	struct sock *s;
	nfds_t i;

	if (alone())
		return true;
	for (i = 0; i < n; i++) {
		/* what comes wakes no other thread */
		if (!(fds[i].events & (POLLIN | POLLRDNORM)))
			continue;
		s = fdt_sock(inside, fds[i].fd);
		if (s && !sock_doze(in, s))
			break;
	}
	for (i = 0; in->s && i < n; i++)
		if (pollset_warm(inside, fds[i].fd))
			return false;
	return true;
}
