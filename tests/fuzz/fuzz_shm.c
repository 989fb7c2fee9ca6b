/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One end of a shared segment against a peer that writes any word of it between
 * our calls: what we read lies in its ring or in memory of ours, what we write
 * in our ring, and nothing else of the process is touched.
 */
#include "fuzz.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include "fabric/shm/frame.h"

#define RING SHM_RING_LOW
#define PAGE 4096u
#define KEY  0x1234567890abcdefull

const struct target target = { "shm", 30, 1000 };

struct run {
	struct shm_end e; /* ours */
	struct shm_end peer; /* to begin with it does as it should */
	struct shm_keep keep;
	uint8_t *mem; /* the segment, as the peer has it mapped */
	size_t len;
	uint32_t held; /* polled and not released */
	uint32_t rkey;
};

static int self = -1; /* a socket whose other end is of this process */

/* --- what the peer writes ------------------------------------------------- */

static void poke(struct run *r, size_t at, uint64_t v, unsigned int bytes)
{
	if (at + bytes <= r->len)
		memcpy(r->mem + at, &v, bytes);
}

static size_t off(const struct run *r, const void *p)
{
	return (size_t)((const uint8_t *)p - (const uint8_t *)r->e.seg.mem);
}

/* A frame, or a jump, where we look for the next. */
static void lie_frame(struct run *r, struct input *in)
{
	uint8_t kind = in_byte(in);
	const uint8_t *at =
		r->e.rx + (kind & 1 ? r->e.rx_parse : r->e.rx_front);
	uint32_t len = in_near(in, MSG_MIN) & 0xffffffff;
	struct jump j = { in_near(in, r->e.rx_parse + LINE) & ~63u, len,
			  in_word(in) };

	if (kind & 2) {
		j.len = 0;
		poke(r, off(r, at) + HEAD, j.to, 4);
		poke(r, off(r, at) + HEAD + 4, j.len, 4);
		poke(r, off(r, at) + HEAD + 8, j.cap, 4);
	} else {
		poke(r, off(r, at) + HEAD + 4, htobe32(len), 4);
	}
	if (kind & 4)
		poke(r, off(r, at) + TAG, in_64(in), 8);
	if (kind & 8)
		poke(r, off(r, at), r->e.rx_tag, 8);
}

/* The same in the lane. */
static void lie_lane(struct run *r, struct input *in)
{
	const uint8_t *at = r->e.rx_lane + r->e.rx_lane_seq % SHM_LANE * LINE;
	uint32_t len = in_byte(in);

	poke(r, off(r, at) + TAG + 4, htobe32(len), 4);
	poke(r, off(r, at), r->e.rx_tag, 8);
	poke(r, off(r, r->e.rx_laned), in_near(in, r->e.rx_lane_seq + 1), 4);
}

/* The words in the segment's head, by the meaning they have. */
static void lie_word(struct run *r, struct input *in)
{
	struct shm_end *e = &r->e;
	uint64_t seen = e->tx_seen;

	switch (in_byte(in) % 8) {
	case 0: /* progress: a number of ours, an offset that is near */
		seen = (uint64_t)(uint32_t)in_near(in, e->tx_seq) << 32 |
		       (uint32_t)in_near(in, e->tx_head);
		poke(r, off(r, e->tx_progress), seen, 8);
		break;
	case 1: /* all of it is read */
		seen = (uint64_t)e->tx_seq << 32 | e->tx_head;
		poke(r, off(r, e->tx_progress), seen, 8);
		break;
	case 2:
		poke(r, off(r, e->tx_progress) + 8, in_near(in, e->tx_lane_seq),
		     8);
		break;
	case 3:
		poke(r, off(r, e->rx_held),
		     in_byte(in) & 1 ? e->rx_tag : in_64(in), 8);
		break;
	case 4:
		poke(r, off(r, e->src), in_near(in, (uint64_t)e->src_id << 32),
		     8);
		break;
	case 5:
		poke(r, off(r, e->peer_src),
		     in_near(in, (uint64_t)r->rkey << 32), 8);
		break;
	case 6:
		poke(r, off(r, e->peer_src) + 8, in_near(in, e->src->seal_at),
		     8);
		poke(r, off(r, e->peer_src) + 16, in_near(in, e->src->seal), 8);
		break;
	default:
		poke(r, off(r, e->src) + 8, in_64(in), 8);
		break;
	}
}

