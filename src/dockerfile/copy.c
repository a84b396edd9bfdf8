/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c - parse COPY and ADD instructions */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/strv.h"
#include "dockerfile/vars.h"

#define COPY_MODE_MAX 07777U

struct copy_op {
	const struct dockerfile *d;
	const struct dockerfile_instruction *i;
	const struct dockerfile_state *s;
	struct dockerfile_copy *ret;
	struct warren_error *err;
};

void dockerfile_copy_done(struct dockerfile_copy *c)
{
	for (size_t k = 0; k < c->n_files; k++) {
		free(c->files[k].name);
		free(c->files[k].data);
	}
	free(c->files);
	free(c->dest);
	free(c->owner);
	(void)strv_free(c->sources);
	*c = (struct dockerfile_copy){ 0 };
}

/* Options that BuildKit has, and what to do instead. */
static const struct {
	const char *flag, *advice;
} copy_refused[] = {
	{ "parents", "write one instruction for each directory" },
	{ "exclude", "list the files in .dockerignore" },
	{ "checksum", "it is for URLs, which are not supported" },
	{ "keep-git-dir", "it is for git repositories, which are not supported" },
};

static int copy_flag_bool(struct copy_op *op, const char *name, bool unset, bool *ret)
{
	const char *value = dockerfile_flag(op->i, name);

	*ret = value ? strcasecmp(value, "false") != 0 : unset;
	if (value && *value && strcasecmp(value, "true") != 0 &&
	    strcasecmp(value, "false") != 0)
		return error_set(op->err, EINVAL, "--%s is true or false, not '%.40s'",
				 name, value);
	return 0;
}

static int copy_mode(struct copy_op *op, const char *flag)
{
	AUTO_FREE char *text = NULL;
	unsigned long mode;
	int r = vars_expand(op->d, op->s, flag, &text, op->err);

	if (r < 0)
		return r;
	mode = strtoul(text, NULL, 8);
	if (!text[0] || strspn(text, "01234567") != strlen(text) || mode > COPY_MODE_MAX)
		return error_set(op->err, EINVAL,
				 "--chmod: '%.40s' is not a mode in octal (example: 755)",
				 text);
	op->ret->mode = (int)mode;
	return 0;
}

static int copy_flags(struct copy_op *op)
{
	const char *owner = dockerfile_flag(op->i, "chown");
	const char *mode = dockerfile_flag(op->i, "chmod");
	bool ignored;
	int r;

	for (size_t k = 0; k < ARRAY_SIZE(copy_refused); k++)
		if (dockerfile_flag(op->i, copy_refused[k].flag))
			return error_set(op->err, ENOTSUP, "--%s is not supported: %s",
					 copy_refused[k].flag, copy_refused[k].advice);
	op->ret->from = dockerfile_flag(op->i, "from");
	if (op->ret->from && (strchr(op->ret->from, '$') || !op->ret->from[0]))
		return error_set(op->err, EINVAL,
				 "--from: '%.80s' is not the name of a stage or image; "
				 "variables are not replaced here",
				 op->ret->from);
	/* --link has no effect on the result, because all layers are independent. */
	r = copy_flag_bool(op, "link", false, &ignored);
	if (r == 0)
		r = copy_flag_bool(op, "unpack", op->i->kind == DOCKERFILE_ADD,
				   &op->ret->unpack);
	if (r == 0 && owner)
		r = vars_expand(op->d, op->s, owner, &op->ret->owner, op->err);
	if (r == 0 && op->ret->owner && !op->ret->owner[0])
		r = error_set(op->err, EINVAL, "--chown is empty");
	return r == 0 && mode ? copy_mode(op, mode) : r;
}

static bool copy_is_remote(const char *source)
{
	static const char *const prefixes[] = { "http://", "https://", "ftp://",
						"git://",  "ssh://",   "git@" };

	for (size_t k = 0; k < ARRAY_SIZE(prefixes); k++)
		if (strncasecmp(source, prefixes[k], strlen(prefixes[k])) == 0)
			return true;
	return false;
}

static const struct dockerfile_heredoc *
copy_heredoc(const struct dockerfile_instruction *i, const char *word)
{
	for (size_t k = 0; k < i->n_heredocs; k++)
		if (strcmp(i->heredocs[k].word, word) == 0)
			return &i->heredocs[k];
	return NULL;
}

