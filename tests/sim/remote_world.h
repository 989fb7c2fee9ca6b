/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TESTS_REMOTE_WORLD_H
#define LIBSDP_TESTS_REMOTE_WORLD_H

/*
 * The words of the anchor machine between two hosts, in a small world: two
 * ends with their mirrors; a queue pair with SDP bytes and snapshots in order;
 * an anchor with bytes, kicks and markers in order; nothing that orders the
 * two. A seed decides what happens. Stream bytes carry their offset. In worlds
 * that may break, the queue pair does, between any two steps; each end hears of
 * it when it does, or by the other's record alone, and when both have fall back
 * they pair anew (remote_break.c). A writer may lend bytes instead of sending
 * them (remote_source.c), or put them into memory on offer (remote_sink.c).
 * Where programs end their directions DisConns and FINs follow (remote_end.c).
 */

#include <stdbool.h>
#include <stdint.h>

#include "handover_proto/remote.h"
#include "handover_proto/resume.h"

#define STEPS	   6000
#define STEPS_LONG 30000
#define QUEUE	   512
#define MARKER	   RESUME_MARKER /* control bytes */
#define STASH	   64
#define KICK	   UINT32_MAX

enum rule {
	RULE_SEEN, /* nothing on the anchor before the reader knows */
	RULE_TCP_RX, /* no stream bytes around a receive begun in TCP */
	RULE_HELD, /* TCP use only when the writer holds still */
	RULE_ANEW, /* and it said so of this time, not of the one before */
	RULE_DRAINED, /* the switch only in a drained direction */
	RULE_EXACT, /* the marker counts before the writer answers */
	RULE_BOUNDED, /* in front of x only so many bytes are received */
	RULE_PASSED, /* the marker only when x has been passed */
	RULE_KEPT, /* what is sent before the lift is known is kept */
	RULE_STAND, /* nothing follows a stall before it is known */
	RULE_UNSURE, /* the reader leaves DRAINING when told that it may */
	RULE_JUDGE, /* one that mends takes the control bytes, and no other */
	RULE_TRY, /* one that waits for a word tries the queue pair */
	RULE_SHOWN, /* the marker goes out before the answer, if it is needed */
	RULE_HIDDEN, /* nothing is let go of in front of the marker */
	RULE_LENT, /* what is lent when it breaks counts as sent */
	RULE_RECALL, /* nothing moves while memory is lent */
	RULE_REPORT, /* a report goes before words that count it */
	RULE_GIVEN, /* TCP use only behind the record of what came back */
	RULE_WHOLE, /* which is written when all has come back */
	RULE_LAST, /* and that is when the writer has said so */
	RULE_HEARD, /* what is written is kept until it was heard of */
	RULE_ANSWER, /* memory on offer comes back by an answer, or a break */
	RULE_FIN, /* behind both DisConns the FIN waits for no word */
	RULE_OVER, /* and one that wants to fall back for nothing but that */
	RULE_DEAF, /* and words that come late say nothing */
	RULES
};

enum item_kind {
	ITEM_PLAIN,
	ITEM_LENT, /* `n` bytes from `off` on may be read */
	ITEM_REPORT, /* `n` of them were */
	ITEM_RECALL,
	ITEM_BACK, /* no more will be */
	ITEM_GIVEN, /* handed back in the fallback */
	ITEM_SINK, /* `n` bytes may be written; `off`: [4.5] NonDiscards */
	ITEM_WROTE, /* `n` bytes from `off` on were */
	ITEM_HEARD, /* they count */
	ITEM_SINK_BACK,
	ITEM_SINK_ACK, /* nothing was, and nothing will be */
	ITEM_DISCONN,
};

struct item {
	bool words;
	enum item_kind kind;
	uint32_t n;
	uint32_t off; /* stream byte, or KICK: a control byte */
	uint8_t byte; /* on the anchor */
	uint8_t w[REMOTE_LEN];
};

struct pipe {
	struct item q[QUEUE];
	uint32_t put, arrived, got;
	uint32_t dead; /* nothing arrives from here on */
	bool fin; /* of the anchor: nothing follows */
};

