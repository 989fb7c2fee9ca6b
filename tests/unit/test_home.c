/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sdpstat --home where the page was read before things changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/told.h"
#include "tools/fallback.h"
#include "tools/stray.h"

#define MOST 4

/* What the page says, each time that it is read; the last for ever. */
static struct {
	bool lifted, ended;
	uint64_t service;
} says[MOST];
static int nsays, reads;
static bool bare; /* it has no page, */
static bool maps; /* and has mapped what lifted connections have */

/* Never closed, so that no other test's name is the same. */
static uint64_t dead_service(void)
{
	static uint64_t n;

	return ((uint64_t)getpid() << 32) + ++n;
}

static struct found *page_says(int i)
{
	struct found *f = calloc(1, sizeof(*f));
	struct page *p = calloc(1, sizeof(*p));

	assert_non_null(f);
	assert_non_null(p);
	p->magic = bare ? 0 : PAGE_MAGIC;
	p->rows = 1;
	p->row[0].fd = says[i].lifted ? 3 : -1;
	p->row[0].path[0] = PATH_SHM;
	p->service = says[i].service;
	f->pid = getpid();
	f->page = p;
	return f;
}

bool stray_lifted(pid_t pid)
{
	assert_int_equal(pid, getpid());
	return maps;
}

struct found *scan_pages(pid_t only, size_t *count)
{
	int i = reads < nsays - 1 ? reads : nsays - 1;

	assert_int_equal(only, getpid());
	reads++;
	*count = !says[i].ended;
	return says[i].ended ? NULL : page_says(i);
}

void scan_free(struct found *found, size_t count)
{
	if (!found)
		return;
	assert_int_equal(count, 1);
	free(found->page);
	free(found);
}

static int home(void)
{
	size_t count;
	struct found *f;
	int ret;

	reads = 0;
	f = scan_pages(getpid(), &count);
	ret = fallback_tell(f, -1);
	scan_free(f, count);
	return ret;
}

/* Its status: fallback_tell() may end the program. */
static int home_status(void)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(home());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void *serve(void *arg)
{
	struct told_answer a = { TOLD_HOME, 2, 2 };
	int sock = *(int *)arg;
	struct told_ask ask;
	struct sockaddr_un from;
	socklen_t len = sizeof(from);

	if (recvfrom(sock, &ask, sizeof(ask), 0, (struct sockaddr *)&from,
		     &len) == (ssize_t)sizeof(ask))
		sendto(sock, &a, sizeof(a), 0, (struct sockaddr *)&from, len);
	return NULL;
}

/* The service thread ended with the connections. */
static void t_closed(void **state)
{
	(void)state;
	nsays = 2;
	memset(says, 0, sizeof(says));
	says[0].lifted = true;
	says[0].service = dead_service();
	assert_int_equal(home_status(), 0);
}

/* And so did the process. */
static void t_ended(void **state)
{
	(void)state;
	nsays = 2;
	memset(says, 0, sizeof(says));
	says[0].lifted = true;
	says[0].service = dead_service();
	says[1].ended = true;
	assert_int_equal(home_status(), 0);
}

/* It had just begun, or another one has begun since: that one is asked. */
static void t_begun(void **state)
{
	uint64_t service = dead_service();
	int sock = socket(AF_UNIX, SOCK_DGRAM, 0), i;
	struct sockaddr_un un;
	socklen_t len = told_name(&un, service);
	pthread_t t;

	(void)state;
	assert_int_equal(bind(sock, (struct sockaddr *)&un, len), 0);
	for (i = 0; i < 2; i++) {
		nsays = 2;
		memset(says, 0, sizeof(says));
		says[0].lifted = says[1].lifted = true;
		says[0].service = i ? dead_service() : 0;
		says[1].service = service;
		assert_int_equal(pthread_create(&t, NULL, serve, &sock), 0);
		assert_int_equal(home(), 0);
		pthread_join(t, NULL);
		assert_int_equal(reads, 2);
	}
	close(sock);
}

/* No peer is there, and it stays so. */
static void t_nobody(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		nsays = 1;
		memset(says, 0, sizeof(says));
		says[0].lifted = true;
		says[0].service = i ? dead_service() : 0;
		assert_int_equal(home_status(), 2);
	}
}

/* It has no page that can be read: is there nothing on SDP, or not seen? */
static void t_unseen(void **state)
{
	(void)state;
	nsays = 1;
	memset(says, 0, sizeof(says));
	bare = true;
	assert_int_equal(home(), 0);
	maps = true;
	assert_int_equal(home(), 1);
	bare = maps = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_closed), cmocka_unit_test(t_ended),
		cmocka_unit_test(t_begun),  cmocka_unit_test(t_nobody),
		cmocka_unit_test(t_unseen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
