# SPDX-License-Identifier: Apache-2.0
"""templates.py AREA - build templates with the Python SDK of E2B; the environment says where the service is"""
import asyncio
import os
import sys
import tempfile

import e2b
from e2b import AsyncSandbox, AsyncTemplate, Sandbox, Template, wait_for_file
from expect import done, eq, raises


def build(template, name, **options):
    """Builds, and returns the lines of the log after "Waiting for logs"."""
    lines = []
    Template.build(template, name, on_build_logs=lambda entry: lines.append(entry.message), **options)
    return lines[lines.index("Waiting for logs...") + 1:-1]


def files():
    path = tempfile.mkdtemp(prefix="warren-test-")
    os.makedirs(f"{path}/app/in")
    for name, text in {"app/a.txt": "A", "app/in/b.bin": "B" * 700000, "one file": "one", "z1.txt": "1", "z2.txt": "2"}.items():
        with open(f"{path}/{name}", "w", encoding="ascii") as f:
            f.write(text)
    os.symlink("a.txt", f"{path}/app/link")
    return path


def steps():
    eq((Template.exists("steps"), Template.exists("base")), (False, True))
    template = (Template().from_base_image().run_cmd("id -un; pwd; printf end").set_envs({"A": "b \"c", "B": "$A-d"})
                .set_workdir("sub").run_cmd("pwd; echo $B; stat -c %U .").run_cmd("whoami", user="root").set_user("bob")
                .run_cmd("whoami; echo ~; pwd; echo kept >~/x"))
    eq(build(template, "steps"), [
        "[builder 1/7] RUN id -un; pwd; printf end", "user", "/home/user", "end", "[builder 2/7] ENV A b \"c B $A-d",
        "[builder 3/7] WORKDIR sub", "[builder 4/7] RUN pwd; echo $B; stat -c %U .", "/home/user/sub", "b \"c-d", "user",
        "[builder 5/7] RUN whoami", "root", "[builder 6/7] USER bob", "[builder 7/7] RUN whoami; echo ~; pwd; echo kept >~/x",
        "bob", "/home/bob", "/home/user/sub", "Build finished"])
    eq(Template.exists("steps"), True)
    s = Sandbox.create("steps")
    try:
        eq(s.commands.run("id -un; pwd; cat ~/x; echo $B").stdout, "bob\n/home/user/sub\nkept\nb \"c-d\n")
        eq(s.get_info().name, "steps")
        eq([x.sandbox_id for x in Sandbox.list(e2b.SandboxQuery()).next_items() if x.template_id == s.get_info().template_id], [s.sandbox_id])
    finally:
        s.kill()
    # The second build takes every step from the cache, unless it must not.
    eq(build(template, "steps").count("CACHED"), 6)
    eq(build(template, "steps", skip_cache=True).count("CACHED"), 0)
    child = Template().from_template("steps").run_cmd("id -un; cat ~/x; echo $A")
    eq(build(child, "child", cpu_count=1, memory_mb=600)[1:], ["bob", "kept", "b \"c", "Build finished"])
    s = Sandbox.create("child")
    try:
        eq((s.get_info().memory_mb, s.get_info().cpu_count), (600, 1))
    finally:
        s.kill()


def copies():
    template = (Template(file_context_path=files()).from_base_image().copy("app", "/home/user/app")
                .copy("one file", "/srv/a b", user="root", mode=0o600).copy("*.txt", "txt/")
                .run_cmd("find app txt | sort; wc -c <app/in/b.bin; readlink app/link; stat -c '%U %a' app/a.txt")
                .run_cmd("stat -c '%U %a' '/srv/a b'; cat '/srv/a b'", user="root"))
    lines = build(template, "copies")
    at = lines.index("[builder 4/5] RUN find app txt | sort; wc -c <app/in/b.bin; readlink app/link; stat -c '%U %a' app/a.txt")
    eq(lines[at + 1:], ["app", "app/a.txt", "app/in", "app/in/b.bin", "app/link", "txt", "txt/z1.txt", "txt/z2.txt", "700000",
                        "a.txt", "user 644", "[builder 5/5] RUN stat -c '%U %a' '/srv/a b'; cat '/srv/a b'", "root 600", "one",
                        "Build finished"])
    log = []
    Template.build(template, "copies", on_build_logs=lambda entry: log.append(entry.message))
    eq([x for x in log if x.startswith(("Uploaded", "Skipping"))], [f"Skipping upload of '{x}', already cached"
                                                                     for x in ("app", "one file", "*.txt")])


def errors():
    def base():
        return Template().from_base_image()

    def fails(template, text):
        error = raises(e2b.BuildException, lambda: Template.build(template, "errors"), text)
        trace, lines = error.__traceback__, []
        while trace:
            lines.append(trace.tb_lineno)
            trace = trace.tb_next
        return lines[-1]

    line = sys._getframe().f_lineno + 2  # pylint: disable=protected-access
    bad = base().run_cmd("true")
    bad = bad.run_cmd("echo oops; exit 3")
    eq(fails(bad, "failed to run command 'echo oops; exit 3': exit status 3"), line)
    fails(base().run_cmd("whoami", user="root123"),
          "failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'")
    fails(Template().from_template("missing").run_cmd("true"), "404: template 'missing' not found")
    fails(Template().from_image("missing.invalid/x:1"), "missing.invalid")
    fails(Template().from_image("x", username="me", password="geheim"), "501: fromImageRegistry")
    raises(e2b.SandboxException, lambda: Sandbox.create("errors"), "404: template 'errors' not found")
    raises(e2b.BuildException, lambda: Template.build(base(), "No Name"), "400: name")


