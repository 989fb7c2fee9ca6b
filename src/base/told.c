/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/told.h"

#include <stddef.h>
#include <string.h>

#include "base/text.h"

socklen_t told_name(struct sockaddr_un *un, uint64_t id)
{
	struct text t = { .buf = un->sun_path + 1,
			  .size = sizeof(un->sun_path) - 1 };

	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	text_add(&t, "libsdp/svc/%lx", id);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + t.len);
}
