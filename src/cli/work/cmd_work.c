/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_work.c - warren work: run a command on a project in a sandbox
 *
 * The sandbox sees the project (or a copy of it) through an overlay, whose changes go to
 * the directory of a new work (work/work.h). Whatever ends this process, the changes stay
 * there. After the command has ended, the user decides on them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/strv.h"
#include "cli/run_result.h"
#include "cli/work/commands.h"
#include "cli/work/git_identity.h"
#include "cli/work/hide_project.h"
#include "cli/work/setup_run.h"
#include "cli/work/work_decide.h"
#include "cli/work/work_list.h"
#include "cli/work/work_missing.h"
#include "cli/work/work_options.h"
#include "cli/work/work_project.h"
#include "cli/work/work_run.h"
#include "cli/work/work_signal.h"
#include "work/base.h"
#include "work/moved.h"

struct work_job {
	struct work_cli_options options;
	char *project; /* its absolute path, without links */
	const char *const *argv;
	struct work *work;        /* NULL: mode bind */
	struct mount_list mounts; /* borrows its strings */
	char *source, *writes;    /* directories of the work */
	char *hide;
	struct git_identity git;
	char *identity; /* a file that is removed at the end */
	struct work_hidden hidden;
	const char **layers; /* over the project: the hidden files first */
	struct setup_ready ready;
	int signal;              /* the one that was to end this process; 0: none */
	char *starts;            /* commands of each start, for /bin/sh */
	const char **start_argv; /* they, and then the command */
};

static const char *const work_shell[] = { "/bin/sh", NULL };

static int work_job_fail(const struct warren_error *err, int status)
{
	if (err->msg[0]) /* otherwise a helper has printed it */
		message_say("work", "%s", err->msg);
	return status;
}

/* "[PATH] [-- CMD...]": a word before the dashes is the project. */
static int work_job_operands(struct work_job *job, char **argv, int argc, int first,
			     struct warren_error *err)
{
	bool dashes = first > 1 && strcmp(argv[first - 1], "--") == 0;
	const char *path = NULL;

	if (!dashes && first < argc) {
		path = argv[first++];
		if (first < argc && strcmp(argv[first], "--") != 0)
			return error_set(err, EINVAL,
					 "write '--' before the command (example: %s)",
					 work_opts.example);
		first += first < argc;
	}
	if (first < argc)
		job->argv = (const char *const *)(argv + first);
	if (!job->options.resume)
		return work_project_find(path ? path : ".", &job->project, err);
	return path ? error_set(err, EINVAL,
				"'%s': with --resume, the project is that of the work",
				path)
		    : 0;
}

/* ------------------------------------------------------------------- the work */

/* Say which directories are hidden because their contents are unknown. */
static void work_say_closed(const struct work_hidden *h)
{
	if (h->n_closed > 0)
		message_say("work",
			    "%zu director%s hidden, because you cannot list or search "
			    "%s: %s%s (chmod u+rx shows %s)",
			    h->n_closed, h->n_closed == 1 ? "y is" : "ies are",
			    h->n_closed == 1 ? "it" : "them", h->closed[0],
			    h->n_closed > 1 ? ", ..." : "",
			    h->n_closed == 1 ? "it" : "them");
}

/* Count the files that are hidden because of their names, and get the first one. */
static size_t work_hidden_by_name(const struct work_hidden *h, const char **ret_first)
{
	size_t n = 0, closed = 0;

	for (size_t i = 0; i < h->n; i++) {
		while (closed < h->n_closed && strcmp(h->closed[closed], h->paths[i]) < 0)
			closed++;
		if (closed < h->n_closed && strcmp(h->closed[closed], h->paths[i]) == 0)
			continue;
		if (n++ == 0)
			*ret_first = h->paths[i];
	}
	return n;
}

static void work_say_hidden(const struct work_job *job, const struct work_hidden *h)
{
	const struct run_options *o = &job->options.run;
	const char *first = NULL;
	size_t named = work_hidden_by_name(h, &first);

	if (o->quiet)
		return;
	if (o->verbose) {
		for (size_t i = 0; i < h->n; i++)
			message_say("work", "hidden: %s", h->paths[i]);
		for (size_t i = 0; i < h->n_cleaned; i++)
			message_say("work", "shown without credentials: %s",
				    h->cleaned[i]);
		work_say_closed(h);
		return;
	}
	if (named > 0)
		message_say(
			"work",
			"%zu file%s hidden, because of %s name: %s%s (--verbose lists "
			"all, --hide '!PATTERN' shows some)",
			named, named == 1 ? " is" : "s are", named == 1 ? "its" : "their",
			first, named > 1 ? ", ..." : "");
	work_say_closed(h);
	if (h->n_indexed > 0)
		message_say("work",
			    "git's index has hidden files ('%s'%s): git can show what "
			    "was staged or committed of them",
			    h->indexed[0], h->n_indexed > 1 ? ", ..." : "");
	if (h->n_cleaned > 0)
		message_say(
			"work",
			"git's configuration and reflog are shown without credentials");
}

