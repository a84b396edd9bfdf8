/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-shimmed.c - sandboxes with a shim: the death of the shim, failures of its tools,
 * and the end of its engine
 *
 * The tools are shell commands on this machine: `create` makes a file named by the
 * sandbox's id, `destroy` removes it. So leftovers on the platform are visible.
 */
#include <pthread.h>

#include "lib/durable-sandbox.h"

/* Return the configuration with a directory for these files, after the settings @more. */
static char *settings(const char *more)
{
	char *text = NULL;

	OK(asprintf(
		   &text,
		   "{%s \"name\": \"toy\","
		   " \"create\": [\"sh\", \"-c\", \"exec touch \\\"$0\\\"\", \"%s/{id}.made\"],"
		   " \"exec\": [\"{argv}\"],"
		   " \"destroy\": [\"rm\", \"-f\", \"%s/{id}.made\"]}",
		   more, sandbox_dir, sandbox_dir) > 0);
	return text;
}

static int open_kept(const char *name, const char *config, struct warren **ret,
		     struct warren_error *err)
{
	AUTO_FREE char *state = sandbox_path("state"), *run = sandbox_path("run");
	struct warren_options options = { .backend = "command",
					  .backend_config = config,
					  .state_dir = state,
					  .run_dir = run,
					  .engine_name = name };

	(void)alarm(SECONDS);
	return warren_open(&options, ret, err);
}

static struct warren *kept_engine(const char *name)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = NULL;

	GOOD(open_kept(name, settings(""), &w, &err));
	return w;
}

/* Return the number of names in the directory that end in @end; "": all. */
static size_t count_names(const char *folder, const char *end)
{
	AUTO_FREE char *path = sandbox_path("%s", folder);
	DIR *d = opendir(path);
	size_t n = 0, len = strlen(end);

	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		size_t has = strlen(e->d_name);

		n += e->d_name[0] != '.' && has >= len &&
		     strcmp(e->d_name + has - len, end) == 0;
	}
	if (d)
		(void)closedir(d);
	return n;
}

/* Count the directories of engines without a name, which are removed with their
 * engines. */
static size_t count_unnamed(void)
{
	AUTO_FREE char *path = sandbox_path("run/kept");
	DIR *d = opendir(path);
	size_t n = 0;

	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		const char *dot = strchr(e->d_name, '.');

		n += dot && id_valid(dot + 1);
	}
	if (d)
		(void)closedir(d);
	return n;
}

/* Check that nothing is left of any sandbox: no file of the tools or of Warren, and no
 * shim. */
static void nothing_left(const char *engine)
{
	AUTO_FREE char *folder = NULL;

	OK(asprintf(&folder, "run/kept/command.%s", engine) > 0);
	EQ(count_names("", ".made"), 0);
	EQ(count_names("run/boxes", ""), 0);
	OK(count_names(folder, "") <= 1); /* the lock */
}

/*
 * Count the processes with our directory in their arguments, except this one: shims and
 * their children.
 */
static size_t count_shims(void)
{
	DIR *d = opendir("/proc");
	size_t n = 0;

	OK(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		char path[300], text[4096];
		ssize_t size;
		int fd;

		(void)snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		size = fd < 0 ? -1 : read(fd, text, sizeof(text));
		n += size > 0 &&
		     memmem(text, (size_t)size, sandbox_dir, strlen(sandbox_dir));
		if (fd >= 0)
			(void)close(fd);
	}
	(void)closedir(d);
	return n;
}

/* ----------------------------------------------------------- creation and destruction */

TEST(the_configured_tools_create_and_destroy_a_sandbox)
{
	struct warren *w = kept_engine(NULL);
	struct warren_sandbox *sb = sandbox_make(w, NULL);

	EQ(count_names("", ".made"), 1);
	STREQ(sandbox_says(sb, "echo hello"), "hello");
	sandbox_destroy(sb);
	EQ(count_names("", ".made"), 0);
	w = warren_close(w);
	EQ(count_unnamed(), 0);
	EQ(count_names("run/boxes", ""), 0);
}

