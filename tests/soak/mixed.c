/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * mixed.c - the watch over server and workers (mixed.h)
 *
 * mixed [-s SEED] [-r ROUND] [-t SECONDS] [-w WORKERS] [-q SECONDS]
 *       [-x BITS] [-L SECONDS] [-F FOLDER] [-l PORT | -c HOST:PORT]
 *   -s  what is drawn; shown when it begins
 *   -r  the round that each worker begins with
 *   -q  so often all of it pauses, and what the processes use is compared
 *   -x  without some deeds, kills, stops (WITHOUT_KILLS); at both ends alike
 *   -L  an end that has moved nothing for so long hangs (60)
 *   -F  names in that folder are counted, too
 *   -l  only the server, until SIGTERM
 *   -c  only the workers
 * Exit: 0, or 1 and everything that is known of both ends on stderr. All output
 * goes there.
 */
#include "mixed.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TELL_S = 15, TICK_MS = 20, STILL_MS = 500 };

struct board *board;
int board_fd;
const char *self;

static pid_t kids[MAX_WORKERS + 1];
static int n_kids;
static unsigned int seconds = 60, quiet_s = 20, hang_s = 60;
static bool only_server, only_workers;
static volatile sig_atomic_t asked;

static void on_term(int sig)
{
	(void)sig;
	asked = 1;
}

/* --- what is said --------------------------------------------------------- */

static void tell_slot(const struct slot *o)
{
	bool server = o - board->slot < POOL;

	fprintf(stderr,
		"mixed: %s's end of worker %u, round %u, connection %u, key %#llx:"
		" %s for %.1f s in process %d, thread %d; step %u, sent %llu, "
		"received %llu, way %u, wait %u, deed %u\n",
		server ? "server" : "client", o->worker, o->round, o->conn,
		(unsigned long long)o->key,
		o->doing < DOINGS ? doing_names[o->doing] : "?",
		(double)(now_ns() - o->since) / 1e9, o->pid, o->tid, o->step,
		(unsigned long long)o->tx, (unsigned long long)o->rx,
		o->how & 0xff, o->how >> 8 & 0xff, o->how >> 16);
}

/* Stacks and descriptors, as far as there are programs that show them. */
static void tell_process(int pid, int tid)
{
	char line[768];

	snprintf(line, sizeof(line),
		 "exec >&2; unset LD_PRELOAD; "
		 "grep -H . /proc/%d/task/*/comm; ls -l /proc/%d/fd; "
		 "ss -tnp 2>/dev/null | grep 'pid=%d,'; "
		 "sdpstat -p %d 2>/dev/null; sdpstat --log %d 2>/dev/null | "
		 "tail -n 60; "
		 "timeout 30 gdb -p %d -batch -ex 'thread apply all bt' "
		 "2>/dev/null | grep -E '^(#|Thread)' | "
		 "sed -n '/LWP %d/,/^Thread/p;/sdp/,/^Thread/p'",
		 pid, pid, pid, pid, pid, pid, tid);
	fprintf(stderr, "mixed: process %d:\n", pid);
	if (system(line))
		fprintf(stderr, "mixed: (no more is known of it)\n");
}

static void tell_ends(const struct slot *bad)
{
	uint32_t i;

	for (i = 0; i < SLOTS; i++) {
		const struct slot *o = &board->slot[i];

		if (!o->since || o->key != bad->key)
			continue;
		tell_slot(o);
		tell_process(o->pid, o->tid);
	}
	fprintf(stderr, "mixed: all others:\n");
	for (i = 0; i < SLOTS; i++)
		if (board->slot[i].since && board->slot[i].key != bad->key)
			tell_slot(&board->slot[i]);
}

static void tell_counts(const char *when)
{
	fprintf(stderr, "mixed: %s:", when);
#define X(name)                            \
	fprintf(stderr, " %s %llu", #name, \
		(unsigned long long)board->count.name);
	COUNTS(X)
#undef X
	fprintf(stderr, "\n");
}

static void end_all(void)
{
	int i;

	/* All else dies with its parent. */
	for (i = 0; i < n_kids; i++)
		if (kids[i])
			kill(kids[i], SIGKILL);
	exit(1);
}

/* --- what is watched ------------------------------------------------------ */

