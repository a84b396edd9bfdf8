/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.h - the programs that run the cells of a code interpreter in a sandbox
 *
 * A kernel is an ordinary exec. It keeps the variables of its cells until it ends. To
 * start one, run @argv in the sandbox (in the directory and with the environment that the
 * cells are to have) and write the source (@source to
 * @source_end) to its standard input. Requests
 * may follow at once; the kernel does not report that it is ready.
 *
 * Requests are compact JSON objects (no space between tokens), one in each line, on the
 * standard input:
 *
 *	{"op":"execute","id":1,"code":"...","env_vars":{"NAME":"value"}}
 *	{"op":"interrupt","id":1}
 *	{"op":"exit"}
 *
 * "env_vars" may be missing or null; the variables are set for this cell only. A cell may
 * have "language":"typescript" for the kernel of JavaScript. Cells run one after another.
 * An interrupt stops the cell with that id if it is running, and is ignored otherwise, so
 * it cannot stop a later cell; without an id, it stops the cell that is running. SIGINT
 * to the kernel does the same. A line that is not JSON is ignored. At the end of its
 * input, the kernel exits.
 *
 * Events are JSON objects of ASCII characters, one in each line of at most
 * CODE_KERNEL_LINE_MAX bytes, on the standard output:
 *
 *	{"type":"number_of_executions","execution_count":1,"id":1}
 *	{"type":"stdout","text":"...","timestamp":"2026-01-31T12:00:00.000000Z"}
 *	{"type":"stderr","text":"...","timestamp":"2026-01-31T12:00:00.000000Z"}
 *	{"type":"result","is_main_result":true,"text":"...","extra":{}}
 *	{"type":"error","name":"NameError","value":"...","traceback":"..."}
 *	{"type":"end_of_execution"}
 *
 * Each cell begins with number_of_executions, which has its id, and ends with
 * end_of_execution. An empty line comes before both, because the code of a cell can have
 * written a part of a line. The type is the first member, without spaces. A result can
 *also have html, markdown, svg, png, jpeg, pdf, latex, json, javascript, data and chart.
 *Processes and threads that outlive their cell can write stdout and stderr events between
 *two cells.
 *
 * The code of a cell can end the kernel, or write to its output, so an event proves
 * nothing: the reader must check that each line is an object of a known type. If the
 * kernel exits before the end of a cell, the reader reports an error to its client. What
 * a kernel writes to the standard error is the reason why it could not start.
 */
#ifndef CODE_KERNEL_KERNEL_H
#define CODE_KERNEL_KERNEL_H

#include <stddef.h>

#define CODE_KERNEL_LINE_MAX (16U << 20) /* maximum bytes in the line of an event */

struct code_kernel {
	const char *name;
	const char *const *aliases; /* NULL-terminated */
	/* The value of "language" in a request to execute; NULL: none is needed. */
	const char *language;
	/* The first word may list several programs; see code_step_tool(). */
	const char *const *argv;
	const char *source, *source_end;
	const char *package; /* how to get the first program on Debian, for errors */
};

extern const struct code_kernel code_kernels[];
extern const size_t code_n_kernels;

/*
 * Find a kernel by the name of a language or its alias, ignoring case. NULL: unknown.
 * Languages whose rows have the same @source can share a running kernel.
 */
const struct code_kernel *code_kernel_find(const char *language);
/* Get the number of bytes to write to the standard input of a new kernel. */
size_t code_kernel_source_size(const struct code_kernel *k);

#endif /* CODE_KERNEL_KERNEL_H */