TEST(closing_an_engine_destroys_its_sandboxes)
{
	struct warren *w = kept_engine(NULL);

	(void)sandbox_make(w, NULL);
	(void)sandbox_make(w, NULL);
	EQ(count_names("", ".made"), 2);
	w = warren_close(w);
	EQ(count_names("", ".made"), 0);
	EQ(count_unnamed(), 0);
}

TEST(a_durable_sandbox_and_its_execs_outlive_the_engine)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = kept_engine("stays");
	struct warren_sandbox *sb = make_durable(w);
	struct warren_exec_spec spec = { .argv = SH("read x; echo \"got $x\"; exit 7"),
					 .in = WARREN_STDIO_PIPE,
					 .out = WARREN_STDIO_JOURNAL,
					 .err = WARREN_STDIO_JOURNAL,
					 .journal_fd = journal_file("journal") };
	struct warren_exec *ex = sandbox_start(sb, &spec);
	uint32_t number = warren_exec_number(ex);
	char id[ID_LEN + 1];
	struct heard h = { 0 };

	(void)strcpy(id, warren_id(sb));
	ex = warren_exec_free(ex);
	w = warren_close(w);

	w = kept_engine("stays");
	EQ(count_durable(w, id), 1);
	sb = adopt(w, id);
	GOOD(warren_exec_attach(sb, number, spec.journal_fd, &ex, &err));
	EQ(write(warren_exec_fd(ex, 0), "it\n", 3), 3);
	EQ(sandbox_wait(ex).exit_code, 7);
	OK(hear(ex, &h));
	STREQ(h.text[1], "got it\n");
	ex = warren_exec_free(ex);
	sandbox_destroy(sb);
	nothing_left("stays");
	w = warren_close(w);
}

/* ----------------------------------------------------------------- deaths of the shim */

static void die_with_one(void)
{
	struct warren *w = kept_engine(NULL);

	(void)sandbox_make(w, NULL);
}

TEST(an_engine_removes_the_leftovers_of_a_killed_engine)
{
	struct warren *w;

	killed_after(die_with_one);
	/*
	 * The shim notices the end of its connection, and destroys the sandbox by itself.
	 */
	for (int i = 0; i < SANDBOX_TRIES && count_names("", ".made") > 0; i++)
		sandbox_nap();
	EQ(count_names("", ".made"), 0);
	w = kept_engine(NULL);
	w = warren_close(w);
	EQ(count_unnamed(), 0);
	EQ(count_names("run/boxes", ""), 0);
	for (int i = 0; i < SANDBOX_TRIES && count_shims() > 0; i++)
		bury();
	EQ(count_shims(), 0);
}

TEST(a_killed_shim_ends_its_sandbox_and_leaves_nothing_behind)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = kept_engine("mortal");
	struct warren_sandbox *sb = make_durable(w), *again = NULL;
	struct warren_exec_spec spec = { .argv = ARGV("sleep", "300") };
	struct warren_exec *ex = sandbox_start(sb, &spec);
	struct warren_result res;
	char id[ID_LEN + 1];

	(void)strcpy(id, warren_id(sb));
	OK(count_shims() > 0); /* the control */
	EQ(kill(init_pid(sb), SIGKILL), 0);
	OK(warren_exec_wait(ex, -1, &res, &err) < 0);
	err = (struct warren_error)WARREN_ERROR_INIT;
	ex = warren_exec_free(ex);
	(void)warren_release(sb);
	EQ(count_names("", ".made"), 1);
	EQ(warren_adopt(w, id, &again, &err), -ESRCH);
	nothing_left("mortal");
	EQ(warren_adopt(w, id, &again, &err), -ENOENT);
	w = warren_close(w);
	for (int i = 0; i < SANDBOX_TRIES && count_shims() > 0; i++)
		bury();
	EQ(count_shims(), 0);
}

