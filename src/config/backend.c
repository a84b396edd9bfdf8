/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.c - the section `backends`: where sandboxes may run
 *
 * Some backends exist by default, under the name of their kind. `backends` changes their
 * settings, switches them off, or adds more:
 *
 *	backends:
 *	  docker: false
 *	  build-host:
 *	    kind: command
 *	    exec: [ssh, build, --, '{command}']
 *
 * Settings are checked strictly here, and passed as JSON to the engine that opens the
 * backend. A request for a stronger tier never gets a backend with a weaker tier.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/kind.h"
#include "base/did_you_mean.h"
#include "config/config_internal.h"
#include "config/yaml.h"

#define WORDS_MAX   256 /* maximum words of a template */
#define SECONDS_MAX 86400

/* ------------------------------------------------------------------- reading settings */

static const struct backend_setting *setting_find(const struct backend_kind *kind,
						  const char *name)
{
	for (size_t i = 0; i < kind->n_settings; i++)
		if (strcmp(kind->settings[i].name, name) == 0)
			return &kind->settings[i];
	return NULL;
}

static void backend_put_list(char *out, size_t size, const char *const *list)
{
	out[0] = '\0';
	for (size_t i = 0; list[i]; i++) {
		size_t n = strlen(out);

		(void)snprintf(out + n, size - n, "%s%s", i ? ", " : "", list[i]);
	}
}

/* Write the names of kinds: all, or those that are offered. */
static void backend_put_kinds(struct buf *out, bool offered, const char *last)
{
	size_t n = 0, left = 0;

	for (size_t i = 0; i < backend_n_kinds; i++)
		left += !offered || backend_kinds[i]->offered;
	for (size_t i = 0; i < backend_n_kinds; i++)
		if (!offered || backend_kinds[i]->offered)
			buf_printf(out, "%s%s",
				   n++ == 0    ? ""
				   : n == left ? last
					       : ", ",
				   backend_kinds[i]->name);
}

static bool backend_among(const char *const *list, const char *word, size_t n)
{
	for (; *list; list++)
		if (strlen(*list) == n && strncmp(*list, word, n) == 0)
			return true;
	return false;
}

/* The location of a setting, for error messages. */
struct where {
	const struct yaml *y;
	const json_t *in; /* the backend's mapping */
	const char *backend;
	const struct backend_setting *setting;
};

/*
 * Check the placeholders in one word; set *@has if it contains one that the template
 * requires.
 */
static int check_places(const struct where *w, const json_t *list, size_t index,
			bool *has, struct warren_error *err)
{
	const char *word = json_string_value(json_array_get(list, index));
	const char *open, *close;
	char all[160];

	backend_put_list(all, sizeof(all), w->setting->places);
	for (; (open = strchr(word, '{')); word = close) {
		size_t n = strcspn(open + 1, "}");

		if (open[1] == '{') {
			close = open + 2; /* an escaped brace */
			continue;
		}
		close = open + 1 + n;
		if (*close != '}' || !backend_among(w->setting->places, open + 1, n))
			return yaml_error(
				w->y, list, NULL, index, err,
				"backends.%s.%s: {%.*s} is not known here; known: %s; "
				"write {{ for a brace",
				w->backend, w->setting->name, n > 40 ? 40 : (int)n,
				open + 1, all);
		if (n == 4 && strncmp(open, "{argv}", 6) == 0 &&
		    strcmp(json_string_value(json_array_get(list, index)), "{argv}") != 0)
			return yaml_error(
				w->y, list, NULL, index, err,
				"backends.%s.%s: {argv} becomes several words, so it "
				"must be a word by itself; {command} can be part of a "
				"word",
				w->backend, w->setting->name);
		*has = *has || (w->setting->needs &&
				backend_among(w->setting->needs, open + 1, n));
	}
	return 0;
}

