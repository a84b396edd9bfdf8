/* SPDX-License-Identifier: Apache-2.0 */
/* lifecycle.c - a sandbox and its shim: made, found again, unmade */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "backend/shimmed/shimmed.h"
#include "base/fd.h"
#include "base/json.h"
#include "os/pidfd.h"

#define SHIM_END_MS  500   /* for a shim that was killed */
#define SHIM_KILL_MS 20000 /* for one that was killed to be gone */
#define TEXT_MAX       (16U << 20)

/* ------------------------------------------------------------------ what it is told */

static int write_place(const struct kept *k, int dir, const char *id,
		       struct warren_error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);
	struct json j = { .out = &text };
	AUTO_CLOSE int fd = -1;
	int r;

	json_open(&j, NULL, '{');
	json_str(&j, "kind", k->kind);
	json_str(&j, "id", id);
	json_str(&j, "engine", k->name);
	json_str(&j, "state_dir", k->state_dir);
	if (k->config)
		json_raw(&j, "config", k->config, strlen(k->config));
	json_close(&j, '}');
	fd = openat(dir, "place", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	r = text.failed ? -ENOMEM
	    : fd < 0    ? -errno
			: fd_write_all(fd, text.data, text.len);
	return r < 0 ? error_errno(err, -r, "note what the sandbox is") : 0;
}

/*
 * Which file a source is: the shim opens it by its name, and takes nothing else. The descriptor
 * stays open until the sandbox is made, so that no other file gets the same number meanwhile.
 */
static int put_identity(struct json *j, const struct warren_mount *m,
			struct warren_error *err)
{
	char text[64];
	struct stat st;

	if (!m->source_fd)
		return 0;
	if (fstat(m->source_fd, &st) < 0)
		return error_errno(err, errno, "volume '%s'", m->source);
	(void)snprintf(text, sizeof(text), "%jx:%jx", (uintmax_t)st.st_dev,
		       (uintmax_t)st.st_ino);
	json_str(j, "is", text);
	return 0;
}

static int put_mounts(struct json *j, const struct warren_spec *s,
		      struct warren_error *err)
{
	int r = 0;

	json_open(j, "mounts", '[');
	for (size_t i = 0; r == 0 && i < s->n_mounts; i++) {
		json_open(j, NULL, '{');
		if (s->mounts[i].source)
			json_str(j, "source", s->mounts[i].source);
		json_str(j, "target", s->mounts[i].target);
		json_bool(j, "read_only", s->mounts[i].read_only);
		json_u64(j, "size", s->mounts[i].size);
		r = put_identity(j, &s->mounts[i], err);
		json_close(j, '}');
	}
	json_close(j, ']');
	return r;
}

static int put_spec(struct json *j, const struct warren_spec *s, struct warren_error *err)
{
	const struct {
		const char *key, *text;
	} texts[] = { { "image", s->image },
		      { "hostname", s->hostname },
		      { "user", s->user },
		      { "workdir", s->workdir } };
	const struct {
		const char *key;
		uint64_t n;
	} numbers[] = { { "memory", s->memory },  { "cpu_millis", s->cpu_millis },
			{ "pids", s->pids },      { "disk", s->disk },
			{ "nofile", s->nofile },  { "wishes", s->wishes },
			{ "network", s->network } };
	int r;

	json_open(j, NULL, '{');
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (texts[i].text)
			json_str(j, texts[i].key, texts[i].text);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		json_u64(j, numbers[i].key, numbers[i].n);
	json_open(j, "env", '[');
	for (const char *const *v = s->env; v && *v; v++)
		json_str(j, NULL, *v);
	json_close(j, ']');
	r = put_mounts(j, s, err);
	json_bool(j, "read_only", s->read_only);
	json_bool(j, "durable", s->durable);
	json_bool(j, "no_pull", s->no_pull);
	json_close(j, '}');
	return r;
}

static int write_spec(const struct warren_spec *spec, int *ret_fd,
		      struct warren_error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);
	AUTO_CLOSE int fd = memfd_create("warren-spec", MFD_CLOEXEC);
	struct json j = { .out = &text };
	int r;

	r = put_spec(&j, spec, err);
	if (r < 0)
		return r;
	r = fd < 0        ? -errno
	    : text.failed ? -E2BIG
			  : fd_write_all(fd, text.data, text.len);
	if (r < 0)
		return error_errno(err, -r, "write the spec");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* -------------------------------------------------------------------------- unmaking */

