/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SDP_PROTO_ZCOPY_H
#define LIBSDP_SDP_PROTO_ZCOPY_H

/*
 * Zero copy, as the socket room sees it. Belongs to conn.h; rules of
 * reference/sdp-protocol.md section 4.
 *
 * A *source* is memory of a writer that the peer may read (SrcAvail), a
 * *sink* is memory of a waiting reader that the peer may write (SinkAvail).
 * What registers memory, and how bytes are moved, is the fabric's: RDMA on
 * verbs, process_vm_readv and process_vm_writev on shared memory.
 *
 * Stream offsets. tx_stream counts bytes carried: sent in messages, written
 * into sinks, reported as read. Bytes advertised and not yet reported follow
 * it; conn_tx_at() is where the next offer begins. It falls back to
 * tx_stream when sources are given back, so a writer keeps its bytes until
 * tx_stream has passed them. rx_stream counts bytes that are here: arrived in
 * messages, read from sources, written into our sinks.
 *
 * The writer, with a source: every conn_next() may be offered `zc.src`, a
 * piece of memory that holds the stream bytes from conn_tx_at() on, one piece
 * of an iovec at a time. CONN_TOOK_SRC says that it was advertised: op.payload
 * of its bytes go inside the message, op.len are the peer's to read. Then the
 * memory must neither change nor be deregistered until conn_freed() gives its
 * key back; freed.bytes of the op.len were read, the rest is to be offered
 * again, by copy as far as op.len went: a peer that gave it back once does so
 * again. While bytes wait that an offer leaves out, it says `more`.
 *
 * Nothing here waits with a limit: the caller cancels (conn_cancel_sources())
 * when it does not want to wait any longer, and then still waits for
 * conn_freed(). Urgent bytes never travel in a source; an offer that ends in
 * one cancels what is out. In Combined mode the machine also cancels when the
 * peer's source comes, and makes none while it is there [4.3]; in Pipelined
 * mode this is the caller's policy.
 *
 * The writer, with the peer's sink: `zc.write` bytes of the offer may be
 * written. CONN_WRITE: write the next op.len stream bytes to op.vaddr with
 * op.rkey. The report (RdmaWrCompl) may follow at once, so the write has to
 * take effect before any later message does (one queue pair; or a write that
 * is over before the next conn_next()). conn_on_done() when the local memory
 * is free; with less than op.len the write failed behind that many bytes: the
 * sink is used no more and tx_stream goes back. That is legal only before the
 * next conn_next(); a fabric where it could be later is lost (conn_on_lost())
 * when a write fails. Bytes sent as Data while a sink is held use it up.
 *
 * The reader, with a source: it stands behind all bytes that have arrived,
 * and nothing passes it. So once the program has taken (or will be given) the
 * bytes in messages, conn_read() begins a read of the next ones, several
 * under way if wished, and conn_on_done(CONN_READ, len) ends the oldest.
 *   0: the len bytes are stream bytes now.
 *   -ECANCELED: they are not; throw them away. An earlier read failed, or the
 *   connection is over.
 * With less than was asked, the read failed behind that many bytes (0:
 * nothing); the source is then given back and the rest comes as Data. A
 * fabric that cannot tell failure from memory that its owner has taken back
 * must find out before it calls conn_on_done(). Reports (RdmaRdCompl) are
 * made by the machine. A reader that cannot or will not read by RDMA (MSG_PEEK,
 * a buffer too small to be worth it, no registration) calls
 * conn_refuse_sources(). Sources refused or cancelled by the peer cannot be
 * read: conn_source() is 0 then, until Data comes.
 *
 * The reader, with a sink: while it waits, conn_next() is offered `zc.sink`:
 * memory for the stream bytes from rx_stream on (behind earlier sinks of
 * ours). CONN_TOOK_SINK says that it was advertised: op.len bytes. When
 * conn_freed() gives it back, freed.bytes stream bytes lie in it, which stand
 * at freed.at; it may be 0 (bytes came in a message instead, or it was
 * cancelled). A sink ends when a writer says so, full or not: with several
 * sinks for one buffer the bytes of the later ones may have to be moved
 * together. Before a reader may return without conn_freed(), it cancels
 * (conn_cancel_sinks()) and waits.
 *
 * Death. After an error, or CONN_DISCONNECT, the peer may still be at it. It
 * does not come back by conn_freed(): the caller makes sure that nothing can
 * touch it any more, and forgets it.
 *
 * A peer that never answers a cancel, but lives, keeps the memory: there is no
 * limit of time here. Failing fabrics tell.
 */

#include <errno.h>

#include "sdp_proto/conn.h"

/* Stream offset of the first byte neither carried nor advertised. */
static inline uint64_t conn_tx_at(const struct conn *c)
{
	uint64_t at = c->tx_stream;
	uint32_t i;

	for (i = 0; i < c->src_count; i++)
		at += c->src[i].len - c->src[i].done;
	return at;
}

/*
 * Would conn_next() take a source, a sink of so many bytes, credits and room
 * aside? Cheap; to be asked before memory is registered.
 */
bool conn_src_wanted(const struct conn *c, uint32_t len);
bool conn_sink_wanted(const struct conn *c, uint32_t len);
/* Bytes that may be written into the peer's oldest sink now; 0: none. */
uint32_t conn_write_room(const struct conn *c);

/* Bytes of the peer's sources for which conn_read() may be called now. */
uint64_t conn_source(const struct conn *c);
/*
 * Begin to read at most `max` bytes of the oldest source not yet asked for:
 * *op is a CONN_READ, op->len <= max. false: there is nothing to read.
 */
bool conn_read(struct conn *c, uint64_t max, struct conn_op *op);
/* Give the peer's sources back once reads under way are over: SendSm. */
void conn_refuse_sources(struct conn *c);
/* Take ours back; memory comes free by conn_freed(), in a while. */
void conn_cancel_sources(struct conn *c);
void conn_cancel_sinks(struct conn *c);

/*
 * With conn_params.writes_wait: the peer has heard of all that was written into
 * its sinks, in time to count it.
 */
static inline bool conn_write_heard(const struct conn *c)
{
	return !c->error && !c->wr_told && !(c->want & CONN_WANT_WR_COMPL);
}

/*
 * The oldest memory that came free: true, and it is forgotten. To be asked
 * after conn_in.freed, until false: while answers are not fetched, fewer
 * advertisements can be made.
 */
bool conn_freed(struct conn *c, struct conn_freed *f);

#endif
