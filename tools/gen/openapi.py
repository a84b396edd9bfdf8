# SPDX-License-Identifier: Apache-2.0
"""openapi.py - read an OpenAPI description, and refuse everything that is not supported

All generators load the description with this module. It supports only a part of OpenAPI; any other
keyword is an error, so that everything in the description is enforced. References, allOf and the two
supported forms of oneOf are resolved in the schemas that it returns.
"""
import re
import sys

import yaml

METHODS = ("get", "post", "put", "patch", "delete")
TYPES = ("null", "boolean", "integer", "string", "array", "object")

NOTES = {"description", "examples", "pattern", "default", "x-errors"}
KEYWORDS = NOTES | {
    "type", "writeOnly", "format", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
    "items", "minProperties", "maxProperties", "properties", "required", "additionalProperties",
    "propertyNames", "unevaluatedProperties", "allOf", "oneOf", "$ref",
}
OPERATION_KEYS = {
    "operationId", "tags", "summary", "description", "security", "parameters", "requestBody",
    "responses", "x-any-method", "x-upgrade",
}
PARAMETER_KEYS = {"name", "in", "required", "description", "schema", "style", "explode", "x-rest"}
BODY_KEYS = {"required", "description", "content", "x-max-body"}


class Wrong(Exception):
    """The description violates a rule."""


