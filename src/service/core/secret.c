/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c - set, delete and read secrets */
#include "service/core/secret.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/loop.h"
#include "service/core/internal.h"

/* A secret that is being set: the key is read, or created, on another thread. */
struct secret_op {
	struct service *service;
	bool may_create; /* there are no secrets, so no key is in use */
	char tenant[DB_NAME_MAX + 1], name[SECRET_NAME_MAX + 1];
	char value[SECRET_VALUE_MAX];
	size_t n;
	unsigned char sealed[SECRET_SEALED_MAX];
	size_t sealed_n;
	int result;
	struct warren_error err;
	service_done_fn done;
	void *ctx;
};

static void secret_op_seal(void *ctx)
{
	AUTO_SECRET_KEY struct secret_key key = { 0 };
	struct secret_op *op = ctx;
	const char *path = op->service->secret_key;
	int r = op->may_create ? secret_key_create(path, &op->err) : 0;

	if (r == 0)
		r = secret_key_load(path, &key, &op->err);
	if (r == 0)
		r = secret_seal(&key, op->tenant, op->name, op->value, op->n, op->sealed,
				&op->sealed_n, &op->err);
	explicit_bzero(op->value, sizeof(op->value));
	op->result = r;
}

static void secret_tell(struct service *s, enum event_type type, const char *tenant,
			const char *name)
{
	event_emit_secret(s, type, tenant, name);
	if (s->secret_changed)
		s->secret_changed(s->secret_ctx, tenant, name);
}

static void secret_op_store(void *ctx)
{
	struct secret_op *op = ctx;
	const struct secret_row row = { .tenant = op->tenant,
					.name = op->name,
					.sealed = op->sealed,
					.sealed_n = op->sealed_n,
					.updated_at = service_time() };

	if (op->result == 0)
		op->result = db_put_secret(op->service->db, &row, &op->err);
	if (op->result >= 0)
		secret_tell(op->service, EVENT_SECRET_SET, op->tenant, op->name);
	op->done(op->ctx, op->result, &op->err);
	explicit_bzero(op, sizeof(*op));
	free(op);
}

static int secret_op_new(struct service *s, const char *tenant, const char *name,
			 const char *value, size_t n, struct secret_op **ret,
			 struct warren_error *err)
{
	struct secret_op *op;
	uint64_t count = 0;
	int r;

	if (!secret_name_ok(name))
		return error_set(err, EINVAL,
				 "the name of a secret has letters, digits and '_', "
				 "does not begin with a digit, and has at most %d "
				 "characters",
				 SECRET_NAME_MAX);
	r = secret_check_value(value, n, err);
	if (r == 0)
		r = db_count_secrets(s->db, NULL, &count, err);
	if (r < 0)
		return r;
	op = calloc(1, sizeof(*op));
	if (!op)
		return error_errno(err, ENOMEM, "set a secret");
	op->service = s;
	op->may_create = count == 0;
	(void)snprintf(op->tenant, sizeof(op->tenant), "%s", tenant);
	(void)snprintf(op->name, sizeof(op->name), "%s", name);
	(void)memcpy(op->value, value, n);
	op->n = n;
	op->err = (struct warren_error)WARREN_ERROR_INIT;
	*ret = op;
	return 0;
}

void secret_set(struct service *s, const char *tenant, const char *name,
		const char *value, size_t n, service_done_fn done, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct secret_op *op = NULL;
	int r = secret_op_new(s, tenant, name, value, n, &op, &err);

	if (r < 0) {
		done(ctx, r, &err);
		return;
	}
	op->done = done;
	op->ctx = ctx;
	if (loop_work(s->loop, tenant, secret_op_seal, secret_op_store, op) < 0) {
		secret_op_seal(op);
		secret_op_store(op);
	}
}

int secret_delete(struct service *s, const char *tenant, const char *name,
		  struct warren_error *err)
{
	int r = db_delete_secret(s->db, tenant, name, err);

	if (r == 0)
		secret_tell(s, EVENT_SECRET_DELETED, tenant, name);
	return r;
}

int secret_read(struct service *s, const char *tenant, const char *name,
		char ret[SECRET_VALUE_MAX + 1], size_t *ret_n, struct warren_error *err)
{
	AUTO_SECRET_ROW struct secret_row row = { 0 };
	AUTO_SECRET_KEY struct secret_key key = { 0 };
	int r = db_get_secret(s->db, tenant, name, &row, err);

	if (r == 0)
		r = secret_key_load(s->secret_key, &key, err);
	if (r < 0)
		return r;
	return secret_unseal(&key, tenant, name, row.sealed, row.sealed_n, ret, ret_n,
			     err);
}

int secret_lookup(void *ctx, const char *name, char value[SECRET_VALUE_MAX + 1],
		  struct warren_error *err)
{
	const struct secret_source *source = ctx;
	size_t n = 0;
	int r = secret_read(source->service, source->tenant, name, value, &n, err);

	if (r == -ENOENT)
		return error_set(err, EINVAL,
				 "there is no secret '%s'; 'warren secret set %s' "
				 "creates it",
				 name, name);
	return r;
}

void secret_on_change(struct service *s,
		      void (*fn)(void *ctx, const char *tenant, const char *name),
		      void *ctx)
{
	s->secret_changed = fn;
	s->secret_ctx = ctx;
}
