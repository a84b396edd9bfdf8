/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inputs_walk.c - the sum of all files of a project that a step may read
 *
 * For a small project, the sum contains the contents of files, so that a file that gets
 * its old contents back is the same file. For a large one, reading all files would take
 * longer than many setups; its files are identified by size, inode and times, so a change
 * is always noticed, and a file that was rewritten counts as changed.
 *
 * What git keeps about commits counts as well, because builds ask git for their version.
 * The files are hostile: links are not followed, and depth and number are limited.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strv.h"
#include "setup/ignored.h"
#include "setup/inputs.h"
#include "setup/tree.h"

#define WALK_FILES_MAX  2000000
#define WALK_READ_FILES 5000          /* files whose contents are read, at most */
#define WALK_READ_BYTES (32ULL << 20) /* of them together */

struct inputs_walk {
	struct sha256 sum;
	struct setup_ignored *ignored;
	int project_fd;
	unsigned what;    /* SETUP_READS_ALL, or NAMES and SCRIPTS */
	bool contents;    /* read them; otherwise, stat */
	const char *code; /* a package.json whose installation runs code: the reason */
	size_t files, depth;
	uint64_t bytes;
	char path[PATH_MAX];
	size_t length;
};

struct walk_names {
	char **v;
	size_t n, room;
};

static void walk_names_done(struct walk_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->v[i]);
	free(names->v);
}

static int walk_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Read the names of a directory, sorted: the order must not depend on the filesystem. */
static int walk_read_names(int dir, struct walk_names *names)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		r = fd < 0 ? -errno : -ENOMEM;
		if (fd >= 0)
			(void)close(fd);
		return r;
	}
	while (r == 0 && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    strcmp(e->d_name, ".git") == 0)
			continue;
		if (names->n == names->room) {
			size_t room = names->room ? 2 * names->room : 64;
			char **v = reallocarray(names->v, room, sizeof(*v));

			r = v ? 0 : -ENOMEM;
			names->v = v ? v : names->v;
			names->room = v ? room : names->room;
		}
		if (r == 0) {
			names->v[names->n] = strdup(e->d_name);
			r = names->v[names->n] ? 0 : -ENOMEM;
			names->n += r == 0;
		}
	}
	(void)closedir(d);
	if (r == 0 && names->n > 0)
		qsort(names->v, names->n, sizeof(*names->v), walk_compare);
	return r;
}

/* ------------------------------------------------------------------- files */

static int walk_add_contents(struct inputs_walk *w, int dir, const char *name)
{
	AUTO_CLOSE int fd =
		openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char data[16384];
	uint64_t size = 0;
	ssize_t n;

	/* A file that this user cannot read, the step cannot read either. */
	while (fd >= 0 && (n = read(fd, data, sizeof(data))) > 0) {
		size += (uint64_t)n;
		if (size > WALK_READ_BYTES)
			return -EFBIG; /* it has grown since */
		sha256_add(&w->sum, data, (size_t)n);
	}
	(void)snprintf(data, sizeof(data), "%ju", (uintmax_t)size);
	sha256_text(&w->sum, data);
	return 0;
}

/* What identifies a file; without gaps, because all its bytes are added to the sum. */
struct walk_identity {
	uint64_t mode, ino, size;
	int64_t mtime, mtime_ns, ctime, ctime_ns;
};

/* Add an entry of the current directory that is not itself a directory. */
static int walk_add(struct inputs_walk *w, int dir, const char *name,
		    const struct stat *st)
{
	struct walk_identity id = { .mode = st->st_mode & (S_IFMT | 0111) };
	char target[PATH_MAX];
	ssize_t n;

	if (++w->files > WALK_FILES_MAX)
		return -E2BIG;
	w->bytes += S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
	/* In a sum of everything, the directory was added before. */
	sha256_text(&w->sum, w->what & SETUP_READS_ALL ? name : w->path);
	if (!S_ISLNK(st->st_mode) && !(w->contents && S_ISREG(st->st_mode))) {
		id.ino = st->st_ino;
		id.size = (uint64_t)st->st_size;
		id.mtime = st->st_mtim.tv_sec;
		id.mtime_ns = st->st_mtim.tv_nsec;
		id.ctime = st->st_ctim.tv_sec;
		id.ctime_ns = st->st_ctim.tv_nsec;
	}
	sha256_add(&w->sum, &id, sizeof(id));
	if (S_ISREG(st->st_mode))
		return w->contents ? walk_add_contents(w, dir, name) : 0;
	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(dir, name, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		sha256_text(&w->sum, target);
	}
	return 0;
}

