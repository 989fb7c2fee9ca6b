/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the process that has the module does for it; the lowest file of all. */
#include <sys/epoll.h>

#include "base/sys.h"
#include "base/text.h"
#include "fabric/verbs/int.h"

VARIADIC void verbs_say(const struct verbs *v, int level, const char *fmt, ...)
{
	char line[LOG_LINE / 4];
	struct text t = TEXT_IN(line);
	va_list ap;

	if (!v->conf.host.log)
		return;
	va_start(ap, fmt);
	text_vadd(&t, fmt, ap);
	va_end(ap);
	v->conf.host.log(level, line);
}

int verbs_hide(struct verbs *v, int *fd)
{
	if (v->conf.host.hide)
		*fd = v->conf.host.hide(*fd);
	return *fd < 0 ? *fd : 0;
}

void verbs_unhide(const struct verbs *v, int fd)
{
	if (v->conf.host.unhide && fd >= 0)
		v->conf.host.unhide(fd);
}

int verbs_watch(struct verbs *v, int fd, void *who)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = who };
	int flags = sys_fcntl(fd, F_GETFL, 0);

	if (flags < 0)
		return flags;
	flags = sys_fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	return flags < 0 ? flags : sys_epoll_ctl(v->ep, EPOLL_CTL_ADD, fd, &ev);
}
