/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_PRELOAD_EPOLL_EPSET_H
#define LIBSDP_PRELOAD_EPOLL_EPSET_H

/*
 * Tables of epoll sets with managed members, and of their registrations.
 *
 * A set is a kernel epoll set. The kernel's entry of a managed member carries
 * a data word of ours; the program's word is here. A registration is
 *  - cold: the kernel decides; nothing is done but translating the word;
 *  - hot: on the set's list, looked at in user space by every wait;
 *  - quiet: user space decides, but nothing came for a while: the sock keeps
 *    its wake-ups armed (`watched`), its wake-up descriptor brings it back;
 *  - deleted: by the program, while user space decided. Its entries stay in
 *    the kernel's set (edge-triggered, what they say is dropped), because
 *    many programs delete and add a socket for each message. They are removed
 *    when the kernel would have something to report again.
 *
 * As long as no thread was seen to wait for a set its entries keep the
 * program's words (`bare`), and their socks are not paired: programs make calls
 * of libc's to register and system calls of their own to wait.
 *
 * Locks, in the order they are taken: the set's, the bucket's, the sock's
 * own; an outer set's before an inner's. A thread that comes from a sock
 * (hooks) takes the bucket lock and never waits for a set's: it leaves the
 * registration in the set's inbox, and the set's holder looks there before
 * and after it drops the lock. No lock is held over a wait in the kernel.
 *
 * Sets and registrations live in memory that is never unmapped or used for
 * something else; `life` and the generations in the words tell old from new. A
 * set is another one only when no thread is inside that may have found it
 * (guard.h), nor asleep in it.
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/lock.h"
#include "base/mem.h"
#include "preload/epoll/epedge.h"
#include "preload/fd/fdtable.h"

#define ep_likely(x)   __builtin_expect(!!(x), 1)
#define ep_unlikely(x) __builtin_expect(!!(x), 0)

struct epreg {
	struct epset *set; /* NULL: free */
	struct sock *sock; /* NULL: another kind of member */
	struct epset *inner; /* a nested set */
	uint64_t data; /* the program's word */
	uint32_t mask; /* the program's mask, flags included */
	uint32_t kmask; /* the kernel entry's mask */
	uint32_t ours; /* sock_ready.ours at the last look */
	int fd; /* -1: that number was closed, others keep the sock */
	struct ep_edge edge;
	int ms; /* look again after so long, -1 */
	uint32_t idx;
	uint64_t age; /* how many were made before it */
	uint16_t use; /* of the slot, so far */
	uint16_t mod; /* times the kernel's entry was modified */
	int wake; /* wake-up descriptor in the set, -1; bucket lock */
	uint16_t idle; /* looks in a row that found nothing */
	bool hot; /* on the set's list */
	bool watched; /* wake-ups stay armed */
	bool quiet; /* and nothing else tells of it */
	bool off; /* one-shot, delivered */
	bool spent; /* the kernel's entry is an edge that was reported, */
	bool rearm; /* and the program asked for a level */
	bool still; /* only a message can change what the last look found */
	bool kicked; /* the wake-up entry is asked for OUT; bucket lock */
	bool deleted; /* the program deleted it, the kernel still has it */
	bool doomed; /* sock is gone, the set's holder frees this */
	bool bare; /* atomic: the kernel has the program's word yet */
	uint8_t queued; /* in the inbox; atomic */
	uint32_t turn; /* set->turn when last put into an event array, */
	int pos; /* and where */
	uint32_t bits; /* to be reported, if it is looked at in this turn; 0 */
	bool listed; /* on the ready list */
	bool stays; /* a level that was reported, and was so ever since */
	uint64_t at; /* stamp: its place is behind what came before this */
	uint64_t modded; /* stamp: EPOLL_CTL_MOD reports what is true anew */
	uint64_t key; /* stamp: its place on the ready list */
	uint64_t since, news; /* as of sock_ready, at the last look */
	uint64_t was; /* `at` before this turn's report by the kernel's word, */
	bool was_told, was_level; /* and was it a report, of a level? */
	bool told; /* was reported since it was added */
	bool followed; /* the kernel has the stand-in's entry (epreg_follow) */
	struct epreg *rnext, *rprev; /* ready list; kernel's of this turn */
	struct epreg *hnext, *hprev; /* hot ring */
	struct epreg *anext, *aprev; /* all of the set */
	struct epreg *bnext; /* of the bucket */
	struct epreg *inext; /* inbox, or free list */
};