/* The kernel's error inside is EOVERFLOW, which does not say what to do. */
static void work_say_shared(const struct work_job *job, const struct work_hidden *h)
{
	for (size_t i = 0; !job->options.run.quiet && i < h->n_shared; i++)
		message_say("work",
			    "some files in '%s' belong to other users, and are too large "
			    "to be copied: the command cannot change them ('%s'); use "
			    "--mode copy",
			    h->shared[i][0] ? h->shared[i] : ".",
			    strerrordesc_np(EOVERFLOW));
}

static int work_job_hide(struct work_job *job, struct warren_error *err)
{
	struct work *w = job->work;
	int r = hide_project(w, job->options.no_setup, w->hide, &job->hidden, err);

	if (r == 0)
		work_say_hidden(job, &job->hidden);
	if (r == 0)
		work_say_shared(job, &job->hidden);
	return r < 0 ? r : work_record_save(w, err);
}

/* The directories of the work that the sandbox gets. */
static int work_job_paths(struct work_job *job, struct warren_error *err)
{
	const struct work *w = job->work;
	int r = w->mode == WORK_COPY ? asprintf(&job->source, "%s/copy", w->dir)
				     : asprintf(&job->source, "%s", w->project);

	if (r < 0 || asprintf(&job->writes, "%s/writes", w->dir) < 0 ||
	    asprintf(&job->hide, "%s/hide", w->dir) < 0)
		return error_errno(err, ENOMEM, "name the directories of a work");
	return 0;
}

static int work_job_create(struct work_job *job, struct warren_error *err)
{
	const struct work_cli_options *o = &job->options;
	const struct work_options options = {
		.project = job->project,
		.name = o->run.name,
		.workdir = o->run.workdir,
		.image = o->run.image,
		.argv = job->argv,
		.mode = o->mode,
		.hide = o->hide,
		.unprepared = true,
	};
	int r = work_create(&options, &job->work, err);

	if (r == 0)
		r = work_job_paths(job, err);
	if (r == 0)
		r = work_job_hide(job, err);
	if (r == 0)
		r = moved_begin(job->work, err);
	return r < 0 ? r : base_begin(job->work, err);
}

/* Hide what has appeared in the project since. A copy is still what it was. */
static int work_job_hide_again(struct work_job *job, struct warren_error *err)
{
	struct work *w = job->work;

	if (!work_is_prepared(w))
		return error_set(
			err, EINVAL,
			"work '%s' was interrupted before its files were hidden, "
			"and nothing has run in it: remove it with 'warren work "
			"--remove %s'",
			w->id, w->id);
	return w->mode == WORK_OVERLAY ? work_job_hide(job, err) : 0;
}

/* The record has what the command line does not say. */
static int work_job_resume(struct work_job *job, struct warren_error *err)
{
	struct run_options *o = &job->options.run;
	struct work *w;
	int r = work_open(job->options.resume, true, &job->work, err);

	if (r == 0)
		r = work_project(job->work, err);
	if (r == 0)
		r = works_settle(job->work->project, job->work->id, err);
	if (r < 0)
		return r;
	w = job->work;
	job->project = strdup(w->project);
	/* Whether the user or the project chose it is not known any more. */
	o->image_of_project = !o->image;
	if (!o->image && w->image)
		o->image = strdup(w->image);
	if (!job->project || (!o->image && w->image))
		return error_errno(err, ENOMEM, "resume a work");
	o->workdir = w->workdir;
	if (job->argv == work_shell && w->argv && w->argv[0])
		job->argv = (const char *const *)w->argv;
	w->pid = getpid();
	w->ended_ns = 0;
	r = work_job_hide_again(job, err);
	if (r == 0)
		r = base_renew(w, err);
	if (r == 0)
		r = work_record_save(w, err);
	if (r == 0)
		r = work_job_paths(job, err);
	return r < 0 ? r : base_begin(w, err);
}

