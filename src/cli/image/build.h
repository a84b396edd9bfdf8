/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build.h - warren image build: build an image from a Dockerfile
 *
 * Files, in the order in which a build uses them:
 *
 *	cmd_build.c	options; reads the Dockerfile and .dockerignore; names the result
 *	build_base.c	finds or pulls the images that the stages begin with
 *	build_stage.c	executes the instructions of each stage that the target needs
 *	build_copy.c	COPY, ADD and WORKDIR: write files into a new layer
 *	build_run.c	RUN: a sandbox, whose writes become a layer
 *	build_mount.c	what RUN --mount mounts
 *	build_config.c	the configuration of the image, as JSON
 *	build_request.c	a build for a client of the service
 *	build_steps.c	bounds what the steps of such builds keep
 *
 * Each instruction that changes files is a step. A step has a key: a hash of the key
 * before it and of everything that its result depends on. If the cache of the store has
 * the key, the step is not executed again. The result of a step is an image without a
 * name that has only layers (build_store.h); the configuration is written once, at the
 * end of the target.
 *
 * The build holds the store's lock only while it adds a layer that is complete. At other
 * times, it holds the lock of each image that it needs, so that they are not removed, and
 * of the directory that it fills.
 */
#ifndef CLI_IMAGE_BUILD_H
#define CLI_IMAGE_BUILD_H

#include <jansson.h>

#include "cli/build_options.h"
#include "cli/image/build_request.h"
#include "cli/image/image.h"
#include "dockerfile/ignore.h"
#include "dockerfile/plan.h"
#include "image/build_store.h"
#include "image/view.h"

/* A stage, while it is built and afterwards. */
struct build_stage {
	struct dockerfile_state state;
	json_t *config;           /* of the base; history and layers are added */
	struct store_image image; /* its files so far; image.id is "" if there are none */
	char key[HASH_LEN + 1];
	unsigned step; /* number of the current step */
	bool done;
};

struct build {
	const struct build_options *o;
	/* Of a client of the service; NULL: this program builds for its user. */
	struct build_request *request;
	struct store store;
	struct warren *engine; /* NULL until the first RUN */
	struct dockerfile file;
	struct plan plan;
	struct ignore ignore;
	int context;        /* directory */
	struct view source; /* the context as a view */
	struct build_stage *stages;
	bool noted_owner; /* the note that --chown has no effect was printed */
};

#define BUILD_INIT(options)                                                           \
	{                                                                             \
		.o = (options), .store = { -1, -1, -1, -1, -1, NULL }, .context = -1, \
	}

/* ------------------------------------------------------------ build_base.c */

/*
 * Find the image @ref; pull it if it is missing or if --pull is given. *@ret is locked.
 */
int build_base_image(struct build *b, const char *ref, struct store_image *ret,
		     struct warren_error *err) MUST_CHECK;
/* Begin stage @k: its files, configuration and key are those of its base. */
int build_base_begin(struct build *b, size_t k, struct warren_error *err) MUST_CHECK;

/* ----------------------------------------------------------- build_stage.c */

/* Check all instructions, then execute them; the result is in b->stages. */
int build_stages(struct build *b, struct warren_error *err) MUST_CHECK;
/*
 * Open the stage or image that COPY --from or RUN --mount=from names, as a view that the
 * caller closes. *@ret_image is set only for an image; release it with
 * store_image_done().
 */
int build_open_source(struct build *b, size_t k, const char *from, struct view *ret,
		      struct store_image *ret_image, struct warren_error *err) MUST_CHECK;
/* Return whether a signal has asked the build to stop. */
bool build_cancelled(void);

/* A step: find its result in the cache, or execute it. */
struct build_step {
	struct build *b;
	size_t k; /* stage */
	const struct dockerfile_instruction *i;
	struct hash *hash; /* the step's inputs are added to it */
};

/* Start a new layer. The store is locked only while build_layer_end() adds it. */
int build_layer_begin(struct build *b, struct store_new *ret,
		      struct warren_error *err) MUST_CHECK;
/*
 * Add the layer to the files of the stage, and remember the step. @r is the result of
 * writing it; if it is negative, the layer is removed, and @r is returned.
 */
int build_layer_end(struct build_step *step, const char *key, struct store_new *layer,
		    int r, struct warren_error *err) MUST_CHECK;
