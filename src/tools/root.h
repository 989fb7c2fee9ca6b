/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_ROOT_H
#define LIBSDP_TOOLS_ROOT_H

/* Files of a system that lies below a folder, as an image does. */

#include <stdbool.h>

/*
 * Open `path` for reading; it begins with `root`, "" for the running system.
 * Below a root symbolic links stay there, absolute ones too. -1 and errno.
 */
int root_open(const char *root, const char *path);

/*
 * The folder `path`, which begins with `root` as above, O_PATH; `make`: with
 * the folders on the way to it below `root`. -1 and errno.
 */
int root_dir(const char *root, const char *path, bool make);

/* Removes that folder if it is empty. */
void root_rmdir(const char *root, const char *path);

#endif
