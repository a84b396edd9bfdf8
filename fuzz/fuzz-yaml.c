/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-yaml.c - any file gives values with line numbers, or an error, and never an
 * invalid configuration
 */
#include <stdlib.h>

#include "config/config.h"
#include "config/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_BUF struct buf shown = BUF_INIT(8U << 20);
	AUTO_CONFIG struct config *c = NULL, *again = NULL;
	AUTO_YAML struct yaml *y = NULL;

	if (yaml_load("f", (const char *)data, size, &y, &err) < 0)
		return err.code && err.msg[0] ? 0 : (abort(), 0);
	if (!json_is_object(yaml_root(y)) || config_new(&c, &err) < 0)
		abort();
	if (config_read_text(c, "f", (const char *)data, size, &err) < 0 ||
	    config_finish(c, &err) < 0)
		return err.code && err.msg[0] ? 0 : (abort(), 0);
	/* A configuration that was accepted can be printed, and is accepted again. */
	config_show(c, &shown);
	if (shown.failed || config_new(&again, &err) < 0)
		abort();
	if (!c->shared && config_read_text(again, "f", shown.data, shown.len, &err) < 0)
		abort();
	return 0;
}
