/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A line there and back over TCP, files and a child: says that it works. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int l = socket(AF_INET, SOCK_STREAM, 0), c, s, i, status;
	struct pollfd p = { .events = POLLIN };
	socklen_t len = sizeof(at);
	char got[8] = "";

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(l, (struct sockaddr *)&at, len) || listen(l, 1) ||
	    getsockname(l, (struct sockaddr *)&at, &len))
		return 1;
	c = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(c, (struct sockaddr *)&at, len))
		return 2;
	s = accept(l, NULL, NULL);
	for (i = 0; i < 100; i++) {
		p.fd = s;
		if (write(c, "hello", 5) != 5 || poll(&p, 1, 5000) != 1 ||
		    read(s, got, 5) != 5 || strcmp(got, "hello"))
			return 3;
	}
	if (fcntl(s, F_SETFD, FD_CLOEXEC) || close(open("/dev/null", O_RDONLY)))
		return 4;
	if (!fork())
		_exit(7);
	if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
		return 5;
	return puts("works") < 0;
}
