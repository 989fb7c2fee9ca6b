/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The judge: what may use the last credits [3.3], which end sends DREQ and when
 * [5.3], and what must have happened when all is over.
 */
#include "native_world.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define SOON	 KP_S /* of virtual time: nothing waits for so long */
#define FIN_WAIT (60 * KP_S)

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

void native_fault(struct native_world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->fault[0])
		return;
	va_start(ap, fmt);
	vsnprintf(w->fault, sizeof(w->fault), fmt, ap);
	va_end(ap);
}

static void trace(struct native_world *w, const char *how, const uint8_t *msg)
{
	if (w->trace)
		fprintf(w->trace,
			"%9llu us %s %02x flags %x bufs %u len %u mseq %u "
			"ack %u\n",
			(unsigned long long)w->now / 1000, how, msg[0], msg[1],
			be32(msg) & 0xffff, be32(msg + 4), be32(msg + 8),
			be32(msg + 12));
}

void native_judge_sent(struct native_world *w, const uint8_t *msg, uint32_t len)
{
	uint32_t mseq = be32(msg + 8),
		 sum = (be32(msg) & 0xffff) + be32(msg + 12);
	int32_t credits = (int32_t)(w->bufs - (mseq - 1 - w->ack));
	int32_t news = (int32_t)(sum - w->told);
	bool bytes = msg[0] >= 0xfd && (msg[0] != 0xff || len > 16);

	trace(w, "us >", msg);
	if (bytes ? credits < 3 : credits < 1 || (credits == 1 && news <= 0))
		native_fault(w, "message %02x of %u bytes on credit %d", msg[0],
			     len, credits);
	if (news < 0)
		native_fault(w, "receives taken back");
	native_saw(SEEN_CREDITS_2, credits == 2);
	native_saw(SEEN_CREDITS_1, credits == 1);
	w->told = sum;
	if (msg[0] != 2)
		return;
	w->fin_at = w->now;
	native_saw(SEEN_IN_TIME,
		   w->fin_first && w->now > w->fin_rcvd_at + 2 * KP_S);
}

void native_judge_took(struct native_world *w, const uint8_t *msg, uint32_t len)
{
	trace(w, "us <", msg);
	w->bufs = be32(msg) & 0xffff;
	w->ack = be32(msg + 12);
	if (msg[0] == 2) {
		w->fin_rcvd_at = w->now;
		w->fin_first = !w->shut; /* else they crossed: BOTH [5.3] */
	}
	native_saw(SEEN_FULL_OURS, len == w->set.conn.rcv_size);
	if (msg[0] != 0xff || len == 16 || !w->fin_at)
		return;
	native_saw(SEEN_HALF_OURS, true);
	native_saw(SEEN_HALF_LONG, w->now > w->fin_at + FIN_WAIT);
}

/* The first closer, and both when they crossed, at once [5.3; 7, 13]. */
void native_judge_dreq(struct native_world *w)
{
	uint64_t both = w->fin_at > w->fin_rcvd_at ? w->fin_at : w->fin_rcvd_at;

	if (w->trace)
		fprintf(w->trace, "%9llu us us > DREQ, error %d %s\n",
			(unsigned long long)w->now / 1000, w->c.error,
			w->c.fault ? w->c.fault : "");
	native_saw(SEEN_ABORT_OURS, w->c.error && w->fin_at);
	if (w->c.error)
		return;
	if (!w->fin_at || !w->fin_rcvd_at)
		native_fault(w, "DREQ before both DisConns");
	else if (w->fin_first && w->now < w->fin_at + FIN_WAIT)
		native_fault(w, "DREQ by the second to close");
	else if (!w->fin_first && w->now > both + SOON)
		native_fault(w, "DREQ late");
	native_saw(SEEN_DREQ_OURS, true);
}

void native_judge_disconnected(struct native_world *w, int error)
{
	int expected = -ECONNRESET;

	if (w->fin_at && w->fin_rcvd_at)
		expected = 0;
	else if (w->fin_rcvd_at && !w->shut)
		expected = -EPIPE;
	if (error != expected)
		native_fault(w, "DREQ of the kernel shows as %d, not %d", error,
			     expected);
}

/* Its minute is over, and our DisConn could have been there. */
static bool we_were_late(const struct native_world *w)
{
	return w->shut && w->now > w->shut_at + 10 * KP_S &&
	       w->written == w->c.tx_stream && !w->k.fin_rcvd;
}

static void check_clean(struct native_world *w)
{
	bool odd = w->set.kernel.gaps || w->set.kernel.strangers;

	if (w->error || w->k.error)
		native_fault(w, "ended with %d (%s), kernel with %d", w->error,
			     w->c.fault ? w->c.fault : "", w->k.error);
	if (w->got != w->set.kernel.total || w->k.read != w->set.plan.total)
		native_fault(w, "%llu bytes of %llu, kernel %llu of %llu",
			     (unsigned long long)w->got,
			     (unsigned long long)w->set.kernel.total,
			     (unsigned long long)w->k.read,
			     (unsigned long long)w->set.plan.total);
	if (!w->eof || !w->k.fin_rcvd)
		native_fault(w, "an end is missing");
	if (w->urgents != w->set.kernel.urgents ||
	    w->k.urgents != w->set.plan.urgents)
		native_fault(w, "an urgent byte is missing");
	if (w->c.fault && !odd)
		native_fault(w, "log: %s", w->c.fault);
}

void native_judge_end(struct native_world *w)
{
	if (w->k.fin_late && we_were_late(w))
		native_fault(w, "our DisConn did not come in time");
	if (!w->odd && !w->k.odd)
		check_clean(w);
}
