/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TESTS_FAKE_H
#define LIBSDP_TESTS_FAKE_H

/*
 * A provider of verbs.h without verbs, for tests and never installed: each
 * queue pair is a TCP connection, so two network namespaces joined by a veth
 * are two hosts with devices. RDMA port p is TCP port p ^ 0x4000, the service
 * of a kernel's SDP socket 0x10000 | p is TCP port p ^ 0x2000. It has queue
 * pair semantics (messages, order, acknowledgements, VE_DOWN). A message is
 * acknowledged when the other end takes it in, which its program does by
 * polling; one without stream bytes, where no queue pair is to break, as soon
 * as the other host has it, since a program that is through polls no more.
 * Receives are used up in the order they were posted in; a message that finds
 * none breaks the queue pair, since an end that counts credits never sends it.
 *
 * Memory is registered in a table of the process. An RDMA Read takes the bytes
 * from the other process by process_vm_readv(), without help of its library, if
 * the key is in its table before and after, with the right to read and the
 * whole range; if not, both queue pairs break, as a remote access error does.
 * An RDMA Write is the same the other way, as late as it can be: when the next
 * message goes, or its completion is asked for. A writer marks the key busy
 * and then looks whether it is there; one that takes it away waits for a busy
 * one. FAKE_BREAK_LENT=N is FAKE_BREAK, counted from the first registration on.
 * FAKE_NOREG=N lets the first N registrations succeed and no other;
 * FAKE_STUCK=N: the N-th read is never completed. FAKE_LOSE=N: the N-th write
 * is done, and what was sent behind it is lost with the queue pair.
 * FAKE_LATE=MS: a write takes so long, and what goes behind it waits.
 * FAKE_NOREAD: there are no reads.
 *
 * FAKE_FAIL=WHAT:ERRNO lets open, dial or prepare fail by that error.
 *
 * FAKE_DOWN names a file: while it is there the way between is down. Nothing
 * passes and no end is told; one that has sent finds its queue pair broken
 * after DOWN_MS, new ones find no route. FAKE_BREAK=N breaks each queue pair at
 * its N-th message: that one does not arrive, its sender hears of it at once,
 * the other end, which FAKE_DEAF keeps in the dark, by the end of the
 * connection. FAKE_HOLD names a file: while it is there no queue pair is said
 * to be up, and FILE.waits is made when one is. In the dark a sender gives up
 * by itself, too, after DEAF_MS without an acknowledgement, as a queue pair
 * does by its retries.
 */

#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/sys.h"
#include "fabric/verbs/verbs.h"

#define ENDS	       1024
#define LISTENERS      72
#define PORT(p)	       ((uint16_t)((p) ^ 0x4000))
#define NATIVE_PORT(p) ((uint16_t)((p) ^ 0x2000))
#define FRAME_HEAD     8
#define IN_MAX	       (1u << 20)
#define DOWN_MS	       100
#define DEAF_MS	       500

#define LANE	 (16 * (FAB_CTRL + FRAME_HEAD)) /* for control messages alone */
#define OUT_MAX	 (2 * (VERBS_RCV_MAX + FRAME_HEAD))
#define ROOM_MIN 1024u

#define KEYS 64 /* of a process at a time */
#define REQS 64

enum frame { REQ = 1, REP, REJ, RTU, MSG, DREQ, ACK, PROBE, WHO };

/* The other end's process, and where its table of keys and its gate lie. */
struct who {
	uint64_t keys, gate, nonce;
	int32_t pid;
};

/* Of a process, read from afar and written by itself only. */
struct key {
	uint64_t mem, len;
	uint32_t rkey; /* 0: free */
	bool remote_read, remote_write;
};

/* How many writes from here are under way, by the ends that share it. */
struct gate {
	uint64_t nonce; /* of the program: another one has another */
	int32_t pid; /* a child's own begins anew */
	uint32_t busy;
};

struct rd {
	uint64_t to, from, len, id;
	uint32_t rkey;
	bool due;
};

/* Receives: those of an end at rest, and those of a second region. */
struct receives {
	bool load[128]; /* posted, by number: of the second region? */
	uint32_t size[128]; /* and their bytes */
	uint32_t now; /* of one that is posted now */
	uint32_t load_size, load_count; /* of the second region */
	uint32_t head, tail;
	int32_t rest_free; /* fewer than none: an AbortConn without one */
	uint32_t load_free;
	bool region; /* the second one is there */
};

