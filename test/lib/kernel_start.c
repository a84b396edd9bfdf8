/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_start.c - start a kernel as the service does, without a sandbox
 *
 *	kernel-start LANGUAGE            become the kernel, which expects its source
 *	kernel-start --source LANGUAGE   write the source
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "code/kernel/kernel.h"
#include "code/language.h"

static int kernel_start_exec(const struct code_kernel *k)
{
	char tool[64];
	char *argv[16] = { NULL };

	for (size_t i = 0; k->argv[i]; i++)
		argv[i] = (char *)k->argv[i];
	for (size_t i = 0; code_step_tool(k->argv[0], i, tool, sizeof(tool)); i++) {
		argv[0] = tool;
		execvp(tool, argv);
	}
	perror(k->argv[0]);
	return 127;
}

int main(int argc, char **argv)
{
	const struct code_kernel *k = argc > 1 ? code_kernel_find(argv[argc - 1]) : NULL;

	if (!k) {
		fprintf(stderr, "usage: kernel-start [--source] LANGUAGE\n");
		return 2;
	}
	if (strcmp(argv[1], "--source") == 0)
		return fwrite(k->source, 1, code_kernel_source_size(k), stdout) ==
				       code_kernel_source_size(k)
			       ? 0
			       : 1;
	return kernel_start_exec(k);
}
