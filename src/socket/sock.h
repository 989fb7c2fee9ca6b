/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_SOCK_H
#define LIBSDP_SOCKET_SOCK_H

/*
 * What a descriptor stands for: a kernel TCP socket (the anchor) whose two
 * directions are carried by the kernel or by SDP. This is all the preload
 * room knows of the rest of the house.
 *
 * A struct sock lies in memory shared by a process and its descendants. The
 * preload room's descriptor table points to it; every number that points to
 * it is counted (sock_hold / sock_close).
 *
 * Data calls return a count or a negative errno, exactly what the kernel's
 * call would give; SIGPIPE is raised here when the kernel would. They are
 * safe against fork, threads, signals and cancellation: no lock is held while
 * a call sleeps. `fd` is the program's number for the anchor.
 */

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/reason.h"

struct sock;
struct stamp_log;

/* What the preload room lends: the real libc calls, and its ear. */
struct sock_hooks {
	ssize_t (*recv)(int, void *, size_t, int);
	ssize_t (*send)(int, const void *, size_t, int);
	ssize_t (*recvmsg)(int, struct msghdr *, int);
	ssize_t (*sendmsg)(int, const struct msghdr *, int);
	int (*ppoll)(struct pollfd *, nfds_t, const struct timespec *,
		     const sigset_t *);
	/*
	 * The carrier of a direction changed, or the wake-up descriptor came or
	 * went: epoll registrations of `s` must be looked at again. Called
	 * without locks, maybe from another thread than the waiter's.
	 */
	void (*changed)(struct sock *s);
	/*
	 * User-space readiness of `s` may have risen (data or room came in
	 * while this thread did something else). Called without locks.
	 */
	void (*risen)(struct sock *s);
	/* Find the program's sock whose anchor has this inode, or NULL. */
	struct sock *(*by_inode)(uint64_t inode, int *fd);
	/* A number of s but that, not about to be something else, or -1. */
	int (*another)(const struct sock *s, int but);
	/* fn for each number of s that is not about to be something else. */
	void (*numbers)(const struct sock *s, void (*fn)(int fd, void *arg),
			void *arg);
	/* libc's, which the program's calls of ours go on to. */
	void *(*dlopen)(const char *file, int mode);
	/* Is `fd` a number of s, and not about to be something else? */
	bool (*has)(int fd, const struct sock *s);
	/*
	 * fn for each sock that this process has, with a number of it. It may
	 * sleep, if it has counted itself in.
	 */
	void (*each)(void (*fn)(struct sock *s, int fd, void *arg), void *arg);
	/*
	 * May another thread be about to hand a number of s, `fd` among them,
	 * to the kernel for what it stood for before?
	 */
	bool (*elsewhere)(const struct sock *s, int fd);
};

/* Once, from the constructor. */
void sock_setup(const struct sock_hooks *h);

/*
 * The rules are to be read again (page_asked()): of a process whose table it
 * is, outside. Any of its threads; returns at once where another one does so.
 */
void sock_reload(void);
/* It listens: though no rule concerns it, it can be asked to from here on. */
void sock_listens(int fd);

/* --- birth and names --------------------------------------------------- */

/* Can any rule or setting make a socket of this process ours? */
bool sock_possible(void);
/*
 * A stream socket of the program came to be (socket()); `native`: asked for
 * by family 27/28. NULL when no rule can ever concern it or memory is short:
 * the number then stays untracked and belongs to the kernel alone.
 */
struct sock *sock_new(int fd, int family, int type, bool native);
/*
 * What a connection has from its listener. An accepting thread looks before the
 * call, for another thread may close the listener while it runs, and again
 * after it, for the options may have changed. false: `l` is no listener, and
 * *to is as it was.
 */
struct sock_legacy {
	int64_t rcvtimeo, sndtimeo; /* ns, 0: none */
	uint32_t rule_line;
	int family;
	uint8_t use; /* enum rule_use */
	bool any; /* the listener's address is the wildcard */
	uint16_t bars; /* options that only the kernel has */
	uint8_t bufs; /* sizes of buffers that were set */
	bool inq;
	bool native, linger0, stamps;
};
bool sock_legacy(struct sock *l, struct sock_legacy *to);
/* accept() returned `fd`; `flags`: SOCK_NONBLOCK. */
struct sock *sock_accepted(const struct sock_legacy *from, int fd, int flags);
/*
 * The same from a number that the program did not get by socket(): a listener
 * that it inherited or was given. NULL, and so for every later connection:
 * it is none of TCP, or no rule can concern it.
 */
