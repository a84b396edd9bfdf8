/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.c - warren serve: start and supervise two processes
 *
 *	this process	the warden: its threads serve the api's requests, the first
 *			thread waits for signals and for the api's end
 *	its child	the api (api.c), restarted when it dies
 *
 * Both may be killed at any moment: sandboxes do not depend on their parent process, and
 * the next service finds them. The locks of the engine and of the database prevent a
 * second service with the same state.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "api/v1/v1.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "config/config.h"
#include "daemon/api.h"
#include "daemon/check.h"
#include "daemon/listen.h"
#include "daemon/log.h"
#include "daemon/private.h"
#include "daemon/title.h"
#include "warden/warden.h"

#define CONFIG_FILE    "/etc/warren/warren.yaml"
#define ENGINE_NAME    "serve"
#define RESTART_MS_MIN 100
#define RESTART_MS_MAX 5000
#define STOP_MS        20000 /* time for the api to end after SIGTERM, before it is killed */
#define JOIN_MS        10000 /* time for requests in progress at the end */

/* ------------------------------------------------------------------- options */

static const char help_head[] =
	"Usage: warren serve [OPTIONS]\n"
	"\n"
	"Run the sandbox service on this machine, in the foreground. It stops on SIGTERM or\n"
	"^C, and leaves sandboxes running.\n"
	"\n"
	"      --config FILE   read this file (default " CONFIG_FILE ", if it exists)\n"
	"      --check         check and print the configuration in effect, and exit\n"
	"      --example       print a configuration file with every key, and exit\n"
	"  -h, --help          print this help, and exit\n"
	"\n";

struct options {
	const char *file;
	const char *backend; /* NAME:TIER, whose backend is requested; NULL: none */
	bool backends;       /* show the backends for all users */
	bool check, example, help;
	int life; /* connection to the client of a private service; 0: none */
};

static int read_option(struct options *o, int argc, char **argv, int *at,
		       struct warren_error *err)
{
	const char *word = argv[*at];

	(*at)++;
	if (strcmp(word, "--check") == 0) {
		o->check = true;
	} else if (strcmp(word, "--show-backends") == 0) {
		o->backends = true;
	} else if (strcmp(word, "--show-backend") == 0 && *at < argc) {
		o->backend = argv[(*at)++];
	} else if (strcmp(word, "--private") == 0 && *at < argc) {
		return private_parse(argv[(*at)++], &o->life, err);
	} else if (strcmp(word, "--example") == 0) {
		o->example = true;
	} else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		o->help = true;
	} else if (strncmp(word, "--config=", 9) == 0) {
		o->file = word + 9;
	} else if (strcmp(word, "--config") == 0 && *at < argc) {
		o->file = argv[(*at)++];
	} else if (strcmp(word, "--config") == 0) {
		return error_set(err, EINVAL,
				 "--config needs a file: --config " CONFIG_FILE);
	} else if (word[0] != '-') {
		return error_set(err, EINVAL,
				 "unexpected argument '%.100s' (example: warren serve "
				 "--config warren.yaml)",
				 word);
	} else {
		return config_unknown_flag(word, err);
	}
	return 0;
}

/*
 * Read the defaults first, for the name of the file; then the file; then the options,
 * which take precedence.
 */
static int serve_read_config(struct config *c, struct options *o, int argc, char **argv,
			     struct warren_error *err)
{
	struct config *scrap = NULL;
	int r = config_new(&scrap, err);

	for (int at = 0; r == 0 && at + 1 < argc;) {
		int next = 0;

		r = config_read_flags(scrap, argc - at, argv + at, &next, err);
		at += next;
		if (r == 0 && at < argc)
			r = read_option(o, argc, argv, &at, err);
		at--;
	}
	scrap = config_free(scrap);
	if (r < 0 || o->help || o->example)
		return r;
	r = config_read_file(c, o->file ? o->file : CONFIG_FILE, err);
	if (r == -ENOENT && !o->file)
		r = 0;
	for (int at = 0; r == 0 && at + 1 < argc;) {
		struct options ignored = { 0 };
		int next = 0;

		r = config_read_flags(c, argc - at, argv + at, &next, err);
		at += next;
		if (r == 0 && at < argc)
			r = read_option(&ignored, argc, argv, &at, err);
		at--;
	}
	return r < 0 ? r : config_finish(c, err);
}

