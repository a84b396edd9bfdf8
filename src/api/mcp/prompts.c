/* SPDX-License-Identifier: Apache-2.0 */
/* prompts.c - prompts that a user can choose, and completion of arguments */
#include <string.h>

#include "api/mcp/internal.h"

#define ARGS_MAX      4
#define VALUE_MAX     65536 /* maximum size of an argument */
#define COMPLETED_MAX 100

struct prompt_arg {
	const char *name, *about;
	bool required;
	const char *words; /* possible values, separated by spaces */
};

#define LANGUAGES \
	"bash c c++ go java javascript lua perl php python r ruby rust typescript"

static const struct prompt_row {
	const char *name, *title, *about;
	struct prompt_arg args[ARGS_MAX]; /* ends with the first entry that has no name */
	const char *text;                 /* in which {name} stands for an argument */
} prompt_table[] = {
	{ "try_code",
	  "Try a piece of code",
	  "Write a small program for a task, run it in a sandbox, and improve it until it works.",
	  { { "task", "What the program should do.", true, NULL },
	    { "language", "Its language.", true, LANGUAGES } },
	  "Write a {language} program that does the following, and run it with code_run: "
	  "{task}\n\nIf it fails, read the error, fix the program and run it again. Show the "
	  "final program and its output." },
	{ "set_up_project",
	  "Set up a project",
	  "Explore a project in a sandbox, install what it needs, and run its tests.",
	  { { "path", "The directory of the project in the sandbox.", true, NULL } },
	  "There is a project in {path} of the sandbox. Find out with list_files and "
	  "read_file what it is and how it is built and tested. Then build it and run its "
	  "tests with session_run. Report what works, what fails, and why." },
	{ "debug_command",
	  "Debug a command",
	  "Find out in a sandbox why a command fails.",
	  { { "command", "The command.", true, NULL },
	    { "expected", "What the command should do.", false, NULL } },
	  "Run this command in the sandbox with run_command: {command}\n\nExpected: "
	  "{expected}\n\nFind out why it does not work. Change one thing at a time and check "
	  "each change. Explain the cause, and show the command that works." },
};

static const struct prompt_row *prompt_find(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_SIZE(prompt_table); i++)
		if (strcmp(prompt_table[i].name, name) == 0)
			return &prompt_table[i];
	return NULL;
}

static const struct prompt_arg *prompt_arg_find(const struct prompt_row *p,
						const char *name, size_t n)
{
	for (size_t i = 0; i < ARGS_MAX && p->args[i].name; i++)
		if (strlen(p->args[i].name) == n && memcmp(p->args[i].name, name, n) == 0)
			return &p->args[i];
	return NULL;
}

