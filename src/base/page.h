/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_PAGE_H
#define LIBSDP_BASE_PAGE_H

/*
 * What a process publishes about itself (D12): a file in /dev/shm, mode 0600,
 * named libsdp.PID.STARTTIME, mapped shared and held open by no process.
 * sdpstat reads a copy. Written by one process with plain atomic stores (but for
 * one word, struct page_reload); a
 * reader accepts a row when its `gen` is even and the same before and after.
 * The library creates the file when a rule first concerns a socket, removes it
 * at exit; the process that creates the next, and sdpstat, remove files whose
 * process is gone.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGE_MAGIC   0x7573647070616765ull /* "usdppage" */
#define PAGE_VERSION 8
#ifndef PAGE_ROWS /* fewer: tests/fuzz */
#define PAGE_ROWS 4096 /* sparse: rows cost memory only when used */
#endif
#define PAGE_DIR    "/dev/shm"
#define PAGE_PREFIX "libsdp."
/* And the user: the page of the last one of that user that was killed. */
#define PAGE_KILLED "libsdp.killed."

#define PAGE_EVENTS  256 /* remembered */
#define PAGE_REASONS 64 /* room for each enum reason */
#define PAGE_NO_RULE 0xff
/* In `version`: the program that wrote it has become another one (exec). */
#define PAGE_LEFT    0

enum page_path { PATH_TCP, PATH_SHM, PATH_RDMA, PATH_LISTEN };

/*
 * Counters of a process; the list makes the struct, the JSON and sdpstat. What
 * a row counts is added here when its socket closes, so readers add both
 * (page_totals()). bytes_rdma_* is the part of bytes_sdp_* that went by a
 * device.
 */
/* clang-format off */
#define PAGE_COUNTERS(X)                                       \
	X(sockets) X(lifted) X(fallbacks) X(stalls)            \
	X(bytes_sdp_tx) X(bytes_sdp_rx)                        \
	X(bytes_tcp_tx) X(bytes_tcp_rx)                        \
	X(msgs_tx) X(msgs_rx) X(wakeups_tx) X(wakeups_rx)      \
	X(zcopy_tx) X(zcopy_rx) X(zcopy_cancelled)             \
	X(zcopy_unregistered)                                  \
	X(bytes_rdma_tx) X(bytes_rdma_rx) X(spin_ns) X(sleep_ns)
/* clang-format on */

/* Former names, which JSON has beside the present ones: scripts read them. */
#define PAGE_FORMER(X) X(fallbacks, homecomings) X(stalls, spills)

/*
 * Histograms: what a socket counts and, in `slept`, what only a process does.
 * Buckets by powers of two (page_bucket()), the last for all that is more.
 */
#define PAGE_SIZE_LEAST 4 /* up to 16 bytes, 32, ... 64 KiB */
#define PAGE_SIZES	14
#define PAGE_SPUN	15 /* up to 1 us, 2 us, ... 2^13 us */
#define PAGE_SLEPT	22 /* up to 1 us, 2 us, ... 2^20 us */

struct page_sizes {
	uint64_t bytes, n[PAGE_SIZES]; /* of the stream; messages */
};

struct page_histograms {
	struct page_sizes sizes_tx, sizes_rx; /* of messages with such bytes */
	uint64_t spun[PAGE_SPUN]; /* waits, by what spin_ns has of them */
};

struct page_counters {
#define X(name) uint64_t name;
	PAGE_COUNTERS(X)
#undef X
	struct page_histograms h;
	uint64_t slept[PAGE_SLEPT]; /* sleeps, by what sleep_ns has of them */
	uint64_t reasons[PAGE_REASONS]; /* of sockets that ended or stay on TCP */
	uint64_t fallbacks_for[PAGE_REASONS]; /* from SDP to TCP, by cause */
};

#define PAGE_WORDS (sizeof(struct page_counters) / sizeof(uint64_t))

struct page_addr {
	uint8_t family; /* AF_INET or AF_INET6, 0 unknown */
	uint8_t pad;
	uint16_t port; /* host order */
	uint8_t ip[16]; /* network order; IPv4 in the first four */
};

