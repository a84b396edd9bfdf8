/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.c - templates of sandboxes: check them at the start, merge them into requests
 */
#include <errno.h>
#include <string.h>

#include "api/v1/sandbox.h"
#include "api/validate.h"
#include "base/json.h"
#include "config/config.h"

/* These fields apply to a single request only. */
static const char *const own[] = { "name", "template", "idempotency_key", "wait_ms" };
/* In these maps, each entry is merged separately. */
static const char *const maps[] = { "env", "labels", "limits" };

int v1_check_templates(const struct config *cfg, struct warren_error *err)
{
	const struct api_schema *schema = v1_face.ops[V1_CREATE_SANDBOX].schema;
	const char *name;
	json_t *value;

	json_object_foreach(cfg->templates, name, value)
	{
		struct api_error refusal = { 0 };

		for (size_t i = 0; i < ARRAY_SIZE(own); i++)
			if (json_object_get(value, own[i]))
				return error_set(
					err, EINVAL,
					"templates.%s: '%s' belongs to a single sandbox and "
					"cannot be in a template",
					name, own[i]);
		if (validate_json(schema, value, &refusal) < 0)
			return error_set(err, EINVAL, "templates.%s: %s", name,
					 refusal.message);
	}
	return 0;
}

static int put_below(json_t *request, const char *key, json_t *value)
{
	json_t *mine = json_object_get(request, key);

	for (size_t i = 0; mine && i < ARRAY_SIZE(maps); i++)
		if (strcmp(key, maps[i]) == 0 && json_is_object(mine))
			return json_object_update_missing(mine, value);
	return mine ? 0 : json_object_set(request, key, value);
}

int template_apply(const struct v1 *v1, const struct body *body, struct body *ret,
		   struct api_error *err)
{
	const char *name = body_text(body, "template"), *key;
	json_t *from, *value;
	int r = 0;

	if (!name)
		return 0;
	from = json_object_get(v1->config->templates, name);
	if (!from)
		return api_error_set(err, API_ERR_TEMPLATE_NOT_FOUND,
				     "/template: there is no template '%s'", name);
	*ret = (struct body){ .schema = body->schema,
			      .json = json_deep_copy(body->json),
			      .owned = true };
	json_object_foreach(from, key, value) if (r == 0 && ret->json) r =
		put_below(ret->json, key, value);
	return ret->json && r == 0
		       ? 1
		       : api_error_set(err, API_ERR_OVERLOADED, "out of memory");
}

void v1_list_templates(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(4U << 20);
	struct json j = { .out = &out };
	const char *name;
	json_t *value;

	json_open(&j, NULL, '{');
	json_open(&j, "templates", '[');
	json_object_foreach(c->v1->config->templates, name, value)
	{
		char *text = json_dumps(value, JSON_COMPACT);

		json_open(&j, NULL, '{');
		json_str(&j, "name", name);
		json_raw(&j, "sandbox", text ? text : "{}", text ? strlen(text) : 2);
		json_close(&j, '}');
		free(text);
	}
	json_close(&j, ']');
	json_close(&j, '}');
	call_json(c, 200, &out);
}
