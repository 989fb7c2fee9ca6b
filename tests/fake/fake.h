/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TESTS_FAKE_H
#define LIBSDP_TESTS_FAKE_H

/*
 * A provider of verbs.h without verbs, for tests and never installed: each
 * queue pair is a TCP connection, so two network namespaces joined by a veth
 * are two hosts with devices. RDMA port p is TCP port p ^ 0x4000. It has
 * queue pair semantics (messages, order, acknowledgements, VE_DOWN), no memory
 * registration, and no limit of receives: credits are checked by the machine.
 *
 * FAKE_DOWN names a file: while it is there the way between is down. Nothing
 * passes and nobody is told; who has sent finds its queue pair broken after
 * DOWN_MS, new ones find no route. FAKE_BREAK=N breaks each queue pair at its
 * N-th message: nobody gets that one, its sender hears of it at once, the
 * other end, which FAKE_DEAF keeps in the dark, by the end of the connection.
 * In the dark who sends gives up by itself, too, after DEAF_MS without an
 * acknowledgement, as a queue pair does by its retries.
 */

#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/sys.h"
#include "fabric/verbs/verbs.h"

#define ENDS	   1024
#define LISTENERS  72
#define PORT(p)	   ((uint16_t)((p) ^ 0x4000))
#define FRAME_HEAD 8
#define IN_MAX	   (1u << 20)
#define DOWN_MS	   100
#define DEAF_MS	   500

enum frame { REQ = 1, REP, REJ, RTU, MSG, DREQ, ACK, PROBE };

struct msg {
	struct msg *next;
	uint32_t len, seq;
	uint64_t sent_at; /* ns */
	uint8_t mem[];
};

struct fend {
	struct end end;
	struct verbs *v;
	pthread_mutex_t lock;
	int fd, error;
	uint64_t tag;
	bool up, connecting, armed, eof, told, active, dreq;
	uint8_t in[VERBS_RCV_MAX + FRAME_HEAD];
	uint32_t in_len;
	struct msg *first, **last; /* not polled */
	struct msg *held, **held_last; /* polled, not released */
	uint8_t ctrl[FAB_CTRL];
	uint8_t out[VERBS_RCV_MAX + FRAME_HEAD], *rest;
	uint32_t out_len, out_at;
	struct msg *sent, **sent_last; /* not acknowledged */
	struct msg *walk; /* of unacked() */
	uint32_t got, told_got; /* messages that came; acknowledged */
	uint32_t count; /* messages sent */
	uint64_t down_at; /* the first that went nowhere, ns */
	bool broken, missed;
};

struct verbs_request {
	int fd;
	uint16_t port;
	bool told;
	uint8_t req[VERBS_REQ_LEN];
	uint32_t got;
	uint8_t in[FRAME_HEAD + VERBS_REQ_LEN];
};

struct verbs {
	pthread_mutex_t lock;
	int ep, bell;
	struct verbs_host host;
	struct {
		int fd;
		uint16_t port;
	} l[LISTENERS];
	int listeners;
	struct verbs_event q[256];
	unsigned int put, get;
	struct fend *ends[ENDS];
	struct verbs_request *reqs[64];
};

extern const struct fabric_ops fake_ops;

static inline struct fend *of(struct end *e)
{
	return (struct fend *)e;
}

void fake_tell(struct verbs *v, const struct verbs_event *ev);
void fake_tell_end(struct fend *e, enum verbs_event_type type, int error);
int fake_frame(struct fend *e, enum frame type, const void *data, uint32_t len);
void fake_flush(struct fend *e);
bool fake_down(void); /* the way between is down */
bool fake_silent(struct fend *e); /* ... and what comes of it */
void fake_patience(struct fend *e); /* of a sender whose peer is deaf */
void fake_break(struct fend *e, int error);
void fake_probe(struct fend *e);
void fake_intake(struct fend *e); /* all that has come into the queue */

#endif
