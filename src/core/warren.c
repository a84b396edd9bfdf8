/* SPDX-License-Identifier: Apache-2.0 */
/* warren.c - the library's interface: handles around a backend's table */
#include "warren.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "base/error.h"
#include "base/list.h"
#include "core/check.h"
#include "core/handle.h"

static void warren_close_p(struct warren **w)
{
	(void)warren_close(*w);
}

int warren_open(const struct warren_options *options, struct warren **ret_warren,
		struct warren_error *err)
{
	static const struct warren_options none;
	CLEANUP(warren_close_p) struct warren *w = calloc(1, sizeof(*w));
	const char *name;
	int r;

	if (!options)
		options = &none;
	name = options->backend ? options->backend : "native";
	if (!w)
		return error_errno(err, ENOMEM, "open backend '%s'", name);
	(void)pthread_mutex_init(&w->lock, NULL);
	w->ops = backend_by_name(name);
	if (!w->ops)
		return error_set(err, ENOENT, "there is no backend '%s'", name);
	r = w->ops->open(options, &w->state, err);
	if (r < 0)
		return error_wrap(err, "open backend '%s'", name);
	w->opened = true;
	*ret_warren = TAKE_PTR(w);
	return 0;
}

struct warren *warren_close(struct warren *w)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (!w)
		return NULL;
	for (struct warren_sandbox *sb = w->sandboxes, *next; sb; sb = next) {
		next = sb->next;
		if (sb->sandbox->durable)
			(void)warren_release(sb);
		else
			(void)warren_destroy(sb, &ignored);
	}
	if (w->opened)
		w->ops->close(w->state);
	(void)pthread_mutex_destroy(&w->lock);
	free(w->features);
	free(w);
	return NULL;
}

const char *warren_version(void)
{
	return WARREN_VERSION;
}

int warren_probe(struct warren *w, const struct warren_feature **ret_features,
		 size_t *ret_n, struct warren_error *err)
{
	int r;

	if (!w->features)
		w->features = calloc(BACKEND_FEATURES_MAX, sizeof(*w->features));
	if (!w->features)
		return error_errno(err, ENOMEM, "probe the machine");
	r = w->ops->probe(w->state, w->features, err);
	if (r < 0)
		return error_wrap(err, "probe the machine");
	*ret_features = w->features;
	*ret_n = (size_t)r;
	return 0;
}

int warren_orphans(struct warren *w, struct warren_orphan **ret, size_t *ret_n,
		   struct warren_error *err)
{
	int r = w->ops->orphans
			? w->ops->orphans(w->state, ret, ret_n, err)
			: error_set(err, EOPNOTSUPP,
				    "it is not supported by backend '%s'", w->ops->name);

	return r < 0 ? error_wrap(err, "look for orphans") : 0;
}

int warren_remove_orphan(struct warren *w, const char *id, struct warren_error *err)
{
	int r;

	if (!id_valid(id))
		return error_set(err, EINVAL, "'%.40s' is not an id", id);
	r = w->ops->remove_orphan
		    ? w->ops->remove_orphan(w->state, id, err)
		    : error_set(err, EOPNOTSUPP, "it is not supported by backend '%s'",
				w->ops->name);
	return r < 0 ? error_wrap(err, "remove the orphan '%s'", id) : 0;
}

int warren_prepare(struct warren *w, char ret_id[WARREN_ID_SIZE],
		   struct warren_error *err)
{
	_Static_assert(WARREN_ID_SIZE == ID_LEN + 1, "an id and its NUL");
	int r = w->ops->prepare
			? w->ops->prepare(w->state, ret_id, err)
			: error_set(err, EOPNOTSUPP,
				    "it is not supported by backend '%s'", w->ops->name);

	return r < 0 ? error_wrap(err, "prepare sandboxes in advance") : 0;
}

size_t warren_unprepare(struct warren *w, size_t n)
{
	return w->ops->unprepare ? w->ops->unprepare(w->state, n) : 0;
}

/* --------------------------------------------------------------- sandboxes */

void sandbox_link(struct warren *w, struct warren_sandbox *sb)
{
	sb->engine = w;
	(void)pthread_mutex_lock(&w->lock);
	sb->next = w->sandboxes;
	if (sb->next)
		sb->next->prev = sb;
	w->sandboxes = sb;
	(void)pthread_mutex_unlock(&w->lock);
}

void sandbox_unlink(struct warren_sandbox *sb)
{
	struct warren *w = sb->engine;

	for (struct warren_exec *ex = sb->execs; ex; ex = ex->next)
		ex->sandbox = NULL;
	(void)pthread_mutex_lock(&w->lock);
	if (sb->prev)
		sb->prev->next = sb->next;
	else
		w->sandboxes = sb->next;
	if (sb->next)
		sb->next->prev = sb->prev;
	(void)pthread_mutex_unlock(&w->lock);
}

