/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml.c - convert the events of libyaml to JSON values, and check each value
 *
 * Open containers form a stack of fixed height. Nothing recurses and aliases are refused,
 * so the input controls neither the depth nor the amount of memory. The position of each
 * value is kept in a separate list, because a value of jansson has no space for it, and
 * true, false and null are shared objects.
 */
#include "config/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/fd.h"

#define DEPTH_MAX  32
#define VALUES_MAX 65536
#define QUOTE_MAX  60

/* The position of a value: its container, and its key or index. */
struct yaml_location {
	const json_t *parent;
	size_t index; /* its number in the container's order, even in a mapping */
	unsigned line;
};

struct yaml {
	char *name;
	json_t *root;
	struct yaml_location *locations;
	size_t n_locations, room;
};

struct open_container {
	json_t *value;
	char *key; /* in a mapping: the key that waits for its value */
	unsigned key_line;
};

struct builder {
	struct yaml *y;
	struct open_container stack[DEPTH_MAX];
	size_t depth;
	unsigned documents;
	bool ended;
};

static int yaml_complain(const struct yaml *y, unsigned line, struct warren_error *err,
			 const char *what)
{
	return error_set(err, EINVAL, "%s:%u: %s", y->name, line, what);
}

static int no_memory(struct warren_error *err)
{
	return error_errno(err, ENOMEM, "read the configuration");
}

/* ----------------------------------------------------------------- scalars */

/* Is it a JSON number? *@ret_real is set if it has a fraction or an exponent. */
static bool looks_like_number(const char *s, bool *ret_real)
{
	const char *p = s + (*s == '-');
	size_t digits = strspn(p, "0123456789");

	*ret_real = false;
	if (digits == 0 || (digits > 1 && *p == '0'))
		return false;
	p += digits;
	if (*p == '.') {
		digits = strspn(++p, "0123456789");
		if (digits == 0)
			return false;
		p += digits;
		*ret_real = true;
	}
	if (*p == 'e' || *p == 'E') {
		p++;
		p += *p == '+' || *p == '-';
		digits = strspn(p, "0123456789");
		if (digits == 0)
			return false;
		p += digits;
		*ret_real = true;
	}
	return *p == '\0';
}

/* NULL with errno ERANGE: the number does not fit into 64 bits. */
static json_t *plain_value(const char *s)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };
	bool real;

	for (size_t i = 0; i < ARRAY_SIZE(nulls); i++)
		if (strcmp(s, nulls[i]) == 0)
			return json_null();
	if (strcmp(s, "true") == 0)
		return json_true();
	if (strcmp(s, "false") == 0)
		return json_false();
	if (!looks_like_number(s, &real))
		return json_string(s);
	errno = 0;
	if (real) {
		double d = strtod(s, NULL);

		/* A value that is too small for a double is 0, not an error. */
		return errno == ERANGE && d != 0 && (d > 1 || d < -1) ? NULL
								      : json_real(d);
	}
	{
		long long n = strtoll(s, NULL, 10);

		return errno == ERANGE ? NULL : json_integer(n);
	}
}

/* ------------------------------------------------------------ containers */

static int yaml_remember(struct yaml *y, const json_t *parent, unsigned line,
			 struct warren_error *err)
{
	size_t index = json_is_array(parent) ? json_array_size(parent)
					     : json_object_size(parent);

	if (y->n_locations == VALUES_MAX)
		return yaml_complain(y, line, err, "this file has too many values");
	if (y->n_locations == y->room) {
		size_t room = y->room ? y->room * 2 : 64;
		struct yaml_location *grown =
			realloc(y->locations, room * sizeof(*grown));

		if (!grown)
			return no_memory(err);
		y->locations = grown;
		y->room = room;
	}
	y->locations[y->n_locations++] =
		(struct yaml_location){ parent, index - 1, line };
	return 0;
}

/* Add @value to its container; takes over @value, even on failure. */
static int yaml_put_value(struct builder *b, json_t *value, unsigned line,
			  struct warren_error *err)
{
	struct open_container *in = b->depth > 0 ? &b->stack[b->depth - 1] : NULL;
	int r;

