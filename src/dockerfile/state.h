/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h - apply the instructions of a stage to the configuration of an image, and parse
 * its RUN, COPY and ADD instructions
 */
#ifndef DOCKERFILE_STATE_H
#define DOCKERFILE_STATE_H

#include <stdint.h>

#include "dockerfile/dockerfile.h"

enum dockerfile_state_limits {
	STATE_VARS_MAX = 4000,     /* entries of one list */
	STATE_BYTES_MAX = 2 << 20, /* of one list */
	STATE_MOUNTS_MAX = 32,     /* of one RUN */
};

struct dockerfile_health {
	char **test; /* {"NONE"}, {"CMD", ...} or {"CMD-SHELL", "..."}; NULL: not set */
	uint64_t interval, timeout, start_period, start_interval; /* nanoseconds */
	uint64_t retries;
};

/* Lists are NULL-terminated; NULL is the empty list. A NULL text is not set. */
struct dockerfile_state {
	char **env;  /* "name=value" */
	char **args; /* "name=value": arguments of the build that are in scope */
	char *user, *workdir, *stop_signal, *maintainer;
	char **shell; /* NULL: /bin/sh -c */
	char **cmd, **entrypoint;
	char **labels;  /* "name=value" */
	char **exposed; /* "80/tcp" */
	char **volumes;
	struct dockerfile_health health;
	bool cmd_is_own; /* this stage has set CMD; it is not from the base */
};

void dockerfile_state_done(struct dockerfile_state *s);
/* Copy the configuration, without arguments: for a stage on top of another. */
int dockerfile_state_copy(const struct dockerfile_state *s,
			  struct dockerfile_state *ret) MUST_CHECK;

/* The values of arguments: "name=value", NULL-terminated. */
struct dockerfile_args {
	char **given;    /* --build-arg */
	char **global;   /* of the ARG instructions before the first FROM */
	char **platform; /* TARGETPLATFORM and the like */
};

/* The value of "name=value" in @list; NULL: there is none. */
const char *dockerfile_var(char *const *list, const char *name, size_t n);
/* Set or replace a value. -E2BIG: the list is at its limit. */
int dockerfile_var_set(char ***list, const char *name, size_t n, const char *value);

/*
 * Apply an instruction to @s. RUN, COPY and ADD do nothing; FROM must not be passed.
 */
int dockerfile_apply(const struct dockerfile *d, const struct dockerfile_instruction *i,
		     const struct dockerfile_args *args, struct dockerfile_state *s,
		     struct warren_error *err) MUST_CHECK;

/* Apply an ARG before the first FROM to args->global. */
int dockerfile_apply_global(const struct dockerfile *d,
			    const struct dockerfile_instruction *i,
			    struct dockerfile_args *args,
			    struct warren_error *err) MUST_CHECK;

/* Expand a word of a FROM instruction; the caller frees *@ret. */
int dockerfile_expand_global(const struct dockerfile *d,
			     const struct dockerfile_args *args, const char *word,
			     char **ret, struct warren_error *err) MUST_CHECK;

/* Join two paths and remove ".", ".." and double slashes; the caller frees the result. */
char *dockerfile_join(const char *base, const char *path);

/* ------------------------------------------------------------ COPY and ADD */

struct dockerfile_file {
	char *name;
	char *data;
};

struct dockerfile_copy {
	char **sources;   /* paths or patterns, without heredocs */
	char *dest;       /* absolute; ends with '/' if the instruction says so */
	const char *from; /* NULL: the context; borrowed */
	char *owner;      /* "user:group"; NULL: not given */
	int mode;         /* -1: not given */
	bool unpack;      /* ADD: unpack archives */
	struct dockerfile_file *files; /* from heredocs */
	size_t n_files;
};

int dockerfile_copy_parse(const struct dockerfile *d,
			  const struct dockerfile_instruction *i,
			  const struct dockerfile_state *s, struct dockerfile_copy *ret,
			  struct warren_error *err) MUST_CHECK;
void dockerfile_copy_done(struct dockerfile_copy *c);

/* --------------------------------------------------------------------- RUN */

enum dockerfile_mount_type {
	DOCKERFILE_MOUNT_BIND,
	DOCKERFILE_MOUNT_CACHE,
	DOCKERFILE_MOUNT_TMPFS,
	DOCKERFILE_MOUNT_SECRET,
};

struct dockerfile_mount {
	enum dockerfile_mount_type type;
	char *target;   /* absolute */
	char *source;   /* bind: path in `from`, "/" is everything; cache: not used */
	char *from;     /* bind: stage or image; NULL: the context */
	char *id;       /* cache and secret */
	char *variable; /* secret: environment variable that also has it; NULL: none */
	uint64_t size;  /* tmpfs; 0: the default */
	bool read_only;
	bool required; /* secret */
};

struct dockerfile_run {
	char **argv;
	char **env;   /* arguments that the command sees as variables */
	char **proxy; /* the same, but not part of the cache key */
	char *script; /* file for the command, "#!..." from a heredoc; NULL: none */
	struct dockerfile_mount *mounts;
	size_t n_mounts;
	bool no_network; /* --network=none */
};

int dockerfile_run_parse(const struct dockerfile *d,
			 const struct dockerfile_instruction *i,
			 const struct dockerfile_args *args,
			 const struct dockerfile_state *s, struct dockerfile_run *ret,
			 struct warren_error *err) MUST_CHECK;
void dockerfile_run_done(struct dockerfile_run *r);

/* Return whether the name is that of a proxy argument, which needs no ARG instruction. */
bool dockerfile_is_proxy(const char *name, size_t n);

/* The path of dockerfile_run.script in the sandbox. */
#define DOCKERFILE_SCRIPT_PATH "/dev/shm/warren-heredoc"

#endif /* DOCKERFILE_STATE_H */
