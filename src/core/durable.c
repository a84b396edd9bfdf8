/* SPDX-License-Identifier: Apache-2.0 */
/* durable.c - find, adopt, change and release sandboxes that outlive their creator */
#include <errno.h>

#include "base/id.h"
#include "core/find.h"
#include "core/handle.h"

static int engine_cannot(const struct warren *w, struct warren_error *err)
{
	return error_set(err, EOPNOTSUPP,
			 "durable sandboxes are not supported by backend '%s'",
			 w->ops->name);
}

int warren_list(struct warren *w, char ***ret_ids, struct warren_error *err)
{
	int r = w->ops->list ? w->ops->list(w->state, ret_ids, err)
			     : engine_cannot(w, err);

	return r < 0 ? error_wrap(err, "list the sandboxes") : 0;
}

static int take_handle(struct warren *w, const char *id, bool ask,
		       struct warren_sandbox **ret_sandbox, struct warren_error *err)
{
	struct warren_sandbox *sb;
	int r;

	if (!w->ops->adopt)
		return engine_cannot(w, err);
	if (!id_valid(id))
		return error_set(err, EINVAL, "'%.40s' is not the id of a sandbox", id);
	sb = calloc(1, sizeof(*sb));
	if (!sb)
		return error_errno(err, ENOMEM, "adopt '%s'", id);
	r = ask || !w->ops->find ? w->ops->adopt(w->state, id, &sb->sandbox, err)
				 : w->ops->find(w->state, id, &sb->sandbox, err);
	if (r < 0) {
		free(sb);
		return error_wrap(err, "adopt '%s'", id);
	}
	sandbox_link(w, sb);
	*ret_sandbox = sb;
	return 0;
}

int warren_adopt(struct warren *w, const char *id, struct warren_sandbox **ret_sandbox,
		 struct warren_error *err)
{
	return take_handle(w, id, true, ret_sandbox, err);
}

int warren_find(struct warren *w, const char *id, struct warren_sandbox **ret_sandbox,
		struct warren_error *err)
{
	return take_handle(w, id, false, ret_sandbox, err);
}

bool warren_kills_apart(const struct warren_sandbox *sb)
{
	return sb->sandbox->kills_apart;
}

struct warren_sandbox *warren_release(struct warren_sandbox *sb)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct warren *w;

	if (!sb)
		return NULL;
	if (!sb->sandbox->durable) {
		(void)warren_destroy(sb, &ignored);
		return NULL;
	}
	w = sb->engine;
	sandbox_unlink(sb);
	w->ops->release(w->state, sb->sandbox);
	free(sb);
	return NULL;
}

int warren_update(struct warren_sandbox *sb, const struct warren_limits *limits,
		  struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	int r;

	if (!ops->update)
		return not_supported(sb, "changing limits", err);
	r = ops->update(sb->engine->state, sb->sandbox, limits, err);
	return r < 0 ? error_wrap(err, "change the limits of '%s'", sb->sandbox->id) : 0;
}

int warren_connection(struct warren_sandbox *sb, int *ret_fd, struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	int r;

	if (!ops->connection)
		return not_supported(sb, "passing on connections", err);
	r = ops->connection(sb->engine->state, sb->sandbox, ret_fd, err);
	return r < 0 ? error_wrap(err, "connect to '%s'", sb->sandbox->id) : 0;
}

int warren_describe(struct warren_sandbox *sb, char **ret_text, size_t *ret_size,
		    struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	struct buf text = BUF_INIT(16U << 20);
	int r;

	if (!ops->describe)
		return not_supported(sb, "describing a sandbox", err);
	r = ops->describe(sb->engine->state, sb->sandbox, &text);
	if (r == 0 && text.failed)
		r = -ENOMEM;
	if (r < 0) {
		buf_done(&text);
		return error_errno(err, -r, "describe '%s'", sb->sandbox->id);
	}
	*ret_text = text.data;
	*ret_size = text.len;
	return 0;
}

/* ------------------------------------------------------------------- execs */

uint32_t warren_exec_number(const struct warren_exec *ex)
{
	return ex->ops->exec_number ? ex->ops->exec_number(ex->exec) : 0;
}

int warren_exec_attach(struct warren_sandbox *sb, uint32_t number, int journal_fd,
		       struct warren_exec **ret_exec, struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	struct warren_exec *ex;
	int r;

	if (!ops->exec_attach)
		return not_supported(sb, "reconnecting to execs", err);
	ex = calloc(1, sizeof(*ex));
	if (!ex)
		return error_errno(err, ENOMEM, "find exec %u", number);
	r = ops->exec_attach(sb->engine->state, sb->sandbox, number, journal_fd,
			     &ex->exec, err);
	if (r < 0) {
		free(ex);
		return r;
	}
	exec_link(sb, ex);
	*ret_exec = ex;
	return 0;
}

static int exec_cannot(const struct warren_exec *ex, const char *what,
		       struct warren_error *err)
{
	return error_set(err, EOPNOTSUPP, "%s is not supported by backend '%s'", what,
			 ex->ops->name);
}

int warren_exec_close_input(struct warren_exec *ex, struct warren_error *err)
{
	return ex->ops->exec_close_input
		       ? ex->ops->exec_close_input(ex->exec, err)
		       : exec_cannot(ex, "closing the input of an exec", err);
}

int warren_exec_ack(struct warren_exec *ex, uint64_t cursor, struct warren_error *err)
{
	return ex->ops->exec_ack ? ex->ops->exec_ack(ex->exec, cursor, err)
				 : exec_cannot(ex, "holding output", err);
}

int warren_exec_signal_to(struct warren_exec *ex, int sig, enum warren_whom whom,
			  struct warren_error *err)
{
	if (sig < 1 || sig > 64)
		return error_set(err, EINVAL, "there is no signal %d", sig);
	if (whom == WARREN_WHOM_FIRST)
		return ex->ops->exec_signal(ex->exec, sig, err);
	if ((unsigned)whom > WARREN_WHOM_NEW)
		return error_set(err, EINVAL, "there is no such selection of processes");
	return ex->ops->exec_signal_to ? ex->ops->exec_signal_to(ex->exec, sig, whom, err)
				       : exec_cannot(ex, "selecting processes", err);
}
