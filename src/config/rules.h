/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_CONFIG_RULES_H
#define LIBSDP_CONFIG_RULES_H

/* One rule: matching and printing (libsdp-compat.md 1.4 to 1.6). */

#include "base/text.h"
#include "config/config.h"

/* An address as rules see it: v4-mapped is IPv4. */
struct rule_addr {
	uint8_t family; /* AF_INET, AF_INET6; 0: neither, no rule matches */
	uint8_t ip[16];
	uint16_t port; /* host order */
};

/*
 * `sa` may be shorter than its family says only if its family is AF_UNSPEC.
 */
void rule_addr_from(struct rule_addr *a, const struct sockaddr *sa);

/* NULL when the rule matches, else by what it does not: "role", "program", */
/* "address" or "port range". */
const char *rule_miss(const struct rule *r, enum rule_role role,
		      const struct rule_addr *a);

/* Does the rule's pattern match one of the two names? */
bool rule_program(const struct rule *r, const char *program, const char *exe);

/* The same decision for every address, port and family? */
bool rule_wide(const struct rule *r);

/* Clear the bits of `addr` behind the rule's prefix. */
void rule_mask(struct rule *r);

const char *rule_use_name(enum rule_use use);
const char *rule_role_name(enum rule_role role);

/* As a line of the file: "use sdp client * 192.0.2.0/24:*". */
void rule_print(struct text *t, const struct rule *r);
void rule_print_addr(struct text *t, const struct rule_addr *a);
/* For the log: "sdp (line 3)", or "both (no rule of the file)". */
void rule_print_verdict(struct text *t, struct verdict v);

#endif