static int check_argv(const struct where *w, const json_t *list, struct warren_error *err)
{
	bool has = !w->setting->needs;
	char all[160];
	int r = 0;

	if (!json_is_array(list) || json_array_size(list) == 0 ||
	    json_array_size(list) > WORDS_MAX)
		return yaml_error(w->y, w->in, w->setting->name, 0, err,
				  "backends.%s.%s: must be a list of words: [program, "
				  "argument, ...]",
				  w->backend, w->setting->name);
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));

		if (!word || (i == 0 && !word[0]))
			return yaml_error(
				w->y, list, NULL, i, err,
				"backends.%s.%s: must be a word; quote it if YAML "
				"reads it as something else",
				w->backend, w->setting->name);
		r = check_places(w, list, i, &has, err);
	}
	if (r < 0 || has)
		return r;
	backend_put_list(all, sizeof(all), w->setting->needs);
	return yaml_error(w->y, w->in, w->setting->name, 0, err,
			  "backends.%s.%s: it has no place for the %s: one of its words "
			  "must contain one of these in braces: %s",
			  w->backend, w->setting->name, w->setting->needs_what, all);
}

static int check_setting(const struct where *w, const json_t *value,
			 struct warren_error *err)
{
	const struct backend_setting *s = w->setting;
	const char *text = json_string_value(value);
	char all[160] = "";

	if (s->type == BACKEND_SETTING_ARGV)
		return check_argv(w, value, err);
	if (s->type == BACKEND_SETTING_SECONDS) {
		json_int_t n = json_integer_value(value);

		return n > 0 && n <= SECONDS_MAX
			       ? 0
			       : yaml_error(
					 w->y, w->in, s->name, 0, err,
					 "backends.%s.%s: must be a number of seconds from 1 to %d",
					 w->backend, s->name, SECONDS_MAX);
	}
	if (!text || !text[0])
		return yaml_error(w->y, w->in, s->name, 0, err,
				  "backends.%s.%s: must be a string", w->backend,
				  s->name);
	if (s->type == BACKEND_SETTING_PATH && text[0] != '/')
		return yaml_error(w->y, w->in, s->name, 0, err,
				  "backends.%s.%s: '%.100s' is not an absolute path",
				  w->backend, s->name, text);
	if (s->type != BACKEND_SETTING_CHOICE ||
	    backend_among(s->choices, text, strlen(text)))
		return 0;
	backend_put_list(all, sizeof(all), s->choices);
	return yaml_error(w->y, w->in, s->name, 0, err,
			  "backends.%s.%s: '%.60s' is not one of %s", w->backend, s->name,
			  text, all);
}

static int unknown_setting(const struct yaml *y, const json_t *in, const char *backend,
			   const struct backend_kind *kind, const char *name,
			   struct warren_error *err)
{
	struct suggestion s = { .word = name };

	suggest_consider(&s, "kind");
	for (size_t i = 0; i < kind->n_settings; i++)
		suggest_consider(&s, kind->settings[i].name);
	if (s.best)
		return yaml_error(y, in, name, 0, err,
				  "backends.%s: '%.60s' is not a setting of kind %s, did "
				  "you mean '%s'?",
				  backend, name, kind->name, s.best);
	return yaml_error(y, in, name, 0, err,
			  "backends.%s: '%.60s' is not a setting of kind %s", backend,
			  name, kind->name);
}

