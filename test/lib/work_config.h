/* SPDX-License-Identifier: Apache-2.0 */
/* work_config.h - write the configuration of the project's repository */
#ifndef TEST_WORK_CONFIG_H
#define TEST_WORK_CONFIG_H

#include "lib/work.h"

__attribute__((unused)) static void configure(const char *text)
{
	char path[256];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/.git/config", project);
	f = fopen(path, "we");
	OK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Configure only this value, with quotes. */
__attribute__((unused)) static const char *
configure_value(const char *section, const char *key, const char *value)
{
	static char text[1024];
	size_t n = (size_t)snprintf(text, sizeof(text), "[%s]\n%s = \"", section, key);

	for (; *value; value++) {
		if (strchr("\"\\\n", *value))
			text[n++] = '\\';
		text[n++] = *value == '\n' ? 'n' : *value;
	}
	(void)strcpy(text + n, "\"\n");
	configure(text);
	return text;
}

#endif /* TEST_WORK_CONFIG_H */
