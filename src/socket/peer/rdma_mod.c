/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Around the module: where it is found, which devices count, names, and the end
 * that stands for one in another process.
 */

#include <dlfcn.h>

#include "base/scratch.h"
#include "base/text.h"
#include "config/lists.h"
#include "socket/peer/peer.h"

#define DEVICES "/sys/class/infiniband"
#define VERBS	"/sys/class/infiniband_verbs"
#define SIW	"Software iWARP" /* how it describes itself */

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
	SCRATCH(room);
	char *path;
	void *mod;

	if (api)
		return api;
	path = scratch_take(&room, PATH_MAX);
	if (!hooks.dlopen || !path || !beside(path, PATH_MAX))
		return NULL;
	mod = hooks.dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!mod) {
		log_once(LOG_NOTE, "no RDMA: %s", dlerror());
		return NULL;
	}
	api = dlsym(mod, "libsdp_verbs");
	if (!api || api->version != VERBS_API) {
		log_once(LOG_WARN, "no RDMA: %s is of another version", path);
		api = NULL;
	}
	return api;
}

/* How the attribute of a device begins; false: it has no such. */
static bool attribute(const char *class, const char *device, const char *name,
		      const char *like)
{
	char path[128], is[80];
	struct text t = TEXT_IN(path);
	size_t len = strlen(like);
	long n;
	int fd;

	text_add(&t, "%s/%s/%s", class, device, name);
	fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	n = len ? sys_read(fd, is, sizeof(is)) : 0;
	sys_close(fd);
	return n >= (long)len && !memcmp(is, like, len);
}

/*
 * Nothing is started, loaded or opened where the kernel has no device, or only
 * Soft-RoCE (it alone has the attribute `parent`) and siw that may not be used.
 */
static bool usable(const char *device)
{
	return settings.allow_soft_rdma ||
	       (!attribute(DEVICES, device, "parent", "") &&
		!attribute(DEVICES, device, "node_desc", SIW));
}

bool rdma_may_use(const char *device)
{
	return list_names_have(settings.rdma_devices, device);
}

enum reason rdma_no_way(int err)
{
	switch (err) {
	case -EHOSTUNREACH:
	case -ENODEV:
	case -EADDRNOTAVAIL:
		return WHY_REMOTE;
	case -EOPNOTSUPP:
		return WHY_SOFT_DEVICE;
	case -EPERM:
		return WHY_SETTING;
	case -ENXIO:
		return WHY_NO_ACCESS;
	case -ENETUNREACH:
		return WHY_NO_PATH;
	case -ENOMEM:
		return WHY_NO_MEMORY;
	case -EBADMSG:
		return WHY_BAD_HELLO;
	default:
		return WHY_NONE;
	}
}

/* Each name in a directory until fn() says that it is enough; -errno. */
static int names_in(const char *dir, bool (*fn)(const char *name, void *arg),
		    void *arg)
{
	int fd = sys_open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	bool enough = false;
	const size_t size = 2048;
	SCRATCH(room);
	char *buf;
	long n, at;

	if (fd < 0)
		return fd;
	buf = scratch_take(&room, size);
	while (buf && !enough &&
	       (n = sys_call3(SYS_getdents64, fd, buf, size)) > 0)
		for (at = 0; at < n && !enough;) {
			const char *ent = buf + at;
			unsigned short len;

			memcpy(&len, ent + 16, sizeof(len));
			at += len;
			enough = ent[19] != '.' && fn(ent + 19, arg);
		}
	sys_close(fd);
	return buf ? 0 : -ENOMEM;
}

struct device {
	const char *name;
	bool bare; /* without a file */
};

/*
 * Is this its device file, and not here? A container may see it in /sys alone.
 */
static bool file_of(const char *uverbs, void *arg)
{
	struct device *d = arg;
	char path[128], name[80] = "";
	struct text t = TEXT_IN(path), n = TEXT_IN(name);
	struct stat st;

	text_add(&n, "%s\n", d->name);
	if (!attribute(VERBS, uverbs, "ibdev", name))
		return false;
	text_add(&t, "/dev/infiniband/%s", uverbs);
	d->bare = sys_stat(path, &st) == -ENOENT;
	return true;
}

static bool has_file(const char *device)
{
	struct device d = { .name = device };

	names_in(VERBS, file_of, &d);
	if (d.bare)
		log_once(LOG_WARN, "no RDMA: there is no device file of %s",
			 device);
	return !d.bare;
}

/* The best that was found; `here` names those that the setting does not. */
struct found {
	enum reason why;
	struct text here;
};

static bool judge(const char *device, void *arg)
{
	struct found *f = arg;

	if (!rdma_may_use(device)) {
		text_add(&f->here, " %s", device);
		if (f->why == WHY_REMOTE)
			f->why = WHY_SETTING;
	} else if (!usable(device)) {
		if (f->why != WHY_NO_ACCESS)
			f->why = WHY_SOFT_DEVICE;
	} else {
		f->why = has_file(device) ? WHY_NONE : WHY_NO_ACCESS;
	}
	return f->why == WHY_NONE;
}

enum reason rdma_devices_now(void)
{
	char names[256] = "";
	struct found f = { WHY_REMOTE, TEXT_IN(names) };

	names_in(DEVICES, judge, &f);
	if (f.why == WHY_SETTING)
		log_once(LOG_WARN, "no RDMA: rdma_devices says %s, here is%s",
			 settings.rdma_devices, names);
	return f.why;
}

/* One word: until when it holds, and in its lowest byte what was found. */
enum reason rdma_devices(void)
{
	static uint64_t found;
	uint64_t now = clock_ns(),
		 is = __atomic_load_n(&found, __ATOMIC_RELAXED);
	uint64_t ns = (uint64_t)settings.rdma_retry_s * 1000000000u;

	if (is < now) {
		is = ((now + ns) & ~(uint64_t)0xff) | rdma_devices_now();
		__atomic_store_n(&found, is, __ATOMIC_RELAXED);
	}
	return (enum reason)(is & 0xff);
}

bool rdma_foreign_cm(void)
{
	void *cm = hooks.dlopen ? hooks.dlopen("librdmacm.so.1",
					       RTLD_NOW | RTLD_NOLOAD) :
				  NULL;

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

struct rdma_module rdma_module;

enum reason rdma_hopeless(void)
{
	enum reason why = __atomic_load_n(&rdma_module.why, __ATOMIC_ACQUIRE);

	return why && clock_ns() < rdma_module.until ? why : WHY_NONE;
}

void rdma_denied(void)
{
	if (!rdma_module.denied)
		log_note("RDMA: other credentials than those that opened the "
			 "devices: opened anew");
	rdma_module.denied = true;
}

/* A device may come, memory be had again: but not a module. */
void rdma_give_up(enum reason why)
{
	uint64_t ns = (uint64_t)settings.rdma_retry_s * 1000000000u;

	rdma_module.until = why == WHY_NO_VERBS ? UINT64_MAX : clock_ns() + ns;
	__atomic_store_n(&rdma_module.why, why, __ATOMIC_RELEASE);
}
