/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docker_drive.c - call the docker driver directly, one operation for each run, for
 * test-docker.py
 *
 *	docker_drive ID DIR CONFIG create SPEC	both JSON; prints what is enforced
 *	docker_drive ID DIR CONFIG exec [-i] [-t] [-u USER] [-w DIR] [-e VAR]... --
 *		ARGV...
 *	docker_drive ID DIR CONFIG destroy | wait | pause | resume | stats | probe
 *	docker_drive ID DIR CONFIG update MEMORY CPU_MILLIS PIDS
 *	docker_drive ID DIR CONFIG read PATH OFFSET SIZE	to stdout
 *	docker_drive ID DIR CONFIG write PATH SIZE MODE UID GID	from stdin
 *
 * It replaces the shim: an error is printed on stderr as "CODE message", with exit status
 * 125, or 126 for a create() that may have left something; the outcome of an exec is
 * printed on stderr as "outcome VERDICT CODE message", unless it exited.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/errno_names.h"
#include "shim/docker/docker.h"

static struct shim_sandbox this_sandbox = {
	.machine = -1, .memory = -1, .within = -1, .first = -1
};
static json_t *config;

void shim_sandbox_enforce(struct shim_sandbox *p, const char *name, bool enforced,
			  const char *fmt, ...)
{
	struct warren_enforcement *e = &p->enforced[p->n_enforced++];
	va_list ap;

	e->name = name;
	e->enforced = enforced;
	va_start(ap, fmt);
	(void)vsnprintf(e->detail, sizeof(e->detail), fmt, ap);
	va_end(ap);
}

void shim_sandbox_exit(const struct shim_exec *e UNUSED, const struct shim_outcome *o)
{
	if (o->verdict == SHIM_EXITED)
		_exit(o->code);
	(void)fprintf(stderr, "outcome %s %d %s\n",
		      o->verdict == SHIM_SIGNALED ? "signal"
		      : o->verdict == SHIM_LOST   ? "lost"
						  : "not-started",
		      o->code, o->err.msg);
	(void)fflush(stderr);
	_exit(o->verdict == SHIM_NOT_STARTED ? 126 : 128 + o->code);
}

static int fail(const struct warren_error *err)
{
	(void)fprintf(stderr, "%s %s\n", errno_name(err->code), err->msg);
	return 125;
}

static const char *text(const json_t *doc, const char *key)
{
	return json_string_value(json_object_get(doc, key));
}

static uint64_t number(const json_t *doc, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(doc, key));
}

static int create(const json_t *doc)
{
	json_t *list = json_object_get(doc, "mounts"), *v;
	struct warren_mount mounts[8] = { 0 };
	const char *env[16] = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_spec spec = {
		.image = text(doc, "image"),
		.hostname = text(doc, "hostname"),
		.user = text(doc, "user"),
		.workdir = text(doc, "workdir"),
		.memory = number(doc, "memory"),
		.cpu_millis = number(doc, "cpu_millis"),
		.pids = number(doc, "pids"),
		.disk = number(doc, "disk"),
		.nofile = number(doc, "nofile"),
		.soft_limits = (uint32_t)number(doc, "soft_limits"),
		.network = (enum warren_network)number(doc, "network"),
		.read_only = json_is_true(json_object_get(doc, "read_only")),
		.mounts = mounts,
		.n_mounts = json_array_size(list),
		.env = env,
	};
	size_t i;

	json_array_foreach(list, i, v) mounts[i] = (struct warren_mount){
		.source = text(v, "source"),
		.target = text(v, "target"),
		.size = number(v, "size"),
		.read_only = json_is_true(json_object_get(v, "read_only")),
		.source_fd = text(v, "judged") ? open(text(v, "judged"), O_PATH) : 0,
	};
	json_array_foreach(json_object_get(doc, "env"), i, v) env[i] =
		json_string_value(v);
	(void)mkdir(this_sandbox.dir, 0755);
	if (shim_driver_docker.create(&this_sandbox, &spec, &err) < 0)
		return fail(&err) + (this_sandbox.clean ? 0 : 1);
	for (i = 0; i < this_sandbox.n_enforced; i++)
		(void)printf("%s %d %s\n", this_sandbox.enforced[i].name,
			     this_sandbox.enforced[i].enforced,
			     this_sandbox.enforced[i].detail);
	return 0;
}

static int do_create(char **argv)
{
	json_t *doc = json_loads(argv[0], 0, NULL);
	int r = create(doc);

	json_decref(doc);
	return r;
}

