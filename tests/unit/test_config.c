/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/rules.h"

/* What was said about the text parsed last. */
static struct {
	int errors, warnings;
	uint32_t line, column; /* of the first */
	char token[64], expected[256];
} said;

static void hear(const struct config_error *e, void *arg)
{
	(void)arg;
	if (e->level == LOG_WARN) {
		said.warnings++;
		return;
	}
	if (!said.errors++) {
		said.line = e->line;
		said.column = e->column;
		snprintf(said.token, sizeof(said.token), "%s", e->token);
		snprintf(said.expected, sizeof(said.expected), "%s",
			 e->expected);
	}
}

static struct config conf;
static struct settings sets;

/* Returns the number of bad lines. */
static int parse(const char *text)
{
	int bad;

	config_release(&conf);
	memset(&conf, 0, sizeof(conf));
	memset(&said, 0, sizeof(said));
	sets = settings;
	strcpy(conf.program, "prog");
	strcpy(conf.exe, "real-exe");
	bad = config_parse_text(&conf, &sets, "test", text, strlen(text), hear,
				NULL);
	assert_int_equal(bad, said.errors);
	return bad;
}

static struct verdict match(enum rule_role role, const char *ip, int port)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} a;

	memset(&a, 0, sizeof(a));
	if (strchr(ip, ':')) {
		a.in6.sin6_family = AF_INET6;
		a.in6.sin6_port = htons((uint16_t)port);
		assert_int_equal(inet_pton(AF_INET6, ip, &a.in6.sin6_addr), 1);
	} else {
		a.in.sin_family = AF_INET;
		a.in.sin_port = htons((uint16_t)port);
		assert_int_equal(inet_pton(AF_INET, ip, &a.in.sin_addr), 1);
	}
	return config_match(&conf, role, &a.sa);
}

/* The decision for a client; the text holds `sdp` rules. */
static int hits(const char *text, const char *ip, int port)
{
	assert_int_equal(parse(text), 0);
	return match(ROLE_CLIENT, ip, port).use == USE_SDP;
}

/* Each line is good alone and prints as the second column. */
static const char *const good[][2] = {
	{ "use sdp server * *:*", "use sdp server * *:*" },
	{ "use tcp listen prog *:80", "use tcp server prog *:80" },
	{ "use both client db2* 192.0.2.0/24:1-1024",
	  "use both client db2* 192.0.2.0/24:1-1024" },
	{ "use sdp connect * 192.0.2.5/24:*",
	  "use sdp client * 192.0.2.0/24:*" },
	{ "\tuse  sdp\tconnect  a  *:5  ", "use sdp client a *:5" },
	{ "use sdp client * *:5# no blank", "use sdp client * *:5" },
	{ "use sdp client * *:5 # comment", "use sdp client * *:5" },
	{ "use sdp client * 10.0.0.0/0:*", "use sdp client * 0.0.0.0/0:*" },
	{ "use sdp client * 192.0.2.1:65535",
	  "use sdp client * 192.0.2.1:65535" },
	{ "use sdp client * 192 . 0 . 2 . 1 / 24 : 1 - 2",
	  "use sdp client * 192.0.2.0/24:1-2" },
	{ "use sdp client * * : 7", "use sdp client * *:7" },
	{ "use sdp client * 2001:db8::/32:80",
	  "use sdp client * [2001:db8::]/32:80" },
	{ "use sdp client * 2001:db8::1:80",
	  "use sdp client * [2001:db8::1]:80" },
	{ "use sdp client * 2001:DB8::A:80",
	  "use sdp client * [2001:db8::a]:80" },
	{ "use sdp client * :::80", "use sdp client * [::]:80" },
	{ "use sdp client * ::/0:*", "use sdp client * [::]/0:*" },
	{ "use sdp client * [2001:db8::1]:80",
	  "use sdp client * [2001:db8::1]:80" },
	{ "use sdp client * [2001:db8::1]/32:80",
	  "use sdp client * [2001:db8::]/32:80" },
	{ "use sdp client * [2001:db8::/32]:80-90",
	  "use sdp client * [2001:db8::]/32:80-90" },
	{ "use sdp client * 2001:db8::ff/127:80",
	  "use sdp client * [2001:db8::fe]/127:80" },
	{ "use sdp client * fe80::1:*", "use sdp client * [fe80::1]:*" },
	{ "use sdp client * face::1/128:80", "use sdp client * [face::1]:80" },
	{ "use sdp client * ::ffff:192.0.2.0/120:80",
	  "use sdp client * 192.0.2.0/24:80" },
	{ "use sdp client * ::ffff:0:0/96:80",
	  "use sdp client * 0.0.0.0/0:80" },
	{ "use sdp client * 0.0.0.0/32:80", "use sdp client * 0.0.0.0/32:80" },
	/* without a program */
	{ "use sdp client *:80", "use sdp client * *:80" },
	{ "use sdp client 192.0.2.0/24:*", "use sdp client * 192.0.2.0/24:*" },
	{ "use sdp client 192.0.2.0/24 : 80",
	  "use sdp client * 192.0.2.0/24:80" },
	{ "use sdp client * : 80", "use sdp client * *:80" },
	{ "use sdp client [::1]:80 # x", "use sdp client * [::1]:80" },
	{ "use sdp client *:80#x", "use sdp client * *:80" },
	{ "use native connect * 192.0.2.1:80",
	  "use kernel-sdp client * 192.0.2.1:80" },
	/* names that the old scanner took for something else */
	{ "use sdp client file *:80", "use sdp client file *:80" },
	{ "use sdp client 4711 *:80", "use sdp client 4711 *:80" },
	{ "use sdp client client *:80", "use sdp client client *:80" },
	{ "use sdp client a#b *:80", "use sdp client a#b *:80" },
	{ "use sdp client t[cq]p *:80", "use sdp client t[cq]p *:80" },
	/* blanks between keywords never were needed */
	{ "usesdpclient * *:80", "use sdp client * *:80" },
};