/*
 * What is known of the kernel's ready list (epoll_order.c). A look at it is
 * whole if it left nothing there. Stamps are of when looks began.
 */
struct epkern {
	uint64_t look, whole; /* the last look, the last whole one */
	uint64_t level; /* the first level it told since `whole`; 0: none */
	uint64_t added; /* the first member since `whole`; 0: none */
	uint64_t passed; /* the first turn since `look` without one; 0 */
	uint32_t turn, whole_turn; /* of these two looks */
	/* A look told what came since: old levels are off the list, or told. */
	uint64_t passed_by;
	int odd; /* this turn's last event of no member; places from 1 */
	uint64_t began; /* this turn */
	struct epreg *first, **end; /* this turn's members, by place */
	struct epreg *kept; /* its event was taken, and found no room: */
	uint32_t kept_events;
	uint64_t kept_at; /* stamp */
	struct epreg *was_kept; /* the one that is put in this turn */
	/*
	 * Levels may fill each look, and none is whole. But what is told goes
	 * behind all that is there. So once the event `mark_word` comes again,
	 * what was there when the look that told it began has been told.
	 */
	uint64_t mark, mark_word; /* stamp of that look; 0: none */
	uint64_t mark_level, mark_added; /* the first since `mark`, or 0 */
	uint32_t mark_turn;
	uint32_t mark_left, mark_span; /* events until another is marked */
	bool round; /* it came again in this turn */
	bool anew; /* in this turn it was to tell anew what it had told */
};

struct epset {
	struct lock lock;
	int fd; /* one number of it; atomic */
	uint32_t numbers; /* atomic */
	uint32_t life; /* odd: in use */
	bool waits; /* atomic: not in use, but a thread may still be inside */
	uint32_t sleepers; /* atomic: threads in (or near) a kernel wait */
	uint32_t spinners; /* atomic: threads that look at members unlocked */
	uint32_t epoch; /* atomic: raised to call spinners away */
	uint32_t turn; /* number of fillings of an event array */
	uint32_t nhot, nrearm, nready, nquiet;
	struct epreg *inbox; /* atomic */
	struct epreg *hot; /* ring, by age */
	struct epreg *ready, *ready_last; /* by key; epoll_order.c */
	uint64_t now; /* stamp: of this turn, or of a look in it */
	uint64_t looked; /* stamp: the last look at all of the hot began */
	struct epkern kern;
	struct epreg *all;
	bool wanted; /* a thread was seen to wait for it */
	bool inherited; /* by fork: the kernel's alone, words translated */
	bool settled; /* inherited, and members were brought back to TCP */
	struct epset *next; /* of all sets ever */
	struct retired retired;
};

/* --- epbits.c: numbers -------------------------------------------------- */

/*
 * EP_SET: an epoll set when we last saw it made; a hint that finds nested and
 * duplicated sets while they are not tracked. EP_WAITED: it was waited for.
 */
enum ep_bit { EP_SET, EP_WAITED, EP_NUMBER_BITS };
void epbits_set(enum ep_bit what, int fd, bool on);
bool epbits_get(enum ep_bit what, int fd);

/* --- epset.c: tables --------------------------------------------------- */

extern uint32_t ep_tag; /* 0: no registration was ever made */
extern uint32_t ep_nregs; /* atomic: living registrations */
extern uint32_t ep_nodd; /* atomic: of them, without a sock */

static inline bool ep_is_word(uint64_t data)
{
	return ep_word_tag(data) == ep_tag && ep_tag;
}

