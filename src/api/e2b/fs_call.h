/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_call.h - shared by the operations on files
 *
 * The state of such an operation begins with a struct fs_call. fs_begin() finds the user
 * and the accounts of the image, makes the path absolute, and calls `next`.
 */
#ifndef API_E2B_FS_CALL_H
#define API_E2B_FS_CALL_H

#include "api/e2b/internal.h"
#include "api/v1/file.h"

/* A file, with what its links lead to. */
struct fs_entry {
	struct proto_entry is;     /* the file itself */
	bool resolved;             /* a link that leads to a file: */
	struct proto_entry target; /* that file */
	const char *path, *target_path;
	char *metadata; /* an object of JSON; NULL: none */
};

/* The texts of the image's own passwd and group files. */
/*
 * The sandbox chooses these texts. Names that were found are kept, and after much
 * searching, ids are shown as numbers.
 */
#define FS_NAMES 64
struct fs_name {
	bool valid;
	uint32_t id;
	char name[64];
};
struct fs_accounts {
	struct buf passwd, group;
	struct fs_name users[FS_NAMES],
		groups[FS_NAMES]; /* by the last digits of the id */
	size_t searched;          /* bytes */
};

struct fs_call {
	struct file_call fc;
	struct fs_entry entry; /* the answer */
	char user[64];         /* "": the default of the sandbox */
	const char *asked;     /* the path as the client wrote it */
	struct fs_accounts accounts;
	struct file_resolve_op
		*finding; /* looks for the target of a link; NULL: not now */
	void (*next)(struct fs_call *f);
	void (*done)(struct fs_call *f); /* frees what is below; NULL: nothing */
};

/*
 * Begin the operation for the file @asked, which must stay valid. Takes @f, which was
 * allocated with calloc(3); NULL: out of memory.
 */
void fs_begin(struct call *c, struct fs_call *f, const char *user, const char *asked);
/* Make another path absolute; false: refused. */
bool fs_path(struct fs_call *f, const char *asked, char ret[4096]);
/* Answer an RPC with the error of a file. */
void fs_fail(struct fs_call *f, const struct warren_error *err);

void fs_entry_to_json(struct fs_accounts *a, const struct fs_entry *e, struct json *j,
		      const char *key);
/* Take what a link leads to; the entry uses the path of @r. */
void fs_resolved(struct fs_entry *e, const struct file_resolved *r);
void fs_accounts_done(struct fs_accounts *a);
/*
 * The attributes in an answer of files_stat_attributes() that are metadata, as an object
 * of JSON, which the caller frees; NULL: none.
 */
#define FS_METADATA "user.e2b."
char *fs_metadata(const struct files_answer *a);
/* Look at fc.path and answer {"entry": ...}. */
void fs_answer_entry(struct fs_call *f);

#endif /* API_E2B_FS_CALL_H */
