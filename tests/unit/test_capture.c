/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* SDP messages as packets of a capture file: the bytes, and the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sdp_proto/wire.h"
#include "socket/core/core.h"
#include "socket/core/frame.h"

#define NS	0x1122334455667788ull
#define MSEQ	0x01020304u
#define ROCE_V4 (14 + 20 + 8)
#define ROCE_V6 (14 + 40 + 8)

static const struct conn_names v4 = {
	.ipv = 4,
	.local_port = 5000,
	.remote_port = 60000,
	.src = { [12] = 192, 0, 2, 1 },
	.dst = { [12] = 192, 0, 2, 2 },
};
static const struct conn_names v6 = {
	.ipv = 6,
	.local_port = 5000,
	.remote_port = 60000,
	.src = { 0x20, 1, 0xd, 0xb8, [15] = 1 },
	.dst = { 0x20, 1, 0xd, 0xb8, [15] = 2 },
};

static char dir[] = "/tmp/test_capture.XXXXXX";
static char path[sizeof(dir) + 8], other[sizeof(dir) + 8];

/* --- reading -------------------------------------------------------------- */

static uint32_t native32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

struct packet {
	uint8_t mem[70000];
	uint32_t have, len; /* of the packet, in the file and in all */
	const uint8_t *data;
};

/* One block, as a reader would check it. */
static void read_block(struct packet *p, const uint8_t *b, size_t len)
{
	assert_true(len % 4 == 0);
	assert_int_equal(native32(b), 6);
	assert_int_equal(native32(b + 4), len);
	assert_int_equal(native32(b + len - 4), len);
	assert_int_equal(native32(b + 8), 0);
	p->have = native32(b + 20);
	p->len = native32(b + 24);
	assert_int_equal(len, 32 + (p->have + 3) / 4 * 4);
	p->data = b + 28;
}

static void read_frame(struct packet *p, const struct frame *f)
{
	size_t at = 0;
	int i;

	for (i = 0; i < 3; i++) {
		memcpy(p->mem + at, f->part[i].iov_base, f->part[i].iov_len);
		at += f->part[i].iov_len;
	}
	assert_int_equal(at, f->len);
	read_block(p, p->mem, at);
	assert_int_equal(native32(p->mem + 12), NS >> 32);
	assert_int_equal(native32(p->mem + 16), (uint32_t)NS);
}

/* RFC 1071: over what has its checksum in it, all ones. */
static void summed(uint32_t s, const uint8_t *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		s += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	assert_int_equal(s, 0xffff);
}

/* IP and UDP hold what is in the file; the BTH. */
static const uint8_t *headers(const struct packet *p, bool six)
{
	const uint8_t *ip = p->data + 14, *udp = ip + (six ? 40 : 20);
	uint32_t s = IPPROTO_UDP, i;

	assert_int_equal(wire_get16(p->data + 12), six ? 0x86dd : 0x0800);
	assert_int_equal(wire_get16(ip + (six ? 4 : 2)),
			 p->have - 14 - (six ? 40 : 0));
	assert_int_equal(wire_get16(udp + 2), 4791);
	assert_true(wire_get16(udp) >= 0xc000);
	assert_int_equal(wire_get16(udp + 4),
			 p->have - (uint32_t)(udp - p->data));
	if (six) {
		s += wire_get16(udp + 4);
		for (i = 8; i < 40; i += 2)
			s += wire_get16(ip + i);
		summed(s, udp, wire_get16(udp + 4));
	} else {
		summed(0, ip, 20);
	}
	return udp + 8;
}

/* --- messages ------------------------------------------------------------- */

static uint32_t make(uint8_t *m, uint8_t mid, uint32_t len)
{
	struct wire_msg w = { .mid = mid, .len = len, .mseq = MSEQ };
	uint32_t i;

	wire_encode(&w, m);
	for (i = wire_hdr_len(mid); i < len; i++)
		m[i] = (uint8_t)(i + 1);
	return len;
}

static void test_head(void **state)
{
	uint8_t b[PCAPNG_HEAD];

	(void)state;
	assert_int_equal(pcapng_head(b), sizeof(b));
	assert_int_equal(native32(b), 0x0a0d0d0a);
	assert_int_equal(native32(b + 4), 28);
	assert_int_equal(native32(b + 8), 0x1a2b3c4d);
	assert_int_equal(native32(b + 24), 28);
	assert_int_equal(native32(b + 28), 1);
	assert_int_equal(native32(b + 32), 44);
	assert_int_equal(b[36], 1); /* Ethernet */
	assert_int_equal(native32(b + 56), 9 | 1 << 16);
	assert_int_equal(b[60], 9); /* nanoseconds */
	assert_int_equal(native32(b + 68), 44);
}

