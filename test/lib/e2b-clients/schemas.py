# SPDX-License-Identifier: Apache-2.0
"""schemas.py - compare every response of the control plane with the models of the Python SDK"""
import datetime
import enum
import json
import os
import time
import types
import typing
import urllib.error
import urllib.request
import uuid

from e2b.api.client import models
from e2b.api.client.types import UNSET, Unset
from e2b.volume.client.models import VolumeEntryStat
from expect import done, eq, until

URL, KEY = os.environ["E2B_API_URL"], os.environ["E2B_API_KEY"]
HIDDEN = "additional_properties"
# Fields that the models allow to be missing, but that this service always has.
ALWAYS = {
    "Sandbox": {"alias", "envd_access_token"},
    "ListedSandbox": {"alias", "metadata"},
    "SandboxDetail": {"alias", "metadata", "envd_access_token", "allow_internet_access", "domain", "network", "lifecycle"},
    "SandboxNetworkConfig": {"allow_public_traffic", "allow_out", "deny_out", "rules"},
}
SEEN = set()


def ask(method, path, body=None, want=200, key=None, raw=None):
    headers = {"Authorization": f"Bearer {key}"} if key else {"X-API-Key": KEY}
    if body is not None:
        headers["Content-Type"] = "application/json"
    r = urllib.request.Request(URL + path, method=method, headers=headers,
                               data=raw if body is None else json.dumps(body).encode())
    try:
        with urllib.request.urlopen(r) as f:
            status, text = f.status, f.read()
    except urllib.error.HTTPError as e:
        status, text = e.code, e.read()
    eq(status, want, f"{method} {path}: {text[:500]!r}")
    return json.loads(text) if text else None


