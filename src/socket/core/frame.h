/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_FRAME_H
#define LIBSDP_SOCKET_CORE_FRAME_H

/*
 * An SDP message as a packet of a capture file: RoCE v2 with the addresses of
 * the anchor, whatever carried it. doc/protocol.md, section 9, says what of a
 * packet is the message's and what is made up. Pure.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/pcapng.h"
#include "sdp_proto/conn.h"

#define FRAME_HEAD (PCAPNG_BEFORE + 338)
#define FRAME_TAIL 16
#define FRAME_MOST 65000u /* bytes of payload that fit */

struct frame {
	struct iovec part[3]; /* of one block; points into this */
	size_t len; /* of all of them */
	uint8_t head[FRAME_HEAD], tail[FRAME_TAIL];
};

/* The other end's view. */
struct conn_names frame_flip(const struct conn_names *n);
/* One end of a connection as a number; of its queue pair, among others. */
uint64_t frame_end(const struct conn_names *n);

/*
 * A message of the end whose names they are, `len` bytes at `msg`, which have
 * to stay there as long as the frame; `most`: bytes of payload to be kept.
 */
void frame_message(struct frame *f, uint64_t ns, const struct conn_names *from,
		   const uint8_t *msg, uint32_t len, uint32_t most);
/* Its Hello (compact or not), or HelloAck: whole and sound. */
void frame_setup(struct frame *f, uint64_t ns, const struct conn_names *from,
		 const uint8_t *msg);

#endif
