/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-ignore.c - patterns match as git's do, and indices are read */
#include "base/gitignore.h"
#include "work/git_index.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/work.h"

static int match(const char *patterns, const char *path, bool dir)
{
	struct gitignore g = { 0 };
	int r;

	EQ(gitignore_parse(&g, patterns, strlen(patterns)), 0);
	r = gitignore_match(&g, path, dir, NULL);
	gitignore_done(&g);
	return r;
}

TEST(patterns_match)
{
	EQ(match("*.o", "a.o", false), 1);
	EQ(match("*.o", "d/e/a.o", false), 1);
	EQ(match("*.o", "a.c", false), -1);
	EQ(match("/a", "a", false), 1);
	EQ(match("/a", "d/a", false), -1);
	EQ(match("d/a", "d/a", false), 1);
	EQ(match("d/a", "x/d/a", false), -1);
	EQ(match("a/", "a", false), -1);
	EQ(match("a/", "a", true), 1);
	EQ(match("*\n!keep", "keep", false), 0);
	EQ(match("**/a", "x/y/a", false), 1);
	EQ(match("**/a", "a", false), 1);
	EQ(match("a/**", "a/b/c", false), 1);
	EQ(match("a/**", "a", true), -1);
	EQ(match("a/**/b", "a/b", false), 1);
	EQ(match("a/**/b", "a/x/y/b", false), 1);
	EQ(match("a/*/b", "a/x/y/b", false), -1);
	EQ(match("a**b", "axxb", false), 1);
	EQ(match("/a**b", "ax/xb", false), -1);
	EQ(match("[a-c]x", "bx", false), 1);
	EQ(match("[!a-c]x", "bx", false), -1);
	EQ(match("[[:digit:]]", "7", false), 1);
	EQ(match("[]]", "]", false), 1);
	EQ(match("[a", "[a", false), -1);
	EQ(match("\\#x", "#x", false), 1);
	EQ(match("#x", "#x", false), -1);
	EQ(match("\\!x", "!x", false), 1);
	EQ(match("x  ", "x", false), 1);
	EQ(match("x\\ ", "x ", false), 1);
	EQ(match("x\r\n", "x", false), 1);
	EQ(match("\xef\xbb\xbfx", "x", false), 1);
	EQ(match("\n\n/\n", "x", false), -1);
}

/* What it costs to match, in characters that are compared. */
static uint64_t cost(const char *pattern, const char *path, int result)
{
	struct gitignore g = { 0 };
	uint64_t work = UINT64_MAX;

	EQ(gitignore_parse(&g, pattern, strlen(pattern)), 0);
	EQ(gitignore_match(&g, path, false, &work), result);
	gitignore_done(&g);
	return UINT64_MAX - work;
}

/* With backtracking, each of these would need more than 2^40 steps. */
TEST(a_pattern_takes_at_most_its_length_times_that_of_the_path)
{
	static const char *const parts[] = { "a*", "**/*a*", "*", "**/", "[a-b]*?" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		char glob[512] = "/", path[4096] = "";
		uint64_t most;

		for (int j = 0; j < 40; j++)
			(void)strcat(glob, parts[i]);
		(void)strcat(glob, "*b");
		for (size_t at = 0; at < 3000; at++)
			path[at] = strchr(parts[i], '/') && at % 50 == 49 ? '/' : 'a';
		most = (strlen(glob) + 2) * (strlen(path) + 2);
		OK(cost(glob, path, -1) <= most);
		(void)strcat(path, "ab");
		OK(cost(glob, path, 1) <= most);
	}
	EQ(match("a*b", "aaaaab", false), 1);
}

TEST(all_patterns_together_take_a_limited_time)
{
	struct gitignore g = { 0 };
	uint64_t work = 100;
	const char *text = "x\n*b*\n*c*\n*d*\n";

	EQ(gitignore_parse(&g, text, strlen(text)), 0);
	EQ(gitignore_match(&g, "abc", false, &work), 1);
	OK(work > 0 && work < 100);
	for (int i = 0; i < 100 && work > 0; i++)
		(void)gitignore_match(&g, "x", false, &work);
	EQ(work, 0);
	EQ(gitignore_match(&g, "x", false, &work), -1);
	EQ(gitignore_match(&g, "x", false, NULL), 1);
	gitignore_done(&g);
}

