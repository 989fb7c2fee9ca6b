/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* signals - interruption, restart, time-outs and cancellation. */
#include "prog.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

static atomic_int hits;

static void on_hit(int sig)
{
	(void)sig;
	atomic_fetch_add(&hits, 1);
}

static void handle(int sig, int flags)
{
	struct sigaction sa = { .sa_handler = on_hit, .sa_flags = flags };

	CHECK(!sigaction(sig, &sa, NULL));
	atomic_store(&hits, 0);
}

/*
 * The one that expects a call to be interrupted lets it repeat: a first signal
 * may come before the call.
 */
static void timer_ms(unsigned int ms, unsigned int again)
{
	struct itimerval it = {
		.it_value = { ms / 1000, (long)(ms % 1000) * 1000 },
		.it_interval = { again / 1000, (long)(again % 1000) * 1000 },
	};

	CHECK(!setitimer(ITIMER_REAL, &it, NULL));
}

static void not_here(void)
{
	prog_not_here(SIGALRM);
	prog_not_here(SIGIO);
}

static void timeout(int fd, int what, int ms)
{
	struct timeval tv = { ms / 1000, (long)(ms % 1000) * 1000 };

	CHECK(!setsockopt(fd, SOL_SOCKET, what, &tv, sizeof(tv)));
}

/* The peer of the reading cases: sends n bytes after d milliseconds. */
static void delayed(struct end *e)
{
	uint64_t n;

	not_here();
	while ((n = prog_hear(e))) {
		prog_nap_ms((unsigned int)prog_hear(e));
		link_put(&e->l, (size_t)n);
	}
	prog_sync(e);
}

static void ask(struct end *e, size_t n, unsigned int ms)
{
	prog_tell(e, n);
	prog_tell(e, ms);
}

/* What was asked for is here. */
static void come(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	CHECK(poll(&p, 1, -1) == 1);
}

static void leave(struct end *e)
{
	prog_tell(e, 0);
	prog_sync(e);
}

static void eintr_run(struct end *e)
{
	uint8_t b[100];
	int i;

	for (i = 0; i < 3; i++) {
		handle(SIGALRM, 0);
		timer_ms(20, 20);
		FAILS(read(e->l.fd, b, 100), EINTR);
		CHECK(atomic_load(&hits) >= 1);
		FAILS(recv(e->l.fd, b, 1, MSG_PEEK), EINTR);
		timer_ms(0, 0);
		CHECK(atomic_load(&hits) >= 2);
		ask(e, 100, 0);
		link_get(&e->l, 100);
	}
	/* what has come is given back, not the interruption */
	ask(e, 60, 0);
	come(e->l.fd);
	handle(SIGALRM, 0);
	timer_ms(20, 20);
	CHECK(recv(e->l.fd, b, 100, MSG_WAITALL) == 60);
	timer_ms(0, 0);
	flow_check(&e->l.rx, b, 60);
	CHECK(atomic_load(&hits) >= 1);
	leave(e);
}

static void restart_run(struct end *e)
{
	int i;
	uint8_t b[100];

	handle(SIGALRM, SA_RESTART);
	for (i = 0; i < 3; i++) {
		timer_ms(10, 10);
		ask(e, 100, 55);
		CHECK(recv(e->l.fd, b, 100, 0) == 100);
		flow_check(&e->l.rx, b, 100);
		timer_ms(0, 0);
	}
	CHECK(atomic_load(&hits) >= 3);
	leave(e);
}

/* Of 60: the kernel counts ticks, and a virtual machine gets some too late. */
#define EARLY_MS 30

/* With a time-out set, Linux never restarts. */
static void rcvtimeo_run(struct end *e)
{
	uint8_t b[100];
	int64_t t0;

	timeout(e->l.fd, SO_RCVTIMEO, 60);
	t0 = prog_now_ms();
	FAILS(recv(e->l.fd, b, 1, 0), EAGAIN);
	CHECK(prog_now_ms() - t0 >= EARLY_MS);
	t0 = prog_now_ms();
	FAILS(recv(e->l.fd, b, 1, MSG_PEEK), EAGAIN);
	CHECK(prog_now_ms() - t0 >= EARLY_MS);
	ask(e, 50, 0);
	come(e->l.fd);
	CHECK(recv(e->l.fd, b, 100, MSG_WAITALL) == 50);
	flow_check(&e->l.rx, b, 50);
	timeout(e->l.fd, SO_RCVTIMEO, 5000);
	handle(SIGALRM, SA_RESTART);
	timer_ms(20, 20);
	FAILS(recv(e->l.fd, b, 1, 0), EINTR);
	timer_ms(0, 0);
	ask(e, 50, 20);
	CHECK(recv(e->l.fd, b, 50, MSG_WAITALL) == 50);
	flow_check(&e->l.rx, b, 50);
	timeout(e->l.fd, SO_RCVTIMEO, 0);
	leave(e);
}

