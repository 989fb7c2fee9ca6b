/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* end.c - one end of a connection, from its first step to the last */
#include "mixed.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const doing_names[DOINGS] = {
	[IDLE] = "idle",
	[CONNECTING] = "connecting",
	[ACCEPTED] = "accepted, waits for the key",
	[SENDING] = "sending",
	[RECEIVING] = "receiving",
	[BOTH_WAYS] = "sending and receiving",
	[FOR_END] = "waiting for the end of the stream",
	[CLOSING] = "closing",
	[FOR_CHILD] = "given to a child",
	[FOR_AIDE] = "given to another process",
	[RUNNING] = "running a command",
};

static void option(struct side *s, int level, int name, uint32_t v)
{
	if (setsockopt(s->fd, level, name, &v, sizeof(v)) && !refused())
		wrong(s, "setsockopt", errno);
}

/* For some the stream has to go back to the kernel's TCP. */
static void options(struct side *s, uint32_t what)
{
	switch (what % 6) {
	case 0:
		option(s, SOL_SOCKET, SO_MAX_PACING_RATE, 0xfffffffe);
		break;
	case 1:
		option(s, SOL_SOCKET, SO_MAX_PACING_RATE, 0xffffffff);
		break;
	case 2:
		option(s, SOL_SOCKET, SO_RCVLOWAT, 100);
		option(s, SOL_SOCKET, SO_RCVLOWAT, 1);
		break;
	case 3:
		option(s, SOL_SOCKET, SO_PEEK_OFF, 0);
		option(s, SOL_SOCKET, SO_PEEK_OFF, 0xffffffff);
		break;
	case 4:
		option(s, SOL_SOCKET, SO_SNDBUF, 4096u << what / 6 % 9);
		break;
	default:
		option(s, IPPROTO_TCP, TCP_NODELAY, what / 6 % 2);
		break;
	}
	COUNT(options, 1);
}

static void dups(struct side *s, uint32_t what)
{
	int fd = what % 2 ? dup(s->fd) :
			    fcntl(s->fd, F_DUPFD_CLOEXEC, 3 + what / 2 % 200);

	if (fd < 0)
		wrong(s, "dup", errno);
	if (close(s->fd))
		wrong(s, "close", errno);
	s->fd = fd;
	COUNT(dups, 1);
}

/* True: another process did the rest. */
static bool do_deed(struct side *s, const struct plan *p, const struct step *st)
{
	uint32_t what = st->what[s->server];
	enum deed deed = st->deed[s->server];

	if (board->without & 1u << deed)
		return false;
	switch (deed) {
	case DUPS:
		dups(s, what);
		break;
	case OPTIONS:
		options(s, what);
		break;
	case DELAYS:
		nap_ms(what % 60);
		break;
	case COMMAND:
		run_command(s, what);
		break;
	case HOLDS:
		if (!s->moved && !p->dies)
			hold(s);
		break;
	case FORKS:
	case EXECS:
	case PASSES:
		/* The killed shall be one that has it alone. */
		return !s->moved && !p->dies && hand_over(s, deed);
	default:
		break;
	}
	return false;
}

static int run_step(struct side *s, const struct step *st)
{
	uint64_t tx = s->tx + st->bytes[s->server];
	uint64_t rx = s->rx + st->bytes[!s->server];
	int r;

	if (st->order == TOGETHER)
		return move(s, st, tx, rx);
	if ((st->order == SERVER_FIRST) == s->server) {
		r = move(s, st, tx, s->rx);
		return r ? r : move(s, st, tx, rx);
	}
	r = move(s, st, s->tx, rx);
	return r ? r : move(s, st, tx, rx);
}

/* --- the end -------------------------------------------------------------- */

/* Has the other end died, or closed without a word? */
static bool is_break(int r)
{
	return r == -ENODATA || r == -ECONNRESET || r == -EPIPE ||
	       r == -ENOTCONN;
}

