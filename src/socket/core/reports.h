/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_REPORTS_H
#define LIBSDP_SOCKET_CORE_REPORTS_H

/*
 * Facts go up: what a lower part of the room finds out and a higher one has to
 * act upon. The table is filled once, by sock_setup(). The sock's lock is held
 * where nothing else is said.
 */

#include "socket/core/core.h"

struct sock_reports {
	void *(*background)(void *arg); /* what the background thread does */

	/* Not locked: a thread leaves a sock that was closed meanwhile. */
	void (*left)(struct sock *s);
	/* Not locked: a sleep was jumped out of. */
	void (*sleep_left)(struct sleep *in);
	/* The last receive that was the kernel's is over. */
	void (*tcp_rx_over)(struct sock *s);
	/* A process ended inside of `part`. */
	void (*abandoned)(struct sock *s, enum holder_part part);

	/* The queue pair broke, or was given up. */
	void (*broke)(struct sock *s, int error);
	/* Its peer is gone, in RESTORING. */
	void (*revive)(struct sock *s);
	/* While it is mended: n bytes of the anchor were read by others. */
	void (*strayed)(struct sock *s, uint64_t n);
	/* What was set aside of the anchor must not be used any more. */
	void (*kept_is_void)(struct sock *s);
	/*
	 * On the fallback between hosts: unread bytes may go back now; n came.
	 */
	void (*give)(struct sock *s);
	int (*put_came)(struct sock *s, const uint8_t *bytes, uint32_t n);

	/* Zero copy: 0, or negative where the peer has lied. */
	void (*zc_paired)(struct sock *s);
	void (*zc_offered)(struct sock *s);
	int (*zc_freed)(struct sock *s);
	int (*zc_reported)(struct sock *s);
	void (*zc_due)(struct sock *s);
	void (*zc_over)(struct sock *s);
	void (*zc_sink_over)(struct sock *s);
};

extern struct sock_reports reports;

#endif
