/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "config/settings.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "config/lists.h"

struct settings settings = {
#define SETTING_NUM(name, def, min, max, unit, what) .name = (def),
#define SETTING_ENUM(name, def, words, what)	     .name = (def),
#define SETTING_TEXT(name, def, check, form, what)   .name = def,
#include "config/settings.def"
#undef SETTING_NUM
#undef SETTING_ENUM
#undef SETTING_TEXT
};

void settings_default(struct settings *s)
{
	memset(s, 0, sizeof(*s));
#define SETTING_NUM(name, def, min, max, unit, what) s->name = (def);
#define SETTING_ENUM(name, def, words, what)	     s->name = (def);
#define SETTING_TEXT(name, def, check, form, what)   strcpy(s->name, def);
#include "config/settings.def"
#undef SETTING_NUM
#undef SETTING_ENUM
#undef SETTING_TEXT
}

static bool path_sound(const char *value)
{
	return *value == '/' || !strcmp(value, "none");
}

const struct setting_info settings_table[] = {
#define SETTING_NUM(name, def, min, max, unit, what) \
	{ #name, NULL, NULL, (def), (min), (max), unit, what },
#define SETTING_ENUM(name, def, words, what) \
	{ #name, words, NULL, (def), 0, 0, "", what },
#define SETTING_TEXT(name, def, check, form, what) \
	{ #name, NULL, check, 0, 0, 0, form, what },
#include "config/settings.def"
#undef SETTING_NUM
#undef SETTING_ENUM
#undef SETTING_TEXT
};

/* Where each row's value lies in struct settings. */
static const size_t offsets[] = {
#define SETTING_NUM(name, def, min, max, unit, what) \
	offsetof(struct settings, name),
#define SETTING_ENUM(name, def, words, what) offsetof(struct settings, name),
#define SETTING_TEXT(name, def, check, form, what) \
	offsetof(struct settings, name),
#include "config/settings.def"
#undef SETTING_NUM
#undef SETTING_ENUM
#undef SETTING_TEXT
};

/* Former names, which old files and scripts may use for ever. */
static const struct {
	const char *old, *name;
} aliases[] = {
#define SETTING_NUM(name, def, min, max, unit, what)
#define SETTING_ENUM(name, def, words, what)
#define SETTING_TEXT(name, def, check, form, what)
#define SETTING_ALIAS(old, name) { #old, #name },
#include "config/settings.def"
};

static const struct {
	const char *name, *old, *word;
} word_aliases[] = {
#define SETTING_WORD_ALIAS(name, old, word) { #name, #old, #word },
#include "config/settings.def"
};

/* Those that may change while the program runs. */
static const char *const live[] = {
#define SETTING_LIVE(name) #name,
#include "config/settings.def"
#undef SETTING_NUM
#undef SETTING_ENUM
#undef SETTING_TEXT
};

const uint32_t settings_count = sizeof(offsets) / sizeof(offsets[0]);

static int64_t *setting_num(const struct settings *s, uint32_t i)
{
	return (int64_t *)((uintptr_t)s + offsets[i]);
}

static int *setting_word(const struct settings *s, uint32_t i)
{
	return (int *)((uintptr_t)s + offsets[i]);
}

static char *setting_text(const struct settings *s, uint32_t i)
{
	return (char *)((uintptr_t)s + offsets[i]);
}

static const char *setting_expect(const struct setting_info *info)
{
	static __thread char expect[96]
		__attribute__((tls_model("initial-exec")));
	struct text t = TEXT_IN(expect);

	expect[0] = '\0';
	if (info->check)
		text_add(&t, "%s", info->unit);
	else if (info->words)
		text_add(&t, "one of %s", info->words);
	else
		text_add(&t, "a number of %s from %ld to %ld", info->unit,
			 (long)info->min, (long)info->max);
	return expect;
}

static const char *setting_name(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (!strcmp(aliases[i].old, name))
			return aliases[i].name;
	return name;
}

static const char *setting_value(const char *name, const char *value)
{
	size_t i;

	for (i = 0; i < sizeof(word_aliases) / sizeof(word_aliases[0]); i++)
		if (!strcmp(word_aliases[i].name, name) &&
		    !strcmp(word_aliases[i].old, value))
			return word_aliases[i].word;
	return value;
}

/* The position of `value` in "word|word", or -1. */
static int word_index(const char *words, const char *value)
{
	size_t len = strlen(value), n;
	int i;

	for (i = 0;; i++) {
		n = strcspn(words, "|");
		if (n == len && !memcmp(words, value, n))
			return i;
		if (!words[n])
			return -1;
		words += n + 1;
	}
}

static int setting_parse(const struct setting_info *info, const char *value,
			 int64_t *result)
{
	uint64_t v;
	size_t n;

	if (info->words) {
		*result = word_index(info->words, value);
		return *result < 0 ? -EINVAL : 0;
	}
	n = text_number(value, (uint64_t)info->max, &v);
	if (!n || value[n] || (int64_t)v < info->min)
		return -EINVAL;
	*result = (int64_t)v;
	return 0;
}

uint32_t settings_row(const char *name)
{
	uint32_t i;

	name = setting_name(name);
	for (i = 0; i < settings_count; i++)
		if (!strcmp(settings_table[i].name, name))
			break;
	return i;
}

int settings_set(struct settings *s, const char *name, const char *value,
		 const char **expect)
{
	uint32_t i = settings_row(name);
	const struct setting_info *info;
	int64_t v;

	value = setting_value(setting_name(name), value);
	if (i == settings_count)
		return -ENOENT;
	info = &settings_table[i];
	if (info->check) {
		if (strlen(value) >= SETTING_LEN || !info->check(value)) {
			*expect = setting_expect(info);
			return -EINVAL;
		}
		memset(setting_text(s, i), 0, SETTING_LEN);
		strcpy(setting_text(s, i), value);
		return 0;
	}
	if (setting_parse(info, value, &v)) {
		*expect = setting_expect(info);
		return -EINVAL;
	}
	if (info->words)
		*setting_word(s, i) = (int)v;
	else
		*setting_num(s, i) = v;
	return 0;
}

void settings_get(const struct settings *s, uint32_t i, char *buf, size_t size)
{
	const char *words = settings_table[i].words;
	struct text t = { .buf = buf, .size = size };
	int n;

	if (settings_table[i].check) {
		text_add(&t, "%s", setting_text(s, i));
		return;
	}
	if (!words) {
		text_add(&t, "%ld", (long)*setting_num(s, i));
		return;
	}
	for (n = *setting_word(s, i); n > 0; n--)
		words += strcspn(words, "|") + 1;
	text_bytes(&t, words, strcspn(words, "|"));
}

bool settings_live(uint32_t i)
{
	size_t n;

	for (n = 0; n < sizeof(live) / sizeof(live[0]); n++)
		if (!strcmp(live[n], settings_table[i].name))
			return true;
	return false;
}

bool settings_same(const struct settings *a, const struct settings *b,
		   uint32_t i)
{
	if (settings_table[i].check)
		return !strcmp(setting_text(a, i), setting_text(b, i));
	if (settings_table[i].words)
		return *setting_word(a, i) == *setting_word(b, i);
	return *setting_num(a, i) == *setting_num(b, i);
}

void settings_store(struct settings *to, const struct settings *from,
		    uint32_t i)
{
	__atomic_store_n(setting_num(to, i), *setting_num(from, i),
			 __ATOMIC_RELAXED);
}
