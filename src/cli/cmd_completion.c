/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_completion.c - warren completion: print scripts for shell completion
 *
 * Each script passes the words typed so far to `warren __complete` (complete.c) and
 * offers the words that it prints; if it prints none, the shell completes file names.
 */
#include <string.h>

#include "cli/cli.h"

#define SCRIPT_MAX 8192

static const char bash[] = "# bash completion for warren\n"
			   "_warren() {\n"
			   "\tlocal word=${COMP_WORDS[COMP_CWORD]} line\n"
			   "\tCOMPREPLY=()\n"
			   "\twhile IFS= read -r line; do\n"
			   "\t\tline=${line%%$'\\t'*}\n"
			   "\t\t[[ $line == \"$word\"* ]] && COMPREPLY+=(\"$line\")\n"
			   "\tdone < <(\"${COMP_WORDS[0]}\" " COMPLETE_WORD
			   " \"${COMP_WORDS[@]:1:COMP_CWORD-1}\" \"$word\" 2>/dev/null)\n"
			   "}\n"
			   "complete -o default -F _warren warren\n";

static const char zsh[] = "#compdef warren\n"
			  "_warren() {\n"
			  "\tlocal -a found\n"
			  "\tlocal line name\n"
			  "\twhile IFS= read -r line; do\n"
			  "\t\tname=${line%%$'\\t'*}\n"
			  "\t\tfound+=(\"${name//:/\\\\:}:${line#*$'\\t'}\")\n"
			  "\tdone < <(\"${words[1]}\" " COMPLETE_WORD
			  " \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
			  "\tif (( $#found )); then\n"
			  "\t\t_describe warren found\n"
			  "\telse\n"
			  "\t\t_files\n"
			  "\tfi\n"
			  "}\n"
			  "if [ \"$funcstack[1]\" = _warren ]; then\n"
			  "\t_warren \"$@\"\n"
			  "else\n"
			  "\tcompdef _warren warren\n"
			  "fi\n";

static const char fish[] =
	"# fish completion for warren\n"
	"function __warren_complete\n"
	"\tset -l words (commandline -opc)\n"
	"\tset -l word (commandline -ct)\n"
	"\t$words[1] " COMPLETE_WORD " $words[2..-1] \"$word\" 2>/dev/null\n"
	"end\n"
	"complete -c warren -a '(__warren_complete)'\n";

static const struct {
	const char *shell, *script;
} scripts[] = {
	{ "bash", bash },
	{ "zsh", zsh },
	{ "fish", fish },
};

static void complete_shell(int at, struct buf *out)
{
	for (size_t i = 0; at == 0 && i < ARRAY_SIZE(scripts); i++)
		buf_printf(out, "%s\tthe script for %s\n", scripts[i].shell,
			   scripts[i].shell);
}

static int run_completion(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(SCRIPT_MAX);
	char **words = NULL;
	int status = 0;

	if (!command_operands(&command_completion, argc, argv, NULL, 1, 1, &words,
			      &status))
		return status;
	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		if (strcmp(scripts[i].shell, *words) != 0)
			continue;
		buf_puts(&out, scripts[i].script);
		return message_print("completion", &out);
	}
	message_say("completion",
		    "'%.100s' is not one of bash, zsh and fish (example: %s)", *words,
		    command_completion.opts->example);
	return STATUS_FAILED;
}

const struct command command_completion = {
	.name = "completion",
	.summary = "Print a shell completion script.",
	.about = "For bash: source <(warren completion bash)\n",
	.opts = &(const struct opts){ .operands = "bash|zsh|fish",
				      .example = "warren completion bash" },
	.run = run_completion,
	.complete = complete_shell,
};
