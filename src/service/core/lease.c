/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.c - descriptors, memory and output that the service holds for a tenant
 *
 * The api has a limited number of descriptors (RLIMIT_NOFILE), and the disk with the
 * journals has limited space. All tenants use both, so each tenant has a share
 * (fair_quota.h). A tenant that exceeds its share gets EUSERS, while other tenants can
 * still use theirs. daemon/api.c, which sets the limits, reserves the descriptors of
 * clients' connections.
 */
#include <errno.h>
#include <inttypes.h>

#include "service/core/internal.h"

#define MEMORY_SMALL (64U << 10)
#define MEMORY_STEP  (256U << 10)

static const struct {
	const char *name;   /* name of the quota, in errors */
	const char *remedy; /* what the tenant can do about it */
} leases[] = {
	[LEASE_DESCRIPTORS] = { "open files of the service",
				"end some execs, sessions or sandboxes" },
	[LEASE_OUTPUT] = { "bytes of output",
			   "delete sandboxes, or ask for less output" },
	[LEASE_WRITERS] = { "writes to files in progress",
			    "wait until some of them are done" },
	[LEASE_EXECS] = { "running execs",
			  "end some, or create another sandbox; an exec counts until "
			  "everything it started has closed its output" },
	[LEASE_TERMINALS] = { "terminals", "end execs or sessions that have one" },
	[LEASE_MEMORY] = { "bytes of the service's memory",
			   "end watches of large directories, or uploads of archives" },
};
_Static_assert(ARRAY_SIZE(leases) == LEASE_KIND_MAX, "a kind of lease has no name");

int service_deny(struct service *s, const char *quota, uint64_t used, uint64_t maximum,
		 const struct warren_error *err)
{
	s->metrics.denied++;
	denials_add(&s->denials, quota, used, maximum, err);
	return -EUSERS;
}

int lease_take(struct service *s, enum lease_kind kind, const char *tenant, uint64_t n,
	       struct fair_quota_lease *lease, struct warren_error *err)
{
	int r = fair_quota_lease(&s->shares[kind], tenant, n, lease);
	uint64_t used = 0, maximum = 0;

	if (r == 0)
		return 0;
	if (r != -EDQUOT)
		return error_errno(err, -r, "count %s", leases[kind].name);
	fair_quota_look(&s->shares[kind], tenant, &used, &maximum);
	(void)error_set(
		err, EUSERS,
		"the tenant '%s' has %" PRIu64
		" %s and cannot have more, because other tenants need some too: %s",
		tenant, used, leases[kind].name, leases[kind].remedy);
	return service_deny(s, leases[kind].name, used, maximum, err);
}

int lease_memory(struct service *s, const char *tenant, uint64_t bytes,
		 struct fair_quota_lease *lease, struct warren_error *err)
{
	uint64_t steps = (bytes + MEMORY_STEP - 1) / MEMORY_STEP * MEMORY_STEP;

	if (bytes <= MEMORY_SMALL || bytes <= lease->n)
		return 0;
	return lease_take(s, LEASE_MEMORY, tenant, steps, lease, err);
}

int lease_deny(struct service *s, enum lease_kind kind, uint64_t used, uint64_t maximum,
	       struct warren_error *err)
{
	(void)error_set(err, EUSERS,
			"the sandbox has %" PRIu64 " %s of at most %" PRIu64 ": %s", used,
			leases[kind].name, maximum, leases[kind].remedy);
	return service_deny(s, leases[kind].name, used, maximum, err);
}

void lease_force(struct service *s, enum lease_kind kind, const char *tenant, uint64_t n,
		 struct fair_quota_lease *lease)
{
	survive(s, fair_quota_force(&s->shares[kind], tenant, n, lease));
}

void lease_end(struct service *s, enum lease_kind kind, struct fair_quota_lease *lease)
{
	fair_quota_end(&s->shares[kind], lease);
}

const struct denial *service_denied(const struct service *s,
				    const struct warren_error *err)
{
	const struct denial *d = denials_find(&s->denials, err);

	return d ? d : db_denied(s->db, err);
}

void sandbox_held(const struct sandbox *sandbox, struct sandbox_held *ret)
{
	*ret = (struct sandbox_held){ .descriptors = sandbox->descriptors.n };
	ROOMS_CALL(sandbox->service, held, sandbox, ret);
}
