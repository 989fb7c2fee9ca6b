/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_FABRIC_FABRIC_H
#define LIBSDP_FABRIC_FABRIC_H

/*
 * What carries SDP messages (D2): queue-pair semantics, nothing blocks.
 *
 * A struct end is one end of a fabric connection that is up. Messages leave
 * in order and arrive in order, each in one piece. Memory for an outgoing
 * message comes from the fabric, and an arriving one is used where it lies
 * until it is released, so a provider may pass buffers by reference.
 *
 * Calls on one end are serialised by the caller. Results are 0 or positive,
 * or a negative errno; -EPROTO means that the other side wrote nonsense into
 * memory we share, -ECONNRESET that the connection is gone.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct end;
struct stamp_log;

/*
 * Largest control message (no stream bytes) that ctrl() makes room for.
 * Control messages must get through while stream bytes wait for the program
 * in front of them, or two programs that both write first lock each other.
 */
#define FAB_CTRL 56

/*
 * A message that arrived; `mem` may be changed by a hostile peer any time.
 * `held`: it occupies a receive buffer until release(), oldest first. A
 * message that is not held lies in private memory until the next poll(), is
 * not seen by front() and must not be released: its buffer is posted already,
 * or, `shed`, will not be again, since the end keeps fewer now. `last`: a look
 * that was made for it has found no other behind it. `stamp`: when it was sent,
 * as the peer says (stamp.h), 0: not known. A fabric that never sheds, or never
 * knows one of these, need not write it.
 */
struct fab_msg {
	const uint8_t *mem;
	uint32_t len;
	bool held, shed, last;
	uint64_t stamp;
};

/* An RDMA operation or signalled send that completed. */
struct fab_done {
	uint64_t id;
	int status; /* 0 or negative errno */
	uint64_t len;
};

/* Where a look at messages stands (next()); zero it to begin. */
struct fab_walk {
	bool begun;
	uint32_t off, seq;
};

struct fabric_ops {
	const char *name; /* "shm", "verbs", "sim" */
	/* Largest message that buf() could give now: 0, or >= FAB_CTRL. */
	uint32_t (*room)(struct end *e);
	/* Memory for the next message of up to `len` bytes, or NULL. */
	void *(*buf)(struct end *e, uint32_t len);
	/*
	 * The same for a message of up to FAB_CTRL bytes that carries no
	 * stream bytes; finds memory when room() is 0. NULL: not now.
	 */
	void *(*ctrl)(struct end *e);
	/* Send what was written to the last buf() or ctrl(): `len` bytes. */
	int (*send)(struct end *e, uint32_t len, bool solicited);
	/*
	 * on: the peer is shown nothing of what is sent from now on, until
	 * hold(false), or until it finds that our process has ended and asks
	 * by unhold() for what is held. NULL where not offered.
	 */
	void (*hold)(struct end *e, bool on);
	void (*unhold)(struct end *e);
	/* The next message that arrived: 1, 0 none, or negative errno. */
	int (*poll)(struct end *e, struct fab_msg *m);
	/* The oldest polled message not yet released: 1 or 0 none. */
	int (*front)(struct end *e, struct fab_msg *m);
	/* Give the front back: its receive buffer is posted again. */
	void (*release)(struct end *e);
	/*
	 * Look at messages without changing anything, oldest first: those that
	 * arrived and are not released (`own` false), or those we sent and the
	 * peer has not released (`own` true; -EOPNOTSUPP where that memory is
	 * used again as soon as they have arrived). 1: *m is the next, 0: no
	 * more, -EPROTO.
	 */
	int (*next)(struct end *e, bool own, struct fab_walk *w,
		    struct fab_msg *m);
	/*
	 * Let the writer know what was released so far, if the end keeps it
	 * back to save work. True when there was something: then the caller
	 * looks whether the writer waits for room. NULL: nothing is kept back.
	 */
	bool (*publish)(struct end *e);
	/*
	 * The log of what the peer's process sent through the kernel, of the
	 * last message whose stamp has STAMP_MIXED; the peer's to change. NULL
	 * where stamps are not known.
	 */
	const struct stamp_log *(*sends)(struct end *e);
	/*
	 * Zero copy (D10). lend(): the peer may read `len` bytes at `mem`,
	 * under *rkey, until unlend(). The lender keeps them as they are
	 * until the peer is known to read no more. lent(): bytes it has read
	 * so far; `back`: and from now on it reads nothing more that counts.
	 * -EINPROGRESS where only the peer can say so, by a message: then the
	 * memory is free when conn_freed() gives it back. recalled(): the peer
	 * took back what it lent and waits for the machine's answer. NULL where
	 * not offered. One source at a time.
	 */
	int (*lend)(struct end *e, const void *mem, uint32_t len,
		    uint32_t *rkey);
	int64_t (*lent)(struct end *e, bool back);
	void (*unlend)(struct end *e);
	bool (*recalled)(struct end *e);
	/*
	 * sink(): the peer may write `len` bytes at `mem`, under *rkey, until
	 * unsink(); how much it wrote a message says. NULL where not offered.
	 * One sink at a time.
	 */
	int (*sink)(struct end *e, void *mem, uint32_t len, uint32_t *rkey);
	void (*unsink)(struct end *e);
	/*
	 * RDMA; `id` comes back in done(). NULL where not offered. done().len
	 * bytes are good, whatever the status says.
	 */
	int (*read)(struct end *e, void *to, uint64_t vaddr, uint32_t rkey,
		    size_t len, uint64_t id);
	int (*write)(struct end *e, const void *from, uint64_t vaddr,
		     uint32_t rkey, size_t len, uint64_t id);
	/* The next completion: 1, 0 none. */
	int (*done)(struct end *e, struct fab_done *d);
	/* Anything to poll()? Cheap, no state changes; for spinning. */
	bool (*pending)(struct end *e);
	/* Return memory of an idle, empty end to the system. */
	void (*trim)(struct end *e);
	void (*destroy)(struct end *e);
};

/* Providers embed this first in their own struct. */
struct end {
	const struct fabric_ops *ops;
	uint32_t max_msg; /* bytes of the largest message, BSDH included */
	uint16_t depth; /* receives the end keeps posted */
};

#endif
