/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_FABRIC_VERBS_VERBS_H
#define LIBSDP_FABRIC_VERBS_VERBS_H

/*
 * The RDMA fabric: libibverbs and librdmacm behind fabric.h.
 *
 * It lives in a module, libsdp-verbs.so, so that a program that never meets an
 * RDMA device loads neither library. The socket room finds it beside
 * libsdp.so by dlopen() on first need and takes the one symbol
 * `libsdp_verbs` (struct verbs_api). The module includes base and fabric.h,
 * allocates with malloc() only at set-up, and calls back through struct
 * verbs_host alone.
 *
 * Every verbs and rdma_cm descriptor belongs to the process and to the
 * credentials that opened it. A struct verbs is opened late, by the process
 * that uses it; after fork() the child calls forget(), which releases nothing
 * that belongs to the parent, and opens its own. Calls on one end are
 * serialised by the caller, but for pending(), which any thread may ask any
 * time; calls on struct verbs (event(), listen(), dial() ...) may come from any
 * thread, with the credentials that open() had (-EACCES). An end that event()
 * named may be destroyed by then: the caller serialises destroy() with event()
 * and what it makes of it. Nothing blocks. Results are 0 or positive, or a
 * negative errno.
 *
 * Set-up (D2): dial -> VE_READY (route known, QP made, receives posted)
 * -> connect(Hello) -> VE_ANSWERED (HelloAck; may still be refused)
 * -> establish() -> VE_UP. Passive: VE_REQUEST (Hello, names) -> prepare()
 * (QP made, receives posted) -> accept(HelloAck) or refuse() -> VE_UP.
 */

#include <netinet/in.h>
#include <string.h>

#include "fabric/fabric.h"

#define VERBS_API      8 /* version of struct verbs_api */
#define VERBS_REQ_LEN  56 /* private data: Hello [2.4] */
#define VERBS_REQ_LONG 92 /* the same after dial_native() */
#define VERBS_REP_LEN  196 /* HelloAck */
#define VERBS_REJ_LEN  148
#define VERBS_INLINE   256 /* bytes that a send may copy into the request */
#define VERBS_IDLE_MAX 65536 /* registered bytes of an idle end (F16) */
/*
 * What an end begins with: receives of VERBS_RCV_SIZE bytes, of which
 * end.depth (VERBS_RCV_REST) are posted when VE_READY or prepare() is over.
 * Bytes need three credits: with five a message and a credit update may be
 * under way and the next bytes need not wait.
 * resize() raises both up to VERBS_RCV_MOST of VERBS_RCV_MAX bytes. 4 KiB are
 * too few. Of VERBS_RCV_SIZE are whole packets of RoCE's largest, the BSDH
 * included: with the BSDH beside them each message would be a packet more.
 */
#define VERBS_RCV_SIZE 8192
#define VERBS_RCV_REST 5
#define VERBS_RCV_MOST 64
#define VERBS_RCV_MAX  69648
/*
 * Under load, VERBS_RCV_MOST of them: each message costs both ends and the
 * device about the same, whatever its size, and small ones need many. A write
 * of 64 KiB, which many programs make, is one.
 */
#define VERBS_RCV_BULK 69632

struct verbs; /* the devices and channels of one process */
struct verbs_request; /* a connect request not yet answered */

union verbs_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6; /* never v4-mapped: rdma-facts.md 1.8 */
};

/* ::ffff:a.b.c.d can neither be bound nor resolved there. */
static inline void verbs_addr_plain(union verbs_addr *a)
{
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (a->sa.sa_family != AF_INET6 ||
	    !IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr))
		return;
	in.sin_port = a->in6.sin6_port;
	memcpy(&in.sin_addr, &a->in6.sin6_addr.s6_addr[12], 4);
	memset(a, 0, sizeof(*a));
	a->in = in;
}

/*
 * What the module asks of the library it serves; each may be NULL. hide()
 * moves a descriptor out of the program's way, returns the new number, and has
 * closed the old one even if it fails; unhide() comes before a hidden one is
 * closed. log() writes a line (levels of base/log.h).
 */
struct verbs_host {
	int (*hide)(int fd);
	void (*unhide)(int fd);
	void (*log)(int level, const char *line);
};

struct verbs_conf {
	bool allow_soft_rdma; /* may rxe and siw be used */
	/* May this one ("mlx5_0")? NULL: all. */
	bool (*may_use)(const char *device);
	/*
	 * The program uses librdmacm itself: it was loaded before this module
	 * (dlopen() with RTLD_NOLOAD tells). Its descriptors stay where they
	 * are.
	 */
	bool foreign_cm;
	uint32_t resolve_ms, connect_ms; /* our own time limits [2.3] */
	uint32_t disconnect_ms; /* for the answer to a DREQ */
	uint32_t requests_max; /* unanswered requests held at a time */
	struct verbs_host host;
};