/* -------------------------------------------------------------- directories and users */

/* As the given user, find the first directory of @path that this user may not enter; 0:
 * none. */
static int check_way(const char *path, uid_t uid, gid_t gid, struct warren_error *err)
{
	gid_t old_gid = (gid_t)setfsgid(gid);
	uid_t old_uid = (uid_t)setfsuid(uid);
	char way[PATH_MAX];
	bool barred = false;
	struct stat st;

	for (const char *p = strchr(path, '/'); p && !barred; p = strchr(p + 1, '/')) {
		(void)snprintf(way, sizeof(way), "%.*s/.", (int)(p - path), path);
		barred = stat(way, &st) < 0 && errno == EACCES;
	}
	(void)setfsuid(old_uid);
	(void)setfsgid(old_gid);
	if (!barred)
		return 0;
	way[strlen(way) - 2] = '\0';
	return error_set(
		err, EACCES,
		"the api (user %u) cannot enter '%s': allow it (chmod o+x '%s'), or "
		"choose another directory (example: --state-dir /var/lib/warren)",
		uid, way, way);
}

/*
 * Create the api's own directory, in a directory that the api must be able to enter,
 * whatever the umask was.
 */
static int serve_own_dir(const char *state_dir, const char *path, uid_t uid, gid_t gid,
			 struct warren_error *err)
{
	int r = fd_make_dirs(path, 0700);
	struct stat st;

	if (r < 0)
		return error_errno(err, -r, "create the directory '%s'", path);
	if (geteuid() != 0 || uid == 0)
		return 0;
	if (chown(path, uid, gid) < 0)
		return error_errno(err, errno, "give '%s' to user %u", path, uid);
	if (stat(state_dir, &st) < 0 ||
	    (!(st.st_mode & S_IXOTH) &&
	     chmod(state_dir, (st.st_mode & 07777) | S_IXOTH) < 0))
		return error_errno(err, errno, "let user %u enter '%s'", uid, state_dir);
	return check_way(path, uid, gid, err);
}

/* Find the user of the api: the configured account, or the user `nobody` if there is
 * none. */
static int serve_find_user(const struct config *c, struct api_birth *b,
			   struct warren_error *err)
{
	const struct passwd *pw;

	b->owner = geteuid();
	b->uid = b->owner;
	b->gid = getegid();
	if (b->owner != 0 || c->user[0] == '\0')
		return 0;
	errno = 0;
	pw = getpwnam(c->user);
	if (!pw) {
		pw = getpwnam("nobody");
		log_line(LOG_LEVEL_WARNING,
			 "there is no account '%s': the api runs as '%s'", c->user,
			 pw ? "nobody" : "?");
	}
	if (!pw)
		return error_set(err, ENOENT,
				 "there is no account '%s': create it, or set user",
				 c->user);
	b->uid = pw->pw_uid;
	b->gid = pw->pw_gid;
	return 0;
}

/* Find the user of warren-egress: the configured account, or the user of the api. */
static void serve_find_egress_user(const struct config *c, const struct api_birth *b,
				   struct warden_policy *policy)
{
	const struct passwd *pw = NULL;

	if (b->owner == 0 && c->egress_user[0])
		pw = getpwnam(c->egress_user);
	policy->uid = b->uid;
	policy->gid = b->gid;
	policy->egress_uid = pw ? pw->pw_uid : b->uid;
	policy->egress_gid = pw ? pw->pw_gid : b->gid;
}

static void image_program(char *out, size_t size)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	(void)snprintf(out, size, "%s/warren-image", self);
}

/* ----------------------------------------------------------- notifications to systemd */

static void serve_notify(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd = -1;
	size_t n = path ? strlen(path) : 0;

	if (n == 0 || n >= sizeof(addr.sun_path))
		return;
	(void)memcpy(addr.sun_path, path, n);
	if (addr.sun_path[0] == '@')
		addr.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)sendto(fd, text, strlen(text), MSG_NOSIGNAL,
			     (struct sockaddr *)&addr,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}

/* ---------------------------------------------------------------- lifetime of the api */

