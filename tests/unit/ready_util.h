/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_UNIT_READY_UTIL_H
#define TESTS_UNIT_READY_UTIL_H

/*
 * A socket room made of knobs, for the tests of epoll, poll and select. The
 * anchor is one end of a stream pair, the wake-up descriptor one end of
 * another; what the ring would say is set by hand.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/stamp.h"
#include "preload/preload.h"
#include "preload/ready.h"

struct sock {
	int fd, peer; /* the anchor and its other end */
	int wake, wake_peer; /* -1: not paired */
	/* turned and read by several threads */
	_Atomic bool cold; /* false: wake and wake_peer are there */
	_Atomic uint32_t ours, now;
	_Atomic uint32_t in_gen, out_gen;
	_Atomic uint64_t since, news; /* stamps; seen: a look was made since */
	_Atomic bool seen;
	struct stamp_log log; /* what sock_sends() says */
	uint16_t peer_port;
	uint64_t read_at;
	int ms;
	_Atomic bool armed; /* a change must ring */
	_Atomic int watched, sleepers, fell_back, unwaited;
	_Atomic int slept; /* all that slept here so far */
	_Atomic uint32_t looks, asked, rang;
	_Atomic bool shared; /* another process has it */
	_Atomic bool broken; /* no promise holds */
	_Atomic bool stuck; /* asking what is pending does not come back */
	_Atomic int stays; /* threads that keep it, now, */
	_Atomic int stayed; /* and ever */
} __attribute__((aligned(64)));

/* The kernel's calls, counted. */
extern unsigned int waits, ctls, polls;
/* What happens just before the next poll() of the kernel, and once. */
extern void (*fake_meanwhile)(void);
/* What it does not say yet of the first number the next time. */
extern short fake_hidden;
/* What happens in the next look at this one, and once. */
extern void (*fake_looked)(void);
extern struct sock *fake_looked_at;
/* How long each sock wants a wait to spin. */
extern _Atomic uint64_t fake_spin_ns;

struct sock *fake_new(void); /* connected, cold, in the table */
void fake_pair(struct sock *s); /* both directions lifted, room */
void fake_data(struct sock *s); /* a message arrives; rings if armed */
void fake_room(struct sock *s, bool on);
void fake_take(struct sock *s); /* the program reads everything */
void fake_home(struct sock *s); /* all is the kernel's again */
void fake_close(struct sock *s); /* number, anchor and all */

/* epoll_ctl(); 0 or a negative errno. */
int set_ctl(int ep, int op, int fd, uint32_t mask, uint64_t data);
/* The one event of the set, 0 for none; fails if its word is not `data`. */
uint32_t set_one(int ep, uint64_t data, int ms);

#endif