/* -------------------------------------------------------------- directories */

static int walk_enter(struct inputs_walk *w, const char *name)
{
	size_t n = strlen(name), slash = w->length > 0;

	if (w->length + slash + n >= sizeof(w->path))
		return -ENAMETOOLONG;
	if (slash)
		w->path[w->length] = '/';
	(void)memcpy(w->path + w->length + slash, name, n + 1);
	w->length += slash + n;
	return 0;
}

static void walk_leave(struct inputs_walk *w, size_t length)
{
	w->length = length;
	w->path[length] = '\0';
}

static int inputs_walk_dir(struct inputs_walk *w, int dir);

/* NOLINTNEXTLINE(misc-no-recursion): as deep as SETUP_IGNORED_DEPTH */
static int walk_subdir(struct inputs_walk *w, int dir, const char *name)
{
	AUTO_CLOSE int fd =
		openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0) /* gone, or closed to this user and so to the step */
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : 0;
	return inputs_walk_dir(w, fd);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as SETUP_IGNORED_DEPTH */
static int walk_entry(struct inputs_walk *w, int dir, const char *name)
{
	bool all = w->what & SETUP_READS_ALL;
	struct stat st;

	if (!all && strcmp(name, "node_modules") == 0)
		return 0;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (setup_ignored_has(w->ignored, w->path, S_ISDIR(st.st_mode)))
		return 0;
	if (S_ISDIR(st.st_mode))
		return walk_subdir(w, dir, name);
	if (!all && !setup_detect_knows(name))
		return 0;
	if ((w->what & SETUP_READS_SCRIPTS) && !w->code &&
	    strcmp(name, "package.json") == 0)
		w->code = setup_inputs_node_code(w->project_fd, w->path);
	return walk_add(w, dir, name, &st);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as SETUP_IGNORED_DEPTH */
static int inputs_walk_dir(struct inputs_walk *w, int dir)
{
	const size_t length = w->length;
	struct walk_names CLEANUP(walk_names_done) names = { 0 };
	int r = setup_ignored_enter(w->ignored, dir, length ? length + 1 : 0);

	if (r < 0)
		return r;
	r = walk_read_names(dir, &names);
	/* Names are added without their directory, so its beginning and end are added. */
	if (w->what & SETUP_READS_ALL)
		sha256_text(&w->sum, w->path);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		r = walk_enter(w, names.v[i]);
		if (r == 0)
			r = walk_entry(w, dir, names.v[i]);
		walk_leave(w, length);
	}
	if (w->what & SETUP_READS_ALL)
		sha256_text(&w->sum, "");
	setup_ignored_leave(w->ignored);
	return r;
}

static int walk_project(struct inputs_walk *w)
{
	int r;

	w->sum = (struct sha256)SHA256_INIT;
	w->files = w->bytes = w->length = 0;
	w->path[0] = '\0';
	w->ignored = setup_ignored_new(w->project_fd);
	r = w->ignored ? inputs_walk_dir(w, w->project_fd) : -ENOMEM;
	w->ignored = setup_ignored_free(w->ignored);
	return r;
}

/* --------------------------------------------------------------------- git */

/* A small file of git, if there is one. */
static void walk_add_git(struct inputs_walk *w, const char *path)
{
	AUTO_FREE char *text = NULL;
	struct warren_error unread = WARREN_ERROR_INIT;

	if (setup_tree_read(w->project_fd, path, &text, NULL, &unread) < 0)
		return;
	sha256_text(&w->sum, path);
	sha256_text(&w->sum, text);
	if (strcmp(path, ".git/HEAD") == 0 && strncmp(text, "ref: ", 5) == 0) {
		char ref[512];

		text[strcspn(text, "\r\n")] = '\0';
		(void)snprintf(ref, sizeof(ref), ".git/%s", text + 5);
		walk_add_git(w, ref);
	}
}

