/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_LIBRARY_H
#define LIBSDP_TOOLS_LIBRARY_H

/* Where libsdp.so is, and LD_PRELOAD. */

#include <stdbool.h>
#include <stddef.h>

/*
 * A build tree's own library, the installed one, and the one beside us when
 * the whole installation was moved. Ends the program if there is none.
 */
void library_find(char *path, size_t size);

/* Is `path` one of the words of a LD_PRELOAD (blanks and colons)? */
bool library_in(const char *list, const char *path);

/*
 * `list` with the library in front, once; `list` may be NULL. Malloced; out of
 * memory ends the program.
 */
char *library_before(const char *list, const char *path);

#endif
