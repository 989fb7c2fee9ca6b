/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/config.h"

/*
 * config_load() as the constructor calls it: once in a process, with an
 * environment, standard error in a pipe.
 */

static char dir[] = "/tmp/test-load-XXXXXX";
static char file[64];

#define must(x)                                                        \
	do {                                                           \
		if (!(x)) {                                            \
			printf("%s:%d: %s\n", __func__, __LINE__, #x); \
			fflush(stdout);                                \
			_exit(1);                                      \
		}                                                      \
	} while (0)

/* Loads with the variables "A=1 B=2" and returns what came on stderr. */
static const char *loaded(const char *vars, void (*check)(void))
{
	static char text[65536];
	char copy[512], *var;
	size_t len = 0;
	int p[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(p), 0);
	pid = fork();
	if (!pid) {
		clearenv();
		snprintf(copy, sizeof(copy), "%s", vars);
		for (var = strtok(copy, "|"); var; var = strtok(NULL, "|"))
			putenv(var);
		dup2(p[1], 2);
		close(p[0]);
		close(p[1]);
		errno = 4711;
		config_load("/some/where/argv-name");
		must(errno == 4711);
		check();
		_exit(0);
	}
	close(p[1]);
	while ((n = read(p[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	close(p[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return text;
}

static void write_file(const char *text)
{
	FILE *f = fopen(file, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* "LIBSDP_CONFIG_FILE=<file>|<rest>" */
static const char *with_file(const char *rest)
{
	static char vars[512];

	snprintf(vars, sizeof(vars), "LIBSDP_CONFIG_FILE=%s|%s", file, rest);
	return vars;
}

static int count(const char *text, const char *what)
{
	int n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

static enum rule_use client_use(void)
{
	struct sockaddr sa = { .sa_family = AF_INET };

	return config_match(&config, ROLE_CLIENT, &sa).use;
}

static void check_nothing(void)
{
	must(!config.disabled && !config.simple && !config.secure);
	must(!strcmp(config.program, "argv-name"));
	must(!strncmp(config.exe, "test_load", 9) ||
	     !strncmp(config.exe, "lt-test_load", 12));
	must(!config.file[0] && !config.stats_file[0]);
	must(config.nrules == 0 && log_min == LOG_ERR);
	must(client_use() == USE_BOTH);
}

static void nothing_there_is_silent(void **state)
{
	(void)state;
	assert_string_equal(loaded("", check_nothing), "");
	/* a named file that is missing is a warning: not seen by default */
	assert_string_equal(
		loaded("LIBSDP_CONFIG_FILE=/nonexistent", check_nothing), "");
}

static void check_level_8(void)
{
	must(log_min == 8 && config.nrules == 0);
}

static void missing_file_is_a_warning(void **state)
{
	const char *out = loaded("LIBSDP_CONFIG_FILE=/nonexistent|LIBSDP_LOG=8",
				 check_level_8);

	(void)state;
	assert_non_null(strstr(out, "failed to parse config file "
				    "/nonexistent: no such file"));
	assert_int_equal(count(out, "\n"), 1);
	out = loaded("LIBSDP_CONFIG_FILE=|LIBSDP_LOG=8", check_level_8);
	assert_int_equal(count(out, "\n"), 1);
}

static void check_file(void)
{
	must(!strcmp(config.file, file));
	must(config.nrules == 2 && settings.spin_us == 7);
	must(client_use() == USE_TCP);
	must(log_min == 7);
}

static void file_is_read_past_errors(void **state)
{
	const char *out;

	(void)state;
	write_file("use tcp client argv-* *:*\nrubbish\x1b[31m\n"
		   "set spin_us 7\nlog min-level 7\nset spin_us fast\n"
		   "use sdp client * *:*");
	out = loaded(with_file(""), check_file);
	assert_int_equal(count(out, "\n"), 2);
	assert_non_null(strstr(out, "Error (line:2) : "));
	assert_non_null(strstr(out, "`rubbish?[31m`: expected use, log, set"));
	assert_non_null(strstr(out, ":5:13: `fast`: expected a number of us"));
}

static void check_env(void)
{
	must(settings.spin_us == 25 && settings.path == SET_PATH_SHM);
	must(settings.lift_after_bytes == 0);
	must(!strcmp(config.stats_file, "/x/y"));
	must(log_min == 3);
	log_at(LOG_TRY, "still on standard error");
}

static void environment_beats_file(void **state)
{
	const char *out;

	(void)state;
	write_file("set spin_us 7\nlog min-level 9 destination syslog\n");
	out = loaded(with_file("LIBSDP_SPIN_US=25|LIBSDP_PATH=shm|"
			       "LIBSDP_LIFT_AFTER_BYTES=0|"
			       "LIBSDP_STATS_FILE=/x/y|LIBSDP_LOG=3:stderr"),
		     check_env);
	assert_int_equal(count(out, "\n"), 1);
	assert_non_null(strstr(out, " libsdp still on standard error\n"));
}

static uint32_t row; /* of the settings */
static char want[SETTING_LEN];

static void check_row(void)
{
	char is[SETTING_LEN];

	settings_get(&settings, row, is, sizeof(is));
	must(!strcmp(is, want));
}

/* A legal value: the first or the last of its kind. */
static void legal(char *to, const struct setting_info *info, bool last)
{
	const char *words = info->words;

	if (words && last)
		snprintf(to, SETTING_LEN, "%s", strrchr(words, '|') + 1);
	else if (words)
		snprintf(to, SETTING_LEN, "%.*s", (int)strcspn(words, "|"),
			 words);
	else if (info->check)
		snprintf(to, SETTING_LEN, "%s",
			 info->check("192.0.2.7") ? "192.0.2.7" : "none");
	else
		snprintf(to, SETTING_LEN, "%lld",
			 (long long)(last ? info->max : info->min));
}

/* In the file the one value, in the environment the other. */
static void both_ways(const struct setting_info *info, bool last)
{
	char text[SETTING_LEN + 80], name[64];
	size_t k;

	legal(want, info, last);
	snprintf(text, sizeof(text), "set %s %s\n", info->name, want);
	write_file(text);
	assert_string_equal(loaded(with_file(""), check_row), "");
	legal(want, info, !last);
	for (k = 0; k <= strlen(info->name); k++)
		name[k] = (char)toupper((unsigned char)info->name[k]);
	snprintf(text, sizeof(text), "LIBSDP_%s=%s", name, want);
	assert_string_equal(loaded(with_file(text), check_row), "");
	assert_string_equal(loaded(text, check_row), "");
}

static void every_setting_in_file_and_environment(void **state)
{
	(void)state;
	for (row = 0; row < settings_count; row++) {
		/* that one is the system's file's alone */
		if (!strcmp(settings_table[row].name, "allow_setuid"))
			continue;
		both_ways(&settings_table[row], true);
		both_ways(&settings_table[row], false);
	}
}

static void check_defaults(void)
{
	must(settings.spin_us == 50 && settings.allow_setuid == 0);
	must(client_use() == USE_BOTH);
}

static void bad_variables_are_reported(void **state)
{
	const char *out = loaded("LIBSDP_SPIN_US=much|LIBSDP_LOG=99|"
				 "LIBSDP_USE=udp|LIBSDP_ALLOW_SETUID=yes",
				 check_defaults);

	(void)state;
	assert_int_equal(count(out, "\n"), 3);
	assert_non_null(strstr(out, "spin_us: `much`: expected a number"));
	assert_non_null(strstr(out, "LIBSDP_LOG: `99`: expected LEVEL"));
	assert_non_null(strstr(out, "LIBSDP_USE: `udp`: expected sdp, tcp"));
	out = loaded("LIBSDP_NONSENSE=1|LIBSDP_LOG=8", check_defaults);
	assert_non_null(strstr(out, "unknown name: nonsense"));
}

static void check_disabled(void)
{
	must(config.disabled && !config.simple);
	must(!config_concerns(&config, ROLE_CLIENT));
}

static void check_simple(void)
{
	must(config.simple && !config.nrules && !config.file[0]);
	must(client_use() == USE_SDP);
}

static void check_tcp(void)
{
	must(client_use() == USE_TCP);
	must(!config_concerns(&config, ROLE_CLIENT));
	must(!config_concerns(&config, ROLE_SERVER));
}

static void precedence(void **state)
{
	(void)state;
	write_file("use sdp client * *:*\nrubbish\n");
	loaded(with_file("LIBSDP_DISABLE=1|SIMPLE_LIBSDP="), check_disabled);
	assert_string_equal(loaded(with_file("SIMPLE_LIBSDP="), check_simple),
			    "");
	assert_string_equal(loaded(with_file("ALWAYS_USE_SDP=1"), check_simple),
			    "");
	loaded(with_file("LIBSDP_USE=tcp"), check_tcp);
	assert_string_equal(loaded("LIBSDP_DISABLE=0", check_nothing), "");
	assert_string_equal(loaded("LIBSDP_DISABLE=", check_nothing), "");
}

static void check_no_rules(void)
{
	must(!config.file[0] && config.nrules == 0);
}

static void check_null(void)
{
	must(!strcmp(config.file, "/dev/null") && config.nrules == 0);
}

/* One line each, and no waiting for a writer of a FIFO. */
static void odd_files_are_refused(void **state)
{
	FILE *f;
	const char *out;

	(void)state;
	out = loaded("LIBSDP_CONFIG_FILE=/tmp", check_no_rules);
	assert_non_null(strstr(out, "/tmp: it is a directory"));
	assert_int_equal(count(out, "\n"), 1);
	out = loaded("LIBSDP_CONFIG_FILE=/dev/null", check_null);
	assert_string_equal(out, "");
	out = loaded("LIBSDP_CONFIG_FILE=/dev/zero", check_no_rules);
	assert_non_null(strstr(out, "it is not a regular file"));

	unlink(file);
	assert_int_equal(mkfifo(file, 0600), 0);
	out = loaded(with_file(""), check_no_rules);
	assert_non_null(strstr(out, "it is not a regular file"));
	unlink(file);

	f = fopen(file, "w");
	assert_non_null(f);
	assert_int_equal(ftruncate(fileno(f), 100 << 20), 0);
	fclose(f);
	out = loaded(with_file(""), check_no_rules);
	assert_non_null(strstr(out, "it is larger than 16 MiB"));
	assert_int_equal(count(out, "\n"), 1);
	assert_int_equal(truncate(file, 1 << 20), 0);
	out = loaded(with_file(""), check_no_rules);
	assert_non_null(strstr(out, "it is not a text file"));
	assert_int_equal(count(out, "\n"), 1);
}

static void check_hundred(void)
{
	must(!strcmp(config.file, file) && config.nrules == 1);
}

static void complaints_are_limited(void **state)
{
	const char *out;
	FILE *f = fopen(file, "w");
	int i;

	(void)state;
	assert_non_null(f);
	for (i = 0; i < 100; i++)
		fprintf(f, "rubbish\n");
	fprintf(f, "use tcp client * *:*\n");
	fclose(f);
	out = loaded(with_file(""), check_hundred);
	assert_int_equal(count(out, "\n"), 21);
	assert_int_equal(count(out, "Error (line:"), 20);
	assert_non_null(strstr(out, "and 80 more lines with errors"));
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(file, sizeof(file), "%s/rules", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(file);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_there_is_silent),
		cmocka_unit_test(missing_file_is_a_warning),
		cmocka_unit_test(file_is_read_past_errors),
		cmocka_unit_test(environment_beats_file),
		cmocka_unit_test(every_setting_in_file_and_environment),
		cmocka_unit_test(bad_variables_are_reported),
		cmocka_unit_test(precedence),
		cmocka_unit_test(odd_files_are_refused),
		cmocka_unit_test(complaints_are_limited),
	};

	if (!access(SYSCONFDIR "/libsdp.conf", F_OK)) {
		printf("skipped: this system has rules of its own\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
