#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-code-images.py - code runs in images: pulled in advance, and without the tools that a language needs"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from oci_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from code_programs import TOOLS  # pylint: disable=wrong-import-position
from serve_world import World, check_error, slurp_if_there, until  # pylint: disable=wrong-import-position

# Two versions of node: one that knows the options, and one that does not.
NEW_NODE = """#!/bin/sh
[ "$1" = --experimental-transform-types ] || exit 5
while [ "${1#-}" != "$1" ]; do shift; done
echo "ran $*"
"""
OLD_NODE = '#!/bin/sh\necho "$0: bad option: $1" >&2\nexit 9\n'


class Service(World):
    def processes(self):
        return [p for p in super().processes() if "docker-registry" not in slurp_if_there(f"/proc/{p}/cmdline")]


def service(config=""):
    return Service("--insecure-registries", registry().host, config=config)


def push(name, *layers):
    return registry().push(simple(name, *layers), f"code/{name}", "1")


def names(w):
    return sorted(n for i in w.get("/v1/images")["images"] for n in i["names"])


def ask(w, language, text, **more):
    return w.ask("POST", "/v1/code", {"language": language, "code": text, "timeout_ms": 60000, **more})


@test
def images_are_pulled_when_the_service_starts():
    shell, other = push("shell"), push("other")
    config = f"code:\n  images: ['bash={shell}', 'python=host']\n  languages:\n    cat: {{ file: t, run: [cat, t], image: '{other}' }}\n"
    with service(config) as w:
        ok(w.get("/healthz"), "it answers")
        eq(names(w), [], "control: without code.pull there are none")
    with service(config + "  pull: true\n") as w:
        until(lambda: names(w) == sorted([shell, other]), lambda: f"images: {names(w)}")
        eq(ask(w, "bash", "cat /text").json()["stdout"], "shell", "a run in it")
        eq(ask(w, "cat", "as it is").json()["stdout"], "as it is", "a run in the other")
    # An image that cannot be pulled affects only runs that need it, and they report the reason.
    with service(f"code:\n  images: ['bash={registry().host}/code/none:1']\n  pull: true\n") as w:
        eq(ask(w, "python", "print(1)").json()["stdout"], "1\n", "a run with another image")
        r = ask(w, "bash", "true")
        ok(r.status >= 400 and "code/none:1" in r.json()["message"], r)


@test
def a_tool_missing_in_the_image_is_named():
    ref = push("bare")
    with service() as w:
        for language, tool in TOOLS.items():
            r = ask(w, language, "echo 1", image=ref)
            if language == "bash":
                eq((r.status, r.json().get("stdout")), (200, "1\n"), f"control: sh is there: {r}")
                continue
            check_error(r, 422, "command_not_found")
            # Without esbuild, node could strip the types, but node is missing too.
            ok(f"'{'node' if language == 'typescript' else tool}'" in r.json()["message"] and ref in r.json()["message"], f"{language}: {r.json()}")


@test
def node_strips_types_if_esbuild_is_missing():
    new, old = (push(name, Layer({"bin/node": File(text, 0o755)})) for name, text in (("new", NEW_NODE), ("old", OLD_NODE)))
    with service() as w:
        r = ask(w, "typescript", "let x: number", args=["a b"], image=new)
        eq((r.status, r.json().get("stdout")), (200, "ran main.ts a b\n"), r)
        r = ask(w, "typescript", "let x: number", image=old)
        check_error(r, 422, "command_not_found")
        ok("'esbuild'" in r.json()["message"], r.json())


@test
def no_interpreter_is_started_early_in_an_image_without_it():
    """With code.warm and an image without python: each run reports the missing tool, and no waiting sandbox is
    left."""
    ref = push("warm")
    with service("code:\n  warm: 2\n") as w:
        for _ in range(3):
            r = ask(w, "python", "print(1)", image=ref)
            check_error(r, 422, "command_not_found")
            ok("'python3'" in r.json()["message"], r.json())
        until(lambda: w.sandboxes() == [], lambda: f"left: {w.sandboxes()}")
        eq(ask(w, "python", "print(1)").json()["stdout"], "1\n", "control: in the usual image")
        until(w.sandboxes, "control: interpreters wait there")


@test
def unreadable_artifacts_are_omitted_and_reported():
    """The image's user is not root, and cannot read a directory and a file without permissions."""
    ref = registry().push(simple("user", config={"User": "app"}), "code/user", "1")
    with service() as w:
        for text, paths, complete in (("mkdir d; echo 1 >d/g; chmod 0 d", ["a/b", "f"], False), ("echo 2 >h; chmod 0 h", ["a/b", "f"], False),
                                      ("mkdir d; echo 1 >d/g", ["a/b", "d/g", "f"], True)):
            r = ask(w, "bash", f"echo x >f; {text}; id -u", files={"a/b": "c"}, artifacts=["**"], image=ref).json()
            eq(([a["path"] for a in r["artifacts"]], r["artifacts_complete"], r["stdout"]), (paths, complete, "1234\n"), text)
        # Root in the sandbox can read them.
        r = ask(w, "bash", "mkdir d; echo 1 >d/g; chmod 0 d", artifacts=["**"]).json()
        eq(([a["path"] for a in r["artifacts"]], r["artifacts_complete"]), (["d/g"], True), "control: root")


if __name__ == "__main__":
    sys.exit(main())
