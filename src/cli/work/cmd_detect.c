/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_detect.c - warren detect: print what would be set up for a project, and why */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>

#include "cli/common_options.h"
#include "cli/run_env.h"
#include "cli/work/commands.h"
#include "cli/work/setup_ask.h"
#include "cli/work/setup_print.h"
#include "setup/plan.h"
#include "work/work.h"

struct detect_options {
	bool json;
	struct env_list env;
	const char *workdir;
	char *image;
};

#define FIELD(name) offsetof(struct detect_options, name)

/* clang-format off */
static const struct opt detect_options_table[] = {
	{ NULL, "json", 0, NULL, NULL, "print one line of JSON", opt_flag, FIELD(json) },
	{ NULL, OPT_IMAGE("python:3.12", "use this image instead of the project's", FIELD(image)) },
	{ NULL, OPT_WORKDIR("path of the project in the sandbox", FIELD(workdir)) },
	{ NULL, "env", 'e', "NAME[=VALUE]", "DEBUG=1",
	  "set ${localEnv:NAME} in devcontainer.json", value_env, FIELD(env) },
};
/* clang-format on */

static const struct opts detect_opts = {
	.table = detect_options_table,
	.n = ARRAY_SIZE(detect_options_table),
	.operands = "[PATH]",
	.example = "warren detect ~/src/project",
	.mixed = true,
};

static int detect_print(const struct detect_options *o, const char *project,
			const struct setup_plan *p, const struct setup_answers *answers)
{
	struct buf AUTO_BUF out = BUF_INIT(16 << 20);
	struct json j = { .out = &out };

	if (!o->json) {
		setup_print_plan(&out, project, p, answers);
		return message_print("detect", &out);
	}
	json_open(&j, NULL, '{');
	json_str(&j, "project", project);
	setup_plan_json(p, &j);
	json_close(&j, '}');
	buf_puts(&out, "\n");
	return message_print("detect", &out);
}

/* The user has refused the script: show what runs instead. */
static int detect_without_script(int project_fd, struct setup_options *setup,
				 struct setup_plan *plan, struct warren_error *err)
{
	AUTO_FREE char *refused = TAKE_PTR(plan->ask);
	int r;

	setup_plan_done(plan);
	setup->no_script = true;
	r = setup_plan_make(project_fd, setup, plan, err);
	if (r == 0)
		setup_plan_note(plan, "%s is not run, because you refused it; %s",
				refused, SETUP_APPROVE_SCRIPT);
	return r;
}

static int detect_project(const struct detect_options *o, const char *path,
			  struct warren_error *err)
{
	AUTO_FREE char *project = realpath(path, NULL);
	AUTO_CLOSE int fd = -1;
	struct setup_plan AUTO_SETUP_PLAN plan = { 0 };
	struct setup_options setup = { .project = project,
				       .workdir = o->workdir,
				       .image = o->image,
				       .env = (const char *const *)o->env.v };
	struct setup_answers answers;
	int r;

	if (!project)
		return error_errno(err, errno, "project '%s'", path);
	fd = open(project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "project '%s'", path);
	r = works_settle(project, NULL, err);
	if (r < 0)
		return r;
	r = setup_plan_make(fd, &setup, &plan, err);
	if (r < 0)
		return r;
	setup_ask_known(&plan, &answers);
	if (answers.script == 0)
		r = detect_without_script(fd, &setup, &plan, err);
	return r < 0 ? r : detect_print(o, project, &plan, &answers);
}

static int cmd_detect(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct detect_options o = { 0 };
	char **operands = NULL;
	int status = 0;

	if (command_operands(&work_detect, argc, argv, &o, 0, 1, &operands, &status)) {
		status = detect_project(&o, operands[0] ? operands[0] : ".", &err);
		if (status < 0) {
			message_say("detect", "%s", err.msg);
			status = STATUS_FAILED;
		}
	}
	env_list_done(&o.env);
	free(o.image);
	return status;
}

const struct command work_detect = {
	.name = "detect",
	.summary = "Show how a project is prepared for work.",
	.about =
		"PATH is the directory of the project (default: the current one). Shows the image, the\n"
		"steps that 'warren work' would run once, the files that they come from, and\n"
		"settings that are not honoured. Nothing is run, and nothing is changed.\n",
	.opts = &detect_opts,
	.run = cmd_detect,
};