/* Without those of members of ours: another thread is just closing the set. */
static inline int ep_strangers(struct epoll_event *ev, int n)
{
	int i, kept = 0;

	for (i = 0; i < n; i++)
		if (ep_likely(!ep_is_word(ev[i].data.u64)))
			ev[kept++] = ev[i];
	return kept;
}

/*
 * What an event's word stands for, NULL: gone. The set's lock is held. A word
 * that is ep_word_modded() otherwise was harvested before the last MOD.
 */
struct epreg *epreg_of(struct epset *set, uint64_t word);

static inline uint64_t epreg_word(const struct epreg *r)
{
	return ep_word(ep_tag, false, r->use, r->mod, r->idx);
}

static inline uint64_t epreg_wake_word(const struct epreg *r)
{
	return ep_word(ep_tag, true, r->use, 0, r->idx);
}

/* The set at a number, made when there is none; NULL without memory. */
struct epset *epset_get(int fd);
/* Its last number goes: all registrations die. No lock held. */
void epset_drop(struct epset *set);

/*
 * A registration of `set` (lock held), in no bucket yet; NULL: no memory.
 * epreg_free() takes it out of everything, out of the kernel's set only its
 * wake-up entry, and that if `kernel` (set's lock held, bucket's not).
 */
struct epreg *epreg_new(struct epset *set, struct sock *s, int fd);
void epreg_free(struct epreg *r, bool kernel);

/*
 * Buckets: sock (or number, where there is no sock) -> registrations.
 * epbucket_take() is false in a signal handler that interrupted its own
 * thread inside.
 */
struct epbucket {
	struct lock lock;
	struct epreg *first;
};
struct epbucket *epbucket_of(const struct sock *s, int fd);
bool epbucket_take(struct epbucket *b);
void epbucket_drop(struct epbucket *b);
/* All three with the bucket's lock held. */
void epreg_link(struct epbucket *b, struct epreg *r);
void epreg_unlink(struct epbucket *b, struct epreg *r);
struct epreg *epreg_find(struct epbucket *b, struct epset *set,
			 const struct sock *s, int fd);

/* --- epset_lock.c: lock, inbox, hot list -------------------------------- */

/* False: a signal handler inside its own thread's critical section. */
bool epset_take(struct epset *set);
void epset_release(struct epset *set);
/* Registrations in the inbox become hot. Lock held. */
void epset_inbox(struct epset *set);

static inline bool epset_mail(struct epset *set)
{
	return __atomic_load_n(&set->inbox, __ATOMIC_SEQ_CST) != NULL;
}

/* Leave `r` in its set's inbox. Bucket lock held. */
void epreg_post(struct epreg *r);
void epreg_heat(struct epreg *r); /* onto the hot list; lock held */
/* What came before this moment counts as if it came now. */
void epreg_anew(struct epreg *r);
void epreg_unlist(struct epreg *r); /* off the ready list, if it is there */
void epreg_cool(struct epreg *r); /* off it */
void epreg_watch(struct epreg *r, bool on);
/*
 * Without a wake-up entry a sleeper has the anchor's alone: whole again, it
 * reports what is true. Lock held.
 */
void epreg_widen(struct epreg *r);
/* Take threads out of unlocked looks at members, before a sock goes. */
void epset_shoo(struct epset *set);

/* --- epset_kern.c: what the kernel's set holds -------------------------- */

/*
 * Bring the kernel's entry in step with mask and ours; `again`: even if
 * nothing changed, so that the kernel reports what is true. Lock held.
 */
void epreg_tell(struct epreg *r, bool again);
/*
 * A stand-in's number lost the kernel's entry, with the open file that it had
 * before: it is made once more. Lock held.
 */
