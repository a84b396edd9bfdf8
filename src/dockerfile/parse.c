/* SPDX-License-Identifier: Apache-2.0 */
/* parse.c - the table of instructions, and the form of each */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/did_you_mean.h"
#include "base/strv.h"
#include "dockerfile/dockerfile.h"
#include "dockerfile/lines.h"
#include "dockerfile/words.h"

/* How the text after the flags becomes words. */
enum form {
	FORM_WORDS,       /* words separated by whitespace */
	FORM_WORDS_JSON,  /* a JSON array, or words separated by whitespace */
	FORM_COMMAND,     /* a JSON array, or one word for a shell */
	FORM_JSON,        /* a JSON array */
	FORM_ONE,         /* one word, which may contain whitespace */
	FORM_NAMES,       /* name or name=value, with quotes */
	FORM_PAIRS,       /* name=value with quotes, or "name value" */
	FORM_HEALTHCHECK, /* NONE, or CMD and a command */
};

static const struct kind {
	const char *name;
	enum form form;
	size_t min; /* words */
	const char *example;
	const char *flags[9]; /* all that BuildKit knows; state.c refuses some */
	bool heredocs;
} kinds[] = {
	[DOCKERFILE_ADD] = { "ADD",
			     FORM_WORDS_JSON,
			     2,
			     "ADD files.tar.gz /srv/",
			     { "chown", "chmod", "link", "exclude", "checksum",
			       "keep-git-dir", "unpack" },
			     true },
	[DOCKERFILE_ARG] = { "ARG", FORM_NAMES, 1, "ARG VERSION=1.0" },
	[DOCKERFILE_CMD] = { "CMD", FORM_COMMAND, 0, "CMD [\"python3\"]" },
	[DOCKERFILE_COPY] = { "COPY",
			      FORM_WORDS_JSON,
			      2,
			      "COPY src/ /src/",
			      { "from", "chown", "chmod", "link", "parents", "exclude" },
			      true },
	[DOCKERFILE_ENTRYPOINT] = { "ENTRYPOINT", FORM_COMMAND, 0,
				    "ENTRYPOINT [\"/bin/app\"]" },
	[DOCKERFILE_ENV] = { "ENV", FORM_PAIRS, 1, "ENV NAME=value" },
	[DOCKERFILE_EXPOSE] = { "EXPOSE", FORM_WORDS, 1, "EXPOSE 80/tcp" },
	[DOCKERFILE_FROM] = { "FROM",
			      FORM_WORDS,
			      1,
			      "FROM debian:12 AS build",
			      { "platform" } },
	[DOCKERFILE_HEALTHCHECK] = { "HEALTHCHECK",
				     FORM_HEALTHCHECK,
				     1,
				     "HEALTHCHECK CMD true",
				     { "interval", "timeout", "start-period",
				       "start-interval", "retries" } },
	[DOCKERFILE_LABEL] = { "LABEL", FORM_PAIRS, 1, "LABEL name=value" },
	[DOCKERFILE_MAINTAINER] = { "MAINTAINER", FORM_ONE, 1, "MAINTAINER Jo Doe" },
	[DOCKERFILE_RUN] = { "RUN",
			     FORM_COMMAND,
			     1,
			     "RUN make install",
			     { "mount", "network", "security", "device" },
			     true },
	[DOCKERFILE_SHELL] = { "SHELL", FORM_JSON, 1, "SHELL [\"/bin/bash\", \"-c\"]" },
	[DOCKERFILE_STOPSIGNAL] = { "STOPSIGNAL", FORM_ONE, 1, "STOPSIGNAL SIGTERM" },
	[DOCKERFILE_USER] = { "USER", FORM_ONE, 1, "USER 1000:1000" },
	[DOCKERFILE_VOLUME] = { "VOLUME", FORM_WORDS_JSON, 1, "VOLUME /data" },
	[DOCKERFILE_WORKDIR] = { "WORKDIR", FORM_ONE, 1, "WORKDIR /src" },
};
_Static_assert(ARRAY_SIZE(kinds) == DOCKERFILE_KIND_MAX, "an instruction has no row");

const char *dockerfile_kind_name(enum dockerfile_kind kind)
{
	return kinds[kind].name;
}

