/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rendezvous with strangers, and with a liar in the middle. */

#include "pair_util.h"

/* --- strangers and liars ----------------------------------------------- */

static void test_name_taken(void **state)
{
	struct both b;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	local(&b);
	assert_int_equal(at_meeting(&b.o.p, fd, bind), 0);
	assert_int_equal(step(&b.o), PAIR_FAILED);
	assert_int_equal(b.o.p.why, WHY_NAME_TAKEN);
	close(fd);
	drop(&b);
}

/* Another user listens on the name, or answers an offer. */
static void stranger(bool listens)
{
	int go[2], status, fd;
	struct both b;
	pid_t pid;
	char c;

	local(&b);
	assert_int_equal(pipe(go), 0);
	if (!listens)
		assert_int_equal(step(&b.o), PAIR_OFFERED);
	pid = fork();
	if (!pid) {
		if (setuid(4242))
			_exit(77);
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		status = listens ?
				 at_meeting(&b.o.p, fd, bind) || listen(fd, 1) :
				 at_meeting(&b.o.p, fd, connect);
		if (write(go[1], status ? "n" : "y", 1) != 1 || status)
			_exit(1);
		close(go[1]);
		fd = listens ? accept(fd, NULL, NULL) : fd;
		_exit(read(fd, &c, 1) != 0); /* not one byte for it */
	}
	close(go[1]);
	assert_int_equal(read(go[0], &c, 1), 1);
	assert_int_equal(c, 'y');
	assert_int_equal(step(listens ? &b.q : &b.o), PAIR_FAILED);
	assert_int_equal((listens ? &b.q : &b.o)->p.why, WHY_OWNER_MISMATCH);
	close(go[0]);
	drop(&b);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_strangers(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	stranger(true);
	stranger(false);
}

/* Take the message of the real other end off the unix socket. */
static int grab(int fd, uint8_t *buf, size_t size, int *memfd)
{
	char ctl[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { buf, size };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = ctl,
			    .msg_controllen = sizeof(ctl) };
	int n = (int)recvmsg(fd, &m, 0);

	if (CMSG_FIRSTHDR(&m))
		memcpy(memfd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	return n;
}

static void pass(int fd, const uint8_t *buf, size_t len, const int *fds, int n)
{
	char ctl[CMSG_SPACE(4 * sizeof(int))] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		size_t bytes = (size_t)n * sizeof(int);

		m.msg_control = ctl;
		m.msg_controllen = CMSG_SPACE(bytes);
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), fds, bytes);
	}
	assert_int_equal(sendmsg(fd, &m, 0), (int)len);
}

/* What the liar does to PAIR: `at` gets changed, or the descriptors. */
enum trick { FLIP = 0, CUT, NO_FD, MANY_FDS, UNSEALED, SHORT, HANG_UP };

static enum reason lie_to_offer(enum trick what, size_t at)
{
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), fd, fds[4], n = 1;
	uint8_t msg[512];
	struct both b;
	enum reason why;
	int before;

	local(&b);
	before = fds_open();
	assert_int_equal(at_meeting(&b.o.p, listener, bind), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(step(&b.q), PAIR_ASKED);
	fd = accept(listener, NULL, NULL);
	assert_int_equal(grab(fd, msg, sizeof(msg), &fds[0]), ASK_LEN);
	close(fd);
	close(listener);
	assert_int_equal(step(&b.o), PAIR_OFFERED);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(at_meeting(&b.o.p, fd, connect), 0);
	if (what == FLIP)
		msg[at] ^= 0x10;
	if (what == NO_FD)
		n = 0;
	if (what == MANY_FDS)
		for (; n < 4; n++)
			fds[n] = dup(fds[0]);
	if (what == UNSEALED || what == SHORT) {
		close(fds[0]);
		fds[0] = memfd_create("x", MFD_ALLOW_SEALING);
		assert_int_equal(ftruncate(fds[0], (off_t)b.q.p.seg.len -
							   (what == SHORT)),
				 0);
		if (what == SHORT)
			assert_int_equal(fcntl(fds[0], F_ADD_SEALS,
					       F_SEAL_SHRINK | F_SEAL_GROW |
						       F_SEAL_SEAL),
					 0);
	}
	if (what != HANG_UP)
		pass(fd, msg, what == CUT ? ASK_LEN - 1 : ASK_LEN, fds, n);
	while (n)
		close(fds[--n]);
	if (what == NO_FD || what == HANG_UP)
		close(fds[0]);
	if (what == HANG_UP) {
		assert_int_equal(step(&b.o), PAIR_OFFERED);
		close(fd);
	}
	step(&b.o);
	why = b.o.p.why;
	assert_int_equal(b.o.p.state, why ? PAIR_FAILED : PAIR_DONE);
	if (what != HANG_UP)
		close(fd);
	assert_int_equal(step(&b.q), PAIR_FAILED);
	if (why)
		assert_int_equal(fds_open(), before - 1);
	drop(&b);
	return why;
}

