/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_VDSO_H
#define LIBSDP_BASE_VDSO_H

/*
 * What the vDSO of this process calls so, or NULL: there is none (valgrind,
 * some kernels), or it has no such name. Stays as long as the process.
 */
void *vdso_symbol(const char *name);

#endif
