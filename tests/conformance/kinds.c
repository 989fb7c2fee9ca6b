/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Good and bad values of arguments; rows.def names them by letters. */
#include "errors.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define BUF  64u /* bytes of a buffer */

/* --- pointers ----------------------------------------------------------- */

#define POINTERS 7 /* variants: good, and these */

/* The z bytes of content lie there, as far as there is memory. */
static long pointer(struct slot *m, const void *content, size_t z, int variant)
{
	size_t part = z / 2 ? z / 2 : 1;

	switch (variant) {
	case 0:
		memcpy(m->rw, content, z);
		return (long)m->rw;
	case 1:
		return 0;
	case 2: /* nothing is mapped there */
		return (long)(m->rw + PAGE);
	case 3: /* not to be written */
		memcpy(m->rw, content, z);
		return (long)m->ro;
	case 4: /* only its front is there */
		memcpy(m->rw + PAGE - part, content, part);
		return (long)(m->rw + PAGE - part);
	case 5: /* just so */
		memcpy(m->rw + PAGE - z, content, z);
		return (long)(m->rw + PAGE - z);
	default: /* of the kernel's half */
		return (long)0xffff800000000000ul;
	}
}

/* --- plain numbers ------------------------------------------------------- */

struct numbers {
	char kind;
	int n;
	long value[12];
};

static const struct numbers numbers[] = {
	{ '0', 1, { 0 } },
	{ 'n', 6, { BUF, 0, 1, -1, LONG_MIN, INT_MAX } },
	{ 'f',
	  10,
	  { 0, MSG_DONTWAIT, MSG_PEEK, MSG_OOB, MSG_TRUNC, MSG_WAITALL,
	    MSG_ERRQUEUE, 0x00100000, INT_MIN, MSG_PEEK | MSG_TRUNC } },
	{ 'm', 6, { sizeof(struct sockaddr_in), 0, 1, 8, -1, 200 } },
	{ 'c', 6, { 2, 0, -1, 1025, INT_MAX, 1 } },
	{ 'k', 5, { 2, 1, 0, 1025, UINT_MAX } },
	{ 'q', 4, { 1, 0, 2, 1 << 30 } },
	{ 'w', 4, { 4, 0, -1, INT_MAX } },
	{ 'h', 5, { SHUT_WR, SHUT_RD, SHUT_RDWR, 3, -1 } },
	{ 'o', 5, { SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP, 99, -1 } },
	{ 'g',
	  10,
	  { SO_RCVTIMEO, SO_TYPE, SO_LINGER, SO_KEEPALIVE, SO_ERROR,
	    SO_SNDTIMEO, 9999, -1, 0, SO_ACCEPTCONN } },
	{ 'z', 8, { 16, 4, 8, 0, 1, 3, -1, 64 } },
	{ 'C',
	  9,
	  { F_GETFL, F_SETFL, F_GETFD, F_SETFD, 9999, -1, F_GETPIPE_SZ,
	    F_SETSIG, F_GETLK } },
	{ '#', 4, { O_NONBLOCK, 0, -1, O_NONBLOCK | O_APPEND } },
	{ 'I',
	  8,
	  { FIONREAD, SIOCATMARK, SIOCOUTQ, FIONBIO, TCGETS, 0, -1,
	    SIOCGIFCONF } },
	{ 'l', 4, { 5, -1, 0, INT_MAX } },
	{ 'r', 4, { AF_INET, 9999, AF_UNIX, -1 } },
	{ 't', 5, { SOCK_STREAM, 9999, SOCK_STREAM | 0x100000, -1, SOCK_RAW } },
	{ 'O', 4, { 0, IPPROTO_TCP, 999, -1 } },
	{ 'D', 5, { 0, O_CLOEXEC, 0x55, -1, O_NONBLOCK } },
	{ 'j', 3, { 0, SPLICE_F_NONBLOCK, 0x100 } },
	{ '^', 5, { 0, 8, 0x100000, -1, 2 } },
	{ '-', 4, { -1, 0, 5, -2 } },
	{ '@', 5, { EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, 0, 99 } },
};

static const struct numbers *numbers_of(char kind)
{
	size_t i;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i].kind == kind)
			return &numbers[i];
	return NULL;
}

long kind_number(char kind, int variant)
{
	const struct numbers *n = numbers_of(kind);

	return n ? n->value[variant] : 0;
}

/* --- descriptors ---------------------------------------------------------- */

