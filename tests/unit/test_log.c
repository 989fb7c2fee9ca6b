/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

/*
 * Runs `story` with standard error in a pipe and returns what came out of it.
 * The story runs in a child, which must end well.
 */
static const char *heard(void (*story)(void))
{
	static char text[65536];
	size_t len = 0;
	int p[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(p), 0);
	pid = fork();
	if (!pid) {
		dup2(p[1], 2);
		close(p[0]);
		close(p[1]);
		log_forked();
		log_begin();
		story();
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

static void say_levels(void)
{
	log_debug("one");
	log_note("seven");
	log_warn("eight");
	log_err("nine");
	log_set_min(LOG_NOTE);
	log_note("seven again");
	log_at(LOG_MATCH, "four");
	log_set_min(LOG_OFF);
	log_err("off");
}

static void levels_count_down_to_noise(void **state)
{
	const char *out = heard(say_levels);

	(void)state;
	assert_non_null(strstr(out, " libsdp nine\n"));
	assert_non_null(strstr(out, " libsdp seven again\n"));
	assert_null(strstr(out, "eight"));
	assert_null(strstr(out, "seven\n"));
	assert_null(strstr(out, "four"));
	assert_null(strstr(out, "off"));
}

static void say_line(void)
{
	errno = 4711;
	log_err("fd %d: %s%%\n", 7, "a\tb\x1b[0m");
	if (errno != 4711)
		_exit(1);
}

/* Not time(): its clock moves in ticks and lags behind the log's. */
static time_t second_of_the_log(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
	return now.tv_sec;
}

/* The stamp must be what ctime would say in UTC, of a second in between. */
static void line_has_the_old_form(void **state)
{
	time_t t = second_of_the_log();
	const char *out = heard(say_line);
	time_t now = second_of_the_log();
	char want[64], *rest;
	int same = 0;

	(void)state;
	for (; t <= now; t++) {
		strftime(want, sizeof(want), "%a %b %e %H:%M:%S %Y ",
			 gmtime(&t));
		same |= !strncmp(out, want, strlen(want));
	}
	if (!same)
		fail_msg("%s", out);
	rest = strstr(out, "] libsdp ");
	assert_non_null(rest);
	assert_string_equal(rest, "] libsdp fd 7: a?b?[0m%\n");
	assert_null(memchr(out, '\n', strlen(out) - 1));
}

static void say_long(void)
{
	static char big[5000];

	memset(big, 'x', sizeof(big) - 1);
	log_err("%s", big);
}

static void long_lines_are_cut(void **state)
{
	const char *out = heard(say_long);

	(void)state;
	assert_int_equal(strlen(out), LOG_LINE - 1);
	assert_int_equal(out[LOG_LINE - 2], '\n');
}

static void say_once(void)
{
	int i;

	for (i = 0; i < 3; i++)
		log_once(LOG_ERR, "once");
}

static void once_is_once(void **state)
{
	char *first = strstr(heard(say_once), "once");

	(void)state;
	assert_non_null(first);
	assert_null(strstr(first + 1, "once"));
}

/* Nothing reads: neither a signal nor waiting. */
static void say_to_nobody(void)
{
	int p[2], i;

	if (pipe(p))
		_exit(1);
	dup2(p[1], 2);
	close(p[0]);
	log_begin();
	log_err("lost");
	if (pipe(p))
		_exit(1);
	dup2(p[1], 2);
	log_begin();
	for (i = 0; i < 3000; i++)
		log_err("until the pipe is full, and beyond");
}

static void broken_and_full_pipes_are_no_trouble(void **state)
{
	(void)state;
	assert_string_equal(heard(say_to_nobody), "");
}

/* setproctitle() and its like write over the arguments. */
static void say_under_a_title(void)
{
	memset(program_invocation_short_name, '=', 4);
	log_err("titled");
}

static void the_name_is_the_first_one(void **state)
{
	char want[64];

	(void)state;
	snprintf(want, sizeof(want), "%s[", program_invocation_short_name);
	assert_ptr_equal(strstr(heard(say_under_a_title), "===="), NULL);
	assert_non_null(strstr(heard(say_under_a_title), want));
}

/* Number 2 became something of the program's own. */
static void say_into_foreign(void)
{
	char name[] = "/tmp/test-log-XXXXXX", buf[8];
	int fd, s[2];

	close(2);
	log_err("closed");
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) || s[0] != 2)
		_exit(1);
	log_err("into a socket");
	if (recv(s[1], buf, sizeof(buf), MSG_DONTWAIT) >= 0)
		_exit(2);
	close(2);
	fd = mkstemp(name);
	unlink(name);
	if (fd != 2)
		_exit(3);
	log_err("into a file of data");
	if (lseek(2, 0, SEEK_END))
		_exit(4);
	fcntl(2, F_SETFL, O_APPEND);
	log_err("into a log");
	if (!lseek(2, 0, SEEK_END))
		_exit(5);
}