static void good_rules(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		char buf[256];
		struct text t = TEXT_IN(buf);

		if (parse(good[i][0]))
			fail_msg("`%s`: column %u, `%s`: expected %s",
				 good[i][0], said.column, said.token,
				 said.expected);
		assert_int_equal(conf.nrules, 1);
		assert_int_equal(conf.rules[0].line, 1);
		rule_print(&t, &conf.rules[0]);
		assert_string_equal(buf, good[i][1]);
	}
}

static const struct {
	const char *line;
	uint32_t column;
	const char *token, *expected; /* expected: a part of it */
} wrong[] = {
	{ "used", 4, "d", "sdp, tcp, both or kernel-sdp" },
	{ "use", 4, "end of line", "sdp, tcp, both or kernel-sdp" },
	{ "use udp client * *:*", 5, "udp", "sdp, tcp, both or kernel-sdp" },
	{ "use SDP client * *:*", 5, "SDP", "sdp, tcp, both or kernel-sdp" },
	{ "use sdp both * *:*", 9, "both", "server, listen" },
	{ "use native server * *:*", 12, "server", "kernel-sdp, which has no" },
	{ "use native listen * *:80", 12, "listen", "client or connect" },
	{ "use sdp", 8, "end of line", "server, listen" },
	{ "use sdp client", 15, "end of line", "a program" },
	{ "use sdp client #x *:*", 16, "#x", "a program" },
	{ "use sdp client prog", 16, "prog", "an address" },
	{ "use sdp client prog *", 22, "end of line", "`:` and a port" },
	{ "use sdp client prog *:", 23, "end of line", "a port" },
	{ "use sdp client prog *:x", 23, "x", "a port" },
	{ "use sdp client prog *:80 x", 26, "x", "end of the line" },
	{ "use sdp client prog x *:80", 21, "x", "an address" },
	{ "use sdp client * *:0", 20, "0", "from 1 to 65535" },
	{ "use sdp client * *:65536", 20, "65536", "from 1 to 65535" },
	{ "use sdp client * *:0-80", 20, "0-80", "from 1 to 65535" },
	{ "use sdp client * *:80-70", 20, "80-70", "end before it starts" },
	{ "use sdp client * *:80-65536", 23, "65536", "from 1 to 65535" },
	{ "use sdp client * *:080", 20, "080", "a port" },
	{ "use sdp client * *:-80", 20, "-80", "a port" },
	{ "use sdp client * 192.0.2.256:80", 26, "256:80", "an address" },
	{ "use sdp client * 192.0.02.1:80", 24, "02.1:80", "an address" },
	{ "use sdp client * 192.0.2:80", 18, "192.0.2:80", "an address" },
	{ "use sdp client * 192.0.2.0/33:80", 28, "33:80", "from 0 to 32" },
	{ "use sdp client * 2001:db8::/129:80", 29, "129:80", "from 0 to 128" },
	{ "use sdp client * 2001:db8::/3a:80", 30, "a:80", "from 0 to 128" },
	{ "use sdp client * 2001:db8:80", 18, "2001:db8:80", "an address" },
	{ "use sdp client * 1:2:3:4:5:6:7:8:9:80", 18, "1:2:3:4:5:6:7:8:9:80",
	  "an address" },
	{ "use sdp client * [::1:80", 18, "[::1:80", "`]`" },
	{ "use sdp client * [::1]80", 23, "80", "`:` and a port" },
	{ "use sdp client * fe80::1%eth0:80", 18, "fe80::1%eth0:80",
	  "an address" },
	{ "log min-level 0", 15, "0", "from 1 to 9" },
	{ "log min-level 10", 15, "10", "from 1 to 9" },
	{ "log min-level", 14, "end of line", "from 1 to 9" },
	{ "log destination printer", 17, "printer", "stderr, syslog" },
	{ "log destination file", 21, "end of line", "name of a file" },
	{ "log level 3", 5, "level", "destination or min-level" },
	{ "set", 1, "set", "use, log, set" },
	{ "set x", 6, "end of line", "a value" },
	{ "set spin_us 50 us", 16, "us", "the end of the line" },
	{ "set spin 50", 5, "spin", "name of a setting" },
	{ "set spin_us fast", 13, "fast", "a number of us from 0 to 100000" },
	{ "set spin_us 100001", 13, "100001", "from 0 to 100000" },
	{ "set spin_us -1", 13, "-1", "a number" },
	{ "set ring_max 1", 14, "1", "from 65536" },
	{ "set path tcp", 10, "tcp", "one of auto|shm|rdma" },
	{ "match destination *", 1, "match", "release 0.9" },
	{ "\001\002", 1, "\001\002", "use, log, set" },
};

