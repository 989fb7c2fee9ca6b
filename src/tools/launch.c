/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/launch.h"

#include <err.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "tools/out.h"

_Noreturn void launch(char **program)
{
	execvp(program[0], program);
	warn("%s", program[0]);
	_exit(errno == ENOENT ? 127 : 126);
}

/* --- waiting ---------------------------------------------------------- */

/*
 * What the terminal sends reaches the whole foreground group by itself; what
 * was sent to us alone was meant for the program.
 */
static void pass_on(pid_t child, const siginfo_t *info)
{
	if (info->si_code <= 0 && info->si_pid != child)
		kill(child, info->si_signo);
}

/* Stop when the program stops, so that the shell notices, and go on with it. */
static void stop_with(pid_t child)
{
	raise(SIGSTOP);
	kill(child, SIGCONT);
}

/* The wait status of the program. All signals are blocked. */
static int wait_for(pid_t child, const sigset_t *all)
{
	siginfo_t info;
	int status;

	for (;;) {
		if (sigwaitinfo(all, &info) < 0)
			continue;
		if (info.si_signo != SIGCHLD) {
			pass_on(child, &info);
			continue;
		}
		while (waitpid(child, &status, WNOHANG | WUNTRACED) == child) {
			if (!WIFSTOPPED(status))
				return status;
			stop_with(child);
		}
	}
}

/*
 * With SIGCHLD ignored there are no children to wait for; the program gets what
 * we were given.
 */
static int run(char **program)
{
	const struct sigaction notice = { .sa_handler = SIG_DFL };
	struct sigaction given;
	sigset_t all, old;
	pid_t child;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	sigaction(SIGCHLD, &notice, &given);
	child = fork();
	if (child < 0)
		err(2, "fork");
	if (!child) {
		sigaction(SIGCHLD, &given, NULL);
		sigprocmask(SIG_SETMASK, &old, NULL);
		launch(program);
	}
	return wait_for(child, &all);
}

/* --- the table -------------------------------------------------------- */

/* The number behind "name": in a line of page_append_json(). */
static uint64_t stat_number(const char *line, const char *name)
{
	char key[64];
	const char *p;
	uint64_t v = 0;

	snprintf(key, sizeof(key), "\"%s\":", name);
	p = strstr(line, key);
	if (p)
		text_number(p + strlen(key), UINT64_MAX, &v);
	return v;
}

/* The program's name: up to the next quote, JSON's escapes undone. */
static void stat_program(const char *line, char *buf, size_t size)
{
	static const char key[] = "\"program\":\"";
	struct text t = { .buf = buf, .size = size };
	const char *p = strstr(line, key);

	buf[0] = '\0';
	for (p = p ? p + strlen(key) : ""; *p && *p != '"'; p++) {
		if (*p != '\\') {
			text_char(&t, *p);
		} else if (*++p == 'u') { /* not to be printed */
			text_char(&t, '?');
			p += strnlen(p, 5) - 1;
		} else if (*p) {
			text_char(&t, *p);
		}
	}
}

/* The text from behind `from` up to `to`. */
static void stat_text(const char *line, const char *from, const char *to,
		      char *buf, size_t size)
{
	const char *p = strstr(line, from);
	size_t n;

	buf[0] = '\0';
	if (!p)
		return;
	p += strlen(from);
	n = strcspn(p, to);
	snprintf(buf, size, "%.*s", n < size ? (int)n : (int)size - 1, p);
}

static void stat_line(struct table *t, const char *line)
{
	static const char *const counts[] = {
		"sockets",	"lifted",	"fallbacks",
		"bytes_sdp_tx", "bytes_sdp_rx", "bytes_tcp_tx",
		"bytes_tcp_rx", "msgs_tx",	"msgs_rx",
	};
	char buf[512], *from, *to;
	size_t i;

	table_cell(t, "%lu", (unsigned long)stat_number(line, "pid"));
	stat_program(line, buf, sizeof(buf));
	table_cell(t, "%s", buf);
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		table_count(t, stat_number(line, counts[i]));
	stat_text(line, "\"reasons\":{", "}", buf, sizeof(buf));
	for (from = to = buf; *from; from++)
		if (*from != '"')
			*to++ = *from == ',' ? ' ' : *from;
	*to = '\0';
	table_cell(t, "%s", buf);
}

static void print_stats(const char *file, long from)
{
	struct table *t;
	char *line = NULL;
	size_t room = 0;
	FILE *f = fopen(file, "re");

	if (!f) {
		if (errno != ENOENT)
			warn("%s", file);
		fprintf(stderr, "sdprun: no process reported: none ended by "
				"itself with the library in it\n");
		return;
	}
	t = table_new("Pid>|Program|Sockets>|Lifted>|Fallbacks>|SdpTx>|SdpRx>|"
		      "TcpTx>|TcpRx>|MsgTx>|MsgRx>|Reasons");
	fseek(f, from, SEEK_SET);
	while (getline(&line, &room, f) > 0)
		stat_line(t, line);
	free(line);
	fclose(f);
	table_print(t, stderr);
}

/* --- both ------------------------------------------------------------- */

static long file_end(const char *file)
{
	struct stat st;

	return stat(file, &st) ? 0 : (long)st.st_size;
}

/* Die of the same signal, without a second core. */
static void die_of(int sig)
{
	const struct rlimit none = { 0, 0 };
	sigset_t set;

	setrlimit(RLIMIT_CORE, &none);
	signal(sig, SIG_DFL);
	raise(sig);
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int launch_with_stats(char **program)
{
	const char *file = getenv("LIBSDP_STATS_FILE");
	const char *tmp = getenv("TMPDIR");
	char dir[PATH_MAX], own[PATH_MAX + 8] = "";
	long from = 0;
	int status;

	if (file && *file) {
		from = file_end(file);
	} else {
		snprintf(dir, sizeof(dir), "%s/sdprun-XXXXXX",
			 tmp && *tmp ? tmp : "/tmp");
		if (!mkdtemp(dir))
			err(2, "%s", dir);
		snprintf(own, sizeof(own), "%s/stats", dir);
		if (setenv("LIBSDP_STATS_FILE", own, 1))
			err(2, "LIBSDP_STATS_FILE");
		file = own;
	}
	status = run(program);
	print_stats(file, from);
	if (own[0]) {
		unlink(own);
		rmdir(dir);
	}
	if (WIFSIGNALED(status)) {
		die_of(WTERMSIG(status));
		return 128 + WTERMSIG(status);
	}
	return WEXITSTATUS(status);
}