static void watch_children(void)
{
	int status, i;
	pid_t pid = waitpid(-1, &status, WNOHANG);

	if (pid <= 0)
		return;
	for (i = 0; i < n_kids; i++)
		if (kids[i] == pid)
			kids[i] = 0;
	if (!status && __atomic_load_n(&board->stop, __ATOMIC_ACQUIRE))
		return;
	fprintf(stderr, "mixed: WRONG: process %d ended with %#x\n", pid,
		(unsigned int)status);
	end_all();
}

static void watch_ends(void)
{
	uint32_t i, bad = __atomic_load_n(&board->failed, __ATOMIC_ACQUIRE);
	uint64_t now = now_ns();

	if (bad) {
		tell_ends(&board->slot[bad - 1]);
		end_all();
	}
	for (i = 0; i < SLOTS; i++) {
		const struct slot *o = &board->slot[i];
		uint64_t since = __atomic_load_n(&o->since, __ATOMIC_ACQUIRE);

		if (!since || now < since + hang_s * 1000000000ull)
			continue;
		fprintf(stderr,
			"mixed: WRONG: no progress for %u s, seed %llu\n",
			hang_s, (unsigned long long)board->seed);
		tell_ends(o);
		end_all();
	}
}

static void tick(void)
{
	nap_ms(TICK_MS);
	watch_children();
	watch_ends();
}

/* One of the processes that stay stands still for a while. */
static void stop_one(uint64_t *state)
{
	uint32_t i = (uint32_t)(draw(state) % board->lives);
	unsigned int ms = 50 + (unsigned int)(draw(state) % 450);

	if (kill(board->life[i].pid, SIGSTOP))
		return;
	COUNT(stops, 1);
	nap_ms(ms);
	kill(board->life[i].pid, SIGCONT);
}

static bool all_idle(void)
{
	uint32_t i;

	for (i = 0; !only_server && i < board->workers; i++)
		if (!__atomic_load_n(&board->idle[i], __ATOMIC_ACQUIRE))
			return false;
	for (i = 0; i < SLOTS; i++)
		if (__atomic_load_n(&board->slot[i].since, __ATOMIC_ACQUIRE))
			return false;
	return true;
}

/* Nothing is open, and has not been for a while. */
static bool is_still(void)
{
	int ms;

	for (ms = 0; ms < STILL_MS; ms += TICK_MS) {
		tick();
		if (!all_idle())
			return false;
	}
	return true;
}

static void compare(void)
{
	if (account_flat()) {
		account_show();
		return;
	}
	account_show();
	end_all();
}

/* Workers rest. A server on another machine sees that nothing is open. */
static void rest_all(void)
{
	uint64_t end = now_ns() + 2000000000ull;

	__atomic_store_n(&board->pause, 1, __ATOMIC_RELEASE);
	while (!is_still())
		;
	compare();
	while (only_workers && now_ns() < end)
		tick();
	__atomic_store_n(&board->pause, 0, __ATOMIC_RELEASE);
}

static void watch(void)
{
	uint64_t begin = now_ns(), told = begin, quiet = begin, now;
	uint64_t state = mix(board->seed, 77), next = begin;

	while (!asked) {
		tick();
		now = now_ns();
		if (!only_server && now - begin > seconds * 1000000000ull)
			break;
		if (now - told > TELL_S * 1000000000ull) {
			tell_counts("so far");
			told = now;
		}
		if (now > next) {
			if (next != begin && !(board->without & WITHOUT_STOPS))
				stop_one(&state);
			next = now_ns() + (1 + draw(&state) % 4) * 1000000000u;
		}
		if (now - quiet > quiet_s * 1000000000ull &&
		    (!only_server || is_still())) {
			if (only_server)
				compare();
			else
				rest_all();
			quiet = now_ns();
		}
	}
}

/* --- begin and end -------------------------------------------------------- */

static void start(int lfd, uint32_t worker, const struct where *w,
		  uint32_t round)
{
	pid_t pid = fork();

	if (pid < 0) {
		perror("mixed: fork");
		end_all();
	}
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGTERM, SIG_IGN);
		if (lfd >= 0 && !w)
			exit(serve(lfd));
		if (lfd >= 0)
			close(lfd);
		exit(work(worker, w, round));
	}
	kids[n_kids++] = pid;
}

static int listener(uint16_t *port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6,
				  .sin6_port = htons(*port) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 128) ||
	    getsockname(fd, (struct sockaddr *)&a, &len)) {
		perror("mixed: listener");
		exit(2);
	}
	*port = ntohs(a.sin6_port);
	return fd;
}

