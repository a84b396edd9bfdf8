/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_load.c - load archives of docker save, OCI archives and layouts, and import root
 * filesystems
 *
 * A confined process first unpacks an archive into the store as plain files (unpack.h).
 * After that, it is treated like a directory: names are looked up without following
 * links, and contents are verified by digest.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/snapshot_name.h"
#include "base/strv.h"
#include "image/oci_internal.h"
#include "image/oci_json.h"
#include "image/store_collect.h"
#include "image/unpack.h"
#include "image/unpack_queue.h"
#include "os/mount.h"

#define TEXT_MAX (8U << 20)

static uint64_t max_bytes(const struct oci_options *o)
{
	return o->max_bytes ? o->max_bytes : OCI_BYTES_MAX;
}

static struct oci_options with_limit(const struct oci_options *o)
{
	struct oci_options limited = *o;

	limited.max_bytes = max_bytes(o);
	return limited;
}

struct loading {
	const struct store *store;
	const struct oci_options *options;
	int dir;
	void (*loaded)(void *ctx, const char *id, const char *ref);
};

/* Open a regular file of the archive, without following links. */
static int open_member(int dir, const char *name, struct warren_error *err)
{
	AUTO_CLOSE int fd = mount_openat2(dir, name, O_RDONLY | O_NONBLOCK, 0,
					  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	struct stat st;

	if (fd < 0)
		return error_errno(err, -fd, "'%.80s' in the archive", name);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(err, EBADMSG, "'%.80s' in the archive is not a file",
				 name);
	return TAKE_FD(fd);
}

static int read_member(int dir, const char *name, char **ret, struct warren_error *err)
{
	AUTO_CLOSE int fd = open_member(dir, name, err);
	AUTO_FREE char *text = NULL;
	ssize_t n;

	if (fd < 0)
		return fd;
	text = calloc(1, TEXT_MAX + 1);
	if (!text)
		return error_errno(err, ENOMEM, "read '%.80s'", name);
	n = fd_read_all(fd, text, TEXT_MAX + 1);
	if (n < 0 || n > (ssize_t)TEXT_MAX || strlen(text) != (size_t)n)
		return error_set(err, EBADMSG, "'%.80s' in the archive is not text",
				 name);
	*ret = TAKE_PTR(text);
	return 0;
}

/* Read "blobs/sha256/<hex>", and check its digest. */
static int read_blob(int dir, const char *digest, char **ret, struct warren_error *err)
{
	char path[96] = "blobs/sha256/", sum[REF_DIGEST_LEN + 1];
	int r;

	(void)strcat(path, digest + 7);
	r = read_member(dir, path, ret, err);
	if (r < 0)
		return r;
	oci_digest(*ret, strlen(*ret), sum);
	if (strcmp(sum, digest) != 0)
		return error_set(err, EBADMSG,
				 "the content of blob %.19s has the digest %.19s", digest,
				 sum);
	return 0;
}

/*
 * Open the file @name of the archive. If the manifest states its size, the size must
 * match.
 */
static int open_layer(const struct loading *l, const char *name,
		      const struct oci_blob *declared, uint64_t *ret_size,
		      struct warren_error *err)
{
	AUTO_CLOSE int fd = open_member(l->dir, name, err);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "inspect its layer '%.80s'", name);
	if (declared && (uint64_t)st.st_size != declared->size)
		return error_set(
			err, EBADMSG,
			"its layer %.19s has %ju bytes, but its manifest says %ju",
			declared->digest, (uintmax_t)st.st_size,
			(uintmax_t)declared->size);
	*ret_size = (uint64_t)st.st_size;
	return TAKE_FD(fd);
}

/*
 * Unpack the missing layers of @image. They are the files @names of the archive, with the
 * sizes @declared (NULL: unknown).
 */
static int unpack_layers(const struct loading *l, const struct store_image *image,
			 char *const *names, const struct oci_blob *declared,
			 struct store_claim *claim, struct warren_error *err)
{
	struct oci_work w = { 0 };
	int r = oci_work_open(&w, l->store, l->options, err);

