/* SPDX-License-Identifier: Apache-2.0 */
/* test-tree-walk.c - a walk visits the differences of two trees, and reports its errors
 */
#include "os/tree_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "lib/tap.h"

static struct tree_walk walk;
static char found[4096], top[64];

static int on_visit(struct tree_walk *w, const struct tree_pair *p)
{
	size_t n = strlen(found);

	(void)snprintf(found + n, sizeof(found) - n, "%c%.200s ",
		       !p->old.exists   ? 'A'
		       : !p->new.exists ? 'D'
					: 'C',
		       w->path);
	return p->new.exists &&S_ISDIR(p->new.st.st_mode);
}

static void shell(const char *command)
{
	char text[1024];

	(void)snprintf(text, sizeof(text), "cd %s && %s", top, command);
	EQ(system(text), 0);
}

static int dir_of(const char *name)
{
	char path[96];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OK(fd >= 0);
	return fd;
}

static void begin(void)
{
	(void)strcpy(top, "/tmp/warren-walk-XXXXXX");
	OK(mkdtemp(top));
	shell("mkdir low one two new");
	walk.visit = on_visit;
}

static void end(void)
{
	char text[96];

	(void)snprintf(text, sizeof(text), "rm -rf %s", top);
	EQ(system(text), 0);
}

/* Sorted, because directories have no order. */
static void visits(const char *const *expected, const struct tree_side *old,
		   const struct tree_side *new)
{
	size_t length = 0;

	found[0] = '\0';
	EQ(tree_walk(&walk, old, new), 0);
	for (; *expected; expected++) {
		if (!strstr(found, *expected))
			TAP_FAIL("no '%s' in '%s'", *expected, found);
		length += strlen(*expected);
	}
	EQ(strlen(found), length);
}

TEST(several_upper_directories_hide_each_other)
{
	struct tree_side old, new;

	begin();
	SKIP_UNLESS(geteuid() == 0, "whiteouts need root");
	shell("mkdir -p low/d/sub low/gone low/opaque && touch low/d/low low/d/sub/x low/opaque/below");
	shell("mkdir -p two/d two/opaque && touch two/d/two two/d/both two/opaque/two two/file");
	shell("mkdir -p one/d one/opaque && touch one/d/one one/d/both one/opaque/one && mknod one/file c 0 0 && mknod one/gone c 0 0");
	EQ(fsetxattr(dir_of("one/opaque"), "user.overlay.opaque", "y", 1, 0), 0);
	old = tree_side(dir_of("one"), dir_of("low"));
	old.uppers[old.n_uppers++] = dir_of("two");
	new = tree_side(dir_of("new"), old.lower);
	visits((const char *const[]){ NULL }, &new, &new);
	/* The old tree has all of it, and the new one only what is below. */
	visits((const char *const[]){ "C/d ", "D/d/one ", "D/d/two ", "D/d/both ",
				      "C/opaque ", "D/opaque/one ", "A/opaque/below ",
				      "A/gone ", NULL },
	       &old, &new);
	/* The other way round. */
	visits((const char *const[]){ "C/d ", "A/d/one ", "A/d/two ", "A/d/both ",
				      "C/opaque ", "A/opaque/one ", "D/opaque/below ",
				      "D/gone ", NULL },
	       &new, &old);
	visits((const char *const[]){ "C/d ", "C/d/one ", "C/d/two ", "C/d/both ",
				      "C/opaque ", "C/opaque/one ", NULL },
	       &old, &old);
	end();
}

/* Otherwise, an undo would remove the file that could not be read. */
TEST(an_entry_that_cannot_be_opened_is_an_error_and_not_a_missing_one)
{
	const struct rlimit few = { 24, 24 };
	struct tree_side old, new;

	begin();
	shell("mkdir -p one/a/b/c/d/e/f/g/h/i new/a/b/c/d/e/f/g/h/i");
	old = tree_side(dir_of("one"), dir_of("low"));
	new = tree_side(dir_of("new"), old.lower);
	visits((const char *const[]){ "C/a ", "C/a/b ", "C/a/b/c ", "C/a/b/c/d ",
				      "C/a/b/c/d/e ", "C/a/b/c/d/e/f ",
				      "C/a/b/c/d/e/f/g ", "C/a/b/c/d/e/f/g/h ",
				      "C/a/b/c/d/e/f/g/h/i ", NULL },
	       &old, &new);
	EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	found[0] = '\0';
	EQ(tree_walk(&walk, &old, &new), -EMFILE);
	OK(!strstr(found, "A/") && !strstr(found, "D/"));
	end();
}

TEST_MAIN()
