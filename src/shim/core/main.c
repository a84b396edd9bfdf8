/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - warren-shim: one program for all operations on sandboxes of other platforms
 *
 *	warren-shim run DIR		create the sandbox of DIR, and be its shim
 *	warren-shim destroy DIR	destroy it, whichever process has created it
 *	warren-shim pause DIR, resume DIR, stats DIR, update DIR LIMIT... (those of
 *				SPEC_LIVE_MAX in spec/limits.h, 0: unchanged)
 *	warren-shim capture DIR	capture its network; descriptor 4 gets the sockets
 *	warren-shim trust DIR	add the certificates in descriptor 4
 *	warren-shim probe KIND	print its features; the configuration is on stdin
 *	warren-shim features KIND	the same, for libwarren
 *	warren-shim pull[-missing] KIND IMAGE	pull an image (pull.c)
 *
 * DIR contains a file `place` in JSON, with all data about the sandbox except its id.
 * `run` gets the creator's connection, the socket to listen on, and the spec as
 * descriptors (proto/init_proto.h). The other commands write their result to descriptor
 * 3, if it is open: a struct warren_error, followed by the requested data.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/parse.h"
#include "os/ca_mount.h"
#include "os/capture.h"
#include "shim/core/shim.h"
#include "spec/spec.h"

#define FD_WORD 3 /* descriptor for the result of a verb */
/* capture: a socket, which gets those of os/capture.h; trust: the certificates */
#define FD_EXTRA 4

#define PROBES_MAX   32
#define PATIENCE_MAX 86400
/* Maximum number of steps of a verb, each of which may take the full timeout. */
#define STEPS_MAX  3
#define CONFIG_MAX (1U << 20)

struct shim_sandbox this_sandbox = {
	.machine = -1, .memory = -1, .within = -1, .first = -1, .held = -1, .upper = -1
};

#define SHIM_DRIVER(name) &shim_driver_##name,

/* clang-format off */
static const struct shim_driver *const shim_drivers[] = {
	BACKEND_KINDS_SHIMMED(SHIM_DRIVER)
};
/* clang-format on */

/* Find a driver. NULL: there is none; @err lists the available ones. */
static const struct shim_driver *shim_driver_find(const char *kind,
						  struct warren_error *err)
{
	AUTO_BUF struct buf all = BUF_INIT(256);

	for (size_t i = 0; i < ARRAY_SIZE(shim_drivers); i++) {
		if (strcmp(shim_drivers[i]->kind->name, kind) == 0)
			return shim_drivers[i];
		buf_printf(&all, "%s%s", i ? ", " : "", shim_drivers[i]->kind->name);
	}
	(void)error_set(err, ENOENT, "there is no backend '%.100s' here; available: %s",
			kind, all.data ? all.data : "");
	return NULL;
}

/* ---------------------------------------------------------------- configuration files */

static int take_text(const json_t *doc, const char *key, const char **ret,
		     struct warren_error *err)
{
	*ret = json_string_value(json_object_get(doc, key));
	return *ret ? 0
		    : error_set(err, EINVAL, "the sandbox's directory has no '%s'", key);
}

int shim_sandbox_load(const char *dir, json_t **ret_doc, struct warren_error *err)
{
	char path[sizeof(this_sandbox.dir) + 16];
	const char *kind = NULL, *id = NULL;
	json_error_t why;
	json_t *doc;
	int r;

	if (strlen(dir) >= sizeof(this_sandbox.dir))
		return error_errno(err, ENAMETOOLONG,
				   "open the sandbox's directory '%.40s...'", dir);
	(void)snprintf(path, sizeof(path), "%s/place", dir);
	doc = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
	if (!doc)
		return error_set(err, errno ? errno : EINVAL, "read '%s': %s", path,
				 why.text);
	*ret_doc = doc;
	(void)strcpy(this_sandbox.dir, dir);
	r = take_text(doc, "kind", &kind, err);
	if (r == 0)
		r = take_text(doc, "state_dir", &this_sandbox.state_dir, err);
	if (r == 0)
		r = take_text(doc, "id", &id, err);
	if (r < 0)
		return r;
	if (!id_valid(id))
		return error_set(err, EINVAL, "the sandbox's directory '%s' has no id",
				 dir);
	(void)strcpy(this_sandbox.id, id);
	this_sandbox.machine = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	this_sandbox.saved_dir = json_string_value(json_object_get(doc, "saved_dir"));
	this_sandbox.config = json_object_get(doc, "config");
	this_sandbox.name =
		json_string_value(json_object_get(this_sandbox.config, "name"));
	if (!this_sandbox.name)
		this_sandbox.name = kind;
	this_sandbox.driver = shim_driver_find(kind, err);
	return this_sandbox.driver ? 0 : -err->code;
}

