/* SPDX-License-Identifier: Apache-2.0 */
/* privileges.c - the user, the privileges and the clock of init */
#include <linux/capability.h>
#include <sys/prctl.h>
#include <time.h>

#include "agent/core/agent.h"

uint64_t agent_now(void)
{
	struct timespec ts = { 0 };

	(void)SYS_2(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void take_caps(uint64_t mask)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	uint64_t now_on = init.caps & mask;
	struct __user_cap_data_struct d[2] = {
		{ .effective = (uint32_t)now_on, .permitted = (uint32_t)init.caps },
		{ .effective = (uint32_t)(now_on >> 32),
		  .permitted = (uint32_t)(init.caps >> 32) },
	};

	(void)SYS_2(SYS_capset, &h, d);
}

/*
 * Become a user that no other process has, with capabilities. The init of a native
 * sandbox has this user id from the start: its filter denies the id to all other
 * processes, and it gets its rights as ambient capabilities, which are dropped here. A
 * container starts as root and changes to that id. If the id does not exist (an ordinary
 * user's sandbox with one id), this process stays root. Files that it creates belong to
 * root in any case.
 */
void become_init(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { 0 };

	(void)SYS_2(SYS_capget, &h, d);
	init.caps = d[0].permitted | (uint64_t)d[1].permitted << 32;
	(void)SYS_5(SYS_prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0);
	if (SYS_0(SYS_getuid) != INIT_ID &&
	    SYS_3(SYS_setresgid, INIT_ID, INIT_ID, INIT_ID) == 0)
		(void)SYS_3(SYS_setresuid, INIT_ID, INIT_ID, INIT_ID);
	(void)SYS_5(SYS_prctl, PR_SET_KEEPCAPS, 0, 0, 0, 0);
	(void)SYS_1(SYS_setfsgid, 0);
	(void)SYS_1(SYS_setfsuid, 0);
	take_caps(
		~0ULL); /* no capability is inheritable, so none is ambient any longer */
	/* Do this after the change of ids, which may reset the flag to the system's
	 * default. */
	(void)SYS_5(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
}
