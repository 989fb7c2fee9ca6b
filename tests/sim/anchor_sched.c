/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Threads of the simulated world, its time, and its judgement. */

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "anchor_world.h"
#include "scale.h"

#ifdef SIM_ASAN
#include <sanitizer/asan_interface.h>
#endif

#define STACK	  (64 * 1024)
#define STEPS_MAX 200000
#define IDLE_MAX  60 /* naps of the library in a row without any progress */

struct sim sim;

static struct {
	jmp_buf at;
	ucontext_t ctx;
	char *stack;
} co[SIM_THREADS];
static jmp_buf home;

uint32_t sim_rand(uint32_t n)
{
	sim.rnd ^= sim.rnd << 13;
	sim.rnd ^= sim.rnd >> 7;
	sim.rnd ^= sim.rnd << 17;
	return n ? (uint32_t)(sim.rnd >> 32) % n : 0;
}

static const char *const kinds[] = { "-",     "writer",	 "writer-nb", "recv",
				     "peek",  "waitall", "nonblock",  "poll",
				     "homer", "service" };
static const char *const sleeps[] = { "lock", "lib", "data", "room", "pause" };

void sim_fault(const char *what)
{
	size_t at = 0;
	unsigned int i;
	int k;

	if (sim.fault)
		return;
	sim.fault = what;
	for (k = 0; k < 2; k++)
		at += (size_t)snprintf(
			sim.where + at, sizeof(sim.where) - at,
			" dir%d %s w%u e%u q%u ring%u tcp_rx%u arm%u wake%u;",
			k, anc_state_name(anc_state(&sim.page.dir[k])),
			sim.truth[k].wrote, sim.truth[k].expect, sim.pipe[k].n,
			sim.ring[k].pushed - sim.ring[k].freed,
			sim.page.dir[k].tcp_rx, sim.page.dir[k].armed,
			sim.end[!k].wake);
	for (i = 0; i < sim.threads && at < sizeof(sim.where) - 40; i++)
		if (!sim.th[i].done && !sim.th[i].e->dead)
			at += (size_t)snprintf(
				sim.where + at, sizeof(sim.where) - at,
				" %s%s@%d:%s", &sim.th[i] == sim.cur ? "*" : "",
				kinds[sim.th[i].kind], sim.th[i].e->id,
				sim.th[i].ready ? sleeps[sim.th[i].why] :
						  "runs");
}

/* --- coroutines -------------------------------------------------------- */

static void yield(void)
{
	if (!_setjmp(co[sim.cur - sim.th].at))
		_longjmp(home, 1);
}

static void entry(void)
{
	prog_run(sim.cur);
	sim.cur->done = true;
	_longjmp(home, 1);
}

static void go(struct sim_thread *t)
{
	unsigned int i = (unsigned int)(t - sim.th);

	sim.cur = t;
	if (_setjmp(home))
		return;
	if (t->started)
		_longjmp(co[i].at, 1);
	t->started = true;
	if (!co[i].stack)
		co[i].stack = malloc(STACK);
	if (!co[i].stack)
		abort();
#ifdef SIM_ASAN
	/* the last world may have left frames that never returned */
	__asan_unpoison_memory_region(co[i].stack, STACK);
#endif
	getcontext(&co[i].ctx);
	co[i].ctx.uc_stack.ss_sp = co[i].stack;
	co[i].ctx.uc_stack.ss_size = STACK;
	co[i].ctx.uc_link = NULL;
	makecontext(&co[i].ctx, entry, 0);
	setcontext(&co[i].ctx);
}

void sim_step(void)
{
	if (sim.cur)
		yield();
}

bool sim_block(bool (*ready)(struct sim_thread *t), uint64_t deadline,
	       enum sim_sleep why)
{
	struct sim_thread *t = sim.cur;

	t->ready = ready;
	t->deadline = deadline;
	t->why = why;
	t->timed_out = false;
	yield();
	t->ready = NULL;
	return t->timed_out;
}

/* --- the scheduler ----------------------------------------------------- */

static bool alive(const struct sim_thread *t)
{
	return !t->done && !t->e->dead;
}

static bool can_run(struct sim_thread *t)
{
	if (!alive(t))
		return false;
	if (!t->ready)
		return true;
	t->timed_out = t->deadline <= sim.now;
	return t->timed_out || t->ready(t);
}

static struct sim_thread *choose(struct sim_thread *last)
{
	struct sim_thread *may[SIM_THREADS];
	unsigned int i, n = 0;

	if (last && sim_rand(100) < sim.plan.sticky && can_run(last))
		return last;
	for (i = 0; i < sim.threads; i++)
		if (can_run(&sim.th[i]))
			may[n++] = &sim.th[i];
	return n ? may[sim_rand(n)] : NULL;
}

/* Lets time jump to the first deadline of these sleepers. */
static bool jump(bool pauses)
{
	uint64_t first = SIM_NEVER;
	unsigned int i;

	for (i = 0; i < sim.threads; i++) {
		struct sim_thread *t = &sim.th[i];

		if (alive(t) && t->ready && t->deadline < first &&
		    (t->why == SLEEP_PAUSE) == pauses)
			first = t->deadline;
	}
	if (first == SIM_NEVER)
		return false;
	if (first > sim.now)
		sim.now = first;
	return true;
}

