/* SPDX-License-Identifier: Apache-2.0 */
/* run_options.h - the checked options of `warren run` */
#ifndef CLI_RUN_OPTIONS_H
#define CLI_RUN_OPTIONS_H

#include "cli/network_options.h"
#include "cli/opts.h"
#include "cli/run_env.h"
#include "cli/values.h"
#include "spec/limits.h"

#define PUBLISH_MAX 16

/* Published ports, each "[ADDRESS:]HOST:PORT". */
struct publish_list {
	const char *v[PUBLISH_MAX];
	size_t n;
};

struct run_options {
	char *image;           /* owned; a relative directory is made absolute */
	bool image_is_operand; /* given as IMAGE, without --image */
	const char *backend;   /* NULL: native, or the service's default */
	const char *tier;
	enum pull_when pull;
	bool image_of_project; /* not the user's choice: pulled with --for-project */
	const char *platform;
	const char *entrypoint; /* "": none */
	const char *hostname;
	const char *user;
	const char *workdir;
	struct env_list env; /* the command's environment, set by run_options_finish() */
	struct env_list env_file;
	struct env_list env_option; /* overrides env_file, in any order */
	struct mount_list mounts;
	struct network_options network;
	uint64_t limits[SPEC_LIMIT_MAX];
	uint64_t timeout_ms;
	bool read_only;
	bool interactive;
	bool tty;
	bool json;
	bool quiet;
	bool verbose;
	bool daemon;
	/* Only with the service: */
	const char *name;
	struct publish_list publish;
	bool detach;
	bool remove; /* --rm, which is the default unless --detach is given */
};

extern const struct opts run_opts;

/*
 * Take the image from @argv[*@first] if it is one, and advance *@first. After "--" or
 * --image, the word is a program. Otherwise only the syntax of the word matters, not
 * whether such an image or program exists: a word with a tag or a digest (python:3.12) is
 * an image. With --detach, the word is always an image.
 */
int run_options_take_image(struct run_options *o, char **argv, int argc, int *first,
			   struct warren_error *err) MUST_CHECK;
/* Return whether the run needs the service. */
bool run_options_service(const struct run_options *o);
/* Check combinations of options, and build the environment. */
int run_options_finish(struct run_options *o, struct warren_error *err) MUST_CHECK;
/* Return whether the image is in the store, rather than `host` or a directory. */
bool run_options_stored(const struct run_options *o);
void run_options_done(struct run_options *o);

#endif /* CLI_RUN_OPTIONS_H */