	if (r == 0 && strv_len(names) != strv_len(image->layers))
		r = error_set(
			err, EBADMSG,
			"its manifest has %zu layers, but its configuration has %zu",
			strv_len(names), strv_len(image->layers));
	if (r == 0)
		r = oci_work_plan(&w, image->layers, claim, err);
	for (size_t i = 0; r == 0 && i < w.n; i++) {
		uint64_t size = 0;

		if (w.layers[i].state == OCI_PRESENT)
			continue;
		w.state[i].blob = open_layer(l, names[i], declared ? &declared[i] : NULL,
					     &size, err);
		if (w.state[i].blob < 0) {
			r = w.state[i].blob;
		} else {
			w.layers[i].size = w.layers[i].done = size;
			w.state[i].ready = true;
		}
	}
	if (r == 0)
		r = oci_work_finish(&w, err);
	oci_work_close(&w);
	return r;
}

static int name_image(const struct loading *l, const struct store_image *image,
		      char *const *names, struct warren_error *err)
{
	size_t named = 0;

	for (; *names; names++) {
		struct warren_error ignored = WARREN_ERROR_INIT;
		char text[REF_TEXT_MAX];
		struct ref ref;
		int r;

		/* The name in a layout is often only a tag, which is not a reference. */
		if (ref_parse(*names, &ref, &ignored) < 0)
			continue;
		r = store_tag(l->store, &ref, image->id, err);
		if (r < 0)
			return r;
		ref_text(&ref, text);
		if (l->loaded)
			l->loaded(l->options->ctx, image->id, text);
		named++;
	}
	if (named == 0 && l->loaded)
		l->loaded(l->options->ctx, image->id, NULL);
	return 0;
}

/* An image whose layers are in the store, but which has no name yet. */
struct prepared {
	struct store_image image;
	char *manifest, *config;
	struct store_claim claim;
};

static void prepared_free(const struct store *s, struct prepared *list, size_t n)
{
	for (size_t i = 0; list && i < n; i++) {
		store_claim_end(s, &list[i].claim);
		store_image_done(&list[i].image);
		free(list[i].manifest);
		free(list[i].config);
	}
	free(list);
}

static int prepare_docker(const struct loading *l, const struct oci_entry *e,
			  const char *manifest, struct prepared *p,
			  struct warren_error *err)
{
	int r = read_member(l->dir, e->config, &p->config, err);

	if (r == 0)
		r = oci_parse_config(p->config, &p->image, err);
	if (r < 0)
		return r;
	p->manifest = strdup(manifest);
	if (!p->manifest)
		return error_errno(err, ENOMEM, "read its manifest");
	return unpack_layers(l, &p->image, e->layers, NULL, &p->claim, err);
}

static int blob_names(const struct oci_manifest *m, char ***ret)
{
	char **names = calloc(m->n_layers + 1, sizeof(*names));

	for (size_t i = 0; names && i < m->n_layers; i++)
		if (asprintf(&names[i], "blobs/sha256/%s", m->layers[i].digest + 7) < 0)
			return -ENOMEM;
	*ret = names;
	return names ? 0 : -ENOMEM;
}

static int prepare_layout(const struct loading *l, const struct oci_entry *e,
			  struct prepared *p, struct warren_error *err)
{
	struct oci_manifest m = { 0 };
	char digest[REF_DIGEST_LEN + 1], **names = NULL;
	int r;