static int copy_add_file(struct copy_op *op, const struct dockerfile_heredoc *h)
{
	struct dockerfile_file *grown = reallocarray(op->ret->files, op->ret->n_files + 1,
						     sizeof(*grown)),
			       *f;

	if (!grown)
		return error_errno(op->err, ENOMEM, "parse the instruction");
	op->ret->files = grown;
	f = &grown[op->ret->n_files++];
	*f = (struct dockerfile_file){ .name = strdup(h->name) };
	if (!f->name)
		return error_errno(op->err, ENOMEM, "parse the instruction");
	if (strchr(h->name, '/') || strcmp(h->name, ".") == 0 ||
	    strcmp(h->name, "..") == 0)
		return error_set(op->err, EINVAL,
				 "the heredoc '%.80s' is not the name of a file",
				 h->name);
	if (h->expand)
		return vars_expand_text(op->d, op->s, h->data, &f->data, op->err);
	f->data = strdup(h->data);
	return f->data ? 0 : error_errno(op->err, ENOMEM, "parse the instruction");
}

static int copy_add_source(struct copy_op *op, const char *word)
{
	const struct dockerfile_heredoc *h = copy_heredoc(op->i, word);
	AUTO_FREE char *source = NULL;
	int r;

	if (h)
		return copy_add_file(op, h);
	r = vars_expand(op->d, op->s, word, &source, op->err);
	if (r < 0)
		return r;
	if (!source[0])
		return error_set(op->err, EINVAL, "a source is empty");
	if (copy_is_remote(source))
		return error_set(op->err, ENOTSUP,
				 "'%.120s': files are not downloaded; download it with "
				 "RUN, or put it into the build context",
				 source);
	if (strv_add(&op->ret->sources, source) < 0)
		return error_errno(op->err, ENOMEM, "parse the instruction");
	return 0;
}

/* The destination is relative to WORKDIR; a final slash says that it is a directory. */
static int copy_dest(struct copy_op *op, const char *word)
{
	AUTO_FREE char *dest = NULL, *joined = NULL;
	size_t n;
	int r = vars_expand(op->d, op->s, word, &dest, op->err);

	if (r < 0)
		return r;
	n = strlen(dest);
	if (n == 0)
		return error_set(op->err, EINVAL, "the destination is empty");
	joined = dockerfile_join(op->s->workdir ? op->s->workdir : "/", dest);
	if (joined &&
	    (dest[n - 1] == '/' || strcmp(dest, ".") == 0 || strcmp(dest, "..") == 0 ||
	     (n >= 2 && strcmp(dest + n - 2, "/.") == 0)) &&
	    strcmp(joined, "/") != 0) {
		if (asprintf(&op->ret->dest, "%s/", joined) < 0)
			op->ret->dest = NULL;
	} else {
		op->ret->dest = TAKE_PTR(joined);
	}
	return op->ret->dest ? 0 : error_errno(op->err, ENOMEM, "parse the instruction");
}

static int copy_parse(struct copy_op *op)
{
	size_t n = strv_len(op->i->args);
	int r = copy_flags(op);

	if (r == 0)
		r = copy_dest(op, op->i->args[n - 1]);
	for (size_t k = 0; r == 0 && k + 1 < n; k++)
		r = copy_add_source(op, op->i->args[k]);
	if (r == 0 && n > 2 && op->ret->dest[strlen(op->ret->dest) - 1] != '/')
		return error_set(op->err, EINVAL,
				 "with more than one source, the destination must be a "
				 "directory and end with a '/'");
	return r;
}

int dockerfile_copy_parse(const struct dockerfile *d,
			  const struct dockerfile_instruction *i,
			  const struct dockerfile_state *s, struct dockerfile_copy *ret,
			  struct warren_error *err)
{
	struct dockerfile_copy c = { .mode = -1 };
	struct copy_op op = { d, i, s, &c, err };
	int r = copy_parse(&op);

	if (r < 0) {
		dockerfile_copy_done(&c);
		return dockerfile_error(d, i->line, err);
	}
	*ret = c;
	return 0;
}
