/* SPDX-License-Identifier: Apache-2.0 */
/* build_options.c - the options of `warren image build` */
#include "cli/build_options.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/utf8.h"
#include "cli/common_options.h"

#define FIELD(name) offsetof(struct build_options, name)

static int build_add_word(void *field, const char *value, struct warren_error *err)
{
	struct build_words *words = field;

	if (!*value)
		return error_set(err, EINVAL, "is empty");
	if (!utf8_valid(value, strlen(value)))
		return error_set(err, EINVAL, "is not text in UTF-8");
	if (words->n == BUILD_WORDS_MAX)
		return error_set(err, E2BIG, "is given more than %d times",
				 BUILD_WORDS_MAX);
	words->v[words->n++] = value;
	return 0;
}

/* Progress is always plain text. */
static int build_set_progress(void *field, const char *value, struct warren_error *err)
{
	if (strcmp(value, "plain") != 0 && strcmp(value, "auto") != 0)
		return error_set(err, EINVAL, "'%s' is not plain or auto", value);
	*(const char **)field = value;
	return 0;
}

#define BUILD_LIMIT(...) OPT_LIMIT("Limits of RUN", FIELD(limits), __VA_ARGS__)

/* clang-format off */
static const struct opt build_table[] = {
	{ NULL, "file", 'f', "FILE", "./Dockerfile.dev",
	  "the Dockerfile (default: CONTEXT/Dockerfile; -: stdin)",
	  opt_text, FIELD(file) },
	{ NULL, "tag", 't', "REFERENCE", "mine:1.0",
	  "name of the image (repeatable)", build_add_word, FIELD(tags) },
	{ NULL, "build-arg", 0, "NAME[=VALUE]", "VERSION=1.2",
	  "value of an ARG; without a value, the caller's variable", build_add_word,
	  FIELD(args) },
	{ NULL, "target", 0, "STAGE", "test",
	  "stage to build (default: the last)", opt_text, FIELD(target) },
	{ NULL, "label", 0, "NAME[=VALUE]", "team=search",
	  "add a label to the image (repeatable)", build_add_word, FIELD(labels) },
	{ NULL, "secret", 0, "id=ID,src=FILE", "id=token,src=./token",
	  "file for mounts of type secret (repeatable)", build_add_word,
	  FIELD(secrets) },
	{ NULL, "allow-dir", 0, NULL, NULL,
	  "let the Dockerfile read directories (dir:PATH)", opt_flag,
	  FIELD(allow_dir) },
	{ NULL, "context-layer", 0, "DIR", "./hide",
	  "directory over the context, whose whiteouts hide files",
	  opt_text, FIELD(context_layer) },
	{ NULL, "cache-scope", 0, "NAME", "my-project",
	  "share caches only with builds of this scope",
	  opt_text, FIELD(cache_scope) },
	{ NULL, "for-project", 0, NULL, NULL,
	  "pull only from public addresses and trusted registries",
	  opt_flag, FIELD(for_project) },
	{ NULL, "no-cache", 0, NULL, NULL,
	  "execute all steps again", opt_flag, FIELD(no_cache) },
	{ NULL, "pull", 0, NULL, NULL,
	  "pull the images of FROM even if they exist", opt_flag, FIELD(pull) },
	{ NULL, "iidfile", 0, "FILE", "./image-id",
	  "write the id of the image to a file", opt_text, FIELD(iidfile) },
	{ NULL, "progress", 0, "HOW", "plain",
	  "plain (the default)", build_set_progress, FIELD(progress) },
	{ NULL, OPT_QUIET("print only the id, no progress", FIELD(quiet)) },
	{ NULL, OPT_JSON("print one JSON object for each name, no progress", FIELD(json)) },
	{ "Network of RUN", OPT_NETWORK(FIELD(network.mode)) },
	{ NULL, OPT_ALLOW(FIELD(network.rules)) },
	{ NULL, OPT_DENY(FIELD(network.rules)) },
	SPEC_LIMITS(BUILD_LIMIT)
};
/* clang-format on */

const struct opts build_opts = {
	.table = build_table,
	.n = ARRAY_SIZE(build_table),
	.operands = "CONTEXT",
	.example = "warren image build -t mine:1.0 .",
	.mixed = true,
};

/* The options that a service does not have. */
int build_options_check_service(const struct build_options *o, struct warren_error *err)
{
	const struct {
		const char *name, *why;
		bool given;
	} local[] = {
		{ "secret",
		  "a service does not accept secrets of builds; build on its machine, "
		  "without WARREN_HOST",
		  o->secrets.n > 0 },
		{ "allow-dir", "a build cannot use directories of the service's machine",
		  o->allow_dir },
		{ "for-project", "the service decides which registries it trusts",
		  o->for_project },
		{ "cache-scope", "the service has a cache for each tenant",
		  o->cache_scope != NULL },
		{ "context-layer", "the directory is not on the service's machine",
		  o->context_layer != NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(local); i++)
		if (local[i].given)
			return error_set(err, ENOTSUP,
					 "--%s does not work with WARREN_HOST: %s",
					 local[i].name, local[i].why);
	return 0;
}

int build_options_read(int at, const char *path, size_t max, char **ret, size_t *ret_size,
		       struct warren_error *err)
{
	AUTO_CLOSE int fd = strcmp(path, "-") == 0
				    ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
				    : openat(at, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	AUTO_FREE char *text = fd < 0 ? NULL : malloc(max + 1);
	ssize_t n;

	if (fd < 0)
		return error_errno(err, errno, "open '%s'", path);
	n = text ? fd_read_all(fd, text, max + 1) : -ENOMEM;
	if (n < 0)
		return error_errno(err, (int)-n, "read '%s'", path);
	if ((size_t)n > max)
		return error_set(err, EFBIG, "'%.300s' is larger than %zu bytes", path,
				 max);
	*ret = TAKE_PTR(text);
	*ret_size = (size_t)n;
	return 0;
}

int build_options_write_id(const struct build_options *o, const char *id,
			   struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	int r;

	if (!o->iidfile)
		return 0;
	fd = open(o->iidfile, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	r = fd < 0 ? -errno : fd_write_all(fd, id, strlen(id));
	return r < 0 ? error_errno(err, -r, "write '%s'", o->iidfile) : 0;
}