/*
 * Finish the step's hash, which is its key (*@key), and look it up in the cache. 1: the
 * stage has the result now; 0: execute the step.
 */
int build_step_cached(struct build_step *step, char key[HASH_LEN + 1],
		      struct warren_error *err) MUST_CHECK;

/* ------------------------------------------------------------ build_copy.c */

/* Execute an instruction; 1: a layer was added; 0: no files changed. */
int build_copy(struct build_step *step, struct warren_error *err) MUST_CHECK;
int build_workdir(struct build_step *step, struct warren_error *err) MUST_CHECK;
/* Resolve pattern @source in @from, and call @fn for each path that matches. */
int build_match(const struct view *from, const char *source,
		int (*fn)(void *ctx, const char *path, const char *name,
			  struct warren_error *err),
		void *ctx, struct warren_error *err) MUST_CHECK;

/* ------------------------------------------------------------- build_run.c */

int build_run(struct build_step *step, struct warren_error *err) MUST_CHECK;

/* ----------------------------------------------------------- build_mount.c */

struct build_mounts {
	struct warren_mount v[STATE_MOUNTS_MAX];
	char *sources[STATE_MOUNTS_MAX]; /* owned */
	size_t n;
	const struct store *store;
	struct store_new dir; /* temporary directory */
	char **env;           /* secrets that are variables */
	int lock;             /* lock of the caches; -1: no cache is used */
};

#define BUILD_MOUNTS_NONE                        \
	{                                        \
		.dir = { .fd = -1 }, .lock = -1, \
	}

/* Add what the mounts contain to the step's hash. */
int build_mounts_hash(struct build_step *step, const struct dockerfile_run *run,
		      struct warren_error *err) MUST_CHECK;
int build_mounts_open(struct build_step *step, const struct dockerfile_run *run,
		      struct build_mounts *ret, struct warren_error *err) MUST_CHECK;
void build_mounts_done(struct build_mounts *m);
/* Remove empty directories from @layer that exist only because of the mounts. */
void build_mounts_forget(const struct build_mounts *m, const struct view *before,
			 int layer);

/* ---------------------------------------------------------- build_config.c */

/* An empty configuration, and the configuration of image @id. */
json_t *build_config_empty(void);
int build_config_read(const struct store *s, const char *id, json_t **ret,
		      struct warren_error *err) MUST_CHECK;
/* Read what a stage inherits from the configuration of its base. */
int build_config_state(const json_t *config, struct dockerfile_state *ret,
		       struct warren_error *err) MUST_CHECK;
/* Append to the history; @created "": the time of the last entry. */
void build_config_history(json_t *config, const char *created, const char *by,
			  bool has_layer);
/*
 * Return the configuration with @state and these layers as text, which the caller frees.
 */
char *build_config_text(const json_t *config, const struct dockerfile_state *state,
			char *const *layers);
/* The configuration of an image that has only the layers of @parent and a new one. */
char *build_config_layers(const char *created, const struct store_image *parent,
			  const char *diff_id);

/* ------------------------------------------------------------ cmd_build.c */

/* Read the Dockerfile and .dockerignore of the context, and plan the build. */
int build_read_input(struct build *b, struct warren_error *err) MUST_CHECK;
/* Build the planned stages, record the image and name it. */
int build_make(struct build *b, char id[REF_DIGEST_LEN + 1],
	       struct warren_error *err) MUST_CHECK;
void build_done(struct build *b);
/* Write the result: a JSON object for each name. */
void build_put_json(const struct build_options *o, const char *id, struct buf *out);
/* Print output of the build to stderr, or report it. */
void build_put_output(const void *data, size_t n);
/* Print a line of progress, "[2/5] RUN make", unless --quiet is given. */
void build_say_step(const struct build *b, size_t k,
		    const struct dockerfile_instruction *i);
void build_say(const struct build *b, const char *text);

/* ----------------------------------------------------------- build_steps.c */

/*
 * Remove steps of the tenant until what only they keep has at most @max bytes, and old
 * steps of all tenants. The store must not be locked.
 */
int build_steps_limit(const struct store *s, const char *tenant, uint64_t max) MUST_CHECK;

/* Remove steps of all tenants while the disk has little space. */
int build_steps_trim(const struct store *s) MUST_CHECK;

#endif /* CLI_IMAGE_BUILD_H */
