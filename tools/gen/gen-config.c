/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen-config.c - print the table of configuration keys
 *
 *	gen-config yaml >packaging/warren.yaml
 *	gen-config man >man/warren.yaml.5
 */
#include <stdio.h>
#include <string.h>

#include "config/config.h"

int main(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);

	if (argc == 2 && strcmp(argv[1], "yaml") == 0)
		config_example(&out);
	else if (argc == 2 && strcmp(argv[1], "man") == 0)
		config_manual(&out);
	if (out.failed || out.len == 0) {
		(void)fprintf(stderr, "usage: gen-config yaml|man\n");
		return 2;
	}
	return fwrite(out.data, 1, out.len, stdout) == out.len && fflush(stdout) == 0 ? 0
										      : 1;
}
