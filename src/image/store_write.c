/* SPDX-License-Identifier: Apache-2.0 */
/* store_write.c - write layers, images and references into the store */
#include "image/store_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/hex.h"
#include "base/id.h"
#include "base/snapshot_name.h"
#include "image/copy.h"
#include "image/entry.h"
#include "image/escape.h"
#include "image/store_internal.h"

#define JSON_MAX (16U << 20)

int store_lock(const struct store *s, bool exclusive, bool wait)
{
	int how = (exclusive ? LOCK_EX : LOCK_SH) | (wait ? 0 : LOCK_NB);

	while (flock(s->lock, how) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

void store_unlock(const struct store *s)
{
	(void)flock(s->lock, LOCK_UN);
}

int store_lock_layer(const struct store *s, const char *diff_id)
{
	for (;;) {
		char name[sizeof(STORE_LOCK_PREFIX) + 64];
		AUTO_CLOSE int fd = -1;
		struct stat a, b;

		(void)snprintf(name, sizeof(name), STORE_LOCK_PREFIX "%s", diff_id + 7);
		fd = openat(s->layers, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
			    0600);
		if (fd < 0)
			return -errno;
		if (flock(fd, LOCK_EX | LOCK_NB) < 0)
			return -errno;
		/*
		 * The layer was removed while this process waited, and another process
		 * may have created it again.
		 */
		if (fstat(fd, &a) == 0 && fstatat(s->layers, name, &b, 0) == 0 &&
		    a.st_ino == b.st_ino)
			return TAKE_FD(fd);
	}
}

/* ------------------------------------------------------------------ layers */

int store_new_snapshot(const struct store *s, const char *id, struct store_new *ret,
		       struct warren_error *err)
{
	struct store_new new;

	if (!id_valid(id))
		return error_set(err, EINVAL, "'%.40s' is not an id", id);
	(void)snprintf(new.name, sizeof(new.name), STORE_NEW_PREFIX "%s", id);
	new.fd = entry_new_dir(s->data, new.name, 0755);
	if (new.fd < 0)
		return error_errno(err, -new.fd, "create a directory for a layer");
	*ret = new;
	return 0;
}

int store_new_work(const struct store *s, struct store_new *ret, struct warren_error *err)
{
	char id[ID_LEN + 1];

	id_make(id);
	return store_new_snapshot(s, id, ret, err);
}

bool store_has_snapshot_work(const struct store *s, const char *id)
{
	char name[sizeof(STORE_NEW_PREFIX) + ID_LEN];

	(void)snprintf(name, sizeof(name), STORE_NEW_PREFIX "%s", id);
	return entry_is_used(s->data, name);
}

int store_open_new(const struct store *s, const char *name, struct store_new *ret,
		   struct warren_error *err)
{
	const size_t n = strlen(STORE_NEW_PREFIX);

	if (strncmp(name, STORE_NEW_PREFIX, n) != 0 || !id_valid(name + n))
		return error_set(err, EINVAL, "'%.40s' is not a new layer", name);
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	ret->fd = openat(s->data, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return ret->fd < 0 ? error_errno(err, errno, "open the new layer") : 0;
}

void store_drop_layer(const struct store *s, struct store_new *layer)
{
	if (layer->fd < 0)
		return;
	(void)close(TAKE_FD(layer->fd));
	copy_remove_large(s->data, layer->name);
}

static void make_short(char name[STORE_SHORT_LEN + 1])
{
	static const char alphabet[] = "0123456789abcdefghijklmnopqrstuv";
	unsigned char bytes[STORE_SHORT_LEN] = { 0 };

	(void)!getrandom(bytes, sizeof(bytes), 0);
	for (size_t i = 0; i < STORE_SHORT_LEN; i++)
		name[i] = alphabet[bytes[i] % 32];
	name[STORE_SHORT_LEN] = '\0';
}

static int write_synced(int fd, const char *text, size_t n)
{
	int r = fd_write_all(fd, text, n);

	return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

static int write_whole(int dir, const char *name, const char *text, size_t n)
{
	AUTO_CLOSE int fd =
		openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	return fd < 0 ? -errno : write_synced(fd, text, n);
}

/* Sync all files of the layer once; after that, its name may become visible. */
int store_sync_layer(const struct store_new *layer, struct warren_error *err)
{
	return syncfs(layer->fd) < 0 ? error_errno(err, errno, "write a layer to disk")
				     : 0;
}

int store_keep_layer(const struct store *s, struct store_new *layer, const char *diff_id,
		     uint64_t size, struct warren_error *err)
{
	char name[STORE_SHORT_LEN + 1], target[16], text[32], file[80];
	int r;

	do {
		make_short(name);
		r = renameat2(s->data, layer->name, s->data, name, RENAME_NOREPLACE);
	} while (r < 0 && errno == EEXIST);
	if (r < 0)
		return error_errno(err, errno, "move a layer into place");
	(void)close(TAKE_FD(layer->fd));
	(void)snprintf(file, sizeof(file), "%s.size", diff_id + 7);
	(void)snprintf(text, sizeof(text), "%" PRIu64 "\n", size);
	(void)snprintf(target, sizeof(target), "d/%s", name);
	r = write_whole(s->layers, file, text, strlen(text));
	if (r == 0 && symlinkat(target, s->layers, diff_id + 7) < 0)
		r = -errno;
	if (r < 0)
		copy_remove_tree(s->data, name);
	/* Another process has added the same layer in the meantime. */
	return r < 0 && r != -EEXIST ? error_errno(err, -r, "name a layer") : 0;
}

uint64_t store_layer_size(const struct store *s, const char *diff_id)
{
	char file[80];
	uint64_t n = 0;

	(void)snprintf(file, sizeof(file), "%s.size", diff_id + 7);
	return fd_read_u64_at(s->layers, file, &n) < 0 ? 0 : n;
}

/* ------------------------------------------------------------------ images */

/* Replace the files of an image whose record cannot be read. */
static int store_repair_image(const struct store *s, const char *id, int from)
{
	static const char *const files[] = { "manifest.json", "config.json", "record" };
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct store_image image;
	int r = 0;

	if (store_find(s, id, &image, &ignored) == 0) {
		store_image_done(&image);
		return 0;
	}
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++) {
		char path[96];

		(void)snprintf(path, sizeof(path), "%s/%s", id + 7, files[i]);
		if (renameat(from, files[i], s->images, path) < 0)
			r = -errno;
	}
	return r;
}

int store_put_image(const struct store *s, const struct store_image *image,
		    const char *manifest, const char *config, struct warren_error *err)
{
	/* One that could not be read again would prevent every list of images. */
	AUTO_BUF struct buf record = BUF_INIT(STORE_RECORD_MAX - 1);
	char temp[32], id[ID_LEN + 1];
	AUTO_CLOSE int dir = -1;
	int r;

	store_write_record(image, &record);
	id_make(id);
	(void)snprintf(temp, sizeof(temp), STORE_NEW_PREFIX "%s", id);
	if (record.full)
		return error_set(err, E2BIG,
				 "the configuration of the image is larger than %u MiB",
				 STORE_RECORD_MAX >> 20);
	if (record.failed)
		return error_errno(err, ENOMEM, "record the image");
	dir = entry_new_dir(s->images, temp, 0755);
	if (dir < 0)
		return error_errno(err, -dir, "create the image's directory");
	r = write_whole(dir, "record", record.data, record.len);
	if (r == 0)
		r = write_whole(dir, "manifest.json", manifest, strlen(manifest));
	if (r == 0)
		r = write_whole(dir, "config.json", config, strlen(config));
	if (r == 0 && fsync(dir) < 0)
		r = -errno;
	/* The same image was already pulled, possibly by another process. */
	if (r == 0 &&
	    renameat2(s->images, temp, s->images, image->id + 7, RENAME_NOREPLACE) < 0)
		r = errno == EEXIST ? store_repair_image(s, image->id, dir) : -errno;
	copy_remove_tree(s->images, temp);
	if (r == 0 && fsync(s->images) < 0)
		r = -errno;
	return r < 0 ? error_errno(err, -r, "store the image") : 0;
}

static int ref_file(const struct ref *ref, struct buf *name)
{
	char text[REF_TEXT_MAX];

	ref_text(ref, text);
	encode_name(name, text);
	return name->failed || name->len > 255 ? -ENAMETOOLONG : 0;
}

/* Only a snapshot itself may have the reference of a snapshot. */
static int store_check_name(const struct store *s, const struct ref *ref, const char *id,
			    struct warren_error *err)
{
	struct store_image image;
	bool fine;
	int r;

	if (!snapshot_is_ref(ref->registry))
		return 0;
	r = store_find(s, id, &image, err);
	if (r < 0)
		return r;
	fine = strcmp(image.snapshot, ref->name) == 0;
	store_image_done(&image);
	return fine ? 0
		    : error_set(err, EINVAL,
				"'" SNAPSHOT_REGISTRY
				"' is for snapshots of the service: "
				"choose another name");
}

int store_tag(const struct store *s, const struct ref *ref, const char *id,
	      struct warren_error *err)
{
	AUTO_BUF struct buf name = BUF_INIT(4096);
	char temp[32], random[ID_LEN + 1], text[REF_DIGEST_LEN + 2];
	AUTO_CLOSE int fd = -1;
	int r = store_check_name(s, ref, id, err);

	if (r < 0)
		return r;
	r = ref_file(ref, &name);
	id_make(random);
	(void)snprintf(temp, sizeof(temp), STORE_NEW_PREFIX "%s", random);
	(void)snprintf(text, sizeof(text), "%s\n", id);
	if (r < 0)
		return error_errno(err, -r, "name the image");
	fd = entry_new_file(s->refs, temp, 0644);
	if (fd < 0)
		return error_errno(err, -fd, "name the image");
	r = write_synced(fd, text, strlen(text));
	if (r == 0 && renameat(s->refs, temp, s->refs, name.data) < 0)
		r = -errno;
	if (r == 0 && fsync(s->refs) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(s->refs, temp, 0);
	return r < 0 ? error_errno(err, -r, "name the image") : 0;
}

int store_untag(const struct store *s, const struct ref *ref, struct warren_error *err)
{
	AUTO_BUF struct buf name = BUF_INIT(4096);
	int r = ref_file(ref, &name);

	if (r == 0 && unlinkat(s->refs, name.data, 0) < 0)
		r = -errno;
	return r < 0 ? error_errno(err, -r, "remove the name") : 0;
}

int store_remove_image(const struct store *s, const char *id)
{
	char temp[32], random[ID_LEN + 1];
	AUTO_CLOSE int dir = openat(s->images, id + 7,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0)
		return -errno;
	if (flock(dir, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (store_is_pinned(dir))
		return -EBUSY;
	/* Rename the image first, so that it is always either complete or garbage. */
	id_make(random);
	(void)snprintf(temp, sizeof(temp), STORE_NEW_PREFIX "%s", random);
	if (renameat(s->images, id + 7, s->images, temp) < 0)
		return -errno;
	copy_remove_tree(s->images, temp);
	return 0;
}

int store_read_json(const struct store *s, const char *id, const char *name, char **ret)
{
	AUTO_FREE char *text = malloc(JSON_MAX);
	char path[96];
	ssize_t n;

	if (!text)
		return -ENOMEM;
	(void)snprintf(path, sizeof(path), "%s/%s", id + 7, name);
	n = fd_read_file_at(s->images, path, text, JSON_MAX);
	if (n < 0)
		return (int)n;
	*ret = TAKE_PTR(text);
	return 0;
}

/* ----------------------------------------------------------------- lists */

DIR *store_open_list(int dir)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return copy < 0 ? NULL : fdopendir(copy);
}

int store_each_ref(const struct store *s,
		   int (*fn)(void *ctx, const char *ref, const char *id), void *ctx)
{
	DIR *d = store_open_list(s->refs);
	struct dirent *e;
	int r = 0;

	if (!d)
		return -errno;
	while (r == 0 && (e = readdir(d))) {
		char name[256], id[REF_DIGEST_LEN + 2];

		if (e->d_name[0] == '.' ||
		    fd_read_file_at(s->refs, e->d_name, id, sizeof(id)) < 0)
			continue;
		id[strcspn(id, "\n")] = '\0';
		(void)strcpy(name, e->d_name);
		if (decode_line(name) == 0 && ref_digest_valid(id))
			r = fn(ctx, name, id);
	}
	(void)closedir(d);
	return r;
}

int store_each_image(const struct store *s, int (*fn)(void *ctx, const char *id),
		     void *ctx)
{
	DIR *d = store_open_list(s->images);
	struct dirent *e;
	int r = 0;

	if (!d)
		return -errno;
	while (r == 0 && (e = readdir(d))) {
		char id[REF_DIGEST_LEN + 1];

		if (!hex_is(e->d_name, STORE_HEX_LEN))
			continue;
		(void)snprintf(id, sizeof(id), "sha256:%.64s", e->d_name);
		r = fn(ctx, id);
	}
	(void)closedir(d);
	return r;
}
