/* SPDX-License-Identifier: Apache-2.0 */
/* print.c - print answers of the service, for people and for programs */
#include <string.h>
#include <time.h>

#include "cli/client/commands.h"
#include "cli/format.h"
#include "cli/run_result.h"

int print_json(const struct command *cmd, const json_t *value)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	if (text)
		buf_puts(&out, text);
	else
		out.failed = true;
	buf_puts(&out, "\n");
	free(text);
	return message_print(cmd->name, &out);
}

int print_gone(const struct command *cmd, const char *id)
{
	AUTO_JSON json_t *gone = json_pack("{s:s, s:s}", "id", id, "state", "gone");

	return print_json(cmd, gone);
}

const char *print_text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

bool print_is_over(const json_t *sandbox)
{
	const char *state = print_text_of(sandbox, "state");

	return strcmp(state, "failed") == 0 || strcmp(state, "lost") == 0;
}

void print_enforced(const char *command, const json_t *list, bool verbose)
{
	struct warren_enforcement e[64] = { 0 };
	size_t n = 0;

	for (; n < json_array_size(list) && n < ARRAY_SIZE(e); n++) {
		const json_t *item = json_array_get(list, n);

		e[n].name = print_text_of(item, "name");
		e[n].enforced = json_is_true(json_object_get(item, "enforced"));
		(void)snprintf(e[n].detail, sizeof(e[n].detail), "%s",
			       print_text_of(item, "detail"));
	}
	result_say_enforced(command, e, n, verbose);
}

void put_labels(struct buf *out, const json_t *labels)
{
	const char *key;
	json_t *value;
	void *at;

	json_object_foreach_safe((json_t *)(uintptr_t)labels, at, key, value)
		buf_printf(out, "%s%s=%s", out->len ? "," : "", key,
			   json_is_string(value) ? json_string_value(value) : "");
	if (out->len == 0)
		buf_puts(out, "-");
}

void put_argv(struct buf *out, const json_t *argv)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789-._/:=,+@%";

	for (size_t i = 0; i < json_array_size(argv); i++) {
		const char *word = json_string_value(json_array_get(argv, i));
		bool quote;

		word = word ? word : "";
		quote = !*word || word[strspn(word, plain)];
		buf_printf(out, "%s%s", i ? " " : "", quote ? "'" : "");
		buf_puts(out, word);
		buf_puts(out, quote ? "'" : "");
	}
}

void put_ago(struct buf *out, const char *time_text)
{
	char text[HUMAN_MAX];
	time_t then = human_parse_time(time_text);

	buf_puts(out, then ? human_ago(then, time(NULL), text) : "-");
}