/* Every kind and length, whole: all of it is found again. */
static void test_messages(void **state)
{
	static struct packet p;
	struct frame f;
	uint8_t m[200];
	uint32_t len, pad;
	unsigned int mid;
	const uint8_t *bth;

	(void)state;
	for (mid = 2; mid < 256; mid++) {
		if (!wire_hdr_len(mid))
			continue;
		for (len = wire_hdr_len(mid); len < sizeof(m); len++) {
			const struct conn_names *n = len & 4 ? &v6 : &v4;

			make(m, (uint8_t)mid, len);
			frame_message(&f, NS, n, m, len, 256);
			read_frame(&p, &f);
			assert_int_equal(p.have, p.len);
			bth = headers(&p, n == &v6);
			pad = -len & 3;
			assert_int_equal(bth[0], 4);
			assert_int_equal(bth[1] >> 4 & 3, pad);
			assert_int_equal(wire_get32(bth + 8), MSEQ & 0xffffff);
			assert_memory_equal(bth + 12, m, len);
			if (mid == WIRE_DATA && len == WIRE_BSDH)
				pad = 4;
			assert_int_equal(p.have,
					 bth - p.data + 12 + len + pad + 4);
			if (!wire_has_payload(mid))
				break;
		}
	}
}

static void test_cut(void **state)
{
	static const uint32_t most[] = { 0, 1, 7, 256, 65000, 1u << 30 };
	static struct packet p;
	static uint8_t m[69632];
	struct frame f;
	uint32_t i, cut;
	const uint8_t *bth;

	(void)state;
	make(m, WIRE_DATA, sizeof(m));
	for (i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
		frame_message(&f, NS, &v6, m, sizeof(m), most[i]);
		read_frame(&p, &f);
		cut = most[i] < FRAME_MOST ? most[i] & ~3u : FRAME_MOST;
		bth = headers(&p, true);
		assert_memory_equal(bth + 12, m, 16 + cut);
		assert_int_equal(bth[1] >> 4 & 3, 0);
		assert_int_equal(p.have, ROCE_V6 + 12 + 16 + cut + 4);
		assert_int_equal(p.len, ROCE_V6 + 12 + sizeof(m) + 4);
	}
}

/* What a peer that breaks the rules sends is in the file as well. */
static void test_nonsense(void **state)
{
	static struct packet p;
	struct frame f;
	uint8_t m[300];
	uint32_t len;

	(void)state;
	memset(m, 0xa5, sizeof(m)); /* no such message */
	for (len = 0; len < sizeof(m); len++) {
		frame_message(&f, NS, &v4, m, len, 16);
		read_frame(&p, &f);
		headers(&p, false);
		assert_int_equal(p.have,
				 ROCE_V4 + 12 + 4 +
					 (len < 64 ? (len + 3) / 4 * 4 : 64));
	}
}

/* --- the set-up ----------------------------------------------------------- */

static void test_setup(void **state)
{
	static struct packet p;
	struct conn_names back = frame_flip(&v4);
	uint8_t hello[CONN_HELLO_ACK_LEN] = { 0 }, m[20];
	struct wire_hello h = { .version = WIRE_VERSION,
				.ipv = 4,
				.local_port = v4.local_port,
				.rcv_size = 777,
				.ext = { .version = WIRE_EXT_VERSION } };
	struct wire_hello_ack a = { .version = WIRE_VERSION, .ipv = 4 };
	struct frame f;
	const uint8_t *req, *priv;
	uint32_t asker, answerer;

	(void)state;
	assert_int_equal(wire_hello_encode(&h, hello), WIRE_COMPACT_LEN);
	frame_setup(&f, NS, &v4, hello);
	read_frame(&p, &f);
	assert_int_equal(p.have, ROCE_V4 + 12 + 8 + 256 + 4);
	req = headers(&p, false) + 12 + 8 + 24;
	assert_int_equal(wire_get64(req + 8), 0x10000 + v4.remote_port);
	assert_memory_equal(req + 68, v4.src + 12, 4);
	assert_memory_equal(req + 84, v4.dst + 12, 4);
	asker = wire_get32(req + 32) >> 8;
	priv = req + 140;
	assert_int_equal(wire_hello_decode(priv, 92, &h), 0);
	assert_int_equal(wire_get32(priv + 4), WIRE_HELLO_LEN);
	assert_int_equal(h.rcv_size, 777);
	assert_int_equal(h.local_port, v4.local_port);
	assert_memory_equal(h.src, v4.src, 16);
	assert_memory_equal(h.dst, v4.dst, 16);

	assert_int_equal(wire_hello_ack_encode(&a, hello), WIRE_HELLO_ACK_LEN);
	frame_setup(&f, NS, &back, hello);
	read_frame(&p, &f);
	req = headers(&p, false) + 12 + 8 + 24;
	answerer = wire_get32(req + 12) >> 8;
	assert_memory_equal(req + 36, hello, sizeof(hello));
	assert_int_not_equal(asker, answerer);

	/* each goes to the queue pair that the other end has named */
	make(m, WIRE_DATA, sizeof(m));
	frame_message(&f, NS, &v4, m, sizeof(m), 0);
	read_frame(&p, &f);
	assert_int_equal(wire_get32(headers(&p, false) + 4), answerer);
	frame_message(&f, NS, &back, m, sizeof(m), 0);
	read_frame(&p, &f);
	assert_int_equal(wire_get32(headers(&p, false) + 4), asker);
}

