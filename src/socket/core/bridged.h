/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_BRIDGED_H
#define LIBSDP_SOCKET_CORE_BRIDGED_H

/*
 * What a sock under a rule `native` knows of its bridge (bridge.h). It lies in
 * the sock, so relatives know it, too; guarded by the sock's lock. But the
 * bridge's thread, which never takes that, changes PENDING into UP or FAILED
 * of its own flow: so state, error and flow are one word.
 */

#include <netinet/in.h>
#include <stdint.h>

struct sock;
struct rdma;
struct page_row;

enum bridged_state {
	BRIDGED_NOT,
	BRIDGED_PENDING, /* connect() is under way */
	BRIDGED_UP, /* it was made; it may have ended since */
	BRIDGED_FAILED, /* with an error that the program was not told yet */
};

struct bridged {
	uint64_t word; /* atomic: serial of the flow, errno, state; 0: none */
	uint8_t peer_len;
	struct sockaddr_in6 peer; /* as the program named it */
};

/* The low 24 bits of a serial are 0; `error` is a negative errno. */
static inline uint64_t bridged_word(uint64_t serial, int error,
				    enum bridged_state state)
{
	return serial | (uint64_t)-error << 8 | (uint64_t)state;
}

static inline uint64_t bridged_load(const struct bridged *b)
{
	return __atomic_load_n(&b->word, __ATOMIC_ACQUIRE);
}

static inline enum bridged_state bridged_state(const struct bridged *b)
{
	return (enum bridged_state)(bridged_load(b) & 0xff);
}

static inline int bridged_error(const struct bridged *b)
{
	return -(int)(bridged_load(b) >> 8 & 0xffff);
}

static inline uint64_t bridged_serial(const struct bridged *b)
{
	return bridged_load(b) & ~(uint64_t)0xffffff;
}

#endif
