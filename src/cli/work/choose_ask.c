/* SPDX-License-Identifier: Apache-2.0 */
/* choose_ask.c - show each part of a change and ask about it, as `git add -p` does */
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/format.h"
#include "cli/work/choose.h"
#include "cli/work/keys.h"
#include "cli/work/pager.h"
#include "cli/work/show.h"

enum {
	LINES_SHOWN = 300,
	WORD_MAX = 64,
};

/* What a key leads to. */
enum choose_step {
	STEP_STAY,    /* ask about the same part again, without showing it */
	STEP_SHOW,    /* show another part */
	STEP_DECIDED, /* go to the next part that is open */
	STEP_FILE,    /* the rest of the file is decided */
	STEP_QUIT,
	STEP_END, /* the terminal ended */
};

struct choose_ask {
	struct choose *c;
	struct choose_file *f;
	size_t at; /* the part */
	const struct unified_colors *colors;
	struct warren_error *err;
};

static void ask_say(const char *text)
{
	(void)fputs(text, stdout);
	(void)fflush(stdout);
}

static void ask_print(struct buf *out)
{
	if (out->len)
		(void)fwrite(out->data, 1, out->len, stdout);
	(void)fflush(stdout);
}

/* Errors quote names. */
static void ask_say_line(const char *before, const char *text)
{
	char line[sizeof(((struct warren_error *)NULL)->msg) + 64];
	int n = snprintf(line, sizeof(line), "%s%s", before, text);
	size_t len = n < (int)sizeof(line) ? (size_t)n : sizeof(line) - 1;

	line[message_clean(line, len)] = '\0';
	(void)printf("%s\n", line);
}

/* ------------------------------------------------------------------- shown */

static void ask_put_headline(const struct choose_ask *a, struct buf *out)
{
	AUTO_BUF struct buf mode = BUF_INIT(128);
	const struct change *c = a->f->change;

	buf_puts(out, a->colors ? a->colors->meta : "");
	show_path(c->path, out);
	buf_puts(out, c->tree ? "/" : "");
	if (c->from) {
		buf_puts(out, " (from ");
		show_path(c->from, out);
		buf_puts(out, ")");
	}
	buf_printf(out, ": %s", change_kind_name(c->kind));
	show_mode(c, &mode);
	if (mode.len) {
		buf_puts(out, ", ");
		buf_add(out, mode.data, mode.len);
	}
	if (c->touched || a->f->old.touched)
		buf_puts(out, ", and you changed it, too");
	if (c->unseen)
		buf_puts(out, ", and you have a file there");
	buf_puts(out, a->colors ? a->colors->reset : "");
	buf_puts(out, "\n");
	for (unsigned bit = 1; bit <= GUARD_HIDDEN; bit *= 2)
		if (c->guard & bit)
			buf_printf(out, "Careful: %s\n",
				   change_guard_reason((enum change_guard)bit));
}

static void ask_put_hunk(const struct choose_ask *a, const struct patch_hunk *h,
			 struct buf *out)
{
	const struct unified_options options = {
		.context = PATCH_CONTEXT,
		.terminal = true,
		.colors = a->colors,
	};
	struct patch_hunk part = *h;

	if (part.n > LINES_SHOWN)
		part.n = LINES_SHOWN;
	unified_write_hunk(out, &part, &a->f->old_lines, &options);
	if (part.n < h->n)
		buf_printf(out, "... %zu more lines; v shows the whole file\n",
			   h->n - part.n);
}

static void ask_put_sizes(const struct change *c, struct buf *out)
{
	char was[HUMAN_MAX], is[HUMAN_MAX];

	if (c->kind == CHANGE_MODE || c->kind == CHANGE_RENAMED)
		return;
	if (c->tree) {
		buf_printf(out, "A directory: %zu %s; v lists them\n", c->n_files,
			   c->n_files == 1 ? "file" : "files");
		return;
	}
	if (!c->old_size && !c->new_size)
		buf_puts(out, S_ISDIR(c->old_mode | c->new_mode) ? "An empty directory\n"
								 : "No contents\n");
	else
		buf_printf(out, "Binary contents: %s -> %s\n",
			   c->old_mode ? human_size(c->old_size, was) : "nothing",
			   c->new_mode ? human_size(c->new_size, is) : "nothing");
}