static void close_side(struct side *s)
{
	doing(s, CLOSING);
	if (close(s->fd))
		wrong(s, "close", errno);
	s->fd = -1;
}

/* The rest of what came before a break; in the end there is an end. */
static int drain(struct side *s, const struct step *st, uint64_t rx)
{
	int r = move(s, st, s->tx, rx);

	return r ? r : at_end(s);
}

static int half(struct side *s, const struct plan *p, const struct step *st)
{
	int r;

	if (s->server == p->first) {
		if (shutdown(s->fd, SHUT_WR))
			return -errno;
		r = move(s, st, s->tx, s->rx + p->tail[!s->server]);
		return r ? r : at_end(s);
	}
	r = at_end(s);
	if (!r)
		r = move(s, st, s->tx + p->tail[s->server], s->rx);
	if (!r && s->h.key % 2 && shutdown(s->fd, SHUT_WR))
		r = -errno;
	return r;
}

static void reset(struct side *s)
{
	struct linger l = { 1, 0 };

	if (setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)))
		wrong(s, "SO_LINGER", errno);
}

/* The other has all of the steps: a reset would take what is under way. */
static int agree(struct side *s, const struct plan *p, const struct step *st)
{
	bool first = s->server == p->first;

	return move(s, st, s->tx + !first, s->rx + first);
}

/* One end goes while there are bytes of both directions under way. */
static int abrupt(struct side *s, const struct plan *p, const struct step *st)
{
	uint64_t tx, rx;
	int r = agree(s, p, st);

	if (r)
		return r;
	tx = s->tx + p->tail[s->server];
	rx = s->rx + p->tail[!s->server];
	if (s->server == p->first) {
		r = move(s, st, tx, s->rx + p->tail[!s->server] / 2);
		if (p->ending == RESETS)
			reset(s);
		COUNT(aborts, 1);
		return r;
	}
	r = move(s, st, tx, rx);
	if (!r)
		r = at_end(s);
	else if (r == -EPIPE || r == -ECONNRESET)
		r = drain(s, st, rx);
	return is_break(r) ? 0 : r;
}

static int finish(struct side *s, const struct plan *p)
{
	struct step st;

	step_of(&s->h, p, p->steps, &st);
	step_fits(&st, p->tail);
	switch (p->ending) {
	case HALF:
		return half(s, p, &st);
	case PLAIN:
		return s->server == p->first ? 0 : at_end(s);
	default:
		return abrupt(s, p, &st);
	}
}

static void note(struct side *s, const struct step *st)
{
	int e = (int)s->server;

	board->slot[s->at].how = (uint32_t)st->way[e] |
				 (uint32_t)st->wait[e] << 8 |
				 (uint32_t)st->deed[e] << 16;
}

static int run_steps(struct side *s, const struct plan *p)
{
	struct step st;
	int r;

	for (; s->step < p->steps; s->step++) {
		release(s);
		step_of(&s->h, p, s->step, &st);
		note(s, &st);
		progress(s);
		if (do_deed(s, p, &st))
			return 1;
		r = run_step(s, &st);
		if (r)
			return r;
		COUNT(turns, 1);
	}
	release(s);
	return finish(s, p);
}

void side_run(struct side *s)
{
	uint64_t tx = s->tx, rx = s->rx;
	struct plan p;
	int r;

	plan_of(&s->h, &p);
	/* Else most of the time goes by with delayed acknowledgements. */
	if (s->h.key % 8 && !s->moved)
		option(s, IPPROTO_TCP, TCP_NODELAY, 1);
	r = run_steps(s, &p);
	release(s);
	if (r != 1) {
		if (r && !(is_break(r) &&
			   p.dies == (s->server ? CLIENT_DIES : SERVER_DIES)))
			wrong(s, "an end that was not to come", -r);
		piped_forget(s);
		close_side(s);
	}
	COUNT(bytes, s->tx - tx + s->rx - rx);
}
