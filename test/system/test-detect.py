#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-detect.py - warren detect recognises what a project needs, and runs nothing of it

Prints TAP. $WARREN is the program (default build/warren). devcontainer.json is also read by the published reference
program, which must agree.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, eq, ok, scratch, warren  # pylint: disable=wrong-import-position
from cli_world import main  # pylint: disable=wrong-import-position
from published import Published  # pylint: disable=wrong-import-position


def put(d, files):
    for path, text in files.items():
        os.makedirs(os.path.dirname(f"{d}/{path}"), exist_ok=True)
        with open(f"{d}/{path}", "w", encoding="utf-8") as f:
            f.write(text)


def detect(d, *words, env=None):
    p = warren("detect", "--json", *words, d, env={**os.environ, **(env or {})})
    eq((p.returncode, p.stderr), (0, b""), f"detect {words}")
    return json.loads(p.stdout)


def refused(d, reason, *words):
    p = warren("detect", *words, d)
    eq((p.returncode, p.stdout), (125, b""), f"{reason}: {p}")
    ok(reason in p.stderr.decode() and p.stderr.count(b"\n") == 1, f"{reason}: {p.stderr}")


def titles(plan):
    return [(s["title"], s["dir"]) for s in plan["steps"]]


# ---------------------------------------------------------------- manifests


@test
def manifests_are_recognised():
    with scratch() as d:
        put(d, {"go.mod": "module x\n", "web/package.json": "{}", "web/package-lock.json": "{}"})
        plan = detect(d)
        eq(titles(plan), [("go mod download", ""), ("npm ci", "web")])
        eq((plan["source"], plan["image"], plan["ask"]), ("detected", None, None))
        eq(plan["files"], ["go.mod", "web/package-lock.json", "web/package.json"])
        eq(plan["steps"][1]["why"], "web/package-lock.json")
        p = warren("detect", d)
        for text in (b"npm ci (web/), because of web/package-lock.json", b"verify  npm ls", b"go mod verify"):
            ok(text in p.stdout, f"{text}: {p.stdout}")


@test
def configuration_of_tools_counts_also_above_the_manifest():
    manifests = {"a/c/Cargo.toml": "[package]\nname = \"c\"\n", "a/c/Cargo.lock": ""}
    for name, plain, naming in ((".cargo/config.toml", "[net]\noffline = true\n", "[build]\nrustc-wrapper = './w.sh'\n"),
                                ("rust-toolchain.toml", "[toolchain]\nchannel = 'stable'\n", "[toolchain]\npath = 't'\n"),
                                (".npmrc", "save-exact=true\n", "node-options=--require ./x.js\n"),
                                (".yarnrc", "lastUpdateCheck 1\n", "yarn-path './x.js'\n"),
                                (".mvn/jvm.config", None, "-javaagent:x.jar\n")):
        for where in ("a/c", "a", ""):
            path = f"{where}/{name}".lstrip("/")
            for text, all_count in ((plain, False), (naming, True)):
                if text is None:
                    continue
                with scratch() as d:
                    put(d, {**manifests, path: text, f"b/{name}": naming})
                    (step,) = detect(d)["steps"]
                    eq((path in step["files"], bool(step["reads_all"])), (True, all_count), f"{path}: {text}: {step}")
                    ok(f"b/{name}" not in step["files"], "another directory does not count")


@test
def without_manifests_there_is_nothing_to_do():
    with scratch() as d:
        eq((titles(detect(d)), detect(d)["source"]), ([], "none"))
        ok(b"nothing to do" in warren("detect", cwd=d).stdout, "the current directory")
    refused(d, "No such file")


@test
def names_cannot_control_the_terminal():
    with scratch() as d:
        put(d, {"\x1b[31m\n/go.mod": "module x\n"})
        p = warren("detect", d)
        ok(b"\x1b" not in p.stdout and b"?[31m?" in p.stdout, p.stdout)
        eq(titles(detect(d)), [("go mod download", "\x1b[31m\n")])


