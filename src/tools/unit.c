/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/unit.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/library.h"
#include "tools/program.h"
#include "tools/root.h"
#include "tools/unit_file.h"
#include "tools/unit_filter.h"

#define OURS	  "# libsdp: written by sdprun --enable; sdprun --disable removes it"
#define FILE_NAME "50-libsdp.conf"

struct place {
	const char *root;
	char name[NAME_MAX + 1]; /* with its suffix */
	char dir[PATH_MAX], file[PATH_MAX + sizeof(FILE_NAME)];
	int at; /* that folder, -1: it is not there */
};

/* --- where -------------------------------------------------------------- */

static bool good_name(const char *s)
{
	return *s && strlen(s) < NAME_MAX - 16 && *s != '.' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			 "0123456789:-_.\\@") == strlen(s);
}

static bool place_of(const char *root, const char *name, struct place *p)
{
	const char *dot = strrchr(name, '.');
	bool service = dot && !strcmp(dot, ".service");

	if (!good_name(name)) {
		warnx("%s: not the name of a unit", name);
		return false;
	}
	snprintf(p->name, sizeof(p->name), "%s%s", name,
		 service ? "" : ".service");
	if (snprintf(p->dir, sizeof(p->dir), "%s/etc/systemd/system/%s.d", root,
		     p->name) >= PATH_MAX) {
		warnx("%s: too long", name);
		return false;
	}
	snprintf(p->file, sizeof(p->file), "%s/%s", p->dir, FILE_NAME);
	p->root = root;
	p->at = root_dir(root, p->dir, false);
	return true;
}

/* Is there one of ours? -1: another's. */
static int is_ours(const struct place *p)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	char line[sizeof(OURS)] = "";
	ssize_t n;
	int fd;

	if (p->at < 0)
		return 0;
	fd = openat(p->at, FILE_NAME, flags);
	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	n = read(fd, line, sizeof(line));
	close(fd);
	return n == sizeof(line) && !memcmp(line, OURS "\n", sizeof(line)) ? 1 :
									     -1;
}

static void then(const char *root, const struct place *p, const char *what)
{
	printf("%s: %s\n", p->name, what);
	if (*root)
		return;
	printf("To put it into effect:\n"
	       "  systemctl daemon-reload\n"
	       "  systemctl restart %s\n",
	       p->name);
}

/* --- can it work? ------------------------------------------------------- */

static const char *hopeless(const char *root, const struct unit *u,
			    const struct filter_verdict *v, struct program *p)
{
	int ret;

	if (u->masked)
		return "it is masked";
	if (!u->exec[0])
		return "it has no ExecStart=";
	if (u->off || u->off_by_use)
		return "its Environment= has LIBSDP_DISABLE, or "
		       "LIBSDP_USE=tcp: take that out";
	if (u->own_root)
		return "it runs in a root of its own (RootDirectory=, "
		       "RootImage=), where the library is not";
	if (u->env_file[0])
		return "a file of EnvironmentFile= sets LD_PRELOAD: add "
		       "libsdp.so there";
	if (u->unset)
		return "UnsetEnvironment= takes LD_PRELOAD away";
	if (u->later[0])
		return "a drop-in behind ours sets Environment=LD_PRELOAD, or "
		       "voids Environment=: rename it to come first, or add "
		       "libsdp.so there";
	if (u->families && u->unix_listed != u->only_families)
		return "RestrictAddressFamilies= bars AF_UNIX, by which peers "
		       "meet: add RestrictAddressFamilies=AF_UNIX AF_NETLINK";
	if (u->trusted && v->kills)
		return "SystemCallFilter= kills for calls that lifting needs, "
		       "and Environment=LIBSDP_SECCOMP=trust is set: have the "
		       "filter allow them, or take that out";
	if (u->exec_open)
		return NULL;
	ret = program_read(root, u->exec, p);
	if (ret)
		return "its program cannot be read";
	if (p->kind != PROGRAM_GLIBC)
		return program_text(p);
	if (p->go)
		return "a Go program calls the kernel past every library";
	return p->raised ? "its program's file raises privileges: the dynamic "
			   "linker leaves the library out" :
			   NULL;
}

static void judge(const struct unit *u, struct filter_verdict *v)
{
	char *groups = u->filter[0] ? filter_groups() : NULL;

	filter_judge(u->filter_cut ? "@more\n" : u->filter, u->filter_error,
		     groups, v);
	free(groups);
}

/* Under any filter the library does nothing until it is told that it may. */
static void say_filter(const struct unit *u, const struct filter_verdict *v)
{
	const char *by = *u->filter ? "SystemCallFilter" : unit_filter_key(u);

	if (*v->unknown)
		warnx("note: SystemCallFilter= could not be judged, since "
		      "systemd-analyze does not say here what %s is: lifting "
		      "needs what it allows (libsdp(7), LIBSDP_SECCOMP)",
		      v->unknown);
	else if (*v->barred)
		warnx("note: SystemCallFilter= %s calls that lifting needs: "
		      "nothing is lifted. Add, by `systemctl edit %s`:\n"
		      "  [Service]\n"
		      "  SystemCallFilter=%s\n"
		      "  Environment=LIBSDP_SECCOMP=trust",
		      v->kills ? "kills for" : "refuses", u->name, v->barred);
	else if (by && !u->trusted)
		warnx("note: %s= makes a filter of system calls, which allows "
		      "what lifting needs. But the library cannot see that, "
		      "and lifts nothing.  Add, by `systemctl edit %s`:\n"
		      "  [Service]\n"
		      "  Environment=LIBSDP_SECCOMP=trust",
		      by, u->name);
}

