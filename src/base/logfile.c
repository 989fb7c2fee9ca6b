/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/log_int.h"
#include "base/lock.h"
#include "base/sys.h"
#include "base/text.h"

#define FILE_LOWEST_FD 1000 /* out of the program's way, if allowed */

/*
 * The descriptor and what it must refer to. A program that closes numbers it
 * did not open may have something of its own there: each line asks first.
 */
static struct {
	struct lock lock; /* guards opening */
	int fd;
	dev_t dev;
	ino_t ino;
	char name[512];
	char path[560];
} file = { .fd = -1 };

int logfile_name(const char *name)
{
	const char *base = text_base_name(name);

	if (!*base || !strcmp(base, ".") || !strcmp(base, ".."))
		return -EINVAL;
	if (strlen(name) >= sizeof(file.name))
		return -ENAMETOOLONG;
	if (file.fd >= 0)
		sys_close(file.fd);
	file.fd = -1;
	text_copy(file.name, sizeof(file.name), name);
	return 0;
}

const char *logfile_path(void)
{
	return file.path;
}

/* The directory of another user than root: ours alone, or refused. */
static int logfile_private_dir(void)
{
	unsigned int uid = sys_geteuid();
	struct text t = TEXT_IN(file.path);
	struct stat st;
	int dir, err;

	if (!strchr(file.name, '/'))
		text_add(&t, "/tmp/");
	text_add(&t, "%s.%u", file.name, uid);
	err = sys_mkdir(file.path, 0700);
	if (err && err != -EEXIST)
		return err;
	dir = sys_open(file.path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		       0);
	if (dir < 0)
		return dir;
	err = sys_fstat(dir, &st);
	if (!err && (st.st_uid != uid || (st.st_mode & 077)))
		err = -EPERM;
	text_add(&t, "/log");
	if (!err)
		return dir;
	sys_close(dir);
	return err;
}

static int logfile_safe(int fd, unsigned int bad_bits)
{
	struct stat st;
	int err = sys_fstat(fd, &st);

	if (err)
		return err;
	if (!S_ISREG(st.st_mode) || st.st_uid != sys_geteuid() ||
	    (st.st_mode & bad_bits) || st.st_nlink != 1)
		return -EPERM;
	file.dev = st.st_dev;
	file.ino = st.st_ino;
	return 0;
}

/* Takes the descriptor over. */
static int logfile_adopt(int fd, unsigned int bad_bits)
{
	int err = logfile_safe(fd, bad_bits), high;

	if (err) {
		sys_close(fd);
		return err;
	}
	high = sys_fcntl(fd, F_DUPFD_CLOEXEC, FILE_LOWEST_FD);
	if (high >= 0) {
		sys_close(fd);
		fd = high;
	}
	__atomic_store_n(&file.fd, fd, __ATOMIC_RELEASE);
	return 0;
}

static __attribute__((noinline)) int logfile_create(void)
{
	const int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW |
			  O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	struct text t = TEXT_IN(file.path);
	int dir, fd;

	if (sys_geteuid() == 0) {
		text_add(&t, "/var/log/%s", text_base_name(file.name));
		fd = sys_open(file.path, flags, 0600);
		return fd < 0 ? fd : logfile_adopt(fd, 022);
	}
	dir = logfile_private_dir();
	if (dir < 0)
		return dir;
	fd = sys_openat(dir, "log", flags, 0600);
	sys_close(dir);
	return fd < 0 ? fd : logfile_adopt(fd, 077);
}

/* Is the descriptor still the file? *st is filled if so. */
static int logfile_there(int fd, struct stat *st)
{
	return fd >= 0 && !sys_fstat(fd, st) && st->st_dev == file.dev &&
	       st->st_ino == file.ino;
}

/* Its room on the stack is not there while the lock is waited for. */
static __attribute__((noinline)) bool logfile_good(int fd)
{
	struct stat st;

	return logfile_there(fd, &st);
}

int logfile_open(void)
{
	int err = 0;

	if (logfile_good(__atomic_load_n(&file.fd, __ATOMIC_ACQUIRE)))
		return 0;
	if (lock_take(&file.lock) == -EDEADLK)
		return 0; /* a signal handler: this line goes elsewhere */
	if (!logfile_good(file.fd)) {
		__atomic_store_n(&file.fd, -1, __ATOMIC_RELEASE);
		err = logfile_create();
	}
	lock_drop(&file.lock);
	return err;
}

int logfile_append(const char *line, size_t len)
{
	int fd = __atomic_load_n(&file.fd, __ATOMIC_ACQUIRE);
	struct stat st;

	if (!logfile_there(fd, &st))
		return -EBADF;
	if (!sys_may_grow(st.st_size + (off_t)len))
		return -EFBIG;
	return sys_write(fd, line, len) == (ssize_t)len ? 0 : -EIO;
}

void logfile_forked(void)
{
	__atomic_store_n(&file.lock.word, 0, __ATOMIC_RELAXED);
}
