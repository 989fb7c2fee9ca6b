/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cases of fabtest: processes, credentials, and how connections end. */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabtest.h"

#define NOBODY 65534

/* The connection breaks under us, and so it is told. */
static void until_down(struct rig *r, int error)
{
	struct verbs_event ev;
	struct fab_msg m;
	uint64_t limit;
	int ret;

	while (!r->down)
		rig_event(r, &ev, 60000);
	IS(r->down_error, error);
	limit = rig_ns() + 10000000000u;
	/* the flush of the queue pair may take the device a moment */
	do {
		ret = r->end->ops->poll(r->end, &m);
	} while (ret == 1 || (!ret && rig_ns() < limit));
	IS(ret, -ECONNRESET);
}

/* Messages sent and not acknowledged: bytes of the stream in them. */
static uint64_t unacked(struct rig *r)
{
	uint64_t bytes = 0;
	struct fab_msg m;
	uint32_t pos = 0;

	while (r->api->unacked(r->end, &pos, &m)) {
		CHECK(m.len >= 16 && m.mem[0] == 0xff);
		bytes += m.len - 16;
	}
	return bytes;
}

/* The server is killed in mid-stream. */
void fab_killed(struct rig *r)
{
	struct verbs_event ev;

	rig_open(r);
	rig_meet(r);
	rig_run(r, 100000, 100000, 5000);
	if (r->server) {
		rig_run(r, 1, 0, 1);
		kill(getpid(), SIGKILL);
	}
	rig_run(r, 0, 1, 1);
	until_down(r, 0);
	IS(r->api->flushed(r->end) == 1 || unacked(r) <= r->sent, 1);
	CHECK(!r->end->ops->room(r->end) || r->api->arm(r->end, false) == 0);
	r->end->ops->destroy(r->end);
	while (r->api->event(r->v, &ev))
		CHECK(!ev.end);
	rig_close(r);
}

/*
 * The peer falls silent (the test takes the link away): a send finds out, in
 * seconds, and what was not acknowledged is known to the byte.
 */
void fab_silent(struct rig *r)
{
	struct verbs_event ev;
	uint64_t t;

	rig_open(r);
	rig_meet(r);
	rig_run(r, 50000, 50000, 5000);
	if (r->server) {
		pause(); /* killed by the test */
		return;
	}
	while (!r->api->flushed(r->end))
		rig_wait(r);
	IS(unacked(r), 0);
	puts("quiet");
	fflush(stdout);
	IS(getchar(), 'x');
	t = rig_ns();
	rig_pump(r, r->sent + 3000, r->got, 1000);
	IS(unacked(r), r->sent - 50000);
	CHECK(r->sent > 50000);
	while (!r->down) {
		struct fab_msg m;

		IS(r->api->arm(r->end, false), 0);
		CHECK(r->end->ops->poll(r->end, &m) <= 0);
		rig_try(r, &ev, 100);
	}
	IS(r->down_error, -ETIMEDOUT);
	CHECK(rig_ns() - t < 30000000000ull);
	IS(unacked(r), r->sent - 50000);
	IS(r->api->flushed(r->end), -ECONNRESET);
	r->end->ops->destroy(r->end);
	rig_close(r);
}

/*
 * The client forks in mid-stream. The child forgets, makes a connection of its
 * own, and outlives its parent; the parent's goes on unharmed, and ends when
 * the parent does, however long the child lives.
 */
static void child(struct rig *r, int go)
{
	struct verbs_event ev;
	char c;

	r->api->forget(r->v);
	rig_open(r);
	rig_dial(r);
	rig_run(r, 70000, 70000, 3000);
	IS(read(go, &c, 1), 0); /* the parent is dead */
	rig_run(r, 1000, 1000, 100);
	rig_part(r);
	CHECK(!r->api->event(r->v, &ev));
	rig_close(r);
	_exit(0);
}

static void fork_client(struct rig *r)
{
	int go[2];
	pid_t pid;

	CHECK(!pipe(go));
	rig_open(r);
	rig_dial(r);
	rig_run(r, 100000, 100000, 5000);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	r->api->hold(r->v);
	pid = fork();
	if (!pid) {
		close(go[1]);
		child(r, go[0]);
	}
	r->api->resume(r->v);
	rig_run(r, 300000, 300000, 777);
	rig_run(r, 0, 1, 1); /* the server has met the child */
	kill(getpid(), SIGKILL);
}

