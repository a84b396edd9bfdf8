/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docker.h - the platform "docker": its parts
 *
 *	docker.c	the table; configuration; destroy, wait, pause and the like
 *	http.c		one exchange with the daemon, with libcurl over its unix socket
 *	container_id.c	finds the right container
 *	create.c	creates a container: the image, the creation, the start, in order
 *	spec.c		translates a spec for the Engine API, and says what is enforced
 *	guest_exec.c	what the guest agent does inside for the shim
 *	container_pid.c	a container's first process on this machine; network: none
 *	guest_socket.c	the connection to the guest agent, for files and ports
 *	pull.c		gets missing images
 *	exec.c		the relay: a process's streams over one hijacked connection
 *	stream_demux.c	parses that connection: a head, then frames of two streams
 *	archive.c	copies files as archives of one entry (tar_entry.c)
 *	probe.c		the daemon's features and limits
 *
 * The program `docker` is not used. The paths of the API carry no version, so the daemon
 * uses its newest one; everything used here is the same in all versions since 1.40, and
 * in podman.
 *
 * A container's first process is the guest agent (agent/guest/main.c), a static program
 * of 9 kB that waits, reaps, and opens files for the shim. It is mounted read-only into
 * /dev, which is a tmpfs, so that nothing is added to the image's own tree and a
 * `scratch` image works. Docker's own init cannot be used instead: it needs a command
 * from the image to wait for, and is in a separate package that many machines lack. The
 * file is a copy in the sandbox's directory: no file that the host executes is visible
 * inside.
 *
 * A container is named "warren-<id>", and belongs to Warren if its labels say so:
 * warren.id, and warren.engine, the folder that the sandbox's directory is in. It is
 * addressed by the id that the daemon gave it, never by its name.
 */
#ifndef SHIM_DOCKER_DOCKER_H
#define SHIM_DOCKER_DOCKER_H

#include <curl/curl.h>
#include <jansson.h>

#include "base/buf.h"
#include "shim/core/driver.h"

#define DOCKER_ID_LEN     64 /* of a container's own id */
#define DOCKER_SOCKET_MAX 108
#define DOCKER_GUEST      "/dev/.warren" /* inside */
#define DOCKER_DOOR       "/dev/.warren-door"
#define DOCKER_VOLUME_MAX 40
#define DOCKER_GUEST_MAX  (sizeof(((struct shim_sandbox *)NULL)->dir) + sizeof("/anchor"))

/* How long an exchange may take. */
enum docker_pace {
	DOCKER_SOON,   /* no longer than one's patience */
	DOCKER_MOVING, /* while bytes move; silence is borne for DOCKER_SILENCE times that
			*/
	DOCKER_EVER,
};

#define DOCKER_SILENCE 6

/* A way to the daemon: one connection that is kept, for one request after another. */
struct docker {
	const char *name;               /* of the backend, for errors */
	const char *image;              /* of sandboxes that name none; may be NULL */
	const char *pull;               /* "missing", "never" or "always" */
	bool no_pull;                   /* whatever that says: the client may not */
	struct shim_driver_pull *watch; /* gets the progress of a pull; NULL: none */
	const char *archives; /* a folder to load missing images from; may be NULL */
	char socket[DOCKER_SOCKET_MAX];
	CURL *easy;
	json_t *volumes; /* of the image that docker_image_says() looked at; may be NULL
			  */
	bool podman;     /* it is that, as far as was seen */
	char why[CURL_ERROR_SIZE];
	long patience_ms; /* that is had with it: the configuration's `timeout` */
	/* Of the request at hand. */
	enum docker_pace pace;
	int (*sink)(void *ctx, const char *data,
		    size_t n); /* instead of .body; < 0: enough */
	size_t (*source)(void *ctx, char *data,
			 size_t n); /* what is sent; its size: .sent */
	void *ctx;
	uint64_t sent;
	struct buf body;
	int status;     /* of the last answer; 0: there was none */
	json_t *answer; /* its body, when it was JSON; else NULL */
};

/* Seconds before the shim loses its patience with us, we do with the daemon. */
#define DOCKER_SLACK 10

/* What the daemon says of itself. */
struct docker_info {
	char version[40], driver[24], backing[24], runtime[24];
	char cgroup_driver[16], cgroup_version[4];
	bool memory, cpu, pids; /* limits that it can set */
	bool seccomp, userns, rootless;
	bool quota; /* the storage may be one that keeps its own limit for each
		       container */
};

/* http.c */
int docker_open(struct docker *d, const char *name, const json_t *config,
		struct warren_error *err);
void docker_close(struct docker *d);
#define AUTO_DOCKER CLEANUP(docker_close)

/*
 * One exchange: the status of the answer, or -errno when it tells of a failure (-ENOENT
 * for 404, -EBUSY for 409, ...) or there was none. Errors say "<name>: <step>: ...";
 * @path is a format.
 */
int docker_ask(struct docker *d, const char *step, const char *method, const json_t *body,
	       struct warren_error *err, const char *path, ...) PRINTF_LIKE(6, 7);
/* The failure that the answer with @status tells of. */
int docker_failed(const struct docker *d, const char *step, int status,
		  struct warren_error *err);
/* The code of what a daemon says that can only be told by its words. */
int docker_said(const char *said, int otherwise);
/* An answer that is not what the API promises. */
int docker_odd(const struct docker *d, const char *step, struct warren_error *err);
/* What was said by others, on one line, at most @n bytes of it. */
void docker_clean(char *text, size_t size, const char *said);
/* A connection of its own; errors as docker_ask()'s. @ret_easy holds it open. */
int docker_connect(struct docker *d, const char *step, CURL **ret_easy, int *ret_fd,
		   struct warren_error *err);

