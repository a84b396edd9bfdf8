/* SPDX-License-Identifier: Apache-2.0 */
/* test-view.c - stacked layers show what overlay shows, and no link leads out of them */
#include "image/view.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/strv.h"
#include "image/copy.h"
#include "image/layer_add.h"

#include "lib/tap.h"

static char root[64];

static void remove_root(void)
{
	copy_remove_tree(AT_FDCWD, root);
}

/* A temporary directory on a filesystem with extended attributes. */
static int make_root(void)
{
	(void)strcpy(root, "/var/tmp/warren-view-XXXXXX");
	OK(mkdtemp(root));
	(void)atexit(remove_root);
	return open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int layer(int at, const char *name)
{
	int fd;

	EQ(mkdirat(at, name, 0755), 0);
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OK(fd >= 0);
	return fd;
}

static void file(int at, const char *name, const char *text)
{
	int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd);
}

static void whiteout(int at, const char *name)
{
	if (mknodat(at, name, S_IFCHR, makedev(0, 0)) < 0)
		SKIP("whiteouts cannot be created here");
}

static void opaque(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0)
		SKIP("this filesystem has no extended attributes");
	(void)close(fd);
}

static const char *listed(const struct view *v, const char *path)
{
	static char text[500];
	AUTO_STRV char **names = NULL;

	text[0] = '\0';
	EQ(view_list(v, path, &names), 0);
	for (char **n = names; *n; n++) {
		(void)strcat(text, *n);
		(void)strcat(text, " ");
	}
	return text;
}

static const char *resolved(const struct view *v, const char *path, int want)
{
	static char text[500];
	AUTO_FREE char *to = NULL;

	EQ(view_resolve(v, path, true, &to), want);
	if (want < 0)
		return "";
	(void)snprintf(text, sizeof(text), "%s", to);
	return text;
}

static const char *content(const struct view *v, const char *path)
{
	static char text[500];
	AUTO_FREE char *data = NULL;
	size_t n;

	if (view_read(v, path, 400, &data, &n) < 0)
		return "missing";
	(void)snprintf(text, sizeof(text), "%s", data);
	return text;
}

/* Create three layers with every kind of entry that hides others. */
static struct view stacked(int at, int fds[3])
{
	struct view v = { .dirs = calloc(3, sizeof(int)), .n = 3 };
	int low = layer(at, "low"), mid = layer(at, "mid"), top = layer(at, "top");

	EQ(mkdirat(low, "dir", 0750), 0);
	file(low, "dir/low", "low");
	file(low, "dir/both", "low");
	file(low, "dir/gone", "low");
	EQ(mkdirat(low, "opaque", 0755), 0);
	file(low, "opaque/hidden", "low");
	EQ(mkdirat(low, "removed", 0755), 0);
	file(low, "removed/x", "low");
	file(low, "outside", "inside");
	EQ(symlinkat("/dir", low, "abs"), 0);
	EQ(symlinkat("../../../outside", low, "up"), 0);
	EQ(symlinkat("loop", low, "loop"), 0);
	EQ(mkdirat(mid, "dir", 0700), 0);
	file(mid, "dir/both", "mid");
	whiteout(mid, "dir/gone");
	EQ(mkdirat(mid, "opaque", 0755), 0);
	opaque(mid, "opaque");
	file(mid, "opaque/shown", "mid");
	whiteout(mid, "removed");
	EQ(mkdirat(top, "removed", 0755), 0);
	fds[0] = v.dirs[0] = top;
	fds[1] = v.dirs[1] = mid;
	fds[2] = v.dirs[2] = low;
	return v;
}

TEST(shows_what_overlay_shows)
{
	int fds[3];
	struct view v = stacked(make_root(), fds);
	struct stat st;
	size_t in;

	STREQ(listed(&v, ""), "abs dir loop opaque outside removed up ");
	STREQ(listed(&v, "dir"), "both low ");
	STREQ(listed(&v, "opaque"), "shown ");
	STREQ(listed(&v, "removed"), "");
	STREQ(content(&v, "dir/both"), "mid");
	STREQ(content(&v, "dir/low"), "low");
	STREQ(content(&v, "dir/gone"), "missing");
	STREQ(content(&v, "opaque/hidden"), "missing");
	STREQ(content(&v, "removed/x"), "missing");
	EQ(view_stat(&v, "dir", &st, &in), 0);
	EQ(st.st_mode & 0777, 0700);
	EQ(in, 1);
	view_close(&v);
}

TEST(follows_links_inside)
{
	int fds[3];
	struct view v = stacked(make_root(), fds);

	STREQ(resolved(&v, "/abs/both", 1), "dir/both");
	STREQ(content(&v, "abs/both"), "mid");
	STREQ(resolved(&v, "up", 1), "outside");
	STREQ(content(&v, "up"), "inside");
	STREQ(resolved(&v, "../../etc/passwd", 0), "etc/passwd");
	STREQ(resolved(&v, "abs/new/more", 0), "dir/new/more");
	STREQ(resolved(&v, "new/../abs/both", 1), "dir/both");
	(void)resolved(&v, "loop/x", -ELOOP);
	(void)resolved(&v, "outside/x", -ENOTDIR);
	view_close(&v);
}

