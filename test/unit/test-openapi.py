#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-openapi.py - the description of the API: required contents, and generated files

Prints TAP. The generators refuse an incomplete description; each rule is violated here once. The pages are checked as
they are embedded, and the schemas with an independent validator.
"""
import base64
import hashlib
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

SOURCE = pathlib.Path(os.environ.get("WARREN_SOURCE", pathlib.Path(__file__).resolve().parent.parent.parent))
BUILD = pathlib.Path(os.environ.get("WARREN_BUILD", SOURCE / "build"))
DESCRIPTION = SOURCE / "src/api/v1/openapi.yaml"
MADE = BUILD / "src/api/v1"

sys.path.insert(0, str(SOURCE / "tools/gen"))
sys.path.insert(0, str(SOURCE / "test/lib"))
import api_schema  # noqa: E402, pylint: disable=wrong-import-position
import openapi  # noqa: E402, pylint: disable=wrong-import-position

tests = []


class Skip(Exception):
    pass


def test(f):
    tests.append(f)
    return f


def judged(text):
    """The errors that the parser reports for a description; None: there are none."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(text)
        f.flush()
        try:
            openapi.Api(f.name)
        except openapi.Wrong as e:
            return str(e)
    return None


def changed(old, new, count=1):
    text = DESCRIPTION.read_text()
    assert old in text, f"the description has no {old!r} any more"
    return text.replace(old, new, count)


def refused(text, why):
    said = judged(text)
    assert said is not None, f"accepted, although: {why}"
    assert why in said, f"expected {why!r}, got {said!r}"


@test
def the_description_is_accepted():
    said = judged(DESCRIPTION.read_text())
    assert said is None, said


@test
def an_invalid_description_stops_the_build():
    with tempfile.TemporaryDirectory() as d:
        path, made = pathlib.Path(d) / "openapi.yaml", pathlib.Path(d) / "tables.c"
        for text, ok in ((DESCRIPTION.read_text(), True), (changed("maxLength: 12, ", ""), False)):
            path.write_text(text)
            made.unlink(missing_ok=True)
            p = subprocess.run([SOURCE / "tools/gen/gen-api", path, "tables", made],
                               capture_output=True, text=True, check=False)
            assert (p.returncode == 0) == ok and made.exists() == ok, p
            assert "Traceback" not in p.stderr, p.stderr


@test
def duplicate_keys_are_refused():
    refused(changed("      operationId: create_sandbox\n",
                    "      operationId: create_sandbox\n      operationId: x\n"), "is given twice")
    refused(changed("operationId: create_sandboxes", "operationId: create_sandbox"),
            "two operations are called that")


@test
def unknown_keywords_of_a_schema_are_refused():
    refused(changed("minLength: 12, maxLength: 12", "minLength: 12, maxLength: 12, readOnly: true"),
            "readOnly: not understood")
    refused(changed("      x-any-method: true\n", "      x-any-method: true\n      deprecated: true\n"),
            "deprecated: not understood")
    refused(changed("type: boolean, default: false", "type: number, default: false"),
            "type number is not understood")
    refused(changed("oneOf: [{ required: [argv] }, { required: [command] }]",
                    "oneOf: [{ required: [argv] }, { type: object }]"), "is not understood")


@test
def incomplete_schemas_are_refused():
    refused(changed("minLength: 12, maxLength: 12, ", ""), "has no maxLength")
    refused(changed("minimum: 1, maximum: 4194304, ", "minimum: 1, "), "has no maximum")
    refused(changed("type: array, maxItems: 64, ", "type: array, "), "has no maxItems")
    refused(changed('description: "Processes and threads.", examples: [256]',
                    'description: "Processes and threads."'), "has no example")
    refused(changed('description: "Processes and threads.", ', ""), "has no description")


@test
def contradictory_options_are_refused():
    refused(changed("    Tier: {", "    Unused: { type: boolean, examples: [true] }\n    Tier: {"),
            "nothing uses this schema")
    refused(changed('$ref: "#/components/schemas/Tier"', '$ref: "#/components/schemas/Tear"'),
            "refers to nothing")
    refused(changed("required: [rows, cols]", "required: [rows, colour]"), "is required and not described")
    refused(changed("  /v1/tokens/{token_id}:", "  /v1/tokens/{token}:"), "path parameters")
    refused(changed("security: [{ token: [tokens] }]", "security: [{ token: [all] }]"),
            "there is no scope all")
    refused(changed("        required: true\n        content: { application/json: { schema: { $ref: "
                    "\"#/components/schemas/TerminalSize",
                    "        required: false\n        content: { application/json: { schema: { $ref: "
                    "\"#/components/schemas/TerminalSize"), "may be left out")
    refused(changed("tags: [ports]", "tags: [port]"), "is not listed")
    refused(changed("enum: [malformed_request, ", "enum: ["), "differ")
    refused(changed('examples: ["k3f9x2m7qd1w"]', 'examples: ["a"]'), "does not match its pattern")


@test
def request_schemas_refuse_unknown_fields():
    refused(changed("    TerminalSize:\n      type: object\n      additionalProperties: false\n",
                    "    TerminalSize:\n      type: object\n"), "must be closed")


@test
def the_served_document_equals_the_description():
    with open(DESCRIPTION, encoding="utf-8") as f:
        assert json.loads((MADE / "openapi.json").read_text()) == yaml.safe_load(f)


