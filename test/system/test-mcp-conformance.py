#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-mcp-conformance.py - every scenario of the official conformance suite of MCP, in every revision that has it"""
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test, ROOT  # pylint: disable=wrong-import-position
from mcp_clients import node_clients, WANTED  # pylint: disable=wrong-import-position
from mcp_relay import Relay  # pylint: disable=wrong-import-position
from serve_world import World  # pylint: disable=wrong-import-position

SECONDS = 300
# 2024-11-05 has no scenarios; "draft" is the same as the newest revision.
REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]

# Reasons why a scenario cannot pass. Each was verified to fail only for its reason.
IMAGES = "needs a sound in an answer, several kinds of content, or an image in a prompt; Warren's tools answer with text and one file"
ASKS = "needs a tool that asks the client (sampling, elicitation, roots); Warren never does, and needs no such capability"
SCHEMA = "needs a tool whose schema has $defs and other words of JSON Schema that Warren's schemas do not use"
HEADERS = "needs a tool with x-mcp-header in its schema; Warren's have none, so no Mcp-Param header is required"
LOGS = "needs a tool that sends three log messages; Warren sends one, when a sandbox is created"
RESUMES = "needs a stream that can be resumed; Warren gives its events no ids, so clients do not ask for it"
SKILLS = "an extension (skills) that Warren does not declare"
TASKS = "an extension (tasks) that Warren does not declare"

# The checks of a scenario that do not succeed, and why.
FAILS = {
    "tools-call-audio": ({"tools-call-audio"}, IMAGES),
    "tools-call-mixed-content": ({"tools-call-mixed-content"}, IMAGES),
    "prompts-get-with-image": ({"prompts-get-with-image"}, IMAGES),
    "prompts-get-embedded-resource": ({"prompts-get-embedded-resource"}, IMAGES),
    "tools-call-with-logging": ({"tools-call-with-logging"}, LOGS),
    "tools-call-sampling": ({"tools-call-sampling"}, ASKS),
    "tools-call-elicitation": ({"tools-call-elicitation"}, ASKS),
    "elicitation-sep1034-defaults": ({"elicitation-sep1034-general"}, ASKS),
    "elicitation-sep1330-enums": ({"elicitation-sep1330-general"}, ASKS),
    "json-schema-2020-12": ({"json-schema-2020-12-tool-found"}, SCHEMA),
    "server-sse-polling": (set(), RESUMES),
    "http-custom-header-server-validation": ({
        "sep-2243-server-no-xmcp-tool", "sep-2243-server-decode-base64", "sep-2243-server-validate-param-match",
        "sep-2243-server-reject-invalid-param-chars", "sep-2243-server-reject-param-mismatch"}, HEADERS),
    "server-stateless": ({
        "sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-server-no-log-without-loglevel",  # needs a tool of this name; log_messages_are_sent_on_request checks it
        "sep-2575-server-sends-prompts-list-changed-on-subscription",  # skipped: the lists of Warren do not change
        "sep-2575-server-sends-tools-list-changed-on-subscription"}, ASKS),
    "input-required-result-basic-elicitation": ({"sep-2322-elicitation-incomplete"}, ASKS),
    "input-required-result-basic-sampling": ({"sep-2322-sampling-incomplete"}, ASKS),
    "input-required-result-basic-list-roots": ({"sep-2322-list-roots-incomplete"}, ASKS),
    "input-required-result-request-state": ({"sep-2322-request-state-incomplete"}, ASKS),
    "input-required-result-multiple-input-requests": ({"sep-2322-multiple-inputs-incomplete"}, ASKS),
    "input-required-result-multi-round": ({"sep-2322-multi-round-r1"}, ASKS),
    "input-required-result-missing-input-response": ({"sep-2322-missing-response-rerequests"}, ASKS),
    "input-required-result-non-tool-request": ({"sep-2322-non-tool-incomplete"}, ASKS),
    "input-required-result-result-type": ({"sep-2322-result-type-included"}, ASKS),
    "input-required-result-tampered-state": ({"sep-2322-reject-tampered-state"}, ASKS),
    "input-required-result-capability-check": ({"sep-2322-respect-client-capabilities"}, ASKS),
    "input-required-result-ignore-extra-params": ({"sep-2322-ignore-unexpected-params"}, ASKS),
}
# Not run: no revision has them.
EXTENSIONS = {
    **{f"sep-2640-skills-{x}": SKILLS for x in ("directory", "enumeration", "manifest")},
    **{f"tasks-{x}": TASKS for x in (
        "lifecycle", "capability-negotiation", "wire-fields", "request-state-removal", "mrtr-input", "request-headers",
        "dispatch-and-envelope", "status-notifications", "required-task-error", "mrtr-composition")},
}
WORLD = World(tcp=True) if ROOT else None


def suite(*arguments):
    r = subprocess.run(["node", "--import", f"{WANTED}/glob-hook.mjs",
                        f"{node_clients()}/node_modules/.bin/conformance", *arguments], stdin=subprocess.DEVNULL,
                       capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    return re.sub(r"\x1b\[[0-9;]*m", "", r.stdout), r.stderr


def outcomes(url, revision):
    """For each scenario of a revision: the ids of its checks, by their status."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="warren-test-") as results:
        said = suite("server", "--url", url, "--spec-version", revision, "--suite", "all", "--timeout", "30000",
                     "--output-dir", results)
        for path in glob.glob(f"{results}/*/checks.json"):
            name = re.fullmatch(r"server-(.*)-\d{4}-\d\d-\d\dT.*", os.path.basename(os.path.dirname(path)))[1]
            by_status = found.setdefault(name, collections.defaultdict(set))
            with open(path, encoding="utf-8") as f:
                for check in json.load(f):
                    by_status[check["status"]].add(check["id"])
    ok(found, f"{revision}: no results: {said}")
    return found


def judge(revision, name, by_status):
    """Checks that the scenario passes, or fails as the table says."""
    failed = set().union(*(ids for status, ids in by_status.items() if status not in ("SUCCESS", "INFO")))
    passed = by_status["SUCCESS"] - {"wire-schema-valid"} - failed
    print(f"# {revision} {name}: {len(passed)} passed, {len(failed)} not")
    if name in FAILS:
        eq(sorted(failed), sorted(FAILS[name][0]), f"{revision} {name}: what fails")
    else:
        eq((sorted(failed), bool(passed)), ([], True), f"{revision} {name}: what fails, and whether something passes")


@test
def every_scenario_passes_or_has_a_reason():
    ran = set()
    with WORLD.box() as box, Relay(WORLD, box) as relay:
        for revision in REVISIONS:
            for name, by_status in sorted(outcomes(relay.url, revision).items()):
                ran.add(name)
                judge(revision, name, by_status)
    eq(sorted(set(FAILS) - ran), [], "reasons for scenarios that were not run")
    known = set(re.findall(r"^  - (\S+) \[", suite("list", "--server")[0], re.M))
    eq(sorted(known - ran), sorted(EXTENSIONS), "scenarios that were not run")


if __name__ == "__main__":
    if not ROOT:
        print("1..0 # SKIP needs root")
        sys.exit(0)
    with WORLD:
        status = run_tests()
    sys.exit(status)
