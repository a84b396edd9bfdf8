#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-template-steps.py - steps of templates do what the SDK means: variables, paths, accounts, errors"""
import contextlib
import os
import shlex
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, test  # pylint: disable=wrong-import-position
from build_world import Store, base_image, folder, layout  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from template_world import TemplateWorld, archive  # pylint: disable=wrong-import-position

WORLD = []
STATE = tempfile.mkdtemp(prefix="warren-test-")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of docker


def w():
    if not WORLD:
        WORLD.append(TemplateWorld())
        images = {"path:1": base_image({"Env": ["PATH=/bin:/own"], "Cmd": ["sh"]}), "bare:1": base_image({"Cmd": ["sh"]})}
        Store(WORLD[0].state).image("import", "-q", layout(f"{folder()}/layout", images))
    return WORLD[0]


@contextlib.contextmanager
def built(*steps, **fields):
    """Builds a template of these steps, and creates a sandbox from it."""
    path = w().build("steps", *steps, **fields)
    status, reason = w().ended(path)
    eq(status, "ready", reason)
    status, box = w().e2b("POST", "/v2/sandboxes", {"templateID": "steps"})
    eq(status, 201, box)
    try:
        yield box["sandboxID"]
    finally:
        eq(w().e2b("DELETE", f"/sandboxes/{box['sandboxID']}")[0], 204)


def env(*pairs):
    return {"type": "ENV", "args": list(pairs)}


def shown(box, command):
    return w().run(box, command)["stdout"].splitlines()


@test
def the_default_path_is_known_to_variables():
    step = env("PATH", "/opt/own/bin:$PATH")
    for base, wanted in (("host", PATH), ("bare:1", PATH), ("path:1", "/bin:/own")):
        fields = {"fromTemplate": "base"} if base == "host" else {"fromImage": base, "fromTemplate": None}
        with built(step, "mkdir -p /tmp/x && ls / >/tmp/x/ls", **fields) as box:
            eq(shown(box, "echo $PATH")[0], f"/opt/own/bin:{wanted}", base)
        with built("ls / >/tmp/ls", **fields) as box:
            eq(shown(box, "echo $PATH"), [wanted], f"{base} without a step")


@test
def variables_of_the_account_are_known_to_variables():
    with built(env("A", "$HOME/.local/bin:${PATH}", "B", "$USER-$LOGNAME-${NONE}."), {"type": "USER", "args": ["root"]},
               env("C", "$HOME $USER"), env("HOME", "/srv"), env("D", "$HOME")) as box:
        eq(shown(box, "echo $A; echo $B; echo $C; echo $D"), [f"/home/user/.local/bin:{PATH}", "user-user-.", "/root root", "/srv"])


def copied(files, source, target, *owner, n=1):
    """Uploads an archive, and returns the step that copies from it."""
    digest = f"{n:064x}"
    eq(w().upload(w().upload_path(w().request("archive")[0], digest), archive(**files)), 200)
    return {"type": "COPY", "args": [source, target, *owner], "filesHash": digest}


@test
def paths_have_the_characters_that_the_client_wrote():
    names = ["a b", "it's", 'say "x"', "$HOME", "back\\slash", "per%20cent", "[1]", "#x", "\u00e4", "-x", "a,b", "tab\there"]
    steps = []
    for i, name in enumerate(names, 1):
        pattern = name.replace("\\", "\\\\").replace("[", "\\[")  # as in patterns of Go and of the SDK
        target = name.replace("$", "\uff04")  # a variable, in a target
        steps += [copied({f"d/{name}": str(i).encode()}, f"d/{pattern}", f"/srv/copy of/{target}", n=i),
                  {"type": "WORKDIR", "args": [f"/srv/w {target}"]}, f"printf '%s' \"$PWD\" >pwd; echo {i} >n; id -un >>n"]
    with built(*steps) as box:
        for i, name in enumerate(names, 1):
            target = name.replace("$", "\uff04")
            quoted = shlex.quote(target)
            eq(shown(box, f"cat /srv/copy\\ of/{quoted}; echo; cat /srv/w\\ {quoted}/pwd; echo; cat /srv/w\\ {quoted}/n"),
               [str(i), f"/srv/w {target}", str(i), "user"], name)
        eq(shown(box, "pwd"), [f"/srv/w {names[-1]}"])
    with built({"type": "WORKDIR", "args": ["a 'b'"]}, copied({"it's": b"1"}, "it's", "c d")) as box:
        eq(shown(box, "pwd; cat '/home/user/a '\\''b'\\''/c d'"), ["/home/user/a 'b'", "1"])
    for path in ("a\nb", "a\rb", ""):
        template, build = w().request("steps")
        status, answer = w().e2b("POST", f"/v2/templates/{template}/builds/{build}",
                                 {"fromTemplate": "base", "steps": [{"type": "WORKDIR", "args": [path]}]})
        eq((status, "WORKDIR" in answer["message"]), (400, True), answer)


