/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_keys.c - which values of git's configuration name files that act
 *
 * Every value counts as the name of a file, unless a table says that it is data, because
 * an unknown key may name one (lfs.customtransfer.NAME.path). Only values that are
 * commands are parsed like in a shell.
 */
#include "work/git_keys.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
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
	{ "gc", "recentobjectshook", GIT_KEY_COMMAND },
	{ "gitflow", "hooks", GIT_KEY_PATH }, /* gitflow.path.hooks */
	{ "delta", "pager", GIT_KEY_COMMAND },
};

/*
 * Keys of git and of common tools whose values are neither executed nor read as
 * configuration. Several keys are separated by blanks; NULL: all keys of the section that
 * are not in the other table. The whole section of a tool is here only if the tool
 * executes nothing that its keys name.
 */
static const struct {
	const char *section, *keys;
	const char *why; /* only documentation */
} git_data[] = {
	{ "author", NULL, "a person" },
	{ "blame", NULL, "a file with commits; colors" },
	{ "branch", NULL, "branches and remotes" },
	{ "checkout", NULL, "a remote, numbers" },
	{ "clone", "defaultremotename", "a remote" },
	{ "color", NULL, "colors" },
	{ "column", NULL, "a choice" },
	{ "commit", NULL, "a text, a choice" },
	{ "committer", NULL, "a person" },
	{ "core",
	  "abbrev autocrlf checkroundtripencoding checkstat commentchar commentstring "
	  "createobject eol fsync fsyncmethod loosecompression sharedrepository safecrlf "
	  "untrackedcache whitespace",
	  "choices: core.autocrlf = input" },
	{ "core", "excludesfile", "patterns of names" },
	{ "core", "notesref alternaterefsprefixes", "references" },
	{ "credential", "username", "a person" },
	{ "credential", "provider credentialstore",
	  "choices, of the Git Credential Manager" },
	{ "delta", "features syntax-theme", "names of settings that have keys" },
	{ "diff",
	  "algorithm colormoved colormovedws dirstat dstprefix ignoresubmodules renames "
	  "srcprefix submodule wserrorhighlight",
	  "choices: diff.submodule = log" },
	{ "diff", "funcname orderfile wordregex xfuncname", "patterns" },
	{ "extensions", "objectformat partialclone", "a choice, a remote" },
	{ "fetch", NULL, "choices" },
	{ "format", NULL, "texts of mails, and where patches are written" },
	{ "fsck", NULL, "choices, and a file with names of objects" },
	{ "github", "user", "a person" },
	{ "gitlab", "user", "a person" },
	{ "gitflow",
	  "base bugfix develop feature hotfix main master origin parent prefix release "
	  "startpoint support type versiontag",
	  "branches and their prefixes" },
	{ "gitreview", NULL, "a host, a project, a branch, a remote, a person" },
	{ "gpg", "format mintrustlevel", "choices: gpg.format = ssh" },
	{ "grep", NULL, "choices: grep.patternType = perl" },
	{ "gui", NULL, "choices, and directories for a menu" },
	{ "help", "autocorrect format", "choices: help.format = web" },
	{ "http",
	  "delegation extraheader followredirects proxyauthmethod sslbackend "
	  "sslcipherlist sslversion useragent version",
	  "choices, and what is sent" },
	{ "hub", "host protocol", "a host, a choice" },
	{ "i18n", NULL, "encodings" },
	{ "init", "defaultbranch defaultobjectformat defaultrefformat",
	  "a branch, choices" },
	{ "lfs", "fetchexclude fetchinclude", "patterns of names" },
	{ "lfs", "access pruneremotetocheck", "a choice, a remote" },
	{ "log", NULL, "choices: log.date = local" },
	{ "mailmap", NULL, "names of authors" },
	{ "maintenance", NULL, "choices, and directories of repositories" },
	{ "merge",
	  "branchdesc conflictstyle directoryrenames ff log renames stat suppressdest",
	  "choices" },
	{ "merge", "default name recursive",
	  "a text for people, and names of drivers that have keys" },
	{ "notes", NULL, "references, choices" },
	{ "pretty", NULL, "formats" },
	{ "protocol", NULL, "choices: protocol.file.allow = user" },
	{ "pull", NULL, "choices" },
	{ "push", NULL, "choices" },
	{ "rebase", NULL, "choices" },
	{ "remote", "fetch followremotehead partialclonefilter push tagopt",
	  "references, choices" },
	{ "remote", "lfsdefault lfspushdefault pushdefault", "remotes" },
	{ "remote", "pushurl url", "repositories, which are guarded themselves" },
	{ "remote", "gh-resolved", "a project: remote.origin.gh-resolved = base" },
	{ "remotes", NULL, "remotes" },
	{ "safe", NULL, "directories of repositories" },
	{ "scalar", NULL, "directories of repositories" },
	{ "sendemail",
	  "aliasfiletype bcc cc confirm envelopesender from identity smtpdomain "
	  "smtpencryption smtpuser suppresscc suppressfrom to transferencoding",
	  "people, choices" },
	{ "ssh", "variant", "a choice: ssh.variant = ssh" },
	{ "status", NULL, "choices: status.showUntrackedFiles = all" },
	{ "submodule", NULL, "branches, choices" },
	{ "svn-remote", NULL, "repositories" },
	{ "tag", NULL, "choices" },
	{ "tar", "umask", "a choice: tar.umask = user" },
	{ "trailer", "ifexists ifmissing key separators where", "texts, choices" },
	{ "url", NULL, "beginnings of URLs" },
	{ "user", NULL, "a person" },
	{ "versionsort", NULL, "suffixes" },
};

/* Is @key one of these? */
static bool git_key_in(const char *keys, const char *key)
{
	const size_t n = strlen(key);

	for (const char *at = keys; *at; at += strspn(at, " ")) {
		size_t size = strcspn(at, " ");

		if (size == n && strncasecmp(at, key, n) == 0)
			return true;
		at += size;
	}
	return false;
}

enum git_key git_key_of(const char *section, const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(git_keys); i++)
		if (strcasecmp(section, git_keys[i].section) == 0 &&
		    (!git_keys[i].key || strcasecmp(key, git_keys[i].key) == 0))
			return git_keys[i].is;
	for (size_t i = 0; i < ARRAY_SIZE(git_data); i++)
		if (strcasecmp(section, git_data[i].section) == 0 &&
		    (!git_data[i].keys || git_key_in(git_data[i].keys, key)))
			return GIT_KEY_DATA;
	return GIT_KEY_OTHER;
}