static long descriptor(const struct side *s, char kind, int variant)
{
	static const int bad[] = { -1, FD_CLOSED, FD_NEVER };

	if (variant && variant <= 3)
		return bad[variant - 1];
	switch (kind) {
	case 's':
		return variant == 0 ? s->fd :
		       variant == 4 ? s->file :
				      s->pipe_out;
	case 'd':
		return variant == 0 ? s->spare : s->fd;
	case 'E':
		return variant == 0 ? s->ep : variant == 4 ? s->fd : s->file;
	case 'F':
		return variant == 0 ? s->file :
		       variant == 4 ? s->fd :
				      s->pipe_in;
	case 'W':
		return variant == 0 ? s->pipe_out :
		       variant == 4 ? s->pipe_in :
				      s->file;
	default: /* N: one more than the highest of a set */
		return variant == 0 ? s->fd + 1 : variant == 4 ? 0 : 1;
	}
}

/* --- vectors and messages -------------------------------------------------- */

#define VECTORS (POINTERS + 6)

/* Two buffers behind the array, which begins the slot or ends its page. */
static void vector(struct slot *m, struct iovec v[2], int variant)
{
	v[0] = (struct iovec){ m->rw + 1024, BUF / 2 };
	v[1] = (struct iovec){ m->rw + 2048, BUF / 2 };
	memset(m->rw + 1024, 'v', BUF / 2);
	memset(m->rw + 2048, 'w', BUF / 2);
	switch (variant) {
	case 1:
		v[1].iov_base = NULL;
		break;
	case 2:
		v[0].iov_base = m->rw + PAGE;
		break;
	case 3:
		v[1].iov_len = (size_t)-1;
		break;
	case 4:
		v[0].iov_len = v[1].iov_len = SSIZE_MAX;
		break;
	case 5:
		v[0].iov_base = m->ro + 1024;
		break;
	case 6:
		v[0].iov_len = v[1].iov_len = 0;
		break;
	default:
		break;
	}
}

static long vector_value(struct slot *m, int variant)
{
	struct iovec v[2];

	vector(m, v, variant < POINTERS ? 0 : variant - POINTERS + 1);
	return pointer(m, v, sizeof(v), variant < POINTERS ? variant : 0);
}

#define MESSAGES (POINTERS + 6 + 9)

static void message(struct side *s, struct slot *m, struct msghdr *h,
		    int variant)
{
	struct iovec v[2];

	vector(m, v, variant <= 6 ? variant : 0);
	memcpy(m->rw + 512, v, sizeof(v));
	memset(h, 0, sizeof(*h));
	h->msg_iov = (struct iovec *)(void *)(m->rw + 512);
	h->msg_iovlen = 2;
	h->msg_flags = 0;
	memcpy(m->rw + 600, &s->to, sizeof(s->to));
	memset(m->rw + 700, 0, 64);
	switch (variant - 6) {
	case 1:
		h->msg_name = m->rw + PAGE;
		h->msg_namelen = 16;
		break;
	case 2:
		h->msg_name = m->rw + 600;
		h->msg_namelen = (socklen_t)-1;
		break;
	case 3:
		h->msg_iov = NULL;
		break;
	case 4:
		h->msg_iovlen = 1025;
		break;
	case 5:
		h->msg_iovlen = (size_t)-1;
		break;
	case 6:
		h->msg_control = m->rw + PAGE;
		h->msg_controllen = 64;
		break;
	case 7:
		h->msg_control = m->rw + 700;
		h->msg_controllen = 64;
		break;
	case 8:
		h->msg_name = m->rw + 600;
		h->msg_namelen = sizeof(s->to);
		break;
	case 9:
		h->msg_iovlen = 0;
		break;
	default:
		break;
	}
}

static long message_value(struct side *s, struct slot *m, int variant)
{
	struct msghdr h;

	message(s, m, &h, variant < POINTERS ? 0 : variant - POINTERS + 1);
	return pointer(m, &h, sizeof(h), variant < POINTERS ? variant : 0);
}

/* Two messages; what is bad is the second's. */
static long messages_value(struct side *s, struct slot *m, int variant)
{
	struct mmsghdr v[2];

	memset(v, 0, sizeof(v));
	message(s, m, &v[0].msg_hdr, 0);
	message(s, m, &v[1].msg_hdr,
		variant < POINTERS ? 0 : variant - POINTERS + 1);
	v[0].msg_hdr.msg_iov = (struct iovec *)(void *)(m->rw + 400);
	((struct iovec *)(void *)(m->rw + 400))[0] =
		(struct iovec){ m->rw + 3000, 8 };
	v[0].msg_hdr.msg_iovlen = 1;
	memset(m->rw + 3000, 'm', 8); /* in front of the two */
	/* a third is not there */
	return pointer(m, v, sizeof(v),
		       variant && variant < POINTERS ? variant : 5);
}

