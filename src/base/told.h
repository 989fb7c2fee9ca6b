/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_TOLD_H
#define LIBSDP_BASE_TOLD_H

/*
 * What sdpstat tells a process, and what it answers (D12): one datagram each
 * way. A process's service thread listens at a name made from the number in
 * its page; it obeys its own user and root, by the kernel's word (credentials),
 * whatever process may have found out the name.
 */

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#define TOLD_HOME   0x656d6f6870647375ull /* "usdphome" */
#define TOLD_PASSED 0x7373617070647375ull /* "usdppass": the same, by a taker */

struct told_ask {
	uint64_t magic;
	uint64_t inode; /* of the socket that shall fall back; 0: all */
};

struct told_answer {
	uint64_t magic;
	uint32_t found; /* sockets that were asked for */
	uint32_t home; /* of them, those that are back on TCP now */
};

/* The name of the service thread `id`; its length is returned. */
socklen_t told_name(struct sockaddr_un *un, uint64_t id);

#endif
