/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <argp.h>
#include <err.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/pcapng.h"
#include "base/seccomp.h"
#include "base/text.h"
#include "config/config.h"
#include "tools/check.h"
#include "tools/launch.h"
#include "tools/library.h"
#include "tools/probe.h"
#include "tools/unit.h"

/* Read by argp, inside libc. */
__attribute__((visibility("default")))
const char *argp_program_version = "sdprun (libsdp) " PACKAGE_VERSION;

struct options {
	const char *use, *rules, *log, *capture, *root;
	const char *enable, *disable; /* units */
	bool stats, probe, check, json;
	char **program; /* and its arguments */
};

static void set_env(const char *name, const char *value)
{
	if (setenv(name, value, 1))
		err(2, "%s", name);
}

static void preload(void)
{
	char path[PATH_MAX];
	char *list;

	library_find(path, sizeof(path));
	list = library_before(getenv("LD_PRELOAD"), path);
	set_env("LD_PRELOAD", list);
	free(list);
}

/*
 * What the program's library may call is tried here. The number of filters goes
 * with the answer: a process that has more is under others.
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

/* Made here, so that the program is not run in vain; by its absolute name. */
static void capture(const char *file)
{
	char dir[PATH_MAX], path[SETTING_LEN];
	char *copy = strdup(file);
	int fd, n;

	if (!copy || !realpath(dirname(copy), dir))
		err(2, "--capture: %s", file);
	free(copy);
	n = snprintf(path, sizeof(path), "%s/%s", strcmp(dir, "/") ? dir : "",
		     text_base_name(file));
	if (n >= (int)sizeof(path))
		errx(2, "--capture: %s: the path is too long", file);
	fd = pcapng_open(path, true);
	if (fd < 0)
		errx(2, "--capture: %s: %s", file, pcapng_why(fd));
	close(fd);
	set_env("LIBSDP_CAPTURE_FILE", path);
}

static void by_rules(const struct options *o)
{
	if (o->rules)
		use_rules(o->rules);
	if (o->use)
		set_env("LIBSDP_USE", o->use);
	if (o->rules || o->use) {
		unsetenv("SIMPLE_LIBSDP");
		unsetenv("ALWAYS_USE_SDP");
	}
}

static void environment(const struct options *o)
{
	static struct config scratch;

	preload();
	by_rules(o);
	if (o->log && config_set_log(&scratch, o->log))
		errx(EX_USAGE,
		     "--log: %s: expected LEVEL[:stderr|syslog|file NAME], "
		     "LEVEL from 1 (everything) to 9 (errors)",
		     o->log);
	if (o->log)
		set_env("LIBSDP_LOG", o->log);
	if (o->capture)
		capture(o->capture);
}

enum {
	KEY_TCP = 256,
	KEY_SDP,
	KEY_BOTH,
	KEY_STATS,
	KEY_PROBE,
	KEY_CHECK,
	KEY_JSON,
	KEY_ENABLE,
	KEY_DISABLE,
	KEY_ROOT,
};

/* Instead of running a program. */
static bool instead(struct options *o, int key, char *arg)
{
	switch (key) {
	case KEY_CHECK:
		o->check = true;
		return true;
	case KEY_JSON:
		o->json = true;
		return true;
	case KEY_ENABLE:
		o->enable = arg;
		return true;
	case KEY_DISABLE:
		o->disable = arg;
		return true;
	case KEY_ROOT:
		o->root = arg;
		return true;
	default:
		return false;
	}
}

static void whole(const struct options *o, struct argp_state *state)
{
	bool unit = o->enable || o->disable;

	if ((o->enable && o->disable) || (unit && (o->check || o->program)))
		argp_error(state, "one unit, and nothing else");
	if (!unit && !o->program)
		argp_error(state, "expected a program");
	if (o->root && !unit)
		argp_error(state, "--root is for --enable and --disable");
	if (o->capture && o->check)
		argp_error(state, "--check runs nothing to be captured");
	if (o->json && !o->check)
		argp_error(state, "--json is for --check");
	if (unit && (o->use || o->log || o->stats || o->probe || o->capture))
		argp_error(state, "a unit has only rules");
}

static error_t option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	if (instead(o, key, arg))
		return 0;
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
	case 'c':
		o->capture = arg;
		return 0;
	case ARGP_KEY_ARG:
		o->program = &state->argv[state->next - 1];
		state->next = state->argc; /* the rest is the program's */
		return 0;
	case ARGP_KEY_END:
		whole(o, state);
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
	{ "capture", 'c', "FILE", 0, "record SDP messages in FILE (pcapng)",
	  0 },
	{ "stats", KEY_STATS, NULL, 0, "print what went where at the end", 0 },
	{ "probe", KEY_PROBE, NULL, 0,
	  "try what a filter of system calls allows", 0 },
	{ "check", KEY_CHECK, NULL, 0,
	  "do not run it, say what will and what will not work", 1 },
	{ "json", KEY_JSON, NULL, 0, "what --check finds as JSON", 1 },
	{ "enable", KEY_ENABLE, "UNIT", 0,
	  "have a service of systemd's run with libsdp", 2 },
	{ "disable", KEY_DISABLE, "UNIT", 0, "and without it again", 2 },
	{ "root", KEY_ROOT, "DIR", 0, "in the system whose files lie there",
	  2 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static const struct argp argp = {
	.options = option_list,
	.parser = option,
	.args_doc = "PROGRAM [ARGUMENT...]\n--enable UNIT\n--disable UNIT",
	.doc = "Run a program with its TCP sockets on SDP where possible.",
};

int main(int argc, char **argv)
{
	struct options o = { 0 };

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
	if (o.enable)
		return unit_enable(o.root ? o.root : "", o.enable, o.rules);
	if (o.disable)
		return unit_disable(o.root ? o.root : "", o.disable);
	if (o.check) {
		by_rules(&o);
		return check_program(o.program[0], o.rules, o.json);
	}
	environment(&o);
	if (o.probe)
		probe();
	if (o.stats)
		return launch_with_stats(o.program);
	launch(o.program);
}
