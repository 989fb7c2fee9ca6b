/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stream - one end writes messages, the other reads what there is; the reader
 * measures. It offers room for 64 KiB, or one message if that is larger.
 * Options: -s size, -t milliseconds, -j pairs, -a/-b processors, -u unix,
 * -q: the reader asks for each message, and waits for all of it.
 */
#include "probe.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define WARM_SECS 0.06

/* As read(). */
static ssize_t next_bytes(int fd, char *buf, size_t room)
{
	if (!opt.ask)
		return read(fd, buf, room);
	if (send(fd, "", 1, MSG_NOSIGNAL) != 1)
		return 0; /* the writer has ended */
	return recv(fd, buf, opt.size, MSG_WAITALL);
}

/*
 * The reader: its clock starts with the first byte, the window when the
 * warm-up is over, and the writer goes on until the window has been filled:
 * however late an end gets its processor, the window is as long as it should
 * be, and what had piled up before it is not in it.
 */
static void server(struct pair *p)
{
	const size_t room = opt.size > 65536 ? opt.size : 65536;
	const int fd = probe_stream(p);
	char *buf = probe_buffer(room);
	struct result *r = p->result;
	double from = 0, now;
	uint64_t all = 0, skipped = 0;
	int warm = 0;
	ssize_t n;

	probe_meet();
	while ((n = next_bytes(fd, buf, room)) > 0) {
		all += (uint64_t)n;
		if (r->done)
			continue;
		now = probe_now();
		if (from <= 0)
			from = now;
		if (!warm && now - from >= WARM_SECS) {
			warm = 1;
			from = now;
			skipped = all;
		} else if (warm && now - from >= opt.secs) {
			r->secs = now - from;
			r->bytes = all - skipped;
			probe_done(p);
		}
	}
	if (n < 0)
		probe_die("read");
	r->all = all / opt.size;
	close(fd);
}

static void client(struct pair *p)
{
	const int batch = opt.size > 4096 || opt.ask ? 1 : 32;
	const int fd = probe_stream(p);
	const char *buf = probe_buffer(opt.size);
	char byte;
	int i;

	probe_meet();
	for (;;) {
		if (opt.ask)
			probe_get(fd, &byte, 1);
		if (probe_peer_done(p))
			break;
		for (i = 0; i < batch; i++)
			probe_put(fd, buf, opt.size);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	struct result(*r)[2];
	double rate = 0, cpu = 0, gb;
	uint64_t all = 0, switches = 0;
	int i;

	probe_options(argc, argv);
	r = probe_run(server, client);
	for (i = 0; i < opt.pairs; i++) {
		if (r[i][SERVER].secs <= 0) {
			fprintf(stderr, "stream: nothing measured\n");
			return 1;
		}
		rate += (double)r[i][SERVER].bytes / r[i][SERVER].secs;
		all += r[i][SERVER].all;
		switches += r[i][CLIENT].switches + r[i][SERVER].switches;
		cpu += r[i][CLIENT].used + r[i][SERVER].used;
	}
	gb = (double)all * (double)opt.size / 1e9;
	printf("{\"bytes_rate\": %.0f, \"rate\": %.1f, \"bytes\": %.0f, "
	       "\"messages\": %.0f, \"switches\": %.0f, \"cpu_gb\": %.5f}\n",
	       rate, rate / (double)opt.size, (double)all * (double)opt.size,
	       (double)all, (double)switches, gb > 0 ? cpu / gb : 0);
	return 0;
}