@test
def variables_in_paths_are_expanded():
    steps = [env("APP", "/srv/my app", "N", "1"), {"type": "WORKDIR", "args": ["$APP/v${N}"]}, "echo 1 >n; id -un >>n",
             copied({"a": b"2"}, "a", "$APP/copy"), {"type": "WORKDIR", "args": ["in side"]}, "pwd >n"]
    with built(*steps) as box:
        eq(shown(box, "pwd; cat '/srv/my app/v1/n' n '/srv/my app/copy'; stat -c %U . '/srv/my app/v1'"),
           ["/srv/my app/v1/in side", "1", "user", "/srv/my app/v1/in side", "2user", "user"])
        # A template that begins with it, and a snapshot of the sandbox, have its directory, too.
        path = w().build("next", "pwd >/tmp/pwd", {"type": "WORKDIR", "args": ["deep"]}, fromTemplate="steps")
        eq(w().ended(path), ("ready", None))
        status, made = w().e2b("POST", f"/sandboxes/{box}/snapshots", {})
        eq(status, 201, made)
        for template, wanted in (("next", ["/srv/my app/v1/in side/deep", "/srv/my app/v1/in side"]), (made["snapshotID"], ["/srv/my app/v1/in side"])):
            status, other = w().e2b("POST", "/v2/sandboxes", {"templateID": template})
            eq(status, 201, other)
            eq(shown(other["sandboxID"], "pwd; cat /tmp/pwd 2>/dev/null || :"), wanted)
            eq(w().e2b("DELETE", f"/sandboxes/{other['sandboxID']}")[0], 204)
        eq(w().e2b("DELETE", f"/templates/{made['snapshotID'].replace(':', '%3A')}")[0], 204)
    path = w().build("steps", {"type": "WORKDIR", "args": ["$NOTHING"]})
    status, reason = w().ended(path)
    eq((status, reason["step"]), ("error", "1"), reason)


def seen(template, user=None):
    """Returns what a command of the SDK sees of its account, in a sandbox of the template."""
    env = {"SEEN": template, **({"SEEN_AS": user} if user else {})}
    return next(x for x in w().python("account.py", **env).splitlines() if x.startswith("seen "))[5:].split()


@test
def commands_have_the_variables_of_their_account():
    show = 'echo "$USER $LOGNAME $HOME $(id -u):$(id -g)" >'
    for user, wanted in (("1234", ["1234", "1234", "/", "1234:0"]), ("1000", ["user", "user", "/home/user", "1000:1000"]),
                         ("new", ["new", "new", "/home/new", "1002:1002"]), ("0", ["root", "root", "/root", "0:0"])):
        steps = [{"type": "USER", "args": [user]}, {"type": "WORKDIR", "args": ["/srv/w"]}, show + "run", {"type": "RUN", "args": [show + "/tmp/as", "daemon"]}]
        with built(*steps) as box:
            as_daemon = ["daemon", "daemon", "/usr/sbin", "1:1"]
            found = [x.split() for x in shown(box, "cat run /tmp/as; stat -c '%u:%g' .; id -u")]
            if user == "new":
                wanted = [*wanted[:3], f"{found[3][0]}:{found[3][0]}"]
            eq(found, [wanted, as_daemon, [wanted[3]], [wanted[3].split(":")[0]]], user)
        eq(seen("steps"), wanted, user)
    eq(seen("steps", "1234"), ["1234", "1234", "/", "1234:0"])
    with built(env("USER", "own"), show + "/tmp/run") as box:
        eq(shown(box, "cat /tmp/run"), ["own user /home/user 1000:1000"])


