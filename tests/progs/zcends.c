/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zcends - large blocking sends that end otherwise than the program thought:
 * signals, cancellation, bad buffers, death, other processes.
 */
#include "zcopy.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

/* --- interrupted ------------------------------------------------------- */

static void on_alarm(int sig)
{
	(void)sig;
}

static void alarm_us(unsigned int us, unsigned int again)
{
	struct itimerval it = { { again / 1000000, again % 1000000 },
				{ us / 1000000, us % 1000000 } };

	CHECK(!setitimer(ITIMER_REAL, &it, NULL));
}

/*
 * A signal in the middle: what the send says it took is what arrives. The
 * alarm repeats, since a first may come before the send.
 */
static void signal_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	uint8_t *buf = buffer();
	uint32_t seed = 17;
	int i;

	CHECK(!sigaction(SIGALRM, &sa, NULL));
	for (i = 0; i < 40; i++) {
		size_t n = BIG / (1 + prog_rand(&seed) % 16);
		ssize_t r;

		alarm_us(1 + prog_rand(&seed) % 3000, 20000);
		r = shoot(&e->l, buf, n, 0);
		alarm_us(0, 0);
		CHECK(r > 0 || (r == -1 && errno == EINTR));
		prog_tell(e, r > 0 ? (uint64_t)r + 1 : 1);
	}
	prog_tell(e, 0);
}

static void signal_peer(struct end *e)
{
	uint8_t *buf = buffer();
	uint64_t sum = 0, said = 0, v;
	struct sigaction sa = { .sa_handler = SIG_IGN };
	int i = 0;

	CHECK(!sigaction(SIGALRM, &sa, NULL));
	while ((v = prog_hear(e))) {
		said += v - 1;
		if (i++ % 3 == 0)
			continue;
		while (sum < said) {
			ssize_t r = read(e->l.fd, buf, BIG);

			CHECK(r > 0);
			flow_check(&e->l.rx, buf, (size_t)r);
			sum += (uint64_t)r;
		}
	}
	CHECK(sum <= said);
	link_get(&e->l, (size_t)(said - sum));
}

/* --- let in ------------------------------------------------------------ */

#if defined(__x86_64__)
static int watched, refused; /* of handlers on this socket */

/* As a handler would be that was put off: does the socket answer it? */
static void on_change(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;
	char c;

	(void)sig;
	(void)si;
	memcpy(&uc->uc_sigmask, (void *)uc->uc_mcontext.gregs[REG_RSI], 8);
	uc->uc_mcontext.gregs[REG_RAX] = 0;
	if (recv(watched, &c, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EINTR)
		refused++;
}

/* By no call that the library sees. */
static long bare(long nr, long a, long b, long c)
{
	register long none __asm__("r10") = 0;
	register long nil __asm__("r8") = 0;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(none), "r"(nil)
			 : "rcx", "r11", "memory");
	return ret;
}

#define FIELD(what) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, what)

/* on_change() in place of each change of this thread's mask back to the old. */
static void see_changes(int fd)
{
	struct sock_filter is[] = {
		FIELD(offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 3),
		FIELD(offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SIG_SETMASK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_SIZE(is), is };
	struct sigaction sa = { .sa_sigaction = on_change,
				.sa_flags = SA_SIGINFO | SA_NODEFER };

	watched = fd;
	CHECK(!sigaction(SIGSYS, &sa, NULL));
	CHECK(!bare(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0));
	CHECK(!bare(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&prog));
}
#else
static const int refused;
static void see_changes(int fd)
{
	(void)fd;
}
#endif

#define FULL  (64u << 10)
#define LARGE (256u << 10)

/* Sends that fill what there is, and large ones for which no room is left. */
static void *crowds(void *arg)
{
	struct end *e = arg;
	uint8_t *buf = buffer();
	uint64_t n;
	ssize_t r;
	int i;

	see_changes(e->l.fd);
	for (i = 0; i < 200; i++) {
		for (n = 0; (r = shoot(&e->l, buf, FULL, MSG_DONTWAIT)) > 0;)
			n += (uint64_t)r;
		CHECK(errno == EAGAIN);
		prog_tell(e, n + LARGE);
		shoot_all(&e->l, buf, LARGE);
		prog_hear(e);
	}
	prog_tell(e, 0);
	return NULL;
}

/* Handlers never find a send that put them off inside the socket. */
static void calm_run(struct end *e)
{
	struct rlimit rl;
	pthread_t t;

	/*
	 * The library has a thread from here on. Were it made under the filter,
	 * with all signals blocked, SIGSYS would end the process.
	 */
	CHECK(!getrlimit(RLIMIT_NPROC, &rl) && !setrlimit(RLIMIT_NPROC, &rl));
	CHECK(!pthread_create(&t, NULL, crowds, e));
	CHECK(!pthread_join(t, NULL));
	CHECK(!refused);
}

static void calm_peer(struct end *e)
{
	uint64_t n;

	while ((n = prog_hear(e))) {
		link_get(&e->l, (size_t)n);
		prog_tell(e, 1);
	}
}

static sigjmp_buf out;

static void on_late(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}

/*
 * A handler jumps out of a send that nothing reads, and the program writes over
 * the memory: what arrives is a beginning of what it sent.
 */
static void jump_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_late };
	uint8_t *buf = buffer();
	struct flow f = e->l.tx;

	CHECK(!sigaction(SIGALRM, &sa, NULL));
	flow_fill(&f, buf, BIG);
	prog_sync(e);
	if (!sigsetjmp(out, 1)) {
		alarm_us(300000, 0);
		while (send(e->l.fd, buf, BIG, 0) > 0)
			;
		prog_fail(__FILE__, __LINE__, "no jump");
	}
	memset(buf, 0, BIG);
	prog_sync(e);
	prog_sync(e);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	link_eof(&e->l);
}

