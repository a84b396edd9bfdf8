/* SPDX-License-Identifier: Apache-2.0 */
/* decide.h - accept or reject changes, and report the result */
#ifndef CLI_WORK_DECIDE_CHANGES_H
#define CLI_WORK_DECIDE_CHANGES_H

#include "base/buf.h"
#include "cli/work/choose.h"
#include "cli/work/input.h"
#include "work/accept.h"

/* Exit status: some changes were not accepted, because they are in conflict. */
#define DECIDE_CONFLICTS 1

/* What decide_all() left, by the reason. */
struct decide_left {
	size_t ignored;  /* .gitignore ignores it */
	size_t moved;    /* of these, moved files that were not ignored before */
	size_t guarded;  /* needs a permission, or can never be accepted */
	unsigned guards; /* these permissions */
	bool repository; /* the repository (".git") has new commits */
	bool linked;     /* parts of a new worktree or submodule */
	enum changes_patterns patterns; /* which decided what is ignored */
};

/* What was done; decide_put_json() writes it. */
struct decide_done {
	char id[ID_LEN + 1]; /* of the work; "": nothing was done */
	size_t n;            /* changes that were accepted or rejected */
	bool accepted;
	struct accept_result result; /* of an accept */
	/* decide_finish() knows the rest. */
	bool listed;
	size_t remaining; /* changes that can still be accepted or rejected */
	bool removed;     /* the work was removed, because nothing is left to decide */
};

/* Which changes to accept or reject. */
struct decide_wanted {
	char *const *paths;      /* at or below these; NULL or empty: all */
	struct input paths_from; /* a file with more paths */
	struct input patch; /* a file with a patch of these changes; excludes paths */
};

struct decide {
	const char *command; /* its name in messages */
	struct work *work;
	struct accept_options options;
	bool json, quiet;
	/* For suggested commands: */
	const struct decide_wanted *wanted; /* NULL: all changes */
	bool hunks;
	const struct changes *rest; /* NULL: unknown; paths without any are skipped */
	struct decide_left left;    /* what was not even tried */
	struct decide_done done;
};

/* Is nothing left, except a repository whose commits the user already has? */
bool decide_is_settled(struct work *w, const struct changes *changes);
/* If the repository changed, find out whether it has commits that the user does not. */
void decide_check_commits(struct work *w, struct decide_left *left);
/* Print how to get these commits. */
void decide_print_commits(const struct decide *d);

/* What decide_find() found. Items refer to it. */
struct decide_found {
	struct changes changes;
	struct choose_items items;
	struct decide_left left;
	/* Private. */
	struct choose choose;
	struct patches patches;
	struct buf patch;
};

/* Make items of all changes that the options allow. */
int decide_all(const struct changes *changes, const struct accept_options *o,
	       struct choose_items *ret, struct decide_left *ret_left,
	       struct warren_error *err) MUST_CHECK;
/*
 * Find the requested changes, to accept them with the options @o, or to reject them if @o
 * is NULL. To accept what a patch names and the options do not permit is an error of
 * accept_changes(); other such changes are left (found.left).
 */
int decide_find(struct work *w, const struct decide_wanted *wanted,
		const struct accept_options *o, struct decide_found *ret,
		struct warren_error *err) MUST_CHECK;
void decide_found_done(struct decide_found *f);
/* Print how the changes that were left can be accepted. */
void decide_print_left(struct decide *d, const struct decide_left *left);

/* Accept items. Returns the exit status, after printing what was done or failed. */
int decide_accept(struct decide *d, const struct choose_items *items);
int decide_reject(struct decide *d, const struct choose_items *items);
/*
 * Find out what is left, and print it. If nothing is left, remove the work, unless it
 * keeps versions of files that were accepted with markers (accept_has_marked()). Closes
 * the work.
 */
void decide_finish(struct decide *d);
struct json;
/* End an object in JSON with what is left. */
void decide_json_end(const struct decide_done *done, struct json *j);
/* Print that the work keeps such versions. */
void decide_print_marked(const struct decide *d);
/*
 * Write the command that accepts what was left with one more option: "warren accept WORK
 * OPTION", with the options that were given, and the paths that still have changes.
 * @option is text of the command line.
 */
void decide_put_command(const struct decide *d, const char *option, struct buf *out);
/* Print what is in conflict. */
void decide_print_conflicts(const struct decide *d, const struct accept_result *r);
/* Write what was done as `--json` does. */
void decide_put_json(const struct decide *d, struct buf *out);
void decide_done(struct decide *d);

/* The words of --conflicts and --allow. */
const char *decide_conflicts_name(enum accept_conflicts conflicts);
int decide_parse_conflicts(const char *word, enum accept_conflicts *ret,
			   struct warren_error *err) MUST_CHECK;
int decide_parse_allow(const char *word, unsigned *allow,
		       struct warren_error *err) MUST_CHECK;

#define AUTO_DECIDE       CLEANUP(decide_done)
#define AUTO_DECIDE_FOUND CLEANUP(decide_found_done)

#endif /* CLI_WORK_DECIDE_CHANGES_H */
