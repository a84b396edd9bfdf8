/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work_drive.c - create and end works for tests, without a sandbox
 *
 *	work_drive create PROJECT [NAME]	prints the id, and the work's directory
 *	work_drive end ID			as if its sandbox had ended
 *	work_drive killed ID			accept all changes; killed at the second
 *	work_drive stopped ID			... or stopped there
 */
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "work/accept_internal.h"

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

static int drive_signal;

static void drive_at_step(const char *step)
{
	static int commits;

	if (strcmp(step, "commit") == 0 && ++commits == 2)
		(void)raise(drive_signal);
}

static void drive_interrupted(const char *id, int sig)
{
	AUTO_ACCEPT_RESULT struct accept_result result = { 0 };
	struct warren_error e = WARREN_ERROR_INIT;
	AUTO_CHANGES struct changes c = { 0 };
	AUTO_WORK struct work *w = NULL;
	struct accept_item items[16] = { 0 };

	if (work_open(id, true, &w, &e) < 0 || changes_list(w, 0, &c, &e) < 0)
		errx(1, "%s", e.msg);
	for (size_t i = 0; i < c.n && i < ARRAY_SIZE(items); i++)
		items[i].change = &c.v[i];
	drive_signal = sig;
	accept_step_hook = drive_at_step;
	if (accept_changes(w, items, c.n, &(struct accept_options){ 0 }, &result, &e) < 0)
		errx(1, "%s", e.msg);
}

int main(int argc, char **argv)
{
	if (argc >= 3 && strcmp(argv[1], "create") == 0)
		drive_create(argv[2], argv[3]);
	else if (argc == 3 && strcmp(argv[1], "end") == 0)
		drive_end(argv[2]);
	else if (argc == 3 && strcmp(argv[1], "killed") == 0)
		drive_interrupted(argv[2], SIGKILL);
	else if (argc == 3 && strcmp(argv[1], "stopped") == 0)
		drive_interrupted(argv[2], SIGSTOP);
	else
		errx(2,
		     "usage: work_drive create PROJECT [NAME] | end, killed, stopped ID");
	return 0;
}
