/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen-seccomp.c - compile seccomp-policy.h into a BPF program, as a C header
 *
 *	gen-seccomp x86_64|aarch64 OUTPUT
 *
 * How it works
 *
 * The machine that builds Warren need not be the one that runs it, so every number comes
 * from libseccomp's table of the requested architecture, and none from this compiler's
 * headers. libseccomp is used only for the numbers, because it cannot express "allow
 * unless" together with another default.
 *
 * The table becomes an array of runs: each has its first number, and the result for this
 * number and those up to the next run. The program checks the architecture, then searches
 * the runs with a tree of comparisons that ends in a return or in a block that checks
 * arguments:
 *
 *	ld arch; jne native -> kill; ld nr; tree; argument blocks; returns
 *
 * When the filter is loaded, the kernel emulates it once for each number. If a number is
 * allowed before any argument is loaded, the kernel skips the program for that number
 * from then on. So the size of the tree matters when the filter is loaded, and the blocks
 * matter when it runs.
 *
 * BPF jumps forward only, so the program is written from its end: the target of each jump
 * already has a position, and nothing is patched. "Position" below counts from the end.
 * Conditional jumps reach 255 instructions; for targets that are further away, a copy of
 * the return or a long jump is inserted.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seccomp-policy.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define NR_MAX   1024U /* above the last number of either architecture */
#define X32_BIT  0x40000000U
#define NR_SKIP  0xffffffffU
#define MAX_INSN 1024U
#define MAX_RUNS 256U
#define REACH    250U /* of a conditional jump, minus what emit_jump() may insert */

/* A chain of equality tests is shorter than a tree, but each test is one level deeper. */
#define MAX_CHAIN 3U

static const struct arch {
	const char *name;
	uint32_t scmp, audit;
	bool x32;
} archs[] = {
	{ "x86_64", SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64, true },
	{ "aarch64", SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64, false },
};

static const uint32_t actions[POLICY_VERDICTS] = {
	[POLICY_ENOSYS] = SECCOMP_RET_ERRNO | ENOSYS,
	[POLICY_ALLOW] = SECCOMP_RET_ALLOW,
	[POLICY_EPERM] = SECCOMP_RET_ERRNO | EPERM,
	[POLICY_NO_PROTOCOL] = SECCOMP_RET_ERRNO | EPROTONOSUPPORT,
	[POLICY_TOO_BIG] = SECCOMP_RET_ERRNO | E2BIG,
	[POLICY_KILL] = SECCOMP_RET_KILL_PROCESS,
};

/* The result for a number: a verdict, or a check if there is one. */
struct leaf {
	const struct policy_switch *check;
	enum policy_verdict verdict;
	bool decided; /* the policy names it, even if the result is ENOSYS */
};

struct run {
	struct leaf leaf;
	uint32_t first;
	unsigned pos; /* position of the leaf's code */
};

/* The cheapest way to distinguish runs [lo, hi): a chain, or a split at run mid. */
struct plan {
	unsigned cost, depth;
	unsigned mid; /* 0: a chain, which ends in the leaf of run rest */
	unsigned rest;
};

struct prog {
	struct sock_filter insn[MAX_INSN]; /* the last instruction comes first */
	unsigned n;
	unsigned verdict[POLICY_VERDICTS];
	struct {
		const struct policy_switch *sw;
		unsigned pos;
	} done[32]; /* switches whose code exists, and can be shared */
	unsigned n_done;
};