/* The commit, and the tags by which builds name it. */
static int walk_commits(struct inputs_walk *w)
{
	struct walk_names CLEANUP(walk_names_done) tags = { 0 };
	AUTO_CLOSE int fd = setup_tree_dir(w->project_fd, ".git/refs/tags");
	int r = 0;

	walk_add_git(w, ".git/HEAD");
	walk_add_git(w, ".git/packed-refs");
	if (fd >= 0)
		r = walk_read_names(fd, &tags);
	for (size_t i = 0; i < tags.n; i++)
		sha256_text(&w->sum, tags.v[i]);
	return r;
}

/* ------------------------------------------------------------------- lists */

/* The files in @dir itself, and the names of directories in it and in its src/. */
static int walk_list(struct inputs_walk *w, const char *dir, bool files)
{
	struct walk_names CLEANUP(walk_names_done) names = { 0 };
	AUTO_CLOSE int fd = setup_tree_dir(w->project_fd, dir[0] ? dir : ".");
	struct stat st;
	int r = fd < 0 ? 0 : walk_read_names(fd, &names);

	(void)snprintf(w->path, sizeof(w->path), "%s", dir);
	w->length = strlen(w->path);
	sha256_text(&w->sum, dir);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		const size_t length = w->length;

		r = walk_enter(w, names.v[i]);
		if (r < 0 || fstatat(fd, names.v[i], &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    setup_ignored_has(w->ignored, w->path, S_ISDIR(st.st_mode)))
			;
		else if (S_ISDIR(st.st_mode))
			sha256_text(&w->sum, w->path);
		else if (files)
			r = walk_add(w, fd, names.v[i], &st);
		walk_leave(w, length);
	}
	return r;
}

static int walk_lists(struct inputs_walk *w, char *const *lists)
{
	int r;

	w->ignored = setup_ignored_new(w->project_fd);
	r = w->ignored ? setup_ignored_enter(w->ignored, w->project_fd, 0) : -ENOMEM;
	w->contents = true;
	for (; r == 0 && lists && *lists; lists++) {
		AUTO_FREE char *src = setup_tree_join(*lists, "src");

		r = src ? walk_list(w, *lists, true) : -ENOMEM;
		if (r == 0)
			r = walk_list(w, src, false);
	}
	w->ignored = setup_ignored_free(w->ignored);
	return r;
}

/* --------------------------------------------------------------------- sum */

static int walk_all(struct inputs_walk *w)
{
	int r;

	w->what = SETUP_READS_ALL;
	w->contents = false;
	r = walk_project(w);
	if (r == 0 && w->files <= WALK_READ_FILES && w->bytes <= WALK_READ_BYTES) {
		w->contents = true;
		r = walk_project(w);
	}
	return r == 0 ? walk_commits(w) : r;
}

int setup_inputs_sum(struct sha256 *h, int project_fd, const struct setup_plan *p,
		     struct warren_error *err)
{
	AUTO_FREE struct inputs_walk *w = calloc(1, sizeof(*w));
	char digits[SHA256_DIGITS + 1];
	int r = 0;

	if (!w)
		return error_errno(err, ENOMEM, "inspect the files of the project");
	w->project_fd = project_fd;
	w->sum = (struct sha256)SHA256_INIT;
	if (p->reads & SETUP_READS_ALL) {
		r = walk_all(w);
	} else if (p->reads & SETUP_READS_NAMES) {
		w->what = p->reads;
		w->contents = true;
		r = walk_project(w);
		if (r == 0 && w->code)
			r = walk_all(w);
	}
	if (r == 0 && !(w->what & SETUP_READS_ALL) && p->lists)
		r = walk_lists(w, p->lists);
	if (r == -E2BIG || r == -ELOOP || r == -EFBIG)
		return error_set(
			err, -r,
			"the project is too large or too deep to notice every "
			"change that its setup depends on: name the files in "
			"warren.yaml (steps: files), or use 'warren work --no-setup'");
	if (r < 0)
		return error_errno(err, -r, "inspect the files of the project: %s",
				   w->path);
	sha256_end(&w->sum, digits);
	sha256_text(h, digits);
	return 0;
}
