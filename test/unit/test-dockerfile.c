/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-dockerfile.c - Dockerfiles are parsed as docker parses them; errors name the line
 */
#include <errno.h>

#include "base/default_path.h"
#include "base/strv.h"
#include "dockerfile/plan.h"
#include "dockerfile/state.h"

#include "lib/tap.h"

static struct warren_error err;

static struct dockerfile parsed(const char *text)
{
	struct dockerfile d;

	if (dockerfile_parse(text, strlen(text), "Dockerfile", &d, &err) < 0)
		TAP_FAIL("%s", err.msg);
	return d;
}

static const char *refused(const char *text)
{
	struct dockerfile d;
	struct plan p;

	err = (struct warren_error)WARREN_ERROR_INIT;
	if (dockerfile_parse(text, strlen(text), "Dockerfile", &d, &err) < 0)
		return err.msg;
	if (plan_make(&d, NULL, NULL, "linux/amd64", &p, &err) < 0)
		return err.msg;
	/* Apply all instructions of all stages. */
	for (size_t k = 0; k < p.n; k++) {
		struct dockerfile_state s = { 0 };

		for (size_t i = p.stages[k].from + 1; i < p.stages[k].end; i++) {
			struct dockerfile_copy copy;
			struct dockerfile_run run;

			if (dockerfile_apply(&d, &d.v[i], &p.args, &s, &err) < 0)
				return err.msg;
			if ((d.v[i].kind == DOCKERFILE_COPY ||
			     d.v[i].kind == DOCKERFILE_ADD) &&
			    dockerfile_copy_parse(&d, &d.v[i], &s, &copy, &err) < 0)
				return err.msg;
			if (d.v[i].kind == DOCKERFILE_RUN &&
			    dockerfile_run_parse(&d, &d.v[i], &p.args, &s, &run, &err) <
				    0)
				return err.msg;
		}
	}
	return "accepted";
}

/* Return the configuration after all instructions of a file with one stage. */
static struct dockerfile_state applied(const char *text, char *const *given)
{
	struct dockerfile d = parsed(text);
	struct dockerfile_state s = { 0 };
	struct plan p;

	if (plan_make(&d, NULL, given, "linux/amd64", &p, &err) < 0)
		TAP_FAIL("%s", err.msg);
	for (size_t i = p.stages[p.target].from + 1; i < p.stages[p.target].end; i++)
		if (dockerfile_apply(&d, &d.v[i], &p.args, &s, &err) < 0)
			TAP_FAIL("%s", err.msg);
	plan_done(&p);
	dockerfile_done(&d);
	return s;
}

static const char *env(const struct dockerfile_state *s, const char *name)
{
	return dockerfile_var(s->env, name, strlen(name));
}

static const char *joined(char *const *list)
{
	static char text[2000];

	text[0] = '\0';
	for (; list && *list; list++) {
		(void)strcat(text, *list);
		(void)strcat(text, "|");
	}
	return text;
}

TEST(parses_comments_and_continuation_lines)
{
	struct dockerfile d = parsed("# comment\n"
				     "\n"
				     "FROM a\n"
				     "  # indented comment\n"
				     "RUN echo \\\n"
				     "  # comment within\n"
				     "\n"
				     "  world \\  \n"
				     "and more\n"
				     "run x\r\n");

	EQ(d.n, 3);
	STREQ(d.v[1].args[0], "echo   world and more");
	EQ(d.v[1].line, 5);
	STREQ(d.v[2].args[0], "x");
	EQ(d.v[2].line, 10);
	dockerfile_done(&d);
}

TEST(parses_directives)
{
	struct dockerfile d =
		parsed("# escape=`\n# syntax=docker/dockerfile:1.7-labs\n"
		       "FROM a\nCOPY testfile.txt c:\\\nRUN dir `\n c:\\\n");

	EQ(d.escape, '`');
	STREQ(d.v[1].args[1], "c:\\");
	STREQ(d.v[2].args[0], "dir  c:\\");
	dockerfile_done(&d);
	/* After an instruction or a comment, such a line is only a comment. */
	d = parsed("# about\n# escape=`\nFROM a\n");
	EQ(d.escape, '\\');
	dockerfile_done(&d);
	STREQ(refused("# escape=x\nFROM a"),
	      "Dockerfile:1: the directive 'escape' must be \\ or `, not 'x'");
	STREQ(refused("# escape=\\\n# escape=`\nFROM a"),
	      "Dockerfile:2: the directive 'escape' is given twice");
	OK(strstr(refused("# syntax=other/frontend\nFROM a"),
		  "Dockerfile:1: the directive"));
}

