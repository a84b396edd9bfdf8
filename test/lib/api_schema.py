# SPDX-License-Identifier: Apache-2.0
"""api_schema.py - check that an answer matches openapi.yaml

Every answer that a test's client reads (serve_world.Client.ask) is checked against the schema of its operation and
status; so is each event of a stream.
"""
import functools
import json
import pathlib

import jsonschema
import yaml

DESCRIPTION = pathlib.Path(__file__).resolve().parent.parent.parent / "src/api/v1/openapi.yaml"
JSON, LINES, EVENTS = "application/json", "application/x-ndjson", "text/event-stream"


@functools.lru_cache(maxsize=None)
def api():
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with open(DESCRIPTION, encoding="utf-8") as f:
        return yaml.load(f, Loader=loader)


@functools.lru_cache(maxsize=None)
def validator(ref):
    return jsonschema.Draft202012Validator({"$ref": ref, "components": api()["components"]})


def wrong(schema, value):
    """Returns the error, or None."""
    error = jsonschema.exceptions.best_match(validator(f"#/components/schemas/{schema}").iter_errors(value))
    return f"{error.json_path}: {error.message[:300]}" if error else None


@functools.lru_cache(maxsize=4096)
def operation(method, path):
    """Returns the operation of a path without its query; None: it is not described."""
    words = path.split("/")
    found = None
    for pattern, item in api()["paths"].items():
        parts = pattern.split("/")
        if method.lower() in item and len(parts) == len(words) and all(
                p.startswith("{") or p == w for p, w in zip(parts, words)):
            if not found or "{" not in pattern:
                found = item[method.lower()]
    return found


def schema_of(method, path, status, kind):
    """Returns the name of the schema of an answer; None: it has none."""
    op = operation(method, path.partition("?")[0])
    if not op:
        return None
    answer = op["responses"].get(str(status), op["responses"].get("default", {}))
    if "$ref" in answer:
        answer = api()["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    ref = answer.get("content", {}).get(kind, {}).get("schema", {}).get("$ref")
    return ref.rpartition("/")[2] if ref else None


def pieces_of(kind, body):
    """Returns the JSON texts of a body."""
    if kind == JSON:
        return [body]
    if kind == LINES:
        return [line for line in body.split(b"\n") if line]
    return [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ")]


def check(method, path, status, headers, body):
    """Raises AssertionError unless the answer matches its description."""
    kind = headers.get("content-type", "").partition(";")[0]
    if kind not in (JSON, LINES, EVENTS):
        return
    schema = schema_of(method, path, status, kind)
    for text in pieces_of(kind, body) if schema else ():
        why = wrong(schema, json.loads(text))
        if why:
            raise AssertionError(f"{method} {path}, {status}: no {schema}: {why} in {text[:600]!r}")
