/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.c - start the separate program that handles images
 *
 * The api reads the program's output through a pipe: lines of JSON, the last of which is
 * the result. The warden does not wait for the program. The program stops when its reader
 * has closed the pipe.
 *
 * The number of concurrent programs is limited. SIGCHLD is ignored, so the warden is not
 * notified when one ends. Instead, each program holds one end of an unused pipe, and the
 * warden checks the other end. Pulls may take very long, so some places are reserved for
 * other programs.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/libexec.h"
#include "warden/internal.h"

#define ARGS_MAX        (16 + 4 * WARDEN_REGISTRIES_MAX)
#define IMAGE_MOST_SIZE (SPEC_LIMIT_MAX * 21UL)
/* Descriptor in the program, which stays open until the program ends. */
#define FD_ALIVE WARDEN_FD_MAX
/* Descriptor to which the program writes an archive. */
#define FD_ARCHIVE      8
#define FD_ARCHIVE_PATH "/dev/fd/8"

struct images {
	pthread_mutex_t lock;
	struct image_room {
		int alive; /* readable when the program has ended; -1: none */
		bool pulls;
	} at_work[WARDEN_IMAGES_MAX];
};

struct images *images_new(void)
{
	struct images *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	(void)pthread_mutex_init(&all->lock, NULL);
	for (size_t i = 0; i < WARDEN_IMAGES_MAX; i++)
		all->at_work[i].alive = -1;
	return all;
}

struct images *images_free(struct images *all)
{
	if (!all)
		return NULL;
	for (size_t i = 0; i < WARDEN_IMAGES_MAX; i++)
		if (all->at_work[i].alive >= 0)
			(void)close(all->at_work[i].alive);
	(void)pthread_mutex_destroy(&all->lock);
	free(all);
	return NULL;
}

static bool image_has_ended(int alive)
{
	struct pollfd p = { .fd = alive };

	return poll(&p, 1, 0) > 0;
}

/* Find a free place; -EAGAIN: none. The caller holds the lock. */
static int image_find_room(struct images *all, bool pulls)
{
	unsigned n_pulls = 0;
	int room = -EAGAIN;

	for (int i = 0; i < WARDEN_IMAGES_MAX; i++) {
		if (all->at_work[i].alive >= 0 && image_has_ended(all->at_work[i].alive))
			(void)close(TAKE_FD(all->at_work[i].alive));
		if (all->at_work[i].alive < 0)
			room = i;
		else
			n_pulls += all->at_work[i].pulls;
	}
	return pulls && n_pulls >= WARDEN_PULLS_MAX ? -EAGAIN : room;
}

static const struct {
	const char *args[4];
	bool registry; /* connects to a registry */
	bool slow;     /* takes as long as a registry or a client needs */
	bool refs;     /* has one or two names */
	bool writes;   /* an archive */
	bool reads;
} verbs[WIRE_IMAGE_MAX] = {
	[WIRE_IMAGE_PULL] = { { "pull", "--json" }, true, true, true, false, false },
	[WIRE_IMAGE_LS] = { { "ls", "--json" }, false, false, false, false, false },
	[WIRE_IMAGE_INSPECT] = { { "inspect" }, false, false, true, false, false },
	[WIRE_IMAGE_RM] = { { "rm" }, false, false, true, false, false },
	[WIRE_IMAGE_TAG] = { { "tag", "--json" }, false, false, true, false, false },
	[WIRE_IMAGE_PUSH] = { { "push", "--json" }, true, true, true, false, false },
	[WIRE_IMAGE_SAVE] = { { "save", "--quiet", "--output", FD_ARCHIVE_PATH },
			      false,
			      true,
			      true,
			      true,
			      false },
	[WIRE_IMAGE_LOAD] = { { "load", "--json" }, false, true, false, false, true },
	[WIRE_IMAGE_BUILD] = { { NULL }, false, true, false, false, true },
	[WIRE_IMAGE_TRIM] = { { NULL }, false, false, false, false, false },
};

static size_t image_put_list(const char **argv, size_t n, const char *option,
			     const char *const *list)
{
	for (size_t i = 0; i < WARDEN_REGISTRIES_MAX && list && list[i]; i++) {
		argv[n++] = option;
		argv[n++] = list[i];
	}
	return n;
}