const char *dockerfile_flag(const struct dockerfile_instruction *i, const char *name)
{
	size_t n = strlen(name);

	for (char **f = i->flags; f && *f; f++)
		if (strncmp(*f, name, n) == 0 && ((*f)[n] == '=' || !(*f)[n]))
			return (*f)[n] ? *f + n + 1 : *f + n;
	return NULL;
}

int dockerfile_error(const struct dockerfile *d, unsigned line, struct warren_error *err)
{
	return error_wrap(err, "%s:%u", d->name, line);
}

static void instruction_done(struct dockerfile_instruction *i)
{
	for (size_t k = 0; k < i->n_heredocs; k++) {
		free(i->heredocs[k].word);
		free(i->heredocs[k].name);
		free(i->heredocs[k].data);
	}
	free(i->heredocs);
	free(i->text);
	i->flags = strv_free(i->flags);
	i->args = strv_free(i->args);
}

void dockerfile_done(struct dockerfile *d)
{
	for (size_t k = 0; k < d->n; k++)
		instruction_done(&d->v[k]);
	free(d->v);
	free(d->name);
	*d = (struct dockerfile){ 0 };
}

/* ------------------------------------------------------------------- names */

static int parse_unknown(const char *word, size_t n, struct warren_error *err)
{
	AUTO_FREE char *upper = strndup(word, n > 40 ? 40 : n);
	struct suggestion s = { .word = upper };

	for (char *p = upper; p && *p; p++)
		if (*p >= 'a' && *p <= 'z')
			*p = (char)(*p - 32);
	if (!upper)
		return error_errno(err, ENOMEM, "parse the instruction");
	if (strcmp(upper, "ONBUILD") == 0)
		return error_set(err, ENOTSUP,
				 "ONBUILD is not supported: put the instruction into "
				 "the Dockerfiles that begin with this image");
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
		suggest_consider(&s, kinds[k].name);
	if (s.best)
		return error_set(err, EINVAL,
				 "unknown instruction '%s'; did you mean '%s'?", upper,
				 s.best);
	return error_set(err, EINVAL, "unknown instruction '%s'", upper);
}

static int parse_kind(const char *word, size_t n, enum dockerfile_kind *ret,
		      struct warren_error *err)
{
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
		if (strlen(kinds[k].name) == n &&
		    strncasecmp(kinds[k].name, word, n) == 0) {
			*ret = (enum dockerfile_kind)k;
			return 0;
		}
	return parse_unknown(word, n, err);
}

/* ------------------------------------------------------------------- flags */

static int parse_check_flag(const struct kind *kind, const char *flag,
			    struct warren_error *err)
{
	size_t n = strcspn(flag, "=");

	for (size_t k = 0; kind->flags[k]; k++)
		if (strlen(kind->flags[k]) == n && strncmp(kind->flags[k], flag, n) == 0)
			return 0;
	return error_set(err, EINVAL, "%s has no option --%.*s", kind->name,
			 (int)(n > 80 ? 80 : n), flag);
}

/* Words that begin with "--", before the others; *@text becomes what follows. */
static int parse_flags(struct dockerfile_instruction *i, const char **text, char escape,
		       struct warren_error *err)
{
	const char *p = *text;

	while (strncmp(p, "--", 2) == 0) {
		AUTO_BUF struct buf flag = BUF_INIT(DOCKERFILE_SIZE_MAX);
		int r;

		for (p += 2; *p && !words_blank(*p); p++) {
			if (*p == escape && p[1])
				p++;
			buf_add(&flag, p, 1);
		}
		while (words_blank(*p))
			p++;
		*text = p;
		if (flag.len == 0)
			return flag.failed ? error_errno(err, ENOMEM, "parse options")
					   : 0;
		r = parse_check_flag(&kinds[i->kind], flag.data, err);
		if (r < 0)
			return r;
		if (strv_len(i->flags) >= WORDS_MAX)
			return error_set(err, E2BIG, "it has too many options");
		if (flag.failed || strv_add(&i->flags, flag.data) < 0)
			return error_errno(err, ENOMEM, "parse options");
	}
	return 0;
}

/* ------------------------------------------------------------------- forms */

