/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * on_agent - the end of vm-on at the node that runs the command
 *
 * A process per command. It reads no more output than it has sent on, and asks
 * for no more input than it has handed over, so the connection is always free
 * for signals and for the news that the caller is gone.
 */
#include "on.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the caller sent before ON_RUN. */
struct request {
	char *cwd;
	char *argv;
	uint32_t argv_len;
	char *env;
	uint32_t env_len;
};

struct job {
	int caller; /* the connection */
	pid_t pid;
	int pidfd;
	int in; /* pipe to the command's input, -1 when closed */
	int out[2]; /* its output and error, -1 at their end */
	char tx[sizeof(struct on_head) + ON_CHUNK]; /* frame under way */
	size_t tx_at, tx_len;
	char rx[ON_CHUNK]; /* input not yet handed over */
	size_t rx_at, rx_len;
	bool asked; /* ON_WANT sent, nothing come for it */
	bool ended; /* the command; its output may be on the way */
	int32_t status;
};

/* --- the request --------------------------------------------------------- */

static char *take_strings(int fd, uint32_t len)
{
	char *s = malloc((size_t)len + 1);

	if (!s || on_read(fd, s, len)) {
		free(s);
		return NULL;
	}
	s[len] = '\0';
	return s;
}

static bool take_request(int fd, struct request *r)
{
	struct on_head head;

	for (;;) {
		if (on_read(fd, &head, sizeof(head)) ||
		    head.len > ON_STRINGS_MAX)
			return false;
		switch (head.type) {
		case ON_CWD:
			r->cwd = take_strings(fd, head.len);
			break;
		case ON_ARGV:
			r->argv = take_strings(fd, head.len);
			r->argv_len = head.len;
			break;
		case ON_ENV:
			r->env = take_strings(fd, head.len);
			r->env_len = head.len;
			break;
		case ON_RUN:
			return r->cwd && r->argv && r->argv_len && r->env;
		default:
			return false;
		}
	}
}

static char **split(char *strings, uint32_t len)
{
	size_t n = 0, i = 0;
	uint32_t at;
	char **v;

	for (at = 0; at < len; at++)
		n += !strings[at];
	v = calloc(n + 1, sizeof(*v));
	if (!v)
		_exit(126);
	for (at = 0; at < len; at += (uint32_t)strlen(strings + at) + 1)
		v[i++] = strings + at;
	return v;
}

/* --- the command ---------------------------------------------------------- */

static void execute(const struct request *r)
{
	char **argv = split(r->argv, r->argv_len);
	char *node = getenv("VM_NODE");
	char keep[16];
	int err;

	snprintf(keep, sizeof(keep), "%s", node ? node : "");
	environ = split(r->env, r->env_len);
	setenv("VM_NODE", keep, 1);
	if (chdir(r->cwd)) {
		dprintf(STDERR_FILENO, "vm-on: %s: %s\n", r->cwd,
			strerror(errno));
		_exit(126);
	}
	execvp(argv[0], argv);
	err = errno;
	dprintf(STDERR_FILENO, "vm-on: %s: %s\n", argv[0], strerror(err));
	_exit(err == ENOENT ? 127 : 126);
}

static bool start(struct job *j, const struct request *r)
{
	int in[2], out[2], err[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) ||
	    pipe2(err, O_CLOEXEC))
		return false;
	j->pid = fork();
	if (j->pid < 0)
		return false;
	if (!j->pid) {
		setsid();
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		dup2(err[1], STDERR_FILENO);
		execute(r);
	}
	close(in[0]);
	close(out[1]);
	close(err[1]);
	j->in = in[1];
	j->out[0] = out[0];
	j->out[1] = err[0];
	fcntl(j->in, F_SETFL, O_NONBLOCK);
	fcntl(j->out[0], F_SETFL, O_NONBLOCK);
	fcntl(j->out[1], F_SETFL, O_NONBLOCK);
	j->pidfd = (int)syscall(SYS_pidfd_open, j->pid, 0);
	return j->pidfd >= 0;
}

static void caller_gone(const struct job *j)
{
	kill(-j->pid, SIGKILL);
	_exit(0);
}

/* --- frames to the caller -------------------------------------------------- */

static void put_frame(struct job *j, enum on_type type, size_t len)
{
	struct on_head head = { .type = type, .len = (uint32_t)len };

	memcpy(j->tx, &head, sizeof(head));
	j->tx_at = 0;
	j->tx_len = sizeof(head) + len;
}

static char *frame_room(struct job *j)
{
	return j->tx + sizeof(struct on_head);
}

static void send_some(struct job *j)
{
	ssize_t r = send(j->caller, j->tx + j->tx_at, j->tx_len - j->tx_at,
			 MSG_DONTWAIT | MSG_NOSIGNAL);

	if (r < 0 && errno != EAGAIN && errno != EINTR)
		caller_gone(j);
	if (r > 0)
		j->tx_at += (size_t)r;
	if (j->tx_at == j->tx_len)
		j->tx_at = j->tx_len = 0;
}

