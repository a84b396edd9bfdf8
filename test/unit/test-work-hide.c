/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-hide.c - files with secrets are hidden from the sandbox */
#include "work/hide.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "work/hide_internal.h"

#include "lib/work.h"

static char hidden[8192];

static int cleaned_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static const char *hide(struct work *w, const char *const *patterns)
{
	AUTO_HIDDEN struct work_hidden h = { 0 };
	size_t n = 0;

	if (work_hide(w, patterns, &h, &err) < 0)
		TAP_FAIL("%s", err.msg);
	hidden[0] = '\0';
	for (size_t i = 0; i < h.n; i++)
		n += (size_t)snprintf(hidden + n, sizeof(hidden) - n, "%s|", h.paths[i]);
	if (h.n_cleaned)
		qsort(h.cleaned, h.n_cleaned, sizeof(*h.cleaned), cleaned_compare);
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
			     "n\newline/.netrc|node_modules/x/.env|store.p12|");
	other = start();
	STREQ(hide(other, asked), ".aws|.env|a/.netrc|a/.npmrc|a/b|n\newline/.netrc|"
				  "node_modules/x/.env|server.key|store.p12|");
	end();
}

TEST(directories_of_packages_are_searched_as_well)
{
	const char *const asked[] = { "my.cfg", "!/node_modules/b/.env", NULL };
	AUTO_WORK struct work *w = NULL, *again = NULL, *other = NULL;

	begin();
	shell("mkdir -p p/node_modules/a/node_modules/b p/node_modules/b p/.venv/c && cd p && "
	      "echo s | tee node_modules/a/.env node_modules/b/.env node_modules/a/node_modules/b/id_rsa .venv/c/.netrc >my.cfg && "
	      "cp my.cfg node_modules/b/ && echo n >node_modules/b/index.js && git init -q node_modules/b && "
	      "rm -f node_modules/b/.git/hooks/* && git -C node_modules/b config remote.o.url https://u:s@h/x && sleep 0.2");
	w = start();
	STREQ(hide(w, NULL),
	      ".venv/c/.netrc|node_modules/a/.env|node_modules/a/node_modules/b/id_rsa|node_modules/b/.env|"
	      "~node_modules/b/.git/config|");
	again = start();
	STREQ(hide(again, NULL),
	      ".venv/c/.netrc|node_modules/a/.env|node_modules/a/node_modules/b/id_rsa|node_modules/b/.env|"
	      "~node_modules/b/.git/config|");
	other = start();
	STREQ(hide(other, asked),
	      ".venv/c/.netrc|my.cfg|node_modules/a/.env|node_modules/a/node_modules/b/id_rsa|"
	      "node_modules/b/my.cfg|~node_modules/b/.git/config|");
	end();
}

TEST(directories_that_are_too_deep_are_named)
{
	const char *const asked[] = { "/ddd*/", NULL };
	AUTO_WORK struct work *w = NULL, *other = NULL;
	AUTO_HIDDEN struct work_hidden h = { 0 };

	begin();
	/* clang-format off */
	shell("cd p && echo s >.env && n=ddd$(printf '%%097d' 0) && "
	      "for i in $(seq 50); do mkdir $n && cd -P $n || exit 1; done && echo s >.env");
	/* clang-format on */
	w = start();
	EQ(work_hide(w, NULL, &h, &err), -ENAMETOOLONG);
	OK(strstr(err.msg, "'ddd000") && strstr(err.msg, "too deep") &&
	   strstr(err.msg, "--hide"));
	other = start();
	OK(strstr(hide(other, asked), ".env|ddd000"));
	shell("rm -rf p/ddd*");
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

TEST(keys_are_recognised_in_all_encodings)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && openssl genpkey -algorithm ed25519 -outform DER -out a.key && "
	      "openssl genrsa -traditional 1024 2>/dev/null | tee pem | openssl rsa -outform DER -traditional "
	      "-out rsa.der 2>/dev/null && "
	      "openssl ecparam -name prime256v1 -genkey -noout -outform DER -out ec.p8 && "
	      "openssl pkcs8 -topk8 -in pem -outform DER -passout pass:x -out locked.key && "
	      "openssl rsa -in pem -pubout -outform DER -out public.key 2>/dev/null && "
	      "openssl rsa -in pem -RSAPublicKey_out -outform DER -out old-public.key 2>/dev/null && "
	      "openssl req -x509 -key pem -subj /CN=x -outform DER -out cert.der && "
	      "iconv -t utf-16 <pem >wide.pem && iconv -t utf-16be <pem >b.pem && rm pem && "
	      "printf 'PK\\003\\004' >talk.key && : >empty.key");
	w = start();
	STREQ(hide(w, NULL), "a.key|b.pem|ec.p8|locked.key|rsa.der|wide.pem|");
	end();
}