/* docker.c */
/* Where it is outside. */
void docker_guest(const struct shim_sandbox *p, char path[DOCKER_GUEST_MAX]);
/* Of a sandbox with a read-only root: the name of its volume @n, from 0. */
void docker_volume_name(const struct shim_sandbox *p, unsigned n,
			char name[DOCKER_VOLUME_MAX]);
/* The folder that the directories of the engine's sandboxes are in. */
void docker_engine(const struct shim_sandbox *p, char engine[sizeof(p->dir)]);
int docker_remove(struct docker *d, const struct shim_sandbox *p,
		  struct warren_error *err);

/* container_id.c */
/* Where the container's id is written down. */
void docker_id_path(const struct shim_sandbox *p, char path[DOCKER_GUEST_MAX]);
/* The container has just been made: its id, out of d->answer. */
int docker_id_keep(struct docker *d, struct shim_sandbox *p, const char *step,
		   struct warren_error *err);
/* 1: it is there, and d->answer tells of it; 0: there is none of ours. */
int docker_inspect(struct docker *d, const struct shim_sandbox *p,
		   struct warren_error *err);
/* By what it is addressed; -ESRCH: there is none of ours. */
int docker_id(struct docker *d, const struct shim_sandbox *p, const char *step,
	      char id[DOCKER_ID_LEN + 1], struct warren_error *err);

/* create.c */
int docker_create(struct shim_sandbox *p, const struct warren_spec *spec,
		  struct warren_error *err);

/* container_pid.c */
/*
 * The container's first process, as a directory of the machine's /proc; -1: it is not to
 * be seen.
 */
int docker_first(struct docker *d, const struct shim_sandbox *p);
/* Once it runs: what is known of it by its process, into @p. */
void docker_meet(struct docker *d, struct shim_sandbox *p);
/*
 * Once it runs, and before anything else does: what is mounted is what was judged.
 * -ESTALE.
 */
int docker_check_mounts(struct docker *d, const struct shim_sandbox *p,
			const struct warren_spec *spec, struct warren_error *err);
/* Without even a loopback device. */
int docker_quiet(struct docker *d, const struct shim_sandbox *p,
		 struct warren_error *err);

/* guest_socket.c */
/* Where its socket is outside. */
void docker_door(const struct shim_sandbox *p, char path[DOCKER_GUEST_MAX]);
/* Whether a guest agent of ours can come to a container of that runtime. */
bool docker_plain(const char *runtime);
/* Before the container is made; -1 where the daemon's runtime has no use for it. */
int docker_listen(const struct shim_sandbox *p, const struct docker_info *info,
		  int *ret_fd, struct warren_error *err);
/* The guest agent's connection, once the container runs; -1: it did not come. */
int docker_await(int listener);

/* guest_exec.c */
/*
 * Run the guest agent's program a second time, as @exec says: its exit status, or -errno.
 */
int docker_errand(struct docker *d, const struct shim_sandbox *p, const char *step,
		  json_t *exec, struct warren_error *err);
int docker_signal(struct shim_sandbox *p, const char *mark, const char *user, bool all,
		  int sig, struct warren_error *err);

/* spec.c */
/*
 * The limits that are to be asked for, and what is enforced: -EOPNOTSUPP names what
 * cannot be.
 */
int docker_limits(struct shim_sandbox *p, const struct docker_info *info,
		  const struct warren_spec *spec, struct warren_limits *ret,
		  struct warren_error *err);
/*
 * Of an image whose volumes are known: -EOPNOTSUPP if they are outside of a limit of the
 * spec's.
 */
int docker_check_volumes(const struct shim_sandbox *p, const struct warren_spec *spec,
			 const json_t *volumes, struct warren_error *err);
void docker_note(struct shim_sandbox *p, const struct docker_info *info,
		 const struct warren_spec *spec, const struct warren_limits *limits);
/*
 * What POST /containers/create takes; NULL: no memory, or text that is not UTF-8. With a
 * @door the guest agent runs as root, and commands get their user explicitly (p->user).
 */
json_t *docker_spec(const struct shim_sandbox *p, const struct warren_spec *spec,
		    const struct warren_limits *limits, const char *image,
		    const json_t *volumes, bool door);
/*
 * A volume that the image declares and no mount of the spec's takes the place of; NULL:
 * none.
 */
const char *docker_volume(const struct warren_spec *spec, const json_t *volumes);
/* Limits into a HostConfig, or into what changes them; false: no memory. */
bool docker_put_limits(json_t *to, const struct warren_limits *limits);

/* pull.c */
int docker_pull(const char *name, const json_t *config, const char *image, bool missing,
		struct shim_driver_pull *pull, json_t **ret, struct warren_error *err);
/*
 * The image @image is there when this returns 0, pulled or loaded. -ENOMEDIUM: no way to
 * it.
 */
int docker_image(struct docker *d, const char *image, struct warren_error *err);
/* What it says of commands that say nothing themselves, into @p. */
int docker_image_says(struct docker *d, const char *image, struct shim_sandbox *p,
		      struct warren_error *err);

/* exec.c */
__attribute__((noreturn)) void docker_exec(struct shim_sandbox *p,
					   const struct shim_exec *e);

/* archive.c */
int docker_read_file(struct shim_sandbox *p, const char *path, uint64_t offset,
		     uint64_t size, int to, struct warren_error *err);
int docker_write_file(struct shim_sandbox *p, const char *path, int from, uint64_t size,
		      uint32_t mode, uint32_t uid, uint32_t gid,
		      struct warren_error *err);

/* probe.c */
int docker_info(struct docker *d, struct docker_info *ret, struct warren_error *err);
int docker_probe(const char *name, const json_t *config, struct warren_feature *features,
		 size_t max, struct warren_error *err);

#endif /* SHIM_DOCKER_DOCKER_H */
