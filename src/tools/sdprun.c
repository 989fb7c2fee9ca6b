/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <argp.h>
#include <err.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/seccomp.h"
#include "base/text.h"
#include "config/config.h"
#include "tools/launch.h"
#include "tools/probe.h"

/* Read by argp, inside libc. */
__attribute__((visibility("default")))
const char *argp_program_version = "sdprun (libsdp) " PACKAGE_VERSION;

struct options {
	const char *use, *rules, *log;
	bool stats, probe;
	char **program; /* and its arguments */
};

static void set_env(const char *name, const char *value)
{
	if (setenv(name, value, 1))
		err(2, "%s", name);
}

/* --- where the library is ---------------------------------------------- */

static bool try_library(char *path, size_t size, const char *dir,
			const char *below)
{
	struct text t = { .buf = path, .size = size };

	text_add(&t, "%s%s/libsdp.so", dir, below);
	return !t.cut && !access(path, R_OK);
}

/*
 * A build tree's own library, the installed one, and the one beside us when
 * the whole installation was moved.
 */
static void find_library(char *path, size_t size)
{
	char dir[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
	char *slash;

	if (n < 0)
		err(2, "/proc/self/exe");
	dir[n] = '\0';
	slash = strrchr(dir, '/');
	if (slash)
		*slash = '\0';
	if (!try_library(path, size, dir, "/.libs") &&
	    !try_library(path, size, dir, "/../.libs") &&
	    !try_library(path, size, LIBDIR, "") &&
	    !try_library(path, size, dir, "/../lib"))
		errx(2, "libsdp.so is neither in %s nor near %s", LIBDIR, dir);
	if (strpbrk(path, " :"))
		errx(2, "%s: the dynamic linker takes no blanks and colons",
		     path);
}

/* Is `path` one of the words of LD_PRELOAD? */
static bool preloaded(const char *list, const char *path)
{
	size_t len = strlen(path), n;

	for (; *list; list += n + !!list[n]) {
		n = strcspn(list, " :");
		if (n == len && !memcmp(list, path, n))
			return true;
	}
	return false;
}

static void preload(void)
{
	const char *old = getenv("LD_PRELOAD");
	char path[PATH_MAX];
	char *list;

	find_library(path, sizeof(path));
	if (!old || !*old) {
		set_env("LD_PRELOAD", path);
		return;
	}
	if (preloaded(old, path))
		return;
	if (asprintf(&list, "%s:%s", path, old) < 0)
		err(2, "LD_PRELOAD");
	set_env("LD_PRELOAD", list);
	free(list);
}

/*
 * What the program's library may call is tried here. The number of filters goes
 * with the answer: whoever has more is under others.
 */
static void probe(void)
{
	int filters = seccomp_filters("/proc/self/status");
	const char *what;
	char word[32];

	if (!filters)
		return;
	if (filters < 0) {
		warnx("this kernel does not count filters of system calls: "
		      "nothing will go over SDP");
		return;
	}
	what = probe_filter();
	if (what) {
		warnx("the filter of system calls is in the way of %s: "
		      "nothing will go over SDP",
		      what);
		return;
	}
	snprintf(word, sizeof(word), "probed:%d", filters);
	set_env(SECCOMP_ENV, word);
}

/* --- command line ----------------------------------------------------- */

/* The program may change its directory before it starts others. */
static void use_rules(const char *file)
{
	char path[PATH_MAX];

	if (!realpath(file, path))
		err(2, "%s", file);
	set_env("LIBSDP_CONFIG_FILE", path);
}

static void environment(const struct options *o)
{
	static struct config scratch;

	preload();
	if (o->rules)
		use_rules(o->rules);
	if (o->use)
		set_env("LIBSDP_USE", o->use);
	if (o->rules || o->use) {
		unsetenv("SIMPLE_LIBSDP");
		unsetenv("ALWAYS_USE_SDP");
	}
	if (!o->log)
		return;
	if (config_set_log(&scratch, o->log))
		errx(EX_USAGE,
		     "--log: %s: expected LEVEL[:stderr|syslog|file NAME], "
		     "LEVEL from 1 (everything) to 9 (errors)",
		     o->log);
	set_env("LIBSDP_LOG", o->log);
}

enum { KEY_TCP = 256, KEY_SDP, KEY_BOTH, KEY_STATS, KEY_PROBE };

static error_t option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case KEY_TCP:
		o->use = "tcp";
		return 0;
	case KEY_SDP:
		o->use = "sdp";
		return 0;
	case KEY_BOTH:
		o->use = "both";
		return 0;
	case KEY_STATS:
		o->stats = true;
		return 0;
	case KEY_PROBE:
		o->probe = true;
		return 0;
	case 'r':
		o->rules = arg;
		return 0;
	case 'l':
		o->log = arg;
		return 0;
	case ARGP_KEY_ARG:
		o->program = &state->argv[state->next - 1];
		state->next = state->argc; /* the rest is the program's */
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "expected a program");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option option_list[] = {
	{ "tcp", KEY_TCP, NULL, 0, "leave every socket on TCP", 0 },
	{ "sdp", KEY_SDP, NULL, 0, "SDP for every socket, or an error", 0 },
	{ "both", KEY_BOTH, NULL, 0, "SDP where the peer can, else TCP", 0 },
	{ "rules", 'r', "FILE", 0, "read these rules", 0 },
	{ "log", 'l', "LEVEL[:DEST]", 0, "log from LEVEL (1-9) to DEST", 0 },
	{ "stats", KEY_STATS, NULL, 0, "print what went where at the end", 0 },
	{ "probe", KEY_PROBE, NULL, 0,
	  "try what a filter of system calls allows", 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static const struct argp argp = {
	.options = option_list,
	.parser = option,
	.args_doc = "PROGRAM [ARGUMENT...]",
	.doc = "Run a program with its TCP sockets on SDP where possible.",
};

int main(int argc, char **argv)
{
	struct options o = { 0 };

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
	environment(&o);
	if (o.probe)
		probe();
	if (o.stats)
		return launch_with_stats(o.program);
	launch(o.program);
}
