/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <argp.h>
#include <err.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "base/text.h"
#include "tools/counters.h"
#include "tools/ended.h"
#include "tools/filter.h"
#include "tools/fallback.h"
#include "tools/histogram.h"
#include "tools/json.h"
#include "tools/names.h"
#include "tools/out.h"
#include "tools/prometheus.h"
#include "tools/scan.h"
#include "tools/story.h"
#include "tools/watch.h"

/* Read by argp, inside libc. */
__attribute__((visibility("default")))
const char *argp_program_version = "sdpstat (libsdp) " PACKAGE_VERSION;

struct options {
	bool json, summary, histogram, fallback, prometheus, stats, watch, log,
		why;
	bool all, extended, bare; /* -a, -e, -H */
	bool ipv4, ipv6;
	struct filter filter;
	int64_t fd; /* of --fallback; -1: all */
	double seconds; /* of -w */
	int open; /* the option that may take the next word, or 0 */
	bool state; /* the next word is one */
};

/* --- one line for each socket ----------------------------------------- */

static void socket_line(struct table *t, const struct found *f,
			const struct page_row *r, bool devices,
			const struct options *o)
{
	char buf[64];

	if (!filter_fits(&o->filter, f, r))
		return;
	table_cell(t, "%d", f->pid);
	table_cell(t, "%s", f->page->program);
	table_cell(t, "%d", r->fd);
	table_cell(t, "%s", state_name(r->state));
	table_cell(t, "%s", addr_text(&r->local, buf, sizeof(buf)));
	table_cell(t, "%s", addr_text(&r->peer, buf, sizeof(buf)));
	if (r->path[0] == r->path[1])
		table_cell(t, "%s", path_name(r->path[0]));
	else
		table_cell(t, "%s/%s", path_name(r->path[0]),
			   path_name(r->path[1]));
	if (r->rule_line)
		table_cell(t, "%s:%u", rule_name(r->rule), r->rule_line);
	else
		table_cell(t, "%s", rule_name(r->rule));
	table_cell(t, "%s", reason_name((enum reason)r->why));
	table_count(t, r->bytes_sdp_tx);
	table_count(t, r->bytes_sdp_rx);
	table_count(t, r->bytes_tcp_tx);
	table_count(t, r->bytes_tcp_rx);
	table_count(t, r->msgs_tx);
	table_count(t, r->msgs_rx);
	table_count(t, r->wakeups);
	if (devices) {
		table_cell(t, "%s", r->device[0] ? r->device : "-");
		table_count(t, r->registered);
	}
	if (o->extended)
		table_cell(t, "uid:%u ino:%" PRIu64, f->page->uid, r->inode);
}

static bool any_device(const struct found *found, size_t count)
{
	size_t i, n;

	for (i = 0; i < count; i++)
		for (n = 0; n < found[i].page->rows; n++)
			if (row_used(&found[i].page->row[n]) &&
			    found[i].page->row[n].device[0])
				return true;
	return false;
}

static void print_sockets(const struct found *found, size_t count,
			  const struct options *o)
{
	bool devices = any_device(found, count);
	char columns[256];
	struct table *t;
	size_t i, n;

	snprintf(columns, sizeof(columns), "%s%s%s",
		 "Pid>|Program|Fd>|State|Local|Peer|Path|Rule|Reason|SdpTx>|"
		 "SdpRx>|TcpTx>|TcpRx>|MsgTx>|MsgRx>|Wake>",
		 devices ? "|Device|Registered>" : "",
		 o->extended ? "|Extended" : "");
	t = table_new(columns);
	for (i = 0; i < count; i++) {
		for (n = 0; n < found[i].page->rows; n++)
			socket_line(t, &found[i], &found[i].page->row[n],
				    devices, o);
		for (n = 0; n < found[i].strays; n++)
			socket_line(t, &found[i], &found[i].stray[n], devices,
				    o);
	}
	table_body(t, stdout, !o->bare);
}

/* --- one line for each process ---------------------------------------- */