/* Fills the way out; what was taken is counted in the flow. */
static void stuff(struct link *l)
{
	static uint8_t buf[50000];
	ssize_t r;

	do {
		struct flow f = l->tx;

		flow_fill(&f, buf, sizeof(buf));
		r = send(l->fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (r > 0)
			l->tx.off += (uint64_t)r;
	} while (r > 0);
	CHECK(errno == EAGAIN);
}

/* A blocking send that finds some room may take a part of its bytes. */
static void push_until(struct link *l, int err)
{
	static uint8_t buf[50000];
	ssize_t r;
	int i;

	for (i = 0; i < 100; i++) {
		struct flow f = l->tx;

		flow_fill(&f, buf, sizeof(buf));
		r = send(l->fd, buf, sizeof(buf), MSG_NOSIGNAL);
		if (r < 0)
			break;
		l->tx.off += (uint64_t)r;
	}
	CHECK(i < 100 && errno == err);
}

static void sndtimeo_run(struct end *e)
{
	int64_t t0;

	stuff(&e->l);
	timeout(e->l.fd, SO_SNDTIMEO, 60);
	t0 = prog_now_ms();
	push_until(&e->l, EAGAIN);
	CHECK(prog_now_ms() - t0 >= EARLY_MS);
	timeout(e->l.fd, SO_SNDTIMEO, 0);
	handle(SIGALRM, 0);
	timer_ms(30, 30);
	push_until(&e->l, EINTR);
	timer_ms(0, 0);
	prog_tell(e, e->l.tx.off);
	prog_sync(e);
	link_put(&e->l, 1000);
}

static void sndtimeo_peer(struct end *e)
{
	not_here();
	link_get(&e->l, prog_hear(e) - e->l.rx.off);
	prog_sync(e);
	link_get(&e->l, 1000);
}

static void accept_run(struct end *e)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)e;
	CHECK(fd >= 0);
	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(fd, (struct sockaddr *)&sa, sizeof(sa)));
	CHECK(!listen(fd, 5));
	handle(SIGALRM, 0);
	timer_ms(20, 20);
	FAILS(accept(fd, NULL, NULL), EINTR);
	FAILS(accept4(fd, NULL, NULL, SOCK_CLOEXEC), EINTR);
	timer_ms(0, 0);
	timeout(fd, SO_RCVTIMEO, 30);
	FAILS(accept(fd, NULL, NULL), EAGAIN);
	CHECK(atomic_load(&hits) >= 2);
	CHECK(!close(fd));
}

/* --- SIGIO ------------------------------------------------------------- */

static void sigio_run(struct end *e)
{
	int i, before;

	handle(SIGIO, 0);
	CHECK(!fcntl(e->l.fd, F_SETOWN, getpid()));
	CHECK(!fcntl(e->l.fd, F_SETFL, fcntl(e->l.fd, F_GETFL) | O_ASYNC));
	CHECK(fcntl(e->l.fd, F_GETFL) & O_ASYNC);
	for (i = 0; i < 5; i++) {
		int k;

		prog_nap_ms(5);
		before = atomic_load(&hits);
		ask(e, 200, 0);
		for (k = 0; k < 3000 && atomic_load(&hits) == before; k++)
			prog_nap_ms(1);
		CHECK(atomic_load(&hits) > before);
		link_get(&e->l, 200);
	}
	CHECK(!fcntl(e->l.fd, F_SETFL, fcntl(e->l.fd, F_GETFL) & ~O_ASYNC));
	leave(e);
}

/* --- handlers that do more --------------------------------------------- */

static int handler_fd;
static atomic_int handler_sent;

static void on_write(int sig)
{
	int saved = errno;

	(void)sig;
	if (write(handler_fd, "H", 1) == 1)
		atomic_fetch_add(&handler_sent, 1);
	errno = saved;
}

/* The handler writes to the very socket the thread is reading from. */
static void within_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_write,
				.sa_flags = SA_RESTART };

	handler_fd = e->l.fd;
	atomic_store(&handler_sent, 0);
	CHECK(!sigaction(SIGALRM, &sa, NULL));
	timer_ms(1, 1);
	prog_tell(e, 1);
	link_get(&e->l, 3000000);
	timer_ms(0, 0);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	prog_tell(e, (uint64_t)atomic_load(&handler_sent));
	prog_sync(e);
}

static void within_peer(struct end *e)
{
	uint64_t n = 0;
	int i;
	char b;

	not_here();
	CHECK(prog_hear(e) == 1);
	for (i = 0; i < 30; i++) {
		link_put(&e->l, 100000);
		prog_nap_ms(2);
	}
	while (read(e->l.fd, &b, 1) == 1) {
		CHECK(b == 'H');
		n++;
	}
	CHECK(prog_hear(e) == n);
	prog_sync(e);
}

static sigjmp_buf back;

