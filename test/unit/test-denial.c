/* SPDX-License-Identifier: Apache-2.0 */
/* test-denial.c - each error finds the quota that it is about, and no other */
#include "base/denial.h"

#include <errno.h>

#include "base/error.h"
#include "lib/tap.h"

static struct denials all;

static struct warren_error deny(const char *tenant, uint64_t used)
{
	struct warren_error err = WARREN_ERROR_INIT;

	(void)error_set(&err, EUSERS, "the tenant '%s' has %ju sandboxes", tenant,
			(uintmax_t)used);
	denials_add(&all, "sandboxes", used, 10, &err);
	return err;
}

TEST(an_error_finds_its_denial_after_another)
{
	struct warren_error a = deny("a", 1), b = deny("b", 2);

	EQ(denials_find(&all, &a)->used, 1);
	EQ(denials_find(&all, &b)->used, 2);
	STREQ(denials_find(&all, &a)->quota, "sandboxes");
	(void)error_wrap(&a, "create the copies");
	EQ(denials_find(&all, &a)->used, 1);
}

TEST(another_error_finds_none)
{
	struct warren_error other = WARREN_ERROR_INIT, old = deny("old", 3);

	OK(denials_find(&all, &other) == NULL);
	(void)error_set(&other, EUSERS, "something else");
	OK(denials_find(&all, &other) == NULL);
	OK(denials_find(&all, &old) != NULL);
	for (uint64_t i = 0; i < DENIALS_KEPT; i++)
		(void)deny("new", 100 + i);
	OK(denials_find(&all, &old) == NULL);
}

TEST_MAIN()
