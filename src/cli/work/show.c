/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - a summary of changes, like that of `git diff --stat`; names; patches */
#include "cli/work/show.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/format.h"

enum {
	WIDTH_DEFAULT = 80,
	WIDTH_MIN = 40,
	NUMBER_WIDTH = 6,
};

const struct unified_colors *show_colors(int fd)
{
	static const struct unified_colors colors = {
		.meta = "\033[1m",
		.hunk = "\033[36m",
		.removed = "\033[31m",
		.added = "\033[32m",
		.reset = "\033[m",
	};
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	if (!isatty(fd) || (no_color && *no_color) || (term && strcmp(term, "dumb") == 0))
		return NULL;
	return &colors;
}

unsigned show_width(int fd)
{
	struct winsize size = { 0 };

	if (ioctl(fd, TIOCGWINSZ, &size) < 0 || !size.ws_col)
		return WIDTH_DEFAULT;
	return size.ws_col < WIDTH_MIN ? WIDTH_MIN : size.ws_col;
}

bool show_is_repository(const struct change *c)
{
	size_t n = strlen(c->path);

	return c->tree && n >= 4 && strcmp(c->path + n - 4, ".git") == 0 &&
	       (n == 4 || c->path[n - 5] == '/');
}

bool show_is_new_repository(const struct change *c)
{
	return c->tree && !c->ignored && (c->guard & GUARD_GIT) && !c->old_mode;
}

bool show_is_linked(const struct change *c)
{
	static const char *const below[] = { ".git/worktrees/", ".git/modules/" };
	const char *slash = strrchr(c->path, '/');

	if (c->tree || c->old_mode || !(c->guard & GUARD_GIT))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
		const char *at = strstr(c->path, below[i]);

		if (at && (at == c->path || at[-1] == '/'))
			return true;
	}
	return S_ISREG(c->new_mode) && strcmp(slash ? slash + 1 : c->path, ".git") == 0;
}

static bool show_has_contents(mode_t mode)
{
	return S_ISREG(mode) || S_ISLNK(mode);
}

/* Return whether git refuses the path in a patch. */
static bool show_is_git_path(const char *path)
{
	for (const char *p = path; p; p = strchr(p, '/')) {
		p += *p == '/';
		if (strncmp(p, ".git", 4) == 0 && (!p[4] || p[4] == '/'))
			return true;
	}
	return false;
}

bool show_in_diff(const struct change *c)
{
	/* Of the mode, git knows only whether a file is executable. */
	if (c->kind == CHANGE_MODE && !((c->old_mode ^ c->new_mode) & S_IXUSR))
		return false;
	return !c->tree && change_has_contents(c) &&
	       (!c->new_mode || S_ISDIR(c->new_mode) || show_has_contents(c->new_mode));
}

bool show_in_patch(const struct change *c)
{
	/* git does not add a file that is already there. */
	return show_in_diff(c) && !c->unseen && !show_is_git_path(c->path) &&
	       (!c->from || !show_is_git_path(c->from));
}

/* What is replaced by a file, or replaces one, may be a directory: git has no name for
 * it, and shows only the file. */
static struct unified_side show_side(const struct change_side *s, const char *path)
{
	return (struct unified_side){
		.path = s->exists && show_has_contents(s->mode) ? path : NULL,
		.mode = s->mode,
		.text = s->text,
	};
}

/* Say that a file is too large to be compared. */
static void show_large(const struct change *c, struct buf *out)
{
	char was[HUMAN_MAX], is[HUMAN_MAX];

	buf_puts(out, "Large files ");
	unified_quote(out, "", c->path);
	buf_printf(out, " differ (%s, %s)\n", human_size(c->old_size, was),
		   human_size(c->new_size, is));
}

int show_patch(struct work *w, const struct change *c, const struct unified_options *o,
	       struct buf *out, struct warren_error *err)
{
	AUTO_CHANGE_SIDE struct change_side old = { 0 };
	AUTO_CHANGE_SIDE struct change_side new = { 0 };
	struct unified_side a, b;
	int r = change_contents(w, c, &old, &new, err);

