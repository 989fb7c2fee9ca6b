/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which of the crossings of the reference, section 4, the worlds went
 * through: a search that never meets one proves nothing about it.
 */

#include "world.h"

#define SEEN(X)                                                   \
	X(READ_WHOLE, "source read and reported in one go")       \
	X(READ_PART, "source reported in parts")                  \
	X(GIVEN_BACK, "source given back untouched")              \
	X(PART_BACK, "source given back after a part was read")   \
	X(CANCEL_IDLE, "SrcAvailCancel, nothing outstanding")     \
	X(CANCEL_READ, "SrcAvailCancel, reads under way")         \
	X(CANCEL_NEW, "SrcAvailCancel, source untouched")         \
	X(CANCEL_DONE, "cancel crossed the last RdmaRdCompl")     \
	X(CANCEL_BACK, "cancel crossed SendSm")                   \
	X(CROSS_SENDSM, "SrcAvail crossed SendSm")                \
	X(CROSS_SINK, "SrcAvail crossed SinkAvail, dropped")      \
	X(VOID, "SinkAvail voided SrcAvails")                     \
	X(VOID_CANCEL, "SinkAvail ended a SrcAvailCancel")        \
	X(BOTH_SRC, "SrcAvails both ways")                        \
	X(SINK, "SinkAvail held")                                 \
	X(STALE_SINK, "SinkAvail crossed Data, dropped")          \
	X(SINK_LATE, "SinkAvail crossed ModeChange")              \
	X(SINK_DISC, "SinkAvail crossed DisConn")                 \
	X(WRITTEN, "RdmaWrCompl of a whole sink")                 \
	X(WRITTEN_PART, "RdmaWrCompl of a part")                  \
	X(WRITTEN_NONE, "RdmaWrCompl of nothing")                 \
	X(SPENT, "Data spent a sink")                             \
	X(SINK_CANCEL_IDLE, "SinkAvailCancel, none held")         \
	X(SINK_CANCEL_PART, "SinkAvailCancel, oldest begun")      \
	X(SINK_CANCEL_NEW, "SinkAvailCancel, none begun")         \
	X(SINK_ACK, "SinkCancelAck")                              \
	X(SINK_MODE, "ModeChange ended sinks")                    \
	X(SINK_END, "DisConn ended sinks")                        \
	X(SINK_CANCEL_DATA, "cancel crossed Data that spent all") \
	X(MANY_SRC, "several sources outstanding")                \
	X(MANY_SINK, "several sinks outstanding")                 \
	X(DEAD_SRC, "death with sources out")                     \
	X(DEAD_SINK, "death with sinks out")                      \
	X(DEAD_READ, "death with reads under way")

enum seen {
#define SEEN_ENUM(name, text) SEEN_##name,
	SEEN(SEEN_ENUM) SEEN_COUNT
};

static const char *const texts[] = {
#define SEEN_TEXT(name, text) text,
	SEEN(SEEN_TEXT)
};

static uint32_t counts[SEEN_COUNT];

static void saw(enum seen what, bool really)
{
	counts[what] += really;
}

static void saw_source(const struct conn *was, const struct conn *is,
		       uint8_t mid)
{
	uint32_t done = is->src_count ? is->src[0].done : 0;

	switch (mid) {
	case WIRE_RD_COMPL:
		saw(SEEN_READ_WHOLE,
		    was->src_count > is->src_count && !was->src[0].done);
		saw(SEEN_READ_PART,
		    was->src_count == is->src_count && done > was->src[0].done);
		saw(SEEN_CANCEL_DONE, was->cancel_tx && !is->cancel_tx);
		break;
	case WIRE_SENDSM:
		saw(SEEN_GIVEN_BACK, was->src_count && !was->src[0].done);
		saw(SEEN_PART_BACK, was->src_count && was->src[0].done);
		saw(SEEN_CANCEL_BACK, was->cancel_tx);
		break;
	case WIRE_SINK_AVAIL:
		saw(SEEN_SINK, is->peer_sink_count > was->peer_sink_count);
		saw(SEEN_STALE_SINK,
		    is->nond_sent != was->nond_sent && !was->mode_mseq);
		saw(SEEN_SINK_LATE, was->mode_mseq && is->mode_mseq);
		saw(SEEN_SINK_DISC, was->dis_sent);
		saw(SEEN_VOID, was->src_count && !is->src_count);
		saw(SEEN_VOID_CANCEL, was->cancel_tx && !is->cancel_tx);
		break;
	case WIRE_SINK_CANCEL:
		saw(SEEN_SINK_CANCEL_IDLE, !was->peer_sink_count);
		saw(SEEN_SINK_CANCEL_PART, is->peer_sink_count);
		saw(SEEN_SINK_CANCEL_NEW,
		    was->peer_sink_count && !is->peer_sink_count);
		break;
	}
}

static void saw_sink(const struct conn *was, const struct conn *is, uint8_t mid,
		     bool bytes)
{
	bool ended = was->sink_count && !is->sink_count;

	switch (mid) {
	case WIRE_SRC_AVAIL:
		if (is->peer_src_count > was->peer_src_count) {
			saw(SEEN_BOTH_SRC, is->src_count);
			saw(SEEN_MANY_SRC, is->peer_src_count > 1);
		} else {
			saw(SEEN_CROSS_SINK, was->sink_count);
			saw(SEEN_CROSS_SENDSM, !was->sink_count);
		}
		break;
	case WIRE_SRC_CANCEL:
		saw(SEEN_CANCEL_IDLE, !was->peer_src_count);
		saw(SEEN_CANCEL_READ, was->reads);
		saw(SEEN_CANCEL_NEW,
		    was->peer_src_count && !was->peer_src[0].asked);
		break;
	case WIRE_WR_COMPL:
		saw(SEEN_WRITTEN,
		    is->rx_stream - was->rx_stream == was->sink[0].len);
		saw(SEEN_WRITTEN_PART,
		    is->rx_stream > was->rx_stream &&
			    is->rx_stream - was->rx_stream < was->sink[0].len);
		saw(SEEN_WRITTEN_NONE, is->rx_stream == was->rx_stream);
		break;
	case WIRE_DATA:
		saw(SEEN_SPENT, bytes && was->sink_count > is->sink_count);
		saw(SEEN_SINK_CANCEL_DATA, was->sink_cancel && ended);
		break;
	case WIRE_SINK_ACK:
		saw(SEEN_SINK_ACK, ended);
		break;
	case WIRE_MODE:
		saw(SEEN_SINK_MODE, ended);
		break;
	case WIRE_DISCONN:
		saw(SEEN_SINK_END, ended);
		break;
	}
}

void seen_recv(const struct conn *was, const struct conn *is, uint8_t mid,
	       bool bytes)
{
	if (is->error)
		return;
	saw_source(was, is, mid);
	saw_sink(was, is, mid, bytes);
	saw(SEEN_MANY_SINK, is->sink_count > 1);
}

void seen_end(const struct conn *c)
{
	saw(SEEN_DEAD_SRC, c->src_count);
	saw(SEEN_DEAD_SINK, c->sink_count);
	saw(SEEN_DEAD_READ, c->reads);
}

unsigned int seen_report(bool all)
{
	unsigned int i, missing = 0;

	for (i = 0; i < SEEN_COUNT; i++) {
		if (all || !counts[i])
			printf("%9u %s\n", counts[i], texts[i]);
		missing += !counts[i];
	}
	return missing;
}
