/* SPDX-License-Identifier: Apache-2.0 */
/* durable.c - create, find, adopt and change sandboxes that outlive their creator */
#include "backend/native/durable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "initclient/sandbox_socket.h"
#include "spec/limits.h"

#define LOCK_TRIES 100
#define MEMORY_MIN (1U << 20)

/*
 * A limit that can be changed. A limit after the first three is written only if it is
 * set, so that older versions, which do not know it, can read a file without it.
 */
#define LIVE_ROW(id, name)                                                \
	{ #name, SPEC_##id <= SPEC_PIDS ? STATE_NUMBER64 : STATE_MAYBE64, \
	  offsetof(struct native_sandbox, limits.name) },
#define FIXED_ROW(id, name)
#define LIMIT_ROW(id, name, life, ...) life##_ROW(id, name)

/* The state that this backend stores for a sandbox, in addition to the common state. */
/* clang-format off */
static const struct state_field own_fields[] = {
	{ "slot", STATE_NUMBER32, offsetof(struct native_sandbox, slot) },
	{ "base_id", STATE_NUMBER32, offsetof(struct native_sandbox, base_id) },
	{ "cgroup", STATE_FLAG, offsetof(struct native_sandbox, has_cgroup) },
	SPEC_LIMITS(LIMIT_ROW)
	{ "tmpfs", STATE_MAYBE64, offsetof(struct native_sandbox, tmpfs) },
};
/* clang-format on */
static const struct state_table own_state = { own_fields, ARRAY_SIZE(own_fields) };

static void durable_nap(void)
{
	(void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}

/* --------------------------------------------------------- names and locks of engines */

static bool durable_good_name(const char *name)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	size_t n = strlen(name);

	/* A name that looks like an id belongs to an engine without a name, which is
	 * never opened again. */
	return n > 0 && n < sizeof(((struct native *)NULL)->name) &&
	       strspn(name, allowed) == n && !id_valid(name);
}