static void test_lies_to_offer(void **state)
{
	const size_t nowhere = 500;

	(void)state;
	assert_int_equal(lie_to_offer(FLIP, nowhere), WHY_NONE);
	assert_int_equal(lie_to_offer(FLIP, AT_MAGIC), WHY_PROTOCOL);
	assert_int_equal(lie_to_offer(FLIP, AT_VERSION), WHY_PROTOCOL);
	assert_int_equal(lie_to_offer(FLIP, AT_COOKIE), WHY_OWNER_MISMATCH);
	assert_int_equal(lie_to_offer(FLIP, AT_SEEN), WHY_OWNER_MISMATCH);
	assert_int_equal(lie_to_offer(FLIP, AT_SIZE), WHY_BAD_SEGMENT);
	assert_int_equal(lie_to_offer(FLIP, AT_SIZE + 7), WHY_BAD_SEGMENT);
	assert_int_equal(lie_to_offer(FLIP, AT_HELLO), WHY_BAD_HELLO);
	assert_int_equal(lie_to_offer(FLIP, AT_HELLO + 28), WHY_BAD_HELLO);
	assert_int_equal(lie_to_offer(FLIP, AT_HELLO + 32), WHY_BAD_HELLO);
	assert_int_equal(lie_to_offer(CUT, 0), WHY_PROTOCOL);
	assert_int_equal(lie_to_offer(NO_FD, 0), WHY_PROTOCOL);
	assert_int_equal(lie_to_offer(MANY_FDS, 0), WHY_PROTOCOL);
	assert_int_equal(lie_to_offer(UNSEALED, 0), WHY_BAD_SEGMENT);
	assert_int_equal(lie_to_offer(SHORT, 0), WHY_BAD_SEGMENT);
	assert_int_equal(lie_to_offer(HANG_UP, 0), WHY_PEER_DECLINED);
}

/* A liar between the answering end and its PAIRED. */
static enum reason lie_to_answer(enum trick what, size_t at)
{
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), q, o, memfd;
	uint8_t msg[512];
	enum reason why;
	struct both b;

	local(&b);
	assert_int_equal(at_meeting(&b.o.p, listener, bind), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(step(&b.q), PAIR_ASKED);
	q = accept(listener, NULL, NULL);
	assert_int_equal(grab(q, msg, sizeof(msg), &memfd), ASK_LEN);
	close(listener);
	assert_int_equal(step(&b.o), PAIR_OFFERED);
	o = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(at_meeting(&b.o.p, o, connect), 0);
	pass(o, msg, ASK_LEN, &memfd, 1);
	close(memfd);
	assert_int_equal(step(&b.o), PAIR_DONE);
	assert_int_equal(grab(o, msg, sizeof(msg), &memfd), ANSWER_LEN);
	if (what == FLIP)
		msg[at] ^= 0x10;
	if (what != HANG_UP)
		pass(q, msg, what == CUT ? ANSWER_LEN - 1 : ANSWER_LEN, NULL,
		     0);
	close(q);
	step(&b.q);
	why = b.q.p.why;
	assert_int_equal(b.q.p.state, why ? PAIR_FAILED : PAIR_DONE);
	close(o);
	drop(&b);
	return why;
}

static void test_lies_to_answer(void **state)
{
	(void)state;
	assert_int_equal(lie_to_answer(FLIP, 500), WHY_NONE);
	assert_int_equal(lie_to_answer(FLIP, AT_MAGIC), WHY_PROTOCOL);
	assert_int_equal(lie_to_answer(FLIP, AT_COOKIE), WHY_OWNER_MISMATCH);
	assert_int_equal(lie_to_answer(FLIP, AT_SEEN), WHY_OWNER_MISMATCH);
	/* The verdict: any reason of the list, nothing beyond it. */
	assert_int_equal(lie_to_answer(FLIP, AT_SIZE), 0x10);
	assert_int_equal(lie_to_answer(FLIP, AT_SIZE + 7), WHY_PROTOCOL);
	assert_int_equal(lie_to_answer(FLIP, AT_HELLO), WHY_BAD_HELLO);
	assert_int_equal(lie_to_answer(CUT, 0), WHY_PROTOCOL);
	assert_int_equal(lie_to_answer(HANG_UP, 0), WHY_PEER_DECLINED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_name_taken),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_lies_to_offer),
		cmocka_unit_test(test_lies_to_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