struct pair {
	struct warden *warden;
	struct api_birth birth;
	const struct config *config;
	int signals;
	int life; /* closed when the client of a private service ends; or -1 */
	struct private_service *own; /* NULL: the service is not private */
	bool stopping;
	uint64_t stop_by; /* time at which an api that is stopping is killed, in ns
			     (monotonic) */
	bool stuck;       /* a request in progress does not end */
};

/* Write the token to a file that only the owner can read. */
static void keep_secret(const struct config *c, const struct api_word *word)
{
	char path[4200];
	int fd;

	if (word->secret[0] == '\0')
		return;
	(void)snprintf(path, sizeof(path), "%s/token", c->run_dir);
	(void)unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0) {
		(void)fd_write_all(fd, word->secret, strlen(word->secret));
		(void)fd_write_all(fd, "\n", 1);
		(void)close(fd);
	}
	log_line(LOG_LEVEL_INFO, "created a token for loopback: %s", path);
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Close the engine's locks and all other descriptors of the warden in the api. */
static void keep_only(const struct api_birth *b)
{
	int keep[API_LISTENERS_MAX + 5] = { 0, 1, 2, b->warden, b->told };
	size_t n = 5;
	unsigned from = 0;

	for (size_t i = 0; i < b->n_listeners; i++)
		keep[n++] = b->listeners[i].fd;
	qsort(keep, n, sizeof(keep[0]), by_number);
	for (size_t i = 0; i < n; i++) {
		if ((unsigned)keep[i] > from)
			(void)close_range(from, (unsigned)keep[i] - 1, 0);
		from = (unsigned)keep[i] + 1;
	}
	(void)close_range(from, ~0U, 0);
}

/* Stop the service and the api. */
static void serve_stop(struct pair *p, int pidfd)
{
	if (!p->stopping)
		p->stop_by = clock_now() + STOP_MS * 1000000ULL;
	p->stopping = true;
	p->life = -1;
	serve_notify("STOPPING=1");
	(void)pidfd_send_signal(pidfd, SIGTERM, NULL, 0);
}

static void hear_signal(struct pair *p, int pidfd)
{
	struct signalfd_siginfo info;

	if (read(p->signals, &info, sizeof(info)) == sizeof(info))
		serve_stop(p, pidfd);
}

/*
 * Wait until @fd is readable. Forward signals to the api, and wait only a limited time
 * after that.
 */