static int do_exec(char **argv)
{
	const char *env[16] = { 0 };
	size_t n_env = 0;
	struct shim_exec e = { .env = env, .outcome_fd = -1 };

	for (; *argv && strcmp(*argv, "--") != 0; argv++) {
		if (strcmp(*argv, "-i") == 0)
			e.stdin_open = true;
		else if (strcmp(*argv, "-t") == 0)
			e.pty = true;
		else if (strcmp(*argv, "-u") == 0)
			e.user = *++argv;
		else if (strcmp(*argv, "-w") == 0)
			e.cwd = *++argv;
		else if (strcmp(*argv, "-e") == 0)
			env[n_env++] = *++argv;
	}
	e.argv = (const char *const *)argv + 1;
	shim_driver_docker.exec(&this_sandbox, &e);
	return 0;
}

static int end(int r, const struct warren_error *err)
{
	return r < 0 ? fail(err) : 0;
}

static int do_destroy(char **argv UNUSED)
{
	struct warren_error err = WARREN_ERROR_INIT;

	return end(shim_driver_docker.destroy(&this_sandbox, &err), &err);
}

static int do_wait(char **argv UNUSED)
{
	struct warren_error err = WARREN_ERROR_INIT;

	return end(shim_driver_docker.wait(&this_sandbox, &err), &err);
}

static int do_pause(char **argv UNUSED)
{
	struct warren_error err = WARREN_ERROR_INIT;

	return end(shim_driver_docker.pause(&this_sandbox, true, &err), &err);
}

static int do_resume(char **argv UNUSED)
{
	struct warren_error err = WARREN_ERROR_INIT;

	return end(shim_driver_docker.pause(&this_sandbox, false, &err), &err);
}

static int do_stats(char **argv UNUSED)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_stats s = { 0 };
	int r = shim_driver_docker.stats(&this_sandbox, &s, &err);

	if (r == 0)
		(void)printf("%ju %ju %ju %ju %ju\n", (uintmax_t)s.memory,
			     (uintmax_t)s.memory_peak, (uintmax_t)s.cpu_usec,
			     (uintmax_t)s.pids, (uintmax_t)s.oom_kills);
	return end(r, &err);
}

static int do_update(char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	const struct warren_limits l = { .memory = strtoull(argv[0], NULL, 10),
					 .cpu_millis = strtoull(argv[1], NULL, 10),
					 .pids = strtoull(argv[2], NULL, 10) };

	return end(shim_driver_docker.update(&this_sandbox, &l, &err), &err);
}

static int do_probe(char **argv UNUSED)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_feature f[32];
	int n = shim_driver_docker.probe(this_sandbox.name, this_sandbox.config, f,
					 ARRAY_SIZE(f), &err);

	for (int i = 0; i < n; i++)
		(void)printf("%s|%d|%s|%s|%s\n", f[i].name, f[i].ok, f[i].detail,
			     f[i].effect ? f[i].effect : "", f[i].fix ? f[i].fix : "");
	return end(n, &err);
}

static int do_read(char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;

	return end(shim_driver_docker.read_file(
			   &this_sandbox, argv[0], strtoull(argv[1], NULL, 10),
			   strtoull(argv[2], NULL, 10), STDOUT_FILENO, &err),
		   &err);
}

static int do_write(char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;

	return end(shim_driver_docker.write_file(&this_sandbox, argv[0], STDIN_FILENO,
						 strtoull(argv[1], NULL, 10),
						 (uint32_t)strtoul(argv[2], NULL, 8),
						 (uint32_t)strtoul(argv[3], NULL, 10),
						 (uint32_t)strtoul(argv[4], NULL, 10),
						 &err),
		   &err);
}

static const struct verb {
	const char *name;
	int (*run)(char **argv);
	int least; /* arguments */
} verbs[] = {
	{ "create", do_create, 1 }, { "destroy", do_destroy, 0 },
	{ "exec", do_exec, 2 },     { "pause", do_pause, 0 },
	{ "probe", do_probe, 0 },   { "read", do_read, 3 },
	{ "resume", do_resume, 0 }, { "stats", do_stats, 0 },
	{ "update", do_update, 3 }, { "wait", do_wait, 0 },
	{ "write", do_write, 5 },
};

int main(int argc, char **argv)
{
	int r = 2;

	if (argc < 5 || !id_valid(argv[1]) ||
	    strlen(argv[2]) + ID_LEN + 2 > sizeof(this_sandbox.dir))
		return 2;
	config = json_loads(argv[3], 0, NULL);
	this_sandbox =
		(struct shim_sandbox){ .driver = &shim_driver_docker,
				       .within = -1,
				       .name = "docker",
				       .config = config,
				       .machine = open("/proc",
						       O_PATH | O_DIRECTORY | O_CLOEXEC),
				       .memory = -1,
				       .first = -1 };
	(void)strcpy(this_sandbox.id, argv[1]);
	(void)snprintf(this_sandbox.dir, sizeof(this_sandbox.dir), "%s/%s", argv[2],
		       argv[1]);
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strcmp(verbs[i].name, argv[4]) == 0 && argc >= 5 + verbs[i].least)
			r = verbs[i].run(argv + 5);
	json_decref(config);
	return r;
}
