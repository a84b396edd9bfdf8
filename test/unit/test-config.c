/* SPDX-License-Identifier: Apache-2.0 */
/* test-config.c - unambiguous YAML, known keys, and safe listeners */
#include <errno.h>
#include <fcntl.h>

#include "base/fd.h"
#include "config/config.h"
#include "config/yaml.h"
#include "lib/tap.h"

static struct warren_error err;

/* -------------------------------------------------------------------- YAML */

static char *as_json(const char *text)
{
	AUTO_YAML struct yaml *y = NULL;

	if (yaml_load("f", text, strlen(text), &y, &err) < 0)
		TAP_FAIL("%s", err.msg);
	return json_dumps(yaml_root(y), JSON_COMPACT);
}

TEST(yaml_is_read_as_json)
{
	static const struct {
		const char *yaml, *json;
	} cases[] = {
		{ "", "{}" },
		{ "# nothing\n", "{}" },
		{ "---\n...\n", "{}" },
		{ "a: 1\nb: two\n", "{\"a\":1,\"b\":\"two\"}" },
		{ "a:\n  - 1\n  - x: y\n    z: [1, 'q']\n",
		  "{\"a\":[1,{\"x\":\"y\",\"z\":[1,\"q\"]}]}" },
		{ "a: true\nb: false\nc: null\nd: ~\ne:\n",
		  "{\"a\":true,\"b\":false,\"c\":null,\"d\":null,\"e\":null}" },
		/* Values that other parsers interpret differently are plain strings. */
		{ "a: yes\nb: No\nc: on\nd: True\n",
		  "{\"a\":\"yes\",\"b\":\"No\",\"c\":\"on\",\"d\":\"True\"}" },
		{ "a: 0755\nb: 0x1f\nc: 1_000\nd: 12:30:45\ne: +1\nf: .5\ng: 1.\n",
		  "{\"a\":\"0755\",\"b\":\"0x1f\",\"c\":\"1_000\",\"d\":\"12:30:45\","
		  "\"e\":\"+1\",\"f\":\".5\",\"g\":\"1.\"}" },
		{ "a: -0\nb: 1.5\nc: 9223372036854775807\nd: -9223372036854775808\n",
		  "{\"a\":0,\"b\":1.5,\"c\":9223372036854775807,\"d\":-9223372036854775808}" },
		{ "a: '1'\nb: \"true\"\nc: 'it''s'\n",
		  "{\"a\":\"1\",\"b\":\"true\",\"c\":\"it's\"}" },
		{ "a: |\n  two\n  lines\nb: >-\n  one\n  line\n",
		  "{\"a\":\"two\\nlines\\n\",\"b\":\"one line\"}" },
		{ "{\"a\": {\"b\": []}}", "{\"a\":{\"b\":[]}}" },
		{ "1: x\ntrue: y\n", "{\"1\":\"x\",\"true\":\"y\"}" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *got = as_json(cases[i].yaml);

		STREQ(got, cases[i].json);
	}
}

TEST(ambiguous_yaml_is_refused_with_its_line)
{
	static const struct {
		const char *yaml, *error;
	} cases[] = {
		{ "a: 1\nb: 2\na: 3\n", "f:3: 'a' is given twice" },
		{ "a:\n  x: 1\n  x: 2\n", "f:3: 'x' is given twice" },
		{ "a: &n 1\n", "f:1: anchors" },
		{ "a: 1\nb: &n [1]\n", "f:2: anchors" },
		{ "a: &n {x: 1}\nb: *n\n", "f:1: anchors" },
		{ "a: 1\nb: *n\n", "f:2: aliases" },
		{ "a:\n  <<: {b: 1}\n", "f:2: merging" },
		{ "a: !!str 1\n", "f:1: anchors and tags" },
		{ "a: !x [1]\n", "f:1: anchors and tags" },
		{ "a: !!python/object:os.system {}\n", "f:1: anchors and tags" },
		{ "a: 1\n---\nb: 2\n", "f:2: a second document" },
		{ "? [a]\n: 1\n", "f:1: a key must be" },
		{ "- 1\n", "f:1: this is not" },
		{ "just words\n", "f:1: this is not" },
		{ "a: 9223372036854775808\n", "f:1: the number" },
		{ "a: 1e999\n", "f:1: the number" },
		{ "a: \"x\\0y\"\n", "f:1: a string must not contain a NUL" },
		{ "a: [1\nb: 2\n", "f:2:" },
		{ "a: 1\n\tb: 2\n", "f:2:" },
		{ "a: \"\xff\"\n", "f: " },
		{ "a: @x\n", "f:1:" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_YAML struct yaml *y = NULL;
		int r = yaml_load("f", cases[i].yaml, strlen(cases[i].yaml), &y, &err);

		if (r != -EINVAL ||
		    strncmp(err.msg, cases[i].error, strlen(cases[i].error)) != 0)
			TAP_FAIL("%s: %d, %s", cases[i].yaml, r, err.msg);
		OK(!y);
	}
}

TEST(yaml_has_limits)
{
	AUTO_FREE char *text = malloc(YAML_SIZE_MAX + 2);
	AUTO_YAML struct yaml *y = NULL;
	char *p = text;

	(void)memset(text, '[', 100000);
	EQ(yaml_load("f", text, 100000, &y, &err), -EINVAL);
	OK(strstr(err.msg, "too deeply"));
	p = stpcpy(p, "a: ");
	for (int i = 0; i < 31; i++)
		*p++ = '[';
	for (int i = 0; i < 31; i++)
		*p++ = ']';
	EQ(yaml_load("f", text, (size_t)(p - text), &y, &err), 0);
	y = yaml_free(y);
	p = stpcpy(text, "a:\n");
	for (int i = 0; i < 65540; i++)
		p = stpcpy(p, "- 1\n");
	EQ(yaml_load("f", text, (size_t)(p - text), &y, &err), -EINVAL);
	OK(strstr(err.msg, "too many values"));
	(void)memset(text, '#', YAML_SIZE_MAX + 1);
	EQ(yaml_load("f", text, YAML_SIZE_MAX + 1, &y, &err), -EFBIG);
	EQ(yaml_load("f", text, YAML_SIZE_MAX, &y, &err), 0);
}

TEST(parsed_yaml_keeps_line_numbers)
{
	static const char text[] =
		"a: 1\n\nb:\n  - true\n  - true\n  - c: null\n    d: true\n";
	AUTO_YAML struct yaml *y = NULL;
	const json_t *list, *inner;

	EQ(yaml_load("f", text, strlen(text), &y, &err), 0);
	list = json_object_get(yaml_root(y), "b");
	inner = json_array_get(list, 2);
	EQ(yaml_line(y, yaml_root(y), "a", 0), 1);
	EQ(yaml_line(y, yaml_root(y), "b", 0), 3);
	EQ(yaml_line(y, list, NULL, 1), 5);
	EQ(yaml_line(y, inner, "c", 0), 6);
	EQ(yaml_line(y, inner, "d", 0), 7);
	EQ(yaml_line(y, inner, "e", 0), 0);
}

/* ---------------------------------------------------------------- the file */

static struct config *read_text(const char *text)
{
	struct config *c = NULL;

	EQ(config_new(&c, &err), 0);
	if (config_read_text(c, "warren.yaml", text, strlen(text), &err) < 0 ||
	    config_finish(c, &err) < 0)
		TAP_FAIL("%s", err.msg);
	return c;
}

/* Check that it is refused, by the parser or by the rules, with these words. */
static void refused(const char *text, const char *words)
{
	AUTO_CONFIG struct config *c = NULL;
	int r;

	EQ(config_new(&c, &err), 0);
	r = config_read_text(c, "warren.yaml", text, strlen(text), &err);
	if (r == 0)
		r = config_finish(c, &err);
	if (r >= 0 || !strstr(err.msg, words))
		TAP_FAIL("%s: %d, '%s' has no '%s'", text, r, r < 0 ? err.msg : "",
			 words);
}

TEST(every_key_has_a_default)
{
	AUTO_CONFIG struct config *c = NULL;

	SKIP_UNLESS(geteuid() == 0, "root's defaults");
	(void)unsetenv("WARREN_STATE");
	c = read_text("");
	EQ(c->listen.n, 1);
	STREQ(c->listen.items[0], "unix:/run/warren/warren.sock");
	STREQ(c->state_dir, "/var/lib/warren");
	STREQ(c->user, "warren");
	STREQ(c->tls_cert, "");
	STREQ(c->image, "host");
	EQ(c->log_format, CONFIG_LOG_AUTO);
	EQ(c->log_level, CONFIG_LOG_INFO);
	OK(c->metrics && c->host_image && !c->shared);
	EQ(c->defaults.limits[SPEC_MEMORY], 512U << 20);
	EQ(c->defaults.limits[SPEC_CPU], 1000);
	EQ(c->max.limits[SPEC_MEMORY], 0);
	EQ(c->request_idle_ms, 75000);
	EQ(c->mounts.n, 0);
}

TEST(keys_are_parsed_according_to_their_types)
{
	AUTO_CONFIG struct config *c = read_text(
		"run_dir: /run/elsewhere\n"
		"metrics: false\n"
		"log:\n  level: debug\n  format: json\n"
		"defaults:\n  memory: 1.5g\n  cpus: 0.5\n  pids: 99\n  ttl: 90m\n"
		"max: {memory: 2147483648, cpus: '8', ttl: 2h}\n"
		"quota:\n  sandboxes: 100\n  memory: none\n"
		"mounts:\n  - /srv:ro\n  - /data/x:rw\n"
		"tls:\n");

	STREQ(c->listen.items[0], "unix:/run/elsewhere/warren.sock");
	OK(!c->metrics);
	EQ(c->log_level, CONFIG_LOG_DEBUG);
	EQ(c->log_format, CONFIG_LOG_JSON);
	EQ(c->defaults.limits[SPEC_MEMORY], UINT64_C(3) << 29);
	EQ(c->defaults.limits[SPEC_CPU], 500);
	EQ(c->defaults.limits[SPEC_PIDS], 99);
	EQ(c->defaults.ttl_ms, 90 * 60000);
	EQ(c->max.limits[SPEC_MEMORY], UINT64_C(2) << 30);
	EQ(c->max.limits[SPEC_CPU], 8000);
	EQ(c->quota_sandboxes, 100);
	EQ(c->quota_memory, 0);
	EQ(c->mounts.n, 2);
}

TEST(wrong_keys_and_values_are_refused_with_their_line)
{
	refused("log:\n  levle: debug\n",
		"warren.yaml:2: 'levle' is not a key, did you mean 'level'?");
	refused("\n\nlisen: []\n",
		"warren.yaml:3: 'lisen' is not a key, did you mean 'listen'?");
	refused("lgo:\n  level: info\n",
		"warren.yaml:1: 'lgo' is not a key, did you mean 'log'?");
	refused("zzzzzz: 1\n",
		"warren.yaml:1: 'zzzzzz' is not a key; see warren.yaml(5)");
	refused("log.level: info\n", "warren.yaml:1: 'log.level' is not a key");
	refused("log: info\n", "warren.yaml:1: log: must be a section");
	refused("log:\n  level: loud\n",
		"warren.yaml:2: log.level: 'loud' is not one of error, warning");
	refused("metrics: yes\n", "warren.yaml:1: metrics: must be true or false");
	refused("metrics:\n", "warren.yaml:1: metrics: must be true or false");
	refused("domain: 12\n", "warren.yaml:1: domain: must be a string");
	refused("domain: Box.example.org\n",
		"warren.yaml:1: domain: 'Box.example.org' is not");
	refused("domain: \"a\\nb\"\n",
		"warren.yaml:1: domain: it contains a control character");
	refused("state_dir: var/lib\n",
		"warren.yaml:1: state_dir: 'var/lib' is not an absolute path");
	refused("defaults:\n  memory: 5\n",
		"warren.yaml:2: defaults.memory: '5' is less than 1m");
	refused("defaults:\n  memory: -5\n", "warren.yaml:2: defaults.memory:");
	refused("defaults:\n  memory: 2000t\n",
		"defaults.memory: '2000t' is more than 1024t");
	refused("defaults:\n  memory: none\n", "defaults.memory: 'none' is not a size");
	refused("defaults:\n  pids: '9'\n", "defaults.pids: must be a whole number");
	refused("defaults:\n  pids: 1.5\n", "defaults.pids: must be a whole number");
	refused("defaults:\n  ttl: 30\n", "defaults.ttl: must be a duration");
	refused("defaults:\n  ttl: 1ms\n", "defaults.ttl: '1ms' is less than 1s");
	refused("listen: tcp:127.0.0.1:80\n", "warren.yaml:1: listen: must be a list");
	refused("listen:\n  - unix:/a\n  - 80\n",
		"warren.yaml:3: listen: must be a string");
	refused("listen:\n  - unix:/a\n  - ftp:x\n",
		"warren.yaml:3: listen: 'ftp:x' is not unix:");
	refused("listen:\n  - unix:/a,unix:/b\n",
		"warren.yaml:2: listen: 'unix:/a,unix:/b' has several listeners: repeat "
		"--listen for each, or use a list in the configuration");
	refused("listen: []\n", "no address to listen on");
	refused("mounts: [relative:ro]\n", "is not /PATH:ro or /PATH:rw");
	refused("mounts: [/a/../b:ro]\n", "is not /PATH:ro or /PATH:rw");
	refused("mounts: [/a]\n", "is not /PATH:ro or /PATH:rw");
}

TEST(contradictory_keys_are_refused)
{
	AUTO_CONFIG struct config *c = NULL;

	refused("defaults: {memory: 2g}\nmax: {memory: 1g}\n",
		"defaults.memory is more than max.memory");
	refused("listen: [\"tls:127.0.0.1:443\"]\n", "needs tls.cert and tls.key");
	refused("tls: {cert: /c.pem}\n", "given together");
	refused("shared: true\nhost_image: true\n", "cannot be used on a shared machine");
	refused("shared: true\nimage: host\n", "is not allowed");
	c = read_text("shared: true\nmax: {ttl: 1h}\n");
	OK(!c->host_image);
	STREQ(c->image, "");
	EQ(c->defaults.ttl_ms, 3600000);
}

TEST(a_missing_file_differs_from_a_bad_one)
{
	AUTO_CONFIG struct config *c = NULL;

	EQ(config_new(&c, &err), 0);
	EQ(config_read_file(c, "/nonexistent/warren.yaml", &err), -ENOENT);
	EQ(config_read_file(c, "/", &err), -EISDIR);
}

/* ------------------------------------------------------------------- flags */

static int flags(struct config *c, int *first, const char *const *argv)
{
	int n = 0;

	while (argv[n])
		n++;
	return config_read_flags(c, n, (char *const *)argv, first, &err);
}

TEST(every_key_is_a_flag)
{
	const char *argv[] = { "serve",
			       "--log-level=debug",
			       "--listen",
			       "unix:/b",
			       "--listen=tcp:127.0.0.1:0",
			       "--defaults-memory",
			       "1g",
			       "--metrics",
			       "false",
			       "--check",
			       "--log-format",
			       "text",
			       NULL };
	static const char file[] = "listen: [\"unix:/a\"]\nlog: {level: error}\n";
	const char *rest[] = { "--check", "--log-format", "text", NULL };
	AUTO_CONFIG struct config *c = NULL;
	int first = 0;

	EQ(config_new(&c, &err), 0);
	EQ(config_read_text(c, "f", file, strlen(file), &err), 0);
	EQ(flags(c, &first, argv), 0);
	EQ(first, 9);
	EQ(flags(c, &first, rest), 0);
	EQ(first, 3);
	EQ(config_finish(c, &err), 0);
	EQ(c->listen.n, 2);
	STREQ(c->listen.items[0], "unix:/b");
	EQ(c->log_level, CONFIG_LOG_DEBUG);
	EQ(c->log_format, CONFIG_LOG_TEXT);
	EQ(c->defaults.limits[SPEC_MEMORY], 1U << 30);
	OK(!c->metrics);
}

TEST(an_invalid_flag_is_named_in_the_error)
{
	const char *bad[] = { "serve", "--log-level", "loud", NULL };
	const char *bare[] = { "serve", "--log-level", NULL };
	const char *unknown[] = { "serve", "--log-levle", "info", NULL };
	AUTO_CONFIG struct config *c = NULL;
	int first = 0;

	EQ(config_new(&c, &err), 0);
	EQ(flags(c, &first, bad), -EINVAL);
	OK(strstr(err.msg, "--log-level: 'loud' is not one of"));
	EQ(flags(c, &first, bare), -EINVAL);
	OK(strstr(err.msg, "--log-level needs a value"));
	EQ(flags(c, &first, unknown), 0);
	EQ(first, 1);
	EQ(config_unknown_flag(unknown[1], &err), -EINVAL);
	STREQ(err.msg, "unknown option '--log-levle', did you mean --log-level?");
	EQ(config_unknown_flag("--zzzzzzzzz", &err), -EINVAL);
	OK(!strstr(err.msg, "mean"));
}

/* --------------------------------------------------------------- listeners */

TEST(a_listener_determines_which_clients_can_connect)
{
	static const struct {
		const char *text;
		int reach; /* -1: refused */
	} cases[] = {
		{ "unix:/run/x.sock", CONFIG_OWNER },
		{ "tcp:127.0.0.1:80", CONFIG_LOOPBACK },
		{ "tcp:127.9.9.9:0", CONFIG_LOOPBACK },
		{ "tcp:localhost:8080", CONFIG_LOOPBACK },
		{ "tls:[::1]:443", CONFIG_LOOPBACK },
		{ "tcp:[::ffff:127.0.0.1]:80", CONFIG_LOOPBACK },
		{ "tcp:0.0.0.0:80", CONFIG_WIDE },
		{ "tls:[::]:443", CONFIG_WIDE },
		{ "tcp:[::ffff:10.0.0.1]:80", CONFIG_WIDE },
		{ "tcp:128.0.0.1:80", CONFIG_WIDE },
		{ "tcp:10.0.0.1:65535", CONFIG_WIDE },
		{ "unix:relative", -1 },
		{ "unix:", -1 },
		{ "tcp:127.0.0.1", -1 },
		{ "tcp::80", -1 },
		{ "tcp:127.0.0.1:65536", -1 },
		{ "tcp:127.0.0.1:+1", -1 },
		{ "tcp:127.0.0.1:80 ", -1 },
		{ "tcp:127.1:80", -1 },
		{ "tcp:2130706433:80", -1 },
		{ "tcp:example.org:80", -1 },
		{ "tcp:localhost.example.org:80", -1 },
		{ "tcp:::1:80", -1 },
		{ "tcp:[127.0.0.1]:80", -1 },
		{ "http:127.0.0.1:80", -1 },
		{ "unix:/run/a,b.sock", CONFIG_OWNER },
		{ "unix:/run/a.sock,unix:/run/b.sock", -1 },
		{ "unix:/run/a.sock, tcp:127.0.0.1:80", -1 },
		{ "unix:/run/a.sock,/run/b.sock", -1 },
		{ "tcp:127.0.0.1:80,tls:127.0.0.1:443", -1 },
		{ "", -1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct config_listener l = { 0 };
		int r = config_listener(cases[i].text, &l, &err);

		if ((cases[i].reach < 0) != (r < 0) ||
		    (r == 0 && (int)l.reach != cases[i].reach))
			TAP_FAIL("'%s': %d, reach %d", cases[i].text, r, (int)l.reach);
	}
}

TEST(without_a_token_only_local_listeners_are_allowed)
{
	static const struct {
		const char *listen;
		int none, one; /* result without a token, and with one */
	} cases[] = {
		{ "[\"unix:/a\"]", 0, 0 },
		{ "[\"tcp:127.0.0.1:80\"]", 1, 0 },
		{ "[\"unix:/a\", \"tcp:[::1]:80\"]", 1, 0 },
		{ "[\"tcp:0.0.0.0:80\"]", -EACCES, 0 },
		{ "[\"unix:/a\", \"tcp:127.0.0.1:80\", \"tcp:10.0.0.1:80\"]", -EACCES,
		  0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_CONFIG struct config *c = NULL;
		char text[200];

		(void)snprintf(text, sizeof(text), "listen: %s\n", cases[i].listen);
		c = read_text(text);
		EQ(config_allow(c, 0, &err), cases[i].none);
		EQ(config_allow(c, 1, &err), cases[i].one);
	}
}

TEST(mounts_are_allowed_by_whole_path_components)
{
	AUTO_CONFIG struct config *c =
		read_text("mounts: [\"/srv/data:ro\", \"/work:rw\"]\n");
	AUTO_CONFIG struct config *all = read_text("mounts: [\"/:ro\"]\n");

	OK(config_mount_allowed(c, "/srv/data", true));
	OK(config_mount_allowed(c, "/srv/data/x", true));
	OK(!config_mount_allowed(c, "/srv/data", false));
	OK(!config_mount_allowed(c, "/srv/database", true));
	OK(!config_mount_allowed(c, "/srv", true));
	OK(config_mount_allowed(c, "/work/a", false));
	OK(config_mount_allowed(c, "/work/a", true));
	OK(!config_mount_allowed(c, "/work/../etc", true));
	OK(!config_mount_allowed(c, "/work//x", true));
	OK(!config_mount_allowed(c, "/work/./x", true));
	OK(!config_mount_allowed(c, "work", true));
	OK(!config_mount_allowed(c, "", true));
	OK(config_mount_allowed(all, "/etc", true));
	OK(!config_mount_allowed(all, "/etc", false));
}

/* ---------------------------------------------------------------- backends */

#define COMMAND "    kind: command\n    create: ['true']\n    destroy: ['true']\n"
#define EXEC    "    exec: [ssh, build, '{command}']\n"

TEST(backends_are_listed_added_and_removed)
{
	AUTO_CONFIG struct config *plain = read_text("");
	AUTO_CONFIG struct config *c =
		read_text("backends:\n"
			  "  docker: false\n"
			  "  gvisor: {runsc: /opt/runsc}\n"
			  "  podman:\n"
			  "    kind: docker\n"
			  "    socket: /run/podman.sock\n"
			  "  build-host:\n" COMMAND EXEC "    tier: vm\n");
	AUTO_CONFIG struct config *again = NULL;
	AUTO_BUF struct buf shown = BUF_INIT(1 << 20);
	json_t *settings;

	EQ(plain->n_backends, 3);
	OK(config_backend(plain, "native") && config_backend(plain, "docker"));
	EQ(config_backend(plain, "gvisor")->tier, TIER_GVISOR);
	OK(!config_backend(plain, "native")->settings);
	OK(!config_backend(c, "docker"));
	EQ(config_backend(c, "podman")->tier, TIER_CONTAINER);
	STREQ(config_backend(c, "podman")->kind, "docker");
	EQ(config_backend(c, "build-host")->tier, TIER_VM);
	settings = json_loads(config_backend(c, "build-host")->settings, 0, NULL);
	STREQ(json_string_value(json_object_get(settings, "name")), "build-host");
	EQ(json_array_size(json_object_get(settings, "exec")), 3);
	json_decref(settings);
	/* The printed configuration can be read again. */
	config_show(c, &shown);
	again = read_text(shown.data);
	STREQ(config_backend(again, "build-host")->settings,
	      config_backend(c, "build-host")->settings);
}

TEST(an_invalid_backend_is_refused_with_its_line)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "backend: dokcer\n",
		  "there is no backend 'dokcer'; available: native" },
		{ "backends: [docker]\n", "warren.yaml:1: backends: must be a mapping" },
		{ "backends:\n  Docker:\n",
		  "warren.yaml:2: backends: 'Docker' is not a name" },
		{ "backends:\n  x:\n    y: z\n", "backends.x: it has no kind" },
		{ "backends:\n  x:\n    kind: lxc\n",
		  "warren.yaml:3: backends.x: kind: 'lxc' is not a kind; use one of native" },
		{ "backends:\n  x:\n    kind: native\n",
		  "the only backend of kind native" },
		{ "backends:\n  docker: true\n",
		  "backends.docker: must be a mapping of settings" },
		{ "backends:\n  docker:\n    sockte: /x\n",
		  "warren.yaml:3: backends.docker: 'sockte' is not a setting of kind docker, "
		  "did you mean 'socket'?" },
		{ "backends:\n  docker:\n    socket: x\n",
		  "'x' is not an absolute path" },
		{ "backends:\n  gvisor:\n    platform: qemu\n",
		  "'qemu' is not one of systrap, ptrace, kvm" },
		{ "backends:\n  x:\n" COMMAND, "kind command needs 'exec'" },
		{ "backends:\n  x:\n" COMMAND EXEC "    timeout: 0\n",
		  "must be a number of seconds" },
		{ "backends:\n  x:\n" COMMAND "    exec: ssh build\n",
		  "backends.x.exec: must be a list of words" },
		{ "backends:\n  x:\n" COMMAND "    exec: []\n",
		  "must be a list of words" },
		{ "backends:\n  x:\n" COMMAND "    exec: [ssh, 1, '{argv}']\n",
		  "backends.x.exec: must be a word" },
		{ "backends:\n  x:\n" COMMAND "    exec: [ssh, build]\n",
		  "it has no place for the command" },
		{ "backends:\n  x:\n" COMMAND "    exec: [sh, '{argv} {image}']\n",
		  "{argv} becomes several words" },
		{ "backends:\n  x:\n" COMMAND "    exec: ['{argv}', '{imgae}']\n",
		  "{imgae} is not known here; known: id" },
		{ "backends:\n  x:\n" COMMAND EXEC "    copy_in: [tee]\n",
		  "it has no place for the file" },
		{ "backends:\n  x:\n" COMMAND EXEC "    tier: strong\n",
		  "'strong' is not one of none, container" },
		{ "backend: docker\nmin_tier: gvisor\n",
		  "the tier of 'docker' is container, but min_tier is gvisor" },
		{ "backend: docker\nshared: true\n", "but min_tier is namespace" },
		{ "tenant_tiers: [research]\n", "'research' is not TENANT:TIER" },
		{ "tenant_tiers: ['research:strong']\n", "its tier is not one of" },
		{ "backnds:\n", "did you mean 'backends'?" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		refused(cases[i].text, cases[i].words);
	/* A doubled brace is a brace; create and destroy may be empty. */
	config_free(read_text("backends:\n  x:\n    kind: command\n    timeout: 5\n"
			      "    exec: [jq, '{{}', '{{x', '{argv}']\n"));
}

TEST(a_tier_is_provided_or_refused_and_never_lowered)
{
	AUTO_CONFIG struct config *c = read_text("tenant_tiers: ['research:gvisor']\n"
						 "backends:\n  loose:\n" COMMAND EXEC);
	static const struct {
		const char *tenant, *name;
		enum tier tier;
		const char *got;
		int r;
	} cases[] = {
		{ "local", NULL, TIER_NONE, "native", 0 },
		{ "local", NULL, TIER_NAMESPACE, "native", 0 },
		{ "local", NULL, TIER_GVISOR, "gvisor", 0 },
		{ "local", NULL, TIER_VM, NULL, -EPERM },
		{ "local", "docker", TIER_NONE, "docker", 0 },
		{ "local", "docker", TIER_CONTAINER, "docker", 0 },
		{ "local", "docker", TIER_NAMESPACE, NULL, -EPERM },
		{ "local", "gvisor", TIER_CONTAINER, "gvisor", 0 },
		{ "local", "loose", TIER_NONE, "loose", 0 },
		{ "local", "loose", TIER_CONTAINER, NULL, -EPERM },
		{ "local", "nosuch", TIER_NONE, NULL, -ENODEV },
		{ "research", NULL, TIER_NONE, "gvisor", 0 },
		{ "research", "native", TIER_NONE, NULL, -EPERM },
		{ "research-2", "native", TIER_NONE, "native", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct config_backend *b = NULL;

		EQ(config_select_backend(c, cases[i].tenant, cases[i].name, cases[i].tier,
					 &b, &err),
		   cases[i].r);
		if (cases[i].got)
			STREQ(b->name, cases[i].got);
	}
	EQ(config_select_backend(c, "research", "native", TIER_NONE,
				 &(const struct config_backend *){ NULL }, &err),
	   -EPERM);
	OK(strstr(err.msg, "tier 'gvisor' is required by the service, but backend "
			   "'native' is of tier 'namespace'"));
}

/* --------------------------------------------------------------- generated files */

static void same_as_file(const char *name, const struct buf *made)
{
	const char *root = getenv("WARREN_SOURCE");
	static char text[1 << 20];
	char path[4096];
	ssize_t n;

	SKIP_UNLESS(root, "WARREN_SOURCE is not set");
	OK(!made->failed);
	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	n = fd_read_file_at(AT_FDCWD, path, text, sizeof(text));
	OK(n > 0);
	if ((size_t)n != made->len || memcmp(text, made->data, made->len) != 0)
		TAP_FAIL("%s is not what build/gen-config writes", name);
}

TEST(the_example_configuration_is_generated_from_the_table)
{
	AUTO_BUF struct buf made = BUF_INIT(1U << 20);

	config_example(&made);
	same_as_file("packaging/warren.yaml", &made);
}

TEST(the_manual_page_is_generated_from_the_table)
{
	AUTO_BUF struct buf made = BUF_INIT(1U << 20);

	config_manual(&made);
	same_as_file("man/warren.yaml.5", &made);
}

TEST(the_example_configuration_shows_the_defaults)
{
	AUTO_CONFIG struct config *plain = read_text(""), *example = NULL, *full = NULL;
	AUTO_BUF struct buf made = BUF_INIT(1U << 20), a = BUF_INIT(1U << 20),
			    b = BUF_INIT(1U << 20);
	bool given = false;

	config_example(&made);
	example = read_text(made.data);
	for (size_t i = 0; i < ARRAY_SIZE(example->given); i++)
		OK(!example->given[i]);
	config_show(plain, &a);
	/* The effective settings can be read back, and are the same. */
	full = read_text(a.data);
	config_show(full, &b);
	STREQ(a.data, b.data);
	for (size_t i = 0; i < ARRAY_SIZE(full->given); i++)
		given = given || full->given[i];
	OK(given);
	made.len = 0;
	config_help(&made);
	OK(strstr(made.data, "--log-level word (info)"));
}

/* The example, without the comment signs, is a complete configuration. */
TEST(the_uncommented_example_configuration_is_valid)
{
	AUTO_BUF struct buf made = BUF_INIT(1U << 20), text = BUF_INIT(1U << 20);
	AUTO_CONFIG struct config *c = NULL;
	size_t n_given = 0;

	config_example(&made);
	for (char *line = strtok(made.data, "\n"); line; line = strtok(NULL, "\n")) {
		size_t n = strspn(line, " ");

		if (line[n] == '#' && line[n + 1] == ' ' && line[n + 2] != ' ')
			continue; /* words */
		buf_add(&text, line, n);
		buf_puts(&text, line + n + (line[n] == '#'));
		buf_puts(&text, "\n");
	}
	c = read_text(text.data);
	for (size_t i = 0; i < CONFIG_KEYS_MAX; i++)
		n_given += c->given[i];
	OK(n_given > 40);
	STREQ(c->domain, "box.example.org");
	STREQ(c->mounts.items[0], "/srv/data:ro");
}

TEST_MAIN()