@test
def texts_of_a_project_do_not_deceive():
    with scratch() as top:
        d = f"{top}/p\u202e\u2800"
        os.mkdir(d)
        put(d, {"warren.yaml": 'hide: ["a\u202e\u3164b"]\nsteps:\n  - run: "echo \u2066 é 中"\n'})
        said = warren("detect", d).stdout.decode()
        for shown in (f"{top}/p??\n", "  a??b\n", "echo ? é 中\n"):
            ok(shown in said, f"{shown}: {said}")
        ok(not any(c in said for c in "\u202e\u2800\u3164\u2066"), said)
        said = warren("detect", "--json", d).stdout.decode()
        ok(not any(c in said for c in "\u202e\u2800\u3164\u2066"), said)
        eq(json.loads(said)["project"], d)


# ------------------------------------------------------------------ scripts


@test
def names_in_messages_do_not_deceive():
    for name, shown in ((b"\xc2\x9b31m", b"?31m"), (b"\xe2\x80\xaetxt", b"?txt"), (b"a\xe2\x80\x8bb", b"a?b"), (b"\xff\xc3", b"??"),
                        (b"\x1b[0m\n", b"?[0m?"), ("\u00e9\u4e2d\U0001f600 x".encode(),) * 2):
        p = warren("detect", b"/missing/" + name)
        ok(b"project '/missing/" + shown + b"':" in p.stderr, f"{name}: {p.stderr}")


@test
def a_script_has_to_be_approved():
    with scratch() as d:
        put(d, {"setup.sh": "exit 1\n", "go.mod": "module x\n"})
        plan = detect(d)
        eq((plan["source"], plan["ask"], titles(plan)), ("setup.sh", "setup.sh", [("./setup.sh", "")]))
        eq(plan["files"], ["go.mod", "setup.sh"])


@test
def a_script_runs_with_the_interpreter_of_its_first_line():
    for line, words in (("#!/bin/bash", "'/bin/bash'"), ("#! /usr/bin/env  -S python3 -u \t", "'/usr/bin/env' '-S python3 -u'"),
                        ("#!/opt/it's\r", "'/opt/it'\\''s'"), ("#!", "'/bin/sh'"), ("", "'/bin/sh'"), ("# !/bin/bash", "'/bin/sh'")):
        with scratch() as d:
            put(d, {"setup.sh": line + "\nexit 1\n"})
            eq(detect(d)["steps"][0]["run"], f"if [ -x ./setup.sh ]; then ./setup.sh\nelse {words} ./setup.sh; fi", line)


@test
def a_makefile_needs_the_target():
    for text, source in (("all:\n\ttrue\n\nsetup: all\n\ttrue\n", "make setup"), ("setup := 1\nall:\n", "detected"),
                         ("setups:\n\ttrue\n", "detected"), (".PHONY: setup\n", "detected")):
        with scratch() as d:
            put(d, {"Makefile": text, "go.mod": "module x\n"})
            eq(detect(d)["source"], source, text)


# -------------------------------------------------------------- warren.yaml


@test
def warren_yaml_says_what_to_do():
    with scratch() as d:
        put(d, {"warren.yaml": """
image: python:3.12
user: "1000"
workdir: /project
env: {A: "1", B: two words}
allow: ["example.test:443"]
hide: ["*.pem"]
steps:
  - run: make deps
    dir: sub
    files: [deps.txt, ../top.txt]
    verify: test -e done
  - run: ./tools/prepare --all
""", "go.mod": "module x\n", "tools/prepare": "#!/bin/sh\n"})
        plan = detect(d)
        eq(titles(plan), [("make deps", "sub"), ("./tools/prepare --all", "")])
        eq((plan["source"], plan["image"], plan["user"], plan["workdir"]), ("warren.yaml", "python:3.12", "1000", "/project"))
        eq((plan["env"], plan["allow"], plan["hide"]), (["A=1", "B=two words"], ["example.test:443"], ["*.pem"]))
        eq(plan["steps"][0]["files"], ["sub/deps.txt", "top.txt"])
        eq(plan["steps"][1]["files"], ["tools/prepare", "go.mod"])


