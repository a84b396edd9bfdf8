/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what the files of the warden share */
#ifndef WARDEN_INTERNAL_H
#define WARDEN_INTERNAL_H

#include "base/buf.h"
#include "proto/warden_proto.h"
#include "warden/warden.h"

/* ------------------------------------------------------------------ warden.c */

/*
 * Answer with @data (NULL: none) and the descriptor *@fd (@fd NULL or -1: none), or with
 * an error.
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
/*
 * The configuration of backend @name, other than the native one; or NULL.
 */
const struct warden_backend *engines_backend(const struct engines *all, const char *name);
/* The engine of backend @name, opened if it was not; -ENODEV: there is no such. */
int engines_get(struct engines *all, const char *name, struct warren **ret,
		struct warren_error *err);

/* -------------------------------------------------------------------- backend_threads.c
 */

struct slow;

/* @fn carries out a request, on some thread; @sock is where the answer goes. */
struct slow *slow_new(void (*fn)(void *ctx, const void *msg, size_t size, int sock),
		      void *ctx);
/* All of @msg is copied, and so is @sock. -EAGAIN: there are too many. */
int slow_put(struct slow *s, const void *msg, size_t size, int sock);
/*
 * Drops requests that wait. Returns @s if one is still under way: then it must not be
 * freed.
 */
struct slow *slow_stop(struct slow *s);

/* ------------------------------------------------------------------- turns.c */

struct turns;

struct turns_ops {
	/*
	 * A request for a backend other than the native one: true if it was taken. Does
	 * not block.
	 */
	bool (*put_aside)(void *ctx, const void *msg, size_t size, int sock);
	void (*carry_out)(void *ctx, const void *msg, size_t size, int sock);
};

struct turns *turns_new(const struct turns_ops *ops, void *ctx);
/* NULL is fine; returns NULL. No thread may be left. */
struct turns *turns_free(struct turns *t);
/* Serve the api at @sock, until it is gone and all of its requests are done. -errno. */
int turns_start(struct turns *t, int sock);
/* Wait for that, @ms at most (0: forever). False: something is still under way. */
bool turns_join(struct turns *t, unsigned ms);

/* ------------------------------------------------------------------- probe.c */

struct probes;

struct probes *probes_new(void);
/* NULL is fine; returns NULL. No probe may be under way. */
struct probes *probes_free(struct probes *all);
/*
 * What @engine can do, as JSON. 1: another thread has asked already, and will answer
 * request @seq at @sock.
 */
int probes_ask(struct probes *all, struct warren *engine, uint32_t seq, int sock,
	       struct buf *reply, struct warren_error *err);

/* ------------------------------------------------------------------- image.c */

struct images; /* the programs that are at work */

struct images *images_new(void);
/* NULL is fine; returns NULL. Programs at work are left to their readers. */
struct images *images_free(struct images *all);
/*
 * Start one; *@ret_fd is the end of a pipe with what it prints. For a @backend with its
 * own images, only pulls; NULL: Warren's store. -EAGAIN: the maximum number of programs
 * is running.
 */
int images_start(struct images *all, const struct warden_policy *policy,
		 const struct warden_backend *backend, const struct warden_proto_image *m,
		 int *ret_fd, struct warren_error *err);

#endif /* WARDEN_INTERNAL_H */
