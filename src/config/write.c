/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write.c - print the table of keys as an example, a manual page, a help, and the values
 * in effect
 */
#include <string.h>

#include "config/config_internal.h"

#define EXAMPLE_COLUMNS 90

/* The keys of section @section, one after the other; NULL at the end. */
static const struct config_key *next_of(const char *section, const struct config_key *key)
{
	size_t n = strlen(section);

	for (key = key ? key + 1 : config_keys; key < config_keys + config_n_keys;
	     key++) {
		size_t at;

		(void)config_leaf(key, &at);
		if (at == n && strncmp(key->name, section, n) == 0)
			return key;
	}
	return NULL;
}

/* What it is, and what may stand there, in sentences. */
static void write_describe(const struct config_key *key, struct buf *out)
{
	char min[32], max[32];

	buf_printf(out, "%s.", key->help);
	for (size_t i = 0; key->choices && key->choices[i]; i++)
		buf_printf(out, "%s%s%s", i ? ", " : " One of ", key->choices[i],
			   key->choices[i + 1] ? "" : ".");
	config_number_word(key->type, key->min, min);
	config_number_word(key->type, key->max, max);
	if (key->min && key->max)
		buf_printf(out, " From %s to %s", min, max);
	else if (key->min || key->max)
		buf_printf(out, " At %s %s", key->min ? "least" : "most",
			   key->min ? min : max);
	if (key->min || key->max)
		buf_puts(out, key->none ? ", or none." : ".");
}

/* The default as root has it. */
static void put_default(const struct config_key *key, struct buf *out)
{
	static const char hole[] = "{run_dir}";
	const char *at = strstr(key->value, hole);

	if (at) {
		buf_add(out, key->value, (size_t)(at - key->value));
		buf_puts(out, config_find("run_dir", 7)->value);
		buf_puts(out, at + strlen(hole));
	} else {
		buf_puts(out, key->value);
	}
}

/* @text in lines of at most EXAMPLE_COLUMNS that begin with @lead. */
static void write_wrap(struct buf *out, const char *lead, const char *text)
{
	size_t room = EXAMPLE_COLUMNS - strlen(lead);

	while (*text) {
		size_t n = strlen(text);

		if (n > room)
			for (n = room; n > 0 && text[n] != ' ';)
				n--;
		if (n == 0)
			n = strcspn(text, " ");
		buf_puts(out, lead);
		buf_add(out, text, n);
		buf_puts(out, "\n");
		text += n;
		text += strspn(text, " ");
	}
}

/* ----------------------------------------------------------------- example */

/* A word as YAML has it: in quotes where it would be something else without. */
static void write_put_word(struct buf *out, const struct config_key *key,
			   const char *word)
{
	bool quoted = (key->type == TYPE_TEXT || key->type == TYPE_PATH ||
		       key->type == TYPE_LIST) &&
		      (!word[0] || word[strcspn(word, " #'\"{}[],&*!|>%@`")] ||
		       strchr("-?:~", word[0]) ||
		       word[strspn(word, "0123456789.eE+-")] == '\0' ||
		       strstr(word, ": ") || word[strlen(word) - 1] == ':');

	if (!quoted) {
		buf_puts(out, word);
		return;
	}
	buf_puts(out, "'");
	for (; *word; word++)
		buf_printf(out, "%s%c", *word == '\'' ? "'" : "", *word);
	buf_puts(out, "'");
}

static void example_key(const struct config_key *key, struct buf *out)
{
	AUTO_BUF struct buf text = BUF_INIT(4096);
	AUTO_BUF struct buf value = BUF_INIT(1024);
	size_t section;
	const char *leaf = config_leaf(key, &section);

	write_describe(key, &text);
	if (key->value[0])
		put_default(key, &value);
	else
		buf_puts(&value, key->example);
	if (!key->value[0])
		buf_puts(&text, " Empty by default; this is an example:");
	write_wrap(out, section ? "  # " : "# ", text.data ? text.data : "");
	buf_printf(out, "%s#%s:", section ? "  " : "", leaf);
	if (key->type == TYPE_LIST)
		buf_printf(out, "\n%s#  - ", section ? "  " : "");
	else
		buf_puts(out, " ");
	write_put_word(out, key, value.data ? value.data : "");
	buf_puts(out, "\n");
}

void config_example(struct buf *out)
{
	buf_puts(
		out,
		"# The configuration of `warren serve`: /etc/warren/warren.yaml, or the file given with\n"
		"# --config. Each key is shown with its default, commented out. Each key is also an\n"
		"# option (log.level is --log-level), which overrides this file. Check a change with\n"
		"# `warren serve --check`.\n"
		"#\n"
		"# Sizes are numbers with k, m, g or t, in powers of 1,024; durations with ms, s, m or\n"
		"# h; both may have a fraction. Where none is a value, it means: no limit.\n"
		"#\n"
		"# Written by tools/gen/gen-config from the table in src/config/keys.c.\n");
	for (size_t i = 0; i < config_n_sections; i++) {
		const struct config_section *s = &config_sections[i];

		buf_printf(out, "\n# %s.\n", s->title);
		if (s->name[0])
			buf_printf(out, "%s:\n", s->name);
		for (const struct config_key *key = next_of(s->name, NULL); key;
		     key = next_of(s->name, key)) {
			if (key != next_of(s->name, NULL) || !s->name[0])
				buf_puts(out, "\n");
			example_key(key, out);
		}
	}
	config_example_backends(out);
	config_example_templates(out);
}

/* ------------------------------------------------------------------ manual */

