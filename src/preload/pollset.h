/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_PRELOAD_POLLSET_H
#define LIBSDP_PRELOAD_POLLSET_H

/*
 * One call of poll() or select() with managed sockets among the descriptors.
 * Async-signal-safe: memory is the stack, or mmap for large arrays.
 */

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/select.h>

#include "base/hold.h"
#include "base/scratch.h"
#include "preload/preload.h"

/* An entry that the library has a say in: a managed socket, a tracked set. */
struct pollent {
	struct sock *sock;
	struct epset *set;
	nfds_t at; /* index in the program's array */
	nfds_t wake; /* index of the wake-up descriptor in the kernel's */
	uint32_t ours, now; /* of sock_ready() */
	uint32_t was; /* `ours` before the last look */
	int ms;
	uint16_t strikes; /* came out of the kernel for nothing */
	bool asleep; /* counted as a sleeper: */
	uint32_t number; /* of sock_sleep() */
};

enum pollkind { POLL_MS, POLL_NS, POLL_SELECT };

struct pollset {
	const struct guarded *in; /* the caller is inside */
	struct pollfd *fds; /* the program's */
	nfds_t n;
	struct pollfd *kern; /* the kernel's: as fds, then wake-ups */
	nfds_t nkern;
	struct pollent *ent;
	nfds_t nent;
	const sigset_t *mask;
	enum pollkind kind;
	/*
	 * What is not there was not when the call began, or (`gone`) it was and
	 * has been closed since. select() looks at all before it sleeps.
	 */
	bool seen, gone;
	struct hold hold;
	struct sock_doze doze; /* on those of it that are cold */
	struct scratch room; /* of `ent` and `kern` */
};

/*
 * Prepare; `in`, `fds`, `n`, `mask` and `kind` are set. The caller holds the
 * set in a variable with cleanup(pollset_end). 0 or -ENOMEM.
 */
int pollset_begin(struct pollset *p);
void pollset_end(struct pollset *p);
/*
 * In front of a sleep in the kernel where none is warm. Another thread may read
 * what one of them is lifted by, before this one is woken by it: one that asks
 * for data is counted. False: one is warm now. sock_dozed() behind it in any
 * case.
 */
bool pollset_doze(const struct guarded *inside, struct sock_doze *in,
		  const struct pollfd *fds, nfds_t n);
#define DOZE(name) \
	__attribute__((cleanup(sock_dozed))) struct sock_doze name = { NULL }
static inline bool pollset_warm(const struct guarded *in, int fd)
{
	struct sock *s = fdt_sock(in, fd);

	return (s && !sock_cold(s)) || fdt_has_set(fd);
}
/* Wait at most `span`; what poll() returns, or a negative errno. */
int pollset_wait(struct pollset *p, uint64_t span);

#endif
