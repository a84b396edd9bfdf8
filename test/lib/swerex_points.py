# SPDX-License-Identifier: Apache-2.0
"""swerex_points.py - the behaviour of a server as the official client of SWE-ReX sees it, point by point

    python swerex_points.py URL TOKEN SCRATCH      (URL may end in a path)

The Python that has the package runs this program. It prints one JSON object: the result of each point, or the
exception that it raised. The same points run against Warren and against SWE-ReX's own server, so the comparison shows
what clients can notice.
"""
import asyncio
import contextlib
import io
import json
import logging
import os
import sys
import tempfile

from swerex.runtime.abstract import (BashAction, BashInterruptAction, CloseBashSessionRequest, Command,
                                     CreateBashSessionRequest, ReadFileRequest, UploadRequest, WriteFileRequest)
from swerex.runtime.remote import RemoteRuntime

logging.disable(logging.CRITICAL)
POINTS = {}


def point(fn):
    POINTS[fn.__name__] = fn
    return fn


class Server:
    """One runtime, and a separate directory for this point."""

    def __init__(self, runtime, scratch):
        self.r, self.dir = runtime, scratch

    async def open(self, name="default", **kw):
        return await self.r.create_session(CreateBashSessionRequest(session=name, startup_timeout=10, **kw))

    async def run(self, command, **kw):
        kw.setdefault("timeout", 30)
        return await self.r.run_in_session(BashAction(command=command, **kw))

    async def out(self, command, **kw):
        return (await self.run(command, **kw)).output

    async def interrupt(self, **kw):
        return await self.r.run_in_session(BashInterruptAction(**kw))

    async def execute(self, command, **kw):
        x = await self.r.execute(Command(command=command, **kw))
        return [x.stdout, x.stderr, x.exit_code]

    async def read(self, path, **kw):
        return (await self.r.read_file(ReadFileRequest(path=path, **kw))).content

    async def write(self, path, content):
        return (await self.r.write_file(WriteFileRequest(path=path, content=content))).model_dump()

    async def raised(self, awaitable):
        """The exception as a client sees it."""
        try:
            return ["returned", str(await awaitable)]
        except Exception as e:  # noqa: BLE001: whichever it is, it is looked at
            name, extra = type(e).__module__ + "." + type(e).__name__, sorted(getattr(e, "extra_info", {}))
            if name.endswith(".CommandTimeoutError"):  # Warren reports the output so far (test-swerex-edges.py)
                return [name, str(e).partition("\n---- Output so far")[0], []]
            return [name, str(e), extra]


# ---------------------------------------------------------------------- sessions


@point
async def alive(s):
    a = await s.r.is_alive()
    return [a.is_alive, a.message]


@point
async def a_session_says_what_it_is(s):
    c = await s.open()
    r = await s.run("echo hello")
    x = await s.r.close_session(CloseBashSessionRequest())
    return [c.model_dump(), r.model_dump(), x.model_dump()]


@point
async def state_carries_over(s):
    await s.open()
    await s.run("cd /usr; X=5; export Y=6; f() { echo f$1; }")
    return [await s.out("pwd; echo $X $Y; f 1"), await s.out("sh -c 'echo $Y'")]


@point
async def output_is_exact(s):
    await s.open()
    return [await s.out(c) for c in (r"printf '\n\nx\n\n\n'", "printf 'no newline'", "echo; echo a; echo",
                                     "printf '  a  '", "printf 'tab\\there'")]


@point
async def both_streams_in_order(s):
    await s.open()
    return await s.out("for i in 1 2 3; do echo o$i; echo e$i >&2; done")


@point
async def several_lines(s):
    await s.open()
    return [await s.out(c) for c in ("\n\n echo a \n \n echo b\n\n", "cat <<E\nhi $((1+1))\nE",
                                     "for i in {1..3};\n do echo x;\n done", "echo a \\\n b",
                                     "# a comment", "", "\n", "echo 'hello\nworld'")]


@point
async def what_a_parser_stumbles_over(s):
    await s.open()
    return [(await s.run(c, check="silent")).exit_code for c in
            ("[[ $env == $env ]]", "A=(); false", "case x in x) true;; esac", "echo ${X:-$(echo y)}")]


@point
async def exit_codes(s):
    await s.open()
    return [[(await s.run(c, check=k)).exit_code for k in ("silent", "ignore")]
            for c in ("true", "false", "doesnotexist_", "(exit 42)", "false || true")]


@point
async def a_failure_is_raised(s):
    await s.open()
    return [await s.raised(s.run("echo out; false")), await s.raised(s.run("(exit 3)", error_msg="it went wrong"))]


@point
async def syntax_errors(s):
    await s.open()
    said = [(await s.raised(s.run(c)))[::2] for c in ("(a", "echo 'unbalanced", 'echo "a', "if true; then", "a )")]
    return [said, await s.out("echo alive")]


