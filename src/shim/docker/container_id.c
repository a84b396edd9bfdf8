/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container_id.c - find the right container
 *
 * A name does not show who created a container: any user of the daemon can remove
 * Warren's container and create another one with the same name. So a container is
 * addressed by the id that the daemon gave it, which is stored in the sandbox's directory
 * from its creation on. If the id is not known, the container is searched by name, and
 * its labels must match.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/hex.h"
#include "shim/docker/docker.h"

void docker_id_path(const struct shim_sandbox *p, char path[DOCKER_GUEST_MAX])
{
	(void)snprintf(path, DOCKER_GUEST_MAX, "%s/docker", p->dir);
}

static bool container_id_is_id(const char *id)
{
	return id && hex_is(id, DOCKER_ID_LEN);
}

/*
 * A container with this name may belong to another user: its labels identify the sandbox.
 */
static bool container_id_is_ours(const json_t *labels, const struct shim_sandbox *p)
{
	const char *id = json_string_value(json_object_get(labels, "warren.id"));
	const char *by = json_string_value(json_object_get(labels, "warren.engine"));
	char engine[sizeof(p->dir)];

	docker_engine(p, engine);
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): an array is not */
	return id && by && strcmp(id, p->id) == 0 && strcmp(by, engine) == 0;
}

/* Get the id that was recorded at creation. Return false if there is none. */
static bool container_id_recall(const struct shim_sandbox *p, char id[DOCKER_ID_LEN + 1])
{
	char path[DOCKER_GUEST_MAX];
	AUTO_CLOSE int fd = -1;
	ssize_t n;

	if (container_id_is_id(p->handle)) {
		(void)strcpy(id, p->handle);
		return true;
	}
	docker_id_path(p, path);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, id, DOCKER_ID_LEN);
	id[n > 0 ? n : 0] = '\0';
	return container_id_is_id(id);
}

int docker_id_keep(struct docker *d, struct shim_sandbox *p, const char *step,
		   struct warren_error *err)
{
	const char *id = json_string_value(json_object_get(d->answer, "Id"));
	char path[DOCKER_GUEST_MAX];
	AUTO_CLOSE int fd = -1;
	int r;

	if (!container_id_is_id(id))
		return docker_odd(d, step, err);
	docker_id_path(p, path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, id, DOCKER_ID_LEN);
	if (r < 0)
		return error_errno(err, -r, "%s: write '%s'", d->name, path);
	(void)strcpy(p->handle, id);
	return 0;
}

int docker_inspect(struct docker *d, const struct shim_sandbox *p,
		   struct warren_error *err)
{
	static const char step[] = "inspect the container";
	struct warren_error why = WARREN_ERROR_INIT;
	char ref[DOCKER_ID_LEN + 1];
	int r;

	if (!container_id_recall(p, ref))
		(void)snprintf(ref, sizeof(ref), "warren-%s", p->id);
	r = docker_ask(d, step, "GET", NULL, &why, "/containers/%s/json", ref);
	if (r == -ENOENT)
		return 0;
	if (r < 0) {
		*err = why;
		return r;
	}
	return container_id_is_ours(
		       json_object_get(json_object_get(d->answer, "Config"), "Labels"),
		       p) &&
	       container_id_is_id(json_string_value(json_object_get(d->answer, "Id")));
}

int docker_id(struct docker *d, const struct shim_sandbox *p, const char *step,
	      char id[DOCKER_ID_LEN + 1], struct warren_error *err)
{
	int r;

	if (container_id_recall(p, id))
		return 0;
	r = docker_inspect(d, p, err);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(err, ESRCH, "%s: %s: this sandbox has no such container",
				 d->name, step);
	(void)strcpy(id, json_string_value(json_object_get(d->answer, "Id")));
	return 0;
}
