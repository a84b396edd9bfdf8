/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build_options.h - the options of `warren image build`, which this machine or a service
 * executes
 */
#ifndef CLI_BUILD_OPTIONS_H
#define CLI_BUILD_OPTIONS_H

#include "cli/network_options.h"
#include "cli/opts.h"
#include "spec/limits.h"

#define BUILD_WORDS_MAX 256

/* Values of an option that can be repeated. */
struct build_words {
	const char *v[BUILD_WORDS_MAX + 1]; /* ends with NULL */
	size_t n;
};

struct build_options {
	const char *file, *target, *iidfile, *progress;
	struct build_words tags, args, labels, secrets;
	struct network_options network;
	uint64_t limits[SPEC_LIMIT_MAX];
	const char *context_layer; /* NULL: nothing is over the context */
	const char *cache_scope;   /* of steps and caches of mounts; NULL: of the user */
	bool for_project;          /* of FROM: pull_rules.for_project */
	bool allow_dir, no_cache, pull, quiet, json;
};

extern const struct opts build_opts;

/* -ENOTSUP: an option is given that a service does not have. */
int build_options_check_service(const struct build_options *o,
				struct warren_error *err) MUST_CHECK;
/*
 * Read the file @path, "-": stdin, of at most @max bytes. The caller frees *@ret. @at is
 * the directory that a relative path begins with.
 */
int build_options_read(int at, const char *path, size_t max, char **ret, size_t *ret_size,
		       struct warren_error *err) MUST_CHECK;
/* Write the id of the image to the file of --iidfile, if that is given. */
int build_options_write_id(const struct build_options *o, const char *id,
			   struct warren_error *err) MUST_CHECK;

#endif /* CLI_BUILD_OPTIONS_H */
