/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An end that records has a byte of the file locked, far behind all that will
 * ever be written. Such a lock belongs to the open file: children have it, too,
 * it ends with the last of them, and others can ask for it, on any host that
 * has the file. F_GETLK asks in the name of the process, and so it sees the
 * locks of this open file as well: both ends may be here.
 */

#include "socket/core/capture.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "socket/core/core.h"
#include "socket/core/frame.h"

#define CLAIMS (1ll << 62) /* offset of the first such byte */

#ifndef F_OFD_SETLK
#define F_OFD_SETLK 37
#endif

bool capture_on;

static struct {
	int fd;
	dev_t dev;
	ino_t ino;
} file = { .fd = -1 };

static void stop(int err)
{
	if (__atomic_exchange_n(&capture_on, false, __ATOMIC_RELAXED))
		log_err("Error: capture_file %s: %s (%d): "
			"messages are not captured from here on",
			settings.capture_file, pcapng_why(err), -err);
}

void capture_begin(void)
{
	struct stat st;
	int fd, err = 0;

	if (!strcmp(settings.capture_file, "none") || config.secure)
		return;
	capture_on = true;
	fd = pcapng_open(settings.capture_file, false);
	if (fd >= 0)
		fd = fd_hide(fd);
	if (fd < 0)
		err = fd;
	else
		err = sys_fstat(fd, &st);
	if (err) {
		stop(err);
		return;
	}
	file.dev = st.st_dev;
	file.ino = st.st_ino;
	__atomic_store_n(&file.fd, fd, __ATOMIC_RELEASE);
}

bool capture_vacate(int fd)
{
	return fd_move(&file.fd, fd);
}

/* The descriptor may be something of the program's by now. */
static bool there(int fd, struct stat *st)
{
	return !sys_fstat(fd, st) && st->st_dev == file.dev &&
	       st->st_ino == file.ino;
}

/* --- the recorders -------------------------------------------------------- */

/* True: it is locked now, or was found so. */
static bool claim(int cmd, short type, const struct conn_names *n)
{
	struct flock l = { .l_type = type,
			   .l_whence = SEEK_SET,
			   .l_start = CLAIMS | (off_t)(frame_end(n) >> 2),
			   .l_len = 1 };
	int fd = __atomic_load_n(&file.fd, __ATOMIC_ACQUIRE);
	struct stat st;

	return there(fd, &st) && !sys_fcntl(fd, cmd, (long)&l) &&
	       l.l_type != F_UNLCK;
}

/* --- the file ------------------------------------------------------------- */

/*
 * What another process appends between the look at the length and this may make
 * the difference: SIGXFSZ is not for the program.
 */
static ssize_t put(int fd, const struct frame *f)
{
	uint64_t xfsz = 1ull << (SIGXFSZ - 1), mask = 0;
	bool limit = !sys_may_grow(INT64_MAX);
	struct timespec now = { 0, 0 };
	ssize_t n;

	if (limit)
		sys_call6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&xfsz,
			  (long)&mask, 8, 0, 0);
	n = sys_call3(SYS_writev, fd, f->part, 3);
	if (limit && n == -EFBIG)
		sys_call6(SYS_rt_sigtimedwait, (long)&xfsz, 0, (long)&now, 8, 0,
			  0);
	if (limit)
		sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, 8, 0,
			  0);
	return n;
}

/* A whole block or nothing: half a one would hide those behind it. */
static int append(const struct frame *f)
{
	int fd = __atomic_load_n(&file.fd, __ATOMIC_ACQUIRE);
	struct stat st, now;
	ssize_t n;

	if (!there(fd, &st))
		n = -EBADF;
	else if (!sys_may_grow(st.st_size + (off_t)f->len))
		n = -EFBIG;
	else
		n = put(fd, f);
	if (n == (ssize_t)f->len)
		return 0;
	if (n > 0 && there(fd, &now) && now.st_size == st.st_size + n)
		sys_ftruncate(fd, st.st_size);
	return n < 0 ? (int)n : -ENOSPC;
}

/* --- messages ------------------------------------------------------------- */

/* `len` 0: of the set-up. Its room on the stack is not there for the log. */
static __attribute__((noinline)) int record(const struct conn_names *from,
					    const uint8_t *msg, uint32_t len)
{
	uint64_t now = clock_read_ns(CLOCK_REALTIME);
	struct frame f;

	if (len)
		frame_message(&f, now, from, msg, len,
			      (uint32_t)settings.capture_bytes);
	else
		frame_setup(&f, now, from, msg);
	return append(&f);
}

static void seen(const struct conn_names *n, bool out, const uint8_t *msg,
		 uint32_t len)
{
	struct conn_names from = out ? *n : frame_flip(n);
	int err = record(&from, msg, len);

	if (unlikely(err))
		stop(err);
}

void capture_setup_on(const struct conn_names *n, bool out, const uint8_t *msg)
{
	seen(n, out, msg, 0);
}

void capture_greet_on(const struct conn_names *n, const uint8_t *msg)
{
	claim(F_OFD_SETLK, F_WRLCK, n);
	capture_setup_on(n, true, msg);
}

bool capture_greeted_on(const struct conn_names *n, const uint8_t *msg)
{
	struct conn_names from = frame_flip(n);
	bool records = claim(F_GETLK, F_WRLCK, &from);

	if (!records)
		capture_setup_on(n, false, msg);
	return records;
}

void capture_message_on(const struct conn_names *n, bool out,
			const uint8_t *msg, uint32_t len)
{
	if (len)
		seen(n, out, msg, len);
}

struct conn_names capture_names(const struct sock *s)
{
	return s->link ? s->link->names(s) : s->seek.pair.names;
}

void capture_sent_on(const struct sock *s, const uint8_t *msg, uint32_t len)
{
	struct conn_names n = capture_names(s);

	capture_message_on(&n, true, msg, len);
}

void capture_came_on(const struct sock *s, const uint8_t *msg, uint32_t len)
{
	struct conn_names n;

	if (s->link ? s->link->records(s) : s->seek.pair.records)
		return;
	n = capture_names(s);
	capture_message_on(&n, false, msg, len);
}

void capture_left_on(const struct sock *s)
{
	struct conn_names n = capture_names(s);

	claim(F_OFD_SETLK, F_UNLCK, &n);
}
