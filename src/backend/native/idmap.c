/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idmap.c - id maps of user namespaces
 *
 * If root creates a sandbox, it has its own 65,536 ids: id n inside is base + n outside,
 * which is an unprivileged user. One more id is for init (INIT_ID of proto/init_proto.h).
 * A shared layer shows its ids unchanged inside. If an ordinary user creates a sandbox,
 * that user's id appears inside as the sandbox's user (so that it owns the volumes), and
 * the ids of /etc/subuid are used for the others.
 *
 * A volume has the owner of its source: the owner on disk appears as the sandbox's user
 * inside, and files that this user writes belong to the owner. All other ids are
 * unmapped: files of other users can only be read if their mode permits it, and no set-id
 * file of another user or group can be created.
 */
#include "backend/native/native.h"

static void idmap_add(struct ns_map *map, size_t *n, uint32_t inside, uint32_t outside,
		      uint32_t count)
{
	if (count > 0)
		map[(*n)++] = (struct ns_map){ inside, outside, count };
}

/* For an ordinary user: the caller's id becomes @user; subordinate ids surround it. */
static size_t map_own(struct ns_map *map, uint32_t user, uint32_t own,
		      const struct ns_map *sub)
{
	size_t n = 0;
	uint32_t count = sub->count < NATIVE_IDS ? sub->count : NATIVE_IDS;
	uint32_t below = user < count ? user : count;

	idmap_add(map, &n, 0, sub->outside, below);
	idmap_add(map, &n, user, own, 1);
	idmap_add(map, &n, user + 1, sub->outside + below, count - below);
	return n;
}

void idmap_sandbox(const struct native *n, const struct native_sandbox *sandbox,
		   struct ns_maps *ret)
{
	*ret = (struct ns_maps){ 0 };
	if (n->privileged) {
		idmap_add(ret->uid, &ret->n_uid, 0, sandbox->base_id, NATIVE_IDS + 1);
		idmap_add(ret->gid, &ret->n_gid, 0, sandbox->base_id, NATIVE_IDS + 1);
		return;
	}
	ret->n_uid = map_own(ret->uid, sandbox->user.uid, geteuid(), &n->subuid);
	ret->n_gid = map_own(ret->gid, sandbox->user.gid, getegid(), &n->subgid);
}

static bool maps_id(const struct ns_map *map, size_t n, uint32_t id)
{
	for (size_t i = 0; i < n; i++)
		if (id >= map[i].inside && id - map[i].inside < map[i].count)
			return true;
	return false;
}

bool idmap_has(const struct native *n, const struct native_sandbox *sandbox, uint32_t uid,
	       uint32_t gid)
{
	struct ns_maps maps;

	idmap_sandbox(n, sandbox, &maps);
	return uid < NATIVE_IDS && gid < NATIVE_IDS &&
	       maps_id(maps.uid, maps.n_uid, uid) && maps_id(maps.gid, maps.n_gid, gid);
}

bool idmap_has_ids(const struct initclient_sandbox *initclient, uint32_t uid,
		   uint32_t gid)
{
	const struct native_sandbox *sandbox = (const struct native_sandbox *)initclient;

	return idmap_has(sandbox->engine, sandbox, uid, gid);
}

void idmap_volume(const struct native_sandbox *sandbox, uint32_t owner_uid,
		  uint32_t owner_gid, struct ns_maps *ret)
{
	*ret = (struct ns_maps){ 0 };
	idmap_add(ret->uid, &ret->n_uid, owner_uid, sandbox->base_id + sandbox->user.uid,
		  1);
	idmap_add(ret->gid, &ret->n_gid, owner_gid, sandbox->base_id + sandbox->user.gid,
		  1);
}

/* Ids inside and in the layer are equal, except that @user and @owner are exchanged. */
static size_t map_swapped(struct ns_map *map, uint32_t owner, uint32_t user,
			  uint32_t base)
{
	uint32_t low = owner < user ? owner : user, high = owner < user ? user : owner;
	size_t n = 0;

	if (owner == user) {
		idmap_add(map, &n, 0, base, NATIVE_IDS);
		return n;
	}
	if (owner >= NATIVE_IDS) {
		idmap_add(map, &n, 0, base, user);
		idmap_add(map, &n, owner, base + user, 1);
		idmap_add(map, &n, user + 1, base + user + 1, NATIVE_IDS - user - 1);
		/* .writes may belong to root: give that an id that no file inside has. */
		idmap_add(map, &n, user, base + NATIVE_IDS, 1);
		return n;
	}
	idmap_add(map, &n, 0, base, low);
	idmap_add(map, &n, low, base + high, 1);
	idmap_add(map, &n, low + 1, base + low + 1, high - low - 1);
	idmap_add(map, &n, high, base + low, 1);
	idmap_add(map, &n, high + 1, base + high + 1, NATIVE_IDS - high - 1);
	return n;
}

void idmap_layer(const struct native_sandbox *sandbox, uint32_t owner_uid,
		 uint32_t owner_gid, struct ns_maps *ret)
{
	ret->n_uid =
		map_swapped(ret->uid, owner_uid, sandbox->user.uid, sandbox->base_id);
	ret->n_gid =
		map_swapped(ret->gid, owner_gid, sandbox->user.gid, sandbox->base_id);
}
