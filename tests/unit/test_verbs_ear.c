/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/sys.h"
#include "fabric/verbs/int.h"

/* Ears, with pipes for completion channels: a byte is an event. */

#define MADE 64

static struct {
	struct ibv_comp_channel chan;
	int in; /* what the device writes into */
} made[MADE];
static int channels, destroyed, acked, hide_err, create_err;
static struct verbs v;
static struct device dev;
static struct vend ends[EARS + 1];

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	int p[2];

	(void)ctx;
	errno = create_err;
	if (create_err)
		return NULL;
	assert_true(channels < MADE);
	assert_int_equal(pipe(p), 0);
	made[channels].chan.fd = p[0];
	made[channels].in = p[1];
	return &made[channels++].chan;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *chan)
{
	destroyed++;
	if (chan->fd >= 0)
		close(chan->fd);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *chan, struct ibv_cq **cq,
		     void **who)
{
	char c;

	(void)cq;
	(void)who;
	return read(chan->fd, &c, 1) == 1 ? 0 : -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	(void)cq;
	acked += (int)n;
}

int verbs_hide(struct verbs *of, int *fd)
{
	(void)of;
	if (!hide_err)
		return 0;
	close(*fd);
	*fd = hide_err;
	return hide_err;
}

void verbs_unhide(const struct verbs *of, int fd)
{
	(void)of;
	(void)fd;
}

int verbs_watch(struct verbs *of, int fd, void *who)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = who };

	assert_int_equal(sys_fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return sys_epoll_ctl(of->ep, EPOLL_CTL_ADD, fd, &ev);
}

void device_told(struct vend *e)
{
	event_due(e, VE_READABLE);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)attr;
	(void)mask;
	return 0;
}

void end_leave(struct vend *e)
{
	(void)e;
	fail();
}

void end_free(struct vend *e)
{
	(void)e;
	fail();
}

void cm_events(struct verbs *of)
{
	(void)of;
	fail();
}

void device_completions(struct device *d)
{
	(void)d;
	fail();
}

void device_async(struct verbs *of, struct device *d)
{
	(void)of;
	(void)d;
	fail();
}

/* --- tests -------------------------------------------------------------- */

static int begin(void **state)
{
	unsigned int i;

	(void)state;
	v = (struct verbs){ .kick = -1 };
	v.ep = epoll_create1(0);
	assert_true(v.ep >= 0);
	list_init(&v.due);
	list_init(&v.timed);
	list_init(&v.requests);
	list_init(&v.ends);
	channels = destroyed = acked = hide_err = create_err = 0;
	for (i = 0; i <= EARS; i++) {
		ends[i] = (struct vend){ .v = &v, .dev = &dev, .state = V_UP };
		list_init(&ends[i].due_at);
		list_init(&ends[i].timed);
	}
	return 0;
}

static int over(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i <= EARS; i++)
		ear_free(&ends[i]);
	assert_int_equal(destroyed, channels);
	for (i = 0; i < (unsigned int)channels; i++)
		close(made[i].in);
	close(v.ep);
	return 0;
}

static void complete(int channel)
{
	assert_int_equal(write(made[channel].in, "", 1), 1);
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static struct end *told(void)
{
	struct verbs_event ev;

	if (!verbs_event(&v, &ev))
		return NULL;
	assert_int_equal(ev.type, VE_READABLE);
	return ev.end;
}

static void each_tells_of_its_own_end(void **state)
{
	(void)state;
	ear_new(&ends[0]);
	ear_new(&ends[1]);
	assert_true(verbs_ear(&ends[0].end) != verbs_ear(&ends[1].end));
	assert_null(told());
	complete(1);
	assert_ptr_equal(told(), &ends[1].end);
	assert_null(told());
	complete(0);
	assert_ptr_equal(told(), &ends[0].end);
	assert_int_equal(acked, 2);
}

/* Is the channel among what the set watches? */
static bool watched(int fd)
{
	char path[64], line[128];
	bool is = false;
	int which;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", v.ep);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		is |= sscanf(line, "tfd: %d", &which) == 1 && which == fd;
	fclose(f);
	return is;
}

/* For nothing is not enough: the kernel would wake the sleeper on the set. */
static void nobody_watches_what_is_lent(void **state)
{
	int fd;

	(void)state;
	ear_new(&ends[0]);
	fd = verbs_ear(&ends[0].end);
	assert_true(watched(fd));
	assert_int_equal(verbs_deaf(&ends[0].end, true), 0);
	assert_false(watched(fd));
	assert_int_equal(verbs_deaf(&ends[0].end, true), 0);
	assert_int_equal(verbs_deaf(&ends[0].end, false), 0);
	assert_true(watched(fd));
	assert_int_equal(verbs_deaf(&ends[0].end, false), 0);
}

static void who_sleeps_there_is_the_only_one_told(void **state)
{
	int fd;

	(void)state;
	ear_new(&ends[0]);
	fd = verbs_ear(&ends[0].end);
	verbs_deaf(&ends[0].end, true);
	assert_false(readable(fd));
	complete(0);
	assert_true(readable(fd));
	assert_false(readable(v.ep));
	assert_null(told());
	verbs_heard(&ends[0].end);
	assert_false(readable(fd));
	assert_int_equal(acked, 1);
	/* nothing there: it does not wait */
	verbs_heard(&ends[0].end);
	assert_int_equal(acked, 1);
}

static void what_nobody_took_is_told_later(void **state)
{
	(void)state;
	ear_new(&ends[0]);
	verbs_deaf(&ends[0].end, true);
	complete(0);
	assert_null(told());
	verbs_deaf(&ends[0].end, false);
	assert_true(readable(v.ep));
	assert_ptr_equal(told(), &ends[0].end);
	assert_null(told());
}

static void only_so_many_have_one(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i <= EARS; i++)
		ear_new(&ends[i]);
	assert_int_equal(channels, EARS);
	assert_int_equal(verbs_ear(&ends[EARS].end), -1);
	verbs_deaf(&ends[EARS].end, true);
	verbs_heard(&ends[EARS].end);
	/* one that is gone leaves room for another */
	ear_free(&ends[3]);
	assert_int_equal(verbs_ear(&ends[3].end), -1);
	ear_new(&ends[EARS]);
	complete((int)EARS);
	assert_ptr_equal(told(), &ends[EARS].end);
}

