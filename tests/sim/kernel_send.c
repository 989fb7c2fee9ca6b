/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The simulated kernel socket: what it sends, its timers, its program.
 * Sections in brackets are those of reference/sdp-protocol.md.
 */
#include "kernel_peer.h"

#include <errno.h>
#include <string.h>

#define PAGE	   4096u
#define FIN_LIMIT  (60 * KP_S) /* [5.3], also after shutdown [7, 14] */
#define SRC_LIMIT  KP_S /* then SrcAvailCancel [4.3] */
#define DEAD_LIMIT (60 * KP_S)
#define NAGLE	   (100 * KP_MS)
#define SNDBUF	   100000

/* --- messages ---------------------------------------------------------- */

static uint32_t emit(struct kp *k, uint8_t *buf, uint8_t mid, uint8_t flags,
		     uint32_t len)
{
	if (k->plan.junk)
		flags |= (uint8_t)(native_rnd(32) << 3);
	buf[0] = mid;
	buf[1] = flags;
	kp_put16(buf + 2, k->posted);
	kp_put32(buf + 4, len);
	kp_put32(buf + 8, ++k->sent);
	kp_put32(buf + 12, k->rcvd); /* at once, processed or not [3.1] */
	k->credits--;
	k->view = k->posted;
	return len;
}

static void put_bytes(struct kp *k, uint8_t *p, uint32_t len)
{
	uint32_t i;

	for (i = 0; i < len; i++)
		p[i] = native_byte(true, k->tx + i);
	k->tx += len;
	k->last_data = k->sent;
}

/* OFED: inline to the end of the first page, addresses from 0 on [1.6]. */
static uint32_t send_source(struct kp *k, uint64_t now, uint8_t *buf)
{
	uint32_t len = (uint32_t)(k->zc_to - k->tx), off, p, msg;

	off = native_rnd(4) ? native_rnd(PAGE) : 0;
	p = PAGE - off;
	if (p > k->pay_max - 16)
		p = k->pay_max - 16;
	if (p >= len)
		p = len - 1;
	msg = emit(k, buf, 0xfe, 0, 32 + p);
	kp_put32(buf + 16, len);
	kp_put32(buf + 20, ++k->rkeys);
	kp_put32(buf + 24, 0);
	kp_put32(buf + 28, off);
	put_bytes(k, buf + 32, p);
	k->src = (struct kp_source){
		.out = true,
		.vaddr = off + p,
		.at = k->tx,
		.rkey = k->rkeys,
		.mseq = k->sent,
		.left = len - p,
		.since = now,
	};
	k->zc_to = 0;
	native_saw(SEEN_SRC_ZERO, !off);
	return msg;
}

/* A partial segment waits for MSeqAck of the one before, or 100 ms [3.5]. */
static bool nagle_holds(struct kp *k, uint64_t now, uint32_t len)
{
	bool acked = (int32_t)(k->last_data - k->acked) <= 0;

	if (k->plan.nodelay || len == k->pay_max)
		return false;
	if (!acked && !k->nagle_at)
		k->nagle_at = now + NAGLE;
	if (!acked && now < k->nagle_at)
		return true;
	native_saw(SEEN_NAGLE_ACK, k->nagle_at && acked);
	native_saw(SEEN_NAGLE_TIME, k->nagle_at && !acked);
	return false;
}

static uint32_t send_data(struct kp *k, uint64_t now, uint8_t *buf)
{
	uint64_t len = kp_unsent(k);
	uint8_t flags = 0;
	uint32_t i, msg;

	if (!len || k->src.out || k->credits < 3)
		return 0;
	if (k->zc_to && k->tx == k->zc_from)
		return send_source(k, now, buf);
	if (k->zc_to)
		len = k->zc_from - k->tx;
	if (len > k->pay_max)
		len = k->pay_max;
	for (i = 0; i < k->plan.urgents; i++)
		if (k->plan.urgent[i] >= k->tx &&
		    k->plan.urgent[i] < k->tx + len) {
			len = k->plan.urgent[i] + 1 - k->tx;
			flags = 3; /* both in one message [5.1] */
			break;
		}
	if (!flags && nagle_holds(k, now, (uint32_t)len))
		return 0;
	k->nagle_at = 0;
	msg = emit(k, buf, 0xff, flags, 16 + (uint32_t)len);
	put_bytes(k, buf + 16, (uint32_t)len);
	native_saw(SEEN_URGENT_IN, flags);
	return msg;
}

