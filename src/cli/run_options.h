/* SPDX-License-Identifier: Apache-2.0 */
/* run_options.h - the checked options of `warren run` */
#ifndef CLI_RUN_OPTIONS_H
#define CLI_RUN_OPTIONS_H

#include "cli/opts.h"
#include "cli/run_env.h"
#include "cli/values.h"
#include "spec/limits.h"

#define PUBLISH_MAX 16

/* Ports, "[ADDRESS:]HOST:PORT" each. */
struct publish_list {
	const char *v[PUBLISH_MAX];
	size_t n;
};

struct run_options {
	char *image;         /* owned: a relative directory was made absolute */
	const char *backend; /* NULL: native, or the service's default */
	const char *tier;
	enum pull_when pull;
	const char *platform;
	const char *entrypoint; /* "": none */
	const char *hostname;
	const char *user;
	const char *workdir;
	struct env_list env; /* by run_options_finish(): what the command gets */
	struct env_list env_file;
	struct env_list env_option; /* outdoes the files, whatever the order */
	struct mount_list mounts;
	enum warren_network network;
	uint64_t limits[SPEC_LIMIT_MAX];
	uint64_t timeout_ms;
	bool read_only;
	bool interactive;
	bool tty;
	bool json;
	bool quiet;
	bool verbose;
	bool daemon;
	/* With the service only: */
	const char *name;
	struct publish_list publish;
	bool detach;
	bool remove; /* --rm: what happens anyway, unless it is detached */
};

extern const struct opts run_opts;

/*
 * The image, if @argv[*@first] is one: then *@first is the word behind it. After "--" or
 * --image it is a program. Else it is an image by its form alone, a tag or a digest
 * (python:3.12), so that nothing that is here or not decides; with --detach it always is.
 */
int run_options_take_image(struct run_options *o, char **argv, int argc, int *first,
			   struct warren_error *err) MUST_CHECK;
/* Does it take the service? */
bool run_options_service(const struct run_options *o);
/* What no single option can tell; and the environment is put together. */
int run_options_finish(struct run_options *o, struct warren_error *err) MUST_CHECK;
/* Is its image one of the store's, as opposed to `host` and directories? */
bool run_options_stored(const struct run_options *o);
void run_options_done(struct run_options *o);

#endif /* CLI_RUN_OPTIONS_H */