static void *doomed(void *arg)
{
	struct link *l = arg;
	struct flow f = l->tx;
	uint8_t *buf = buffer();

	flow_fill(&f, buf, BIG);
	for (;;)
		if (send(l->fd, buf, BIG, 0) < (ssize_t)BIG)
			return NULL;
}

/* The thread that sends is cancelled: a right beginning of it arrives. */
static void cancel_run(struct end *e)
{
	pthread_t t;
	void *how;

	CHECK(!pthread_create(&t, NULL, doomed, &e->l));
	prog_nap_ms(10);
	CHECK(!pthread_cancel(t));
	CHECK(!pthread_join(t, &how));
	CHECK(how == PTHREAD_CANCELED);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	link_eof(&e->l);
}

/*
 * Reads what there is, of a stream that begins anew with every 8 MiB and of
 * which the first `sum` bytes, fewer than that, were read.
 */
static uint64_t rest(struct link *l, uint64_t sum, bool reset)
{
	uint8_t *buf = buffer();
	struct flow first = l->rx, f = first;
	ssize_t r;

	first.off -= sum;
	while ((r = read(l->fd, buf, BIG - sum % BIG)) > 0) {
		flow_check(&f, buf, (size_t)r);
		sum += (uint64_t)r;
		if (sum % BIG == 0)
			f = first;
	}
	CHECK(!r || (reset && errno == ECONNRESET));
	return sum;
}

static void cancel_peer(struct end *e)
{
	prog_nap_ms(40);
	rest(&e->l, 0, false);
}

static void jump_peer(struct end *e)
{
	struct sigaction sa = { .sa_handler = SIG_IGN };
	uint8_t *buf = buffer();
	ssize_t r;

	CHECK(!sigaction(SIGALRM, &sa, NULL));
	prog_sync(e);
	prog_sync(e);
	r = recv(e->l.fd, buf, MIB, MSG_DONTWAIT);
	if (r > 0)
		flow_check(&e->l.rx, buf, (size_t)r);
	prog_sync(e);
	rest(&e->l, r > 0 ? (uint64_t)r : 0, false);
}

/*
 * The second half of the buffer is not there. By copy the library would crash
 * (it looks at the first byte of a buffer only): only where it lends, and
 * waits for a reader however late.
 */
static void fault_run(struct end *e)
{
	const char *wait = getenv("LIBSDP_ZCOPY_WAIT_MS");
	uint8_t *buf = buffer(), *bad = buf + MIB / 2;
	struct flow f = e->l.tx;
	ssize_t r;

	flow_fill(&f, buf, MIB / 2);
	CHECK(!mprotect(bad, MIB, PROT_NONE));
	prog_sync(e);
	if (getenv("LD_PRELOAD") && (!wait || atoi(wait) < 1000)) {
		prog_tell(e, 0);
		return;
	}
	r = send(e->l.fd, buf, MIB, 0);
	CHECK(r > 0 && r <= (ssize_t)(MIB / 2));
	e->l.tx.off += (uint64_t)r;
	prog_tell(e, (uint64_t)r);
	FAILS(send(e->l.fd, bad, MIB / 2, 0), EFAULT);
	prog_sync(e);
	CHECK(!mprotect(bad, MIB, PROT_READ | PROT_WRITE));
	shoot_all(&e->l, buf, MIB);
}

static void fault_peer(struct end *e)
{
	uint64_t said, sum = 0;
	uint8_t *buf = buffer();
	ssize_t r;

	prog_sync(e);
	r = read(e->l.fd, buf, MIB);
	if (r > 0)
		flow_check(&e->l.rx, buf, (size_t)r);
	sum = r > 0 ? (uint64_t)r : 0;
	said = prog_hear(e);
	if (!said)
		return;
	CHECK(sum <= said);
	link_get(&e->l, (size_t)(said - sum));
	prog_sync(e);
	link_get(&e->l, MIB);
}

/* --- ends -------------------------------------------------------------- */