static int check_settings(const struct yaml *y, const json_t *in, const char *backend,
			  const struct backend_kind *kind, struct warren_error *err)
{
	json_t *object = (json_t *)in, *value;
	const char *name;
	int r = 0;

	json_object_foreach(object, name, value)
	{
		struct where w = { y, in, backend, setting_find(kind, name) };

		if (strcmp(name, "kind") == 0)
			continue;
		r = w.setting ? check_setting(&w, value, err)
			      : unknown_setting(y, in, backend, kind, name, err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < kind->n_settings; i++)
		if (kind->settings[i].required &&
		    !json_object_get(in, kind->settings[i].name))
			return yaml_error(y, in, "kind", 0, err,
					  "backends.%s: kind %s needs '%s': %s", backend,
					  kind->name, kind->settings[i].name,
					  kind->settings[i].help);
	return 0;
}

/* Return the text that opens a backend: its settings, kind and name. */
static char *settings_text(const char *name, const struct backend_kind *kind,
			   const json_t *in)
{
	json_t *all =
		json_is_object(in) ? json_copy((json_t *)(uintptr_t)in) : json_object();
	char *text = NULL;

	if (json_object_set_new(all, "kind", json_string(kind->name)) == 0 &&
	    json_object_set_new(all, "name", json_string(name)) == 0)
		text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(all);
	return text;
}

static int backend_add(struct config *c, const char *name,
		       const struct backend_kind *kind, const json_t *in,
		       struct warren_error *err)
{
	const char *tier = json_string_value(json_object_get(in, "tier"));
	struct config_backend *b, *grown;

	if (c->n_backends == CONFIG_BACKENDS_MAX)
		return error_set(err, E2BIG, "backends: at most %d", CONFIG_BACKENDS_MAX);
	grown = realloc(c->backends, (c->n_backends + 1) * sizeof(*grown));
	if (!grown)
		return error_errno(err, ENOMEM, "read the configuration");
	c->backends = grown;
	b = &grown[c->n_backends];
	*b = (struct config_backend){
		.name = strdup(name),
		.kind = kind->name,
		.tier = tier ? (enum tier)tier_parse(tier) : kind->tier,
		.settings = kind->only_one ? NULL : settings_text(name, kind, in),
		.images = kind->images,
		.network = kind->network,
		.policies = kind->policies,
		.volumes = kind->volumes,
		.trusts = kind->trusts,
		.hibernates = kind->hibernates,
		.persists = kind->persists,
		.memory = kind->memory,
		.snapshots = kind->snapshots,
		.off = json_is_false(in),
	};
	if (!b->name || (!b->settings && !kind->only_one)) {
		free(b->name);
		free(b->settings);
		return error_errno(err, ENOMEM, "read the configuration");
	}
	if (b->settings && b->images == BACKEND_IMAGES_NONE &&
	    strstr(b->settings, "{image}"))
		b->images = BACKEND_IMAGES_THEIRS;
	c->n_backends++;
	return 0;
}

/* Read the kind of the backend @name in @in. */
static int read_kind(const struct yaml *y, const json_t *in, const char *name,
		     const struct backend_kind **ret, struct warren_error *err)
{
	const json_t *value = json_object_get(in, name);
	const json_t *said = json_object_get(value, "kind");
	const char *word = said ? json_string_value(said) : name;
	const struct backend_kind *kind = word ? backend_kind_find(word) : NULL;
	bool plain = json_is_null(value) || json_is_false(value);

	if (!json_is_object(value) && !plain)
		return yaml_error(y, in, name, 0, err,
				  "backends.%s: must be a mapping of settings, or false",
				  name);
	if (!kind) {
		AUTO_BUF struct buf all = BUF_INIT(256);

		backend_put_kinds(&all, false, ", ");
		return yaml_error(y, said ? value : in, said ? "kind" : name, 0, err,
				  "backends.%s: %s%.60s%s one of %s", name,
				  said ? "kind: '" : "it has no kind; use",
				  said && word ? word : "",
				  said ? "' is not a kind; use" : "",
				  all.data ? all.data : "");
	}
	if (kind->only_one && strcmp(name, kind->name) != 0)
		return yaml_error(y, in, name, 0, err,
				  "backends.%s: the only backend of kind %s is called %s",
				  name, kind->name, kind->name);
	*ret = kind;
	return 0;
}

int config_read_backends(struct config *c, const struct yaml *y, const json_t *in,
			 struct warren_error *err)
{
	json_t *all = json_object_get(in, "backends"), *value;
	const char *name;
	int r = 0;

	if (json_is_null(all))
		return 0;
	if (!json_is_object(all))
		return yaml_error(y, in, "backends", 0, err,
				  "backends: must be a mapping of names to settings");
	json_object_foreach(all, name, value)
	{
		const struct backend_kind *kind = NULL;
		struct warren_error inner = WARREN_ERROR_INIT;

		if (check_backend_name(name, &inner) < 0)
			return yaml_error(y, all, name, 0, err, "backends: %s",
					  inner.msg);
		r = read_kind(y, all, name, &kind, err);
		if (r == 0 && json_is_object(value))
			r = check_settings(y, value, name, kind, err);
		if (r == 0)
			r = backend_add(c, name, kind, value, err);
		if (r < 0)
			break;
	}
	return r;
}

void config_backends_clear(struct config *c)
{
	for (size_t i = 0; i < c->n_backends; i++) {
		free(c->backends[i].name);
		free(c->backends[i].settings);
	}
	free(c->backends);
	c->backends = NULL;
	c->n_backends = 0;
}

/* -------------------------------------------------------- adding the default backends */

int config_add_backends(struct config *c, struct warren_error *err)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < backend_n_kinds; i++) {
		const struct backend_kind *k = backend_kinds[i];

		if (k->offered && !config_backend(c, k->name))
			r = backend_add(c, k->name, k, NULL, err);
	}
	for (size_t i = 0; i < c->n_backends; i++) {
		struct config_backend b = c->backends[i];

		if (b.off) {
			free(b.name);
			free(b.settings);
		} else {
			c->backends[n++] = b;
		}
	}
	c->n_backends = n;
	return r;
}