struct end {
	struct anc_page mirror;
	struct anc_tx at;
	struct anc_rx ar;
	struct remote r;
	struct anc_dir *tx, *rx;
	uint32_t total; /* bytes its program writes */
	uint32_t expect; /* next byte its program must get */
	uint32_t turn; /* bytes it says at a time, then it waits; 0: any */
	uint32_t ring[QUEUE], ring_n; /* arrived by SDP and unread */
	uint32_t kept[QUEUE]; /* ar.kept bytes off the anchor */
	uint32_t given[QUEUE], given_n, given_at; /* handed back; sent of it */
	uint32_t put[QUEUE], put_n, put_at; /* came back; on the anchor */
	bool put_record; /* it is on the anchor */
	uint64_t marker_at; /* kicks before the marker that must come */
	uint32_t home_at; /* falls back when so many bytes are taken */
	bool ahead; /* the marker is not due before x has been passed */
	bool runs_ahead; /* its writer does not wait for that */
	bool holds; /* its writer waits for a drained moment */
	uint32_t lent; /* bytes lent and not reported */
	uint32_t source, source_at; /* of the peer, unread */
	uint32_t unreported;
	bool recalled; /* and not answered yet */
	uint32_t sink, held; /* bytes on offer; that the peer offers */
	uint32_t nond_sent, nond_rcvd; /* bytes that met no offer */
	bool wrote; /* `lent` was written, and not heard of */
	bool sink_asked; /* it is to come back */
	bool marker_due, in_tcp, falling_back, pinned, tcp, closed;
	/* remote_end.c */
	bool ends, shut, fin_due, dis_sent, dis_rcvd;
	/* remote_break.c */
	bool marker_wait, confirmed, deaf, broke, mended;
	uint64_t acked; /* in front of it all has arrived for certain */
	struct resume in;
	struct item out[QUEUE], stash[STASH];
	uint32_t out_n, out_at, stash_n;
};

struct world {
	struct end end[2];
	struct pipe qp[2], anchor[2]; /* [i]: from end i */
	uint64_t rnd;
	uint32_t without;
	bool may_break, longer, ends, severed;
	uint32_t gust; /* what arrives at a time, at most */
	bool lost; /* the stream ends: the reader cannot be held */
	uint64_t lifts, aheads, early, stalls, homes, resumes, ties;
	uint64_t ended, silent; /* homes behind both ends, and unread bytes */
	uint64_t breaks, records, backs, again, sources, read, given_up;
	uint64_t writes, sunk, sinks_up;
	const char *fault;
};

extern struct world w;

uint32_t rnd(uint32_t n);
enum { /* kinds of worlds */
       PLAY_BREAKS = 1, /* the queue pair may break */
       PLAY_LONG = 2, /* many lifts, one upon the other */
       PLAY_ENDS = 4, /* programs end their directions, and then want home */
       PLAY_TURNS = 8, /* they speak by turns */
};
/* Plays one world without some rules: what went wrong, or NULL. */
const char *play(uint64_t seed, uint32_t without, unsigned int kind);
void world_fault(const char *what);
bool world_rule(enum rule r);
void world_poll(struct end *e); /* all that has arrived */

/* Instead of sending: true, a source was made. */
bool source_begin(struct end *e);
bool source_back(struct end *e); /* it is asked for; is there none? */
/* The queue pair is no more; `read`: offset behind what the reader has. */
void source_broke(struct end *e, uint64_t read);
void source_read(struct end *e, uint64_t n); /* at most n bytes */
void source_item(struct end *e, const struct item *i);

/* Instead of sending: true, bytes were written into the peer's memory. */
bool sink_write(struct end *e);
void sink_spent(struct end *e); /* a byte went as a message */
void sink_offer(struct end *e);
/* It is asked for; true: it is given up, with the queue pair. */
bool sink_back(struct end *e);
bool sink_takes(struct end *e); /* a byte came as a message */
bool sink_waits(const struct end *e, const struct item *i); /* for room */
bool sink_item(struct end *e, const struct item *i);
void sink_forget(struct end *e);

/* Bytes that its program has written by now, if it can: end 0 speaks first. */
uint32_t world_due(const struct end *e);
bool world_full(const struct pipe *p, uint32_t n);
void world_put(struct pipe *p, uint32_t off);
struct item *world_next(struct pipe *p);
void world_tell(struct end *e);
bool world_shown(
	struct end *e); /* RECALLED: its marker is out, if it is needed */
void world_deliver(struct end *e, uint32_t off); /* to its program */
void world_sink(struct end *e, uint64_t n); /* kicks */
void world_read_some(struct end *e);

/* remote_home.c: the writer in RESTORING; the reader. */
void world_put_back(struct end *e);
void world_came_back(struct end *e, uint32_t off);
void world_come_home(struct end *e);

/* remote_end.c: a direction ends, as rdma_end.c and finish() of fallback.c. */
bool end_silent(const struct end *e); /* no words pass */
void end_step(struct end *e);
bool end_over(struct end *e); /* one that wants to fall back: true, not yet */
bool end_done(void); /* what ended is out, what wants to fall back is there */

uint8_t byte_of(uint32_t off);
const uint8_t *marker_of(const struct end *writer);
void take_control(struct end *e, uint64_t n);
void break_known(struct end *e);
void break_step(struct end *e);
void break_sink(struct end *e); /* its sink is given up, with all else */
/* The record of what came back: onto the anchor; 1 taken, 0, -EPROTO. */
void put_record(struct end *e, uint64_t from);
int take_record(struct end *e);

#endif
