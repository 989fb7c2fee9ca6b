/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The exported functions. They carry their real names only for the linker
 * (asm labels): libc's headers declare some of them with attributes, types
 * and macros of their own that a definition must not meet. Arguments of
 * fcntl(), ioctl(), open(), clone(), prctl() and syscall() that follow "..."
 * travel in the same registers as named ones.
 */
#include "preload/fd/real.h"

#include "base/sys.h"
#include "preload/preload.h"
#include "preload/ready.h"

#define EXPORT(name, ret, params, expr)                \
	SDP_EXPORT ret x_##name params __asm__(#name); \
	ret x_##name params                            \
	{                                              \
		return expr;                           \
	}

#define CALL(name, ret, params, args, raw) \
	EXPORT(name, ret, params, do_##name args)
#define CALL_LIB CALL
#define CALL_NEG(name, ret, params, args, raw) \
	EXPORT(name, ret, params, (ret)ret_errno(do_##name args))
#define CALL_NEGLIB CALL_NEG
#define CALL_OWN(name)
#define ALIAS(alias_, name)                                                \
	SDP_EXPORT extern __typeof__(x_##name) x_##alias_ __asm__(#alias_) \
		__attribute__((alias(#name)));
#include "preload/calls.def"
