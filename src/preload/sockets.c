/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Creation, naming and options: from socket() to shutdown(). */
#include "preload/fd/real.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/mem.h"
#include "base/page.h"
#include "base/sys.h"
#include "base/table.h"
#include "config/config.h"
#include "preload/preload.h"
#include "preload/ready.h"

#define FAMILY_SDP  27 /* AF_INET_SDP */
#define FAMILY_SDP6 28 /* AF_INET6_SDP */
#define TYPE_FLAGS  (SOCK_NONBLOCK | SOCK_CLOEXEC)

/* Before a rule is asked for. Neither in the child of a vfork(). */
static inline void look_at_rules(void)
{
	if (page_asked() && !preload_off && fdt_is_owner())
		sock_reload();
}

static int native_family(int family, int type, int proto)
{
	if ((type & ~TYPE_FLAGS) != SOCK_STREAM)
		return -ESOCKTNOSUPPORT;
	if (proto && proto != IPPROTO_TCP)
		return -EPROTONOSUPPORT;
	return family == FAMILY_SDP ? AF_INET : AF_INET6;
}

static void manage(int fd, struct sock *s)
{
	if (!s)
		return;
	sigaction_begin();
	fatal_begin();
	sigaction_faults();
	if (fdt_put_sock(fd, s))
		sock_forget(s, fd);
}

int do_socket(int family, int type, int proto)
{
	bool native = family == FAMILY_SDP || family == FAMILY_SDP6;
	int fd;

	if (unlikely(preload_off))
		return real_socket(family, type, proto);
	look_at_rules();
	if (unlikely(native)) {
		family = native_family(family, type, proto);
		if (family < 0)
			return (int)ret_errno(family);
	}
	do
		fd = real_socket(family, type, proto);
	while (unlikely(sock_retry(fd)));
	if (fd < 0)
		return fd;
	fdt_forget(fd);
	if ((family != AF_INET && family != AF_INET6) ||
	    (type & ~TYPE_FLAGS) != SOCK_STREAM ||
	    (proto && proto != IPPROTO_TCP))
		return fd;
	manage(fd, sock_new(fd, family, type, native));
	return fd;
}

/*
 * What a native socket may be called by its program, as its anchor has to
 * hear it: families 27 and 28 are INET and INET6, and a family-27 socket takes
 * the v6 wildcard and mapped addresses too. Returns sa itself when there is
 * nothing to change, or `to`.
 */
static const struct sockaddr *native_name(int fd, const struct sockaddr *sa,
					  socklen_t *len,
					  struct sockaddr_storage *to)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in;
	int domain = AF_INET;
	socklen_t size = sizeof(domain);

	if (!sa || *len < sizeof(in) || *len > sizeof(*to))
		return sa;
	memcpy(to, sa, *len);
	if (to->ss_family == FAMILY_SDP)
		to->ss_family = AF_INET;
	else if (to->ss_family == FAMILY_SDP6)
		to->ss_family = AF_INET6;
	sys_getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
	if (to->ss_family != AF_INET6 || domain != AF_INET ||
	    *len < sizeof(in6))
		return (const struct sockaddr *)to;
	memcpy(&in6, to, sizeof(in6));
	if (!IN6_IS_ADDR_UNSPECIFIED(&in6.sin6_addr) &&
	    !IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr))
		return (const struct sockaddr *)to;
	memset(&in, 0, sizeof(in));
	in.sin_family = AF_INET;
	in.sin_port = in6.sin6_port;
	memcpy(&in.sin_addr, &in6.sin6_addr.s6_addr[12], 4);
	memcpy(to, &in, sizeof(in));
	*len = sizeof(in);
	return (const struct sockaddr *)to;
}

int do_bind(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct sockaddr_storage name;
	ENTER_CHECKED(e, fd);

	if (unlikely(e.sock && sock_native(e.sock)))
		sa = native_name(fd, sa, &len, &name);
	return real_bind(fd, sa, len);
}

/* The number is the kernel's alone from now on. */
static void let_go(int fd, struct sock *s)
{
	ep_forget(fd, s);
	if (fdt_take_sock(fd) == s)
		sock_forget(s, fd);
}

/*
 * Listeners that the table does not know: no rule concerns them, or they came
 * over exec or from another process. Those are looked at in their first
 * accept; a bit says that there is nothing to find at this number. It stays
 * for the next that has the number, so one of these may be missed: on TCP. When
 * the rules were read again all is to be found anew.
 */
