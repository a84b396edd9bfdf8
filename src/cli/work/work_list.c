/* SPDX-License-Identifier: Apache-2.0 */
/* work_list.c - list and remove works */
#include "cli/work/work_list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/date.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/work/show.h"

#define LIST_MAX (16U << 20)

/* Names of directories may contain anything, even what a terminal interprets. */
static void work_list_put(struct buf *b, const char *text)
{
	const size_t size = strlen(text);

	for (size_t i = 0, n; i < size; i += n)
		if (utf8_shows(text + i, size - i, &n))
			buf_add(b, text + i, n);
		else
			for (size_t k = 0; k < n; k++)
				buf_printf(b, "\\%03o", (unsigned char)text[i + k]);
}

static void list_json_time(struct json *j, const char *key, uint64_t ns)
{
	char text[DATE_SIZE];

	date_iso(text, (int64_t)(ns / 1000000));
	json_str(j, key, ns ? text : NULL);
}

static void list_json_argv(struct json *j, char *const *argv)
{
	bool text = true;

	json_open(j, "argv", '[');
	for (size_t i = 0; argv && argv[i]; i++) {
		json_str(j, NULL, argv[i]);
		text &= utf8_valid(argv[i], strlen(argv[i]));
	}
	json_close(j, ']');
	if (text)
		return;
	json_open(j, "argv_base64", '[');
	for (size_t i = 0; argv[i]; i++)
		json_base64(j, NULL, argv[i], strlen(argv[i]));
	json_close(j, ']');
}

void work_list_json(struct json *j, const struct work_item *w)
{
	json_open(j, NULL, '{');
	json_str(j, "id", w->id);
	json_str(j, "name", w->name);
	show_json_path(j, "project", w->project);
	show_json_path(j, "workdir", w->workdir ? w->workdir : w->project);
	json_str(j, "mode", work_mode_name(w->mode));
	json_str(j, "image", w->image);
	list_json_argv(j, w->argv);
	json_bool(j, "running", w->running);
	if (w->status < 0)
		json_nil(j, "exit_status");
	else
		json_int(j, "exit_status", w->status);
	list_json_time(j, "created_at", w->started_ns);
	list_json_time(j, "ended_at", w->ended_ns);
	json_close(j, '}');
}

static void work_list_line(const struct work_item *w, struct buf *b)
{
	char ago[HUMAN_MAX] = "-";

	if (w->ended_ns && !w->running)
		(void)human_ago((time_t)(w->ended_ns / 1000000000), time(NULL), ago);
	buf_printf(b, "%-14s%-9s%-9s%-16s%-16s", w->id, w->running ? "in use" : "kept",
		   work_mode_name(w->mode), w->name ? w->name : "-", ago);
	work_list_put(b, w->project);
	buf_puts(b, "\n");
}

int work_list_print(bool json)
{
	AUTO_WORK_LIST struct work_list all = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_BUF struct buf b = BUF_INIT(LIST_MAX);
	struct json j = { .out = &b };

	if (works_list(NULL, &all, &err) < 0) {
		message_say("work", "%s", err.msg);
		return STATUS_FAILED;
	}
	if (!json)
		buf_printf(&b, "%-14s%-9s%-9s%-16s%-16s%s\n", "WORK", "STATE", "MODE",
			   "NAME", "ENDED", "PROJECT");
	for (size_t i = 0; i < all.n; i++) {
		if (all.v[i].remains)
			continue;
		if (json) {
			work_list_json(&j, &all.v[i]);
			buf_puts(&b, "\n");
			j = (struct json){ .out = &b };
		} else {
			work_list_line(&all.v[i], &b);
		}
	}
	return message_print("work", &b);
}

static int work_list_remove_one(const char *id_or_name, bool quiet)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char id[ID_LEN + 1];
	struct work *w = NULL;

	if (work_open_to_remove(id_or_name, &w, &err) == 0) {
		(void)strcpy(id, w->id);
		if (work_remove(w, &err) == 0) {
			if (!quiet)
				(void)printf("%s\n", id);
			return 0;
		}
	}
	message_say("work", "%s", err.msg);
	return STATUS_FAILED;
}

int work_list_remove(const char *id_or_name, char **more, bool quiet)
{
	int status = work_list_remove_one(id_or_name, quiet);

	for (; *more; more++) {
		int r = work_list_remove_one(*more, quiet);

		status = status ? status : r;
	}
	return status;
}
