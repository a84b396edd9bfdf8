/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - shared by the files of the warden */
#ifndef WARDEN_INTERNAL_H
#define WARDEN_INTERNAL_H

#include "base/buf.h"
#include "proto/warden_proto.h"
#include "warden/warden.h"

/* ------------------------------------------------------------------ warden.c */

/*
 * Answer a request: with @data (NULL: none) and the descriptor *@fd (@fd NULL or *@fd -1:
 * none), or with an error.
 */
void warden_reply(int sock, struct warden_proto_reply *reply, const struct buf *data,
		  int *fd);

/* ------------------------------------------------------------------ engines.c */

struct engines;

int engines_new(const struct warren_options *options, bool native,
		const struct warden_backend *backends, size_t n, struct engines **ret,
		struct warren_error *err);
struct engines *engines_free(struct engines *all);
struct warren *engines_native(const struct engines *all);
/* Get the configuration of backend @name; NULL for the native one or an unknown name. */
const struct warden_backend *engines_backend(const struct engines *all, const char *name);
/*
 * Get the engine of backend @name, opened on first use; -ENODEV: there is no such
 * backend.
 */
int engines_get(struct engines *all, const char *name, struct warren **ret,
		struct warren_error *err);

/* -------------------------------------------------------------------- backend_threads.c
 */

struct slow;

/*
 * Carries out a request on one of the threads and sends the reply to @sock. It ends when
 * @cancel can be read; -1: it cannot be cancelled.
 */
typedef void (*slow_fn)(void *ctx, const void *msg, size_t size, int sock, int cancel);
struct slow *slow_new(slow_fn fn, void *ctx);
/* Queue a request; @msg and @sock are copied. -EAGAIN: the queue is full. */
int slow_put(struct slow *s, const void *msg, size_t size, int sock);
/* Cancel the requests with the number *@seq (NULL: all), as far as they allow it. */
void slow_cancel(struct slow *s, const uint32_t *seq);
/*
 * Drops waiting requests. Returns @s if a request is still in progress; then @s must not
 * be freed.
 */
struct slow *slow_stop(struct slow *s);

/* ------------------------------------------------------------------- turns.c */

struct turns;

struct turns_ops {
	/*
	 * Called for a request to a backend other than the native one. Returns true if it
	 * queued the request elsewhere. Does not block.
	 */
	bool (*put_aside)(void *ctx, const void *msg, size_t size, int sock);
	void (*carry_out)(void *ctx, const void *msg, size_t size, int sock);
};

struct turns *turns_new(const struct turns_ops *ops, void *ctx);
/* Accepts NULL; returns NULL. All threads must have ended. */
struct turns *turns_free(struct turns *t);
/*
 * Serve the api at @sock until it has disconnected and all of its requests are done.
 * Returns 0 or -errno.
 */
int turns_start(struct turns *t, int sock);
/*
 * Wait for the end of turns_start()'s threads, at most @ms (0: forever). False: a request
 * is still in progress.
 */
bool turns_join(struct turns *t, unsigned ms);

/* ------------------------------------------------------------------- probe.c */

struct probes;

struct probes *probes_new(void);
/* Accepts NULL; returns NULL. No probe may be in progress. */
struct probes *probes_free(struct probes *all);
/*
 * Report the features of @engine as JSON. 1: another thread is probing it and will answer
 * request @seq at @sock.
 */
int probes_ask(struct probes *all, struct warren *engine, uint32_t seq, int sock,
	       struct buf *reply, struct warren_error *err);

/* ------------------------------------------------------------------- image.c */

struct images; /* the programs that work on images */

struct images *images_new(void);
/* Accepts NULL; returns NULL. Running programs continue until their readers are done. */
struct images *images_free(struct images *all);
/*
 * Start a program; *@ret_fd is the read end of a pipe with its output. A @backend with
 * its own images supports only pulls; NULL: Warren's store. -EAGAIN: the maximum number
 * of programs is running.
 */
int images_start(struct images *all, const struct warden_policy *policy,
		 const struct warden_backend *backend, const struct warden_proto_image *m,
		 int *ret_fd, struct warren_error *err);

/*
 * Start the program that creates an image from a snapshot's layer. It holds @lock, the
 * locked directory of the layer, until it ends.
 */
int images_snapshot(struct images *all, const struct warden_policy *policy,
		    const char *const *argv, int lock, int *ret_fd,
		    struct warren_error *err);

/* -------------------------------------------------------------------- work.c */

struct works; /* the programs that work on works */

struct works *works_new(void);
/* Accepts NULL; returns NULL. Running programs continue. */
struct works *works_free(struct works *all);
/*
 * Start a program; *@ret_fd is as in struct warden_proto_work. -EAGAIN: the maximum
 * number of programs is running.
 */
int works_start(struct works *all, const struct warden_proto_work *m, int *ret_fd,
		struct warren_error *err);

/*
 * hibernate.c: @r is the result of a search for a sandbox. If the sandbox has ended,
 * return 1 if its files are on disk, and -errno if this cannot be found out; otherwise
 * @r.
 */
int warden_if_saved(struct warren *engine, const char *id, int r,
		    struct warren_error *err);
/*
 * Save its files and end it; do nothing if only its files are left. It still counts,
 * and a CREATE with .restore brings it back.
 */
int warden_hibernate(struct warren *engine, const char *id, struct warren_error *err);

/* snapshot.c: copy the files of @sb into a new layer, and create an image from it. */
int snapshot_start(struct images *all, const struct warden_policy *policy,
		   struct warren_sandbox *sb, const char *id, int *ret_fd,
		   struct warren_error *err);

/* spawn.c */
struct warden_fd {
	int fd; /* -1: /dev/null */
	int as; /* its number in the program */
};

/*
 * Start a program with these descriptors; others with close-on-exec are closed. No @fd
 * may be the number of a later one. @env is NULL for the warden's own environment.
 * @ret_pid may be NULL: the program is reaped when it ends. 0 or -errno.
 */
int warden_spawn(const char *program, const char *const *argv, const char *const *env,
		 const struct warden_fd *fds, size_t n, pid_t *ret_pid);

/* The largest descriptor of a program that warden_spawn() starts. */
#define WARDEN_FD_MAX 9
/* Create a pipe; the end to write to is larger than WARDEN_FD_MAX. */
int warden_pipe(int *ret_in, int *ret_out, struct warren_error *err);

/*
 * egress.c: start warren-egress; *@ret_fd is a connection of egress_proto.h. *@pidfd is
 * that of the previous process, which is killed, or -1; it becomes that of the new one.
 */
int egress_start(const struct warden_policy *policy, int *pidfd, int *ret_fd,
		 struct warren_error *err);
/* Kill the process, and set *@pidfd to -1. */
void egress_kill(int *pidfd);
/* Create the file warden_policy.bundle, if one of the mounts needs it and it is missing.
 */
int egress_need_bundle(const struct warden_policy *policy,
		       const struct warren_mount *mounts, size_t n,
		       struct warren_error *err);

/* Open the file warden_policy.bundle; create it if it is missing. */
int egress_open_bundle(const struct warden_policy *policy, int *ret_fd,
		       struct warren_error *err);

#endif /* WARDEN_INTERNAL_H */
