/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "config/lists.h"
#include "config/settings.h"

static bool trusts(const char *list, const char *ip)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (inet_pton(AF_INET, ip, &in.sin_addr) == 1)
		return list_nets_have(list, (void *)&in);
	assert_int_equal(inet_pton(AF_INET6, ip, &in6.sin6_addr), 1);
	return list_nets_have(list, (void *)&in6);
}

static void lists(void **state)
{
	static const char *const bad[] = {
		"",
		",",
		"192.0.2.1,",
		",192.0.2.1",
		"192.0.2",
		"192.0.2.0/33",
		"2001:db8::/x",
		"2001:db8::/129",
		"localhost",
		"192.0.2.1,,::",
		"any",
	};
	const char nets[] = "192.0.2.128/25,198.51.100.7,2001:db8::/33";
	const char *expect;
	char longest[SETTING_LEN + 1];
	struct settings s = settings;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(settings_set(&s, "trusted_hosts", bad[i],
					      &expect),
				 -EINVAL);
	assert_string_equal(s.trusted_hosts, "none");
	assert_non_null(strstr(expect, "192.0.2.0/24"));
	assert_int_equal(settings_set(&s, "trusted_hosts", nets, &expect), 0);
	assert_string_equal(s.trusted_hosts, nets);
	assert_true(trusts(nets, "192.0.2.129"));
	assert_true(trusts(nets, "::ffff:192.0.2.129"));
	assert_false(trusts(nets, "192.0.2.127"));
	assert_true(trusts(nets, "198.51.100.7"));
	assert_false(trusts(nets, "198.51.100.6"));
	assert_true(trusts(nets, "2001:db8:7fff::1"));
	assert_false(trusts(nets, "2001:db8:8000::1"));
	assert_false(trusts("none", "192.0.2.129"));
	assert_true(trusts("0.0.0.0/0", "192.0.2.129"));
	assert_false(trusts("0.0.0.0/0", "2001:db8::1"));

	assert_true(list_names_have("any", "rxe0"));
	assert_true(list_names_have("mlx5_0,rxe0", "rxe0"));
	assert_false(list_names_have("mlx5_0,rxe0", "rxe"));
	assert_false(list_names_have("mlx5_0,rxe0", "rxe01"));
	assert_int_equal(settings_set(&s, "rdma_devices", "a/b", &expect),
			 -EINVAL);
	assert_int_equal(settings_set(&s, "rdma_devices", "a,,b", &expect),
			 -EINVAL);
	assert_int_equal(settings_set(&s, "rdma_devices", "..", &expect),
			 -EINVAL);
	/* as long as fits, and one more; a shorter one leaves no rest of it */
	memset(longest, 'a', sizeof(longest));
	for (i = 60; i < SETTING_LEN; i += 60)
		longest[i] = ',';
	longest[SETTING_LEN] = '\0';
	assert_int_equal(settings_set(&s, "rdma_devices", longest, &expect),
			 -EINVAL);
	longest[SETTING_LEN - 1] = '\0';
	assert_int_equal(settings_set(&s, "rdma_devices", longest, &expect), 0);
	assert_int_equal(settings_set(&s, "rdma_devices", "any", &expect), 0);
	assert_int_equal(settings_set(&s, "trusted_hosts", "none", &expect), 0);
	assert_memory_equal(&s, &settings, sizeof(s));
}

/* What files of earlier releases say means what it meant. */
static void former_names(void **state)
{
	static const struct {
		const char *former, *name, *value;
	} names[] = {
		{ "spin_remote_us", "spin_rdma_us", "7" },
		{ "zcopy_sinks", "zcopy_write", "no" },
		{ "soft_devices", "allow_soft_rdma", "yes" },
		{ "spill_ms", "stall_ms", "8" },
		{ "home_timeout_ms", "fallback_timeout_ms", "90" },
		{ "trusted", "trusted_hosts", "192.0.2.0/24" },
		{ "service_thread", "background_thread", "no" },
		{ "secure_sdp", "allow_setuid", "yes" },
	};
	struct settings a = settings, b = settings;
	const char *expect;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(settings_set(&a, names[i].former,
					      names[i].value, &expect),
				 0);
		assert_memory_not_equal(&a, &b, sizeof(a));
		assert_int_equal(settings_set(&b, names[i].name, names[i].value,
					      &expect),
				 0);
		assert_memory_equal(&a, &b, sizeof(a));
	}
	assert_int_equal(settings_set(&a, "path", "verbs", &expect), 0);
	assert_int_equal(a.path, SET_PATH_RDMA);
	/* a former value of one setting is none of another */
	assert_int_equal(settings_set(&a, "zcopy", "verbs", &expect), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists),
		cmocka_unit_test(former_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
