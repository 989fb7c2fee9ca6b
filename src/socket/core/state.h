/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_STATE_H
#define LIBSDP_SOCKET_CORE_STATE_H

/*
 * What a socket is: struct sock, made of a part for each subject. sock.lock
 * guards all that is not marked atomic.
 */

#include <stddef.h>

#include "base/lock.h"
#include "base/page.h"
#include "handover_proto/anchor.h"
#include "sdp_proto/conn.h"
#include "socket/core/bridged.h"
#include "socket/core/holder.h"
#include "socket/core/iov.h"
#include "socket/core/pair.h"

struct sock;
struct rdma;
struct page_row;

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define NAMES_AT   4 /* turns after which the page shows names */
#define LOOK_NEVER INT32_MAX

#define SOCK_SLEEPERS 4

/* A thread asleep on the wake-up socket. */
struct sleeper {
	uint32_t tid; /* 0: free */
	bool writer;
	uintptr_t frame; /* of its sleep */
};

/*
 * SLEEP(in): a thread that leaves the lock for a while and may run handlers or
 * be cancelled there, and is counted like a sleeper: a thread that closes
 * the socket meanwhile leaves it to it.
 */
struct sleep {
	struct sock *s;
	struct sleeper sleeper;
};

enum zc_out {
	ZC_NONE,
	ZC_OUT, /* lent */
	ZC_OVER, /* the program's again; its thread has to fetch the count */
};

struct zc {
	size_t least; /* smallest send that lends; SIZE_MAX: none does */
	uint32_t wish; /* the program's, if it `asked` */
	bool asked;
	uint8_t out; /* enum zc_out */
	bool rx_off; /* the peer's memory cannot be read */
	bool due; /* something was read: zc_tell() */
	int32_t home; /* the paired process: the peer can read no other's */
	uint32_t owner; /* thread whose memory it is */
	uint32_t rkey, len, done; /* the source; bytes of it counted as sent */
	uint32_t skip, skips; /* sends to go without, and last time */
	uint32_t files; /* atomic: threads that send a file */
	bool alone; /* `always`: the reader did not come, */
	uint64_t alone_at; /* when it had taken so much */
	/* between hosts */
	const uint8_t *mem; /* what is lent; good in `home` only */
	uint64_t back_at; /* asked back since, 0: not */
	uint64_t reads; /* number of the last RDMA operation */
	uint64_t pace; /* ns that the last turn took for a KiB; 0: not known */
	int broke; /* why the queue pair has to be given up, or 0 */
	bool wrote; /* what is out was written into the peer's sink */
	uint64_t writing; /* number of the RDMA Write that is not done, or 0 */
	uint8_t sink; /* enum zc_out, of memory that the peer may write */
	bool sink_asked; /* the machine has not given it back yet */
	uint32_t sink_owner; /* thread whose memory it is */
	uint32_t sink_key, sink_len, got; /* bytes that came in the last one */
	uint32_t sink_skip, sink_skips; /* receives to go without */
	uint32_t awake, awakes; /* reads to look for from the beginning */
};

enum sock_phase {
	PH_NEW,
	PH_LISTEN,
	PH_CONNECTING,
	PH_CONNECTED,
};

/*
 * Counts of threads that may find themselves in another sock than they came
 * into: the memory was used anew meanwhile. What they counted went with the
 * generation, and they take nothing off of the next one's.
 */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define COUNTED(name)                      \
	struct {                           \
		uint32_t name, name##_gen; \
	}
#else
#define COUNTED(name)                      \
	struct {                           \
		uint32_t name##_gen, name; \
	}
#endif
#define GEN_SHIFT 32 /* the generation, in a word of both */

#define GEN_COUNT(name)               \
	union {                       \
		COUNTED(name);        \
		uint64_t name##_word; \
	}

/* How it came to be connected. */
enum sock_role { ROLE_UNSEEN, ROLE_CONNECTED, ROLE_ACCEPTED };

/* What it is; set at birth, by connect() and by accept(). */
struct sock_id {
	uint8_t phase; /* enum sock_phase */
	uint8_t use; /* enum rule_use */
	bool native;
	bool met; /* an `sdp` rule was obeyed: transmit was lifted once */
	uint8_t family; /* of the anchor */
	uint8_t role; /* enum sock_role */
	bool any; /* its listener's address is the wildcard */
	uint32_t rule_line;
	uint16_t port, peer_port; /* atomic: order.c; 0: not asked yet */
	uint64_t inode;
};

