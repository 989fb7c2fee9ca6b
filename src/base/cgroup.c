/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/cgroup.h"

#include <stdbool.h>
#include <string.h>

#include "base/proc.h"
#include "base/scratch.h"
#include "base/sys.h"
#include "base/text.h"

#define PATH	  512 /* deeper ones are not found, and limit nothing */
#define PIECE	  256 /* read at a time */
#define UNLIMITED (1ull << 62) /* version 1 says so by huge numbers */

const char *cgroup_own = "/proc/self/cgroup";
const char *cgroup_root = "/sys/fs/cgroup";

/* One level: its directory is the first `len` bytes of `dir`. */
struct level {
	char dir[PATH + 32];
	size_t len;
};

static bool number(struct level *l, const char *file, uint64_t *v)
{
	l->dir[l->len] = '\0';
	if (l->len + strlen(file) >= sizeof(l->dir))
		return false;
	strcpy(l->dir + l->len, file);
	return !proc_value(l->dir, v); /* "max" is no number */
}

static uint64_t field(struct level *l, const char *file, const char *name)
{
	uint64_t v = 0;

	l->dir[l->len] = '\0';
	strcpy(l->dir + l->len, file);
	return proc_field(l->dir, name, &v) ? 0 : v;
}

static void limited(struct cgroup *g, uint64_t limit, uint64_t used)
{
	uint64_t left = used < limit ? limit - used : 0;

	if (limit >= UNLIMITED)
		return;
	if (limit < g->limit)
		g->limit = limit;
	if (left < g->left)
		g->left = left;
}

static void memory_level(struct level *l, bool v2, struct cgroup *g)
{
	uint64_t limit = CGROUP_NONE, high = CGROUP_NONE, used, old;
	const char *stat = v2 ? "inactive_file " : "total_inactive_file ";

	number(l, v2 ? "/memory.max" : "/memory.limit_in_bytes", &limit);
	if (v2 && number(l, "/memory.high", &high) && high < limit)
		limit = high;
	if (limit >= UNLIMITED ||
	    !number(l, v2 ? "/memory.current" : "/memory.usage_in_bytes",
		    &used))
		return;
	old = field(l, "/memory.stat", stat);
	limited(g, limit, used > old ? used - old : 0);
}

static void threads_level(struct level *l, bool v2, struct cgroup *g)
{
	uint64_t limit, used;

	(void)v2;
	if (number(l, "/pids.max", &limit) && number(l, "/pids.current", &used))
		limited(g, limit, used);
}

typedef void level_fn(struct level *l, bool v2, struct cgroup *g);

/* From the group at `path` below `top` up to the top itself. */
static void climb(const char *top, const char *path, bool v2, level_fn *fn,
		  struct cgroup *g)
{
	SCRATCH(room);
	struct level *l = scratch_take(&room, sizeof(*l));
	struct text t = { .size = PATH };
	size_t root;

	if (!l)
		return;
	t.buf = l->dir;
	text_add(&t, "%s", top);
	root = t.len;
	text_add(&t, "%s", path);
	if (t.cut)
		return;
	l->len = t.len;
	while (l->len > root && l->dir[l->len - 1] == '/')
		l->len--;
	for (;;) {
		fn(l, v2, g);
		if (l->len <= root)
			return;
		while (l->len > root && l->dir[l->len - 1] != '/')
			l->len--;
		while (l->len > root && l->dir[l->len - 1] == '/')
			l->len--;
	}
}

/* Is `name` one of the words of `list`, up to its colon? */
static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name), len;

	for (;; list += len + 1) {
		len = strcspn(list, ",:");
		if (len == n && !memcmp(list, name, n))
			return true;
		if (list[len] != ',')
			return false;
	}
}

/*
 * One line, "ID:CONTROLLERS:PATH". In a container the path may be that of the
 * host, which is not there, and the top is the container's own group.
 */
static bool line(char *text, const char *name, level_fn *fn, struct cgroup *g)
{
	char top[128], *list = strchr(text, ':'), *path;
	struct text t = TEXT_IN(top);

	path = list ? strchr(list + 1, ':') : NULL;
	if (!path)
		return false;
	list++;
	path++;
	if (*list == ':') { /* version 2 */
		climb(cgroup_root, path, true, fn, g);
		text_add(&t, "%s/unified", cgroup_root);
		climb(top, path, true, fn, g);
		return false;
	}
	if (!listed(list, name))
		return false;
	text_add(&t, "%s/%s", cgroup_root, name);
	climb(top, path, false, fn, g);
	return true;
}

static void look(const char *name, level_fn *fn, struct cgroup *g)
{
	SCRATCH(room);
	char *buf = scratch_take(&room, PATH + PIECE);
	char *c = buf ? buf + PATH : NULL;
	size_t len = 0;
	bool skip = false;
	ssize_t n;
	int fd;

	*g = (struct cgroup){ CGROUP_NONE, CGROUP_NONE };
	fd = buf ? sys_open(cgroup_own, O_RDONLY | O_CLOEXEC, 0) : -ENOMEM;
	if (fd < 0)
		return;
	while ((n = sys_read(fd, c, PIECE)) > 0) {
		ssize_t i;

		for (i = 0; i < n; i++) {
			if (c[i] != '\n') {
				skip |= len == PATH - 1;
				if (!skip)
					buf[len++] = c[i];
				continue;
			}
			buf[len] = '\0';
			if (!skip)
				line(buf, name, fn, g);
			len = 0;
			skip = false;
		}
	}
	sys_close(fd);
}

void cgroup_memory(struct cgroup *g)
{
	look("memory", memory_level, g);
}

void cgroup_threads(struct cgroup *g)
{
	look("pids", threads_level, g);
}
