/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/log_int.h"
#include "base/scratch.h"
#include "base/sys.h"
#include "base/text.h"

#define LOG_USER (1 << 3) /* syslog's facility */

int log_min = LOG_ERR;

static char log_name[33];
static int log_pid;
static int log_dest = LOG_TO_STDERR;
static dev_t err_dev;
static ino_t err_ino;
static enum { ERR_ANY, ERR_KNOWN, ERR_CLOSED } err_state;

void log_set_min(int level)
{
	__atomic_store_n(&log_min, level, __ATOMIC_RELAXED);
}

void log_forked(void)
{
	__atomic_store_n(&log_pid, 0, __ATOMIC_RELAXED);
	logfile_forked();
}

const char *log_program(void)
{
	return log_name[0] ? log_name : program_invocation_short_name;
}

void log_begin(void)
{
	struct stat st;

	text_copy(log_name, sizeof(log_name), program_invocation_short_name);
	err_state = ERR_CLOSED;
	if (sys_fstat(2, &st))
		return;
	err_dev = st.st_dev;
	err_ino = st.st_ino;
	err_state = ERR_KNOWN;
}

int log_to(enum log_dest dest, const char *name)
{
	int err = 0;

	if (dest == LOG_TO_FILE)
		err = logfile_name(name);
	if (!err)
		__atomic_store_n(&log_dest, (int)dest, __ATOMIC_RELEASE);
	return err;
}

/* Days since 1970 to a date of the Gregorian calendar. */
static void log_date(struct text *t, int64_t days, int64_t second)
{
	static const char names[] = "ThuFriSatSunMonTueWed";
	static const char months[] = "MarAprMayJunJulAugSepOctNovDecJanFeb";
	int64_t z = days + 719468, era = z / 146097, doe = z % 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	int64_t m = (5 * doy + 2) / 153; /* 0 is March */
	int64_t year = yoe + era * 400 + (m >= 10);

	text_add(t, "%.3s %.3s %2d %02d:%02d:%02d %d", names + 3 * (days % 7),
		 months + 3 * m, (int)(doy - (153 * m + 2) / 5 + 1),
		 (int)(second / 3600), (int)(second / 60 % 60),
		 (int)(second % 60), (int)year);
}

static void log_clean(char *s, size_t n)
{
	for (; n--; s++)
		if ((unsigned char)*s < ' ' || *s == 127)
			*s = '?';
}

/* "PROGRAM[PID] libsdp MESSAGE\n" */
static __attribute__((noinline)) void log_body(struct text *t, const char *fmt,
					       va_list ap)
{
	int pid = __atomic_load_n(&log_pid, __ATOMIC_RELAXED);
	size_t from = t->len;

	if (!pid) {
		pid = sys_getpid();
		__atomic_store_n(&log_pid, pid, __ATOMIC_RELAXED);
	}
	t->size--; /* the newline always fits */
	text_add(t, "%.32s[%d] libsdp ", log_program(), pid);
	text_vadd(t, fmt, ap);
	t->size++;
	while (t->len > from && t->buf[t->len - 1] == '\n')
		t->len--;
	log_clean(t->buf + from, t->len - from);
	text_char(t, '\n');
}

/* Is number 2 still what the user sees as standard error? */
static bool log_err_usable(const struct stat *st)
{
	if (err_state == ERR_ANY || S_ISCHR(st->st_mode) ||
	    (err_state == ERR_KNOWN && st->st_dev == err_dev &&
	     st->st_ino == err_ino))
		return true;
	return S_ISREG(st->st_mode) && (sys_fcntl(2, F_GETFL, 0) & O_APPEND);
}

/* A pipe whose reader has gone must not kill the program. */
static __attribute__((noinline)) void log_pipe(const struct text *t)
{
	uint64_t pipe_bit = 1ull << (SIGPIPE - 1), old = 0, pending = 0;
	struct timespec now = { 0 };

	sys_call6(SYS_rt_sigpending, (long)&pending, 8, 0, 0, 0, 0);
	sys_call6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&pipe_bit, (long)&old, 8,
		  0, 0);
	if (sys_write(2, t->buf, t->len) == -EPIPE && !(pending & pipe_bit))
		sys_call6(SYS_rt_sigtimedwait, (long)&pipe_bit, 0, (long)&now,
			  8, 0, 0);
	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, 8, 0, 0);
}