static void put_args(const struct warden_policy *policy,
		     const struct warden_proto_image *m, const char *argv[ARGS_MAX])
{
	size_t n = 0;

	argv[n++] = "warren-image";
	argv[n++] = "--report";
	for (size_t i = 0; i < ARRAY_SIZE(verbs[0].args) && verbs[m->verb].args[i]; i++)
		argv[n++] = verbs[m->verb].args[i];
	if (m->verb == WIRE_IMAGE_PULL) {
		if (m->flags & WIRE_IMAGE_MISSING)
			argv[n++] = "--missing";
		if (m->platform[0]) {
			argv[n++] = "--platform";
			argv[n++] = m->platform;
		}
	}
	if (verbs[m->verb].registry) {
		/* The requester is a client of the api, and not trusted. */
		argv[n++] = "--public-only";
		n = image_put_list(argv, n, "--insecure", policy->insecure_registries);
		n = image_put_list(argv, n, "--trusted", policy->trusted_registries);
	}
	if (m->verb == WIRE_IMAGE_RM && m->flags & WIRE_IMAGE_FORCE)
		argv[n++] = "--force";
	argv[n++] = "--"; /* all later words are names */
	if (m->ref[0])
		argv[n++] = m->ref;
	if (m->to[0])
		argv[n++] = m->to;
	argv[n] = NULL;
}

/* The arguments of a build say what the client, who is not trusted, may do. */
static void put_build_args(const struct warden_policy *policy, char most[IMAGE_MOST_SIZE],
			   const char *argv[ARGS_MAX])
{
	size_t n = 0, at = 0;

	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		at += (size_t)snprintf(most + at, IMAGE_MOST_SIZE - at, "%s%" PRIu64,
				       i > 0 ? "," : "", policy->max[i]);
	argv[n++] = "warren-image";
	argv[n++] = "build-request";
	argv[n++] = "--most";
	argv[n++] = most;
	if (policy->run_dir) {
		argv[n++] = "--run-dir";
		argv[n++] = policy->run_dir;
	}
	if (policy->dns_servers) {
		argv[n++] = "--dns-servers";
		argv[n++] = policy->dns_servers;
	}
	if (!policy->host_image)
		argv[n++] = "--no-host";
	n = image_put_list(argv, n, "--insecure", policy->insecure_registries);
	n = image_put_list(argv, n, "--trusted", policy->trusted_registries);
	argv[n] = NULL;
}

static void put_trim_args(const char *argv[ARGS_MAX])
{
	argv[0] = "warren-image";
	argv[1] = "build-request";
	argv[2] = "--trim";
	argv[3] = NULL;
}

/* The program's end of its pipes; -1: none. */
struct image_ends {
	int in, out, alive, archive;
};

static int image_spawn(const char *program, const char *const *argv,
		       const struct image_ends *ends)
{
	const struct warden_fd fds[] = { { ends->in, 0 },
					 { ends->out, 1 },
					 { -1, 2 },
					 { ends->archive, FD_ARCHIVE },
					 { ends->alive, FD_ALIVE } };

	return warden_spawn(program, argv, NULL, fds, ARRAY_SIZE(fds), NULL);
}

/* Write the settings of a backend to a file for the program. */
static int image_put_settings(const char *settings)
{
	AUTO_CLOSE int fd = memfd_create("warren-settings", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : 0;

	if (r == 0 && settings)
		r = fd_write_all(fd, settings, strlen(settings));
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	return r < 0 ? r : TAKE_FD(fd);
}

static int start_ours(const struct warden_policy *policy,
		      const struct warden_proto_image *m, const struct image_ends *ends,
		      struct warren_error *err)
{
	const char *argv[ARGS_MAX];
	char most[IMAGE_MOST_SIZE];
	int r;

	if (m->verb == WIRE_IMAGE_TRIM)
		put_trim_args(argv);
	else if (m->verb == WIRE_IMAGE_BUILD)
		put_build_args(policy, most, argv);
	else
		put_args(policy, m, argv);
	r = image_spawn(policy->image_program, argv, ends);
	return r < 0 ? error_errno(err, -r, "start '%s'", policy->image_program) : 0;
}

static int start_theirs(const struct warden_backend *b,
			const struct warden_proto_image *m, const struct image_ends *ends,
			struct warren_error *err)
{
	const char *argv[] = { "warren-shim",
			       m->flags & WIRE_IMAGE_MISSING ? "pull-missing" : "pull",
			       b->kind, m->ref, NULL };
	struct image_ends more = *ends;
	AUTO_CLOSE int settings = -1;
	char program[PATH_MAX];
	int r;

	if (m->verb != WIRE_IMAGE_PULL || m->platform[0])
		return error_set(
			err, EOPNOTSUPP,
			"backend '%s' has its own images: it can only pull one for "
			"this machine",
			b->name);
	r = libexec_find("warren-shim", program, err);
	if (r < 0)
		return r;
	settings = image_put_settings(b->settings);
	more.in = settings;
	r = settings < 0 ? settings : image_spawn(program, argv, &more);
	return r < 0 ? error_errno(err, -r, "start '%s'", program) : 0;
}

/* Only names of images and platforms may reach a command line. */
static int check_words(const struct warden_proto_image *m, struct warren_error *err)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789/._-";

	if (m->platform[0] && (m->platform[0] == '-' ||
			       strspn(m->platform, allowed) != strlen(m->platform)))
		return error_set(err, EINVAL,
				 "platform '%.60s' is not OS/ARCH (example: linux/arm64)",
				 m->platform);
	if (m->to[0] && policy_check_ref(m->to, err) < 0)
		return -err->code;
	if (!verbs[m->verb].refs && !m->ref[0] && !m->to[0])
		return 0;
	return policy_check_ref(m->ref, err);
}