enum verbs_event_type {
	VE_NONE,
	VE_REQUEST, /* a listener is dialled: prepare() or refuse() it */
	VE_READY, /* dial(): route and queue pair are there */
	VE_ANSWERED, /* connect(): accepted; `data` is the HelloAck */
	VE_REFUSED, /* connect(): rejected; `data` is the private data */
	VE_UP, /* messages may be sent */
	VE_FAILED, /* no VE_UP will come: `error` says why; destroy() it */
	VE_DOWN, /* the connection ended: DREQ, or `error` if it broke */
	VE_READABLE, /* an armed end has completions: poll() it */
};

struct verbs_event {
	enum verbs_event_type type;
	struct end *end; /* all but VE_REQUEST */
	uint64_t tag; /* of dial() or prepare() */
	struct verbs_request *request; /* VE_REQUEST */
	uint16_t port; /* VE_REQUEST: of the listener */
	union verbs_addr local, peer; /* VE_REQUEST: the kernel's word */
	uint8_t data[VERBS_REP_LEN];
	size_t len; /* of data; the area's, zero padded */
	int error; /* negative errno, 0: orderly */
};

/* What an end looks like to people. */
struct verbs_info {
	char device[32]; /* "rxe0/1" */
	bool soft; /* rxe or siw */
	bool iwarp; /* the active side must send first [2.6] */
	uint32_t registered; /* bytes of memory registered now */
	uint32_t posted; /* receives posted now */
	uint32_t rcv_size; /* of the smallest of them */
};

/* Remote access to a piece of the program's memory. */
struct verbs_region {
	void *mr;
	uint32_t lkey, rkey;
};

struct verbs_api {
	uint32_t version; /* VERBS_API */

	/*
	 * Opens the event channel; devices are opened when a route leads to
	 * them. -ENODEV: no RDMA device here (or only soft ones, not allowed:
	 * -EOPNOTSUPP; only others than may be used: -EPERM; only such whose
	 * files this process may not open: -ENXIO), -EMFILE, -ENOMEM.
	 */
	int (*open)(struct verbs **v, const struct verbs_conf *conf);
	/* Everything goes; no end may be left. */
	void (*close)(struct verbs *v);
	/*
	 * Around a fork, in the parent: no other thread is
	 * inside, but for messages.
	 * Without it the child may inherit a lock of librdmacm that is taken.
	 */
	void (*hold)(struct verbs *v);
	void (*resume)(struct verbs *v);
	/*
	 * In a forked child: descriptors are closed, message memory is
	 * unmapped, not one object is destroyed (rdma-facts.md 5). The ends
	 * are gone with it.
	 */
	void (*forget)(struct verbs *v);
	/* Readable when event() has something; an epoll descriptor. */
	int (*fd)(const struct verbs *v);
	/*
	 * The next event: 1, 0 none. Call it until it says 0: what it has taken
	 * from the kernel keeps fd() quiet. Also moves our own time limits on.
	 * -EACCES: none, and none will come: this thread has other credentials
	 * than open() had. All ends are of no use; close() and open() anew.
	 */
	int (*event)(struct verbs *v, struct verbs_event *ev);
	/*
	 * ns until event() should be called even if fd stays quiet; UINT64_MAX:
	 * no limit is running.
	 */
	uint64_t (*patience)(const struct verbs *v);

	/*
	 * Listen on `port` (0: any) of RDMA_PS_IB, or RDMA_PS_TCP where the
	 * devices are iWARP, all addresses of the family. The port, or
	 * -EADDRINUSE (the kernel's EADDRNOTAVAIL), -EACCES.
	 */
	int (*listen)(struct verbs *v, int family, uint16_t port);
	void (*unlisten)(struct verbs *v, uint16_t port);

	/*
	 * Towards `peer` (its port is the RDMA port), from `local` if its
	 * family is set (port ignored). VE_READY or VE_FAILED follows:
	 * -EHOSTUNREACH no RDMA route, -EOPNOTSUPP only a soft device, -EPERM
	 * only one that may not be used, -ENXIO one whose file may not be
	 * opened, -ENETUNREACH the path cannot be used (P_Key, GID), -ENOMEM
	 * memory, or the limit of locked memory; the log says more of these
	 * three. -ETIMEDOUT, -ECONNREFUSED nothing listens.
	 */
	int (*dial)(struct verbs *v, const union verbs_addr *local,
		    const union verbs_addr *peer, uint64_t tag,
		    struct end **end);
	/*
	 * The same towards a kernel's SDP socket at `peer`, whose port is SDP's
	 * (service 0x10000 | port [2.1]): by way of its address the GIDs are
	 * found, and those are dialled (AF_IB [2.5]). On InfiniBand ports alone
	 * and in the first network namespace; elsewhere -EHOSTUNREACH.
	 */
	int (*dial_native)(struct verbs *v, const union verbs_addr *local,
			   const union verbs_addr *peer, uint64_t tag,
			   struct end **end);
	/* `req`: VERBS_REQ_LEN bytes; after dial_native() VERBS_REQ_LONG. */
	int (*connect)(struct end *e, const uint8_t *req);
	/* After VE_ANSWERED: RTU; or REJ instead. VE_UP follows RTU. */
	int (*establish)(struct end *e);

