/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which candidate is dialled when, how long one is patient, and which hosts
 * were of no use lately.
 */

#include "base/table.h"
#include "socket/peer/peer.h"

#define ASKERS 32

#define KNOWN	 256
#define OWN	 0x10000u /* beside a port */
#define FAILS	 22 /* more, and nothing answers at that port */
#define TRIER_NS 4000000000ull /* longer than it waits between tries */
#define LEFT_NS	 20000000ull /* doubled with each try in vain */
#define TURNS	 64
#define TURNS_TO 16 /* of one host */
#define OFTEN_NS 10000000000ull /* so long it is looked at often, */
#define SOON_NS	 250000000ull /* later, and else, as often as this */

/*
 * So long a candidate looks for the other end. What it waits for others that
 * are met first does not count, up to the second of them: where hundreds begin
 * at once, and machines are slow, the last one's turn may come late.
 */
#define PATIENCE_NS	 30000000000ull
#define PATIENCE_MOST_NS 300000000000ull

/*
 * So long where an end on that host was looked for at that port of ours before,
 * and none has asked since. One that does sets it back.
 */
#define UNASKED_NS 3000000000ull
#define UNASKED	   1024

/* --- patience ---------------------------------------------------------- */

/* Until when; two that share a place share only the patience. */
static uint64_t unasked[UNASKED] TABLE;

static uint64_t *unasked_of(const struct diag_names *n)
{
	uint32_t hash = n->local_port;
	unsigned int i;

	for (i = 0; i < sizeof(n->peer); i++)
		hash = (hash ^ n->peer[i]) * 0x01000193u;
	return &unasked[(hash ^ hash >> 16) % UNASKED];
}

void rdma_is_asked(const struct diag_names *n)
{
	__atomic_store_n(unasked_of(n), 0, __ATOMIC_RELAXED);
}

static void in_vain(const struct diag_names *n)
{
	uint64_t ns = (uint64_t)settings.rdma_retry_s * 1000000000u;

	__atomic_store_n(unasked_of(n), clock_ns() + ns, __ATOMIC_RELAXED);
}

void rdma_await(struct rdma *r)
{
	uint64_t until =
		__atomic_load_n(unasked_of(&r->seek.names), __ATOMIC_RELAXED);

	r->seek.begun = clock_ns();
	r->seek.give_up_at = r->seek.begun + PATIENCE_NS;
	if (!r->seek.dials && until > r->seek.begun)
		r->seek.give_up_at = r->seek.begun + UNASKED_NS;
}

/* Others had to be met first: their time does not count, within bounds. */
void rdma_patient(struct rdma *r, uint64_t since)
{
	uint64_t until = since + PATIENCE_NS;

	if (until > r->seek.begun + PATIENCE_MOST_NS)
		until = r->seek.begun + PATIENCE_MOST_NS;
	if (until > r->seek.give_up_at)
		r->seek.give_up_at = until;
}

/* A listener does not know how many stand in front of its own dialler. */
enum reason rdma_out_of_patience(struct rdma *r)
{
	enum reason why = r->seek.answered ? WHY_UNVERIFIED : WHY_PEER_DECLINED;
	uint64_t asked = r->seek.dials ? 0 : rdma_asked(&r->seek.names);

	if (asked)
		rdma_patient(r, asked);
	if (clock_ns() <= r->seek.give_up_at)
		return WHY_NONE;
	if (r->seek.dials && r->seek.tries)
		rdma_bar(r, why);
	else if (!r->seek.dials && asked < r->seek.begun)
		in_vain(&r->seek.names);
	return why;
}

bool rdma_looks_often(const struct rdma *r)
{
	uint64_t now = clock_ns();

	return !r->failover.again && !r->seek.queued &&
	       r->seek.retry_at < now + SOON_NS &&
	       now < r->seek.begun + OFTEN_NS;
}

/* --- turns ------------------------------------------------------------- */

/*
 * So many are dialled at a time. Each costs the other end a queue pair and
 * registered memory, made by one thread; what waits there for longer than a
 * dial may take is made in vain, and then asked for once more. One that asks a
 * host that is silent holds its turn for all that time: those that go to others
 * must not wait for it.
 */
