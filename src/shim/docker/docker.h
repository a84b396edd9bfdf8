/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docker.h - the platform "docker": its source files and shared functions
 *
 *	docker.c	the table; configuration; destroy, wait, pause and the like
 *	http.c		one exchange with the daemon, with libcurl over its unix socket
 *	container_id.c	finds the right container
 *	container_lock.c	a lock, so that no command starts during a pause
 *	create.c	creates a container: the image, the creation, the start, in order
 *	spec.c		translates a spec for the Engine API, and says what is enforced
 *	guest_exec.c	runs the guest agent's program inside for the shim
 *	container_pid.c	finds a container's first process on this machine; network: none
 *	guest_socket.c	the connection to the guest agent, for files and ports
 *	pull.c		gets missing images
 *	exec.c		the relay: a process's streams over one hijacked connection
 *	stream_demux.c	parses that connection: a head, then frames of two streams
 *	archive.c	copies files as archives of one entry (tar_entry.c)
 *	upper.c		the files that were written, for snapshots
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
 * file is a copy in the sandbox's directory, so that no file that the host executes is
 * visible inside.
 *
 * A container is named "warren-<id>", and belongs to Warren if its labels say so:
 * warren.id, and warren.engine, the directory that contains the sandbox's directory. It
 * is addressed by the id that the daemon gave it, not by its name.
 */
#ifndef SHIM_DOCKER_DOCKER_H
#define SHIM_DOCKER_DOCKER_H

#include <curl/curl.h>
#include <jansson.h>

#include "base/buf.h"
#include "image/store.h"
#include "shim/core/driver.h"

#define DOCKER_ID_LEN       64 /* length of a container id */
#define DOCKER_SOCKET_MAX   108
#define DOCKER_GUEST        "/dev/.warren" /* path inside the container */
#define DOCKER_GUEST_SOCKET "/dev/.warren-door"
#define DOCKER_VOLUME_MAX   40
#define DOCKER_IMAGE_MAX    80 /* "sha256:" and 64 digits */
#define DOCKER_GUEST_MAX    (sizeof(((struct shim_sandbox *)NULL)->dir) + sizeof("/anchor"))

/* How long an exchange may take. */
enum docker_pace {
	DOCKER_SOON,   /* at most patience_ms */
	DOCKER_MOVING, /* at most DOCKER_SILENCE * patience_ms without data */
	DOCKER_EVER,
};

#define DOCKER_SILENCE 6

/* A connection to the daemon, which is kept for one request after another. */
struct docker {
	const char *name;                 /* name of the backend, for errors */
	const char *image;                /* default image of sandboxes; may be NULL */
	struct docker_snapshot *snapshot; /* of the new container; NULL: none */
	const char *pull;                 /* "missing", "never" or "always" */
	bool known;   /* the daemon has had the image: do not look for it elsewhere */
	bool no_pull; /* the client forbids a pull, whatever `pull` says */
	struct shim_driver_pull *watch; /* gets the progress of a pull; NULL: none */
	const char *archives; /* directory to load missing images from; may be NULL */
	char socket[DOCKER_SOCKET_MAX];
	CURL *easy;
	json_t *volumes; /* volumes of the image that docker_image_says() read; or NULL */
	bool podman;     /* the daemon seems to be podman */
	char why[CURL_ERROR_SIZE];
	long patience_ms; /* the configuration's `timeout` */
	/* The pace of the current request. */
	enum docker_pace pace;
	int (*sink)(void *ctx, const char *data,
		    size_t n); /* gets the body instead of .body; < 0: stop */
	size_t (*source)(void *ctx, char *data,
			 size_t n); /* provides .sent bytes to send */
	void *ctx;
	uint64_t sent;
	struct buf body;
	int status;     /* status of the last response; 0: none */
	json_t *answer; /* body of the response if it is JSON; otherwise NULL */
};

/* Requests to the daemon time out this many seconds before the shim's own timeout. */
#define DOCKER_SLACK 10

/* Properties that the daemon reports. */
struct docker_info {
	char version[40], driver[24], backing[24], runtime[24];
	char cgroup_driver[16], cgroup_version[4];
	bool memory, cpu, pids; /* limits that the daemon can set */
	bool seccomp, userns, rootless;
	bool quota; /* the storage driver may support a limit for each container */
};

/* http.c */
int docker_open(struct docker *d, const char *name, const json_t *config,
		struct warren_error *err);
void docker_close(struct docker *d);
#define AUTO_DOCKER CLEANUP(docker_close)

