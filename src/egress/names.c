/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - names and their numbers: a table by number, a hash table by name, and the
 * order of use
 * */
#include "egress/names.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define NONE UINT32_MAX
/* How many different numbers an entry can have over time. */
#define NAMES_ROUNDS 7U

_Static_assert(NAMES_ROUNDS *NAMES_MAX <= NAMES_SPACE, "numbers must not overlap");

struct name {
	char *text;
	uint32_t round; /* number of times that the entry was reused */
	uint32_t hash;
	uint32_t next;         /* next entry in the same bucket */
	uint32_t older, newer; /* neighbours in the order of use */
	uint32_t n_connections;
};

struct names {
	struct name *list;
	uint32_t n, size;
	uint32_t *buckets; /* @size elements */
	uint32_t oldest, newest;
	uint32_t seed;     /* prevents a sandbox from choosing names with the same hash */
	uint32_t rotation; /* the first number */
};

static const uint8_t names_v4[] = { 198, 18, 0, 0 };
static const uint8_t names_v6[16] = { 0xfd, 0x77, 0x61, 0x72, 0x72, 0x65, 0, 0x6e };

static uint32_t names_hash(const struct names *t, const char *s)
{
	uint64_t h = 14695981039346656037ULL ^ t->seed; /* FNV-1a */

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 1099511628211ULL;
	h ^= h >> 32;
	return (uint32_t)(h ^ t->seed);
}

int names_new(struct names **ret)
{
	struct names *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->oldest = t->newest = NONE;
	if (getrandom(&t->seed, sizeof(t->seed), 0) != sizeof(t->seed))
		t->seed = (uint32_t)(uintptr_t)t;
	t->rotation = t->seed % NAMES_SPACE;
	*ret = t;
	return 0;
}

struct names *names_free(struct names *t)
{
	for (uint32_t i = 0; t && i < t->n; i++)
		free(t->list[i].text);
	if (t) {
		free(t->list);
		free(t->buckets);
	}
	free(t);
	return NULL;
}

/* ------------------------------------------------------------------ order of use */

static void names_unlink_use(struct names *t, uint32_t i)
{
	struct name *e = &t->list[i];

	*(e->older == NONE ? &t->oldest : &t->list[e->older].newer) = e->newer;
	*(e->newer == NONE ? &t->newest : &t->list[e->newer].older) = e->older;
}

static void names_link_use(struct names *t, uint32_t i)
{
	struct name *e = &t->list[i];

	e->newer = NONE;
	e->older = t->newest;
	*(t->newest == NONE ? &t->oldest : &t->list[t->newest].newer) = i;
	t->newest = i;
}

/* ----------------------------------------------------------------------- hashing */

static void names_bucket_add(struct names *t, uint32_t i)
{
	uint32_t *bucket = &t->buckets[t->list[i].hash & (t->size - 1)];

	t->list[i].next = *bucket;
	*bucket = i;
}

static void names_bucket_remove(struct names *t, uint32_t i)
{
	uint32_t *at = &t->buckets[t->list[i].hash & (t->size - 1)];

	while (*at != i)
		at = &t->list[*at].next;
	*at = t->list[i].next;
}

static uint32_t names_find(const struct names *t, const char *text, uint32_t hash)
{
	uint32_t i = t->size ? t->buckets[hash & (t->size - 1)] : NONE;

	while (i != NONE &&
	       (t->list[i].hash != hash || strcmp(t->list[i].text, text) != 0))
		i = t->list[i].next;
	return i;
}

