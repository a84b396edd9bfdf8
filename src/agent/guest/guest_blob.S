/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_blob.S - the program warren-guest, carried inside the shim
 *
 *	extern const unsigned char warren_guest_blob[], warren_guest_blob_end[];
 *
 * The build says where it is (WARREN_GUEST_PATH).
 */
	.section .rodata

	.globl warren_guest_blob
	.hidden warren_guest_blob
	.type warren_guest_blob, %object
warren_guest_blob:
	.incbin WARREN_GUEST_PATH
	.size warren_guest_blob, . - warren_guest_blob

	.globl warren_guest_blob_end
	.hidden warren_guest_blob_end
	.type warren_guest_blob_end, %object
warren_guest_blob_end:
	.byte 0
	.size warren_guest_blob_end, 1

	.section .note.GNU-stack, "", %progbits
