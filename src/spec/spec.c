/* SPDX-License-Identifier: Apache-2.0 */
/* spec.c - the tables of limits and of other fields of a spec */
#include "spec/spec.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "base/macro.h"

#define LIVE_AT(field)  .live_at = offsetof(struct warren_limits, field)
#define FIXED_AT(field) .live_at = SIZE_MAX

#define LIMIT(id, field, life, scale, called, letter, least, greatest, ...) \
	[SPEC_##id] = { .name = #field,                                     \
			.word = (called),                                   \
			.unit = SPEC_##scale,                               \
			.bit = WARREN_LIMIT_##id,                           \
			.min = (least),                                     \
			.max = (greatest),                                  \
			.at = offsetof(struct warren_spec, field),          \
			life##_AT(field) },

const struct spec_limit spec_limits[SPEC_LIMIT_MAX] = { SPEC_LIMITS(LIMIT) };

#define LIVE_ID(id)                    (SPEC_##id < SPEC_LIVE_MAX)
#define FIXED_ID(id)                   (SPEC_##id >= SPEC_LIVE_MAX)
#define IN_ORDER(id, field, life, ...) &&life##_ID(id)

_Static_assert(true SPEC_LIMITS(IN_ORDER), "a live limit comes after one that is not");
_Static_assert(sizeof(struct warren_limits) == SPEC_LIVE_MAX * sizeof(uint64_t),
	       "struct warren_limits has a field that no row calls live");
_Static_assert(__builtin_popcount(SPEC_LIMIT_BITS) == SPEC_LIMIT_MAX,
	       "two limits share a bit");

#define AT(field) offsetof(struct warren_spec, field)

/* Texts and flags are sent to the warden in this order. Shims read the soft limits under
 * the name "wishes". */
const struct spec_field spec_fields[] = {
	{ "image", SPEC_TEXT, AT(image), 0 },
	{ "hostname", SPEC_TEXT, AT(hostname), 0 },
	{ "user", SPEC_TEXT, AT(user), 0 },
	{ "workdir", SPEC_TEXT, AT(workdir), 0 },
	{ "env", SPEC_ENV, AT(env), 0 },
	{ "wishes", SPEC_SOFT_LIMITS, AT(soft_limits), 0 },
	{ "mounts", SPEC_MOUNTS, AT(mounts), 0 },
	{ "network", SPEC_NETWORK, AT(network), 0 },
	{ "read_only", SPEC_FLAG, AT(read_only), 1U << 0 },
	{ "durable", SPEC_FLAG, AT(durable), 0 },
	{ "no_pull", SPEC_FLAG, AT(no_pull), 1U << 2 },
	{ "restore", SPEC_FLAG, AT(restore), SPEC_RESTORE_BIT },
	{ "persist", SPEC_FLAG, AT(persist), SPEC_PERSIST_BIT },
};
const size_t spec_n_fields = ARRAY_SIZE(spec_fields);

const char *spec_network_text(enum warren_network network)
{
	static const char *const texts[] = {
		[WARREN_NETWORK_LOOPBACK] = "loopback only",
		[WARREN_NETWORK_NONE] = "none",
		[WARREN_NETWORK_CAPTURED] = "loopback, and what its policy allows",
	};

	return texts[network];
}

bool spec_live_any(const struct warren_limits *limits)
{
	for (size_t i = 0; i < SPEC_LIVE_MAX; i++)
		if (spec_live_get(limits, i))
			return true;
	return false;
}

size_t spec_limit_beyond(const struct warren_spec *spec, uint32_t bits, size_t id)
{
	while (id < SPEC_LIMIT_MAX &&
	       (!spec_limit_get(spec, id) || spec_limits[id].bit & bits))
		id++;
	return id;
}

void spec_limit_word(size_t id, uint64_t value, char out[SPEC_WORD_SIZE])
{
	if (spec_limits[id].unit == SPEC_MILLIS)
		(void)snprintf(out, SPEC_WORD_SIZE, "%" PRIu64 ".%03" PRIu64,
			       value / 1000, value % 1000);
	else
		(void)snprintf(out, SPEC_WORD_SIZE, "%" PRIu64, value);
}

void spec_put_enforced(struct json *j, const char *key,
		       const struct warren_enforcement *list, size_t n)
{
	json_open(j, key, '[');
	for (size_t i = 0; i < n; i++) {
		json_open(j, NULL, '{');
		json_str(j, "name", list[i].name);
		json_bool(j, "enforced", list[i].enforced);
		json_str(j, "detail", list[i].detail);
		json_close(j, '}');
	}
	json_close(j, ']');
}

void spec_put_not_enforced(struct buf *out, const struct warren_enforcement *list,
			   size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!list[i].enforced)
			buf_printf(out, "%s%s", out->len ? ", " : "", list[i].name);
}

void spec_put_resources(struct json *j, const struct warren_spec *spec)
{
	json_open(j, "limits", '{');
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		if (spec_limit_get(spec, i))
			json_u64(j, spec_limits[i].name, spec_limit_get(spec, i));
	json_close(j, '}');
	json_open(j, "mounts", '[');
	for (size_t i = 0; i < spec->n_mounts; i++) {
		const struct warren_mount *m = &spec->mounts[i];

		json_open(j, NULL, '{');
		if (m->source)
			json_str(j, m->volume ? "volume" : "source", m->source);
		json_str(j, "target", m->target);
		json_bool(j, "read_only", m->read_only);
		if (m->size)
			json_u64(j, "size", m->size);
		json_close(j, '}');
	}
	json_close(j, ']');
}
