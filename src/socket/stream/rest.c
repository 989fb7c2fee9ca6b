/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "socket/stream/rest.h"

#include "base/sigdefer.h"
#include "base/sys.h"

ssize_t rest_recv(int fd, void *buf, size_t n, int flags, bool waits)
{
	struct sigdefer_sleep how = {
		.nr = SYS_recvfrom,
		.arg = { fd, (long)buf, (long)n, flags },
	};

	return waits ? sigdefer_sleep(&how) : sys_recv(fd, buf, n, flags);
}

ssize_t rest_recvmsg(int fd, struct msghdr *m, int flags, bool waits)
{
	struct sigdefer_sleep how = {
		.nr = SYS_recvmsg,
		.arg = { fd, (long)m, flags },
	};

	return waits ? sigdefer_sleep(&how) : sys_recvmsg(fd, m, flags);
}

ssize_t rest_send(int fd, const void *buf, size_t n, int flags)
{
	return sys_send(fd, buf, n, flags);
}

ssize_t rest_sendmsg(int fd, const struct msghdr *m, int flags)
{
	return sys_sendmsg(fd, m, flags);
}
