/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opts.c - parse options in one pass; every error names the option and a working example
 */
#include "cli/opts.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/did_you_mean.h"
#include "base/parse.h"

/* Maximum length of a line in the list of options; only a long word exceeds it. */
#define HELP_WIDTH 90
/* Maximum length of a quoted word or of an inner error in a message. */
#define QUOTE_MAX 120
#define INNER_MAX 360

static const struct opt opt_help = {
	.name = "help",
	.letter = 'h',
	.help = "show this help",
};

struct parser {
	const struct opts *o;
	char **argv;
	int argc;
	int at;      /* index of the next word */
	int skipped; /* number of operands before it, if operands are mixed with options
		      */
	void *target;
	uint64_t seen; /* one bit for each row of the table */
	bool help;
};

static const struct opt *find_letter(const struct opts *o, char letter)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->table[i].letter == letter)
			return &o->table[i];
	return letter == opt_help.letter ? &opt_help : NULL;
}

const struct opt *opts_find(const struct opts *o, const char *name, size_t len)
{
	for (size_t i = 0; i < o->n; i++)
		if (strncmp(o->table[i].name, name, len) == 0 && !o->table[i].name[len])
			return &o->table[i];
	if (len == strlen(opt_help.name) && strncmp(name, opt_help.name, len) == 0)
		return &opt_help;
	return NULL;
}

static int complain_unknown(const struct opts *o, const char *word, const char *name,
			    size_t len, struct warren_error *err)
{
	char copy[64] = "";
	struct suggestion s = { .word = copy };
	const struct opt *near;

	if (name && len < sizeof(copy))
		(void)memcpy(copy, name, len);
	for (size_t i = 0; i < o->n; i++)
		suggest_consider(&s, o->table[i].name);
	suggest_consider(&s, opt_help.name);
	near = s.best ? opts_find(o, s.best, strlen(s.best)) : NULL;
	if (near)
		return error_set(
			err, EINVAL,
			"unknown option '%.*s', did you mean --%s? (example: --%s%s%s)",
			QUOTE_MAX, word, near->name, near->name, near->value ? " " : "",
			near->value ? near->example : "");
	return error_set(err, EINVAL, "unknown option '%.*s' (see --help; example: %s)",
			 QUOTE_MAX, word, o->example);
}

static int opts_apply(struct parser *p, const struct opt *opt, const char *value,
		      struct warren_error *err)
{
	struct warren_error inner = WARREN_ERROR_INIT;

	if (opt == &opt_help) {
		p->help = true;
		return 0;
	}
	p->seen |= UINT64_C(1) << (opt - p->o->table);
	if (opt->set((char *)p->target + opt->field, value, &inner) == 0)
		return 0;
	return error_set(err, inner.code, "--%s: %.*s (example: --%s %s)", opt->name,
			 INNER_MAX, inner.msg, opt->name, opt->example);
}

/* The value of @opt: the rest of the same argument, or the next one. */
static int apply_value(struct parser *p, const struct opt *opt, const char *rest,
		       struct warren_error *err)
{
	if (!rest) {
		if (p->at == p->argc)
			return error_set(err, EINVAL,
					 "--%s needs a value (example: --%s %s)",
					 opt->name, opt->name, opt->example);
		rest = p->argv[p->at++];
	}
	return opts_apply(p, opt, rest, err);
}

/* Parse "--name" or "--name=value". */
static int parse_long(struct parser *p, const char *word, struct warren_error *err)
{
	const char *name = word + 2;
	const char *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct opt *opt = opts_find(p->o, name, len);

	if (!opt)
		return complain_unknown(p->o, word, name, len, err);
	if (opt->value)
		return apply_value(p, opt, equals ? equals + 1 : NULL, err);
	if (equals)
		return error_set(err, EINVAL, "--%s takes no value (example: --%s)",
				 opt->name, opt->name);
	return opts_apply(p, opt, NULL, err);
}

/* Parse "-it", "-m512m" or "-im512m": flags, up to an option that takes the rest as its
 * value. */
