/* SPDX-License-Identifier: Apache-2.0 */
/* start.c - the entry point of an agent */
#include "agent/core/agent.h"

/* The kernel jumps here. The initial stack is passed on to the agent. */
__attribute__((noreturn, used)) void
_start(void); /* NOLINT(bugprone-reserved-identifier) */

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall agent_main\n\thlt\n");
#else
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tmov x0, sp\n\tbl agent_main\n\tbrk #0\n");
#endif