	if (!value)
		return no_memory(err);
	if (!in) {
		b->y->root = value;
		return 0;
	}
	if (json_is_array(in->value)) {
		r = json_array_append_new(in->value, value);
	} else {
		line = in->key_line;
		r = json_object_set_new(in->value, in->key, value);
		free(in->key);
		in->key = NULL;
	}
	return r < 0 ? no_memory(err) : yaml_remember(b->y, in->value, line, err);
}

static int take_key(struct builder *b, const yaml_event_t *e, unsigned line,
		    struct warren_error *err)
{
	struct open_container *in = &b->stack[b->depth - 1];
	const char *key = (const char *)e->data.scalar.value;

	if (strcmp(key, "<<") == 0)
		return yaml_complain(b->y, line, err, "merging ('<<') is not supported");
	if (json_object_get(in->value, key))
		return error_set(err, EINVAL, "%s:%u: '%.*s' is given twice", b->y->name,
				 line, QUOTE_MAX, key);
	in->key = strdup(key);
	in->key_line = line;
	return in->key ? 0 : no_memory(err);
}

/* Does a key come next? */
static bool wants_key(const struct builder *b)
{
	const struct open_container *in = b->depth > 0 ? &b->stack[b->depth - 1] : NULL;

	return in && json_is_object(in->value) && !in->key;
}

static int on_scalar(struct builder *b, const yaml_event_t *e, unsigned line,
		     struct warren_error *err)
{
	const char *text = (const char *)e->data.scalar.value;
	json_t *value;

	if (e->data.scalar.anchor || e->data.scalar.tag)
		return yaml_complain(b->y, line, err,
				     "anchors and tags are not supported");
	if (memchr(text, '\0', e->data.scalar.length))
		return yaml_complain(b->y, line, err,
				     "a string must not contain a NUL character");
	if (wants_key(b))
		return take_key(b, e, line, err);
	if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return yaml_put_value(b, json_string(text), line, err);
	value = plain_value(text);
	if (!value && errno == ERANGE)
		return error_set(err, EINVAL, "%s:%u: the number '%.*s' is too large",
				 b->y->name, line, QUOTE_MAX, text);
	return yaml_put_value(b, value, line, err);
}

static int yaml_on_open(struct builder *b, json_t *value, const yaml_char_t *anchor,
			const yaml_char_t *tag, unsigned line, struct warren_error *err)
{
	const char *why = NULL;
	int r;

	if (anchor || tag)
		why = "anchors and tags are not supported";
	else if (wants_key(b))
		why = "a key must be a plain word";
	else if (b->depth == DEPTH_MAX)
		why = "this is nested too deeply";
	if (why) {
		json_decref(value);
		return yaml_complain(b->y, line, err, why);
	}
	r = yaml_put_value(b, value, line, err);
	if (r == 0)
		b->stack[b->depth++] = (struct open_container){ .value = value };
	return r;
}

static int yaml_on_event(struct builder *b, const yaml_event_t *e,
			 struct warren_error *err)
{
	unsigned line = (unsigned)e->start_mark.line + 1;

	switch (e->type) {
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		return 0;
	case YAML_STREAM_END_EVENT:
		b->ended = true;
		return 0;
	case YAML_DOCUMENT_START_EVENT:
		return ++b->documents == 1 ? 0
					   : yaml_complain(b->y, line, err,
							   "a second document begins");
	case YAML_ALIAS_EVENT:
		return yaml_complain(b->y, line, err, "aliases are not supported");
	case YAML_SCALAR_EVENT:
		return on_scalar(b, e, line, err);
	case YAML_MAPPING_START_EVENT:
		return yaml_on_open(b, json_object(), e->data.mapping_start.anchor,
				    e->data.mapping_start.tag, line, err);
	case YAML_SEQUENCE_START_EVENT:
		return yaml_on_open(b, json_array(), e->data.sequence_start.anchor,
				    e->data.sequence_start.tag, line, err);
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		b->depth--;
		return 0;
	}
	return yaml_complain(b->y, line, err, "cannot parse this");
}