static __attribute__((noinline)) void log_stderr(const struct text *t)
{
	struct pollfd p = { .fd = 2, .events = POLLOUT };
	struct timespec now = { 0 };
	struct stat st;

	if (sys_fstat(2, &st) || !log_err_usable(&st))
		return;
	if (S_ISREG(st.st_mode)) {
		if (sys_may_grow(st.st_size + (off_t)t->len))
			sys_write(2, t->buf, t->len);
		return;
	}
	/* not where RLIMIT_NOFILE is 0: no more of the stack for that */
	if (sys_call6(SYS_ppoll, (long)&p, 1, (long)&now, 0, 8, 0) != 1 ||
	    !(p.revents & POLLOUT) || (p.revents & (POLLERR | POLLNVAL)))
		return;
	if (S_ISSOCK(st.st_mode))
		sys_send(2, t->buf, t->len, MSG_NOSIGNAL | MSG_DONTWAIT);
	else if (S_ISFIFO(st.st_mode))
		log_pipe(t);
	else
		sys_write(2, t->buf, t->len);
}

/* The socket lives for one message: no descriptor of ours to be closed. */
static __attribute__((noinline)) bool log_syslog(int level, const char *msg,
						 size_t len)
{
	static const struct sockaddr_un dev = { .sun_family = AF_UNIX,
						.sun_path = "/dev/log" };
	static const unsigned char severity[] = { 7, 7, 7, 7, 6, 6,
						  6, 6, 5, 4, 3 };
	const size_t size = LOG_LINE + 8;
	SCRATCH(room);
	struct text t = { .buf = scratch_take(&room, size), .size = size };
	int fd, err;

	if (!t.buf)
		return false;
	text_add(&t, "<%d>", LOG_USER | severity[level]);
	text_bytes(&t, msg, len - 1);
	fd = sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	err = sys_connect(fd, &dev, sizeof(dev));
	if (!err && sys_send(fd, t.buf, t.len, MSG_NOSIGNAL) < 0)
		err = -EIO;
	sys_close(fd);
	return !err;
}

/* What `dest` did not take, standard error gets. */
static __attribute__((noinline)) void
log_deliver(int dest, int level, const struct text *t, size_t stamp)
{
	if (dest == LOG_TO_SYSLOG &&
	    log_syslog(level, t->buf + stamp, t->len - stamp))
		return;
	if (dest == LOG_TO_FILE && !logfile_append(t->buf, t->len))
		return;
	log_stderr(t);
}

/* Returns where the message begins, behind the date. */
static __attribute__((noinline)) size_t log_stamp(struct text *t)
{
	struct timespec now = { 0 };

	clock_source(CLOCK_REALTIME, &now);
	log_date(t, now.tv_sec / 86400, now.tv_sec % 86400);
	text_char(t, ' ');
	return t->len;
}

/* The steps lie one after the other on the stack, not one upon the other. */
static __attribute__((noinline)) void log_line(int dest, int level,
					       const char *fmt, va_list ap)
{
	SCRATCH(room);
	struct text t = { .buf = scratch_take(&room, LOG_LINE),
			  .size = LOG_LINE };
	size_t stamp;

	if (!t.buf)
		return;
	stamp = log_stamp(&t);
	log_body(&t, fmt, ap);
	log_deliver(dest, level, &t, stamp);
}

static void log_refused(const char *fmt, ...)
	__attribute__((format(printf, 1, 2)));
static __attribute__((noinline)) VARIADIC void log_refused(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(LOG_TO_STDERR, LOG_ERR, fmt, ap);
	va_end(ap);
}

/* Where a line goes now: a file that cannot be opened gets none. */
static __attribute__((noinline)) int log_where(void)
{
	int dest = __atomic_load_n(&log_dest, __ATOMIC_ACQUIRE);
	int err = dest == LOG_TO_FILE ? logfile_open() : 0;

	if (err) {
		dest = LOG_TO_STDERR;
		__atomic_store_n(&log_dest, dest, __ATOMIC_RELEASE);
		log_refused("Cowardly refusing to log into %s (%d)",
			    logfile_path(), -err);
	}
	return dest;
}

VARIADIC void log_write(int level, const char *fmt, ...)
{
	int dest = log_where();
	va_list ap;

	if (level < LOG_DEBUG || level > LOG_ERR)
		level = LOG_ERR;
	va_start(ap, fmt);
	log_line(dest, level, fmt, ap);
	va_end(ap);
}