def has_type(value, hint, where):
    """Checks a value of a model against the type that the model declares."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is typing.Any:
        return
    if origin in (typing.Union, types.UnionType):
        problems = []
        for one in args:
            try:
                has_type(value, one, where)
                return
            except AssertionError as e:
                problems.append(str(e))
        raise AssertionError("; ".join(problems))
    if origin in (list, dict):
        assert isinstance(value, origin), f"{where}: {value!r} is no {hint}"
        for one in value if origin is list else value.values():
            has_type(one, args[-1], where)
    elif hint is float:
        assert isinstance(value, (int, float)) and not isinstance(value, bool), f"{where}: {value!r} is no number"
    elif hint is int:
        assert isinstance(value, int) and not isinstance(value, bool), f"{where}: {value!r} is no integer"
    else:
        kind = type(None) if hint is None else hint
        assert isinstance(value, kind), f"{where}: {value!r} is no {kind}"
        if hasattr(kind, "__attrs_attrs__") and HIDDEN in {a.name for a in kind.__attrs_attrs__}:
            is_whole(value)


def is_whole(thing):
    """Checks all fields of a model: types, no missing one, and none that the model does not have."""
    kind = type(thing)
    SEEN.add(kind.__name__)
    names = {**vars(models), **vars(typing), "datetime": datetime, "UUID": uuid.UUID, "Unset": Unset}
    fields = [a.name for a in kind.__attrs_attrs__ if a.name != HIDDEN]
    hints = typing.get_type_hints(kind, {**vars(__import__(kind.__module__, fromlist=["x"])), **names})
    for name in fields:
        has_type(getattr(thing, name), hints[name], f"{kind.__name__}.{name}")
    missing = {n for n in fields if isinstance(getattr(thing, n), Unset)} & ALWAYS.get(kind.__name__, set())
    eq(missing, set(), f"missing fields of {kind.__name__}")
    if fields:  # without them, the model is a map
        eq(thing.additional_properties, {}, f"fields that {kind.__name__} does not have")


def like(model, answer):
    """Parses the answer as the SDK does, and checks it."""
    if isinstance(answer, list):
        return [like(model, one) for one in answer]
    thing = model.from_dict(answer)
    is_whole(thing)
    return thing


def sandboxes():
    for version in ("", "/v2"):
        box = like(models.Sandbox, ask("POST", f"{version}/sandboxes", {"templateID": "base", "timeout": 60}, 201))
        like(models.Sandbox, ask("POST", f"{version}/sandboxes/{box.sandbox_id}/connect", {"timeout": 60}))
        ask("DELETE", f"/sandboxes/{box.sandbox_id}", want=204)
    box = like(models.Sandbox, ask("POST", "/v2/sandboxes", {
        "templateID": "base", "metadata": {"a": "b"}, "autoPause": True, "autoResume": {"enabled": True},
        "volumeMounts": [{"name": "schemas", "path": "/data"}], "network": {"allowPublicTraffic": False}}, 201))
    assert box.traffic_access_token, box
    path = f"/sandboxes/{box.sandbox_id}"
    for route in ("/sandboxes", "/v2/sandboxes"):
        listed = like(models.ListedSandbox, ask("GET", route))
        eq([(x.sandbox_id, x.volume_mounts[0].path, x.metadata) for x in listed], [(box.sandbox_id, "/data", {"a": "b"})])
        assert listed[0].cpu_count > 0 and listed[0].memory_mb > 0, listed
    detail = like(models.SandboxDetail, ask("GET", path))
    eq((detail.lifecycle.to_dict(), detail.pause_mode), ({"autoResume": True, "onTimeout": "pause"}, UNSET))
    metric = until(lambda: like(models.SandboxMetric, ask("GET", f"{path}/metrics")), "a metric")[0]
    assert abs(metric.timestamp_unix - time.time()) < 60, metric
    all_of = like(models.SandboxesWithMetrics, ask(
        "GET", f"/sandboxes/metrics?sandbox_ids={box.sandbox_id},000000000000,{box.sandbox_id}-warren"))
    eq(list(all_of.sandboxes), [box.sandbox_id])
    like(models.SandboxMetric, all_of.sandboxes[box.sandbox_id])
    for query in ("", "?sandbox_ids=", "?sandbox_ids=" + ",".join(["x"] * 101)):
        like(models.Error, ask("GET", f"/sandboxes/metrics{query}", want=400))
    like(models.SandboxLogs, ask("GET", f"{path}/logs"))
    like(models.SandboxLogsV2Response, ask("GET", f"/v2{path}/logs"))
    forks = like(models.SandboxForkResult, ask("POST", f"{path}/fork", {"count": 2}, 201))
    for fork in forks:
        ask("DELETE", f"/sandboxes/{fork.sandbox.sandbox_id}", want=204)
    ask("POST", f"{path}/pause", {}, 204)
    detail = like(models.SandboxDetail, ask("GET", path))
    eq((detail.state.value, detail.pause_mode.value), ("paused", "full"))
    eq(ask("GET", f"/sandboxes/metrics?sandbox_ids={box.sandbox_id}"), {"sandboxes": {}})
    like(models.Sandbox, ask("POST", f"{path}/resume", {}, 201))
    snapshot = like(models.SnapshotInfo, ask("POST", f"{path}/snapshots", {"name": "schemas"}, 201))
    eq(snapshot.snapshot_id, like(models.SnapshotInfo, ask("GET", "/snapshots"))[0].snapshot_id)
    ask("DELETE", f"/templates/{snapshot.snapshot_id}", want=204)
    ask("DELETE", path, want=204)
    like(models.Error, ask("GET", path, want=404))


def network():
    everything = ["0.0.0.0/0"]
    rules = {"api.example.org": [{"transform": {"headers": {"X-Key": "a ${e2b.secrets.schemas} b"}}}]}
    for asked, internet, allowed, denied in (
            ({}, None, [], everything),
            ({"allow_internet_access": True}, True, [], []),
            ({"allow_internet_access": False}, False, [], everything),
            ({"network": {"allowOut": ["example.org", "9.9.9.0/24"], "denyOut": everything}}, None,
             ["example.org", "9.9.9.0/24"], everything),
            ({"allow_internet_access": True, "network": {"denyOut": ["8.8.0.0/16"]}}, True, [], ["8.8.0.0/16"]),
            ({"network": {"allowOut": everything}}, None, everything, [])):
        box = like(models.Sandbox, ask("POST", "/v2/sandboxes", {"templateID": "base", **asked}, 201))
        detail = like(models.SandboxDetail, ask("GET", f"/sandboxes/{box.sandbox_id}"))
        eq((detail.allow_internet_access, detail.network.to_dict()),
           (internet, {"allowPublicTraffic": True, "allowOut": allowed, "denyOut": denied, "rules": {}}), asked)
        ask("DELETE", f"/sandboxes/{box.sandbox_id}", want=204)
    box = like(models.Sandbox, ask("POST", "/v2/sandboxes", {"templateID": "base", "network": {"rules": rules}}, 201))
    path = f"/sandboxes/{box.sandbox_id}"
    eq(like(models.SandboxDetail, ask("GET", path)).network.to_dict()["rules"], rules)
    ask("PUT", f"{path}/network", {"allow_internet_access": True, "denyOut": ["example.org"]}, 204)
    detail = like(models.SandboxDetail, ask("GET", path))
    eq((detail.allow_internet_access, detail.network.deny_out, detail.network.to_dict()["rules"]), (True, ["example.org"], {}))
    ask("PUT", f"{path}/network", {}, 204)
    detail = like(models.SandboxDetail, ask("GET", path))
    eq((detail.allow_internet_access, detail.network.deny_out), (None, everything))
    ask("DELETE", path, want=204)


def templates():
    asked = like(models.TemplateRequestResponseV3, ask("POST", "/v3/templates", {"name": "schemas", "tags": ["v1"]}, 202))
    path = f"/templates/{asked.template_id}"
    build = f"{path}/builds/{asked.build_id}"
    upload = like(models.TemplateBuildFileUpload, ask("GET", f"{path}/files/{'0' * 64}", want=201))
    eq(upload.present, False)
    ask("POST", f"/v2{build}", {"fromTemplate": "base", "steps": [{"type": "RUN", "args": ["false"]}]}, 202)
    info = until(lambda: next((x for x in [like(models.TemplateBuildInfo, ask("GET", f"{build}/status"))]
                               if x.status.value == "error"), None), "the end of the build")
    assert info.reason.message and info.log_entries, info
    again = like(models.TemplateRequestResponseV3, ask("POST", "/v3/templates", {"name": "schemas", "tags": ["v1"]}, 202))
    build = f"{path}/builds/{again.build_id}"
    ask("POST", f"/v2{build}", {"fromTemplate": "base", "steps": [{"type": "RUN", "args": ["echo hi"]}]}, 202)
    until(lambda: like(models.TemplateBuildInfo, ask("GET", f"{build}/status")).status.value == "ready", "the build")
    like(models.TemplateBuildLogsResponse, ask("GET", f"{build}/logs"))
    eq(like(models.TemplateAliasResponse, ask("GET", "/templates/aliases/schemas")).template_id, asked.template_id)
    like(models.AssignedTemplateTags, ask("POST", "/templates/tags", {"target": "schemas:v1", "tags": ["v2"]}, 201))
    eq(sorted(t.tag for t in like(models.TemplateTag, ask("GET", f"{path}/tags")) if t.tag != "default"), ["v1", "v2"])
    for route in ("/templates", "/v2/templates"):
        eq([t.names for t in like(models.Template, ask("GET", route))], [["schemas"]])
    like(models.TemplateWithBuilds, ask("GET", path))
    ask("DELETE", path, want=204)


def others():
    like(models.Volume, ask("GET", "/volumes"))
    secret = like(models.Secret, ask("GET", "/secrets/schemas"))
    eq([x.secret_id for x in like(models.Secret, ask("GET", "/secrets"))], [secret.secret_id])
    like(models.Secret, ask("POST", "/secrets/schemas", {"value": "y"}))
    team = ask("GET", "/teams")[0]
    eq({k: type(v) for k, v in team.items()}, {"teamID": str, "name": str, "apiKey": str, "isDefault": bool})


def content(volume):
    at = f"/volumecontent/{volume.volume_id}"
    like(VolumeEntryStat, ask("POST", f"{at}/dir?path=/d", want=201, key=volume.token))
    like(VolumeEntryStat, ask("PUT", f"{at}/file?path=/d/f", want=201, key=volume.token, raw=b"x"))
    like(VolumeEntryStat, ask("GET", f"{at}/path?path=/d/f", key=volume.token))
    eq(len(like(VolumeEntryStat, ask("GET", f"{at}/dir?path=/", key=volume.token))) > 0, True)


if __name__ == "__main__":
    eq(issubclass(models.SandboxState, enum.Enum), True)
    new = like(models.VolumeAndToken, ask("POST", "/volumes", {"name": "schemas"}, 201))
    like(models.VolumeAndToken, ask("GET", f"/volumes/{new.volume_id}"))
    like(models.Secret, ask("POST", "/secrets", {"name": "schemas", "value": "x"}, 201))
    for part in (lambda: content(new), sandboxes, network, templates, others):
        part()
    ask("DELETE", f"/volumes/{new.volume_id}", want=204)
    ask("DELETE", "/secrets/schemas", want=204)
    print("checked:", *sorted(SEEN))
    done()