void epreg_follow(struct epreg *r);
/* The kernel has the program's word / has no more. Any lock. */
void epreg_bare(struct epreg *r);
void epreg_dress(struct epreg *r);
/* A thread waits for the set, and for those in it. No lock but outer sets'. */
void epset_want(struct epset *set);
static inline void epset_wanted(struct epset *set)
{
	if (ep_unlikely(!set->wanted))
		epset_want(set);
}
/* The wake-up entry in step with sock_wake_fd(). Bucket lock held. */
void epreg_wake(struct epbucket *b, struct epreg *r);
void epreg_unwake(struct epbucket *b, struct epreg *r);
/* Take a deleted one's entries out of the kernel's set, too. Lock held. */
void epreg_bury(struct epreg *r);
/*
 * Get a thread asleep in the set out / undo that. Bucket lock held. False:
 * there is no wake-up entry to do it with.
 */
bool epreg_kick(struct epbucket *b, struct epreg *r);
void epreg_unkick(struct epreg *r);
/*
 * The kernel gets the program's own word and mask back, or loses the entry that
 * the program has deleted. The number is open, and the set's lock or the
 * bucket's is held.
 */
void epreg_hand_back(const struct epreg *r);
/* The same of all members, or of one sock; the registrations die. Lock held. */
void epset_hand_back(struct epset *set, const struct sock *only);
/* Bring the members back to TCP: the kernel alone decides. No lock held. */
void epset_settle(struct epset *set, bool give_away);

/* --- epoll_order.c: what is reported, and in which order ----------------- */

/*
 * One filling of an event array is a turn: epset_turn(), epset_put() for the
 * kernel's events, epset_collect(). The lock is held from the first to the
 * last.
 */
void epset_turn(struct epset *set);
/*
 * `bits` of `r`, found by epreg_look(): what was put in this turn already gets
 * them added, what user space decides on goes onto the ready list, and the
 * rest to ev[n]. Returns n, or n + 1. epset_odd(): ev[n] is of no member.
 */
int epset_put(struct epset *set, struct epoll_event *ev, int n, struct epreg *r,
	      uint32_t bits);
/* Looks at `r`, which was rung for; the same as of a hot one. */
void epset_rung(struct epset *set, struct epoll_event *ev, struct epreg *r);
void epset_odd(struct epset *set, int n);

/*
 * A look that began at `began` for up to `room` events told `got`, which are
 * not put yet. True: it was whole.
 */
bool epset_saw(struct epset *set, const struct epoll_event *ev, int got,
	       int room, uint64_t began);

/* How epset_collect() gets at the kernel's ready list. */
struct epask {
	/* The look that brought this turn's events; whole: it left nothing. */
	uint64_t began; /* 0: there was none */
	bool whole;
	bool rest; /* one is due, as far as there is room */
	bool rearm; /* the next one begins with epset_rearm() */
	/*
	 * A look for up to `room` events; puts them from ev[n] on, returns n.
	 */
	int (*more)(struct epask *a, int n, int room);
	/* One event, as the kernel has it: 1 or 0; and put it to ev[n]. */
	int (*one)(struct epask *a, struct epoll_event *e);
	int (*put)(struct epask *a, int n, const struct epoll_event *e);
};

/*
 * Looks at the hot members and puts what is ready, up to `max` in all, in order
 * of arrival; ev[0, n) are the kernel's. What finds no room is first the next
 * time. Returns how many there are now.
 */
int epset_collect(struct epset *set, struct epoll_event *ev, int n, int max,
		  struct epask *ask);
/* When what `r` reports by `bits` was sent; 0: that is not known. */
uint64_t epreg_came(const struct epreg *r, uint32_t bits);

/* --- epoll_look.c: user-space readiness --------------------------------- */

/*
 * What `r` has to report now (program's bits, 0: nothing). `kernel`: bits of a
 * kernel event. It is reported, and epreg_told(); or, not now, epreg_kept():
 * the next look finds it again. Lock held.
 */
uint32_t epreg_look(struct epreg *r, uint32_t kernel);
/*
 * The entry was modified since the kernel `told` of it: what is true now has its
 * place here, and what is not is asked for anew. Returns the n that is then.
 * Lock held.
 */
