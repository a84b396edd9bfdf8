/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_code.c - warren code: run a program once, in a new sandbox */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/fd.h"
#include "base/utf8.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client/private_service.h"
#include "cli/client/spec.h"
#include "cli/common_options.h"

#define CODE_INPUT_MAX (16U << 20) /* maximum for a program, a file or stdin */

struct code_options {
	struct env_list env;
	json_t *files, *artifacts; /* arrays */
	const char *directory;     /* for artifacts */
	bool stdin_too, json, quiet, verbose;
	uint64_t timeout_ms, memory, disk, pids, max_output;
	const char *image, *backend, *tier;
};

#define FIELD(name) offsetof(struct code_options, name)

static int code_check_text(const char *value, struct warren_error *err)
{
	if (!*value)
		return error_set(err, EINVAL, "it is empty");
	for (const char *p = value; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return error_set(err, EINVAL, "it has a control character");
	return strlen(value) > 1024
		       ? error_set(err, E2BIG, "it is longer than 1024 bytes")
		       : 0;
}

static int code_value_file(void *field, const char *value, struct warren_error *err)
{
	const char *equals = strchr(value, '=');
	const char *path = equals ? equals + 1 : value;
	int r = code_check_text(value, err);

	if (r == 0 && access(path, R_OK) < 0)
		r = error_errno(err, errno, "'%.200s'", path);
	return r < 0 ? r : value_word(field, value, err);
}

static int code_value_artifact(void *field, const char *value, struct warren_error *err)
{
	int r = code_check_text(value, err);

	return r < 0 ? r : value_word(field, value, err);
}

static int code_value_directory(void *field, const char *value, struct warren_error *err)
{
	int r = code_check_text(value, err);

	return r < 0 ? r : opt_text(field, value, err);
}

/* clang-format off */
static const struct opt code_table[] = {
	{ "Program", OPT_ENV(FIELD(env)) },
	{ NULL, "stdin", 'i', NULL, NULL,
	  "forward stdin to the program (otherwise it is empty)",
	  opt_flag, FIELD(stdin_too) },
	{ NULL, "file", 'f', "NAME=PATH", "data.csv=./data.csv",
	  "copy a file to the program's directory",
	  code_value_file, FIELD(files) },
	{ NULL, "artifact", 0, "GLOB", "out/*.png",
	  "return files that the program creates",
	  code_value_artifact, FIELD(artifacts) },
	{ NULL, "directory", 'C', "DIR", "out",
	  "directory for artifacts (default: the current directory)",
	  code_value_directory, FIELD(directory) },
	{ "Limits", OPT_TIMEOUT("kill the program after this time, status 124", FIELD(timeout_ms)) },
	{ NULL, "memory", 'm', "SIZE", "512m",
	  "memory limit; no swap",
	  value_limit_memory, FIELD(memory) },
	{ NULL, "disk", 0, "SIZE", "128m",
	  "size of the program's directory, which is in memory",
	  value_limit_disk, FIELD(disk) },
	{ NULL, "pids", 0, "N", "100",
	  "maximum number of processes and threads",
	  value_limit_pids, FIELD(pids) },
	{ NULL, "max-output", 0, "BYTES", "65536",
	  "maximum bytes of stdout and of stderr to show",
	  value_number, FIELD(max_output) },
	{ "Sandbox", OPT_IMAGE("python:3.12", "image (default: the language's)", FIELD(image)) },
	{ NULL, OPT_BACKEND("gvisor", "backend to run on", FIELD(backend)) },
	{ NULL, OPT_TIER("gvisor", "minimum isolation tier", FIELD(tier)) },
	{ "Output", OPT_JSON("print the whole result as one JSON object", FIELD(json)) },
	{ NULL, OPT_QUIET("print no messages of Warren except errors", FIELD(quiet)) },
	{ NULL, "verbose", 0, NULL, NULL,
	  "show what is enforced",
	  opt_flag, FIELD(verbose) },
};
/* clang-format on */

static const struct opt_conflict code_conflicts[] = {
	{ "quiet", "verbose", "one asks for less, the other for more" },
};

static const struct opts code_opts = {
	.table = code_table,
	.n = ARRAY_SIZE(code_table),
	.conflicts = code_conflicts,
	.n_conflicts = ARRAY_SIZE(code_conflicts),
	.operands = "LANGUAGE [FILE|-] [--] [ARG...]",
	.example = "warren code python script.py",
	.mixed = true,
};

/* ------------------------------------------------------------------ reading input */

static int code_read_all(int fd, const char *name, struct buf *out,
			 struct warren_error *err)
{
	for (;;) {
		char *room = buf_reserve(out, 65536);
		ssize_t n;

		if (!room)
			return error_set(err, EFBIG, "'%.200s' is larger than %u bytes",
					 name, CODE_INPUT_MAX);
		n = read(fd, room, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "read '%.200s'", name);
		if (n == 0)
			return 0;
		out->len += (size_t)n;
	}
}

static int code_read_file(const char *path, struct buf *out, struct warren_error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? error_errno(err, errno, "open '%.200s'", path)
		      : code_read_all(fd, path, out, err);
}

/* Store the bytes as text if possible, otherwise in the field with "_base64". */
static int code_put_bytes(json_t *to, json_t *to_base64, const char *key,
			  const char *key_base64, const struct buf *data,
			  struct warren_error *err)
{
	const char *bytes = data->len > 0 ? data->data : "";
	json_t *text = utf8_valid(bytes, data->len) && !memchr(bytes, '\0', data->len)
			       ? json_stringn(bytes, data->len)
			       : NULL;
	char *encoded;

	if (text)
		return json_object_set_new(to, key, text) < 0
			       ? error_errno(err, ENOMEM, "send '%s'", key)
			       : 0;
	encoded = malloc(base64_size(data->len) + 1);
	if (!encoded)
		return error_errno(err, ENOMEM, "send '%s'", key);
	base64_encode(data->data, data->len, encoded);
	text = json_stringn(encoded, base64_size(data->len));
	free(encoded);
	return json_object_set_new(to_base64, key_base64, text) < 0
		       ? error_errno(err, ENOMEM, "send '%s'", key)
		       : 0;
}

static int code_put_files(json_t *body, const struct code_options *o,
			  struct warren_error *err)
{
	json_t *texts = json_object(), *bytes = json_object(), *item;
	size_t i;
	int r = 0;

	(void)json_object_set_new(body, "files", texts);
	(void)json_object_set_new(body, "files_base64", bytes);
	json_array_foreach(o->files, i, item)
	{
		AUTO_BUF struct buf data = BUF_INIT(CODE_INPUT_MAX);
		const char *word = json_string_value(item), *equals = strchr(word, '=');
		const char *path = equals ? equals + 1 : word;
		const char *slash = strrchr(word, '/');
		AUTO_FREE char *name = equals ? strndup(word, (size_t)(equals - word))
					      : strdup(slash ? slash + 1 : word);

		r = name ? code_read_file(path, &data, err)
			 : error_errno(err, ENOMEM, "--file");
		if (r == 0)
			r = code_put_bytes(texts, bytes, name, name, &data, err);
		if (r < 0)
			break;
	}
	return r;
}

static void code_put_limits(json_t *body, const struct code_options *o)
{
	json_t *limits = json_object();

	spec_put_number(limits, "memory", o->memory);
	spec_put_number(limits, "disk", o->disk);
	spec_put_number(limits, "pids", o->pids);
	(void)json_object_set_new(body, "limits", limits);
	spec_put_number(body, "timeout_ms", o->timeout_ms);
	spec_put_number(body, "max_output", o->max_output);
	spec_put_text(body, "image", o->image);
	spec_put_text(body, "backend", o->backend);
	spec_put_text(body, "tier", o->tier);
}

static int code_put_program(json_t *body, const char *file, struct warren_error *err)
{
	AUTO_BUF struct buf code = BUF_INIT(CODE_INPUT_MAX);
	bool from_stdin = !file || strcmp(file, "-") == 0;
	json_t *text;
	int r = from_stdin ? code_read_all(STDIN_FILENO, "stdin", &code, err)
			   : code_read_file(file, &code, err);

	if (r < 0)
		return r;
	text = json_stringn(code.len > 0 ? code.data : "", code.len);
	if (!text || memchr(code.data ? code.data : "", '\0', code.len)) {
		json_decref(text);
		return error_set(err, EINVAL, "'%.200s' is not text in UTF-8",
				 from_stdin ? "stdin" : file);
	}
	(void)json_object_set_new(body, "code", text);
	return 0;
}

static int code_body(const struct code_options *o, char **words, json_t **ret,
		     struct warren_error *err)
{
	AUTO_JSON json_t *body = json_object();
	AUTO_BUF struct buf input = BUF_INIT(CODE_INPUT_MAX);
	const char *file = words[1];
	size_t n = 0;
	json_t *env = env_json(&o->env);
	int r;

	for (char **at = words; *at; at++)
		n++;
	(void)json_object_set_new(body, "language", json_string(words[0]));
	if (n > 2)
		(void)json_object_set_new(body, "args", words_json(words + 2, n - 2));
	if (env)
		(void)json_object_set_new(body, "env", env);
	if (o->artifacts)
		(void)json_object_set(body, "artifacts", o->artifacts);
	code_put_limits(body, o);
	if (o->stdin_too && (!file || strcmp(file, "-") == 0))
		return error_set(
			err, EINVAL,
			"--stdin: stdin is the program itself; give it as a file "
			"(example: echo 7 | warren code --stdin python script.py)");
	r = code_put_program(body, file, err);
	if (r == 0)
		r = code_put_files(body, o, err);
	if (r == 0 && o->stdin_too)
		r = code_read_all(STDIN_FILENO, "stdin", &input, err);
	if (r == 0 && o->stdin_too)
		r = code_put_bytes(body, body, "stdin", "stdin_base64", &input, err);
	if (r == 0)
		*ret = TAKE_PTR(body);
	return r;
}

/* ------------------------------------------------------------------ results */

/* Return the bytes of a string in either encoding, which the caller frees. NULL: there is
 * no such string. */
static char *code_bytes(const json_t *object, const char *key, const char *encoding,
			size_t *ret_n)
{
	const json_t *text = json_object_get(object, key);
	size_t n = json_string_length(text);
	char *data = text ? malloc(n + 1) : NULL;
	ssize_t size;

	if (!data)
		return NULL;
	(void)memcpy(data, json_string_value(text), n);
	*ret_n = n;
	if (strcmp(print_text_of(object, encoding), "base64") != 0)
		return data;
	size = base64_decode(data, n, data);
	*ret_n = size < 0 ? 0 : (size_t)size;
	return data;
}

/* Does the path from the service stay within the directory? */
static bool code_good_path(const char *path)
{
	for (const char *at = path;; at++) {
		size_t n = strcspn(at, "/");

		if (n == 0 || (n == 1 && at[0] == '.') ||
		    (n == 2 && at[0] == '.' && at[1] == '.'))
			return false;
		at += n;
		if (!*at)
			return true;
	}
}

static int code_make_dirs(char *path, size_t from, struct warren_error *err)
{
	for (char *slash = strchr(path + from, '/'); slash; slash = strchr(slash, '/')) {
		int r;

		*slash = '\0';
		r = mkdir(path, 0777);
		if (r < 0 && errno != EEXIST)
			return error_errno(err, errno, "create '%.200s'", path);
		*slash++ = '/';
	}
	return 0;
}

static int code_save(const struct code_options *o, const json_t *artifact,
		     struct warren_error *err)
{
	const char *name = print_text_of(artifact, "path");
	AUTO_FREE char *path = NULL, *data = NULL;
	AUTO_CLOSE int fd = -1;
	const char *directory = o->directory ? o->directory : ".";
	size_t n = 0;
	int r;

	if (!code_good_path(name))
		return error_set(
			err, EPROTO,
			"the service sent an artifact with an invalid name, '%.200s'",
			name);
	data = code_bytes(artifact, "content", "encoding", &n);
	if (!data || asprintf(&path, "%s/%s", directory, name) < 0)
		return error_errno(err, ENOMEM, "save '%.200s'", name);
	r = code_make_dirs(path, strlen(directory) + 1, err);
	if (r < 0)
		return r;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return error_errno(err, errno, "create '%.200s'", path);
	r = fd_write_all(fd, data, n);
	return r < 0 ? error_errno(err, -r, "write '%.200s'", path) : 0;
}

static int code_save_all(const struct code_options *o, const json_t *result,
			 struct warren_error *err)
{
	const json_t *list = json_object_get(result, "artifacts");
	int r = 0;

	if (o->directory && json_array_size(list) > 0 && mkdir(o->directory, 0777) < 0 &&
	    errno != EEXIST)
		return error_errno(err, errno, "create '%.200s'", o->directory);
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
		r = code_save(o, json_array_get(list, i), err);
	return r;
}

struct code_stream {
	json_t *result, *error;
	int failure; /* errno of a failed write */
};

static int code_on_line(void *arg, const char *line, size_t n)
{
	struct code_stream *s = arg;
	AUTO_JSON json_t *event = json_loadb(line, n, 0, NULL);
	const char *type = print_text_of(event, "type");
	AUTO_FREE char *data = NULL;
	size_t size = 0;

	if (strcmp(type, "exit") == 0)
		s->result = json_incref(json_object_get(event, "result"));
	else if (strcmp(type, "error") == 0)
		s->error = json_incref(json_object_get(event, "error"));
	if (strcmp(type, "output") != 0)
		return 0;
	data = code_bytes(event, "data", "encoding", &size);
	if (data)
		s->failure = -fd_write_all(
			strcmp(print_text_of(event, "stream"), "stderr") == 0
				? STDERR_FILENO
				: STDOUT_FILENO,
			data, size);
	return -s->failure;
}

static void code_say(const json_t *result, bool verbose)
{
	static const char *const marks[] = { "stdout_truncated", "stderr_truncated" };

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (json_is_true(json_object_get(result, marks[i])))
			message_say("code", "%.6s was truncated: see --max-output",
				    marks[i]);
	if (json_is_false(json_object_get(result, "artifacts_complete")))
		message_say("code",
			    "not all artifacts were returned: they are too many or "
			    "too large");
	print_enforced("code", json_object_get(result, "enforced"), verbose);
}

/* Show output as it is written. Return the exit status of the program, or -errno. */
static int code_show(struct client *c, const json_t *body, const struct code_options *o,
		     struct warren_error *err)
{
	AUTO_REQUEST struct request *request = NULL;
	struct code_stream s = { 0 };
	AUTO_JSON json_t *result = NULL;
	int r = request_new(c, "POST", "/v1/code/stream", &request, err);

	if (r == 0)
		r = request_json(request, body, err);
	if (r < 0)
		return r;
	request->on_line = code_on_line;
	request->arg = &s;
	r = request_start(request, err);
	if (r == 0)
		r = request_wait(request, err);
	result = s.result;
	if (s.failure == EPIPE)
		/* The same status as for a program that SIGPIPE ends. */
		r = STATUS_SIGNAL + 13;
	else if (s.failure)
		r = error_errno(err, s.failure, "write the output");
	else if (s.error)
		r = error_set(err, EREMOTEIO, "%s", print_text_of(s.error, "message"));
	else if (r == 0 && !result)
		r = error_set(err, EPROTO, "the service ended the stream too early");
	json_decref(s.error);
	if (r != 0)
		return r;
	r = code_save_all(o, result, err);
	if (r < 0)
		return r;
	if (!o->quiet)
		code_say(result, o->verbose);
	return (int)json_integer_value(json_object_get(result, "exit_code"));
}

static int code_show_json(struct client *c, const json_t *body,
			  const struct code_options *o, struct warren_error *err)
{
	AUTO_JSON json_t *result = NULL;
	int r = client_call(c, "POST", "/v1/code", body, &result, err);

	if (r < 0)
		return r;
	if (!o->quiet)
		print_enforced("code", json_object_get(result, "enforced"), o->verbose);
	r = print_json(&client_code, result);
	return r ? r : (int)json_integer_value(json_object_get(result, "exit_code"));
}

static int run_code(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct code_options o = { 0 };
	AUTO_PRIVATE struct private_service *own = NULL;
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *body = NULL;
	char **words = NULL;
	int status = 0, r;

	if (!command_operands(&client_code, argc, argv, &o, 1, 0, &words, &status))
		return status;
	r = code_body(&o, words, &body, &err);
	if (r == 0)
		r = client_open_or_start(NULL, &c, &own, &err);
	if (r == 0)
		r = o.json ? code_show_json(c, body, &o, &err)
			   : code_show(c, body, &o, &err);
	env_list_done(&o.env);
	json_decref(o.files);
	json_decref(o.artifacts);
	if (r < 0 && c && client_said(c, "command_not_found")) {
		client_say(&client_code, &err);
		return STATUS_NOT_FOUND;
	}
	return r < 0 ? client_fail(&client_code, &err) : r;
}

const struct command client_code = {
	.name = "code",
	.summary = "Run a program once, in a new sandbox.",
	.about =
		"Without FILE, or with '-', the program is read from stdin. The sandbox has no\n"
		"network and a read-only root, and is deleted when the program ends. Exits with\n"
		"the program's status. If no service is running, a private one runs as long as\n"
		"this command.\n",
	.opts = &code_opts,
	.run = run_code,
};