/* Random patterns and paths: git decides in the same way. */
TEST(git_agrees)
{
	static const char *const parts[] = { "a",  "b",   "*",  "?",    "**",
					     "/",  "/",   "!",  "[ab]", "[!a]",
					     ".o", "\\a", "ab", "/**/", "**/" };
	FILE *f;
	char line[512];
	int compared = 0;

	begin();
	git("init -q .");
	srand(7);
	for (int round = 0; round < 60; round++) {
		char patterns[256] = "";
		struct gitignore g = { 0 };

		for (int i = 0; i < 3; i++) {
			for (int j = 0; j < 1 + rand() % 5; j++)
				(void)strcat(patterns,
					     parts[(size_t)rand() % ARRAY_SIZE(parts)]);
			(void)strcat(patterns, "\n");
		}
		f = fopen(in("p/.gitignore"), "we");
		OK(f && fputs(patterns, f) >= 0 && fclose(f) == 0);
		f = fopen(in("paths"), "we");
		for (int i = 0; i < 60; i++) {
			static const char *const names[] = { "a", "b", "ab", "a.o", "x" };

			for (int j = 0, n = 1 + rand() % 3; j < n; j++)
				OK(fprintf(f, "%s%s", j ? "/" : "", names[rand() % 5]) >
				   0);
			OK(fputc('\n', f) == '\n');
		}
		OK(fclose(f) == 0);
		git("check-ignore -v -n --no-index --stdin <../paths >../out; test $? -le 1");
		EQ(gitignore_parse(&g, patterns, strlen(patterns)), 0);
		f = fopen(in("out"), "re");
		while (fgets(line, sizeof(line), f)) {
			char *path = strchr(line, '\t') + 1,
			     *pattern = strrchr(line, ':') + 1;
			char whole[256];
			int r = -1;

			path[strcspn(path, "\n")] = '\0';
			path[-1] = '\0';
			if (pattern > path)
				continue;
			/* As the filter does: a directory that is ignored decides. */
			(void)strcpy(whole, path);
			for (char *s = strchr(whole, '/'); s && r != 1;
			     s = strchr(s + 1, '/')) {
				*s = '\0';
				r = gitignore_match(&g, whole, true, NULL);
				*s = '/';
			}
			if (r != 1)
				r = gitignore_match(&g, whole, false, NULL);
			if ((r == 1) !=
			    (strchr(line, ':') != line && *pattern && *pattern != '!'))
				TAP_FAIL("'%s' with '%s': %d, git: '%s'", path, patterns,
					 r, pattern);
			compared++;
		}
		(void)fclose(f);
		gitignore_done(&g);
	}
	OK(compared > 3000);
	end();
}

static int read_index(struct git_index *x, size_t cut)
{
	static char data[1 << 20];
	FILE *f = fopen(in("p/.git/index"), "re");
	size_t n = fread(data, 1, sizeof(data), f);

	(void)fclose(f);
	return git_index_parse(data, n > cut ? n - cut : 0, 20, x);
}

TEST(indices_of_all_versions_are_read)
{
	begin();
	git("init -q . && mkdir d d-x && touch a d/b d/c d-x/e 'new\nline' zz && git add .");
	for (int version = 2; version <= 4; version++) {
		struct git_index x = { 0 };
		char text[64];

		(void)snprintf(text, sizeof(text), "update-index --index-version %d%s",
			       version, version == 3 ? " && git add -N ." : "");
		git(text);
		EQ(read_index(&x, 0), 0);
		EQ(x.n, 6);
		OK(git_index_has(&x, "a") && git_index_has(&x, "d") &&
		   git_index_has(&x, "d/c") && git_index_has(&x, "d-x") &&
		   git_index_has(&x, "new\nline") && git_index_has(&x, "zz"));
		OK(!git_index_has(&x, "d/d") && !git_index_has(&x, "d-") &&
		   !git_index_has(&x, "b") && !git_index_has(&x, "zzz"));
		git_index_done(&x);
	}
	end();
}

static bool marked(const void *context, const char *path)
{
	return strcmp(path, context) == 0;
}

/* Write the index anew with a mark, and let git judge the result. */
static void mark(const char *path, size_t id_size, int want)
{
	static char data[1 << 20];
	struct buf out AUTO_BUF = BUF_INIT(1 << 20);
	FILE *f = fopen(in("p/.git/index"), "re");
	size_t n = fread(data, 1, sizeof(data), f);

	(void)fclose(f);
	EQ(git_index_skip(data, n, id_size, marked, path, &out), want);
	EQ(out.len > 0, want > 0);
	if (want <= 0)
		return;
	f = fopen(in("p/.git/index"), "we");
	EQ(fwrite(out.data, 1, out.len, f), out.len);
	EQ(fclose(f), 0);
}