	if (r < 0)
		return r;
	if (old.large || new.large) {
		if (o->binary && !o->terminal)
			return error_set(err, EFBIG,
					 "'%s' is too large for a patch: accept it "
					 "with 'warren accept %s'",
					 c->path, w->id);
		show_large(c, out);
		return 0;
	}
	a = show_side(&old, c->from ? c->from : c->path);
	b = show_side(&new, c->path);
	return unified_write(out, &a, &b, o, err);
}

int show_patches(struct work *w, const struct changes *changes, bool ignored, bool patch,
		 const struct unified_options *o, struct buf *out,
		 struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; i < changes->n && r == 0; i++)
		if ((patch ? show_in_patch(&changes->v[i])
			   : show_in_diff(&changes->v[i])) &&
		    (ignored || !changes->v[i].ignored))
			r = show_patch(w, &changes->v[i], o, out, err);
	return r;
}

/*
 * Is the path what it looks like in a line of other text? Blanks are, only as one space
 * between other characters.
 */
static bool show_is_plain_path(const char *path)
{
	const size_t size = strlen(path);
	bool blank = true;

	for (size_t i = 0, n; i < size; i += n) {
		bool was = blank, slash = path[i] == '/';

		if (!utf8_shows(path + i, size - i, &n) || path[i] == '"' ||
		    path[i] == '\\' || (n > 1 && utf8_is_blank(path + i, n)))
			return false;
		blank = path[i] == ' ';
		if (was && (blank || (slash && i > 0 && path[i - 1] == ' ')))
			return false;
		blank |= slash;
	}
	return size > 0 && path[size - 1] != ' ' && !strstr(path, " => ") &&
	       !strstr(path, " | ");
}

void show_path(const char *path, struct buf *out)
{
	/* Names in other scripts are easier to read as they are. */
	if (show_is_plain_path(path))
		buf_puts(out, path);
	else
		unified_quote_always(out, "", path);
}

static char show_letter(const struct change *c)
{
	static const char letters[CHANGE_KIND_MAX] = {
		[CHANGE_ADDED] = 'A',   [CHANGE_MODIFIED] = 'M', [CHANGE_REMOVED] = 'D',
		[CHANGE_RENAMED] = 'R', [CHANGE_MODE] = 'M',     [CHANGE_TYPE] = 'T',
	};

	return letters[c->kind];
}

void show_name(const struct change *c, bool status, struct buf *out)
{
	if (status)
		buf_printf(out, "%c\t", show_letter(c));
	if (status && c->from) {
		unified_quote(out, "", c->from);
		buf_puts(out, "\t");
	}
	unified_quote(out, "", c->path);
	buf_puts(out, c->tree ? "/\n" : "\n");
}

/* ----------------------------------------------------------------- summary */

struct show_sums {
	size_t n[CHANGE_KIND_MAX];
	size_t lines_added, lines_removed, most;
	size_t ignored_files;
};

static struct show_sums show_add_up(const struct changes *changes)
{
	struct show_sums s = { 0 };

	for (size_t i = 0; i < changes->n; i++) {
		const struct change *c = &changes->v[i];

		if (c->ignored || c->tree) {
			s.ignored_files += c->ignored ? c->n_files : 0;
			continue;
		}
		s.n[c->kind]++;
		s.lines_added += c->lines_added;
		s.lines_removed += c->lines_removed;
		if (c->lines_added + c->lines_removed > s.most)
			s.most = c->lines_added + c->lines_removed;
	}
	return s;
}

static void show_marks(char mark, size_t n, const char *color, const char *reset,
		       struct buf *out)
{
	buf_puts(out, n ? color : "");
	for (; n; n--)
		buf_add(out, &mark, 1);
	buf_puts(out, *color ? reset : "");
}

/* "+++---", at most @room characters; a row with any change has at least one. */
static void show_graph(const struct change *c, size_t most, size_t room,
		       const struct unified_colors *colors, struct buf *out)
{
	size_t added = c->lines_added, removed = c->lines_removed;

	if (most > room) {
		added = added ? 1 + (added * (room - 2)) / most : 0;
		removed = removed ? 1 + (removed * (room - 2)) / most : 0;
	}
	show_marks('+', added, colors ? colors->added : "", colors ? colors->reset : "",
		   out);
	show_marks('-', removed, colors ? colors->removed : "",
		   colors ? colors->reset : "", out);
}

