/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leaks - connections of every fate, one after the other, and then nothing
 * more of them at either end: descriptors, threads, mappings, memory.
 *
 * The first part of the connections makes what a process keeps for all of
 * them (an arena, a page, libc's own); the rest may add nothing. `-n 50` is
 * 10,000 connections.
 */
#include "prog.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT	  200 /* connections for each -n */
#define ROUNDS	  12 /* enough to be lifted, with a low threshold */
#define GROWTH_KB 256 /* 9,000 connections: 29 bytes each */
#define SETTLE_MS 60000
#define SOON_MS	  2000 /* twenty times as long as it may take */
#define SLOW_MS	  1000 /* one connection; told, should the whole be too slow */

/* --- what a process has ------------------------------------------------ */

struct belongings {
	long fds, threads, maps, rss_kb;
};

static long entries(const char *path)
{
	DIR *d = opendir(path);
	long n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static long lines(const char *path)
{
	FILE *f = fopen(path, "re");
	long n = 0;
	int c;

	CHECK(f);
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

/* Not from statm, whose numbers may be off by some pages per processor. */
static long resident_kb(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	char line[256];
	long kb = -1;

	CHECK(f);
	while (kb < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "Rss: %ld", &kb);
	fclose(f);
	CHECK(kb > 0);
	return kb;
}

static struct belongings look(void)
{
	return (struct belongings){
		.fds = entries("/proc/self/fd"),
		.threads = entries("/proc/self/task"),
		.maps = lines("/proc/self/maps"),
		.rss_kb = resident_kb(),
	};
}

static bool more(const struct belongings *a, const struct belongings *b)
{
	return b->fds > a->fds || b->threads > a->threads ||
	       b->maps > a->maps || b->rss_kb > a->rss_kb + GROWTH_KB;
}

/*
 * What the process has when nothing is under way: the library's thread takes
 * its descriptors along a moment after the last connection.
 */
static struct belongings settled(const struct belongings *before)
{
	int64_t until = prog_now_ms() + SETTLE_MS;
	struct belongings now;

	if (!before)
		prog_nap_ms(1000);
	do {
		prog_nap_ms(50);
		now = look();
	} while (before && more(before, &now) && prog_now_ms() < until);
	return now;
}

/* --- fates -------------------------------------------------------------- */

/* The leader is the connecting end; both ends come by with the same fate. */
struct side {
	struct end *e;
	struct link l;
	bool leads;
};

static void short_one(struct side *s)
{
	prog_warm(&s->l, s->leads, 1);
	link_close(&s->l);
}

/* Looked for its peer, was not answered. */
static void undecided(struct side *s)
{
	prog_warm(&s->l, s->leads, 2);
	link_close(&s->l);
}

static void leader_closes(struct side *s)
{
	prog_warm(&s->l, s->leads, ROUNDS);
	if (!s->leads)
		link_eof(&s->l);
	link_close(&s->l);
}

static void other_closes(struct side *s)
{
	prog_warm(&s->l, s->leads, ROUNDS);
	if (s->leads)
		link_eof(&s->l);
	link_close(&s->l);
}

static void reset(struct side *s)
{
	struct linger now = { 1, 0 };
	char b;

	prog_warm(&s->l, s->leads, ROUNDS);
	if (s->leads)
		CHECK(!setsockopt(s->l.fd, SOL_SOCKET, SO_LINGER, &now,
				  sizeof(now)));
	else
		FAILS(read(s->l.fd, &b, 1), ECONNRESET);
	link_close(&s->l);
}

static void half_closed(struct side *s)
{
	prog_warm(&s->l, s->leads, ROUNDS);
	if (s->leads) {
		CHECK(!shutdown(s->l.fd, SHUT_WR));
		link_get(&s->l, 5000);
		link_eof(&s->l);
	} else {
		link_eof(&s->l);
		link_put(&s->l, 5000);
		CHECK(!shutdown(s->l.fd, SHUT_WR));
	}
	link_close(&s->l);
}

static void unread(struct side *s)
{
	struct pollfd p = { .fd = s->l.fd, .events = POLLIN };
	char b;

	prog_warm(&s->l, s->leads, ROUNDS);
	if (s->leads) {
		link_put(&s->l, 3000);
		CHECK(read(s->l.fd, &b, 1) <= 0);
	} else {
		CHECK(poll(&p, 1, 100000) == 1);
	}
	link_close(&s->l);
}

/* The one that `leads` is killed, in a process of its own. */
static void killed(struct side *s, bool leads)
{
	pid_t pid;
	char b;

	if (s->leads != leads) {
		prog_warm(&s->l, s->leads, ROUNDS);
		while (read(s->l.fd, &b, 1) > 0)
			;
		link_close(&s->l);
		return;
	}
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prog_warm(&s->l, s->leads, ROUNDS);
		raise(SIGKILL);
	}
	link_close(&s->l);
	CHECK(waitpid(pid, NULL, 0) == pid);
}

static void leader_killed(struct side *s)
{
	killed(s, true);
}

static void other_killed(struct side *s)
{
	killed(s, false);
}

/* Lifted in a child that ends before its parent closes. */
static void shared(struct side *s)
{
	pid_t pid;

	if (!s->leads) {
		prog_warm(&s->l, false, ROUNDS);
		link_turn(&s->l, 1, false);
		link_eof(&s->l);
		link_close(&s->l);
		return;
	}
	prog_warm(&s->l, true, ROUNDS);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		link_turn(&s->l, 1, true);
		_exit(0);
	}
	prog_reap(pid, 0);
	link_close(&s->l);
}

static void *talk(void *arg)
{
	struct side *s = arg;

	prog_warm(&s->l, s->leads, ROUNDS);
	return NULL;
}

static void in_a_thread(struct side *s)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, talk, s));
	CHECK(!pthread_join(t, NULL));
	link_close(&s->l);
}