static int parse_one(struct dockerfile_instruction *i, const char *text,
		     struct warren_error *err)
{
	if (*text && strv_add(&i->args, text) < 0)
		return error_errno(err, ENOMEM, "parse the instruction");
	return 0;
}

static int parse_json(struct dockerfile_instruction *i, const char *text,
		      struct warren_error *err)
{
	int r = words_array(text, &i->args, err);

	i->json = r > 0;
	return r;
}

/* "name rest of the line" is an old form of "name=value". */
static int parse_old_pair(struct dockerfile_instruction *i, const char *text,
			  struct warren_error *err)
{
	AUTO_FREE char *pair = NULL;
	size_t n = strcspn(text, " \t\v\f\r");
	const char *value = text + n;

	while (words_blank(*value))
		value++;
	if (!*value)
		return error_set(err, EINVAL, "'%.80s' has no value (example: %s)", text,
				 kinds[i->kind].example);
	if (asprintf(&pair, "%.*s=%s", (int)n, text, value) < 0) {
		pair = NULL;
		return error_errno(err, ENOMEM, "parse the instruction");
	}
	return parse_one(i, pair, err);
}

static int parse_pairs(struct dockerfile_instruction *i, const char *text, char escape,
		       struct warren_error *err)
{
	int r = words_split(text, true, escape, &i->args, err);

	if (r < 0 || !i->args[0])
		return r;
	if (!strchr(i->args[0], '=')) {
		i->args = strv_free(i->args);
		return parse_old_pair(i, text, err);
	}
	for (char **a = i->args; *a; a++)
		if (!strchr(*a, '=') || (*a)[0] == '=')
			return error_set(err, EINVAL,
					 "'%.80s' is not name=value (example: %s)", *a,
					 kinds[i->kind].example);
	return 0;
}

/* The first word is NONE or CMD, the others are the command. */
static int parse_healthcheck(struct dockerfile_instruction *i, const char *text,
			     struct warren_error *err)
{
	AUTO_STRV char **command = NULL;
	size_t n = strcspn(text, " \t\v\f\r");
	bool none = n == 4 && strncasecmp(text, "NONE", 4) == 0;
	const char *rest = text + n;
	int r;

	while (words_blank(*rest))
		rest++;
	if (none ? *rest != '\0' : n != 3 || strncasecmp(text, "CMD", 3) != 0 || !*rest)
		return error_set(err, EINVAL,
				 "HEALTHCHECK needs NONE, or CMD and a command "
				 "(example: %s)",
				 kinds[i->kind].example);
	r = none ? 0 : words_array(rest, &command, err);
	if (r < 0)
		return r;
	i->json = r > 0;
	if (strv_add(&i->args, none ? "NONE" : "CMD") < 0)
		return error_errno(err, ENOMEM, "parse the instruction");
	for (char **c = command; c && *c; c++)
		if (strv_add(&i->args, *c) < 0)
			return error_errno(err, ENOMEM, "parse the instruction");
	return i->json ? 0 : parse_one(i, rest, err);
}

static int parse_form(struct dockerfile_instruction *i, const char *text, char escape,
		      struct warren_error *err)
{
	enum form form = kinds[i->kind].form;
	int r = 0;

	if (form == FORM_WORDS_JSON || form == FORM_COMMAND || form == FORM_JSON)
		r = parse_json(i, text, err);
	if (r != 0)
		return r < 0 ? r : 0;
	switch (form) {
	case FORM_WORDS:
	case FORM_WORDS_JSON:
		return words_split(text, false, escape, &i->args, err);
	case FORM_NAMES:
		return words_split(text, true, escape, &i->args, err);
	case FORM_PAIRS:
		return parse_pairs(i, text, escape, err);
	case FORM_HEALTHCHECK:
		return parse_healthcheck(i, text, err);
	case FORM_JSON:
		return error_set(err, EINVAL, "%s needs a JSON array (example: %s)",
				 kinds[i->kind].name, kinds[i->kind].example);
	case FORM_COMMAND:
	case FORM_ONE:
		break;
	}
	return parse_one(i, text, err);
}

/* ------------------------------------------------------------ instructions */