struct msg {
	struct msg *next;
	bool load; /* the receive it came in */
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
	bool up, connecting, armed, deaf, eof, told, active, dreq, native;
	uint8_t in[VERBS_RCV_MAX + FRAME_HEAD];
	uint32_t in_len;
	struct msg *first, **last; /* not polled */
	struct msg *held, **held_last; /* polled, not released */
	uint32_t waiting; /* messages not polled, or not released */
	struct receives rx;
	uint8_t ctrl[FAB_CTRL];
	uint8_t out[OUT_MAX + LANE], *rest; /* frames, and bytes of one */
	uint32_t out_len;
	struct msg *sent, **sent_last; /* not acknowledged */
	struct msg *walk; /* of unacked() */
	uint32_t got, told_got; /* messages that came; acknowledged */
	uint32_t count; /* messages sent */
	uint64_t down_at; /* the first that went nowhere, ns */
	bool broken, missed, stuck;
	struct who who; /* the peer */
	struct gate *gate; /* ours */
	struct rd rd[2]; /* the reads under way, oldest first */
	struct rd wr; /* the write: `to` is there */
	uint64_t wr_until; /* not done before, ns; 0: at once */
	bool written, lost; /* it was done; nothing goes out behind it */
	struct verbs_region src, sink;
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
	bool held; /* a fork is under way */
	unsigned int uid; /* of open(): what it opened is of no use to another */
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
	struct verbs_request *reqs[REQS];
};

extern const struct fabric_ops fake_ops;

/* FAKE_FAIL=WHAT:ERRNO: that call fails by it (0: it does not). */
int fake_fails(const char *what);

static inline struct fend *of(struct end *e)
{
	return (struct fend *)e;
}

/* No handler runs here until fake_calm_end(), so none jumps out. */
static inline uint64_t fake_calm(void)
{
	uint64_t all = UINT64_MAX, was = 0;

	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&was, 8, 0,
		  0);
	return was;
}

static inline void fake_calm_end(uint64_t was)
{
	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&was, 0, 8, 0, 0);
}

static inline bool fake_denied(const struct verbs *v)
{
	return sys_geteuid() != v->uid;
}

void fake_tell(struct verbs *v, const struct verbs_event *ev);
void fake_tell_end(struct fend *e, enum verbs_event_type type, int error);
int fake_frame(struct fend *e, enum frame type, const void *data, uint32_t len);
void fake_flush(struct fend *e);
void fake_slow(void); /* FAKE_SLOW: ms that it takes to make a queue pair */
bool fake_down(void); /* the way between is down */
bool fake_silent(struct fend *e); /* ... and what comes of it */
int fake_flushed(struct end *end);
void fake_patience(struct fend *e); /* of a sender whose peer is deaf */
void fake_break(struct fend *e, int error);
void fake_probe(struct fend *e);
int fake_arm(struct end *end, bool solicited); /* of verbs_api, as these: */
int fake_ear(struct end *end);
int fake_deaf(struct end *end, bool on);
void fake_heard(struct end *end);
/* mem.c */
void fake_info(const struct end *end, struct verbs_info *i);
int fake_reg(struct end *end, void *mem, size_t len, bool rr, bool rw,
	     struct verbs_region *r);
void fake_dereg(struct end *end, struct verbs_region *r);
bool fake_registered(void); /* was anything ever? */
struct gate *fake_gate(void); /* for a new end */
void fake_who(struct fend *e); /* tell the peer what we are */
int fake_lend(struct end *end, const void *mem, uint32_t len, uint32_t *rkey);
int64_t fake_lent(struct end *end, bool back);
void fake_unlend(struct end *end);
int fake_sink(struct end *end, void *mem, uint32_t len, uint32_t *rkey);
void fake_unsink(struct end *end);
int fake_reg_from(struct end *end, const void *mem, size_t len,
		  struct verbs_region *r);
int fake_write(struct end *end, const void *from, uint64_t vaddr, uint32_t rkey,
	       size_t len, uint64_t id);
void fake_carry(struct fend *e); /* the write that is due is done now */
/* It takes its time. */
static inline bool fake_writing(const struct fend *e)
{
	return e->wr.due && !e->broken && clock_ns() < e->wr_until;
}
int fake_read(struct end *end, void *to, uint64_t vaddr, uint32_t rkey,
	      size_t len, uint64_t id);
int fake_done(struct end *end, struct fab_done *d);
void fake_drop(struct end *end); /* of verbs_api */
void fake_rx_init(struct fend *e);
int fake_rx_resize(struct fend *e, uint32_t size, uint16_t count);
uint32_t fake_rx_smallest(const struct fend *e);
bool fake_rx_use(struct fend *e); /* of the second region? */
bool fake_rx_none_for(struct fend *e, const uint8_t *p, uint32_t len);
bool fake_rx_too_small(const struct fend *e, uint32_t len);
bool fake_rx_give(struct fend *e, const struct msg *m, bool keep);
uint32_t fake_rx_posted(const struct fend *e);
void fake_intake(struct fend *e); /* all that has come into the queue */

#endif
