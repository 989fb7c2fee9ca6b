/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Does the library know of every byte? A writer may leave the anchor before
 * its reader has taken everything only if both count alike: a byte that code
 * we do not see has taken would be waited for for ever. Each end compares its
 * own counts with those the kernel kept since the connection's birth.
 */

#include <linux/tcp.h>
#include <sys/ioctl.h>

#include <linux/sockios.h>

#include "socket/impl.h"

#define TRIES	    64
#define TRIES_OFTEN 16
#define CLIENT	    1 /* the kernel counts its SYN as acknowledged */

/* tcpi_state, where the stream lives */
enum { ESTABLISHED = 1, FIN_WAIT1 = 4, FIN_WAIT2 = 5, CLOSE_WAIT = 8 };

struct counts {
	uint64_t received, acked;
	int in, out;
	bool fin_in, fin_out; /* the kernel counts those as bytes */
	bool good;
};

/* One picture of the socket: twice the same, or none. */
static void look(int fd, struct counts *c)
{
	struct tcp_info a, b;
	socklen_t alen = sizeof(a), blen = sizeof(b);

	c->good = false;
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	if (sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &a, &alen) ||
	    sys_ioctl(fd, FIONREAD, &c->in) ||
	    sys_ioctl(fd, SIOCOUTQ, &c->out) ||
	    sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &b, &blen))
		return;
	c->received = b.tcpi_bytes_received;
	c->acked = b.tcpi_bytes_acked;
	c->fin_in = b.tcpi_state == CLOSE_WAIT;
	c->fin_out = b.tcpi_state == FIN_WAIT1 || b.tcpi_state == FIN_WAIT2;
	c->good = (b.tcpi_state == ESTABLISHED || c->fin_in || c->fin_out) &&
		  a.tcpi_state == b.tcpi_state &&
		  a.tcpi_bytes_received == b.tcpi_bytes_received &&
		  a.tcpi_bytes_acked == b.tcpi_bytes_acked;
}

int32_t lift_vouch(struct sock *s, int fd)
{
	uint64_t taken = __atomic_load_n(&s->ar.taken, __ATOMIC_SEQ_CST);
	uint64_t sent = __atomic_load_n(&s->at.sent, __ATOMIC_SEQ_CST);
	uint32_t had = s->own->counted, has = had;
	struct counts c;

	if (!s->role)
		return LOOK_NEVER; /* its birth was not seen */
	look(fd, &c);
	/* nobody was inside at the time: what the kernel gave was counted */
	if (c.good && !__atomic_load_n(&s->rx->rawrx, __ATOMIC_SEQ_CST) &&
	    taken == __atomic_load_n(&s->ar.taken, __ATOMIC_SEQ_CST) &&
	    c.received == taken + (uint64_t)c.in + c.fin_in)
		has |= ANC_COUNTED_RX;
	if (c.good && !__atomic_load_n(&s->rawtx, __ATOMIC_SEQ_CST) &&
	    sent == __atomic_load_n(&s->at.sent, __ATOMIC_SEQ_CST) &&
	    c.acked + (uint64_t)c.out == sent + (s->role == CLIENT) + c.fin_out)
		has |= ANC_COUNTED_TX;
	if (has != had)
		__atomic_store_n(&s->own->counted, has, __ATOMIC_RELEASE);
	if (has == (ANC_COUNTED_RX | ANC_COUNTED_TX) || ++s->vouches > TRIES)
		return LOOK_NEVER;
	return s->vouches < TRIES_OFTEN ? 1 : 8;
}

bool lift_vouched(const struct sock *s)
{
	return (s->own->counted & ANC_COUNTED_TX) &&
	       (__atomic_load_n(&s->peer->counted, __ATOMIC_ACQUIRE) &
		ANC_COUNTED_RX);
}
