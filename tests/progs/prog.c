/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "prog.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum peer_kind { PEER_FORK, PEER_THREAD, PEER_EXEC, PEER_PLAIN, PEER_NODE };

unsigned int prog_scale = 1;
const char *prog_self;
bool prog_plain_peer;
bool prog_far;

static char self_path[4096];
static enum peer_kind opt_peer = PEER_FORK;
static unsigned int opt_warm = 100;
static bool opt_reverse;
static bool opt_v6;
static bool opt_verbose;
static bool opt_list;
static int opt_ctl = -1; /* -P: this process is a peer */
static char opt_where[64]; /* -p node: the peer's -P */
static const char *running = "?";

void prog_fail(const char *file, int line, const char *what)
{
	int err = errno;

	fprintf(stderr, "%s:%d: [%s/%s pid %d] %s (errno %d %s)\n", file, line,
		running, opt_ctl >= 0 ? "peer" : "any", (int)getpid(), what,
		err, strerror(err));
	_exit(1);
}

void prog_bits(const char *file, int line, const char *what, int got, int want)
{
	char text[200];

	if (got == want)
		return;
	snprintf(text, sizeof(text), "%s is 0x%x, not 0x%x", what,
		 (unsigned int)got, (unsigned int)want);
	prog_fail(file, line, text);
}

/* --- small things ------------------------------------------------------ */

uint32_t prog_rand(uint32_t *state)
{
	uint32_t x = *state ? *state : 0x9e3779b9u;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	*state = x;
	return x;
}

int64_t prog_now_ms(void)
{
	struct timespec ts;

	CHECK(!clock_gettime(CLOCK_MONOTONIC, &ts));
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

char prog_state(pid_t pid)
{
	char path[64], line[512], *name_end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	CHECK(f && fgets(line, sizeof(line), f));
	fclose(f);
	name_end = strrchr(line, ')');
	CHECK(name_end);
	return name_end[2];
}

void prog_not_here(int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
}

void prog_nap_ms(unsigned int ms)
{
	struct timespec ts = { .tv_sec = ms / 1000,
			       .tv_nsec = (long)(ms % 1000) * 1000000 };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

void prog_asleep(pid_t tid, unsigned int ms)
{
	char path[64], line[512], *name_end;
	unsigned int slept = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	while (slept < ms) {
		prog_nap_ms(5);
		f = fopen(path, "re");
		CHECK(f && fgets(line, sizeof(line), f));
		fclose(f);
		name_end = strrchr(line, ')');
		slept = name_end && name_end[2] == 'S' ? slept + 5 : 0;
	}
}

void prog_nonblock(int fd, bool on)
{
	int fl = fcntl(fd, F_GETFL);

	CHECK(fl >= 0);
	fl = on ? fl | O_NONBLOCK : fl & ~O_NONBLOCK;
	CHECK(!fcntl(fd, F_SETFL, fl));
}

int prog_port(const struct sockaddr_storage *ss)
{
	if (ss->ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)ss)->sin6_port);
	return ntohs(((const struct sockaddr_in *)ss)->sin_port);
}

const char *prog_sibling(const char *name, char *buf, size_t size)
{
	const char *slash = strrchr(prog_self, '/');
	int n = snprintf(buf, size, "%.*s/%s", (int)(slash - prog_self),
			 prog_self, name);

	CHECK(n > 0 && (size_t)n < size);
	return buf;
}

void prog_reap(pid_t pid, int status)
{
	pid_t got;
	int st;

	do
		got = waitpid(pid, &st, 0);
	while (got < 0 && errno == EINTR);
	CHECK(got == pid);
	CHECK(WIFEXITED(st));
	CHECK(WEXITSTATUS(st) == status);
}

void prog_child(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		_exit(0);
	prog_reap(pid, 0);
}

size_t prog_held(size_t n)
{
	return prog_far ? n / 50 : n; /* no window grows before a read */
}

/* --- ctl: the order of steps ------------------------------------------- */

