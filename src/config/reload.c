/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rule file once more, while the program runs: read aside, and put in the
 * place of what holds when there is no mistake in it.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/guard.h"
#include "base/sys.h"
#include "base/text.h"
#include "config/config.h"

_Static_assert(sizeof(config.env_set) == 8, "a bit for each setting");

/* One reading, in memory of its own. */
struct reading {
	struct config c;
	struct settings s;
	struct config_news *news;
	struct retired retired;
};

static void reading_free(struct reading *r)
{
	config_release(&r->c);
	sys_munmap(r, sizeof(*r));
}

static void reading_over(struct retired *retired)
{
	reading_free((struct reading *)((uintptr_t)retired -
					offsetof(struct reading, retired)));
}

/* What does not come from the file is as it was at the start. */
static struct reading *reading_new(struct config_news *news)
{
	struct reading *r = sys_mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_is_err(r))
		return NULL;
	r->news = news;
	r->c = config;
	r->c.rules = NULL;
	r->c.nrules = r->c.room = 0;
	r->c.log_level = 0;
	r->c.log_dest_given = false;
	settings_default(&r->s);
	return r;
}

/* The first mistake is what is told. */
static void reading_say(const struct config_error *e, void *arg)
{
	struct config_news *news = arg;
	struct text t = TEXT_IN(news->said);

	if (e->level != LOG_ERR || news->line)
		return;
	news->line = e->line;
	text_add(&t, "%s:%u:%u: `%s`: expected %s", e->file, e->line, e->column,
		 e->token, e->expected);
}

/* The system's own file may be absent, unless it was there before. */
static bool reading_file(struct reading *r)
{
	struct config_news *news = r->news;
	struct text t = TEXT_IN(news->said);
	int bad;

	bad = config_parse(&r->c, &r->s, r->c.source, reading_say, news);
	if (bad == -ENOENT && !r->c.named && !config.file[0])
		bad = 0;
	if (bad < 0)
		text_add(&t, "%s: %s (%d)", r->c.source, config_why(bad), -bad);
	if (r->c.named) /* it cannot say that */
		r->s.allow_setuid = settings.allow_setuid;
	news->rules = r->c.nrules;
	if (!bad && r->c.forced &&
	    config_force(&r->c, (enum rule_use)(r->c.forced - 1))) {
		text_add(&t, "no memory for the rules");
		bad = -ENOMEM;
	}
	return !bad;
}

/* Those of the environment go before the file. */
static void settings_take(struct reading *r)
{
	struct text t = TEXT_IN(r->news->said);
	uint32_t i;

	for (i = 0; i < settings_count; i++) {
		if ((r->c.env_set >> i & 1) ||
		    settings_same(&settings, &r->s, i))
			continue;
		if (settings_live(i)) {
			settings_store(&settings, &r->s, i);
			continue;
		}
		text_add(&t, "%s%s", r->news->fixed++ ? ", " : "",
			 settings_table[i].name);
	}
	if (r->news->fixed)
		text_add(&t, ": only from the next start on");
}

static void reading_take(struct reading *r)
{
	const struct config *was = config_now();

	settings_take(r);
	if (!r->c.log_fixed)
		log_set_min(r->c.log_level ? r->c.log_level : LOG_ERR);
	__atomic_store_n(&config_current, &r->c, __ATOMIC_RELEASE);
	__atomic_add_fetch(&config_generation, 1, __ATOMIC_RELEASE);
	/* the first one stays, as the names of the program that it has do */
	if (was == &config)
		return;
	r = (struct reading *)((uintptr_t)was - offsetof(struct reading, c));
	r->retired.free = reading_over;
	r->retired.weight = 1;
	guard_retire(&r->retired);
	guard_drain();
}

void config_reload(struct config_news *news)
{
	struct text t = TEXT_IN(news->said);
	struct reading *r;

	memset(news, 0, sizeof(*news));
	news->failed = true;
	if (!config.source[0]) {
		text_add(&t, "the environment says SIMPLE_LIBSDP or "
			     "ALWAYS_USE_SDP: no rule file is read");
		return;
	}
	r = reading_new(news);
	if (!r) {
		text_add(&t, "no memory for the rules");
		return;
	}
	news->failed = !reading_file(r);
	if (news->failed)
		reading_free(r);
	else
		reading_take(r);
}