static void wrong_lines_are_located(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(parse(wrong[i].line), 1);
		if (said.column != wrong[i].column ||
		    strcmp(said.token, wrong[i].token) ||
		    !strstr(said.expected, wrong[i].expected))
			fail_msg("`%s`: column %u `%s` expected %s",
				 wrong[i].line, said.column, said.token,
				 said.expected);
		assert_int_equal(conf.nrules, 0);
	}
}

static void one_bad_line_costs_only_itself(void **state)
{
	(void)state;
	assert_int_equal(parse("use sdp client * *:1 # one\n"
			       "\n"
			       "  # a comment\r\n"
			       "nonsense\r\n"
			       "use sdp client * *:5\r\n"
			       "use sdp client * *:99999\n"
			       "use sdp client * *:7"),
			 2);
	assert_int_equal(said.line, 4);
	assert_string_equal(said.token, "nonsense");
	assert_int_equal(conf.nrules, 3);
	assert_int_equal(conf.rules[0].line, 1);
	assert_int_equal(conf.rules[1].line, 5);
	assert_int_equal(conf.rules[2].line, 7);
}

static void odd_files(void **state)
{
	static char big[3 * 4096];
	const char nul[] = "use sdp client * *:1\nuse \0 x\n";
	int bad;

	(void)state;
	assert_int_equal(parse(""), 0);
	assert_int_equal(parse("\n\n \t\n\r\n"), 0);
	assert_int_equal(conf.nrules, 0);
	memset(big, 'x', sizeof(big) - 1);
	assert_int_equal(parse(big), 1);
	big[0] = '#';
	assert_int_equal(parse(big), 0);
	memset(&said, 0, sizeof(said));
	bad = config_parse_text(&conf, &sets, "test", nul, sizeof(nul) - 1,
				hear, NULL);
	assert_int_equal(bad, 1);
	assert_int_equal(said.line, 2);
	assert_int_equal(conf.nrules, 1);
}

static void many_rules(void **state)
{
	static const char line[] = "use sdp client * *:1\n";
	size_t n = strlen(line), count = RULES_MAX + 3, i;
	char *text = malloc(n * count + 1);

	(void)state;
	assert_non_null(text);
	for (i = 0; i < count; i++)
		memcpy(text + i * n, line, n + 1);
	assert_int_equal(parse(text), 3);
	assert_int_equal(conf.nrules, RULES_MAX);
	assert_int_equal(conf.rules[RULES_MAX - 1].line, RULES_MAX);
	free(text);
}

