/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/reload.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/text.h"
#include "base/told.h"
#include "tools/members.h"
#include "tools/off.h"
#include "tools/out.h"
#include "tools/scan.h"
#include "tools/stray.h"
#include "tools/unit_file.h"

#define LOOK_NS 2000000 /* between two looks for answers */

enum answer {
	ANSWER_WAITS, /* nothing yet */
	ANSWER_DONE,
	ANSWER_FAILED, /* it says why */
	ANSWER_PART, /* connections are still on their way */
	ANSWER_NEXT, /* it has not looked: it makes no call */
	ANSWER_NONE, /* it cannot be asked */
};

static const char *const answer_names[] = {
	[ANSWER_DONE] = "done",	     [ANSWER_FAILED] = "failed",
	[ANSWER_PART] = "part",	     [ANSWER_NEXT] = "next-call",
	[ANSWER_NONE] = "not-asked",
};

struct asked {
	const struct found *f;
	int fd; /* of its page, -1 */
	uint32_t number; /* what was written there */
	enum answer answer;
	uint64_t service; /* its service thread that was told to look, 0: none */
	struct page_reload r; /* a copy */
	char why[128]; /* ANSWER_NONE */
};

/* --- asking -------------------------------------------------------------- */

static void none(struct asked *a, const char *why)
{
	a->answer = ANSWER_NONE;
	snprintf(a->why, sizeof(a->why), "%s", why);
}

static bool read_at(int fd, void *to, size_t n, size_t at)
{
	return pread(fd, to, n, (off_t)at) == (ssize_t)n;
}

/*
 * Is this file the page that was read before? A file that its user has made
 * look so is that user's, and has no second name.
 */
static bool same_page(int fd, const struct page *p)
{
	struct page head;
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
	       st.st_uid == p->uid && st.st_size >= (off_t)sizeof(*p) &&
	       read_at(fd, &head, offsetof(struct page, program), 0) &&
	       head.magic == PAGE_MAGIC && head.version == PAGE_VERSION &&
	       head.pid == p->pid && head.start == p->start;
}

static bool look(struct asked *a)
{
	if (!read_at(a->fd, &a->r, sizeof(a->r), offsetof(struct page, reload)))
		return false;
	a->r.said[sizeof(a->r.said) - 1] = '\0';
	return true;
}

/* Its service thread, if it has one, or has just begun one, looks at once. */
static void poke(struct asked *a)
{
	struct sockaddr_un un;
	uint64_t now = 0;
	socklen_t len;
	int sock;

	read_at(a->fd, &now, sizeof(now), offsetof(struct page, service));
	if (now == a->service)
		return;
	a->service = now;
	len = told_name(&un, now);
	sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0)
		return;
	sendto(sock, "L", 1, MSG_NOSIGNAL, (struct sockaddr *)&un, len);
	close(sock);
}

static void next_number(struct asked *a, bool apply)
{
	uint32_t last = a->r.asked > a->r.done ? a->r.asked : a->r.done;

	a->number = (last / PAGE_ASK_NEXT + 1) * PAGE_ASK_NEXT;
	if (a->number < PAGE_ASK_NEXT)
		a->number = PAGE_ASK_NEXT; /* all numbers were used up */
	if (apply || (a->r.asked & PAGE_ASK_APPLY))
		a->number |= PAGE_ASK_APPLY;
}

/*
 * It has connections that the library lets alone, and would do so with the next
 * ones. One that listens asks for its rules when it accepts.
 */
static bool let_alone(const struct found *f)
{
	size_t i;

	for (i = 0; i < f->strays; i++)
		if (f->stray[i].state == 1)
			return false;
	return f->strays > 0;
}

/* Has it the same PAGE_DIR, and the same number there? */
static bool near(const struct found *f)
{
	struct stat own, its;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/root" PAGE_DIR, f->pid);
	return f->pid == f->page->pid && !stat(PAGE_DIR, &own) &&
	       !stat(path, &its) && own.st_dev == its.st_dev &&
	       own.st_ino == its.st_ino;
}

/*
 * It has no page yet, and is asked by a note that it finds when it makes one. If
 * it has just done so it may have been too early for that.
 */
