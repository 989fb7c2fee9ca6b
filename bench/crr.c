/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * crr - connect, one request, one reply, close; over and over. Each run has a
 * loopback address of its own, so that ports of earlier runs that are waiting
 * for their time to pass do not matter.
 * Options: -s size, -t milliseconds, -a/-b processors.
 */
#include "probe.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define WARM_SECS 0.03

static void server(struct pair *p)
{
	char *buf = probe_buffer(opt.size);
	int fd, more;

	probe_meet();
	do {
		fd = accept(p->listener, NULL, NULL);
		if (fd < 0)
			probe_die("accept");
		more = probe_get(fd, buf, opt.size);
		if (more) {
			probe_put(fd, buf, opt.size);
			probe_get(fd, buf, 1); /* its end */
		}
		close(fd);
	} while (more);
}

static int dial(int port)
{
	const uint32_t own = ((uint32_t)getppid() & 0xffff) << 4;
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK + own),
	};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&sin, sizeof(sin)))
		probe_die("connect");
	return fd;
}

static uint64_t turns_for(int port, char *buf, double secs, double *took)
{
	const double start = probe_now();
	uint64_t n = 0;

	do {
		int fd = dial(port);

		probe_put(fd, buf, opt.size);
		if (!probe_get(fd, buf, opt.size))
			probe_die("reply");
		close(fd);
		n++;
		*took = probe_now() - start;
	} while (*took < secs);
	return n;
}

static void client(struct pair *p)
{
	char *buf = probe_buffer(opt.size);
	struct result *r = p->result;
	double took;

	probe_meet();
	r->all = turns_for(p->port, buf, WARM_SECS, &took);
	r->messages = turns_for(p->port, buf, opt.secs, &r->secs);
	r->all += r->messages;
	close(dial(p->port)); /* without a request: the server ends */
}

int main(int argc, char **argv)
{
	struct result(*r)[2];

	probe_options(argc, argv);
	if (opt.pairs != 1 || opt.local) {
		fprintf(stderr, "crr: no -j, no -u\n");
		return 2;
	}
	r = probe_run(server, client);
	printf("{\"rate\": %.1f, \"connections\": %.0f, \"bytes\": %.0f}\n",
	       (double)r[0][CLIENT].messages / r[0][CLIENT].secs,
	       (double)r[0][CLIENT].all,
	       2.0 * (double)r[0][CLIENT].all * (double)opt.size);
	return 0;
}
