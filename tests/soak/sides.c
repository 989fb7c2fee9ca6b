/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sides.c - the server with its threads, and the workers */
#include "mixed.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static bool stopping(uint32_t what)
{
	return __atomic_load_n(&board->stop, __ATOMIC_ACQUIRE) >= what;
}

static void begin(struct side *s, enum doing what)
{
	struct slot *o = &board->slot[s->at];

	o->pid = getpid();
	o->tid = gettid();
	o->worker = s->h.worker;
	o->round = s->h.round;
	o->conn = s->h.conn;
	o->key = s->h.key;
	doing(s, what);
}

static void over(uint32_t at)
{
	board->slot[at].doing = IDLE;
	__atomic_store_n(&board->slot[at].since, 0, __ATOMIC_RELEASE);
}

static void await(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			abort();
}

/* The child of a doomed one is given so long, and is killed. */
static void doom(pid_t pid, uint64_t key)
{
	uint64_t state = mix(key, 2);

	nap_ms(draw_size(&state, 8));
	kill(pid, SIGKILL);
	await(pid);
	COUNT(kills, 1);
}

/* --- the server ----------------------------------------------------------- */

struct pool_thread {
	pthread_t t;
	int lfd, via;
	uint32_t at;
};

/* A client that is killed may say nothing. */
static bool hear(struct side *s)
{
	size_t got = 0;
	ssize_t r;

	while (got < sizeof(s->h)) {
		r = read(s->fd, (char *)&s->h + got, sizeof(s->h) - got);
		if (r < 0 && errno == EINTR)
			continue;
		if (!r || (r < 0 && errno == ECONNRESET))
			return false;
		if (r < 0)
			wrong(s, "the key cannot be read", errno);
		got += (size_t)r;
	}
	if (s->h.magic != HELLO)
		wrong(s, "no key", (long)s->h.magic);
	return true;
}

static void serve_doomed(struct side *s)
{
	pid_t pid = fork();

	if (pid < 0)
		wrong(s, "fork", errno);
	if (!pid) {
		child_only(s->fd);
		begin(s, ACCEPTED);
		tools_pipes(s->tools);
		s->aide = -1;
		s->forked = 1;
		side_run(s);
		_exit(0);
	}
	if (close(s->fd))
		wrong(s, "close", errno);
	doom(pid, s->h.key);
}

static void serve_one(struct side *s)
{
	struct plan p;

	begin(s, ACCEPTED);
	if (!hear(s)) {
		close(s->fd);
		COUNT(nameless, 1);
		return;
	}
	begin(s, ACCEPTED);
	plan_of(&s->h, &p);
	if (p.dies == SERVER_DIES)
		serve_doomed(s);
	else
		side_run(s);
}

static void *serve_thread(void *arg)
{
	struct pool_thread *p = arg;
	struct tools tools;
	struct side s;

	tools_make(&tools);
	for (;;) {
		memset(&s, 0, sizeof(s));
		s.server = 1;
		s.at = p->at;
		s.aide = p->via;
		s.tools = &tools;
		s.fd = accept4(p->lfd, NULL, NULL,
			       p->at % 2 ? SOCK_CLOEXEC : 0);
		if (s.fd < 0 && stopping(2))
			break;
		if (s.fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (s.fd < 0)
			wrong(&s, "accept", errno);
		serve_one(&s);
		over(p->at);
	}
	tools_free(&tools);
	return NULL;
}

int serve(int lfd)
{
	uint32_t n = (board->workers + 1) * CONNS, i;
	struct pool_thread *p = calloc(n, sizeof(*p));
	int via[POOL];
	pid_t pid;

	if (!p || n > POOL)
		abort();
	stays("server");
	pid = aide_start("server's aide", (int)n, via);
	for (i = 0; i < n; i++) {
		p[i].lfd = lfd;
		p[i].via = via[i];
		p[i].at = i;
		if (pthread_create(&p[i].t, NULL, serve_thread, &p[i]))
			abort();
	}
	while (!stopping(2))
		nap_ms(20);
	shutdown(lfd, SHUT_RDWR);
	for (i = 0; i < n; i++) {
		pthread_join(p[i].t, NULL);
		close(p[i].via);
	}
	await(pid);
	free(p);
	return 0;
}

/* --- a worker ------------------------------------------------------------- */

struct conn {
	pthread_t t;
	struct side s;
	const struct where *to;
	bool v6, waits;
};

static socklen_t address(const struct conn *c, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *a6 = (struct sockaddr_in6 *)ss;
	struct sockaddr_in *a4 = (struct sockaddr_in *)ss;

	memset(ss, 0, sizeof(*ss));
	if (c->v6 && !c->to->host) {
		a6->sin6_family = AF_INET6;
		a6->sin6_addr = in6addr_loopback;
		a6->sin6_port = htons(c->to->port);
		return sizeof(*a6);
	}
	a4->sin_family = AF_INET;
	a4->sin_port = htons(c->to->port);
	if (inet_pton(AF_INET, c->to->host ? c->to->host : "127.0.0.1",
		      &a4->sin_addr) != 1)
		abort();
	return sizeof(*a4);
}

static void call(struct conn *c)
{
	struct sockaddr_storage ss;
	socklen_t len = address(c, &ss);
	struct side *s = &c->s;
	struct pollfd p = { .events = POLLOUT };
	int err = 0;

	s->fd = socket(ss.ss_family,
		       SOCK_STREAM | (s->h.key % 4 ? SOCK_CLOEXEC : 0) |
			       (c->waits ? SOCK_NONBLOCK : 0),
		       0);
	if (s->fd < 0)
		wrong(s, "socket", errno);
	if (connect(s->fd, (struct sockaddr *)&ss, len)) {
		if (!c->waits || errno != EINPROGRESS)
			wrong(s, "connect", errno);
		p.fd = s->fd;
		while (poll(&p, 1, -1) < 0 && errno == EINTR)
			;
		len = sizeof(err);
		getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &len);
		if (err)
			wrong(s, "connect, later", err);
	}
}