/* Returns true if there was output, which is a frame now. */
static bool take_output(struct job *j, int which)
{
	ssize_t r = read(j->out[which], frame_room(j), ON_CHUNK);

	if (r > 0) {
		put_frame(j, which ? ON_ERR : ON_OUT, (size_t)r);
		return true;
	}
	if (r == 0 || (errno != EAGAIN && errno != EINTR)) {
		close(j->out[which]);
		j->out[which] = -1;
	}
	return false;
}

/* --- frames from the caller ------------------------------------------------ */

static void close_input(struct job *j)
{
	if (j->in >= 0)
		close(j->in);
	j->in = -1;
	j->rx_len = 0;
}

static void take_frame(struct job *j)
{
	struct on_head head;
	int32_t sig;

	if (on_read(j->caller, &head, sizeof(head)))
		caller_gone(j);
	switch (head.type) {
	case ON_IN:
		if (!j->asked || head.len > sizeof(j->rx) ||
		    on_read(j->caller, j->rx, head.len))
			caller_gone(j);
		j->asked = false;
		j->rx_at = 0;
		j->rx_len = head.len;
		if (!head.len)
			close_input(j);
		break;
	case ON_SIGNAL:
		if (head.len != sizeof(sig) ||
		    on_read(j->caller, &sig, sizeof(sig)))
			caller_gone(j);
		/* Not reaped before it has ended for us, so it is still it. */
		if (!j->ended)
			kill(j->pid, sig);
		break;
	default:
		caller_gone(j);
	}
}

static void give_input(struct job *j)
{
	ssize_t r = write(j->in, j->rx + j->rx_at, j->rx_len - j->rx_at);

	if (r < 0 && errno != EAGAIN && errno != EINTR)
		close_input(j);
	if (r > 0)
		j->rx_at += (size_t)r;
	if (j->rx_at == j->rx_len)
		j->rx_len = 0;
}

/* --- one command ----------------------------------------------------------- */

/* What to send next, when nothing is under way. False: all is said. */
static bool next_frame(struct job *j)
{
	int i;

	if (j->in >= 0 && !j->asked && !j->rx_len && !j->ended) {
		j->asked = true;
		put_frame(j, ON_WANT, 0);
		return true;
	}
	for (i = 0; i < 2; i++)
		if (j->out[i] >= 0 && take_output(j, i))
			return true;
	if (!j->ended)
		return true;
	memcpy(frame_room(j), &j->status, sizeof(j->status));
	put_frame(j, ON_EXIT, sizeof(j->status));
	return false;
}

/*
 * The end of the command counts, not that of its output: a daemon that it left
 * behind may hold the pipes for ever. What is in them by then is passed on.
 */
static void run(struct job *j)
{
	bool last = false;

	while (!last || j->tx_len) {
		bool full = j->tx_len;
		struct pollfd p[] = {
			{ j->caller, (short)(POLLIN | (full ? POLLOUT : 0)),
			  0 },
			{ full ? -1 : j->out[0], POLLIN, 0 },
			{ full ? -1 : j->out[1], POLLIN, 0 },
			{ j->rx_len ? j->in : -1, POLLOUT, 0 },
			{ j->ended ? -1 : j->pidfd, POLLIN, 0 },
		};

		if (!last && !full) {
			last = !next_frame(j);
			if (j->tx_len) {
				send_some(j);
				continue;
			}
		}
		if (poll(p, sizeof(p) / sizeof(p[0]), -1) < 0)
			continue;
		if (p[0].revents & POLLIN)
			take_frame(j);
		else if (p[0].revents & (POLLERR | POLLHUP))
			caller_gone(j);
		if (p[3].revents && j->rx_len)
			give_input(j);
		if (p[4].revents)
			j->ended = waitpid(j->pid, &j->status, 0) == j->pid;
		if (j->tx_len)
			send_some(j);
	}
}

static void serve_one(int fd)
{
	static struct job job;
	struct request r = { 0 };
	int on = 1;

	signal(SIGCHLD, SIG_DFL);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	job.caller = fd;
	if (!take_request(fd, &r) || !start(&job, &r))
		_exit(1);
	signal(SIGPIPE, SIG_IGN);
	run(&job);
	/* The caller closes first; its port is the one to wait. */
	shutdown(fd, SHUT_WR);
	while (recv(fd, job.rx, sizeof(job.rx), 0) > 0)
		;
	_exit(0);
}

int on_serve(const char *address)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(ON_PORT) };
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, address, &sin.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&sin, sizeof(sin)) ||
	    listen(fd, 64)) {
		perror("vm-on --serve");
		return 1;
	}
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

		if (c >= 0 && !fork())
			serve_one(c);
		if (c >= 0)
			close(c);
	}
}
