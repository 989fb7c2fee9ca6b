/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "preload/preload.h"

#include <stdlib.h>

#include "base/log.h"
#include "config/config.h"
#include "preload/real.h"

bool preload_off = true;

/*
 * quick_exit() runs handlers in the reverse order of registration, so ours,
 * registered before main(), comes last, as the destructor does for exit().
 */
__attribute__((constructor)) static void preload_begin(int argc, char **argv)
{
	int keep = errno;
	struct sock_hooks hooks;

	real_resolve();
	log_begin();
	config_load(argc > 0 ? argv[0] : NULL);
	if (!config.disabled && (!config.secure || settings.secure_sdp)) {
		hooks = (struct sock_hooks){
			.recv = real_recv,
			.send = real_send,
			.recvmsg = real_recvmsg,
			.sendmsg = real_sendmsg,
			.ppoll = real_ppoll,
			.changed = ep_changed,
			.risen = ep_risen,
			.by_inode = fdt_by_inode,
		};
		sock_setup(&hooks);
		at_quick_exit(sock_exit);
		preload_off = false;
	}
	errno = keep;
}

__attribute__((destructor)) static void preload_end(void)
{
	if (!preload_off)
		sock_exit();
}