int epset_put_old(struct epset *set, struct epoll_event *ev, int n,
		  struct epreg *r, uint32_t told);
void epreg_told(struct epreg *r);
void epreg_kept(struct epreg *r);
/*
 * Would a wait on the set find something in user space now? *since: when the
 * first of it was sent, 0: that is not known; may be NULL.
 */
bool epset_ready(struct epset *set, uint64_t *since);
/* The kernel says the set is readable: is it so for the program, too? */
bool epset_probe(struct epset *set, uint64_t *since);
/*
 * Arms every hot member, so that the kernel's set becomes readable when one
 * of them changes, then looks once more: true if something is ready. *nap
 * is shortened to the time of the next look that is due.
 */
bool epset_arm(struct epset *set, uint64_t *nap);
/* Lock held: a thread that sleeps in the set shall look at it, if there is one. */
void epset_pass_on(struct epset *set);
/*
 * A thread is done with a wait in which it took wake-ups, and may not come back:
 * members are armed for those that sleep on, or one of them looks.
 */
void epset_hand_over(struct epset *set);
/* Awake again: the hot members are looked at, need not ring. Lock held. */
void epset_disarm(struct epset *set);
/* Kernel entries that reported a level from an edge are made to do it again. */
void epset_rearm(struct epset *set);
void epset_rearm_open(struct epset *set); /* the same, takes the lock */
/* A thread goes to wait for the set in the kernel (+1), or is back (-1). */
void epset_sleeps(struct epset *set, int delta);
/* The same for a wait that a handler may jump out of; *in lies in its frame. */
void epset_falls_asleep(bool *in, struct epset *set);
void epset_wakes(bool *in, struct epset *set); /* nothing if *in is false */

/*
 * Threads that wait for a set at a number while there is no struct for it:
 * they know of no members, arm nothing, and have to be kicked out once there
 * are some. Counted by number, several numbers to a count: a thread more is
 * taken for asleep then, which costs a kick.
 */
#define EP_PLAIN 1024
extern uint32_t ep_plain[EP_PLAIN]; /* atomic */

static inline uint32_t *ep_plain_at(int fd)
{
	return &ep_plain[(uint32_t)fd % EP_PLAIN];
}

/* Does a thread sleep in the set that has to be told what changes? */
static inline bool epset_asleep(const struct epset *set)
{
	int fd = __atomic_load_n(&set->fd, __ATOMIC_RELAXED);

	return __atomic_load_n(&set->sleepers, __ATOMIC_SEQ_CST) ||
	       __atomic_load_n(ep_plain_at(fd), __ATOMIC_SEQ_CST);
}

/* The kernel does not look at a set for an array like that. */
static inline bool ep_refused(const struct epoll_event *ev, int max)
{
	return max <= 0 || max > INT_MAX / (int)sizeof(*ev) ||
	       mem_beyond(ev, (size_t)max * sizeof(*ev));
}

/* --- epoll_spin.c -------------------------------------------------------- */

#define EP_SPIN_SOCKS 16

struct epspin {
	struct sock *sock[EP_SPIN_SOCKS];
	int n;
	struct sock *best; /* asked for the time */
	uint64_t ns; /* how long to spin */
	uint64_t clocks; /* how often the clock may be read, by the caller */
};

enum spun { SPUN_OUT, SPUN_PAID, SPUN_CALLED };

/*
 * What is looked at; false: there is nothing to spin for. After true the
 * caller, done with epspin_some(), calls epspin_end().
 */
bool epspin_begin(struct epset *set, struct epspin *sp);
void epspin_end(struct epset *set, struct epspin *sp);
/* Until a message waits, or mail (or the members change), `end`, or clocks. */
enum spun epspin_some(struct epset *set, struct epspin *sp, uint64_t end);

/* The sock whose readiness this thread is just asking for. */
extern __thread struct sock *ep_looking
	__attribute__((tls_model("initial-exec")));

#endif