static void leave_note(struct asked *a)
{
	const struct page *p = a->f->page;
	char page[64], note[sizeof(page) + sizeof(PAGE_ASK)];
	int fd;

	snprintf(page, sizeof(page), PAGE_DIR "/" PAGE_PREFIX "%d.%" PRIu64,
		 p->pid, p->start);
	snprintf(note, sizeof(note), "%s" PAGE_ASK, page);
	fd = open(note, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		  0600);
	if (fd < 0 && errno != EEXIST) {
		none(a, strerror(errno));
		return;
	}
	if (fd >= 0 && fchown(fd, p->uid, (gid_t)-1)) {
		none(a, strerror(errno));
		unlink(note);
	} else if (!access(page, F_OK) && !unlink(note)) {
		none(a, "it has just made its first socket: ask again");
	} else {
		a->answer = ANSWER_NEXT;
	}
	if (fd >= 0)
		close(fd);
}

/* One sdpconf at a time asks a process: the lock is its descriptor's. */
static void ask(struct asked *a, bool apply)
{
	const size_t at = offsetof(struct page, reload) +
			  offsetof(struct page_reload, asked);
	const struct page *p = a->f->page;
	const char *off = p->magic ? NULL : off_why(a->f->pid);

	a->fd = -1;
	if (off) {
		none(a, off);
		return;
	}
	if (!p->magic && stray_lifted(a->f->pid)) {
		none(a, "it has no page that can be read here, as one of "
			"another version has none");
		return;
	}
	if (!p->magic && (let_alone(a->f) || !near(a->f))) {
		none(a,
		     "its rules let its sockets alone: it reads them when it "
		     "is started again");
		return;
	}
	if (!p->magic) {
		leave_note(a);
		return;
	}
	a->fd = open(a->f->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (a->fd < 0) {
		none(a, strerror(errno));
		return;
	}
	if (!same_page(a->fd, p)) {
		none(a, "it has ended, or its page is not its own");
	} else if (flock(a->fd, LOCK_EX | LOCK_NB)) {
		none(a, "another sdpconf is asking it");
	} else if (look(a)) {
		next_number(a, apply);
		if (pwrite(a->fd, &a->number, sizeof(a->number), (off_t)at) !=
		    sizeof(a->number))
			none(a, strerror(errno));
		else
			poke(a);
	} else {
		none(a, "its page cannot be read");
	}
}

/* --- answers ------------------------------------------------------------- */

static bool ended(const struct found *f)
{
	return proc_ended(f->pid);
}

static void hear(struct asked *a)
{
	if (!look(a))
		none(a, "its page cannot be read");
	else if (a->r.done == a->number)
		a->answer = a->r.failed ? ANSWER_FAILED : ANSWER_DONE;
	else if (ended(a->f))
		none(a, "it has ended");
	else
		poke(a);
}

static uint64_t now_ns(void)
{
	struct timespec ts = { 0 };

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* What was asked for stays asked for, when the time is over. */
static void wait_all(struct asked *all, size_t count, unsigned int timeout_ms)
{
	const struct timespec nap = { 0, LOOK_NS };
	uint64_t until = now_ns() + (uint64_t)timeout_ms * 1000000u;
	size_t i, waits = 1;

	while (waits) {
		bool late = now_ns() >= until;

		for (i = waits = 0; i < count; i++) {
			struct asked *a = &all[i];

			if (a->answer != ANSWER_WAITS)
				continue;
			hear(a);
			if (a->answer == ANSWER_WAITS && late)
				a->answer = a->r.read == a->number ?
						    ANSWER_PART :
						    ANSWER_NEXT;
			waits += a->answer == ANSWER_WAITS;
		}
		if (waits)
			nanosleep(&nap, NULL);
	}
}

/* --- what is printed ------------------------------------------------------ */

static void connections(const struct asked *a, char *buf, size_t size)
{
	struct text t = { .buf = buf, .size = size };

	buf[0] = '\0';
	if (a->r.back)
		text_add(&t, ", %u to TCP", a->r.back);
	if (a->r.again)
		text_add(&t, ", %u may be lifted again", a->r.again);
	if (a->r.stay)
		text_add(&t, ", %u not on TCP yet", a->r.stay);
}

static void result(const struct asked *a, char *buf, size_t size)
{
	char moved[96];

	connections(a, moved, sizeof(moved));
	switch (a->answer) {
	case ANSWER_DONE:
		snprintf(buf, size, "%u rules%s%s%s", a->r.rules, moved,
			 a->r.said[0] ? "; " : "", a->r.said);
		break;
	case ANSWER_FAILED:
		snprintf(buf, size, "the old rules hold: %s", a->r.said);
		break;
	case ANSWER_PART:
		snprintf(buf, size, "%u rules%s; others are on their way",
			 a->r.rules, moved);
		break;
	case ANSWER_NEXT:
		snprintf(buf, size, "will read them at its next call%s",
			 a->f->page->magic ? "" : " for a socket");
		break;
	default:
		snprintf(buf, size, "%s", a->why);
		break;
	}
}

static void print_json(const struct asked *all, size_t count)
{
	char text[512];
	size_t i;

	printf("[");
	for (i = 0; i < count; i++) {
		const struct asked *a = &all[i];

		result(a, text, sizeof(text));
		printf("%s{\"pid\":%d,\"program\":", i ? "," : "", a->f->pid);
		out_json(stdout, a->f->page->program);
		printf(",\"result\":\"%s\",\"rules\":%u,\"to_tcp\":%u"
		       ",\"again\":%u,\"stay\":%u,\"message\":",
		       answer_names[a->answer], a->r.rules, a->r.back,
		       a->r.again, a->r.stay);
		out_json(stdout, text);
		printf("}");
	}
	printf("]\n");
}

static void print_table(const struct asked *all, size_t count)
{
	struct table *t = table_new("Pid>|Program|Result");
	char text[512];
	size_t i;

	for (i = 0; i < count; i++) {
		result(&all[i], text, sizeof(text));
		table_cell(t, "%d", all[i].f->pid);
		table_cell(t, "%s", all[i].f->page->program);
		table_cell(t, "%s", text);
	}
	table_print(t, stdout);
}

/* --- which ---------------------------------------------------------------- */

/* Why there is nothing to ask. */
static void no_process(pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &st))
		warnx("%d: no such process", pid);
	else if (st.st_uid != geteuid() && geteuid())
		warnx("%d: is another user's process", pid);
	else
		warnx("%d: runs without libsdp", pid);
}