	(void)strcpy(digest, e->manifest);
	r = read_blob(l->dir, digest, &p->manifest, err);
	for (int depth = 0; r == 0 && oci_is_index(p->manifest, NULL) && depth < 2;
	     depth++) {
		r = oci_choose(p->manifest, oci_wanted_platform(l->options), digest, err);
		free(TAKE_PTR(p->manifest));
		if (r == 0)
			r = read_blob(l->dir, digest, &p->manifest, err);
	}
	if (r == 0)
		r = oci_parse_manifest(p->manifest, &m, err);
	if (r == 0)
		r = read_blob(l->dir, m.config.digest, &p->config, err);
	if (r == 0 && strlen(p->config) != m.config.size)
		r = error_set(
			err, EBADMSG,
			"its configuration has %zu bytes, but its manifest says %ju",
			strlen(p->config), (uintmax_t)m.config.size);
	if (r == 0)
		r = oci_parse_config(p->config, &p->image, err);
	if (r == 0 && blob_names(&m, &names) < 0)
		r = error_errno(err, ENOMEM, "list its layers");
	if (r == 0)
		r = unpack_layers(l, &p->image, names, m.layers, &p->claim, err);
	for (char **n = names; n && *n; n++)
		free(*n);
	free(names);
	oci_manifest_done(&m);
	return r;
}

/*
 * The name in a layout may be a tag alone, which names nothing. But each name in docker's
 * format is a reference, and an image that silently lacks one could not be found.
 */
static int check_names(char *const *names, bool docker, struct warren_error *err)
{
	for (; names && *names; names++) {
		struct warren_error why = WARREN_ERROR_INIT;
		struct ref ref;
		int r = ref_parse(*names, &ref, &why);

		if (r < 0 && !docker)
			continue;
		if (r < 0)
			return error_set(err, EBADMSG,
					 "its name for an image is not valid: %s",
					 why.msg);
		if (snapshot_is_ref(ref.registry))
			return error_set(err, EBADMSG,
					 "its name for an image, '%.200s', is one of a "
					 "snapshot of the service",
					 *names);
	}
	return 0;
}

/* Record and name images whose layers are complete. */
static int load_record(const struct loading *l, struct prepared *list,
		       const struct oci_entry *entries, size_t n,
		       struct warren_error *err)
{
	int r = oci_lock(l->store, l->options, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct prepared *p = &list[i];

		r = oci_record(l->store, &p->image, p->manifest, p->config, NULL, err);
		if (r == 0)
			r = name_image(l, &p->image, entries[i].names, err);
	}
	store_unlock(l->store);
	return r;
}

/*
 * First do everything that may fail because of the archive, so that its images are loaded
 * completely or not at all.
 */
