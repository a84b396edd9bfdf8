/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regex.c - compile a pattern to a small program, and run it in all its states at once
 *
 * The program (Thompson's construction) has a state for each byte that the pattern can
 * match next, and states that branch to two others. For each byte of the line, all states
 * that can be reached are tried together; each state has the earliest start that leads to
 * it, so that the first match is found in one pass.
 */
#include "regex/regex.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

/* Longer than a name; with 64 KiB, a match takes tens of milliseconds. */
#define PROGRAM_MAX 320
#define DEPTH_MAX   64
#define REPEAT_MAX  255

enum op {
	OP_CLASS, /* matches one byte of a set */
	OP_SPLIT, /* continues at x and at y */
	OP_JUMP,  /* to x */
	OP_BEGIN, /* beginning of the line */
	OP_END,
	OP_EDGE,   /* edge of a word */
	OP_INSIDE, /* not at an edge */
	OP_MATCH,
};

struct inst {
	uint8_t op;
	uint16_t x, y;
	uint8_t set[32];
};

struct thread {
	uint16_t at;
	size_t from;
};

struct threads {
	struct thread list[PROGRAM_MAX];
	size_t n;
};

struct pattern {
	char *text; /* text to find without a program; NULL: none */
	size_t len;
	bool any_case; /* the case of the text is ignored */
	size_t n;
	bool first[256]; /* bytes that a match can begin with */
	bool anywhere; /* a match can begin with any byte: there are assertions, or it may
			  be empty */
	struct threads now, then;
	uint32_t seen[PROGRAM_MAX]; /* the step in which it was reached */
	uint32_t step;
	struct inst code[PROGRAM_MAX];
};

struct pattern *pattern_free(struct pattern *p)
{
	if (p)
		free(p->text);
	free(p);
	return NULL;
}

/* ------------------------------------------------------------------- compiling */

struct compiler {
	struct pattern *p;
	const char *at, *start;
	bool ignore_case;
	unsigned depth;
	const char *wrong;
};

static void add_byte(uint8_t set[32], unsigned c)
{
	set[c >> 3] |= (uint8_t)(1U << (c & 7));
}

static bool has_byte(const uint8_t set[32], unsigned c)
{
	return set[c >> 3] >> (c & 7) & 1;
}

static size_t regex_emit(struct compiler *c, struct inst inst)
{
	if (c->p->n >= PROGRAM_MAX - 1) {
		c->wrong = "it is too long";
		return 0;
	}
	c->p->code[c->p->n] = inst;
	return c->p->n++;
}

static void emit_set(struct compiler *c, const uint8_t set[32])
{
	struct inst inst = { .op = OP_CLASS };

	(void)memcpy(inst.set, set, sizeof(inst.set));
	for (unsigned b = 'a'; c->ignore_case && b <= 'z'; b++) {
		if (has_byte(set, b))
			add_byte(inst.set, b - 32);
		if (has_byte(set, b - 32))
			add_byte(inst.set, b);
	}
	(void)regex_emit(c, inst);
}

static bool regex_is_word(unsigned char b)
{
	return b == '_' || (b < 128 && isalnum(b)) || b >= 128;
}

/* Get the set of \w and similar escapes. Return false if it is not one. */
static bool escape_set(char name, uint8_t set[32])
{
	for (unsigned b = 0; b < 256; b++) {
		bool in;

		switch (name | 32) {
		case 'w':
			in = regex_is_word((unsigned char)b);
			break;
		case 's':
			in = b == ' ' || (b >= '\t' && b <= '\r');
			break;
		case 'd':
			in = b >= '0' && b <= '9';
			break;
		default:
			return false;
		}
		if (in == ((name & 32) != 0))
			add_byte(set, b);
	}
	return true;
}

static bool add_named(struct compiler *c, uint8_t set[32])
{
	static const struct {
		const char *name;
		int (*is)(int);
	} names[] = {
		{ "alpha", isalpha }, { "digit", isdigit }, { "alnum", isalnum },
		{ "upper", isupper }, { "lower", islower }, { "space", isspace },
		{ "blank", isblank }, { "punct", ispunct }, { "print", isprint },
		{ "graph", isgraph }, { "cntrl", iscntrl }, { "xdigit", isxdigit },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t n = strlen(names[i].name);

		if (strncmp(c->at + 2, names[i].name, n) != 0 ||
		    strncmp(c->at + 2 + n, ":]", 2) != 0)
			continue;
		for (unsigned b = 0; b < 128; b++)
			if (names[i].is((int)b))
				add_byte(set, b);
		c->at += n + 4;
		return true;
	}
	return false;
}

/* Parse [a-z], after its bracket. */
static void regex_bracket(struct compiler *c)
{
	uint8_t set[32] = { 0 };
	bool negated = *c->at == '^', first = true;

	if (negated)
		c->at++;
	for (; *c->at && (first || *c->at != ']'); first = false) {
		unsigned from, to;

		if (strncmp(c->at, "[:", 2) == 0 && add_named(c, set))
			continue;
		if (*c->at == '\\' && escape_set(c->at[1], set)) {
			c->at += 2;
			continue;
		}
		/*
		 * Accept escapes here too: in POSIX, a backslash in brackets stands for
		 * itself, but few people know that.
		 */
		if (*c->at == '\\' && c->at[1])
			c->at++;
		from = to = (unsigned char)*c->at++;
		if (c->at[0] == '-' && c->at[1] && c->at[1] != ']') {
			c->at++;
			if (*c->at == '\\' && c->at[1])
				c->at++;
			to = (unsigned char)*c->at++;
		}
		if (to < from)
			c->wrong = "a range ends before it begins";
		for (; from <= to; from++)
			add_byte(set, from);
	}
	if (*c->at != ']')
		c->wrong = "a [ is not closed";
	else
		c->at++;
	for (size_t i = 0; negated && i < sizeof(set); i++)
		set[i] = (uint8_t)~set[i];
	emit_set(c, set);
}

static void regex_alternatives(struct compiler *c);

static void regex_escape(struct compiler *c)
{
	uint8_t set[32] = { 0 };
	char e = *c->at;

	if (!e) {
		c->wrong = "it ends in a backslash";
		return;
	}
	c->at++;
	if (e == 'b' || e == 'B') {
		(void)regex_emit(c,
				 (struct inst){ .op = e == 'b' ? OP_EDGE : OP_INSIDE });
		return;
	}
	if (e >= '1' && e <= '9') {
		c->wrong = "back-references are not supported";
		return;
	}
	if (!escape_set(e, set))
		add_byte(set, e == 'n' ? '\n' : e == 't' ? '\t' : (unsigned char)e);
	emit_set(c, set);
}

static void regex_group(struct compiler *c)
{
	/* This is Perl's syntax for a group that is not captured. Here, no group is
	 * captured. */
	if (strncmp(c->at, "?:", 2) == 0)
		c->at += 2;
	if (++c->depth > DEPTH_MAX) {
		c->wrong = "it is nested too deeply";
		return;
	}
	regex_alternatives(c);
	c->depth--;
	if (*c->at == ')')
		c->at++;
	else if (!c->wrong)
		c->wrong = "a ( is not closed";
}

static void regex_atom(struct compiler *c)
{
	uint8_t set[32] = { 0 };
	char b = *c->at++;

	switch (b) {
	case '(':
		regex_group(c);
		return;
	case '[':
		regex_bracket(c);
		return;
	case '\\':
		regex_escape(c);
		return;
	case '^':
		(void)regex_emit(c, (struct inst){ .op = OP_BEGIN });
		return;
	case '$':
		(void)regex_emit(c, (struct inst){ .op = OP_END });
		return;
	case '.':
		(void)memset(set, 0xff, sizeof(set));
		break;
	case '*':
	case '+':
	case '?':
		c->wrong = "there is nothing to repeat";
		return;
	default:
		add_byte(set, (unsigned char)b);
	}
	emit_set(c, set);
}

/* Parse "{2}", "{2,}" or "{2,5}". Return false if it is only a brace. */
static bool read_counts(struct compiler *c, unsigned *ret_min, int *ret_max)
{
	const char *p = c->at + 1;
	unsigned long min, max;
	char *end;

	if (!isdigit((unsigned char)*p))
		return false;
	min = strtoul(p, &end, 10);
	*ret_max = (int)(min <= REPEAT_MAX ? min : REPEAT_MAX);
	if (*end == ',') {
		p = end + 1;
		*ret_max = -1;
		if (isdigit((unsigned char)*p)) {
			max = strtoul(p, &end, 10);
			if (max > REPEAT_MAX || max < min)
				c->wrong = "a repetition count is not valid";
			*ret_max = (int)(max <= REPEAT_MAX ? max : REPEAT_MAX);
		} else {
			end = (char *)(uintptr_t)p;
		}
	}
	if (*end != '}')
		return false;
	if (min > REPEAT_MAX)
		c->wrong = "a repetition count is not valid";
	*ret_min = (unsigned)(min <= REPEAT_MAX ? min : 0);
	c->at = end + 1;
	return true;
}

/* Append a copy of the code from @from on. */
static void regex_copy(struct compiler *c, const struct inst *code, size_t n, size_t from)
{
	size_t to = c->p->n;

	for (size_t i = 0; i < n && !c->wrong; i++) {
		struct inst inst = code[i];

		inst.x = (uint16_t)(inst.x - from + to);
		inst.y = (uint16_t)(inst.y - from + to);
		(void)regex_emit(c, inst);
	}
}

/* Repeat the code from @from on, @min to @max times (-1: no maximum). */
static void regex_repeat(struct compiler *c, size_t from, unsigned min, int max)
{
	size_t n = c->p->n - from;
	struct inst *code = n > 0 ? malloc(n * sizeof(*code)) : NULL;

	if (!code) {
		if (n > 0)
			c->wrong = "out of memory";
		return;
	}
	(void)memcpy(code, c->p->code + from, n * sizeof(*code));
	c->p->n = from;
	for (unsigned i = 0; i < min && !c->wrong; i++)
		regex_copy(c, code, n, from);
	if (max < 0) {
		size_t split = regex_emit(c, (struct inst){ .op = OP_SPLIT });

		regex_copy(c, code, n, from);
		(void)regex_emit(c, (struct inst){ .op = OP_JUMP, .x = (uint16_t)split });
		c->p->code[split].x = (uint16_t)(split + 1);
		c->p->code[split].y = (uint16_t)c->p->n;
	}
	for (unsigned i = min; max > 0 && i < (unsigned)max && !c->wrong; i++) {
		size_t split = regex_emit(c, (struct inst){ .op = OP_SPLIT });

		regex_copy(c, code, n, from);
		c->p->code[split].x = (uint16_t)(split + 1);
		c->p->code[split].y = (uint16_t)c->p->n;
	}
	free(code);
}

static void regex_piece(struct compiler *c)
{
	size_t from = c->p->n;
	unsigned min = 0;
	int max = -1;

	regex_atom(c);
	while (!c->wrong && *c->at && strchr("*+?{", *c->at)) {
		if (*c->at == '{') {
			if (!read_counts(c, &min, &max))
				return;
		} else {
			min = *c->at == '+';
			max = *c->at == '?' ? 1 : -1;
			c->at++;
		}
		regex_repeat(c, from, min, max);
	}
}

static void regex_alternatives(struct compiler *c)
{
	size_t from = c->p->n;

	while (!c->wrong) {
		while (!c->wrong && *c->at && *c->at != '|' &&
		       !(*c->at == ')' && c->depth > 0))
			regex_piece(c);
		if (c->wrong || *c->at != '|')
			return;
		c->at++;
		/*
		 * For an alternative, add a split before the code so far, and a jump
		 * after it.
		 */
		if (c->p->n + 2 >= PROGRAM_MAX) {
			c->wrong = "it is too long";
			return;
		}
		(void)memmove(c->p->code + from + 1, c->p->code + from,
			      (c->p->n - from) * sizeof(struct inst));
		c->p->n++;
		for (size_t i = from + 1; i < c->p->n; i++) {
			c->p->code[i].x++;
			c->p->code[i].y++;
		}
		c->p->code[from] = (struct inst){ .op = OP_SPLIT,
						  .x = (uint16_t)(from + 1),
						  .y = (uint16_t)(c->p->n + 1) };
		{
			size_t jump = regex_emit(c, (struct inst){ .op = OP_JUMP });

			regex_alternatives(c);
			c->p->code[jump].x = (uint16_t)c->p->n;
		}
		return;
	}
}

/* ---------------------------------------------------------------------- matching */

struct run {
	struct pattern *p;
	const char *line;
	size_t n, at;
};

static bool at_edge(const struct run *r)
{
	bool before = r->at > 0 && regex_is_word((unsigned char)r->line[r->at - 1]);
	bool after = r->at < r->n && regex_is_word((unsigned char)r->line[r->at]);

	return before != after;
}

/* Add all states that can be reached from @at without consuming a byte. */
static void regex_reach(const struct run *r, struct threads *to, uint16_t at, size_t from)
{
	uint16_t stack[2 * PROGRAM_MAX + 2]; /* each state leads to at most two others */
	struct pattern *p = r->p;
	size_t n = 0;

	stack[n++] = at;
	while (n > 0) {
		const struct inst *i;

		at = stack[--n];
		if (p->seen[at] == p->step)
			continue;
		p->seen[at] = p->step;
		i = &p->code[at];
		switch (i->op) {
		case OP_SPLIT:
			if (p->seen[i->y] != p->step)
				stack[n++] = i->y;
			if (p->seen[i->x] != p->step)
				stack[n++] = i->x;
			break;
		case OP_JUMP:
			stack[n++] = i->x;
			break;
		case OP_BEGIN:
			if (r->at == 0)
				stack[n++] = (uint16_t)(at + 1);
			break;
		case OP_END:
			if (r->at == r->n)
				stack[n++] = (uint16_t)(at + 1);
			break;
		case OP_EDGE:
		case OP_INSIDE:
			if (at_edge(r) == (i->op == OP_EDGE))
				stack[n++] = (uint16_t)(at + 1);
			break;
		default:
			to->list[to->n++] = (struct thread){ at, from };
		}
	}
}

static void next_step(struct pattern *p)
{
	if (++p->step == 0) {
		(void)memset(p->seen, 0, sizeof(p->seen));
		p->step = 1;
	}
}

static bool run_find(struct pattern *p, const char *line, size_t n, size_t *ret_from,
		     size_t *ret_to)
{
	struct run r = { .p = p, .line = line, .n = n };
	struct threads *now = &p->now, *then = &p->then;
	size_t best = SIZE_MAX, end = 0;

	now->n = 0;
	next_step(p);
	for (;; r.at++) {
		struct threads *swap;

		/*
		 * If no match is in progress, skip to the next byte that can begin one.
		 */
		while (now->n == 0 && best == SIZE_MAX && !p->anywhere && r.at < n &&
		       !p->first[(unsigned char)line[r.at]])
			r.at++;
		/* A match that began earlier takes precedence. */
		if (best == SIZE_MAX)
			regex_reach(&r, now, 0, r.at);
		next_step(p);
		then->n = 0;
		r.at++;
		for (size_t i = 0; i < now->n; i++) {
			const struct thread *t = &now->list[i];
			const struct inst *inst = &p->code[t->at];

			if (t->from >= best)
				continue;
			if (inst->op == OP_MATCH) {
				best = t->from;
				end = r.at - 1;
			} else if (r.at <= n &&
				   has_byte(inst->set, (unsigned char)line[r.at - 1]))
				regex_reach(&r, then, (uint16_t)(t->at + 1), t->from);
		}
		r.at--;
		swap = now;
		now = then;
		then = swap;
		if (r.at >= n || (now->n == 0 && best != SIZE_MAX))
			break;
	}
	*ret_from = best;
	*ret_to = end;
	return best != SIZE_MAX;
}

/* Like memmem(3), but ignoring case. */
static const char *find_text(const struct pattern *p, const char *line, size_t n)
{
	for (size_t i = 0; i + p->len <= n; i++) {
		size_t k = 0;

		while (k < p->len && tolower((unsigned char)line[i + k]) ==
					     tolower((unsigned char)p->text[k]))
			k++;
		if (k == p->len)
			return line + i;
	}
	return NULL;
}

bool pattern_find(struct pattern *p, const char *line, size_t n, size_t *ret_from,
		  size_t *ret_to)
{
	const char *found;

	if (!line)
		line = ""; /* memmem(3) does not accept NULL, even without bytes */
	if (!p->text)
		return run_find(p, line, n, ret_from, ret_to);
	found = p->any_case ? find_text(p, line, n) : memmem(line, n, p->text, p->len);
	if (found) {
		*ret_from = (size_t)(found - line);
		*ret_to = *ret_from + p->len;
	}
	return found;
}

size_t pattern_cost(const struct pattern *p)
{
	return !p->text ? p->n : p->any_case ? p->len : 1;
}

/* --------------------------------------------------------------------- entry points */

/*
 * Find the bytes that a match can begin with, by running the closure of the start in the
 * middle of a line.
 */
static void find_first(struct pattern *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->code[i].op == OP_BEGIN || p->code[i].op == OP_END ||
		    p->code[i].op == OP_EDGE || p->code[i].op == OP_INSIDE)
			p->anywhere = true;
	if (p->anywhere)
		return;
	{
		struct run r = { .p = p, .line = "", .n = 0 };

		p->now.n = 0;
		next_step(p);
		regex_reach(&r, &p->now, 0, 0);
		for (size_t i = 0; i < p->now.n; i++) {
			const struct inst *inst = &p->code[p->now.list[i].at];

			p->anywhere |= inst->op == OP_MATCH;
			for (unsigned b = 0; b < 256; b++)
				p->first[b] |=
					inst->op == OP_CLASS && has_byte(inst->set, b);
		}
	}
}