@test
def warren_yaml_is_strict():
    for text, reason in (("imgae: x\n", "warren.yaml:1: unknown key 'imgae'; did you mean 'image'?"),
                         ("steps:\n  - rum: x\n", "a step must have the key 'run'"),
                         ("steps:\n  - run: x\n    dirr: y\n", "warren.yaml:3: unknown key 'dirr'; did you mean 'dir'?"),
                         ("steps:\n  - run: x\n    dir: ../other\n", "inside the project"),
                         ("steps:\n  - run: x\n    dir: /etc\n", "inside the project"),
                         ("steps:\n  - run: x\n    files: [../../etc/passwd]\n", "inside the project"),
                         ("env: {A: 1}\n", "write it in quotes"), ("workdir: x\n", "absolute path"),
                         ("- x\n", "warren.yaml:1:"), ('hide: ["*.pem", "!.env"]\n', "would show files"),
                         ("image: &x y\n", "warren.yaml:1:")):
        with scratch() as d:
            put(d, {"warren.yaml": text})
            refused(d, reason)
    with scratch() as d:  # no steps at all
        put(d, {"warren.yaml": "steps: []\n", "go.mod": "module x\n"})
        eq(titles(detect(d)), [])


# ------------------------------------------------------------- devcontainer

DEVCONTAINER = """\ufeff// a comment with "quotes"
{
  "name": "x", /* a block
  comment */
  "$schema": "https://example.test/schema",
  "image": "python:${localEnv:PYV:3.12}",
  "workspaceFolder": "/workspaces/${localWorkspaceFolderBasename}",
  "containerEnv": { "A": "1", "B": "${containerWorkspaceFolder}/x", "S": "${localEnv:SECRET}", "X": null,
      "U": "${unknown} // not a comment", "E": "${localEnv:EMPTY:a:b}", "URL": "http://x/*y*/,]", },
  "remoteEnv": { "PATH": "${containerEnv:PATH}:/x" },
  "containerUser": "first",
  "remoteUser": "dev",
  "mounts": ["type=tmpfs,target=/scratch", {"type": "bind", "source": "${localWorkspaceFolder}/..", "target": "/h"},
      "source=cache,target=/cache,type=volume"],
  "forwardPorts": [3000, "localhost:8080", "db:5432"],
  "onCreateCommand": "echo 1,}",
  "updateContentCommand": ["npm", "ci", "it's"],
  "postCreateCommand": { "a": "echo a", "b": ["echo", "b"], },
  "postStartCommand": "echo ${containerWorkspaceFolderBasename}",
  "features": { "example.test/x": {} },
  "runArgs": ["--privileged"],
  "privileged": false,
  "initializeCommand": "touch pwned",
  "customizations": {"vscode": {}},
}
"""


@test
def devcontainer_json_is_honoured_or_named():
    with scratch() as d:
        put(d, {".devcontainer/devcontainer.json": DEVCONTAINER})
        plan = detect(d, "-e", "PYV", env={"PYV": "3.11", "SECRET": "hidden"})
        base = os.path.basename(d)
        eq((plan["config"], plan["source"]), (".devcontainer/devcontainer.json", "devcontainer"))
        eq((plan["image"], plan["user"], plan["workdir"]), ("python:3.11", "dev", f"/workspaces/{base}"))
        eq(plan["env"], ["A=1", f"B=/workspaces/{base}/x", "S=", "U=${unknown} // not a comment", "E=a",
                         "URL=http://x/*y*/,]", "PATH=${containerEnv:PATH}:/x"])
        eq((plan["mounts"], plan["ports"]), ([{"target": "/scratch", "size": 0}], [3000, 8080]))
        eq([s["run"] for s in plan["steps"] if not s["start"]][:2], ["echo 1,}", "'npm' 'ci' 'it'\\''s'"])
        eq([s["run"] for s in plan["steps"] if s["start"]], [f"echo {base}"])
        notes = "\n".join(plan["notes"])
        for word in ("${localEnv:SECRET}", "${localEnv:EMPTY}", "/h is not mounted", "volume cache", "db:5432", "'features'",
                     "'runArgs'", "'initializeCommand'", "'customizations'"):
            ok(word in notes, f"{word}: {notes}")
        for word in ("PYV", "privileged'", "$schema", "hidden"):
            ok(word not in notes, f"{word}: {notes}")
        ok("hidden" not in json.dumps(plan) and not os.path.exists(f"{d}/pwned"), "what stays on the host")


