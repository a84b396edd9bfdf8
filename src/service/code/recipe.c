/* SPDX-License-Identifier: Apache-2.0 */
/* recipe.c - what a sandbox of a code run is created from, as a copy */
#include "service/code/recipe.h"

#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/macro.h"
#include "base/strv.h"

struct code_recipe *code_recipe_free(struct code_recipe *r)
{
	if (!r)
		return NULL;
	free(r->image);
	free(r->owner);
	free(r->backend);
	free(r->tier);
	free(r->text);
	(void)strv_free(r->run);
	(void)strv_free(r->env);
	free(r);
	return NULL;
}

static char *recipe_copy(const char *s)
{
	return s ? strdup(s) : NULL;
}

struct code_recipe *code_recipe_new(const struct code_plan *p,
				    const struct code_sandbox *from)
{
	struct code_recipe *r = calloc(1, sizeof(*r));

	if (!r || from->spec->n_mounts > ARRAY_SIZE(r->mounts))
		return code_recipe_free(r);
	r->row = *from->row;
	r->spec = *from->spec;
	r->source = *from->source;
	for (size_t i = 0; i < from->spec->n_mounts; i++)
		r->mounts[i] = from->spec->mounts[i];
	r->spec.mounts = r->mounts;
	r->image = recipe_copy(from->spec->image);
	r->owner = recipe_copy(from->row->owner);
	r->backend = recipe_copy(from->row->backend);
	r->tier = recipe_copy(from->row->tier);
	r->text = recipe_copy(from->row->spec);
	r->spec.image = r->row.image = r->image;
	r->row.owner = r->owner;
	r->row.backend = r->backend;
	r->row.tier = r->tier;
	r->row.spec = r->text;
	r->language = p->language;
	r->file = p->language->file;
	r->run = strv_copy(p->run);
	r->env = strv_copy(p->env);
	if (r->image && r->owner && r->backend && r->tier && r->text && r->run && r->env)
		return r;
	return code_recipe_free(r);
}

struct code_sandbox code_recipe_sandbox(struct code_recipe *r)
{
	id_make(r->row.id);
	return (struct code_sandbox){ &r->row, &r->spec, &r->source };
}

static bool recipe_same(char **a, char **b)
{
	size_t n = strv_len(a);

	if (strv_len(b) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return true;
}

bool code_recipe_matches(const struct code_recipe *r, const struct code_plan *p,
			 const struct code_sandbox *sandbox)
{
	return r->language == p->language && strcmp(r->owner, sandbox->row->owner) == 0 &&
	       strcmp(r->text, sandbox->row->spec) == 0 &&
	       r->spec.soft_limits == sandbox->spec->soft_limits &&
	       r->spec.no_pull == sandbox->spec->no_pull && recipe_same(r->run, p->run) &&
	       recipe_same(r->env, p->env);
}