static void lies(struct run *r, struct input *in)
{
	switch (in_byte(in) % 4) {
	case 0:
		lie_frame(r, in);
		break;
	case 1:
		lie_lane(r, in);
		break;
	case 2:
		lie_word(r, in);
		break;
	default: /* anywhere */
		poke(r, in_word(in) % r->len, in_64(in), 1 + in_byte(in) % 8);
		break;
	}
}

/* What an honest peer does, so that there is something to lie about. */
static void honest(struct run *r, struct input *in)
{
	struct end *e = &r->peer.end;
	uint8_t kind = in_byte(in);
	uint32_t len = MSG_MIN + in_word(in) % (SHM_MSG_MAX - MSG_MIN + 1);
	struct fab_msg m;
	void *p;

	switch (kind % 4) {
	case 0:
		p = shm_ops.buf(e, len);
		if (p)
			shm_ops.send(e, len, false);
		break;
	case 1:
		p = shm_ops.ctrl(e);
		if (p)
			shm_ops.send(e, 36, false);
		break;
	case 2:
		if (shm_ops.poll(e, &m) == 1 && m.held)
			shm_ops.release(e);
		break;
	default:
		shm_ops.publish(e);
		break;
	}
}

/* --- what we do ------------------------------------------------------------ */

/* A message is whole, in the peer's ring or in a copy. */
static void check_message(const struct run *r, const struct fab_msg *m,
			  const uint8_t *ring)
{
	uint8_t ends[2];

	must(m->len >= MSG_MIN);
	if (m->held) {
		must(m->len <= SHM_MSG_MAX);
		must(m->mem >= ring + HEAD && m->mem < ring + RING);
		must(m->len <= (size_t)(ring + RING - m->mem));
	} else {
		must(m->len <= FAB_CTRL && m->mem == r->e.rx_ctrl);
	}
	memcpy(&ends[0], m->mem, 1);
	memcpy(&ends[1], m->mem + m->len - 1, 1);
}

static void receive(struct run *r, struct input *in)
{
	struct end *e = &r->e.end;
	struct fab_msg m;
	int n, err = r->e.error;

	switch (in_byte(in) % 5) {
	case 0:
	case 1:
		n = shm_ops.poll(e, &m);
		must(n == 1 || n == 0 || n == -EPROTO);
		if (n == 1) {
			check_message(r, &m, r->e.rx);
			r->held += m.held;
		}
		break;
	case 2:
		n = shm_ops.front(e, &m);
		must(n == 1 || n == 0 || n == -EPROTO);
		if (n == 1)
			check_message(r, &m, r->e.rx);
		break;
	case 3:
		if (r->held) {
			shm_ops.release(e);
			r->held--;
		}
		break;
	default:
		shm_ops.unhold(e);
		shm_ops.publish(e);
		shm_ops.sends(e);
		break;
	}
	must(!err || r->e.error == err); /* it stays */
	must(r->e.rx_parse <= RING - LINE && r->e.rx_front <= RING - LINE);
}

static void looks(struct run *r, struct input *in)
{
	bool own = in_byte(in) & 1;
	struct fab_walk w = { 0 };
	struct fab_msg m;
	uint32_t most = own ? r->e.tx_seq : r->e.rx_parse_seq, n = 0;

	while (shm_ops.next(&r->e.end, own, &w, &m) == 1) {
		check_message(r, &m, own ? r->e.tx : r->e.rx);
		must(++n <= most);
	}
}

