/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_LINK_H
#define LIBSDP_SOCKET_CORE_LINK_H

/*
 * What a carrier does in its own way. Where memory is shared (`s->link` NULL)
 * the two ends see each other's words, and nothing of this is to be done;
 * between hosts it is rdma_link (rdma_link.c). Lock held.
 */

#include "socket/core/state.h"

struct link_ops {
	uint8_t path; /* enum page_path of what it carries */

	/* The machine's input: the peer's words; bytes not to be shown yet; the
	 * end of a look: what was new, and which threads have to be told. */
	int (*words)(struct sock *s, const uint8_t *in);
	bool (*hide)(struct sock *s, uint32_t len, bool eof);
	void (*polled)(struct sock *s, int news, bool in, bool credits);
	void (*failed)(struct sock *s); /* the machine is of no use any more */
	bool (*room)(const struct sock *s); /* may stream bytes leave at all? */

	/* The peer: it may be asleep, `idle`: its background thread, too. */
	void (*tell)(struct sock *s, bool idle);
	void (*took)(struct sock *s); /* bytes were taken: a writer may wait */
	bool (*may_kick)(struct sock *s); /* may a kick go to the anchor now? */

	/* The anchor: its marker, and receives of the kernel's. */
	void (*marker_read)(struct sock *s, int fd);
	void (*tcp_left)(struct sock *s); /* lock not held: the last is over */
	void (*tcp_took)(struct sock *s); /* lock not held: bytes were taken */
	void (*strayed)(struct sock *s, uint64_t n); /* n by others */
	bool (*was_reset)(const struct sock *s);

	/* Lock not held: fab_pending(), of an end that may go meanwhile. */
	bool (*glance)(struct sock *s);

	/* For people: the row of sdpstat; the names that a capture gives the
	 * ends, and whether the peer records there itself. */
	void (*row)(const struct sock *s, struct page_row *r);
	struct conn_names (*names)(const struct sock *s);
	bool (*records)(const struct sock *s);
};

#endif
