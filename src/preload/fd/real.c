/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "preload/fd/real.h"

#include <dlfcn.h>

#include "base/sys.h"
#include "preload/fd/fdtable.h"

bool preload_off = true;

/*
 * Calls that come before the constructor (other libraries' constructors,
 * allocators and sanitizers that start inside dlsym()) are bare system calls
 * here; no look-up happens under their feet.
 */

#define RAW(nr, a, b, c, d, e, f)                                      \
	ret_errno(sys_call6(SYS_##nr, (long)(a), (long)(b), (long)(c), \
			    (long)(d), (long)(e), (long)(f)))
#define RAW1(nr, a)		   RAW(nr, a, 0, 0, 0, 0, 0)
#define RAW2(nr, a, b)		   RAW(nr, a, b, 0, 0, 0, 0)
#define RAW3(nr, a, b, c)	   RAW(nr, a, b, c, 0, 0, 0)
#define RAW4(nr, a, b, c, d)	   RAW(nr, a, b, c, d, 0, 0)
#define RAW5(nr, a, b, c, d, e)	   RAW(nr, a, b, c, d, e, 0)
#define RAW6(nr, a, b, c, d, e, f) RAW(nr, a, b, c, d, e, f)

/* Look `name` up; false when there is none. errno stays. */
static bool real_find(const char *name, void **where)
{
	int keep = errno;
	void *p = dlsym(RTLD_NEXT, name);

	if (p)
		__atomic_store_n(where, p, __ATOMIC_RELAXED);
	errno = keep;
	return p != NULL;
}

#define CALL(name, ret, params, args, raw) \
	static ret early_##name params     \
	{                                  \
		return (ret)(raw);         \
	}                                  \
	ret(*real_##name) params = early_##name;
#define CALL_LIB(name, ret, params, args, fail)                 \
	static ret early_##name params                          \
	{                                                       \
		if (!real_find(#name, (void **)&real_##name)) { \
			errno = ENOSYS;                         \
			return fail;                            \
		}                                               \
		return real_##name args;                        \
	}                                                       \
	ret(*real_##name) params = early_##name;
#define CALL_NEG    CALL
#define CALL_NEGLIB CALL_LIB
#define CALL_OWN(name)
#define ALIAS(alias, name)
#include "preload/calls.def"
#undef CALL
#undef CALL_LIB

/* Too early for libc's: a child with memory of its own will do. */
static pid_t early_vfork(void)
{
	return real_fork();
}

pid_t (*real_vfork)(void) = early_vfork;

void real_resolve(void)
{
#define CALL(name, ret, params, args, raw) \
	real_find(#name, (void **)&real_##name);
#define CALL_LIB CALL
#include "preload/calls.def"
	real_find("vfork", (void **)&real_vfork);
}
