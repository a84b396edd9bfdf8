/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init_blob.S - the program warren-init, carried inside the library
 *
 *	extern const unsigned char warren_init_blob[], warren_init_blob_end[];
 *
 * The build says where it is (WARREN_INIT_PATH). Aligned to a page, so that it can be
 * handed to the kernel without being copied; hidden, so that libwarren.so does not
 * export it.
 */
	.section .rodata
	.balign 4096

	.globl warren_init_blob
	.hidden warren_init_blob
	.type warren_init_blob, %object
warren_init_blob:
	.incbin WARREN_INIT_PATH
	.size warren_init_blob, . - warren_init_blob

	.globl warren_init_blob_end
	.hidden warren_init_blob_end
	.type warren_init_blob_end, %object
warren_init_blob_end:
	.byte 0
	.size warren_init_blob_end, 1

	.section .note.GNU-stack, "", %progbits
