/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_CAPTURE_H
#define LIBSDP_SOCKET_CORE_CAPTURE_H

/*
 * SDP messages as packets in a file (capture_file). Each end records what it
 * sends, before the other one can see it, so that the order in the file is
 * that of cause and effect; what comes it records if the other end does not
 * record into this very file.
 *
 * All but capture_begin() is async-signal-safe. A file that takes no more ends
 * the capture of this process with a line in the log, and nothing else.
 */

#include <stdbool.h>
#include <stdint.h>

#include "sdp_proto/conn.h"

struct sock;

extern bool capture_on; /* else none of the functions with _on is called */

/* Once, with settings and before the program runs. */
void capture_begin(void);
bool capture_vacate(int fd); /* lets go of it, by fd_move() */

void capture_greet_on(const struct conn_names *n, const uint8_t *msg);
bool capture_greeted_on(const struct conn_names *n, const uint8_t *msg);
void capture_setup_on(const struct conn_names *n, bool out, const uint8_t *msg);
void capture_message_on(const struct conn_names *n, bool out,
			const uint8_t *msg, uint32_t len);
void capture_sent_on(const struct sock *s, const uint8_t *msg, uint32_t len);
void capture_came_on(const struct sock *s, const uint8_t *msg, uint32_t len);
void capture_left_on(const struct sock *s);
struct conn_names capture_names(const struct sock *s);

#define CAPTURING __builtin_expect(capture_on, false)

/*
 * Before a Hello or HelloAck is sent by the end with these names: from now on
 * it is one that records.
 */
static inline void capture_greet(const struct conn_names *n, const uint8_t *msg)
{
	if (CAPTURING)
		capture_greet_on(n, msg);
}

/*
 * One came to it, and is sound: does its sender record? To be kept where
 * capture_came() looks.
 */
static inline bool capture_greeted(const struct conn_names *n,
				   const uint8_t *msg)
{
	return CAPTURING && capture_greeted_on(n, msg);
}

/* Lock held: a message before it is sent, and one that came. */
static inline void capture_sent(const struct sock *s, const uint8_t *msg,
				uint32_t len)
{
	if (CAPTURING)
		capture_sent_on(s, msg, len);
}

static inline void capture_came(const struct sock *s, const uint8_t *msg,
				uint32_t len)
{
	if (CAPTURING)
		capture_came_on(s, msg, len);
}

/* Lock held: it is closed for good. */
static inline void capture_left(const struct sock *s)
{
	if (CAPTURING)
		capture_left_on(s);
}

/* `out`: of ours. For ends whose peer is known not to record here. */
static inline void capture_setup(const struct conn_names *n, bool out,
				 const uint8_t *msg)
{
	if (CAPTURING)
		capture_setup_on(n, out, msg);
}

#endif
