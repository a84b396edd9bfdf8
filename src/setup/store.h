/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - the store of ready layers: results of setups
 *
 *	<state>/setups/<key>/		a layer, complete
 *		record			what is known about it: JSON
 *		root/upper, project/upper	its files, as overlayfs keeps them
 *		project/below		files for below the project, which win (split.c)
 *	<state>/setups/.new-<pid>-<n>/	a layer that is being made, or its remains
 *	<state>/setups/.lock-<key>	locked by the process that makes this layer
 *	<state>/setups/.scan-<project>	the names in the directories of a project
 *	<state>/setups/.scan-<project>.new	its next contents, locked
 *	<state>/setups/.asked-<digest>	"yes" or "no": the user's answer about a script
 *
 * A layer is created under another name and renamed when all its files are on disk, so it
 * is either complete or absent. Nothing writes to it after that: sandboxes have it as a
 * lower layer. A process that uses a layer holds a shared lock on its directory, so that
 * it is not removed. A layer may lie on top of another one, its base.
 */
#ifndef SETUP_STORE_H
#define SETUP_STORE_H

#include <stdint.h>

#include "base/error.h"
#include "base/macro.h"
#include "base/sha256.h"

#define SETUP_CHAIN_MAX 8 /* layers on top of each other */

struct setup_store {
	int fd;
	char *path; /* absolute */
};

struct setup_layer {
	char key[SHA256_DIGITS + 1];
	char base[SHA256_DIGITS + 1]; /* the layer below; "": none */
	char *project, *image;
	char **steps;        /* titles */
	uint64_t created_ms; /* since 1970 */
	uint64_t took_ms;    /* the steps */
	bool part;           /* made only for results of more steps */
	int lock;            /* its directory, with a shared lock; -1 */
};

/* @state_dir NULL: the default. The directory is created. */
int setup_store_open(const char *state_dir, struct setup_store *ret,
		     struct warren_error *err) MUST_CHECK;
void setup_store_close(struct setup_store *s);

/* Read a layer and lock it, shared. -ENOENT: there is none. setup_layer_done() frees it.
 */
int setup_store_use(const struct setup_store *s, const char *key, struct setup_layer *ret,
		    struct warren_error *err) MUST_CHECK;
void setup_layer_done(struct setup_layer *l);
/* Find the key by a prefix of at least 4 digits. -ENOENT, -ENOTUNIQ. */
int setup_store_find(const struct setup_store *s, const char *prefix,
		     char ret[SHA256_DIGITS + 1], struct warren_error *err) MUST_CHECK;
/* Read all layers, the newest first. Those that disappear during the call are skipped. */
int setup_store_list(const struct setup_store *s, struct setup_layer **ret, size_t *ret_n,
		     struct warren_error *err) MUST_CHECK;
void setup_store_list_done(struct setup_layer *v, size_t n);
/*
 * Remove a layer, and those below it that are parts and that no other layer needs.
 * -EBUSY: a sandbox uses it, or it is the base of another one.
 */
int setup_store_remove(const struct setup_store *s, const char *key,
		       struct warren_error *err) MUST_CHECK;
/* Remove a layer, if there is one, and all that lie on top of it. -EBUSY: as above. */
int setup_store_remove_above(const struct setup_store *s, const char *key,
			     struct warren_error *err) MUST_CHECK;

/*
 * Lock the creation of a layer: returns a descriptor for setup_store_unlock().
 * -EWOULDBLOCK: another process is creating it, and @wait is not set.
 */
int setup_store_lock(const struct setup_store *s, const char *key, bool wait,
		     struct warren_error *err) MUST_CHECK;
void setup_store_unlock(const struct setup_store *s, const char *key, int lock);

/* A layer that is being created. */
struct setup_new {
	char name[48];
	int fd; /* locked, so that its remains are known when this process has ended */
};

/* Make an empty directory with `root` and `project`; remove the remains of others. */
int setup_store_begin(const struct setup_store *s, struct setup_new *ret,
		      struct warren_error *err) MUST_CHECK;
/* Make it the layer @l->key, on disk. It replaces an older one. */
int setup_store_commit(const struct setup_store *s, struct setup_new *n,
		       const struct setup_layer *l, struct warren_error *err) MUST_CHECK;
/* Remove it, if it was not committed. */
void setup_store_drop(const struct setup_store *s, struct setup_new *n);

/* The user's answer about a script: 1: yes; 0: no; -ENOENT: not asked yet. */
int setup_store_answer(const struct setup_store *s, const char *digest);
int setup_store_set_answer(const struct setup_store *s, const char *digest, bool yes,
			   struct warren_error *err) MUST_CHECK;

/* Paths of what was removed: files of the project, and new files. */
struct setup_pruned {
	char **changed, **added;
};

/*
 * Remove from @upper, the changes of a setup to the project, everything but dependencies
 * and results (prune.c). setup_pruned_done() frees @ret.
 */
int setup_prune(int upper, int project, struct setup_pruned *ret,
		struct warren_error *err) MUST_CHECK;
void setup_pruned_done(struct setup_pruned *p);
/* Do agents or editors take a file of this name in a project as instructions? */
bool setup_is_instruction(const char *name);
/*
 * Do the same for @upper, the changes of a setup to the root: remove what agents take as
 * instructions, also above the project at @workdir (instructions.c). ret->added are the
 * paths of what was removed; ret->changed, of files that shells and git read, and that
 * are kept. @env are the variables of the sandbox; HOME matters.
 */
int setup_prune_root(int upper, const char *workdir, char *const *env,
		     struct setup_pruned *ret, struct warren_error *err) MUST_CHECK;
/* Is this the name of a directory to which only tools write ("node_modules")? */
bool setup_is_of_tools(const char *name);
/*
 * Move everything in @project/upper, the pruned changes of a setup, to @project/below,
 * except for directories of tools: below the project, it hides nothing (split.c).
 */
int setup_split(int project, struct warren_error *err) MUST_CHECK;

#endif /* SETUP_STORE_H */
