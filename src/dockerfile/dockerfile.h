/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dockerfile.h - parse a Dockerfile into a list of instructions
 *
 * The syntax is that of BuildKit's Dockerfile frontend, version 1. Everything in this
 * folder is a pure function: nothing is read from or written to the system. Errors begin
 * with the name of the file and the number of the line: "Dockerfile:12: ...".
 *
 * parse.c uses lines.h (lines, continuations, comments, heredocs) and words.h (words,
 * JSON, variables). state.h applies instructions to an image's configuration, plan.h
 * decides which stages are built, and ignore.h reads .dockerignore.
 */
#ifndef DOCKERFILE_DOCKERFILE_H
#define DOCKERFILE_DOCKERFILE_H

#include "base/error.h"

enum dockerfile_limits {
	DOCKERFILE_SIZE_MAX = 1 << 20,
	DOCKERFILE_INSTRUCTIONS_MAX = 2000,
	DOCKERFILE_HEREDOCS_MAX = 100, /* of one instruction */
};

enum dockerfile_kind {
	DOCKERFILE_ADD,
	DOCKERFILE_ARG,
	DOCKERFILE_CMD,
	DOCKERFILE_COPY,
	DOCKERFILE_ENTRYPOINT,
	DOCKERFILE_ENV,
	DOCKERFILE_EXPOSE,
	DOCKERFILE_FROM,
	DOCKERFILE_HEALTHCHECK,
	DOCKERFILE_LABEL,
	DOCKERFILE_MAINTAINER,
	DOCKERFILE_RUN,
	DOCKERFILE_SHELL,
	DOCKERFILE_STOPSIGNAL,
	DOCKERFILE_USER,
	DOCKERFILE_VOLUME,
	DOCKERFILE_WORKDIR,
	DOCKERFILE_KIND_MAX,
};

struct dockerfile_heredoc {
	char *word; /* as in the instruction: "<<EOF" */
	char *name; /* "EOF" */
	char *data;
	bool expand; /* the name has no quotes: variables are replaced */
};

struct dockerfile_instruction {
	enum dockerfile_kind kind;
	unsigned line;
	char *text;   /* the whole instruction on one line, without heredocs */
	char **flags; /* "chown=1:1", without the dashes; NULL-terminated */
	/*
	 * The words, with quotes and variables. For ARG, ENV and LABEL: "name=value". For
	 * RUN, CMD and ENTRYPOINT in shell form, and instructions with one value: one
	 * word.
	 */
	char **args;
	bool json; /* the words are from a JSON array */
	struct dockerfile_heredoc *heredocs;
	size_t n_heredocs;
};

struct dockerfile {
	char *name;  /* for errors */
	char escape; /* '\\' or '`' */
	struct dockerfile_instruction *v;
	size_t n;
};

/* Parse @size bytes at @text. dockerfile_done() frees the result. */
int dockerfile_parse(const char *text, size_t size, const char *name,
		     struct dockerfile *ret, struct warren_error *err) MUST_CHECK;
void dockerfile_done(struct dockerfile *d);

/* The name of an instruction, such as "RUN". */
const char *dockerfile_kind_name(enum dockerfile_kind kind);

/* The value of a flag ("" if it has none); NULL: the instruction has no such flag. */
const char *dockerfile_flag(const struct dockerfile_instruction *i, const char *name);

/* Put "NAME:LINE: " in front of the message in @err; return -err->code. */
int dockerfile_error(const struct dockerfile *d, unsigned line, struct warren_error *err);

#endif /* DOCKERFILE_DOCKERFILE_H */
