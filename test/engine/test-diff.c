/* SPDX-License-Identifier: Apache-2.0 */
/* test-diff.c - the changed files of a sandbox are listed, and nothing else */
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "lib/durable-sandbox.h"

static void run_well(struct warren_sandbox *sb, const char *const *argv)
{
	struct said said = sandbox_run(sb, argv);

	if (said.res.exit_code != 0)
		TAP_FAIL("exit status %d: %s", said.res.exit_code, said.err);
	free(said.out);
	free(said.err);
}

/* The changes, one line each: "A /path type"; the caller frees the text. */
static char *changes_text(struct warren_sandbox *sb, struct warren_diff *diff)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int fd = memfd_create("changes", MFD_CLOEXEC);
	char *text = calloc(1, 4 << 20), *at = text, *data = malloc(17 << 20);
	ssize_t size;

	OK(fd >= 0 && text && data);
	GOOD(warren_diff(sb, fd, diff, &err));
	size = pread(fd, data, 17 << 20, 0);
	OK(size >= 0);
	for (char *p = data; p < data + size;) {
		const struct warren_change *c = (const void *)p;

		OK(c->record_size >= sizeof(*c) && c->record_size % 8 == 0);
		OK(p + c->record_size <= data + size);
		at += sprintf(at, "%c %s %s\n", (char)c->kind, c->path,
			      S_ISDIR(c->mode)   ? "dir"
			      : S_ISLNK(c->mode) ? "link"
						 : "file");
		p += c->record_size;
	}
	free(data);
	(void)close(fd);
	return text;
}

static bool has_line(const char *text, const char *line)
{
	size_t n = strlen(line);

	for (const char *p = text; (p = strstr(p, line)); p++)
		if ((p == text || p[-1] == '\n') && p[n] == '\n')
			return true;
	return false;
}

static void world_begin(void)
{
	world_enter(SECONDS);
}

static void check_lines(const char *text, const char *const *lines)
{
	for (; *lines; lines++)
		if (!has_line(text, *lines))
			TAP_FAIL("'%s' is missing in:\n%s", *lines, text);
}

static const char *const change_all =
	"set -e; mkdir -p /srv/d/e; echo x > /srv/d/e/new; ln -s nowhere /srv/link;"
	"rm /etc/login.defs; rm -rf /etc/perl; echo more >> /etc/bash.bashrc;"
	"chmod 700 /etc/alternatives; rm -rf /etc/pam.d; mkdir /etc/pam.d; echo n > /etc/pam.d/only;"
	"echo x > \"/srv/$(printf 'odd\\nname\\t\\377')\";"
	/* Copied to the upper directory, but not changed. */
	"touch -r /etc/passwd /tmp/time; chmod 600 /etc/passwd; chmod 644 /etc/passwd;"
	"rm /tmp/time; mv /etc/security /srv/moved;"
	"rm /etc/issue; mkdir /etc/issue; echo x > /etc/issue/inside";

static void lists_changes(bool prepared, uint64_t disk)
{
	struct warren_spec spec = { .durable = true, .disk = disk, .memory = 256 * MIB };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_diff diff = { 0 };
	struct warren_sandbox *sb;
	char id[ID_LEN + 1];
	struct warren *w;
	char *text;

	world_begin();
	w = engine();
	if (prepared) {
		GOOD(warren_prepare(w, id, &err));
		spec.id = id;
	}
	sb = sandbox_make(w, &spec);
	text = changes_text(sb, &diff);
	STREQ(text, "");
	EQ(diff.n, 0);
	free(text);
	run_well(sb, SH(change_all));
	text = changes_text(sb, &diff);
	check_lines(text, (const char *const[]){
				  "A /srv/d dir", "A /srv/d/e dir", "A /srv/d/e/new file",
				  "A /srv/link link", "D /etc/login.defs file",
				  "D /etc/perl dir", "C /etc/bash.bashrc file",
				  "C /etc/alternatives dir", "A /etc/pam.d/only file",
				  "D /etc/pam.d/login file",
				  "A /srv/odd\nname\t\377 file", "D /etc/security dir",
				  "A /srv/moved dir", "A /srv/moved/limits.conf file",
				  "C /etc/issue dir", "A /etc/issue/inside file", NULL });
	OK(!strstr(text, "/etc/passwd") && !strstr(text, "/etc/hosts"));
	OK(!strstr(text, "/etc/perl/") && !has_line(text, "C /etc dir"));
	OK(!diff.more && !diff.too_deep && diff.n > 15);
	free(text);
	sandbox_destroy(sb);
	w = warren_close(w);
}

TEST(changes_of_every_kind_are_listed)
{
	lists_changes(false, 0);
}

TEST(changes_in_a_sandbox_from_a_prepared_part_are_listed)
{
	lists_changes(true, 0);
}

TEST(changes_in_a_sandbox_on_a_disk_are_listed)
{
	lists_changes(false, 400 * MIB);
}

TEST(changes_come_in_pages)
{
	struct warren_diff diff = { .max = 7 };
	struct warren_sandbox *sb;
	struct warren *w;
	size_t n = 0;

	world_begin();
	w = engine();
	sb = make_durable(w);
	run_well(sb, SH("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; "
			"do : > /srv/$i; done"));
	do {
		char *text;

		diff.skip = n;
		text = changes_text(sb, &diff);
		OK(diff.n <= 7);
		n += diff.n;
		free(text);
	} while (diff.more);
	EQ(n, 20);
	sandbox_destroy(sb);
	w = warren_close(w);
}

TEST(directories_that_are_too_deep_are_reported)
{
	struct warren_diff diff = { 0 };
	struct warren_sandbox *sb;
	struct warren *w;
	char *text;

	world_begin();
	w = engine();
	sb = make_durable(w);
	run_well(sb,
		 SH("cd /srv; i=0; while [ $i -lt 700 ]; do mkdir d; cd d; i=$((i+1)); "
		    "done; : > /srv/after"));
	text = changes_text(sb, &diff);
	OK(diff.too_deep && has_line(text, "A /srv/after file"));
	free(text);
	sandbox_destroy(sb);
	w = warren_close(w);
}

TEST(a_comparison_ends_at_its_limits)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_diff diff = { 0 };
	struct warren_sandbox *sb;
	struct warren *w;
	int full[2];
	char *text;

	world_begin();
	w = engine();
	sb = make_durable(w);
	run_well(sb, SH("python3 -c 'for i in range(3000): open(f\"/srv/{i:0200}\", "
			"\"w\")'"));
	/* What it writes is not read, so it cannot end. */
	EQ(pipe2(full, O_CLOEXEC), 0);
	diff.seconds = 1;
	EQ(warren_diff(sb, full[1], &diff, &err), -ETIMEDOUT);
	OK(strstr(err.msg, "more than 1 seconds"));
	diff.seconds = 0;
	diff.cancel = eventfd(1, EFD_CLOEXEC);
	EQ(warren_diff(sb, full[1], &diff, &err), -ECANCELED);
	(void)close(diff.cancel);
	/* Limits that are not reached change nothing. */
	diff = (struct warren_diff){ .seconds = 600, .cancel = eventfd(0, EFD_CLOEXEC) };
	text = changes_text(sb, &diff);
	EQ(diff.n, 3000);
	free(text);
	(void)close(diff.cancel);
	(void)close(full[0]);
	(void)close(full[1]);
	diff = (struct warren_diff){ .image = "sha256:00" };
	EQ(warren_diff(sb, -1, &diff, &err), -ENOMEDIUM);
	sandbox_destroy(sb);
	w = warren_close(w);
}

TEST_MAIN()