static int parse_short(struct parser *p, const char *word, struct warren_error *err)
{
	for (const char *c = word + 1; *c; c++) {
		const struct opt *opt = find_letter(p->o, *c);
		char dashed[] = { '-', *c, '\0' };
		int r;

		if (!opt)
			return complain_unknown(p->o, c == word + 1 ? word : dashed,
						word + 1, strlen(word + 1), err);
		if (opt->value)
			return apply_value(p, opt, c[1] ? c + 1 : NULL, err);
		r = opts_apply(p, opt, NULL, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool opts_seen(const struct parser *p, const char *name)
{
	const struct opt *opt = opts_find(p->o, name, strlen(name));

	return opt && (p->seen & UINT64_C(1) << (opt - p->o->table));
}

static int check_conflicts(const struct parser *p, struct warren_error *err)
{
	for (size_t i = 0; i < p->o->n_conflicts; i++) {
		const struct opt_conflict *c = &p->o->conflicts[i];

		if (opts_seen(p, c->one) && opts_seen(p, c->other))
			return error_set(err, EINVAL,
					 "--%s and --%s exclude each other: %s", c->one,
					 c->other, c->why);
	}
	return 0;
}

/* Move the words from @from up to the current one in front of the skipped operands. */
static void move_forward(struct parser *p, int from)
{
	for (int i = from; i < p->at && p->skipped > 0; i++) {
		char **first = p->argv + i - p->skipped;
		char *word = p->argv[i];

		(void)memmove(first + 1, first, (size_t)p->skipped * sizeof(*first));
		*first = word;
	}
}

int opts_parse(const struct opts *o, int argc, char **argv, void *target, int *ret_first,
	       struct warren_error *err)
{
	struct parser p = {
		.o = o, .argv = argv, .argc = argc, .at = 1, .target = target
	};
	struct warren_error first = WARREN_ERROR_INIT;

	assert(o->n <= 64); /* the number of bits in `seen` */
	while (p.at < argc) {
		const char *word = argv[p.at];
		struct warren_error e = WARREN_ERROR_INIT;
		bool end = strcmp(word, "--") == 0;
		int from = p.at, r = 0;

		if (word[0] != '-' || word[1] == '\0') {
			if (!o->mixed)
				break;
			p.at++;
			p.skipped++;
			continue;
		}
		p.at++;
		if (!end)
			r = word[1] == '-' ? parse_long(&p, word, &e)
					   : parse_short(&p, word, &e);
		move_forward(&p, from);
		if (end)
			break;
		if (p.help)
			return OPTS_HELP;
		if (r < 0 && first.code == 0)
			first = e;
	}
	if (first.code == 0)
		(void)check_conflicts(&p, &first);
	p.at -= p.skipped;
	if (first.code == 0 && !o->operands && p.at < argc)
		(void)error_set(&first, EINVAL,
				"unexpected argument '%.*s' (example: %s)", QUOTE_MAX,
				argv[p.at], o->example);
	if (first.code != 0) {
		*err = first;
		return -first.code;
	}
	*ret_first = p.at;
	return OPTS_OK;
}

static size_t list_width(const struct opt *opt)
{
	return strlen(opt->name) + (opt->value ? strlen(opt->value) + 1 : 0);
}

static void opts_list_one(const struct opt *opt, size_t width, struct buf *out)
{
	/* "  -x, --" before the name, and two blanks after it */
	const size_t column = 8 + width + 2, room = HELP_WIDTH - column;
	const char *rest = opt->help;

	buf_printf(out, "  %c%c%c --%s%s%s%*s  ", opt->letter ? '-' : ' ',
		   opt->letter ? opt->letter : ' ', opt->letter ? ',' : ' ', opt->name,
		   opt->value ? " " : "", opt->value ? opt->value : "",
		   (int)(width - list_width(opt)), "");
	while (strlen(rest) > room) {
		const char *end = memrchr(rest, ' ', room + 1);

		if (!end)
			break;
		buf_printf(out, "%.*s\n%*s", (int)(end - rest), rest, (int)column, "");
		rest = end + 1;
	}
	buf_printf(out, "%s\n", rest);
}

void opts_list(const struct opts *o, struct buf *out)
{
	size_t width = list_width(&opt_help);

	for (size_t i = 0; i < o->n; i++)
		if (list_width(&o->table[i]) > width)
			width = list_width(&o->table[i]);
	if (o->n == 0 || !o->table[0].group)
		buf_puts(out, "\nOptions:\n");
	for (size_t i = 0; i < o->n; i++) {
		if (o->table[i].group)
			buf_printf(out, "\n%s:\n", o->table[i].group);
		opts_list_one(&o->table[i], width, out);
	}
	opts_list_one(&opt_help, width, out);
}

int opt_flag(void *field, const char *value, struct warren_error *err)
{
	(void)value;
	(void)err;
	*(bool *)field = true;
	return 0;
}

int opt_text_or_none(void *field, const char *value, struct warren_error *err)
{
	(void)err;
	*(const char **)field = value;
	return 0;
}

int opt_text(void *field, const char *value, struct warren_error *err)
{
	if (!*value)
		return error_set(err, EINVAL, "it is empty");
	return opt_text_or_none(field, value, err);
}

int opt_duration(void *field, const char *value, struct warren_error *err)
{
	return parse_duration(value, field, err);
}

int opt_cpus(void *field, const char *value, struct warren_error *err)
{
	return parse_cpus(value, field, err);
}
