/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_FABRIC_SIM_INT_H
#define LIBSDP_FABRIC_SIM_INT_H

/* Inside the simulated fabric: messages in sim.c, RDMA in rdma.c. */

#include <errno.h>
#include <string.h>

#include "fabric/sim/sim.h"

#define PACKETS 512 /* under way or held, per direction */

struct packet {
	uint64_t at; /* arrives */
	uint32_t len;
	bool ctrl; /* in the lane */
	uint8_t mem[SIM_MSG_MAX];
};

/* One direction; packets [front, parse) are held, [parse, next) under way. */
struct way {
	uint32_t front, parse, next;
	uint32_t bytes, lane; /* of those in the ring; of those in the lane */
	bool deaf; /* the reader has hung up */
	uint64_t last; /* arrival of the last packet */
	uint64_t closed_at; /* arrival of the hang-up, or UINT64_MAX */
	struct packet p[PACKETS];
};

struct sim_mem {
	uint8_t *mem; /* NULL: free */
	uint64_t vaddr;
	uint32_t len, rkey;
};

struct rdma {
	bool write, ended;
	uint8_t *local;
	uint64_t vaddr, id;
	uint32_t rkey;
	size_t len;
	uint64_t at; /* it takes effect and ends */
	struct fab_done done;
};

struct sim_side {
	struct end end;
	struct sim *sim;
	struct way *tx, *rx;
	bool buf_ctrl;
	uint32_t buf_len; /* 0: no buffer handed out */
	uint8_t ctrl[FAB_CTRL];
	bool down; /* has hung up */
	struct sim_mem mems[SIM_MEMS];
	uint32_t rdma_first, rdma_next; /* of those below, counting */
	struct rdma rdma[SIM_RDMA];
};

struct sim {
	struct sim_params par;
	uint64_t rng, now;
	bool cut;
	uint32_t keys, trespasses;
	struct sim_side side[2];
	struct way way[2];
};

static inline struct sim_side *side_of(struct end *e)
{
	return (struct sim_side *)e;
}

/* Arrival of what is sent now: in order, after a delay of its own. */
uint64_t sim_arrival(struct sim *s, struct way *w);

/* rdma.c: operations of the fabric, and what time brings about. */
int sim_read(struct end *end, void *to, uint64_t vaddr, uint32_t rkey,
	     size_t len, uint64_t id);
int sim_write(struct end *end, const void *from, uint64_t vaddr, uint32_t rkey,
	      size_t len, uint64_t id);
int sim_done(struct end *end, struct fab_done *d);
void sim_rdma_run(struct sim *s);
/* When the next of them takes effect, or UINT64_MAX. */
uint64_t sim_rdma_next(const struct sim *s);

#endif
