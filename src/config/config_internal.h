/* SPDX-License-Identifier: Apache-2.0 */
/* config_internal.h - the table of keys, for reading and writing */
#ifndef CONFIG_CONFIG_INTERNAL_H
#define CONFIG_CONFIG_INTERNAL_H

#include <jansson.h>

#include "config/config.h"

enum config_type {
	TYPE_BOOL,     /* bool */
	TYPE_NUMBER,   /* uint64_t */
	TYPE_SIZE,     /* uint64_t, bytes */
	TYPE_DURATION, /* uint64_t, milliseconds */
	TYPE_CPUS,     /* uint64_t, thousandths */
	TYPE_CHOICE,   /* uint64_t, the number of the word */
	TYPE_TEXT,     /* char * */
	TYPE_PATH,     /* char *, absolute */
	TYPE_LIST,     /* struct config_list */
	TYPE_MAX,
};

struct config_key {
	const char *name; /* as in the file, sections in front: "log.level" */
	enum config_type type;
	/* As in the file; "": empty, "none": no limit. {run_dir} is replaced. */
	const char *value;
	uint64_t min, max;          /* of numbers; 0: none */
	bool none;                  /* "none" is a value */
	const char *const *choices; /* NULL-terminated */
	/* Of a text or of an item of a list: whether it is well-formed. */
	int (*check)(const char *text, struct warren_error *err);
	const char *example; /* where the default is empty */
	const char *help;    /* one sentence without its full stop */
	size_t field;        /* its place in struct config */
};

extern const struct config_key config_keys[];
extern const size_t config_n_keys;

/* Sections, in the order of the file, and what they are about. */
struct config_section {
	const char *name; /* "" for what is in none */
	const char *title;
};
extern const struct config_section config_sections[];
extern const size_t config_n_sections;

/* What the values of a type look like: "a duration, as 500ms, 30s, 5m, 2h". */
const char *config_type_form(enum config_type type);
/* The same in one word: "duration". */
const char *config_type_name(enum config_type type);
/* Its flag without the dashes in front. @out has room for any. */
#define CONFIG_FLAG_SIZE 64
void config_flag_name(const struct config_key *key, char out[CONFIG_FLAG_SIZE]);
/* The part of the name after the section, and the length of the section. */
const char *config_leaf(const struct config_key *key, size_t *ret_section);
const struct config_key *config_find(const char *name, size_t len);

void *config_field(struct config *c, const struct config_key *key);
/*
 * Set it from a word, as it is written in the file or given to a flag; lists grow by it.
 */
int config_set(struct config *c, const struct config_key *key, const char *word,
	       struct warren_error *err);
/* A number as its own parser reads it, in the largest unit without a remainder. */
void config_number_word(enum config_type type, uint64_t n, char out[32]);
void config_list_clear(struct config_list *list);
/* The value as a word; for a list, the item number @index. */
void config_word(const struct config *c, const struct config_key *key, size_t index,
		 struct buf *out);

/*
 * backend.c: what is in `backends`; what is there without being named; what it all must
 * be.
 */
struct yaml;
int config_read_backends(struct config *c, const struct yaml *y, const json_t *in,
			 struct warren_error *err);
int config_add_backends(struct config *c, struct warren_error *err);
int config_check_backends(struct config *c, bool named, struct warren_error *err);
void config_backends_clear(struct config *c);
/* template.c, the same of `templates`. */
int config_read_templates(struct config *c, const struct yaml *y, const json_t *in,
			  struct warren_error *err);
void config_templates_clear(struct config *c);
void config_show_templates(const struct config *c, struct buf *out);
void config_example_templates(struct buf *out);
void config_manual_templates(struct buf *out);
int check_tenant_tier(const char *text, struct warren_error *err);
/*
 * The section for people: as an example, as a part of the manual page, as it is enforced.
 */
void config_example_backends(struct buf *out);
void config_manual_backends(struct buf *out);
void config_show_backends(const struct config *c, struct buf *out);

/* listen.c: for the table. */
int check_listener(const char *text, struct warren_error *err);
int check_mount(const char *text, struct warren_error *err);
int check_domain(const char *text, struct warren_error *err);
int check_registry(const char *text, struct warren_error *err);
int check_name(const char *text, struct warren_error *err);
int check_backend_name(const char *text, struct warren_error *err);

#endif /* CONFIG_CONFIG_INTERNAL_H */