static void ask_show(const struct choose_ask *a, bool headline)
{
	AUTO_BUF struct buf out = BUF_INIT(SHOW_MAX);

	if (headline)
		ask_put_headline(a, &out);
	if (a->f->whole) {
		for (size_t i = 0; i < a->f->patch.n; i++)
			ask_put_hunk(a, &a->f->patch.v[i], &out);
		if (!a->f->patch.n)
			ask_put_sizes(a->f->change, &out);
	} else {
		ask_put_hunk(a, &a->f->patch.v[a->at], &out);
	}
	ask_print(&out);
}

/* List the files of a directory that is one change. */
static int ask_list(const struct choose_ask *a, struct buf *out, struct warren_error *err)
{
	const struct change *c = a->f->change;
	AUTO_CHANGES struct changes all = { 0 };
	struct changes below = { 0 };
	const size_t n = strlen(c->path);
	int r = changes_list(a->c->work, CHANGES_EXPAND, &all, err);

	/* They are sorted, and follow each other. */
	for (size_t i = 0; r == 0 && i < all.n; i++)
		if (strncmp(all.v[i].path, c->path, n) == 0 && all.v[i].path[n] == '/') {
			below.v = below.n ? below.v : &all.v[i];
			below.n++;
		}
	for (size_t i = 0; i < below.n; i++)
		show_name(&below.v[i], true, out);
	return r;
}

/* Show the whole difference in the pager. */
static enum choose_step ask_view(const struct choose_ask *a)
{
	const struct unified_options options = {
		.context = PATCH_CONTEXT,
		.terminal = true,
		.colors = a->colors,
	};
	AUTO_BUF struct buf out = BUF_INIT(SHOW_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	int r = 0;

	ask_put_headline(a, &out);
	if (a->f->change->tree)
		r = ask_list(a, &out, &err);
	else if (show_in_diff(a->f->change))
		r = show_patch(a->c->work, a->f->change, &options, &out, &err);
	keys_pause();
	if (r == 0)
		r = pager_show(&out, &err);
	keys_continue();
	if (r < 0)
		ask_say_line("", err.msg);
	return STEP_STAY;
}

/* --------------------------------------------------------------- movements */

#define NO_PART ((size_t)-1)

/* Find the next part (by +1 or -1), or the next one that is open. */
static size_t ask_find(const struct choose_ask *a, int by, bool open)
{
	for (size_t i = a->at + (size_t)by; i < a->f->n; i += (size_t)by)
		if (!open || a->f->states[i] == CHOOSE_OPEN)
			return i;
	return NO_PART;
}

static enum choose_step ask_go(struct choose_ask *a, size_t to, const char *none)
{
	if (to == NO_PART) {
		ask_say_line("", none);
		return STEP_STAY;
	}
	a->at = to;
	return STEP_SHOW;
}

/* Go to the next part that is open, or to the first one. */
static enum choose_step ask_next_open(struct choose_ask *a)
{
	size_t to = ask_find(a, 1, true);

	for (size_t i = 0; to == NO_PART && i < a->f->n; i++)
		if (a->f->states[i] == CHOOSE_OPEN)
			to = i;
	if (to == NO_PART)
		return STEP_FILE;
	a->at = to;
	return STEP_SHOW;
}

static enum choose_step ask_goto(struct choose_ask *a)
{
	char line[32];
	char *end;
	unsigned long to;

	for (size_t i = 0; i < a->f->n; i++) {
		static const char marks[] = { ' ', '+', '-' };
		const struct patch_hunk *h = &a->f->patch.v[i];

		(void)printf("%c%3zu: -%u,%u +%u,%u\n", marks[a->f->states[i]], i + 1,
			     h->old_at + 1, h->old_n, h->new_at + 1, h->new_n);
	}
	ask_say("Go to which hunk? ");
	if (!keys_read_line(line, sizeof(line)))
		return STEP_END;
	to = strtoul(line, &end, 10);
	if (end == line || *end || to < 1 || to > a->f->n)
		return ask_go(a, NO_PART, "There is no hunk with this number.");
	return ask_go(a, to - 1, "");
}

static bool ask_hunk_matches(const struct patch_hunk *h, const regex_t *re)
{
	for (size_t i = 0; i < h->n; i++) {
		regmatch_t m = { .rm_so = 0, .rm_eo = (regoff_t)h->v[i].text.len };

		if (h->v[i].text.len < (size_t)1 << 20 &&
		    regexec(re, h->v[i].text.data, 1, &m, REG_STARTEND) == 0)
			return true;
	}
	return false;
}

static enum choose_step ask_search(struct choose_ask *a)
{
	char line[256];
	regex_t re;
	size_t to = NO_PART;

