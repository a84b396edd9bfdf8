# SPDX-License-Identifier: Apache-2.0
"""api_schema.py - check that an answer matches openapi.yaml

Every answer that a test's client reads (serve_world.Client.ask) is checked against the schema of its operation and
status; so is each event of a stream. jsonschema would use more processor time for this than the service uses to
answer, so matcher() recognizes nearly all valid answers first. It accepts nothing that jsonschema refuses, and
jsonschema decides about everything else.
"""
import functools
import json
import pathlib
import re

from checks import BUILD

DESCRIPTION = pathlib.Path(BUILD) / "src/api/v1/openapi.json"  # test-openapi.py compares it with openapi.yaml
JSON, LINES, EVENTS = "application/json", "application/x-ndjson", "text/event-stream"


@functools.lru_cache(maxsize=None)
def api():
    return json.loads(DESCRIPTION.read_text(encoding="utf-8"))


# Keywords that jsonschema does not check, either.
REMARKS = {"description", "examples", "default", "format", "writeOnly", "x-errors"}
TYPES = {"null": (type(None),), "boolean": (bool,), "string": (str,), "integer": (int,), "number": (int, float),
         "array": (list,), "object": (dict,)}


def no_match(_value):
    return False


def type_check(names):
    types = {t for name in ([names] if isinstance(names, str) else names) for t in TYPES[name]}
    return lambda v: type(v) in types  # a bool is no integer here


def one_of_check(schemas):
    """The schemas must differ in their types, so that at most one of them can match."""
    kinds = {str(resolved(s).get("type")) for s in schemas}
    if len(kinds) < len(schemas) or not kinds <= TYPES.keys() or {"integer", "number"} <= kinds:
        return no_match
    each = [matcher(s) for s in schemas]
    return lambda v: any(f(v) for f in each)


def properties_check(properties):
    each = {name: matcher(s) for name, s in properties.items()}
    return lambda v: type(v) is not dict or all(name not in each or each[name](x) for name, x in v.items())


def items_check(schema):
    one = matcher(schema)
    return lambda v: type(v) is not list or all(map(one, v))


def additional_check(schema, known):
    if schema is False:
        return lambda v: type(v) is not dict or v.keys() <= known
    one = matcher(schema)
    return lambda v: type(v) is not dict or all(one(x) for name, x in v.items() if name not in known)


def names_check(schema):
    one = matcher(schema)
    return lambda v: type(v) is not dict or all(map(one, v))


def of_type(kind, f):
    return lambda v: type(v) is not kind or f(v)


def of_number(f):
    return lambda v: type(v) not in (int, float) or f(v)


# For each keyword, a function of its value and of its schema that returns the check.
CHECKS = {
    "$ref": lambda x, _: reference(x),
    "type": lambda x, _: type_check(x),
    "enum": lambda x, _: (lambda v: type(v) is str and v in x) if all(isinstance(e, str) for e in x) else no_match,
    "required": lambda x, _: of_type(dict, lambda v: all(name in v for name in x)),
    "properties": lambda x, _: properties_check(x),
    "additionalProperties": lambda x, s: additional_check(x, s.get("properties", {}).keys()),
    "propertyNames": lambda x, _: names_check(x),
    "items": lambda x, _: items_check(x),
    "pattern": lambda x, _: of_type(str, re.compile(x).search),
    "minLength": lambda x, _: of_type(str, lambda v: len(v) >= x),
    "maxLength": lambda x, _: of_type(str, lambda v: len(v) <= x),
    "minItems": lambda x, _: of_type(list, lambda v: len(v) >= x),
    "maxItems": lambda x, _: of_type(list, lambda v: len(v) <= x),
    "minProperties": lambda x, _: of_type(dict, lambda v: len(v) >= x),
    "maxProperties": lambda x, _: of_type(dict, lambda v: len(v) <= x),
    "minimum": lambda x, _: of_number(lambda v: v >= x),
    "maximum": lambda x, _: of_number(lambda v: v <= x),
    "allOf": lambda x, _: all_check([matcher(s) for s in x]),
    "oneOf": lambda x, _: one_of_check(x),
}


def all_check(each):
    return lambda v: all(f(v) for f in each)


def resolved(schema):
    return api()["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


@functools.lru_cache(maxsize=None)
def reference(ref):
    """Creates the check when it is first used, because a schema may contain itself."""
    made = []

    def check_reference(value):
        if not made:
            made.append(matcher(resolved({"$ref": ref})))
        return made[0](value)
    return check_reference


def matcher(schema):
    """Returns a function of a value: True if it certainly matches the schema."""
    if schema.keys() - REMARKS - CHECKS.keys():
        return no_match
    each = [CHECKS[keyword](x, schema) for keyword, x in schema.items() if keyword in CHECKS]
    return each[0] if len(each) == 1 else all_check(each)


@functools.lru_cache(maxsize=None)
def validator(ref):
    import jsonschema  # pylint: disable=import-outside-toplevel
    return jsonschema.Draft202012Validator({"$ref": ref, "components": api()["components"]})


def wrong(schema, value):
    """Returns the error, or None."""
    ref = f"#/components/schemas/{schema}"
    if reference(ref)(value):
        return None
    from jsonschema.exceptions import best_match  # pylint: disable=import-outside-toplevel
    error = best_match(validator(ref).iter_errors(value))
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