static void serve_await(struct pair *p, int pidfd, int fd)
{
	struct pollfd fds[] = { { .fd = fd, .events = POLLIN },
				{ .fd = p->signals, .events = POLLIN },
				{ .events = POLLIN } };

	for (;;) {
		uint64_t t = clock_now();
		int ms = p->stopping && t < p->stop_by
				 ? (int)((p->stop_by - t) / 1000000) + 1
				 : -1;
		int r;

		fds[2].fd = p->life;
		r = poll(fds, ARRAY_SIZE(fds), ms);
		if (r < 0 && errno != EINTR)
			return;
		if (r > 0 && fds[1].revents)
			hear_signal(p, pidfd);
		if (r > 0 && fds[2].revents)
			serve_stop(p, pidfd);
		if (r > 0 && fds[0].revents)
			return;
		if (p->stopping && clock_now() >= p->stop_by)
			(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	}
}

/* Read the message of the api when it is ready. */
static bool hear_word(struct pair *p, int pidfd, int told, struct api_word *word)
{
	size_t have = 0;

	while (have < sizeof(*word)) {
		ssize_t n;

		serve_await(p, pidfd, told);
		n = read(told, (char *)word + have, sizeof(*word) - have);
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		have += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static int start_api(struct pair *p, int *ret_pidfd, int *ret_sock,
		     struct warren_error *err)
{
	int ends[2], told[2];
	struct api_word word = { 0 };
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_errno(err, errno, "create a connection");
	if (pipe2(told, O_CLOEXEC) < 0) {
		(void)close(ends[0]);
		(void)close(ends[1]);
		return error_errno(err, errno, "create a pipe");
	}
	warden_hold(p->warden, true);
	pid = fork();
	if (pid != 0)
		warden_hold(p->warden, false);
	if (pid == 0) {
		(void)close(ends[0]);
		(void)close(told[0]);
		p->birth.warden = ends[1];
		p->birth.told = told[1];
		title_set("api");
		keep_only(&p->birth);
		api_main(&p->birth);
	}
	(void)close(ends[1]);
	(void)close(told[1]);
	if (pid < 0) {
		(void)close(ends[0]);
		(void)close(told[0]);
		return error_errno(err, errno, "start the api");
	}
	*ret_pidfd = pidfd_open(pid, 0);
	*ret_sock = ends[0];
	/*
	 * The api requests the list of existing sandboxes from the warden before it is
	 * ready, so serve its requests now.
	 */
	if (*ret_pidfd < 0 || warden_serve(p->warden, ends[0], err) < 0 ||
	    !hear_word(p, *ret_pidfd, told[0], &word))
		(void)error_set(&word.err, ECHILD, "the api died before it was ready");
	(void)close(told[0]);
	if (word.err.code) {
		*err = word.err;
		return -err->code;
	}
	keep_secret(p->config, &word);
	log_line(LOG_LEVEL_INFO, "ready; %zu existing sandboxes found", word.sandboxes);
	return 0;
}

/* Run one api from its start to its end. */
static int live_once(struct pair *p, bool first, struct warren_error *err)
{
	AUTO_CLOSE int pidfd = -1, sock = -1;
	int r = start_api(p, &pidfd, &sock, err);

	if (r == 0 && first) {
		serve_notify("READY=1");
		if (p->own && p->life >= 0)
			private_tell_ready(p->life, p->own);
	}
	if (pidfd >= 0)
		serve_await(p, pidfd, pidfd);
	if (sock >= 0)
		(void)shutdown(sock, SHUT_RDWR);
	p->stuck = !warden_join(p->warden, p->stopping ? JOIN_MS : 0);
	return r;
}

static int serve_main(struct pair *p, struct warren_error *err)
{
	unsigned wait_ms = RESTART_MS_MIN;

	for (bool first = true;; first = false) {
		uint64_t begun = clock_now();
		int r = live_once(p, first, err);
		struct pollfd ends[] = { { .fd = p->signals, .events = POLLIN },
					 { .fd = p->life, .events = POLLIN } };

		if (p->stopping)
			return 0;
		if (first && r < 0)
			return r;
		if (clock_now() - begun > 10000000000ULL)
			wait_ms = RESTART_MS_MIN;
		log_line(LOG_LEVEL_ERROR, "the api has ended%s%s; restarting it",
			 r < 0 ? ": " : "", r < 0 ? err->msg : "");
		if (poll(ends, ARRAY_SIZE(ends), (int)wait_ms) > 0)
			return 0;
		wait_ms = wait_ms * 2 > RESTART_MS_MAX ? RESTART_MS_MAX : wait_ms * 2;
	}
}

/* The backends of the configuration for both processes, and the strings that belong to
 * them. */
struct backend_list {
	struct warden_backend others[CONFIG_BACKENDS_MAX];
	size_t n_others;
	bool native;
	enum tier native_tier;
	const char *names[CONFIG_BACKENDS_MAX + 1]; /* all; NULL-terminated */
};

static void serve_list_backends(const struct config *c, struct backend_list *ret)
{
	*ret = (struct backend_list){ 0 };
	for (size_t i = 0; i < c->n_backends; i++) {
		const struct config_backend *b = &c->backends[i];

		ret->names[i] = b->name;
		if (b->settings)
			ret->others[ret->n_others++] =
				(struct warden_backend){ b->name, b->kind, b->settings,
							 b->tier };
		else
			ret->native = true, ret->native_tier = b->tier;
	}
}

/* The files for TLS connections that warren-egress terminates. */
struct trust_files {
	char authority[4300];
	char bundle[4300];
};

static void serve_name_trust(struct trust_files *t, const char *dir)
{
	(void)snprintf(t->authority, sizeof(t->authority), "%s/authority.pem", dir);
	(void)snprintf(t->bundle, sizeof(t->bundle), "%s" WARDEN_BUNDLE, dir);
}

static int serve_prepare(struct pair *p, const struct backend_list *list,
			 struct warden_policy *policy, char *dir, size_t size,
			 struct trust_files *trust, struct warren_error *err)
{
	const struct config *c = p->config;
	struct warren_options options = { .state_dir = c->state_dir,
					  .run_dir = c->run_dir,
					  .engine_name = p->own ? private_engine(p->own)
								: ENGINE_NAME };
	struct rlimit files;
	sigset_t set;
	int r;

	/* The api needs a descriptor for each sandbox, stream and client; the warden
	 * needs some for prepared parts. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	p->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (p->signals < 0)
		return error_errno(err, errno, "watch for signals");
	r = serve_find_user(c, &p->birth, err);
	if (p->own)
		(void)snprintf(dir, size, "%s", private_dir(p->own));
	else
		(void)snprintf(dir, size, "%s/serve", c->state_dir);
	if (r == 0)
		r = serve_own_dir(c->state_dir, dir, p->birth.uid, p->birth.gid, err);
	serve_name_trust(trust, dir);
	serve_find_egress_user(c, &p->birth, policy);
	if (r == 0)
		r = warden_open(&options, list->native, list->others, list->n_others,
				policy, &p->warden, err);
	if (r == 0)
		r = listen_open(c, &p->birth, err);
	p->birth.config = c;
	p->birth.policy = policy;
	p->birth.backends = list->names;
	p->birth.dir = dir;
	p->birth.engine = options.engine_name;
	return r;
}

/* Return a NULL-terminated list; the strings belong to the configuration. */
static const char **serve_copy_list(const struct config_list *list)
{
	const char **copy = calloc(list->n + 1, sizeof(*copy));

	for (size_t i = 0; copy && i < list->n; i++)
		copy[i] = list->items[i];
	return copy;
}

static int serve_run(const struct config *c, int life, struct private_service *own,
		     struct warren_error *err)
{
	struct pair p = { .config = c, .signals = -1, .life = life, .own = own };
	char program[4200], dir[4200], volumes[4200];
	struct trust_files trust;
	struct backend_list list;
	struct warden_policy policy = {
		.max_sandboxes = c->max_sandboxes,
		.min_tier = (enum tier)c->min_tier,
		.host_image = c->host_image,
		.parts_min = c->pool_min,
		.parts_max = c->pool_max,
		.image_program = program,
		.run_dir = c->run_dir,
		.dns_servers = config_network_text(c, "dns_servers"),
		.ca_file = config_network_text(c, "ca_file"),
		.lookups_per_second = config_network_number(c, "lookups_per_second"),
		.authority = trust.authority,
		.bundle = trust.bundle
	};
	const char **mounts = serve_copy_list(&c->mounts);
	const char **insecure = serve_copy_list(&c->insecure_registries);
	const char **trusted = serve_copy_list(&c->trusted_registries);
	int r = 0;

	/* warren-image finds the store with this variable. */
	if (!mounts || !insecure || !trusted ||
	    setenv("WARREN_STATE", c->state_dir, 1) < 0)
		r = error_errno(err, ENOMEM, "start");
	else if (c->insecure_registries.n > WARDEN_REGISTRIES_MAX ||
		 c->trusted_registries.n > WARDEN_REGISTRIES_MAX)
		r = error_set(err, E2BIG, "%s_registries: at most %d",
			      c->insecure_registries.n > WARDEN_REGISTRIES_MAX
				      ? "insecure"
				      : "trusted",
			      WARDEN_REGISTRIES_MAX);
	(void)memcpy(policy.max, c->max.limits, sizeof(policy.max));
	policy.mounts = mounts;
	policy.insecure_registries = insecure;
	policy.trusted_registries = trusted;
	image_program(program, sizeof(program));
	serve_list_backends(c, &list);
	policy.native_tier = list.native_tier;
	(void)snprintf(volumes, sizeof(volumes), "%s/volumes", c->state_dir);
	policy.volumes = own ? NULL : volumes;
	if (r == 0)
		r = serve_prepare(&p, &list, &policy, dir, sizeof(dir), &trust, err);
	if (r == 0)
		r = serve_main(&p, err);
	/* Exit without waiting: sandboxes continue, and the next service finds them, so
	 * nothing is lost. */
	if (p.stuck) {
		log_line(LOG_LEVEL_WARNING, "a request is still in progress, ignoring");
		private_close(own, c);
		_exit(0);
	}
	p.warden = warden_close(p.warden);
	free((void *)mounts);
	free((void *)insecure);
	free((void *)trusted);
	return r;
}

/* Print the options of the help for shell completion, one on each line. */
static void serve_complete(struct buf *out)
{
	AUTO_BUF struct buf help = BUF_INIT(1U << 20);
	char *line, *rest = NULL;

	buf_puts(&help, help_head);
	config_help(&help);
	for (line = help.data ? strtok_r(help.data, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *option = strstr(line, "--");

		if (option && strspn(line, " -h,") >= (size_t)(option - line))
			buf_printf(out, "%.*s\n", (int)strcspn(option, " "), option);
	}
}

/* Write a line that src/cli/backends.c reads. */
static void serve_put_backend(const struct config_backend *b, struct buf *out)
{
	buf_printf(out, "%s %s %s %s\n", b->name, b->kind, tier_names[b->tier],
		   b->settings ? b->settings : "{}");
}

/* Show the backend for a request with "NAME:TIER"; either part may be empty. */
static int show_backend(const struct config *c, const char *which, struct buf *out,
			struct warren_error *err)
{
	const char *colon = strchr(which, ':');
	size_t n = colon ? (size_t)(colon - which) : strlen(which);
	int tier = colon && colon[1] ? tier_parse(colon + 1) : TIER_NONE;
	const struct config_backend *b = NULL;
	char name[64];
	int r;

	if (tier < 0)
		return error_set(err, EINVAL,
				 "there is no tier '%.60s'; available: none, "
				 "container, namespace, gvisor, vm",
				 colon + 1);
	(void)snprintf(name, sizeof(name), "%.*s", (int)n, which);
	r = config_select_backend(c, "", n ? name : NULL, (enum tier)tier, &b, err);
	if (r == 0)
		serve_put_backend(b, out);
	return r;
}

/* Run the service, either for the machine, or for the client at the other end of
 * @life. */
static int serve_start(struct config *c, int life, struct warren_error *err)
{
	struct private_service *own = NULL;
	int r = check_dirs(c, err);

	if (r == 0 && life)
		r = private_open(c, &own, err);
	if (r == 0) {
		log_setup(c->log_format == CONFIG_LOG_JSON ||
				  (c->log_format == CONFIG_LOG_AUTO && !isatty(2)),
			  (enum log_level)c->log_level, "warden");
		title_set("warden");
		r = serve_run(c, life ? life : -1, own, err);
	}
	private_close(own, c);
	return r;
}

int main(int argc, char **argv)
{
	AUTO_CONFIG struct config *c = NULL;
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct warren_error err = WARREN_ERROR_INIT;
	struct options o = { 0 };
	int r = config_new(&c, &err);

	argv = title_open(argc, argv);
	if (argc > 1 && strcmp(argv[0], "__complete") == 0) {
		serve_complete(&out);
		return fd_write_all(STDOUT_FILENO, out.data, out.len) < 0;
	}
	if (r == 0)
		r = serve_read_config(c, &o, argc, argv, &err);
	if (r == 0)
		r = v1_check_templates(c, &err);
	if (r == 0)
		r = v1_check_network(c, &err);
	if (r == 0 && o.help) {
		buf_puts(&out, help_head);
		config_help(&out);
	} else if (r == 0 && o.example) {
		config_example(&out);
	} else if (r == 0 && o.check) {
		config_show(c, &out);
	} else if (r == 0 && o.backends) {
		for (size_t i = 0; i < c->n_backends; i++)
			serve_put_backend(&c->backends[i], &out);
	} else if (r == 0 && o.backend) {
		r = show_backend(c, o.backend, &out, &err);
	} else if (r == 0) {
		r = serve_start(c, o.life, &err);
	}
	if (r == 0 && out.len > 0) {
		r = fd_write_all(1, out.data, out.len);
		/* If the reader closed the pipe, that is not an error. */
		r = r < 0 && r != -EPIPE ? error_errno(&err, -r, "write to stdout") : 0;
	}
	if (r == 0 && o.check)
		r = check_fits(c, &err);
	if (r < 0 && o.life)
		private_tell_error(o.life, &err);
	else if (r < 0)
		(void)fprintf(stderr, "warren serve: %s\n", err.msg);
	return r < 0 ? 1 : 0;
}