TEST(distinguishes_json_and_shell_forms)
{
	struct dockerfile_state s =
		applied("FROM a\nCMD [\"a\", \"b\\n\\u00e9\"]\n", NULL);

	STREQ(joined(s.cmd), "a|b\n\xc3\xa9|");
	dockerfile_state_done(&s);
	s = applied("FROM a\nCMD echo ['x']\n", NULL);
	STREQ(joined(s.cmd), "/bin/sh|-c|echo ['x']|");
	dockerfile_state_done(&s);
	/* This is not JSON, so it is a command for the shell, as in docker. */
	s = applied("FROM a\nCMD ['x']\n", NULL);
	STREQ(joined(s.cmd), "/bin/sh|-c|['x']|");
	dockerfile_state_done(&s);
	s = applied("FROM a\nSHELL [\"/bin/bash\",\"-ec\"]\nENTRYPOINT a  b\n", NULL);
	STREQ(joined(s.entrypoint), "/bin/bash|-ec|a  b|");
	dockerfile_state_done(&s);
	STREQ(refused("FROM a\nSHELL bash -c\n"),
	      "Dockerfile:2: SHELL needs a JSON array (example: SHELL [\"/bin/bash\", "
	      "\"-c\"])");
}

TEST(sets_variables)
{
	/* These examples are from docker's reference. */
	struct dockerfile_state s =
		applied("FROM a\n"
			"ENV abc=hello\n"
			"ENV abc=bye def=$abc\n"
			"ENV ghi=$abc\n"
			"ENV MY_NAME=\"John Doe\" MY_DOG=Rex\\ The\\ Dog \\\n"
			"    MY_CAT=fluffy\n"
			"ENV ONE TWO= THREE=world\n"
			"ENV quoted='a $abc' mixed=\"x\"'y'z esc=\\$abc\n",
			NULL);

	STREQ(env(&s, "def"), "hello");
	STREQ(env(&s, "ghi"), "bye");
	STREQ(env(&s, "MY_NAME"), "John Doe");
	STREQ(env(&s, "MY_DOG"), "Rex The Dog");
	STREQ(env(&s, "MY_CAT"), "fluffy");
	STREQ(env(&s, "ONE"), "TWO= THREE=world");
	STREQ(env(&s, "quoted"), "a $abc");
	STREQ(env(&s, "mixed"), "xyz");
	STREQ(env(&s, "esc"), "$abc");
	dockerfile_state_done(&s);
	OK(strstr(refused("FROM a\nENV a\n"), "Dockerfile:2: 'a' has no value"));
	OK(strstr(refused("FROM a\nENV a=1 b\n"), "Dockerfile:2: 'b' is not name=value"));
}

TEST(an_image_without_a_path_has_that_of_its_commands)
{
	struct dockerfile_state s = applied(
		"FROM a\nARG p=$PATH\nENV other=$p\nENV PATH=/x:$PATH none=$HOME.\n"
		"ENV PATH=/y:${PATH}\n",
		NULL);

	STREQ(env(&s, "other"), DEFAULT_PATH);
	STREQ(env(&s, "PATH"), "/y:/x:" DEFAULT_PATH);
	STREQ(env(&s, "none"), ".");
	dockerfile_state_done(&s);
	s = applied("FROM a\nARG PATH=/arg\nENV b=$PATH\nENV PATH=/own\nENV a=$PATH\n",
		    NULL);
	STREQ(env(&s, "b"), "/arg");
	STREQ(env(&s, "a"), "/own");
	dockerfile_state_done(&s);
	s = applied("FROM a\nWORKDIR /w\n", NULL);
	OK(!env(&s, "PATH"));
	dockerfile_state_done(&s);
}

