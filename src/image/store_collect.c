/* SPDX-License-Identifier: Apache-2.0 */
/* store_collect.c - claims of layers, and the collection of garbage */
#include "image/store_collect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/hex.h"
#include "base/id.h"
#include "image/copy.h"
#include "image/entry.h"
#include "image/oci_json.h"
#include "image/store_internal.h"

#define TIDY_MAX      1000 /* files of others that store_tidy() removes */
#define SOON_TRIES    120
#define SOON_PAUSE_MS 25
#define CLAIM_FILE    "layers"
#define CLAIM_MAX     ((STORE_LAYERS_MAX + 1UL) * (STORE_HEX_LEN + 1UL))

/* ----------------------------------------------------------------------- claims */

/* Unlike an image's directory, it is never renamed, so collection removes what is left.
 */
int store_claim_layers(const struct store *s, char *const *layers,
		       struct store_claim *ret, struct warren_error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(CLAIM_MAX);
	struct store_claim claim = STORE_CLAIM_NONE;
	char id[ID_LEN + 1], path[64];
	AUTO_CLOSE int fd = -1;
	int r;

	for (; *layers; layers++)
		buf_printf(&text, "%s\n", *layers + 7);
	if (text.failed)
		return error_errno(err, E2BIG, "list the layers");
	id_make(id);
	(void)snprintf(claim.name, sizeof(claim.name), STORE_NEW_PREFIX "%s", id);
	(void)snprintf(path, sizeof(path), "%.32s/" CLAIM_FILE, claim.name);
	claim.fd = entry_new_dir(s->images, claim.name, 0700);
	if (claim.fd < 0)
		return error_errno(err, -claim.fd, "claim layers");
	fd = openat(s->images, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, text.data ? text.data : "", text.len);
	if (r < 0) {
		store_claim_end(s, &claim);
		return error_errno(err, -r, "claim layers");
	}
	*ret = claim;
	return 0;
}

void store_claim_end(const struct store *s, struct store_claim *claim)
{
	if (claim->name[0])
		copy_remove_tree(s->images, claim->name);
	if (claim->fd >= 0)
		(void)close(claim->fd);
	*claim = (struct store_claim)STORE_CLAIM_NONE;
}

/* ------------------------------------------------------------- what is in use */

struct names {
	char (*list)[65];
	size_t n, cap;
	bool failed;
	bool every; /* all names count as noted */
	char unknown[REF_DIGEST_LEN + 1];
	const struct store *store;
};

static void store_names_add(struct names *all, const char *hex)
{
	if (all->n == all->cap) {
		size_t cap = all->cap ? all->cap * 2 : 64;
		void *grown = realloc(all->list, cap * sizeof(*all->list));

		if (!grown) {
			all->failed = true;
			return;
		}
		all->list = grown;
		all->cap = cap;
	}
	(void)snprintf(all->list[all->n++], sizeof(*all->list), "%.64s", hex);
}

static int store_names_order(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Sort, so that store_names_has() finds them. */
static void store_names_sort(struct names *all)
{
	if (all->n > 0)
		qsort(all->list, all->n, sizeof(*all->list), store_names_order);
}

static bool store_names_has(const struct names *all, const char *name)
{
	return all->every ||
	       (all->n > 0 &&
		bsearch(name, all->list, all->n, sizeof(*all->list), store_names_order));
}

/*
 * Note the layers of an image whose record cannot be read, from its configuration: the
 * digest of that is the id of the image, so it is known to be whole.
 */
static int store_note_config(struct names *all, const char *id)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_FREE char *text = NULL;
	char digest[REF_DIGEST_LEN + 1];
	struct store_image image = { .lock = -1 };
	int r = store_read_json(all->store, id, "config.json", &text);

	if (r < 0)
		return r;
	oci_digest(text, strlen(text), digest);
	r = strcmp(digest, id) == 0 ? oci_parse_config(text, &image, &ignored) : -EBADMSG;
	if (r < 0)
		return r;
	for (char **l = image.layers; l && *l; l++)
		store_names_add(all, *l + 7);
	store_image_done(&image);
	return 0;
}

