/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Around the module: where it is found, who listens, which hosts were of no
 * use lately, and the end that stands for one in another process.
 */

#include <dlfcn.h>

#include "base/text.h"
#include "socket/rdma.h"

#define BARRED 64

/* --- the module -------------------------------------------------------- */

/* Beside this library, and nowhere else. */
static bool beside(char *to, size_t size)
{
	struct text t = { .buf = to, .size = size };
	const char *slash;
	Dl_info info;

	if (!dladdr((void *)(uintptr_t)&rdma_load, &info) || !info.dli_fname)
		return false;
	slash = strrchr(info.dli_fname, '/');
	if (slash)
		text_add(&t, "%.*s/", (int)(slash - info.dli_fname),
			 info.dli_fname);
	text_add(&t, "libsdp-verbs.so");
	return slash && t.len + 1 < size;
}

const struct verbs_api *rdma_load(void)
{
	static const struct verbs_api *api;
	char path[PATH_MAX];
	void *mod;

	if (api || !beside(path, sizeof(path)))
		return api;
	mod = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!mod) {
		log_once(LOG_NOTE, "no RDMA: %s", dlerror());
		return NULL;
	}
	api = dlsym(mod, "libsdp_verbs");
	if (api && api->version != VERBS_API) {
		log_once(LOG_WARN, "no RDMA: %s is of another version", path);
		api = NULL;
	}
	return api;
}

/* Nothing is started, loaded or opened where the kernel has no device. */
bool rdma_any_device(void)
{
	int fd = sys_open("/sys/class/infiniband",
			  O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	if (fd >= 0)
		sys_close(fd);
	return fd >= 0;
}

bool rdma_foreign_cm(void)
{
	void *cm = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (cm)
		dlclose(cm);
	return cm;
}

/* The module's lines in our log. */
void rdma_say(int level, const char *line)
{
	log_at(level, "%s", line);
}

/* --- names ------------------------------------------------------------- */

int rdma_order(const struct diag_names *n)
{
	int diff =
		(n->local_port > n->peer_port) - (n->local_port < n->peer_port);

	return diff ? diff : memcmp(n->local, n->peer, 16);
}

void rdma_address(union verbs_addr *a, const struct diag_names *n, bool peer,
		  uint16_t port)
{
	memset(a, 0, sizeof(*a));
	if (n->v4) {
		a->in.sin_family = AF_INET;
		a->in.sin_port = htons(port);
		memcpy(&a->in.sin_addr, peer ? n->peer : n->local, 4);
		return;
	}
	a->in6.sin6_family = AF_INET6;
	a->in6.sin6_port = htons(port);
	memcpy(&a->in6.sin6_addr, peer ? n->peer : n->local, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&a->in6.sin6_addr))
		a->in6.sin6_scope_id = n->scope;
}

/* --- hosts of no use --------------------------------------------------- */

static struct {
	bool v4;
	uint8_t ip[16];
	uint64_t until;
	enum reason why;
} barred[BARRED];
static struct lock barred_lock;

void rdma_bar(const struct diag_names *n, enum reason why)
{
	uint64_t now = clock_ns();
	int i, at = 0;

	lock_take(&barred_lock);
	for (i = 0; i < BARRED; i++) {
		if (barred[i].v4 == n->v4 &&
		    !memcmp(barred[i].ip, n->peer, 16)) {
			at = i;
			break;
		}
		if (barred[i].until < barred[at].until)
			at = i;
	}
	barred[at].v4 = n->v4;
	memcpy(barred[at].ip, n->peer, 16);
	barred[at].why = why;
	barred[at].until = now + (uint64_t)settings.rdma_retry_s * 1000000000u;
	lock_drop(&barred_lock);
}

enum reason rdma_barred(const struct diag_names *n)
{
	enum reason why = WHY_NONE;
	uint64_t now = clock_ns();
	int i;

	lock_take(&barred_lock);
	for (i = 0; i < BARRED; i++)
		if (barred[i].until > now && barred[i].v4 == n->v4 &&
		    !memcmp(barred[i].ip, n->peer, 16))
			why = barred[i].why;
	lock_drop(&barred_lock);
	return why;
}

/* --- nowhere ----------------------------------------------------------- */

static uint32_t no_room(struct end *e)
{
	(void)e;
	return 0;
}

static void *no_buf(struct end *e, uint32_t len)
{
	(void)e;
	(void)len;
	return NULL;
}

static void *no_ctrl(struct end *e)
{
	(void)e;
	return NULL;
}

static int no_send(struct end *e, uint32_t len, bool solicited)
{
	(void)e;
	(void)len;
	(void)solicited;
	return -ECONNRESET;
}

static int no_msg(struct end *e, struct fab_msg *m)
{
	(void)e;
	(void)m;
	return 0;
}

static int no_next(struct end *e, bool own, struct fab_walk *w,
		   struct fab_msg *m)
{
	(void)e;
	(void)own;
	(void)w;
	(void)m;
	return 0;
}

static void nothing(struct end *e)
{
	(void)e;
}

static bool never(struct end *e)
{
	(void)e;
	return false;
}

static const struct fabric_ops nowhere = {
	.name = "verbs",
	.room = no_room,
	.buf = no_buf,
	.ctrl = no_ctrl,
	.send = no_send,
	.poll = no_msg,
	.front = no_msg,
	.release = nothing,
	.next = no_next,
	.pending = never,
	.trim = nothing,
	.destroy = nothing,
};

struct end rdma_nowhere = { &nowhere, 0, 0 };
