/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml.h - the unambiguous part of YAML, as JSON values
 *
 * Accepted: one document of mappings, sequences and scalars, in block or flow
 * style. A plain scalar is null, true, false, or a number where JSON would
 * have it so; everything else is text ("yes", "0755", "1_000", "1:30").
 * Refused, by line: a key that is there twice, guest agents, aliases and merges,
 * tags, keys that are no scalars, a second document, NUL in a text, numbers
 * beyond 64 bits, and more than a sensible file has: 1 MiB, 32 levels, 65,536
 * values.
 *
 *	AUTO_YAML struct yaml *y = NULL;
 *
 *	r = yaml_load("warren.yaml", text, size, &y, err);
 *	value = json_object_get(yaml_root(y), "listen");
 *	...
 *	return yaml_error(y, yaml_root(y), "listen", 0, err, "is empty");
 */
#ifndef CONFIG_YAML_H
#define CONFIG_YAML_H

#include <jansson.h>

#include "base/error.h"

#define YAML_SIZE_MAX (1U << 20)

struct yaml;

/* @name is what errors call it. An empty document is an empty object. */
int yaml_load(const char *name, const char *text, size_t size, struct yaml **ret,
	      struct warren_error *err) MUST_CHECK;
/* The file at @path; errors have its last part only. -EFBIG: it is larger than 1 MiB. */
int yaml_load_file(const char *path, struct yaml **ret,
		   struct warren_error *err) MUST_CHECK;
/* NULL is fine; returns NULL. */
struct yaml *yaml_free(struct yaml *y);

/* Borrowed, and so is what is in it. */
const json_t *yaml_root(const struct yaml *y);

/*
 * Where the value of @key in @parent, or number @index of it (@key NULL), stands; 0:
 * unknown.
 */
unsigned yaml_line(const struct yaml *y, const json_t *parent, const char *key,
		   size_t index);
/* "warren.yaml:12: ..." as an error (EINVAL) about that value. */
#define yaml_error(...) error_negative(yaml_error_(__VA_ARGS__))
int yaml_error_(const struct yaml *y, const json_t *parent, const char *key, size_t index,
		struct warren_error *err, const char *fmt, ...) PRINTF_LIKE(6, 7);

static inline void yaml_free_p(struct yaml **y)
{
	(void)yaml_free(*y);
}

#define AUTO_YAML CLEANUP(yaml_free_p)

#endif /* CONFIG_YAML_H */