@test
def another_validator_agrees():
    try:
        import jsonschema
    except ImportError as e:
        raise Skip("python3-jsonschema is not installed") from e
    doc = json.loads((MADE / "openapi.json").read_text())
    seen = 0

    def judge(schema, where):
        nonlocal seen
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator({**schema, "components": doc["components"]})
        for example in schema.get("examples", []):
            seen += 1
            errors = [e.message for e in validator.iter_errors(example)]
            assert not errors, f"{where}: {example}: {errors}"
        for name, child in schema.get("properties", {}).items():
            judge(child, f"{where}.{name}")

    for name, schema in doc["components"]["schemas"].items():
        judge(schema, name)
    assert seen > 200, f"only {seen} examples"
    # The control: invalid input is refused.
    limits = jsonschema.Draft202012Validator(doc["components"]["schemas"]["Limits"])
    assert not limits.is_valid({"memory": 5}) and not limits.is_valid({"memroy": "1g"})


def sample(schema):
    """Returns a value that the schema probably accepts."""
    if "$ref" in schema:
        return sample(api_schema.resolved(schema))
    if "examples" in schema:
        return schema["examples"][0]
    if "enum" in schema:
        return schema["enum"][0]
    value = {}
    for part in schema.get("allOf", []):
        value.update(sample(part))
    value.update({name: sample(child) for name, child in schema.get("properties", {}).items()})
    if value:
        return value
    kind = schema.get("type")
    return {"string": "x" * schema.get("minLength", 1), "integer": schema.get("minimum", 1), "boolean": True,
            "array": [sample(schema["items"])] if "items" in schema else []}.get(kind[0] if isinstance(kind, list) else kind, {})


def damaged(value):
    """Yields copies of the value that have one difference each."""
    yield from (None, True, -1, 1.5, 1 << 60, "", "\n", "x" * 20000, [], ["x"] * 2000, {}, {"no-such": 1}, {"": "x"})
    if isinstance(value, dict):
        yield {**value, "no_such": 1}
        for name, child in value.items():
            yield {k: v for k, v in value.items() if k != name}
            yield from ({**value, name: d} for d in damaged(child))
    if isinstance(value, list) and value:
        yield from ([*value[1:], d] for d in damaged(value[0]))


@test
def api_schema_accepts_nothing_that_jsonschema_refuses():
    """api_schema.py uses jsonschema only for values that its own functions do not accept."""
    try:
        import jsonschema  # noqa: F401 pylint: disable=unused-import
    except ImportError as e:
        raise Skip("python3-jsonschema is not installed") from e
    known = tried = doubted = 0
    schemas = api_schema.api()["components"]["schemas"]
    for name, schema in schemas.items():
        quick, slow = (f(f"#/components/schemas/{name}") for f in (api_schema.reference, api_schema.validator))
        value = sample(schema)
        known += quick(value)
        for d in (value, *damaged(value)):
            tried += 1
            if quick(d):
                assert slow.is_valid(d), f"{name}: {str(d)[:500]}"
            else:
                doubted += 1
    assert known > len(schemas) * 0.8, f"{known} of {len(schemas)} are recognized"
    assert doubted > tried // 2, f"{doubted} of {tried} are doubted"


class Page(html.parser.HTMLParser):
    """Checks what a browser would see: balanced tags, and no content from elsewhere."""

    VOID = {"meta", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.tags, self.attributes = [], set(), [], set(), set()
        self.style, self.text = "", ""

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                assert value not in self.ids, f"two elements are called {value}"
                self.ids.add(value)
            if name == "href":
                self.links.append(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.text += data


def page():
    p = Page()
    p.feed((MADE / "docs.html").read_text())
    return p


@test
def the_documentation_page_needs_no_other_resources():
    p = page()
    assert not p.open, f"left open: {p.open}"
    assert not p.tags & {"script", "img", "link", "iframe", "object", "form", "base"}, p.tags
    assert p.attributes <= {"id", "href", "class", "title", "lang", "charset", "name", "content"}, \
        p.attributes
    assert "url(" not in p.style and "@import" not in p.style
    for link in p.links:
        assert link == "/openapi.json" or link[1:] in p.ids, f"{link} leads nowhere"


@test
def the_content_security_policy_allows_the_pages_style():
    digest = base64.b64encode(hashlib.sha256(page().style.encode()).digest()).decode()
    header = (MADE / "docs.h").read_text()
    assert f"style-src 'sha256-{digest}'" in header and "default-src 'none'" in header


@test
def the_documentation_page_describes_every_operation():
    p, doc = page(), json.loads((MADE / "openapi.json").read_text())
    for path, item in doc["paths"].items():
        assert path in p.text, f"{path} is not there"
        for method, op in item.items():
            if method != "parameters":
                assert op["operationId"] in p.ids, f"{op['operationId']} is not there"
    for code in doc["components"]["schemas"]["ErrorCode"]["enum"]:
        assert re.search(rf"\b{code}\b", p.text), f"{code} is not there"


def main():
    names = sys.argv[1:]
    failed = 0
    chosen = [t for t in tests if not names or t.__name__ in names]
    for n, t in enumerate(chosen, 1):
        try:
            t()
            print(f"ok {n} - {t.__name__}", flush=True)
        except Skip as e:
            print(f"ok {n} - {t.__name__} # SKIP {e}", flush=True)
        except Exception as e:  # pylint: disable=broad-except
            failed += 1
            for line in f"{type(e).__name__}: {e}".split("\n"):
                print(f"# {line}")
            print(f"not ok {n} - {t.__name__}", flush=True)
    print(f"1..{len(chosen)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
