/* SPDX-License-Identifier: Apache-2.0 */
/* fs_call.c - begin an operation on files; show a file as the SDKs expect it */
#include "api/e2b/fs_call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/path.h"
#include "base/date.h"
#include "base/passwd.h"
#include "base/utf8.h"

#define ACCOUNTS_MAX (256U << 10)

static void fs_done(struct file_call *fc)
{
	struct fs_call *f = (struct fs_call *)fc;

	if (f->done)
		f->done(f);
	f->finding = file_resolve_free(f->finding);
	free(f->entry.metadata);
	fs_accounts_done(&f->accounts);
}

void fs_accounts_done(struct fs_accounts *a)
{
	buf_done(&a->passwd);
	buf_done(&a->group);
}

void fs_fail(struct fs_call *f, const struct warren_error *err)
{
	if (err->code == ENOENT)
		e2b_refuse_rpc(f->fc.call, "not_found", "path '%s' does not exist",
			       f->asked);
	else
		file_fail(f->fc.call, err);
}

/* ---------------------------------------------------------------------- accounts */

static void fs_read_file(struct files_answer *a, const struct warren_error *err,
			 struct buf *ret)
{
	char piece[8192];
	struct stat st;
	ssize_t n;
	off_t at = 0;

	*ret = (struct buf)BUF_INIT(ACCOUNTS_MAX);
	if (err)
		return;
	AUTO_CLOSE int fd = TAKE_FD(a->fd);

	/* The sandbox chooses the file; only a small regular file is read. */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > ACCOUNTS_MAX)
		return;
	while ((n = pread(fd, piece, sizeof(piece), at)) > 0 && !ret->failed) {
		buf_add(ret, piece, (size_t)n);
		at += n;
	}
}

bool fs_path(struct fs_call *f, const char *asked, char ret[4096])
{
	const struct sandbox *sandbox = files_sandbox(f->fc.files);
	struct passwd_entry e = { .home = "/" };
	const char *home = sandbox ? sandbox_workdir(sandbox) : "/";

	if (f->user[0] &&
	    passwd_find(f->accounts.passwd.data ? f->accounts.passwd.data : "",
			f->accounts.passwd.len, f->user, 0, &e) == 0)
		home = e.home;
	if (asked[0] == '~' && (asked[1] == '/' || !asked[1]))
		asked += asked[1] == '/' ? 2 : 1;
	if (api_path(home, asked, ret))
		return true;
	e2b_refuse_rpc(f->fc.call, "invalid_argument", "the path is too long");
	return false;
}

static void fs_on_group(void *ctx, struct files_answer *a, const struct warren_error *err)
{
	struct fs_call *f = ctx;

	fs_read_file(a, err, &f->accounts.group);
	if (fs_path(f, f->asked, f->fc.path))
		f->next(f);
}

static void fs_on_passwd(void *ctx, struct files_answer *a,
			 const struct warren_error *err)
{
	struct fs_call *f = ctx;

	fs_read_file(a, err, &f->accounts.passwd);
	files_open(f->fc.files, -1, "/etc/group", O_RDONLY, 0, fs_on_group, f);
}

static void fs_failed(struct file_call *fc, const struct warren_error *err)
{
	const struct fs_call *f = (const struct fs_call *)fc;

	if (!e2b_refuse_user(fc->call, f->user, err))
		call_fail(fc->call, err);
}

static void fs_begun(struct file_call *fc)
{
	files_open(fc->files, -1, "/etc/passwd", O_RDONLY, 0, fs_on_passwd, fc);
}

void fs_begin(struct call *c, struct fs_call *f, const char *user, const char *asked)
{
	if (f) {
		f->fc.begun = fs_begun;
		f->fc.failed = fs_failed;
		f->fc.done = fs_done;
		f->asked = asked;
		(void)snprintf(f->user, sizeof(f->user), "%s", user ? user : "");
	}
	file_begin(c, f ? &f->fc : NULL, "/", f && f->user[0] ? f->user : NULL);
}

/* ------------------------------------------------------------------------- entries */

static const char *fs_type(const struct fs_entry *e)
{
	uint32_t mode = e->resolved ? e->target.mode : e->is.mode;

	return S_ISREG(mode)   ? "FILE_TYPE_FILE"
	       : S_ISDIR(mode) ? "FILE_TYPE_DIRECTORY"
			       : "FILE_TYPE_UNSPECIFIED";
}

/* Permissions as Go writes them: "-rw-r--r--", "dtrwxrwxrwx", "Lrwxrwxrwx". */
static void fs_permissions(uint32_t mode, char out[20])
{
	static const struct {
		uint32_t mask, bits;
		char letter;
	} marks[] = {
		{ S_IFMT, S_IFDIR, 'd' },  { S_IFMT, S_IFLNK, 'L' },
		{ S_IFMT, S_IFBLK, 'D' },  { S_IFMT, S_IFCHR, 'D' },
		{ S_IFMT, S_IFIFO, 'p' },  { S_IFMT, S_IFSOCK, 'S' },
		{ S_ISUID, S_ISUID, 'u' }, { S_ISGID, S_ISGID, 'g' },
		{ S_IFMT, S_IFCHR, 'c' },  { S_ISVTX, S_ISVTX, 't' },
	};
	static const char letters[] = "xwr";
	char *p = out;

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if ((mode & marks[i].mask) == marks[i].bits)
			*p++ = marks[i].letter;
	if (p == out)
		*p++ = '-';
	for (int i = 8; i >= 0; i--)
		*p++ = '-';
	for (unsigned i = 0; i < 9; i++)
		if (mode & (1U << i))
			p[-1 - (int)i] = letters[i % 3];
	*p = '\0';
}