struct page_row {
	uint32_t gen; /* odd while being written; 0 never used */
	int32_t fd; /* -1: row free */
	uint64_t inode;
	struct page_addr local, peer;
	uint8_t path[2]; /* enum page_path: [0] transmit, [1] receive */
	uint8_t role; /* 0 none, 1 client, 2 server */
	uint8_t rule; /* 0 both, 1 tcp, 2 sdp, PAGE_NO_RULE not known */
	uint32_t rule_line; /* line in the rule file, 0: default */
	uint32_t why; /* enum reason */
	uint32_t state; /* 0 new 1 listening 2 connected 3 closing */
	uint64_t carrier; /* enum page_path of what SDP goes by, or 0; stays */
	char device[24]; /* of RDMA, "mlx5_0/1"; "": none */
	uint64_t registered; /* bytes of memory that the device may use */
	uint64_t bytes_sdp_tx, bytes_sdp_rx, bytes_tcp_tx, bytes_tcp_rx;
	uint64_t msgs_tx, msgs_rx, wakeups, zcopy, fallbacks, spin_ns;
	struct page_histograms h;
};

/* Something that happened to a connection: event.h. */
struct page_event {
	uint64_t at; /* monotonic time, ns */
	uint64_t seq; /* its number, from 1; 0: being written */
	uint64_t inode;
	int32_t fd;
	uint16_t what, why; /* enum event, enum reason */
};

/*
 * The rule file is to be read again (sdpconf reload). `asked` is the one word
 * that another process writes, into the file, as the page's user or root: a
 * number from 4 on, rising by 4, and PAGE_ASK_APPLY. It is 0 when nothing is
 * asked for: looked at by calls that are rare, and by the service thread when
 * it is awake anyway. All others are the process's answer.
 */
#define PAGE_ASK_APPLY 1 /* connections that exist change sides, too */
#define PAGE_ASK_NEXT  4

/*
 * A process that has no page yet is asked by an empty file of its page's name and
 * this, of its user or root, which it finds when it makes the page.
 */
#define PAGE_ASK ".ask"

struct page_reload {
	uint32_t asked; /* atomic */
	uint32_t read; /* atomic: what was asked for when the file was read */
	uint32_t done; /* atomic: the same, and all is done */
	uint32_t failed; /* what held before holds on */
	uint32_t rules; /* in the file */
	uint32_t back, again; /* connections to TCP; that may be lifted again */
	uint32_t stay; /* that should be on TCP, and are not yet */
	char said[256]; /* one line for people, or "" */
};

struct page {
	uint64_t magic;
	uint32_t version, rows;
	int32_t pid;
	uint32_t uid;
	uint64_t start; /* start time of the process, /proc/PID/stat field 22 */
	uint64_t pidns; /* inode of the namespace that `pid` belongs to, or 0 */
	char program[64];
	uint64_t service; /* its service thread's number (told.h), 0: none */
	/* bytes of rings that were written here; of other parts of segments */
	uint64_t shm_rings, shm_heads;
	struct page_reload reload;
	struct page_counters c;
	struct page_counters summed; /* what the file of sums has of it */
	uint64_t events; /* so many there were */
	struct page_event event[PAGE_EVENTS]; /* in a ring */
	struct page_row row[PAGE_ROWS];
};

/*
 * Never NULL, and the same address for the whole life of the process: opening
 * and forking change what is mapped there, so rows stay valid pointers.
 */
extern struct page *page_self;

/* Are the rules to be read again? */
static inline bool page_asked(void)
{
	return __builtin_expect(__atomic_load_n(&page_self->reload.asked,
						__ATOMIC_RELAXED) != 0,
				0);
}

/*
 * Make page_self visible to sdpstat; what was counted before is kept. Memory
 * for it is taken from the file system at once, never at a store (a full
 * /dev/shm is -ENOSPC here, not a SIGBUS later). 0, also when it is open
 * already, or negative errno (logged once).
 */
int page_open(const char *program);
/*
 * Remove the files of processes that were killed, as far as they are the
 * user's own and of our process namespace; the last one stays, under the name
 * PAGE_KILLED. By page_open().
 */
void page_sweep(void);
/*
 * Add what was counted to the sums (sums.h) and remove the file; further
 * counting goes on in private memory.
 */
void page_close(void);
/*
 * About to become another program: what was counted is added to the sums, and
 * the page is not read any more. `left` false: not.
 */
void page_leave(bool left);
/* In a forked child: a fresh private page, counters at zero, no rows. */
void page_forked(void);
/*
 * A free row for `fd`, cleared, its `gen` even; or NULL when all are used or
 * memory is short (not an error). Async-signal-safe, thread-safe.
 */