/* Report how long libwarren must wait as soon as this is known, before the answer. */
static void tell_allowance(void)
{
	static bool told;
	uint32_t secs = (uint32_t)shim_sandbox_patience() * STEPS_MAX;

	if (!told && fcntl(FD_WORD, F_GETFD) >= 0)
		(void)fd_write_all(FD_WORD, &secs, sizeof(secs));
	told = true;
}

int shim_sandbox_patience(void)
{
	json_int_t n =
		json_integer_value(json_object_get(this_sandbox.config, "timeout"));
	int slack = this_sandbox.driver ? this_sandbox.driver->slack : 0;

	return n > 0 && n <= PATIENCE_MAX ? (int)n + slack : SHIM_PATIENCE / 1000;
}

void shim_sandbox_enforce(struct shim_sandbox *p, const char *name, bool enforced,
			  const char *fmt, ...)
{
	struct warren_enforcement *e = p->enforced;
	va_list ap;

	while (e < p->enforced + p->n_enforced && strcmp(e->name, name) != 0)
		e++;
	if (e == p->enforced + SHIM_ENFORCED_MAX)
		return;
	if (e == p->enforced + p->n_enforced)
		p->n_enforced++;
	e->name = name;
	e->enforced = enforced;
	va_start(ap, fmt);
	(void)vsnprintf(e->detail, sizeof(e->detail), fmt, ap);
	va_end(ap);
}

void shim_sandbox_exit(const struct shim_exec *e, const struct shim_outcome *outcome)
{
	if (e->outcome_fd >= 0)
		(void)fd_write_all(e->outcome_fd, outcome, sizeof(*outcome));
	_exit(outcome->verdict == SHIM_EXITED ? outcome->code : 127);
}

/* ------------------------------------------------------------------------ verbs */

static int shim_cannot(const char *what, struct warren_error *err)
{
	return error_set(err, EOPNOTSUPP, "%s is not supported by backend '%s'", what,
			 this_sandbox.name);
}

static int shim_sandbox_open(const char *dir, json_t **ret_doc, struct warren_error *err)
{
	int r = shim_sandbox_load(dir, ret_doc, err);

	tell_allowance();
	return r;
}

static int shim_do_destroy(char **argv, struct buf *out UNUSED, struct warren_error *err)
{
	json_t *doc = NULL;
	int r = shim_sandbox_open(argv[0], &doc, err);

	return r < 0 ? r : shim_sandbox_unmake(err);
}

static int shim_set_paused(char **argv, bool paused, struct warren_error *err)
{
	json_t *doc = NULL;
	int r = shim_sandbox_open(argv[0], &doc, err);

	if (r < 0)
		return r;
	return this_sandbox.driver->pause
		       ? this_sandbox.driver->pause(&this_sandbox, paused, err)
		       : shim_cannot("pausing", err);
}

static int shim_do_pause(char **argv, struct buf *out, struct warren_error *err)
{
	int r = shim_set_paused(argv, true, err);

	if (r < 0 && this_sandbox.unchanged)
		buf_puts(out, PROTO_UNCHANGED);
	return r;
}

static int do_resume(char **argv, struct buf *out UNUSED, struct warren_error *err)
{
	return shim_set_paused(argv, false, err);
}

static int shim_do_stats(char **argv, struct buf *out, struct warren_error *err)
{
	struct warren_stats stats = { 0 };
	json_t *doc = NULL;
	int r = shim_sandbox_open(argv[0], &doc, err);

	if (r < 0)
		return r;
	r = this_sandbox.driver->stats
		    ? this_sandbox.driver->stats(&this_sandbox, &stats, err)
		    : shim_cannot("reading statistics", err);
	buf_add(out, &stats, sizeof(stats));
	return r;
}

static int shim_do_update(char **argv, struct buf *out UNUSED, struct warren_error *err)
{
	struct warren_limits l = { 0 };
	json_t *doc = NULL;
	int r = shim_sandbox_open(argv[0], &doc, err);

	for (size_t i = 0; r == 0 && i < SPEC_LIVE_MAX; i++) {
		uint64_t value = 0;

		r = argv[1 + i] ? parse_u64(argv[1 + i], UINT64_MAX, &value, err)
				: error_set(err, EINVAL, "a limit is missing");
		spec_live_set(&l, i, value);
	}
	if (r < 0)
		return r;
	return this_sandbox.driver->update
		       ? this_sandbox.driver->update(&this_sandbox, &l, err)
		       : shim_cannot("changing limits", err);
}

