/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - find the stages, and those that the target needs */
#include "dockerfile/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/strv.h"

void plan_done(struct plan *p)
{
	for (size_t k = 0; k < p->n; k++) {
		free(p->stages[k].name);
		free(p->stages[k].base);
	}
	free(p->stages);
	(void)strv_free(p->args.given);
	(void)strv_free(p->args.global);
	(void)strv_free(p->args.platform);
	*p = (struct plan){ 0 };
}

bool plan_is_step(const struct dockerfile_instruction *i)
{
	return i->kind == DOCKERFILE_FROM || i->kind == DOCKERFILE_RUN ||
	       i->kind == DOCKERFILE_COPY || i->kind == DOCKERFILE_ADD ||
	       i->kind == DOCKERFILE_WORKDIR;
}

/* ---------------------------------------------------------------- arguments */

/* TARGETPLATFORM and its parts, and the same for BUILD. */
static int plan_platform(struct plan *p, const char *platform)
{
	static const char *const sides[] = { "TARGET", "BUILD" };
	const char *slash = strchr(platform, '/');
	int r = 0;

	for (size_t k = 0; r == 0 && k < ARRAY_SIZE(sides); k++) {
		const struct {
			const char *part, *value;
			size_t n;
		} parts[] = {
			{ "PLATFORM", platform, strlen(platform) },
			{ "OS", platform, slash ? (size_t)(slash - platform) : 0 },
			{ "ARCH", slash ? slash + 1 : "", slash ? strlen(slash + 1) : 0 },
			{ "VARIANT", "", 0 },
		};

		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++) {
			char text[128];

			(void)snprintf(text, sizeof(text), "%s%s=%.*s", sides[k],
				       parts[i].part, (int)parts[i].n, parts[i].value);
			r = strv_add(&p->args.platform, text);
		}
	}
	return r;
}

/* ------------------------------------------------------------------- stages */

static bool plan_is_name(const char *s)
{
	return s[0] >= 'a' && s[0] <= 'z' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(s);
}

static char *plan_lower(const char *text)
{
	char *lower = strdup(text);

	for (char *c = lower; c && *c; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c + 32);
	return lower;
}

static size_t plan_by_name(const struct plan *p, size_t before, const char *name)
{
	for (size_t k = before; k-- > 0;)
		if (p->stages[k].name && strcasecmp(p->stages[k].name, name) == 0)
			return k;
	return PLAN_NO_STAGE;
}

size_t plan_find_stage(const struct plan *p, size_t stage, const char *from)
{
	size_t n = strlen(from), found = plan_by_name(p, stage, from);
	unsigned long number;

	if (found != PLAN_NO_STAGE || n == 0 || n > 6 || strspn(from, "0123456789") != n)
		return found;
	number = strtoul(from, NULL, 10);
	return number < stage ? number : PLAN_NO_STAGE;
}

static int plan_check_platform(const struct dockerfile *d, const struct plan *p,
			       const struct dockerfile_instruction *i,
			       const char *platform, struct warren_error *err)
{
	const char *flag = dockerfile_flag(i, "platform");
	AUTO_FREE char *wanted = NULL;
	int r = flag ? dockerfile_expand_global(d, &p->args, flag, &wanted, err) : 0;

	if (r < 0 || !flag || strcmp(wanted, platform) == 0)
		return r;
	return error_set(err, ENOTSUP,
			 "--platform=%.80s is not supported: this machine builds for %s",
			 wanted, platform);
}

/* FROM image [AS name] */
static int plan_from(const struct dockerfile *d, struct plan *p, struct plan_stage *s,
		     const char *platform, struct warren_error *err)
{
	const struct dockerfile_instruction *i = &d->v[s->from];
	size_t n = strv_len(i->args);
	int r;

	if (n != 1 && (n != 3 || strcasecmp(i->args[1], "AS") != 0))
		return error_set(err, EINVAL,
				 "FROM needs an image, and optionally AS and a name "
				 "(example: FROM debian:12 AS build)");
	r = plan_check_platform(d, p, i, platform, err);
	if (r == 0)
		r = dockerfile_expand_global(d, &p->args, i->args[0], &s->base, err);
	if (r < 0)
		return r;
	if (!s->base[0])
		return error_set(err, EINVAL,
				 "'%.80s' is empty: give its argument a default before "
				 "FROM, or use --build-arg",
				 i->args[0]);
	s->base_stage = plan_by_name(p, p->n - 1, s->base);
	if (n == 1)
		return 0;
	s->name = plan_lower(i->args[2]);
	if (!s->name)
		return error_errno(err, ENOMEM, "plan the build");
	if (!plan_is_name(s->name))
		return error_set(
			err, EINVAL,
			"'%.80s' is not a name for a stage: it must begin with a "
			"letter, and have only letters, digits, '-', '_' and '.'",
			i->args[2]);
	if (plan_by_name(p, p->n - 1, s->name) != PLAN_NO_STAGE)
		return error_set(err, EINVAL, "two stages have the name '%.80s'",
				 s->name);
	return 0;
}