/* That of git, the variables of the project, and then those of the user. */
static int work_job_env(struct work_job *job, struct warren_error *err)
{
	struct env_list *own = &job->options.run.env, all = { 0 };
	int r = env_list_add(&all, GIT_IDENTITY_ENV, err);

	for (char **v = job->ready.env; r == 0 && v && *v; v++)
		r = env_list_add(&all, *v, err);
	if (r == 0)
		r = env_list_add_all(&all, own, err);
	if (r < 0) {
		env_list_done(&all);
		return r;
	}
	env_list_done(own);
	*own = all;
	return 0;
}

/* Run the project's commands of each start first, as one script. */
static int work_job_starts(struct work_job *job, struct warren_error *err)
{
	size_t n = 0;

	job->starts = setup_ready_starts(&job->ready);
	if (!job->starts)
		return 0;
	while (job->argv[n])
		n++;
	job->start_argv = calloc(n + 5, sizeof(*job->start_argv));
	if (!job->start_argv)
		return error_errno(err, ENOMEM, "start the command");
	job->start_argv[0] = "/bin/sh";
	job->start_argv[1] = "-c";
	job->start_argv[2] = job->starts;
	job->start_argv[3] = "sh";
	(void)memcpy(job->start_argv + 4, job->argv, n * sizeof(*job->argv));
	job->argv = job->start_argv;
	return 0;
}

/* The layers over the project: the hidden files, and what the setup created. */
static int work_job_layers(struct work_job *job, struct warren_error *err)
{
	char **made = job->ready.project_layers;
	size_t n = 0;

	while (made && made[n])
		n++;
	job->layers = calloc(n + 2, sizeof(*job->layers));
	if (!job->layers)
		return error_errno(err, ENOMEM, "list the layers");
	job->layers[0] = job->hide;
	for (size_t i = 0; i < n; i++)
		job->layers[i + 1] = made[i];
	return 0;
}

/* The image and the path inside may be those that the project requests. */
static int work_job_record(struct work_job *job, struct warren_error *err)
{
	struct run_options *o = &job->options.run;
	struct work *w = job->work;

	/* The setup has it already; it is pulled again only if it has been removed.
	 */
	o->image_of_project |= !o->image;
	if (o->pull == PULL_ALWAYS)
		o->pull = PULL_MISSING;
	free(o->image);
	o->image = job->ready.image ? strdup(job->ready.image) : NULL;
	o->user = job->ready.user;
	o->workdir = job->ready.workdir;
	if (!o->image && job->ready.image)
		return error_errno(err, ENOMEM, "record the work");
	if (!w || (strcmp(w->workdir, o->workdir) == 0 && !o->image))
		return 0;
	free(w->workdir);
	free(w->image);
	w->workdir = strdup(o->workdir);
	w->image = o->image ? strdup(o->image) : NULL;
	return w->workdir ? work_record_save(w, err)
			  : error_errno(err, ENOMEM, "record the work");
}

