/* SPDX-License-Identifier: Apache-2.0 */
/* spec.h - convert command-line options into API fields */
#ifndef CLI_CLIENT_SPEC_H
#define CLI_CLIENT_SPEC_H

#include "cli/client/client.h"
#include "cli/run_options.h"

/* Build {"NAME": "value"}; NULL if @env is empty. */
json_t *env_json(const struct env_list *env);
/* Build the sandbox that @o describes, without its environment; NULL: out of memory. */
json_t *spec_json(const struct run_options *o);
/* Set `limits` to the limits that are not 0, if any. */
void spec_put_limits(json_t *object, const uint64_t limits[SPEC_LIMIT_MAX]);
/* Set `network` to the string or to the object that the options mean, if any. */
void spec_put_network(json_t *object, const struct network_options *o);
/* Set @key unless @value is 0 or NULL. */
void spec_put_number(json_t *object, const char *key, uint64_t value);
void spec_put_text(json_t *object, const char *key, const char *value);
/* Build an array of @n words. */
json_t *words_json(char *const *words, size_t n);

/*
 * Setters for struct opt, into a json_t *: labels ("KEY=VALUE" or "KEY") into an object,
 * plain words into an array.
 */
int value_label(void *field, const char *value, struct warren_error *err);
int value_word(void *field, const char *value, struct warren_error *err);

/* Create a sandbox. If it fails, delete it and return its error. */
int spec_make_sandbox(struct client *c, const json_t *spec, json_t **ret,
		      struct warren_error *err) MUST_CHECK;
/*
 * Create a sandbox that is deleted when this process ends. A signal during the creation,
 * which may pull an image first, deletes the sandbox; the function then returns -EINTR.
 * Signals stay blocked afterwards.
 */
int make_passing_sandbox(struct client *c, json_t *spec, json_t **ret,
			 struct warren_error *err) MUST_CHECK;
int delete_sandbox(struct client *c, const char *id, struct warren_error *err) MUST_CHECK;

#endif /* CLI_CLIENT_SPEC_H */
