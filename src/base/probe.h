/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_PROBE_H
#define LIBSDP_BASE_PROBE_H

/*
 * USDT probes of the provider `libsdp`: an instruction that does nothing, and a
 * note by which perf, bpftrace and systemtap find it and its arguments. Without
 * <sys/sdt.h> there are none. The list is in libsdp(7).
 */

#ifdef HAVE_SYS_SDT_H
#include <sys/sdt.h>
#define PROBE3(name, a, b, c) DTRACE_PROBE3(libsdp, name, a, b, c)
#else
#define PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

#endif
