/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_FOREIGN_H
#define LIBSDP_BASE_FOREIGN_H

#include <stdbool.h>

/*
 * A preloaded library is mapped into whatever is started, a program of another
 * libc (musl) included, whose linker ends the program over one name that it does
 * not find. So what only the GNU library has is weak here, and the constructor
 * asks first whose process it is: in a foreign one every call goes straight on.
 */
#pragma weak __chk_fail
#pragma weak __cxa_at_quick_exit
#pragma weak __libc_single_threaded
#pragma weak __vasprintf_chk
#pragma weak dladdr1
#pragma weak gnu_get_libc_version

const char *gnu_get_libc_version(void);

static inline bool foreign_libc(void)
{
	return !gnu_get_libc_version;
}

#endif
