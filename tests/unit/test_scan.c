/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/page.h"
#include "base/reason.h"
#include "tools/scan.h"

/* A child with a page of its own; it sleeps until it is killed. */
static pid_t child_with_page(const char *program, char *path, size_t size)
{
	struct page_row *r;
	char ready;
	int p[2];
	pid_t pid;

	assert_int_equal(pipe(p), 0);
	pid = fork();
	if (!pid) {
		page_forked();
		page_add(sockets, 42);
		page_add(bytes_tcp_rx, 1000);
		r = page_row_get(9);
		if (page_open(program) || !r)
			_exit(1);
		r->why = WHY_RULE;
		r->bytes_tcp_rx = 24;
		if (write(p[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(p[0], &ready, 1), 1);
	close(p[0]);
	close(p[1]);
	snprintf(path, size, PAGE_DIR "/" PAGE_PREFIX "%d.%lu", pid,
		 (unsigned long)page_start_time(pid));
	assert_int_equal(access(path, F_OK), 0);
	return pid;
}

static void end(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* How many processes of that number are shown? */
static size_t shown(pid_t pid)
{
	size_t n;
	struct found *f = scan_pages(pid, &n);

	scan_free(f, n);
	return n;
}

static void living_is_found_dead_is_removed(void **state)
{
	struct page_counters c;
	struct found *f;
	char path[128];
	pid_t pid = child_with_page("sleeper", path, sizeof(path));
	size_t n;

	(void)state;
	f = scan_pages(pid, &n);
	assert_int_equal(n, 1);
	assert_int_equal(f->pid, pid);
	assert_string_equal(f->page->program, "sleeper");
	assert_int_equal(f->page->c.sockets, 42);
	assert_int_equal(f->page->row[0].fd, 9);
	assert_int_equal(f->page->rows, 1);
	scan_totals(f->page, &c);
	assert_int_equal(c.sockets, 42);
	assert_int_equal(c.bytes_tcp_rx, 1024);
	assert_int_equal(c.reasons[WHY_RULE], 1);
	scan_free(f, n);

	end(pid);
	assert_int_equal(shown(pid), 0);
	assert_int_equal(access(path, F_OK), -1);
}

/* Opens the file of a page and overwrites some bytes. */
static void poke(const char *path, size_t at, const void *bytes, size_t len)
{
	int fd = open(path, O_WRONLY);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, len, (off_t)at), len);
	close(fd);
}

/*
 * A page of another process namespace may have a process that we cannot see. It
 * has that name never before: an sdpstat that looks meanwhile knows nothing
 * else of it.
 */
static void foreign_pages_are_left_alone(void **state)
{
	char was[128], aside[128], path[128];
	pid_t pid = child_with_page("foreign", was, sizeof(was));
	const uint64_t of_other[] = { page_start_time(pid) + 1, 12345 };

	(void)state;
	assert_int_equal(offsetof(struct page, pidns),
			 offsetof(struct page, start) + sizeof(uint64_t));
	snprintf(aside, sizeof(aside), PAGE_DIR "/test_scan.%d", pid);
	assert_int_equal(rename(was, aside), 0);
	poke(aside, offsetof(struct page, start), of_other, sizeof(of_other));
	end(pid);
	snprintf(path, sizeof(path), PAGE_DIR "/" PAGE_PREFIX "%d.%lu", pid,
		 (unsigned long)of_other[0]);
	assert_int_equal(rename(aside, path), 0);
	assert_int_equal(shown(pid), 0);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
}

/* Another user cannot publish under the name of a process that is not its. */
static void impostors_are_not_shown(void **state)
{
	char path[128];
	pid_t pid = child_with_page("honest", path, sizeof(path));

	(void)state;
	if (geteuid() != 0) {
		end(pid);
		unlink(path);
		skip();
	}
	assert_int_equal(chown(path, 65534, 65534), 0);
	assert_int_equal(shown(pid), 0);
	end(pid);
	shown(pid);
	assert_int_equal(access(path, F_OK), -1);
}

/* The name must say what the page says. */
static void misnamed_pages_are_ignored(void **state)
{
	char path[128], other[128];
	pid_t pid = child_with_page("renamed", path, sizeof(path));

	(void)state;
	snprintf(other, sizeof(other), PAGE_DIR "/" PAGE_PREFIX "%d.7", pid);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(shown(pid), 0);
	end(pid);
	/* programs with the library sweep such a file away as they start */
	unlink(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(living_is_found_dead_is_removed),
		cmocka_unit_test(foreign_pages_are_left_alone),
		cmocka_unit_test(impostors_are_not_shown),
		cmocka_unit_test(misnamed_pages_are_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