TEST(files_are_marked_in_indices_of_all_versions)
{
	static const char *const extra[] = {
		"status --short >/dev/null", /* version 2: with the extension for trees */
		"add -N new",                /* version 3: has entries of both sizes */
		"update-index --index-version 4 --untracked-cache",
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(extra); i++) {
		const bool sha256 = i >= ARRAY_SIZE(extra);

		begin();
		git(sha256 ? "init -q --object-format=sha256 ." : "init -q .");
		git("config index.threads 4 && mkdir d d-x && touch a d/b d/c d-x/e zz && "
		    "echo b >d/b && git add . && git commit -qm one && rm d/b && touch new");
		git(extra[i % ARRAY_SIZE(extra)]);
		git("status --short | grep -qx ' D d/b'"); /* a control */
		mark("d/b", sha256 ? 20 : 32, -EBADMSG);
		mark("d", sha256 ? 32 : 20, 0);
		mark("d/b", sha256 ? 32 : 20, 1);
		git("ls-files -v | grep -c ^S | grep -qx 1 && git ls-files -v | grep -qx 'S "
		    "d/b' && ! git status --short | grep -v ' new$' && git fsck --strict "
		    "2>/dev/null && echo 2 >zz && git commit -qam two && git show "
		    "--name-status --format= | grep -v new | grep -qx 'M	zz'");
		end();
	}
}

TEST(a_damaged_index_is_refused)
{
	struct git_index x = { 0 };

	begin();
	git("init -q . && touch a b c && git add .");
	for (size_t cut = 24; cut < 400; cut++)
		EQ(read_index(&x, cut), -EBADMSG);
	git_index_done(&x);
	end();
}

/* ------------------------------------------------- large paths in a small index */

enum {
	LONG = 4000,
	MANY = 20000
};

static void put32(struct buf *out, uint32_t value)
{
	const unsigned char bytes[] = { (unsigned char)(value >> 24),
					(unsigned char)(value >> 16),
					(unsigned char)(value >> 8),
					(unsigned char)value };

	buf_add(out, bytes, 4);
}

/* Entries of version 4 whose paths have @n bytes and a number. */
static void put_entries(struct buf *out, size_t n, unsigned count)
{
	static const char zeros[62];
	char path[LONG + 1];

	(void)memset(path, 'x', sizeof(path));
	buf_puts(out, "DIRC");
	put32(out, 4);
	put32(out, count);
	for (unsigned i = 0; i < count; i++) {
		buf_add(out, zeros, 62);
		buf_add(out, i == 0 ? "\0" : "\5", 1); /* the number before */
		buf_add(out, path, i == 0 ? n : 0);
		buf_printf(out, "%05u", i);
		buf_add(out, "", 1);
	}
}

/* A link to the shared index "0101...", of which all entries but the last are removed. */
static void put_link(struct buf *out)
{
	const uint64_t last = 1 | (uint64_t)(MANY / 64) << 1 | UINT64_C(1) << 33;
	static const char zeros[62];
	char id[20];

	(void)memset(id, 1, sizeof(id));
	buf_puts(out, "link");
	put32(out, 20 + 12 + 16 + 12);
	buf_add(out, id, 20);
	put32(out, MANY);
	put32(out, 2);
	put32(out, (uint32_t)(last >> 32));
	put32(out, (uint32_t)last);
	put32(out, 0);
	put32(out, (UINT32_C(1) << (MANY % 64 - 1)) - 1);
	put32(out, 0);
	buf_add(out, zeros, 12); /* none are replaced */
	buf_add(out, zeros, 20);
}

static void write_shared(const struct buf *b)
{
	FILE *f =
		fopen(in("p/sharedindex.0101010101010101010101010101010101010101"), "we");

	EQ(fwrite(b->data, 1, b->len, f), b->len);
	EQ(fclose(f), 0);
}

/* In MB, the most until now. */
static long memory(void)
{
	struct rusage u;

	EQ(getrusage(RUSAGE_SELF, &u), 0);
	return u.ru_maxrss / 1024;
}

TEST(long_paths_in_a_small_index_take_no_memory)
{
	for (int long_paths = 0; long_paths <= 1; long_paths++) {
		struct buf all AUTO_BUF = BUF_INIT(4 << 20);
		struct buf split AUTO_BUF = BUF_INIT(1 << 10);
		struct git_index x = { 0 };
		const size_t n = long_paths ? LONG : 20;
		char *data;
		size_t size;
		long before;
		int root;

		begin();
		root = open(in("p"), O_PATH | O_DIRECTORY | O_CLOEXEC);
		put_entries(&all, n, MANY);
		put_entries(&split, n, 0);
		put_link(&split);
		write_shared(&all);
		before = memory();
		data = all.data;
		size = all.len;
		EQ(git_index_join(root, "index", 20, &data, &size), 0);
		OK(data == all.data);
		EQ(git_index_parse(data, size, 20, &x), long_paths ? -EBADMSG : 0);
		EQ(x.n, long_paths ? 0 : MANY);
		git_index_done(&x);
		EQ(git_index_join(root, "index", 20, &split.data, &split.len), 1);
		EQ(git_index_parse(split.data, split.len, 20, &x), 0);
		EQ(x.n, 1);
		EQ(strlen(x.paths[0]), n + 5);
		OK(strcmp(x.paths[0] + n, "19999") == 0);
		git_index_done(&x);
		OK(memory() - before < 30); /* not 80 */
		(void)close(root);
		end();
	}
}

TEST_MAIN()