/* --- time limits ------------------------------------------------------------ */

/* None that waits; T is never absent, * may be. */
static long span_value(struct slot *m, char kind, int variant)
{
	struct timespec ts = { 0, 0 };
	struct timeval tv = { 0, 0 };
	bool of_tv = kind == 'U';

	if (kind == '*' && !variant--)
		return 0;
	if (variant == 7)
		ts.tv_sec = tv.tv_sec = -1;
	else if (variant == 8)
		ts.tv_nsec = tv.tv_usec = -1;
	else if (variant == 9)
		ts.tv_nsec = of_tv ? 0 : 1000000000;
	if (variant == 1) /* no limit: it could wait */
		variant = 2;
	if (of_tv)
		return pointer(m, &tv, sizeof(tv), variant < 7 ? variant : 0);
	return pointer(m, &ts, sizeof(ts), variant < 7 ? variant : 0);
}

/* --- sets -------------------------------------------------------------------- */

static long pollfd_value(struct side *s, struct slot *m, int variant)
{
	struct pollfd p[2] = { { .fd = s->fd, .events = POLLIN | POLLOUT },
			       { .fd = -1, .events = POLLIN } };

	if (variant == 7)
		p[0].fd = FD_CLOSED;
	else if (variant == 8)
		p[0].events = 0;
	else if (variant == 9)
		p[0].events = (short)0xffff;
	return pointer(m, p, sizeof(p), variant < 7 ? variant : 0);
}

static long fdset_value(struct side *s, struct slot *m, int variant)
{
	fd_set set;

	FD_ZERO(&set);
	if (s->fd >= 0 && s->fd < FD_SETSIZE)
		FD_SET(s->fd, &set);
	if (variant == 7)
		FD_SET(FD_CLOSED, &set);
	return pointer(m, &set, sizeof(set), variant < 7 ? variant : 0);
}

/* --- all together --------------------------------------------------------- */

int kind_variants(char kind)
{
	const struct numbers *n = numbers_of(kind);

	if (n)
		return n->n;
	switch (kind) {
	case 's':
	case 'd':
	case 'E':
	case 'F':
	case 'W':
	case 'N':
		return kind == 'd' ? 5 : 6;
	case 'a':
		return POINTERS + 3;
	case 'L':
		return POINTERS + 5;
	case 'v':
		return VECTORS;
	case 'M':
	case 'V':
		return MESSAGES;
	case 'T':
	case 'U':
		return 10;
	case '*':
		return 11;
	case 'p':
		return 10;
	case 'x':
		return 8;
	case 'G':
		return POINTERS + 2;
	case 'S':
		return POINTERS;
	default:
		return POINTERS;
	}
}

static long address_value(struct side *s, struct slot *m, int variant)
{
	static const sa_family_t other[] = { AF_UNSPEC, AF_UNIX, AF_INET6 };
	struct sockaddr_in to = s->to;

	if (variant >= POINTERS)
		to.sin_family = other[variant - POINTERS];
	return pointer(m, &to, sizeof(to), variant < POINTERS ? variant : 0);
}

static long length_value(struct slot *m, int variant)
{
	static const socklen_t odd[] = { (socklen_t)-1, 0, 3, PAGE, 1u << 31 };
	socklen_t len = 16;

	if (variant >= POINTERS)
		len = odd[variant - POINTERS];
	return pointer(m, &len, sizeof(len), variant < POINTERS ? variant : 0);
}

/* Nothing of it is a valid offset but the first two. */
static long offset_value(struct slot *m, int variant)
{
	int64_t off = variant == POINTERS ? -5 : 0;

	if (!variant)
		return 0;
	if (variant == 1 || variant > POINTERS)
		variant = 0;
	return pointer(m, &off, sizeof(off), variant < POINTERS ? variant : 0);
}

static long small_value(struct side *s, struct slot *m, char kind, int variant)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 7 };
	uint8_t fill[128];

	(void)s;
	switch (kind) {
	case 'e':
		return pointer(m, &ev, sizeof(ev), variant);
	case 'y':
		memset(fill, 0, sizeof(fill));
		return pointer(m, fill, 4 * sizeof(ev), variant);
	case 'J': /* of ioctl: 1, where it is read */
		memset(fill, 0, sizeof(fill));
		fill[0] = 1;
		return pointer(m, fill, 4, variant);
	case 'P':
	case 'R':
		memset(fill, 0, sizeof(fill));
		return pointer(m, fill, 16, variant);
	case 'S': /* a set of signals, or none */
		memset(fill, 0, sizeof(fill));
		if (variant < 2)
			return variant ? pointer(m, fill, 8, 0) : 0;
		return pointer(m, fill, 8, variant);
	case 'A':
		memset(fill, 'A', sizeof(fill));
		return pointer(m, fill, 128, variant);
	default: /* B, b */
		memset(fill, kind, sizeof(fill));
		return pointer(m, fill, BUF, variant);
	}
}

