/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_keys.c - which values of git's configuration name files that act
 *
 * Every value is taken for the name of a file, unless the table says that it is data.
 * Only values that are commands are read as the shell reads them.
 */
#include "work/git_keys.h"

#include <stddef.h>
#include <strings.h>

#include "base/macro.h"

/* NULL: all keys of the section. The first match counts. */
static const struct {
	const char *section, *key;
	enum git_key is;
} git_keys[] = {
	{ "include", "path", GIT_KEY_INCLUDE },
	{ "includeif", "path", GIT_KEY_INCLUDE },
	{ "core", "hookspath", GIT_KEY_PATH },
	{ "init", "templatedir", GIT_KEY_PATH },
	{ "core", "worktree", GIT_KEY_WORKTREE },
	{ "alias", NULL, GIT_KEY_ALIAS },
	{ "core", "fsmonitor", GIT_KEY_COMMAND },
	{ "core", "sshcommand", GIT_KEY_COMMAND },
	{ "core", "gitproxy", GIT_KEY_COMMAND },
	{ "core", "askpass", GIT_KEY_COMMAND },
	{ "core", "editor", GIT_KEY_COMMAND },
	{ "core", "pager", GIT_KEY_COMMAND },
	{ "core", "alternaterefscommand", GIT_KEY_COMMAND },
	{ "sequence", "editor", GIT_KEY_COMMAND },
	{ "interactive", "difffilter", GIT_KEY_COMMAND },
	{ "diff", "external", GIT_KEY_COMMAND },
	{ "diff", "textconv", GIT_KEY_COMMAND },
	{ "diff", "command", GIT_KEY_COMMAND },
	{ "merge", "driver", GIT_KEY_COMMAND },
	{ "filter", NULL, GIT_KEY_COMMAND },
	{ "difftool", NULL, GIT_KEY_COMMAND },
	{ "mergetool", NULL, GIT_KEY_COMMAND },
	{ "pager", NULL, GIT_KEY_COMMAND },
	{ "gpg", "program", GIT_KEY_COMMAND },
	{ "gpg", "defaultkeycommand", GIT_KEY_COMMAND },
	{ "hook", NULL, GIT_KEY_COMMAND },
	{ "trailer", "command", GIT_KEY_COMMAND },
	{ "trailer", "cmd", GIT_KEY_COMMAND },
	{ "credential", "helper", GIT_KEY_COMMAND },
	{ "remote", "uploadpack", GIT_KEY_COMMAND },
	{ "remote", "receivepack", GIT_KEY_COMMAND },
	{ "submodule", "update", GIT_KEY_ALIAS },
	{ "uploadpack", "packobjectshook", GIT_KEY_COMMAND },
	{ "browser", NULL, GIT_KEY_COMMAND },
	{ "instaweb", NULL, GIT_KEY_COMMAND },
	{ "imap", "tunnel", GIT_KEY_COMMAND },
	{ "man", NULL, GIT_KEY_COMMAND },
	{ "tar", "command", GIT_KEY_COMMAND },
	{ "guitool", "cmd", GIT_KEY_COMMAND },
	{ "sendemail", "sendmailcmd", GIT_KEY_COMMAND },
	{ "sendemail", "smtpserver", GIT_KEY_COMMAND },
	{ "sendemail", "tocmd", GIT_KEY_COMMAND },
	{ "sendemail", "cccmd", GIT_KEY_COMMAND },
	{ "sendemail", "headercmd", GIT_KEY_COMMAND },
	{ "lfs", "path", GIT_KEY_COMMAND },
	{ "lfs", "args", GIT_KEY_COMMAND },
	{ "lfs", "clean", GIT_KEY_COMMAND },
	{ "lfs", "smudge", GIT_KEY_COMMAND },
	/* Names of branches, remotes and people; patterns of references; directories. */
	{ "author", NULL, GIT_KEY_DATA },
	{ "branch", NULL, GIT_KEY_DATA },
	{ "color", NULL, GIT_KEY_DATA },
	{ "column", NULL, GIT_KEY_DATA },
	{ "commit", NULL, GIT_KEY_DATA },
	{ "committer", NULL, GIT_KEY_DATA },
	{ "fetch", NULL, GIT_KEY_DATA },
	{ "gui", NULL, GIT_KEY_DATA },
	{ "init", "defaultbranch", GIT_KEY_DATA },
	{ "maintenance", NULL, GIT_KEY_DATA },
	{ "pull", NULL, GIT_KEY_DATA },
	{ "push", NULL, GIT_KEY_DATA },
	{ "rebase", NULL, GIT_KEY_DATA },
	{ "remote", "fetch", GIT_KEY_DATA },
	{ "remote", "push", GIT_KEY_DATA },
	{ "remote", "pushurl", GIT_KEY_DATA },
	{ "remote", "url", GIT_KEY_DATA },
	{ "remote", "partialclonefilter", GIT_KEY_DATA },
	{ "remote", "tagopt", GIT_KEY_DATA },
	{ "safe", NULL, GIT_KEY_DATA },
	{ "scalar", NULL, GIT_KEY_DATA },
	{ "submodule", NULL, GIT_KEY_DATA },
	{ "svn-remote", NULL, GIT_KEY_DATA },
	{ "url", NULL, GIT_KEY_DATA },
	{ "user", NULL, GIT_KEY_DATA },
};

enum git_key git_key_of(const char *section, const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(git_keys); i++)
		if (strcasecmp(section, git_keys[i].section) == 0 &&
		    (!git_keys[i].key || strcasecmp(key, git_keys[i].key) == 0))
			return git_keys[i].is;
	return GIT_KEY_OTHER;
}