static void foreign_descriptors_are_spared(void **state)
{
	(void)state;
	assert_string_equal(heard(say_into_foreign), "");
}

/* --- files: as another user than root, in a directory of their own ----- */

static char dir[64], want_path[128];

static void file_setup(void)
{
	if (geteuid() == 0 && setresuid(65534, 65534, 65534))
		_exit(10);
	strcpy(dir, "/tmp/test-log-XXXXXX");
	if (!mkdtemp(dir))
		_exit(11);
	snprintf(want_path, sizeof(want_path), "%s/x.%u/log", dir, geteuid());
	snprintf(dir + strlen(dir), 8, "/x");
}

static size_t file_size(void)
{
	struct stat st;

	return stat(want_path, &st) ? 0 : (size_t)st.st_size;
}

static void file_cleanup(void)
{
	unlink(want_path);
	*strrchr(want_path, '/') = '\0';
	rmdir(want_path);
	unlink(want_path);
	*strrchr(dir, '/') = '\0';
	rmdir(dir);
}

static void say_to_file(void)
{
	struct stat st;
	size_t size;
	int i;

	file_setup();
	if (log_to(LOG_TO_FILE, "a/..") != -EINVAL ||
	    log_to(LOG_TO_FILE, "") != -EINVAL)
		_exit(1);
	if (log_to(LOG_TO_FILE, dir) || !access(want_path, F_OK))
		_exit(2);
	log_err("first");
	size = file_size();
	if (!size || stat(want_path, &st) || (st.st_mode & 07777) != 0600)
		_exit(3);
	/* a program that closes what is not its own, and opens its own there */
	for (i = 3; i < 2000; i++)
		close(i);
	for (i = 3; i < 1020; i++)
		open("/dev/null", O_RDWR);
	log_err("second");
	if (file_size() < 2 * size)
		_exit(4);
	file_cleanup();
}

static void file_is_private(void **state)
{
	(void)state;
	assert_string_equal(heard(say_to_file), "");
}

static void say_refused_link(void)
{
	file_setup();
	*strrchr(want_path, '/') = '\0';
	if (symlink("/tmp", want_path))
		_exit(1);
	strcat(want_path, "/log");
	if (log_to(LOG_TO_FILE, dir))
		_exit(2);
	log_err("message");
	log_err("another");
	file_cleanup();
}

static void say_refused_mode(void)
{
	file_setup();
	*strrchr(want_path, '/') = '\0';
	if (mkdir(want_path, 0700) || chmod(want_path, 0750))
		_exit(1);
	strcat(want_path, "/log");
	log_to(LOG_TO_FILE, dir);
	log_err("message");
	log_err("another");
	if (!access(want_path, F_OK))
		_exit(2);
	file_cleanup();
}

static void check_refused(const char *out)
{
	const char *p = strstr(out, "Cowardly refusing to log into");

	assert_non_null(p);
	assert_null(strstr(p + 1, "Cowardly"));
	assert_non_null(strstr(out, " libsdp message\n"));
	assert_non_null(strstr(out, " libsdp another\n"));
}

static void links_and_open_directories_are_refused(void **state)
{
	(void)state;
	check_refused(heard(say_refused_link));
	check_refused(heard(say_refused_mode));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels_count_down_to_noise),
		cmocka_unit_test(line_has_the_old_form),
		cmocka_unit_test(long_lines_are_cut),
		cmocka_unit_test(once_is_once),
		cmocka_unit_test(broken_and_full_pipes_are_no_trouble),
		cmocka_unit_test(the_name_is_the_first_one),
		cmocka_unit_test(foreign_descriptors_are_spared),
		cmocka_unit_test(file_is_private),
		cmocka_unit_test(links_and_open_directories_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