int pattern_new_regex(const char *text, bool ignore_case, struct pattern **ret,
		      struct warren_error *err)
{
	struct pattern *p = calloc(1, sizeof(*p));
	struct compiler c = {
		.p = p, .at = text, .start = text, .ignore_case = ignore_case
	};

	if (!p)
		return error_errno(err, ENOMEM, "compile a pattern");
	regex_alternatives(&c);
	if (!c.wrong && *c.at)
		c.wrong = "a ) was not opened";
	if (c.wrong) {
		(void)pattern_free(p);
		return error_set(err, EINVAL, "the regular expression '%.100s': %s", text,
				 c.wrong);
	}
	p->code[p->n++] = (struct inst){ .op = OP_MATCH };
	find_first(p);
	*ret = p;
	return 0;
}

static void regex_put_escaped(struct buf *out, char b)
{
	if (!isalnum((unsigned char)b) && (unsigned char)b < 128)
		buf_puts(out, "\\");
	buf_add(out, &b, 1);
}

int pattern_new_text(const char *text, bool ignore_case, struct pattern **ret,
		     struct warren_error *err)
{
	struct pattern *p = calloc(1, sizeof(*p));

	if (p)
		p->text = strdup(text);
	if (!p || !p->text) {
		(void)pattern_free(p);
		return error_errno(err, ENOMEM, "compile a pattern");
	}
	p->len = strlen(text);
	p->any_case = ignore_case;
	*ret = p;
	return 0;
}