/* The writer is killed while it sends: a right beginning, then the end. */
static void killed_run(struct end *e)
{
	uint64_t at[3];
	uint8_t *buf = buffer();
	struct flow first = e->l.rx, f = first;
	int i;

	for (i = 0; i < 3; i++) {
		size_t left = BIG;

		f = first;
		while (left) {
			ssize_t r = read(e->l.fd, buf, left);

			CHECK(r > 0);
			flow_check(&f, buf, (size_t)r);
			left -= (size_t)r;
		}
		at[i] = f.off;
	}
	CHECK(at[0] == at[2]);
	CHECK(!kill(e->pid, SIGKILL));
	rest(&e->l, 0, true);
}

static void killed_peer(struct end *e)
{
	doomed(&e->l);
}

/* The reader is killed: the send ends, with an error. */
static void deaf_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = SIG_IGN };
	uint8_t *buf = buffer();
	ssize_t r;

	CHECK(!sigaction(SIGPIPE, &sa, NULL));
	prog_hear(e);
	while ((r = shoot(&e->l, buf, BIG, 0)) > 0)
		;
	CHECK(r == -1 && (errno == ECONNRESET || errno == EPIPE));
}

static void deaf_peer(struct end *e)
{
	uint8_t *buf = buffer();
	uint64_t sum = 0;
	ssize_t r;

	prog_tell(e, 1);
	while ((r = read(e->l.fd, buf, BIG)) > 0) {
		flow_check(&e->l.rx, buf, (size_t)r);
		sum += (uint64_t)r;
		if (sum > 20 * MIB)
			raise(SIGKILL);
	}
}

static void *shutter(void *arg)
{
	struct end *e = arg;

	prog_nap_ms(15);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	return NULL;
}

/* Half-closed under the sender: it fails, and its count is right. */
static void shut_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = SIG_IGN };
	uint8_t *buf = buffer();
	uint64_t sum = 0;
	pthread_t t;
	ssize_t r;

	CHECK(!sigaction(SIGPIPE, &sa, NULL));
	CHECK(!pthread_create(&t, NULL, shutter, e));
	while ((r = shoot(&e->l, buf, BIG, 0)) > 0)
		sum += (uint64_t)r;
	CHECK(r == -1 && errno == EPIPE);
	CHECK(!pthread_join(t, NULL));
	prog_tell(e, sum);
	link_eof(&e->l);
}

static void shut_peer(struct end *e)
{
	uint8_t *buf = buffer();
	uint64_t sum = 0, said;
	ssize_t r;

	while ((r = read(e->l.fd, buf, BIG)) > 0) {
		flow_check(&e->l.rx, buf, (size_t)r);
		sum += (uint64_t)r;
	}
	CHECK(!r);
	said = prog_hear(e);
	if (sum != said)
		fprintf(stderr, "%llu came, %llu were sent\n",
			(unsigned long long)sum, (unsigned long long)said);
	CHECK(sum == said);
}

/* --- processes and descriptors ----------------------------------------- */

/* Both of a family send, one after the other; the reader is one, too. */
static void family_run(struct end *e)
{
	uint8_t *buf = buffer();
	pid_t pid;
	int i;

	for (i = 0; i < 10; i++) {
		shoot_all(&e->l, buf, MIB);
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			shoot_all(&e->l, buf, MIB);
			_exit(0);
		}
		prog_reap(pid, 0);
		e->l.tx.off += MIB;
	}
}

static void family_peer(struct end *e)
{
	pid_t pid;
	int i;

	for (i = 0; i < 10; i++) {
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			link_get(&e->l, MIB);
			_exit(0);
		}
		prog_reap(pid, 0);
		e->l.rx.off += MIB;
		link_get(&e->l, MIB);
	}
}

/* The writer's process becomes another program while a thread sends. */
static void become_run(struct end *e)
{
	rest(&e->l, 0, true);
}

static void become_peer(struct end *e)
{
	char *argv[] = { (char *)(uintptr_t) "true", NULL };
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, doomed, &e->l));
	prog_nap_ms(15);
	execv("/bin/true", argv);
	prog_fail(__FILE__, __LINE__, "execv");
}

static const struct prog_case cases[] = {
	{ "signal", signal_run, signal_peer, CASE_PROCESS },
	{ "calm", calm_run, calm_peer, 0 },
	{ "jump", jump_run, jump_peer, CASE_PROCESS },
	{ "cancel", cancel_run, cancel_peer, 0 },
	{ "fault", fault_run, fault_peer, 0 },
	{ "killed", killed_run, killed_peer, CASE_PROCESS | CASE_DIES },
	{ "deaf", deaf_run, deaf_peer, CASE_PROCESS | CASE_DIES },
	{ "shut", shut_run, shut_peer, 0 },
	{ "family", family_run, family_peer, CASE_PROCESS },
	{ "become", become_run, become_peer, CASE_PROCESS },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
