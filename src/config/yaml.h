/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml.h - reads the unambiguous part of YAML as JSON values
 *
 * Accepted: one document of mappings, sequences and scalars, in block or flow style. A
 * plain scalar is null, true, false, or a number in JSON's syntax; everything else is
 * text ("yes", "0755", "1_000", "1:30"). Refused, with the line in the error: duplicate
 * keys, anchors, aliases and merges, tags, keys that are not scalars, a second document,
 * NUL in a text, numbers of more than 64 bits, and files with more than 1 MiB, 32 levels
 * or 65,536 values.
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

/* @name is the name of the text in errors. An empty document becomes an empty object. */
int yaml_load(const char *name, const char *text, size_t size, struct yaml **ret,
	      struct warren_error *err) MUST_CHECK;
/* Load the file at @path; errors show only its last part. -EFBIG: it exceeds 1 MiB. */
int yaml_load_file(const char *path, struct yaml **ret,
		   struct warren_error *err) MUST_CHECK;
/* Accepts NULL; returns NULL. */
struct yaml *yaml_free(struct yaml *y);

/* Borrowed from @y, with everything in it. */
const json_t *yaml_root(const struct yaml *y);

/*
 * Get the line number of the value of @key in @parent. If @key is NULL, get that of item
 * @index. 0: unknown.
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
