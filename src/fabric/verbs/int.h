/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_FABRIC_VERBS_INT_H
#define LIBSDP_FABRIC_VERBS_INT_H

/*
 * What the files of the module share. Objects of librdmacm carry a struct
 * owner as context, so that an event finds its listener, request or end.
 *
 * Queue pairs live in contexts that this module opens itself: those of
 * librdmacm are shared with its other users and belong to the
 * credentials of the first user (rdma-facts.md 1.1). So librdmacm finds routes
 * and exchanges CM messages; all else is ours, the states of the queue pair
 * included, and a bad HelloAck can be refused before RTU [2.6].
 */

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#include "base/lock.h"
#include "base/log.h"
#include "fabric/verbs/verbs.h"

#define LINE	  64u
#define PACKET	  4096u /* of RoCE, at most */
#define REST_LEN  65536u /* lane, send ring and receives of an idle end */
#define LANE	  8u /* control messages beside a full ring */
#define RX_STRIDE 8192u /* VERBS_RCV_SIZE in whole lines */
#define LOAD_TX	  1048576u /* send ring under load */
#define BULK_TX	  4194304u /* of a stream that has filled that one */
#define BULK_FROM (16 * LOAD_TX) /* after so many bytes through it */
#define LOAD_RX	  (VERBS_RCV_BULK * VERBS_RCV_MOST) /* receives, at most */
#define SQ_DATA	  64u /* messages under way */
#define SQ_RDMA	  16u /* RDMA operations under way */
#define SQ_MARKS  2u
#define SQ_LEN	  (SQ_DATA + LANE + SQ_RDMA + SQ_MARKS)
#define SENT_LEN  128u /* records: a power of two above SQ_LEN */
#define RX_LEN	  128u /* above all receives that can be posted */
#define SLOTS	  (VERBS_RCV_REST + VERBS_RCV_MOST)
#define CQ_LEN	  (SQ_LEN + SLOTS)
#define STASH_LEN 256u /* completions taken and not looked at: above CQ_LEN */
#define QUIET_MAX 16u /* one send in so many is signalled */
#define REGIONS	  16u /* pieces of the program's memory, at a time */
#define EARS	  16u /* ends with a completion channel of their own */
#define RD_ATOM	  4u /* RDMA reads each way, as kernel SDP [2.2] */
#define WR_RECV	  (1ull << 32) /* wr_id of receives; the rest is a number */

_Static_assert(SQ_LEN < SENT_LEN && CQ_LEN < STASH_LEN && SLOTS < RX_LEN,
	       "queues hold what can be under way");
_Static_assert(REST_LEN <= VERBS_IDLE_MAX, "an idle end is small (F16)");
_Static_assert(VERBS_RCV_SIZE % PACKET == 0 && VERBS_RCV_BULK % PACKET == 0,
	       "messages fill their packets");

struct vend;

/* --- memory ------------------------------------------------------------ */

struct region {
	uint8_t *mem;
	size_t len;
	struct ibv_mr *mr; /* NULL: there is none */
};

struct device {
	struct device *next;
	struct ibv_device *dev;
	struct ibv_context *ctx, *cm_ctx; /* ours, librdmacm's */
	struct ibv_pd *pd;
	struct ibv_comp_channel *chan;
	uint32_t uses, vectors, next_vector;
	uint32_t rd_atom; /* RDMA reads under way, at most */
	bool soft, iwarp;
	bool gone; /* removed: closed with its last end */
};

/* --- one end ----------------------------------------------------------- */

struct ring {
	uint8_t *mem;
	uint32_t lkey, cap, head, tail;
	uint32_t live; /* messages in it */
};

enum sent_kind {
	SENT_REST,
	SENT_LOAD,
	SENT_BULK,
	SENT_LANE, /* no ring */
	SENT_MARK,
	SENT_RDMA,
};

struct sent {
	const uint8_t *mem;
	uint32_t len;
	uint32_t end; /* where the ring's tail goes when it completes */
	uint64_t id; /* SENT_RDMA */
	uint8_t kind;
	bool signalled;
};

struct tx {
	uint32_t seq, acked; /* next and oldest record */
	uint32_t quiet, quiet_bytes; /* since the last signalled one */
	struct ring ring[SENT_LANE];
	uint8_t cur; /* which of them takes messages */
	bool poor; /* no memory for a larger one */
	uint64_t through; /* bytes into SENT_LOAD's */
	uint8_t *lane;
	uint32_t lane_seq, lane_acked;
	uint32_t rdma; /* RDMA operations under way */
	/* what buf() or ctrl() gave last */
	uint8_t *buf;
	uint32_t buf_len;
	uint8_t buf_kind;
	struct region larger[SENT_BULK]; /* of SENT_LOAD's ring on */
	struct sent sent[SENT_LEN];
};

