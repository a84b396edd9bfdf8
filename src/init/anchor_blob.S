/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anchor_blob.S - the program warren-anchor, carried inside the keeper
 *
 *	extern const unsigned char warren_anchor_blob[], warren_anchor_blob_end[];
 *
 * The build says where it is (WARREN_ANCHOR_PATH).
 */
	.section .rodata

	.globl warren_anchor_blob
	.hidden warren_anchor_blob
	.type warren_anchor_blob, %object
warren_anchor_blob:
	.incbin WARREN_ANCHOR_PATH
	.size warren_anchor_blob, . - warren_anchor_blob

	.globl warren_anchor_blob_end
	.hidden warren_anchor_blob_end
	.type warren_anchor_blob_end, %object
warren_anchor_blob_end:
	.byte 0
	.size warren_anchor_blob_end, 1

	.section .note.GNU-stack, "", %progbits
