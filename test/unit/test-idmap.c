/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-idmap.c - id maps: properties that must hold for every owner and every user
 *
 * A map of a volume is interpreted as the kernel does for an id-mapped mount: `inside` is
 * the id on disk, and `outside` is the id on this machine, where a sandbox has a range.
 */
#include "backend/native/native.h"
#include "lib/tap.h"

#define BASE 268435456U

static const uint32_t owners[] = { 0,     1,      2,       999,        1000,
				   1001,  65533,  65534,   65535,      65536,
				   65537, 100000, 1000000, 4294967293, 4294967294 };
static const uint32_t members[] = { 0, 1, 2, 999, 1000, 1001, 65533, 65534, 65535 };

/* Return the id on the machine for @id on disk; false: it is not mapped. */
static bool up(const struct ns_map *map, size_t n, uint32_t id, uint32_t *ret)
{
	for (size_t i = 0; i < n; i++) {
		if (id < map[i].inside || id - map[i].inside >= map[i].count)
			continue;
		*ret = map[i].outside + (id - map[i].inside);
		return true;
	}
	return false;
}

/*
 * Check that no two lines share an id on either side. Otherwise, the kernel refuses the
 * map, or two ids become one.
 */
static bool injective(const struct ns_map *map, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (map[i].count == 0 ||
		    (uint64_t)map[i].inside + map[i].count > UINT32_MAX ||
		    (uint64_t)map[i].outside + map[i].count > UINT32_MAX)
			return false;
		for (size_t k = 0; k < i; k++) {
			if (map[i].inside < map[k].inside + map[k].count &&
			    map[k].inside < map[i].inside + map[i].count)
				return false;
			if (map[i].outside < map[k].outside + map[k].count &&
			    map[k].outside < map[i].outside + map[i].count)
				return false;
		}
	}
	return true;
}

static bool within_sandbox(const struct ns_map *map, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (map[i].outside < BASE ||
		    map[i].outside + map[i].count > BASE + NATIVE_IDS)
			return false;
	return true;
}

static void check_volume(const struct ns_map *map, size_t n, uint32_t owner,
			 uint32_t user)
{
	uint32_t id = 0;

	if (n > NS_MAPS_MAX || !injective(map, n) || !within_sandbox(map, n))
		TAP_FAIL("owner %u, user %u: not a map", owner, user);
	if (!up(map, n, owner, &id) || id != BASE + user)
		TAP_FAIL("owner %u is %u, not the user %u", owner, id - BASE, user);
	if (owner != 0 && up(map, n, 0, &id))
		TAP_FAIL("owner %u, user %u: root on disk is %u inside", owner, user,
			 id - BASE);
	/* Files of other users stay inaccessible. */
	for (size_t i = 0; i < ARRAY_SIZE(owners); i++)
		if (owners[i] != owner && up(map, n, owners[i], &id))
			TAP_FAIL("owner %u, user %u: %u is %u inside", owner, user,
				 owners[i], id - BASE);
}

TEST(a_volume_keeps_its_owner)
{
	for (size_t i = 0; i < ARRAY_SIZE(owners); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(members); k++) {
			struct native_sandbox sandbox = { .base_id = BASE,
							  .user = { .uid = members[k],
								    .gid = members[k] } };
			struct ns_maps maps;

			idmap_volume(&sandbox, owners[i], owners[i], &maps);
			check_volume(maps.uid, maps.n_uid, owners[i], members[k]);
			check_volume(maps.gid, maps.n_gid, owners[i], members[k]);
		}
	}
}

/* Users and groups are mapped separately. */
TEST(user_and_group_ids_are_mapped_separately)
{
	struct native_sandbox sandbox = { .base_id = BASE,
					  .user = { .uid = 1000, .gid = 0 } };
	struct ns_maps maps;
	uint32_t id;

	idmap_volume(&sandbox, 1000, 0, &maps);
	check_volume(maps.uid, maps.n_uid, 1000, 1000);
	OK(up(maps.gid, maps.n_gid, 0, &id));
	EQ(id, BASE);
	idmap_volume(&sandbox, 0, 1000, &maps);
	check_volume(maps.uid, maps.n_uid, 0, 1000);
	check_volume(maps.gid, maps.n_gid, 1000, 0);
}

/* Check it with the kernel. */
TEST(the_kernel_accepts_every_map)
{
	SKIP_UNLESS(geteuid() == 0, "needs root");
	for (size_t i = 0; i < ARRAY_SIZE(owners); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(members); k += 2) {
			struct native_sandbox sandbox = { .base_id = BASE,
							  .user = { .uid = members[k],
								    .gid = members[k] } };
			struct warren_error err = WARREN_ERROR_INIT;
			struct ns_maps maps;
			int fd = -1;

			idmap_volume(&sandbox, owners[i], owners[i], &maps);
			if (ns_make_userns(&maps, &fd, &err) < 0)
				TAP_FAIL("owner %u, user %u: %s", owners[i], members[k],
					 err.msg);
			(void)close(fd);
		}
	}
}

TEST(a_sandbox_has_a_separate_range)
{
	struct native n = { .privileged = true };
	struct native_sandbox sandbox = { .base_id = BASE };
	struct ns_maps maps;

	idmap_sandbox(&n, &sandbox, &maps);
	EQ(maps.n_uid, 1);
	EQ(maps.n_gid, 1);
	EQ(maps.uid[0].inside, 0);
	EQ(maps.uid[0].outside, BASE);
	EQ(maps.uid[0].count, NATIVE_IDS + 1); /* the sandbox's ids, and that of init */
	OK(idmap_has(&n, &sandbox, 0, 0));
	OK(idmap_has(&n, &sandbox, NATIVE_IDS - 1, NATIVE_IDS - 1));
	OK(!idmap_has(&n, &sandbox, NATIVE_IDS, 0));
	OK(!idmap_has(&n, &sandbox, 0, NATIVE_IDS));
	OK(!idmap_has(&n, &sandbox, UINT32_MAX - 1, 0));
}

static void check_own(const struct ns_map *map, size_t n, const struct ns_map *sub,
		      uint32_t user, uint32_t own)
{
	uint32_t id;

	if (!injective(map, n) || n > NS_MAPS_MAX)
		TAP_FAIL("user %u with %u ids: not a map", user, sub->count);
	OK(up(map, n, user, &id));
	EQ(id, own);
	/* Of the machine's ids, only the user's own id and range are mapped. */
	for (size_t i = 0; i < n; i++)
		if (!(map[i].outside == own && map[i].count == 1) &&
		    (map[i].outside < sub->outside ||
		     map[i].outside + map[i].count > sub->outside + sub->count))
			TAP_FAIL("user %u: %u is nobody's to give", user, map[i].outside);
}

/*
 * An ordinary user's id is mapped to the sandbox's user, and the subordinate ids are the
 * others.
 */
TEST(an_ordinary_users_ids_are_mapped)
{
	static const uint32_t counts[] = { 0, 1, 2, 1000, 65535, 65536, 100000 };

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(members); k++) {
			struct native n = {
				.subuid = { .outside = 200000, .count = counts[i] },
				.subgid = { .outside = 400000, .count = counts[i] }
			};
			struct native_sandbox sandbox = { .user = { .uid = members[k],
								    .gid = members[k] } };
			struct ns_maps maps;

			idmap_sandbox(&n, &sandbox, &maps);
			check_own(maps.uid, maps.n_uid, &n.subuid, members[k], geteuid());
			check_own(maps.gid, maps.n_gid, &n.subgid, members[k], getegid());
			OK(idmap_has(&n, &sandbox, members[k], members[k]));
		}
	}
}

TEST_MAIN()
