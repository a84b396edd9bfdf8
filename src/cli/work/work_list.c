/* SPDX-License-Identifier: Apache-2.0 */
/* work_list.c - list and remove works */
#include "cli/work/work_list.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "work/work.h"

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

int work_list_print(void)
{
	AUTO_WORK_LIST struct work_list all = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_BUF struct buf b = BUF_INIT(LIST_MAX);

	if (works_list(NULL, &all, &err) < 0) {
		message_say("work", "%s", err.msg);
		return STATUS_FAILED;
	}
	buf_printf(&b, "%-14s%-9s%-9s%-16s%s\n", "WORK", "STATE", "MODE", "NAME",
		   "PROJECT");
	for (size_t i = 0; i < all.n; i++) {
		const struct work_item *w = &all.v[i];

		if (w->remains)
			continue;
		buf_printf(&b, "%-14s%-9s%-9s%-16s", w->id,
			   w->running ? "in use" : "kept", work_mode_name(w->mode),
			   w->name ? w->name : "-");
		work_list_put(&b, w->project);
		buf_puts(&b, "\n");
	}
	return message_print("work", &b);
}

int work_list_remove(const char *id_or_name)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct work *w = NULL;

	if (work_open_to_remove(id_or_name, &w, &err) == 0 && work_remove(w, &err) == 0)
		return 0;
	message_say("work", "%s", err.msg);
	return STATUS_FAILED;
}
