/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SDP_PROTO_STATE_H
#define LIBSDP_SDP_PROTO_STATE_H

/*
 * Inside the machine: states, death, and what the files of this room call in
 * each other. Every handler of a received message has the type of rx_fn: the
 * BSDH is checked and counted already; it fills `in` and returns 0, or what
 * state_die() returned.
 */

#include <errno.h>

#include "sdp_proto/conn.h"
#include "sdp_proto/wire.h"
#include "sdp_proto/zcopy.h"

#define NS_PER_S    1000000000ull
#define CLOSE_LIMIT (60 * NS_PER_S) /* FIN_WAIT, LAST_ACK [5.3] */
#define TW_LIMIT    (150 * NS_PER_S)

#define UPDATE_LATE	 2000000ull /* 2 ms, and doubled so often: 256 ms */
#define UPDATE_DOUBLINGS 7

#define DATA_CREDITS 3 /* for messages with stream bytes, adverts [3.3] */

#define BIT(n) (1u << (n))
/* States in which messages are sent and received. */
#define STATES_OPEN                                                           \
	(BIT(CONN_EST) | BIT(CONN_RCVD) | BIT(CONN_SEND1) | BIT(CONN_SENT1) | \
	 BIT(CONN_BOTH) | BIT(CONN_LAST))

static inline bool state_in(const struct conn *c, unsigned int set)
{
	return BIT(c->state) & set;
}

/* a before b, both MSeq, 32-bit wrap [3.1] */
static inline bool mseq_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/* The only place where a state changes. */
void state_move(struct conn *c, enum conn_state to);
/* Refresh tx_fast and rx_fast; after anything that is not plain Data. */
void state_settle(struct conn *c);
/*
 * The connection ends with `error` (negative). `fault`: what the peer did,
 * or NULL. Returns `error`. Further deaths change nothing.
 */
int state_die(struct conn *c, int error, const char *fault);
/* Reset: ECONNRESET, with AbortConn where it is allowed. */
int state_abort(struct conn *c, const char *fault);
/* A late credit update has waited long enough; the next waits longer [3.4]. */
static inline void update_ripe(struct conn *c, uint64_t now)
{
	if (!c->update_late || now < c->update_at || !conn_view_low(c))
		return;
	c->update_late = false;
	if (c->update_tries < UPDATE_DOUBLINGS)
		c->update_tries++;
}

/* May our half carry stream bytes, credits aside? */
bool state_tx_open(const struct conn *c);
/* Stream bytes of the peer in `m`: checks of every kind of carrier. */
int rx_payload(struct conn *c, const struct wire_msg *m, struct conn_in *in);

typedef int rx_fn(struct conn *c, uint64_t now, const struct wire_msg *m,
		  struct conn_in *in);

rx_fn close_on_disconn, close_on_abort;
rx_fn srcavail_on_avail, srcavail_on_cancel, srcavail_on_compl,
	srcavail_on_sendsm;
rx_fn sinkavail_on_avail, sinkavail_on_cancel, sinkavail_on_ack,
	sinkavail_on_compl;
rx_fn mode_on_change;
rx_fn resize_on_ask, resize_on_ack;

/* Both halves are established: HelloAck made or accepted. */
void close_pending_shutdown(struct conn *c);
/* Our DisConn was posted. */
void close_sent(struct conn *c, uint64_t now);
/* Flags of a Data that carries `payload` of the offered bytes. */
uint8_t urgent_flags(struct conn *c, const struct conn_offer *offer,
		     uint32_t payload);
/* Flags of a Data that carries none of them; 0: nothing new to announce. */
uint8_t urgent_notice(struct conn *c, const struct conn_offer *offer);
void urgent_received(struct conn *c, const struct wire_msg *m,
		     struct conn_in *in);
/* Advertisement lists, oldest first. */
void advert_drop(struct conn_advert *list, uint32_t *count, uint32_t n);
/* Would one more of ours, and all that are out, fit into what is freed? */
bool advert_fits(const struct conn *c);
/* Memory of our oldest source, sink, is the caller's again. */
void src_free(struct conn *c);
void sink_free(struct conn *c, uint32_t bytes);
/* All of them. */
void src_over(struct conn *c);
void sink_over(struct conn *c);
/* What the present state of the advertisements makes due. */
void zcopy_due(struct conn *c);
/* The same for the peer's sources: RdmaRdCompl, SendSm. */
void srcavail_due(struct conn *c);
/* A read ended: conn_on_done(). */
int srcavail_read_done(struct conn *c, uint64_t len);
int sinkavail_write_done(struct conn *c, uint64_t len);

/* Post a message of this kind with `payload` stream bytes; fills *op. */
void tx_msg(struct conn *c, struct wire_msg *m, uint32_t payload,
	    struct conn_op *op);
/* Advertise or use what is offered in offer->zc; false: not now. */
bool srcavail_next(struct conn *c, const struct conn_offer *offer,
		   uint32_t room, struct conn_op *op);
bool sinkavail_next(struct conn *c, const struct conn_offer *offer,
		    uint32_t room, struct conn_op *op);
bool sinkavail_write(struct conn *c, const struct conn_offer *offer,
		     struct conn_op *op);
/* RdmaWrCompl may go: no more bytes come for the sink it reports. */
bool sinkavail_compl_due(const struct conn *c, const struct conn_offer *offer);
/* The completions about to be posted: the number they carry. */
uint32_t srcavail_report(struct conn *c);
uint32_t sinkavail_report(struct conn *c);
/* The number of a ChRcvBufAck. */
uint32_t resize_report(const struct conn *c);
/* The peer has our last one. */
void resize_heard(struct conn *c);
/* The ModeChange of mode_due is about to be posted. */
void mode_posted(struct conn *c);

#endif
