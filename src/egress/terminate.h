/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminate.h - terminate TLS: one connection with the client, with a certificate of the
 * authority, and another one with the server
 *
 * A flow is terminated if policy_terminates() says so. The handshake with the client
 * comes first; then its requests are judged like those of plain HTTP (http_flow.c).
 * warren-egress connects to the server when the first request is allowed. The server's
 * certificate must be valid for the name of the flow; otherwise, the client gets an
 * error, and no request is sent.
 */
#ifndef EGRESS_TERMINATE_H
#define EGRESS_TERMINATE_H

#include "base/error.h"
#include "base/macro.h"

struct egress_flow;
struct terminate;

/*
 * @authority is the content of the authority's file (authority.h), of @n bytes. @ca_file
 * has certificates to trust in addition to those of the system; NULL: none.
 */
int terminate_new(const char *authority, size_t n, const char *ca_file,
		  struct terminate **ret, struct warren_error *err) MUST_CHECK;
/* Accepts NULL; returns NULL. */
struct terminate *terminate_free(struct terminate *t);

/* Return whether the TLS of this flow, whose first bytes are a ClientHello, is
 * terminated. */
bool terminate_wants(const struct egress_flow *f);
/* Begin the handshake with the client. */
void terminate_start(struct egress_flow *f);
/* Continue it; then the flow is EGRESS_FLOW_HTTP. */
void terminate_continue(struct egress_flow *f);
/*
 * Continue the handshake with the server, which is connected, or begin it. 0: it is
 * complete; 1: it waits; -errno: it failed, and @why has the reason.
 */
int terminate_secure(struct egress_flow *f, char *why, size_t size);

#endif /* EGRESS_TERMINATE_H */