#define SEARCH_MAX (32U << 20) /* bytes of accounts that one call searches */

/* The name of a user or a group; its number, if there is none. */
static const char *fs_name(struct fs_accounts *a, bool group, uint32_t id)
{
	const struct buf *text = group ? &a->group : &a->passwd;
	struct fs_name *n = &(group ? a->groups : a->users)[id % FS_NAMES];
	struct passwd_entry user;
	int r = -ENOENT;

	if (n->valid && n->id == id)
		return n->name;
	*n = (struct fs_name){ .valid = true, .id = id };
	(void)snprintf(n->name, sizeof(n->name), "%u", id);
	if (!text->data || a->searched > SEARCH_MAX)
		return n->name;
	a->searched += text->len;
	if (group) {
		char name[64];

		r = passwd_group_name(text->data, text->len, id, name);
		if (r == 0)
			(void)strcpy(n->name, name);
	} else if (passwd_find(text->data, text->len, NULL, id, &user) == 0) {
		(void)snprintf(n->name, sizeof(n->name), "%s", user.name);
	}
	return n->name;
}

static void fs_put_owner(struct fs_accounts *a, const struct proto_entry *is,
			 struct json *j)
{
	json_str(j, "owner", fs_name(a, false, is->uid));
	json_str(j, "group", fs_name(a, true, is->gid));
}

void fs_entry_to_json(struct fs_accounts *a, const struct fs_entry *e, struct json *j,
		      const char *key)
{
	const char *slash = strrchr(e->path, '/');
	const struct proto_entry *is = &e->is;
	char text[40];

	json_open(j, key, '{');
	json_str(j, "name", slash && slash[1] ? slash + 1 : e->path);
	json_str(j, "type", fs_type(e));
	json_str(j, "path", e->path);
	(void)snprintf(text, sizeof(text), "%ju",
		       (uintmax_t)(is->size > INT64_MAX ? 0 : is->size));
	json_str(j, "size", text);
	json_u64(j, "mode", (e->resolved ? e->target.mode : is->mode) & 0777);
	fs_permissions(is->mode, text);
	json_str(j, "permissions", text);
	fs_put_owner(a, is, j);
	date_iso(text,
		 is->mtime_sec > 253402300799 || is->mtime_sec < 0
			 ? 0
			 : is->mtime_sec * 1000 + is->mtime_nsec % 1000000000 / 1000000);
	json_str(j, "modifiedTime", text);
	if (S_ISLNK(is->mode)) {
		json_bool(j, "isSymlink", true);
		if (e->target_path)
			json_str(j, "symlinkTarget", e->target_path);
	}
	if (e->metadata)
		json_raw(j, "metadata", e->metadata, strlen(e->metadata));
	json_close(j, '}');
}

char *fs_metadata(const struct files_answer *a)
{
	AUTO_BUF struct buf out = BUF_INIT((size_t)6 * PROTO_ENTRIES_MAX);
	struct json j = { .out = &out };
	struct proto_found found;
	size_t at = 0, n = strlen(FS_METADATA);
	bool any = false;

	/* The first entry is the file. */
	if (proto_next(a->entries, a->size, &at, &found) != 1)
		return NULL;
	json_open(&j, NULL, '{');
	while (proto_next(a->entries, a->size, &at, &found) == 1) {
		if (strncmp(found.name, FS_METADATA, n) != 0 || !found.name[n] ||
		    !utf8_valid(found.name, strlen(found.name)) ||
		    !utf8_valid(found.link, strlen(found.link)))
			continue;
		json_str(&j, found.name + n, found.link);
		any = true;
	}
	json_close(&j, '}');
	return any && !out.failed ? TAKE_PTR(out.data) : NULL;
}

static void fs_send_entry(struct fs_call *f)
{
	AUTO_BUF struct buf out = BUF_INIT(256U << 10);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	fs_entry_to_json(&f->accounts, &f->entry, &j, "entry");
	json_close(&j, '}');
	call_json(f->fc.call, 200, &out);
}

void fs_resolved(struct fs_entry *e, const struct file_resolved *r)
{
	e->resolved = r->exists;
	e->target = r->is;
	e->target_path = r->path;
}

/* A link whose target cannot be found has no type. */
static void fs_on_resolved(void *ctx, const struct file_resolved *r,
			   const struct warren_error *err)
{
	struct fs_call *f = ctx;

	f->finding = NULL;
	if (!err)
		fs_resolved(&f->entry, r);
	fs_send_entry(f);
}

static void fs_on_entry(void *ctx, struct files_answer *a, const struct warren_error *err)
{
	struct fs_call *f = ctx;
	struct proto_found found;

	if (err) {
		fs_fail(f, err);
		return;
	}
	if (!file_entry(f->fc.call, a, NULL, &found))
		return;
	free(f->entry.metadata);
	f->entry = (struct fs_entry){ .path = f->fc.path,
				      .is = found.is,
				      .metadata = fs_metadata(a) };
	if (S_ISLNK(found.is.mode))
		file_resolve(f->fc.files, f->fc.path, fs_on_resolved, f, &f->finding);
	else
		fs_send_entry(f);
}

void fs_answer_entry(struct fs_call *f)
{
	files_stat_attributes(f->fc.files, f->fc.path, fs_on_entry, f);
}