/* Reserve a place and start the program in it. */
static int image_start_in_room(struct images *all, const struct warden_policy *policy,
			       const struct warden_backend *backend,
			       const struct warden_proto_image *m,
			       const struct image_ends *ends, int *alive,
			       struct warren_error *err)
{
	bool slow = verbs[m->verb].slow;
	int r, room;

	(void)pthread_mutex_lock(&all->lock);
	room = image_find_room(all, slow);
	if (room < 0)
		r = error_set(err, EAGAIN,
			      "too many image operations are in progress; try again");
	else if (backend)
		r = start_theirs(backend, m, ends, err);
	else
		r = start_ours(policy, m, ends, err);
	if (r == 0) {
		all->at_work[room].alive = TAKE_FD(*alive);
		all->at_work[room].pulls = slow;
	}
	(void)pthread_mutex_unlock(&all->lock);
	return r;
}

/* Answer with the report, or with a bundle of the report and the archive. */
static int image_pass_on(int *report, int *archive, int *ret_fd, struct warren_error *err)
{
	int fds[WIRE_IMAGE_FDS] = { TAKE_FD(*report), -1 };

	if (*archive < 0) {
		*ret_fd = fds[0];
		return 0;
	}
	fds[1] = TAKE_FD(*archive);
	*ret_fd = fd_bundle(fds, ARRAY_SIZE(fds));
	return *ret_fd < 0 ? error_errno(err, -*ret_fd, "pass on a pipe") : 0;
}

int images_start(struct images *all, const struct warden_policy *policy,
		 const struct warden_backend *backend, const struct warden_proto_image *m,
		 int *ret_fd, struct warren_error *err)
{
	AUTO_CLOSE int in = -1, out = -1, alive = -1, theirs = -1;
	AUTO_CLOSE int source = -1, sink = -1;
	bool pulls = m->verb == WIRE_IMAGE_PULL, writes = verbs[m->verb].writes;
	struct image_ends ends;
	int r = check_words(m, err);

	if (r == 0 && backend && pulls && !policy_may_pull(policy, m->ref))
		r = error_set(
			err, EPERM,
			"backend '%s' pulls images only from docker.io and from the "
			"registries in the service's configuration "
			"(trusted_registries); '%.200s' is in neither",
			backend->name, m->ref);
	/* Its commands are executed by the native backend. */
	if (r == 0 && m->verb == WIRE_IMAGE_BUILD)
		r = policy_check_backend(policy, NULL, 0, err);
	if (r == 0)
		r = warden_pipe(&in, &out, err);
	if (r == 0)
		r = warden_pipe(&alive, &theirs, err);
	if (r == 0 && (writes || verbs[m->verb].reads))
		r = warden_pipe(&source, &sink, err);
	if (r < 0)
		return r;
	ends = (struct image_ends){ .in = writes ? -1 : source,
				    .out = out,
				    .alive = theirs,
				    .archive = writes ? sink : -1 };
	r = image_start_in_room(all, policy, backend, m, &ends, &alive, err);
	return r < 0 ? r : image_pass_on(&in, writes ? &source : &sink, ret_fd, err);
}

/* The program has no input, but keeps the descriptor of the lock, and with it the lock.
 */
int images_snapshot(struct images *all, const struct warden_policy *policy,
		    const char *const *argv, int lock, int *ret_fd,
		    struct warren_error *err)
{
	AUTO_CLOSE int in = -1, out = -1, alive = -1, theirs = -1;
	AUTO_CLOSE int high = fcntl(lock, F_DUPFD_CLOEXEC, FD_ALIVE + 1);
	int r = high < 0 ? error_errno(err, errno, "pass on a lock") : 0, room;

	if (r == 0)
		r = warden_pipe(&in, &out, err);
	if (r == 0)
		r = warden_pipe(&alive, &theirs, err);
	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&all->lock);
	room = image_find_room(all, false);
	if (room < 0) {
		r = error_set(err, EAGAIN,
			      "too many image operations are in progress; try again");
	} else {
		r = image_spawn(
			policy->image_program, argv,
			&(const struct image_ends){
				.in = high, .out = out, .alive = theirs, .archive = -1 });
		if (r < 0)
			(void)error_errno(err, -r, "start '%s'", policy->image_program);
		else
			all->at_work[room] = (struct image_room){ TAKE_FD(alive), false };
	}
	(void)pthread_mutex_unlock(&all->lock);
	if (r == 0)
		*ret_fd = TAKE_FD(in);
	return r;
}
