/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-hide.c - files with secrets are hidden from the sandbox */
#include "work/hide.h"

#include <errno.h>
#include <sys/stat.h>

#include "work/hide_internal.h"

#include "lib/work.h"

static char hidden[8192];

static const char *hide(struct work *w, const char *const *patterns)
{
	AUTO_HIDDEN struct work_hidden h = { 0 };
	size_t n = 0;

	if (work_hide(w, patterns, &h, &err) < 0)
		TAP_FAIL("%s", err.msg);
	hidden[0] = '\0';
	for (size_t i = 0; i < h.n; i++)
		n += (size_t)snprintf(hidden + n, sizeof(hidden) - n, "%s|", h.paths[i]);
	for (size_t i = 0; i < h.n_cleaned; i++)
		n += (size_t)snprintf(hidden + n, sizeof(hidden) - n, "~%s|",
				      h.cleaned[i]);
	return hidden;
}

#define PROJECT                                                                                              \
	"cd p && mkdir -p a/b .aws node_modules/x 'n\newline' && echo s >.env && echo s >a/b/.ENV.local && " \
	"echo e >.env.example && echo s >.aws/c && echo s >node_modules/x/.env && "                          \
	"echo registry=x >.npmrc && echo //x:_authToken=s >a/.npmrc && echo s >id_rsa && "                   \
	"echo s >store.p12 && echo n >env && echo n >xid_rsa && echo s >'n\newline/.netrc' && "              \
	"ln -s /etc/passwd a/.netrc && echo k >server.key && chmod 711 a"

TEST(secrets_are_hidden_and_others_are_not)
{
	const char *const asked[] = { "*.key", "/a/b/", "!id_rsa", NULL };
	AUTO_WORK struct work *w = NULL, *other = NULL;

	begin();
	shell(PROJECT);
	w = start();
	STREQ(hide(w, NULL), ".aws|.env|a/.netrc|a/.npmrc|a/b/.ENV.local|id_rsa|"
			     "n\newline/.netrc|store.p12|");
	other = start();
	STREQ(hide(other, asked), ".aws|.env|a/.netrc|a/.npmrc|a/b|n\newline/.netrc|"
				  "server.key|store.p12|");
	end();
}

TEST(keys_and_files_with_credentials_are_hidden_by_their_contents)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && mkdir -p .cargo .config/gcloud d && "
	      "echo '-----BEGIN PRIVATE KEY-----' | tee a.pem d/B.KEY >/dev/null && "
	      "echo '-----BEGIN CERTIFICATE-----' | tee c.pem d/c.key >/dev/null && "
	      "echo '{\"private_key\":1}' >credentials.json && echo '{}' >d/credentials.json && "
	      "echo 'db_password = 1' >terraform.tfvars && echo 'x = 1' >d/terraform.tfvars && "
	      "for f in .cargo/credentials.toml .config/gcloud/x master.key .htpasswd .env~ a.jks "
	      ".vault-token .cargo/config; do echo 1 >$f; done");
	w = start();
	STREQ(hide(w, NULL), ".cargo/credentials.toml|.config/gcloud|.env~|.htpasswd|"
			     ".vault-token|a.jks|a.pem|credentials.json|d/B.KEY|"
			     "master.key|terraform.tfvars|");
	end();
}

TEST(the_sandbox_does_not_see_them)
{
	AUTO_WORK struct work *w = NULL;
	struct stat a, b;

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	begin();
	shell(PROJECT);
	w = start();
	OK(hide(w, NULL)[0]);
	inside(w,
	       "test ! -e .env -a ! -e .aws -a ! -e a/b/.ENV.local -a ! -e id_rsa -a ! -L a/.netrc; "
	       "test -e .env.example -a -e env -a -e .npmrc -a ! -e a/.npmrc; "
	       "find . -ls >../seen; test $(stat -c %%a a) = 711");
	EQ(stat(in("p/a"), &a), 0);
	EQ(stat(in("p/.env"), &b), 0);
	end();
}

TEST(a_copy_has_no_secrets_either)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell(PROJECT);
	shell("cd p && git init -q . && git config credential.helper store && git config user.name n");
	w = start_with(&(struct work_options){ .mode = WORK_COPY });
	OK(strstr(hide(w, NULL), "~.git/config|"));
	shell("cd '%s/copy' && test ! -e .env -a ! -e .aws -a -e env && git -c safe.directory='*' config user.name >/dev/null && "
	      "! git -c safe.directory='*' config -f .git/config credential.helper",
	      w->dir);
	shell("test -e p/.env");
	end();
}

static void cleans(const char *from, const char *to)
{
	struct buf out AUTO_BUF = BUF_INIT(4096);

	buf_puts(&out, "");
	git_config_clean(from, strlen(from), &out);
	STREQ(out.data, to);
}