static void addresses_and_ports(void **state)
{
	(void)state;
	assert_true(hits("use sdp client * *:*", "192.0.2.1", 80));
	assert_true(hits("use sdp client * *:*", "2001:db8::1", 80));
	assert_true(hits("use sdp client * 192.0.2.77/24:*", "192.0.2.1", 1));
	assert_false(hits("use sdp client * 192.0.2.0/24:*", "192.0.3.1", 1));
	assert_true(hits("use sdp client * 192.0.2.0/23:*", "192.0.3.1", 1));
	assert_true(
		hits("use sdp client * 192.0.2.128/25:*", "192.0.2.200", 1));
	assert_false(
		hits("use sdp client * 192.0.2.128/25:*", "192.0.2.100", 1));
	/* /0 is all of its family and no other */
	assert_true(hits("use sdp client * 0.0.0.0/0:*", "192.0.2.1", 1));
	assert_false(hits("use sdp client * 0.0.0.0/0:*", "2001:db8::1", 1));
	assert_true(hits("use sdp client * ::/0:*", "2001:db8::1", 1));
	assert_false(hits("use sdp client * ::/0:*", "192.0.2.1", 1));
	/* v4-mapped is IPv4 on both sides */
	assert_true(
		hits("use sdp client * 192.0.2.0/24:*", "::ffff:192.0.2.9", 1));
	assert_false(hits("use sdp client * ::/0:*", "::ffff:192.0.2.9", 1));
	assert_true(hits("use sdp client * ::ffff:192.0.2.0/120:*", "192.0.2.9",
			 1));
	assert_true(hits("use sdp client * 2001:db8:ffff::/32:*", "2001:db8::1",
			 1));
	assert_true(hits("use sdp client * ::1:*", "::1", 1));
	assert_false(hits("use sdp client * 127.0.0.1:*", "::1", 1));
	/* inclusive ranges */
	assert_true(hits("use sdp client * *:5-7", "192.0.2.1", 5));
	assert_true(hits("use sdp client * *:5-7", "192.0.2.1", 7));
	assert_false(hits("use sdp client * *:5-7", "192.0.2.1", 4));
	assert_false(hits("use sdp client * *:5-7", "192.0.2.1", 8));
	assert_true(hits("use sdp client * *:*", "192.0.2.1", 0));
}

static void bare_any_address_matches_all_with_a_warning(void **state)
{
	(void)state;
	assert_true(hits("use sdp client * 0.0.0.0:80", "2001:db8::1", 80));
	assert_int_equal(said.warnings, 1);
	assert_false(hits("use sdp client * 0.0.0.0/32:80", "192.0.2.1", 80));
	assert_int_equal(said.warnings, 0);
}

static void programs(void **state)
{
	(void)state;
	assert_true(hits("use sdp client prog *:*", "192.0.2.1", 1));
	assert_true(hits("use sdp client p?o[fg] *:*", "192.0.2.1", 1));
	assert_true(hits("use sdp client *g *:*", "192.0.2.1", 1));
	assert_false(hits("use sdp client pro *:*", "192.0.2.1", 1));
	assert_false(hits("use sdp client PROG *:*", "192.0.2.1", 1));
	assert_true(hits("use sdp client real-* *:*", "192.0.2.1", 1));
	strcpy(conf.exe, "other");
	config_bind(&conf);
	assert_int_equal(match(ROLE_CLIENT, "192.0.2.1", 1).use, USE_BOTH);
}

static void first_match_of_the_role_wins(void **state)
{
	struct verdict v;

	(void)state;
	parse("use both client * 192.0.2.0/24:*\n"
	      "use tcp server * *:*\n"
	      "use sdp client * *:80\n"
	      "use tcp client * *:*\n");
	v = match(ROLE_CLIENT, "192.0.2.1", 80);
	assert_int_equal(v.use, USE_BOTH);
	assert_int_equal(v.line, 1);
	v = match(ROLE_CLIENT, "198.51.100.1", 80);
	assert_int_equal(v.use, USE_SDP);
	assert_int_equal(v.line, 3);
	v = match(ROLE_CLIENT, "198.51.100.1", 81);
	assert_int_equal(v.use, USE_TCP);
	assert_int_equal(v.line, 4);
	v = match(ROLE_SERVER, "0.0.0.0", 80);
	assert_int_equal(v.use, USE_TCP);
	assert_int_equal(v.line, 2);

	parse("use tcp server * 192.0.2.0/24:*\n");
	v = match(ROLE_CLIENT, "192.0.2.1", 80);
	assert_int_equal(v.use, USE_BOTH);
	assert_int_equal(v.line, 0);
	v = match(ROLE_SERVER, "0.0.0.0", 80); /* a wildcard bind */
	assert_int_equal(v.line, 0);
}