def dockerfile():
    """The SDK translates a Dockerfile."""
    path = files()
    template = Template(file_context_path=path).from_dockerfile(
        "FROM e2bdev/base\nENV A=1\nWORKDIR /srv/work\nCOPY one* /srv/\nRUN id -un; pwd; echo $A; ls /srv\nUSER user\n")
    lines = build(template, "dockerfile")
    eq([x for x in lines if x in ("root", "/srv/work", "1", "one file")], ["root", "/srv/work", "1", "one file"], lines)
    s = Sandbox.create("dockerfile")
    try:
        eq(s.commands.run("id -un; pwd").stdout, "user\n/srv/work\n")
    finally:
        s.kill()


def starts():
    template = Template().from_base_image().set_start_cmd(
        "echo $$ >/tmp/pid; sleep 1; touch /tmp/ready; exec sleep 1000", wait_for_file("/tmp/ready"))
    build(template, "starts")
    s = Sandbox.create("starts")
    try:
        eq(s.commands.run("ls /tmp/ready; cat /proc/$(cat /tmp/pid)/comm").stdout, "/tmp/ready\nsleep\n")
    finally:
        s.kill()
    build(Template().from_template("starts").run_cmd("true"), "inherits")
    s = Sandbox.create("inherits")
    try:
        eq(s.commands.run("ls /tmp/ready").stdout, "/tmp/ready\n")
    finally:
        s.kill()


def tags():
    template = Template().from_base_image().run_cmd("echo 1 >n")
    first = Template.build(template, "tagged:v1", tags=["stable"])
    eq(sorted(first.tags), ["stable", "v1"])
    raises(e2b.SandboxException, lambda: Sandbox.create("tagged"), "404: template 'tagged' not found")
    second = Template.build(Template().from_base_image().run_cmd("echo 2 >n"), "tagged")
    eq(first.template_id, second.template_id)

    def number(name):
        s = Sandbox.create(name)
        try:
            return s.commands.run("cat n").stdout
        finally:
            s.kill()

    eq([number(x) for x in ("tagged", "tagged:v1", f"{first.template_id}:stable", first.template_id)],
       ["2\n", "1\n", "1\n", "2\n"])
    eq(Template.assign_tags("tagged:v1", ["default", "latest"]).build_id, first.build_id)
    eq(number("tagged"), "1\n")
    eq({x.tag: x.build_id for x in Template.get_tags("tagged")},
       {x: first.build_id for x in ("default", "latest", "stable", "v1")})
    Template.remove_tags("tagged", ["v1"])
    raises(e2b.SandboxException, lambda: Sandbox.create("tagged:v1"), "404")
    raises(e2b.TemplateException, lambda: Template.remove_tags("tagged", ["v1"]), "404")
    raises(e2b.TemplateException, lambda: Template.assign_tags("tagged:none", ["x"]), "404")
    raises(e2b.TemplateException, lambda: Template.assign_tags("tagged", ["Not valid"]), "400")


def tls():
    template = Template(file_context_path=files()).from_base_image().copy("app", "a").run_cmd("wc -c <a/in/b.bin; echo tls")
    eq(build(template, "tls", skip_cache=True)[-3:-1], ["700000", "tls"])


async def with_async():
    template = AsyncTemplate(file_context_path=files()).from_base_image().copy("app/a.txt", "a").run_cmd("cat a; echo")
    lines = []
    await AsyncTemplate.build(template, "awaited", on_build_logs=lambda entry: lines.append(entry.message))
    eq("A" in lines, True, lines)
    info = await AsyncTemplate.build_in_background(template, "awaited")
    for _ in range(300):
        status = await AsyncTemplate.get_build_status(info)
        if status.status.value not in ("waiting", "building"):
            break
        await asyncio.sleep(0.1)
    eq((status.status.value, await AsyncTemplate.exists("awaited")), ("ready", True))
    s = await AsyncSandbox.create("awaited")
    eq((await s.commands.run("cat a")).stdout, "A")
    await s.kill()


def old():
    """An SDK that always sends cpuCount and memoryMB, and creates with the first version of the API."""
    template = Template(file_context_path=files()).from_base_image().copy("app/a.txt", "a").run_cmd("cat a; echo; echo old")
    eq("A" in build(template, "old"), True)
    s = Sandbox.create("old")
    try:
        eq(s.commands.run("cat a").stdout, "A")
        eq((s.get_info().memory_mb, s.get_info().cpu_count), (1024, 2))
    finally:
        s.kill()


def image():
    """The image base:1 has neither bash nor the account."""
    lines = build(Template().from_image("base:1").run_cmd("id; pwd; echo $0").set_envs({"X": "1"}), "small")
    eq(lines[1:4], ["uid=1236(user) gid=1236(user) groups=1236(user)", "/home/user", "/bin/sh"])


if __name__ == "__main__":
    areas = {"steps": steps, "copies": copies, "errors": errors, "starts": starts, "tags": tags, "old": old, "image": image, "tls": tls, "dockerfile": dockerfile,
             "async": lambda: asyncio.run(with_async())}
    areas[sys.argv[1]]()
    done()