static void fork_server(struct rig *r)
{
	struct rig c = *r;

	rig_open(r);
	rig_listen(r);
	rig_answer(r);
	rig_run(r, 400000, 400000, 5000);
	c = *r;
	rig_answer(&c); /* perhaps asked for already */
	r->asked.type = VE_NONE;
	rig_run(&c, 70000, 70000, 3000);
	rig_run(r, 1, 0, 1);
	until_down(r, 0);
	r->end->ops->destroy(r->end);
	rig_run(&c, 1000, 1000, 100);
	rig_part(&c);
	rig_close(r);
}

void fab_fork(struct rig *r)
{
	int status;

	if (r->server) {
		fork_server(r);
		return;
	}
	/* what dies is a child of this process */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (!fork())
		fork_client(r);
	CHECK(wait(&status) > 0);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK(wait(&status) > 0); /* the orphan */
	IS(status, 0);
}

/*
 * Other credentials: sends fail, what was open is closed without harm, and
 * what is opened anew works.
 */
void fab_setuid(struct rig *r)
{
	struct verbs_event ev;
	uint8_t *mem;
	int ret;

	rig_open(r);
	rig_meet(r);
	rig_run(r, 1000, 1000, 100);
	if (!r->server) {
		IS(setuid(NOBODY), 0);
		mem = r->end->ops->buf(r->end, 100);
		CHECK(mem);
		memset(mem, 0, 100);
		ret = r->end->ops->send(r->end, 100, false);
		IS(ret, -EACCES);
		rig_event(r, &ev, 1000);
		IS(ev.type, VE_DOWN);
		IS(ev.error, -EACCES);
	} else {
		until_down(r, 0);
	}
	r->end->ops->destroy(r->end);
	if (!r->server) {
		rig_close(r);
		rig_open(r);
		rig_dial(r);
	} else {
		rig_answer(r);
	}
	rig_run(r, 100000, 100000, 5000);
	rig_part(r);
	rig_close(r);
}

/* The device is taken away (by the test) in mid-stream. */
void fab_removed(struct rig *r)
{
	struct verbs_event ev;

	rig_open(r);
	rig_meet(r);
	rig_run(r, 50000, 50000, 5000);
	puts("quiet");
	fflush(stdout);
	while (!r->down)
		rig_event(r, &ev, 60000);
	r->end->ops->destroy(r->end);
	while (r->api->event(r->v, &ev))
		CHECK(!ev.end);
	/*
	 * Nothing of ours keeps the device: the test's command comes back,
	 * while this process stays.
	 */
	if (!r->server) {
		IS(r->down_error, -ENODEV);
		IS(getchar(), 'x');
	}
	rig_close(r);
}

/* Locked memory runs out: a line that says so, and no connection. */
void fab_memlock(struct rig *r)
{
	struct verbs_event ev;

	IS(setuid(NOBODY), 0);
	rig_open(r);
	IS(r->api->dial(r->v, NULL, &r->addr, 1, &r->end), 0);
	rig_want(r, &ev, VE_FAILED);
	IS(ev.error, -ENOMEM);
	r->end->ops->destroy(r->end);
	rig_close(r);
}

/* --- many --------------------------------------------------------------- */

#define MANY 200

static bool spinning = true;
static struct rig many[MANY];

static void *spin(void *arg)
{
	struct rig *r = arg;

	while (__atomic_load_n(&spinning, __ATOMIC_RELAXED))
		r->end->ops->pending(r->end);
	return NULL;
}

/* Another thread asks pending() all the time. */
void fab_pending(struct rig *r)
{
	pthread_t t;

	r->grow = true;
	rig_open(r);
	rig_meet(r);
	CHECK(!pthread_create(&t, NULL, spin, r));
	rig_run(r, 2 << 20, 2 << 20, 20000);
	__atomic_store_n(&spinning, false, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	rig_part(r);
	rig_close(r);
}

/* Many connections of one process. */
void fab_many(struct rig *r)
{
	unsigned int i;

	rig_open(r);
	if (r->server)
		rig_listen(r);
	for (i = 0; i < MANY; i++) {
		many[i] = *r;
		if (r->server)
			rig_answer(&many[i]);
		else
			rig_dial(&many[i]);
	}
	for (i = 0; i < MANY; i++)
		rig_run(&many[i], 3000, 3000, 500);
	for (i = 0; i < MANY; i++)
		rig_part(&many[i]);
	rig_close(r);
}