/* OFED's rule [3.4]; only in these states. */
static uint32_t send_update(struct kp *k, uint8_t *buf)
{
	uint32_t c = k->view > 2 ? k->view + k->view / 2 : k->view;

	if (c >= k->posted || k->credits < 1 ||
	    (k->state != KP_ESTABLISHED && k->state != KP_FIN_WAIT1))
		return 0;
	native_saw(SEEN_UPDATE_IN, true);
	native_saw(SEEN_PEER_LAST, k->credits == 1);
	return emit(k, buf, 0xff, 0, 16);
}

static uint32_t send_control(struct kp *k, uint64_t now, uint8_t *buf)
{
	if (k->credits < 2)
		return 0;
	if (k->src.out && !k->src.cancelled &&
	    now >= k->src.since + SRC_LIMIT) {
		k->src.cancelled = now;
		k->src.cancel_mseq = k->sent + 1;
		native_saw(SEEN_SRC_CANCEL, true);
		return emit(k, buf, 8, 0, 16);
	}
	if (k->rcvbuf_due && k->state == KP_ESTABLISHED) {
		k->rcvbuf_due = false;
		k->rcvbuf_asked = true;
		kp_put32(buf + 16, k->plan.ask);
		return emit(k, buf, 0xb, 0, 20);
	}
	return 0;
}

static uint32_t send_disconn(struct kp *k, uint64_t now, uint8_t *buf)
{
	if (!k->fin_due || kp_unsent(k) || k->src.out)
		return 0;
	if (k->credits < 2) { /* [7, 12] */
		k->fin_waited = true;
		return 0;
	}
	native_saw(SEEN_DISC_2, k->credits == 2);
	native_saw(SEEN_DISC_WAIT, k->fin_waited);
	k->fin_due = false;
	k->fin_sent = true;
	k->fin_sent_at = now;
	return emit(k, buf, 2, 0, 16);
}

/* Not theirs, but tolerated of a native peer: unknown kinds, gaps [6]. */
static uint32_t send_odd(struct kp *k, uint8_t *buf)
{
	static const uint8_t mids[] = { 0x10, 0x23, 0x40, 0x7f, 0x99, 0xfc };
	uint32_t len = 16 + native_rnd(64);

	if (k->credits < 10 || !kp_unsent(k))
		return 0;
	if (k->plan.gaps && !native_rnd(k->plan.gaps)) {
		k->sent++;
		k->credits--;
		native_saw(SEEN_GAP, true);
	}
	if (!k->plan.strangers || native_rnd(k->plan.strangers) ||
	    len > k->pay_max + 16)
		return 0;
	memset(buf + 16, 0x5a, len - 16);
	native_saw(SEEN_STRANGER, true);
	return emit(k, buf, mids[native_rnd(6)], 0, len);
}

uint32_t kp_send(struct kp *k, uint64_t now, uint8_t *buf)
{
	uint32_t len;

	if (k->state == KP_SYN || k->state == KP_TIME_WAIT)
		return 0;
	len = send_odd(k, buf);
	if (!len)
		len = send_data(k, now, buf);
	if (!len)
		len = send_update(k, buf);
	if (!len)
		len = send_control(k, now, buf);
	if (!len)
		len = send_disconn(k, now, buf);
	return len;
}

void kp_completed(struct kp *k, const uint8_t *msg)
{
	if (msg[0] != 2)
		return;
	k->fin_done = true;
	if (k->state != KP_CLOSING)
		return;
	k->state = KP_TIME_WAIT;
	k->dreq_due = true;
}

/* --- timers ------------------------------------------------------------ */