TEST(expands_modifiers)
{
	struct dockerfile_state s = applied(
		"FROM a\nENV x=1 empty=\n"
		"ENV a=${x:-no} b=${u:-def} c=${x:+yes} d=${u:+yes} e=${empty:-def} "
		"f=${empty-def} g=${u:-${x}2} h=${u:-'$x'} i=$u! j=a${x}b k=\"${x:+\"q\"}\"\n",
		NULL);

	STREQ(env(&s, "a"), "1");
	STREQ(env(&s, "b"), "def");
	STREQ(env(&s, "c"), "yes");
	STREQ(env(&s, "d"), "");
	STREQ(env(&s, "e"), "def");
	STREQ(env(&s, "f"), "");
	STREQ(env(&s, "g"), "12");
	STREQ(env(&s, "h"), "$x");
	STREQ(env(&s, "i"), "!");
	STREQ(env(&s, "j"), "a1b");
	dockerfile_state_done(&s);
	STREQ(refused("FROM a\nENV a=\"${x:?give it}\"\n"),
	      "Dockerfile:2: the variable 'x' is not set: give it");
	OK(strstr(refused("FROM a\nENV a=${x\n"), "Dockerfile:2: "));
	OK(strstr(refused("FROM a\nENV a=${x%y}\n"), "Dockerfile:2: "));
	OK(strstr(refused("FROM a\nENV a='x\n"), "Dockerfile:2: a single quote"));
}

TEST(refuses_an_expansion_that_is_too_large)
{
	char text[4000] = "FROM a\nENV a=0123456789\n";

	for (int i = 0; i < 20; i++)
		(void)strcat(text, "ENV a=$a$a$a$a\n");
	OK(strstr(refused(text), "when its variables are replaced"));
}

TEST(arguments_get_their_values)
{
	char *const given[] = { (char *)(uintptr_t) "V=given", (char *)(uintptr_t) "G=g",
				NULL };
	struct dockerfile_state s = applied(
		"ARG G=base\nARG H=global\nFROM a$H\n"
		"ARG V=default\nARG W=w$V\nARG G\nARG H\nARG TARGETARCH\nARG U\nARG S=own\n"
		"ENV S=env\nENV all=$V-$W-$G-$H-$TARGETARCH-$U-$S\n",
		given);

	STREQ(env(&s, "all"), "given-wgiven-g-global-amd64--env");
	dockerfile_state_done(&s);
}

TEST(instructions_change_the_configuration)
{
	struct dockerfile_state s =
		applied("FROM a\nWORKDIR /a\nWORKDIR b/../c\nUSER ${X:-me}:staff\n"
			"EXPOSE 80 8000-8001/udp\nEXPOSE 80/tcp\nVOLUME /data /log\n"
			"LABEL a=b \"c d\"=\"e\\\nf\"\nSTOPSIGNAL SIGQUIT\n"
			"HEALTHCHECK --interval=1m30s --retries=3 CMD curl x\n",
			NULL);

	STREQ(s.workdir, "/a/c");
	STREQ(s.user, "me:staff");
	STREQ(joined(s.exposed), "80/tcp|8000/udp|8001/udp|");
	STREQ(joined(s.volumes), "/data|/log|");
	STREQ(joined(s.labels), "a=b|c d=ef|");
	STREQ(s.stop_signal, "SIGQUIT");
	STREQ(joined(s.health.test), "CMD-SHELL|curl x|");
	EQ(s.health.interval, 90000000000);
	EQ(s.health.retries, 3);
	dockerfile_state_done(&s);
	OK(strstr(refused("FROM a\nEXPOSE 80:80\n"), "Dockerfile:2: '80:80' is not"));
	OK(strstr(refused("FROM a\nSTOPSIGNAL x\n"),
		  "Dockerfile:2: 'x' is not a signal"));
	OK(strstr(refused("FROM a\nHEALTHCHECK x\n"), "Dockerfile:2: HEALTHCHECK needs"));
	OK(strstr(refused("FROM a\nHEALTHCHECK --interval=x CMD a\n"), "--interval"));
}

