/* SPDX-License-Identifier: Apache-2.0 */
/*
 * passwd.h - users and groups from the text of an image's own passwd and group files
 *
 * The text comes from the image and is untrusted: a line that does not match the format
 * exactly is skipped; ids are decimal and below 2^32 - 1. NSS and the libraries of the
 * image and the host are not used.
 */
#ifndef BASE_PASSWD_H
#define BASE_PASSWD_H

#include <stddef.h>
#include <stdint.h>

struct passwd_entry {
	uint32_t uid, gid;
	char name[64];
	char home[512]; /* "/" if the file has no absolute path */
};

/* Find a user by @name, or by @uid if @name is NULL. 0 or -ENOENT. */
int passwd_find(const char *text, size_t size, const char *name, uint32_t uid,
		struct passwd_entry *ret);
/* Find the gid of the group @name. */
int passwd_find_group(const char *text, size_t size, const char *name, uint32_t *ret_gid);
/* Find the name of the group @gid. 0 or -ENOENT. */
int passwd_group_name(const char *text, size_t size, uint32_t gid, char ret[64]);
/* Find the groups that list @user as a member, at most @max; return how many. */
size_t passwd_find_groups(const char *text, size_t size, const char *user, uint32_t *gids,
			  size_t max);

#endif /* BASE_PASSWD_H */
