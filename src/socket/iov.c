/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A cursor over the program's buffers. */

#include <limits.h>

#include "socket/impl.h"

void cursor_get(struct cursor *c, void *to, size_t n)
{
	uint8_t *out = to;

	while (n) {
		size_t part = c->iov->iov_len - c->at;

		if (part > n)
			part = n;
		memcpy(out, (const uint8_t *)c->iov->iov_base + c->at, part);
		out += part;
		n -= part;
		c->at += part;
		while (c->left && c->at == c->iov->iov_len) {
			c->iov++;
			c->left--;
			c->at = 0;
		}
	}
}

void cursor_put(struct cursor *c, const void *from, size_t n)
{
	const uint8_t *in = from;

	while (n) {
		size_t part = c->iov->iov_len - c->at;

		if (part > n)
			part = n;
		memcpy((uint8_t *)c->iov->iov_base + c->at, in, part);
		in += part;
		n -= part;
		c->at += part;
		while (c->left && c->at == c->iov->iov_len) {
			c->iov++;
			c->left--;
			c->at = 0;
		}
	}
}

void cursor_skip(struct cursor *c, size_t n)
{
	while (n) {
		size_t part = c->iov->iov_len - c->at;

		if (part > n)
			part = n;
		n -= part;
		c->at += part;
		while (c->left && c->at == c->iov->iov_len) {
			c->iov++;
			c->left--;
			c->at = 0;
		}
	}
}

#define PAGES_KNOWN 16
static __thread uintptr_t pages_known[PAGES_KNOWN]
	__attribute__((tls_model("initial-exec")));

/*
 * The kernel reads a signal set before it looks at what to do with it: EFAULT
 * says that the memory is not there, EINVAL that it is. Nothing is changed.
 */
bool iov_there(const void *mem)
{
	uintptr_t at = (uintptr_t)mem;

	return sys_call6(SYS_rt_sigprocmask, -1, (long)(at & ~(uintptr_t)7), 0,
			 8, 0, 0) != -EFAULT;
}

bool iov_sound(const struct iovec *iov, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		uintptr_t at = (uintptr_t)iov[i].iov_base, page = at >> 12;

		if (!iov[i].iov_len ||
		    likely(page && pages_known[page % PAGES_KNOWN] == page))
			continue;
		if (!page || !iov_there(iov[i].iov_base))
			return false;
		pages_known[page % PAGES_KNOWN] = page;
	}
	return true;
}

ssize_t iov_sum(const struct iovec *iov, size_t n)
{
	size_t sum = 0, i;

	if (n > IOV_MAX)
		return -EMSGSIZE;
	for (i = 0; i < n; i++) {
		if (iov[i].iov_len > SSIZE_MAX - sum)
			return -EINVAL;
		sum += iov[i].iov_len;
	}
	return (ssize_t)sum;
}