struct arrival {
	uint32_t slot, len;
};

/* A queue of arrivals; counters run on, the size is a power of two. */
struct arrivals {
	uint32_t head, tail;
	struct arrival q[RX_LEN];
};

/* Slots 0..VERBS_RCV_REST-1 lie in the end's own region. */
struct rx {
	uint32_t posted, size; /* of what is posted from now on */
	bool load_first; /* post slots of the second region first */
	uint32_t load_stride, load_count;
	uint32_t load_size; /* bytes of a receive there */
	uint32_t rest_out, load_out; /* slots posted, by region */
	uint64_t free[2]; /* free slots of the two regions */
	struct arrivals come, held;
	struct region load;
	uint8_t copy[FAB_CTRL]; /* the message that is not held */
};

/* A completion, as much of it as we want. */
struct done {
	uint64_t wr_id;
	uint32_t len;
	uint16_t status; /* enum ibv_wc_status, or STATUS_NONSENSE */
};

#define STATUS_NONSENSE 0xffff /* something that was not asked for */

/* Completions: taken from the CQ by any thread, used by the end's holder. */
struct stash {
	struct lock lock; /* guards the CQ, tail and dry */
	uint32_t head, tail;
	bool dry; /* the last look has emptied the CQ */
	struct done q[STASH_LEN];
};

enum vstate {
	V_SEEKING, /* dial_native(): which GIDs? */
	V_RESOLVING, /* dial() */
	V_ROUTING,
	V_READY,
	V_CONNECTING,
	V_ANSWERED,
	V_PREPARED, /* prepare() */
	V_ACCEPTED,
	V_UP,
	V_CLOSING, /* our DREQ is out */
	V_DOWN, /* or failed */
};

enum owner_kind { OWNER_LISTENER, OWNER_REQUEST, OWNER_END };

struct owner {
	enum owner_kind kind;
};

struct list {
	struct list *next, *prev;
};

struct vend {
	struct end end;
	struct owner owner;
	struct list all, due_at, timed; /* in struct verbs, under its lock */
	struct verbs *v;
	struct device *dev;
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_comp_channel *chan; /* its own; NULL: the device's */
	struct vend **ear; /* with one of its own: in v->ears */
	uint64_t tag, deadline;
	uint16_t due; /* bits by enum verbs_event_type */
	uint8_t state;
	bool active, established;
	bool native; /* dial_native() */
	uint64_t service; /* what it dials then */
	int error; /* the connection broke: the first reason */
	int why; /* of VE_FAILED, VE_DOWN */
	bool leave, die; /* asked for where the lock could not be had */
	uint32_t inline_max;
	uint32_t rd_atom; /* RDMA reads under way each way */
	struct region rest;
	uint32_t registered; /* bytes of message memory */
	/*
	 * What completions mean; set by tx_init() and rx_init(), called by
	 * cq.c.
	 */
	void (*completed)(struct vend *e, uint32_t seq, int status);
	void (*arrived)(struct vend *e, uint32_t slot, uint32_t len);
	struct tx tx;
	struct rx rx;
	struct stash stash;
	struct {
		uint32_t head, tail;
		struct fab_done q[SQ_RDMA * 2];
	} dones;
	struct ibv_mr *mine[REGIONS]; /* the program's, by reg() */
	bool local[REGIONS]; /* our own reads may put something there */
	struct verbs_region src; /* one of them, by lend() */
	struct verbs_region sink; /* another, by sink() */
	uint8_t data[VERBS_REP_LEN]; /* HelloAck or refusal */
};

struct listener {
	struct owner owner;
	struct listener *next;
	struct rdma_cm_id *id;
	uint16_t port;
};

struct verbs_request {
	struct owner owner;
	struct list all;
	struct rdma_cm_id *id;
	uint16_t port;
	uint8_t rd_atom;
	bool told, dead;
	uint8_t data[VERBS_REQ_LEN];
	size_t len;
};

struct verbs {
	struct lock lock; /* guards all of this, and states of ends */
	struct verbs_conf conf;
	const struct fabric_ops *ops; /* of its ends */
	enum rdma_port_space ps;
	int ep, kick;
	struct rdma_event_channel *chan;
	struct device *devices;
	struct listener *listeners;
	struct list ends, due, timed, requests;
	struct vend *ears[EARS]; /* ends with a channel of their own */
	uint32_t nrequests;
	bool rung; /* the kick */
	bool held; /* by hold() */
	bool denied; /* the CM's events are not for these credentials */
	bool late; /* an end has `leave` or `die` */
	bool inside; /* event() runs: what is due needs no kick */
};

static inline struct vend *vend_of(struct end *e)
{
	return (struct vend *)(void *)e;
}

/* What a call of librdmacm or libibverbs that answers -1 means. */
static inline int cm_err(int ret)
{
	int err = ret ? errno : 0;

	return ret && !err ? -EIO : -err; /* a driver may say nothing */
}