struct sock *sock_inherited(int listener, int fd, int flags);
/*
 * listen() or connect() is about to happen: match the rules. Returns false
 * when the socket is the kernel's for ever (rule tcp): forget it
 * (sock_close with `keep`). May change nothing on the anchor.
 */
bool sock_before_listen(struct sock *s, int fd);
bool sock_before_connect(struct sock *s, int fd, const struct sockaddr *sa,
			 socklen_t len);
/* connect() returned `ret` (0 or negative errno, -EINPROGRESS included). */
void sock_after_connect(struct sock *s, int fd, int ret);
/*
 * connect() to AF_UNSPEC: it was brought back to TCP, and may be connected
 * again.
 */
void sock_dissolved(struct sock *s);
/* Is it a listener (never lifted, but accept() must make socks)? */
bool sock_listening(const struct sock *s);
bool sock_native(const struct sock *s); /* family 27 or 28 was asked for */

/* --- a rule `native` (bridge.h) ---------------------------------------- */

/* After sock_before_connect(): is connect() this way? */
bool sock_bridges(const struct sock *s);
/*
 * In place of the kernel's connect() to `sa`. 0 or negative errno is the
 * result; 1, or 2 for the first one: the kernel's connect() to *to (*to_len
 * bytes) is, by way of sock_bridged().
 */
int sock_bridge(struct sock *s, int fd, const struct sockaddr *sa,
		socklen_t len, struct sockaddr_storage *to, socklen_t *to_len);
int sock_bridged(struct sock *s, int fd, int ret, bool first);
/*
 * The kernel's getpeername() said yes, with a name of `*len` bytes in room for
 * `room`: 0 with the true name, or -ENOTCONN. Socks of other kinds: nothing.
 */
int sock_peername(struct sock *s, struct sockaddr *sa, socklen_t room,
		  socklen_t *len);
/* connect() to AF_UNSPEC dissolves the connection. */
void sock_bridge_off(struct sock *s);

/* --- descriptors and processes ----------------------------------------- */

/*
 * One more number of this process points to s (dup). False: it is closed, by
 * another thread.
 */
bool sock_hold(struct sock *s);
/*
 * A number is about to go (sock_hooks.has() says so by now). Must be called
 * before the kernel's close. True: kernel calls by this number would meet a
 * lifted anchor until then, it is to be covered first.
 *
 * The caller has the sock entered and counted (SOCK_STAYS) until nothing points
 * to it any more: the memory of one whose last number went is given back behind
 * that.
 */
bool sock_close(struct sock *s, int fd);
/* The same for one that became something else; `at` still is what it was. */
void sock_close_at(struct sock *s, int fd, int at);
/*
 * Behind one of these and the kernel's close: what this process sends from now
 * on by other sockets comes behind the end of this one (stamp.h).
 */
void sock_ended(struct sock *s);
/*
 * Something without any meaning takes the number: for every call it is as good
 * as closed, but it is not given out again before it is. What it was is closed
 * (and may linger). False: that cannot be had.
 */
bool fd_cover(int fd);
/*
 * Forget without closing: `fd` is the kernel's alone from now on, or was closed
 * unseen, and may be something else by now.
 */
void sock_forget(struct sock *s, int fd);

/*
 * exec: before it for each number, `leaves` where the number is closed by it;
 * once more, false, when it failed.
 */
void sock_exec(struct sock *s, int fd, bool leaves);

/*
 * fork: `before` in the parent for each number of the table; afterwards
 * `parent` (pid: the child, or -1) for each number, `child` once for each
 * sock; it returns false when its numbers must be forgotten there. `birth` is
 * the child's name until its pid is known, of which sock_birth() makes one for
 * each fork: several may be under way.
 */
int32_t sock_birth(void);
/*
 * `before`: true, it has to be on TCP for the child, and its peer was asked.
 * If one was, then `wait` for each, until `until` (clock_ns()) at most.
 */
