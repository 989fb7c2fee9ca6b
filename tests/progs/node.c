/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * node - the peer is on the other machine of tests/vm (-p node)
 *
 * ctl is a TCP connection of the network that vm-on uses, which no test
 * disturbs; the connections under test are made between the addresses of the
 * other network.
 */
#include "prog.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CALLS_MAX = 32 }; /* words of a command */

static const char *node_env(const char *name, const char *node)
{
	const char *value;
	char full[64];

	CHECK(node);
	snprintf(full, sizeof(full), "%s%s", name, node);
	value = getenv(full);
	CHECK(value);
	return value;
}

void node_address(struct sockaddr_storage *ss, bool v6)
{
	const char *node = getenv("VM_NODE");

	memset(ss, 0, sizeof(*ss));
	if (v6) {
		struct sockaddr_in6 *a6 = (struct sockaddr_in6 *)ss;

		a6->sin6_family = AF_INET6;
		CHECK(inet_pton(AF_INET6, node_env("VM_ADDR6_", node),
				&a6->sin6_addr) == 1);
	} else {
		struct sockaddr_in *a4 = (struct sockaddr_in *)ss;

		a4->sin_family = AF_INET;
		CHECK(inet_pton(AF_INET, node_env("VM_ADDR4_", node),
				&a4->sin_addr) == 1);
	}
}

int node_listen(char *where, size_t size)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	const char *address = node_env("VM_PLAIN4_", getenv("VM_NODE"));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK(inet_pton(AF_INET, address, &sin.sin_addr) == 1);
	CHECK(!bind(fd, (struct sockaddr *)&sin, sizeof(sin)));
	CHECK(!listen(fd, 1));
	CHECK(!getsockname(fd, (struct sockaddr *)&sin, &len));
	snprintf(where, size, "-P%s:%d", address, ntohs(sin.sin_port));
	return fd;
}

static int ordered(int fd)
{
	int one = 1;

	CHECK(fd >= 0);
	CHECK(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	return fd;
}

int node_accept(int lfd)
{
	int fd;

	do
		fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
	while (fd < 0 && errno == EINTR);
	CHECK(!close(lfd));
	return ordered(fd);
}

int node_call(const char *where)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char address[64];
	int port;

	CHECK(fd >= 0);
	CHECK(sscanf(where, "%63[0-9.]:%d", address, &port) == 2);
	CHECK(inet_pton(AF_INET, address, &sin.sin_addr) == 1);
	sin.sin_port = htons((uint16_t)port);
	CHECK(!connect(fd, (struct sockaddr *)&sin, sizeof(sin)));
	return ordered(fd);
}

void node_exec(char **argv)
{
	const char *preload = getenv("LD_PRELOAD");
	char *words[CALLS_MAX];
	char with[4200];
	int n = 0;

	words[n++] = (char *)(uintptr_t) "vm-on";
	words[n++] = (char *)(uintptr_t) "2";
	words[n++] = (char *)(uintptr_t) "env";
	if (preload) {
		snprintf(with, sizeof(with), "LD_PRELOAD=%s", preload);
		words[n++] = with;
		CHECK(!unsetenv("LD_PRELOAD"));
	}
	while (*argv && n < CALLS_MAX - 1)
		words[n++] = *argv++;
	words[n] = NULL;
	execvp(words[0], words);
	prog_fail(__FILE__, __LINE__, "execvp vm-on");
}
