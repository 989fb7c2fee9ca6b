/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Asking another process to let go of a stream (told.h). */

#include "base/text.h"
#include "base/told.h"
#include "socket/life/life.h"

/* The statistics page of a process of ours or of root's; NULL: it has none. */
static const struct page *page_of(int pid, size_t *len)
{
	const struct page *p;
	struct text t;
	char path[64];

	t = (struct text)TEXT_IN(path);
	text_add(&t, PAGE_DIR "/" PAGE_PREFIX "%d.%lu", pid,
		 page_start_time(pid));
	p = page_map(path, len);
	if (p && (p->pid != pid || p->pidns != page_pidns())) {
		sys_munmap((void *)(uintptr_t)p, *len);
		p = NULL;
	}
	return p;
}

static bool on_sdp(const struct page *p, uint64_t inode)
{
	uint32_t i;

	for (i = 0; i < p->rows; i++)
		if (p->row[i].fd >= 0 && p->row[i].inode == inode)
			return p->row[i].path[0] > PATH_TCP ||
			       p->row[i].path[1] > PATH_TCP;
	return false;
}

/* 0: it answered that the stream is on TCP now, or that there is none. */
static int exchange(int sock, uint64_t service, uint64_t inode)
{
	struct told_ask ask = { .magic = TOLD_PASSED, .inode = inode };
	struct sockaddr_un to, own = { .sun_family = AF_UNIX };
	struct pollfd reply = { .fd = sock, .events = POLLIN };
	socklen_t len = told_name(&to, service);
	struct told_answer a = { 0 };
	struct timespec ts = {
		.tv_sec = settings.fallback_timeout_ms / 1000 + 1,
	};
	int ret;

	/* bound to no name of ours: the kernel chooses one */
	ret = sys_bind(sock, &own, sizeof(own.sun_family));
	if (!ret)
		ret = sys_connect(sock, &to, len);
	if (ret)
		return ret;
	ret = (int)sys_sendto(sock, &ask, sizeof(ask), MSG_NOSIGNAL, NULL, 0);
	if (ret < 0)
		return ret;
	if (sys_ppoll(&reply, 1, &ts, NULL) != 1 ||
	    sys_recv(sock, &a, sizeof(a), MSG_DONTWAIT) != sizeof(a) ||
	    a.magic != TOLD_PASSED)
		return -EAGAIN;
	return a.home == a.found ? 0 : -EAGAIN;
}

int sock_passed_by(int pid, uint64_t inode)
{
	const struct page *p;
	size_t len;
	int sock, ret;

	p = page_of(pid, &len);
	if (!p)
		return 0;
	sock = sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ret = sock < 0 ? sock : exchange(sock, p->service, inode);
	if (sock >= 0)
		sys_close(sock);
	/*
	 * no background thread there: nothing is lifted, or it cannot be asked
	 */
	if (ret && ret != -EAGAIN)
		ret = on_sdp(p, inode) ? -EAGAIN : 0;
	sys_munmap((void *)(uintptr_t)p, len);
	return ret;
}