bool sock_fork_before(struct sock *s, int fd, int32_t birth);
void sock_fork_wait(struct sock *s, int fd, uint64_t until);
void sock_fork_parent(struct sock *s, int32_t birth, int pid);
bool sock_fork_child(struct sock *s, int32_t birth);
/* In the parent, after the last `before` and in front of the first `parent`. */
void sock_fork_hold(void);
void sock_fork_resume(void);
/* Once in the child, before the numbers. */
void sock_forked(void);
/*
 * In a child that had no socket to inherit; calls may have been made before.
 * Does nothing when the child has called it already.
 */
void sock_renamed(void);

/*
 * Bring both directions back to TCP to the anchor and keep them there: from 0
 * on code that libsdp does not see may use the descriptor. Waits (bounded,
 * settings.fallback_timeout_ms) for the peer. -EAGAIN: not home; nothing lost.
 * Many at once: fallback_begin() for each, then sock_fallback_until() for each,
 * with one limit (clock_ns()) that sock_fallback_limit() gave before. `fd` -1:
 * by any number that this process has, as long as it has one. One that is
 * closed meanwhile by another thread is back on TCP.
 */
void sock_fallback_begin(struct sock *s, int fd, enum reason why);
int sock_fallback(struct sock *s, int fd, enum reason why);
int sock_fallback_until(struct sock *s, int fd, enum reason why,
			uint64_t until);
uint64_t sock_fallback_limit(void);
/*
 * This process is about to execute another program, or has failed to: what its
 * peers have not read yet is not left in memory that goes with it.
 */
void sock_executes(bool on);
/*
 * Bring all back to TCP and never lift again in this process (seccomp,
 * unshare).
 */
void sock_fallback_all(enum reason why);
/*
 * This process has taken a descriptor of process `pid`, a socket with this
 * inode: asks libsdp there, if it is there, to have it on TCP for good. 0:
 * foreign code may use it; -EAGAIN: that process does not answer.
 */
int sock_passed_by(int pid, uint64_t inode);
/* The reason above no longer holds (exec failed): may lift again. */
void sock_unpin(struct sock *s);
void sock_not_passed(struct sock *s); /* the same, of one that was not sent */
/* Signals for input: the kernel's alone. 0, or -EAGAIN: it cannot fall back. */
int sock_async(struct sock *s, int fd, bool on);
bool sock_lifted(const struct sock *s); /* any direction not the anchor's */
uint64_t sock_inode(struct sock *s);
/* Does another process have it, or has foreign code got it? */
bool sock_shared(struct sock *s);
/*
 * Free an internal descriptor (EMFILE): 0 if one was freed. offer: that of a
 * connection that looks for its peer, if it has one.
 */
int sock_yield_offer(struct sock *s);
int sock_yield_fd(void);
/*
 * The program names this number, which is ours: 0, it is not any more (and
 * open, or free), or -EBUSY.
 */
int sock_vacate(int fd);
/* The same of one that looks for its peer: 0 if it was that number. */
int sock_move_offer(struct sock *s, int at);
/* The program may have more or fewer descriptors from now on. */
void sock_fd_limit(void);
/* No thread can be made soon: the service thread starts now, and stays. */
void sock_serve_always(void);
/* Is this number one of the library's own? The program may not close it. */
bool fd_hidden(int fd);
int fd_hidden_next(unsigned int from); /* the first such from there on, or -1 */
/* _exit, exit: what is under way is waited for; last words (statistics). */
void sock_exit(void);
void sock_last_words(void); /* bridged sockets (see below) go on */
/* A signal ends the process: last words only. Async-signal-safe. */
void sock_killed(void);
/*
 * Around an exec, true before and false if it failed: the words of this
 * program, which ends there; sdpstat does not see it any more.
 */
void sock_leave(bool leaves);

/* --- data -------------------------------------------------------------- */

ssize_t sock_recv(struct sock *s, int fd, void *buf, size_t len, int flags);
ssize_t sock_send(struct sock *s, int fd, const void *buf, size_t len,
		  int flags);
/* flags as recvmsg(); msg_name/control are treated as TCP does. */
ssize_t sock_recvmsg(struct sock *s, int fd, struct msghdr *m, int flags);
ssize_t sock_sendmsg(struct sock *s, int fd, const struct msghdr *m, int flags);
/*
 * The same for a call that has received or sent something already (recvmmsg()):
 * a handler ends a sleep in it whatever its flags say, as it ends a part. An
 * error of the connection that it returns is told again, to the next call.
 */