@test
def an_error_names_the_step_that_is_wrong():
    fine = "echo 1 >>/tmp/n"
    missing = copied({"a": b"1"}, "other", "/srv/a")
    broken = copied({"a": b"1"}, "a", "/srv/a", n=2)
    eq(w().upload(w().upload_path(w().request("archive")[0], broken["filesHash"]), b"\x1f\x8bthis is not an archive"), 200)
    cases = [("3", [fine, fine, env("A", "${B%x}"), fine]),  # found when the step is planned
             ("2", [fine, {"type": "WORKDIR", "args": ["$NOTHING"]}, fine]),
             ("2", [fine, {**broken, "args": ["a", "${B/x/y}"]}]),
             ("1", [env("A", "${B?it is not set}")]),
             ("2", [fine, missing, fine]),  # and when it runs
             ("2", [fine, broken, fine]),
             ("3", [fine, fine, "exit 7", fine]),
             ("2", [env("A", "1"), {"type": "RUN", "args": ["id", "stranger"]}]),
             ("base", [fine])]
    for step, steps in cases:
        base = {"fromImage": "no-such-image-here:1", "fromTemplate": None} if step == "base" else {}
        path = w().build("steps", *steps, **base)
        status, reason = w().ended(path)
        eq((status, reason["step"]), ("error", step), reason)
        entries = w().e2b("GET", f"{path}/status")[1]["logEntries"]
        eq((entries[-1]["level"], entries[-1]["step"]), ("error", step), entries)
        if step != "base":
            eq([x["step"] for x in entries if x["message"].startswith(f"[builder {step}/")], [step], entries)


@test
def a_copy_has_the_owner_and_the_mode_of_its_step():
    steps = [copied({"a": b"1"}, "a", f"/srv/{i}", *args, n=1)
             for i, args in enumerate([(), ("", ""), ("root",), ("root:user", "0640"), ("1234:5", "600"), ("user:0", "")])]
    with built(*steps) as box:
        eq(shown(box, "cd /srv; stat -c '%u:%g %a' 0 1 2 3 4 5"),
           ["1000:1000 644", "1000:1000 644", "0:0 644", "0:1000 640", "1234:5 600", "1000:0 644"])
    for owner in ("a b", ":", "user:", ":user", "a:b:c", "-x"):
        template, build = w().request("steps")
        status, answer = w().e2b("POST", f"/v2/templates/{template}/builds/{build}",
                                 {"fromTemplate": "base", "steps": [copied({"a": b"1"}, "a", "/srv/a", owner)]})
        eq((status, answer["code"]), (400, 400), owner)


@test
def a_template_has_as_many_copies_as_steps():
    template = w().request("archive")[0]
    steps = []
    for i in range(100):
        digest = f"{i + 1000:064x}"
        eq(w().upload(w().upload_path(template, digest), archive(a=str(i).encode())), 200, i)
        steps.append({"type": "COPY", "args": ["a", f"/srv/{i}"], "filesHash": digest})
    with built(*steps[:70]) as box:
        eq(shown(box, "cat /srv/0 /srv/69; ls /srv | wc -l"), ["0" + "69" + "70"])


@test
def what_is_not_an_archive_is_not_copied():
    for content in (os.urandom(5000), b"x", bytes(10240)):
        step = copied({"a": b"1"}, ".", "/srv/all", n=7)
        with built(step) as box:  # positive control
            eq(shown(box, "ls /srv/all"), ["a"])
        eq(w().upload(w().upload_path(w().request("archive")[0], step["filesHash"]), content), 200)
        template, build = w().request("steps")
        steps = [{"type": "RUN", "args": ["true"]}, step]
        status, answer = w().e2b("POST", f"/v2/templates/{template}/builds/{build}", {"fromTemplate": "base", "steps": steps})
        eq(status, 400, answer)
        ok(answer["message"].startswith("step 2: what was uploaded is not an archive"), answer)


@test
def the_reason_names_the_directory_that_cannot_be_created():
    for path in ("/etc/passwd", "/proc/none/x", "/etc/passwd/below"):
        for step in ({"type": "WORKDIR", "args": [path]}, {"type": "WORKDIR", "args": [path.replace("/etc", "/$E")]}):
            build = w().build("steps", env("E", "etc"), step)
            status, reason = w().ended(build)
            eq((status, reason["step"]), ("error", "2"), reason)
            ok(f"cannot create the directory '{step['args'][0]}'" in reason["message"], reason)
            entries = w().e2b("GET", f"{build}/status")[1]["logEntries"]
            ok(any(f"'{path}'" in e["message"] for e in entries), entries)
    with built({"type": "WORKDIR", "args": ["/srv/new"]}) as box:  # positive control
        eq(shown(box, "pwd"), ["/srv/new"])


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, STATE))