static void put_backends(const struct config *c, char *out, size_t size)
{
	out[0] = '\0';
	for (size_t i = 0; i < c->n_backends; i++) {
		size_t n = strlen(out);

		(void)snprintf(out + n, size - n, "%s%s (%s)", i ? ", " : "",
			       c->backends[i].name, tier_names[c->backends[i].tier]);
	}
}

int config_check_backends(struct config *c, bool named, struct warren_error *err)
{
	const struct config_backend *b = config_backend(c, c->backend);
	char all[240];

	put_backends(c, all, sizeof(all));
	if (!b)
		return error_set(err, EINVAL,
				 "backend: there is no backend '%.60s'; available: %s",
				 c->backend, all);
	if (named && b->tier < c->min_tier)
		return error_set(err, EINVAL,
				 "backend: the tier of '%s' is %s, but min_tier is %s",
				 b->name, tier_names[b->tier], tier_names[c->min_tier]);
	return 0;
}

/* "research:gvisor" */
int check_tenant_tier(const char *text, struct warren_error *err)
{
	const char *colon = strrchr(text, ':');
	char all[160];

	backend_put_list(all, sizeof(all), tier_names);
	if (!colon || colon == text)
		return error_set(err, EINVAL, "'%.100s' is not TENANT:TIER", text);
	if (tier_parse(colon + 1) < 0)
		return error_set(err, EINVAL, "'%.100s': its tier is not one of %s", text,
				 all);
	return 0;
}

/* ----------------------------------------------------------------- choosing a backend */

const struct config_backend *config_backend(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n_backends; i++)
		if (strcmp(c->backends[i].name, name) == 0)
			return &c->backends[i];
	return NULL;
}

enum tier config_min_tier(const struct config *c, const char *tenant)
{
	enum tier min = (enum tier)c->min_tier;

	for (size_t i = 0; i < c->tenant_tiers.n; i++) {
		const char *item = c->tenant_tiers.items[i];
		const char *colon = strrchr(item, ':');
		enum tier tier = (enum tier)tier_parse(colon + 1);

		if (strlen(tenant) == (size_t)(colon - item) &&
		    strncmp(tenant, item, (size_t)(colon - item)) == 0 && tier > min)
			min = tier;
	}
	return min;
}

/* Choose the default backend if its tier is strong enough, otherwise the weakest one that
 * is. */
static const struct config_backend *backend_choose(const struct config *c, enum tier tier)
{
	const struct config_backend *best = config_backend(c, c->backend);

	if (best && best->tier >= tier)
		return best;
	best = NULL;
	for (size_t i = 0; i < c->n_backends; i++)
		if (c->backends[i].tier >= tier &&
		    (!best || c->backends[i].tier < best->tier))
			best = &c->backends[i];
	return best;
}

int config_select_backend(const struct config *c, const char *tenant, const char *name,
			  enum tier tier, const struct config_backend **ret,
			  struct warren_error *err)
{
	enum tier min = config_min_tier(c, tenant);
	const char *who = tier >= min ? "is requested" : "is required by the service";
	const struct config_backend *b;
	char all[240];

	tier = tier > min ? tier : min;
	put_backends(c, all, sizeof(all));
	b = name ? config_backend(c, name) : backend_choose(c, tier);
	if (!b && name)
		return error_set(err, ENODEV,
				 "there is no backend '%.60s' here; available: %s", name,
				 all);
	if (!b)
		return error_set(
			err, EPERM,
			"tier '%s' %s, but no backend provides it here; available: %s",
			tier_names[tier], who, all);
	if (b->tier < tier)
		return error_set(err, EPERM,
				 "tier '%s' %s, but backend '%s' is of tier '%s'; "
				 "available: %s",
				 tier_names[tier], who, b->name, tier_names[b->tier],
				 all);
	*ret = b;
	return 0;
}

/* ------------------------------------------------------------------ printing settings */