ssize_t sock_recvmsg_next(struct sock *s, int fd, struct msghdr *m, int flags);
ssize_t sock_sendmsg_next(struct sock *s, int fd, const struct msghdr *m,
			  int flags);
ssize_t sock_send_next(struct sock *s, int fd, const void *buf, size_t len,
		       int flags);
/*
 * By the ring, up to n bytes that lie in a pipe, which is not waited for: then
 * -ERESTART. *tcp: it is not the ring's.
 */
ssize_t sock_send_pipe(struct sock *s, int fd, int pipe, size_t n, bool *tcp);
/* sendfile() into the socket; *off may be NULL. */
ssize_t sock_sendfile(struct sock *s, int fd, int in, off_t *off, size_t n);
/* splice() between a pipe and the socket. */
ssize_t sock_splice_to(struct sock *s, int fd, int pipe, size_t n,
		       unsigned int flags);
ssize_t sock_splice_from(struct sock *s, int fd, int pipe, size_t n,
			 unsigned int flags);
int sock_shutdown(struct sock *s, int fd, int how);

/* --- options ----------------------------------------------------------- */

/* 0 or negative errno; 1: the kernel's answer (the caller asks it). */
int sock_setsockopt(struct sock *s, int fd, int level, int opt, const void *v,
		    socklen_t len);
int sock_getsockopt(struct sock *s, int fd, int level, int opt, void *v,
		    socklen_t *len);
/* FIONREAD, SIOCOUTQ, SIOCATMARK, FIONBIO, FIOASYNC; 1: the kernel's. */
int sock_ioctl(struct sock *s, int fd, unsigned long req, void *arg);
/* After F_SETFL / FIONBIO / accept4 flags: the file is (not) blocking. */
void sock_nonblock(struct sock *s, bool on);
int sock_atmark(struct sock *s, int fd); /* 1: the kernel's answer, -2 */

/* --- readiness --------------------------------------------------------- */

/*
 * What the library knows better than the kernel. `ours`: the EPOLL* bits
 * (IN, OUT, RDHUP, PRI, HUP, ERR) on which user space decides now; `now`:
 * those of them that are set. Bits outside `ours` are the anchor's. `ms`: look
 * again after so many milliseconds at the latest, or -1. in_gen and out_gen
 * rise with every arrival and every empty -> room: edges are made from them.
 * `asks`: what it is reported for, if it is so: OUT then holds for a send that
 * follows, whatever else is sent in between. With EPOLLET only news count.
 * `since`, `news`: stamps (stamp.h) as the peer gave them, of the first message
 * that is unread, and of the first that the last look for messages found.
 */
struct sock_ready {
	uint32_t ours, now;
	int ms;
	uint32_t in_gen, out_gen;
	uint64_t since, news;
};
void sock_ready(struct sock *s, int fd, uint32_t asks, struct sock_ready *r);
/*
 * What the peer's process had sent through the kernel before its last message,
 * where that has STAMP_MIXED: false, it is not known.
 */
bool sock_sends(struct sock *s, struct stamp_log *log);
/*
 * The port of the other end; 0: it has none. *read: stamp of the last receive
 * from the anchor that gave something, 0: none.
 */
uint16_t sock_peer_port(struct sock *s, int fd, uint64_t *read);
/*
 * This thread begins to wait: what an earlier wait of it told holds no more.
 * However often it looks in one wait, OUT holds.
 */
void sock_wait_begins(void);
/*
 * OUT is reported with other news, though it was asked for with EPOLLET only:
 * true, it holds as above; false: it is not so now, and will be news.
 */
bool sock_promise(struct sock *s);

/*
 * It is (+1) in an epoll set for which no thread was seen to wait, or no more
 * (-1). It is not paired meanwhile: a thread that waits unseen would sleep on.
 */
void sock_unwaited(struct sock *s, int delta);

/*
 * This process was seen to wait for sockets. A socket that does not block is
 * not paired before, unless it is asked again and again in vain: a thread that
 * waits unseen would sleep on.
 */