/*
 * Send one request and return the status of the response, or -errno if the response is an
 * error (-ENOENT for 404, -EBUSY for 409, ...) or there is no response. Errors begin with
 * "<name>: <step>: "; @path is a printf(3) format.
 */
int docker_ask(struct docker *d, const char *step, const char *method, const json_t *body,
	       struct warren_error *err, const char *path, ...) PRINTF_LIKE(6, 7);
/* Set @err from an error response with @status; return -errno. */
int docker_failed(const struct docker *d, const char *step, int status,
		  struct warren_error *err);
/*
 * Get the errno for a message from the daemon that can be recognised only by its text;
 * @otherwise if it is unknown.
 */
int docker_said(const char *said, int otherwise);
/* Set @err for a response that violates the API. */
int docker_odd(const struct docker *d, const char *step, struct warren_error *err);
/* Copy untrusted text as one line of at most @size bytes. */
void docker_clean(char *text, size_t size, const char *said);
/*
 * Open a separate connection; errors are those of docker_ask(). *@ret_easy keeps it open.
 */
int docker_connect(struct docker *d, const char *step, CURL **ret_easy, int *ret_fd,
		   struct warren_error *err);

/* docker.c */
/* Path of the guest agent's program on the host. */
void docker_guest(const struct shim_sandbox *p, char path[DOCKER_GUEST_MAX]);
/* Name of volume @n (from 0) of a sandbox with a read-only root. */
void docker_volume_name(const struct shim_sandbox *p, unsigned n,
			char name[DOCKER_VOLUME_MAX]);
/* Name of the directory that contains the directories of the engine's sandboxes. */
void docker_engine(const struct shim_sandbox *p, char engine[sizeof(p->dir)]);
int docker_remove(struct docker *d, const struct shim_sandbox *p,
		  struct warren_error *err);

/* container_id.c */
/* Path of the file that contains the container's id. */
void docker_id_path(const struct shim_sandbox *p, char path[DOCKER_GUEST_MAX]);
/* Store the id of a new container, from d->answer. */
int docker_id_keep(struct docker *d, struct shim_sandbox *p, const char *step,
		   struct warren_error *err);
/*
 * Inspect the container. 1: it exists, and d->answer describes it; 0: there is none that
 * belongs to Warren.
 */
int docker_inspect(struct docker *d, const struct shim_sandbox *p,
		   struct warren_error *err);
/* Get the container's id; -ESRCH: there is none that belongs to Warren. */
int docker_id(struct docker *d, const struct shim_sandbox *p, const char *step,
	      char id[DOCKER_ID_LEN + 1], struct warren_error *err);

/* container_lock.c */
/*
 * Lock the container for the start of a command, until *@ret_fd is closed; wait for a
 * pause that is in progress. *@ret_fd is -1 if the sandbox has no container.
 */
int docker_lock_start(const struct docker *d, const struct shim_sandbox *p, int *ret_fd,
		      struct warren_error *err);
/*
 * Lock the container for a pause. Wait until the commands that are starting have started;
 * -ETIMEDOUT: one has not.
 */
int docker_lock_pause(const struct docker *d, const struct shim_sandbox *p, int *ret_fd,
		      struct warren_error *err);

/* create.c */
int docker_create(struct shim_sandbox *p, const struct warren_spec *requested,
		  struct warren_error *err);

/* container_pid.c */
/*
 * Open the directory of the container's first process in the host's /proc; -1: not
 * visible.
 */
int docker_first(struct docker *d, const struct shim_sandbox *p);
/* Once the container runs: set the members of @p that depend on its first process. */
void docker_meet(struct docker *d, struct shim_sandbox *p);
/*
 * Call when the container runs, before any command. Checks that the daemon has mounted
 * the same files and directories that were allowed as volumes; returns -ESTALE if not.
 */
int docker_check_mounts(struct docker *d, const struct shim_sandbox *p,
			const struct warren_spec *spec, struct warren_error *err);
/* See shim_driver.network. */
int docker_network(const struct shim_sandbox *p, int *ret_ns, struct warren_error *err);
int docker_mounts(const struct shim_sandbox *p, int *ret_ns, struct warren_error *err);
/* Take the loopback device down, for network: none. */
int docker_quiet(struct docker *d, const struct shim_sandbox *p,
		 struct warren_error *err);

/* guest_socket.c */
/* Path of the guest agent's socket on the host. */
void docker_guest_socket_path(const struct shim_sandbox *p, char path[DOCKER_GUEST_MAX]);
/* Return whether a guest agent in a container of @runtime can connect to the shim. */
bool docker_plain(const char *runtime);
/*
 * Listen for the guest agent, before the container is created. *@ret_fd is -1 if the
 * daemon's runtime does not support it.
 */