	/* Passive: the end exists, receives are posted. Errors as of dial(). */
	int (*prepare)(struct verbs *v, struct verbs_request *r, uint64_t tag,
		       struct end **end);
	int (*accept)(struct end *e, const uint8_t rep[VERBS_REP_LEN]);
	/* REJ 28 with private data; the request is gone. */
	int (*refuse)(struct verbs *v, struct verbs_request *r,
		      const void *data, size_t len);

	/*
	 * Ask for VE_READABLE at the next completion of this end. Then poll()
	 * or ask pending() once more: what came before is not told
	 * (rdma-facts.md 2).
	 * `solicited`: only messages sent so, or errors; not for one that waits
	 * for room.
	 */
	int (*arm)(struct end *e, bool solicited);
	/*
	 * A descriptor for poll(), readable when what arm() asked for comes,
	 * to this end alone; -1: it has none. While the end is deaf(), nothing
	 * of that becomes VE_READABLE, and the thread that polls there takes it
	 * by heard(); what was not taken is told later. To hear again needs a
	 * little of the kernel's memory: 0, or negative, and it stays deaf.
	 */
	int (*ear)(struct end *e);
	int (*deaf)(struct end *e, bool on);
	void (*heard)(struct end *e);
	/*
	 * Messages sent and not acknowledged by their completion, oldest
	 * first: what must be sent again elsewhere when the end breaks.
	 * Zero *pos to begin; 1 or 0. The memory stays until destroy().
	 */
	int (*unacked)(struct end *e, uint32_t *pos, struct fab_msg *m);
	/*
	 * Everything sent has completed: 1; 0 not yet (an armed end is told),
	 * -ECONNRESET: never. Before an orderly end.
	 */
	int (*flushed)(struct end *e);
	/*
	 * Is the peer's device there? Posts what needs no receive of the peer,
	 * unless something is under way: an end whose peer is silent for good
	 * breaks by it, when the retries are over.
	 */
	void (*probe)(struct end *e);
	/*
	 * DREQ; own receives and sends are flushed, messages that came before
	 * can still be polled. VE_DOWN follows, with -ETIMEDOUT if the peer
	 * does not answer.
	 */
	void (*disconnect)(struct end *e);
	/*
	 * From now on `count` receives (VERBS_RCV_REST..MOST) of `size` bytes
	 * (VERBS_RCV_SIZE..MAX) at least; less than before only when the peer
	 * counts on no more. Returns how many were posted at once beyond those
	 * that were (conn_reposted()), so 0 when count is less. Larger ones
	 * take the place of smaller ones as these are used up:
	 * info().rcv_size tells when the last is gone [5.6]. With a lower count
	 * messages without stream bytes are shed (fabric.h) until no more than
	 * that are left.
	 * -ENOMEM, -EBUSY (receives of another size and count are in use, and
	 * memory for both at a time is not had): nothing changes.
	 */
	int (*resize)(struct end *e, uint32_t size, uint16_t count);
	/*
	 * The same as ops->release(), but the receive is not posted again (no
	 * conn_reposted()): so an end whose count was lowered gets back to it,
	 * message by message, and its memory goes with trim(). 1, or 0: posted
	 * again as always, because no more than end.depth are.
	 */
	int (*shed)(struct end *e);
	/*
	 * The message that poll() gave last is held and need not be: its
	 * receive is posted again (conn_reposted()), whatever lies before it.
	 */
	void (*drop)(struct end *e);
	void (*info)(const struct end *e, struct verbs_info *i);

	/*
	 * Zero copy: register the program's memory for read() from us, or for
	 * the peer's RDMA (`remote_read`, `remote_write`). Lasts until dereg();
	 * -EFAULT, -ENOMEM, -EOPNOTSUPP: copy instead.
	 */
	int (*reg)(struct end *e, void *mem, size_t len, bool remote_read,
		   bool remote_write, struct verbs_region *r);
	void (*dereg)(struct end *e, struct verbs_region *r);
	/*
	 * The same for write() from us: the peer does not write there, or read
	 * by a key.
	 */
	int (*reg_from)(struct end *e, const void *mem, size_t len,
			struct verbs_region *r);
};

/*
 * The rest of an end's life is fabric_ops of its struct end. Messages of up to
 * FAB_CTRL bytes without stream bytes are not held. pending() is true when
 * completions of sends wait, too: poll() takes them, then ask for room again.
 * room() grows the send ring when it is short, trim() takes that back. The
 * local side of read() and write() must lie in one piece of reg()istered
 * memory (-EFAULT); -EAGAIN: too many are under way.
 */
extern const struct verbs_api libsdp_verbs
	__attribute__((visibility("default")));

#endif