/* Report an error of libyaml. */
static int parser_error(const struct yaml *y, const yaml_parser_t *p,
			struct warren_error *err)
{
	if (p->error == YAML_MEMORY_ERROR)
		return no_memory(err);
	if (p->error == YAML_READER_ERROR)
		return error_set(err, EINVAL, "%s: %s", y->name, p->problem);
	/* The usual cause is a tab, which is invisible. */
	if (p->problem && strstr(p->problem, "cannot start any token"))
		return yaml_complain(y, p->problem_mark.line + 1, err,
				     "a word begins with a tab, or with one of @ ` %: "
				     "indent with spaces, and quote such a word");
	return error_set(err, EINVAL, "%s:%zu: %s%s%s", y->name, p->problem_mark.line + 1,
			 p->problem ? p->problem : "error", p->context ? " " : "",
			 p->context ? p->context : "");
}

static int yaml_build(struct builder *b, yaml_parser_t *p, struct warren_error *err)
{
	int r = 0;

	while (r == 0 && !b->ended) {
		yaml_event_t e;

		if (!yaml_parser_parse(p, &e))
			return parser_error(b->y, p, err);
		r = yaml_on_event(b, &e, err);
		yaml_event_delete(&e);
	}
	return r;
}

/* The document must be a mapping, or empty. */
static int yaml_settle(struct yaml *y, struct warren_error *err)
{
	if (json_is_null(y->root)) {
		json_decref(y->root);
		y->root = NULL;
	}
	if (!y->root)
		y->root = json_object();
	if (!y->root)
		return no_memory(err);
	return json_is_object(y->root)
		       ? 0
		       : yaml_complain(y, 1, err, "this is not 'key: value'");
}

int yaml_load(const char *name, const char *text, size_t size, struct yaml **ret,
	      struct warren_error *err)
{
	AUTO_YAML struct yaml *y = calloc(1, sizeof(*y));
	struct builder b = { .y = y };
	yaml_parser_t p;
	int r;

	if (!y || !(y->name = strdup(name)))
		return no_memory(err);
	if (size > YAML_SIZE_MAX)
		return error_set(err, EFBIG, "%s: it is larger than %u bytes", name,
				 YAML_SIZE_MAX);
	if (!yaml_parser_initialize(&p))
		return no_memory(err);
	yaml_parser_set_encoding(&p, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&p, (const unsigned char *)text, size);
	r = yaml_build(&b, &p, err);
	yaml_parser_delete(&p);
	for (size_t i = 0; i < b.depth; i++)
		free(b.stack[i].key);
	if (r == 0)
		r = yaml_settle(y, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(y);
	return 0;
}

int yaml_load_file(const char *path, struct yaml **ret, struct warren_error *err)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *text = malloc(YAML_SIZE_MAX + 1);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return error_errno(err, errno, "read '%s'", path);
	if (!text)
		return no_memory(err);
	n = fd_read_all(fd, text, YAML_SIZE_MAX + 1);
	if (n < 0)
		return error_errno(err, (int)-n, "read '%s'", path);
	return yaml_load(slash ? slash + 1 : path, text, (size_t)n, ret, err);
}

struct yaml *yaml_free(struct yaml *y)
{
	if (!y)
		return NULL;
	json_decref(y->root);
	free(y->locations);
	free(y->name);
	free(y);
	return NULL;
}

const json_t *yaml_root(const struct yaml *y)
{
	return y->root;
}

/* ------------------------------------------------------------------- line numbers */

/* Return the number of @key in the order of the file, which jansson preserves. */
static size_t index_of(const json_t *parent, const char *key)
{
	json_t *object = (json_t *)parent, *value;
	const char *name;
	size_t i = 0;

	json_object_foreach(object, name, value)
	{
		if (strcmp(name, key) == 0)
			break;
		i++;
	}
	return i;
}

unsigned yaml_line(const struct yaml *y, const json_t *parent, const char *key,
		   size_t index)
{
	if (key)
		index = index_of(parent, key);
	for (size_t i = 0; i < y->n_locations; i++)
		if (y->locations[i].parent == parent && y->locations[i].index == index)
			return y->locations[i].line;
	return 0;
}

int yaml_error_(const struct yaml *y, const json_t *parent, const char *key, size_t index,
		struct warren_error *err, const char *fmt, ...)
{
	char what[sizeof(err->msg)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return error_set(err, EINVAL, "%s:%u: %s", y->name,
			 yaml_line(y, parent, key, index), what);
}
