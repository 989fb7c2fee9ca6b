/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_FABRIC_SIM_SIM_H
#define LIBSDP_FABRIC_SIM_SIM_H

/*
 * A simulated fabric for tests: both ends of a connection in one thread, a
 * clock that only the test moves, and everything that takes time or goes
 * wrong drawn from a seed. Messages arrive in order, each after a delay of
 * its own; the bytes under way and not yet released are limited, as in a ring
 * of shared memory, with a lane for control messages beside it.
 *
 * poll() answers -ECONNRESET once nothing more will come; sim_link() then
 * tells why.
 */

#include "fabric/fabric.h"

#define SIM_LANE 16 /* control messages beside a full ring */

struct sim_params {
	uint64_t seed; /* not 0 */
	uint64_t delay_ns; /* a message takes up to this */
	uint64_t stall_ns; /* and, one in `stall`, up to this (0: never) */
	uint32_t stall;
	uint32_t ring; /* bytes under way or held, per direction */
	uint32_t max_msg; /* at most SIM_MSG_MAX */
	uint16_t depth;
	bool sync; /* RDMA is over at once */
	uint32_t fail; /* one read in so many, and with sync one write, ends
			* short; 0: none */
};

#define SIM_MSG_MAX 2048

enum sim_link {
	SIM_UP,
	SIM_CLOSED, /* the other end disconnected; all it sent has come */
	SIM_LOST, /* sim_cut(): what was under way is gone */
};

struct sim;

/*
 * RDMA. With `sync` as process_vm_readv() does it: it is over when read() or
 * write() returns, whatever messages are under way, and only the owner
 * keeps the other end from the memory. Else as queue pairs do it: it takes
 * time, a write takes its place among the messages, a read gets the bytes as
 * they are when it ends, and an end that has hung up is out of reach.
 */
#define SIM_MEMS 32 /* pieces of memory one end lets the other at */
#define SIM_RDMA 64 /* operations of one end under way or not fetched */

/* Memory for one connection after the other; NULL without memory. */
struct sim *sim_new(void);
void sim_free(struct sim *s);
/* A new connection at time 0. */
void sim_start(struct sim *s, const struct sim_params *p);
struct end *sim_end(struct sim *s, unsigned int which);

/* The time is now `ns`; it never goes back. */
void sim_time(struct sim *s, uint64_t ns);
/* When the next message or end of the connection arrives, or UINT64_MAX. */
uint64_t sim_next(const struct sim *s);

/* This end hangs up, behind everything it sent, and hears no more. */
void sim_disconnect(struct end *e);
/* The fabric breaks. */
void sim_cut(struct sim *s);
enum sim_link sim_link(const struct end *e);

/* Let the other end at memory under this address; its key, or 0. */
uint32_t sim_let(struct end *e, void *mem, uint64_t vaddr, uint32_t len);
void sim_bar(struct end *e, uint32_t rkey);
/* How often an end was at memory it had not, or no longer, been let at. */
uint32_t sim_trespasses(const struct sim *s);
/* Nothing that this end sent is under way. */
bool sim_still(const struct end *e);

/* A random number below n (n > 0) from the seed's sequence. */
uint32_t sim_rnd(struct sim *s, uint32_t n);

#endif
