/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.c - the kernels that Warren has, and how each is started */
#include "code/kernel/kernel.h"

#include <strings.h>

#include "base/macro.h"
#include "base/strv.h"

#define LIST(...)                      \
	(const char *const[])          \
	{                              \
		__VA_ARGS__, (void *)0 \
	}

/* kernel_blob.S; each begins with the size of the rest, in 8 digits. */
extern const char kernel_python[], kernel_python_end[];
extern const char kernel_javascript[], kernel_javascript_end[];
extern const char kernel_bash[], kernel_bash_end[];

/*
 * The source comes through the standard input, because a word of a command line cannot be
 * longer than 128 KiB, and a file would be in the way of the code that the kernel runs.
 */
#define BOOT_PYTHON                                                               \
	"import os\n"                                                             \
	"def r(n):\n"                                                             \
	" b=b''\n"                                                                \
	" while len(b)<n:\n"                                                      \
	"  d=os.read(0,n-len(b))\n"                                               \
	"  if not d: raise SystemExit('the source of the kernel is not whole')\n" \
	"  b+=d\n"                                                                \
	" return b\n"                                                             \
	"exec(compile(r(int(r(8))),'<kernel>','exec'))\n"

/*
 * node can neither create pipes nor move a descriptor, so a shell prepares the
 * descriptors: 3 and 4 are for requests and events; 5 and 6 read what is written to 1 and
 * 2; 7 is for the reason why the kernel cannot start. The FIFOs are opened twice, because
 * node makes the descriptors that it reads from non-blocking, which would also affect
 * other descriptors of the same opening.
 */
#define BOOT_SHELL                                                                      \
	"n=$(command -v node||command -v nodejs)||"                                     \
	"{ echo 'node is not installed in this image' >&2;exit 127;}\n"                 \
	"d=$(mktemp -d)&&mkfifo \"$d/1\" \"$d/2\"||"                                    \
	"{ echo 'cannot create a FIFO for the output of cells' >&2;exit 126;}\n"        \
	"exec 7>&2 3<&0 4>&1 5<>\"$d/1\" 6<>\"$d/2\" </dev/null >\"$d/1\" 2>\"$d/2\"\n" \
	"rm -r \"$d\"\n"                                                                \
	"exec \"$n\" --no-warnings --no-force-async-hooks-checks -e \"$1\"\n"

#define BOOT_NODE                                                                   \
	"{const f=require('fs'),r=n=>{const b=Buffer.alloc(n);"                     \
	"for(let i=0,d;i<n;i+=d)if(!(d=f.readSync(3,b,i,n-i)))process.exit(1);"     \
	"return b.toString()};"                                                     \
	"try{const v=require('vm');new v.Script(r(+r(8)),{filename:'kernel'})"      \
	".runInContext(v.createContext())(require,n=>import(n),globalThis)}"        \
	"catch(e){f.writeSync(7,'node '+process.versions.node+' cannot run cells, " \
	"which needs node 16 or later: '+e+'\\n');process.exit(1)}}"

#define PYTHON_ARGV LIST("python3|python", "-c", BOOT_PYTHON)
#define NODE_ARGV   LIST("sh", "-c", BOOT_SHELL, "kernel", BOOT_NODE)

const struct code_kernel code_kernels[] = {
	{ .name = "python",
	  .aliases = LIST("py", "python3"),
	  .argv = PYTHON_ARGV,
	  .source = kernel_python,
	  .source_end = kernel_python_end,
	  .package = "python3" },
	{ .name = "javascript",
	  .aliases = LIST("js", "node"),
	  .argv = NODE_ARGV,
	  .source = kernel_javascript,
	  .source_end = kernel_javascript_end,
	  .package = "nodejs" },
	{ .name = "typescript",
	  .aliases = LIST("ts"),
	  .language = "typescript",
	  .argv = NODE_ARGV,
	  .source = kernel_javascript,
	  .source_end = kernel_javascript_end,
	  .package = "nodejs" },
	/* A shell cannot capture what it writes itself, so Python drives it. */
	{ .name = "bash",
	  .aliases = LIST("sh", "shell"),
	  .argv = PYTHON_ARGV,
	  .source = kernel_bash,
	  .source_end = kernel_bash_end,
	  .package = "python3" },
};
const size_t code_n_kernels = ARRAY_SIZE(code_kernels);

const struct code_kernel *code_kernel_find(const char *language)
{
	for (size_t i = 0; i < code_n_kernels; i++)
		if (strcasecmp(code_kernels[i].name, language) == 0 ||
		    strv_has_case(code_kernels[i].aliases, language))
			return &code_kernels[i];
	return NULL;
}

size_t code_kernel_source_size(const struct code_kernel *k)
{
	return (size_t)(k->source_end - k->source);
}