static int store_note_image(void *ctx, const char *id)
{
	struct names *all = ctx;
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct store_image image;
	int r = store_find(all->store, id, &image, &ignored);

	if (r == 0) {
		for (char **l = image.layers; *l; l++)
			store_names_add(all, *l + 7);
		store_image_done(&image);
		return 0;
	}
	/* It was removed in the meantime. */
	if (r == -ENOENT &&
	    faccessat(all->store->images, id + 7, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	    errno == ENOENT)
		return 0;
	if (store_note_config(all, id) < 0) {
		all->every = true;
		(void)strcpy(all->unknown, id);
	}
	return 0;
}

/* ------------------------------------------------------------------ removal */

/* Let store_sweep() remove the directory @name of s->data. */
static void store_set_aside(const struct store *s, const char *name,
			    struct store_collected *by)
{
	char aside[sizeof(by->aside) + 16];

	(void)snprintf(aside, sizeof(aside), "%s%u", by->aside, by->n_aside++);
	if (renameat(s->data, name, s->data, aside) < 0)
		copy_remove_large(s->data, name);
}

/* Remove directories that were set aside, with this prefix; @max: NULL: all of them. */
static void store_sweep_part(const struct store *s, const char *prefix, uint64_t *max)
{
	DIR *d = store_open_list(s->data);
	struct dirent *e;

	while (d && (!max || *max > 0) && (e = readdir(d))) {
		AUTO_CLOSE int fd = -1;

		if (strncmp(e->d_name, prefix, strlen(prefix)) != 0)
			continue;
		fd = entry_lock_unused(s->data, e->d_name, O_DIRECTORY);
		if (fd < 0)
			continue;
		if (max)
			copy_remove_part(s->data, e->d_name, max);
		else
			copy_remove_large(s->data, e->d_name);
	}
	if (d)
		(void)closedir(d);
}

void store_sweep(const struct store *s)
{
	store_sweep_part(s, STORE_REMOVED_PREFIX, NULL);
}

void store_sweep_collected(const struct store *s, const struct store_collected *by)
{
	store_sweep_part(s, by->aside, NULL);
}

void store_tidy(const struct store *s, bool failed)
{
	struct store_collected found;
	uint64_t max = TIDY_MAX;

	if (store_lock(s, true, false) < 0)
		return;
	(void)store_collect(s, &found);
	store_unlock(s);
	if (failed)
		store_sweep_collected(s, &found);
	else
		store_sweep_part(s, STORE_REMOVED_PREFIX, &max);
}

int store_lock_soon(const struct store *s)
{
	int r = store_lock(s, true, false);

	for (unsigned i = 0; r == -EWOULDBLOCK && i < SOON_TRIES; i++) {
		(void)poll(NULL, 0, SOON_PAUSE_MS);
		r = store_lock(s, true, false);
	}
	return r;
}

/* Note the layers of a claim; one that cannot be read may need any layer. */
static void store_note_claim(struct names *all, const char *name)
{
	AUTO_FREE char *text = malloc(CLAIM_MAX);
	char path[64], *save = NULL;

	(void)snprintf(path, sizeof(path), "%.32s/" CLAIM_FILE, name);
	if (!text || fd_read_file_at(all->store->images, path, text, CLAIM_MAX) < 0) {
		all->every = true;
		return;
	}
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
		store_names_add(all, l);
}

static int store_note_claims(struct names *all)
{
	DIR *d = store_open_list(all->store->images);
	struct dirent *e;

	if (!d)
		return -errno;
	while ((e = readdir(d)))
		if (strncmp(e->d_name, STORE_NEW_PREFIX, strlen(STORE_NEW_PREFIX)) == 0 &&
		    entry_is_used(all->store->images, e->d_name))
			store_note_claim(all, e->d_name);
	(void)closedir(d);
	return 0;
}

static void remove_new(const struct store *s, int dir, struct store_collected *ret)
{
	DIR *d = store_open_list(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		AUTO_CLOSE int fd = -1;

		if (strncmp(e->d_name, STORE_NEW_PREFIX, strlen(STORE_NEW_PREFIX)) != 0)
			continue;
		fd = entry_lock_unused(dir, e->d_name, 0);
		if (fd < 0)
			continue;
		if (dir == s->data)
			store_set_aside(s, e->d_name, ret);
		else
			copy_remove_tree(dir, e->d_name);
		ret->leftovers++;
	}
	if (d)
		(void)closedir(d);
}

/*
 * An image without a record was damaged by another program: it cannot be run, and its
 * layers are unknown. If a process has opened it before, that process holds a lock, and
 * this function waits for it.
 */
static int note_recordless(void *ctx, const char *id)
{
	struct names *all = ctx;
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/record", id + 7);
	if (faccessat(all->store->images, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	    errno == ENOENT)
		store_names_add(all, id + 7);
	return 0;
}

static unsigned remove_recordless(const struct store *s)
{
	struct names found = { .store = s };
	unsigned n = 0;

	(void)store_each_image(s, note_recordless, &found);
	for (size_t i = 0; i < found.n; i++) {
		char id[REF_DIGEST_LEN + 1];

		(void)snprintf(id, sizeof(id), "sha256:%.64s", found.list[i]);
		n += store_remove_image(s, id) == 0;
	}
	free(found.list);
	return n;
}

/* Is it "<hex>.size" of an unused layer? The layer's name may never have been created. */
static bool is_size_of_unused(const struct names *used, const char *name)
{
	char hex[65];

	if (strlen(name) != 64 + strlen(".size") || strcmp(name + 64, ".size") != 0)
		return false;
	(void)snprintf(hex, sizeof(hex), "%.64s", name);
	return hex_is(hex, STORE_HEX_LEN) && !store_names_has(used, hex);
}

/* Remove the lock of a layer, unless a process holds it. */
static void store_remove_lock(const struct store *s, const char *name)
{
	AUTO_CLOSE int fd = entry_lock_unused(s->layers, name, 0);

	if (fd >= 0)
		(void)unlinkat(s->layers, name, 0);
}

/* Remove names of layers first, then directories without a name. */
static void remove_layers(const struct store *s, const struct names *used,
			  struct store_collected *ret)
{
	struct names kept = { 0 };
	DIR *d = store_open_list(s->layers);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char id[REF_DIGEST_LEN + 1], target[64] = "";

		if (strncmp(e->d_name, STORE_LOCK_PREFIX, strlen(STORE_LOCK_PREFIX)) == 0)
			store_remove_lock(s, e->d_name);
		if (!hex_is(e->d_name, STORE_HEX_LEN))
			continue;
		(void)!readlinkat(s->layers, e->d_name, target, sizeof(target) - 1);
		if (store_names_has(used, e->d_name)) {
			store_names_add(&kept, target + 2);
			continue;
		}
		(void)snprintf(id, sizeof(id), "sha256:%.64s", e->d_name);
		ret->bytes += store_layer_size(s, id);
		ret->layers++;
		(void)unlinkat(s->layers, e->d_name, 0);
	}
	if (d)
		rewinddir(d);
	while (d && (e = readdir(d)))
		if (is_size_of_unused(used, e->d_name))
			(void)unlinkat(s->layers, e->d_name, 0);
	if (d)
		(void)closedir(d);
	store_names_sort(&kept);
	d = store_open_list(s->data);
	while (d && !kept.failed && (e = readdir(d)))
		if (e->d_name[0] != '.' && !store_names_has(&kept, e->d_name))
			store_set_aside(s, e->d_name, ret);
	if (d)
		(void)closedir(d);
	free(kept.list);
}

/* Forget steps of builds whose images were removed. */
static void remove_steps(const struct store *s)
{
	AUTO_CLOSE int dir = openat(s->images, STORE_BUILD_DIR,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = dir < 0 ? NULL : store_open_list(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char id[REF_DIGEST_LEN + 2] = "";

		if (e->d_name[0] == '.' ||
		    fd_read_file_at(dir, e->d_name, id, sizeof(id)) < 0)
			continue;
		id[strcspn(id, "\n")] = '\0';
		if (!ref_digest_valid(id) ||
		    (faccessat(s->images, id + 7, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
		     errno == ENOENT))
			(void)unlinkat(dir, e->d_name, 0);
	}
	if (d)
		(void)closedir(d);
	/* It stays as long as there are steps, or directories of cache mounts. */
	if (dir >= 0)
		(void)unlinkat(s->images, STORE_BUILD_DIR, AT_REMOVEDIR);
}

int store_collect(const struct store *s, struct store_collected *ret)
{
	struct names used = { .store = s };
	char id[ID_LEN + 1];
	int r;

	*ret = (struct store_collected){ .leftovers = remove_recordless(s) };
	id_make(id);
	(void)snprintf(ret->aside, sizeof(ret->aside), STORE_REMOVED_PREFIX "%s-", id);
	r = store_each_image(s, store_note_image, &used);
	if (r == 0)
		r = store_note_claims(&used);
	if (r == 0 && used.failed)
		r = -ENOMEM;
	if (r == 0) {
		store_names_sort(&used);
		(void)strcpy(ret->unknown, used.unknown);
		remove_new(s, s->images, ret);
		remove_new(s, s->refs, ret);
		remove_new(s, s->data, ret);
		remove_layers(s, &used, ret);
		remove_steps(s);
	}
	free(used.list);
	return r;
}
