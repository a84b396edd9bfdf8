/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docs_blob.S - the page of /docs and the document of /openapi.json, carried in the program
 *
 *	extern const char v1_docs[], v1_docs_end[], v1_openapi[], v1_openapi_end[];
 *
 * The build says where they are. Hidden, as all symbols are that are not of the library's face.
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
	blob v1_docs, V1_DOCS_PATH
	blob v1_openapi, V1_OPENAPI_PATH

	.section .note.GNU-stack, "", %progbits