void config_example_backends(struct buf *out)
{
	size_t n = 0;

	buf_puts(out, "\n"
		      "# The backends, which run sandboxes. ");
	backend_put_kinds(out, true, " and ");
	buf_puts(
		out,
		"\n# exist even if this file does not define them; to remove one, write false instead of\n"
		"# its settings. Each backend has a name, a kind and settings; the kind can be omitted if\n"
		"# it is the same as the name.\n"
		"backends:\n");
	for (size_t i = 0; i < backend_n_kinds; i++) {
		const struct backend_kind *k = backend_kinds[i];

		if (k->n_settings == 0)
			continue;
		buf_printf(out, "%s  # %s. Its tier is %s.\n", n++ ? "\n" : "", k->help,
			   tier_names[k->tier]);
		buf_printf(out, "  #%s%s:\n", k->offered ? "" : "my-", k->name);
		if (!k->offered)
			buf_printf(out, "  #  kind: %s\n", k->name);
		for (size_t s = 0; s < k->n_settings; s++)
			if (k->settings[s].example && !k->settings[s].example_hidden)
				buf_printf(out, "  #  %s: %s\n", k->settings[s].name,
					   k->settings[s].example);
	}
}

static void manual_setting(const struct backend_setting *s, struct buf *out)
{
	static const char *const forms[] = {
		[BACKEND_SETTING_TEXT] = "text",
		[BACKEND_SETTING_PATH] = "path",
		[BACKEND_SETTING_CHOICE] = "word",
		[BACKEND_SETTING_SECONDS] = "seconds",
		[BACKEND_SETTING_ARGV] = "[word, ...]",
	};
	char all[160];

	buf_printf(out, ".It Cm %s : Ar %s\n%s.\n", s->name, forms[s->type], s->help);
	if (s->choices) {
		backend_put_list(all, sizeof(all), s->choices);
		buf_printf(out, "Allowed values: %s.\n", all);
	}
	if (s->places) {
		backend_put_list(all, sizeof(all), s->places);
		buf_printf(out,
			   "It may contain these placeholders, written in braces: %s.\n",
			   all);
	}
	if (s->example)
		buf_printf(out, "An example is\n.Ql %s .\n", s->example);
}

void config_manual_backends(struct buf *out)
{
	buf_puts(
		out,
		".Ss Backends\n"
		"The section\n"
		".Cm backends\n"
		"defines the backends that run sandboxes; each has a name, a kind and settings.\n"
		"The kind can be omitted if it is the same as the name.\n"
		"The backends ");
	backend_put_kinds(out, true, " and ");
	buf_puts(
		out,
		" exist even if the file does not define them;\n"
		"to remove one, write\n"
		".Cm false\n"
		"instead of its settings.\n"
		"Each backend has an isolation tier.\n"
		"From the weakest to the strongest, the tiers are none, container, namespace,\n"
		"gvisor and vm.\n"
		"If a request names a tier, the sandbox gets this tier or a stronger one.\n"
		"If no backend provides it, the request fails.\n"
		".Bd -literal -offset indent\n"
		"backends:\n"
		"  docker: false\n"
		"  build-host:\n"
		"    kind: command\n"
		"    create: ['true']\n"
		"    exec: [ssh, build, '{command}']\n"
		"    destroy: ['true']\n"
		"    tier: vm\n"
		".Ed\n");
	for (size_t i = 0; i < backend_n_kinds; i++) {
		const struct backend_kind *k = backend_kinds[i];

		buf_printf(out, ".Pp\nThe kind\n.Cm %s\nhas the tier\n.Cm %s .\n%s.\n",
			   k->name, tier_names[k->tier], k->help);
		if (k->n_settings == 0)
			continue;
		buf_puts(out, ".Bl -tag -width Ds\n");
		for (size_t s = 0; s < k->n_settings; s++)
			manual_setting(&k->settings[s], out);
		buf_puts(out, ".El\n");
	}
}

/* Print the settings in the format of the file: JSON is also YAML. */
static void show_settings(const struct config_backend *b, struct buf *out)
{
	json_t *all = b->settings ? json_loads(b->settings, 0, NULL)
				  : json_pack("{s:s}", "kind", b->kind);
	char *text = NULL;

	(void)json_object_del(all, "name");
	text = json_dumps(all, JSON_SORT_KEYS);
	buf_printf(out, "  %s: %s\n", b->name, text ? text : "{}");
	free(text);
	json_decref(all);
}

void config_show_backends(const struct config *c, struct buf *out)
{
	buf_puts(out, "backends:\n");
	for (size_t i = 0; i < c->n_backends; i++)
		show_settings(&c->backends[i], out);
}
