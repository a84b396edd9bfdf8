/* SPDX-License-Identifier: Apache-2.0 */
/* exec.h - the fields of a request to start an exec */
#ifndef API_V1_EXEC_H
#define API_V1_EXEC_H

#include "api/v1/v1.h"
#include "net/loop.h"

struct exec_wanted {
	struct exec_start start; /* points into the rest, and into the body */
	const char **argv;
	char **env_texts;
	char *input; /* what stdin begins with; NULL: nothing */
	size_t input_size;
};

/* 0, or why not, when a request wants more output kept than the service allows. */
int exec_check_output(const struct v1 *v1, const struct body *body,
		      struct api_error *err);
int exec_wanted_read(const struct config *cfg, const struct body *body,
		     struct exec_wanted *w, struct api_error *err);
void exec_wanted_done(struct exec_wanted *w);
/* "NAME=value" of the field `env`; each and the list to be freed. */
int exec_read_env(const struct body *body, char ***ret);

/* The object without its closing brace, so that more can follow. */
void show_exec_open(struct buf *out, struct exec *exec);

#endif /* API_V1_EXEC_H */