static const struct rdma *turns[TURNS]; /* the service thread's */
static bool queued;

static bool under_way(const struct rdma *r)
{
	return r && __atomic_load_n(&r->sock, __ATOMIC_RELAXED) && r->end &&
	       r->owner == sock_pid && r->state == RDMA_DIALING;
}

static bool same_host(const struct rdma *a, const struct rdma *b)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): both are there */
	return a->seek.names.v4 == b->seek.names.v4 &&
	       !memcmp(a->seek.names.peer, b->seek.names.peer, 16);
}

/* NULL: all are taken. */
static const struct rdma **turn_of(const struct rdma *r)
{
	const struct rdma **at = NULL;
	unsigned int i, same = 0;

	for (i = 0; i < TURNS; i++) {
		if (!under_way(turns[i])) {
			/* best where it was before: one place each */
			if (!at || *at != r)
				at = &turns[i];
		} else if (turns[i] == r) {
			return &turns[i];
		} else if (same_host(turns[i], r)) {
			same++;
		}
	}
	return same < TURNS_TO ? at : NULL;
}

static bool trying(const struct rdma *r)
{
	const struct rdma **at = r ? turn_of(r) : NULL;

	return at && *at == r && under_way(r);
}

void rdma_turn_over(void)
{
	if (queued)
		service_poke(service_id());
	queued = false;
}

static struct lock known_lock; /* of what is known of hosts */

/* Not touched in vain: a forked child pays for each page. */
void rdma_turns_forked(void)
{
	unsigned int i;

	for (i = 0; i < TURNS; i++)
		if (turns[i])
			turns[i] = NULL;
	if (queued)
		queued = false;
	known_lock = (struct lock){ 0 };
}

/* --- hosts of no use --------------------------------------------------- */

/*
 * What is known of the other end of a route: that nothing leads there (of the
 * host, port 0), that nothing answers at a port, or that something does. A
 * server that dials, since its port is the higher one, finds each client at a
 * port of its own: there it is the server's port, OWN, that counts. While
 * neither is known one candidate tries for all, so that a burst of connections
 * pays once. Where one was met another's tries in vain tell of that one alone.
 */
static struct {
	bool v4, good, met;
	uint8_t fails; /* of all its candidates, since the last answer */
	uint8_t ip[16];
	uint32_t port;
	uint64_t until; /* what is said holds so long */
	enum reason why; /* barred; none: not */
	const struct rdma *trier;
} known[KNOWN] TABLE;

/* The port that counts. */
static uint32_t key(const struct diag_names *n, bool serves)
{
	return serves ? n->local_port | OWN : n->peer_port;
}

/* With the lock held; a new one takes the place of what ended first. */
static unsigned int entry(const struct diag_names *n, uint32_t port, bool make)
{
	unsigned int i, at = 0;

	for (i = 0; i < KNOWN; i++) {
		if (known[i].until && known[i].v4 == n->v4 &&
		    known[i].port == port && !memcmp(known[i].ip, n->peer, 16))
			return i;
		if (known[i].until < known[at].until)
			at = i;
	}
	if (!make)
		return KNOWN;
	memset(&known[at], 0, sizeof(known[at]));
	known[at].v4 = n->v4;
	known[at].port = port;
	memcpy(known[at].ip, n->peer, 16);
	return at;
}

static void say(const struct diag_names *n, uint32_t port, bool met,
		enum reason why)
{
	uint64_t ns = (uint64_t)settings.rdma_retry_s * 1000000000u;
	uint64_t now = clock_ns();
	unsigned int i;

	lock_take(&known_lock);
	i = entry(n, port, true);
	met |= known[i].met && known[i].until > now;
	if (!met || (why != WHY_PEER_DECLINED && why != WHY_UNVERIFIED)) {
		known[i].good = !why;
		known[i].met = met && !why;
		known[i].why = why;
		known[i].until = now + ns;
		known[i].trier = NULL;
		known[i].fails = 0;
	}
	lock_drop(&known_lock);
}