/*
 * Nothing moves but programs that pause: what sleeps for data or room must
 * have none. On TCP a sleeping receiver comes out for data, FIN and RST.
 */
static void judge_sleepers(void)
{
	unsigned int i;

	for (i = 0; i < sim.threads; i++) {
		struct sim_thread *t = &sim.th[i];
		struct sim_truth *in;
		struct sim_pipe *p;

		if (!alive(t) || !t->ready || t->kind == KIND_SERVICE)
			continue;
		in = &sim.truth[!t->e->id];
		p = &sim.pipe[!t->e->id];
		if (t->why == SLEEP_LOCK)
			sim_fault("asleep on a lock");
		if (t->why == SLEEP_DATA &&
		    (in->expect < in->wrote || p->fin || p->rst))
			sim_fault("asleep though there is data");
		p = &sim.pipe[t->e->id];
		if (t->why == SLEEP_ROOM && (p->gone || p->n < p->cap))
			sim_fault("asleep though there is room");
	}
}

static bool all_done(void)
{
	unsigned int i;

	for (i = 0; i < sim.threads; i++)
		if (alive(&sim.th[i]) && sim.th[i].kind != KIND_SERVICE)
			return false;
	return true;
}

static uint64_t progress(void)
{
	return (uint64_t)sim.truth[0].wrote + sim.truth[0].expect +
	       sim.truth[1].wrote + sim.truth[1].expect;
}

static void play(void)
{
	struct sim_thread *t = NULL;
	unsigned int idle = 0;
	uint64_t last = 0;

	while (!sim.fault && !all_done()) {
		if (++sim.steps > STEPS_MAX) {
			sim_fault("runs for ever");
			break;
		}
		/*
		 * one that waits for a byte that must stay must not stop time
		 */
		sim.now += !(sim.steps & 63);
		if (sim.plan.kill_step == sim.steps &&
		    !sim.end[sim.plan.kill_end].closed) {
			struct sim_end *e = &sim.end[sim.plan.kill_end];

			sim.cur = NULL;
			sim.killed = e->dead = true;
			k_close(e);
			continue;
		}
		t = choose(t);
		if (t) {
			go(t);
			sim.cur = NULL;
			continue;
		}
		if (last != progress())
			idle = 0;
		last = progress();
		if (idle++ < IDLE_MAX && jump(false))
			continue;
		judge_sleepers();
		idle = 0;
		if (!sim.fault && !jump(true) && !jump(false))
			sim_fault("nobody can move");
	}
}

/* At the end: is everything where it belongs? */
static void judge_end(void)
{
	int k;

	for (k = 0; k < 2 && !sim.fault; k++) {
		struct sim_truth *d = &sim.truth[k];
		struct sim_end *r = &sim.end[!k];

		if (r->dead || !r->reading)
			continue;
		if (d->expect != d->wrote)
			sim_fault("bytes were lost");
		else if (r->ar.taken != d->expect)
			sim_fault("taken is wrong");
		else if (r->rx->taken != r->ar.taken)
			sim_fault("taken was published backwards");
		else if (!sim.killed && sim.end[k].tx == &sim.page.dir[k] &&
			 sim.end[k].tx->sent != d->wrote)
			sim_fault("sent was published backwards");
	}
}

static void make(const struct sim_plan *p)
{
	unsigned int i;
	int k;

	for (k = 0; k < 2; k++) {
		struct sim_end *e = &sim.end[k];

		e->id = k;
		e->tx = &sim.page.dir[k];
		e->rx = &sim.page.dir[!k];
		e->own = &sim.page.side[k];
		e->peer = &sim.page.side[!k];
		sim.pipe[k].cap = p->pipe_cap;
		sim.ring[k].depth = p->ring_depth;
	}
	for (i = 0; i < p->threads + 2; i++) {
		struct sim_thread *t = &sim.th[i];
		int end = i < p->threads ? p->t[i].end : (int)(i - p->threads);

		t->e = &sim.end[end];
		t->kind = KIND_SERVICE;
		if (i >= p->threads)
			continue;
		t->kind = p->t[i].kind;
		t->bytes = p->t[i].bytes;
		t->piece = p->t[i].piece;
		t->at = p->t[i].at;
		t->pause = p->t[i].pause;
		t->e->live++;
		if (t->kind == KIND_WRITER || t->kind == KIND_WRITER_NB)
			t->e->writing++;
		else if (t->kind != KIND_HOME)
			t->e->reading = true;
	}
	sim.threads = p->threads + 2;
}

const char *sim_run(const struct sim_plan *p, uint32_t without)
{
	memset(&sim, 0, sizeof(sim));
	sim.plan = *p;
	sim.without = without;
	sim.rnd = p->seed * 0x9e3779b97f4a7c15ull + 0x1234567;
	sim_rand(1);
	make(p);
	play();
	judge_end();
	return sim.fault;
}
