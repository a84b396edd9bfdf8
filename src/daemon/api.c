/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.c - the process that serves HTTP
 *
 * The warden forks this process, and passes it the listening sockets and a connection.
 * This process opens files that need its initial rights (the key for TLS), drops these
 * rights, confines itself to its own directory, restores the sandboxes of an earlier api,
 * reports that it is ready, and serves until it gets a signal to stop or the warden is
 * gone.
 */
#include "daemon/api.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/code.h"
#include "api/e2b/e2b.h"
#include "api/mcp/mcp.h"
#include "api/record.h"
#include "api/swerex/swerex.h"
#include "api/v1/v1.h"
#include "base/boot.h"
#include "base/clock.h"
#include "base/fd.h"
#include "daemon/log.h"
#include "net/loop.h"
#include "net/tls.h"
#include "os/caps.h"
#include "os/landlock.h"
#include "os/seccomp.h"
#include "service/core/service.h"
#include "service/modules.h"

/*
 * Timeouts of a stop, in ms. The service waits for running requests. After the first
 * timeout, it does not wait for clients that do not read; after the second, it answers
 * waiting requests with the current state.
 */
#define DRAIN_CUT_MS  1000
#define DRAIN_LAST_MS 5000
#define DRAIN_MS      10000
#define DRAIN_STEP_MS 20
/* Minimum time between two log lines about slow turns. */
#define SLOW_TOLD_NS 1000000000

struct api {
	const struct api_birth *birth;
	struct net_loop *loop;
	struct http_server *server;
	struct tls *tls;
	struct service *service;
	struct db *db;
	char *db_path, *secret_key;
	struct v1 v1;
	struct swerex swerex;
	struct e2b e2b;
	struct mcp mcp;
	struct live *live;
	struct loop_watch *signals;
	struct loop_timer *drain, *chores;
	int signal_fd, journals;
	uint64_t drain_since; /* ns */
	uint64_t drain_cut; /* time at which clients that do not read are disconnected, in
			       ms */
	bool drain_last;    /* waiting requests were answered */
	bool deleting;      /* all sandboxes are being deleted before the service stops */
	int status;
};

/* ---------------------------------------------------------- privileges of the process */

static int drop_privileges(const struct api_birth *b, struct warren_error *err)
{
	if (geteuid() == 0 && b->uid != 0) {
		/*
		 * Keep only the capabilities that the next three calls need; the last
		 * call drops these too.
		 */
		int r = caps_reduce(1ULL << CAP_SETUID | 1ULL << CAP_SETGID, err);

		if (r < 0)
			return r;
		if (setgroups(0, NULL) < 0 || setresgid(b->gid, b->gid, b->gid) < 0 ||
		    setresuid(b->uid, b->uid, b->uid) < 0)
			return error_errno(err, errno, "become user %u", b->uid);
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return error_errno(err, errno, "prctl");
	/*
	 * Without a warden, this process is useless, and the next service must not have
	 * to wait for its end.
	 */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return error_errno(err, errno, "prctl");
	return 0;
}

static int api_confine(const struct api_birth *b, struct warren_error *err)
{
	const char *dirs[] = { b->dir, NULL };
	int r = landlock_restrict(dirs, err);

	if (r == 1)
		log_line(LOG_LEVEL_WARNING,
			 "this kernel has no landlock: only its user id and its system "
			 "call filter confine the api");
	else if (r == 0 && landlock_version() < LANDLOCK_HAS_SCOPE)
		log_line(LOG_LEVEL_INFO,
			 "this kernel's landlock (ABI %u) confines the api to its "
			 "files, but does not isolate it %s of the machine (that "
			 "needs ABI %u)",
			 landlock_version(),
			 landlock_version() < LANDLOCK_HAS_NET
				 ? "from TCP, signals and abstract sockets"
				 : "from signals and abstract sockets",
			 LANDLOCK_HAS_SCOPE);
	return r < 0 ? r : seccomp_load(err);
}

/* --------------------------------------------------------------- stopping the service */

static void on_drain(void *ctx)
{
	struct api *a = ctx;
	uint64_t ms = (clock_now() - a->drain_since) / 1000000;

	if (ms >= a->drain_cut) {
		a->drain_cut = ms + DRAIN_CUT_MS;
		http_server_cut(a->server);
	}
	if (!a->drain_last && ms >= DRAIN_LAST_MS) {
		a->drain_last = true;
		v1_stop(&a->v1, true);
		mcp_stop(&a->mcp, true);
		http_server_refuse(
			a->server, "shutting_down",
			"the service stopped before the request was finished; commands in the sandbox continue");
	}
	if ((http_server_count(a->server) == 0 && !a->deleting) || ms >= DRAIN_MS)
		loop_stop(a->loop);
	else
		loop_timer_set(a->drain, DRAIN_STEP_MS);
}

static void on_all_deleted(void *ctx, int r UNUSED, const struct warren_error *err UNUSED)
{
	((struct api *)ctx)->deleting = false;
}

static void api_stop(struct api *a)
{
	if (a->v1.stopping)
		return;
	a->deleting = a->birth->config->on_stop == CONFIG_STOP_DELETE;
	log_line(LOG_LEVEL_INFO, "stopping; sandboxes %s",
		 a->deleting ? "are deleted" : "continue");
	if (a->deleting)
		service_delete_all(a->service, on_all_deleted, a);
	a->drain_since = clock_now();
	http_server_drain(a->server);
	v1_stop(&a->v1, false);
	mcp_stop(&a->mcp, false);
	loop_timer_set(a->drain, 0);
}

static void api_on_signal(void *ctx, unsigned events UNUSED)
{
	struct api *a = ctx;
	struct signalfd_siginfo info;

	while (read(a->signal_fd, &info, sizeof(info)) == sizeof(info))
		api_stop(a);
}

static void on_note(void *ctx UNUSED, const char *text)
{
	log_line(LOG_LEVEL_WARNING, "%s", text);
}

/* Without a warden, nothing can be created or destroyed: end, and the next service
 * continues. */
static void on_warden_end(void *ctx)
{
	struct api *a = ctx;

	log_line(LOG_LEVEL_ERROR, "the warden has ended");
	a->status = 1;
	loop_stop(a->loop);
}

/* -------------------------------------------------------------------- background work */

static void *checkpoint_main(void *arg)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (db_checkpoint(arg, &err) < 0)
		log_line(LOG_LEVEL_WARNING, "clean up the database: %s, ignoring",
			 err.msg);
	return NULL;
}