long kind_value(struct side *s, char kind, int variant, int at)
{
	const struct numbers *n = numbers_of(kind);
	struct slot *m = &s->slot[at];

	if (n)
		return n->value[variant];
	memset(m->rw, 0, PAGE);
	switch (kind) {
	case 's':
	case 'd':
	case 'E':
	case 'F':
	case 'W':
	case 'N':
		return descriptor(s, kind, variant);
	case 'a':
		return address_value(s, m, variant);
	case 'L':
		return length_value(m, variant);
	case 'v':
		return vector_value(m, variant);
	case 'M':
		return message_value(s, m, variant);
	case 'V':
		return messages_value(s, m, variant);
	case 'T':
	case 'U':
	case '*':
		return span_value(m, kind, variant);
	case 'p':
		return pollfd_value(s, m, variant);
	case 'x':
		return fdset_value(s, m, variant);
	case 'G':
		return offset_value(m, variant);
	default:
		return small_value(s, m, kind, variant);
	}
}

/* --- what is left behind ------------------------------------------------- */

static bool same_header(const struct msghdr *a, const struct msghdr *b)
{
	return a->msg_namelen == b->msg_namelen &&
	       a->msg_controllen == b->msg_controllen &&
	       a->msg_flags == b->msg_flags;
}

static int bits(const struct slot *m)
{
	const unsigned long *w = (const void *)m->rw;
	size_t i;
	int n = 0;

	for (i = 0; i < sizeof(fd_set) / sizeof(*w); i++)
		n += __builtin_popcountl(w[i]);
	return n;
}

bool kind_same(const struct side *a, const struct side *b, char kind, int at,
	       long before, long ret)
{
	const struct slot *m = &a->slot[at], *o = &b->slot[at];
	const size_t last = PAGE - 2 * sizeof(struct mmsghdr);
	const struct mmsghdr *v = (const void *)(m->rw + last);
	const struct mmsghdr *u = (const void *)(o->rw + last);
	const struct pollfd *p = (const void *)m->rw, *q = (const void *)o->rw;
	const struct epoll_event *e = (const void *)m->rw,
				 *g = (const void *)o->rw;

	switch (kind) {
	case 'B':
	case 'P':
	case 'L':
	case 'G':
		return !memcmp(m->rw, o->rw, 128);
	case 'J': /* what is not acknowledged yet is a matter of milliseconds */
		return before == SIOCOUTQ || !memcmp(m->rw, o->rw, 128);
	case 'v':
		return ret < 0 || !memcmp(m->rw + 1024, o->rw + 1024, 2048);
	case 'M':
		return ret < 0 ||
		       (!memcmp(m->rw + 1024, o->rw + 1024, 2048) &&
			same_header((const void *)m->rw, (const void *)o->rw));
	case 'V':
		return (ret < 1 || v[0].msg_len == u[0].msg_len) &&
		       (ret < 2 || (v[1].msg_len == u[1].msg_len &&
				    !memcmp(m->rw + 1024, o->rw + 1024, 2048)));
	case 'p':
		return p[0].revents == q[0].revents;
	case 'x': /* some are told before one that cannot be */
		return ret < 0 || bits(m) == bits(o);
	case 'y':
		return ret <= 0 ||
		       (e->events == g->events && e->data.u64 == g->data.u64);
	default:
		return true;
	}
}

void kind_begin(struct side *s)
{
	int i;

	for (i = 0; i < ARGS; i++) {
		int f = memfd_create("slot", MFD_CLOEXEC);
		char *p;

		NEED(f >= 0 && !ftruncate(f, PAGE));
		p = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
		NEED(p != MAP_FAILED);
		s->slot[i].rw = mmap(p, PAGE, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_FIXED, f, 0);
		s->slot[i].ro = mmap(p + 2 * PAGE, PAGE, PROT_READ,
				     MAP_SHARED | MAP_FIXED, f, 0);
		NEED(s->slot[i].rw == p && s->slot[i].ro == p + 2 * PAGE);
		NEED(!close(f));
	}
}
