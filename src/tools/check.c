/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/check.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/page.h"
#include "base/seccomp.h"
#include "base/text.h"
#include "config/config.h"
#include "tools/library.h"
#include "tools/out.h"
#include "tools/probe.h"
#include "tools/program.h"

#define MEMLOCK	   (64u << 20) /* bytes that a few lifted connections take */
#define NUMBERS	   256 /* descriptors below which few can be lifted */
#define STATISTICS 65536u /* bytes, of a process that begins, and its user's */
#define INFINIBAND "/sys/class/infiniband"

/* `ok`; less than everything; another one's business; nothing is lifted. */
enum verdict_kind { IS_OK, IS_LIMIT, IS_NOTE, IS_NO };

struct finding {
	const char *what;
	enum verdict_kind kind;
	char *text;
	const char *remedy; /* NULL: none is needed */
};

static struct finding *list;
static size_t findings;

static void __attribute__((format(printf, 4, 5)))
found(const char *what, enum verdict_kind kind, const char *remedy,
      const char *fmt, ...)
{
	struct finding *f;
	va_list ap;

	list = reallocarray(list, findings + 1, sizeof(*list));
	if (!list)
		err(2, "memory");
	f = &list[findings++];
	*f = (struct finding){ what, kind, NULL, remedy };
	va_start(ap, fmt);
	if (vasprintf(&f->text, fmt, ap) < 0)
		err(2, "memory");
	va_end(ap);
}

/* --- the program -------------------------------------------------------- */

static void the_program(const char *name, int ret, const struct program *p)
{
	char *where;

	if (ret) {
		found("program", IS_NO, "give its path, or put it into PATH",
		      "%s: %s", name, strerror(-ret));
		return;
	}
	if (asprintf(&where, "%s%s%s", p->path,
		     p->by[0] ? ": a script of " : "", p->by) < 0)
		err(2, "memory");
	switch (p->kind) {
	case PROGRAM_GLIBC:
		found("program", IS_OK, NULL, "%s: %s", where, program_text(p));
		break;
	case PROGRAM_MUSL:
		found("program", IS_NO,
		      "use the program's build for glibc, if there is one",
		      "%s: %s", where, program_text(p));
		break;
	case PROGRAM_STATIC:
		found("program", IS_NO,
		      "a library cannot be put in front: link it dynamically",
		      "%s: %s", where, program_text(p));
		break;
	case PROGRAM_FOREIGN:
		found("program", IS_NO,
		      "install the library for that kind, and use $LIB in paths",
		      "%s: %s", where, program_text(p));
		break;
	case PROGRAM_UNKNOWN:
		found("program", IS_NO, "name the program that runs it",
		      "%s: %s", where, program_text(p));
		break;
	}
	if (p->go && p->kind == PROGRAM_GLIBC)
		found("calls", IS_NO,
		      "none: Go calls the kernel by itself, past every library",
		      "%s: a Go program", where);
	if (p->raised)
		found("privileges", IS_NO,
		      "take the set-user-ID bit or the capabilities off the "
		      "file; a service manager can give them instead",
		      "%s: runs with more than its caller's", where);
	else
		found("privileges", IS_OK, NULL, "as its caller's");
	free(where);
}

/* --- the library -------------------------------------------------------- */

static void the_library(void)
{
	const char *old = getenv("LD_PRELOAD");
	struct statvfs v;
	char path[PATH_MAX];

	library_find(path, sizeof(path));
	if (!statvfs(path, &v) && (v.f_flag & ST_NOEXEC))
		found("library", IS_NO, "install it elsewhere",
		      "%s: mounted noexec", path);
	else
		found("library", IS_OK, NULL, "%s", path);
	if (old && *old && !library_in(old, path))
		found("LD_PRELOAD", IS_NOTE,
		      "what it overrides comes behind libsdp; leave it out if "
		      "it handles sockets",
		      "%s, too", old);
	if (config_told_off(getenv("LIBSDP_DISABLE")))
		found("environment", IS_NO, "unset LIBSDP_DISABLE",
		      "LIBSDP_DISABLE is set");
}

static void count_errors(const struct config_error *e, void *arg)
{
	unsigned int *bad = arg;

	*bad += e->level >= LOG_ERR;
}

/* What makes the rules be of no account; NULL: nothing. */
static const char *before_rules(void)
{
	const char *use = getenv("LIBSDP_USE");

	if (getenv("SIMPLE_LIBSDP"))
		return "SIMPLE_LIBSDP";
	if (getenv("ALWAYS_USE_SDP"))
		return "ALWAYS_USE_SDP";
	return use && (!strcmp(use, "both") || !strcmp(use, "sdp")) ?
		       "LIBSDP_USE" :
		       NULL;
}

