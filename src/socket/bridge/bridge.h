/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_BRIDGE_BRIDGE_H
#define LIBSDP_SOCKET_BRIDGE_BRIDGE_H

/*
 * The bridge: connections to SDP sockets of foreign kernels (D14).
 *
 * bridge.c       what the program sees: connect(), errors, names
 * bridge_gate.c  how a TCP connection inside this host is made
 * bridge_run.c   the thread: dialling, events, processes
 * bridge_flow.c  bytes, ends and urgent data, one connection
 *
 * Such a peer has no TCP that could be an anchor, and the program's descriptor
 * has to be a true one. So the program's socket is connected to another one of
 * this process, the gate, on the same host, and a thread passes on between the
 * gate and the queue pair. To the rest of the room the program's socket is one
 * that is never lifted.
 *
 * The connection to the gate is made by a simultaneous open. The program's
 * socket dials a listener whose filter lets nothing in: it stays in SYN_SENT
 * while the peer is dialled, a thread that waits for it waits in the kernel,
 * and no other connection gets in. When the peer has answered the gate, bound
 * to the listener's name, dials the program's socket, and both are connected.
 * When it has refused the gate does the same and resets; the library knows the
 * true error and says it.
 *
 * A flow belongs to the process that made it, and to its thread; one lock
 * (bridge_run.c) guards all of them, and the thread holds it but when it
 * sleeps. It is taken behind a sock's lock, so the thread takes none of those.
 */

#include "socket/wait/wait.h"

#define FLOW_PIECES 128 /* messages held: all receives, a power of two */

enum flow_state {
	FLOW_NEW, /* to be dialled */
	FLOW_DIALING,
	FLOW_OPENING, /* the gate dials the program's socket */
	FLOW_UP,
	FLOW_OVER, /* to be freed */
};

/* Stream bytes of a message that is held. */
struct flow_piece {
	uint32_t off, len;
	bool urgent; /* the last of them */
};

struct flow {
	struct flow *next;
	struct sock *sock; /* its bridged.word tells whether it still is */
	uint64_t serial;
	uint8_t state; /* enum flow_state */
	bool due; /* step() has something to do */
	bool refused; /* the gate is to be reset as soon as it is open */
	/* numbers of ours, -1: none */
	int gate, listener;
	int held; /* the program's socket, so that its port stays its own */
	/* plain IPv4, never mapped: the program's socket, the gate, the peer */
	union verbs_addr local, door, peer;
	struct end *end;
	struct conn conn;
	/* from the peer to the gate */
	struct flow_piece piece[FLOW_PIECES];
	uint32_t head, tail; /* of them */
	uint32_t at; /* bytes of the front one that are through */
	bool eof, eof_told; /* DisConn came; the gate was shut down */
	/* from the gate to the peer */
	bool read_eof; /* the program has shut down, or closed */
	bool gate_dead; /* reset by the program */
	bool leaving; /* the process ends */
	/* the end */
	bool leave, left; /* DREQ: due, when all has arrived; sent */
	bool down; /* the queue pair is gone: */
	int down_error; /* 0: in good order */
	uint64_t moved; /* bytes, both ways */
};

/* --- bridge.c ---------------------------------------------------------- */

/* What SO_ERROR shall tell, once; 0: what the kernel says. */
int bridge_error(struct sock *s, int fd);
/* Lock held: the last number has gone. */
void bridge_left(struct sock *s);

/* --- bridge_gate.c ----------------------------------------------------- */

/* Where the program's socket is and what it dials: 0 or negative errno. */
int gate_names(struct flow *f, int fd, int family, const struct sockaddr *sa,
	       socklen_t len);
/* The program's socket is in SYN_SENT after this. */
int gate_begin(struct flow *f, int fd, int family);
/* The gate dials it: 0, or it cannot. */
int gate_open(struct flow *f);
/* 1: both are connected, 0: not yet, or negative errno. */
int gate_opened(struct flow *f);
/*
 * Of at most `most` bytes those that a receive of the gate would bring at once,
 * up to an urgent one, or that one alone; 0: the end; or negative errno.
 */
ssize_t gate_peek(int gate, size_t most, bool *urgent);
/* Nothing more needs the listener; `reset`: the gate goes with a reset. */
void gate_settle(struct flow *f);
void gate_close(struct flow *f, bool reset);
/* The gate's name as the program's socket has to hear it; its length. */
socklen_t gate_door(const struct flow *f, int family, struct sockaddr_in6 *to);
void gate_fd_drop(int *fd);

/* --- bridge_run.c ------------------------------------------------------ */

struct flow *bridge_flow_new(void); /* NULL: no memory */
/* The thread takes it over: 0, or it is the caller's to free. */
int bridge_submit(struct flow *f);
void bridge_free(struct flow *f); /* with what it holds */
/* The sock of a flow of this process has no use for it any more. */
void bridge_poke(void);
/* The process ends: what was written has to arrive, as far as it moves. */
void bridge_exit(void);
/* The same before an exec, which ends the thread; nothing is closed. */
void bridge_settle(void);
void bridge_hold(void);
void bridge_resume(void);
void bridge_forked(void);
/* The gate, as long as it is open. */
int bridge_watch(struct flow *f);
void bridge_unwatch(struct flow *f);

/* --- bridge_flow.c ----------------------------------------------------- */

struct conn_params flow_params(const struct flow *f);
struct conn_names flow_names(const struct flow *f);
/* The queue pair is up. */
void flow_begin(struct flow *f);
/* All that can be done now; false: FLOW_OVER. */
bool flow_step(struct flow *f);
/* Has everything that the program wrote arrived? */
bool flow_settled(struct flow *f);

#endif