/* "rule:3 peer-declined:1" */
static const char *reasons_text(const struct page_counters *c, char *buf,
				size_t size)
{
	struct text t = { .buf = buf, .size = size };
	int i;

	buf[0] = '\0';
	for (i = 0; i < WHY_COUNT; i++)
		if (c->reasons[i])
			text_add(&t, "%s%s:%lu", t.len ? " " : "",
				 reason_name((enum reason)i), c->reasons[i]);
	return buf;
}

static void print_summary(const struct found *found, size_t count,
			  const struct options *o)
{
	struct table *t = table_new("Pid>|Program|Open>|Sockets>|Lifted>|"
				    "Fallbacks>|Stalls>|SdpTx>|SdpRx>|TcpTx>|"
				    "TcpRx>|MsgTx>|MsgRx>|WakeTx>|WakeRx>|"
				    "Zcopy>|Reasons");
	struct page_counters c;
	char buf[1024];
	size_t i;

	for (i = 0; i < count; i++) {
		const struct page *p = found[i].page;

		if (!filter_any(&o->filter, &found[i]))
			continue;
		scan_totals(p, &c);
		table_cell(t, "%d", found[i].pid);
		table_cell(t, "%s", p->program);
		table_cell(t, "%zu", scan_open(&found[i]));
		table_count(t, c.sockets);
		table_count(t, c.lifted);
		table_count(t, c.fallbacks);
		table_count(t, c.stalls);
		table_count(t, c.bytes_sdp_tx);
		table_count(t, c.bytes_sdp_rx);
		table_count(t, c.bytes_tcp_tx);
		table_count(t, c.bytes_tcp_rx);
		table_count(t, c.msgs_tx);
		table_count(t, c.msgs_rx);
		table_count(t, c.wakeups_tx);
		table_count(t, c.wakeups_rx);
		table_count(t, c.zcopy_tx + c.zcopy_rx);
		table_cell(t, "%s", reasons_text(&c, buf, sizeof(buf)));
	}
	table_body(t, stdout, !o->bare);
}

static void print_histograms(const struct found *found, size_t count,
			     const struct options *o)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (filter_any(&o->filter, &found[i]))
			histogram_print(&found[i]);
}

/* --- command line ----------------------------------------------------- */

enum {
	KEY_JSON = 256,
	KEY_SUMMARY,
	KEY_FALLBACK,
	KEY_PROMETHEUS,
	KEY_STATS,
	KEY_LOG,
	KEY_WHY,
};

/* PID, or PID/FD where `fd` is given. */
static bool process(const char *arg, pid_t *pid, int64_t *fd)
{
	uint64_t v = 0, w = 0;
	size_t n = text_number(arg, 1u << 30, &v);

	*pid = (pid_t)v;
	if (!v || !arg[n] || !fd || arg[n] != '/')
		return v && !arg[n];
	arg += n + 1;
	n = text_number(arg, INT32_MAX, &w);
	*fd = (int64_t)w;
	return n && !arg[n];
}

static bool seconds(const char *arg, double *to)
{
	char *end;

	*to = strtod(arg, &end);
	return end != arg && !*end && *to >= 0.1 && *to <= 86400;
}

/*
 * `-p` and `-w` may stand alone: as in ss(8), and for a second. A number behind
 * them is theirs; any other word is part of the filter.
 */
static void word(struct options *o, char *arg, struct argp_state *state)
{
	bool digit = *arg >= '0' && *arg <= '9';
	const char *why;

	if (o->state) {
		o->state = false;
		if (o->filter.state >= 0)
			argp_error(state, "state %s: one state only", arg);
		o->filter.state = strcmp(arg, "all") ? state_find(arg) : -1;
		if (o->filter.state < 0 && strcmp(arg, "all"))
			argp_error(state, "%s: no such state", arg);
		return;
	}
	if (digit && o->open == 'p') {
		if (!process(arg, &o->filter.pid, NULL))
			argp_error(state, "%s: expected a process id", arg);
	} else if (digit && o->open == 'w') {
		if (!seconds(arg, &o->seconds))
			argp_error(state, "%s: expected seconds from 0.1", arg);
	} else if (!strcmp(arg, "state")) {
		o->state = true;
	} else {
		why = filter_add(&o->filter, arg);
		if (why)
			argp_error(state, "%s: %s", arg, why);
	}
	o->open = 0;
}