static int plan_stages(const struct dockerfile *d, struct plan *p, const char *platform,
		       struct warren_error *err)
{
	int r = 0;

	p->stages = calloc(PLAN_STAGES_MAX, sizeof(*p->stages));
	if (!p->stages)
		return error_errno(err, ENOMEM, "plan the build");
	for (size_t k = 0; r == 0 && k < d->n; k++) {
		const struct dockerfile_instruction *i = &d->v[k];

		if (i->kind == DOCKERFILE_FROM) {
			if (p->n == PLAN_STAGES_MAX)
				r = error_set(err, E2BIG,
					      "the file has more than %d stages",
					      PLAN_STAGES_MAX);
			else
				p->stages[p->n++] = (struct plan_stage){ .from = k };
			if (r == 0)
				r = plan_from(d, p, &p->stages[p->n - 1], platform, err);
			if (r < 0)
				return dockerfile_error(d, i->line, err);
		} else if (p->n == 0) {
			r = dockerfile_apply_global(d, i, &p->args, err);
		}
		if (p->n > 0) {
			p->stages[p->n - 1].end = k + 1;
			p->stages[p->n - 1].steps += plan_is_step(i);
		}
	}
	return r;
}

/* --------------------------------------------------------------- the target */

static int plan_target(struct plan *p, const char *target, struct warren_error *err)
{
	p->target = target ? plan_find_stage(p, p->n, target) : p->n - 1;
	if (p->target == PLAN_NO_STAGE)
		return error_set(err, EINVAL, "the Dockerfile has no stage '%.80s'",
				 target);
	return 0;
}

/* The value of "from=" in an option --mount; the caller frees it. NULL: none. */
static char *plan_mount_from(const char *flag)
{
	const char *p = strncmp(flag, "mount=", 6) == 0 ? strstr(flag, "from=") : NULL;

	if (!p || (p[-1] != ',' && p[-1] != '='))
		return NULL;
	return strndup(p + 5, strcspn(p + 5, ","));
}

static void plan_need(struct plan *p, size_t stage, const char *from)
{
	size_t k = from ? plan_find_stage(p, stage, from) : PLAN_NO_STAGE;

	if (k != PLAN_NO_STAGE)
		p->stages[k].needed = true;
}

/* A stage needs only stages before it, so one pass from the end is enough. */
static void plan_follow(const struct dockerfile *d, struct plan *p)
{
	p->stages[p->target].needed = true;
	for (size_t k = p->target + 1; k-- > 0;) {
		const struct plan_stage *s = &p->stages[k];

		if (!s->needed)
			continue;
		if (s->base_stage != PLAN_NO_STAGE)
			p->stages[s->base_stage].needed = true;
		for (size_t i = s->from + 1; i < s->end; i++) {
			if (d->v[i].kind == DOCKERFILE_COPY)
				plan_need(p, k, dockerfile_flag(&d->v[i], "from"));
			for (char **f = d->v[i].flags; f && *f; f++) {
				AUTO_FREE char *from = plan_mount_from(*f);

				plan_need(p, k, from);
			}
		}
	}
}

int plan_make(const struct dockerfile *d, const char *target, char *const *given,
	      const char *platform, struct plan *ret, struct warren_error *err)
{
	struct plan p = { 0 };
	int r = plan_platform(&p, platform);

	for (; r == 0 && given && *given; given++)
		r = dockerfile_var_set(&p.args.given, *given, strcspn(*given, "="),
				       strchr(*given, '=') + 1);
	if (r < 0)
		r = error_errno(err, -r, "plan the build");
	if (r == 0)
		r = plan_stages(d, &p, platform, err);
	if (r == 0)
		r = plan_target(&p, target, err);
	if (r < 0) {
		plan_done(&p);
		return r;
	}
	plan_follow(d, &p);
	*ret = p;
	return 0;
}
