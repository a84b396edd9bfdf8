/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_blob.S - the sources of the kernels, carried in the program
 *
 *	extern const char kernel_python[], kernel_python_end[];
 *
 * The build says where the files are. The symbols are hidden, like all symbols that are
 * not part of the library's interface.
 */
	.macro blob name, path
	.globl \name, \name\()_end
	.hidden \name, \name\()_end
	.type \name, %object
\name:
	.incbin "\path"
	.size \name, . - \name
	.type \name\()_end, %object
\name\()_end:
	.byte 0
	.size \name\()_end, 1
	.endm

	.section .rodata
	blob kernel_python, KERNEL_PYTHON_PATH
	blob kernel_javascript, KERNEL_JAVASCRIPT_PATH
	blob kernel_bash, KERNEL_BASH_PATH

	.section .note.GNU-stack, "", %progbits
