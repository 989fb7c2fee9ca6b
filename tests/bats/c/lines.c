/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * lines PORT: 200 lines there and back in blocks of the heap, then how many
 * came back as they were. lines PORT fault: after that, writes behind a block,
 * which the address sanitizer must see.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int turn(int fd, int i)
{
	char *line = malloc(64), *back = malloc(64);
	int n = snprintf(line, 64, "line %d from C\n", i);
	int good = send(fd, line, (size_t)n, 0) == n &&
		   recv(fd, back, (size_t)n, MSG_WAITALL) == n &&
		   !memcmp(line, back, (size_t)n);

	free(line);
	free(back);
	return good;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int i, good = 0, fd = socket(AF_INET, SOCK_STREAM, 0);
	volatile char *block;

	to.sin_port = htons((unsigned short)atoi(argv[1]));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		return 3;
	for (i = 1; i <= 200; i++)
		good += turn(fd, i);
	close(fd);
	printf("%d\n", good);
	if (argc > 2) {
		block = malloc(8);
		block[8] = 1;
		free((void *)block);
	}
	return 0;
}
