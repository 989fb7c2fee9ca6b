/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TESTS_REMOTE_WORLD_H
#define LIBSDP_TESTS_REMOTE_WORLD_H

/*
 * The words of the anchor machine between two hosts, in a small world: two
 * ends with their mirrors; a queue pair with SDP bytes and snapshots in order;
 * an anchor with bytes, bells and tokens in order; nothing that orders the two.
 * A seed decides what happens. Stream bytes carry their offset.
 */

#include <stdbool.h>
#include <stdint.h>

#include "socket/remote.h"

#define STEPS 6000
#define QUEUE 512
#define TOKEN 2 /* control bytes of a token */
#define BELL  UINT32_MAX

enum rule {
	RULE_SEEN, /* nothing on the anchor before the reader knows */
	RULE_RAWRX, /* no stream bytes around a receive begun in RAW */
	RULE_HELD, /* raw use only when the writer holds still */
	RULE_DRAINED, /* the switch only in a drained direction */
	RULE_EXACT, /* the token counts before the writer answers */
	RULE_BOUNDED, /* in front of x only so many bytes are received */
	RULE_PASSED, /* the token only when x has been passed */
	RULES
};

struct item {
	bool words;
	uint32_t off; /* stream byte, or BELL */
	uint8_t w[REMOTE_LEN];
};

struct pipe {
	struct item q[QUEUE];
	uint32_t put, arrived, got;
};

struct end {
	struct anc_page mirror;
	struct anc_tx at;
	struct anc_rx ar;
	struct remote r;
	struct anc_dir *tx, *rx;
	uint32_t total; /* bytes its program writes */
	uint32_t resume; /* next byte to write back */
	uint32_t expect; /* next byte its program must get */
	uint32_t ring[QUEUE], ring_n; /* arrived by SDP and unread */
	uint64_t token_at; /* bells before the token that must come */
	uint32_t home_at; /* comes home when so many bytes are taken */
	bool ahead; /* the token is not due before x has been passed */
	bool runs_ahead; /* its writer does not wait for that */
	bool holds; /* its writer waits for a drained moment */
	bool token_due, in_raw, homing, pinned, raw, closed, stale;
};

struct world {
	struct end end[2];
	struct pipe qp[2], anchor[2]; /* [i]: from end i */
	uint64_t rnd;
	uint32_t without;
	uint64_t lifts, aheads, early, spills, homes, resumes, ties;
	const char *fault;
};

extern struct world w;

uint32_t rnd(uint32_t n);
/* Plays one world without some rules: what went wrong, or NULL. */
const char *play(uint64_t seed, uint32_t without);

#endif
