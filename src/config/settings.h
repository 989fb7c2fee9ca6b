/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_CONFIG_SETTINGS_H
#define LIBSDP_CONFIG_SETTINGS_H

/*
 * Everything an administrator can turn. settings.def is the one list.
 * Read once by config_load() (see config.h), constant afterwards but for those
 * that are SETTING_LIVE, which config_reload() stores one by one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SETTING_LEN 256 /* of a text, its end included */

struct settings {
#define SETTING_NUM(name, def, min, max, unit, what) int64_t name;
#define SETTING_ENUM(name, def, words, what)	     int name;
#define SETTING_TEXT(name, def, check, form, what)   char name[SETTING_LEN];
#include "config/settings.def"
#undef SETTING_NUM
#undef SETTING_ENUM
#undef SETTING_TEXT
};

extern struct settings settings; /* holds the defaults before config_load() */

enum { SET_ZCOPY_AUTO, SET_ZCOPY_NO, SET_ZCOPY_ALWAYS }; /* zcopy_write, too */
enum { SET_PATH_AUTO, SET_PATH_SHM, SET_PATH_RDMA, SET_PATH_BOTH };

/*
 * Set one by name, present or former, and text ("spin_us", "25"). 0; -ENOENT unknown name;
 * -EINVAL bad value: *expect then says in words what was expected
 * (static or thread-local storage).
 */
int settings_set(struct settings *s, const char *name, const char *value,
		 const char **expect);

/* The rows of settings.def, for tables and documents. */
struct setting_info {
	const char *name;
	const char *words; /* "no|yes"; NULL for a number or a text */
	bool (*check)(const char *value); /* of a text, else NULL */
	int64_t def, min, max; /* numbers; def also indexes `words` */
	const char *unit; /* of numbers; of texts: the form */
	const char *what;
};
extern const struct setting_info settings_table[];
extern const uint32_t settings_count;

/*
 * The value of row `i` as text that settings_set() understands; SETTING_LEN
 * bytes are enough for all.
 */
void settings_get(const struct settings *s, uint32_t i, char *buf, size_t size);

/* Everything at its default. */
void settings_default(struct settings *s);
/* The row of a name, present or former; settings_count: there is none. */
uint32_t settings_row(const char *name);
bool settings_live(uint32_t i);
bool settings_same(const struct settings *a, const struct settings *b,
		   uint32_t i);
/* Row `i`, which is live, as `from` has it; other threads read it meanwhile. */
void settings_store(struct settings *to, const struct settings *from,
		    uint32_t i);

#endif