static void say_rules(const struct config *c, const char *rules)
{
	bool client = config_concerns(c, ROLE_CLIENT);
	bool server = config_concerns(c, ROLE_SERVER);
	unsigned int mine = 0;
	uint32_t i;

	for (i = 0; i < c->nrules; i++)
		mine += c->rules[i].mine;
	if (client && server)
		found("rules", IS_OK, NULL,
		      "%s: %u of %u rules are for it; `sdpconf explain` says "
		      "which holds",
		      rules, mine, c->nrules);
	else
		found("rules", client || server ? IS_LIMIT : IS_NO,
		      "give it a rule with `both` in front of that with `tcp`",
		      "%s: %u of %u rules are for it, and keep %s on TCP",
		      rules, mine, c->nrules,
		      client ? "what it accepts" :
		      server ? "what it connects" :
			       "all of it");
}

static void the_rules(const char *rules, const char *name,
		      const struct program *p)
{
	const char *use = getenv("LIBSDP_USE"), *before = before_rules();
	static struct config c;
	struct settings s = settings;
	unsigned int bad = 0;
	int ret;

	if (use && !strcmp(use, "tcp"))
		found("environment", IS_NO, "unset LIBSDP_USE",
		      "LIBSDP_USE=tcp is set");
	if (before) {
		found("rules", IS_OK, NULL, "%s is set and goes before them",
		      before);
		return;
	}
	if (!rules)
		rules = getenv("LIBSDP_CONFIG_FILE");
	if (!rules)
		rules = SYSCONFDIR "/libsdp.conf";
	ret = config_parse(&c, &s, rules, count_errors, &bad);
	program_names(p, name, &c);
	config_bind(&c);
	if (ret < 0)
		found("rules", ret == -ENOENT ? IS_OK : IS_LIMIT,
		      ret == -ENOENT ? NULL :
				       "sdpconf check says what is wrong",
		      "%s: %s: every connection may be lifted", rules,
		      ret == -ENOENT ? "not there" : strerror(-ret));
	else
		say_rules(&c, rules);
	if (bad)
		found("rule lines", IS_LIMIT, "sdpconf check shows them",
		      "%s: %u bad lines are skipped", rules, bad);
	config_release(&c);
}

/* --- the machine -------------------------------------------------------- */

static void the_filter(void)
{
	int filters = seccomp_filters("/proc/self/status");
	const char *what;

	if (!filters) {
		found("seccomp", IS_OK, NULL, "no filter of system calls here");
		return;
	}
	what = filters < 0 ? "counting the filters" : probe_filter();
	if (what)
		found("seccomp", IS_NO, "have the filter allow what it bars",
		      "the filter in force bars %s", what);
	else
		found("seccomp", IS_NOTE, "start it with sdprun --probe",
		      "a filter is in force, and allows what lifting needs");
}

static void the_statistics(void)
{
	static const char blind[] = "sdpstat will see no counters";
	struct statvfs v;

	if (statvfs(PAGE_DIR, &v))
		found(PAGE_DIR, IS_LIMIT, "mount a tmpfs there",
		      "is not there: %s", blind);
	else if (access(PAGE_DIR, W_OK))
		found(PAGE_DIR, IS_LIMIT,
		      "mount it for writing, and `chmod 1777 " PAGE_DIR "`",
		      "cannot be written: %s", blind);
	else if ((v.f_blocks && v.f_bavail * v.f_frsize < STATISTICS) ||
		 (v.f_files && !v.f_favail))
		found(PAGE_DIR, IS_LIMIT,
		      "remove files from it, or `mount -o remount,size=SIZE " PAGE_DIR
		      "`; for a container, --shm-size",
		      "is full: %s", blind);
	else
		found(PAGE_DIR, IS_OK, NULL, "can be written");
}

static void the_memory(void)
{
	int fd = memfd_create("libsdp-check", MFD_CLOEXEC);
	struct rlimit numbers;

	if (fd < 0)
		found("memfd", IS_NO, "allow memfd_create()",
		      "shared memory cannot be made: %m");
	else
		close(fd);
	the_statistics();
	if (!getrlimit(RLIMIT_NOFILE, &numbers) && numbers.rlim_cur < NUMBERS)
		found("descriptors", IS_LIMIT, "raise `ulimit -n`",
		      "%" PRIuMAX
		      " only: a sixteenth is for lifted connections",
		      (uintmax_t)numbers.rlim_cur);
}

static int word_of(const char *path)
{
	char buf[16] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (read(fd, buf, sizeof(buf) - 1) < 1)
		buf[0] = '\0';
	close(fd);
	return buf[0] ? (int)strtol(buf, NULL, 10) : -1;
}

