/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_PRELOAD_PRELOAD_H
#define LIBSDP_PRELOAD_PRELOAD_H

/*
 * What the files of the preload room share. There are three tiers of names:
 * `real_X` is libc's call (through RTLD_NEXT), `do_X` is our meaning of it, and
 * the exported X is one line.
 */

#include "preload/epoll/epoll.h"
#include "preload/fd/fdtable.h"

/* --- yield.c ----------------------------------------------------------- */

/*
 * The call failed for want of a number (EMFILE, ENFILE): may it be tried
 * again, because one of the library's own was given up? errno is kept.
 */
bool sock_retry(int ret);
/* Give one of the library's numbers up; false: there is none to give. */
bool yield_number(void);
/* This one, which is ours: false, it has to stay. */
bool yield_that(int fd);

/* --- numbers.c ----------------------------------------------------------- */

/*
 * fn for each open number, that of the walk excepted; false: /proc tells none.
 */
bool numbers_each(void (*fn)(int fd, void *arg), void *arg);
/* As exec_fallback(), in the child of a vfork(): by what its numbers really are. */
void numbers_fallback(enum reason why);

/* Sockets that a call keeps on TCP, by inode and number, in pages of our own. */
struct kept {
	size_t n, room;
	struct kept_one {
		uint64_t inode;
		int fd;
	} one[]; /* one for each time that it is counted */
};

/* Room for all that the table has now; NULL: none, all below do without. */
struct kept *kept_begin(void);
/* False: there is no room for it. */
bool kept_add(struct kept *k, uint64_t inode, int fd);
/* sock_unpin() for each that this process still has, once for each place. */
void kept_unpin(const struct kept *k);
void kept_end(struct kept *k);

/* --- fork.c, exec.c ---------------------------------------------------- */

/* In a new child: locks, process id, table, sets. Safe to call twice. */
void proc_child(void);
/* Before main(): ours run inside of all other handlers of fork(). */
void fork_handlers(void);

/*
 * Foreign code is about to get descriptors (exec, spawn): bring back to TCP
 * every sock whose number is not close-on-exec, and keep it there. One of the
 * other two follows, if the call returns: `undo`: it did not come to pass, or
 * that code has ended; else the code lives on with them, and they stay. What
 * was opened, duplicated or kept by another call meanwhile is not touched.
 */
struct kept *exec_fallback(enum reason why);
void exec_undo(struct kept *k);
void exec_done(struct kept *k);
bool number_survives(int fd); /* it is open, and not close-on-exec */

/* --- fatal.c ----------------------------------------------------------- */

/* Before a socket is managed: signals that end the process leave a line. */
void fatal_begin(void);
bool fatal_watches(int sig); /* what is its default is fatal.c's */
/* No more of that: the defaults are the kernel's again. */
void fatal_end(void);
/*
 * sigaction() of what is no handler of the program. *was is the kernel's;
 * seen() makes of it what the program is to see.
 */
struct sigaction;
int fatal_action(int sig, const struct sigaction *sa, struct sigaction *was);
void fatal_seen(struct sigaction *was);
/* sigdefer_default */
struct sigdefer_action;
void fatal_default(int sig, const struct sigdefer_action *was);

/* --- sigaction.c ------------------------------------------------------- */

/*
 * From here on the program's handlers, those too that it has, run where no call
 * of the library is in their way. May be called again.
 */
void sigaction_begin(void);
/*
 * Before a socket is managed: a fault in a copy (ucopy.h) comes to the entry, also
 * where the program has no handler. May be called again.
 */
void sigaction_faults(void);
/* What is set from here on is libc's alone, and costs its system calls. */
void sigaction_end(void);
void sigaction_forked(void); /* in the child */

/* --- sockets.c --------------------------------------------------------- */

void sockets_forked(void); /* in the child */
/*
 * Is a send with MSG_FASTOPEN to there a connect? Else the kernel refuses it,
 * and moves no byte. `len` bytes at `sa` can be read.
 */
bool fastopens(int fd, const struct sockaddr *sa, socklen_t len);

/* --- move.c -------------------------------------------------------------- */

/*
 * Something that the library does not see is about to use it. 0, or a negative
 * errno: the stream cannot be brought back to TCP.
 */
int bring_back(int fd);
/* The same for what io_submit() is about to be given. */
struct iocb;
int aio_submitting(long n, struct iocb *const *list);

/* --- uring.c ----------------------------------------------------------- */

/*
 * Calls about an io_uring that came by syscall(). made(): `fd` is a new ring,
 * and the kernel has filled in *p. entering(): `n` entries are about to be
 * submitted; those that are a call of ours are carried out and changed to
 * IORING_OP_NOP. registering(): io_uring_register() is about to be called.
 * closing(): these numbers are about to go.
 */
struct io_uring_params;
extern uint32_t uring_any; /* rings that are known */
void uring_made(int fd, const struct io_uring_params *p);
void uring_entering(int fd, unsigned int n, unsigned int flags);
void uring_registering(unsigned int op, uint64_t arg, unsigned int n);
/* The same for a list of descriptors. */
void uring_files(const int *fds, unsigned int n);
/* liburing made the ring `fd`: it is read only if the program enters it. */
void uring_noted(int fd, const struct io_uring_params *p);
/*
 * An entry that is about to be submitted. after: behind one that it is linked
 * to; returns whether the next one is.
 */
struct io_uring_sqe;
bool uring_look(struct io_uring_sqe *e, bool after);
void uring_closing_slow(unsigned int first, unsigned int last);
static inline void uring_closing(unsigned int first, unsigned int last)
{
	if (__builtin_expect(__atomic_load_n(&uring_any, __ATOMIC_RELAXED), 0))
		uring_closing_slow(first, last);
}

/* --- sandbox.c --------------------------------------------------------- */

/* seccomp(op, flags, arg) is about to be called. */
void sandbox_by_call(unsigned int op, unsigned int flags, const void *arg);

/* --- deepbind.c -------------------------------------------------------- */

/* libc's; NULL until the first dlopen() or the constructor. */
extern void *(*real_dlopen)(const char *file, int mode);
void deepbind_resolve(void);

/* --- jump.c ------------------------------------------------------------ */

/* Before main(): can the target of a jump be read? */
void jump_learn(void);

#endif
