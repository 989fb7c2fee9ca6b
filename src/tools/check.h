/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_CHECK_H
#define LIBSDP_TOOLS_CHECK_H

/*
 * What will and will not work for a program on this machine, before it is run:
 * a line a finding, each that is not `ok` with a remedy. `rules`: the file that
 * will be read, NULL: as the library finds it. 0: its connections can be
 * lifted; 1: they cannot.
 */

#include <stdbool.h>

int check_program(const char *name, const char *rules, bool json);

#endif