static int shim_do_capture(char **argv, struct buf *out UNUSED, struct warren_error *err)
{
	struct capture c = CAPTURE_INIT;
	AUTO_CLOSE int ns = -1;
	json_t *doc = NULL;
	int r = shim_sandbox_open(argv[0], &doc, err);

	if (r == 0)
		r = this_sandbox.driver->network
			    ? this_sandbox.driver->network(&this_sandbox, &ns, err)
			    : shim_cannot("a network policy", err);
	if (r == 0)
		r = capture_open(ns, &c, err);
	if (r < 0)
		return r;
	r = fd_send(FD_EXTRA, "", 1, (const int[]){ c.tcp, c.udp }, 2);
	capture_done(&c);
	return r < 0 ? error_errno(err, -r, "pass on the sockets") : 0;
}

static int shim_do_trust(char **argv, struct buf *out UNUSED, struct warren_error *err)
{
	AUTO_CLOSE int ns = -1;
	json_t *doc = NULL;
	int r = shim_sandbox_open(argv[0], &doc, err);

	if (r == 0)
		r = this_sandbox.driver->mounts
			    ? this_sandbox.driver->mounts(&this_sandbox, &ns, err)
			    : shim_cannot("adding certificates", err);
	return r < 0 ? r : ca_mount(ns, CLONE_NEWNS, FD_EXTRA, err);
}

static json_t *feature_json(const struct warren_feature *f)
{
	return json_pack("{s:s, s:b, s:b, s:s, s:s?, s:s?}", "name", f->name, "ok", f->ok,
			 "required", f->required, "detail", f->detail, "effect",
			 f->effect, "fix", f->fix);
}

/* Read the configuration from stdin; empty input is an empty configuration. */
static int shim_read_config(json_t **ret, struct warren_error *err)
{
	AUTO_FREE char *text = malloc(CONFIG_MAX);
	json_error_t why;
	ssize_t n = text ? fd_read_all(0, text, CONFIG_MAX) : -ENOMEM;

	if (n < 0)
		return error_errno(err, (int)-n, "read the configuration");
	*ret = n == 0 ? json_object()
		      : json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &why);
	if (!*ret || !json_is_object(*ret))
		return error_set(err, EINVAL,
				 "the configuration is not a JSON object: %s",
				 *ret ? "something else" : why.text);
	return 0;
}

static struct warren_feature features[PROBES_MAX];

/* Has the platform itself reported this feature? */
static bool has_feature(const char *name, int n)
{
	for (int i = 0; i < n; i++)
		if (strcmp(features[i].name, name) == 0)
			return true;
	return false;
}

/* Add the optional features of the driver. A request for a feature that is missing is
 * refused with its name. */