/* Convert a set in brackets, if it is closed. */
static const char *glob_set(const char *at, struct buf *regex)
{
	const char *end = at + 1 + (at[1] == '!' || at[1] == '^');

	end = *end ? strchr(end + 1, ']') : NULL;
	if (!end) {
		regex_put_escaped(regex, *at);
		return at + 1;
	}
	buf_puts(regex, "[");
	at++;
	if (*at == '!' || *at == '^') {
		buf_puts(regex, "^");
		at++;
	}
	buf_add(regex, at, (size_t)(end - at) + 1);
	return end + 1;
}

int pattern_new_glob(const char *text, bool ignore_case, struct pattern **ret,
		     struct warren_error *err)
{
	AUTO_BUF struct buf regex = BUF_INIT(16384);

	buf_puts(&regex, "^");
	while (*text) {
		if (strncmp(text, "**", 2) == 0) {
			buf_puts(&regex, ".*");
			text += 2;
		} else if (*text == '*' || *text == '?') {
			buf_puts(&regex, *text == '*' ? "[^/]*" : "[^/]");
			text++;
		} else if (*text == '[') {
			text = glob_set(text, &regex);
		} else {
			if (*text == '\\' && text[1])
				text++;
			regex_put_escaped(&regex, *text++);
		}
	}
	buf_puts(&regex, "$");
	if (regex.failed)
		return error_errno(err, ENOMEM, "compile a pattern");
	return pattern_new_regex(regex.data, ignore_case, ret, err);
}
