/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How much may be under way (window.h). */

#include <netinet/tcp.h>

#include "socket/transport/transport.h"

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif

#define ROOM_SET 0x80000000u /* of anc_side.room: the program has set it */
#define LOOK	 65536 /* unbound: bytes until the next look */

static int tcp_int(int fd, int opt)
{
	socklen_t len = sizeof(int);
	int v = 0;

	return sys_getsockopt(fd, IPPROTO_TCP, opt, &v, &len) ? 0 : v;
}

/* What the reader's socket holds; true: its program or ours has set a bound. */
static bool bound(const struct sock *s, uint64_t *reader)
{
	uint32_t room = __atomic_load_n(&s->peer->room, __ATOMIC_RELAXED);

	*reader = room & ~ROOM_SET;
	/* an older library says nothing, and does not know of ours */
	return room &&
	       ((room & ROOM_SET) || (s->opt.bufs & (BUF_SND | BUF_LOWAT)));
}

static uint64_t under_way(const struct sock *s)
{
	uint64_t taken = __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);

	return taken < s->at.sent ? s->at.sent - taken : 0;
}

uint64_t window_look(struct sock *s)
{
	uint64_t reader, under, all;

	if (s->rd || s->peer_gone || !bound(s, &reader)) {
		s->window.may_send = s->at.sent + LOOK;
		return WINDOW_ANY;
	}
	under = under_way(s);
	all = s->opt.snd_room + reader;
	if (under >= all) {
		s->window.may_send = s->at.sent;
		return 0;
	}
	s->window.may_send = s->at.sent + (all - under);
	return all - under;
}

bool window_tight(struct sock *s)
{
	uint64_t room = window_look(s), reader;

	return room != WINDOW_ANY && bound(s, &reader) &&
	       room <= (s->opt.snd_room + reader) / 8;
}

/* TCP says so when a third of the writer's own buffer is free. */
bool window_roomy(struct sock *s)
{
	uint64_t third = s->opt.snd_room / 3, reader, room;

	if (likely(s->at.sent + third < s->window.may_send))
		return true;
	if (s->rd || s->peer_gone || !bound(s, &reader))
		return true;
	room = window_look(s);
	return room && room >= third;
}

uint64_t window_queued(struct sock *s)
{
	uint64_t under = under_way(s), reader;

	bound(s, &reader);
	return reader && under > reader ? under - reader : 0;
}

static void tell(struct sock *s, int fd)
{
	int room = option_int(fd, SO_RCVBUF), clamp;
	uint32_t set = s->opt.bufs & (BUF_RCV | BUF_CLAMP) ? ROOM_SET : 0;

	if (s->opt.bufs & BUF_CLAMP) {
		clamp = tcp_int(fd, TCP_WINDOW_CLAMP);
		room = clamp > 0 && clamp < room ? clamp : room;
	}
	if (room > 0)
		__atomic_store_n(&s->own->room, (uint32_t)room | set,
				 __ATOMIC_SEQ_CST);
}

static void measure(struct sock *s, int fd)
{
	int room = option_int(fd, SO_SNDBUF);
	uint32_t low;

	if (room > 0)
		s->opt.snd_room = (uint32_t)room;
	if (s->opt.bufs & BUF_LOWAT) {
		low = (uint32_t)tcp_int(fd, TCP_NOTSENT_LOWAT);
		if (low && low < s->opt.snd_room)
			s->opt.snd_room = low;
	}
	s->window.may_send = 0;
	s->window.mss = (uint16_t)tcp_int(fd, TCP_MAXSEG);
}

void window_begin(struct sock *s, int fd)
{
	tell(s, fd);
	measure(s, fd);
}

void window_set(struct sock *s, int fd, uint8_t buf, bool on)
{
	if (sock_lock(s))
		return;
	s->opt.bufs = on ? s->opt.bufs | buf : s->opt.bufs & (uint8_t)~buf;
	if (s->paired && sock_here(s)) {
		window_begin(s, fd);
		ring_writer(s); /* it may wait for more room than it had */
	}
	sock_unlock(s);
}

uint8_t window_inherited(int fd)
{
	int lock = option_int(fd, SO_BUF_LOCK);
	uint8_t bufs = lock > 0 ? (uint8_t)lock & (BUF_SND | BUF_RCV) : 0;

	if (tcp_int(fd, TCP_USER_TIMEOUT))
		bufs |= BUF_TIMEOUT;
	return tcp_int(fd, TCP_NOTSENT_LOWAT) ? bufs | BUF_LOWAT : bufs;
}

bool window_may_post(const struct sock *s, uint64_t bytes)
{
	uint32_t room = s->own ? s->own->room : 0;

	return !(room & ROOM_SET) || (room & ~ROOM_SET) >= bytes;
}
