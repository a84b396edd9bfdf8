/* SPDX-License-Identifier: Apache-2.0 */
/* test-kind.c - the descriptors of all kinds of backends are complete */
#include "backend/kind.h"

#include <string.h>

#include "backend/backend.h"
#include "spec/spec.h"

#include "lib/tap.h"

TEST(every_kind_can_be_found_and_opened_by_its_name)
{
	for (size_t i = 0; i < backend_n_kinds; i++) {
		const struct backend_kind *k = backend_kinds[i];

		OK(backend_kind_find(k->name) == k);
		OK(backend_by_name(k->name));
		STREQ(backend_by_name(k->name)->name, k->name);
	}
	/* It is for tests, so a configuration cannot name it. */
	OK(!backend_kind_find("null"));
	OK(backend_by_name("null"));
	OK(!backend_kind_find("nosuch"));
}

TEST(a_kind_says_what_users_must_know)
{
	for (size_t i = 0; i < backend_n_kinds; i++) {
		const struct backend_kind *k = backend_kinds[i];

		OK(k->help && k->help[0] && k->help[strlen(k->help) - 1] != '.');
		OK(k->tier < TIER_MAX);
		OK(k->offered || k->n_settings > 0);
		OK(!k->only_one || (k->offered && k->n_settings == 0));
		EQ(k->limits & ~SPEC_LIMIT_BITS, 0);
		OK(!k->settings == (k->n_settings == 0));
	}
}

static bool is_in(const char *word, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(*list, word) == 0)
			return true;
	return false;
}

TEST(a_setting_says_how_it_is_checked)
{
	for (size_t i = 0; i < backend_n_kinds; i++)
		for (size_t j = 0; j < backend_kinds[i]->n_settings; j++) {
			const struct backend_setting *s = &backend_kinds[i]->settings[j];

			/* All kinds have it, so it is not listed. */
			OK(strcmp(s->name, "kind") != 0);
			OK(s->help && s->help[0]);
			EQ(s->type == BACKEND_SETTING_CHOICE, s->choices != NULL);
			EQ(s->type == BACKEND_SETTING_ARGV, s->places != NULL);
			EQ(s->needs != NULL, s->needs_what != NULL);
			for (size_t n = 0; s->needs && s->needs[n]; n++)
				OK(is_in(s->needs[n], s->places));
			for (size_t n = 0; n < j; n++)
				OK(strcmp(backend_kinds[i]->settings[n].name, s->name) !=
				   0);
		}
}

TEST(a_template_can_contain_every_limit)
{
	const struct backend_kind *k = backend_kind_find("command");
	const struct backend_setting *create = &k->settings[0];

	STREQ(create->name, "create");
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		OK(is_in(spec_limits[i].word, create->places));
}

TEST_MAIN()
