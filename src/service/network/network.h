/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.h - the network policies of sandboxes, which warren-egress applies
 *
 * Before a sandbox with a policy is reported as created, the warden captures its network
 * (os/capture.h), and the service sends the sockets and the policy to warren-egress. If
 * warren-egress ends, the network of all sandboxes is closed; it is started again, and
 * gets the same policies.
 */
#ifndef SERVICE_NETWORK_NETWORK_H
#define SERVICE_NETWORK_NETWORK_H

#include "db/db.h"
#include "proto/egress_proto.h"
#include "service/core/hooks.h"

extern const struct service_module network_hooks;

#define NETWORK_POLICY "policy" /* sandbox_row.network of a sandbox with a policy */

/*
 * If a policy needs TLS to be terminated, programs in the sandbox must trust the
 * authority of warren-egress. They find WARREN_TRUST_FILE through these variables; most
 * read the files of the image, which have the authority too (os/ca_mount.h).
 */
extern const char *const network_trust_env[]; /* NULL-terminated */

/*
 * Change the network of a running sandbox: store it in its spec and apply it. @policy is
 * JSON as policy_write() writes it; NULL: no network outside. Calls @done when
 * warren-egress has applied it, and live connections that it forbids have ended.
 */
void network_change(struct sandbox *sandbox, const char *policy, service_done_fn done,
		    void *ctx);
/* The policy as JSON; NULL: the sandbox has none. */
const char *network_policy(const struct sandbox *sandbox);
/* Why programs in the sandbox do not trust the authority; NULL: they do, or need not. */
const char *network_distrust(const struct sandbox *sandbox);
/* Return the id of a sandbox of @tenant whose policy uses the secret @name; NULL: none.
 */
const char *network_find_secret(struct service *s, const char *tenant, const char *name);
/* What the sandbox has used, as last reported; this may be a second old. */
const struct egress_usage *network_usage(const struct sandbox *sandbox);
/*
 * Ask warren-egress, so that network_usage() is exact. @done is also called if
 * warren-egress cannot be asked. By then, the sandbox may be gone.
 */
void network_refresh(struct sandbox *sandbox, void (*done)(void *ctx), void *ctx);

/*
 * What the sandboxes of a tenant have used since the service started, including deleted
 * ones. The first row has no tenant: it is the sum of all tenants without a row.
 */
#define NETWORK_TOTALS_MAX 256

struct network_total {
	char tenant[DB_NAME_MAX + 1];
	struct egress_usage usage;
};

const struct network_total *network_totals(const struct service *s, size_t *ret_n);
/*
 * Ask warren-egress for its live connections, denials and so on. @fn gets an object as
 * JSON, or an error: -EAGAIN: it is being started.
 */
typedef void (*network_query_fn)(void *ctx, int r, const char *json, size_t n,
				 const struct warren_error *err);
void network_query(struct sandbox *sandbox, network_query_fn fn, void *ctx);
/* How often warren-egress has ended unexpectedly. */
uint64_t network_egress_ends(const struct service *s);

#endif /* SERVICE_NETWORK_NETWORK_H */
