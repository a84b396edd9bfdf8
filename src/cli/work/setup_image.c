/* SPDX-License-Identifier: Apache-2.0 */
/* setup_image.c - identify, pull or build the image of a project */
#include "cli/work/setup_image.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/default_path.h"
#include "base/hex.h"
#include "base/libexec.h"
#include "base/strv.h"
#include "cli/run_pull.h"
#include "cli/run_signal.h"
#include "cli/work/work_signal.h"
#include "image/store.h"
#include "setup/tree.h"

/* ----------------------------------------------------------- identification */

/* What changes when packages are installed or upgraded. */
static const char *const image_places[] = {
	"usr",
	"usr/bin",
	"usr/lib",
	"usr/local/bin",
	"usr/local/lib",
	"opt",
	"bin",
	"var/lib/dpkg/status",
	"lib/apk/db/installed",
	"var/lib/rpm",
	"var/lib/pacman/local",
};

static int image_fingerprint(const char *kind, const char *root, struct setup_image *ret,
			     struct warren_error *err)
{
	struct sha256 h = SHA256_INIT;
	AUTO_CLOSE int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char digits[SHA256_DIGITS + 1];

	if (fd < 0)
		return error_errno(err, errno, "open %s", root);
	sha256_text(&h, root);
	for (size_t i = 0; i < ARRAY_SIZE(image_places); i++) {
		struct stat st = { 0 };
		char text[128];

		if (fstatat(fd, image_places[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		(void)snprintf(text, sizeof(text), "%zu %ju %ju %jd.%09ld", i,
			       (uintmax_t)st.st_dev, (uintmax_t)st.st_ino,
			       (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
		sha256_text(&h, text);
	}
	sha256_end(&h, digits);
	(void)snprintf(ret->id, sizeof(ret->id), "%s:%s", kind, digits);
	return strv_add(&ret->env, "PATH=" DEFAULT_PATH) < 0
		       ? error_errno(err, ENOMEM, "inspect the image")
		       : 0;
}

static int image_stored(const char *image, struct setup_image *ret,
			struct warren_error *err)
{
	AUTO_FREE char *dir = NULL;
	struct store_image found;
	struct store store;
	bool path = false;
	int r = store_state_dir(&dir, err);

	if (r == 0)
		r = store_open(dir, false, &store, err);
	if (r < 0)
		return r;
	r = store_find(&store, image, &found, err);
	store_close(&store);
	if (r < 0)
		return r;
	(void)snprintf(ret->id, sizeof(ret->id), "%s", found.id);
	for (char **v = found.env; r == 0 && *v; v++) {
		path |= strncmp(*v, "PATH=", 5) == 0;
		r = strv_add(&ret->env, *v);
	}
	if (r == 0 && !path)
		r = strv_add(&ret->env, "PATH=" DEFAULT_PATH);
	store_image_done(&found);
	return r < 0 ? error_errno(err, ENOMEM, "inspect the image") : 0;
}

int setup_image_find(const char *image, struct setup_image *ret, struct warren_error *err)
{
	struct setup_image i = { .id = "" };
	int r;

	if (!image || strcmp(image, "host") == 0)
		r = image_fingerprint("host", "/", &i, err);
	else if (strncmp(image, "dir:", 4) == 0)
		r = image_fingerprint("dir", image + 4, &i, err);
	else
		r = image_stored(image, &i, err);
	if (r < 0)
		setup_image_done(&i);
	else
		*ret = i;
	return r;
}

void setup_image_done(struct setup_image *i)
{
	i->env = strv_free(i->env);
}

/* A signal ends the child first, and then does what it does without one. */
static int setup_image_pull(const struct run_options *pull, struct warren_error *err)
{
	sigset_t set, before;
	int signals, r;

	(void)sigprocmask(SIG_SETMASK, NULL, &before);
	signals_block(false, &set);
	signals = signals_open(&set, err);
	r = signals < 0 ? signals : run_pull(pull, signals, err);
	if (signals >= 0)
		(void)close(signals);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	if (r <= 0)
		return r;
	(void)raise(r);
	return error_set(err, EINTR, "interrupted while the image was pulled");
}

int setup_image_get(const struct run_options *o, const char *image,
		    struct setup_image *ret, struct warren_error *err)
{
	struct run_options pull = { .image = (char *)(uintptr_t)image,
				    .pull = o->pull,
				    .image_of_project = !o->image || o->image_of_project,
				    .platform = o->platform,
				    .quiet = o->quiet };
	bool first = image && run_pull_first(&pull);
	int r;

	if (!o->image && image && ref_is_of_project(image))
		return error_set(err, EPERM,
				 "the image '%s' was built for a project: only --image "
				 "can choose it",
				 image);
	r = first ? -ENOENT : setup_image_find(image, ret, err);
	if (r != -ENOENT || !image || (!first && !run_pull_after(&pull, r)))
		return r;
	r = setup_image_pull(&pull, err);
	return r < 0 ? r : setup_image_find(image, ret, err);
}

/* ------------------------------------------------------------------- build */

/* The name of the built image: a sum over what was given to the build. */
static int image_build_name(int project_fd, const char *project,
			    const struct setup_build *b, char **ret,
			    struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	struct sha256 h = SHA256_INIT;
	char digits[SHA256_DIGITS + 1];
	int r = setup_tree_read(project_fd, b->dockerfile, &text, NULL, err);

	if (r < 0)
		return r;
	sha256_text(&h, project);
	sha256_text(&h, b->dockerfile);
	sha256_text(&h, text);
	sha256_text(&h, b->context);
	sha256_text(&h, b->target ? b->target : "");
	for (char **v = b->args; v && *v; v++)
		sha256_text(&h, *v);
	sha256_end(&h, digits);
	if (asprintf(ret, REF_OF_PROJECT ":%.16s", digits) < 0) {
		*ret = NULL;
		return error_errno(err, ENOMEM, "build the image");
	}
	return 0;
}

static int image_build_add(char ***argv, const char *option, const char *value)
{
	int r = strv_add(argv, option);

	return r == 0 ? strv_add(argv, value) : r;
}

/*
 * The part of @hide, the layer that hides files of the project, that is over the context.
 * 1: there is one; 0: nothing in the context is hidden. -EACCES: the context is hidden.
 */
static int image_build_layer(int project_fd, const char *context, const char *hide,
			     char **ret)
{
	AUTO_FREE char *project = setup_tree_real(project_fd, ".");
	size_t n = project ? strlen(project) : 0;
	AUTO_CLOSE int layer = open(hide, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st = { .st_mode = S_IFDIR };
	const char *below = context;
	AUTO_FREE char *path = NULL;

	if (!project || strncmp(context, project, n) != 0 ||
	    (context[n] && context[n] != '/'))
		return -ESTALE;
	if (layer < 0)
		return -errno;
	/* Each directory on the way may be hidden, or have nothing hidden in it. */
	for (below += n; *below;) {
		size_t part;

		below += strspn(below, "/");
		part = strcspn(below, "/");
		free(path);
		path = strndup(context + n + 1, (size_t)(below - context) - n - 1 + part);
		if (!path)
			return -ENOMEM;
		below += part;
		if (fstatat(layer, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT ? 0 : -errno;
		if (!S_ISDIR(st.st_mode))
			return -EACCES;
	}
	if (asprintf(ret, "%s/%s", hide, path ? path : "") < 0)
		return -ENOMEM;
	return 1;
}

/* Add the rules of the user as the options that they come from: for a host, or a port. */
static int image_build_rules(char ***argv, const char *option, const struct rules *rules)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < rules->n; i++) {
		const struct rule *rule = &rules->list[i];
		char host[HOST_TEXT_SIZE], text[HOST_TEXT_SIZE + 16];
		bool brackets;

		host_text(&rule->host, host);
		brackets = rule->n_ports && strchr(host, ':');
		if (rule->n_ports)
			(void)snprintf(text, sizeof(text), "%s%s%s:%u",
				       brackets ? "[" : "", host, brackets ? "]" : "",
				       rule->ports[0].low);
		r = image_build_add(argv, option, rule->n_ports ? text : host);
	}
	return r;
}

/*
 * Projects do not share caches, nor with builds of the user: what one of them leaves
 * there decides what the others install.
 */
static int image_build_scope(char ***argv, const char *project)
{
	struct sha256 h = SHA256_INIT;
	char digits[SHA256_DIGITS + 1];

	sha256_text(&h, project);
	sha256_end(&h, digits);
	return image_build_add(argv, "--cache-scope", digits);
}

static int image_build_begin(const struct run_options *o, const char *network, bool quiet,
			     char ***argv)
{
	int r = image_build_add(argv, "warren-image", "build");

	if (r == 0)
		r = image_build_add(argv, "--network", network);
	if (r == 0)
		r = image_build_rules(argv, "--allow", &o->network.rules.allow);
	if (r == 0)
		r = image_build_rules(argv, "--deny", &o->network.rules.deny);
	return r == 0 && quiet ? strv_add(argv, "--quiet") : r;
}

static int image_build_argv(int project_fd, const char *project,
			    const struct setup_build *b, const char *name,
			    const char *hide, char ***argv)
{
	AUTO_FREE char *layer = NULL;
	/* Links may not lead out of the project: the build reads with the user's rights.
	 */
	AUTO_FREE char *file = setup_tree_real(project_fd, b->dockerfile);
	AUTO_FREE char *context =
		setup_tree_real(project_fd, b->context[0] ? b->context : ".");
	int r = file && context ? 0 : -ENOENT;

	if (r == 0)
		r = strv_add(argv, "--for-project");

	if (r == 0 && hide)
		r = image_build_layer(project_fd, context, hide, &layer);
	if (r == 1)
		r = image_build_add(argv, "--context-layer", layer);
	if (r == 0)
		r = image_build_add(argv, "--file", file);
	if (r == 0)
		r = image_build_add(argv, "--tag", name);
	if (r == 0)
		r = image_build_scope(argv, project);
	if (r == 0 && b->target)
		r = image_build_add(argv, "--target", b->target);
	for (char **v = b->args; r == 0 && v && *v; v++)
		r = image_build_add(argv, "--build-arg", *v);
	return r == 0 ? image_build_add(argv, "--", context) : r;
}

/* stdout belongs to the command that will run later. */
static int image_build_run(char **argv, bool quiet, struct warren_error *err)
{
	posix_spawn_file_actions_t actions;
	char path[PATH_MAX];
	int status = 0, r = libexec_find("warren-image", path, err);
	pid_t pid = 0;

	if (r < 0)
		return r;
	if (posix_spawn_file_actions_init(&actions) != 0)
		return error_errno(err, ENOMEM, "start %s", path);
	r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
					     O_RDONLY, 0);
	if (r == 0)
		r = quiet ? posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO,
							     "/dev/null", O_WRONLY, 0)
			  : posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO,
							     STDOUT_FILENO);
	if (r == 0)
		r = posix_spawn(&pid, path, &actions, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return error_errno(err, r, "start %s", path);
	work_signals_child(pid);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	work_signals_child(0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0
		       ? 0
		       : error_set(err, EIO,
				   "the image of the project could not be built; choose "
				   "another one with --image");
}

int setup_image_build(int project_fd, const char *project, const struct setup_build *b,
		      const char *hide, const struct run_options *o, const char *network,
		      char **ret, struct warren_error *err)
{
	bool quiet = o->quiet;
	AUTO_FREE char *name = NULL;
	char AUTO_STRV **argv = NULL;
	struct warren_error missing = WARREN_ERROR_INIT;
	struct setup_image image;
	int r = image_build_name(project_fd, project, b, &name, err);

	if (r < 0)
		return r;
	/* Files of the context may have changed; unchanged steps are in the cache. */
	if (setup_image_find(name, &image, &missing) == 0) {
		setup_image_done(&image);
		quiet = true;
	}
	r = image_build_begin(o, network, quiet, &argv);
	if (r == 0)
		r = image_build_argv(project_fd, project, b, name, hide, &argv);
	if (r < 0)
		return error_errno(err, -r, "build the image from %s in '%s'",
				   b->dockerfile, b->context);
	r = image_build_run(argv, quiet, err);
	if (r == 0)
		*ret = TAKE_PTR(name);
	return r;
}
