/* SPDX-License-Identifier: Apache-2.0 */
/*
 * textdiff_drive.c - compare, patch and merge files for tests, with src/textdiff
 *
 * Requests are NUL-terminated words on stdin:
 *
 *	textdiff_drive diff OLD NEW	pairs of paths below the two directories ("":
 *none); writes a patch textdiff_drive merge		four paths each: base, ours,
 *theirs, output; writes a line with the number of conflicts textdiff_drive apply OLD NEW
 *stdin is a patch: writes the patched files of OLD to NEW, one after the other, as files
 *0, 1, ...
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "textdiff/merge.h"
#include "textdiff/unified.h"

#define OUT_MAX ((size_t)1 << 30)

/* Read a file or the target of a link; a path that is missing is an empty file. */
static mode_t read_path(const char *path, struct buf *out)
{
	struct stat st;
	char chunk[65536];
	FILE *f;
	size_t n;

	if (lstat(path, &st) < 0)
		err(1, "%s", path);
	if (S_ISLNK(st.st_mode)) {
		ssize_t len = readlink(path, chunk, sizeof(chunk));

		buf_add(out, chunk, len < 0 ? 0 : (size_t)len);
		return st.st_mode;
	}
	f = fopen(path, "re");
	if (!f)
		err(1, "%s", path);
	while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
		buf_add(out, chunk, n);
	(void)fclose(f);
	return st.st_mode;
}

static bool next_word(char *word, size_t size)
{
	size_t n = 0;
	int c;

	while ((c = getchar()) != EOF && c && n < size - 1)
		word[n++] = (char)c;
	word[n] = '\0';
	return c != EOF;
}

static void read_side(const char *dir, char *path, struct unified_side *s, struct buf *b)
{
	char full[PATH_MAX * 2];

	*s = (struct unified_side){ 0 };
	if (!*path)
		return;
	(void)snprintf(full, sizeof(full), "%s/%s", dir, path);
	s->mode = read_path(full, b);
	s->path = path;
	s->text = TEXT(b->data, b->len);
}

static void drive_diff(const char *old_dir, const char *new_dir)
{
	struct warren_error e = WARREN_ERROR_INIT;
	struct unified_options o = { .context = PATCH_CONTEXT, .binary = true };
	char from[PATH_MAX], to[PATH_MAX];

	while (next_word(from, sizeof(from)) && next_word(to, sizeof(to))) {
		AUTO_BUF struct buf old = BUF_INIT(OUT_MAX);
		AUTO_BUF struct buf new = BUF_INIT(OUT_MAX);
		AUTO_BUF struct buf out = BUF_INIT(OUT_MAX);
		struct unified_side a, b;

		read_side(old_dir, from, &a, &old);
		read_side(new_dir, to, &b, &new);
		if (unified_write(&out, &a, &b, &o, &e) < 0)
			errx(1, "%s", e.msg);
		if (out.len)
			(void)fwrite(out.data, 1, out.len, stdout);
	}
}

static void drive_merge(void)
{
	struct warren_error e = WARREN_ERROR_INIT;
	struct merge_labels labels = { .ours = "ours", .theirs = "theirs" };
	char path[PATH_MAX];

	for (;;) {
		AUTO_BUF struct buf out = BUF_INIT(OUT_MAX);
		struct buf in[3] = { BUF_INIT(OUT_MAX), BUF_INIT(OUT_MAX),
				     BUF_INIT(OUT_MAX) };
		size_t conflicts = 0;
		FILE *f;

		for (size_t i = 0; i < 3; i++) {
			if (!next_word(path, sizeof(path)))
				return;
			(void)read_path(path, &in[i]);
		}
		if (text_merge3(TEXT(in[0].data, in[0].len), TEXT(in[1].data, in[1].len),
				TEXT(in[2].data, in[2].len), &labels, &out, &conflicts,
				&e) < 0)
			errx(1, "%s", e.msg);
		(void)next_word(path, sizeof(path));
		f = fopen(path, "we");
		if (!f || (out.len && fwrite(out.data, 1, out.len, f) != out.len) ||
		    fclose(f))
			err(1, "%s", path);
		(void)printf("%zu\n", conflicts);
		for (size_t i = 0; i < 3; i++)
			buf_done(&in[i]);
	}
}

static void apply_one(const struct patch *p, const char *old_dir, const char *new_dir,
		      size_t number)
{
	struct warren_error e = WARREN_ERROR_INIT;
	AUTO_BUF struct buf old = BUF_INIT(OUT_MAX);
	AUTO_BUF struct buf out = BUF_INIT(OUT_MAX);
	char path[PATH_MAX * 2];
	FILE *f;

	if (p->kind != PATCH_ADDED) {
		(void)snprintf(path, sizeof(path), "%s/%s", old_dir, p->old_path);
		(void)read_path(path, &old);
	}
	if (p->binary)
		buf_add(&out, p->forward.data, p->forward.len);
	else if (patch_apply(p, TEXT(old.data, old.len), &out, &e) < 0)
		errx(1, "%s: %s", p->old_path, e.msg);
	(void)snprintf(path, sizeof(path), "%s/%zu", new_dir, number);
	f = fopen(path, "we");
	if (!f || (out.len && fwrite(out.data, 1, out.len, f) != out.len) || fclose(f))
		err(1, "%s", path);
	(void)printf("%s%c", p->new_path, '\0');
}

static void drive_apply(const char *old_dir, const char *new_dir)
{
	struct warren_error e = WARREN_ERROR_INIT;
	AUTO_PATCHES struct patches p = { 0 };
	AUTO_BUF struct buf in = BUF_INIT(OUT_MAX);
	char chunk[65536];
	size_t n;

	while ((n = fread(chunk, 1, sizeof(chunk), stdin)) > 0)
		buf_add(&in, chunk, n);
	if (patches_parse(TEXT(in.data, in.len), &p, &e) < 0)
		errx(1, "%s", e.msg);
	for (size_t i = 0; i < p.n; i++)
		apply_one(&p.v[i], old_dir, new_dir, i);
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "diff") == 0)
		drive_diff(argv[2], argv[3]);
	else if (argc == 2 && strcmp(argv[1], "merge") == 0)
		drive_merge();
	else if (argc == 4 && strcmp(argv[1], "apply") == 0)
		drive_apply(argv[2], argv[3]);
	else
		errx(2, "usage: textdiff_drive diff|merge|apply ...");
	return 0;
}