/* Options, as the program set them. */
struct sock_opt {
	bool nonblock;
	bool corked; /* lifted, and TCP_CORK is set */
	bool linger0; /* SO_LINGER with time 0: closing resets */
	bool stamps; /* SO_TIMESTAMP: a program sees the kernel's */
	bool inq; /* TCP_INQ: recvmsg() tells how much is left */
	uint8_t bufs; /* BUF_*: what of snd_room the program has set */
	uint16_t bars; /* atomic: options that only the kernel has (option.h) */
	uint32_t snd_room; /* bytes that our socket holds unsent */
	int64_t rcvtimeo, sndtimeo; /* ns, 0: none */
	int nodelay, cork; /* the program's values */
};

/* How its directions end, and what was told of errors. */
struct sock_eos {
	bool shut_rd, shut_wr;
	bool rx_eof;
	bool rx_ended; /* left the ring behind all of its bytes and DisConn */
	bool fin_due; /* the kernel's FIN waits until the ring is empty */
	bool fin_told; /* the peer was poked about its FIN, */
	bool fin_missed; /* and we waited for it in vain once */
	bool rst_told; /* the one ECONNRESET was delivered */
	bool epipe; /* a send was answered EPIPE */
	bool kicked; /* a reset of the kernel's is an end: tcp_kicks_left() */
	uint8_t eaten; /* errno that the kernel told to us, and tells once */
};

/* When the peer is looked for, and what it is. */
struct sock_seek {
	int32_t look; /* calls until lift_look(); a lost count is harmless */
	int32_t byte_weight; /* bytes that count as one call */
	bool dry, busy; /* the last call, the one before too, found nothing */
	bool sent_last;
	uint32_t turns; /* changes between sending and receiving */
	int32_t offer_looks, probes;
	uint64_t patient_since;
	struct pair pair;
	struct conn_params params;
};

/* Threads that are inside of something; all atomic. */
struct sock_inflight {
	uint32_t users; /* inside any TCP call */
	uint32_t tcp_tx; /* inside a TCP send */
	uint32_t resting; /* asleep between two TCP sends of a call */
	uint32_t switching; /* no TCP send may begin */
	uint32_t inside[SOCK_SLEEPERS]; /* receiving, see sock_named() */
	uint32_t lookers; /* threads that look at END() unlocked */
	uint32_t carry; /* see tcp_rx_leave() */
	uint32_t held; /* TCP receives that keep it unpaired, */
	uint32_t unwaited; /* and epoll sets that no thread waits for */
	bool strayed, unsent; /* a TCP call was left; what it moved? */
};

/* How much may be under way, and what is held back of it. */
struct sock_window {
	uint64_t may_send; /* offset up to which nothing is looked at: window.h */
	uint64_t holdback_until; /* atomic: holdback.h, while there is some */
	uint32_t holdback; /* atomic: bytes */
	uint16_t mss; /* of the anchor */
	bool holding; /* the next message is held back */
	bool sure; /* what left a pipe goes, whatever the reader asks now */
};

/* Its row in the page of statistics. */
struct sock_stats {
	struct page_row *row; /* good in row_pid only */
	int32_t row_pid; /* atomic; 0: free, -1: being taken */
	bool counted; /* among the lifted */
	bool tx_shown, rx_shown; /* the row says that it is lifted */
	enum reason why;
	uint64_t row_look; /* atomic: is it still row_pid's? Not asked before */
};

/* The sleepers, what they sleep on, and what has woken them. */
struct sock_waits {
	int wake; /* wake-up socket, -1 */
	uint32_t wake_ms; /* SO_RCVTIMEO of that one; 0: none */
	bool deaf; /* no byte comes by it any more: fallback_rouse() */
	int orphan_fd; /* atomic: anchor's number for sleepers after close, -1 */
	uint32_t rung_eaten; /* wake-up bytes taken */
	uint32_t rung_seen; /* at least so many were there */
	uint64_t rung_at; /* atomic: over RDMA, since the sleep began; 0 */
	uint32_t sleepers; /* threads asleep on the wake-up socket */
	GEN_COUNT(asleep_anchor); /* atomic: asleep in poll on the anchor */
	GEN_COUNT(watched); /* atomic: the same, and epoll sets that hold it */
	uint32_t writers; /* threads asleep waiting for room */
	uint32_t readers; /* threads asleep waiting for data */
	struct sleeper sleeper[SOCK_SLEEPERS];
	uint32_t in_gen, out_gen; /* atomic */
	uint64_t in_since, in_news; /* stamps, see order_came() */
	uint64_t read_at; /* atomic: see sock_peer_port() */
	bool full; /* a writer was told to wait */
	uint64_t full_since;
	uint64_t taken_seen; /* the progress when full_since was set */
	uint32_t spin_ns; /* waits without a spin, after one in vain */
	uint32_t spin_skip; /* waits left before spinning is tried again */
};