static void say_limits(const struct unit *u, const struct filter_verdict *v)
{
	say_filter(u, v);
	if (u->families && u->netlink_listed != u->only_families)
		warnx("note: RestrictAddressFamilies= bars AF_NETLINK, by which "
		      "peers on this host are verified: they stay on TCP. "
		      "Add RestrictAddressFamilies=AF_NETLINK");
	if (u->exec_open)
		warnx("note: ExecStart=%s: only systemd knows which program "
		      "that is: whether it can use the library could not be "
		      "judged",
		      u->exec);
	if (u->env_unread[0])
		warnx("note: EnvironmentFile=%s: could not be read: if it sets "
		      "LD_PRELOAD, add libsdp.so there",
		      u->env_unread);
	if (u->no_network)
		warnx("note: PrivateNetwork= is set: only peers in the same "
		      "namespace are found");
}

/* --- the drop-in -------------------------------------------------------- */

/* In a quoted assignment of systemd's. */
static void quoted(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (strchr("\"\\", *s))
			fputc('\\', f);
		fputc(*s, f);
	}
}

/* Without specifiers: `%` stands for itself. Malloced. */
static char *literal(const char *s)
{
	char *new = malloc(2 * strlen(s) + 1), *to = new;

	if (!new)
		err(2, "memory");
	for (; *s; s++) {
		if (*s == '%')
			*to++ = '%';
		*to++ = *s;
	}
	*to = '\0';
	return new;
}

/* `preload` and `rules` as systemd expands them. */
static int write_all(const struct place *p, const char *preload,
		     const char *rules)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
	char tmp[sizeof(FILE_NAME) + 16];
	FILE *f;
	int fd, bad;

	snprintf(tmp, sizeof(tmp), "%s.%d", FILE_NAME, getpid());
	unlinkat(p->at, tmp, 0);
	fd = openat(p->at, tmp, flags, 0600);
	if (fd < 0)
		return -errno;
	f = fdopen(fd, "w");
	if (!f)
		err(2, "memory");
	fprintf(f, "%s\n[Service]\nEnvironment=\"LD_PRELOAD=", OURS);
	quoted(f, preload);
	fprintf(f, "\"\n");
	if (rules) {
		fprintf(f, "Environment=\"LIBSDP_CONFIG_FILE=");
		quoted(f, rules);
		fprintf(f, "\"\n");
	}
	bad = fflush(f) || fsync(fd) || fchmod(fd, 0644) ? -errno : 0;
	if (fclose(f) && !bad)
		bad = -errno;
	if (!bad && renameat(p->at, tmp, p->at, FILE_NAME))
		bad = -errno;
	if (bad)
		unlinkat(p->at, tmp, 0);
	return bad;
}

static bool enable_it(struct place *p, const struct unit *u, const char *rules)
{
	char lib[PATH_MAX];
	char *own, *preload, *from = rules ? literal(rules) : NULL;
	int ret;

	library_find(lib, sizeof(lib));
	own = literal(lib);
	preload = library_before(u->preload, own);
	if (p->at < 0)
		p->at = root_dir(p->root, p->dir, true);
	ret = p->at < 0 ? -errno : write_all(p, preload, from);
	free(preload);
	free(own);
	free(from);
	if (ret) {
		root_rmdir(p->root, p->dir);
		warnx("%s: %s", p->file, strerror(-ret));
	}
	return !ret;
}

int unit_enable(const char *root, const char *name, const char *rules)
{
	struct filter_verdict verdict;
	struct program program;
	char full[PATH_MAX];
	struct stat st;
	struct place p;
	const char *why;
	struct unit u;
	int ret;

	if (!place_of(root, name, &p))
		return 1;
	if (rules && !realpath(rules, full)) {
		warn("%s", rules);
		return 1;
	}
	if (rules && (stat(full, &st) || !S_ISREG(st.st_mode))) {
		warnx("%s: not a file", full);
		return 1;
	}
	ret = unit_read(root, p.name, FILE_NAME, &u);
	if (ret) {
		warnx("%s: %s", p.name,
		      ret == -ENOENT ? "no such unit" : strerror(-ret));
		return 1;
	}
	judge(&u, &verdict);
	why = hopeless(root, &u, &verdict, &program);
	if (why) {
		const char *of = u.env_file[0] ? u.env_file :
				 u.later[0]    ? u.later :
						 u.exec;

		warnx("%s: cannot work: %s%s%s", p.name, of, *of ? ": " : "",
		      why);
		return 1;
	}
	if (is_ours(&p) < 0) {
		warnx("%s: is not ours, and stays as it is", p.file);
		return 2;
	}
	say_limits(&u, &verdict);
	if (!enable_it(&p, &u, rules ? full : NULL))
		return 2;
	then(root, &p, "will run with libsdp");
	return 0;
}

int unit_disable(const char *root, const char *name)
{
	struct place p;
	int ours;

	if (!place_of(root, name, &p))
		return 1;
	ours = is_ours(&p);
	if (ours < 0) {
		warnx("%s: is not ours, and stays as it is", p.file);
		return 2;
	}
	if (!ours) {
		warnx("%s: is not enabled", p.name);
		return 1;
	}
	if (unlinkat(p.at, FILE_NAME, 0)) {
		warn("%s", p.file);
		return 2;
	}
	root_rmdir(root, p.dir);
	then(root, &p, "will run without libsdp");
	return 0;
}
