/* SPDX-License-Identifier: Apache-2.0 */
/* test-kernel.c - each kernel is found by its names, and its source is whole */
#include "code/kernel/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "lib/tap.h"

TEST(a_kernel_is_found_by_its_name_and_aliases)
{
	for (size_t i = 0; i < code_n_kernels; i++) {
		const struct code_kernel *k = &code_kernels[i];

		OK(code_kernel_find(k->name) == k);
		for (size_t a = 0; k->aliases[a]; a++)
			OK(code_kernel_find(k->aliases[a]) == k);
	}
	STREQ(code_kernel_find("TS")->name, "typescript");
	OK(!code_kernel_find("nosuch"));
	OK(!code_kernel_find(""));
}

TEST(a_source_begins_with_its_size)
{
	for (size_t i = 0; i < code_n_kernels; i++) {
		const struct code_kernel *k = &code_kernels[i];
		char digits[9] = { 0 };

		OK(code_kernel_source_size(k) > 8);
		memcpy(digits, k->source, 8);
		EQ(strtoul(digits, NULL, 10) + 8, code_kernel_source_size(k));
	}
}

TEST(javascript_and_typescript_can_share_a_kernel)
{
	OK(code_kernel_find("js")->source == code_kernel_find("ts")->source);
	OK(code_kernel_find("js")->source != code_kernel_find("python")->source);
	OK(!code_kernel_find("js")->language);
	STREQ(code_kernel_find("ts")->language, "typescript");
}

TEST_MAIN()
