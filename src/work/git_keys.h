/* SPDX-License-Identifier: Apache-2.0 */
/* git_keys.h - what the values of git's configuration mean */
#ifndef WORK_GIT_KEYS_H
#define WORK_GIT_KEYS_H

enum git_key {
	GIT_KEY_OTHER,   /* it may name files; git may execute or read them */
	GIT_KEY_DATA,    /* names and numbers, which are no files that act */
	GIT_KEY_INCLUDE, /* a file of configuration, relative to the one that names it */
	GIT_KEY_PATH, /* a directory with programs, relative to the top of the worktree */
	GIT_KEY_COMMAND,  /* a program, or a command for the shell, which runs there */
	GIT_KEY_ALIAS,    /* such a command after "!"; otherwise, one of git */
	GIT_KEY_WORKTREE, /* the top of the worktree, relative to git's directory */
};

/* What the value of a key is, in any case of letters. */
enum git_key git_key_of(const char *section, const char *key);

#endif /* WORK_GIT_KEYS_H */