TEST(entrypoint_resets_the_command_of_the_base)
{
	struct dockerfile d = parsed("FROM a\nENTRYPOINT [\"x\"]\n");
	struct dockerfile_args args = { 0 };
	struct dockerfile_state s = { 0 };

	EQ(strv_add(&s.cmd, "inherited"), 0);
	EQ(dockerfile_apply(&d, &d.v[1], &args, &s, &err), 0);
	OK(!s.cmd);
	dockerfile_state_done(&s);
	dockerfile_done(&d);
	s = applied("FROM a\nCMD [\"y\"]\nENTRYPOINT [\"x\"]\n", NULL);
	STREQ(joined(s.cmd), "y|");
	dockerfile_state_done(&s);
}

static struct dockerfile_copy copied(const char *text)
{
	struct dockerfile d = parsed(text);
	struct dockerfile_args args = { 0 };
	struct dockerfile_state s = { 0 };
	struct dockerfile_copy c;

	for (size_t i = 1; i + 1 < d.n; i++)
		EQ(dockerfile_apply(&d, &d.v[i], &args, &s, &err), 0);
	if (dockerfile_copy_parse(&d, &d.v[d.n - 1], &s, &c, &err) < 0)
		TAP_FAIL("%s", err.msg);
	return c; /* c.from points into the parsed file, which is not freed here */
}

TEST(parses_copy_and_add)
{
	struct dockerfile_copy c =
		copied("FROM a\nWORKDIR /w\nENV d=sub\n"
		       "COPY --from=build --chown=1:2 --chmod=0750 --link a b* $d/\n");

	STREQ(joined(c.sources), "a|b*|");
	STREQ(c.dest, "/w/sub/");
	STREQ(c.from, "build");
	STREQ(c.owner, "1:2");
	EQ(c.mode, 0750);
	OK(!c.unpack);
	dockerfile_copy_done(&c);
	c = copied("FROM a\nADD [\"with space\", \"/x y\"]\n");
	STREQ(joined(c.sources), "with space|");
	STREQ(c.dest, "/x y");
	OK(c.unpack);
	dockerfile_copy_done(&c);
	c = copied("FROM a\nWORKDIR /w\nCOPY a .\n");
	STREQ(c.dest, "/w/");
	dockerfile_copy_done(&c);
}

TEST(refuses_invalid_copy_and_add)
{
	OK(strstr(refused("FROM a\nCOPY a\n"), "Dockerfile:2: COPY needs at least 2"));
	OK(strstr(refused("FROM a\nCOPY a b c\n"), "must be a directory and end with"));
	OK(strstr(refused("FROM a\nADD https://x/y /\n"), "files are not downloaded"));
	OK(strstr(refused("FROM a\nCOPY --from=$x a b\n"), "--from: '$x'"));
	OK(strstr(refused("FROM a\nCOPY --parents a b\n"), "--parents is not supported"));
	OK(strstr(refused("FROM a\nCOPY --chmod=u+x a b\n"), "is not a mode in octal"));
	STREQ(refused("FROM a\nCOPY --what=1 a b\n"),
	      "Dockerfile:2: COPY has no option --what");
	STREQ(refused("FROM a\nCOPY a b\n"), "accepted");
}

TEST(parses_heredocs)
{
	struct dockerfile_copy c = copied("FROM a\nENV x=1\n"
					  "COPY <<EOF <<-'B' /d/\n"
					  "x is $x \"q\" \\$y\n"
					  "EOF\n"
					  "\t$x\n"
					  "\tB\n");
	struct dockerfile d = parsed("FROM a\nRUN cat <<A > /x && y\nhello\nA\nUSER u\n");

	EQ(c.n_files, 2);
	STREQ(c.files[0].name, "EOF");
	STREQ(c.files[0].data, "x is 1 \"q\" $y\n");
	STREQ(c.files[1].data, "$x\n");
	OK(!c.sources);
	dockerfile_copy_done(&c);
	EQ(d.n, 3);
	EQ(d.v[1].n_heredocs, 1);
	STREQ(d.v[1].heredocs[0].data, "hello\n");
	EQ(d.v[2].line, 5);
	dockerfile_done(&d);
	STREQ(refused("FROM a\nRUN <<EOF\nx\n"),
	      "Dockerfile:2: the heredoc has no end: there is no line 'EOF'");
}