static void in_a_set(struct side *s)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int set = epoll_create1(EPOLL_CLOEXEC), i;

	CHECK(set >= 0);
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s->l.fd, &ev));
	for (i = 0; i < ROUNDS; i++) {
		if (s->leads)
			link_put(&s->l, 10);
		CHECK(epoll_wait(set, &ev, 1, 100000) == 1);
		link_get(&s->l, 10);
		if (!s->leads)
			link_put(&s->l, 10);
	}
	if (s->leads)
		CHECK(!close(set));
	link_close(&s->l);
	if (!s->leads)
		CHECK(!close(set));
}

static void duplicated(struct side *s)
{
	int copy = dup(s->l.fd);

	CHECK(copy >= 0);
	prog_warm(&s->l, s->leads, ROUNDS);
	link_close(&s->l);
	s->l.fd = copy;
	prog_warm(&s->l, s->leads, 2);
	prog_mid(copy);
	link_close(&s->l);
}

struct fate {
	const char *name;
	void (*run)(struct side *s);
};

#define FATE(f)       \
	{             \
#f, f \
	}

static const struct fate fates[] = {
	FATE(short_one),    FATE(leader_closes), FATE(undecided),
	FATE(other_closes), FATE(reset),	 FATE(half_closed),
	FATE(unread),	    FATE(short_one),	 FATE(leader_killed),
	FATE(in_a_thread),  FATE(leader_closes), FATE(other_killed),
	FATE(in_a_set),	    FATE(duplicated),	 FATE(shared),
};

/* --- the loop ------------------------------------------------------------ */

/* For the handler of SIGTERM: how far this end has come. */
static struct {
	const char *who, *fate;
	unsigned int done;
	int64_t since, began; /* ms */
} at;

static void tell(const char *what, int64_t ms)
{
	char line[160];
	int n = snprintf(line, sizeof(line),
			 "leaks: %s: %s: connection %u, %s: %lld ms\n", at.who,
			 what, at.done, at.fate, (long long)ms);

	if (write(2, line, (size_t)n) < 0)
		return;
}

/* Too slow for the limit of the test: all of it, or one connection? */
static void out_of_time(int sig)
{
	int64_t now = prog_now_ms();

	tell("stopped in", now - at.since);
	tell("after all in all", now - at.began);
	prog_nap_ms(500); /* the peer has its say before it goes along */
	signal(sig, SIG_DFL);
	raise(sig);
}

static void connections(struct end *e, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		struct side s = { .e = e, .leads = !e->peer };
		const struct fate *fate = &fates[i % ARRAY_SIZE(fates)];
		int64_t took;

		at.since = prog_now_ms();
		at.fate = fate->name;
		prog_link(e, &s.l);
		fate->run(&s);
		took = prog_now_ms() - at.since;
		if (took > SLOW_MS)
			tell("slow", took);
		at.done++;
	}
}

static void many(struct end *e)
{
	unsigned int count = COUNT * prog_scale;
	struct belongings before, after;

	at.who = e->peer ? "peer" : "main";
	at.began = prog_now_ms();
	CHECK(signal(SIGTERM, out_of_time) != SIG_ERR);
	connections(e, count / 10);
	before = settled(NULL);
	prog_sync(e);
	connections(e, count - count / 10);
	after = settled(&before);
	prog_sync(e);
	if (!more(&before, &after))
		return;
	fprintf(stderr,
		"%s: descriptors %ld, %ld; threads %ld, %ld;"
		" mappings %ld, %ld; memory %ld, %ld KiB\n",
		e->peer ? "peer" : "main", before.fds, after.fds,
		before.threads, after.threads, before.maps, after.maps,
		before.rss_kb, after.rss_kb);
	prog_fail(__FILE__, __LINE__, "something was left behind");
}

/* Shared mappings of files without a name. */
static long segments(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	long n = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, " /memfd:") != NULL;
	fclose(f);
	return n;
}

/* The last ones that were closed go soon, too, though others stay open. */
static void some(struct end *e)
{
	struct link stays[2], goes[3][2];
	int64_t until;
	long before;
	size_t i;

	(void)e;
	link_self(&stays[0], &stays[1], 0);
	before = segments();
	for (i = 0; i < ARRAY_SIZE(goes); i++)
		link_self(&goes[i][0], &goes[i][1], 0);
	for (i = 0; i < ARRAY_SIZE(goes); i++) {
		link_close(&goes[i][0]);
		link_close(&goes[i][1]);
	}
	until = prog_now_ms() + SOON_MS;
	while (segments() > before) {
		CHECK(prog_now_ms() < until);
		prog_nap_ms(10);
	}
	link_close(&stays[0]);
	link_close(&stays[1]);
}

static const struct prog_case cases[] = {
	{ "many", many, many, CASE_BARE | CASE_PROCESS },
	{ "some", some, NULL, CASE_BARE | CASE_SOLO },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