TEST(credentials_are_recognised_in_other_forms)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && mkdir a b c && echo '{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"s\"}' "
	      ">a/credentials.json && echo '-----BEGIN RSA PRIVATE KEY-----' >b/credentials.json && "
	      "echo '{\"type\":\"none\"}' >c/credentials.json && echo 'db_password = 1' >prod.tfvars && "
	      "echo 'API_TOKEN = 1' >x.auto.tfvars && echo 'region = 1' >dev.tfvars && "
	      "echo 'DB_PASSWORD=1' | tee prod.env .env >a/app.env && echo 'PORT=1' | tee dev.env >a/.env && "
	      "echo '{\"private_key\": \"-----BEGIN PRIVATE KEY-----\"}' | tee gcp-Key.json my-service-account.json >other.json && "
	      "echo '{\"keys\": 1}' | tee keyboard.json >accounts.json && "
	      "echo 'users: [{user: {client-key-data: x}}]' >kubeconfig && echo 'clusters: []' >none.kubeconfig && "
	      "echo '{\"outputs\": {\"password\": 1}}' >terraform.tfstate && echo '{}' >empty.tfstate");
	w = start();
	STREQ(hide(w, NULL),
	      ".env|a/.env|a/app.env|a/credentials.json|b/credentials.json|gcp-Key.json|"
	      "kubeconfig|my-service-account.json|prod.env|prod.tfvars|terraform.tfstate|"
	      "x.auto.tfvars|");
	end();
}

TEST(keys_and_variables_of_more_tools_are_hidden)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && mkdir a && echo '-----BEGIN OPENSSH PRIVATE KEY-----' | tee id_ed25519_sk id_ecdsa_sk deploy_key >key && "
	      "echo sk-ssh-ed25519@openssh.com | tee id_ed25519_sk.pub >a/deploy_key && "
	      "echo A=1 | tee .dev.vars .dev.vars.prod .dev.vars.example >a/.flaskenv && echo SECRET_KEY=1 >.flaskenv && "
	      "(echo '-----BEGIN CERTIFICATE-----'; echo '-----BEGIN EC PRIVATE KEY-----') | tee tls.crt a.cer >b.cert && "
	      "echo '-----BEGIN CERTIFICATE-----' | tee a/tls.crt a/a.cer >a/b.cert");
	w = start();
	STREQ(hide(w, NULL), ".dev.vars|.dev.vars.prod|.flaskenv|a.cer|b.cert|"
			     "deploy_key|id_ecdsa_sk|id_ed25519_sk|tls.crt|");
	end();
}