static struct dockerfile_run ran(const char *text)
{
	struct dockerfile d = parsed(text);
	struct dockerfile_args args = { 0 };
	struct dockerfile_state s = { 0 };
	struct dockerfile_run run;

	for (size_t i = 1; i + 1 < d.n; i++)
		EQ(dockerfile_apply(&d, &d.v[i], &args, &s, &err), 0);
	if (dockerfile_run_parse(&d, &d.v[d.n - 1], &args, &s, &run, &err) < 0)
		TAP_FAIL("%s", err.msg);
	dockerfile_state_done(&s);
	dockerfile_done(&d);
	return run;
}

TEST(parses_run)
{
	struct dockerfile_run run =
		ran("FROM a\nARG v=1\nARG w=2\nENV w=3\nRUN echo $v\n");

	STREQ(joined(run.argv), "/bin/sh|-c|echo $v|");
	STREQ(joined(run.env), "v=1|");
	dockerfile_run_done(&run);
	run = ran("FROM a\nRUN <<EOF\na\nb\nEOF\n");
	STREQ(joined(run.argv), "/bin/sh|-c|a\nb\n|");
	dockerfile_run_done(&run);
	run = ran("FROM a\nRUN cat <<EOF >x\na\nEOF\n");
	STREQ(joined(run.argv), "/bin/sh|-c|cat <<EOF >x\na\nEOF|");
	dockerfile_run_done(&run);
	run = ran("FROM a\nRUN <<EOF\n#!/usr/bin/env python3\nprint()\nEOF\n");
	STREQ(joined(run.argv), "/usr/bin/env|python3|" DOCKERFILE_SCRIPT_PATH "|");
	STREQ(run.script, "#!/usr/bin/env python3\nprint()\n");
	dockerfile_run_done(&run);
	run = ran("FROM a\nRUN --network=none --security=sandbox [\"a\", \"b\"]\n");
	STREQ(joined(run.argv), "a|b|");
	OK(run.no_network);
	dockerfile_run_done(&run);
}

TEST(parses_mounts)
{
	struct dockerfile_run run = ran(
		"FROM a\nWORKDIR /w\nENV d=/var/cache\nRUN --mount=type=cache,target=$d "
		"--mount=type=tmpfs,dst=t,size=1m --mount=from=b,source=x,target=/y "
		"--mount=type=secret,id=k x\n");

	EQ(run.n_mounts, 4);
	EQ(run.mounts[0].type, DOCKERFILE_MOUNT_CACHE);
	STREQ(run.mounts[0].target, "/var/cache");
	STREQ(run.mounts[0].id, "/var/cache");
	OK(!run.mounts[0].read_only);
	STREQ(run.mounts[1].target, "/w/t");
	EQ(run.mounts[1].size, 1 << 20);
	EQ(run.mounts[2].type, DOCKERFILE_MOUNT_BIND);
	STREQ(run.mounts[2].from, "b");
	OK(run.mounts[2].read_only);
	STREQ(run.mounts[3].target, "/run/secrets/k");
	dockerfile_run_done(&run);
	OK(strstr(refused("FROM a\nRUN --mount=type=ssh x\n"), "the type 'ssh' is not"));
	OK(strstr(refused("FROM a\nRUN --mount=type=tmpfs x\n"),
		  "--mount needs a target"));
	OK(strstr(refused("FROM a\nRUN --mount=type=cache,uid=1,target=/x x\n"),
		  "'uid' is not supported"));
	OK(strstr(refused("FROM a\nRUN --network=host x\n"), "--network=host is not"));
	OK(strstr(refused("FROM a\nRUN --security=insecure x\n"), "--security=insecure"));
}