void rdma_bar(const struct rdma *r, enum reason why)
{
	bool port = why == WHY_PEER_DECLINED || why == WHY_UNVERIFIED ||
		    why == WHY_BAD_HELLO;

	say(&r->seek.names, port ? key(&r->seek.names, r->seek.serves) : 0,
	    false, why);
}

void rdma_answers(const struct rdma *r, bool met)
{
	say(&r->seek.names, key(&r->seek.names, r->seek.serves), met, WHY_NONE);
}

bool rdma_fails(const struct rdma *r, unsigned int count)
{
	bool over = false;
	unsigned int i;

	lock_take(&known_lock);
	i = entry(&r->seek.names, key(&r->seek.names, r->seek.serves), false);
	if (i < KNOWN && !known[i].good && !known[i].why) {
		count += known[i].fails;
		over = count > FAILS;
		known[i].fails = (uint8_t)(over ? FAILS : count);
	}
	lock_drop(&known_lock);
	return over;
}

/*
 * Short connections, one after another, would else dial for nothing, and all
 * that count until the port is barred.
 */
void rdma_turn_left(const struct rdma *r)
{
	uint64_t next = r->seek.retry_at;
	unsigned int i;

	lock_take(&known_lock);
	i = entry(&r->seek.names, key(&r->seek.names, r->seek.serves), false);
	if (i < KNOWN && known[i].trier == r) {
		known[i].trier = NULL;
		if (r->state == RDMA_DIALING)
			next += LEFT_NS << known[i].fails;
		if (next < known[i].until)
			known[i].until = next;
	}
	lock_drop(&known_lock);
}

enum reason rdma_barred(const struct diag_names *n, bool serves)
{
	enum reason why = WHY_NONE;
	uint64_t now = clock_ns();
	unsigned int i, k;

	lock_take(&known_lock);
	for (k = 0; k < 2 && !why; k++) {
		i = entry(n, k ? key(n, serves) : 0, false);
		if (i < KNOWN && known[i].until > now)
			why = known[i].why;
	}
	lock_drop(&known_lock);
	return why;
}

/* With the lock: may it try, by what is known (KNOWN: nothing)? */
static bool mine(unsigned int i, const struct rdma *r, uint64_t now)
{
	return i == KNOWN || known[i].good || known[i].trier == r ||
	       (known[i].until <= now && !trying(known[i].trier));
}

bool rdma_turn_free(const struct rdma *r)
{
	bool is = turn_of(r) != NULL;

	lock_take(&known_lock);
	is = is && mine(entry(&r->seek.names,
			      key(&r->seek.names, r->seek.serves), false),
			r, clock_ns());
	lock_drop(&known_lock);
	queued |= !is;
	return is;
}

void rdma_turn(const struct rdma *r)
{
	const struct rdma **turn = turn_of(r);
	uint64_t now = clock_ns();
	unsigned int i;

	lock_take(&known_lock);
	i = entry(&r->seek.names, key(&r->seek.names, r->seek.serves), true);
	if (!known[i].good || known[i].until <= now) {
		known[i].good = known[i].met = false;
		known[i].why = WHY_NONE;
		known[i].trier = r;
		known[i].until = now + TRIER_NS;
	}
	lock_drop(&known_lock);
	if (turn)
		*turn = r;
}

/* Which hosts asked lately, and for which port of ours. */
static struct {
	struct diag_names names; /* but for the port of theirs */
	uint64_t at;
} askers[ASKERS] TABLE;

static bool asks_alike(const struct diag_names *a, const struct diag_names *b)
{
	return a->v4 == b->v4 && a->local_port == b->local_port &&
	       !memcmp(a->peer, b->peer, 16);
}

void rdma_note_asker(const struct diag_names *n)
{
	unsigned int i, at = 0;

	for (i = 0; i < ASKERS; i++) {
		if (asks_alike(&askers[i].names, n)) {
			at = i;
			break;
		}
		if (askers[i].at < askers[at].at)
			at = i;
	}
	askers[at].names = *n;
	askers[at].at = clock_ns();
	rdma_is_asked(n);
}

uint64_t rdma_asked(const struct diag_names *n)
{
	unsigned int i;

	for (i = 0; i < ASKERS; i++)
		if (asks_alike(&askers[i].names, n))
			return askers[i].at;
	return 0;
}
