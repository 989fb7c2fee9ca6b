/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A cursor over the program's buffers. */

#include <limits.h>

#include "base/mem.h"
#include "base/ucopy.h"
#include "socket/core/core.h"

#define PAGE  4096u /* the smallest there is */
#define LOOKS 16384 /* at pages, at most */

/* Of n bytes those in the current vector, and where they lie. */
static inline size_t piece(const struct cursor *c, size_t n, uint8_t **at)
{
	size_t part = c->iov->iov_len - c->at;

	*at = (uint8_t *)c->iov->iov_base + c->at;
	return part < n ? part : n;
}

static inline void go_on(struct cursor *c, size_t part)
{
	c->at += part;
	while (c->left && c->at == c->iov->iov_len) {
		c->iov++;
		c->left--;
		c->at = 0;
	}
}

bool cursor_get(struct cursor *c, void *to, size_t n)
{
	const struct cursor was = *c;
	uint8_t *out = to, *at;
	size_t part;

	for (; n; n -= part, out += part) {
		part = piece(c, n, &at);
		if (unlikely(!ucopy(out, at, part))) {
			*c = was;
			return false;
		}
		go_on(c, part);
	}
	return true;
}

bool cursor_put(struct cursor *c, const void *from, size_t n)
{
	const struct cursor was = *c;
	const uint8_t *in = from;
	uint8_t *at;
	size_t part;

	for (; n; n -= part, in += part) {
		part = piece(c, n, &at);
		if (unlikely(!ucopy(at, in, part))) {
			*c = was;
			return false;
		}
		go_on(c, part);
	}
	return true;
}

void cursor_skip(struct cursor *c, size_t n)
{
	uint8_t *at;
	size_t part;

	for (; n; n -= part) {
		part = piece(c, n, &at);
		go_on(c, part);
	}
}

size_t iov_sound(const struct cursor *c, bool write)
{
	size_t sum = 0, at = c->at, i, len, good;

	for (i = 0; i < c->left; i++, at = 0) {
		len = c->iov[i].iov_len - at;
		good = mem_front_copied((char *)c->iov[i].iov_base + at, len,
					write);
		sum += good;
		if (unlikely(good < len))
			break;
	}
	return sum;
}

/* As far as there are looks. */
size_t iov_there(const struct cursor *c, bool write)
{
	size_t sum = 0, at = c->at, looks = LOOKS, i;

	for (i = 0; i < c->left; i++, at = 0) {
		uintptr_t from = (uintptr_t)c->iov[i].iov_base + at;
		uintptr_t end =
			(uintptr_t)c->iov[i].iov_base + c->iov[i].iov_len;

		while (from < end) {
			uintptr_t next = (from | (PAGE - 1)) + 1;

			if (looks) {
				if (!mem_there((const void *)from, write))
					return sum;
				looks--;
			}
			if (next > end || !next)
				next = end;
			sum += next - from;
			from = next;
		}
	}
	return sum;
}

int iov_still(const struct cursor *c, size_t done, size_t *len)
{
	size_t n = iov_there(c, false);

	if (n >= *len - done)
		return 0;
	*len = done + n;
	return n ? 0 : -EFAULT;
}

bool iov_message(const struct msghdr *m)
{
	size_t n = m->msg_iovlen < IOV_MAX ? m->msg_iovlen : IOV_MAX;

	return mem_good(m->msg_iov, n * sizeof(*m->msg_iov), false);
}

ssize_t iov_sum(const struct iovec *iov, size_t n)
{
	size_t sum = 0, i;

	if (n > IOV_MAX)
		return -EMSGSIZE;
	for (i = 0; i < n; i++) {
		if (iov[i].iov_len > SSIZE_MAX - sum)
			return -EINVAL;
		if (unlikely(mem_beyond(iov[i].iov_base, iov[i].iov_len)))
			return -EFAULT;
		sum += iov[i].iov_len;
	}
	return (ssize_t)sum;
}
