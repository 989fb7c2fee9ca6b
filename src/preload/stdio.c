/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where stdio meets descriptors. A stream reads and writes by system calls
 * inside libc, so the socket under it falls back, and out of the table: its
 * fclose() will not be seen either.
 */
#include "preload/fd/real.h"

#include <stdlib.h>

#include "preload/preload.h"
#include "preload/ready.h"

int dprintf_out(int fd, const char *fmt, ...) __asm__("dprintf")
	__attribute__((visibility("default"), format(printf, 2, 3)));
int dprintf_chk_out(int fd, int flag, const char *fmt,
		    ...) __asm__("__dprintf_chk")
	__attribute__((visibility("default"), format(printf, 3, 4)));

FILE *do_fdopen(int fd, const char *mode)
{
	struct sock *s;
	FILE *f;
	int ret;
	ENTER_CHECKED(e, fd);

	s = e.sock;
	if (likely(!s) || !fdt_is_owner())
		return real_fdopen(fd, mode);
	ret = sock_listening(s) ? 0 : sock_fallback(s, fd, WHY_STDIO);
	if (ret) {
		errno = -ret;
		return NULL;
	}
	f = real_fdopen(fd, mode);
	if (!f) {
		sock_unpin(s);
		return NULL;
	}
	ep_forget(fd, s);
	if (fdt_take_sock(fd) == s)
		sock_forget(s, fd);
	return f;
}

/* All of it or -1, as stdio does. */
static int put_all(int fd, char *text, int len)
{
	ssize_t n;
	int done = 0;

	while (done < len) {
		n = do_write(fd, text + done, (size_t)(len - done));
		if (n < 0) {
			len = -1;
			break;
		}
		done += (int)n;
	}
	free(text);
	return len;
}

int do_vdprintf(int fd, const char *fmt, va_list ap)
{
	char *text;
	int len;

	if (likely(!fdt_has_sock(fd)))
		return real_vdprintf(fd, fmt, ap);
	len = vasprintf(&text, fmt, ap);
	return len < 0 ? len : put_all(fd, text, len);
}

int do___vdprintf_chk(int fd, int flag, const char *fmt, va_list ap)
{
	char *text;
	int len;

	if (likely(!fdt_has_sock(fd)))
		return real___vdprintf_chk(fd, flag, fmt, ap);
	len = __vasprintf_chk(&text, flag, fmt, ap);
	return len < 0 ? len : put_all(fd, text, len);
}

int dprintf_out(int fd, const char *fmt, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = do_vdprintf(fd, fmt, ap);
	va_end(ap);
	return ret;
}

int dprintf_chk_out(int fd, int flag, const char *fmt, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = do___vdprintf_chk(fd, flag, fmt, ap);
	va_end(ap);
	return ret;
}
