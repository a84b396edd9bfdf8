/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - the stages of a Dockerfile, and which of them a target needs */
#ifndef DOCKERFILE_PLAN_H
#define DOCKERFILE_PLAN_H

#include "dockerfile/state.h"

#define PLAN_STAGES_MAX 200
#define PLAN_NO_STAGE   SIZE_MAX

struct plan_stage {
	size_t from;       /* its FROM instruction */
	size_t end;        /* the first instruction after the stage */
	char *name;        /* after AS, in lower case; NULL: none */
	char *base;        /* its image; "scratch": empty */
	size_t base_stage; /* the stage that it begins with; PLAN_NO_STAGE: an image */
	bool needed;
	unsigned steps; /* FROM, RUN, COPY, ADD and WORKDIR: the steps that progress
			   output shows */
};

struct plan {
	struct plan_stage *stages;
	size_t n;
	size_t target;
	struct dockerfile_args args;
};

/*
 * @target is the name or number of a stage; NULL: the last. @given are the arguments of
 * the build (copied). @platform is this machine's: "linux/amd64". plan_done() frees the
 * result.
 */
int plan_make(const struct dockerfile *d, const char *target, char *const *given,
	      const char *platform, struct plan *ret,
	      struct warren_error *err) MUST_CHECK;
void plan_done(struct plan *p);

/*
 * Find the stage before @stage that "--from=@from" refers to; PLAN_NO_STAGE: @from is an
 * image.
 */
size_t plan_find_stage(const struct plan *p, size_t stage, const char *from);

/* Return whether progress output shows the instruction as a step. */
bool plan_is_step(const struct dockerfile_instruction *i);

#endif /* DOCKERFILE_PLAN_H */