# All properties of the published schema (devContainer.base.schema.json) and of earlier versions of it, with a value that
# asks for something; and a word of the message, or None if the property is honoured, or asks for what happens anyway.
PROPERTIES = (
    ("$schema", "https://example.test/x", None), ("name", "x", None), ("init", True, None), ("init", False, None),
    ("waitFor", "onCreateCommand", None), ("image", "x", None), ("containerEnv", {"A": "1"}, None),
    ("remoteEnv", {"A": "1"}, None), ("containerUser", "x", None), ("remoteUser", "x", None), ("workspaceFolder", "/x", None),
    ("forwardPorts", [3000], None), ("mounts", ["type=tmpfs,target=/x"], None), ("onCreateCommand", "x", None),
    ("updateContentCommand", "x", None), ("postCreateCommand", "x", None), ("postStartCommand", "x", None),
    ("build", {"dockerfile": "x"}, None), ("dockerFile", "x", None), ("context", ".", None),
    ("overrideCommand", True, None), ("overrideCommand", False, "command of the image"),
    ("shutdownAction", "stopContainer", None), ("shutdownAction", "none", "ends with the command"),
    ("shutdownAction", "stopCompose", "ends with the command"), ("updateRemoteUserUID", True, None),
    ("updateRemoteUserUID", False, "belongs to the user inside"), ("userEnvProbe", "none", None),
    ("userEnvProbe", "loginShell", "remoteEnv"), ("features", {"x": {}}, "in the image"),
    ("overrideFeatureInstallOrder", ["x"], "features"), ("secrets", {"A": {}}, "-e NAME"),
    ("portsAttributes", {"3000": {}}, "editors"), ("otherPortsAttributes", {"label": "x"}, "editors"),
    ("privileged", True, "privileges"), ("privileged", False, None), ("capAdd", ["SYS_PTRACE"], "privileges"),
    ("securityOpt", ["x"], "privileges"), ("initializeCommand", "x", "never run on this machine"),
    ("postAttachCommand", "x", "editor"), ("hostRequirements", {"cpus": 2}, "--cpus"), ("customizations", {"x": {}}, "editors"),
    ("appPort", 3000, "forwardPorts"), ("runArgs", ["--init"], "options of warren work"), ("workspaceMount", "x", "--mode"),
    ("runServices", ["x"], "one image"), ("service", "x", "one image"), ("settings", {"x": 1}, "editors"),
    ("extensions", ["x"], "editors"), ("devPort", 1, "editors"),
    ("build", {"cacheFrom": "x"}, "its own build cache"), ("build", {"options": ["x"]}, "'warren image build'"),
    ("build", {"colour": "x"}, "'build.colour' is unknown"), ("postCreateComand", "x", "did you mean 'postCreateCommand'?"),
    ("zzzzzzzz", False, "'zzzzzzzz' is unknown"), ("mounts", ["type=tmpfs,target=/x,tmpfs-mode=700"], "'tmpfs-mode' of a mount"),
    ("mounts", [{"type": "tmpfs", "target": "/x", "external": True}], "'external' of a mount"),
    ("mounts", ["type=tmpfs,target=/x,readonly"], "'readonly' of a mount"),
)


@test
def every_property_is_honoured_or_named():
    for name, value, word in PROPERTIES:
        with scratch() as d:
            put(d, {".devcontainer.json": json.dumps({name: value}), "x": "FROM scratch\n"})
            notes = detect(d)["notes"]
            ok(not notes if word is None else len(notes) == 1 and word in notes[0] and f"'{name}" in notes[0]
               or name in ("mounts", "postCreateComand", "build") and word in notes[0], f"{name}: {value}: {notes}")