static error_t option(int key, char *arg, struct argp_state *state);

/* "-tnlpH": what stands behind the `p` are options as well. */
static void cluster(const char *letters, struct argp_state *state)
{
	for (; *letters; letters++)
		if (*letters == 'p' || option(*letters, NULL, state))
			argp_error(state, "-p%s: expected a process id",
				   letters);
}

/* Those that take a value or may. */
static bool valued(struct options *o, int key, char *arg,
		   struct argp_state *state)
{
	switch (key) {
	case 'p':
		if (arg && strchr("alnteogHO", *arg))
			cluster(arg, state);
		else if (arg && !process(arg, &o->filter.pid, NULL))
			argp_error(state, "%s: expected a process id", arg);
		o->open = arg ? 0 : 'p';
		return true;
	case 'w':
		o->watch = true;
		if (arg && !seconds(arg, &o->seconds))
			argp_error(state, "%s: expected seconds from 0.1", arg);
		o->open = arg ? 0 : 'w';
		return true;
	case KEY_FALLBACK:
		if (!process(arg, &o->filter.pid, &o->fd))
			argp_error(state, "%s: expected PID or PID/FD", arg);
		o->fallback = true;
		return true;
	case KEY_LOG:
		if (!process(arg, &o->filter.pid, NULL))
			argp_error(state, "%s: expected a process id", arg);
		o->log = true;
		return true;
	case KEY_WHY:
		if (!process(arg, &o->filter.pid, &o->fd) || o->fd < 0)
			argp_error(state, "%s: expected PID/FD", arg);
		o->why = true;
		return true;
	default:
		return false;
	}
}

static void whole(struct options *o, struct argp_state *state)
{
	if (o->ipv4 != o->ipv6)
		o->filter.family = o->ipv4 ? AF_INET : AF_INET6;
	if (o->state)
		argp_error(state, "expected a state behind `state`");
	if (o->prometheus && o->filter.pid)
		argp_error(state, "metrics are of all processes");
	if (o->watch && (o->json || o->summary || o->histogram || o->stats ||
			 o->fallback || o->why || o->log || o->prometheus))
		argp_error(state, "-w shows sockets, and nothing else");
	if (o->json && (o->why || o->prometheus))
		argp_error(state, "--why and --prometheus know no JSON");
	if ((o->stats || o->prometheus || o->why || o->log) &&
	    (o->filter.program || filter_rows(&o->filter)))
		argp_error(state, "a filter picks sockets, and these are not "
				  "shown here");
}

