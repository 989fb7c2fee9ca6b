/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/guard.h"
#include "config/config.h"

/* config_reload(): all of a sound file, nothing of another, while others look. */

static char dir[] = "/tmp/test-reload-XXXXXX";
static char file[64];
static struct config_news news;

static void write_file(const char *text)
{
	FILE *f = fopen(file, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static struct verdict client(void)
{
	struct sockaddr sa = { .sa_family = AF_INET };
	GUARDED(in);

	return config_match(config_now(), ROLE_CLIENT, &sa);
}

static void sound(const char *text)
{
	write_file(text);
	config_reload(&news);
	assert_false(news.failed);
}

static void broken(uint32_t line, const char *said)
{
	uint32_t generation = config_generation;
	struct verdict was = client(), now;

	config_reload(&news);
	now = client();
	assert_true(news.failed);
	assert_int_equal(news.line, line);
	if (!strstr(news.said, said))
		fail_msg("`%s` is not in `%s`", said, news.said);
	assert_int_equal(config_generation, generation);
	assert_int_equal(now.use, was.use);
	assert_int_equal(now.line, was.line);
}

static void rules_change(void **state)
{
	uint32_t generation = config_generation;

	(void)state;
	sound("use sdp client * *:*\n");
	assert_int_equal(client().use, USE_SDP);
	assert_int_equal(news.rules, 1);
	sound("# moved\n\nuse tcp client * *:*\nuse tcp server * *:*\n");
	assert_int_equal(client().use, USE_TCP);
	assert_int_equal(client().line, 3);
	assert_int_equal(news.rules, 2);
	sound("");
	assert_int_equal(client().use, USE_BOTH);
	assert_int_equal(config_generation, generation + 3);
}

static void a_mistake_changes_nothing(void **state)
{
	int64_t spin;

	(void)state;
	sound("use sdp client * *:*\nset spin_us 7\n");
	spin = settings.spin_us;
	write_file("use tcp client * *:*\nset spin_us 8\nrubbish\nuse\n");
	broken(3, "rules:3:1: `rubbish`: expected use");
	assert_int_equal(settings.spin_us, spin);
	write_file("use tcp client * *:*\nset spin_us many\n");
	broken(2, "a number of us");
	assert_int_equal(settings.spin_us, spin);
	unlink(file);
	broken(0, "no such file");
	assert_int_equal(mkdir(file, 0700), 0);
	broken(0, "it is a directory");
	rmdir(file);
}

static void settings_that_may(void **state)
{
	(void)state;
	sound("set stall_ms 33\nset lift_after_messages 5\n");
	assert_int_equal(settings.stall_ms, 33);
	assert_int_equal(settings.lift_after_messages, 5);
	assert_int_equal(news.fixed, 0);
	/* back to what it is without a line */
	sound("");
	assert_int_equal(settings.stall_ms, 20);
	sound("set path shm\nset trusted_hosts 192.0.2.0/24\nset stall_ms 9\n");
	assert_int_equal(settings.path, SET_PATH_AUTO);
	assert_string_equal(settings.trusted_hosts, "none");
	assert_int_equal(settings.stall_ms, 9);
	assert_int_equal(news.fixed, 2);
	assert_string_equal(news.said, "path, trusted_hosts: only from the "
				       "next start on");
	/* LIBSDP_SPIN_RDMA_US goes before the file */
	sound("set spin_rdma_us 1\n");
	assert_int_equal(settings.spin_rdma_us, 77);
	assert_int_equal(news.fixed, 0);
}

/* Every row of the list is one or the other; texts and words are fixed. */
static void settings_are_sorted(void **state)
{
	struct settings a;
	uint32_t i, live = 0;

	(void)state;
	settings_default(&a);
	for (i = 0; i < settings_count; i++) {
		assert_true(settings_same(&a, &a, i));
		live += settings_live(i);
		if (settings_live(i)) {
			assert_null(settings_table[i].words);
			assert_null(settings_table[i].check);
		}
	}
	assert_int_equal(live, 10);
}

static void log_level(void **state)
{
	(void)state;
	sound("log min-level 4\n");
	assert_int_equal(log_min, 4);
	sound("");
	assert_int_equal(log_min, LOG_ERR);
}

/* --- readers -------------------------------------------------------------- */

#define RULES 200 /* some pages of them */

static bool over;
static uint64_t looked, torn;

/* Only the last rule fits, and its line says which file it is of. */
static void *reader(void *arg)
{
	uint64_t n = 0, bad = 0;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		struct verdict v = client();

		if (v.use == USE_SDP)
			bad += v.line != RULES + 1;
		else
			bad += v.use != USE_TCP || v.line != RULES + 3;
		n++;
	}
	__atomic_fetch_add(&looked, n, __ATOMIC_RELAXED);
	__atomic_fetch_add(&torn, bad, __ATOMIC_RELAXED);
	guard_exit();
	return arg;
}

static void rules_of(const char *use, uint32_t skip)
{
	FILE *f = fopen(file, "w");
	uint32_t i;

	assert_non_null(f);
	for (i = 0; i < skip; i++)
		fputc('\n', f);
	for (i = 0; i < RULES; i++)
		fprintf(f, "use both client other%u *:*\n", i);
	fprintf(f, "use %s client * *:*\n", use);
	assert_int_equal(fclose(f), 0);
}

/* Pages of this process that are mapped. */
static unsigned long mapped(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	return pages;
}

static void readers_see_one_or_the_other(void **state)
{
	unsigned long begun = 0, ended;
	pthread_t thread[2];
	uint32_t i;

	(void)state;
	rules_of("sdp", 0);
	config_reload(&news);
	assert_false(news.failed);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, reader, NULL),
				 0);
	for (i = 0; i < 400; i++) {
		rules_of(i & 1 ? "sdp" : "tcp", i & 1 ? 0 : 2);
		config_reload(&news);
		assert_false(news.failed);
		if (i == 20)
			begun = mapped();
	}
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	for (i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_true(looked > 0);
	assert_int_equal(torn, 0);
	/* no reader is inside: what they kept is freed with the next one */
	config_reload(&news);
	ended = mapped();
	assert_in_range(ended, 0, begun + 20);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(file, sizeof(file), "%s/rules", dir);
	write_file("use both client * *:*\n");
	/* named from where the program is: it goes elsewhere behind that */
	if (chdir(dir))
		return -1;
	clearenv();
	setenv("LIBSDP_CONFIG_FILE", "rules", 1);
	setenv("LIBSDP_SPIN_RDMA_US", "77", 1);
	config_load("test");
	guard_begin(true);
	return chdir("/");
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
		cmocka_unit_test(rules_change),
		cmocka_unit_test(a_mistake_changes_nothing),
		cmocka_unit_test(settings_that_may),
		cmocka_unit_test(settings_are_sorted),
		cmocka_unit_test(log_level),
		cmocka_unit_test(readers_see_one_or_the_other),
	};

	alarm(300);
	return cmocka_run_group_tests(tests, setup, teardown);
}
