/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.h - the spec of a sandbox as a table of fields, for all encodings
 *
 * An encoder or decoder iterates over spec_fields[] and spec_limits[] instead of naming
 * each field. Limits outside of a spec (in a configuration, a message, options) are an
 * array `uint64_t limits[SPEC_LIMIT_MAX]`, indexed by enum spec_limit_id.
 */
#ifndef SPEC_SPEC_H
#define SPEC_SPEC_H

#include <stdbool.h>
#include <stddef.h>

#include "spec/limits.h"
#include "warren.h"

enum spec_unit {
	SPEC_BYTES,
	SPEC_MILLIS, /* thousandths */
	SPEC_COUNT,
};

struct spec_limit {
	const char *name; /* in JSON and in state files: "cpu_millis" */
	const char *word; /* for users: "cpus" */
	enum spec_unit unit;
	uint32_t bit;      /* WARREN_LIMIT_* */
	uint64_t min, max; /* 0: none */
	size_t at;         /* offset in struct warren_spec */
	size_t live_at; /* offset in struct warren_limits, if it is below SPEC_LIVE_MAX */
};

/* Indexed by enum spec_limit_id. */
extern const struct spec_limit spec_limits[SPEC_LIMIT_MAX];
#define SPEC_LIMIT_BIT(id, ...) | WARREN_LIMIT_##id
/* The bits of all limits (WARREN_LIMIT_*). */
#define SPEC_LIMIT_BITS (0U SPEC_LIMITS(SPEC_LIMIT_BIT))

/* How to encode the fields of struct warren_spec, except the limits and the id. */
enum spec_kind {
	SPEC_TEXT,        /* const char *; NULL: the default */
	SPEC_FLAG,        /* bool */
	SPEC_SOFT_LIMITS, /* warren_spec.soft_limits */
	SPEC_NETWORK,
	SPEC_ENV,
	SPEC_MOUNTS,
};

struct spec_field {
	const char *name; /* in JSON */
	enum spec_kind kind;
	size_t at;         /* offset in struct warren_spec */
	uint32_t wire_bit; /* SPEC_FLAG: its bit in requests to the warden; 0: not sent */
};

/* The bit of warren_spec.restore: such a creation copies files, and may take long. */
#define SPEC_RESTORE_BIT (1U << 3)
/* The bit of warren_spec.persist: such a creation writes to the disk. */
#define SPEC_PERSIST_BIT (1U << 4)

extern const struct spec_field spec_fields[];
extern const size_t spec_n_fields;

static inline uint64_t spec_limit_get(const struct warren_spec *spec, size_t id)
{
	return *(const uint64_t *)(const void *)((const char *)spec + spec_limits[id].at);
}

static inline void spec_limit_set(struct warren_spec *spec, size_t id, uint64_t value)
{
	*(uint64_t *)(void *)((char *)spec + spec_limits[id].at) = value;
}

/* @id must be below SPEC_LIVE_MAX. */
static inline uint64_t spec_live_get(const struct warren_limits *limits, size_t id)
{
	const char *at = (const char *)limits + spec_limits[id].live_at;

	return *(const uint64_t *)(const void *)at;
}

static inline void spec_live_set(struct warren_limits *limits, size_t id, uint64_t value)
{
	*(uint64_t *)(void *)((char *)limits + spec_limits[id].live_at) = value;
}

/* Return whether any limit is given. */
bool spec_live_any(const struct warren_limits *limits);

/* Return whether the limit is given and must be enforced (it is not in
 * warren_spec.soft_limits).
 * */
static inline bool spec_insists(const struct warren_spec *spec, size_t id)
{
	return spec_limit_get(spec, id) && !(spec->soft_limits & spec_limits[id].bit);
}

/* The first limit from @id on that is given and not among @bits; SPEC_LIMIT_MAX: none. */
size_t spec_limit_beyond(const struct warren_spec *spec, uint32_t bits, size_t id);

static inline const char *spec_text_get(const struct warren_spec *spec,
					const struct spec_field *f)
{
	return *(const char *const *)(const void *)((const char *)spec + f->at);
}

static inline bool spec_flag_get(const struct warren_spec *spec,
				 const struct spec_field *f)
{
	return *(const bool *)((const char *)spec + f->at);
}

static inline void spec_text_set(struct warren_spec *spec, const struct spec_field *f,
				 const char *text)
{
	*(const char **)(void *)((char *)spec + f->at) = text;
}

static inline void spec_flag_set(struct warren_spec *spec, const struct spec_field *f,
				 bool on)
{
	*(bool *)((char *)spec + f->at) = on;
}

/* What is enforced of a network: the detail of "network" in a sandbox's report. */
const char *spec_network_text(enum warren_network network);

/*
 * The value of a limit as users write it: "1.500" for MILLIS, otherwise a whole number.
 */
#define SPEC_WORD_SIZE 32
void spec_limit_word(size_t id, uint64_t value, char out[SPEC_WORD_SIZE]);

struct json;
/* Write the members `limits` and `mounts`, as the API shows them. */
void spec_put_resources(struct json *j, const struct warren_spec *spec);
/* Write an array of what is enforced, as the API and --json show it. */
void spec_put_enforced(struct json *j, const char *key,
		       const struct warren_enforcement *list, size_t n);
struct buf;
/* Write the names of what is not enforced: "memory, pids". */
void spec_put_not_enforced(struct buf *out, const struct warren_enforcement *list,
			   size_t n);

#endif /* SPEC_SPEC_H */
