/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * registered HOW: a connection with itself, of which one end is registered with
 * a ring of liburing and served by its number there.
 *   early    registered, then used by libc, then by the ring
 *   late     used by libc, then registered
 *   update   put into an empty place of a sparse table
 *   tags     registered with a tag
 *   entry    put there by a request of the ring's own
 *   enter    registered early; the ring is entered by io_uring_enter()
 *   thread   the ring's entries are taken by a thread of the kernel
 */
#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WANT(cond)                                                         \
	do {                                                               \
		if (!(cond)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #cond); \
			exit(1);                                           \
		}                                                          \
	} while (0)

static int a, b;
static const char *how;

static int is(const char *name)
{
	return !strcmp(how, name);
}

static void connect_both(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int l = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(at);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a = socket(AF_INET, SOCK_STREAM, 0);
	WANT(!bind(l, (struct sockaddr *)&at, len) && !listen(l, 1));
	WANT(!getsockname(l, (struct sockaddr *)&at, &len));
	WANT(!connect(a, (struct sockaddr *)&at, len));
	b = accept(l, NULL, NULL);
	WANT(b >= 0);
	close(l);
}

static void talk(int turns)
{
	char byte = 1;

	while (turns--) {
		WANT(write(a, &byte, 1) == 1 && read(b, &byte, 1) == 1);
		WANT(write(b, &byte, 1) == 1 && read(a, &byte, 1) == 1);
	}
}

static void submit(struct io_uring *ring)
{
	unsigned int n;
	int taken;

	if (!is("enter")) {
		/* the kernel's thread takes them, and moves on, meanwhile */
		taken = io_uring_submit(ring);
		WANT(is("thread") ? taken >= 0 : taken == 1);
		return;
	}
	/* what liburing would do: the entry's place, then the tail */
	n = ring->sq.sqe_tail - ring->sq.sqe_head;
	ring->sq.array[*ring->sq.ktail & *ring->sq.kring_mask] =
		ring->sq.sqe_head & *ring->sq.kring_mask;
	ring->sq.sqe_head += n;
	io_uring_smp_store_release(ring->sq.ktail, *ring->sq.ktail + n);
	WANT(io_uring_enter((unsigned int)ring->ring_fd, n, 0, 0, NULL) ==
	     (int)n);
}

static int done(struct io_uring *ring)
{
	struct __kernel_timespec ts = { .tv_sec = 20 };
	struct io_uring_cqe *c;
	int res;

	WANT(!io_uring_wait_cqe_timeout(ring, &c, &ts));
	res = c->res;
	io_uring_cqe_seen(ring, c);
	return res;
}

static struct io_uring_sqe *fixed(struct io_uring *ring)
{
	struct io_uring_sqe *e = io_uring_get_sqe(ring);

	WANT(e);
	return e;
}

static void serve(struct io_uring *ring)
{
	struct io_uring_sqe *e;
	char got[16];
	int i;

	for (i = 0; i < 50; i++) {
		WANT(write(a, "question", 8) == 8);
		e = fixed(ring);
		io_uring_prep_recv(e, 0, got, 8, MSG_WAITALL);
		e->flags |= IOSQE_FIXED_FILE;
		submit(ring);
		WANT(done(ring) == 8 && !memcmp(got, "question", 8));
		e = fixed(ring);
		io_uring_prep_send(e, 0, "answer", 6, 0);
		e->flags |= IOSQE_FIXED_FILE;
		submit(ring);
		WANT(done(ring) == 6);
		WANT(recv(a, got, 6, MSG_WAITALL) == 6);
		WANT(!memcmp(got, "answer", 6));
	}
}

int main(int argc, char **argv)
{
	const int none[2] = { -1, -1 };
	const __u64 tags[1] = { 7 };
	struct io_uring ring;
	int early;

	if (argc < 2)
		return 2;
	how = argv[1];
	early = is("early") || is("enter") || is("thread");
	WANT(!io_uring_queue_init(8, &ring,
				  is("thread") ? IORING_SETUP_SQPOLL : 0));
	connect_both();
	if (early)
		WANT(!io_uring_register_files(&ring, &b, 1));
	talk(200);
	if (is("late"))
		WANT(!io_uring_register_files(&ring, &b, 1));
	if (is("update") || is("entry"))
		WANT(!io_uring_register_files(&ring, none, 2));
	if (is("update"))
		WANT(io_uring_register_files_update(&ring, 0, &b, 1) == 1);
	if (is("tags"))
		WANT(!io_uring_register_files_tags(&ring, &b, tags, 1));
	if (is("entry")) {
		io_uring_prep_files_update(fixed(&ring), &b, 1, 0);
		submit(&ring);
		WANT(done(&ring) == 1);
	}
	serve(&ring);
	io_uring_queue_exit(&ring);
	talk(10);
	printf("ok %s\n", how);
	return 0;
}