TEST(a_shim_that_died_without_a_client_is_cleaned_up)
{
	struct warren *w = kept_engine("swept");
	struct warren_sandbox *sb = make_durable(w);
	pid_t pid = init_pid(sb);
	char id[ID_LEN + 1] = "";

	w = warren_close(w);
	EQ(count_names("", ".made"), 1);
	EQ(kill(pid, SIGKILL), 0);
	bury();
	w = kept_engine("swept");
	nothing_left("swept");
	EQ(count_durable(w, id), 0);
	w = warren_close(w);
}

/* ------------------------------------------------------------------- tools that fail */

static int try_create(const char *config, struct warren_error *err)
{
	struct warren *w = NULL;
	struct warren_sandbox *sb = NULL;
	struct warren_error opened = WARREN_ERROR_INIT;
	int r = open_kept(NULL, config, &w, &opened);

	if (r < 0)
		TAP_FAIL("%s", opened.msg);
	r = warren_create(w, &(struct warren_spec){ 0 }, &sb, err);
	if (r == 0)
		sandbox_destroy(sb);
	w = warren_close(w);
	EQ(count_unnamed(), 0);
	EQ(count_names("run/boxes", ""), 0);
	return r;
}

TEST(the_error_of_a_tool_contains_the_step_and_its_message)
{
	static const struct {
		const char *config, *says;
		int code;
	} cases[] = {
		{ "{\"name\": \"toy\", \"exec\": [\"{argv}\"],"
		  " \"create\": [\"sh\", \"-c\", \"echo no such thing >&2; exit 3\"]}",
		  "toy: create: 'sh' failed: no such thing", EREMOTEIO },
		{ "{\"name\": \"toy\", \"exec\": [\"{argv}\"],"
		  " \"create\": [\"/no/such/tool\"]}",
		  "toy: create: '/no/such/tool'", EREMOTEIO },
		{ "{\"name\": \"toy\", \"exec\": [\"{argv}\"],"
		  " \"create\": [\"sleep\", \"1000\"], \"timeout\": 1}",
		  "toy: create: 'sleep' did not end within 1 seconds", ETIMEDOUT },
		{ "{\"name\": \"toy\", \"exec\": [\"sleep\", \"1000\", \"{argv}\"],"
		  " \"timeout\": 1}",
		  "toy: exec: ", EREMOTEIO },
		{ "{\"name\": \"toy\", \"exec\": [\"sh\", \"-c\", \"sleep 1000\","
		  " \"{argv}\"], \"timeout\": 1}",
		  "toy: exec: nothing inside answered within 1 seconds", ETIMEDOUT },
		{ "{\"name\": \"toy\", \"exec\": [\"false\", \"{argv}\"]}",
		  "toy: exec: nothing inside answers", EREMOTEIO },
		{ "{\"name\": \"toy\", \"exec\": [\"sh\"]}", "toy: exec: ", EREMOTEIO },
		{ "{\"name\": \"toy\"}", "toy: there is no template for exec", EINVAL },
		{ "{\"name\": \"toy\", \"exec\": [\"{argv}\"],"
		  " \"create\": [\"true\", \"{ide}\"]}",
		  "toy: create: '{ide}': this {word} is not known", EINVAL },
		{ "{\"name\": \"toy\", \"exec\": [\"{argv}\"],"
		  " \"create\": [\"true\", \"{image\"]}",
		  "toy: create: '{image'", EINVAL },
		{ "{\"name\": \"toy\", \"exec\": [\"{argv}\"], \"create\": [3]}",
		  "toy: create: ", EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct warren_error err = WARREN_ERROR_INIT;
		int r = try_create(cases[i].config, &err);

		if (r != -cases[i].code || !strstr(err.msg, cases[i].says))
			TAP_FAIL("%s: %d: %s", cases[i].config, r, err.msg);
	}
	/* The control: the same without a fault. */
	EQ(try_create("{\"name\": \"toy\", \"exec\": [\"{argv}\"],"
		      " \"create\": [\"true\", \"{id}\", \"{{\"]}",
		      &(struct warren_error)WARREN_ERROR_INIT),
	   0);
}

TEST(destroying_a_sandbox_is_retried_after_a_failure)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_FREE char *flag = sandbox_path("stuck"), *config = NULL;
	struct warren *w = NULL;

	OK(asprintf(&config,
		    "{\"name\": \"toy\", \"exec\": [\"{argv}\"],"
		    " \"destroy\": [\"sh\", \"-c\", \"! test -e %s\"]}",
		    flag) > 0);
	sandbox_put(flag, "", 0600);
	GOOD(open_kept("stuck", config, &w, &err));
	EQ(warren_destroy(make_durable(w), &err), -EREMOTEIO);
	OK(strstr(err.msg, "toy: destroy: "));
	w = warren_close(w);
	EQ(count_names("run/kept/command.stuck", ""), 2);
	EQ(unlink(flag), 0);
	GOOD(open_kept("stuck", config, &w, &err));
	nothing_left("stuck");
	w = warren_close(w);
}

