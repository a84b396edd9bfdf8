/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user.h - resolve "name", "name:group", "uid", "uid:gid" to ids with the sandbox's
 * passwd and group files
 */
#ifndef INITCLIENT_USER_H
#define INITCLIENT_USER_H

#include "base/error.h"
#include "proto/init_proto.h"

struct initclient_user {
	uint32_t uid, gid;
	size_t n_groups;
	uint32_t groups[PROTO_GROUPS_MAX];
	char home[512];
	char name[64]; /* of the account; without one, the number; "": it was not looked
			  up */
};

/*
 * Opens passwd or group: in the image before the sandbox starts, in the sandbox
 * afterwards.
 */
typedef int (*user_open_fn)(void *ctx, const char *path);
int user_resolve(const char *text, user_open_fn open_file, void *ctx,
		 struct initclient_user *ret, struct warren_error *err);

/*
 * These functions are for an event loop, which must not block. user_needs_files() says
 * whether @text needs the two files; root does not. If it does, the loop asks init to
 * OPEN them and passes the descriptors (-1: no such file), which the caller keeps.
 */
bool user_needs_files(const char *text);
int user_resolve_files(const char *text, int passwd, int group,
		       struct initclient_user *ret, struct warren_error *err);

#endif /* INITCLIENT_USER_H */