/* Why a change cannot be accepted like others; NULL: it can be, with its permissions. */
static const char *show_other_way(const struct change *c)
{
	if (show_is_linked(c))
		return "a part of a new worktree or submodule is not accepted";
	if (!show_is_repository(c) || show_is_new_repository(c))
		return NULL;
	return strcmp(c->path, ".git") == 0
		       ? "needs --as-commits"
		       : "the commits of a repository in the project are not accepted";
}

/* What is special about a change, after its row. */
static void show_notes(const struct change *c, struct buf *out)
{
	const char *other = show_other_way(c);

	if (other) {
		buf_printf(out, " [%s]", other);
		return;
	}
	for (unsigned bit = 1; bit <= GUARD_HIDDEN; bit *= 2)
		if ((c->guard & bit) && bit == GUARD_DEVICE)
			buf_puts(out, " [can never be accepted]");
		else if (c->guard & bit)
			buf_printf(out, " [needs --allow %s]",
				   change_guard_name((enum change_guard)bit));
	if (c->touched)
		buf_puts(out, " [you changed it, too]");
	if (c->unseen)
		buf_puts(out, " [you have a file there]");
}

static void show_sizes(const struct change *c, struct buf *out)
{
	char was[HUMAN_MAX], is[HUMAN_MAX];

	if (!c->old_mode)
		buf_printf(out, "%s", human_size(c->new_size, is));
	else if (!c->new_mode)
		buf_printf(out, "%s", human_size(c->old_size, was));
	else
		buf_printf(out, "%s -> %s", human_size(c->old_size, was),
			   human_size(c->new_size, is));
}

/* Has git a name for the mode? It has one for links, and none for directories. */
static bool show_is_git_mode(mode_t mode)
{
	return S_ISLNK(mode) ||
	       (S_ISREG(mode) && ((mode & 07777) == 0644 || (mode & 07777) == 0755)) ||
	       (S_ISDIR(mode) && (mode & 07777) == 0755);
}

static const char *show_type(mode_t mode)
{
	return S_ISREG(mode)   ? "file"
	       : S_ISLNK(mode) ? "link"
	       : S_ISDIR(mode) ? "directory"
			       : "special file";
}

void show_mode(const struct change *c, struct buf *out)
{
	mode_t old = c->old_mode, new = c->new_mode;

	if (c->kind == CHANGE_TYPE)
		buf_printf(out, "%s -> %s%s", show_type(old), show_type(new),
			   !show_is_git_mode(new) || (S_ISREG(new) && (new &S_IXUSR))
				   ? ", "
				   : "");
	if (old && new && (old & S_IFMT) == (new &S_IFMT)) {
		if (old == new)
			return;
		buf_puts(out, !S_ISREG(new) || !((old ^ new) & S_IXUSR) ? ""
			      : new &S_IXUSR ? "now executable, "
					     : "no longer executable, ");
		buf_printf(out, "mode %04o -> %04o", old & 07777, new & 07777);
	} else if (new && !show_is_git_mode(new)) {
		buf_printf(out, "mode %04o", new & 07777);
	} else if (S_ISREG(new) && (new &S_IXUSR)) {
		buf_puts(out, "executable");
	}
}

/* The mode, after @before, if there is something to say about it. */
static void show_mode_after(const struct change *c, const char *before, struct buf *out)
{
	AUTO_BUF struct buf mode = BUF_INIT(128);

	show_mode(c, &mode);
	if (mode.len) {
		buf_puts(out, before);
		buf_add(out, mode.data, mode.len);
	}
}

