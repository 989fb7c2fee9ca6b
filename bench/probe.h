/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BENCH_PROBE_H
#define LIBSDP_BENCH_PROBE_H

/*
 * What the probes share: options, pairs of processes joined by one or many
 * stream sockets, results. A probe is a stranger to the library: it runs the
 * same with and without, and prints one line of JSON to stdout.
 *
 * Each end of a pair is a process of its own, forked before it has a socket,
 * and ends by exit(), so that the library's statistics see both. Any error
 * ends the probe with status 1 and a line on stderr.
 */

#include <stddef.h>
#include <stdint.h>

struct options {
	size_t size; /* -s bytes of a message */
	double secs; /* -t measured time */
	int pairs; /* -j pairs of processes */
	int conns; /* -c active connections of each pair */
	int idle; /* -i idle connections of each pair */
	int cpu[2]; /* -a, -b processor of server and client; -1: any */
	int local; /* -u a unix socket instead of TCP */
	int ask; /* -q the reader asks for each message with a byte */
};

extern struct options opt; /* defaults, changed by probe_options() */

/* What one end has measured; shared between the processes of a probe. */
struct result {
	double secs; /* of the measured window */
	uint64_t messages, bytes; /* in the window, one way */
	uint64_t all; /* messages of the whole life, one way */
	uint64_t switches; /* context switches of the whole life */
	double used; /* processor seconds of the whole life */
	double cpu; /* processor seconds in the window */
	uint64_t pss, shmem; /* bytes at the end of the window */
	uint64_t maps, space, fds; /* mappings, their bytes, descriptors */
	int done; /* the window is over: probe_done() */
};

enum end { SERVER, CLIENT };

/* One end's view of its pair. */
struct pair {
	enum end end;
	int index;
	int listener; /* server: listening; client: -1 */
	int port; /* of the listener, host order */
	int local[2]; /* -u: the ends of a socket pair, else -1 */
	struct result *result, *peer; /* one's own, the other end's */
};

void probe_options(int argc, char **argv);
void probe_die(const char *what) __attribute__((noreturn)); /* says errno */
double probe_now(void); /* seconds, monotonic */
void probe_pin(int cpu); /* this process; -1: leave it */

/*
 * Run both ends of `opt.pairs` pairs; returns in the first process, when all
 * have ended well, with [pair][end] in shared memory.
 */
typedef void probe_fn(struct pair *p);
struct result (*probe_run(probe_fn *server, probe_fn *client))[2];
/* Wait until every process of the probe has come here. */
void probe_meet(void);
/* This end's window is over; and whether the other's is. */
void probe_done(struct pair *p);
int probe_peer_done(const struct pair *p);

/* The one connection of a pair: blocking, TCP_NODELAY. */
int probe_stream(struct pair *p);
/*
 * `n` connections in the same order at both ends, each warmed with so many
 * round trips of one byte that a library which lifts after eight messages has
 * reason to; then a second turn over all of them: a lift takes its time.
 */
int *probe_pool(struct pair *p, int n);

void probe_put(int fd, const void *buf, size_t n);
/* 1, or 0 at the end of the stream before the first byte. */
int probe_get(int fd, void *buf, size_t n);
/* A touched buffer of `n` bytes on pages of its own. */
void *probe_buffer(size_t n);

#endif