static void the_neighbours(void)
{
	int scope = word_of("/proc/sys/kernel/yama/ptrace_scope");
	struct stat own, first;

	if (scope > 0 && geteuid())
		found("ptrace scope", IS_LIMIT,
		      "sysctl kernel.yama.ptrace_scope=0, if large sends are "
		      "to be read without a copy",
		      "%d: memory of other programs is not read; it is copied",
		      scope);
	else
		found("ptrace scope", IS_OK, NULL, "memory can be lent");
	if (!stat("/proc/self/ns/net", &own) &&
	    !stat("/proc/1/ns/net", &first) && own.st_ino != first.st_ino)
		found("namespaces", IS_NOTE,
		      "let peers share the network namespace, or use RDMA",
		      "not the network namespace of this machine's first "
		      "process: peers in others are as on another host");
}

/* --- RDMA --------------------------------------------------------------- */

static int visible(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static bool soft(const char *name)
{
	char path[320], at[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), INFINIBAND "/%s/device", name);
	n = readlink(path, at, sizeof(at));
	return n < 0;
}

static void the_devices(void)
{
	struct rlimit lock;
	struct dirent **d;
	int n = scandir(INFINIBAND, &d, visible, alphasort), i;
	int denied = access("/dev/infiniband/rdma_cm", R_OK | W_OK) ? errno : 0;

	if (n <= 0) {
		found("RDMA", IS_NOTE,
		      "none is needed between programs of this host",
		      "no device: connections to other hosts stay on TCP");
		return;
	}
	for (i = 0; i < n; i++) {
		if (soft(d[i]->d_name))
			found("RDMA", IS_LIMIT,
			      "LIBSDP_ALLOW_SOFT_RDMA=yes uses it anyway",
			      "%s: made of software, slower than TCP",
			      d[i]->d_name);
		else
			found("RDMA", IS_OK, NULL, "%s", d[i]->d_name);
		free(d[i]);
	}
	free(d);
	if (denied)
		found("RDMA access", IS_LIMIT,
		      "give the user access to /dev/infiniband (group rdma)",
		      "/dev/infiniband/rdma_cm: %s: TCP between hosts",
		      strerror(denied));
	if (!getrlimit(RLIMIT_MEMLOCK, &lock) && lock.rlim_cur < MEMLOCK)
		found("memlock", IS_LIMIT,
		      "ulimit -l unlimited; LimitMEMLOCK=infinity in a unit",
		      "%" PRIuMAX
		      " KiB may be locked: few connections to other "
		      "hosts, and no lent memory",
		      (uintmax_t)lock.rlim_cur / 1024);
}

/* --- what was found ----------------------------------------------------- */

static const char *const kinds[] = { "ok", "limit", "note", "no" };

static void print_text(bool no)
{
	struct table *t = table_new("Check|Result|Finding");
	size_t i;

	for (i = 0; i < findings; i++) {
		table_cell(t, "%s", list[i].what);
		table_cell(t, "%s", kinds[list[i].kind]);
		table_cell(t, "%s", list[i].text);
		if (!list[i].remedy)
			continue;
		table_cell(t, "%s", "");
		table_cell(t, "%s", "");
		table_cell(t, "-> %s", list[i].remedy);
	}
	table_print(t, stdout);
	printf("\n%s\n",
	       no ? "Its connections will stay on TCP." :
		    "Its connections to programs that run with libsdp can be "
		    "lifted.");
}

static void print_json(bool no)
{
	size_t i;

	printf("{\"liftable\":%s,\"findings\":[", no ? "false" : "true");
	for (i = 0; i < findings; i++) {
		printf("%s\n{\"check\":", i ? "," : "");
		out_json(stdout, list[i].what);
		printf(",\"result\":\"%s\",\"text\":", kinds[list[i].kind]);
		out_json(stdout, list[i].text);
		printf(",\"remedy\":");
		if (list[i].remedy)
			out_json(stdout, list[i].remedy);
		else
			printf("null");
		printf("}");
	}
	printf("\n]}\n");
}

int check_program(const char *name, const char *rules, bool json)
{
	struct program p;
	int ret = program_read("", name, &p);
	bool no = false;
	size_t i;

	the_program(name, ret, &p);
	the_library();
	the_rules(rules, name, &p);
	the_filter();
	the_memory();
	the_neighbours();
	the_devices();
	for (i = 0; i < findings; i++)
		no |= list[i].kind == IS_NO;
	if (json)
		print_json(no);
	else
		print_text(no);
	for (i = 0; i < findings; i++)
		free(list[i].text);
	free(list);
	if (fflush(stdout) || ferror(stdout))
		err(2, "standard output");
	return no;
}