static struct leaf leaves[NR_MAX];
static struct run runs[MAX_RUNS];
static unsigned n_runs;
static struct plan plans[MAX_RUNS][MAX_RUNS + 1];

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *fmt, ...)
{
	va_list ap;

	(void)fputs("gen-seccomp: ", stderr);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

/* Return the number of @call, or -1 if @arch does not have it. */
static int resolve(const struct arch *arch, const char *call)
{
	int nr = seccomp_syscall_resolve_name_arch(arch->scmp, call), fixed = -1;

	for (size_t i = 0; i < ARRAY_SIZE(policy_numbers); i++) {
		if (strcmp(policy_numbers[i].call, call) == 0)
			fixed = policy_numbers[i].nr;
	}
	if (nr == __NR_SCMP_ERROR && fixed < 0)
		fail("'%s' is not a system call that libseccomp knows", call);
	/* A negative number means that libseccomp knows the name from another
	 * architecture. */
	if (nr < 0)
		nr = fixed;
	if (fixed >= 0 && nr != fixed)
		fail("'%s' is %d for libseccomp, %d in the policy", call, nr, fixed);
	if (nr >= (int)NR_MAX)
		fail("'%s' has number %d, above %u", call, nr, NR_MAX);
	return nr;
}

static void decide(const struct arch *arch, const char *call, struct leaf leaf)
{
	int nr = resolve(arch, call);

	if (nr < 0)
		return;
	if (leaves[nr].decided)
		fail("'%s' is in the policy twice", call);
	leaf.decided = true;
	leaves[nr] = leaf;
}

static void decide_group(const struct arch *arch, const struct policy_group *group)
{
	for (const char *p = group->calls; *p;) {
		char call[32];
		size_t n = strcspn(p, " ");

		if (n >= sizeof(call))
			fail("'%s' is too long a name", p);
		(void)snprintf(call, sizeof(call), "%.*s", (int)n, p);
		decide(arch, call, (struct leaf){ .verdict = group->verdict });
		p += n;
		p += strspn(p, " ");
	}
}

static void decide_all(const struct arch *arch)
{
	for (size_t i = 0; i < ARRAY_SIZE(policy_groups); i++)
		decide_group(arch, &policy_groups[i]);
	for (size_t i = 0; i < ARRAY_SIZE(policy_checks); i++) {
		decide(arch, policy_checks[i].call,
		       (struct leaf){ .check = policy_checks[i].check });
	}
}

static bool leaf_same(const struct leaf *a, const struct leaf *b)
{
	return a->check == b->check && (a->check || a->verdict == b->verdict);
}

static void run_add(uint32_t first, struct leaf leaf)
{
	if (n_runs > 0 && leaf_same(&runs[n_runs - 1].leaf, &leaf))
		return;
	if (n_runs == MAX_RUNS)
		fail("more than %u runs", MAX_RUNS);
	runs[n_runs++] = (struct run){ .first = first, .leaf = leaf };
}

static void make_runs(const struct arch *arch)
{
	for (uint32_t nr = 0; nr < NR_MAX; nr++)
		run_add(nr, leaves[nr]);
	run_add(NR_MAX, (struct leaf){ .verdict = POLICY_ENOSYS });
	if (arch->x32)
		run_add(X32_BIT, (struct leaf){ .verdict = POLICY_KILL });
	/*
	 * -1 is what a tracer writes over a number to skip the call (strace's inject). It
	 * does nothing: if the program itself makes this call, the kernel returns ENOSYS.
	 * An errno from the filter would overwrite the result that the tracer chose.
	 */
	run_add(NR_SKIP, (struct leaf){ .verdict = POLICY_ALLOW });
}

static bool run_single(unsigned i)
{
	return i + 1 == n_runs || runs[i + 1].first == runs[i].first + 1;
}

/* Return the number of tests in a chain for [lo, hi) that ends in run @rest's leaf; 0:
 * none. */
static unsigned chain_length(unsigned lo, unsigned hi, unsigned rest)
{
	unsigned n = 0;

	for (unsigned i = lo; i < hi; i++) {
		if (leaf_same(&runs[i].leaf, &runs[rest].leaf))
			continue;
		if (!run_single(i) || ++n > MAX_CHAIN)
			return 0;
	}
	return n;
}

static struct plan plan_range(unsigned lo, unsigned hi)
{
	struct plan best = { .cost = ~0U };

	for (unsigned rest = lo; rest < hi && rest < lo + 2; rest++) {
		unsigned n = chain_length(lo, hi, rest);

		if (n > 0 && n < best.cost)
			best = (struct plan){ .cost = n, .depth = n, .rest = rest };
	}
	for (unsigned mid = lo + 1; mid < hi; mid++) {
		const struct plan *l = &plans[lo][mid], *r = &plans[mid][hi];
		unsigned cost = l->cost + r->cost + 1;
		unsigned depth = (l->depth > r->depth ? l->depth : r->depth) + 1;

		if (cost < best.cost || (cost == best.cost && depth < best.depth))
			best = (struct plan){ .cost = cost, .depth = depth, .mid = mid };
	}
	return best;
}

static void make_plans(void)
{
	for (unsigned i = 0; i < n_runs; i++)
		plans[i][i + 1] = (struct plan){ .rest = i };
	for (unsigned len = 2; len <= n_runs; len++) {
		for (unsigned lo = 0; lo + len <= n_runs; lo++)
			plans[lo][lo + len] = plan_range(lo, lo + len);
	}
}

static unsigned emit(struct prog *p, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
	if (p->n == MAX_INSN)
		fail("more than %u instructions", MAX_INSN);
	p->insn[p->n] = (struct sock_filter){ .code = code, .jt = jt, .jf = jf, .k = k };
	return p->n++;
}

/* Return how many instructions the next one must skip to get to @pos. */
static unsigned distance(const struct prog *p, unsigned pos)
{
	return p->n - 1 - pos;
}

/* Return a position that leads to @pos and that the next conditional jump can reach. */
static unsigned within_reach(struct prog *p, unsigned pos)
{
	const struct sock_filter *to = &p->insn[pos];

	if (distance(p, pos) <= REACH)
		return pos;
	if (BPF_CLASS(to->code) == BPF_RET)
		return emit(p, to->code, 0, 0, to->k);
	return emit(p, BPF_JMP | BPF_JA, 0, 0, distance(p, pos));
}

static unsigned emit_jump(struct prog *p, uint16_t op, uint32_t k, unsigned yes,
			  unsigned no)
{
	yes = within_reach(p, yes);
	no = within_reach(p, no);
	return emit(p, BPF_JMP | BPF_K | op, (uint8_t)distance(p, yes),
		    (uint8_t)distance(p, no), k);
}

static unsigned emit_load(struct prog *p, size_t offset)
{
	return emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

static unsigned emit_switch(struct prog *p, const struct policy_switch *sw)
{
	unsigned target[16], pos = p->verdict[sw->otherwise];

	for (unsigned i = 0; i < p->n_done; i++) {
		if (p->done[i].sw == sw)
			return p->done[i].pos;
	}
	if (sw->n == 0 || sw->n > ARRAY_SIZE(target) || p->n_done == ARRAY_SIZE(p->done))
		fail("a switch with %u cases, the %uth", sw->n, p->n_done);

	for (unsigned i = 0; i < sw->n; i++) {
		const struct policy_case *c = &sw->cases[i];

		target[i] = c->next ? emit_switch(p, c->next) : p->verdict[c->verdict];
	}
	if (sw->then)
		pos = emit_switch(p, sw->then);
	for (unsigned i = sw->n; i-- > 0;)
		pos = emit_jump(p, BPF_JEQ, sw->cases[i].value, target[i], pos);
	if (sw->mask != 0)
		(void)emit(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, sw->mask);
	/* Both architectures are little-endian: the low half comes first. */
	pos = emit_load(p, offsetof(struct seccomp_data, args) +
				   sw->arg * sizeof(uint64_t) + (sw->high ? 4 : 0));

	p->done[p->n_done].sw = sw;
	p->done[p->n_done++].pos = pos;
	return pos;
}

static unsigned emit_chain(struct prog *p, unsigned lo, unsigned hi, unsigned rest)
{
	unsigned pos = runs[rest].pos;

	for (unsigned i = hi; i-- > lo;) {
		if (!leaf_same(&runs[i].leaf, &runs[rest].leaf))
			pos = emit_jump(p, BPF_JEQ, runs[i].first, runs[i].pos, pos);
	}
	return pos;
}

static unsigned emit_tree(struct prog *p, unsigned lo, unsigned hi)
{
	const struct plan *plan = &plans[lo][hi];
	unsigned below, above;

	if (plan->mid == 0)
		return emit_chain(p, lo, hi, plan->rest);
	above = emit_tree(p, plan->mid, hi);
	below = emit_tree(p, lo, plan->mid);
	return emit_jump(p, BPF_JGE, runs[plan->mid].first, above, below);
}

static void make_program(const struct arch *arch, struct prog *p)
{
	unsigned top;

	for (unsigned v = 0; v < POLICY_VERDICTS; v++)
		p->verdict[v] = emit(p, BPF_RET | BPF_K, 0, 0, actions[v]);
	for (unsigned i = 0; i < n_runs; i++) {
		const struct leaf *l = &runs[i].leaf;

		runs[i].pos =
			l->check ? emit_switch(p, l->check) : p->verdict[l->verdict];
	}
	top = emit_tree(p, 0, n_runs);
	if (top != p->n - 1)
		fail("the tree does not end in its root");
	top = emit_load(p, offsetof(struct seccomp_data, nr));
	(void)emit_jump(p, BPF_JEQ, arch->audit, top, p->verdict[POLICY_KILL]);
	(void)emit_load(p, offsetof(struct seccomp_data, arch));
}

/* List the calls that libseccomp knows and the policy does not mention, so that they are
 * noticed. */
static void write_undecided(FILE *f, const struct arch *arch)
{
	for (int nr = 0; nr < (int)NR_MAX; nr++) {
		char *call = seccomp_syscall_resolve_num_arch(arch->scmp, nr);

		if (call && !leaves[nr].decided)
			(void)fprintf(f, " * %s (%d) is not in the policy: ENOSYS\n",
				      call, nr);
		free(call);
	}
}

static void write_header(FILE *f, const struct arch *arch, const struct prog *p)
{
	(void)fputs("/* Made by gen-seccomp from seccomp-policy.h; edit that. */\n", f);
	(void)fprintf(f,
		      "/*\n * %s: %u instructions, %u runs of numbers, "
		      "%u comparisons at most to find one.\n",
		      arch->name, p->n, n_runs, plans[0][n_runs].depth);
	write_undecided(f, arch);
	(void)fprintf(f,
		      " */\n#include <linux/filter.h>\n\n"
		      "#if !defined(__%s__) || !defined(__LP64__)\n"
		      "#error \"this filter is for %s\"\n#endif\n\n"
		      "static const struct sock_filter seccomp_filter[] = {\n",
		      arch->name, arch->name);
	for (unsigned i = p->n; i-- > 0;) {
		const struct sock_filter *s = &p->insn[i];

		(void)fprintf(f, "\t{ 0x%02x, %u, %u, 0x%08x },\n", (unsigned)s->code,
			      (unsigned)s->jt, (unsigned)s->jf, s->k);
	}
	(void)fputs("};\n", f);
}

int main(int argc, char **argv)
{
	static struct prog prog;
	const struct arch *arch = NULL;
	FILE *f;

	if (argc != 3)
		fail("usage: gen-seccomp x86_64|aarch64 OUTPUT");
	for (size_t i = 0; i < ARRAY_SIZE(archs); i++) {
		if (strcmp(archs[i].name, argv[1]) == 0)
			arch = &archs[i];
	}
	if (!arch)
		fail("no filter for architecture '%s'", argv[1]);

	decide_all(arch);
	make_runs(arch);
	make_plans();
	make_program(arch, &prog);

	f = fopen(argv[2], "we");
	if (!f)
		fail("open '%s': %s", argv[2], strerror(errno));
	write_header(f, arch, &prog);
	if (ferror(f) || fclose(f) != 0)
		fail("write '%s': %s", argv[2], strerror(errno));
	return EXIT_SUCCESS;
}