@test
def commands_of_an_object_run_at_the_same_time():
    with scratch() as d:
        put(d, {".devcontainer.json": json.dumps({"postCreateCommand": {
            "a": "until [ -e b.done ]; do sleep 0.01; done; touch a.done", "b": ["touch", "b.done"], "c": "exit 3"}})})
        step = detect(d)["steps"][0]
        p = subprocess.run(["/bin/sh", "-c", step["run"]], cwd=d, timeout=20, check=False)
        eq((p.returncode, sorted(os.listdir(d))), (3, [".devcontainer.json", "a.done", "b.done"]))
        eq(step["title"], "postCreateCommand: a, b, c")


@test
def the_first_devcontainer_json_counts():
    with scratch() as d:
        put(d, {".devcontainer/b/devcontainer.json": '{"image": "b"}', ".devcontainer/a/devcontainer.json": '{"image": "a"}'})
        plan = detect(d)
        eq(plan["image"], "a")
        ok(".devcontainer/b/devcontainer.json is not used" in plan["notes"][0], plan["notes"])
        put(d, {".devcontainer.json": '{"image": "c"}'})
        eq(detect(d)["image"], "c")
        put(d, {".devcontainer/devcontainer.json": '{"image": "d"}'})
        eq(detect(d)["image"], "d")


@test
def what_a_devcontainer_lacks_comes_from_elsewhere():
    with scratch() as d:
        put(d, {".devcontainer.json": '{"image": "x", "postStartCommand": "true"}', "go.mod": "module x\n",
                ".devcontainer/Dockerfile": "FROM x\n"})
        plan = detect(d)
        eq((plan["image"], plan["source"]), ("x", "detected"))
        eq(titles(plan), [("postStartCommand: true", ""), ("go mod download", "")])
        put(d, {"warren.yaml": "image: y\nuser: me\nsteps: [{run: make}]\n"})
        plan = detect(d)
        eq((plan["image"], plan["user"], plan["source"]), ("x", "me", "warren.yaml"))


@test
def an_image_can_be_built():
    with scratch() as d:
        put(d, {".devcontainer/devcontainer.json": json.dumps({"build": {
            "dockerfile": "Dockerfile", "context": "..", "target": "dev", "args": {"V": "1"}, "cacheFrom": "x"}})})
        plan = detect(d)
        eq(plan["build"], {"dockerfile": ".devcontainer/Dockerfile", "context": "", "target": "dev", "args": ["V=1"]})
        ok("build.cacheFrom" in plan["notes"][0], plan["notes"])
        put(d, {".devcontainer/devcontainer.json": '{"dockerFile": "Dockerfile"}'})
        eq(detect(d)["build"], {"dockerfile": ".devcontainer/Dockerfile", "context": ".devcontainer", "target": None,
                                "args": []})


@test
def a_wrong_devcontainer_is_refused():
    for text, reason in (('{"image": }', "devcontainer.json:1:"), ('{"image": 1}', "'image' must be a string"),
                         ("[]", "must be an object"), ('{"a": 1 /* never closed', "devcontainer.json:1:"),
                         ('{"build": {"dockerfile": "../../x"}}', "inside the project"),
                         ('{"build": {"dockerfile": "/etc/passwd"}}', "inside the project"),
                         ('{"workspaceFolder": "x"}', "absolute path"), ('{"containerEnv": ["A"]}', "object of strings"),
                         ('{"containerEnv": {"A=B": "x"}}', "name that is not valid for a variable"),
                         ('{"forwardPorts": [0]}', "list of ports"), ('{"forwardPorts": ["x"]}', "forwardPorts"),
                         ('{"postCreateCommand": 1}', "'postCreateCommand' must be"),
                         ('{"mounts": ["type=tmpfs"]}', "absolute target"),
                         ('{"mounts": ["type=tmpfs,target=/tmp/../proc/self"]}', "without '.' and '..'"),
                         ('{"mounts": ["type=tmpfs,target=//proc/x"]}', "in /proc"),
                         ('{"mounts": ["type=tmpfs,target=//"]}', "cover the root"), ("{" * 5000, "devcontainer.json:1:"),
                         ('{"dockerComposeFile": "x.yml"}', "dockerComposeFile, which Warren cannot run")):
        with scratch() as d:
            put(d, {".devcontainer/devcontainer.json": text})
            refused(d, reason)
    with scratch() as d:
        put(d, {".devcontainer.json": '{"dockerComposeFile": "x.yml"}'})
        ok("dockerComposeFile" in detect(d, "--image", "x")["notes"][0], "with an image")


