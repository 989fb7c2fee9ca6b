/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_PRELOAD_FD_REAL_H
#define LIBSDP_PRELOAD_FD_REAL_H

/*
 * Made from calls.def: `real_NAME`, what the name means without us (the next
 * interposer's or libc's function), and `do_NAME`, what it means with us.
 *
 * real_NAME is never NULL: until real_resolve() has run it is the bare
 * system call, or looks itself up (calls.def says which).
 */

#include <aio.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct termios;
struct winsize;

#define CALL(name, ret, params, args, raw) \
	extern ret(*real_##name) params;   \
	ret do_##name params;
#define CALL_LIB(name, ret, params, args, fail) CALL(name, ret, params, args, )
#define CALL_NEG(name, ret, params, args, raw)	extern ret(*real_##name) params;
#define CALL_NEGLIB(name, ret, params, args, fail) \
	CALL_NEG(name, ret, params, args, )
#define CALL_OWN(name)
#define ALIAS(alias, name)
#include "preload/calls.def"
#undef CALL
#undef CALL_LIB
#undef CALL_NEG
#undef CALL_NEGLIB
#undef CALL_OWN
#undef ALIAS

/* vfork.c jumps there. */
extern pid_t (*real_vfork)(void);

/* Once, from the constructor: all pointers. Async-signal-unsafe. */
void real_resolve(void);

/* A real call's outcome in the convention of the rooms below. */
#define neg_errno(call)                       \
	({                                    \
		__typeof__(call) r_ = (call); \
		r_ < 0 ? -errno : r_;         \
	})

#endif