static error_t option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	if (valued(o, key, arg, state))
		return 0;
	switch (key) {
	case KEY_JSON:
		o->json = true;
		return 0;
	case 'a':
		o->all = true;
		return 0;
	case 't':
	case 'n':
	case 'o': /* the kernel's timers: ss(8) has them */
	case 'O': /* as it is anyway */
		return 0;
	case 'l':
		o->filter.listening = true;
		return 0;
	case 'e':
		o->extended = true;
		return 0;
	case 'H':
		o->bare = true;
		return 0;
	case '4':
		o->ipv4 = true;
		return 0;
	case '6':
		o->ipv6 = true;
		return 0;
	case KEY_PROMETHEUS:
		o->prometheus = true;
		return 0;
	case KEY_SUMMARY:
		o->summary = true;
		return 0;
	case 'g':
		o->histogram = true;
		return 0;
	case KEY_STATS:
		o->stats = true;
		return 0;
	case ARGP_KEY_ARG:
		word(o, arg, state);
		return 0;
	case ARGP_KEY_END:
		whole(o, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option option_list[] = {
	{ "pid", 'p', "PID", OPTION_ARG_OPTIONAL,
	  "this process only; alone: processes are shown (as ever)", 0 },
	{ "all", 'a', NULL, 0, "all sockets (as ever); counters that are 0",
	  0 },
	{ "listening", 'l', NULL, 0, "listening sockets only", 0 },
	{ "tcp", 't', NULL, 0, "TCP sockets (all are)", 0 },
	{ "numeric", 'n', NULL, 0, "no names of services (as ever)", 0 },
	{ "options", 'o', NULL, 0, "nothing: ss -o shows the kernel's timers",
	  0 },
	{ "extended", 'e', NULL, 0, "user and inode, too", 0 },
	{ "ipv4", '4', NULL, 0, "IPv4 sockets only", 0 },
	{ "ipv6", '6', NULL, 0, "IPv6 sockets only", 0 },
	{ "no-header", 'H', NULL, 0, "no line of headings", 0 },
	{ "oneline", 'O', NULL, 0, "a socket a line (as ever)", 0 },
	{ "watch", 'w', "SECONDS", OPTION_ARG_OPTIONAL,
	  "rates, shown anew each SECONDS (1)", 0 },
	{ "summary", KEY_SUMMARY, NULL, 0, "one line for each process", 0 },
	{ "histogram", 'g', NULL, 0,
	  "sizes of messages and times of waiting, of each process", 0 },
	{ "stats", KEY_STATS, NULL, 0, "counters, one a line", 0 },
	{ "why", KEY_WHY, "PID/FD", 0,
	  "where that socket is and how it came there, in sentences", 0 },
	{ "log", KEY_LOG, "PID", 0,
	  "what happened to the connections of a process", 0 },
	{ "json", KEY_JSON, NULL, 0, "print JSON", 0 },
	{ "prometheus", KEY_PROMETHEUS, NULL, 0,
	  "print metrics, those of ended processes included", 0 },
	{ "fallback", KEY_FALLBACK, "PID[/FD]", 0,
	  "bring that process's sockets, or that one, back to TCP", 0 },
	{ "home", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static const struct argp argp = {
	.options = option_list,
	.parser = option,
	.args_doc = "[state STATE] [KEY=VALUE...]",
	.doc = "Show the sockets of programs that run with libsdp: which path "
	       "they are on, which rule chose it, and why not SDP."
	       "\vKEY is program, pid, port, sport, dport, address, src, dst, "
	       "path, reason or state; all have to fit.",
};

static int print_metrics(void)
{
	struct page_counters ended;
	struct found *found;
	size_t count;

	found = ended_scan(&count, &ended);
	prometheus_print(found, count, &ended);
	scan_free(found, count);
	return 0;
}

static int print_found(const struct options *o)
{
	pid_t pid = o->filter.pid;
	struct found *found;
	size_t count;
	int ret = 0;

	found = scan_pages(pid, &count);
	if (o->fallback && !count)
		errx(1, "process %d shows nothing", pid);
	if (o->fallback)
		ret = fallback_tell(&found[0], o->fd);
	else if (o->json)
		json_print(found, count, &o->filter,
			   !o->summary && !o->histogram);
	else if (o->histogram)
		print_histograms(found, count, o);
	else if (o->summary)
		print_summary(found, count, o);
	else
		print_sockets(found, count, o);
	scan_free(found, count);
	return pid && !count ? 1 : ret;
}

int main(int argc, char **argv)
{
	struct options o = { .fd = -1, .seconds = 1 };
	int ret;

	filter_init(&o.filter);
	/* in order: a number belongs to the option in front of it */
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
	if (o.watch)
		watch(&o.filter, o.seconds);
	if (o.prometheus)
		ret = print_metrics();
	else if (o.log)
		ret = story_log(o.filter.pid, o.json);
	else if (o.why)
		ret = story_why(o.filter.pid, o.fd);
	else if (o.stats)
		ret = counters_print(o.filter.pid, o.json, o.all);
	else
		ret = print_found(&o);
	if (fflush(stdout) || ferror(stdout))
		err(2, "standard output");
	return ret;
}
