/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - what a sandbox was denied, and what it used
 *
 * The most recent denials are kept, each with the smallest rule that would have allowed
 * it. What was allowed is kept as distinct hosts, ports and protocols: written as a
 * policy, it is the smallest one that would have sufficed.
 */
#ifndef EGRESS_RECORD_H
#define EGRESS_RECORD_H

#include "network/decide.h"

#define RECORD_DENIALS  64
#define RECORD_USES_MAX 1024

struct record_use;

struct record {
	char *denials[RECORD_DENIALS]; /* JSON objects; a ring */
	uint64_t n_denials;            /* all of them */
	struct record_use *uses;
	size_t n_uses;
	bool uses_lost; /* there were more than RECORD_USES_MAX */
};

void record_done(struct record *r);
/*
 * Record that @q was denied. @why overrides the text of the decision if it is not NULL.
 * Returns the JSON object, which is borrowed; NULL: no memory.
 */
const char *record_denial(struct record *r, const struct request *q,
			  const struct decision *d, const char *why);
/* Record that @q was allowed, and a server was connected to. */
void record_use(struct record *r, const struct request *q);
/* Write "denials", from the oldest to the newest, and "used", a policy. */
void record_write(const struct record *r, struct json *j);

#endif /* EGRESS_RECORD_H */
