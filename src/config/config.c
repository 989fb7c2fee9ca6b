/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "config/config.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/table.h"
#include "base/text.h"
#include "config/rules.h"

#define COMPLAINTS 20

TABLE struct config config;
const struct config *config_current = &config;
uint32_t config_generation;

static const char system_file[] = SYSCONFDIR "/libsdp.conf";

/* --- the file --------------------------------------------------------- */

static int file_read(int fd, char *buf, size_t size, size_t *len)
{
	ssize_t n;

	for (*len = 0; *len < size; *len += (size_t)n) {
		n = sys_read(fd, buf + *len, size - *len);
		if (n == -EINTR)
			n = 0;
		else if (n < 0)
			return (int)n;
		else if (!n)
			break;
	}
	return memchr(buf, '\0', *len) ? -EILSEQ : 0;
}

/* /dev/null, the usual name of a file with nothing in it. */
static bool is_null(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

static int file_check(int fd, size_t *size)
{
	struct stat st;
	int err = sys_fstat(fd, &st);

	if (err)
		return err;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (is_null(&st))
		return 0;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size > CONFIG_FILE_MAX)
		return -EFBIG;
	*size = (size_t)st.st_size;
	return 0;
}

/* Read, not mapped: another process may cut the file meanwhile. */
int config_parse(struct config *c, struct settings *s, const char *file,
		 config_say say, void *arg)
{
	const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	size_t size = 0, len;
	int fd, err;
	char *buf;

	fd = sys_open(file, flags, 0);
	if (fd < 0)
		return fd;
	err = file_check(fd, &size);
	if (err || !size) {
		sys_close(fd);
		return err;
	}
	buf = sys_mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_is_err(buf)) {
		sys_close(fd);
		return -ENOMEM;
	}
	err = file_read(fd, buf, size, &len);
	sys_close(fd);
	if (!err)
		err = config_parse_text(c, s, file, buf, len, say, arg);
	sys_munmap(buf, size);
	return err;
}

/* --- log -------------------------------------------------------------- */

static void config_apply_log(const struct config *c)
{
	int err;

	if (c->log_level)
		log_set_min(c->log_level);
	if (!c->log_dest_given)
		return;
	err = log_to(c->log_dest, c->log_file);
	if (err)
		log_err("Cowardly refusing to log into `%s`", c->log_file);
}

/* What a file says about the log holds from the line on where it stands. */
struct load {
	struct config *c;
	uint32_t said, more;
};

static void load_log(const struct load *l)
{
	if (!l->c->log_fixed)
		config_apply_log(l->c);
}

static void load_say(const struct config_error *e, void *arg)
{
	struct load *l = arg;

	load_log(l);
	if (!log_on((int)e->level))
		return;
	if (l->said == COMPLAINTS) {
		l->more++;
		return;
	}
	l->said++;
	log_at((int)e->level, "Error (line:%u) : %s:%u:%u: `%s`: expected %s%s",
	       e->line, e->file, e->line, e->column, e->token, e->expected,
	       e->level == LOG_ERR ? "; line skipped" : "");
}

const char *config_why(int err)
{
	switch (err) {
	case -ENOENT:
	case -ENOTDIR:
		return "no such file";
	case -EACCES:
	case -EPERM:
		return "no permission to read it";
	case -EISDIR:
		return "it is a directory";
	case -EFBIG:
		return "it is larger than 16 MiB";
	case -EILSEQ:
		return "it is not a text file";
	case -EINVAL:
	case -ENXIO:
		return "it is not a regular file";
	default:
		return "it cannot be read";
	}
}

/* What is read again, though the program has another directory by then. */
static void load_source(struct config *c, const char *file)
{
	struct text t = TEXT_IN(c->source);

	if (*file != '/' &&
	    sys_call3(SYS_getcwd, c->source, sizeof(c->source), 0) > 0) {
		t.len = strlen(c->source);
		text_char(&t, '/');
	}
	text_add(&t, "%s", file);
}

/* A file that was named must be there; the system's own may be absent. */
static void load_file(struct load *l, const char *file, bool named)
{
	int bad = config_parse(l->c, &settings, file, load_say, l);

	if (bad < 0) {
		bool plain = bad == -ENOENT || bad == -EACCES;

		if (named || bad != -ENOENT)
			log_at(plain ? LOG_WARN : LOG_ERR,
			       "failed to parse config file %s: %s (%d); "
			       "no rules",
			       file, config_why(bad), -bad);
		return;
	}
	text_copy(l->c->file, sizeof(l->c->file), file);
	load_log(l);
	if (l->more)
		log_err("%s: and %u more lines with errors (`sdpconf check` "
			"prints all)",
			file, l->more);
}

/* --- environment ------------------------------------------------------ */

/* The words of the environment; empty is not the same as absent. */
struct env {
	const char *disable, *simple, *always, *file, *log, *use, *stats;
	const char *seccomp; /* read before all others: base/seccomp.h */
};

static const struct {
	const char *name;
	size_t at;
} env_names[] = {
	{ "LIBSDP_DISABLE", offsetof(struct env, disable) },
	{ "SIMPLE_LIBSDP", offsetof(struct env, simple) },
	{ "ALWAYS_USE_SDP", offsetof(struct env, always) },
	{ "LIBSDP_CONFIG_FILE", offsetof(struct env, file) },
	{ "LIBSDP_LOG", offsetof(struct env, log) },
	{ "LIBSDP_USE", offsetof(struct env, use) },
	{ "LIBSDP_STATS_FILE", offsetof(struct env, stats) },
	{ "LIBSDP_SECCOMP", offsetof(struct env, seccomp) },
};