extern bool sock_wait_seen;
static inline void sock_saw_wait(void)
{
	if (__builtin_expect(!sock_wait_seen, 0))
		__atomic_store_n(&sock_wait_seen, true, __ATOMIC_RELAXED);
}

/* Is everything the kernel's (TCP both ways, nothing paired)? One load. */
bool sock_cold(const struct sock *s);
/*
 * Its numbers have become another open file (standin.c), and epoll entries of
 * theirs have gone: for good, and told by sock_hooks.changed.
 */
bool sock_substituted(const struct sock *s);
/* The wake-up descriptor to wait on beside the anchor, or -1. */
int sock_wake_fd(const struct sock *s);

/*
 * Sleeping on (anchor, wake-up descriptor) in poll or a set: arm, then look at
 * sock_ready() once more, then sleep. `in`: wants data, `out`: wants room.
 * sock_arm() stays in force until a message (or room) comes. sock_rang():
 * the wake-up descriptor was readable: takes the bytes that were rung before
 * the last look. `asleep`: the caller still counts itself by sock_sleep(), so
 * that one is none that the bytes might have to wake.
 */
void sock_arm(struct sock *s, bool in, bool out);
/* Awake and looking: data need not ring any more (no other thread waits). */
void sock_disarm(struct sock *s);
void sock_rang(struct sock *s, bool asleep);
/*
 * A thread goes to sleep on the anchor / the wake-up socket in poll(), and is
 * out again (counted: kicks and bytes stay until all are out; it watches it,
 * too). The sock may have been closed meanwhile, and its memory be another's:
 * then the number that sock_sleep() gave is that one's no more, and nothing
 * happens.
 */
uint32_t sock_sleep(struct sock *s);
void sock_awake(struct sock *s, uint32_t number);
/*
 * In front of a poll() of the kernel for data, of cold socks alone: one that is
 * lifted meanwhile leaves what wakes this thread on its anchor until it is out,
 * as after sock_sleep(). `in` is the caller's, on its stack: a handler may jump
 * out of the call. False: this one is not counted, nor any more of them.
 */
struct sock_doze {
	struct sock *s;
};
bool sock_doze(struct sock_doze *in, struct sock *s);
void sock_dozed(struct sock_doze *in);
/*
 * Is this thread inside of a call, which it must be in a signal handler then?
 * It is about to jump to where the stack pointer is `to`, and what lies below
 * is left for good.
 */
bool sock_within(void);
void sock_jumping(uintptr_t to);
/* s is in `delta` (+1/-1) more epoll sets: wake-ups stay armed. */
void sock_watch(struct sock *s, int delta);

/* How long may a waiting call spin now, ns (0: sleep at once)? */
uint64_t sock_spin_ns(struct sock *s);
bool sock_pending(struct sock *s); /* cheap: a message waits in the ring */
/* Neither that, nor has any look found something since sock_ready() said so. */
bool sock_quiet(struct sock *s, uint32_t in_gen);
/*
 * To ask sock_pending() while other threads may close it, this thread is inside
 * until sock_go_on(): its memory stays what it is. False: it is not lifted, or
 * this process has it no more.
 */
bool sock_stay(struct sock *s);
void sock_go_on(struct sock *s);
/*
 * The same of any, for a call that sleeps outside of the library (guard.h) and
 * uses the sock behind that: to the end of the block. A process that is killed
 * meanwhile is counted out.
 */
struct sock *sock_stays(struct sock *s);
void sock_stay_ends(struct sock *s);
static inline void sock_stayed(struct sock **s)
{
	sock_stay_ends(*s);
}
#define SOCK_STAYS(name, s) \
	struct sock *name   \
		__attribute__((cleanup(sock_stayed), unused)) = sock_stays(s)
/*
 * A spin, or a part of one, that was to end at `end` is over: was it kept from
 * ending? `ns`: so long the whole spin was to be.
 */
void sock_spin_ended(uint64_t now, uint64_t end, uint64_t ns);
/*
 * So long this thread has spun, for s among others: statistics. `whole`: the
 * spin is over, and took so long with its earlier parts; 0: it goes on.
 */
void sock_spin_spent(struct sock *s, uint64_t ns, uint64_t whole);
/* Feedback: spinning found something / did not. */
void sock_spun(struct sock *s, bool paid);

#endif