static bool has_writes(const struct warren_spec *spec)
{
	bool has = spec->writes || spec->layers;

	for (size_t i = 0; i < spec->n_mounts; i++)
		has = has || spec->mounts[i].writes;
	return has;
}

int warren_create(struct warren *w, const struct warren_spec *spec,
		  struct warren_sandbox **ret_sandbox, struct warren_error *err)
{
	static const struct warren_spec none;
	struct warren_sandbox *sb;
	int r;

	if (!spec)
		spec = &none;
	r = check_spec(spec, err);
	if (r < 0)
		return r;
	sb = calloc(1, sizeof(*sb));
	if (!sb)
		return error_errno(err, ENOMEM, "create a sandbox");
	if (spec->durable && !w->ops->adopt)
		r = error_set(err, EOPNOTSUPP,
			      "durable sandboxes are not supported by backend '%s'",
			      w->ops->name);
	else if (spec->restore && !w->ops->hibernate)
		r = error_set(err, EOPNOTSUPP,
			      "hibernation is not supported by backend '%s'",
			      w->ops->name);
	else if (spec->persist && !w->ops->list_kept)
		r = error_set(err, EOPNOTSUPP,
			      "persist: it is not supported by backend '%s'",
			      w->ops->name);
	else if (has_writes(spec) && !w->ops->writes)
		r = error_set(err, EOPNOTSUPP,
			      "layers and directories for changes are not supported by "
			      "backend '%s'",
			      w->ops->name);
	else
		r = w->ops->create(w->state, spec, &sb->sandbox, err);
	if (r < 0) {
		free(sb);
		return error_wrap(err, "create a sandbox");
	}
	sandbox_link(w, sb);
	*ret_sandbox = sb;
	return 0;
}

int warren_destroy(struct warren_sandbox *sb, struct warren_error *err)
{
	struct warren *w;
	int r;

	if (!sb)
		return 0;
	w = sb->engine;
	sandbox_unlink(sb);
	r = w->ops->destroy(w->state, sb->sandbox, err);
	free(sb);
	return r < 0 ? error_wrap(err, "destroy a sandbox") : 0;
}

const char *warren_id(const struct warren_sandbox *sb)
{
	return sb->sandbox->id;
}

const struct warren_enforcement *warren_enforced(const struct warren_sandbox *sb,
						 size_t *ret_n)
{
	*ret_n = sb->sandbox->n_enforced;
	return sb->sandbox->enforced;
}

const struct warren_step *warren_trace(const struct warren_sandbox *sb, size_t *ret_n)
{
	*ret_n = sb->sandbox->n_steps;
	return sb->sandbox->steps;
}