/* Back to TCP, and how often it went there. */
struct sock_fallback {
	uint32_t falling_back; /* threads that bring it back to TCP */
	uint32_t callers; /* calls that need it on TCP, */
	bool apart; /* and so do several processes (user.c, close.c) */
	bool due; /* it was lifted, and the fallback is not counted yet */
	bool pinned; /* never again (foreign holder) */
	bool ruled; /* a rule says tcp since the rules were read again */
	uint8_t pins; /* bit 0: tx held busy, bit 1: rx */
	uint8_t stalls;
	uint8_t audits; /* times the counts were compared */
	uint8_t miss_naps, missed[2]; /* of kick_naps, in vain (ring.c) */
	bool kick_owed; /* atomic: the anchor did not take one */
	uint16_t kick_naps; /* waits for threads that hold a kick uncounted */
	uint32_t stand; /* atomic: in DRAINING, nothing may be sent yet (RDMA) */
	uint32_t passed; /* times: others write, and go on when it ends here */
	bool substituted; /* atomic: a stand-in has the anchor's numbers */
	bool given; /* behind this stall another program may write, uncounted */
	bool resuming; /* RESTORING, begun: */
	uint64_t resume_at; /* next byte to write back, */
	uint64_t resume_from, resume_kept; /* as the reader said */
	uint64_t handed_at; /* when its reader handed back what was unread, */
	uint64_t handed_to; /* atomic: up to this byte; it comes by the anchor */
	uint64_t kept_at; /* where in the keep area ar.kept bytes begin */
	uint64_t queue_seen; /* end of what was seen on the lifted anchor */
	uint64_t lift_not_before;
	uint64_t asked_at; /* atomic: another process wants it on TCP; 0 */
	uint64_t user_service; /* the background thread of its user, or 0 */
};

/* Received and parsed, not yet taken. */
struct sock_rx {
	uint64_t avail; /* stream bytes */
	uint32_t front_at; /* of them, taken of the front message */
	bool stale; /* atomic: ring content was taken back */
};

/* Memory, and the processes that have it open. */
struct sock_mem {
	int32_t maker; /* the process whose memory it is */
	int32_t closer; /* the process that closes the last number */
	uint32_t buried; /* atomic: another process was the last and is done */
	bool parted; /* atomic: a number of it went, here or elsewhere */
	bool trimmed; /* idle memory was given back */
	uint64_t idle_mark; /* bytes moved when last looked at */
	uint32_t holders; /* atomic: the last place of them that was ever used */
	struct holder holder[HOLDERS_HERE]; /* the first of them, */
	struct holder *further; /* and the others: memory that is rare */
	struct retired retired; /* of the process that closed it last, or maker */
	struct sock *next_inherited; /* good in the maker only */
};

/*
 * What a lifted send or receive reads comes first: the first line says which
 * carrier, the second whether it may, and one of the next two how far.
 */
struct sock {
	struct lock lock;
	bool paired, peer_gone;
	uint8_t told; /* atomic; notices ahead of any bytes (notice.h) */
	struct anc_dir *tx, *rx; /* atomic; local words until paired */
	struct end *end; /* of the fabric that carries it: END(s) */
	struct rdma *rd; /* the peer is on another host: rdma.h */
	const struct link_ops *link; /* then; NULL: memory is shared */
	struct sock_rx got;

	struct anc_side *own, *peer; /* lifted: what the two ends show */
	struct sock_window window;
	struct sock_eos eos;
	int32_t end_pid; /* the only process that may use `end`; 0: all */
	struct sock_opt opt;
	int32_t user; /* atomic: the process that uses it (user.c); 0: none */
	struct anc_tx at;
	struct anc_rx ar;

	struct sock_id id;
	struct sock_inflight in;
	struct sock_stats stats;

	/* lifted */
	struct sock_waits waits;
	struct sock_fallback fallback;
	struct shm_end shm;
	struct zc zc;
	struct conn conn;

	/* seldom */
	struct sock_seek seek;
	struct sock_mem mem;
	struct bridged bridged; /* a rule says kernel-sdp */
	struct anc_dir local[2]; /* [0] tx, [1] rx: before pairing */
};

#define SOCK_LINE 64
_Static_assert(offsetof(struct sock, own) <= SOCK_LINE &&
		       offsetof(struct sock, opt.bars) < 2 * SOCK_LINE &&
		       offsetof(struct sock, at.sent) < 3 * SOCK_LINE &&
		       offsetof(struct sock, ar.taken) < 4 * SOCK_LINE,
	       "what every call reads lies together");

#endif