/* Of kids[], those from `first` on. */
static void await_kids(int first)
{
	int i, left = 1;

	while (left) {
		tick();
		for (left = 0, i = first; i < n_kids; i++)
			left += kids[i] != 0;
	}
}

/* The server stays until nobody calls it any more. */
static void all_end(void)
{
	__atomic_store_n(&board->stop, 1, __ATOMIC_RELEASE);
	await_kids(only_workers ? 0 : 1);
	__atomic_store_n(&board->stop, 2, __ATOMIC_RELEASE);
	await_kids(0);
}

static int verdict(void)
{
	tell_counts("done");
	if (board->count.nameless > board->count.kills * CONNS &&
	    !only_server) {
		fprintf(stderr, "mixed: WRONG: clients that said nothing\n");
		return 1;
	}
	if (!board->count.bytes) {
		fprintf(stderr, "mixed: WRONG: nothing was moved\n");
		return 1;
	}
	/* the stops of another machine are not counted here */
	if (!only_workers &&
	    board->count.refused >
		    1 + board->count.stops / 10 +
			    (board->count.passes + board->count.options) /
				    1000) {
		fprintf(stderr, "mixed: WRONG: refused too often\n");
		return 1;
	}
	return 0;
}

static bool options(int argc, char **argv, struct where *w, uint32_t *round)
{
	char *colon;
	int c;

	while ((c = getopt(argc, argv, "s:r:t:w:q:x:L:F:l:c:")) != -1) {
		if (c == 's')
			board->seed = strtoull(optarg, NULL, 0);
		else if (c == 'r')
			*round = (uint32_t)atol(optarg);
		else if (c == 't')
			seconds = (unsigned int)atoi(optarg);
		else if (c == 'w')
			board->workers = (uint32_t)atoi(optarg);
		else if (c == 'q')
			quiet_s = (unsigned int)atoi(optarg);
		else if (c == 'x')
			board->without = (uint32_t)strtoul(optarg, NULL, 0);
		else if (c == 'L')
			hang_s = (unsigned int)atoi(optarg);
		else if (c == 'F')
			files_dir = optarg;
		else if (c == 'l') {
			only_server = true;
			w->port = (uint16_t)atoi(optarg);
		} else if (c == 'c' && (colon = strchr(optarg, ':'))) {
			only_workers = true;
			*colon = 0;
			w->host = optarg;
			w->port = (uint16_t)atoi(colon + 1);
		} else {
			return false;
		}
	}
	return optind == argc && board->workers >= 1 &&
	       board->workers <= MAX_WORKERS && seconds && quiet_s && hang_s;
}

static const char *program(void)
{
	static char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	return n > 0 ? path : NULL;
}

int main(int argc, char **argv)
{
	struct where to = { NULL, 0 };
	uint32_t round = 0, i;
	int lfd = -1;

	signal(SIGPIPE, SIG_IGN);
	/* Else each thread comes to one of its own, some day. */
	mallopt(M_ARENA_MAX, 1);
	self = program();
	if (argc == 5 && !strcmp(argv[1], "-X"))
		return go_on(argv[2], argv[3], argv[4]);
	board_fd = memfd_create("board", MFD_CLOEXEC);
	if (!self || board_fd < 0 || ftruncate(board_fd, sizeof(*board)) ||
	    !board_map(board_fd)) {
		perror("mixed: no memory");
		return 2;
	}
	board->seed = (uint64_t)time(NULL) * 1000 + (uint64_t)getpid() % 1000;
	board->workers = 4;
	if (!options(argc, argv, &to, &round)) {
		fprintf(stderr, "mixed: see the comment in front of mixed.c\n");
		return 2;
	}
	signal(SIGTERM, on_term);
	fprintf(stderr, "mixed: seed %llu, from round %u on, %u workers\n",
		(unsigned long long)board->seed, round, board->workers);
	if (!only_workers) {
		lfd = listener(&to.port);
		start(lfd, 0, NULL, 0);
	}
	for (i = 0; i < board->workers && !only_server; i++)
		start(lfd, i, &to, round);
	if (lfd >= 0)
		close(lfd);
	while (!__atomic_load_n(&board->lives, __ATOMIC_ACQUIRE))
		tick();
	watch();
	all_end();
	return verdict();
}