struct page_row *page_row_get(int fd);
/* What it counts is the page's from here on. */
void page_row_put(struct page_row *r);
/*
 * Rows from this one on have never been used. Not even to be looked at by the
 * process itself: their memory may not exist and may not be had.
 */
uint32_t page_rows(void);

/*
 * Around changes of what must be read together (addresses, path, rule, why,
 * state, fd), by one writer at a time. Counters may be stored without.
 */
static inline void page_row_begin(struct page_row *r)
{
	__atomic_store_n(&r->gen, r->gen + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void page_row_end(struct page_row *r)
{
	__atomic_store_n(&r->gen, r->gen + 1, __ATOMIC_RELEASE);
}

/* What a row counts, and where it is added when the row goes. */
/* clang-format off */
#define PAGE_FOLDED(X)                                                 \
	X(bytes_sdp_tx, bytes_sdp_tx) X(bytes_sdp_rx, bytes_sdp_rx)    \
	X(bytes_tcp_tx, bytes_tcp_tx) X(bytes_tcp_rx, bytes_tcp_rx)    \
	X(msgs_tx, msgs_tx) X(msgs_rx, msgs_rx) X(wakeups_tx, wakeups) \
	X(fallbacks, fallbacks) X(spin_ns, spin_ns)
/* clang-format on */

/* Into the counters of the page or a copy of them. */
static inline void page_fold(struct page_counters *c, const struct page_row *r)
{
	const uint64_t *from = (const void *)&r->h;
	uint64_t *to = (void *)&c->h;
	size_t i;

	for (i = 0; i < sizeof(r->h) / sizeof(*from); i++)
		if (from[i])
			__atomic_add_fetch(&to[i], from[i], __ATOMIC_RELAXED);
#define FOLD(to, from) __atomic_add_fetch(&c->to, r->from, __ATOMIC_RELAXED);
	PAGE_FOLDED(FOLD)
	if (r->carrier == PATH_RDMA) {
		FOLD(bytes_rdma_tx, bytes_sdp_tx)
		FOLD(bytes_rdma_rx, bytes_sdp_rx)
	}
#undef FOLD
}

/* Of `count` buckets the one for n: up to 1 << least, twice that, ... */
static inline uint32_t page_bucket(uint64_t n, uint32_t least, uint32_t count)
{
	uint64_t over = n ? (n - 1) >> least : 0;
	uint32_t i = over ? 64 - (uint32_t)__builtin_clzll(over) : 0;

	return i < count ? i : count - 1;
}

static inline uint32_t page_size_bucket(uint64_t bytes)
{
	return page_bucket(bytes, PAGE_SIZE_LEAST, PAGE_SIZES);
}

/* By microseconds: what is more than one belongs to the next bucket. */
static inline uint32_t page_time_bucket(uint64_t ns, uint32_t count)
{
	return page_bucket(ns / 1000 + (ns % 1000 != 0), 0, count);
}

#define page_add(name, n) \
	__atomic_add_fetch(&page_self->c.name, (uint64_t)(n), __ATOMIC_RELAXED)

/* A spin is over that ended for no socket's sake. */
static inline void page_spun(uint64_t ns)
{
	page_add(h.spun[page_time_bucket(ns, PAGE_SPUN)], 1);
}

static inline void page_slept(uint64_t ns)
{
	page_add(sleep_ns, ns);
	page_add(slept[page_time_bucket(ns, PAGE_SLEPT)], 1);
}

/*
 * Append one JSON line with these counters to `path` (LIBSDP_STATS_FILE): one
 * write with O_APPEND|O_NOFOLLOW. Async-signal-safe. 0 or negative errno.
 */
int page_append_json(const char *path, const struct page_counters *c);

/*
 * Readers (sdpstat): a private copy of a page, checked: a regular file of the
 * right size, magic and version, writable by its owner alone, whose id as seen
 * from here becomes `uid`, strings terminated. Rows that are free, or were
 * being written, have fd -1; `rows` ends behind the last that is not, and so
 * does the memory. munmap() it with `len`. NULL and errno on failure (EPROTO:
 * unsound content).
 */
struct page *page_map(const char *path, size_t *len);

/* The counters of a page, those of its rows in use included. */
void page_totals(const struct page *p, uint32_t rows, struct page_counters *c);

/* Start time of a process as in its page; 0: there is none, or it has ended. */
uint64_t page_start_time(int pid);
/* The process namespace of this process as in its page. */
uint64_t page_pidns(void);

#endif