static void on_chores(void *ctx)
{
	struct api *a = ctx;
	pthread_attr_t attr;
	pthread_t thread;

	if (db_wants_checkpoint(a->db) && pthread_attr_init(&attr) == 0) {
		(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		(void)pthread_create(&thread, &attr, checkpoint_main, a->db_path);
		(void)pthread_attr_destroy(&attr);
	}
	loop_timer_set(a->chores, 1000);
}

/*
 * Count each turn of the loop that took long, because no client was served during it; log
 * some of them.
 */
static void on_slow_turn(void *ctx UNUSED, const char *name, uint64_t usec,
			 uint64_t cpu_usec)
{
	static uint64_t next;
	const struct log_field fields[] = {
		{ "in", name, 0 },
		{ "usec", NULL, usec },
		{ "cpu_usec", NULL, cpu_usec },
	};
	uint64_t now = clock_now();

	if (now < next)
		return;
	next = now + SLOW_TOLD_NS;
	log_fields(LOG_LEVEL_WARNING, "", "the event loop was busy for too long", fields,
		   ARRAY_SIZE(fields));
}

/* --------------------------------------------------------------- starting the service */

/*
 * Place files in @path away from other files on the disk (chattr +T): otherwise, ext4
 * places files near their directory, and directories near their parent. Filesystems
 * without this flag do not need it.
 */
static void stand_apart(const char *path)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int flags = 0;

	if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return;
	flags |= FS_TOPDIR_FL;
	(void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

static int api_open_store(struct api *a, struct warren_error *err)
{
	char dir[4200];
	int r;

	if (asprintf(&a->db_path, "%s/warren.db", a->birth->dir) < 0) {
		a->db_path = NULL;
		return error_errno(err, ENOMEM, "open the database");
	}
	if (asprintf(&a->secret_key, "%s/secrets.key", a->birth->dir) < 0) {
		a->secret_key = NULL;
		return error_errno(err, ENOMEM, "open the database");
	}
	/* The api of a killed warden may still be ending: wait a moment. */
	for (int i = 0; (r = db_open(a->db_path, &a->db, err)) == -EBUSY && i < 60; i++) {
		*err = (struct warren_error)WARREN_ERROR_INIT;
		(void)usleep(50000);
	}
	if (r < 0)
		return r;
	stand_apart(a->birth->dir);
	(void)snprintf(dir, sizeof(dir), "%s/journals", a->birth->dir);
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make '%s'", dir);
	a->journals = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return a->journals < 0 ? error_errno(err, errno, "open '%s'", dir) : 0;
}

/*
 * Set the configured quota for all tenants, including those that were created with
 * another quota. (The quota is stored in the row of each tenant, because the transaction
 * that charges a tenant reads it.)
 */
static int set_quota(struct api *a, struct warren_error *err)
{
	const struct config *c = a->birth->config;
	const uint64_t limits[DB_QUOTA_MAX] = {
		[DB_QUOTA_SANDBOXES] = c->quota_sandboxes,
		[DB_QUOTA_EXECS] = c->quota_execs,
		[DB_QUOTA_MEMORY] = c->quota_memory,
		[DB_QUOTA_CPU_MILLIS] = c->quota_cpu_millis,
		[DB_QUOTA_DISK] = c->quota_disk,
	};

	for (size_t i = 0; i < DB_QUOTA_MAX; i++)
		a->v1.quota[i] = limits[i] ? limits[i] : DB_UNLIMITED;
	return db_set_quotas(a->db, a->v1.quota, err);
}

/* Open a listener that other users can reach only if its clients must have a token. */
static int api_admit(struct api *a, struct api_word *word, struct warren_error *err)
{
	struct token_row row = { .tenant = DB_LOCAL,
				 .name = "created by warren serve",
				 .scopes = "admin" };
	char id[ID_LEN + 1];
	uint64_t tokens = 0;
	int r = db_count_tokens(a->db, service_time(), &tokens, err);

	if (r == 0)
		r = config_allow(a->birth->config, tokens, err);
	if (r != 1)
		return r;
	row.created_at = service_time();
	return db_make_token(a->db, &row, id, word->secret, err);
}

/* The request could not be read, so only the sender and the error are known. */
static void log_unreadable(const struct api_record *r)
{
	const struct log_field fields[] = {
		{ "status", NULL, (uint64_t)r->status },
		{ "peer", r->peer, 0 },
		{ "cause", r->cause, 0 },
	};

	log_fields(LOG_LEVEL_INFO, r->request_id, "unreadable request", fields,
		   ARRAY_SIZE(fields));
}

/* Log changes, and log errors of the service with a higher level. */
static void log_answered(const struct api_record *r)
{
	bool looks = strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0;
	enum log_level level = r->status >= 500 && !r->proxied ? LOG_LEVEL_ERROR
			       : looks || r->proxied           ? LOG_LEVEL_DEBUG
							       : LOG_LEVEL_INFO;
	const struct log_field fields[] = {
		{ "method", r->method, 0 },
		{ "path", r->path, 0 },
		{ "status", NULL, (uint64_t)r->status },
		{ "usec", NULL, r->usec },
		{ "tenant", r->tenant, 0 },
		{ "cause", r->cause, 0 },
	};

	log_fields(level, r->request_id, "request", fields,
		   ARRAY_SIZE(fields) - (r->cause[0] == '\0'));
}

static void on_record(const struct api_record *r)
{
	if (r->peer)
		log_unreadable(r);
	else
		log_answered(r);
}

static void on_request(struct http_request *req, void *ctx)
{
	struct api *a = ctx;

	bool by_host = v1_by_host(&a->v1, req);

	if (e2b_wants(&a->e2b, req))
		e2b_request(req, &a->e2b);
	else if (mcp_wants(req) && !by_host)
		mcp_request(req, &a->mcp);
	else if (swerex_wants(req) && !by_host)
		swerex_request(req, &a->swerex);
	else
		v1_request(req, &a->v1);
}

static void on_refused(struct http_refusal *refusal, struct buf *body, void *ctx)
{
	struct api *a = ctx;

	v1_refused(refusal, body, &a->v1);
	e2b_refused(refusal, body, &a->e2b);
}

/*
 * Descriptors of clients and of sandboxes have separate limits, so that neither can use
 * up the other's. A client's connection may need a second descriptor, for a port or a
 * file. This number of descriptors is reserved for the service itself.
 */
#define DESCRIPTORS_OWN 256U

static uint64_t descriptors_max(void)
{
	struct rlimit lim = { 0 };

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0 || lim.rlim_cur == RLIM_INFINITY)
		return 1U << 20;
	return lim.rlim_cur;
}

static uint64_t connections_max(const struct config *c)
{
	uint64_t most = descriptors_max() / 8;

	return c->request_connections < most ? c->request_connections : most;
}

/* Return the number of reserved connections: for unix sockets, and as many for clients
 * with a token. */
static uint64_t connections_reserve(const struct config *c)
{
	return (connections_max(c) + 7) / 8;
}

static uint64_t descriptors_for_tenants(const struct config *c)
{
	uint64_t all = descriptors_max(), clients = 2 * connections_max(c);
	uint64_t own = all / 4 < DESCRIPTORS_OWN ? all / 4 : DESCRIPTORS_OWN;

	return all - clients - own;
}

static int open_server(struct api *a, struct warren_error *err)
{
	const struct config *c = a->birth->config;
	struct http_options options = {
		.request = on_request,
		.refused = on_refused,
		.ctx = a,
		.limits = { .connections = (unsigned)connections_max(c),
			    .reserve = (unsigned)connections_reserve(c),
			    .header_bytes = (unsigned)c->request_header,
			    .header_ms = (unsigned)c->request_header_ms,
			    .idle_ms = (unsigned)c->request_idle_ms,
			    .kept_ms = (unsigned)c->request_kept_ms,
			    .body_ms = (unsigned)c->request_body_ms,
			    .write_ms = (unsigned)c->request_write_ms },
	};

	return http_server_new(a->loop, &options, &a->server, err);
}

static int listen_all(struct api *a, struct warren_error *err)
{
	for (size_t i = 0; i < a->birth->n_listeners; i++) {
		int r = http_server_listen_fd(a->server, a->birth->listeners[i].fd,
					      a->birth->listeners[i].tls ? a->tls : NULL,
					      err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int watch_signals(struct api *a, struct warren_error *err)
{
	sigset_t set;
	int r;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGIO, SIG_IGN); /* leases send this signal (journal_pool.c), but are
					 only queried */
	a->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (a->signal_fd < 0)
		return error_errno(err, errno, "watch for signals");
	r = loop_watch(a->loop, a->signal_fd, LOOP_READ, api_on_signal, a, &a->signals);
	if (r == 0)
		r = loop_timer_new(a->loop, on_drain, a, &a->drain);
	if (r == 0)
		r = loop_timer_new(a->loop, on_chores, a, &a->chores);
	return r < 0 ? error_errno(err, -r, "watch for signals") : 0;
}

/* Return the smaller of the kernel's limits for this user, in this namespace and on the
 * whole machine. */
static uint64_t inotify_limit(const char *here, const char *all)
{
	uint64_t a = 0, b = 0;

	(void)fd_read_u64_at(AT_FDCWD, here, &a);
	(void)fd_read_u64_at(AT_FDCWD, all, &b);
	return a && (!b || a < b) ? a : b;
}

/*
 * The first engine of this name creates its lock file, in a directory that ends with the
 * machine. Later ones only open it.
 */
static void api_read_run(const struct api_birth *b, const char *boot,
			 struct service_options *options)
{
	char path[4200];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/engines/%s", b->config->run_dir,
		       b->engine);
	if (stat(path, &st) < 0)
		return;
	options->run_since =
		(int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
	(void)snprintf(options->run_id, sizeof(options->run_id), "%s/%ju/%jd.%09ld", boot,
		       (uintmax_t)st.st_ino, (intmax_t)st.st_mtim.tv_sec,
		       st.st_mtim.tv_nsec);
}

/* Read the files that a confined process cannot read. */
static void api_read_limits(const struct api_birth *b, struct service_options *options,
			    char boot[BOOT_ID_SIZE])
{
	boot_id_read(boot);
	api_read_run(b, boot, options);
	options->watches_max = inotify_limit("/proc/sys/user/max_inotify_instances",
					     "/proc/sys/fs/inotify/max_user_instances");
	options->watched_max = inotify_limit("/proc/sys/user/max_inotify_watches",
					     "/proc/sys/fs/inotify/max_user_watches");
}

/* Clients do not learn where these are. */
static const char *const *private_dirs(const struct config *c)
{
	static const char *dirs[3];

	dirs[0] = c->run_dir;
	dirs[1] = c->state_dir;
	return dirs;
}

static int open_all(struct api *a, struct api_word *word, struct warren_error *err)
{
	const struct api_birth *b = a->birth;
	const struct config *c = b->config;
	struct service_options options = { .warden = b->warden,
					   .journal_default = c->journal_default,
					   .journal_max = c->journal_max,
					   .journal_total = c->journal_total,
					   .descriptors_max = descriptors_for_tenants(c),
					   .execs_max = (unsigned)c->execs_kept,
					   .code_warm = (unsigned)c->code_warm,
					   .backends = b->backends,
					   .modules = service_modules };
	char boot[BOOT_ID_SIZE];
	int r = 0;

	api_read_limits(b, &options, boot);
	if (c->tls_cert[0])
		r = tls_new(&a->tls, err);
	if (r == 0 && a->tls)
		r = tls_set_files(a->tls, c->tls_cert, c->tls_key, err);
	if (r == 0)
		r = drop_privileges(b, err);
	if (r == 0)
		r = loop_new(&a->loop, err);
	if (r == 0)
		loop_on_slow(a->loop, on_slow_turn, a);
	if (r == 0)
		r = api_confine(b, err);
	if (r == 0)
		r = api_open_store(a, err);
	if (r == 0)
		r = service_clock_open(a->db, boot, err);
	if (r == 0)
		r = set_quota(a, err);
	if (r == 0)
		r = api_admit(a, word, err);
	if (r == 0)
		r = watch_signals(a, err);
	if (r < 0)
		return r;
	db_sync_later(a->db); /* while clients are served, no commit waits for the disk */
	options.loop = a->loop;
	options.db = a->db;
	options.journals = a->journals;
	options.secret_key = a->secret_key;
	options.output_max = b->config->journal_all;
	options.reuse = b->uid != b->owner;
	options.private_dirs = private_dirs(c);
	r = service_new(&options, &a->service, err);
	if (r < 0)
		return r;
	r = live_new(a->loop, a->db, connections_max(c) - connections_reserve(c),
		     &a->live);
	if (r < 0)
		return error_errno(err, -r, "watch tokens");
	a->v1.service = a->service;
	service_on_respec(a->service, v1_respec, &a->v1);
	a->v1.live = a->live;
	a->v1.config = c;
	a->v1.policy = b->policy;
	a->v1.owner = b->owner;
	a->v1.record = on_record;
	a->swerex = (struct swerex){ .service = a->service,
				     .live = a->live,
				     .config = c,
				     .owner = b->owner,
				     .record = on_record };
	a->mcp = (struct mcp){ .service = a->service,
			       .live = a->live,
			       .config = c,
			       .policy = b->policy,
			       .owner = b->owner,
			       .record = on_record,
			       .create = v1_create_for,
			       .create_ctx = &a->v1 };
	service_on_note(a->service, on_note, a);
	service_on_warden_end(a->service, on_warden_end, a);
	r = e2b_open(&a->e2b, &a->v1, err);
	return r < 0 ? r : open_server(a, err);
}

static void daemon_api_say(const struct api_birth *b, const struct api_word *word)
{
	(void)fd_write_all(b->told, word, sizeof(*word));
	(void)close(b->told);
}

struct restoring {
	struct api *api;
	struct api_word word;
};

static void on_restored(void *ctx, int r UNUSED, const struct warren_error *err UNUSED)
{
	struct restoring *k = ctx;
	struct api *a = k->api;

	mcp_restore(&a->mcp);
	e2b_restore(&a->e2b);
	k->word.sandboxes = service_metrics(a->service)->restored;
	if (listen_all(a, &k->word.err) < 0)
		loop_stop(a->loop);
	loop_timer_set(a->chores, 1000);
	api_code_pull(a->service, a->birth->config);
	daemon_api_say(a->birth, &k->word);
}

void api_main(const struct api_birth *birth)
{
	struct api a = { .birth = birth, .signal_fd = -1, .journals = -1 };
	struct restoring k = { .api = &a };
	int r;

	log_role("api");
	r = open_all(&a, &k.word, &k.word.err);
	if (r == 0)
		r = service_restore(a.service, on_restored, &k, &k.word.err);
	if (r < 0) {
		daemon_api_say(birth, &k.word);
		_exit(1);
	}
	loop_run(a.loop);
	a.server = http_server_free(a.server);
	swerex_done(&a.swerex);
	mcp_done(&a.mcp);
	e2b_close(&a.e2b);
	a.live = live_free(a.live);
	a.service = service_free(a.service);
	a.db = db_close(a.db);
	_exit(a.status);
}
