/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-secrets.c - which files with secrets git's configuration names */
#include <limits.h>
#include <sys/stat.h>

#include "work/git_named.h"

#include "lib/work_config.h"

/* Read @n repositories, r1 and so on, of which the last one names a file with a secret.
 */
static void read_many(int n, struct git_named *ret)
{
	char **list = calloc((size_t)n + 1, sizeof(*list));

	OK(list);
	for (int i = 0; i < n; i++)
		OK(asprintf(&list[i], "r%d", i + 1) > 0);
	EQ(git_named_read(project, list, false, ret), 0);
	for (int i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

TEST(files_with_secrets_are_found_in_many_repositories)
{
	struct git_named some = { 0 }, many = { 0 }, more = { 0 };

	begin();
	EQ(setenv("HOME", top, 1), 0);
	shell("cd p && echo https://u:s@h >store && mkdir -p $(seq -f r%%g/.git 1500) && "
	      "printf '[credential]\nhelper = store --file ../store\n' | tee r40/.git/config >r1500/.git/config");
	read_many(1500, &some);
	OK(some.secrets && !strcmp(some.secrets[0], "store") && !some.too_much);
	/* Words of the user's configuration, which each repository has again. */
	shell("(printf '[alias]\n'; seq 3000 | sed 's/.*/a& = b&/') >.gitconfig");
	read_many(40, &many);
	OK(many.secrets && !strcmp(many.secrets[0], "store") && !many.too_much);
	shell("rm .gitconfig && cd p && mkdir -p $(seq -f r%%g/.git 1501 2100)");
	read_many(2100, &more);
	OK(more.too_much && strstr(more.too_much, "more than 2048 repositories"));
	git_named_done(&some);
	git_named_done(&many);
	git_named_done(&more);
	end();
}

TEST(a_limit_of_the_search_for_secrets_is_said)
{
	static const struct {
		const char *command, *control, *why;
	} limits[] = {
		{ "(echo '[a]'; seq 70000 | sed 's/.*/k& = w&/') >>config",
		  "(echo '[a]'; seq 20000 | sed 's/.*/k& = w&/') >>config",
		  "the values for '" },
		{ "(echo '[user]'; seq -f 'k%06g = w' 400000) >>config",
		  "(echo '[user]'; seq -f 'k%06g = w' 100000) >>config",
		  "'.git/config' has more than 4 MiB" },
		{ "for i in $(seq 400); do printf '[include]\\npath = i%d\\n' $i; : >i$i; done >>config",
		  "for i in $(seq 200); do printf '[include]\\npath = i%d\\n' $i; : >i$i; done >>config",
		  "includes more than 256 files" },
		{ "mkdir -p l $(seq -f ../d/%g 3000) && ln -s $(seq -f ../../d/%g 3000) l",
		  "mkdir -p l $(seq -f ../d/%g 1000) && ln -s $(seq -f ../../d/%g 1000) l",
		  "'.git/l/" },
		{ "mkdir -p $(yes d | head -40 | paste -sd/)",
		  "mkdir -p $(yes d | head -20 | paste -sd/)",
		  "has too many files or links" },
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(limits); i++) {
		const char *why = limits[i / 2].why;
		struct git_named n = { 0 };

		begin();
		EQ(setenv("HOME", "/nonexistent", 1), 0);
		EQ(setenv("SET", i % 2 ? limits[i / 2].command : limits[i / 2].control,
			  1),
		   0);
		git("init -q .");
		shell("cd p/.git && eval \"$SET\"");
		EQ(git_named_read(project, NULL, false, &n), 0);
		if (i % 2 == 0 && n.too_much)
			TAP_FAIL("%s", n.too_much);
		if (i % 2 == 1 && (!n.too_much || !strstr(n.too_much, why)))
			TAP_FAIL("not said: %s, but %s", why, n.too_much);
		git_named_done(&n);
		end();
	}
}

TEST(files_with_secrets_are_found_in_parts_of_words)
{
	static const struct {
		const char *section, *key, *value;
		bool found;
	} sets[] = {
		{ "core", "sshCommand", "ssh -i keys/x", true },
		{ "core", "sshCommand", "ssh -ikeys/x", true },
		{ "core", "sshCommand", "ssh -o IdentityFile=keys/x", true },
		{ "core", "sshCommand", "ssh -oIdentityFile=keys/x -v", true },
		{ "core", "sshCommand", "ssh -o 'IdentityFile keys/x'", true },
		{ "core", "sshCommand", "ssh -o\"IdentityFile keys/x\"", true },
		{ "core", "sshCommand", "ssh -o \"ProxyCommand=ssh -i keys/x h\" b",
		  true },
		{ "core", "sshCommand", "sh -c 'ssh -i keys/x \"$@\"' x", true },
		{ "core", "sshCommand", "sh -c \"sh -c 'ssh -i \\\"keys/x\\\"'\"", true },
		{ "core", "sshCommand", "sh -c 'ssh -i`pwd`/keys/x'", true },
		{ "core", "sshCommand", "KEY=keys/x t", true },
		{ "core", "sshCommand", "KEY='keys/x' t", true },
		{ "core", "sshCommand", "ssh -i \"${KEY:-keys/x}\"", true },
		{ "core", "sshCommand", "ssh -i $DIR/keys/x", true },
		{ "core", "sshCommand", "ssh -i $HOME/p/keys/x", true },
		{ "core", "sshCommand",
		  "ssh -i \"$(git rev-parse --show-toplevel)/keys/x\"", true },
		{ "core", "sshCommand", "cd keys && ssh -i x", true },
		{ "core", "sshCommand", "it's -i keys/x", true },
		{ "alias", "f", "-c core.sshCommand='ssh -i keys/x' fetch", true },
		{ "alias", "f", "!GIT_SSH_COMMAND='ssh -i keys/x' git fetch", true },
		{ "x", "cert", "format=pem,key=keys/x,type=a", true },
		{ "x", "data", "key:keys/x:rsa", true },
		{ "x", "data", "@keys/x", true },
		{ "remote \"o\"", "url", "ext::ssh -i keys/x %S h", true },
		{ "core", "sshCommand", "ssh -i keys/y -o IdentityFile=keys/y", false },
		{ "core", "sshCommand", "sh -c 'ssh -i keys/xx \"$@\"' x", false },
		{ "core", "sshCommand", "ssh -i /keys/none/x", false },
		{ "remote \"o\"", "url", "keys/x", false },
	};

	begin();
	EQ(setenv("HOME", top, 1), 0);
	git("init -q .");
	shell("cd p && mkdir keys && echo '-----BEGIN PRIVATE KEY-----' >keys/x && echo ssh-rsa >keys/y");
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		struct git_named n = { 0 };
		const char *text =
			configure_value(sets[i].section, sets[i].key, sets[i].value);
		bool found;

		EQ(git_named_read(project, NULL, false, &n), 0);
		found = n.secrets && !strcmp(n.secrets[0], "keys/x") && !n.secrets[1];
		if (found != sets[i].found || n.too_much || (!found && n.secrets))
			TAP_FAIL("wrong for %s", text);
		git_named_done(&n);
	}
	/* The environment is configuration, too. */
	configure("");
	EQ(setenv("GIT_SSH_COMMAND", "ssh -o IdentityFile=keys/x", 1), 0);
	struct git_named n = { 0 };
	EQ(git_named_read(project, NULL, false, &n), 0);
	EQ(unsetenv("GIT_SSH_COMMAND"), 0);
	OK(n.secrets && !strcmp(n.secrets[0], "keys/x"));
	git_named_done(&n);
	end();
}

TEST(large_files_with_secrets_are_found)
{
	struct git_named n = { 0 };

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	git("init -q . && git config core.sshCommand 'ssh -i a -i b -i c -i d'");
	shell("cd p && yes '# comment' | head -c 3000000 >a && cp a c && echo '-----BEGIN PRIVATE KEY-----' >>a && "
	      "truncate -s 70000000 b && yes '# comment' | head -c 70000000 >d");
	EQ(git_named_read(project, NULL, false, &n), 0);
	OK(n.secrets && !strcmp(n.secrets[0], "a") && !strcmp(n.secrets[1], "d") &&
	   !n.secrets[2]);
	git_named_done(&n);
	end();
}

TEST_MAIN()
