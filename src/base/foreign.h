/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_FOREIGN_H
#define LIBSDP_BASE_FOREIGN_H

#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

/*
 * A preloaded library is mapped into whatever is started, a program of another
 * libc (musl) included, whose linker ends the program over one name that it does
 * not find. So what only the GNU library has is weak here, and the constructor
 * asks first whose process it is: in a foreign one every call goes straight on.
 */
#define WEAK(name) extern __typeof__(name) name __attribute__((weak))

/* libc's end of a fortified call whose buffer is too small. */
void __chk_fail(void) __attribute__((noreturn));
int __cxa_at_quick_exit(void (*fn)(void *), void *dso);
int __vasprintf_chk(char **out, int flag, const char *fmt, va_list ap);
const char *gnu_get_libc_version(void);

WEAK(__chk_fail);
WEAK(__cxa_at_quick_exit);
WEAK(__vasprintf_chk);
WEAK(dladdr1);
WEAK(gnu_get_libc_version);
#if __has_include(<sys/single_threaded.h>)
WEAK(__libc_single_threaded);
#endif

static inline bool foreign_libc(void)
{
	return !gnu_get_libc_version;
}

#endif
