#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-document.py - what doc/e2b.md says is true: its examples run word by word, and details of its tables"""
import base64
import concurrent.futures
import contextlib
import hashlib
import http.client
import itertools
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, MIB, SOURCE, eq, ok, test  # pylint: disable=wrong-import-position
from fault_world import fill, free, small_disk  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import until  # pylint: disable=wrong-import-position
from template_world import TemplateWorld  # pylint: disable=wrong-import-position

WORLD = []
STATE = tempfile.mkdtemp(prefix="warren-test-")
# Prints the methods that have other parameters than the document says.
PARAMETERS = """
import inspect, sys
from e2b import Sandbox, Template
for line in sys.stdin:
    name, _, given = line.strip().rstrip(")").partition("(")
    method = inspect.getattr_static(Sandbox, name.removeprefix("Sandbox."), None)
    if method is None:
        continue
    known = list(inspect.signature(getattr(Sandbox, name.removeprefix("Sandbox."))).parameters)
    known = [x for x in known if x not in ("self", "cls", "sandbox_id")]
    words = [x.strip() for x in given.split(",")]
    first = [x for x in words if "=" not in x]
    named = [x.partition("=")[0] for x in words if "=" in x]
    print("checked", name)
    if first != known[:len(first)] or not set(named) <= set(known) and "opts" not in known and "kwargs" not in known:
        print("wrong", name, words, known)
print("done")
"""


def w():
    if not WORLD:
        WORLD.append(TemplateWorld())
    return WORLD[0]


def document():
    with open(os.path.join(SOURCE, "doc/e2b.md"), encoding="utf-8") as f:
        return f.read()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", document(), re.DOTALL | re.MULTILINE)


def variables():
    """Runs the first block of the document as a shell does, and returns the variables that it sets."""
    text = blocks("sh")[0].replace("http://127.0.0.1:8080", w().url)
    r = subprocess.run(["bash", "-ec", f'sudo() {{ "$@"; }}\n{text}\nenv'], stdin=subprocess.DEVNULL, capture_output=True,
                       text=True, timeout=60, check=True,
                       env={"PATH": f"{BUILD}:{os.environ['PATH']}", "WARREN_LIBEXEC": BUILD, "WARREN_HOST": f"unix:{w().socket}"})
    return {k: v for k, _, v in (line.partition("=") for line in r.stdout.splitlines()) if k.startswith("E2B_")}