@point
async def a_timeout_then_an_interrupt(s):
    await s.open()
    e = await s.raised(s.run("echo begun; sleep 100", timeout=0.5))
    i = await s.interrupt()
    return [e, [i.exit_code, i.expect_string], await s.out("echo alive")]


@point
async def an_interrupt_tells_what_was_shown(s):
    await s.open()
    await s.raised(s.run("echo begun; sleep 100", timeout=0.5))
    return (await s.interrupt()).output


@point
async def an_interrupt_of_a_loop(s):
    await s.open()
    await s.raised(s.run("while :; do sleep 0.01; done", timeout=0.3))
    await s.interrupt()
    return await s.out("echo alive")


@point
async def names_of_sessions(s):
    await s.open("one")
    return [await s.raised(s.open("one")), await s.raised(s.run("true", session="two")),
            await s.raised(s.r.close_session(CloseBashSessionRequest(session="two")))]


@point
async def sessions_are_apart(s):
    await s.open("one")
    await s.open("two")
    await s.run("x=1", session="one")
    return [await s.out("echo [$x]", session=n) for n in ("one", "two")]


@point
async def a_session_is_closed_once(s):
    await s.open("one")
    await s.r.close_session(CloseBashSessionRequest(session="one"))
    again = await s.raised(s.r.close_session(CloseBashSessionRequest(session="one")))
    await s.open("one")
    return [again, await s.out("echo new", session="one")]


@point
async def control_sequences_are_left_out(s):
    await s.open()
    return [await s.out(c) for c in (r"printf '\033[31mred\033[0m\n'", r"printf 'a\r\nb\n'", r"printf '\033[2Kx\033[1;1Hy'")]


@point
async def bytes_that_are_no_text(s):
    await s.open()
    return await s.out(r"printf 'a\xff\xfeb\xc3\xa4\n'")


@point
async def a_megabyte(s):
    await s.open()
    out = await s.out("yes 0123456789 | head -c 1000000")
    return [len(out), out[:11]]


@point
async def a_long_command(s):
    await s.open()
    return await s.out("echo " + "x" * 100000 + " | wc -c")


@point
async def startup_files(s):
    await s.write(s.dir + "/one", "export ONE=1\necho sourced\n")
    await s.write(s.dir + "/two", "TWO=2\n")
    c = await s.open(startup_source=[s.dir + "/one", s.dir + "/two"])
    return ["sourced" in c.output, await s.out("echo $ONE $TWO")]


@point
async def what_is_expected_ends_a_command(s):
    await s.open()
    r = await s.run("echo ready; echo more", expect=["ready", "more"], check="silent")
    return [r.expect_string, r.exit_code, (await s.run("true", expect=["never"])).expect_string]


@point
async def an_interactive_program(s):
    await s.open()
    a = await s.run("python3 -q", is_interactive_command=True, expect=[">>> "])
    b = await s.run("print('hello' + ' world')", is_interactive_command=True, expect=[">>> "])
    c = await s.run("x = 6 * 7", is_interactive_command=True, expect=[">>> "])
    d = await s.run("x", is_interactive_command=True, expect=[">>> ", "never"])
    q = await s.run("quit()", is_interactive_quit=True)
    return [[r.output, r.exit_code, r.expect_string] for r in (a, b, c, d)] + [q.exit_code, await s.out("echo back")]


@point
async def an_interactive_program_without_an_end(s):
    await s.open()
    e = await s.raised(s.run("cat", is_interactive_command=True, expect=["never"], timeout=0.5))
    await s.interrupt()
    return [e, await s.out("echo back")]


@point
async def lines_to_a_program(s):
    await s.open()
    a = await s.run("sh -c 'echo ask; read l; echo got:$l'", is_interactive_command=True, expect=["ask"])
    b = await s.run("me", is_interactive_command=True, expect=["got:me"])
    return [a.expect_string, b.expect_string]


@point
async def expectations_are_patterns(s):
    await s.open()
    r = await s.run("echo build 42 done", expect=[r"build \d+ d"], check="silent")
    return r.expect_string


# ----------------------------------------------------------------------- execute


@point
async def execute(s):
    return [await s.execute("echo out; echo err >&2", shell=True), await s.execute(["echo", "a b", "c"]),
            await s.execute("exit 3", shell=True), await s.execute("", shell=True), await s.execute("\n", shell=True),
            await s.execute(["sh", "-c", "kill -9 $$"])]


@point
async def execute_as_subprocess_does(s):
    await s.write(s.dir + "/x", "")
    return [await s.execute(["env"], env={"A": "1"}), await s.execute("echo $A", shell=True, env={"A": "ü"}),
            await s.execute("pwd", shell=True, cwd="/usr"),
            await s.execute("echo a; echo b >&2; echo c", shell=True, merge_output_streams=True),
            await s.execute(["sh", "-c", "echo a; echo b >&2"], merge_output_streams=True),
            await s.execute(r"printf 'a\377b'", shell=True), (await s.execute(["cat"], timeout=10))[2] in (0, 1)]