int docker_listen(const struct shim_sandbox *p, const struct docker_info *info,
		  int *ret_fd, struct warren_error *err);
/*
 * Wait for the guest agent's connection, once the container runs; -1: it did not connect.
 */
int docker_await(int listener);

/* guest_exec.c */
/*
 * Run the guest agent's program a second time, as described by @exec; return its exit
 * status or -errno.
 */
int docker_errand(struct docker *d, const struct shim_sandbox *p, const char *step,
		  json_t *exec, struct warren_error *err);
int docker_signal(struct shim_sandbox *p, const char *mark, const char *user, bool all,
		  int sig, struct warren_error *err);

/* spec.c */
/*
 * Compute the limits to request from the daemon. -EOPNOTSUPP: @err names the limit that
 * cannot be enforced.
 */
int docker_limits(struct shim_sandbox *p, const struct docker_info *info,
		  const struct warren_spec *spec, struct warren_limits *ret,
		  struct warren_error *err);
/*
 * Check the volumes of the image: -EOPNOTSUPP if a limit of the spec would not cover
 * them.
 */
int docker_check_volumes(const struct shim_sandbox *p, const struct warren_spec *spec,
			 const json_t *volumes, struct warren_error *err);
/* Check that ids inside are those of the host: a volume of the spec needs that. */
int docker_check_ids(const struct shim_sandbox *p, const struct docker_info *info,
		     const struct warren_spec *spec, struct warren_error *err);
void docker_note(struct shim_sandbox *p, const struct docker_info *info,
		 const struct warren_spec *spec, const struct warren_limits *limits);
/*
 * Build the body of POST /containers/create; NULL: out of memory, or text that is not
 * UTF-8. With @with_socket, the guest agent runs as root, and commands get their user
 * explicitly (p->user).
 */
json_t *docker_spec(const struct shim_sandbox *p, const struct warren_spec *spec,
		    const struct warren_limits *limits, const char *image,
		    const json_t *volumes, bool with_socket);
/*
 * Find a volume that the image declares and that no mount of the spec replaces; NULL:
 * none.
 */
const char *docker_volume(const struct warren_spec *spec, const json_t *volumes);
/* Path of a link to the device of volume @n (from 0), and create all these links. */
void docker_volume_link(const struct shim_sandbox *p, unsigned n,
			char path[DOCKER_GUEST_MAX]);
int docker_link_volumes(const struct shim_sandbox *p, const struct warren_spec *spec,
			struct warren_error *err);
/* Add limits to a HostConfig or an update; false: out of memory. */
bool docker_put_limits(json_t *to, const struct warren_limits *limits);

/* pull.c */
int docker_pull(const char *name, const json_t *config, const char *image, bool missing,
		struct shim_driver_pull *pull, json_t **ret, struct warren_error *err);
/*
 * Make sure that the daemon has @image; pull or load it if necessary. -ENOMEDIUM: it
 * cannot be obtained.
 */
int docker_image(struct docker *d, const char *image, struct warren_error *err);
/* Store the image's default user and directory for commands in @p. */
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

/* upper.c */
/* A snapshot of a docker sandbox: files to be added to an image of the daemon. */
struct docker_snapshot {
	char id[ID_LEN + 1];
	char base[DOCKER_IMAGE_MAX]; /* the image */
	struct store_image image;    /* locked, so that it is not removed */
	int layer;
};

/* Open the snapshot @ref (base/snapshot_name.h). -EOPNOTSUPP: it is another backend's. */
int docker_snapshot_open(const struct shim_sandbox *p, const char *ref,
			 struct docker_snapshot *ret, struct warren_error *err);
void docker_snapshot_done(struct docker_snapshot *s);
/* Open the directory with everything that was written in the container (p->upper). */
void docker_upper_open(struct docker *d, struct shim_sandbox *p,
		       const struct docker_info *info);
/* Give the files of @s to the container, which has not started. */
int docker_upper_fill(const struct shim_sandbox *p, const struct docker_snapshot *s,
		      struct warren_error *err);

/* probe.c */
int docker_info(struct docker *d, struct docker_info *ret, struct warren_error *err);
int docker_probe(const char *name, const json_t *config, struct warren_feature *features,
		 size_t max, struct warren_error *err);

#endif /* SHIM_DOCKER_DOCKER_H */