	ask_say("Search for (regular expression): ");
	if (!keys_read_line(line, sizeof(line)))
		return STEP_END;
	if (!*line)
		return STEP_STAY;
	if (regcomp(&re, line, REG_EXTENDED) != 0)
		return ask_go(a, NO_PART, "This is not a regular expression.");
	for (size_t k = 0; k < a->f->n && to == NO_PART; k++) {
		size_t i = (a->at + k) % a->f->n;

		if (ask_hunk_matches(&a->f->patch.v[i], &re))
			to = i;
	}
	regfree(&re);
	return ask_go(a, to, "No hunk contains it.");
}

/* --------------------------------------------------------------- decisions */

/* The word that gives the permissions which the change lacks: "git", or "git link". */
static void ask_word(const struct choose_file *f, char *ret, size_t size)
{
	size_t n = 0;

	ret[0] = '\0';
	for (unsigned bit = 1; bit <= GUARD_HIDDEN && n < size; bit *= 2)
		if (f->missing & ~f->given & bit)
			n += (size_t)snprintf(ret + n, size - n, "%s%s", n ? " " : "",
					      change_guard_name((enum change_guard)bit));
}

/* A habitual answer must not install a hook. */
static bool ask_is_blocked(const struct choose_ask *a)
{
	char word[WORD_MAX];

	if (!choose_is_blocked(a->f))
		return false;
	ask_word(a->f, word, sizeof(word));
	(void)printf("This change needs a permission: to accept it, type '%s' instead.\n",
		     word);
	return true;
}

static enum choose_step ask_decide(struct choose_ask *a, enum choose_state state)
{
	if (state == CHOOSE_YES && ask_is_blocked(a))
		return STEP_STAY;
	a->f->states[a->at] = state;
	return STEP_DECIDED;
}

/* Decide on this part and the later ones that are open. */
static enum choose_step ask_decide_rest(struct choose_ask *a, enum choose_state state)
{
	if (state == CHOOSE_YES && ask_is_blocked(a))
		return STEP_STAY;
	for (size_t i = a->at; i < a->f->n; i++)
		if (i == a->at || a->f->states[i] == CHOOSE_OPEN)
			a->f->states[i] = state;
	return STEP_DECIDED;
}

static bool ask_can_split(const struct choose_ask *a)
{
	bool edited = a->f->originals && a->f->originals[a->at].v;

	return !a->f->whole && !edited && patch_split_count(&a->f->patch, a->at) > 1;
}

static enum choose_step ask_split(struct choose_ask *a)
{
	size_t n = a->f->n;

	if (!ask_can_split(a))
		return ask_go(a, NO_PART, "This hunk cannot be split.");
	if (choose_split(a->f, a->at, a->err) < 0)
		return ask_go(a, NO_PART, a->err->msg);
	a->f->states[a->at] = CHOOSE_OPEN;
	(void)printf("Split into %zu hunks.\n", a->f->n - n + 1);
	return STEP_SHOW;
}

static enum choose_step ask_edit(struct choose_ask *a)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (a->f->whole)
		return ask_go(a, NO_PART, "Only hunks of changed text can be edited.");
	if (a->c->no_edit)
		return ask_go(a, NO_PART, "Only hunks that are accepted can be edited.");
	if (ask_is_blocked(a))
		return STEP_STAY;
	keys_pause();
	r = choose_edit(a->c, a->f, a->at, &err);
	keys_continue();
	if (r == 0)
		return STEP_DECIDED;
	ask_say_line("The hunk is as before: ", err.msg);
	return STEP_STAY;
}

static enum choose_step ask_help(const struct choose_ask *a)
{
	const char *what = a->f->whole ? "change" : "hunk";
	char word[WORD_MAX];

	ask_word(a->f, word, sizeof(word));
	if (word[0])
		(void)printf("%s - %s this %s, with the permission that it needs\n", word,
			     a->c->verb, what);
	if (!choose_is_blocked(a->f))
		(void)printf("y - %s this %s%s\n"
			     "a - %s this %s and all later ones in the file\n",
			     a->c->verb, what, word[0] ? ", without the set-id bits" : "",
			     a->c->verb, what);
	(void)printf("n - do not %s this %s\n"
		     "q - quit; do nothing with this and the remaining ones\n"
		     "d - do nothing with this %s and all later ones in the file\n"
		     "v - view the whole file in the pager\n",
		     a->c->verb, what, what);
	if (!a->f->whole)
		ask_say("g - go to a hunk by its number\n"
			"/ - search for a hunk with a regular expression\n"
			"j - leave this hunk open, and see the next open hunk\n"
			"J - leave this hunk open, and see the next hunk\n"
			"k - leave this hunk open, and see the previous open hunk\n"
			"K - leave this hunk open, and see the previous hunk\n"
			"s - split this hunk into smaller ones\n");
	if (!a->f->whole && !a->c->no_edit)
		ask_say("e - edit this hunk by hand; what you leave out is discarded\n");
	ask_say("? - show this help\n");
	return STEP_STAY;
}

