/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_VM_RIG_H
#define TESTS_VM_RIG_H

/*
 * One end of an RDMA connection under test: the module as the library opens
 * it, with the SDP machine on top and pattern bytes as the stream. The two
 * ends are two processes, of one node or of two.
 */

#include <stdio.h>
#include <stdlib.h>

#include "fabric/verbs/verbs.h"
#include "sdp_proto/conn.h"

struct rig {
	const struct verbs_api *api;
	struct verbs_conf conf;
	struct verbs *v;
	struct end *end;
	struct conn conn;
	union verbs_addr addr; /* of the server, with the port */
	bool server, up, down;
	bool spin; /* never sleep */
	bool blind; /* measuring: bytes are copied, not looked at */
	bool grow; /* more receives under load */
	bool dis; /* the peer's DisConn came */
	int down_error;
	uint64_t sent, got; /* stream bytes */
	uint64_t token; /* as heard from the peer */
	uint64_t msgs, bare; /* messages that came; those that were not held */
	struct verbs_event asked; /* a request that came in mid-stream */
	uint32_t at; /* in the front message */
};

/* The module at `path`, with soft devices. Ends the process if it cannot. */
void rig_load(struct rig *r, const char *path, const char *addr, int port);
void rig_open(struct rig *r);
/* The next event within ms, which must come; VE_READABLE is passed over. */
void rig_event(struct rig *r, struct verbs_event *ev, int ms);
/* The same, but it need not come. */
bool rig_try(struct rig *r, struct verbs_event *ev, int ms);
void rig_want(struct rig *r, struct verbs_event *ev, enum verbs_event_type t);
/* Both until VE_UP. */
void rig_dial(struct rig *r);
void rig_listen(struct rig *r);
void rig_answer(struct rig *r);
void rig_accept(struct rig *r, struct verbs_request *q,
		const uint8_t req[VERBS_REQ_LEN]);
/* A new SDP machine; rig_hello() and rig_accept() make theirs so. */
void rig_machine(struct rig *r);
void rig_hello(struct rig *r, uint8_t req[VERBS_REQ_LEN]);
/* rig_dial() or rig_listen() and rig_answer() */
void rig_meet(struct rig *r);
/* Send and receive until so many bytes more went each way, `chunk` a write. */
void rig_run(struct rig *r, uint64_t tx, uint64_t rx, uint32_t chunk);
/* What arrives and what is due; true: something happened. */
bool rig_pump(struct rig *r, uint64_t tx, uint64_t rx, uint32_t chunk);
/* Until something can be polled, or nothing ever again. */
void rig_wait(struct rig *r);
/* DisConn both ways, then DREQ by the client, and the end is gone. */
void rig_part(struct rig *r);
void rig_close(struct rig *r);
uint64_t rig_ns(void);

#define RIG_HIGH 600 /* where the module's descriptors are hidden */
extern int rig_hidden; /* how many are */
int rig_low_fds(void); /* open ones below */

void rig_fail(const char *file, int line, const char *what, long n)
	__attribute__((noreturn));

#define CHECK(x)                                             \
	do {                                                 \
		if (!(x))                                    \
			rig_fail(__FILE__, __LINE__, #x, 0); \
	} while (0)

/* A call that must give just this. */
#define IS(x, want)                                            \
	do {                                                   \
		long is_ = (long)(x);                          \
		if (is_ != (long)(want))                       \
			rig_fail(__FILE__, __LINE__, #x, is_); \
	} while (0)

#endif
