/* SPDX-License-Identifier: Apache-2.0 */
/* caps.c - capget(2), capset(2) and the bounding set, without a library */
#include "os/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "nolibc/sys.h"

#define BIT(cap) (1ULL << (cap))

/*
 * The capabilities that package managers, servers and shells need inside; they apply only
 * to the namespace.
 */
const uint64_t caps_kept = BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) |
			   BIT(CAP_FSETID) | BIT(CAP_KILL) | BIT(CAP_NET_BIND_SERVICE) |
			   BIT(CAP_SETFCAP) | BIT(CAP_SETGID) | BIT(CAP_SETPCAP) |
			   BIT(CAP_SETUID) | BIT(CAP_SYS_CHROOT);

int caps_drop_all(struct warren_error *err)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	long r;

	if (caps_have(CAP_SETPCAP))
		return caps_reduce(0, err);
	r = SYS_2(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL);
	if (r == 0)
		r = SYS_2(SYS_capset, &h, none);
	return r < 0 ? error_errno(err, (int)-r, "drop all capabilities") : 0;
}

int caps_bound(uint64_t keep, struct warren_error *err)
{
	long r = 0;

	/*
	 * Continue up to the last capability of this kernel, which may be newer than this
	 * header.
	 */
	for (unsigned long cap = 0; r != -EINVAL && cap < 64; cap++) {
		if (!(keep & BIT(cap)))
			r = SYS_2(SYS_prctl, PR_CAPBSET_DROP, cap);
		if (r < 0 && r != -EINVAL)
			return error_errno(err, (int)-r, "drop capability %lu", cap);
	}
	return 0;
}

int caps_reduce(uint64_t keep, struct warren_error *err)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = {
		{ .effective = (uint32_t)keep, .permitted = (uint32_t)keep },
		{ .effective = (uint32_t)(keep >> 32),
		  .permitted = (uint32_t)(keep >> 32) },
	};
	long r = caps_bound(keep, err);

	if (r < 0)
		return (int)r;
	r = SYS_2(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL);
	if (r < 0)
		return error_errno(err, (int)-r, "clear the ambient capabilities");
	r = SYS_2(SYS_capset, &h, d);
	if (r < 0)
		return error_errno(err, (int)-r, "set the capabilities");
	return 0;
}

int caps_hand_down(uint64_t keep, struct warren_error *err)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { 0 };
	long r;

	for (int i = 0; i < 2; i++)
		d[i].effective = d[i].permitted = d[i].inheritable =
			(uint32_t)(keep >> (32 * i));
	r = SYS_2(SYS_capset, &h, d);
	for (unsigned long cap = 0; r == 0 && cap < 64; cap++)
		if (keep & BIT(cap))
			r = SYS_5(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0,
				  0);
	return r < 0 ? error_errno(err, (int)-r, "pass on the capabilities") : 0;
}

bool caps_have(int cap)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { 0 };

	if (syscall(SYS_capget, &h, d) < 0)
		return false;
	return d[cap / 32].effective >> (cap % 32) & 1;
}