static void unknown_family_is_left_to_the_default(void **state)
{
	struct sockaddr sa = { .sa_family = AF_UNIX };

	(void)state;
	parse("use tcp client * *:*\n");
	assert_int_equal(config_match(&conf, ROLE_CLIENT, &sa).line, 0);
}

static void concerned_or_not(void **state)
{
	(void)state;
	parse("");
	assert_true(config_concerns(&conf, ROLE_CLIENT));
	parse("use tcp client * *:*\nuse both client * *:*");
	assert_false(config_concerns(&conf, ROLE_CLIENT));
	assert_true(config_concerns(&conf, ROLE_SERVER));
	parse("use tcp client * *:1-65535");
	assert_false(config_concerns(&conf, ROLE_CLIENT));
	parse("use sdp client other *:*\nuse tcp client prog *:*");
	assert_false(config_concerns(&conf, ROLE_CLIENT));
	parse("use both client * *:80\nuse tcp client * *:*");
	assert_true(config_concerns(&conf, ROLE_CLIENT));
	parse("use tcp client * 0.0.0.0/0:*");
	assert_true(config_concerns(&conf, ROLE_CLIENT));
	parse("");
	conf.secure = true;
	assert_false(config_concerns(&conf, ROLE_CLIENT));
	settings.allow_setuid = 1;
	assert_true(config_concerns(&conf, ROLE_CLIENT));
	settings.allow_setuid = 0;
	conf.secure = false;
	conf.disabled = true;
	assert_false(config_concerns(&conf, ROLE_CLIENT));
}

static void forced_comes_first(void **state)
{
	(void)state;
	parse("use tcp client * *:*\n");
	assert_int_equal(config_force(&conf, USE_SDP), 0);
	assert_int_equal(conf.nrules, 3);
	assert_int_equal(match(ROLE_CLIENT, "192.0.2.1", 1).use, USE_SDP);
	assert_int_equal(match(ROLE_SERVER, "::", 1).use, USE_SDP);
	assert_int_equal(match(ROLE_SERVER, "::", 1).line, 0);
}

static void simple_means_all_sdp(void **state)
{
	(void)state;
	parse("use tcp client * *:*\n");
	conf.simple = true;
	assert_int_equal(match(ROLE_CLIENT, "192.0.2.1", 1).use, USE_SDP);
	assert_true(config_concerns(&conf, ROLE_CLIENT));
}

static void log_statements(void **state)
{
	(void)state;
	assert_int_equal(parse("log"), 0);
	assert_int_equal(conf.log_level, 0);
	assert_false(conf.log_dest_given);
	assert_int_equal(parse("log min-level 7 destination stderr # x"), 0);
	assert_int_equal(conf.log_level, 7);
	assert_int_equal(conf.log_dest, LOG_TO_STDERR);
	assert_int_equal(parse("log destination syslog destination file my.log "
			       "min-level 9 min-level 1"),
			 0);
	assert_int_equal(conf.log_level, 1);
	assert_int_equal(conf.log_dest, LOG_TO_FILE);
	assert_string_equal(conf.log_file, "my.log");
	/* all of a line or nothing */
	assert_int_equal(parse("log min-level 3 destination paper"), 1);
	assert_int_equal(conf.log_level, 0);
	assert_false(conf.log_dest_given);

	assert_int_equal(config_set_log(&conf, "7"), 0);
	assert_int_equal(conf.log_level, 7);
	assert_false(conf.log_dest_given);
	assert_int_equal(config_set_log(&conf, "2:file a/b"), 0);
	assert_string_equal(conf.log_file, "a/b");
	assert_int_equal(config_set_log(&conf, "3:syslog"), 0);
	assert_int_equal(conf.log_dest, LOG_TO_SYSLOG);
	assert_int_equal(config_set_log(&conf, "12"), -EINVAL);
	assert_int_equal(config_set_log(&conf, "3:paper"), -EINVAL);
	assert_int_equal(config_set_log(&conf, "3 x"), -EINVAL);
	assert_int_equal(config_set_log(&conf, ""), -EINVAL);
	assert_int_equal(conf.log_level, 3);
	assert_int_equal(conf.log_dest, LOG_TO_SYSLOG);
}

