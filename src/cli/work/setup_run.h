/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setup_run.h - prepare a project: find its layers, or run the steps that create them
 *
 *	struct setup_ready ready = SETUP_READY_INIT;
 *
 *	r = setup_ready(&(struct setup_ready_options){ .command = "work", .project = path,
 *		.project_fd = fd, .options = &o }, &ready, &err);
 *	... ready.image, .user, .workdir, .env; .root_layers for the root,
 *	    .project_layers over the project (below .writes and the hidden files), and
 *	    .below_layers below it ...
 *	setup_ready_done(&ready);	after the sandbox has ended
 *
 * The steps run in a separate sandbox, with the capability `packages`, what the user
 *allows or denies, and without the variables of the user. If the layers exist, only the
 *files that determine them are read. Two processes that need the same layers wait for
 *each other.
 */
#ifndef CLI_WORK_SETUP_RUN_H
#define CLI_WORK_SETUP_RUN_H

#include "cli/run_options.h"
#include "cli/work/setup_image.h"
#include "setup/store.h"

struct setup_ready_options {
	const char *command; /* its name in messages: "work" */
	const char *project; /* an absolute path without links */
	int project_fd;
	/*
	 * Image, user, workdir and limits that the user gave take precedence over those
	 * of the project; variables of -e fill ${localEnv:NAME}; --allow and --deny apply
	 * to the steps, too; so does --network, unless it is that of a command. Checked
	 * by run_options_finish().
	 */
	const struct run_options *options;
	/* The layer over the project that hides files, and work_record.hidden; NULL:
	 * none. */
	const char *hide, *hidden;
	bool skip;    /* --no-setup: read and run nothing; there are no layers */
	bool yes;     /* approve setup.sh, `make setup` and .starts without asking */
	bool starts;  /* a command follows: ask about postStartCommand, and name its
			 variables */
	bool refresh; /* create the layers again */
	int *signal;  /* after -EINTR: the signal; NULL: it does not matter */
};

struct setup_ready {
	struct setup_plan plan;
	char *image;   /* NULL: host */
	char *user;    /* NULL: the image's */
	char *workdir; /* where the project appears */
	char **env;    /* NAME=VALUE of the project; those of the user take precedence */
	char **root_layers, **project_layers;      /* the topmost first; NULL: none */
	char **below_layers;                       /* below the project */
	char key[SHA256_DIGITS + 1];               /* ""; nothing had to be set up */
	bool cached;                               /* the layers existed */
	struct setup_layer chain[SETUP_CHAIN_MAX]; /* locked: the topmost first */
	size_t n_chain;
	bool starts;   /* the user has approved the steps of each start */
	char *refused; /* the script that the user has not approved; NULL: none */
	/* Private: setup_options.memory, and what the key was computed with. */
	char *memory;
	struct setup_image found;
};

#define SETUP_READY_INIT \
	{                \
		0        \
	}

/*
 * Prepare the project. -EINTR: a signal ended it. Messages are printed on stderr; .msg is
 * empty if the reason was printed.
 */
int setup_ready(const struct setup_ready_options *o, struct setup_ready *ret,
		struct warren_error *err) MUST_CHECK;
void setup_ready_done(struct setup_ready *r);
/* The value of --network for the steps. */
const char *setup_ready_network(const struct setup_ready_options *o);

/*
 * Return a script for /bin/sh that runs the steps of each start (postStartCommand), and
 * then "$@". NULL: there are none, or the user has not approved them. The caller frees
 * it.
 */
char *setup_ready_starts(const struct setup_ready *r) MUST_CHECK;

/* ------------------------- private to setup_run.c, setup_make.c and setup_steps.c */

/* Lock a layer and all layers below it, and use them. */
int setup_ready_use(const struct setup_store *store, const char *key,
		    struct setup_ready *r, struct warren_error *err) MUST_CHECK;
void setup_ready_forget(struct setup_ready *r);
/* The key of the first @n_steps steps. */
int setup_ready_key(const struct setup_ready_options *o, const struct setup_ready *r,
		    size_t n_steps, struct setup_key *ret,
		    struct warren_error *err) MUST_CHECK;
/* setup_store_lock(), with a message if this has to wait. */
int setup_ready_lock(const struct setup_ready_options *o, const struct setup_store *store,
		     const char *key, struct warren_error *err) MUST_CHECK;

/* Run the steps that no layer has, and use the result; the lock of @key is held. */
int setup_make(const struct setup_ready_options *o, const struct setup_store *store,
	       const struct setup_key *key, struct setup_ready *ready,
	       struct warren_error *err) MUST_CHECK;

/* Run the steps from .first to .end, and then verify those from .verify_first on. */
struct setup_work {
	const struct setup_ready_options *o;
	struct setup_ready *ready;
	struct setup_new *made;
	const char *store_path;
	size_t first, end, verify_first;
	uint64_t took_ms;
};
int setup_steps_run(struct setup_work *w, struct warren_error *err) MUST_CHECK;

#endif /* CLI_WORK_SETUP_RUN_H */