static void without_a_descriptor_it_is_shared(void **state)
{
	(void)state;
	create_err = EMFILE;
	ear_new(&ends[0]);
	assert_int_equal(verbs_ear(&ends[0].end), -1);
	create_err = 0;
	hide_err = -EMFILE;
	ear_new(&ends[0]);
	assert_int_equal(verbs_ear(&ends[0].end), -1);
	assert_int_equal(destroyed, 1);
	hide_err = 0;
	ear_new(&ends[0]);
	assert_true(verbs_ear(&ends[0].end) >= 0);
}

/* A forked child has a copy of the descriptor for a while. */
static void one_that_is_gone_says_no_more(void **state)
{
	int copy;

	(void)state;
	ear_new(&ends[0]);
	copy = dup(verbs_ear(&ends[0].end));
	assert_true(copy >= 0);
	ear_free(&ends[0]);
	complete(0);
	assert_true(readable(copy));
	assert_false(readable(v.ep));
	assert_null(told());
	close(copy);
}

/* A signal handler in the middle of pending() leaves it to the next caller. */
static void what_is_held_up_is_not_lost(void **state)
{
	(void)state;
	ear_new(&ends[0]);
	complete(0);
	assert_int_equal(lock_take(&ends[0].stash.lock), 0);
	verbs_heard(&ends[0].end);
	lock_drop(&ends[0].stash.lock);
	assert_int_equal(acked, 0);
	assert_ptr_equal(told(), &ends[0].end);
}

/* Cancelled where it reads: its caller holds a lock. */
static void *cancelled(void *arg)
{
	bool *done = arg;

	pthread_cancel(pthread_self());
	verbs_heard(&ends[0].end);
	*done = true;
	pthread_testcancel();
	return NULL;
}

static void nobody_is_cancelled_while_it_hears(void **state)
{
	bool done = false;
	pthread_t thread;
	void *how;

	(void)state;
	ear_new(&ends[0]);
	verbs_deaf(&ends[0].end, true);
	complete(0);
	assert_int_equal(pthread_create(&thread, NULL, cancelled, &done), 0);
	pthread_join(thread, &how);
	assert_true(done);
	assert_ptr_equal(how, PTHREAD_CANCELED);
	assert_int_equal(acked, 1);
	assert_int_equal(ends[0].stash.lock.word, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_tells_of_its_own_end,
						begin, over),
		cmocka_unit_test_setup_teardown(nobody_watches_what_is_lent,
						begin, over),
		cmocka_unit_test_setup_teardown(
			who_sleeps_there_is_the_only_one_told, begin, over),
		cmocka_unit_test_setup_teardown(what_nobody_took_is_told_later,
						begin, over),
		cmocka_unit_test_setup_teardown(only_so_many_have_one, begin,
						over),
		cmocka_unit_test_setup_teardown(
			without_a_descriptor_it_is_shared, begin, over),
		cmocka_unit_test_setup_teardown(one_that_is_gone_says_no_more,
						begin, over),
		cmocka_unit_test_setup_teardown(what_is_held_up_is_not_lost,
						begin, over),
		cmocka_unit_test_setup_teardown(
			nobody_is_cancelled_while_it_hears, begin, over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