/* --- host.c ------------------------------------------------------------- */

/*
 * libibverbs and librdmacm write to their files where a thread can be
 * cancelled: not while it holds a lock, ours or the caller's.
 */
static inline int calm_begin(void)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	return was;
}

static inline void calm_end(const int *was)
{
	pthread_setcancelstate(*was, NULL);
}

/* Until the end of the block. */
#define CALM                                       \
	__attribute__((cleanup(calm_end), unused)) \
	const int calm_ = calm_begin()

#define LIST_OF(p, type, member) \
	((type *)(void *)((char *)(p)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_add(struct list *head, struct list *l)
{
	l->next = head;
	l->prev = head->prev;
	head->prev->next = l;
	head->prev = l;
}

/* Also of one that is on no list. */
static inline void list_del(struct list *l)
{
	l->next->prev = l->prev;
	l->prev->next = l->next;
	list_init(l);
}

void verbs_say(const struct verbs *v, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same, the first time this place is reached in this process. */
#define verbs_say_once(v, level, ...)                                  \
	do {                                                           \
		static int once_;                                      \
		if (!__atomic_exchange_n(&once_, 1, __ATOMIC_RELAXED)) \
			verbs_say(v, level, __VA_ARGS__);              \
	} while (0)
/* Moves *fd out of the way and watches it: 0, or -errno (it is closed). */
int verbs_hide(struct verbs *v, int *fd);
int verbs_watch(struct verbs *v, int fd, void *who);
void verbs_unhide(const struct verbs *v, int fd);

/* --- device.c ----------------------------------------------------------- */

/* Is there something to begin with: 0, -ENODEV, -EOPNOTSUPP, -EPERM, -ENXIO? */
int device_any(struct verbs *v);
/* The device behind a resolved id; counted until device_put(). */
int device_get(struct verbs *v, struct rdma_cm_id *id, struct device **d);
void device_put(struct verbs *v, struct device *d);
/* Descriptors alone: in a forked child. */
void device_forget(struct verbs *v, struct device *d);
void device_close(struct verbs *v, struct device *d);
void device_completions(struct device *d);
void device_told(struct vend *e); /* of a completion */
void device_async(struct verbs *v, struct device *d);

/* --- ear.c -------------------------------------------------------------- */

/* All but the last with v->lock held; a channel that is not had is shared. */
void ear_new(struct vend *e);
/* Behind the CQ. */
void ear_free(struct vend *e);
void ear_forget(struct vend *e); /* in a forked child */
/* It was an ear's descriptor: `who` of verbs_watch(). */
bool ear_event(struct verbs *v, void *who);
int verbs_ear(struct end *end);
int verbs_deaf(struct end *end, bool on);
void verbs_heard(struct end *end);

/* --- event.c: what there is to tell; dispatch.c: telling it --------------- */

/*
 * v->lock. -EDEADLK: not held, a signal handler came in while this very thread
 * was inside; nothing of librdmacm may be touched then.
 */
static inline int verbs_enter(struct verbs *v)
{
	int ret = lock_take(&v->lock);

	return ret == -EDEADLK ? ret : 0;
}

/* Not with the lock: event() does it, as soon as the thread is out. */
void event_late(struct vend *e, bool *what);
/* With v->lock held. The event goes out with the next event(). */
void event_due(struct vend *e, enum verbs_event_type type);
/* No VE_UP will come, or no message any more; `why`: 0 orderly. */
void event_down(struct vend *e, int why);
void event_limit(struct vend *e, uint32_t ms); /* 0: none */
/* The same from the data path, without the lock; once. */
void event_broken(struct vend *e);
/* The queue pair to the error state. */
void event_stop(struct vend *e);
/* With v->lock held: event() has something to look at. */
void event_kick(struct verbs *v);
int verbs_event(struct verbs *v, struct verbs_event *ev);
uint64_t verbs_patience(const struct verbs *v);

/* --- cm.c, cmevent.c ---------------------------------------------------- */

int verbs_listen(struct verbs *v, int family, uint16_t port);
void verbs_unlisten(struct verbs *v, uint16_t port);
int verbs_dial(struct verbs *v, const union verbs_addr *local,
	       const union verbs_addr *peer, uint64_t tag, struct end **end);
int verbs_connect(struct end *end, const uint8_t *req);
/* `service`: of a kernel's SDP socket (native.c), 0: dial(). */
int cm_dial(struct verbs *v, const union verbs_addr *local,
	    const union verbs_addr *peer, uint64_t service, uint64_t tag,
	    struct end **end);
void cm_resolve(struct vend *e, struct sockaddr *from, struct sockaddr *to);
int verbs_establish(struct end *end);
int verbs_prepare(struct verbs *v, struct verbs_request *r, uint64_t tag,
		  struct end **end);
int verbs_accept(struct end *end, const uint8_t rep[VERBS_REP_LEN]);
int verbs_refuse(struct verbs *v, struct verbs_request *r, const void *data,
		 size_t len);
void verbs_disconnect(struct end *end);
void end_leave(struct vend *e); /* with v->lock held */
void request_drop(struct verbs *v, struct verbs_request *r);
void cm_events(struct verbs *v);

/* --- native.c ----------------------------------------------------------- */

int verbs_dial_native(struct verbs *v, const union verbs_addr *local,
		      const union verbs_addr *peer, uint64_t tag,
		      struct end **end);
/*
 * V_SEEKING: its address was resolved. The id that did it loses its context,
 * and is destroyed once its event was acknowledged.
 */
void native_found(struct verbs *v, struct vend *e);

/* --- end.c -------------------------------------------------------------- */

struct vend *end_new(struct verbs *v, struct rdma_cm_id *id, uint64_t tag,
		     bool active);
/* CQ, QP in state INIT, memory, receives. Errors as of dial(). */
int end_build(struct vend *e);
/* To RTR and RTS, after the other side's QP is known. */
int end_ready(struct vend *e);
/* With v->lock held. */
void end_free(struct vend *e);
void end_forget(struct vend *e); /* in a forked child */
void end_destroy(struct end *end);
void end_trim(struct end *end);
void verbs_info(const struct end *end, struct verbs_info *i);

/* --- mem.c -------------------------------------------------------------- */

int region_new(struct vend *e, struct region *r, size_t len);
/* What the kernel said when it made an object of `len` bytes; the log knows. */
int mem_err(struct vend *e, int err, size_t len);
void region_free(struct vend *e, struct region *r);
int verbs_reg(struct end *end, void *mem, size_t len, bool remote_read,
	      bool remote_write, struct verbs_region *r);
void verbs_dereg(struct end *end, struct verbs_region *r);
int verbs_reg_from(struct end *end, const void *mem, size_t len,
		   struct verbs_region *r);
/* Of a region around it; `into`: of one that may be written. */
int mem_lkey(struct vend *e, const void *mem, size_t len, bool into,
	     uint32_t *lkey);

/* --- cq.c --------------------------------------------------------------- */

/* Look at every completion there is; the end's holder only. */
void cq_reap(struct vend *e);
/*
 * At what the last look has found: the CQ is asked only if that was nothing.
 * False: nothing was there.
 */
bool cq_next(struct vend *e);
/* What the last look has found is used, and it has found all there was. */
bool cq_dry(const struct vend *e);
bool cq_pending(struct end *end);
int verbs_arm(struct end *end, bool solicited);
/* Nothing more will go out; `err`: negative errno. */
void cq_break(struct vend *e, int err);

/* --- tx.c, rdma.c ------------------------------------------------------- */

void tx_init(struct vend *e);
uint32_t tx_room(struct end *end);
void *tx_buf(struct end *end, uint32_t len);
void *tx_ctrl(struct end *end);
int tx_send(struct end *end, uint32_t len, bool solicited);
void tx_trim(struct vend *e);
/* Post one work request with the record of the next number. */
int tx_post(struct vend *e, struct ibv_send_wr *wr, struct sent *s);
int verbs_unacked(struct end *end, uint32_t *pos, struct fab_msg *m);
int verbs_flushed(struct end *end);
void verbs_probe(struct end *end);
int rdma_op_read(struct end *end, void *to, uint64_t vaddr, uint32_t rkey,
		 size_t len, uint64_t id);
int rdma_op_write(struct end *end, const void *from, uint64_t vaddr,
		  uint32_t rkey, size_t len, uint64_t id);
int rdma_op_done(struct end *end, struct fab_done *d);
int rdma_op_lend(struct end *end, const void *mem, uint32_t len,
		 uint32_t *rkey);
int64_t rdma_op_lent(struct end *end, bool back);
void rdma_op_unlend(struct end *end);
int rdma_op_sink(struct end *end, void *mem, uint32_t len, uint32_t *rkey);
void rdma_op_unsink(struct end *end);
void rdma_op_note(struct vend *e, const struct sent *s, int status);

/* --- rx.c --------------------------------------------------------------- */

int rx_init(struct vend *e);
int rx_poll(struct end *end, struct fab_msg *m);
int rx_front(struct end *end, struct fab_msg *m);
int rx_next(struct end *end, bool own, struct fab_walk *w, struct fab_msg *m);
void rx_release(struct end *end);
int verbs_shed(struct end *end);
void verbs_drop(struct end *end);
int verbs_resize(struct end *end, uint32_t size, uint16_t count);
void rx_trim(struct vend *e);
uint32_t rx_smallest(const struct vend *e);

#endif
