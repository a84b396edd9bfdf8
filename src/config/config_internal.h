/* SPDX-License-Identifier: Apache-2.0 */
/* config_internal.h - the table of keys, for reading and writing a configuration */
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
	TYPE_CHOICE,   /* uint64_t, the index of the word */
	TYPE_TEXT,     /* char * */
	TYPE_PATH,     /* char *, absolute */
	TYPE_LIST,     /* struct config_list */
	TYPE_MAX,
};

struct config_key {
	const char *name; /* as in the file, with its section: "log.level" */
	enum config_type type;
	/*
	 * The default as in the file; "": empty, "none": no limit. {run_dir} is replaced.
	 */
	const char *value;
	uint64_t min, max;          /* for numbers; 0: none */
	bool none;                  /* the key may be "none" */
	const char *const *choices; /* NULL-terminated */
	/* Checks the format of a text, or of an item of a list. */
	int (*check)(const char *text, struct warren_error *err);
	const char *example; /* for the example file, if the default is empty */
	const char *help;    /* one sentence without a full stop */
	size_t field;        /* offset in struct config */
};

extern const struct config_key config_keys[];
extern const size_t config_n_keys;

/* The sections in the order of the file. */
struct config_section {
	const char *name; /* "" for keys without a section */
	const char *title;
};
extern const struct config_section config_sections[];
extern const size_t config_n_sections;

/*
 * Get the format of a type's values, for errors: "a duration, such as 500ms, 30s, 5m,
 * 2h".
 */
const char *config_type_form(enum config_type type);
/* Get the name of a type in one word: "duration". */
const char *config_type_name(enum config_type type);
/*
 * Write the flag of a key, without the leading dashes. @out is large enough for any flag.
 */
#define CONFIG_FLAG_SIZE 64
void config_flag_name(const struct config_key *key, char out[CONFIG_FLAG_SIZE]);
/* Get the part of the name after the section, and the length of the section. */
const char *config_leaf(const struct config_key *key, size_t *ret_section);
const struct config_key *config_find(const char *name, size_t len);

void *config_field(struct config *c, const struct config_key *key);
/*
 * Set a key to a word from the file or to the argument of a flag. If the key is a list,
 * append the word.
 */
int config_set(struct config *c, const struct config_key *key, const char *word,
	       struct warren_error *err);
/*
 * Format a number so that its parser can read it, in the largest unit that divides it.
 */
void config_number_word(enum config_type type, uint64_t n, char out[32]);
void config_list_clear(struct config_list *list);
/* Format a value as a word; for a list, item @index. */
void config_word(const struct config *c, const struct config_key *key, size_t index,
		 struct buf *out);

/*
 * backend.c: read the section `backends`; add the backends that exist by default and drop
 * those that are off; check the result.
 */
struct yaml;
int config_read_backends(struct config *c, const struct yaml *y, const json_t *in,
			 struct warren_error *err);
int config_add_backends(struct config *c, struct warren_error *err);
int config_check_backends(struct config *c, bool named, struct warren_error *err);
void config_backends_clear(struct config *c);
/* template.c: read and check the section `templates`. */
int config_read_templates(struct config *c, const struct yaml *y, const json_t *in,
			  struct warren_error *err);
void config_templates_clear(struct config *c);
void config_show_templates(const struct config *c, struct buf *out);
void config_example_templates(struct buf *out);
void config_manual_templates(struct buf *out);
/* network.c: read the section `network`. */
int config_read_network(struct config *c, const struct yaml *y, const json_t *in,
			struct warren_error *err);
void config_network_clear(struct config *c);
void config_show_network(const struct config *c, struct buf *out);
void config_example_network(struct buf *out);
void config_manual_network(struct buf *out);
/* code.c: read and check the section `code.languages`. */
int config_read_languages(struct config *c, const struct yaml *y, const json_t *in,
			  struct warren_error *err);
void config_code_clear(struct config *c);
void config_show_languages(const struct config *c, struct buf *out);
void config_example_languages(struct buf *out);
void config_manual_languages(struct buf *out);
int check_code_image(const char *text, struct warren_error *err);
int check_tenant_tier(const char *text, struct warren_error *err);
/*
 * Write the section: as an example, for the manual page, and with its effective values.
 */
void config_example_backends(struct buf *out);
void config_manual_backends(struct buf *out);
void config_show_backends(const struct config *c, struct buf *out);

/* listen.c: functions for config_key.check. */
int check_listener(const char *text, struct warren_error *err);
int check_mount(const char *text, struct warren_error *err);
int check_domain(const char *text, struct warren_error *err);
int check_registry(const char *text, struct warren_error *err);
int check_name(const char *text, struct warren_error *err);
int check_backend_name(const char *text, struct warren_error *err);

#endif /* CONFIG_CONFIG_INTERNAL_H */