TEST(credentials_in_the_configuration_of_git_are_removed)
{
	cleans("[core]\n\tbare = false\n", "[core]\n\tbare = false\n");
	cleans("[remote \"o\"]\n\turl = https://u:p@h/x.git\n\tfetch = a:b\n",
	       "[remote \"o\"]\n\turl = https://h/x.git\n\tfetch = a:b\n");
	cleans("url = https://tok@h/x https://a@b@c/d\n",
	       "url = https://h/x https://c/d\n");
	cleans("url = ssh://git:pw@h/x\nurl = git@h:x\n",
	       "url = ssh://git@h/x\nurl = git@h:x\n");
	cleans("[credential]\n\thelper = store\n[core]\n\tx = 1\n", "[core]\n\tx = 1\n");
	cleans("[Credential \"https://h\"] helper = x\n  username = u\n[a]\n", "[a]\n");
	cleans("[http \"https://h/\"]\n\textraheader = AUTHORIZATION: basic x\n\tsslVerify = no\n",
	       "[http \"https://h/\"]\n\tsslVerify = no\n");
	cleans("[http]\n\textraHeader = a \\\n  secret\n\tx = 1\n", "[http]\n\tx = 1\n");
	cleans("[http] extraheader = x\n", "[http]\n");
	cleans("[url \"https://tok@h/\"]\n\tinsteadOf = https://h/\n",
	       "[url \"https://h/\"]\n\tinsteadOf = https://h/\n");
	cleans("[github]\n\tuser = a\n\toauth-token = x\n\tPassword = y\n",
	       "[github]\n\tuser = a\n");
	cleans("[sendemail]\n\tsmtpPass = x\n\tsmtpUser = u\n[a]\n\taccessKey = x\n",
	       "[sendemail]\n\tsmtpUser = u\n[a]\n");
	cleans("url = https://h/x.git?private_token=s&a=b\nurl = \"https://u:p@h/x?a=1\"\n",
	       "url = https://h/x.git\nurl = \"https://h/x?a=1\"\n");
	cleans("[credential\n\thelper = x\n", "");
	cleans("x = \"https://u:p@h\"", "x = \"https://h\"");
}

TEST(configurations_of_submodules_and_nested_repositories_are_cleaned)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && git init -q . && mkdir -p .git/modules/a/b sub other && git init -q sub && "
	      "git init -q --bare bare && git init -q --separate-git-dir=kept other && "
	      "for f in .git/config .git/modules/a/b/config sub/.git/config bare/config kept/config; do "
	      "printf '[x]\\n\\ttoken = s\\n[y]\\n\\tz = 1\\n' >$f; done");
	w = start();
	OK(hide(w, NULL)[0]);
	shell("cd '%s/hide' && for f in .git/config .git/modules/a/b/config sub/.git/config bare/config kept/config; do "
	      "grep -q z $f && ! grep -q token $f || exit 1; done",
	      w->dir);
	end();
}

/* The file that remembers the directories of the project. */
static unsigned long memory_file(void)
{
	unsigned long inode = 0;
	FILE *f;

	shell("stat -c %%i state/works/.scan-* >memory; test $(wc -l <memory) = 1");
	f = fopen(in("memory"), "re");
	OK(f && fscanf(f, "%lu", &inode) == 1);
	(void)fclose(f);
	return inode;
}

TEST(directories_that_changed_are_read_again)
{
	const char *const asked[] = { "late", NULL };
	AUTO_WORK struct work *first = NULL, *same = NULL, *new = NULL, *moved = NULL,
			      *gone = NULL, *other = NULL;
	unsigned long before;

	begin();
	shell("mkdir -p p/a/b/c p/d && echo s >p/a/.env && touch p/a/b/late && sleep 0.2");
	first = start();
	STREQ(hide(first, NULL), "a/.env|");
	before = memory_file();
	same = start();
	STREQ(hide(same, NULL), "a/.env|");
	EQ(memory_file(), before); /* nothing was read */
	shell("echo s >p/a/b/c/.env; mkdir p/d/e; echo s >p/d/e/.netrc");
	new = start();
	STREQ(hide(new, NULL), "a/.env|a/b/c/.env|d/e/.netrc|");
	OK(memory_file() != before);
	shell("mv p/a/b p/d/b && mv p/d/e/.netrc p/d/e/netrc && mv p/d/e/netrc p/id_rsa");
	moved = start();
	STREQ(hide(moved, NULL), "a/.env|d/b/c/.env|id_rsa|");
	shell("rm -r p/a && mkdir p/a");
	gone = start();
	STREQ(hide(gone, NULL), "d/b/c/.env|id_rsa|");
	other = start();
	STREQ(hide(other, asked), "d/b/c/.env|d/b/late|id_rsa|");
	end();
}

TEST(a_damaged_memory_is_not_used)
{
	AUTO_WORK struct work *first = NULL, *second = NULL;

	begin();
	shell("mkdir -p p/a && echo s >p/a/.env && sleep 0.2");
	first = start();
	STREQ(hide(first, NULL), "a/.env|");
	shell("for f in state/works/.scan-*; do head -c 60 $f >t && mv t $f; done");
	second = start();
	STREQ(hide(second, NULL), "a/.env|");
	end();
}

TEST(a_bad_pattern_is_refused)
{
	const char *const bad[] = { "a\nb", NULL };
	AUTO_WORK struct work *w = NULL;
	AUTO_HIDDEN struct work_hidden h = { 0 };

	begin();
	w = start();
	EQ(work_hide(w, bad, &h, &err), -EINVAL);
	end();
}

TEST_MAIN()
