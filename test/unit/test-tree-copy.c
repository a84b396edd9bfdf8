/* SPDX-License-Identifier: Apache-2.0 */
/* test-tree-copy.c - the marks of overlays are translated between trees of both kinds */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "image/copy.h"
#include "os/tree_copy.h"

#include "lib/tap.h"

#define FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

struct trees {
	char path[40];
	int top, from, to, back;
};

static int trees_dir(int at, const char *name)
{
	(void)mkdirat(at, name, 0755);
	return openat(at, name, FLAGS);
}

/* False: the filesystem or the user has no such attributes. */
static bool trees_open(struct trees *t)
{
	(void)strcpy(t->path, "/tmp/warren-copy-XXXXXX");
	OK(mkdtemp(t->path));
	t->top = open(t->path, FLAGS);
	t->from = trees_dir(t->top, "from");
	t->to = trees_dir(t->top, "to");
	t->back = trees_dir(t->top, "back");
	return fsetxattr(t->from, "trusted.overlay.origin", "x", 1, 0) == 0 &&
	       fsetxattr(t->from, "user.note", "n", 1, 0) == 0;
}

static void trees_close(struct trees *t)
{
	(void)close(t->from);
	(void)close(t->to);
	(void)close(t->back);
	(void)close(t->top);
	copy_remove_tree(AT_FDCWD, t->path);
}

/* The value of an attribute of the directory "d"; '-': there is none. */
static char mark(int at, const char *name)
{
	AUTO_CLOSE int fd = openat(at, "d", FLAGS);
	char value = '-';

	return fgetxattr(fd, name, &value, 1) == 1 ? value : '-';
}

TEST(marks_of_an_overlay_are_translated_and_other_attributes_kept)
{
	struct tree_copy there = { .marks = TREE_COPY_FROM_TRUSTED };
	struct tree_copy back = { .marks = TREE_COPY_TO_TRUSTED };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLOSE int d = -1;
	struct trees t;

	if (!trees_open(&t)) {
		trees_close(&t);
		SKIP("trusted attributes cannot be set here");
	}
	d = trees_dir(t.from, "d");
	EQ(fsetxattr(d, "trusted.overlay.opaque", "y", 1, 0), 0);
	EQ(fsetxattr(d, "trusted.overlay.impure", "y", 1, 0), 0);
	EQ(fsetxattr(d, "user.overlay.opaque", "z", 1, 0), 0);
	EQ(fsetxattr(d, "user.note", "n", 1, 0), 0);
	EQ(mknodat(t.from, "gone", S_IFCHR, 0), 0);

	EQ(tree_copy(t.from, t.to, &there, &err), 0);
	EQ(mark(t.to, "user.overlay.opaque"), 'y');
	EQ(mark(t.to, "user.overlay.overlay.opaque"), 'z');
	EQ(mark(t.to, "user.note"), 'n');
	EQ(mark(t.to, "user.overlay.impure"), '-');
	EQ(mark(t.to, "trusted.overlay.opaque"), '-');

	EQ(tree_copy(t.to, t.back, &back, &err), 0);
	EQ(mark(t.back, "trusted.overlay.opaque"), 'y');
	EQ(mark(t.back, "user.overlay.opaque"), 'z');
	EQ(mark(t.back, "user.overlay.overlay.opaque"), '-');
	EQ(mark(t.back, "user.note"), 'n');
	EQ(faccessat(t.back, "gone", F_OK, AT_SYMLINK_NOFOLLOW), 0);
	trees_close(&t);
}

TEST(a_directory_whose_files_are_elsewhere_is_refused)
{
	struct tree_copy c = { .marks = TREE_COPY_FROM_TRUSTED };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLOSE int d = -1;
	struct trees t;

	if (!trees_open(&t)) {
		trees_close(&t);
		SKIP("trusted attributes cannot be set here");
	}
	d = trees_dir(t.from, "d");
	EQ(fsetxattr(d, "trusted.overlay.redirect", "/x", 2, 0), 0);
	EQ(tree_copy(t.from, t.to, &c, &err), -EOPNOTSUPP);
	OK(strstr(err.msg, "'/d'"));
	c.marks = TREE_COPY_USER; /* there, it has no meaning */
	EQ(tree_copy(t.from, t.back, &c, &err), 0);
	trees_close(&t);
}

TEST(space_that_is_kept_free_is_not_used)
{
	struct tree_copy c = { .keep_free = UINT64_MAX / 2 };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLOSE int file = -1;
	struct trees t;

	(void)trees_open(&t);
	file = openat(t.from, "x", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	EQ(write(file, "text", 4), 4);
	EQ(tree_copy(t.from, t.to, &c, &err), -ENOSPC);
	c.keep_free = 1; /* the control */
	EQ(tree_copy(t.from, t.back, &c, &err), 0);
	EQ(c.bytes, 4U);
	trees_close(&t);
}

TEST_MAIN()