class Strict(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Refuses duplicate keys, which YAML forbids and PyYAML accepts."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise Wrong(f"line {key.start_mark.line + 1}: '{key.value}' is given twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class Operation:
    def __init__(self, api, path, method, item):
        raw = item[method]
        api.only(raw, OPERATION_KEYS, f"{method} {path}")
        self.id, self.path, self.method, self.raw = raw["operationId"], path, method, raw
        self.tag, self.summary = raw["tags"][0], raw["summary"]
        self.description = raw.get("description", "")
        self.any_method = raw.get("x-any-method", False)
        self.upgrade = raw.get("x-upgrade", "none")
        security = raw.get("security", api.doc["security"])
        self.scope = security[0]["token"][0] if security else None
        params = [api.resolve(p) for p in item.get("parameters", []) + raw.get("parameters", [])]
        for p in params:
            api.only(p, PARAMETER_KEYS, f"{self.id}: parameter {p['name']}")
        self.params = {where: [p for p in params if p["in"] == where]
                       for where in ("path", "query", "header")}
        self.responses = {k: api.resolve(v) for k, v in raw["responses"].items()}
        self.read_body(api, raw.get("requestBody"))
        self.check(api)

    def read_body(self, api, body):
        self.body, self.body_schema, self.body_required, self.max_body = "none", None, False, 0
        self.body_type = None
        if body is None:
            return
        api.only(body, BODY_KEYS, f"{self.id}: requestBody")
        (self.body_type, content), = body["content"].items()
        self.body = "json" if self.body_type == "application/json" else "stream"
        self.body_schema = content.get("schema")
        self.body_required = body.get("required", False)
        self.max_body = body.get("x-max-body", 1 << 20)

    def check(self, api):
        if not re.fullmatch(r"[a-z]+(_[a-z]+)*", self.id):
            raise Wrong(f"{self.id}: an operationId is words in snake_case")
        if not self.responses:
            raise Wrong(f"{self.id}: has no responses")
        if self.tag not in {t["name"] for t in api.doc["tags"]}:
            raise Wrong(f"{self.id}: tag {self.tag} is not listed")
        if self.scope and self.scope not in api.scopes:
            raise Wrong(f"{self.id}: there is no scope {self.scope}")
        names = re.findall(r"\{(\w+)\}", self.path)
        if names != [p["name"] for p in self.params["path"]]:
            raise Wrong(f"{self.id}: its path parameters are not those of {self.path}, in order")
        for p in self.params["path"]:
            if not p.get("required"):
                raise Wrong(f"{self.id}: {p['name']}: a path parameter is required")
            if p.get("x-rest") and not self.path.endswith("/{%s}" % p["name"]):
                raise Wrong(f"{self.id}: {p['name']}: x-rest must come last")
        for p in self.params["path"] + self.params["query"] + self.params["header"]:
            if not p.get("description"):
                raise Wrong(f"{self.id}: {p['name']}: has no description")
        if self.body == "json" and not self.body_schema:
            raise Wrong(f"{self.id}: its body has no schema")


class Api:
    def __init__(self, path):
        try:
            with open(path, encoding="utf-8") as f:
                self.doc = yaml.load(f, Strict)
        except yaml.YAMLError as e:
            raise Wrong(str(e)) from e
        self.schemas = self.doc["components"]["schemas"]
        self.used = set()
        self.scopes = self.schemas["Scope"]["enum"]
        self.operations = [Operation(self, p, m, item) for p, item in self.doc["paths"].items()
                           for m in METHODS if m in item]
        self.check()

    @staticmethod
    def only(node, keys, where):
        unknown = set(node) - keys
        if unknown:
            raise Wrong(f"{where}: {', '.join(sorted(unknown))}: not understood")

    def resolve(self, node):
        """Resolves a $ref; keywords next to it override those of its target."""
        if "$ref" not in node:
            return node
        target = self.doc
        for word in node["$ref"].removeprefix("#/").split("/"):
            if word not in target:
                raise Wrong(f"{node['$ref']}: refers to nothing")
            target = target[word]
        self.used.add(node["$ref"])
        return {**self.resolve(target), **{k: v for k, v in node.items() if k != "$ref"}}

    def flat(self, schema, where="?"):
        """Returns a schema with its types as a list, and with $ref, allOf and oneOf resolved, except in its children."""
        self.only(schema, KEYWORDS, where)
        s = dict(self.resolve(schema))
        for part in s.pop("allOf", []):
            part = self.flat(part, where)
            s["properties"] = {**part.get("properties", {}), **s.get("properties", {})}
            s["required"] = part.get("required", []) + s.get("required", [])
            s = {**{k: v for k, v in part.items() if k not in ("properties", "required")}, **s}
        choice = s.pop("oneOf", None)
        if choice and all(set(c) == {"required"} and len(c["required"]) == 1 for c in choice):
            s["exactly_one"] = [c["required"][0] for c in choice]
        elif choice:
            if len(choice) != 2 or choice[1] != {"type": "null"}:
                raise Wrong(f"{where}: this oneOf is not understood")
            inner = self.flat(choice[0], where)
            s = {**inner, **s, "type": inner["type"] + ["null"]}
        if "type" not in s:
            raise Wrong(f"{where}: has no type")
        s["type"] = s["type"] if isinstance(s["type"], list) else [s["type"]]
        return s

    def check(self):
        ids = [op.id for op in self.operations]
        for i in ids:
            if ids.count(i) > 1:
                raise Wrong(f"{i}: two operations are called that")
        for name, schema in self.schemas.items():
            self.check_schema(schema, name)
        for op in self.operations:
            for p in op.params["path"] + op.params["query"] + op.params["header"]:
                self.check_schema(p["schema"], f"{op.id}: {p['name']}")
            for r in op.responses.values():
                for content in r.get("content", {}).values():
                    self.resolve(content.get("schema", {}))
            if op.body_schema:
                self.check_body(op)
        for name in self.schemas:
            if f"#/components/schemas/{name}" not in self.used:
                raise Wrong(f"{name}: nothing uses this schema")
        codes = self.schemas["ErrorCode"]
        if codes["enum"] != list(codes["x-errors"]):
            raise Wrong("ErrorCode: the codes and their table differ")

    def check_body(self, op):
        """Checks that objects in requests allow no other fields, so that an unknown field is refused and not ignored."""
        def closed(schema, where):
            s = self.flat(schema, where)
            if "object" in s["type"] and "properties" in s and \
                    s.get("additionalProperties") is not False and \
                    s.get("unevaluatedProperties") is not False:
                raise Wrong(f"{where}: a request's object must be closed")
            for name, child in s.get("properties", {}).items():
                closed(child, f"{where}.{name}")
            if "items" in s:
                closed(s["items"], f"{where}[]")
        closed(op.body_schema, op.id)
        body = self.flat(op.body_schema)
        musts = ("required", "exactly_one", "minProperties")
        if not op.body_required and any(body.get(key) for key in musts):
            raise Wrong(f"{op.id}: its body may be left out, and must have a field")

    def check_schema(self, schema, where, part=False):
        s = self.flat(schema, where)
        for t in s["type"]:
            if t not in TYPES:
                raise Wrong(f"{where}: type {t} is not understood")
        needed = {"integer": ("minimum", "maximum"), "array": ("maxItems", "items")}
        for t in s["type"]:
            for key in needed.get(t, ()):
                if key not in s:
                    raise Wrong(f"{where}: has no {key}")
        if "string" in s["type"] and "maxLength" not in s and "enum" not in s:
            raise Wrong(f"{where}: has no maxLength")
        if "object" in s["type"] and "properties" not in s and \
                not isinstance(s.get("additionalProperties"), dict):
            raise Wrong(f"{where}: says nothing of its fields")
        if not s.get("examples") and not part:
            raise Wrong(f"{where}: has no example")
        for name in s.get("required", []) + s.get("exactly_one", []):
            if name not in s.get("properties", {}):
                raise Wrong(f"{where}: {name} is required and not described")
        self.check_children(s, where)
        if "pattern" in s:
            for e in s.get("examples", []):
                if isinstance(e, str) and not re.search(s["pattern"], e):
                    raise Wrong(f"{where}: example {e!r} does not match its pattern")

    def check_children(self, s, where):
        for name, child in s.get("properties", {}).items():
            if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
                raise Wrong(f"{where}.{name}: a field is words in snake_case")
            if not self.flat(child, f"{where}.{name}").get("description"):
                raise Wrong(f"{where}.{name}: has no description")
            self.check_schema(child, f"{where}.{name}")
        if "items" in s:
            self.check_schema(s["items"], f"{where}[]", part=True)
        if isinstance(s.get("additionalProperties"), dict):
            self.check_schema(s["additionalProperties"], f"{where}.*")
            self.check_schema(s["propertyNames"], f"{where} names")


def load(path):
    """Returns the description; on an error, prints the reason and exits."""
    try:
        return Api(path)
    except Wrong as e:
        sys.exit(f"{path}: {e}")