@point
async def execute_that_fails(s):
    return [await s.raised(s.execute(c, **k)) for c, k in (
        (["doesnotexist_"], {}), (["/"], {}), ("echo out; echo err >&2; exit 3", {"shell": True, "check": True}),
        (["false"], {"check": True, "error_msg": "mine"}), (["sleep", "100"], {"timeout": 0.3}),
        (["true"], {"cwd": "/does/not/exist"}))]


# ------------------------------------------------------------------------- files


@point
async def files(s):
    text = "häß\n\ttab\u2028☃ \"quoted\" \\ \x00 end"
    w = await s.write(s.dir + "/a/b/c", text)
    await s.write(s.dir + "/a/b/c", text)
    return [w, await s.read(s.dir + "/a/b/c"), await s.execute(["wc", "-c", s.dir + "/a/b/c"]) != [], len(text)]


@point
async def errors_of_files(s):
    await s.write(s.dir + "/file", "x")
    said = [await s.raised(x) for x in (s.read(s.dir + "/none"), s.read(s.dir), s.read(s.dir + "/file/below"),
                                        s.write(s.dir, "x"), s.write(s.dir + "/file/below", "x"))]
    return [[c, m.replace(s.dir, "DIR")] for c, m, _ in said]


@point
async def encodings(s):
    await s.execute(["sh", "-c", r"printf 'a\344\r\nb\rc\n' >" + s.dir + "/latin"])
    await s.execute(["sh", "-c", r"printf '\377\376a\0\344\0' >" + s.dir + "/utf16"])
    await s.execute(["sh", "-c", r"printf '\303\244\342\202\254\360\237\230\200\355\240\200x\340\200' >" + s.dir + "/utf8"])
    out = []
    for name, kw in (("latin", {"encoding": "latin-1"}), ("latin", {"encoding": "ISO_8859-1"}),
                     ("latin", {"encoding": "cp1252"}), ("latin", {"errors": "replace"}),
                     ("latin", {"errors": "ignore"}), ("latin", {"errors": "backslashreplace"}),
                     ("latin", {"encoding": "ascii", "errors": "replace"}), ("latin", {}),
                     ("latin", {"encoding": "ascii", "errors": "strict"}), ("utf16", {"encoding": "utf-16"}),
                     ("utf16", {"encoding": "utf-16-le"}), ("utf16", {"encoding": "utf_16_be"}),
                     ("utf8", {"errors": "replace"}), ("utf8", {"errors": "backslashreplace"}),
                     ("utf8", {"encoding": "utf-8", "errors": "ignore"}), ("utf8", {"encoding": "u8"}),
                     ("utf8", {"encoding": "no-such"}), ("utf8", {"errors": "no-such"})):
        out.append(await s.raised(s.read(f"{s.dir}/{name}", **kw)))
    return out


@point
async def uploads(s):
    with tempfile.TemporaryDirectory() as d:
        os.makedirs(d + "/tree/sub/empty")
        for name, data in (("tree/a.txt", b"one"), ("tree/sub/b.bin", bytes(range(256)) * 300), ("tree/sub/empty.txt", b""),
                           ("tree/ü ☃", b"x")):
            with open(f"{d}/{name}", "wb") as f:
                f.write(data)
        a = await s.r.upload(UploadRequest(source_path=d + "/tree/a.txt", target_path=s.dir + "/new/dir/a.txt"))
        b = await s.r.upload(UploadRequest(source_path=d + "/tree", target_path=s.dir + "/up/tree"))
        await s.r.upload(UploadRequest(source_path=d + "/tree/sub/b.bin", target_path=s.dir + "/b.bin"))
    listing = await s.execute("cd up/tree && find . | LC_ALL=C sort && cat a.txt && cksum <sub/b.bin && cksum <../../b.bin",
                              shell=True, cwd=s.dir)
    return [a.model_dump(), b.model_dump(), await s.read(s.dir + "/new/dir/a.txt"), listing]


@point
async def all_is_closed(s):
    await s.open("one")
    await s.open("two")
    return (await s.r.close()).model_dump()


async def main(url, token, scratch):
    runtime = RemoteRuntime(host=url, auth_token=token, timeout=60)
    said = {}
    for name, fn in POINTS.items():
        server = Server(runtime, f"{scratch}/{name}")
        try:
            await server.execute(["mkdir", "-p", server.dir])
            with contextlib.redirect_stdout(io.StringIO()):  # the client prints to it
                said[name] = await fn(server)
        except Exception as e:  # noqa: BLE001
            said[name] = ["raised", type(e).__module__ + "." + type(e).__name__, str(e)]
        for session in ("default", "one", "two"):
            with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
                await runtime.close_session(CloseBashSessionRequest(session=session))
    print(json.dumps(said))


asyncio.run(main(*sys.argv[1:]))