int durable_enrol(struct native *n, int run, int engines, const char *name,
		  struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	int r = -1;

	if (!durable_good_name(name))
		return error_set(err, EINVAL,
				 "engine name '%.40s' is not 1 to 32 letters, digits, "
				 "'-' and '_', or it looks like an id",
				 name);
	(void)strcpy(n->name, name);
	n->named = true;
	fd = openat(engines, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, errno, "open the lock file of '%s'", name);
	/*
	 * A sandbox that a dead engine was creating holds the lock's descriptor until it
	 * notices that the engine has ended.
	 */
	for (int i = 0; i < LOCK_TRIES && r < 0; i++) {
		r = flock(fd, LOCK_EX | LOCK_NB);
		if (r < 0 && errno != EWOULDBLOCK)
			return error_errno(err, errno, "lock the engine '%s'", name);
		if (r < 0)
			durable_nap();
	}
	if (r < 0)
		return error_set(err, EBUSY, "another process uses the engine '%s'",
				 name);
	if (mkdirat(run, "boxes", 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "create the directory 'boxes'");
	n->sandboxes_fd =
		openat(run, "boxes", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (n->sandboxes_fd < 0)
		return error_errno(err, errno, "open the directory 'boxes'");
	n->lock_fd = TAKE_FD(fd);
	return 0;
}

/*
 * Read the id of the sandbox from the link @name in ids/, if the sandbox belongs to this
 * engine.
 */
static bool read_link(const struct native *n, const char *name, char id[ID_LEN + 1])
{
	char target[sizeof(n->name) + ID_LEN + 2];
	ssize_t len = readlinkat(n->ids_fd, name, target, sizeof(target) - 1);
	size_t own = strlen(n->name);

	if (len < 0)
		return false;
	target[len] = '\0';
	if (strncmp(target, n->name, own) != 0 || target[own] != '/' ||
	    !id_valid(target + own + 1))
		return false;
	(void)strcpy(id, target + own + 1);
	return true;
}

bool durable_is_foreign(const struct native *n, const char *id)
{
	int copy = openat(n->ids_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	bool foreign = !d; /* if this cannot be found out, leave it alone */
	char target[sizeof(n->name) + ID_LEN + 2], own[ID_LEN + 1];
	struct dirent *e;

	while (d && !foreign && (e = readdir(d))) {
		ssize_t len =
			readlinkat(n->ids_fd, e->d_name, target, sizeof(target) - 1);
		const char *slash;

		target[len < 0 ? 0 : len] = '\0';
		slash = strrchr(target, '/');
		foreign = slash && strcmp(slash + 1, id) == 0 &&
			  !read_link(n, e->d_name, own);
	}
	if (d)
		(void)closedir(d);
	else if (copy >= 0)
		(void)close(copy);
	return foreign;
}

/* --------------------------------------------------------------- identity of an init */

/* Find the sandbox's init, and check that it is the right process. */
static int durable_identify(struct native_sandbox *sandbox, struct warren_error *err)
{
	uid_t uid = 0;
	int r = sandbox_socket_find_init(sandbox->engine->sandboxes_fd,
					 native_talk(sandbox), &uid, err);

	if (r < 0)
		return r;
	if (sandbox->engine->privileged &&
	    (uid < sandbox->base_id || uid - sandbox->base_id > NATIVE_IDS))
		return error_set(err, EPERM, "its init belongs to another user (uid %u)",
				 uid);
	return 0;
}

int durable_oom_kills(struct native_sandbox *sandbox, uint64_t *ret,
		      struct warren_error *err)
{
	struct proto_welcome welcome;
	int r = sandbox_socket_hello(native_talk(sandbox), &welcome, err);

	if (r == 0)
		*ret = welcome.oom_kills;
	return r;
}

int durable_connection(void *state, struct backend_sandbox *base, int *ret_fd,
		       struct warren_error *err)
{
	const struct native *n = state;
	int r = sandbox_socket_connection(n->sandboxes_fd,
					  (struct initclient_sandbox *)base, ret_fd, err);

	if (r == 0)
		saved_keep_disk(n, base->id);
	return r;
}

/* -------------------------------------------------------------------- creation */

int durable_bind(struct native *n, struct native_sandbox *sandbox, int *ret_fd,
		 struct warren_error *err)
{
	int r;

	if (!n->named)
		return error_set(err, EINVAL,
				 "a durable sandbox needs an engine with a name");
	r = sandbox_socket_bind(n->sandboxes_fd, sandbox->base.id, ret_fd, err);
	sandbox->has_socket = r == 0;
	return r;
}

int durable_note(const struct native *n, struct native_sandbox *sandbox,
		 struct warren_error *err)
{
	sandbox_socket_note_init(native_talk(sandbox));
	return sandbox_socket_write_state(n->sandboxes_fd, native_talk(sandbox),
					  &own_state, err);
}

int durable_keep(struct native_sandbox *sandbox, struct warren_error *err)
{
	return sandbox_socket_keep(native_talk(sandbox), err);
}

void durable_remove(const struct native *n, const char *id)
{
	if (n->sandboxes_fd >= 0)
		sandbox_socket_remove(n->sandboxes_fd, id);
}

/* ------------------------------------------------------------------- search */

static struct native_sandbox *durable_handle_new(struct native *n)
{
	struct native_sandbox *sandbox = calloc(1, sizeof(*sandbox));

	if (!sandbox)
		return NULL;
	sandbox->engine = n;
	sandbox->has_ids = idmap_has_ids;
	sandbox->pidfd = sandbox->control = sandbox->image_lock = -1;
	sandbox->captured = (struct capture)CAPTURE_INIT;
	return sandbox;
}

/* Remove the dead sandboxes of a batch; slots[i] is the link of look[i]. */
static void durable_sweep_batch(struct native *n, struct sandbox_socket_look *look,
				const unsigned *slots, size_t count)
{
	sandbox_socket_look_at(n->sandboxes_fd, look, count);
	for (size_t i = 0; i < count; i++) {
		struct native_sandbox *sandbox;
		struct warren_error ignored = WARREN_ERROR_INIT;

		if (look[i].alive)
			continue;
		sandbox = durable_handle_new(n);
		if (!sandbox)
			continue; /* the next engine tries again */
		(void)memcpy(sandbox->base.id, look[i].id, sizeof(look[i].id));
		sandbox->slot = slots[i];
		sandbox->has_slot = sandbox->has_socket = sandbox->has_cgroup = true;
		(void)native_undo(n, sandbox, &ignored);
	}
}

void durable_sweep(struct native *n)
{
	int copy = openat(n->ids_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct sandbox_socket_look look[DOOR_LOOKS_MAX];
	unsigned slots[DOOR_LOOKS_MAX];
	size_t count = 0;
	struct dirent *e;

	while (d && (e = readdir(d))) {
		look[count] = (struct sandbox_socket_look){ 0 };
		if (!read_link(n, e->d_name, look[count].id))
			continue;
		slots[count++] = (unsigned)strtoul(e->d_name, NULL, 10);
		if (count == ARRAY_SIZE(look)) {
			durable_sweep_batch(n, look, slots, count);
			count = 0;
		}
	}
	durable_sweep_batch(n, look, slots, count);
	if (d)
		(void)closedir(d);
}

int durable_list(void *state, char ***ret_ids, struct warren_error *err)
{
	struct native *n = state;
	AUTO_BUF struct buf ids = BUF_INIT(1U << 20);
	struct dirent *e;
	int copy;
	DIR *d;

	if (!n->named)
		return error_set(err, EINVAL,
				 "an engine without a name has no durable sandboxes");
	copy = openat(n->ids_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = copy < 0 ? NULL : fdopendir(copy);
	if (!d)
		return error_errno(err, errno, "open the directory 'ids'");
	while ((e = readdir(d))) {
		char id[ID_LEN + 1];

		if (read_link(n, e->d_name, id) &&
		    sandbox_socket_has_state(n->sandboxes_fd, id))
			buf_add(&ids, id, sizeof(id));
	}
	(void)closedir(d);
	left_list(&n->left, &ids);
	return sandbox_socket_pack_ids(&ids, ret_ids, err);
}

/* ------------------------------------------------------------------ adoption */

/* The link and the state file must describe the same sandbox. */
static int check_link(const struct native *n, const char *id,
		      struct native_sandbox *sandbox, struct warren_error *err)
{
	char name[16], linked[ID_LEN + 1] = "";

	(void)snprintf(name, sizeof(name), "%u", sandbox->slot);
	if (!read_link(n, name, linked) || strcmp(linked, id) != 0 ||
	    strcmp(sandbox->base.id, id) != 0 ||
	    engine_registry_base(n, sandbox->slot) != sandbox->base_id)
		return error_set(err, ENOENT, "it does not belong to engine '%s'",
				 n->name);
	sandbox->has_slot = true;
	sandbox->has_socket = true;
	return 0;
}

/* Read what is known without a connection to init; connect to init as well, if requested.
 * -ESRCH: the sandbox is dead. */
static int durable_take_up(struct native *n, struct native_sandbox *sandbox, bool line,
			   struct warren_error *err)
{
	int r = durable_identify(sandbox, err);

	sandbox->paused =
		sandbox->has_cgroup && cgroup_frozen(&n->cgroups, sandbox->base.id);
	return r == 0 && line ? sandbox_socket_open_line(n->sandboxes_fd,
							 native_talk(sandbox), err)
			      : r;
}

/* Remove the rest of a sandbox whose creation was never completed. -ESRCH: nothing is
 * left. */
static int durable_remove_left(struct native *n, struct backend_sandbox *left,
			       struct warren_error *err)
{
	int r = native_undo(n, (struct native_sandbox *)left, err);

	return r < 0 ? r : error_set(err, ESRCH, "it could not be created");
}

static int native_durable_find(struct native *n, const char *id, bool line,
			       struct backend_sandbox **ret_sandbox,
			       struct warren_error *err)
{
	struct native_sandbox *sandbox;
	struct backend_sandbox *left;
	int r;

	if (!n->named)
		return error_set(err, EINVAL,
				 "an engine without a name has no durable sandboxes");
	left = left_take(&n->left, id);
	if (left)
		return durable_remove_left(n, left, err);
	sandbox = durable_handle_new(n);
	if (!sandbox)
		return error_errno(err, ENOMEM, "allocate a handle");
	sandbox->ready = true;
	r = sandbox_socket_read_state(n->sandboxes_fd, id, native_talk(sandbox),
				      &own_state, err);
	if (r == 0)
		r = check_link(n, id, sandbox, err);
	if (r == 0)
		r = durable_take_up(n, sandbox, line, err);
	if (r == -ESRCH) {
		struct warren_error second = WARREN_ERROR_INIT;
		int r2 = native_unmake(n, sandbox, &second);

		/*
		 * While something of the sandbox is left, do not report it as gone: the
		 * caller tries again.
		 */
		if (r2 < 0)
			*err = second;
		return r2 < 0 ? r2 : r;
	}
	if (r < 0) {
		native_forget(sandbox);
		return r;
	}
	sandbox->base.durable = true;
	sandbox->base.kills_apart = n->cgroups.mode == CGROUP_V1;
	*ret_sandbox = &sandbox->base;
	return 0;
}

int durable_find(void *state, const char *id, struct backend_sandbox **ret_sandbox,
		 struct warren_error *err)
{
	return native_durable_find(state, id, false, ret_sandbox, err);
}

int durable_clear(struct native *n, const char *id, struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	struct backend_sandbox *sandbox = NULL;
	int r = native_durable_find(n, id, false, &sandbox, &why);

	if (r == -ENOENT || r == -ESRCH)
		return 0;
	if (r == 0) {
		durable_release(n, sandbox);
		return error_set(err, EEXIST, "sandbox '%s' already exists", id);
	}
	*err = why;
	return r;
}

int durable_adopt(void *state, const char *id, struct backend_sandbox **ret_sandbox,
		  struct warren_error *err)
{
	return native_durable_find(state, id, true, ret_sandbox, err);
}

void durable_release(void *state UNUSED, struct backend_sandbox *base)
{
	native_forget((struct native_sandbox *)base);
}

/* ------------------------------------------------------------------ changes of limits */

/* Describe the limits in the same words as at creation. */
static void note_limits(struct native_sandbox *sandbox)
{
	const char *by = cgroup_mode_name(sandbox->engine->cgroups.mode);
	const struct cgroup_limits *l = &sandbox->limits;

	backend_enforce(&sandbox->base, "memory", true, "%ju bytes by %s",
			(uintmax_t)l->memory, by);
	backend_enforce(&sandbox->base, "pids", true, "%ju by %s", (uintmax_t)l->pids,
			by);
	if (l->cpu_millis)
		backend_enforce(&sandbox->base, "cpus", true, "%ju.%03u by %s",
				(uintmax_t)l->cpu_millis / 1000,
				(unsigned)(l->cpu_millis % 1000), by);
	else
		backend_enforce(&sandbox->base, "cpus", false,
				"all processors of the machine");
}

int durable_update(void *state, struct backend_sandbox *base,
		   const struct warren_limits *limits, struct warren_error *err)
{
	struct native *n = state;
	struct native_sandbox *sandbox = (struct native_sandbox *)base;
	struct cgroup_limits old = sandbox->limits, next = old;
	int r;

	if (!base->durable)
		return error_set(err, EOPNOTSUPP, "it is not durable");
	if (!sandbox->has_cgroup)
		return error_set(err, EOPNOTSUPP, "limits need cgroups: %s",
				 n->cgroups.why);
	if (limits->memory == WARREN_UNLIMITED || limits->pids == WARREN_UNLIMITED)
		return error_set(err, EINVAL,
				 "the memory and pids limits cannot be removed");
	if (limits->memory && limits->memory < MEMORY_MIN)
		return error_set(err, EINVAL, "memory: below 1m no process can run");
	if (limits->memory && limits->memory < sandbox->tmpfs)
		return error_set(
			err, EBUSY,
			"memory: the sandbox's in-memory filesystems may hold %ju "
			"bytes, and must fit into the limit",
			(uintmax_t)sandbox->tmpfs);
	if (limits->pids && take_pids(n, limits->pids, err) < 0)
		return -err->code;
	if (limits->memory)
		next.memory = limits->memory;
	if (limits->pids)
		next.pids = limits->pids;
	if (limits->cpu_millis)
		next.cpu_millis =
			limits->cpu_millis == WARREN_UNLIMITED ? 0 : limits->cpu_millis;
	r = cgroup_update(&n->cgroups, base->id, &old, &next, err);
	if (r < 0)
		return r;
	sandbox->limits = next;
	note_limits(sandbox);
	r = durable_note(n, sandbox, err);
	if (r < 0) {
		struct warren_error ignored = WARREN_ERROR_INIT;

		(void)cgroup_update(&n->cgroups, base->id, &next, &old, &ignored);
		sandbox->limits = old;
		note_limits(sandbox);
	}
	return r;
}

int durable_describe(void *state UNUSED, struct backend_sandbox *base, struct buf *out)
{
	state_encode((const struct initclient_sandbox *)base, NULL, out);
	return 0;
}