TEST(options_without_a_placeholder_are_refused_by_name)
{
	static const struct {
		struct warren_spec spec;
		const char *name;
	} cases[] = {
		{ { .memory = 1U << 30 }, "memory" },
		{ { .pids = 10 }, "pids" },
		{ { .read_only = true }, "read_only" },
		{ { .user = "1000" }, "user" },
	};
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = kept_engine(NULL);
	struct warren_sandbox *sb = NULL;
	struct warren_exec *ex = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		EQ(warren_create(w, &cases[i].spec, &sb, &err), -EOPNOTSUPP);
		OK(strstr(err.msg, cases[i].name) && strstr(err.msg, "toy"));
	}
	sb = sandbox_make(w, NULL);
	EQ(warren_exec(
		   sb,
		   &(struct warren_exec_spec){ .argv = ARGV("true"), .user = "12:34" },
		   &ex, &err),
	   -EOPNOTSUPP);
	OK(strstr(err.msg, "{user}"));
	sandbox_destroy(sb);
	w = warren_close(w);
	EQ(count_names("", ".made"), 0);
}

/* ----------------------------------------------------------------------------- files */

TEST(a_full_disk_inside_is_reported_to_the_writer)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = kept_engine(NULL);
	struct warren_sandbox *sb = sandbox_make(w, NULL);
	static char data[300000];

	/*
	 * /dev/full behaves like a full disk; a shell that cannot write reports it, too.
	 */
	OK(warren_file_write(sb, "/dev/full", data, sizeof(data), 0600, &err) < 0);
	EQ(sandbox_sh(sb, "mkdir -p /tmp/warren-full && mount -t tmpfs -o size=64k none"
			  " /tmp/warren-full")
		   .res.exit_code,
	   0);
	EQ(warren_file_write(sb, "/tmp/warren-full/large", data, sizeof(data), 0600,
			     &err),
	   -ENOSPC);
	EQ(sandbox_sh(sb, "rm /tmp/warren-full/large").res.exit_code, 0);
	EQ(warren_file_write(sb, "/tmp/warren-full/small", data, 4096, 0600, &err), 0);
	EQ(sandbox_sh(sb, "umount /tmp/warren-full && rmdir /tmp/warren-full")
		   .res.exit_code,
	   0);
	sandbox_destroy(sb);
	w = warren_close(w);
}

static void files_come_back(struct warren *w)
{
	static const size_t sizes[] = { 0,     1,     4095,   65535,  65536,
					65537, 98304, 262144, 3000000 };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_FREE char *path = sandbox_path("of all sizes '\n$x");
	struct warren_sandbox *sb = sandbox_make(w, NULL);

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		char *data = malloc(sizes[i] + 1), *back = NULL;
		size_t n = 0;

		OK(data);
		for (size_t k = 0; k < sizes[i]; k++)
			data[k] = (char)(k * 2654435761U >> 13);
		GOOD(warren_file_write(sb, path, data, sizes[i], 0640, &err));
		GOOD(warren_file_read(sb, path, 4U << 20, &back, &n, &err));
		EQ(n, sizes[i]);
		EQ(memcmp(data, back, n), 0);
		free(data);
		free(back);
	}
	sandbox_destroy(sb);
	w = warren_close(w);
}

