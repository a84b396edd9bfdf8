/* SPDX-License-Identifier: Apache-2.0 */
/*
 * first_blob.S - the program of first.c, carried inside warren-keeper
 *
 *	extern const char gvisor_first[], gvisor_first_end[];
 */
	.section .rodata

	.globl gvisor_first
	.hidden gvisor_first
	.type gvisor_first, %object
gvisor_first:
	.incbin GVISOR_FIRST_PATH
	.size gvisor_first, . - gvisor_first

	.globl gvisor_first_end
	.hidden gvisor_first_end
	.type gvisor_first_end, %object
gvisor_first_end:
	.byte 0
	.size gvisor_first_end, 1

	.section .note.GNU-stack, "", %progbits