static void prompt_write(struct json *j, const struct prompt_row *p)
{
	json_open(j, NULL, '{');
	json_str(j, "name", p->name);
	json_str(j, "title", p->title);
	json_str(j, "description", p->about);
	json_open(j, "arguments", '[');
	for (size_t i = 0; i < ARGS_MAX && p->args[i].name; i++) {
		json_open(j, NULL, '{');
		json_str(j, "name", p->args[i].name);
		json_str(j, "description", p->args[i].about);
		json_bool(j, "required", p->args[i].required);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

void mcp_prompts_list(struct mcp_call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };

	if (!mcp_list_open(c, &j, "prompts"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(prompt_table); i++)
		prompt_write(&j, &prompt_table[i]);
	json_close(&j, ']');
	json_close(&j, '}');
	mcp_call_result(c, &out);
}

/* Return false if the call was answered with an error. */
static bool prompt_check(struct mcp_call *c, const struct prompt_row *p, json_t *args)
{
	const char *name;
	json_t *value;

	json_object_foreach(args, name, value)
	{
		if (!prompt_arg_find(p, name, strlen(name)) || !json_is_string(value) ||
		    json_string_length(value) > VALUE_MAX) {
			mcp_call_error(
				c, RPC_INVALID_PARAMS,
				"params.arguments: '%.64s' is not an argument of this "
				"prompt, or not a string of at most %d bytes",
				name, VALUE_MAX);
			return false;
		}
	}
	for (size_t i = 0; i < ARGS_MAX && p->args[i].name; i++)
		if (p->args[i].required && !json_object_get(args, p->args[i].name)) {
			mcp_call_error(c, RPC_INVALID_PARAMS,
				       "params.arguments: '%s' is required",
				       p->args[i].name);
			return false;
		}
	return true;
}

/* Write the text with its arguments. */
static void prompt_fill(struct buf *out, const struct prompt_row *p, const json_t *args)
{
	for (const char *at = p->text; *at;) {
		size_t n = strcspn(at, "{");
		const struct prompt_arg *a = NULL;
		const json_t *value;

		buf_add(out, at, n);
		at += n;
		n = strcspn(at, "}");
		if (*at == '{')
			a = prompt_arg_find(p, at + 1, n - 1);
		if (!a) {
			buf_add(out, at, *at != '\0');
			at += *at != '\0';
			continue;
		}
		value = json_object_get(args, a->name);
		if (value)
			buf_add(out, json_string_value(value), json_string_length(value));
		else
			buf_puts(out, "(not given)");
		at += n + 1;
	}
}

void mcp_prompts_get(struct mcp_call *c)
{
	AUTO_BUF struct buf text = BUF_INIT(1U << 20), out = BUF_INIT(8U << 20);
	struct json j = { .out = &out };
	const struct prompt_row *p = prompt_find(rpc_text(c->params, "name"));
	json_t *args = json_object_get(c->params, "arguments");

	if (!p) {
		mcp_call_error(c, RPC_INVALID_PARAMS,
			       "params.name: there is no such prompt");
		return;
	}
	if (!prompt_check(c, p, args))
		return;
	prompt_fill(&text, p, args);
	mcp_result_open(&j, c->era, false);
	json_str(&j, "description", p->about);
	json_open(&j, "messages", '[');
	json_open(&j, NULL, '{');
	json_str(&j, "role", "user");
	json_open(&j, "content", '{');
	json_str(&j, "type", "text");
	json_strn(&j, "text", text.data ? text.data : "", text.len);
	json_close(&j, '}');
	json_close(&j, '}');
	json_close(&j, ']');
	json_close(&j, '}');
	out.failed = out.failed || text.failed;
	mcp_call_result(c, &out);
}

/* ------------------------------------------------------------------ completion */

struct completing {
	struct json *j;
	const char *begin; /* beginning of a value */
	const char *only;  /* only the sandbox of the token; "": all */
	size_t n;
};

static void prompt_complete_value(struct completing *k, const char *value, size_t n)
{
	if (strncmp(value, k->begin, strlen(k->begin)) != 0 || strlen(k->begin) > n ||
	    k->n >= COMPLETED_MAX)
		return;
	k->n++;
	json_strn(k->j, NULL, value, n);
}

static void prompt_complete_words(struct completing *k, const char *words)
{
	while (words && *words) {
		size_t n = strcspn(words, " ");

		prompt_complete_value(k, words, n);
		words += n + (words[n] == ' ');
	}
}

static int prompt_complete_sandbox(void *ctx, const struct sandbox_row *row)
{
	struct completing *k = ctx;

	if (!k->only[0] || strcmp(k->only, row->id) == 0)
		prompt_complete_value(k, row->id, strlen(row->id));
	return 0;
}

static void prompt_complete_sandboxes(struct mcp_call *c, struct completing *k)
{
	struct sandbox_filter filter = {
		.owner = access_may(&c->caller, "admin") ? NULL : c->caller.tenant,
	};
	struct warren_error err = WARREN_ERROR_INIT;

	/* Do not propose sandboxes that the client may not read. */
	if (access_may(&c->caller, "read") &&
	    db_list_sandboxes(service_db(c->mcp->service), &filter,
			      prompt_complete_sandbox, k, &err) < 0)
		service_metrics(c->mcp->service)->store_errors++;
}

void mcp_complete(struct mcp_call *c)
{
	const json_t *ref = json_object_get(c->params, "ref");
	const json_t *argument = json_object_get(c->params, "argument");
	const char *type = rpc_text(ref, "type"), *name = rpc_text(argument, "name");
	const char *uri = rpc_text(ref, "uri");
	const struct prompt_row *p = prompt_find(rpc_text(ref, "name"));
	bool prompt = type && strcmp(type, "ref/prompt") == 0 && p;
	bool resource = type && strcmp(type, "ref/resource") == 0 && uri &&
			mcp_resource_is_template(uri);
	const struct prompt_arg *a =
		prompt && name ? prompt_arg_find(p, name, strlen(name)) : NULL;
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };
	struct completing k = { .j = &j,
				.begin = rpc_text(argument, "value"),
				.only = c->caller.sandbox };

	if ((!prompt && !resource) || !name || !k.begin || (prompt && !a)) {
		mcp_call_error(c, RPC_INVALID_PARAMS,
			       "params: must have a ref to a prompt or to a template of "
			       "resources, and an argument with name and value");
		return;
	}
	mcp_result_open(&j, c->era, false);
	json_open(&j, "completion", '{');
	json_open(&j, "values", '[');
	if (a)
		prompt_complete_words(&k, a->words);
	else if (strcmp(name, "sandbox") == 0)
		prompt_complete_sandboxes(c, &k);
	json_close(&j, ']');
	json_bool(&j, "hasMore", k.n >= COMPLETED_MAX);
	json_close(&j, '}');
	json_close(&j, '}');
	mcp_call_result(c, &out);
}