/* Make the environment of the project, or find it. */
static int work_job_setup(struct work_job *job, struct warren_error *err)
{
	AUTO_CLOSE int dir = open(job->project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct setup_ready_options options = {
		.command = "work",
		.project = job->project,
		.project_fd = dir,
		.options = &job->options.run,
		.hide = job->hide,
		.hidden = job->work ? job->work->hidden : NULL,
		.skip = job->options.no_setup || !job->work,
		.yes = job->options.yes,
		.starts = true,
		.signal = &job->signal,
	};
	int r = dir < 0 ? error_errno(err, errno, "open '%s'", job->project)
			: setup_ready(&options, &job->ready, err);

	if (r == 0)
		r = work_job_record(job, err);
	if (r == 0)
		r = work_job_env(job, err);
	if (r == 0)
		r = work_job_starts(job, err);
	if (r == 0 && job->hide)
		r = work_job_layers(job, err);
	/* From now on, there may be changes. */
	return r == 0 && job->work ? work_prepared(job->work, err) : r;
}

static int work_job_begin(struct work_job *job, struct warren_error *err)
{
	struct run_options *o = &job->options.run;
	int r;

	if (job->options.resume)
		return work_job_resume(job, err);
	r = works_settle(job->project, NULL, err);
	if (r < 0)
		return r;
	if (!o->quiet)
		work_project_say(job->project, job->options.mode == WORK_OVERLAY);
	if (job->options.mode != WORK_BIND)
		return work_job_create(job, err);
	if (!o->quiet)
		message_say("work",
			    "--mode bind: the command changes the files of '%s' itself",
			    job->project);
	job->source = strdup(job->project);
	r = job->source ? 0 : error_errno(err, ENOMEM, "name the project");
	return r;
}

/* ---------------------------------------------------------------- the sandbox */

static int work_job_mounts(struct work_job *job, struct warren_error *err)
{
	const struct run_options *o = &job->options.run;
	struct mount_list *list = &job->mounts;

	int r = git_identity_write(&job->git, job->project,
				   job->work ? job->work->dir : "/tmp", &job->identity,
				   err);

	if (r < 0)
		return r;
	/* With the project, and the identity. */
	if (o->mounts.n + job->ready.plan.n_mounts + 2 > ARRAY_SIZE(list->v))
		return error_set(err, E2BIG, "too many mounts");
	list->v[list->n++] = (struct warren_mount){
		.source = job->source,
		/* The checked directory, even if the path now refers to another one. */
		.source_fd = job->work && job->work->mode == WORK_OVERLAY
				     ? job->work->project_fd
				     : 0,
		.target = o->workdir,
		.writes = job->writes,
		.layers = job->layers,
		.below =
			job->writes ? (const char *const *)job->ready.below_layers : NULL,
	};
	list->v[list->n++] = (struct warren_mount){
		.source = job->identity,
		.target = GIT_IDENTITY_TARGET,
		.read_only = true,
	};
	for (size_t i = 0; i < job->ready.plan.n_mounts; i++)
		list->v[list->n++] = (struct warren_mount){
			.target = job->ready.plan.mounts[i].target,
			.size = job->ready.plan.mounts[i].size,
		};
	for (size_t i = 0; i < o->mounts.n; i++) {
		const struct warren_mount *m = &o->mounts.v[i];

		if (m->volume)
			return error_set(err, EINVAL,
					 "volume '%s' needs the service; for a "
					 "directory, write ./%s",
					 m->source, m->source);
		if (strcmp(m->target, o->workdir) == 0)
			return error_set(err, EINVAL,
					 "'%s' is where the project is: use another path",
					 m->target);
		list->v[list->n++] = *m;
	}
	return 0;
}

/* A kernel or filesystem without what the mode needs; another mode may work. */
static void work_job_advise(const struct work_job *job, struct warren_error *err)
{
	size_t n = strlen(err->msg);

	if (err->code == EOPNOTSUPP && job->work && job->work->mode == WORK_OVERLAY)
		(void)snprintf(err->msg + n, sizeof(err->msg) - n,
			       "; --mode copy works on a copy of the project");
}

static void work_job_forget_identity(struct work_job *job)
{
	if (job->identity)
		(void)unlink(job->identity);
	free(job->identity);
	job->identity = NULL;
}

static bool work_job_is_host(const struct work_job *job)
{
	const char *image = job->options.run.image;

	return !image || strcmp(image, "host") == 0;
}

/* Run the command; *@ret_started: it was started, so there may be changes. */
static int work_job_sandbox(struct work_job *job, bool *ret_started)
{
	const struct work_sandbox_options options = {
		.command = "work",
		.options = &job->options.run,
		.mounts = job->mounts.v,
		.n_mounts = job->mounts.n,
		.layers = (const char *const *)job->ready.root_layers,
		.single = true,
		.ports = job->ready.plan.ports,
		.n_ports = job->ready.plan.n_ports,
	};
	struct warren_error err = WARREN_ERROR_INIT;
	struct work_sandbox *sb = NULL;
	struct warren_result result = { 0 };
	bool killed = false;
	int status;

	if (work_sandbox_open(&options, &sb, &job->signal, &err) < 0) {
		work_job_advise(job, &err);
		return work_job_fail(&err, STATUS_FAILED);
	}
	if (work_sandbox_exec(sb, &(struct work_exec){ .argv = job->argv, .output = -1 },
			      &result, &err) < 0) {
		status = work_job_fail(&err, result_exec_status(err.code));
		/* In other images, such directories have the programs of the image. */
		if (err.code == ENOENT && work_job_is_host(job))
			work_missing_say(job->argv[0], job->project);
	} else {
		*ret_started = true;
		job->signal = work_sandbox_signal(sb, &killed);
		status = killed ? STATUS_SIGNAL + job->signal : result_status(&result);
	}
	sb = work_sandbox_close(sb);
	work_job_forget_identity(job);
	return status;
}

/* Say what happens to the changes when a signal arrives while no command runs. */
static void work_job_say_at_signal(const struct work_job *job)
{
	const struct work *w = job->work;
	char text[1024];

	if (!w || job->options.no_sync)
		(void)snprintf(text, sizeof(text), "warren work: interrupted\n");
	else
		work_decide_kept(w,
				 "interrupted; changes that were not accepted are kept",
				 text, sizeof(text));
	work_signals_say(text);
}

static int work_job_decide(struct work_job *job, int status)
{
	const struct work_cli_options *o = &job->options;
	struct work_decision how = {
		.action = o->no_sync ? WORK_DISCARD
			  : o->sync  ? WORK_ACCEPT
			  : o->keep  ? WORK_KEEP
				     : WORK_ASK,
		.quiet = o->run.quiet,
		.signal = &job->signal,
	};
	struct warren_error err = WARREN_ERROR_INIT;

	/* What was interrupted is not accepted without a question, and there is none. */
	if (job->signal && how.action != WORK_DISCARD)
		how.action = WORK_KEEP;
	if (work_decide(TAKE_PTR(job->work), status, &how, &err) < 0)
		return work_job_fail(&err, status ? status : STATUS_FAILED);
	/* A command may end as it likes after a signal, but nothing was successful. */
	return job->signal && (status == 0 || how.action == WORK_ASK)
		       ? STATUS_SIGNAL + job->signal
		       : status;
}

static int work_job_run(struct work_job *job)
{
	const struct work_cli_options *o = &job->options;
	struct warren_error err = WARREN_ERROR_INIT;
	bool started = false;
	int status = STATUS_FAILED, r;

	work_job_say_at_signal(job);
	work_signals_begin();
	if (!o->resume) /* otherwise, the project is not known yet */
		git_identity_ask(&job->git, job->project);
	r = work_job_begin(job, &err);
	if (r == 0 && o->resume)
		work_job_say_at_signal(job);
	if (r == 0)
		r = work_job_setup(job, &err);
	if (r == 0)
		r = work_job_mounts(job, &err);
	if (r == 0)
		work_job_say_at_signal(job);
	if (r < 0)
		status = work_job_fail(&err, STATUS_FAILED);
	else
		status = work_job_sandbox(job, &started);
	if (!started && job->signal)
		status = STATUS_SIGNAL + job->signal;
	if (!job->work)
		return status;
	/* Nothing has run in a new work, so nothing is lost. */
	if (!started && !o->resume) {
		if (work_remove(TAKE_PTR(job->work), &err) < 0)
			(void)work_job_fail(&err, status);
		return status;
	}
	if (r < 0) { /* it was not run again: it stays as it was */
		if (job->signal)
			work_decide_say_kept(job->work);
		job->work = work_close(job->work);
		return status;
	}
	return work_job_decide(job, status);
}

static void work_job_done(struct work_job *job)
{
	git_identity_done(&job->git);
	work_job_forget_identity(job);
	setup_ready_done(&job->ready);
	free(job->starts);
	free(job->start_argv);
	free(job->layers);
	free(job->project);
	free(job->source);
	free(job->writes);
	free(job->hide);
	work_job_forget_identity(job);
	work_hidden_done(&job->hidden);
	job->work = work_close(job->work);
	work_options_done(&job->options);
}

static int cmd_work(int argc, char **argv)
{
	struct work_job job = { .argv = work_shell };
	struct run_options *o = &job.options.run;
	struct warren_error err = WARREN_ERROR_INIT;
	const char *name;
	int first = 0, status = 0;

	if (!command_options(&work_work, argc, argv, &job.options, &first, &status)) {
		work_options_done(&job.options);
		return status;
	}
	o->interactive = true;
	o->tty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	name = TAKE_PTR(o->name); /* that of the work, not of a sandbox of the service */
	if (job.options.list && argv[first]) {
		(void)error_set(&err, EINVAL, "--list takes no operands");
		status = work_job_fail(&err, STATUS_FAILED);
	} else if (job.options.list || job.options.remove)
		status = job.options.list ? work_list_print(job.options.json)
					  : work_list_remove(job.options.remove,
							     argv + first, o->quiet);
	else if (work_job_operands(&job, argv, argc, first, &err) < 0 ||
		 run_options_finish(o, &err) < 0)
		status = work_job_fail(&err, STATUS_FAILED);
	else {
		o->name = name;
		status = work_options_check(&job.options, &err) < 0
				 ? work_job_fail(&err, STATUS_FAILED)
				 : work_job_run(&job);
	}
	work_job_done(&job);
	return status;
}

const struct command work_work = {
	.name = "work",
	.summary = "Run a command on a project in a sandbox.",
	.about =
		"PATH is the directory of the project (default: the current one); the default command\n"
		"is a shell. The changes that the command makes are kept apart from the project.\n\n"
		"Exit status: the command's own; 124 after a timeout, 125 when Warren failed,\n"
		"126 when the command cannot be executed, 127 when it does not exist, 128+N when\n"
		"signal N ended it.\n",
	.opts = &work_opts,
	.run = cmd_work,
};