#define NUMBERS 65536
static TABLE uint64_t dull[NUMBERS / 64];
static uint32_t dull_by; /* atomic: under these rules, config_generation */

static uint32_t rules(void)
{
	return __atomic_load_n(&config_generation, __ATOMIC_ACQUIRE);
}

/* What is not set is not written: a child shares these pages. */
static __attribute__((noinline)) void dull_renew(uint32_t now)
{
	uint32_t i;

	if (__atomic_exchange_n(&dull_by, now, __ATOMIC_SEQ_CST) == now)
		return;
	for (i = 0; i < NUMBERS / 64; i++)
		if (__atomic_load_n(&dull[i], __ATOMIC_RELAXED))
			__atomic_store_n(&dull[i], 0, __ATOMIC_RELAXED);
}

/* It looks once for itself, and gets its page with that. */
void sockets_forked(void)
{
	dull_by = rules() - 1;
}

static bool listener_dull(int fd)
{
	uint32_t now = rules();

	if (unlikely(__atomic_load_n(&dull_by, __ATOMIC_RELAXED) != now))
		dull_renew(now);
	return (unsigned int)fd >= NUMBERS ||
	       __atomic_load_n(&dull[fd / 64], __ATOMIC_RELAXED) >> fd % 64 & 1;
}

/* By the rules as they were at `by`: not, if they are others now. */
static void listener_is_dull(int fd, uint32_t by)
{
	if ((unsigned int)fd >= NUMBERS)
		return;
	__atomic_fetch_or(&dull[fd / 64], 1ull << fd % 64, __ATOMIC_SEQ_CST);
	if (unlikely(rules() != by))
		__atomic_fetch_and(&dull[fd / 64], ~(1ull << fd % 64),
				   __ATOMIC_SEQ_CST);
}

static void before_listen(int fd)
{
	uint32_t by = rules();
	ENTER_CHECKED(e, fd);

	if (!e.sock || !fdt_is_owner())
		return;
	if (!sock_before_listen(e.sock, fd)) {
		let_go(fd, e.sock);
		listener_is_dull(fd, by);
	}
}

int do_listen(int fd, int backlog)
{
	look_at_rules();
	before_listen(fd);
	if (!preload_off && !fdt_any && fdt_is_owner())
		sock_listens(fd);
	return real_listen(fd, backlog);
}

/* An accept() under way: what its listener leaves to the connection. */
struct accepting {
	int listener;
	bool known; /* `legacy` holds */
	struct sock_legacy legacy;
};

static void look_at_listener(struct accepting *a)
{
	ENTER(l, a->listener);

	if (l.sock && sock_legacy(l.sock, &a->legacy))
		a->known = true;
}

static struct sock *accepted_sock(struct accepting *a, int fd, int flags)
{
	uint32_t by = rules();
	struct sock *s;

	look_at_listener(a);
	if (a->known)
		return sock_accepted(&a->legacy, fd, flags);
	if (listener_dull(a->listener) || fdt_has_sock(a->listener))
		return NULL;
	s = sock_inherited(a->listener, fd, flags);
	if (!s)
		listener_is_dull(a->listener, by);
	return s;
}

static void accepted(struct accepting *a, int fd, int flags)
{
	look_at_rules();
	if (!fdt_any && listener_dull(a->listener))
		return;
	fdt_forget(fd);
	if (preload_off || (fdt_ever && !fdt_is_owner()))
		return;
	manage(fd, accepted_sock(a, fd, flags));
}

int do_accept(int fd, struct sockaddr *sa, socklen_t *len)
{
	struct accepting a = { .listener = fd };
	int ret;

	look_at_listener(&a);
	do
		ret = real_accept(fd, sa, len);
	while (unlikely(sock_retry(ret)));
	if (ret >= 0)
		accepted(&a, ret, 0);
	return ret;
}

int do_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	struct accepting a = { .listener = fd };
	int ret;

	look_at_listener(&a);
	do
		ret = real_accept4(fd, sa, len, flags);
	while (unlikely(sock_retry(ret)));
	if (ret >= 0)
		accepted(&a, ret, flags);
	return ret;
}

/* The kernel's, which may sleep, while the sock stays what it is. */
static int connect_real(struct sock *s, int fd, const struct sockaddr *sa,
			socklen_t len)
{
	SOCK_STAYS(stays, s);
	ASLEEP(out);

	return neg_errno(real_connect(fd, sa, len));
}

/*
 * connect() to AF_UNSPEC dissolves the association and the descriptor may be
 * connected again. That is rare: the socket stays the kernel's from then on.
 */
