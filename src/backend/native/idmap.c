/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idmap.c - which id is which
 *
 * A sandbox made by root has 65,536 ids of its own; id n inside is base + n
 * outside, and nobody there. A shared layer shows its ids unchanged inside.
 * An ordinary user has his own id, seen inside as the sandbox's user (so that
 * his volumes are that user's), and those of /etc/subuid for the others.
 *
 * A volume belongs to whoever owns its source: the owner on disk is the
 * sandbox's user inside, and what that user writes belongs to the owner. The
 * other ids are as on disk. Root's id on disk is reached only when the source
 * is root's own: no set-uid file of root's can be planted in a user's directory.
 */
#include "backend/native/native.h"

static void add(struct ns_map *map, size_t *n, uint32_t inside, uint32_t outside, uint32_t count)
{
	if (count > 0)
		map[(*n)++] = (struct ns_map){ inside, outside, count };
}

/* An ordinary user's: his id as @user, his subordinate ids around it. */
static size_t map_own(struct ns_map *map, uint32_t user, uint32_t own, const struct ns_map *sub)
{
	size_t n = 0;
	uint32_t count = sub->count < NATIVE_IDS ? sub->count : NATIVE_IDS;
	uint32_t below = user < count ? user : count;

	add(map, &n, 0, sub->outside, below);
	add(map, &n, user, own, 1);
	add(map, &n, user + 1, sub->outside + below, count - below);
	return n;
}

void idmap_sandbox(const struct native *n, const struct native_box *box, struct ns_maps *ret)
{
	*ret = (struct ns_maps){ 0 };
	if (n->privileged) {
		add(ret->uid, &ret->n_uid, 0, box->base_id, NATIVE_IDS);
		add(ret->gid, &ret->n_gid, 0, box->base_id, NATIVE_IDS);
		return;
	}
	ret->n_uid = map_own(ret->uid, box->user.uid, geteuid(), &n->subuid);
	ret->n_gid = map_own(ret->gid, box->user.gid, getegid(), &n->subgid);
}

static bool maps_id(const struct ns_map *map, size_t n, uint32_t id)
{
	for (size_t i = 0; i < n; i++)
		if (id >= map[i].inside && id - map[i].inside < map[i].count)
			return true;
	return false;
}

bool idmap_has(const struct native *n, const struct native_box *box, uint32_t uid, uint32_t gid)
{
	struct ns_maps maps;

	idmap_sandbox(n, box, &maps);
	return maps_id(maps.uid, maps.n_uid, uid) && maps_id(maps.gid, maps.n_gid, gid);
}

/* Identity from 1 (0 only if @owner is 0), without @owner and @user; @owner becomes @user. */
static size_t map_volume(struct ns_map *map, uint32_t base, uint32_t owner, uint32_t user)
{
	uint32_t low = owner < user ? owner : user, high = owner < user ? user : owner;
	uint32_t from = owner == 0 ? 0 : 1;
	uint32_t cuts[2] = { low, high };
	size_t n = 0;

	add(map, &n, owner, base + user, 1);
	for (size_t i = 0; i < ARRAY_SIZE(cuts); i++) {
		if (cuts[i] >= NATIVE_IDS || cuts[i] < from)
			continue;
		add(map, &n, from, base + from, cuts[i] - from);
		from = cuts[i] + 1;
	}
	add(map, &n, from, base + from, NATIVE_IDS - from);
	return n;
}

bool idmap_volume(const struct native_box *box, uint32_t owner_uid, uint32_t owner_gid,
		  struct ns_maps *ret)
{
	*ret = (struct ns_maps){ 0 };
	if (owner_uid == 0 && owner_gid == 0 && box->user.uid == 0 && box->user.gid == 0)
		return false;
	ret->n_uid = map_volume(ret->uid, box->base_id, owner_uid, box->user.uid);
	ret->n_gid = map_volume(ret->gid, box->base_id, owner_gid, box->user.gid);
	return true;
}
