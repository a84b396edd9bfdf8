/* SPDX-License-Identifier: Apache-2.0 */
/* decide_command.c - suggest a command that can be copied to a shell */
#include <string.h>

#include "cli/work/decide.h"
#include "cli/work/select.h"
#include "textdiff/unified.h"

/* Messages have at most 2,048 bytes. A command that lost paths would accept more. */
#define SUGGEST_MAX 1400

static bool command_is_plain(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-./,:=@%+";

	return *word && word[strspn(word, plain)] == '\0';
}

/* Can the word be printed as it is? */
static bool command_is_visible(const char *word)
{
	const struct text t = TEXT(word, strlen(word));
	AUTO_BUF struct buf shown = BUF_INIT(1 << 16);

	text_put_visible(&shown, t);
	return !shown.failed && !strpbrk(word, "\t\n") &&
	       text_equal(TEXT(shown.data, shown.len), t);
}

/* Write a word of a command line so that a shell understands it. */
static void command_put(struct buf *out, const char *word)
{
	const bool visible = command_is_visible(word);

	if (command_is_plain(word)) {
		buf_puts(out, word);
		return;
	}
	buf_puts(out, visible ? "'" : "$'");
	for (const char *s = word; *s; s++)
		if (visible && *s == '\'')
			buf_puts(out, "'\\''");
		else if (visible || (*s >= ' ' && *s <= '~' && *s != '\'' && *s != '\\'))
			buf_add(out, s, 1);
		else
			buf_printf(out, "\\%03o", (unsigned char)*s);
	buf_puts(out, "'");
}

static void command_put_options(const struct decide *d, struct buf *out)
{
	if (d->hunks)
		buf_puts(out, " --hunks");
	if (d->options.ignored)
		buf_puts(out, " --ignored");
	for (unsigned bit = 1; bit <= GUARD_HIDDEN; bit *= 2)
		if (d->options.allow & bit)
			buf_printf(out, " --allow %s",
				   change_guard_name((enum change_guard)bit));
	if (d->wanted && d->options.conflicts)
		buf_printf(out, " --conflicts %s",
			   decide_conflicts_name(d->options.conflicts));
}

void decide_put_command(const struct decide *d, const char *option, struct buf *out)
{
	char *const *paths = d->wanted ? d->wanted->paths : NULL;
	const char *from = d->wanted ? d->wanted->paths_from.path : NULL;
	AUTO_BUF struct buf words = BUF_INIT(1 << 20);
	bool dash = false;

	for (size_t i = 0; paths && paths[i]; i++) {
		/* A path without changes would be an error. */
		if (d->rest && !select_has(d->work, d->rest, paths[i]))
			continue;
		dash |= paths[i][0] == '-';
		buf_puts(&words, " ");
		command_put(&words, paths[i]);
	}
	buf_printf(out, "warren accept %s %s", d->work->id, option);
	command_put_options(d, out);
	if (from) {
		buf_puts(out, " --paths-from ");
		command_put(out, from);
	}
	buf_puts(out, dash ? " --" : "");
	if (words.failed || out->len + words.len > SUGGEST_MAX)
		buf_puts(out, " PATH... (the same paths)");
	else
		buf_add(out, words.data, words.len);
}