TEST(files_of_all_sizes_are_copied_unchanged)
{
	files_come_back(kept_engine(NULL));
}

TEST(large_files_use_the_configured_tools)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = NULL;
	AUTO_FREE char *used = sandbox_path("used"), *more = NULL;
	struct stat st;

	OK(asprintf(&more,
		    "\"copy_out\": [\"sh\", \"-c\", \"echo out >>%s; cat \\\"$0\\\"\","
		    " \"{path}\"], \"copy_in\": [\"sh\", \"-c\","
		    " \"echo in >>%s; cat >\\\"$0\\\"\", \"{path}\"],",
		    used, used) > 0);
	GOOD(open_kept(NULL, settings(more), &w, &err));
	files_come_back(w);
	EQ(stat(used, &st), 0);
	EQ(st.st_size, 4 * (4 + 3)); /* four of the sizes are large */
}

/* -------------------------------------------------------------- killing all processes */

static bool starts_command(void)
{
	DIR *d = opendir("/proc");
	bool any = false;

	OK(d);
	for (struct dirent *e = readdir(d); e && !any; e = readdir(d)) {
		char path[300], text[32] = "";
		int fd;

		(void)snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
			any = strcmp(text, "warren-exec\n") == 0;
		if (fd >= 0)
			(void)close(fd);
	}
	(void)closedir(d);
	return any;
}

/* The killing goes on when the shim has got the request for a command. */
static void *release_killing(void *hold)
{
	for (int i = 0; i < SANDBOX_TRIES && !starts_command(); i++)
		sandbox_nap();
	(void)unlink(hold);
	return NULL;
}

/* The tool holds what kills all processes while a file exists; the log has the order. */
static char *settings_of_held_killing(void)
{
	char *text = NULL;

	OK(asprintf(&text,
		    "{\"name\": \"toy\", \"destroy\": [\"true\"], \"create\": [\"true\"],"
		    " \"exec\": [\"sh\", \"-c\", \"cd %s; case \\\"$*\\\" in"
		    " *alive*) echo command >>log;; *) if [ -e hold ]; then echo killing"
		    " >>log; while [ -e hold ]; do sleep 0.01; done; echo killed >>log;"
		    " fi;; esac;"
		    " exec \\\"$@\\\"\", \"sh\", \"{argv}\"]}",
		    sandbox_dir) > 0);
	return text;
}

TEST(a_command_that_starts_is_not_killed_with_those_before_it)
{
	AUTO_FREE char *hold = sandbox_path("hold"), *log = sandbox_path("log");
	struct warren_error err = WARREN_ERROR_INIT;
	struct init_reply a = { 0 };
	struct warren *w = NULL;
	struct warren_sandbox *sb;
	char text[64] = "";
	pthread_t releaser;
	int fd, killer;

	GOOD(open_kept("held", settings_of_held_killing(), &w, &err));
	sb = make_durable(w);
	(void)unlink(log);
	(void)close(journal_file("hold"));
	killer = dial_init(sb);
	SEND(killer, proto_signal, 1, .h.type = PROTO_SIGNAL, .sig = SIGKILL,
	     .whom = PROTO_WHOM_ALL);
	for (int i = 0; access(log, F_OK) < 0; i++, sandbox_nap())
		OK(i < SANDBOX_TRIES);
	EQ(pthread_create(&releaser, NULL, release_killing, hold), 0);
	STREQ(sandbox_says(sb, "echo alive"), "alive");
	EQ(pthread_join(releaser, NULL), 0);
	do
		EQ(next_message(killer, &a), 1);
	while (a.m.reply.status == -EINPROGRESS);
	EQ(a.m.reply.status, 0);
	fd = open(log, O_RDONLY | O_CLOEXEC);
	OK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	STREQ(text, "killing\nkilled\ncommand\n");
	(void)close(fd);
	(void)close(killer);
	sandbox_destroy(sb);
	w = warren_close(w);
}

TEST_MAIN()