static void show_row(const struct change *c, const struct show_sums *sums, size_t names,
		     unsigned width, const struct unified_colors *colors, struct buf *out)
{
	AUTO_BUF struct buf name = BUF_INIT(SHOW_MAX);
	size_t n, room = width > names + NUMBER_WIDTH + 12
				 ? width - names - NUMBER_WIDTH - 8
				 : 4;

	if (c->from) {
		show_path(c->from, &name);
		buf_puts(&name, " => ");
	}
	show_path(c->path, &name);
	n = name.failed ? 0 : utf8_count(name.data, name.len);
	buf_printf(out, " %c ", show_letter(c));
	buf_add(out, name.data, name.len);
	for (; n < names; n++)
		buf_puts(out, " ");
	buf_puts(out, " | ");
	if (c->binary) {
		buf_puts(out, c->uncounted ? "not counted " : "binary ");
		show_sizes(c, out);
		show_mode_after(c, ", ", out);
	} else if (!change_has_contents(c)) {
		buf_puts(out, show_type(c->new_mode ? c->new_mode : c->old_mode));
		show_mode_after(c, ", ", out);
	} else if (c->kind == CHANGE_MODE) {
		show_mode(c, out);
	} else {
		buf_printf(out, "%*zu ", NUMBER_WIDTH - 1,
			   c->lines_added + c->lines_removed);
		show_graph(c, sums->most, room, colors, out);
		show_mode_after(c, " ", out);
	}
	show_notes(c, out);
	buf_puts(out, "\n");
}

static size_t show_name_width(const struct changes *changes, unsigned width)
{
	size_t most = 0;

	for (size_t i = 0; i < changes->n; i++) {
		const struct change *c = &changes->v[i];
		AUTO_BUF struct buf name = BUF_INIT(SHOW_MAX);
		size_t n;

		if (c->ignored || c->tree)
			continue;
		show_path(c->path, &name);
		n = name.failed ? 0 : utf8_count(name.data, name.len);
		n += c->from ? strlen(c->from) + 4 : 0;
		most = n > most ? n : most;
	}
	return most > width / 2 ? width / 2 : most;
}

/* A directory, or a file, that is not part of the review. */
static void show_one_line(const struct change *c, struct buf *out)
{
	buf_puts(out, c->ignored ? " ignored " : " repository ");
	if (c->from) {
		show_path(c->from, out);
		buf_puts(out, " => ");
	}
	show_path(c->path, out);
	if (c->tree)
		buf_printf(out, "/ (%zu %s)", c->n_files,
			   c->n_files == 1 ? "file" : "files");
	show_notes(c, out);
	buf_puts(out, "\n");
}

static void show_rows(const struct changes *changes, unsigned width,
		      const struct unified_colors *colors, struct buf *out)
{
	struct show_sums sums = show_add_up(changes);
	size_t names = show_name_width(changes, width);

	for (size_t i = 0; i < changes->n; i++)
		if (!changes->v[i].ignored && !changes->v[i].tree)
			show_row(&changes->v[i], &sums, names, width, colors, out);
	for (size_t i = 0; i < changes->n; i++)
		if (changes->v[i].ignored || changes->v[i].tree)
			show_one_line(&changes->v[i], out);
	if (changes->n_skipped)
		buf_printf(out,
			   " %zu directories are too deep or cannot be read, and are "
			   "not shown\n",
			   changes->n_skipped);
	if (changes_patterns_text(changes->patterns))
		buf_printf(out, " %s\n", changes_patterns_text(changes->patterns));
}

void show_stat(const struct changes *changes, unsigned width,
	       const struct unified_colors *colors, struct buf *out)
{
	struct show_sums sums = show_add_up(changes);
	size_t total = 0;

	show_rows(changes, width, colors, out);
	for (size_t i = 0; i < CHANGE_KIND_MAX; i++) {
		if (sums.n[i])
			buf_printf(out, "%s%zu %s", total ? ", " : " ", sums.n[i],
				   change_kind_name((enum change_kind)i));
		total += sums.n[i];
	}
	if (total)
		buf_printf(out, "; %zu lines added, %zu removed\n", sums.lines_added,
			   sums.lines_removed);
}

/* Is there something that the difference does not show? */
static bool show_has_rest(const struct change *c)
{
	const mode_t old = c->old_mode, new = c->new_mode;

	if (!show_in_diff(c) || S_ISDIR(new) || c->unseen)
		return true;
	return new && !show_is_git_mode(new) &&
	       (!old || (old & S_IFMT) != (new &S_IFMT) || ((old ^ new) & 07777));
}

