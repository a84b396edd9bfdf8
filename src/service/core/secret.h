/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret.h - secrets of tenants: set, deleted, and read only to be used
 *
 * A client sends a value once, and no client ever gets it back. The database has it
 * encrypted (src/secret); the key is read for each use and then wiped, so that a key file
 * that was restored is used at once. The key file is created with the first secret. If
 * the database has secrets and the file is missing, no new key is created, because the
 * old secrets could then not be used any more.
 */
#ifndef SERVICE_CORE_SECRET_H
#define SERVICE_CORE_SECRET_H

#include "secret/secret.h"
#include "service/core/service.h"

/*
 * Create the secret or replace its value; the value is copied. @done gets 1: created; 0:
 * replaced; -EINVAL: the name or the value is not valid; -ENOKEY: there is no usable key;
 * -EUSERS: the tenant has too many secrets. The change survives a power cut after
 * db_sync_fd().
 */
void secret_set(struct service *s, const char *tenant, const char *name,
		const char *value, size_t n, service_done_fn done, void *ctx);
/* -ENOENT: the tenant has no such secret. */
int secret_delete(struct service *s, const char *tenant, const char *name,
		  struct warren_error *err) MUST_CHECK;
/*
 * Decrypt the value of a secret, NUL-terminated. The caller wipes it with
 * explicit_bzero(). -ENOENT: the tenant has no such secret; -ENOKEY, -EBADMSG: it cannot
 * be decrypted.
 */
int secret_read(struct service *s, const char *tenant, const char *name,
		char ret[SECRET_VALUE_MAX + 1], size_t *ret_n,
		struct warren_error *err) MUST_CHECK;
/*
 * The same as a lookup for policy_resolve_secrets() (network/header.h): @ctx is a struct
 * secret_source.
 */
struct secret_source {
	struct service *service;
	const char *tenant;
};
int secret_lookup(void *ctx, const char *name, char value[SECRET_VALUE_MAX + 1],
		  struct warren_error *err) MUST_CHECK;
/*
 * Call @fn after each secret that was set or deleted, so that policies that use it can be
 * resolved again. A second call replaces @fn.
 */
void secret_on_change(struct service *s,
		      void (*fn)(void *ctx, const char *tenant, const char *name),
		      void *ctx);

#endif /* SERVICE_CORE_SECRET_H */