static int dissolve(struct sock *s, int fd, const struct sockaddr *sa,
		    socklen_t len)
{
	int ret = sock_fallback(s, fd, WHY_BYPASSED);

	sock_bridge_off(s);
	if (ret)
		return (int)ret_errno(ret);
	ret = connect_real(s, fd, sa, len);
	if (!ret)
		sock_dissolved(s);
	return (int)ret_errno(ret);
}

/* Under a rule `native`; a wait is the kernel's. */
static int bridge(struct sock *s, int fd, const struct sockaddr *sa,
		  socklen_t len)
{
	struct sockaddr_storage to;
	socklen_t to_len;
	int how = sock_bridge(s, fd, sa, len, &to, &to_len), ret;

	if (how <= 0)
		return (int)ret_errno(how);
	ret = connect_real(s, fd, (const struct sockaddr *)&to, to_len);
	ret = sock_bridged(s, fd, ret, how == 2);
	return (int)ret_errno(ret);
}

static int connect_sock(struct sock *s, int fd, const struct sockaddr *sa,
			socklen_t len)
{
	struct sockaddr_storage name;
	int ret;

	if (unlikely(sock_native(s)))
		sa = native_name(fd, sa, &len, &name);
	if (unlikely(sa->sa_family == AF_UNSPEC))
		return dissolve(s, fd, sa, len);
	if (!sock_before_connect(s, fd, sa, len)) {
		let_go(fd, s);
		return (int)ret_errno(connect_real(s, fd, sa, len));
	}
	if (unlikely(sock_bridges(s)))
		return bridge(s, fd, sa, len);
	ret = connect_real(s, fd, sa, len);
	/* closed meanwhile by another thread, nothing is connected */
	if (likely(fdt_is(fd, s)))
		sock_after_connect(s, fd, ret);
	return (int)ret_errno(ret);
}

int do_connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	look_at_rules();
	if (fdt_has_sock(fd) && len >= sizeof(sa_family_t) && sa &&
	    mem_good(sa, len, false) && fdt_is_owner()) {
		ENTER(e, fd);

		if (likely(e.sock))
			return connect_sock(e.sock, fd, sa, len);
	}
	return real_connect(fd, sa, len);
}

bool fastopens(int fd, const struct sockaddr *sa, socklen_t len)
{
	uint8_t state = 0; /* the first member of struct tcp_info */
	socklen_t room = sizeof(state);

	return sa && len >= sizeof(sa->sa_family) &&
	       sa->sa_family != AF_UNSPEC &&
	       !sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &room) &&
	       state == TCP_CLOSE;
}

int do_getsockname(int fd, struct sockaddr *sa, socklen_t *len)
{
	return real_getsockname(fd, sa, len);
}

int do_getpeername(int fd, struct sockaddr *sa, socklen_t *len)
{
	socklen_t room = 0;
	ENTER(e, fd);
	int ret;

	if (unlikely(e.sock && sock_bridges(e.sock)) &&
	    mem_good(len, sizeof(*len), true))
		room = *len;
	ret = real_getpeername(fd, sa, len);
	if (likely(!room) || ret)
		return ret;
	return (int)ret_errno(sock_peername(e.sock, sa, room, len));
}

int do_getsockopt(int fd, int level, int opt, void *v, socklen_t *len)
{
	if (likely(!fdt_known(fd)) || !mem_good(len, sizeof(*len), true) ||
	    !mem_good(v, *len, true))
		return real_getsockopt(fd, level, opt, v, len);
	FDT_ASK(fd, sock_getsockopt(e.sock, fd, level, opt, v, len),
		real_getsockopt(fd, level, opt, v, len));
}

int do_setsockopt(int fd, int level, int opt, const void *v, socklen_t len)
{
	if (likely(!fdt_known(fd)) || !mem_good(v, len, false))
		return real_setsockopt(fd, level, opt, v, len);
	FDT_ASK(fd, sock_setsockopt(e.sock, fd, level, opt, v, len),
		real_setsockopt(fd, level, opt, v, len));
}

int do_shutdown(int fd, int how)
{
	FDT_CALL(fd, sock_shutdown(e.sock, fd, how), real_shutdown(fd, how));
}

int do_sockatmark(int fd)
{
	for (;;) {
		ENTER(e, fd);
		int ret = likely(!e.sock) ? -2 : sock_atmark(e.sock, fd);

		if (ret == -2)
			return real_sockatmark(fd);
		if (!fdt_stale(&e, ret))
			return (int)ret_errno(ret);
	}
}
