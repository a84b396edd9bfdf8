/* SPDX-License-Identifier: Apache-2.0 */
/* spec.h - the options of the command line as fields of the API */
#ifndef CLI_CLIENT_SPEC_H
#define CLI_CLIENT_SPEC_H

#include "cli/client/client.h"
#include "cli/run_options.h"

/* {"NAME": "value"}; NULL: there is none. */
json_t *env_json(const struct env_list *env);
/* The sandbox that @o describes, without its environment; NULL: no memory. */
json_t *spec_json(const struct run_options *o);
/* Sets `limits` to those that are not 0, if there are any. */
void spec_put_limits(json_t *object, const uint64_t limits[SPEC_LIMIT_MAX]);
/* Sets @key unless @value is 0 or NULL. */
void spec_put_number(json_t *object, const char *key, uint64_t value);
void spec_put_text(json_t *object, const char *key, const char *value);
/* @n words as an array. */
json_t *words_json(char *const *words, size_t n);

/*
 * For the tables: a json_t * of labels, "KEY=VALUE" or "KEY"; of plain words, an array.
 */
int value_label(void *field, const char *value, struct warren_error *err);
int value_word(void *field, const char *value, struct warren_error *err);

/* Makes a sandbox; one that failed is deleted, and its error is ours. */
int spec_make_sandbox(struct client *c, const json_t *spec, json_t **ret,
		      struct warren_error *err) MUST_CHECK;
/*
 * The same of one that is to go with us: a signal while it is made (an image may
 * be pulled first) deletes it, and is -EINTR. From here on signals are blocked.
 */
int make_passing_sandbox(struct client *c, json_t *spec, json_t **ret,
			 struct warren_error *err) MUST_CHECK;
int delete_sandbox(struct client *c, const char *id, struct warren_error *err) MUST_CHECK;

#endif /* CLI_CLIENT_SPEC_H */
