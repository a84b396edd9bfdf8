/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create.c - create a container: get the image, add the guest agent, create and start the
 * container
 *
 * The container has its name and labels from the start, so docker_remove() finds it,
 * whatever happens before docker_create_container() has ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/snapshot_name.h"
#include "shim/docker/docker.h"
#include "spec/spec.h"

#define CREATE_LABEL "warren.snapshot" /* the id of its snapshot; "": none */

extern const unsigned char warren_guest_blob[], warren_guest_blob_end[];

/* Each sandbox has its own copy, so that the host's executable is not visible inside. */
static int put_guest(const struct shim_sandbox *p, struct warren_error *err)
{
	char path[DOCKER_GUEST_MAX];
	AUTO_CLOSE int fd = -1;
	int r;

	docker_guest(p, path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	if (fd < 0)
		return error_errno(err, errno, "%s: write '%s'", p->name, path);
	r = fd_write_all(fd, warren_guest_blob,
			 (size_t)(warren_guest_blob_end - warren_guest_blob));
	if (r == 0 && fchmod(fd, 0555) < 0)
		r = -errno;
	return r < 0 ? error_errno(err, -r, "%s: write '%s'", p->name, path) : 0;
}

/*
 * Remove stopped containers that a restart of the machine left: their sandboxes have no
 * directory any longer, so no process would destroy them. Those of sandboxes that
 * hibernate stay. This is best effort, before another container is created.
 */
static void create_sweep(struct docker *d, const struct shim_sandbox *p)
{
	struct warren_error ignored;
	struct shim_sandbox old = { .name = p->name, .saved_dir = p->saved_dir };
	char engine[sizeof(p->dir)];
	char *filter, *escaped = NULL;
	json_t *list, *c, *f;
	size_t i;

	docker_engine(p, engine);
	f = json_pack("{s:[s+], s:[s,s,s]}", "label", "warren.engine=", engine, "status",
		      "exited", "dead", "created");
	filter = f ? json_dumps(f, JSON_COMPACT) : NULL;
	json_decref(f);
	if (filter)
		escaped = curl_easy_escape(d->easy, filter, 0);
	free(filter);
	if (!escaped)
		return;
	if (docker_ask(d, "look for leftovers", "GET", NULL, &ignored,
		       "/containers/json?all=true&filters=%s", escaped) < 0)
		json_decref(d->answer), d->answer = NULL;
	curl_free(escaped);
	list = d->answer;
	d->answer = NULL;
	json_array_foreach(list, i, c)
	{
		const json_t *labels = json_object_get(c, "Labels");
		const char *id = json_string_value(json_object_get(labels, "warren.id"));

		if (!id || !id_valid(id))
			continue;
		(void)strcpy(old.id, id);
		(void)snprintf(old.dir, sizeof(old.dir), "%.*s/%s",
			       (int)(sizeof(old.dir) - ID_LEN - 2), engine, id);
		if (access(old.dir, F_OK) < 0 && errno == ENOENT &&
		    !shim_sandbox_is_saved(&old))
			(void)docker_remove(d, &old, &ignored);
	}
	json_decref(list);
}

static void note_disk(struct shim_sandbox *p, const struct warren_spec *spec,
		      const struct docker_info *info, const char *size,
		      const char *volume)
{
	if (spec->read_only)
		shim_sandbox_enforce(p, "disk", true, "the root is read-only%s",
				     volume ? ", and so are the image's volumes" : "");
	else if (size && volume)
		shim_sandbox_enforce(
			p, "disk", false,
			"%s bytes by the daemon, and no limit for the image's "
			"volume '%.60s'",
			size, volume);
	else if (size)
		shim_sandbox_enforce(p, "disk", true, "%s bytes by the daemon", size);
	else
		shim_sandbox_enforce(p, "disk", false,
				     "the daemon's storage (%s) enforces no limit",
				     info->driver);
}

/*
 * The last step is tried with a limit for written data, and then without one if that is
 * allowed.
 */
static int create_make(struct docker *d, struct shim_sandbox *p,
		       const struct warren_spec *spec, const struct docker_info *info,
		       json_t *body, struct warren_error *err)
{
	static const char step[] = "create the container";
	bool limited = spec->disk && info->quota && !spec->read_only;
	char size[24];
	int r;

	(void)snprintf(size, sizeof(size), "%ju", (uintmax_t)spec->disk);
	if (limited)
		(void)json_object_set_new(json_object_get(body, "HostConfig"),
					  "StorageOpt", json_pack("{s:s}", "size", size));
	r = docker_ask(d, step, "POST", body, err, "/containers/create?name=warren-%s",
		       p->id);
	if (r < 0 && limited && spec->soft_limits & WARREN_LIMIT_DISK) {
		(void)json_object_del(json_object_get(body, "HostConfig"), "StorageOpt");
		limited = false;
		r = docker_ask(d, step, "POST", body, err,
			       "/containers/create?name=warren-%s", p->id);
	}
	if (r >= 0)
		r = docker_id_keep(d, p, step, err);
	if (r < 0)
		return r;
	note_disk(p, spec, info, limited ? size : NULL, docker_volume(spec, d->volumes));
	return 0;
}

/* The container of a sandbox that hibernated still exists, with its files. */
static int create_find(struct docker *d, struct shim_sandbox *p,
		       const struct warren_spec *spec, const struct docker_info *info,
		       struct warren_error *err)
{
	static const char step[] = "find the container";
	const char *size;
	int r = docker_inspect(d, p, err);

	if (r >= 0)
		r = docker_id_keep(d, p, step, err);
	if (r < 0)
		return r;
	size = json_string_value(json_object_get(
		json_object_get(json_object_get(d->answer, "HostConfig"), "StorageOpt"),
		"size"));
	note_disk(p, spec, info, size, docker_volume(spec, d->volumes));
	return 0;
}

static int create_start(struct docker *d, struct shim_sandbox *p,
			const struct warren_spec *spec, int listener,
			struct warren_error *err)
{
	struct warren_error why;
	int r = docker_ask(d, "start the container", "POST", NULL, err,
			   "/containers/%s/start", p->handle);

	/*
	 * The daemon answers before the first process has become the guest agent, by
	 * which it is recognised: wait until the guest agent connects.
	 */
	if (r >= 0)
		p->within = docker_await(listener);
	if (r >= 0)
		r = docker_check_mounts(d, p, spec, err);
	if (r >= 0)
		docker_meet(d, p);
	if (r >= 0 && spec->network == WARREN_NETWORK_NONE &&
	    docker_quiet(d, p, &why) < 0)
		return error_set(err, EOPNOTSUPP,
				 "%s: network: the daemon needs a loopback device here "
				 "(%.300s): use 'loopback'",
				 d->name, why.msg);
	return r < 0 ? r : 0;
}

static const char *image_of(const struct docker *d, const struct warren_spec *spec)
{
	bool none = !spec->image || strcmp(spec->image, "host") == 0;

	return none ? d->image : spec->image;
}

static int create_check_image(const struct docker *d, const char *image,
			      struct warren_error *err)
{
	if (!image)
		return error_set(
			err, EINVAL,
			"%s: no image: 'host' is only for native sandboxes; name one "
			"(example: debian:12), or configure one as 'image'",
			d->name);
	if (strncmp(image, "dir:", 4) == 0)
		return error_set(
			err, EOPNOTSUPP,
			"%s: image '%.80s': a directory is not an image here; 'docker "
			"import' creates one from it",
			d->name, image);
	return 0;
}

/* Record the source of a container that is removed before the next one exists. */
static int create_save_source(const struct shim_sandbox *p, const char *source,
			      struct warren_error *err)
{
	AUTO_CLOSE int dir = shim_sandbox_saved(p, "", O_RDONLY | O_DIRECTORY);
	AUTO_CLOSE int fd =
		dir < 0 ? dir
			: openat(dir, SHIM_SAVED_IMAGE "~",
				 O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
				 0600);
	int r = fd < 0 ? -errno : fd_write_all(fd, source, strlen(source));

	/* It is on disk before the container is removed, which has the only other record.
	 */
	if (r == 0 && (fsync(fd) < 0 ||
		       renameat(dir, SHIM_SAVED_IMAGE "~", dir, SHIM_SAVED_IMAGE) < 0 ||
		       fsync(dir) < 0))
		r = -errno;
	return r < 0 ? error_errno(err, -r, "%s: record its image", p->name) : 0;
}

/*
 * Find the source of a sandbox that hibernated: the id of its image, because the name may
 * refer to another one now, or for a reset, its snapshot. Its container has both, and
 * exists, unless a reset was interrupted.
 */
static int create_source(struct docker *d, const struct shim_sandbox *p,
			 char ret[DOCKER_IMAGE_MAX], struct warren_error *err)
{
	bool reset = shim_sandbox_is_reset(p);
	const char *image, *snapshot;
	int r;

	if (reset && shim_sandbox_saved_image(p, ret, DOCKER_IMAGE_MAX) > 0)
		return 0;
	r = docker_inspect(d, p, err);
	if (r < 0)
		return r;
	image = json_string_value(json_object_get(d->answer, "Image"));
	if (r == 0 || !image || strlen(image) >= DOCKER_IMAGE_MAX)
		return error_set(err, EREMOTEIO,
				 "%s: find the container: it was removed, and the files "
				 "of the sandbox with it",
				 d->name);
	(void)strcpy(ret, image);
	snapshot = json_string_value(json_object_get(
		json_object_get(json_object_get(d->answer, "Config"), "Labels"),
		CREATE_LABEL));
	if (reset && snapshot && id_valid(snapshot))
		(void)snprintf(ret, DOCKER_IMAGE_MAX, SNAPSHOT_REGISTRY "/%s", snapshot);
	return reset ? create_save_source(p, ret, err) : 0;
}

/*
 * Do the steps before a container is requested. A failure in these steps leaves nothing
 * behind.
 */
static int create_prepare(struct docker *d, struct shim_sandbox *p,
			  const struct warren_spec *spec, struct docker_info *info,
			  struct warren_limits *limits, struct warren_error *err)
{
	const char *image = image_of(d, spec);
	int r = create_check_image(d, image, err);

	if (r == 0)
		r = docker_info(d, info, err);
	if (r == 0)
		r = docker_limits(p, info, spec, limits, err);
	if (r == 0)
		r = docker_check_ids(p, info, spec, err);
	d->no_pull = spec->no_pull && image == spec->image;
	/* The daemon has the image of a snapshot, or of a container, or it is lost. */
	if (r == 0 && !d->known)
		r = docker_image(d, image, err);
	if (r == 0)
		r = docker_image_says(d, image, p, err);
	if (r == 0)
		r = docker_check_volumes(p, spec, d->volumes, err);
	if (r < 0 || !spec->user)
		return r;
	free(p->user);
	p->user = strdup(spec->user);
	return p->user ? 0 : error_errno(err, ENOMEM, "%s: user", d->name);
}

/*
 * Change @spec for a sandbox that wakes: it has the image with which it was created. Its
 * container keeps the limits with which it was created, except after a reset, for which
 * another container is created. The old one exists until then, so that the daemon keeps
 * the image.
 */
static int create_restore(struct docker *d, const struct shim_sandbox *p,
			  struct warren_spec *spec, char image[DOCKER_IMAGE_MAX],
			  struct warren_error *err)
{
	int r = create_source(d, p, image, err);

	if (r < 0)
		return r;
	d->known = true;
	spec->image = image;
	spec->no_pull = true;
	spec->restore = !shim_sandbox_is_reset(p);
	if (spec->restore)
		spec->soft_limits = SPEC_LIMIT_BITS;
	return 0;
}

/* Record the image for snapshots: its id, because its name may refer to another one
 * later. */
static int create_record_image(struct docker *d, const struct shim_sandbox *p,
			       struct warren_error *err)
{
	char path[DOCKER_GUEST_MAX], text[DOCKER_IMAGE_MAX + sizeof(STORE_DAEMON_BASE)];
	int r = docker_inspect(d, p, err);
	const char *image = json_string_value(json_object_get(d->answer, "Image"));
	AUTO_CLOSE int fd = -1;

	if (r < 0)
		return r;
	if (r == 0 || !image || strlen(image) >= DOCKER_IMAGE_MAX)
		return docker_odd(d, "inspect the container", err);
	(void)snprintf(path, sizeof(path), "%s/image", p->dir);
	(void)snprintf(text, sizeof(text), STORE_DAEMON_BASE "%s", image);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
	return r < 0 ? error_errno(err, -r, "%s: write '%s'", d->name, path) : 0;
}

/* The container exists, but has not started. */
static int create_complete(struct docker *d, struct shim_sandbox *p,
			   const struct docker_info *info, struct warren_error *err)
{
	int r = create_record_image(d, p, err);

	if (r < 0)
		return r;
	docker_upper_open(d, p, info);
	return d->snapshot ? docker_upper_fill(p, d->snapshot, err) : 0;
}

/* If the image is a snapshot, change @spec: the container is created from its base. */
static int create_take_snapshot(struct docker *d, const struct shim_sandbox *p,
				struct warren_spec *spec,
				struct docker_snapshot *snapshot,
				struct warren_error *err)
{
	int r;

	if (!spec->image || !snapshot_is_ref(spec->image))
		return 0;
	r = docker_snapshot_open(p, spec->image, snapshot, err);
	if (r < 0)
		return r;
	d->snapshot = snapshot;
	d->known = true;
	spec->image = snapshot->base;
	spec->no_pull = true;
	return 0;
}

/*
 * A reset cannot be completed, because the image or the snapshot is gone, but the old
 * container still has all files: give up the reset, so that it can wake with them.
 */
static void create_give_up_reset(struct docker *d, const struct shim_sandbox *p, int r,
				 struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CLOSE int dir = -1;

	if ((r != -ENOMEDIUM && r != -ENOENT) || !shim_sandbox_is_reset(p) ||
	    docker_inspect(d, p, &ignored) <= 0)
		return;
	dir = shim_sandbox_saved(p, "", O_RDONLY | O_DIRECTORY);
	if (dir < 0 || unlinkat(dir, SHIM_SAVED_RESET, 0) < 0 || fsync(dir) < 0)
		return;
	(void)unlinkat(dir, SHIM_SAVED_IMAGE, 0);
	(void)error_wrap(err, "it cannot be reset, and keeps its files");
}

static int docker_create_container(struct docker *d, struct shim_sandbox *p,
				   const struct warren_spec *spec,
				   const struct docker_info *info,
				   const struct warren_limits *limits,
				   struct warren_error *err)
{
	AUTO_CLOSE int listener = -1;
	json_t *body;
	int r = put_guest(p, err);

	if (r == 0)
		r = docker_listen(p, info, &listener, err);
	if (r == 0)
		r = docker_link_volumes(p, spec, err);
	if (r == 0 && spec->restore)
		r = create_find(d, p, spec, info, err);
	if (r == 0 && spec->restore)
		r = create_complete(d, p, info, err);
	if (r < 0 || spec->restore)
		return r < 0 ? r : create_start(d, p, spec, listener, err);
	create_sweep(d, p);
	body = docker_spec(p, spec, limits, image_of(d, spec), d->volumes, listener >= 0);
	if (!body)
		return error_set(
			err, EILSEQ,
			"%s: create the container: a string in the spec is not UTF-8",
			d->name);
	/* The image may have such a label, too: this one replaces it. */
	(void)json_object_set_new(json_object_get(body, "Labels"), CREATE_LABEL,
				  json_string(d->snapshot ? d->snapshot->id : ""));
	r = create_make(d, p, spec, info, body, err);
	json_decref(body);
	if (r == 0)
		r = create_complete(d, p, info, err);
	return r < 0 ? r : create_start(d, p, spec, listener, err);
}

int docker_create(struct shim_sandbox *p, const struct warren_spec *requested,
		  struct warren_error *err)
{
	struct warren_spec changed = *requested;
	const struct warren_spec *spec = &changed;
	char image[DOCKER_IMAGE_MAX];
	AUTO_DOCKER struct docker d = { 0 };
	CLEANUP(docker_snapshot_done)
	struct docker_snapshot snapshot = { .image.lock = -1, .layer = -1 };
	struct docker_info info;
	struct warren_limits limits;
	struct warren_error undoing;
	int r = docker_open(&d, p->name, p->config, err);

	if (r == 0 && requested->restore)
		r = create_restore(&d, p, &changed, image, err);
	if (r == 0)
		r = create_take_snapshot(&d, p, &changed, &snapshot, err);
	if (r == 0)
		r = create_prepare(&d, p, spec, &info, &limits, err);
	p->clean = r < 0;
	if (r < 0 && requested->restore)
		create_give_up_reset(&d, p, r, err);
	if (r < 0)
		return r;
	if (requested->restore && !spec->restore)
		r = docker_remove(&d, p, err);
	if (r == 0)
		r = docker_create_container(&d, p, spec, &info, &limits, err);
	if (r < 0) {
		p->clean = shim_driver_docker.destroy(p, &undoing) == 0;
		return r;
	}
	docker_note(p, &info, spec, &limits);
	return 0;
}