static int load_entries(const struct loading *l, const struct oci_entry *entries,
			size_t n, const char *docker, struct warren_error *err)
{
	struct prepared *list = calloc(n + 1, sizeof(*list));
	int r = list ? 0 : error_errno(err, ENOMEM, "list the images");

	for (size_t i = 0; list && i < n; i++)
		list[i] = (struct prepared){ .image = { .lock = -1 },
					     .claim = STORE_CLAIM_NONE };
	for (size_t i = 0; r == 0 && i < n; i++)
		r = check_names(entries[i].names, docker != NULL, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = docker ? prepare_docker(l, &entries[i], docker, &list[i], err)
			   : prepare_layout(l, &entries[i], &list[i], err);
	if (r == 0)
		r = load_record(l, list, entries, n, err);
	prepared_free(l->store, list, n);
	return r;
}

static int load_dir(const struct loading *l, struct warren_error *err)
{
	bool layout = faccessat(l->dir, "oci-layout", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	bool docker = faccessat(l->dir, "manifest.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	AUTO_FREE char *json = NULL;
	struct oci_entry *entries = NULL;
	size_t n = 0;
	int r;

	if (!layout && !docker)
		return error_set(
			err, EBADMSG,
			"it is neither a 'docker save' archive nor an OCI archive: it "
			"has no manifest.json and no oci-layout ('warren image "
			"import' accepts a plain root filesystem)");
	/*
	 * Since version 25, docker save writes both formats; docker's own format contains
	 * the names.
	 */
	layout = !docker;
	r = read_member(l->dir, layout ? "index.json" : "manifest.json", &json, err);
	if (r == 0)
		r = oci_parse_archive(json, layout, &entries, &n, err);
	if (r == 0)
		r = load_entries(l, entries, n, layout ? NULL : json, err);
	oci_entries_free(entries, n);
	return r;
}

int oci_load_layout(const struct store *s, int dir, const struct oci_options *o,
		    void (*loaded)(void *ctx, const char *id, const char *ref),
		    struct warren_error *err)
{
	const struct oci_options limited = with_limit(o);
	struct loading l = {
		.store = s, .options = &limited, .dir = dir, .loaded = loaded
	};
	int r;

	store_tidy(s, false);
	r = load_dir(&l, err);
	if (r < 0)
		store_tidy(s, true);
	return r;
}

int oci_load(const struct store *s, int fd, const struct oci_options *o,
	     void (*loaded)(void *ctx, const char *id, const char *ref),
	     struct warren_error *err)
{
	/* An unpacked layer may be as large as the whole archive. */
	const struct oci_options limited = with_limit(o);
	struct loading l = { .store = s, .options = &limited, .loaded = loaded };
	struct unpack_watch watch = { oci_unpack_cancelled, (void *)(uintptr_t)o };
	struct store_new spool = { .fd = -1 };
	int r;

	store_tidy(s, false);
	r = store_new_work(s, &spool, err);
	if (r < 0)
		return r;
	r = unpack_spool(fd, spool.fd, max_bytes(o), &watch, err);
	l.dir = spool.fd;
	if (r == 0)
		r = load_dir(&l, err);
	store_drop_layer(s, &spool);
	if (r < 0)
		store_tidy(s, true);
	return r;
}

/* ------------------------------------------------------------------ import */

#define PACK_LARGE 2 /* the tar of the directory would be too large */

static int too_large(uint64_t most, struct warren_error *err)
{
	return error_set(err, EFBIG, "it is larger than %ju bytes: raise --max-size",
			 (uintmax_t)most);
}

/* Write a directory as a tar to @out, in a separate process. */
__attribute__((noreturn)) static void pack_dir(int dir, int out, uint64_t most)
{
	const struct rlimit size = { most, most };

	struct archive *a = archive_write_new(), *disk = archive_read_disk_new();
	struct archive_entry *e;
	int r = ARCHIVE_OK;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGXFSZ, SIG_IGN); /* the signal becomes an error of write(2) */
	if (setrlimit(RLIMIT_FSIZE, &size) < 0)
		_exit(1);
	if (!a || !disk || fchdir(dir) < 0 ||
	    archive_write_set_format_pax_restricted(a) < 0 ||
	    archive_write_open_fd(a, out) < 0)
		_exit(1);
	(void)archive_read_disk_set_symlink_physical(disk);
	(void)archive_read_disk_set_behavior(disk, ARCHIVE_READDISK_NO_TRAVERSE_MOUNTS);
	if (archive_read_disk_open(disk, ".") < 0)
		_exit(1);
	while (r >= ARCHIVE_WARN) {
		char block[65536];
		ssize_t n = 0;

		e = archive_entry_new();
		r = archive_read_next_header2(disk, e);
		if (r == ARCHIVE_EOF)
			break;
		(void)archive_read_disk_descend(disk);
		if (r >= ARCHIVE_WARN && archive_entry_filetype(e) != AE_IFSOCK) {
			AUTO_CLOSE int fd = -1;

			r = archive_write_header(a, e);
			if (r >= ARCHIVE_WARN && archive_entry_size(e) > 0) {
				fd = open(archive_entry_sourcepath(e),
					  O_RDONLY | O_CLOEXEC);
				while (fd >= 0 &&
				       (n = read(fd, block, sizeof(block))) > 0)
					if (archive_write_data(a, block, (size_t)n) < 0)
						_exit(archive_errno(a) == EFBIG
							      ? PACK_LARGE
							      : 1);
				if (fd < 0 || n < 0)
					_exit(1);
			}
		}
		archive_entry_free(e);
	}
	_exit(r == ARCHIVE_EOF && archive_write_close(a) == ARCHIVE_OK ? 0 : 1);
}

/* Return the wait status of the process; kill it if the caller cancels. */
static int await_packer(pid_t pid, const struct oci_options *o, struct warren_error *err)
{
	int status = 0, r = 0;
	pid_t ended;

	while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && r == 0)
		r = oci_pause(o, err);
	if (ended == 0) {
		(void)kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	return r < 0 ? r : status;
}

/* Write the tar of a directory to a file without a name. */
static int spool_dir(const struct store *s, int dir, const struct oci_options *o,
		     struct warren_error *err)
{
	AUTO_CLOSE int file = oci_work_file(s, err);
	int status;
	pid_t pid;

	if (file < 0)
		return file;
	pid = fork();
	if (pid == 0)
		pack_dir(dir, file, max_bytes(o));
	status = pid < 0 ? 1 : await_packer(pid, o, err);
	if (status < 0)
		return status;
	if (WIFEXITED(status) && WEXITSTATUS(status) == PACK_LARGE)
		return too_large(max_bytes(o), err);
	if (status > 0 || lseek(file, 0, SEEK_SET) < 0)
		return error_set(
			err, EIO,
			"the directory cannot be read completely, or the store is full");
	return TAKE_FD(file);
}

static int import_unpack(const struct store *s, int fd, const struct oci_options *o,
			 const struct store_new *layer, struct unpack_result *res,
			 struct warren_error *err)
{
	const struct unpack_watch watch = { oci_unpack_cancelled, (void *)(uintptr_t)o };
	const struct unpack_options options = { .max_bytes = max_bytes(o),
						.watch = &watch };
	AUTO_CLOSE int tar = -1;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "inspect it");
	if (S_ISDIR(st.st_mode)) {
		tar = spool_dir(s, fd, o, err);
		if (tar < 0)
			return tar;
	}
	return unpack_archive(tar >= 0 ? tar : fd, layer->fd, &options, res, err);
}

static int import_locked(const struct store *s, struct store_new *layer,
			 const struct unpack_result *res, const struct ref *name,
			 const struct oci_options *o, char ret_id[REF_DIGEST_LEN + 1],
			 struct warren_error *err)
{
	AUTO_FREE char *config = NULL, *manifest = NULL;
	struct store_image image = { .lock = -1 };
	char short_name[STORE_SHORT_LEN + 1];
	int r = 0;

	/* The same root filesystem may have been imported before. */
	if (store_layer(s, res->diff_id, short_name) < 0)
		r = store_keep_layer(s, layer, res->diff_id, res->bytes, err);
	if (r < 0)
		return r;
	config = oci_make_config(oci_wanted_platform(o), res->diff_id);
	manifest = config ? oci_make_manifest(config, res->diff_id, res->bytes) : NULL;
	if (!manifest)
		return error_errno(err, ENOMEM, "describe the image");
	r = oci_parse_config(config, &image, err);
	if (r == 0)
		r = oci_record(s, &image, manifest, config, name, err);
	if (r == 0)
		(void)strcpy(ret_id, image.id);
	store_image_done(&image);
	return r;
}

int oci_import(const struct store *s, int fd, const struct ref *name,
	       const struct oci_options *o, char ret_id[REF_DIGEST_LEN + 1],
	       struct warren_error *err)
{
	struct store_new layer = { .fd = -1 };
	struct unpack_result res = { 0 };
	int r;

	store_tidy(s, false);
	r = store_new_work(s, &layer, err);
	if (r < 0)
		return r;
	r = import_unpack(s, fd, o, &layer, &res, err);
	if (r == 0)
		r = store_sync_layer(&layer, err);
	if (r == 0)
		r = oci_lock(s, o, err);
	if (r == 0) {
		r = import_locked(s, &layer, &res, name, o, ret_id, err);
		store_unlock(s);
	}
	store_drop_layer(s, &layer);
	if (r < 0)
		store_tidy(s, true);
	return r;
}