static int add_abilities(const struct shim_driver *p, int n)
{
	const struct warren_feature abilities[] = {
		{ .name = "pause",
		  .ok = p->pause,
		  .effect = "a sandbox cannot be paused" },
		{ .name = "checkpoint",
		  .ok = p->save,
		  .effect = "the processes of a sandbox cannot be saved" },
		{ .name = "hibernate",
		  .ok = p->kind->hibernates,
		  .effect = "a sandbox cannot hibernate" },
		{ .name = "statistics",
		  .ok = p->stats,
		  .effect = "the resource usage of a sandbox is not reported" },
		{ .name = "update",
		  .ok = p->update,
		  .effect = "limits cannot change after creation" },
		{ .name = "policies",
		  .ok = p->network,
		  .effect = "a sandbox cannot have a network policy" },
		{ .name = "watch", .effect = "file changes are not reported" },
		{ .name = "accounts",
		  .effect = "the resource usage of an exec is not reported" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(abilities) && (size_t)n < ARRAY_SIZE(features);
	     i++) {
		if (has_feature(abilities[i].name, n))
			continue;
		features[n] = abilities[i];
		if (features[n].ok)
			features[n].effect = NULL;
		(void)snprintf(features[n].detail, sizeof(features[n].detail), "%s",
			       features[n].ok ? "by the backend" : "not supported");
		n++;
	}
	return n;
}

/* Return the number of features, or -errno; their texts may point into @ret_config. */
static int shim_look(const char *kind, json_t **ret_config, struct warren_error *err)
{
	const struct shim_driver *p = shim_driver_find(kind, err);
	const char *name;
	int r;

	if (!p)
		return -err->code;
	r = shim_read_config(ret_config, err);
	if (r < 0)
		return r;
	this_sandbox.driver = p;
	this_sandbox.config = *ret_config;
	tell_allowance();
	name = json_string_value(json_object_get(*ret_config, "name"));
	r = p->probe(name ? name : p->kind->name, *ret_config, features,
		     ARRAY_SIZE(features), err);
	return r < 0 ? r : add_abilities(p, r);
}

/* Print JSON, for other programs. */
static int shim_do_probe(char **argv, struct buf *out, struct warren_error *err)
{
	json_t *config = NULL, *list = json_array();
	int n = shim_look(argv[0], &config, err);
	char *text;

	for (int i = 0; i < n; i++)
		(void)json_array_append_new(list, feature_json(&features[i]));
	text = n < 0 ? NULL : json_dumps(list, JSON_COMPACT);
	if (text)
		buf_puts(out, text);
	free(text);
	json_decref(list);
	json_decref(config);
	return n < 0 ? n : 0;
}

static void shim_put_word(struct buf *out, const char *word)
{
	buf_add(out, word ? word : "", word ? strlen(word) + 1 : 1);
}

/*
 * Print six words for each feature, with NUL terminators, for libwarren, which does not
 * parse JSON.
 */
static int do_features(char **argv, struct buf *out, struct warren_error *err)
{
	json_t *config = NULL;
	int n = shim_look(argv[0], &config, err);

	for (int i = 0; i < n; i++) {
		const struct warren_feature *f = &features[i];

		shim_put_word(out, f->name);
		shim_put_word(out, f->ok ? "1" : "0");
		shim_put_word(out, f->required ? "1" : "0");
		shim_put_word(out, f->detail);
		shim_put_word(out, f->effect);
		shim_put_word(out, f->fix);
	}
	json_decref(config);
	return n < 0 ? n : 0;
}

static int shim_main_pull(char **argv, bool missing, struct warren_error *err)
{
	const struct shim_driver *p = shim_driver_find(argv[0], err);
	json_t *config = NULL;
	int r = !p        ? -err->code
		: argv[1] ? shim_read_config(&config, err)
			  : error_set(err, EINVAL, "no image is given");

	if (r == 0)
		r = shim_pull(p, config, argv[1], missing, err);
	shim_pull_end(r, err);
	json_decref(config);
	return 0; /* the last line of the output has reported the result */
}

static int do_pull(char **argv, struct buf *out UNUSED, struct warren_error *err)
{
	return shim_main_pull(argv, false, err);
}

static int do_pull_missing(char **argv, struct buf *out UNUSED, struct warren_error *err)
{
	return shim_main_pull(argv, true, err);
}

static const struct verb {
	const char *name;
	int (*run)(char **argv, struct buf *out, struct warren_error *err);
} verbs[] = {
	{ "destroy", shim_do_destroy },
	{ "pause", shim_do_pause },
	{ "resume", do_resume },
	{ "stats", shim_do_stats },
	{ "update", shim_do_update },
	{ "capture", shim_do_capture },
	{ "trust", shim_do_trust },
	{ "probe", shim_do_probe },
	{ "features", do_features },
	{ "pull", do_pull },
	{ "pull-missing", do_pull_missing },
};

/* Report to libwarren if it started this process, otherwise to the user. */
static int shim_tell(const struct warren_error *err, const struct buf *out, int r)
{
	if (fcntl(FD_WORD, F_GETFD) >= 0) {
		tell_allowance();
		(void)fd_write_all(FD_WORD, err, sizeof(*err));
		(void)fd_write_all(FD_WORD, out->data, out->len);
	} else if (r < 0) {
		(void)fprintf(stderr, "warren-shim: %s\n", err->msg);
	} else if (out->len > 0) {
		(void)fd_write_all(1, out->data, out->len);
	}
	return r < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_BUF struct buf out = BUF_INIT(CONFIG_MAX);
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGIO, SIG_IGN); /* leases send this signal, but are only queried
					 (file_copy.c) */
	(void)getrlimit(RLIMIT_NOFILE, &child_nofile);
	if (argc == 3 && strcmp(argv[1], "run") == 0)
		return shim_run(argv[2], &err) < 0;
	for (size_t i = 0; argc > 2 && i < ARRAY_SIZE(verbs); i++) {
		if (strcmp(argv[1], verbs[i].name) != 0)
			continue;
		r = verbs[i].run(argv + 2, &out, &err);
		return shim_tell(&err, &out, r);
	}
	(void)fprintf(stderr, "warren-shim: libwarren starts this program; do not "
			      "start it yourself\n");
	return 2;
}
