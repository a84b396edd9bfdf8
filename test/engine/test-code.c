/* SPDX-License-Identifier: Apache-2.0 */
/* test-code.c - warren_code(): programs that run once, in sandboxes that leave nothing */
#include "lib/durable-sandbox.h"

static struct warren *w;
static struct counts before;

static void begin(void)
{
	struct warren_code_result r = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;

	world_enter(SECONDS);
	w = engine();
	GOOD(warren_code(w, &(struct warren_code){ .language = "sh", .code = "true" }, &r,
			 &err));
	warren_code_done(&r);
	bury();
	before = world_count();
}

static void finish(void)
{
	bury();
	world_check(&before, "after the runs");
	w = warren_close(w);
}

static struct warren_code_result run(struct warren_code code)
{
	struct warren_code_result r = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;

	GOOD(warren_code(w, &code, &r, &err));
	return r;
}

static void refused(struct warren_code code, int why, const char *words)
{
	struct warren_code_result r = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;

	EQ(warren_code(w, &code, &r, &err), -why);
	if (!strstr(err.msg, words))
		TAP_FAIL("\"%s\" is not in \"%s\"", words, err.msg);
}

TEST(a_run_gets_arguments_and_stdin_and_returns_output_and_status)
{
	struct warren_code_result r;

	begin();
	r = run((struct warren_code){ .language = "bash",
				      .code = "cat; echo $1 $X >&2; pwd; exit 7",
				      .args = (const char *const[]){ "one", NULL },
				      .env = (const char *const[]){ "X=two", NULL },
				      .input = "in\n",
				      .input_size = 3 });
	STREQ(r.output[0].data, "in\n/sandbox\n");
	STREQ(r.output[1].data, "one two\n");
	EQ(r.exit_code, 7);
	EQ(r.exec.timed_out, false);
	EQ(r.n_artifacts, 0);
	warren_code_done(&r);
	r = run((struct warren_code){ .language = "sh", .code = "kill -9 $$" });
	EQ(r.exit_code, 137);
	EQ(r.exec.signal, 9);
	warren_code_done(&r);
	finish();
}

TEST(files_are_written_before_the_run_and_artifacts_are_returned)
{
	const struct warren_code_file files[] = { { "in/a b.txt", "data", 4 } };
	struct warren_code_result r;

	begin();
	r = run((struct warren_code){
		.language = "sh",
		.code = "mkdir -p out/deep; cp 'in/a b.txt' out/deep/x.txt; echo 2 >out/y.txt;"
			"ln -s /etc/passwd out/z.txt; mkfifo out/f.txt; echo 3 >out/not.bin",
		.files = files,
		.n_files = 1,
		.artifacts = (const char *const[]){ "out/**/*.txt", NULL } });
	EQ(r.exit_code, 0);
	EQ(r.n_artifacts, 2);
	STREQ(r.artifacts[0].name, "out/deep/x.txt");
	EQ(r.artifacts[0].size, 4);
	STREQ((const char *)r.artifacts[0].data, "data");
	STREQ(r.artifacts[1].name, "out/y.txt");
	EQ(r.artifacts_complete, true);
	warren_code_done(&r);
	r = run((struct warren_code){ .language = "sh",
				      .code = "head -c 20m /dev/zero >big; echo 1 >small",
				      .artifacts = (const char *const[]){ "*", NULL } });
	EQ(r.artifacts_complete, false);
	OK(r.n_artifacts >= 1);
	warren_code_done(&r);
	finish();
}