TEST(secrets_are_hidden_in_any_directory)
{
	AUTO_WORK struct work *w = NULL, *config = NULL;

	begin();
	shell("cd p && for d in . a/B .config; do mkdir -p $d/.docker $d/.Cargo $d/.config/gcloud $d/.config/gh $d/.config/other "
	      "$d/.streamlit $d/.aws $d/.kube $d/docker && "
	      "for f in .docker/config.json .docker/daemon.json .Cargo/credentials.toml .Cargo/config.toml .config/gcloud/x "
	      ".config/gh/x .config/other/x .streamlit/secrets.toml .aws/credentials .kube/config docker/config.json "
	      "'.NETRC'; do echo s >$d/$f; done; done && mkdir .config/xgh");
	w = start();
	STREQ(hide(w, NULL),
	      ".Cargo/credentials.toml|.NETRC|.aws|"
	      ".config/.Cargo/credentials.toml|.config/.NETRC|.config/.aws|.config/.config/gcloud|"
	      ".config/.config/gh|.config/.docker/config.json|.config/.kube|"
	      ".config/.streamlit/secrets.toml|.config/gcloud|.config/gh|.docker/config.json|.kube|"
	      ".streamlit/secrets.toml|"
	      "a/B/.Cargo/credentials.toml|a/B/.NETRC|a/B/.aws|a/B/.config/gcloud|a/B/.config/gh|"
	      "a/B/.docker/config.json|a/B/.kube|a/B/.streamlit/secrets.toml|");
	config = start_with(&(struct work_options){ .project = in("p/a/B/.config") });
	STREQ(hide(config, NULL), "gcloud|gh|");
	end();
}

TEST(keys_and_templates_with_other_names_are_told_apart)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && mkdir id_maps my_rsa x.tfstate.d .env_py kubeconfigs && echo 1 | tee id_maps/a my_rsa/a .env_py/a kubeconfigs/a >x.tfstate.d/a && "
	      "echo '-----BEGIN OPENSSH PRIVATE KEY-----' | tee id_work id_ed25519.old ci_rsa x-0123456789ab.json >none && "
	      "echo ssh-rsa | tee id_work.pub id_names x_rsa y-0123456789ab.json >n_ed25519 && "
	      "echo A=1 | tee .env-prod .env_local .env.local >.ENV.Prod.example && "
	      "echo A=1 | tee .env-example .env_sample .env.template .env.local.sample .environment >.env.prod.dist && "
	      "echo '{\"client_secret\": 1}' | tee client_secret_1.json >x.tfstate.1700000000.backup && echo {} >secret.json && "
	      "echo '{\"http-basic\": {\"password\": 1}}' >auth.json && echo 'token: x' | tee kubeconfig.yaml >kubeconfig-prod && "
	      "echo {} >x.tfstate.lock.info");
	w = start();
	STREQ(hide(w, NULL),
	      ".env-prod|.env.local|.env_local|auth.json|ci_rsa|client_secret_1.json|id_ed25519.old|"
	      "id_work|kubeconfig-prod|kubeconfig.yaml|x-0123456789ab.json|x.tfstate.1700000000.backup|");
	end();
}

TEST(other_names_of_hidden_files_are_hidden)
{
	const char *const asked[] = { "!shown", NULL };
	AUTO_WORK struct work *w = NULL, *other = NULL;

	begin();
	shell("cd p && mkdir -p a/b node_modules/x && echo s >.env && ln .env a/b/settings && ln .env node_modules/x/c && "
	      "ln .env shown && echo n >one && ln one two && echo s >.netrc");
	w = start();
	STREQ(hide(w, NULL), ".env|.netrc|a/b/settings|node_modules/x/c|shown|");
	other = start();
	STREQ(hide(other, asked), ".env|.netrc|a/b/settings|node_modules/x/c|");
	end();
}