TEST(errors_name_the_line)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "", "Dockerfile: it has no FROM instruction" },
		{ "ARG x\n", "Dockerfile: it has no FROM instruction" },
		{ "RUN x\nFROM a\n",
		  "Dockerfile:1: RUN before FROM: only ARG is allowed there" },
		{ "FROM a\n\nONBUILD RUN x\n", "Dockerfile:3: ONBUILD is not supported" },
		{ "FROM a\nRNU x\n",
		  "Dockerfile:2: unknown instruction 'RNU'; did you mean 'RUN'?" },
		{ "FROM a\nXYZZYXYZZY x\n",
		  "Dockerfile:2: unknown instruction 'XYZZYXYZZY'" },
		{ "FROM\n", "Dockerfile:1: FROM needs at least 1 argument" },
		{ "FROM a b\n", "Dockerfile:1: FROM needs an image" },
		{ "FROM a AS 1x\n", "Dockerfile:1: '1x' is not a name for a stage" },
		{ "FROM a AS x\nFROM b AS X\n",
		  "Dockerfile:2: two stages have the name 'x'" },
		{ "FROM $x\n", "Dockerfile:1: '$x' is empty" },
		{ "FROM --platform=linux/s390x a\n",
		  "Dockerfile:1: --platform=linux/s390x" },
		{ "FROM a\nRUN \\\n  \\\n",
		  "Dockerfile:2: RUN needs at least 1 argument" },
		{ "FROM a\nUSER $x\n", "Dockerfile:2: the value is empty" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *said = refused(rows[i].text);

		if (strncmp(said, rows[i].says, strlen(rows[i].says)) != 0)
			TAP_FAIL("'%s': \"%s\"", rows[i].text, said);
	}
	STREQ(refused("FROM --platform=$BUILDPLATFORM a\n"), "accepted");
}

TEST(refuses_a_file_that_is_not_text)
{
	static const char text[] = "FROM a\nRUN \0x\n";
	struct dockerfile d;

	EQ(dockerfile_parse(text, sizeof(text) - 1, "Dockerfile", &d, &err), -EINVAL);
	STREQ(err.msg,
	      "Dockerfile:2: the file is not text in UTF-8: it contains the byte 0x00");
	STREQ(refused("FROM a\n\nENV x=\xff\n"),
	      "Dockerfile:3: the file is not text in UTF-8: it contains the byte 0xff");
	STREQ(refused("FROM a\nENV x=\xc3\xa9\n"), "accepted");
}

TEST(plans_only_needed_stages)
{
	struct dockerfile d =
		parsed("FROM a AS base\nRUN x\n"
		       "FROM base AS build\nRUN y\n"
		       "FROM b AS unused\nRUN z\n"
		       "FROM c AS mounted\n"
		       "FROM scratch\nWORKDIR /\nENV a=b\nCOPY --from=build /x /x\n"
		       "COPY --from=other:1 /x /x\n"
		       "RUN --mount=type=bind,from=mounted,target=/m x\n"
		       "FROM d AS later\n");
	struct plan p;

	EQ(plan_make(&d, "4", NULL, "linux/amd64", &p, &err), 0);
	EQ(p.n, 6);
	EQ(p.target, 4);
	OK(p.stages[0].needed && p.stages[1].needed && p.stages[3].needed);
	OK(!p.stages[2].needed && !p.stages[5].needed);
	EQ(p.stages[1].base_stage, 0);
	EQ(p.stages[4].base_stage, PLAN_NO_STAGE);
	EQ(p.stages[4].steps, 5);
	EQ(plan_find_stage(&p, 4, "BUILD"), 1);
	EQ(plan_find_stage(&p, 4, "0"), 0);
	EQ(plan_find_stage(&p, 4, "later"), PLAN_NO_STAGE);
	plan_done(&p);
	EQ(plan_make(&d, "no", NULL, "linux/amd64", &p, &err), -EINVAL);
	STREQ(err.msg, "the Dockerfile has no stage 'no'");
	EQ(plan_make(&d, "BASE", NULL, "linux/amd64", &p, &err), 0);
	EQ(p.target, 0);
	plan_done(&p);
	dockerfile_done(&d);
}

TEST_MAIN()