TEST(time_memory_and_process_limits_are_enforced)
{
	struct warren_code_result r;

	begin();
	r = run((struct warren_code){ .language = "sh",
				      .code = "echo so far; sleep 5041 & sleep 5042",
				      .timeout_ms = 300 });
	EQ(r.exit_code, 124);
	EQ(r.exec.timed_out, true);
	STREQ(r.output[0].data, "so far\n");
	OK(strstr(r.output[1].data, "Execution timed out"));
	warren_code_done(&r);
	r = run((struct warren_code){ .language = "python",
				      .code = "x = bytearray(200 << 20)\nprint(len(x))",
				      .memory = 64 * MIB });
	OK(r.exit_code != 0);
	warren_code_done(&r);
	r = run((struct warren_code){ .language = "python",
				      .code = "x = bytearray(20 << 20)\nprint(len(x))",
				      .memory = 64 * MIB });
	STREQ(r.output[0].data, "20971520\n");
	warren_code_done(&r);
	r = run((struct warren_code){
		.language = "sh",
		.code = "touch /etc/x /usr/x; cd /sandbox; touch y; "
			"ls; ls /sys/class/net 2>/dev/null" });
	STREQ(r.output[0].data, "main.sh\ny\n");
	warren_code_done(&r);
	finish();
}

TEST(the_result_lists_the_enforced_limits)
{
	struct warren_code_result r;
	const struct warren_enforcement *memory = NULL;

	begin();
	r = run((struct warren_code){
		.language = "sh", .code = "true", .memory = 64 * MIB });
	for (size_t i = 0; i < r.n_enforced; i++)
		if (strcmp(r.enforced[i].name, "memory") == 0)
			memory = &r.enforced[i];
	OK(memory);
	EQ(memory->enforced, true);
	OK(strstr(memory->detail, "67108864"));
	warren_code_done(&r);
	EQ(r.n_enforced, 0);
	finish();
}

TEST(output_over_the_limit_is_truncated)
{
	struct warren_code_result r;

	begin();
	r = run((struct warren_code){ .language = "sh",
				      .code = "head -c 3m /dev/zero; echo end >&2",
				      .max_output = 1000 });
	EQ(r.output[0].size, 1000);
	EQ(r.output[0].truncated, true);
	STREQ(r.output[1].data, "end\n");
	EQ(r.output[1].truncated, false);
	EQ(r.exit_code, 0);
	warren_code_done(&r);
	finish();
}

/* Processes that it leaves running do not delay the call, and are ended. */
TEST(a_leftover_process_is_ended)
{
	struct warren_code_result r;

	begin();
	r = run((struct warren_code){ .language = "sh",
				      .code = "sleep 5043 & echo done" });
	STREQ(r.output[0].data, "done\n");
	EQ(r.exit_code, 0);
	warren_code_done(&r);
	finish();
}

TEST(a_program_is_compiled_and_compiler_errors_are_reported)
{
	struct warren_code_result r;

	begin();
	SKIP_UNLESS(access("/usr/bin/gcc", X_OK) == 0, "there is no gcc");
	r = run((struct warren_code){
		.language = "c",
		.code = "#include <stdio.h>\nint main(void) { puts(\"compiled\"); }" });
	STREQ(r.output[0].data, "compiled\n");
	EQ(r.compiler, false);
	warren_code_done(&r);
	r = run((struct warren_code){ .language = "c",
				      .code = "int main(void) { return x; }" });
	EQ(r.compiler, true);
	OK(r.exit_code != 0);
	OK(strstr(r.output[1].data, "main.c:1:"));
	warren_code_done(&r);
	finish();
}

TEST(an_invalid_request_is_refused_with_the_name_of_the_field)
{
	const struct warren_code_file bad[] = { { "../x", "", 0 } };

	begin();
	refused((struct warren_code){ .language = "cobol", .code = "1" }, EINVAL,
		"python");
	refused((struct warren_code){ .code = "1" }, EINVAL, "language");
	refused((struct warren_code){ .language = "sh" }, EINVAL, "code: ");
	refused((struct warren_code){ .language = "sh", .code = "1", .memory = 4096 },
		EINVAL, "memory: ");
	refused(
		(struct warren_code){
			.language = "sh", .code = "1", .files = bad, .n_files = 1 },
		EINVAL, "files: ");
	refused((struct warren_code){ .language = "r", .code = "1", .image = "nosuch" },
		ENOENT, "nosuch");
	finish();
}

TEST_MAIN()