#define ENV_NAMES (sizeof(env_names) / sizeof(env_names[0]))

/* Where in `env` the variable `e` belongs; NULL: it is none of these. */
static const char **env_place(struct env *env, const char *e)
{
	size_t i, n = strcspn(e, "=");

	for (i = 0; i < ENV_NAMES; i++)
		if (strlen(env_names[i].name) == n &&
		    !memcmp(env_names[i].name, e, n))
			return (const char **)((char *)env + env_names[i].at);
	return NULL;
}

static bool env_ours(const char *e)
{
	return (*e == 'L' && !strncmp(e, "LIBSDP_", 7)) ||
	       (*e == 'S' && !strncmp(e, "SIMPLE_LIBSDP", 13)) ||
	       (*e == 'A' && !strncmp(e, "ALWAYS_USE_SDP", 14));
}

/* One pass over the environment; of equal names the first counts. */
static void env_read(struct env *env)
{
	char **e;

	for (e = environ; e && *e; e++) {
		const char **place, *value = strchr(*e, '=');

		if (!value || !env_ours(*e))
			continue;
		place = env_place(env, *e);
		if (place && !*place)
			*place = value + 1;
	}
}

/* "LIBSDP_SPIN_US=25": one setting. */
static void env_setting(const char *e)
{
	const char *value = strchr(e, '=') + 1, *expect = NULL;
	char name[64];
	struct text t = TEXT_IN(name);
	int err;

	name[0] = '\0';
	for (e += strlen("LIBSDP_"); *e != '='; e++)
		text_char(&t, (char)(*e >= 'A' && *e <= 'Z' ? *e | 0x20 : *e));
	if (!strcmp(name, "allow_setuid"))
		err = -ENOENT; /* the system's file alone can say this */
	else
		err = settings_set(&settings, name, value, &expect);
	if (!err)
		config.env_set |= 1ull << settings_row(name);
	if (err == -ENOENT)
		log_warn("LIBSDP_ variable with an unknown name: %s", name);
	else if (err)
		log_err("LIBSDP_ variable of %s: `%s`: expected %s; ignored",
			name, value, expect);
}

static void env_settings(void)
{
	struct env env;
	char **e;

	for (e = environ; e && *e; e++)
		if (!strncmp(*e, "LIBSDP_", 7) && strchr(*e, '=') &&
		    !env_place(&env, *e))
			env_setting(*e);
}

static void env_log(struct load *l, const char *text)
{
	if (!text)
		return;
	if (config_set_log(l->c, text)) {
		log_err("LIBSDP_LOG: `%s`: expected "
			"LEVEL[:stderr|syslog|file NAME], LEVEL from 1 "
			"(everything) to 9 (errors)",
			text);
		return;
	}
	config_apply_log(l->c);
	l->c->log_fixed = true;
}

static void env_use(struct config *c, const char *text)
{
	enum rule_use use;

	if (!text)
		return;
	for (use = USE_BOTH; use <= USE_SDP; use++)
		if (!strcmp(text, rule_use_name(use)))
			break;
	if (use > USE_SDP)
		log_err("LIBSDP_USE: `%s`: expected sdp, tcp or both", text);
	else if (config_force(c, use))
		log_err("LIBSDP_USE: no memory for a rule; ignored");
	else
		c->forced = (uint8_t)(use + 1);
}

/* --- all of it -------------------------------------------------------- */

/* What /proc/self/exe names, less what the kernel adds when it is gone. */
static void config_exe(char *to, size_t size)
{
	static const char gone[] = " (deleted)";
	char path[4096];
	ssize_t n = sys_readlink("/proc/self/exe", path, sizeof(path) - 1);
	size_t len;

	if (n <= 0)
		return;
	len = (size_t)n;
	path[len] = '\0';
	if (len > strlen(gone) && !strcmp(path + len - strlen(gone), gone))
		path[len - strlen(gone)] = '\0';
	text_copy(to, size, text_base_name(path));
}

bool config_told_off(const char *disable)
{
	return disable && *disable && strcmp(disable, "0");
}

void config_load(const char *argv0)
{
	struct config *c = &config;
	struct load l = { .c = c };
	struct env env = { 0 };

	log_begin();
	c->secure = getauxval(AT_SECURE) != 0;
	if (!c->secure)
		env_read(&env);
	c->disabled = config_told_off(env.disable);
	if (c->disabled)
		return;
	text_copy(c->program, sizeof(c->program),
		  argv0 ? text_base_name(argv0) : "");
	config_exe(c->exe, sizeof(c->exe));
	env_log(&l, env.log);
	if (env.stats)
		text_copy(c->stats_file, sizeof(c->stats_file), env.stats);
	c->simple = env.simple || env.always;
	if (!c->simple) {
		c->named = env.file;
		load_source(c, env.file ? env.file : system_file);
		load_file(&l, env.file ? env.file : system_file, env.file);
	}
	if (strcmp(c->file, system_file))
		settings.allow_setuid = 0;
	if (!c->secure)
		env_settings();
	env_use(c, env.use);
}