static void on_jump(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

/* The classic time-out: a handler that jumps out of recv(). */
static void jump_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_jump };
	volatile int i;
	uint8_t b;

	CHECK(!sigaction(SIGALRM, &sa, NULL));
	for (i = 0; i < 5; i++) {
		if (!sigsetjmp(back, 1)) {
			timer_ms(15, 0);
			recv(e->l.fd, &b, 1, 0);
			CHECK(i > 100);
		}
		ask(e, 100, 3);
		link_get(&e->l, 100);
	}
	leave(e);
}

/* A signal for the first thread, as soon as it sleeps. */
static void *shooter(void *arg)
{
	const pthread_t *at = arg;

	not_here();
	prog_asleep(getpid(), 20);
	CHECK(!pthread_kill(*at, SIGALRM));
	return NULL;
}

/* From so deep that all of the stack that was left stays as it was. */
__attribute__((noinline)) static void deeper(struct end *e, pthread_t t)
{
	volatile uint8_t pad[100000];

	pad[0] = 1;
	CHECK(!pthread_join(t, NULL));
	ask(e, 100, 3);
	link_get(&e->l, 100);
	CHECK(pad[0] == 1);
}

/* The handler's own setjmp() leaves nothing; then it leaves. */
static void on_deep(int sig)
{
	sigjmp_buf own;
	volatile int i = 0;

	(void)sig;
	if (sigsetjmp(own, 1) < 3)
		siglongjmp(own, ++i);
	longjmp(back, 1);
}

static void deep_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_deep };
	pthread_t self = pthread_self(), t;
	volatile int i;
	uint8_t b;

	CHECK(!sigaction(SIGALRM, &sa, NULL));
	for (i = 0; i < 3; i++) {
		CHECK(!pthread_create(&t, NULL, shooter, &self));
		if (!sigsetjmp(back, 1)) {
			recv(e->l.fd, &b, 1, 0);
			CHECK(i > 100);
		}
		deeper(e, t);
	}
	leave(e);
}

/* A signal every millisecond while streams run both ways. */
static void storm_run(struct end *e)
{
	int i;

	handle(SIGALRM, e->l.fd % 2 ? SA_RESTART : 0);
	timer_ms(1, 1);
	for (i = 0; i < 300; i++) {
		link_put(&e->l, 5000);
		link_get(&e->l, 5000);
		if (i % 100 == 0) {
			timer_ms(0, 0);
			prog_mid(e->l.fd);
			timer_ms(1, 1);
		}
	}
	timer_ms(0, 0);
	prog_tell(e, 1);
}

static void storm_peer(struct end *e)
{
	int i;

	not_here();
	for (i = 0; i < 300; i++) {
		link_get(&e->l, 5000);
		link_put(&e->l, 5000);
		if (i % 20 == 0)
			prog_nap_ms(2);
	}
	CHECK(prog_hear(e) == 1);
}

/* --- cancellation ------------------------------------------------------ */

static void *cancel_me(void *arg)
{
	struct link *l = arg;
	uint8_t b;

	recv(l->fd, &b, 1, 0);
	CHECK(0 && l);
	return NULL;
}

static void cancel_run(struct end *e)
{
	pthread_t t;
	void *ret;
	int i;

	for (i = 0; i < 6; i++) {
		CHECK(!pthread_create(&t, NULL, cancel_me, &e->l));
		prog_nap_ms(i % 2 ? 15 : 0);
		CHECK(!pthread_cancel(t));
		CHECK(!pthread_join(t, &ret));
		CHECK(ret == PTHREAD_CANCELED);
		/* nothing is held, nothing is lost */
		ask(e, 2000, 1);
		link_get(&e->l, 2000);
	}
	leave(e);
}

static void *cancel_off(void *arg)
{
	struct link *l = arg;
	int old;

	CHECK(!pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old));
	link_get(l, 500);
	CHECK(!pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old));
	pthread_testcancel();
	CHECK(0 && l);
	return NULL;
}

static void uncancel_run(struct end *e)
{
	pthread_t t;
	void *ret;

	CHECK(!pthread_create(&t, NULL, cancel_off, &e->l));
	prog_nap_ms(10);
	CHECK(!pthread_cancel(t));
	ask(e, 500, 10);
	CHECK(!pthread_join(t, &ret));
	CHECK(ret == PTHREAD_CANCELED);
	ask(e, 500, 0);
	link_get(&e->l, 500);
	leave(e);
}

static const struct prog_case cases[] = {
	{ "eintr", eintr_run, delayed, 0 },
	{ "restart", restart_run, delayed, 0 },
	{ "rcvtimeo", rcvtimeo_run, delayed, 0 },
	{ "sndtimeo", sndtimeo_run, sndtimeo_peer, 0 },
	{ "accept", accept_run, NULL, CASE_SOLO },
	{ "sigio", sigio_run, delayed, 0 },
	{ "within", within_run, within_peer, 0 },
	{ "jump", jump_run, delayed, 0 },
	{ "deep", deep_run, delayed, 0 },
	{ "storm", storm_run, storm_peer, 0 },
	{ "cancel", cancel_run, delayed, 0 },
	{ "uncancel", uncancel_run, delayed, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
