/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_CONVERT_H
#define LIBSDP_TOOLS_CONVERT_H

/*
 * Prints the rules of another library as libsdp.conf: the JDK's sdp.conf, the
 * preload_config of rsockets' librspreload, libvma.conf and libxlio.conf; which
 * it is shows by its first line. What has no equivalent becomes a comment, and
 * a message on standard error. 0: all of it; 1: not all; 2: it cannot be read.
 */
int convert(const char *file);

#endif
