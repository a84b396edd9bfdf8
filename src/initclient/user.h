/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user.h - "name", "name:group", "uid", "uid:gid" to ids, by the sandbox's own passwd and
 * group
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
};

/* Where passwd and group are read from: the image before, the live sandbox after. */
typedef int (*user_open_fn)(void *ctx, const char *path);
int user_resolve(const char *text, user_open_fn open_file, void *ctx,
		 struct initclient_user *ret, struct warren_error *err);

/*
 * For an event loop, which asks init to OPEN the two files first and has their
 * descriptors (-1: there is no such file; they stay the caller's). Whether
 * @text needs them at all: root does not.
 */
bool user_needs_files(const char *text);
int user_resolve_files(const char *text, int passwd, int group,
		       struct initclient_user *ret, struct warren_error *err);

#endif /* INITCLIENT_USER_H */