TEST(targets_of_links_with_the_names_of_secrets_are_hidden)
{
	const char *const asked[] = { "!shown", NULL };
	AUTO_WORK struct work *w = NULL, *other = NULL, *copy = NULL;

	begin();
	shell("cd p && mkdir -p env a/b clouds docker conf/gcloud venv sshdir/.aws plain && "
	      "echo s | tee env/prod shown env/npm clouds/credentials docker/config.json docker/x conf/gcloud/x conf/x venv/x sshdir/x "
	      "sshdir/.aws/x plain/config.json >.env.example && "
	      "echo 'registry=x' >npmrc && echo '-----BEGIN PRIVATE KEY-----' >key && echo '-----BEGIN CERTIFICATE-----' >crt && "
	      "ln -s env/prod .env && ln -s ../shown a/.env && ln -s ../../.env.example a/b/.env && ln -s npmrc .npmrc && "
	      "ln -s ../key a/x.pem && ln -s ../crt a/y.pem && ln -s \"$PWD/clouds\" .aws && ln -s docker .docker && "
	      "ln -s ../conf a/.config && ln -s ../venv plain/.env && ln -s ../sshdir a/.ssh && ln -s .. plain/.kube && "
	      "ln -s /etc/hosts plain/.netrc && ln -s loop loop && ln -s docker dockers");
	w = start();
	STREQ(hide(w, NULL), ".aws|.env|.npmrc|a/.env|a/.ssh|a/b/.env|a/x.pem|a/y.pem|"
			     "clouds|conf/gcloud|docker/config.json|env/prod|key|"
			     "plain/.env|plain/.netrc|shown|sshdir|venv|");
	other = start();
	STREQ(hide(other, asked),
	      ".aws|.env|.npmrc|a/.env|a/.ssh|a/b/.env|a/x.pem|a/y.pem|"
	      "clouds|conf/gcloud|docker/config.json|env/prod|key|"
	      "plain/.env|plain/.netrc|sshdir|venv|");
	copy = start_with(&(struct work_options){ .mode = WORK_COPY });
	OK(hide(copy, NULL)[0]);
	shell("cd '%s/copy' && test -e docker/x -a ! -e venv/x -a ! -e env/prod -a ! -e clouds -a ! -e sshdir",
	      copy->dir);
	end();
}

TEST(directories_that_hidden_links_lead_to_are_hidden)
{
	const char *const names[] = { "secrets", "!/shown/", NULL };
	const char *const dirs[] = { "secrets/", NULL };
	AUTO_WORK struct work *w = NULL, *by_name = NULL, *by_dir = NULL;

	begin();
	shell("cd p && mkdir -p conf/prod real shown a maps && echo s | tee conf/prod/vars real/x shown/x maps/x >conf/x && "
	      "ln -s conf/prod .env && ln -s real secrets && ln -s ../shown a/secrets && ln -s maps id_maps && ln -s conf other");
	w = start();
	STREQ(hide(w, NULL), ".env|conf/prod|id_maps|");
	by_name = start();
	STREQ(hide(by_name, names), ".env|a/secrets|conf/prod|id_maps|real|secrets|");
	by_dir = start();
	STREQ(hide(by_dir, dirs), ".env|a/secrets|conf/prod|id_maps|real|secrets|shown|");
	end();
}

