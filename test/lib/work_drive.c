/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work_drive.c - create and end works for tests, without a sandbox
 *
 *	work_drive create PROJECT [NAME]	prints the id, and the work's directory
 *	work_drive end ID			as if its sandbox had ended
 */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "work/work.h"

static void drive_create(const char *project, const char *name)
{
	struct warren_error e = WARREN_ERROR_INIT;
	AUTO_WORK struct work *w = NULL;

	if (work_create(&(struct work_options){ .project = project, .name = name }, &w,
			&e) < 0)
		errx(1, "%s", e.msg);
	(void)printf("%s\n%s\n", w->id, w->dir);
}

static void drive_end(const char *id)
{
	struct warren_error e = WARREN_ERROR_INIT;
	AUTO_WORK struct work *w = NULL;

	if (work_open(id, true, &w, &e) < 0 || work_end(w, 0, &e) < 0)
		errx(1, "%s", e.msg);
}

int main(int argc, char **argv)
{
	if (argc >= 3 && strcmp(argv[1], "create") == 0)
		drive_create(argv[2], argv[3]);
	else if (argc == 3 && strcmp(argv[1], "end") == 0)
		drive_end(argv[2]);
	else
		errx(2, "usage: work_drive create PROJECT [NAME] | end ID");
	return 0;
}