void show_changes_rest(const struct changes *changes, bool ignored, unsigned width,
		       const struct unified_colors *colors, struct buf *out)
{
	struct changes rest = { .n_skipped = changes->n_skipped,
				.patterns = changes->patterns };

	rest.v = calloc(changes->n + 1, sizeof(*rest.v));
	if (!rest.v) {
		out->failed = true;
		return;
	}
	for (size_t i = 0; i < changes->n; i++)
		if (show_has_rest(&changes->v[i]) &&
		    (ignored || !changes->v[i].ignored) &&
		    !show_is_repository(&changes->v[i]))
			rest.v[rest.n++] = changes->v[i]; /* borrowed */
	if (rest.n || rest.n_skipped || rest.patterns) {
		buf_puts(out, "The differences do not show all of these changes:\n");
		show_rows(&rest, width, colors, out);
		buf_puts(out, "\n");
	}
	free(rest.v);
}

void show_left_out(const struct changes *changes, bool patch, struct buf *out)
{
	size_t ignored = 0, others = 0;

	for (size_t i = 0; i < changes->n; i++)
		if (changes->v[i].ignored)
			ignored += changes->v[i].tree ? changes->v[i].n_files : 1;
		else if (patch && !show_in_patch(&changes->v[i]) &&
			 !show_is_repository(&changes->v[i]))
			others++;
	if (ignored)
		buf_printf(out, "%zu ignored %s not shown (see --ignored); ", ignored,
			   ignored == 1 ? "file is" : "files are");
	if (others)
		buf_printf(out,
			   "%zu %s not shown, because a patch cannot contain %s "
			   "(see --stat); ",
			   others, others == 1 ? "change is" : "changes are",
			   others == 1 ? "it" : "them");
	if (ignored || others)
		out->len -= 2;
	if (out->data)
		out->data[out->len] = '\0';
}

/* -------------------------------------------------------------------- JSON */

void show_json_path(struct json *j, const char *key, const char *path)
{
	size_t n = path ? strlen(path) : 0;

	json_str(j, key, path);
	if (path && !utf8_valid(path, n)) {
		char base64[64];

		(void)snprintf(base64, sizeof(base64), "%s_base64", key);
		json_base64(j, base64, path, n);
	}
}

static void show_json_mode(struct json *j, const char *key, mode_t mode)
{
	char text[16];

	/* The permissions of a link mean nothing: git has none for it. */
	(void)snprintf(text, sizeof(text), "%06o", S_ISLNK(mode) ? S_IFLNK : mode);
	json_str(j, key, mode ? text : NULL);
}

void show_json(const struct change *c, struct json *j)
{
	json_open(j, NULL, '{');
	show_json_path(j, "path", c->path);
	if (c->from)
		show_json_path(j, "from", c->from);
	json_str(j, "kind", change_kind_name(c->kind));
	show_json_mode(j, "old_mode", c->old_mode);
	show_json_mode(j, "new_mode", c->new_mode);
	json_u64(j, "old_size", c->old_size);
	json_u64(j, "new_size", c->new_size);
	json_bool(j, "binary", c->binary);
	json_bool(j, "ignored", c->ignored);
	json_bool(j, "directory", c->tree);
	json_u64(j, "files", c->tree ? c->n_files : 1);
	json_bool(j, "changed_by_user", c->touched || c->unseen);
	json_u64(j, "lines_added", c->lines_added);
	json_u64(j, "lines_removed", c->lines_removed);
	json_open(j, "needs", '[');
	for (unsigned bit = 1; bit <= GUARD_HIDDEN; bit *= 2)
		if (c->guard & bit)
			json_str(j, NULL, change_guard_name((enum change_guard)bit));
	json_close(j, ']');
	json_close(j, '}');
}

void show_changes_json(const struct work *w, const struct changes *changes,
		       struct buf *out)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_str(&j, "id", w->id);
	json_str(&j, "name", w->name);
	show_json_path(&j, "project", w->project);
	json_u64(&j, "skipped_directories", changes->n_skipped);
	json_str(&j, "gitignore", changes_patterns_name(changes->patterns));
	json_open(&j, "changes", '[');
	for (size_t i = 0; i < changes->n; i++)
		show_json(&changes->v[i], &j);
	json_close(&j, ']');
	json_close(&j, '}');
	buf_puts(out, "\n");
}