static bool timers(struct kp *k, uint64_t now)
{
	if (k->state == KP_TIME_WAIT)
		return false;
	if (k->src.out && k->src.cancelled &&
	    now >= k->src.cancelled + DEAD_LIMIT)
		kp_fault(k, "no answer to SrcAvailCancel");
	if (!k->fin_at || now < k->fin_at)
		return false;
	if (k->state == KP_LAST_ACK && k->fin_done &&
	    now > k->fin_sent_at + FIN_LIMIT - KP_S)
		kp_fault(k, "no DREQ in a minute"); /* [7, 13] */
	native_saw(SEEN_FIN_WAIT, k->state == KP_FIN_WAIT1 && !k->closed);
	k->fin_late = true;
	kp_reset(k, -ETIMEDOUT);
	return true;
}

/* --- the program ------------------------------------------------------- */

static void close_half(struct kp *k, uint64_t now)
{
	if (k->shut)
		return;
	k->shut = k->fin_due = true;
	k->fin_at = now + FIN_LIMIT;
	k->state = k->state == KP_CLOSE_WAIT ? KP_LAST_ACK : KP_FIN_WAIT1;
}

static bool leave(struct kp *k, uint64_t now)
{
	if (!k->plan.leave_at || now < k->plan.leave_at || k->state == KP_SYN ||
	    k->closed)
		return false;
	k->odd = k->closed = true;
	if (k->rx != k->read || k->src.out || k->zc_to) {
		native_saw(SEEN_ABORT_THEIRS, true);
		kp_reset(k, -ECONNABORTED); /* unread bytes: DREQ [5.3] */
		return true;
	}
	k->plan.total = k->written;
	close_half(k, now);
	return true;
}

static bool program_read(struct kp *k, uint64_t now)
{
	uint64_t n = 1 + native_rnd(k->plan.gulp);

	if (k->read == k->rx || now < k->read_at || now < k->plan.lazy_until)
		return false;
	if (n > k->rx - k->read)
		n = k->rx - k->read;
	k->read += n;
	k->read_at = now + native_pause(k->plan.read_gap);
	kp_repost(k);
	return true;
}

static bool program_write(struct kp *k, uint64_t now)
{
	uint64_t end = k->plan.total, n = 1 + native_rnd(k->plan.chunk);
	uint32_t i;

	if (k->state == KP_SYN || k->state == KP_TIME_WAIT || k->shut ||
	    k->src.out || k->zc_to || now < k->write_at ||
	    kp_unsent(k) > SNDBUF)
		return false;
	if (k->written == end) {
		if (k->plan.patient && !k->fin_rcvd)
			return false;
		close_half(k, now);
		return true;
	}
	for (i = k->plan.urgents; i--;)
		if (k->plan.urgent[i] >= k->written)
			end = k->plan.urgent[i] + 1;
	if (n > end - k->written)
		n = end - k->written;
	if (k->family == KP_OFED && k->plan.zcopy && n >= k->plan.zcopy &&
	    n > 1 && k->pay_max > 16 && end == k->plan.total) {
		k->zc_from = k->written;
		k->zc_to = k->written + n;
	}
	k->written += n;
	k->write_at = now + native_pause(k->plan.write_gap);
	return true;
}

bool kp_step(struct kp *k, uint64_t now)
{
	bool any = timers(k, now);

	if (k->state != KP_TIME_WAIT)
		any |= leave(k, now);
	if (!k->closed)
		any |= program_read(k, now);
	return program_write(k, now) || any;
}

static void sooner(uint64_t now, uint64_t *at, uint64_t other)
{
	if (other > now && other < *at)
		*at = other;
}

uint64_t kp_deadline(const struct kp *k, uint64_t now)
{
	uint64_t at = UINT64_MAX, read_at = k->read_at;

	if (read_at < k->plan.lazy_until)
		read_at = k->plan.lazy_until;
	if (k->read != k->rx && !k->closed)
		sooner(now, &at, read_at);
	if (k->state == KP_TIME_WAIT)
		return at;
	if (!k->shut)
		sooner(now, &at, k->write_at);
	if (k->src.out)
		sooner(now, &at,
		       k->src.cancelled ? k->src.cancelled + DEAD_LIMIT :
					  k->src.since + SRC_LIMIT);
	if (!k->closed)
		sooner(now, &at, k->plan.leave_at);
	sooner(now, &at, k->nagle_at);
	sooner(now, &at, k->fin_at);
	return at;
}