@test
def the_examples_run_word_by_word():
    env = variables()
    eq(sorted(env), ["E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL"])
    examples = blocks("python")
    ok(len(examples) >= 2, f"{len(examples)} examples")
    with tempfile.TemporaryDirectory(prefix="warren-test-") as temp:
        with open(f"{temp}/server.py", "w", encoding="utf-8") as f:
            f.write("import http.server\nhttp.server.test(http.server.SimpleHTTPRequestHandler, port=8000)\n")
        for i, text in enumerate(examples):
            with open(f"{temp}/example{i}.py", "w", encoding="utf-8") as f:
                f.write(text)
            r = subprocess.run([w().clients.python("python-new"), "-B", f"example{i}.py"], cwd=temp, stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, timeout=300, check=False,
                               env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TMPDIR": temp, **env})
            eq(r.returncode, 0, f"{text}\n{r.stderr[-2000:]}")
    for box in w().e2b("GET", "/v2/sandboxes")[1]:
        eq(w().e2b("DELETE", f"/sandboxes/{box['sandboxID']}")[0], 204)


@test
def methods_have_the_documented_parameters():
    words = [x for line in document().splitlines() if line.startswith("| ")
             for x in re.findall(r"`([\w.]+\([a-z_=., N]+\))`", line.split("|")[1]) if "..." not in x.partition("(")[2][:3]]
    ok("fork(timeout=..., count=N)" in words, words)
    r = subprocess.run([w().clients.python("python-new"), "-Bc", PARAMETERS], input="\n".join(words), capture_output=True,
                       text=True, timeout=60, check=False)
    lines = r.stdout.splitlines()
    ok(lines[-1:] == ["done"] and "checked fork" in lines, f"{r.stdout} {r.stderr}")
    eq([x for x in lines if x.startswith("wrong")], [])


@test
def a_build_with_tags_has_only_these():
    for name, tags, found in (("plain", None, ["default"]), ("tagged", ["v1"], ["v1"]), ("both", ["default", "v1"], ["default", "v1"])):
        template, build = w().request(name, **({"tags": tags} if tags else {}))
        path = f"/templates/{template}/builds/{build}"
        eq(w().e2b("POST", f"/v2{path}", {"fromTemplate": "base", "steps": []}), (202, None))
        eq(w().ended(path), ("ready", None))
        eq(sorted(x["tag"] for x in w().e2b("GET", f"/templates/{template}/tags")[1]), found)
        for word, tag in ((name, "default"), (f"{name}:v1", "v1")):
            status, body = w().e2b("POST", "/v2/sandboxes", {"templateID": word})
            eq(status, 201 if tag in found else 404, f"{word}: {body}")
            if status == 201:
                eq(w().e2b("DELETE", f"/sandboxes/{body['sandboxID']}")[0], 204)


@contextlib.contextmanager
def sandbox(path="/v2/sandboxes", **fields):
    status, box = w().e2b("POST", path, {"templateID": "base", **fields})
    eq(status, 201, box)
    try:
        yield box
    finally:
        eq(w().e2b("DELETE", f"/sandboxes/{box['sandboxID']}")[0], 204)


@test
def the_snapshot_of_a_fork_is_not_listed():
    with sandbox(timeout=300) as box:
        status, copies = w().e2b("POST", f"/sandboxes/{box['sandboxID']}/fork", {"timeout": 300, "count": 2})
        eq((status, len(copies)), (201, 2), copies)
        eq(w().value("SELECT count(*) FROM snapshots WHERE source = ?", box["sandboxID"]), 1, "snapshots in the database")
        eq(w().e2b("GET", f"/snapshots?sandboxID={box['sandboxID']}"), (200, []))
        # The client's own snapshots are listed, with or without a name, and whether or not a sandbox uses them.
        own = [w().e2b("POST", f"/sandboxes/{box['sandboxID']}/snapshots", fields)[1]["snapshotID"]
               for fields in ({}, {"name": "forked"})]
        with sandbox(templateID=own[0]):
            listed = w().e2b("GET", f"/snapshots?sandboxID={box['sandboxID']}")[1]
            eq(sorted(x["snapshotID"] for x in listed), sorted(own))
        for copy in copies:
            eq(w().e2b("DELETE", f"/sandboxes/{copy['sandbox']['sandboxID']}")[0], 204)


@test
def secure_has_no_effect():
    for path in ("/sandboxes", "/v2/sandboxes"):
        for secure in (False, True):
            with sandbox(path, secure=secure) as box:
                plane = {"E2b_Sandbox_Id": box["sandboxID"], "E2b_Sandbox_Port": "49983"}
                eq(w().call("POST", "/filesystem.Filesystem/Stat", {"path": "/"}, **plane)[0], 401)
                eq(w().call("POST", "/filesystem.Filesystem/Stat", {"path": "/"}, X_Access_Token=box["envdAccessToken"], **plane)[0],
                   200)


@test
def metadata_of_secrets_is_refused():
    eq(w().e2b("POST", "/secrets", {"name": "KEPT", "value": "x", "metadata": {"a": "b"}})[0], 400)
    eq(w().e2b("POST", "/secrets", {"name": "KEPT", "value": "x", "metadata": {}})[0], 201)
    eq(w().e2b("POST", "/secrets/KEPT", {"value": "y", "metadata": {"a": "b"}})[0], 400)
    eq(w().e2b("DELETE", "/secrets/KEPT")[0], 204)


def download(signature, source="127.0.0.1", **headers):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", w().port, timeout=60, source_address=(source, 0))) as c:
        quoted = signature.replace("+", "%2B").replace("/", "%2F")
        c.request("GET", f"/files?path=/etc/passwd&signature={quoted}", headers={k.replace("_", "-"): v for k, v in headers.items()})
        return c.getresponse().status


def signed(token):
    raw = f"/etc/passwd:read::{token}".encode()
    return "v1_" + base64.b64encode(hashlib.sha256(raw).digest()).decode().rstrip("=")


@test
def wrong_signatures_cannot_cause_work_without_end():
    with sandbox() as box:
        right, wrong = signed(box["envdAccessToken"]), signed("wrong")
        # Right ones cost nothing, and those that cannot be right are refused at once.
        eq({download(right) for _ in range(100)}, {200})
        eq({download(wrong[:-1]) for _ in range(100)}, {401})
        eq(download(wrong), 401)
        until(lambda: download(wrong) == 429, "the end of the budget")
        # Other addresses are not affected (two may share a budget by chance), nor are requests that name the sandbox.
        ok(200 in {download(right, source=f"127.0.0.{n}") for n in range(3, 8)}, "all addresses have one budget")
        eq(download(right, E2b_Sandbox_Id=box["sandboxID"], E2b_Sandbox_Port="49983"), 200)
        until(lambda: download(right) == 200, "a new budget")
        # Many addresses have one budget together, too, although none has used up its own.
        sources = itertools.cycle(f"127.0.1.{n}" for n in range(1, 250))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            ok(any(429 in pool.map(lambda a: download(wrong, source=a), itertools.islice(sources, 249)) for _ in range(12)),
               "the addresses together have no budget")
        eq(download(right, E2b_Sandbox_Id=box["sandboxID"], E2b_Sandbox_Port="49983"), 200)
        until(lambda: download(right, source="127.0.2.1") == 200, "a new budget of all")


@test
def errors_do_not_name_directories_of_the_service():
    with small_disk("tmpfs", 96 * MIB) as at, TemplateWorld(state=f"{at}/state") as other:
        fill(at)
        key = other.key_of()
        for path, body in (("/secrets", {"name": "A", "value": "x"}), ("/v3/templates", {"name": "a"}),
                           ("/v2/sandboxes", {"templateID": "base"}), ("/volumes", {"name": "v"})):
            status, answer = other.e2b("POST", path, body, key)
            if status >= 400:
                ok(at not in answer["message"], f"{path}: {status} {answer}")
            else:
                ok(path != "/secrets", answer)
        free(at)
        until(lambda: other.e2b("POST", "/secrets", {"name": "A", "value": "x"}, key)[0] == 201, "space for a secret")


@test
def the_configuration_in_the_document_opens_the_network():
    config = next(x for x in blocks("yaml") if x.startswith("templates:"))
    few = "  few:\n    image: host\n    network: { allow: [{ host: example.org }] }\n"
    with TemplateWorld(config=config + few) as other:
        secret = other.key()

        def network(**fields):
            status, box = other.call("POST", "/v2/sandboxes", {"templateID": "base", **fields}, X_API_Key=secret)
            if status != 201:
                return status, box["message"].partition(":")[0]
            found = other.call("GET", f"/sandboxes/{box['sandboxID']}", X_API_Key=secret)[1]["network"]
            eq(other.call("DELETE", f"/sandboxes/{box['sandboxID']}", X_API_Key=secret)[0], 204)
            return found["allowOut"], found["denyOut"]

        for template in ("base", "base:default", "code-interpreter-v1"):
            eq(network(templateID=template), (["0.0.0.0/0"], []), template)
            eq(network(templateID=template, allow_internet_access=False), ([], ["0.0.0.0/0"]))
            # What a request denies is denied, although the template allows it.
            eq(network(templateID=template, network={"denyOut": ["8.8.8.8"]})[1], ["8.8.8.8"])
            eq(network(templateID=template, network={"allowOut": ["example.org"], "denyOut": ["0.0.0.0/0"]}), (["example.org"], ["0.0.0.0/0"]))
        eq(network(templateID="few"), (["example.org"], ["0.0.0.0/0"]))
        eq(network(templateID="few", network={"denyOut": ["example.org"]}), (400, "network.denyOut"))
        eq(network(templateID="few", network={"allowOut": ["example.com"], "denyOut": ["0.0.0.0/0"]}), (["example.com"], ["0.0.0.0/0"]))


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, STATE))