@test
def a_project_cannot_choose_a_directory_of_the_host_as_the_image():
    for name, text in ((".devcontainer.json", '{"image": "dir:/"}'), ("warren.yaml", "image: dir:/home\n"),
                       (".devcontainer.json", '{"image": "dir:${localWorkspaceFolder}/.."}')):
        with scratch() as d:
            put(d, {name: text})
            refused(d, "only you can choose: use --image")
            refused(d, f"{name}: the image 'dir:/")
            p = warren("work", d, "--", "true")
            ok(p.returncode == 125 and b"use --image" in p.stderr, f"{p}")
            detect(d, "--image", "dir:/srv")  # the user may
            put(d, {name: text.replace("dir:/home", "host").replace("dir:/", "x")
                    .replace("dir:${localWorkspaceFolder}/..", "host")})
            ok(detect(d)["image"] in ("host", "x"), "other images")


# ------------------------------------------------------------ the reference


def reference(d, env):
    directory = Published("devcontainers").node()
    p = subprocess.run(["node", f"{directory}/node_modules/.bin/devcontainer", "read-configuration", "--workspace-folder", d,
                        "--docker-path", "/bin/true"], capture_output=True, timeout=60, check=False,
                       env={**os.environ, **env})
    ok(p.returncode == 0, f"{p.stdout} {p.stderr}")
    return json.loads(p.stdout)


def simple(command):
    return command if isinstance(command, str) else " ".join("'" + w.replace("'", "'\\''") + "'" for w in command)


CASES = [DEVCONTAINER, '{"image": "a"}', '{"image":"a",/**/"remoteUser":"x"//\n}', '{"image": "a//b", "remoteEnv": {"A": "\\u00e9\\"/*"}}',
         '{"dockerFile": "D", "context": "..", "containerEnv": {"A": "${localEnv:PYV}-${localEnv:NONE:x}-${localEnv:NONE}"}}',
         '{"build": {"dockerfile": "D", "args": {"P": "${localWorkspaceFolder}"}}, "workspaceFolder": "/w/${localEnv:PYV}"}',
         '{"image": "a", "workspaceFolder": "/w", "postCreateCommand": ["a b", "${containerWorkspaceFolder}"]}',
         '{"image": "a", "onCreateCommand": "x ${env:PYV} ${ localEnv:PYV} $${localEnv:PYV}"}',
         '{"image": "a", "image": "b", "containerEnv": {"A": "}${", "B": "${containerWorkspaceFolderBasename}"}, '
         '"workspaceFolder": "/w/x"}']


@test
def the_reference_reads_the_same():
    env = {"PYV": "3.11", "SECRET": "s"}
    for text in CASES:
        with scratch() as d:
            put(d, {".devcontainer/devcontainer.json": text, ".devcontainer/D": "FROM x\n"})
            want = reference(d, env)["configuration"]
            got = detect(d, "-e", "PYV", "-e", "SECRET", env=env)
            eq(got["image"], want.get("image"), text)
            eq(got["user"], want.get("remoteUser", want.get("containerUser")), text)
            eq(got["workdir"], want.get("workspaceFolder"), text)
            wanted = {**want.get("containerEnv", {}), **want.get("remoteEnv", {})}
            eq(dict(v.split("=", 1) for v in got["env"]), {k: v for k, v in wanted.items() if v is not None}, text)
            commands = [want[k] for k in ("onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand")
                        if k in want]
            eq(len(got["steps"]), len(commands), text)
            for step, command in zip(got["steps"], commands):
                if not isinstance(command, dict):
                    eq(step["run"], simple(command), text)
            if "build" in want or "dockerFile" in want:
                args = want.get("build", {}).get("args", {})
                eq(got["build"]["args"], [f"{k}={v}" for k, v in args.items()], text)
                eq(got["build"]["dockerfile"], ".devcontainer/D", text)


if __name__ == "__main__":
    sys.exit(main())