/* Text for mdoc: each sentence on its own line, and no line that is a request. */
static void manual_text(struct buf *out, const char *text)
{
	bool start = true;

	for (; *text; text++) {
		if (start && (*text == '.' || *text == '\''))
			buf_puts(out, "\\&");
		start = false;
		if (*text == '\\') {
			buf_puts(out, "\\e");
		} else if (strncmp(text, ". ", 2) == 0) {
			buf_puts(out, ".\n");
			start = true;
			text++;
		} else {
			buf_add(out, text, 1);
		}
	}
}

static void manual_key(const struct config_key *key, struct buf *out)
{
	AUTO_BUF struct buf text = BUF_INIT(4096);
	char flag[CONFIG_FLAG_SIZE];

	config_flag_name(key, flag);
	buf_printf(out, ".It Cm %s , Fl -%s Ar %s\n", key->name, flag,
		   config_type_name(key->type));
	write_describe(key, &text);
	manual_text(out, text.data ? text.data : "");
	buf_puts(out, key->value[0] ? "\nThe default is\n.Ql "
				    : "\nEmpty by default; an example is\n.Ql ");
	if (key->value[0])
		put_default(key, out);
	else
		buf_puts(out, key->example);
	buf_puts(out, " .\n");
}

void config_manual(struct buf *out)
{
	buf_puts(
		out,
		".\\\" SPDX-License-Identifier: Apache-2.0\n"
		".\\\" Written by tools/gen/gen-config from the table in src/config/keys.c.\n"
		".Dd November 15, 2026\n"
		".Dt WARREN.YAML 5\n"
		".Os\n"
		".Sh NAME\n"
		".Nm warren.yaml\n"
		".Nd configuration of warren serve\n"
		".Sh DESCRIPTION\n"
		"The service reads\n"
		".Pa /etc/warren/warren.yaml ,\n"
		"or the file given with\n"
		".Fl -config .\n"
		"Every key is optional, and is also an option of\n"
		".Nm warren Cm serve ,\n"
		"which overrides the file; repeat an option to give several items of a list.\n"
		"In the file, the part of a key before the dot is a section:\n"
		".Bd -literal -offset indent\n"
		"listen:\n"
		"  - unix:/run/warren/warren.sock\n"
		"log:\n"
		"  level: debug\n"
		".Ed\n"
		".Pp\n"
		"An unknown key, a repeated key and a value that is not valid are errors that name\n"
		"the line.\n"
		"YAML anchors, aliases and tags are not supported.\n"
		"Sizes are numbers with\n"
		".Cm k , m , g\n"
		"or\n"
		".Cm t ,\n"
		"in powers of 1,024; durations with\n"
		".Cm ms , s , m\n"
		"or\n"
		".Cm h ;\n"
		"both may have a fraction.\n"
		"Where\n"
		".Cm none\n"
		"is a value, it means that there is no limit.\n"
		".Ql warren serve --check\n"
		"checks the file and prints the configuration in effect.\n");
	for (size_t i = 0; i < config_n_sections; i++) {
		const struct config_section *s = &config_sections[i];

		buf_printf(out, ".Ss %s\n.Bl -tag -width Ds\n", s->title);
		for (const struct config_key *key = next_of(s->name, NULL); key;
		     key = next_of(s->name, key))
			manual_key(key, out);
		buf_puts(out, ".El\n");
	}
	config_manual_backends(out);
	config_manual_templates(out);
	buf_puts(out, ".Sh FILES\n"
		      ".Bl -tag -width Ds\n"
		      ".It Pa /etc/warren/warren.yaml\n"
		      "The configuration.\n"
		      ".El\n"
		      ".Sh SEE ALSO\n"
		      ".Xr warren 1\n");
}

/* -------------------------------------------------------- help and enforced */

void config_help(struct buf *out)
{
	for (size_t i = 0; i < config_n_sections; i++) {
		const struct config_section *s = &config_sections[i];

		buf_printf(out, "%s%s:\n", i ? "\n" : "", s->title);
		for (const struct config_key *key = next_of(s->name, NULL); key;
		     key = next_of(s->name, key)) {
			char flag[CONFIG_FLAG_SIZE];

			config_flag_name(key, flag);
			buf_printf(out, "  --%s %s", flag, config_type_name(key->type));
			buf_puts(out, key->value[0] ? " (" : "");
			put_default(key, out);
			buf_puts(out, key->value[0] ? ")\n" : "\n");
			write_wrap(out, "        ", key->help);
		}
	}
}

static void show_key(const struct config *c, const struct config_key *key,
		     struct buf *out)
{
	const struct config_list *list = (const void *)((const char *)c + key->field);
	size_t section, n = key->type == TYPE_LIST ? list->n : 1;
	const char *leaf = config_leaf(key, &section);

	buf_printf(out, "%s%s:", section ? "  " : "", leaf);
	if (n == 0)
		buf_puts(out, " []");
	for (size_t i = 0; i < n; i++) {
		AUTO_BUF struct buf word = BUF_INIT(8192);

		config_word(c, key, i, &word);
		if (key->type == TYPE_LIST)
			buf_printf(out, "\n%s  -", section ? "  " : "");
		buf_puts(out, " ");
		write_put_word(out, key, word.data ? word.data : "");
	}
	buf_puts(out, "\n");
}

void config_show(const struct config *c, struct buf *out)
{
	for (size_t i = 0; i < config_n_sections; i++) {
		const struct config_section *s = &config_sections[i];

		if (s->name[0])
			buf_printf(out, "%s:\n", s->name);
		for (const struct config_key *key = next_of(s->name, NULL); key;
		     key = next_of(s->name, key))
			show_key(c, key, out);
	}
	config_show_backends(c, out);
	config_show_templates(c, out);
}