void prog_tell(struct end *e, uint64_t v)
{
	ssize_t n;

	do
		n = send(e->ctl, &v, sizeof(v), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	CHECK(n == (ssize_t)sizeof(v));
}

uint64_t prog_hear(struct end *e)
{
	uint64_t v;
	ssize_t n;

	do
		n = recv(e->ctl, &v, sizeof(v), MSG_WAITALL);
	while (n < 0 && errno == EINTR);
	CHECK(n == (ssize_t)sizeof(v));
	return v;
}

void prog_feed(struct end *e)
{
	uint64_t n;

	while ((n = prog_hear(e))) {
		link_put(&e->l, (size_t)n);
		prog_tell(e, n);
	}
}

void prog_ask(struct end *e, size_t n)
{
	prog_tell(e, n);
	CHECK(prog_hear(e) == n);
}

void prog_sync(struct end *e)
{
	prog_tell(e, 0x5a);
	CHECK(prog_hear(e) == 0x5a);
}

/* --- connections ------------------------------------------------------- */

static void end_listen(struct end *e)
{
	struct sockaddr_in6 *a6 = (struct sockaddr_in6 *)&e->addr;
	struct sockaddr_in *a4 = (struct sockaddr_in *)&e->addr;

	memset(&e->addr, 0, sizeof(e->addr));
	if (prog_far) {
		node_address(&e->addr, opt_v6);
		e->addrlen = opt_v6 ? sizeof(*a6) : sizeof(*a4);
	} else if (opt_v6) {
		a6->sin6_family = AF_INET6;
		a6->sin6_addr = in6addr_loopback;
		e->addrlen = sizeof(*a6);
	} else {
		a4->sin_family = AF_INET;
		a4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		e->addrlen = sizeof(*a4);
	}
	e->lfd = socket(e->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(e->lfd >= 0);
	CHECK(!bind(e->lfd, (struct sockaddr *)&e->addr, e->addrlen));
	CHECK(!listen(e->lfd, 64));
	CHECK(!getsockname(e->lfd, (struct sockaddr *)&e->addr, &e->addrlen));
}

static void end_meet(struct end *e)
{
	ssize_t n;

	e->lfd = -1;
	if (e->peer == opt_reverse) {
		end_listen(e);
		n = send(e->ctl, &e->addr, sizeof(e->addr), MSG_NOSIGNAL);
	} else {
		n = recv(e->ctl, &e->addr, sizeof(e->addr), MSG_WAITALL);
		e->addrlen = e->addr.ss_family == AF_INET6 ?
				     sizeof(struct sockaddr_in6) :
				     sizeof(struct sockaddr_in);
	}
	CHECK(n == (ssize_t)sizeof(e->addr));
}

static void link_init(struct link *l, int fd, bool peer)
{
	memset(l, 0, sizeof(*l));
	l->fd = fd;
	l->tx.seed = peer ? 2 : 1;
	l->rx.seed = peer ? 1 : 2;
}

static void link_make(struct end *e, struct link *l)
{
	int one = 1;
	int fd;

	if (e->lfd >= 0) {
		do
			fd = accept4(e->lfd, NULL, NULL, SOCK_CLOEXEC);
		while (fd < 0 && errno == EINTR);
		CHECK(fd >= 0);
	} else {
		fd = socket(e->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		CHECK(fd >= 0);
		CHECK(!connect(fd, (struct sockaddr *)&e->addr, e->addrlen));
	}
	CHECK(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	link_init(l, fd, e->peer);
}

void prog_link(struct end *e, struct link *l)
{
	link_make(e, l);
	prog_warm(l, !e->peer, opt_warm);
}

void link_bare(struct end *e)
{
	link_make(e, &e->l);
}

void link_self(struct link *a, struct link *b, unsigned int rounds)
{
	struct end e = { .ctl = -1 };
	unsigned int i;
	int one = 1;
	int fd;

	end_listen(&e);
	fd = socket(e.addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	CHECK(!connect(fd, (struct sockaddr *)&e.addr, e.addrlen));
	link_init(a, fd, false);
	fd = accept4(e.lfd, NULL, NULL, SOCK_CLOEXEC);
	CHECK(fd >= 0);
	link_init(b, fd, true);
	CHECK(!setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	CHECK(!setsockopt(b->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	CHECK(!close(e.lfd));
	for (i = 0; i < (rounds ? rounds : opt_warm); i++) {
		link_put(a, 1 + i % 61);
		link_get(b, 1 + i % 61);
		link_put(b, 1 + i % 61);
		link_get(a, 1 + i % 61);
	}
}

/* --- running cases ----------------------------------------------------- */

struct peer_arg {
	const struct prog_case *c;
	int ctl;
};

static void peer_run(const struct prog_case *c, int ctl)
{
	struct end e = { .ctl = ctl, .lfd = -1, .peer = true };

	e.l.fd = -1;
	end_meet(&e);
	if (!(c->flags & CASE_BARE))
		prog_link(&e, &e.l);
	c->peer(&e);
	if (e.l.fd >= 0)
		link_close(&e.l);
	if (e.lfd >= 0)
		close(e.lfd);
}

static void *peer_thread(void *arg)
{
	const struct peer_arg *p = arg;

	peer_run(p->c, p->ctl);
	return NULL;
}

static void peer_exec(const struct prog_case *c, int ctl)
{
	char ctlbuf[16], warm[16], scale[16];
	char *argv[16];
	int n = 0;

	snprintf(ctlbuf, sizeof(ctlbuf), "-P%d", ctl);
	snprintf(warm, sizeof(warm), "-w%u", opt_warm);
	snprintf(scale, sizeof(scale), "-n%u", prog_scale);
	argv[n++] = (char *)(uintptr_t)prog_self;
	argv[n++] = prog_far ? opt_where : ctlbuf;
	argv[n++] = warm;
	argv[n++] = scale;
	if (opt_reverse)
		argv[n++] = (char *)(uintptr_t) "-r";
	if (opt_v6)
		argv[n++] = (char *)(uintptr_t) "-6";
	if (prog_home == HOME_PASS)
		argv[n++] = (char *)(uintptr_t) "-Hpass";
	if (prog_home == HOME_EXEC)
		argv[n++] = (char *)(uintptr_t) "-Hexec";
	if (prog_home == HOME_FORK)
		argv[n++] = (char *)(uintptr_t) "-Hfork";
	argv[n++] = (char *)(uintptr_t)c->name;
	argv[n] = NULL;
	if (prog_far)
		node_exec(argv);
	if (opt_peer == PEER_PLAIN)
		unsetenv("LD_PRELOAD");
	CHECK(!fcntl(ctl, F_SETFD, 0));
	execv(prog_self, argv);
	prog_fail(__FILE__, __LINE__, "execv");
}

static pid_t peer_start(const struct prog_case *c, int ctl, int other)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	CHECK(!prctl(PR_SET_PDEATHSIG, SIGKILL));
	close(other);
	if (opt_peer != PEER_FORK && opt_peer != PEER_THREAD)
		peer_exec(c, ctl);
	peer_run(c, ctl);
	exit(0);
}

static void case_finish(const struct prog_case *c, struct end *e)
{
	int st;

	if (e->l.fd >= 0)
		link_close(&e->l);
	if (e->lfd >= 0)
		close(e->lfd);
	if (!e->pid)
		return;
	while (waitpid(e->pid, &st, 0) < 0)
		CHECK(errno == EINTR);
	if (c->flags & CASE_DIES)
		return;
	CHECK(WIFEXITED(st));
	CHECK(WEXITSTATUS(st) == 0);
}

static void case_run(const struct prog_case *c)
{
	struct end e = { .name = c->name, .ctl = -1, .lfd = -1 };
	struct peer_arg pa = { .c = c };
	bool thread = opt_peer == PEER_THREAD && !(c->flags & CASE_PROCESS);
	int lfd = -1;
	pthread_t t;
	int sv[2];

	running = c->name;
	if (opt_verbose)
		fprintf(stderr, "start %s\n", c->name);
	e.l.fd = -1;
	if (c->flags & CASE_SOLO) {
		c->run(&e);
		return;
	}
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	e.ctl = sv[0];
	if (thread) {
		pa.ctl = sv[1];
		CHECK(!pthread_create(&t, NULL, peer_thread, &pa));
	} else {
		if (prog_far)
			lfd = node_listen(opt_where, sizeof(opt_where));
		e.pid = peer_start(c, sv[1], sv[0]);
		CHECK(!close(sv[1]));
	}
	if (prog_far) {
		CHECK(!close(sv[0]));
		sv[0] = e.ctl = node_accept(lfd);
	}
	end_meet(&e);
	if (!(c->flags & CASE_BARE))
		prog_link(&e, &e.l);
	c->run(&e);
	case_finish(c, &e);
	if (thread) {
		CHECK(!pthread_join(t, NULL));
		CHECK(!close(sv[1]));
	}
	CHECK(!close(sv[0]));
}

static void usage(const struct prog_case *cases, size_t n)
{
	size_t i;

	fprintf(stderr,
		"usage: %s [-p fork|thread|exec|plain|node]"
		" [-H pass|exec|fork] [-w ROUNDS] [-n SCALE] [-r] [-6] [-v]"
		" [CASE]...\n"
		"       %s -l\ncases:",
		prog_self, prog_self);
	for (i = 0; i < n; i++)
		fprintf(stderr, " %s", cases[i].name);
	fprintf(stderr, "\n");
	_exit(2);
}

static int option_word(const char *arg, const char *const *words)
{
	int i;

	for (i = 0; words[i]; i++)
		if (!strcmp(arg, words[i]))
			return i;
	return -1;
}

/* Returns the index of the first case name, or -1. */
static int options(int argc, char **argv)
{
	static const char *const peers[] = { "fork",  "thread", "exec",
					     "plain", "node",	NULL };
	static const char *const homes[] = { "none", "pass", "exec", "fork",
					     NULL };
	int c, w;

	while ((c = getopt(argc, argv, "lp:H:w:n:r6vP:")) != -1) {
		switch (c) {
		case 'p':
			w = option_word(optarg, peers);
			if (w < 0)
				return -1;
			opt_peer = (enum peer_kind)w;
			prog_plain_peer = opt_peer == PEER_PLAIN;
			prog_far = opt_peer == PEER_NODE;
			break;
		case 'H':
			w = option_word(optarg, homes);
			if (w < 0)
				return -1;
			prog_home = (enum home_kind)w;
			break;
		case 'w':
			opt_warm = (unsigned int)atoi(optarg);
			break;
		case 'n':
			prog_scale = (unsigned int)atoi(optarg);
			break;
		case 'r':
			opt_reverse = true;
			break;
		case '6':
			opt_v6 = true;
			break;
		case 'v':
			opt_verbose = true;
			break;
		case 'l':
			opt_list = true;
			break;
		case 'P':
			prog_far = strchr(optarg, ':');
			opt_ctl = prog_far ? node_call(optarg) : atoi(optarg);
			break;
		default:
			return -1;
		}
	}
	return optind;
}

static bool wanted(const char *name, int argc, char **argv, int first)
{
	int i;

	for (i = first; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return first == argc;
}

int prog_main(int argc, char **argv, const struct prog_case *cases, size_t n)
{
	ssize_t len =
		readlink("/proc/self/exe", self_path, sizeof(self_path) - 1);
	size_t i, ran = 0;
	int first;

	CHECK(len > 0);
	prog_self = self_path;
	first = options(argc, argv);
	if (first < 0)
		usage(cases, n);
	setvbuf(stdout, NULL, _IONBF, 0);
	for (i = 0; i < n; i++) {
		if (!wanted(cases[i].name, argc, argv, first))
			continue;
		ran++;
		if (opt_list) {
			printf("%s\n", cases[i].name);
			continue;
		}
		if (opt_ctl >= 0) {
			running = cases[i].name;
			CHECK(!prctl(PR_SET_PDEATHSIG, SIGKILL));
			peer_run(&cases[i], opt_ctl);
			continue;
		}
		case_run(&cases[i]);
		printf("ok %s\n", cases[i].name);
	}
	if (!ran)
		usage(cases, n);
	return 0;
}