static void *conn_thread(void *arg)
{
	struct conn *c = arg;
	struct side *s = &c->s;
	struct plan p;
	ssize_t r;

	begin(s, CONNECTING);
	call(c);
	r = send(s->fd, &s->h, sizeof(s->h), MSG_NOSIGNAL);
	plan_of(&s->h, &p);
	if (r != (ssize_t)sizeof(s->h))
		wrong(s, "the key cannot be sent", errno);
	side_run(s);
	COUNT(conns, 1);
	over(s->at);
	return NULL;
}

/* What a round does; *state is its own. */
static void run_conns(struct conn *c, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (pthread_create(&c[i].t, NULL, conn_thread, &c[i]))
			abort();
	for (i = 0; i < n; i++)
		pthread_join(c[i].t, NULL);
}

/* All of it in a child that is killed. */
static void run_doomed(struct conn *c, uint32_t n, uint64_t key)
{
	pid_t pid = fork();
	uint32_t i;

	if (pid < 0)
		abort();
	if (!pid) {
		child_only(-1);
		for (i = 0; i < n; i++) {
			c[i].s.aide = -1;
			c[i].s.forked = 1;
			c[i].s.h.dies = CLIENT_DIES;
			tools_pipes(c[i].s.tools);
		}
		run_conns(c, n);
		_exit(0);
	}
	doom(pid, key);
	for (i = 0; i < n; i++)
		over(c[i].s.at);
}

static void run_round(struct conn *c, uint32_t worker, uint32_t round,
		      const struct where *to)
{
	uint64_t key = mix(mix(board->seed, worker), round), state = key;
	uint32_t n = 1 + (uint32_t)(draw(&state) % CONNS), i;
	bool doomed = !(draw(&state) % 16);

	for (i = 0; i < n; i++) {
		struct side *s = &c[i].s, old = *s;

		memset(s, 0, sizeof(*s));
		s->tools = old.tools;
		s->aide = old.aide;
		s->at = POOL + worker * CONNS + i;
		s->h.magic = HELLO;
		s->h.key = mix(key, 10 + i);
		s->h.worker = worker;
		s->h.round = round;
		s->h.conn = i;
		c[i].to = to;
		c[i].v6 = draw(&state) % 2;
		c[i].waits = draw(&state) % 2;
	}
	if (doomed && !(board->without & WITHOUT_KILLS))
		run_doomed(c, n, key);
	else
		run_conns(c, n);
	COUNT(rounds, 1);
}

static void rest(uint32_t worker)
{
	while (__atomic_load_n(&board->pause, __ATOMIC_ACQUIRE) &&
	       !stopping(1)) {
		__atomic_store_n(&board->idle[worker], 1, __ATOMIC_RELEASE);
		nap_ms(10);
	}
	__atomic_store_n(&board->idle[worker], 0, __ATOMIC_RELEASE);
}

int work(uint32_t worker, const struct where *to, uint32_t round)
{
	struct tools tools[CONNS];
	struct conn c[CONNS];
	char name[16];
	int via[CONNS], i;
	pid_t pid;

	memset(c, 0, sizeof(c));
	snprintf(name, sizeof(name), "worker %u", worker);
	stays(name);
	snprintf(name, sizeof(name), "aide %u", worker);
	pid = aide_start(name, CONNS, via);
	for (i = 0; i < CONNS; i++) {
		tools_make(&tools[i]);
		c[i].s.tools = &tools[i];
		c[i].s.aide = via[i];
	}
	for (; !stopping(1); round++) {
		rest(worker);
		run_round(c, worker, round, to);
	}
	for (i = 0; i < CONNS; i++)
		close(via[i]);
	await(pid);
	return 0;
}