/* --- the file ------------------------------------------------------------- */

static void written(const char *name, const char *what)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, what, strlen(what)), strlen(what));
	close(fd);
}

static off_t size_of(const char *name)
{
	struct stat st;

	assert_int_equal(stat(name, &st), 0);
	return st.st_size;
}

static void test_open(void **state)
{
	struct stat st;
	int fd;

	(void)state;
	umask(0);
	fd = pcapng_open(path, false);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, PCAPNG_HEAD);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(write(fd, "more", 4), 4);
	close(fd);
	/* one more process, and one more capture */
	close(pcapng_open(path, false));
	assert_int_equal(size_of(path), PCAPNG_HEAD + 4);
	close(pcapng_open(path, true));
	assert_int_equal(size_of(path), PCAPNG_HEAD);

	assert_int_equal(symlink(path, other), 0);
	assert_int_equal(pcapng_open(other, true), -ELOOP);
	unlink(other);
	assert_int_equal(link(path, other), 0);
	assert_int_equal(pcapng_open(path, true), -EPERM);
	unlink(other);
	assert_int_equal(mkfifo(other, 0600), 0);
	assert_int_equal(pcapng_open(other, true), -EPERM);
	unlink(other);
	written(other, "precious");
	assert_int_equal(pcapng_open(other, true), -EEXIST);
	assert_int_equal(pcapng_open(other, false), -EEXIST);
	assert_int_equal(size_of(other), 8);
	assert_int_equal(pcapng_open(dir, true), -EISDIR);
	unlink(path);
	unlink(other);
}

static void begin(const char *file)
{
	strcpy(settings.capture_file, file);
	capture_begin();
}

/* One end sends, the other one receives, here: each message is there once. */
static void test_claims(void **state)
{
	static struct sock s;
	struct conn_names back = frame_flip(&v4);
	uint8_t hello[CONN_HELLO_ACK_LEN] = { WIRE_HELLO };
	off_t at;

	(void)state;
	begin("none");
	assert_false(capture_on);
	begin(path);
	assert_true(capture_on);
	at = size_of(path);
	capture_greet(&v4, hello);
	assert_true(size_of(path) > at);
	at = size_of(path);
	assert_true(capture_greeted(&back, hello));
	assert_int_equal(size_of(path), at);
	/* it was closed: one that has these names now is another */
	s.seek.pair.names = v4;
	capture_left(&s);
	assert_false(capture_greeted(&back, hello));
	assert_true(size_of(path) > at);
	/* what comes is recorded, unless its sender does that */
	at = size_of(path);
	s.seek.pair.records = true;
	capture_came(&s, hello, 16);
	assert_int_equal(size_of(path), at);
	s.seek.pair.records = false;
	capture_came(&s, hello, 16);
	assert_true(size_of(path) > at);
}

/* As much as fits, in whole blocks; no signal, and no more from then on. */
static void test_full(void **state)
{
	struct rlimit all, some;
	uint8_t m[100];
	off_t at;
	int i;

	(void)state;
	begin(path);
	signal(SIGXFSZ, SIG_DFL);
	at = size_of(path);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
	some = all;
	some.rlim_cur = (rlim_t)at + 1000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &some), 0);
	make(m, WIRE_DATA, sizeof(m));
	for (i = 0; capture_on && i < 100; i++)
		capture_message_on(&v4, true, m, sizeof(m));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
	assert_false(capture_on);
	assert_int_equal(i, 1000 / 192 + 1);
	assert_int_equal(size_of(path), at + 1000 / 192 * 192);
}

/* Its number was taken for something else by force: that is left alone. */
static void test_taken(void **state)
{
	uint8_t m[100];
	int fd, old;

	(void)state;
	begin(path);
	assert_true(capture_on);
	written(other, "precious");
	while ((old = fd_hidden_next(0)) >= 0) {
		fd = open(other, O_WRONLY | O_APPEND);
		assert_int_equal(dup3(fd, old, 0), old);
		close(fd);
		fd_unhide(old);
	}
	make(m, WIRE_DATA, sizeof(m));
	capture_message_on(&v4, true, m, sizeof(m));
	assert_false(capture_on);
	assert_int_equal(size_of(other), 8);
}

static int start(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(dir));
	stpcpy(stpcpy(path, dir), "/a");
	stpcpy(stpcpy(other, dir), "/b");
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlink(path);
	unlink(other);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head),   cmocka_unit_test(test_messages),
		cmocka_unit_test(test_cut),    cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_setup),  cmocka_unit_test(test_open),
		cmocka_unit_test(test_claims), cmocka_unit_test(test_full),
		cmocka_unit_test(test_taken),
	};

	return cmocka_run_group_tests(tests, start, end);
}