static int parse_instruction(struct lines *l, char *text,
			     struct dockerfile_instruction *i, struct warren_error *err)
{
	size_t n = strcspn(text, " \t\v\f\r"), len = strlen(text);
	const char *rest = text + n;
	int r = parse_kind(text, n, &i->kind, err);

	if (r < 0)
		return r;
	while (len > 0 && words_blank(text[len - 1]))
		text[--len] = '\0';
	while (words_blank(*rest))
		rest++;
	if (asprintf(&i->text, "%s%s%s", kinds[i->kind].name, *rest ? " " : "", rest) <
	    0) {
		i->text = NULL;
		return error_errno(err, ENOMEM, "parse the instruction");
	}
	r = parse_flags(i, &rest, l->escape, err);
	if (r == 0)
		r = parse_form(i, rest, l->escape, err);
	if (r < 0)
		return r;
	if (!i->args && !(i->args = calloc(1, sizeof(*i->args))))
		return error_errno(err, ENOMEM, "parse the instruction");
	if (strv_len(i->args) < kinds[i->kind].min)
		return error_set(err, EINVAL,
				 "%s needs at least %zu argument%s "
				 "(example: %s)",
				 kinds[i->kind].name, kinds[i->kind].min,
				 kinds[i->kind].min > 1 ? "s" : "",
				 kinds[i->kind].example);
	return kinds[i->kind].heredocs && !i->json ? lines_heredocs(l, rest, i, err) : 0;
}

/* Check that there is a FROM, and that nothing but ARG precedes it. */
static int parse_check_order(const struct dockerfile *d, struct warren_error *err)
{
	size_t k = 0;

	while (k < d->n && d->v[k].kind == DOCKERFILE_ARG)
		k++;
	if (k == d->n)
		return error_set(err, EINVAL, "%s: it has no FROM instruction", d->name);
	if (d->v[k].kind == DOCKERFILE_FROM)
		return 0;
	(void)error_set(err, EINVAL, "%s before FROM: only ARG is allowed there",
			kinds[d->v[k].kind].name);
	return dockerfile_error(d, d->v[k].line, err);
}

static int parse_add(struct dockerfile *d, struct lines *l, char *text, unsigned line,
		     struct warren_error *err)
{
	int r;

	if (d->n == DOCKERFILE_INSTRUCTIONS_MAX)
		return error_set(err, E2BIG, "the file has more than %d instructions",
				 DOCKERFILE_INSTRUCTIONS_MAX);
	if ((d->n & (d->n - 1)) == 0) {
		void *grown = reallocarray(d->v, d->n ? d->n * 2 : 1, sizeof(*d->v));

		if (!grown)
			return error_errno(err, ENOMEM, "parse the file");
		d->v = grown;
	}
	d->v[d->n] = (struct dockerfile_instruction){ .line = line };
	r = parse_instruction(l, text, &d->v[d->n++], err);
	return r < 0 ? dockerfile_error(d, line, err) : 0;
}

static int parse_all(struct dockerfile *d, const char *text, size_t size,
		     struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(DOCKERFILE_SIZE_MAX);
	struct lines l;
	unsigned line = 0;
	int r = lines_init(&l, text, size, err);

	if (r < 0)
		return dockerfile_error(d, l.number, err);
	d->escape = l.escape;
	while ((r = lines_next(&l, &out, &line, err)) > 0) {
		r = parse_add(d, &l, out.data, line, err);
		if (r < 0)
			return r;
	}
	return r < 0 ? dockerfile_error(d, line, err) : parse_check_order(d, err);
}

int dockerfile_parse(const char *text, size_t size, const char *name,
		     struct dockerfile *ret, struct warren_error *err)
{
	struct dockerfile d = { .name = strdup(name) };
	int r;

	if (!d.name)
		return error_errno(err, ENOMEM, "parse the file");
	if (size > DOCKERFILE_SIZE_MAX)
		r = error_set(err, EFBIG, "%s: it is larger than %d bytes", name,
			      DOCKERFILE_SIZE_MAX);
	else
		r = parse_all(&d, text, size, err);
	if (r < 0) {
		dockerfile_done(&d);
		return r;
	}
	*ret = d;
	return 0;
}