static void sends(struct run *r, struct input *in)
{
	struct end *e = &r->e.end;
	uint8_t kind = in_byte(in);
	uint32_t len = MSG_MIN + in_word(in) % (SHM_MSG_MAX - MSG_MIN + 1);
	uint32_t room = shm_ops.room(e);
	uint8_t *p;

	if (kind & 1) {
		len = FAB_CTRL;
		p = shm_ops.ctrl(e);
	} else {
		must(!room || (room >= FAB_CTRL && room <= SHM_MSG_MAX));
		p = shm_ops.buf(e, len);
		must(p || room < len || r->e.error);
	}
	if (!p)
		return;
	if (p >= r->e.tx && p < r->e.tx + RING)
		must(len <= (size_t)(r->e.tx + RING - p));
	else
		must(p >= r->e.tx_lane &&
		     p + FAB_CTRL <= r->e.tx_lane + SHM_LANE * LINE);
	memset(p, kind, len);
	if (kind & 2)
		must(!shm_ops.send(e, len, false));
}

static void zero_copy(struct run *r, struct input *in)
{
	static uint8_t from[8192], to[8192];
	struct end *e = &r->e.end;
	struct fab_done d;
	uint32_t key = r->rkey, len = 1 + in_word(in) % sizeof(to);

	switch (in_byte(in) % 4) {
	case 0:
		shm_ops.lend(e, from, len, &r->rkey);
		break;
	case 1:
		shm_ops.lent(e, in_byte(in) & 1);
		break;
	case 2:
		shm_ops.unlend(e);
		break;
	default: /* of this very process, if the seal is right */
		r->e.peer = in_byte(in) & 1 ? self : -1;
		if (in_byte(in) & 1)
			key = (uint32_t)in_near(in, key);
		shm_ops.read(e, to,
			     in_byte(in) & 1 ? (uintptr_t)from : in_64(in), key,
			     len, 7);
		r->e.peer = -1;
		must(shm_ops.done(e, &d) == 1 && d.id == 7 && d.len <= len);
		break;
	}
	shm_ops.recalled(e);
	shm_ops.pending(e);
}

static void others(struct run *r, struct input *in)
{
	struct end *e = &r->e.end;
	uint8_t *mem;
	ssize_t n;

	switch (in_byte(in) % 4) {
	case 0:
		shm_ops.hold(e, in_byte(in) & 1);
		break;
	case 1:
		shm_ops.trim(e);
		break;
	case 2:
		shm_tx_empty(&r->e);
		shm_keep_drop(&r->e, in_byte(in) & 1, in_16(in));
		break;
	default:
		n = shm_keep_at(&r->keep, &r->e, in_byte(in) & 1,
				in_word(in) % SHM_KEEP, &mem);
		must(n > 0);
		mem[0] = mem[n - 1] = 1;
		break;
	}
}

/* --- */

static void begin(struct run *r, bool maker)
{
	static struct shm_seg made, opened;
	static int fd = -1;
	int pair[2];

	if (fd < 0) {
		fd = shm_make(&made, RING);
		must(fd >= 0 && !shm_open_seg(&opened, fd, made.len));
		must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
		self = pair[0];
	}
	memset(r, 0, sizeof(*r));
	memset((uint8_t *)made.mem + SHM_PROGRESS_AT, 0,
	       PAGE - SHM_PROGRESS_AT);
	must(!madvise((uint8_t *)made.mem + PAGE, made.len - PAGE,
		      MADV_REMOVE));
	r->mem = opened.mem;
	r->len = opened.len;
	shm_end_init(&r->e, &made, maker, KEY);
	shm_end_init(&r->peer, &opened, !maker, KEY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	static struct run r;

	begin(&r, in_byte(&in) & 1);
	while (in_more(&in)) {
		switch (in_byte(&in) % 9) {
		case 0:
		case 1:
			lies(&r, &in);
			break;
		case 2:
		case 3:
			honest(&r, &in);
			break;
		case 4:
			receive(&r, &in);
			break;
		case 5:
			looks(&r, &in);
			break;
		case 6:
			sends(&r, &in);
			break;
		case 7:
			zero_copy(&r, &in);
			break;
		default:
			others(&r, &in);
			break;
		}
	}
	shm_keep_close(&r.keep);
	shm_forgo(&r.e);
	shm_forgo(&r.peer);
	return 0;
}
