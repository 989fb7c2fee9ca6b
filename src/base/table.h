/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_TABLE_H
#define LIBSDP_BASE_TABLE_H

/*
 * For tables in static memory, a kilobyte and more. The linker puts them
 * behind everything small (the option is in Makefile.am), which then lies on a
 * few pages: a forked child writes to those in its first steps, and each page
 * is a fault and a copy.
 */
#define TABLE __attribute__((section(".bss.table")))

#endif