TEST(other_names_of_cleaned_files_are_cleaned)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && git init -q . && rm -f .git/hooks/* && mkdir -p q .git/sub && git config remote.o.url https://u:secret@h/x && "
	      "ln .git/config q/other && ln .git/config .git/sub/config && echo n >q/n && ln q/n q/m");
	w = start();
	STREQ(hide(w, NULL), "~.git/config|~.git/sub/config|~q/other|");
	shell("cd '%s/hide' && grep -q https://h/x q/other && ! grep -r secret .",
	      w->dir);
	end();
}

TEST(hidden_files_that_the_index_has_are_reported)
{
	AUTO_WORK struct work *w = NULL, *other = NULL;
	AUTO_HIDDEN struct work_hidden h = { 0 }, none = { 0 };

	begin();
	shell("cd p && git init -q . && mkdir d && echo s | tee .env d/.env >a && git add a");
	w = start();
	EQ(work_hide(w, NULL, &none, &err), 0);
	EQ(none.n_indexed, 0);
	shell("cd p && git add -f d/.env");
	other = start();
	EQ(work_hide(other, NULL, &h, &err), 0);
	EQ(h.n_indexed, 1);
	STREQ(h.indexed[0], "d/.env");
	end();
}

TEST(a_directory_of_secrets_cannot_be_a_project)
{
	static const char *const secret[] = {
		"/home/a/.aws",        "/home/a/.ssh/keys/x",
		"/root/.kube",         "/a/.config/gh",
		"/a/.config/gcloud/x", "/h/.docker",
		"/h/.CARGO",           "/.ssh"
	};
	static const char *const plain[] = {
		"/home/a/aws", "/home/a/.config", "/h/.cargo/registry/src",
		"/a/x.pem",    "/h/config/gh",    "/h/docker",
		"/h/.aws2"
	};

	for (size_t i = 0; i < ARRAY_SIZE(secret); i++)
		if (!hide_is_secret_dir(secret[i]))
			TAP_FAIL("%s", secret[i]);
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		if (hide_is_secret_dir(plain[i]))
			TAP_FAIL("%s", plain[i]);
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
	cleans("[a]\n\turl = https://us\\\ner:pw@h/x\n\ty = 1\n", "[a]\n\ty = 1\n");
	cleans("[a]\n\turl = https://us\\\r\ner:pw@h/x\n\ty = 1\n", "[a]\n\ty = 1\n");
	cleans("url = \"https://u:p\"@h/x\nurl = https://u:p\\\"q@h\nz = 1\n", "z = 1\n");
	cleans("url = https://h/x/\\\nmore\n# https://h a@b\n",
	       "url = https://h/x/\\\nmore\n# https://h a@b\n");
	cleans("URL: https://u:p@h/x\nPull: a:b\n", "URL: https://h/x\nPull: a:b\n");
	cleans("https://u:p@h/x#main\n", "https://h/x#main\n");
	cleans("[credential\n\thelper = x\n", "");
	cleans("\xef\xbb\xbf[credential]\nhelper = x\n[a]\n", "\xef\xbb\xbf[a]\n");
	cleans("x = \"https://u:p@h\"", "x = \"https://h\"");
}

TEST(commands_with_passwords_are_removed_from_the_configuration)
{
	static const char *const secret[] = {
		"sshCommand = sshpass -p s ssh",
		"sshCommand = /usr/bin/sshpass -ps ssh -o PasswordAuthentication=yes",
		"sshCommand = \"sshpass -p \\\"s\\\" ssh\"",
		"sshCommand = ssh\"pass\" \\\n -p s ssh",
		"sshCommand = SSHPASS=s sshpass -e ssh",
		"clean = openssl enc -aes-256-ecb -k s",
		"smudge = openssl enc -d -pass pass:s",
		"get = !curl -u me:s https://h",
		"get = !curl -H 'Authorization: Basic s' https://h",
		"get = !tool --password s",
		"get = !API_TOKEN='s' tool",
		"proxy = me:s@h:3128",
		"# extraheader = AUTHORIZATION: basic s",
		"; token = s",
		"pat = s",
		"url = https://h/x?password=s",
	};
	static const char *const plain[] = {
		"sshCommand = ssh -i ~/.ssh/deploy_key -o PasswordAuthentication=no -p 22",
		"sshCommand = sshpass -e ssh -p 22",
		"sshCommand = sshpass -f ~/.password ssh",
		"sshCommand = SSHPASS=$P sshpass -e ssh",
		"smudge = openssl enc -d -pass env:KEY -kfile x",
		"get = !curl -u \"$U:$P\" https://h",
		"get = !tool --password --help",
		"fetch = +refs/heads/token:refs/remotes/o/token",
		"url = token:x.git",
		"url = me@h:x.git",
		"proxy = h:3128",
		"merge = refs/heads/new-password",
		"# See the password manager",
		"path = a",
	};
	char text[256], left[256];

	for (size_t i = 0; i < ARRAY_SIZE(secret); i++) {
		(void)snprintf(text, sizeof(text),
			       "[core]\n\ta = 1\n\t%s\n[a]\n\tz = 1\n", secret[i]);
		cleans(text, "[core]\n\ta = 1\n[a]\n\tz = 1\n");
	}
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		(void)snprintf(left, sizeof(left), "[core]\n\t%s\n", plain[i]);
		cleans(left, left);
	}
	cleans("[core] sshCommand = sshpass -p s ssh\n\ta = 1\n", "[core]\n\ta = 1\n");
}

/* Would take minutes if a part of the text were read for each of its names or URLs. */
TEST(long_lines_of_the_configuration_are_cleaned_at_once)
{
	static const struct {
		const char *start, *part, *end;
		bool dropped;
	} lines[] = {
		{ "a = x", "://", "", false },
		{ "a = x", "://?", "", false },
		{ "a = ", "token=$", "", false },
		{ "a = ", "token=env:", "", false },
		{ "a = curl ", "-u$,", "", false },
		{ "a = curl ", "-ua,", "", false },
		{ "a = curl ", "-ua,", "-ub:s", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct buf text AUTO_BUF = BUF_INIT(SIZE_MAX),
				out AUTO_BUF = BUF_INIT(SIZE_MAX);
		clock_t from = clock();

		buf_puts(&text, lines[i].start);
		while (text.len < 1000000)
			buf_puts(&text, lines[i].part);
		buf_puts(&text, lines[i].end);
		git_config_clean(text.data, text.len, &out);
		if (clock() - from > 5 * CLOCKS_PER_SEC)
			TAP_FAIL("slow: %s", lines[i].part);
		EQ(out.len, lines[i].dropped ? 0 : text.len);
	}
	cleans("url = https://h/x?to=https://i&token=s b\n", "url = https://h/x b\n");
}

#define ID     "0123456789abcdef0123456789abcdef01234567"
#define RECORD ID " " ID " A <a@b> 1700000000 +0000\t"

TEST(reflog_lines_lose_only_credentials)
{
	cleans(RECORD "clone: from https://u:s@h/x.git\n",
	       RECORD "clone: from https://h/x.git\n");
	cleans(RECORD "pull https://s@h/x main: Fast-forward\n" RECORD
		      "reset: [credential]\n",
	       RECORD "pull https://h/x main: Fast-forward\n" RECORD
		      "reset: [credential]\n");
	cleans(RECORD "pull ssh://git:s#t@h/x\n", RECORD "pull ssh://git@h/x\n");
	cleans(RECORD "commit: token = x, see https://h and a@b \\\n" RECORD
		      "fetch 'https://u:s@h'\n",
	       RECORD "commit: token = x, see https://h and a@b \\\n" RECORD
		      "fetch 'https://h'\n");
	cleans(ID "\tnot-for-merge\tbranch 'a\"b' of https://u:s@h/x\n" ID
		  "\t\t'c' of ../x\n",
	       ID "\tnot-for-merge\tbranch 'a\"b' of https://h/x\n" ID
		  "\t\t'c' of ../x\n");
}

TEST(the_reflog_is_shown_without_passwords)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && git init -qb main . && rm -f .git/hooks/* && mkdir -p x && git init -qb main --bare y.git && "
	      "git -c user.name=n -c user.email=e@h commit -q --allow-empty -m 'See https://h/x' && "
	      "git update-ref -m 'pull https://u:secret@h/x: Fast-forward' HEAD HEAD && "
	      "git update-ref -m 'pull https://u:secret@h/x: Fast-forward' --create-reflog refs/heads/a/credentials HEAD && "
	      "git update-ref -m 'branch: Created from HEAD' --create-reflog refs/heads/b HEAD && "
	      "for m in modules/m modules/logs worktrees/w; do mkdir -p .git/$m/logs .git/$m/objects && "
	      "cp .git/logs/HEAD .git/$m/logs/ && printf '[x]\\ntoken = s\\n' >.git/$m/config; done && "
	      "mkdir y.git/logs && cp .git/logs/HEAD y.git/logs/ && rm -f y.git/hooks/* && "
	      "head -c 68000000 /dev/zero >.git/logs/refs/heads/large");
	w = start();
	STREQ(hide(w, NULL),
	      ".git/logs/refs/heads/large|"
	      "~.git/logs/HEAD|~.git/logs/refs/heads/a/credentials|"
	      "~.git/modules/logs/config|~.git/modules/logs/logs/HEAD|"
	      "~.git/modules/m/config|~.git/modules/m/logs/HEAD|"
	      "~.git/worktrees/w/config|~.git/worktrees/w/logs/HEAD|~y.git/logs/HEAD|");
	shell("! grep -r secret '%s/hide' && cp -r '%s/hide/.git/logs' p/.git/ && cd p && "
	      "test \"$(git reflog --format=%%gs)\" = 'pull https://h/x: Fast-forward\n"
	      "commit (initial): See https://h/x'",
	      w->dir, w->dir);
	end();
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

TEST(other_files_of_git_with_credentials_are_hidden_or_cleaned)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && git init -q . && mkdir -p .git/remotes .git/branches .git/modules/m && cd .git && "
	      "for f in config~ config.bak config.worktree modules/m/config.orig; do printf '[x]\\ntoken = s\\nz = 1\\n' >$f; done && "
	      "echo 'URL: https://u:p@h/z' >remotes/o && echo 'https://u:p@h/z' >branches/b && "
	      "echo \"0 not-for-merge branch 'z' of https://u:p@h/x\" >FETCH_HEAD && echo https://u:p@h >credentials && "
	      "echo s >.netrc && ln -s /etc/passwd config.link && echo 'ref: refs/heads/m' >HEAD");
	w = start();
	STREQ(hide(w, NULL),
	      ".git/.netrc|.git/credentials|~.git/FETCH_HEAD|~.git/branches/b|~.git/config.bak|"
	      "~.git/config.worktree|~.git/config~|~.git/modules/m/config.orig|~.git/remotes/o|");
	shell("cd '%s/hide/.git' && for f in config~ config.bak config.worktree modules/m/config.orig remotes/o branches/b "
	      "FETCH_HEAD; do grep -q z $f && ! grep -q 'token\\|:p' $f || exit 1; done",
	      w->dir);
	end();
}

TEST(directories_of_git_with_secrets_are_hidden)
{
	const char *const asked[] = { "/.git/svn/", "logs", "!/.git/annex/creds", NULL };
	AUTO_WORK struct work *w = NULL, *other = NULL;

	begin();
	shell("cd p && git init -q . && rm -f .git/hooks/* && mkdir -p .git/annex/creds .git/annex/other .git/.aws .git/svn .git/logs && "
	      "echo s | tee .git/annex/creds/x .git/annex/other/x .git/.aws/c .git/svn/x >.git/logs/x");
	w = start();
	STREQ(hide(w, NULL), ".git/.aws|.git/annex/creds|");
	other = start();
	STREQ(hide(other, asked), ".git/.aws|.git/svn|");
	end();
}

TEST(included_configuration_is_cleaned_whatever_its_name)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	shell("cd p && git init -q . && rm -f .git/hooks/* && git init -q n && rm -f n/.git/hooks/* && "
	      "mkdir -p .git/cfg d && C='[http]\\n\\textraheader = Basic z\\n\\tx = 1\\n' && "
	      "for f in .git/extra.cfg .git/cfg/x .git/modules_cfg top.cfg d/deep n/inc not-included; do printf \"$C\" >$f; done && "
	      "printf '\\357\\273\\277[credential]\\nx = 1\\n' >.git/mark && "
	      "printf '#!/bin/sh\\n[ -n \"$token\" ]\\ntoken = 1\\n' >.git/hooks/pre-push && "
	      "printf '[http]\\nx = 1\\n' >.git/harmless && "
	      "git config include.path extra.cfg && git config --add include.path ../top.cfg && "
	      "git config -f top.cfg include.path d/deep && git -C n config include.path ../inc && "
	      "mv .git/config conf && git config -f conf a.token s && ln -s ../conf .git/config");
	w = start();
	STREQ(hide(w, NULL),
	      "~.git/cfg/x|~.git/extra.cfg|~.git/mark|~.git/modules_cfg|~conf|"
	      "~d/deep|~n/inc|~top.cfg|");
	shell("cd '%s/hide' && for f in .git/extra.cfg .git/cfg/x .git/modules_cfg top.cfg d/deep n/inc; do "
	      "grep -q 'x = 1' $f && ! grep -q Basic $f || exit 1; done && ! grep -q credential .git/mark && "
	      "grep -q path conf && ! grep -q token conf",
	      w->dir);
	end();
}

TEST(files_with_secrets_that_the_configuration_names_are_hidden)
{
	const char *const asked[] = { "!jar", NULL };
	AUTO_WORK struct work *w = NULL, *other = NULL;

	begin();
	EQ(setenv("HOME", in("p/home"), 1), 0);
	shell("cd p && git init -q . && rm -f .git/hooks/* && git init -q n && rm -f n/.git/hooks/* && mkdir -p d 'a b' home && "
	      "for f in store d/Store n/store 'a b/store' home/store unused; do echo https://u:s@h >\"$f\"; done && "
	      "ln store d/other && ln -s d/Store to && echo '-----BEGIN OPENSSH PRIVATE KEY-----' | tee mine d/sign >/dev/null && "
	      "echo ssh-ed25519 AAAA >sign.pub && echo s | tee word jar data >/dev/null && "
	      "printf '#!/bin/sh\\necho password=$P; curl https://$U:$P@h\\n' >helper && "
	      "git config --add credential.helper 'store --file store' && "
	      "git config --add credential.https://h.helper 'store --file=to' && "
	      "git config --add credential.helper '!f() { git credential-store --file \"a b/store\"; }; f' && "
	      "git config --add credential.helper '!./helper' && git config --add credential.helper 'store --file ~/store' && "
	      "git -C n config credential.helper 'store --file store' && "
	      "git config core.sshCommand 'sshpass -f word ssh -i mine -F data' && git config http.cookieFile jar && "
	      "git config user.signingKey d/sign && git config --add user.signingKey sign.pub && "
	      "git config core.editor 'vi unused .git/config'");
	w = start();
	STREQ(hide(w, NULL),
	      "a b/store|d/Store|d/other|d/sign|home/store|jar|mine|n/store|store|word|"
	      "~.git/config|~n/.git/config|");
	shell("test -s '%s/hide/.git/config' -a -c '%s/hide/store'", w->dir, w->dir);
	other = start();
	STREQ(hide(other, asked),
	      "a b/store|d/Store|d/other|d/sign|home/store|mine|n/store|store|word|"
	      "~.git/config|~n/.git/config|");
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	end();
}

TEST(a_project_whose_secrets_cannot_be_found_is_refused)
{
	const char *const asked[] = { "/many/", NULL };
	AUTO_WORK struct work *few = NULL, *w = NULL, *other = NULL;
	AUTO_HIDDEN struct work_hidden h = { 0 };

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	shell("cd p && git init -q . && rm -f .git/hooks/* && mkdir -p many/.git && echo https://u:s@h >store && "
	      "git config credential.helper 'store --file store' && "
	      "(echo '[a]'; seq 20000 | sed 's/.*/k& = w&/') >many/.git/config");
	few = start();
	STREQ(hide(few, NULL), "store|~.git/config|");
	shell("seq 70000 | sed 's/.*/k& = v&/' >>p/many/.git/config");
	w = start();
	EQ(work_hide(w, NULL, &h, &err), -E2BIG);
	OK(strstr(err.msg, "'many' have more than 65536 words") &&
	   strstr(err.msg, "--hide"));
	other = start();
	STREQ(hide(other, asked), "many|store|~.git/config|");
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

TEST(a_damaged_cache_is_not_used)
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
