/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sendfile(): the kernel's while TCP. While lifted the file is read straight
 * into message memory, under the lock, as far as it is in memory (pump.c). What
 * would wait for a disk or a server is read outside, into a buffer, and goes as
 * any send does.
 *
 * Most files are regular and have a size: those are read with pread(). Which
 * others sendfile() takes, and what it says of the rest, the kernel alone
 * knows: it sends them into a socket of ours.
 */

#include "socket/stream/stream.h"

#define PIECE  65536u
#define SLOTS  2
#define SCARCE 128u /* where there is no memory for a piece */
#define MOST   0x7ffff000u /* of one call, as the kernel has it */

/* --- buffers ------------------------------------------------------------ */

static void *spare[SLOTS]; /* atomic: free buffers */

static void *buffer_take(void)
{
	void *buf = NULL;
	int i;

	for (i = 0; i < SLOTS && !buf; i++)
		buf = __atomic_exchange_n(&spare[i], NULL, __ATOMIC_ACQ_REL);
	if (buf)
		return buf;
	buf = sys_mmap(NULL, PIECE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return sys_is_err(buf) ? NULL : buf;
}

static void buffer_give(void *buf)
{
	void *none;
	int i;

	for (i = 0; i < SLOTS; i++) {
		none = NULL;
		if (__atomic_compare_exchange_n(&spare[i], &none, buf, 0,
						__ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return;
	}
	sys_munmap(buf, PIECE);
}

/* --- the kernel's ------------------------------------------------------- */

/*
 * In front of a piece that is not the first. The kernel would take it for a
 * call of its own, and restart it behind a handler. False: so the call ends
 * here.
 */
static bool await_room(const struct sock *s, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	struct timespec ts = { .tv_sec = s->opt.sndtimeo / 1000000000,
			       .tv_nsec = s->opt.sndtimeo % 1000000000 };

	return sys_ppoll(&p, 1, s->opt.sndtimeo ? &ts : NULL, NULL) > 0;
}

/*
 * As the kernel, while it is the kernel's; *done counts. True: no more can be
 * sent, and *ret says why.
 */
static __attribute__((noinline)) bool tcp_sendfile(struct sock *s, int fd,
						   int in, off_t *off, size_t n,
						   size_t *done, ssize_t *ret)
{
	__attribute__((
		cleanup(tcp_tx_lost))) struct tcp_tx held = { .s = NULL };
	size_t want;

	/* a candidate copies: its bytes have to be seen (rdma_proof.c) */
	while (!lift_tx(s, fd) && !rdma_seeks(s)) {
		if (!tcp_tx_enter(&held, s))
			break;
		if (*done && !s->opt.nonblock && !await_room(s, fd)) {
			tcp_tx_done(&held, s, 0);
			return true;
		}
		want = tcp_tx_piece(s, n - *done, s->opt.nonblock);
		*ret = sys_call6(SYS_sendfile, fd, in, (long)off, (long)want, 0,
				 0);
		tcp_tx_done(&held, s, *ret);
		lift_count(s, fd, *ret, true);
		if (s->opt.nonblock && *ret < (ssize_t)n)
			lift_full(s, fd);
		if (*ret > 0)
			*done += (size_t)*ret;
		if (*ret < (ssize_t)want || *done == n)
			return true;
	}
	return false;
}

/* --- by a buffer -------------------------------------------------------- */

/* It is ours: to lend it spares little (zcopy_way.c). */
static void by_copy(struct sock *s, int delta)
{
	__atomic_add_fetch(&s->zc.files, (uint32_t)delta, __ATOMIC_RELAXED);
}

static void file_over(struct sock **s)
{
	by_copy(*s, -1);
}

struct job {
	struct file_in f;
	off_t *off; /* the program's; NULL: the file's own position counts */
	bool odd; /* only the kernel's sendfile() knows what it gives */
	bool more; /* all went that could be had at once */
};

static void forget(int fd)
{
	if (fd < 0)
		return;
	fd_unhide(fd);
	sys_close(fd);
}

/*
 * What sendfile() gives of the file, by way of a socket of ours. *still: its
 * position is not moved.
 */
static ssize_t ask_kernel(const struct job *j, size_t n, void *buf, bool *still)
{
	int sv[2];
	off_t at = j->f.at;
	ssize_t ret = sys_call6(SYS_socketpair, AF_UNIX,
				SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
				(long)sv, 0, 0);

	if (ret < 0)
		return ret;
	sv[0] = fd_hide(sv[0]);
	sv[1] = fd_hide(sv[1]);
	if (sv[0] < 0 || sv[1] < 0)
		ret = -EMFILE;
	else /* a file without a position is refused with NULL as well */
		ret = sys_call6(SYS_sendfile, sv[0], j->f.fd,
				(long)(j->off || at >= 0 ? &at : NULL), (long)n,
				0, 0);
	*still = at == j->f.at;
	if (ret > 0)
		ret = sys_recv(sv[1], buf, n, 0);
	forget(sv[0]);
	forget(sv[1]);
	return ret;
}

/* One piece. The socket may be the kernel's as well. */
static ssize_t buffered(struct sock *s, int fd, struct job *j, size_t n)
{
	struct sock *held __attribute__((cleanup(file_over))) = s;
	uint8_t scarce[SCARCE];
	void *piece = buffer_take(), *buf = piece ? piece : scarce;
	size_t want = piece ? PIECE : SCARCE;
	bool still = false;
	ssize_t got, sent;
	int more;

	by_copy(held, 1);
	if (want > n)
		want = n;
	if (j->odd)
		got = ask_kernel(j, want, buf, &still);
	else
		got = sys_pread(j->f.fd, buf, want, j->f.at);
	more = got > 0 && (size_t)got < n ? MSG_MORE : 0;
	sent = got;
	if (got > 0 && j->f.begun)
		sent = sock_send_next(s, fd, buf, (size_t)got, more);
	else if (got > 0)
		sent = sock_send(s, fd, buf, (size_t)got, more);
	if (piece)
		buffer_give(piece);
	if (sent > 0 && !still)
		j->f.at += sent;
	j->more = sent > 0 && sent == got;
	return sent;
}

/* --- the ring ----------------------------------------------------------- */

static void begin(struct job *j, size_t n)
{
	struct stat st;

	j->f.at = j->off ? *j->off : sys_call3(SYS_lseek, j->f.fd, 0, SEEK_CUR);
	/* without a size, a file may be none: those of /proc are */
	j->odd = !n || sys_fstat(j->f.fd, &st) || !S_ISREG(st.st_mode) ||
		 !st.st_size || j->f.at < 0 || j->f.at > st.st_size;
}

static void moved(const struct job *j)
{
	if (j->off)
		*j->off = j->f.at;
	else
		sys_call3(SYS_lseek, j->f.fd, j->f.at, SEEK_SET);
}

/* False: nothing went, for a reason that a buffer may do away with. */
static bool direct(struct sock *s, int fd, struct job *j, size_t n,
		   ssize_t *ret)
{
	bool tcp = false;

	*ret = send_file(s, fd, &j->f, n, &tcp);
	j->more = *ret >= 0 && (tcp || (j->f.stop && j->f.err));
	if (*ret || !j->more)
		return true;
	j->odd = !tcp && j->f.err != -EAGAIN;
	return false;
}

static __attribute__((noinline)) ssize_t
lifted_sendfile(struct sock *s, int fd, struct job *j, size_t n)
{
	ssize_t ret;

	begin(j, n);
	if (j->odd || !lift_tx(s, fd) || !direct(s, fd, j, n, &ret))
		ret = buffered(s, fd, j, n);
	if (ret > 0)
		moved(j);
	return ret;
}

/* Nothing is cut off an amount that the kernel refuses. */
static __attribute__((noinline)) bool excessive(struct job *j, size_t n,
						ssize_t *ret)
{
	bool still;

	begin(j, n);
	if (n <= SSIZE_MAX && j->f.at <= (off_t)(SSIZE_MAX - n))
		return false;
	*ret = ask_kernel(j, n, NULL, &still);
	return true;
}

ssize_t sock_sendfile(struct sock *s, int fd, int in, off_t *off, size_t n)
{
	struct job j = { .f.fd = in, .off = off };
	size_t done = 0;
	ssize_t ret = 0;

	if (s->id.use == USE_SDP && !s->id.met && sock_up(s, fd) &&
	    (ret = lift_demand(s, fd, true)))
		return ret;
	if (unlikely(n > MOST)) {
		if (excessive(&j, n, &ret))
			return ret;
		n = MOST;
	}
	do {
		if (unlikely(sock_orphan_fd(s) >= 0)) /* closed meanwhile */
			fd = sock_orphan_fd(s);
		if (tcp_sendfile(s, fd, in, off, n, &done, &ret))
			break;
		j.f.begun = done > 0;
		ret = lifted_sendfile(s, fd, &j, n - done);
		if (ret > 0)
			done += (size_t)ret;
	} while (ret > 0 && j.more && done < n);
	if (done < n)
		holdback_end(s); /* the file was shorter */
	return done ? (ssize_t)done : ret;
}