static void no_member(const char *root, const char *unit)
{
	static struct unit u;
	int ret = unit_read(root, unit, "", &u);

	if (members_any(unit))
		warnx("%s: runs without libsdp, or as another user", unit);
	else if (ret)
		warnx("%s: %s", unit,
		      ret == -ENOENT ? "no such unit" : strerror(-ret));
	else if (!u.exec[0])
		warnx("%s: it has no ExecStart=", unit);
	else
		warnx("%s: does not run", unit);
}

/* True: it is a process id; 0 is none. */
static bool is_pid(const char *what, pid_t *pid)
{
	uint64_t v = 0;
	size_t n = text_number(what, INT_MAX, &v);

	*pid = n && !what[n] ? (pid_t)v : 0;
	return what[strspn(what, "0123456789")] == '\0';
}

static int ask_all(const struct reload *how, struct asked *all, size_t count)
{
	int bad = 0;
	size_t i;

	for (i = 0; i < count; i++)
		ask(&all[i], how->apply);
	wait_all(all, count, how->timeout_ms);
	if (how->json)
		print_json(all, count);
	else if (count)
		print_table(all, count);
	for (i = 0; i < count; i++) {
		bad |= all[i].answer != ANSWER_DONE &&
		       all[i].answer != ANSWER_NEXT;
		if (all[i].fd >= 0)
			close(all[i].fd);
	}
	return bad;
}

int reload(const struct reload *how)
{
	char unit[NAME_MAX + 1] = "";
	struct found *found;
	struct asked *all;
	size_t count, n = 0, i;
	pid_t pid = 0;
	int bad;

	if (how->what && is_pid(how->what, &pid)) {
		if (!pid)
			errx(EX_USAGE, "%s: not a process id", how->what);
	} else if (how->what && !member_unit(how->what, unit, sizeof(unit))) {
		errx(EX_USAGE, "%s: not the name of a unit", how->what);
	}
	found = scan_pages(pid, &count);
	all = calloc(count + 1, sizeof(*all));
	if (!all)
		err(2, "memory");
	for (i = 0; i < count; i++)
		if (!unit[0] || member_of(found[i].pid, unit))
			all[n++].f = &found[i];
	bad = ask_all(how, all, n);
	if (!n && pid)
		no_process(pid);
	else if (!n && unit[0])
		no_member(how->root, unit);
	else if (!n)
		warnx("no process of yours runs with libsdp");
	free(all);
	scan_free(found, count);
	return bad || (!n && how->what);
}
