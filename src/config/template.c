/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.c - the section `templates`: defaults for sandboxes
 *
 *	templates:
 *	  python-tools:
 *	    image: python:3.12
 *	    limits: { memory: 512m }
 *	    env: { PYTHONUNBUFFERED: '1' }
 *
 * A template has fields of a request to create a sandbox. The API checks a template with
 * the schema of these requests.
 */
#include <errno.h>
#include <string.h>

#include "config/config_internal.h"
#include "config/yaml.h"

#define NAME_MAX_LEN 63

static bool template_good_name(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n <= NAME_MAX_LEN && s[0] != '-' && s[n - 1] != '-' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

int config_read_templates(struct config *c, const struct yaml *y, const json_t *in,
			  struct warren_error *err)
{
	json_t *all = json_object_get(in, "templates"), *value;
	const char *name;

	if (json_is_null(all))
		return 0;
	if (!json_is_object(all))
		return yaml_error(y, in, "templates", 0, err,
				  "templates: must be a mapping of names to templates");
	json_object_foreach(all, name, value)
	{
		if (!template_good_name(name))
			return yaml_error(y, all, name, 0, err,
					  "templates: '%.70s' is not a name: use 1 to 63 "
					  "lower-case letters, digits and inner hyphens",
					  name);
		if (!json_is_object(value))
			return yaml_error(
				y, all, name, 0, err,
				"templates.%s: must be a mapping, such as { image: "
				"'python:3.12' }",
				name);
	}
	json_decref(c->templates);
	c->templates = json_deep_copy(all);
	return c->templates ? 0 : error_errno(err, ENOMEM, "read the templates");
}

void config_templates_clear(struct config *c)
{
	json_decref(c->templates);
	c->templates = NULL;
}

/* The output is JSON, which is also YAML. */
void config_show_templates(const struct config *c, struct buf *out)
{
	char *text = c->templates ? json_dumps(c->templates, JSON_COMPACT) : NULL;

	if (text)
		buf_printf(out, "templates: %s\n", text);
	free(text);
}

void config_example_templates(struct buf *out)
{
	buf_puts(
		out,
		"\n"
		"# Default fields for new sandboxes, by name (\"template\" of a request, warren create\n"
		"# --template). Fields of the request itself take precedence.\n"
		"templates:\n"
		"  #python-tools:\n"
		"  #  image: 'python:3.12'\n"
		"  #  limits: { memory: 512m, pids: 256 }\n"
		"  #  env: { PYTHONUNBUFFERED: '1' }\n");
}

void config_manual_templates(struct buf *out)
{
	buf_puts(
		out,
		".Ss Templates\n"
		"The section\n"
		".Cm templates\n"
		"defines templates for sandboxes; each has a name.\n"
		"A template can contain every field of a request to create a sandbox, except the name,\n"
		"the template, the idempotency key and the time to wait.\n"
		"If a request names a template in its field\n"
		".Cm template ,\n"
		"the template provides each field that the request does not contain.\n"
		"For\n"
		".Cm env ,\n"
		".Cm labels\n"
		"and\n"
		".Cm limits ,\n"
		"this applies to each entry separately.\n"
		".Bd -literal -offset indent\n"
		"templates:\n"
		"  python-tools:\n"
		"    image: 'python:3.12'\n"
		"    limits: { memory: 512m, pids: 256 }\n"
		"    env: { PYTHONUNBUFFERED: '1' }\n"
		".Ed\n");
}