static size_t warren_count(const char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

int warren_command(const struct warren_sandbox *sb, const char *entrypoint,
		   const char *const *args, const char ***ret_argv,
		   struct warren_error *err)
{
	const char *const own[] = { entrypoint, NULL };
	const char *const *first = (const char *const *)sb->sandbox->entrypoint;
	const char *const *rest =
		warren_count(args) ? args : (const char *const *)sb->sandbox->cmd;
	const char **argv;
	size_t n = 0;

	if (entrypoint) {
		first = entrypoint[0] ? own : NULL;
		rest = args;
	}
	if (warren_count(first) + warren_count(rest) == 0)
		return error_set(err, EINVAL,
				 "no command was given, and the image has none");
	argv = calloc(warren_count(first) + warren_count(rest) + 1, sizeof(*argv));
	if (!argv)
		return error_errno(err, ENOMEM, "build the command");
	for (const char *const *p = first; p && *p; p++)
		argv[n++] = *p;
	for (const char *const *p = rest; p && *p; p++)
		argv[n++] = *p;
	*ret_argv = argv;
	return 0;
}

int not_supported(const struct warren_sandbox *sb, const char *what,
		  struct warren_error *err)
{
	return error_set(err, EOPNOTSUPP, "%s is not supported by backend '%s'", what,
			 sb->engine->ops->name);
}

static int warren_set_paused(struct warren_sandbox *sb, bool paused,
			     struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	int r;

	if (!ops->pause)
		return not_supported(sb, "pausing", err);
	r = ops->pause(sb->engine->state, sb->sandbox, paused, err);
	return r < 0 ? error_wrap(err, "%s '%s'", paused ? "pause" : "resume",
				  sb->sandbox->id)
		     : 0;
}

int warren_pause(struct warren_sandbox *sb, struct warren_error *err)
{
	return warren_set_paused(sb, true, err);
}

int warren_checkpoint(struct warren_sandbox *sb, struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	int r;

	if (!ops->checkpoint)
		return not_supported(sb, "a checkpoint", err);
	r = ops->checkpoint(sb->engine->state, sb->sandbox, err);
	return r < 0 ? error_wrap(err, "checkpoint '%s'", sb->sandbox->id) : 0;
}

int warren_save_files(struct warren_sandbox *sb, int dir, unsigned flags,
		      struct warren_saved *ret, struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	int r;

	if (!ops->save_files)
		return not_supported(sb, "a snapshot", err);
	r = ops->save_files(sb->engine->state, sb->sandbox, dir, flags, ret, err);
	return r < 0 ? error_wrap(err, "save the files of '%s'", sb->sandbox->id) : 0;
}

int warren_diff(struct warren_sandbox *sb, int fd, struct warren_diff *diff,
		struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	int r;

	if (!ops->diff)
		return not_supported(sb, "a list of changed files", err);
	r = ops->diff(sb->engine->state, sb->sandbox, fd, diff, err);
	return r < 0 ? error_wrap(err, "find the changed files of '%s'", sb->sandbox->id)
		     : 0;
}

int warren_undo_keep(struct warren_sandbox *sb, struct warren_saved *ret,
		     struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	int r;

	if (!ops->undo_keep)
		return not_supported(sb, "undo", err);
	r = ops->undo_keep(sb->engine->state, sb->sandbox, ret, err);
	return r < 0 ? error_wrap(err, "keep the files of '%s'", sb->sandbox->id) : 0;
}

int warren_undo(struct warren_sandbox *sb, struct warren_undone *ret,
		struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	int r;

	if (!ops->undo)
		return not_supported(sb, "undo", err);
	r = ops->undo(sb->engine->state, sb->sandbox, ret, err);
	return r < 0 ? error_wrap(err, "restore the files of '%s'", sb->sandbox->id) : 0;
}

int warren_undo_settle(struct warren *w, const char *id, bool started,
		       struct warren_error *err)
{
	return w->ops->undo_settle ? w->ops->undo_settle(w->state, id, started, err) : 0;
}

int warren_undo_forget(struct warren *w, const char *id, struct warren_error *err)
{
	return w->ops->undo_forget ? w->ops->undo_forget(w->state, id, err) : 0;
}

int warren_hibernate(struct warren_sandbox *sb, struct warren_saved *ret,
		     struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	int r;

	if (!ops->hibernate)
		return not_supported(sb, "hibernation", err);
	r = ops->hibernate(sb->engine->state, sb->sandbox, ret, err);
	if (r < 0)
		return error_wrap(err, "hibernate '%s'", sb->sandbox->id);
	sandbox_unlink(sb);
	free(sb);
	return 0;
}

int warren_reset(struct warren_sandbox *sb, struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	int r;

	if (!ops->reset)
		return not_supported(sb, "a reset", err);
	r = ops->reset(sb->engine->state, sb->sandbox, err);
	if (r < 0)
		return error_wrap(err, "reset '%s'", sb->sandbox->id);
	sandbox_unlink(sb);
	free(sb);
	return 0;
}

const char *warren_image(const struct warren_sandbox *sb)
{
	const struct backend_ops *ops = sb->engine->ops;

	return ops->image ? ops->image(sb->sandbox) : NULL;
}

int warren_has_saved(struct warren *w, const char *id, struct warren_error *err)
{
	return w->ops->has_saved ? w->ops->has_saved(w->state, id, err) : 0;
}

int warren_list_kept(struct warren *w, char ***ret_ids, struct warren_error *err)
{
	*ret_ids = NULL;
	return w->ops->list_kept ? w->ops->list_kept(w->state, ret_ids, err) : 0;
}

int warren_forget_saved(struct warren *w, const char *id, struct warren_error *err)
{
	return w->ops->forget_saved ? w->ops->forget_saved(w->state, id, err) : 0;
}

int warren_resume(struct warren_sandbox *sb, struct warren_error *err)
{
	return warren_set_paused(sb, false, err);
}

int warren_stats(struct warren_sandbox *sb, struct warren_stats *ret_stats,
		 struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	int r;

	if (!ops->stats)
		return not_supported(sb, "reading statistics", err);
	r = ops->stats(sb->engine->state, sb->sandbox, ret_stats, err);
	return r < 0 ? error_wrap(err, "statistics of '%s'", sb->sandbox->id) : 0;
}

int warren_capture_network(struct warren_sandbox *sb, int ret_fds[WARREN_CAPTURE_FDS],
			   struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	const struct backend_kind *kind = backend_kind_find(ops->name);
	int r;

	if (!ops->capture_network || (kind && !kind->policies))
		return not_supported(sb, "a network policy", err);
	r = ops->capture_network(sb->engine->state, sb->sandbox, ret_fds, err);
	return r < 0 ? error_wrap(err, "capture the network of '%s'", sb->sandbox->id)
		     : 0;
}

int warren_trust(struct warren_sandbox *sb, int bundle, struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	const struct backend_kind *kind = backend_kind_find(ops->name);
	int r;

	if (!ops->trust || (kind && !kind->trusts))
		return not_supported(sb, "adding certificates", err);
	r = ops->trust(sb->engine->state, sb->sandbox, bundle, err);
	return r < 0 ? error_wrap(err, "sandbox '%s'", sb->sandbox->id) : 0;
}

/* ------------------------------------------------------------------- execs */

int warren_exec(struct warren_sandbox *sb, const struct warren_exec_spec *spec,
		struct warren_exec **ret_exec, struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	struct warren_exec *ex;
	int r = check_exec_spec(spec, err);

	if (r < 0)
		return r;
	if (!ops->exec_output &&
	    (spec->out == WARREN_STDIO_JOURNAL || spec->err == WARREN_STDIO_JOURNAL))
		return not_supported(sb, "keeping output in a journal", err);
	if (!ops->exec_ack && (spec->hold || spec->child_result_fd ||
			       spec->child_wakeup_fd || spec->child_command_fd))
		return not_supported(sb, "holding output, or passing more descriptors,",
				     err);
	if (!ops->exec_resize && spec->pty)
		return not_supported(sb, "a terminal", err);
	ex = calloc(1, sizeof(*ex));
	if (!ex)
		return error_errno(err, ENOMEM, "start '%s'", spec->argv[0]);
	r = ops->exec(sb->engine->state, sb->sandbox, spec, &ex->exec, err);
	if (r < 0) {
		free(ex);
		return r;
	}
	exec_link(sb, ex);
	*ret_exec = ex;
	return 0;
}

void exec_link(struct warren_sandbox *sb, struct warren_exec *ex)
{
	ex->ops = sb->engine->ops;
	ex->sandbox = sb;
	ex->next = sb->execs;
	sb->execs = ex;
}

struct warren_exec *warren_exec_free(struct warren_exec *ex)
{
	if (!ex)
		return NULL;
	if (ex->sandbox)
		(void)LIST_REMOVE(ex->sandbox->execs, ex);
	ex->ops->exec_free(ex->exec);
	free(ex);
	return NULL;
}

int warren_exec_fd(const struct warren_exec *ex, int which)
{
	return which >= 0 && which < (int)ARRAY_SIZE(ex->exec->fd) ? ex->exec->fd[which]
								   : -1;
}

int warren_exec_take_fd(struct warren_exec *ex, int which)
{
	return which >= 0 && which < (int)ARRAY_SIZE(ex->exec->fd)
		       ? TAKE_FD(ex->exec->fd[which])
		       : -1;
}

int warren_exec_wait_fd(const struct warren_exec *ex)
{
	return ex->ops->exec_wait_fd(ex->exec);
}

int warren_exec_output_fd(const struct warren_exec *ex)
{
	return ex->exec->output_fd;
}

int warren_exec_wait(struct warren_exec *ex, int64_t timeout_ms,
		     struct warren_result *ret_result, struct warren_error *err)
{
	return ex->ops->exec_wait(ex->exec, timeout_ms, ret_result, err);
}

int warren_exec_signal(struct warren_exec *ex, int sig, struct warren_error *err)
{
	if (sig < 1 || sig > 64)
		return error_set(err, EINVAL, "there is no signal %d", sig);
	return ex->ops->exec_signal(ex->exec, sig, err);
}

int warren_exec_resize(struct warren_exec *ex, uint16_t rows, uint16_t cols,
		       struct warren_error *err)
{
	if (!ex->ops->exec_resize)
		return error_set(err, EOPNOTSUPP,
				 "a terminal is not supported by backend '%s'",
				 ex->ops->name);
	return ex->ops->exec_resize(ex->exec, rows, cols, err);
}

int warren_exec_output(struct warren_exec *ex, uint64_t cursor, void *buf, size_t size,
		       struct warren_output *ret_output, struct warren_error *err)
{
	if (!ex->ops->exec_output)
		return error_set(err, EOPNOTSUPP,
				 "a journal is not supported by backend '%s'",
				 ex->ops->name);
	return ex->ops->exec_output(ex->exec, cursor, buf, size, ret_output, err);
}