static int names_grow(struct names *t)
{
	uint32_t size = t->size ? t->size * 2 : 16;
	struct name *list = realloc(t->list, size * sizeof(*list));
	uint32_t *buckets;

	if (!list)
		return -ENOMEM;
	t->list = list;
	buckets = malloc(size * sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	(void)memset(buckets, 0xff, size * sizeof(*buckets));
	free(t->buckets);
	t->buckets = buckets;
	t->size = size;
	for (uint32_t i = 0; i < t->n; i++)
		names_bucket_add(t, i);
	return 0;
}

/* ------------------------------------------------------------------------ numbers */

static uint32_t names_number_of(const struct names *t, uint32_t i)
{
	uint32_t at = t->list[i].round * NAMES_MAX + i;

	return NAMES_FIRST + (t->rotation + at) % NAMES_SPACE;
}

/* Return the entry with a number, or NONE. */
static uint32_t names_entry(const struct names *t, uint32_t number)
{
	uint32_t at, i;

	if (number < NAMES_FIRST || number - NAMES_FIRST >= NAMES_SPACE)
		return NONE;
	at = (number - NAMES_FIRST + NAMES_SPACE - t->rotation) % NAMES_SPACE;
	i = at % NAMES_MAX;
	return i < t->n && t->list[i].round == at / NAMES_MAX ? i : NONE;
}

/* -------------------------------------------------------------------------- names */

/* Get an entry for a new name: an unused one, or that of the least recently used name. */
static int names_take(struct names *t, uint32_t *ret, uint32_t *ret_round)
{
	uint32_t i;

	if (t->n < NAMES_MAX) {
		if (t->n == t->size && names_grow(t) < 0)
			return -ENOMEM;
		*ret = t->n++;
		*ret_round = 0;
		return 0;
	}
	for (i = t->oldest; i != NONE && t->list[i].n_connections; i = t->list[i].newer)
		;
	if (i == NONE)
		return -EBUSY;
	names_unlink_use(t, i);
	names_bucket_remove(t, i);
	free(t->list[i].text);
	*ret = i;
	*ret_round = (t->list[i].round + 1) % NAMES_ROUNDS;
	return 0;
}

int names_put(struct names *t, const char *text, uint32_t *ret_number)
{
	uint32_t hash = names_hash(t, text), i = names_find(t, text, hash);
	uint32_t round = 0;
	char *copy;
	int r;

	if (i != NONE) {
		names_unlink_use(t, i);
		names_link_use(t, i);
		*ret_number = names_number_of(t, i);
		return 0;
	}
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	r = names_take(t, &i, &round);
	if (r < 0) {
		free(copy);
		return r;
	}
	t->list[i] = (struct name){ .text = copy, .hash = hash, .round = round };
	names_bucket_add(t, i);
	names_link_use(t, i);
	*ret_number = names_number_of(t, i);
	return 0;
}

const char *names_get(struct names *t, uint32_t number)
{
	uint32_t i = names_entry(t, number);

	if (i == NONE)
		return NULL;
	names_unlink_use(t, i);
	names_link_use(t, i);
	return t->list[i].text;
}

void names_hold(struct names *t, uint32_t number)
{
	t->list[names_entry(t, number)].n_connections++;
}

void names_release(struct names *t, uint32_t number)
{
	t->list[names_entry(t, number)].n_connections--;
}

/* --------------------------------------------------------------------- addresses */

void names_addresses(uint32_t number, struct address_net ret[2])
{
	uint8_t v4[4], v6[16];

	(void)memcpy(v4, names_v4, sizeof(v4));
	(void)memcpy(v6, names_v6, sizeof(v6));
	for (unsigned i = 0; i < 4; i++) {
		uint8_t byte = (uint8_t)(number >> (24 - 8 * i));

		v4[i] |= byte;
		v6[12 + i] = byte;
	}
	v4[1] = (uint8_t)(names_v4[1] | (number >> 16 & 1));
	address_net_widen(AF_INET, v4, 32, &ret[0]);
	address_net_widen(AF_INET6, v6, 128, &ret[1]);
}

static uint32_t names_low_bits(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

bool names_number(const struct address_net *a, uint32_t *ret_number)
{
	if (address_net_is_v4(a)) {
		uint32_t v4 = names_low_bits(a->bytes + 12);

		*ret_number = v4 & 0x1ffff;
		return v4 >> 17 == names_low_bits(names_v4) >> 17;
	}
	*ret_number = names_low_bits(a->bytes + 12);
	return memcmp(a->bytes, names_v6, 12) == 0;
}
