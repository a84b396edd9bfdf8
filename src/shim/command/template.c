/* SPDX-License-Identifier: Apache-2.0 */
/* template.c - fill argv templates of the configuration */
#include "shim/command/template.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#define WORD_MAX (8U << 20)

void template_done(struct template_argv *argv)
{
	for (size_t i = 0; i < argv->n; i++)
		free(argv->words[i]);
	free(argv->words);
	*argv = (struct template_argv){ 0 };
}

static int template_add(struct template_argv *a, const char *word)
{
	if (a->n + 1 >= a->cap) {
		size_t cap = a->cap ? 2 * a->cap : 32;
		char **words = reallocarray(a->words, cap, sizeof(*words));

		if (!words)
			return -ENOMEM;
		a->words = words;
		a->cap = cap;
	}
	a->words[a->n] = strdup(word);
	if (!a->words[a->n])
		return -ENOMEM;
	a->words[++a->n] = NULL;
	return 0;
}

static struct hole *template_find(struct hole *holes, size_t n, const char *name,
				  size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(holes[i].name) == len &&
		    strncmp(holes[i].name, name, len) == 0)
			return &holes[i];
	return NULL;
}

/* Return the placeholder, if the word consists of nothing else. */
static struct hole *template_alone(const char *word, struct hole *holes, size_t n)
{
	size_t len = strlen(word);

	if (len < 3 || word[0] != '{' || word[1] == '{' || word[len - 1] != '}')
		return NULL;
	return template_find(holes, n, word + 1, len - 2);
}

static int template_bad(const struct template_use *u, const char *word, const char *why,
			struct warren_error *err)
{
	return error_set(err, EINVAL, "%s: %s: '%.60s': %s", u->name, u->step, word, why);
}

static int fill_word(const char *word, const struct template_use *u, struct buf *out,
		     struct warren_error *err)
{
	for (const char *at = word; *at;) {
		size_t plain = strcspn(at, "{");
		const char *end;
		struct hole *h;

		buf_add(out, at, plain);
		at += plain;
		if (!*at)
			break;
		if (at[1] == '{') {
			buf_puts(out, "{");
			at += 2;
			continue;
		}
		end = strchr(at, '}');
		h = end ? template_find(u->holes, u->n_holes, at + 1,
					(size_t)(end - at) - 1)
			: NULL;
		if (!h)
			return template_bad(u, word, "this {word} is not known here",
					    err);
		if (!h->value)
			return template_bad(u, word, "there is no value for it", err);
		/*
		 * A value from outside at the beginning of a word could be read as an
		 * option of the tool.
		 */
		if (out->len == 0 && h->value[0] == '-' && !h->option)
			return error_set(
				err, EINVAL,
				"%s: %s: %s '%.60s' begins with '-' and would be read "
				"as an option",
				u->name, u->step, h->name, h->value);
		h->used = true;
		buf_puts(out, h->value);
		at = end + 1;
	}
	return 0;
}

static int add_all(struct template_argv *a, const char *const *argv)
{
	int r = 0;

	for (; r == 0 && *argv; argv++)
		r = template_add(a, *argv);
	return r;
}

/* If an option has no value, remove the option too. */
static void leave_out(struct template_argv *a)
{
	if (a->n > 1 && a->words[a->n - 1][0] == '-') {
		free(a->words[--a->n]);
		a->words[a->n] = NULL;
	}
}

/* Add the word @word of a template to the arguments, as one or more words. */
static int add_filled(const char *word, struct template_use *u, struct template_argv *ret,
		      struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(WORD_MAX);
	struct hole *h = template_alone(word, u->holes, u->n_holes);
	int r;

	if (u->argv && strcmp(word, "{argv}") == 0) {
		u->used_argv = true;
		r = add_all(ret, u->argv);
	} else if (h && !h->value) {
		h->used = true;
		/* {tty} is an option itself. */
		if (strcmp(h->name, "tty") != 0)
			leave_out(ret);
		return 0;
	} else {
		r = fill_word(word, u, &out, err);
		if (r < 0)
			return r;
		r = out.failed ? -ENOMEM : template_add(ret, out.data ? out.data : "");
	}
	return r < 0 ? error_errno(err, -r, "%s: %s", u->name, u->step) : 0;
}

int template_fill(const json_t *list, struct template_use *use, struct template_argv *ret,
		  struct warren_error *err)
{
	size_t i;
	json_t *v;

	json_array_foreach((json_t *)(uintptr_t)list, i, v)
	{
		const char *word = json_string_value(v);
		int r = word ? add_filled(word, use, ret, err)
			     : template_bad(use, "?", "a word is not a string", err);

		if (r < 0)
			return r;
	}
	return ret->n > 0 ? 0 : template_bad(use, "[]", "there is nothing to run", err);
}

bool template_has(const json_t *list, const char *hole)
{
	char want[32];
	size_t i;
	json_t *v;

	(void)snprintf(want, sizeof(want), "{%s}", hole);
	json_array_foreach((json_t *)(uintptr_t)list, i, v)
	{
		const char *word = json_string_value(v);

		if (word && strstr(word, want))
			return true;
	}
	return false;
}