static enum choose_step ask_key(struct choose_ask *a, int key)
{
	bool hunks = a->f->n > 1;

	switch (key) {
	case KEYS_END:
		return STEP_END;
	case KEYS_NONE:
		return STEP_STAY;
	case KEYS_WORD:
		a->f->given = a->f->missing;
		return ask_decide(a, CHOOSE_YES);
	case 'y':
		return ask_decide(a, CHOOSE_YES);
	case 'n':
		return ask_decide(a, CHOOSE_NO);
	case 'a':
		return ask_decide_rest(a, CHOOSE_YES);
	case 'd':
		return ask_decide_rest(a, CHOOSE_NO);
	case 'q':
		return STEP_QUIT;
	case 'v':
		return ask_view(a);
	case 's':
		return ask_split(a);
	case 'e':
		return ask_edit(a);
	case 'j':
		return ask_go(a, ask_find(a, 1, true), "No next open hunk.");
	case 'J':
		return ask_go(a, ask_find(a, 1, false), "No next hunk.");
	case 'k':
		return ask_go(a, ask_find(a, -1, true), "No previous open hunk.");
	case 'K':
		return ask_go(a, ask_find(a, -1, false), "No previous hunk.");
	case 'g':
		return hunks ? ask_goto(a) : ask_go(a, NO_PART, "No other hunks.");
	case '/':
		return hunks ? ask_search(a) : ask_go(a, NO_PART, "No other hunks.");
	default:
		return ask_help(a);
	}
}

/* "(1/3) Accept this hunk [y,n,q,a,d,...,?]? "; [git,n,q,d,...,?]: it needs that word. */
static void ask_prompt(const struct choose_ask *a)
{
	AUTO_BUF struct buf out = BUF_INIT(1024);
	const char *c = a->colors ? a->colors->meta : "";
	bool blocked = choose_is_blocked(a->f);
	char word[WORD_MAX];

	ask_word(a->f, word, sizeof(word));
	buf_printf(&out, "%s(%zu/%zu) %s this %s [%s%s%sn,q,%sd,v", c, a->at + 1, a->f->n,
		   a->c->verb, a->f->whole ? "change" : "hunk", blocked ? "" : "y,", word,
		   word[0] ? "," : "", blocked ? "" : "a,");
	buf_puts(&out, ask_find(a, -1, true) != NO_PART ? ",k" : "");
	buf_puts(&out, ask_find(a, -1, false) != NO_PART ? ",K" : "");
	buf_puts(&out, ask_find(a, 1, true) != NO_PART ? ",j" : "");
	buf_puts(&out, ask_find(a, 1, false) != NO_PART ? ",J" : "");
	buf_puts(&out, a->f->n > 1 ? ",g,/" : "");
	buf_puts(&out, ask_can_split(a) ? ",s" : "");
	buf_puts(&out, a->f->whole || a->c->no_edit ? "" : ",e");
	buf_printf(&out, ",?]?%s ", a->colors ? a->colors->reset : "");
	ask_print(&out);
}

static enum choose_step ask_file(struct choose_ask *a)
{
	enum choose_step step = STEP_SHOW;
	bool headline = true;

	while (step < STEP_FILE) {
		char word[WORD_MAX];
		int key;

		if (step == STEP_SHOW) {
			ask_show(a, headline);
			headline = false;
		}
		ask_prompt(a);
		ask_word(a->f, word, sizeof(word));
		key = keys_read_or(word);
		step = ask_key(a, key);
		if (step == STEP_DECIDED)
			step = ask_next_open(a);
	}
	return step;
}

int choose_run(struct choose *c, struct warren_error *err)
{
	enum choose_step step = STEP_FILE;

	if (!keys_begin())
		return error_set(err, ENOTTY, "a terminal is needed to choose hunks");
	for (size_t i = 0; i < c->n && step == STEP_FILE; i++) {
		struct choose_ask a = {
			.c = c,
			.f = &c->v[i],
			.colors = show_colors(STDOUT_FILENO),
			.err = err,
		};
		int r = choose_load(c, a.f, err);

		if (r < 0) {
			keys_end();
			return r;
		}
		step = ask_file(&a);
		choose_release(a.f);
	}
	keys_end();
	if (step == STEP_END)
		ask_say("\n");
	return step != STEP_END;
}
