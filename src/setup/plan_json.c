/* SPDX-License-Identifier: Apache-2.0 */
/* plan_json.c - write a plan as JSON */
#include "setup/plan.h"

static void plan_json_list(struct json *j, const char *key, char *const *list)
{
	json_open(j, key, '[');
	for (; list && *list; list++)
		json_str(j, NULL, *list);
	json_close(j, ']');
}

static void plan_json_steps(struct json *j, const char *key, const struct setup_steps *s)
{
	json_open(j, key, '[');
	for (size_t i = 0; i < s->n; i++) {
		const struct setup_step *step = &s->v[i];

		json_open(j, NULL, '{');
		json_str(j, "title", step->title);
		json_str(j, "dir", step->dir);
		json_str(j, "why", step->why);
		json_str(j, "run", step->run);
		json_str(j, "verify", step->verify);
		plan_json_list(j, "files", step->files);
		json_str(j, "reads_all", step->reads_why);
		json_bool(j, "start", step->start);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void plan_json_build(const struct setup_build *b, struct json *j)
{
	json_open(j, "build", '{');
	json_str(j, "dockerfile", b->dockerfile);
	json_str(j, "context", b->context);
	json_str(j, "target", b->target);
	plan_json_list(j, "args", b->args);
	json_close(j, '}');
}

void setup_plan_json(const struct setup_plan *p, struct json *j)
{
	json_str(j, "config", p->config);
	json_str(j, "image", p->image);
	if (p->build.dockerfile)
		plan_json_build(&p->build, j);
	json_str(j, "user", p->user);
	json_str(j, "workdir", p->workdir);
	plan_json_list(j, "env", p->env);
	json_open(j, "mounts", '[');
	for (size_t i = 0; i < p->n_mounts; i++) {
		json_open(j, NULL, '{');
		json_str(j, "target", p->mounts[i].target);
		json_u64(j, "size", p->mounts[i].size);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_open(j, "ports", '[');
	for (size_t i = 0; i < p->n_ports; i++)
		json_u64(j, NULL, p->ports[i]);
	json_close(j, ']');
	plan_json_list(j, "allow", p->allow);
	plan_json_list(j, "hide", p->hide);
	json_str(j, "source", setup_source_names[p->source]);
	plan_json_steps(j, "steps", &p->steps);
	plan_json_list(j, "files", p->files);
	plan_json_list(j, "notes", p->notes);
	json_str(j, "ask", p->ask);
}
