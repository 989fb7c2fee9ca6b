/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/pcapng.h"

#include <errno.h>
#include <string.h>

#include "base/sys.h"

#define SECTION	  0x0a0d0d0au
#define INTERFACE 1u
#define PACKET	  6u
#define ORDER	  0x1a2b3c4du
#define ETHERNET  1
#define NAME	  2 /* options of an interface */
#define TSRESOL	  9

static uint8_t *put16(uint8_t *p, uint16_t v)
{
	memcpy(p, &v, sizeof(v));
	return p + sizeof(v);
}

static uint8_t *put32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
	return p + sizeof(v);
}

/* Up to eight bytes, and none to spare. */
static uint8_t *option(uint8_t *p, uint16_t code, const char *v, uint16_t len)
{
	p = put16(put16(p, code), len);
	memset(p, 0, 8);
	memcpy(p, v, len);
	return p + (len + 3u) / 4 * 4;
}

size_t pcapng_head(uint8_t *buf)
{
	uint8_t *p = put32(put32(buf, SECTION), 28);

	p = put16(put16(put32(p, ORDER), 1), 0); /* version 1.0 */
	p = put32(put32(p, UINT32_MAX), UINT32_MAX); /* length: unknown */
	p = put32(p, 28);

	p = put32(put32(p, INTERFACE), 44);
	p = put32(put16(put16(p, ETHERNET), 0), 0); /* packets of any length */
	p = option(p, NAME, "libsdp", 6);
	p = option(p, TSRESOL, "\t", 1); /* 10^-9 s */
	p = put32(put32(p, 0), 44);
	return (size_t)(p - buf);
}

static uint32_t pad(uint32_t have)
{
	return -have & 3;
}

static uint32_t block_len(uint32_t have)
{
	return PCAPNG_BEFORE + have + pad(have) + 4;
}

size_t pcapng_before(uint8_t *buf, uint64_t ns, uint32_t have, uint32_t len)
{
	uint8_t *p = put32(put32(buf, PACKET), block_len(have));

	p = put32(put32(put32(p, 0), (uint32_t)(ns >> 32)), (uint32_t)ns);
	p = put32(put32(p, have), len);
	return (size_t)(p - buf);
}

size_t pcapng_behind(uint8_t *buf, uint32_t have)
{
	memset(buf, 0, 3);
	put32(buf + pad(have), block_len(have));
	return pad(have) + 4;
}

static int file_sound(int fd, bool anew)
{
	uint32_t type = 0;
	struct stat st;
	int err = sys_fstat(fd, &st);

	if (err)
		return err;
	if (!S_ISREG(st.st_mode) || st.st_uid != sys_geteuid() ||
	    st.st_nlink != 1)
		return -EPERM;
	if (!st.st_size)
		return 1;
	if (sys_read(fd, &type, sizeof(type)) != sizeof(type) ||
	    type != SECTION)
		return -EEXIST;
	if (!anew)
		return 0;
	err = sys_ftruncate(fd, 0);
	return err ? err : 1;
}

/* Two that find it empty make two sections of it, which is as good. */
static int file_begin(int fd)
{
	uint8_t head[PCAPNG_HEAD];
	ssize_t len = (ssize_t)pcapng_head(head), n;

	if (!sys_may_grow(len))
		return -EFBIG;
	n = sys_write(fd, head, (size_t)len);
	if (n == len)
		return 0;
	if (n > 0)
		sys_ftruncate(fd, 0);
	return n < 0 ? (int)n : -ENOSPC;
}

int pcapng_open(const char *path, bool anew)
{
	int fd = sys_open(path,
			  O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC |
				  O_NONBLOCK | O_NOCTTY,
			  0600);
	int ret;

	if (fd < 0)
		return fd;
	ret = file_sound(fd, anew);
	if (ret == 1)
		ret = file_begin(fd);
	if (!ret)
		return fd;
	sys_close(fd);
	return ret;
}

const char *pcapng_why(int err)
{
	switch (err) {
	case -EPERM:
	case -EISDIR:
		return "not a regular file of this user's own";
	case -ELOOP:
		return "a symbolic link";
	case -EEXIST:
		return "it has something else in it";
	case -ENOENT:
		return "no such directory";
	case -EACCES:
	case -EROFS:
		return "no permission";
	case -ENOSPC:
	case -EDQUOT:
		return "no space left";
	case -EFBIG:
		return "files may not be that large";
	case -EBADF:
		return "the program has closed it";
	default:
		return "it cannot be written";
	}
}