/* Open a view of one layer, which lists what is copied. */
static struct copy_list list_of(struct view *from, const char *path)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct copy_list list = { .from = from };

	if (copy_list_add(&list, path, "", &err) < 0)
		TAP_FAIL("%s", err.msg);
	return list;
}

static struct layer_add adding(int at, struct view *below)
{
	struct layer_add a = { .dir = layer(at, "new"), .mode = -1 };

	a.own_ids = geteuid() == 0;
	a.view = (struct view){ .dirs = calloc(4, sizeof(int)), .n = 4 };
	a.view.dirs[0] = dup(a.dir);
	for (size_t i = 0; i < 3; i++)
		a.view.dirs[i + 1] = dup(below->dirs[i]);
	return a;
}

TEST(adds_files_on_top)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_FREE char *dest = NULL;
	int at = make_root(), fds[3], source;
	struct view v = stacked(at, fds), from;
	struct layer_add a = adding(at, &v);
	struct copy_list list;
	struct stat st;

	source = layer(at, "source");
	file(source, "both", "new");
	EQ(mkdirat(source, "sub", 0500), 0);
	file(source, "sub/x", "x");
	EQ(symlinkat("/etc/passwd", source, "link"), 0);
	EQ(view_open_plain(source, &from), 0);
	list = list_of(&from, "");
	EQ(list.n, 5);
	EQ(layer_add_resolve(&a, "/abs", &dest, &err), 1);
	STREQ(dest, "dir");
	if (layer_add_list(&a, &list, dest, &err) < 0 || layer_add_finish(&a, &err) < 0)
		TAP_FAIL("%s", err.msg);
	STREQ(listed(&a.view, "dir"), "both link low sub ");
	STREQ(content(&a.view, "dir/both"), "new");
	STREQ(content(&a.view, "dir/sub/x"), "x");
	STREQ(content(&a.view, "dir/link"), "missing");
	/*
	 * An existing directory keeps its attributes; a new one gets those of the source.
	 */
	EQ(fstatat(a.dir, "dir", &st, 0), 0);
	EQ(st.st_mode & 0777, 0700);
	EQ(fstatat(a.dir, "dir/sub", &st, 0), 0);
	EQ(st.st_mode & 0777, 0500);
	EQ(chmod(root, 0700), 0);
	EQ(fchmodat(a.dir, "dir/sub", 0700, 0), 0);
	copy_list_done(&list);
	layer_add_done(&a);
	view_close(&from);
	view_close(&v);
}

TEST(refuses_to_replace_a_directory)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int at = make_root(), fds[3], source;
	struct view v = stacked(at, fds), from;
	struct layer_add a = adding(at, &v);
	struct copy_list list;

	source = layer(at, "source");
	file(source, "dir", "a file");
	EQ(mkdirat(source, "outside", 0755), 0);
	EQ(view_open_plain(source, &from), 0);
	list = list_of(&from, "dir");
	EQ(layer_add_list(&a, &list, "dir", &err), -EISDIR);
	EQ(layer_add_list(&a, &list, "outside", &err), 0);
	STREQ(content(&a.view, "outside"), "a file");
	copy_list_done(&list);
	list = list_of(&from, "outside");
	EQ(layer_add_list(&a, &list, "outside", &err), -ENOTDIR);
	copy_list_done(&list);
	layer_add_done(&a);
	view_close(&from);
	view_close(&v);
}

static const char *hash_of(struct view *from, bool ids)
{
	static char sums[4][HASH_LEN + 1];
	static unsigned n;
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_HASH struct hash *h = hash_new();
	struct copy_list list = list_of(from, "");
	char *sum = sums[n++ % 4];

	EQ(copy_list_hash(&list, ids, h, &err), 0);
	EQ(hash_end(h, sum), 0);
	copy_list_done(&list);
	return sum;
}

TEST(hashes_names_modes_and_contents_but_no_times)
{
	const struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	int at = make_root(), one = layer(at, "one"), two = layer(at, "two");
	struct view a, b;

	file(one, "f", "text");
	file(two, "f", "text");
	EQ(utimensat(two, "f", old, 0), 0);
	EQ(view_open_plain(one, &a), 0);
	EQ(view_open_plain(two, &b), 0);
	STREQ(hash_of(&a, false), hash_of(&b, false));
	EQ(fchmodat(two, "f", 0600, 0), 0);
	OK(strcmp(hash_of(&a, false), hash_of(&b, false)) != 0);
	EQ(fchmodat(two, "f", 0644, 0), 0);
	STREQ(hash_of(&a, false), hash_of(&b, false));
	EQ(renameat(two, "f", two, "g"), 0);
	OK(strcmp(hash_of(&a, false), hash_of(&b, false)) != 0);
	EQ(unlinkat(two, "g", 0), 0);
	file(two, "f", "texT");
	OK(strcmp(hash_of(&a, false), hash_of(&b, false)) != 0);
	view_close(&a);
	view_close(&b);
}

TEST_MAIN()
