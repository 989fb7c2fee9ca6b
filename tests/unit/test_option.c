/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table of socket options: against the kernel, and against the manual. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "socket/core/option.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *name;
	uint8_t way;
} ioctls[] = {
#define IOCTL(name, way) { #name, WAY_##way },
#include "socket/core/option.def"
};

/* --- the table itself ----------------------------------------------------- */

static void test_once(void **state)
{
	size_t i, k;

	(void)state;
	for (i = 0; i < OPTIONS; i++) {
		const struct option *o = &option_list[i];

		assert_int_equal(o->id, i);
		assert_ptr_equal(option_find(o->level, o->opt), o);
		assert_int_equal(o->way == WAY_TCP, o->bar != 0);
		assert_int_equal(o->way == WAY_TCP, o->idle != IDLE_ANY);
		/* what is never idle cannot be taken back */
		assert_int_equal(o->idle == IDLE_NONE, o->bar == BAR_EVER);
		for (k = i + 1; k < OPTIONS; k++)
			assert_string_not_equal(o->name, option_list[k].name);
	}
	assert_null(option_find(SOL_SOCKET, 9999));
	assert_null(option_find(IPPROTO_UDP, 1));
}

static bool idle(int level, int opt, int value)
{
	return option_idle(option_find(level, opt), &value, sizeof(value));
}

static void test_idle(void **state)
{
	const struct option *rate = option_find(SOL_SOCKET, 47);
	long all = -1, some = 1l << 32, low = 0xffffffff;

	(void)state;
	assert_true(idle(SOL_SOCKET, SO_RCVLOWAT, 0));
	assert_true(idle(SOL_SOCKET, SO_RCVLOWAT, 1));
	assert_false(idle(SOL_SOCKET, SO_RCVLOWAT, 2));
	assert_false(idle(SOL_SOCKET, SO_RCVLOWAT, -1));
	assert_true(idle(SOL_SOCKET, SO_PEEK_OFF, -1));
	assert_false(idle(SOL_SOCKET, SO_PEEK_OFF, 0));
	assert_true(idle(SOL_SOCKET, SO_TIMESTAMPING, 0));
	assert_false(idle(SOL_SOCKET, SO_TIMESTAMPING, 16));
	assert_false(idle(SOL_SOCKET, SO_MAX_PACING_RATE, 0));
	assert_false(idle(SOL_SOCKET, SO_MAX_PACING_RATE, 1 << 20));
	assert_true(idle(SOL_SOCKET, SO_MAX_PACING_RATE, -1));
	assert_true(option_idle(rate, &all, sizeof(all)));
	if (sizeof(long) > sizeof(int)) {
		assert_false(option_idle(rate, &some, sizeof(some)));
		assert_false(option_idle(rate, &low, sizeof(low)));
	}
	assert_false(idle(IPPROTO_TCP, TCP_ULP, 0));
	/* what the kernel refuses keeps nothing anywhere */
	assert_true(option_idle(rate, &all, 2));
	assert_true(option_idle(rate, NULL, sizeof(int)));
}

/* --- against the kernel --------------------------------------------------- */

static void test_bars(void **state)
{
	static const struct {
		int level, opt, on, off;
		uint16_t bar;
	} list[] = {
		{ SOL_SOCKET, SO_RCVLOWAT, 5, 1, BAR_LOWAT },
		{ SOL_SOCKET, SO_TIMESTAMPING, 16, 0, BAR_TIMES },
		{ SOL_SOCKET, SO_MAX_PACING_RATE, 1 << 20, -1, BAR_PACING },
	};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	size_t i;

	(void)state;
	assert_int_equal(option_bars(fd), 0);
	for (i = 0; i < ARRAY_SIZE(list); i++) {
		assert_int_equal(setsockopt(fd, list[i].level, list[i].opt,
					    &list[i].on, sizeof(int)),
				 0);
		assert_int_equal(option_bars(fd), list[i].bar);
		assert_int_equal(setsockopt(fd, list[i].level, list[i].opt,
					    &list[i].off, sizeof(int)),
				 0);
		assert_int_equal(option_bars(fd), 0);
	}
	close(fd);
}

/* Does the kernel know of it, in one way or the other? */
static bool known(int fd, int level, int opt)
{
	char room[4096];
	socklen_t len = sizeof(room);
	int v = 0;

	memset(room, 0, sizeof(room));
	errno = 0;
	if (!getsockopt(fd, level, opt, room, &len) || errno != ENOPROTOOPT)
		return errno != EOPNOTSUPP;
	return !setsockopt(fd, level, opt, &v, sizeof(v)) ||
	       (errno != ENOPROTOOPT && errno != EOPNOTSUPP);
}

/* Numbers up to the last that was looked at: each is decided. */
static void test_decided(void **state)
{
	static const struct {
		int level, last;
	} list[] = { { SOL_SOCKET, 84 }, { IPPROTO_TCP, 46 } };
	size_t i;
	int opt;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(list); i++)
		for (opt = 1; opt <= list[i].last; opt++) {
			int fd = socket(AF_INET, SOCK_STREAM, 0);

			if (known(fd, list[i].level, opt) &&
			    !option_find(list[i].level, opt))
				fail_msg("level %d option %d", list[i].level,
					 opt);
			close(fd);
		}
}

/* --- against the manual --------------------------------------------------- */

static char *manual(void)
{
	const char *dir = getenv("srcdir");
	static char page[200000];
	char name[512];
	size_t n;
	FILE *f;

	snprintf(name, sizeof(name), "%s/doc/man/libsdp.7", dir ? dir : ".");
	f = fopen(name, "r");
	assert_non_null(f);
	n = fread(page, 1, sizeof(page) - 1, f);
	fclose(f);
	page[n] = 0;
	return page;
}

/* The part of the page that lists what goes this way. */
static char *part_of(char *page, uint8_t way)
{
	static const char *const heads[] = {
		[WAY_OBEYED] = ".Ss Options that libsdp obeys",
		[WAY_PASSED] = ".Ss Options that are passed on",
		[WAY_TCP] = ".Ss Options that keep a stream on TCP",
	};
	char *at = strstr(page, heads[way]), *end, *part;

	assert_non_null(at);
	at += strlen(heads[way]);
	end = strstr(at, "\n.S");
	assert_non_null(end);
	part = strndup(at, (size_t)(end - at));
	assert_non_null(part);
	return part;
}

static bool listed(const char *part, const char *name)
{
	size_t n = strlen(name);
	const char *at = part;

	while ((at = strstr(at, name))) {
		if (at > part && at[-1] == ' ' && strchr(" \n", at[n]))
			return true;
		at += n;
	}
	return false;
}

static void assert_listed(char *const part[3], const char *name, uint8_t way)
{
	uint8_t w;

	for (w = WAY_OBEYED; w <= WAY_TCP; w++)
		if (listed(part[w], name) != (w == way))
			fail_msg("%s in the manual", name);
}

static void test_manual(void **state)
{
	char *page = manual(), *part[3];
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++)
		part[i] = part_of(page, (uint8_t)i);
	for (i = 0; i < OPTIONS; i++)
		assert_listed(part, option_list[i].name, option_list[i].way);
	for (i = 0; i < ARRAY_SIZE(ioctls); i++)
		assert_listed(part, ioctls[i].name, ioctls[i].way);
	for (i = 0; i < 3; i++)
		free(part[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_once),   cmocka_unit_test(test_idle),
		cmocka_unit_test(test_bars),   cmocka_unit_test(test_decided),
		cmocka_unit_test(test_manual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