static void settings_by_name(void **state)
{
	struct settings s = settings;
	const char *expect = NULL;
	char buf[SETTING_LEN];
	uint32_t i;

	(void)state;
	assert_int_equal(parse("set spin_us 0\nset path shm\n"
			       "set lift_after_bytes 1000000000000\n"),
			 0);
	assert_int_equal(sets.spin_us, 0);
	assert_int_equal(sets.path, SET_PATH_SHM);
	assert_int_equal(sets.lift_after_bytes, 1000000000000);
	assert_int_equal(settings_set(&s, "nothing", "1", &expect), -ENOENT);
	assert_int_equal(settings_set(&s, "spin_us", "1x", &expect), -EINVAL);
	assert_non_null(strstr(expect, "from 0 to 100000"));
	assert_int_equal(settings_set(&s, "path", "sh", &expect), -EINVAL);
	/* each default is legal and reads back as it prints */
	for (i = 0; i < settings_count; i++) {
		settings_get(&settings, i, buf, sizeof(buf));
		assert_int_equal(settings_set(&s, settings_table[i].name, buf,
					      &expect),
				 0);
		assert_true(strlen(settings_table[i].what) > 10);
	}
	assert_memory_equal(&s, &settings, sizeof(s));
}

/* --- conf/libsdp.conf.example ----------------------------------------- */

static char example[65536];

static void example_read(void)
{
	const char *dir = getenv("srcdir");
	char path[4096];
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "%s/conf/libsdp.conf.example",
		 dir ? dir : ".");
	f = fopen(path, "r");
	if (!f)
		fail_msg("%s: %s", path, strerror(errno));
	n = fread(example, 1, sizeof(example) - 1, f);
	example[n] = '\0';
	fclose(f);
}

static void example_as_it_is(void **state)
{
	(void)state;
	example_read();
	if (parse(example))
		fail_msg("line %u: `%s`: expected %s", said.line, said.token,
			 said.expected);
	assert_int_equal(said.warnings, 0);
	assert_int_equal(conf.nrules, 2);
	assert_int_equal(match(ROLE_CLIENT, "192.0.2.1", 1).use, USE_BOTH);
	assert_int_equal(match(ROLE_SERVER, "192.0.2.1", 1).use, USE_BOTH);
	assert_true(match(ROLE_SERVER, "192.0.2.1", 1).line > 0);
	assert_int_equal(conf.log_level, 9);
	assert_int_equal(conf.log_dest, LOG_TO_FILE);
	assert_string_equal(conf.log_file, "libsdp.log");
}

static void example_with_all_examples(void **state)
{
	static const char *const words[] = { "#use ", "#log ", "#set " };
	int found[3] = { 0 };
	uint32_t i;
	char *p;

	(void)state;
	example_read();
	for (p = example; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		for (i = 0; i < 3; i++)
			if (!strncmp(p, words[i], 5)) {
				*p = ' ';
				found[i]++;
			}
	}
	if (parse(example))
		fail_msg("line %u: `%s`: expected %s", said.line, said.token,
			 said.expected);
	assert_int_equal(said.warnings, 0);
	assert_true(found[0] > 30);
	assert_int_equal(found[1], 3);
	assert_int_equal(found[2], settings_count);
	assert_memory_equal(&sets, &settings, sizeof(sets));
	assert_int_equal(conf.nrules, 2 + found[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_rules),
		cmocka_unit_test(wrong_lines_are_located),
		cmocka_unit_test(one_bad_line_costs_only_itself),
		cmocka_unit_test(odd_files),
		cmocka_unit_test(many_rules),
		cmocka_unit_test(addresses_and_ports),
		cmocka_unit_test(bare_any_address_matches_all_with_a_warning),
		cmocka_unit_test(programs),
		cmocka_unit_test(first_match_of_the_role_wins),
		cmocka_unit_test(unknown_family_is_left_to_the_default),
		cmocka_unit_test(concerned_or_not),
		cmocka_unit_test(forced_comes_first),
		cmocka_unit_test(simple_means_all_sdp),
		cmocka_unit_test(log_statements),
		cmocka_unit_test(settings_by_name),
		cmocka_unit_test(example_as_it_is),
		cmocka_unit_test(example_with_all_examples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