static void remove_files(int dir, const char *id)
{
	AUTO_CLOSE int fd =
		openat(dir, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	static const char *const files[] = { "made", "paused", "place" };

	for (size_t i = 0; fd >= 0 && i < ARRAY_SIZE(files); i++)
		(void)unlinkat(fd, files[i], 0);
	(void)unlinkat(dir, id, AT_REMOVEDIR);
}

int kept_remove(const struct kept *k, int dir, const char *path, const char *id,
		struct warren_error *err)
{
	char place[ID_LEN + 8];
	int r = 0;

	(void)snprintf(place, sizeof(place), "%s/place", id);
	/* Without that nothing was ever begun, or its shim knows that nothing is left. */
	if (faccessat(dir, place, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		r = kept_call(k, "destroy", path, id, NULL, NULL, NULL, err);
	if (r < 0)
		return r;
	door_remove(k->boxes_fd, id);
	remove_files(dir, id);
	if (faccessat(dir, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return error_set(err, ENOTEMPTY, "something is left in '%s/%s'", path,
				 id);
	return 0;
}

/*
 * Of one that was complete, whatever has become of its directory: its platform finds by the id
 * what there is of it, and all else that a destroy needs to know is ours.
 */
static int reclaim(const struct kept *k, const char *id, struct warren_error *err)
{
	AUTO_CLOSE int dir = -1, made = -1;
	struct stat st;
	int r;

	(void)mkdirat(k->dir_fd, id, 0700);
	dir = openat(k->dir_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return error_errno(err, errno, "make '%s/%s', to remove it", k->path, id);
	if (fstatat(dir, "place", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0)
		return 0;
	(void)unlinkat(dir, "place", 0);
	r = write_place(k, dir, id, err);
	if (r < 0) {
		(void)unlinkat(dir, "place", 0); /* half of one would be taken for good */
		return r;
	}
	/* So that whoever removes it looks for what still runs. */
	made = openat(dir, "made", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return made < 0 ? error_errno(err, errno, "mark '%s/%s' as made", k->path, id)
			: 0;
}

static void await_end(const struct kept_box *box, int timeout_ms)
{
	struct pollfd p = { .fd = box->pidfd, .events = POLLIN };

	while (box->pidfd >= 0 && poll(&p, 1, timeout_ms) < 0 && errno == EINTR)
		;
}

static void forget(struct kept_box *box)
{
	talk_done(kept_talk(box));
	free(box);
}

int kept_destroy(void *state, struct backend_box *base, struct warren_error *err)
{
	struct kept *k = state;
	struct kept_box *box = (struct kept_box *)base;
	int r;

	if (box->pidfd >= 0)
		(void)pidfd_send_signal(box->pidfd, SIGKILL, NULL, 0);
	/*
	 * What is frozen dies when its platform has thawed it, and its shim after it: one
	 * that is paused, or whose shim was about to end it when it was killed.
	 */
	await_end(box, kept_is_paused(k, base->id) ? 0 : SHIM_END_MS);
	r = box->ready ? reclaim(k, base->id, err) : 0;
	if (r == 0)
		r = kept_remove(k, k->dir_fd, k->path, base->id, err);
	if (r == 0 && box->pidfd >= 0)
		r = pidfd_end(box->pidfd, SHIM_KILL_MS);
	if (r == -EBUSY && !err->code)
		(void)error_set(err, EBUSY,
				"the shim of '%s' was killed, and is still there after "
				"%d seconds",
				base->id, SHIM_KILL_MS / 1000);
	forget(box);
	return r;
}

void kept_release(void *state UNUSED, struct backend_box *base)
{
	forget((struct kept_box *)base);
}

/* ---------------------------------------------------------------------------- making */

static struct kept_box *box_new(struct kept *k)
{
	struct kept_box *box = calloc(1, sizeof(*box));

	if (box) {
		box->engine = k;
		box->pidfd = box->control = -1;
		box->may_take_long = true;
	}
	return box;
}

/*
 * Its place in the world: a directory, before anything else; then its socket, whose name nobody
 * else has, of this backend or another; and only then what lets a platform be told to destroy it.
 */
static int claim(const struct kept *k, struct kept_box *box, int *ret_listener,
		 struct warren_error *err)
{
	AUTO_CLOSE int dir = -1;
	const char *id = box->base.id;
	int r;

	if (mkdirat(k->dir_fd, id, 0700) < 0)
		return errno == EEXIST ? error_set(err, EEXIST,
						   "there is a sandbox '%s' already", id)
				       : error_errno(err, errno,
						     "note the sandbox in '%s'", k->path);
	box->has_dir = true;
	dir = openat(k->dir_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return error_errno(err, errno, "open '%s/%s'", k->path, id);
	r = door_bind(k->boxes_fd, id, ret_listener, err);
	if (r < 0)
		return r;
	box->has_door = true;
	return write_place(k, dir, id, err);
}

/* Of one that could not be made: what is its own is removed, and nothing of another's. */
static void undo(struct kept *k, struct kept_box *box)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (box->has_door) {
		(void)kept_destroy(k, &box->base, &ignored);
		return;
	}
	if (box->has_dir)
		remove_files(k->dir_fd, box->base.id);
	forget(box);
}

/* What the shim found, and who it is. */
static int get_acquainted(const struct kept *k, struct kept_box *box,
			  struct warren_error *err)
{
	struct talk_box other = { .ready = true, .pidfd = -1 };
	char path[ID_LEN + 8], id[ID_LEN + 1];
	AUTO_FREE char *text = NULL;
	AUTO_CLOSE int fd = -1, line = -1;
	struct stat st;
	uid_t uid = 0;
	int r;

	(void)strcpy(id, box->base.id);
	(void)snprintf(path, sizeof(path), "%s/made", id);
	fd = openat(k->dir_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > STATE_MAX)
		return error_errno(err, fd < 0 ? errno : EFBIG,
				   "read what the shim wrote");
	text = malloc((size_t)st.st_size + 1);
	if (!text || fd_read_all(fd, text, (size_t)st.st_size) != st.st_size)
		return error_errno(err, EIO, "read what the shim wrote");
	r = state_parse(kept_talk(box), NULL, TAKE_PTR(text), (size_t)st.st_size, err);
	if (r < 0)
		return r;
	if (strcmp(box->base.id, id) != 0)
		return error_set(err, EPROTO, "the shim is another sandbox's");
	line = door_dial(k->boxes_fd, id);
	if (line < 0)
		return error_errno(err, -line, "reach its shim");
	other.control = line;
	r = door_identify(&other, &uid, err);
	box->pidfd = other.pidfd;
	box->pid = other.pid;
	door_note_init(kept_talk(box));
	return r;
}

static int start_shim(const struct kept *k, struct kept_box *box,
			const struct warren_spec *spec, int listener,
			struct warren_error *err)
{
	AUTO_CLOSE int text = -1, theirs = -1;
	int ends[2], r = write_spec(spec, &text, err);

	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_errno(err, errno, "make a connection");
	box->control = ends[0];
	theirs = ends[1];
	return kept_start(k, box->base.id, (const int[]){ theirs, listener, text }, err);
}

static int make(struct kept *k, struct kept_box *box, const struct warren_spec *spec,
		struct warren_error *err)
{
	AUTO_CLOSE int listener = -1;
	int r;

	if (spec->durable && !k->named)
		return error_set(err, EINVAL,
				 "a durable sandbox needs an engine with a name");
	if (spec->single && spec->durable)
		return error_set(err, EINVAL, "it cannot be both durable and single");
	r = claim(k, box, &listener, err);
	if (r == 0)
		r = start_shim(k, box, spec, listener, err);
	if (r == 0)
		r = client_wait_ready(kept_talk(box), err);
	box->ready = r == 0;
	if (r == 0)
		r = get_acquainted(k, box, err);
	if (r == 0 && spec->durable)
		r = door_write_state(k->boxes_fd, kept_talk(box), NULL, err);
	if (r == 0 && spec->durable)
		r = door_keep(kept_talk(box), err);
	return r;
}

int kept_create(void *state, const struct warren_spec *spec, struct backend_box **ret_box,
		struct warren_error *err)
{
	struct kept *k = state;
	struct kept_box *box = box_new(k);
	int r;

	if (!box)
		return error_errno(err, ENOMEM, "make a sandbox");
	if (spec->id)
		(void)memcpy(box->base.id, spec->id, sizeof(box->base.id));
	else
		id_make(box->base.id);
	r = make(k, box, spec, err);
	if (r < 0) {
		undo(k, box);
		return r;
	}
	*ret_box = &box->base;
	return 0;
}

/* --------------------------------------------------------------------------- finding */

/* Is @id a sandbox of another engine, which knows how to destroy it? */
static bool is_elsewhere(const struct kept *k, const char *id)
{
	int copy = openat(k->all_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;
	bool found = false;

	while (d && !found && (e = readdir(d))) {
		char path[NAME_MAX + ID_LEN + 2];

		(void)snprintf(path, sizeof(path), "%s/%s", e->d_name, id);
		found = strchr(e->d_name, '.') && e->d_name[0] != '.' &&
			faccessat(k->all_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	}
	if (d)
		(void)closedir(d);
	return found;
}

int kept_list(void *state, char ***ret_ids, struct warren_error *err)
{
	struct kept *k = state;
	AUTO_BUF struct buf ids = BUF_INIT(1U << 20);
	int copy = openat(k->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	if (!k->named || !d) {
		if (d)
			(void)closedir(d);
		return k->named ? error_errno(err, errno, "open '%s'", k->path)
				: error_set(err, EINVAL,
					    "an engine without a name has none");
	}
	while ((e = readdir(d)))
		if (id_valid(e->d_name) && door_has_state(k->boxes_fd, e->d_name))
			buf_add(&ids, e->d_name, ID_LEN + 1);
	(void)closedir(d);
	return door_pack_ids(&ids, ret_ids, err);
}

bool kept_is_paused(const struct kept *k, const char *id)
{
	char path[ID_LEN + 10];

	(void)snprintf(path, sizeof(path), "%s/paused", id);
	return faccessat(k->dir_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * A handle on a live one, which is asked if @line; or if it is paused, as its shim alone knows
 * whether it is saved as well. -ESRCH: it is dead, or was never complete.
 */
static int take_up(struct kept *k, struct kept_box *box, bool line,
		   struct warren_error *err)
{
	uid_t uid = 0;
	bool paused = kept_is_paused(k, box->base.id);
	int r = door_find_init(k->boxes_fd, kept_talk(box), &uid, err);

	if (r == 0 && uid != geteuid())
		r = error_set(err, EPERM, "its shim is somebody else's (uid %u)", uid);
	if (r == 0 && (line || paused))
		r = door_open_line(k->boxes_fd, kept_talk(box), err);
	box->paused = box->saved || paused;
	return r;
}

static int find(struct kept *k, const char *id, bool line, struct backend_box **ret_box,
		struct warren_error *err)
{
	struct kept_box *box;
	int r;

	if (!k->named)
		return error_set(err, EINVAL, "an engine without a name has none");
	/* One that has lost its directory is known by its state, unless another engine has it. */
	if (faccessat(k->dir_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	    (!door_has_state(k->boxes_fd, id) || is_elsewhere(k, id)))
		return error_set(err, ENOENT, "there is no such sandbox");
	box = box_new(k);
	if (!box)
		return error_errno(err, ENOMEM, "make a handle");
	box->ready = true;
	r = door_read_state(k->boxes_fd, id, kept_talk(box), NULL, err);
	if (r == 0)
		r = take_up(k, box, line, err);
	if (r == -ESRCH) {
		struct warren_error second = WARREN_ERROR_INIT;

		/* What cannot be removed now is the next engine's to try. */
		(void)kept_destroy(k, &box->base, &second);
		return r;
	}
	if (r < 0) {
		forget(box);
		return r;
	}
	box->base.durable = true;
	*ret_box = &box->base;
	return 0;
}

int kept_find(void *state, const char *id, struct backend_box **ret_box,
	      struct warren_error *err)
{
	return find(state, id, false, ret_box, err);
}

int kept_adopt(void *state, const char *id, struct backend_box **ret_box,
	       struct warren_error *err)
{
	return find(state, id, true, ret_box, err);
}
