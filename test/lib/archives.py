# SPDX-License-Identifier: Apache-2.0
"""archives.py - tar archives for tests, including some that no program writes"""
import io
import tarfile




def entry(name, data=None, kind=None, to="", mode=None, pax=None, **kw):
    """A member: a file if it has @data, a directory if its name ends in a slash."""
    t = tarfile.TarInfo(name.rstrip("/") if kind is None and len(name) > 1 else name)
    t.type = kind or (tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE)
    t.mode = mode if mode is not None else (0o755 if t.type == tarfile.DIRTYPE else 0o644)
    t.linkname, t.mtime = to, kw.pop("mtime", 1_000_000_000)
    t.pax_headers = pax or {}
    for key, value in kw.items():
        setattr(t, key, value)
    if data is not None:
        t.size = len(data)
    return t, data


def file(name, data=b"new\n", **kw):
    return entry(name, data, **kw)


def link(name, to, **kw):
    return entry(name, kind=tarfile.SYMTYPE, to=to, **kw)


def hard(name, to, **kw):
    return entry(name, kind=tarfile.LNKTYPE, to=to, **kw)


def tar(*members, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, encoding="utf-8", errors="surrogateescape") as t:
        for info, data in members:
            t.addfile(info, io.BytesIO(data) if data is not None else None)
    return out.getvalue()


def header(name, size=b"00000000000\0", kind=b"0", to=b""):
    """A ustar header with arbitrary bytes in its fields."""
    h = bytearray(512)
    h[0:len(name)] = name
    h[100:108], h[108:116], h[116:124] = b"0000644\0", b"0000000\0", b"0000000\0"
    h[124:124 + len(size)], h[136:148], h[156:157] = size, b"07346545000\0", kind
    h[157:157 + len(to)], h[257:265] = to, b"ustar\00000"
    h[148:156] = b"        "
    h[148:156] = b"%06o\0 " % sum(h)
    return bytes(h)


def pax_record(key, value):
    n = len(key) + len(value) + 3
    size = n + len(str(n))
    size = n + len(str(size))
    return str(size).encode() + b" " + key + b"=" + value + b"\n"


def pad(data):
    return data + bytes(-len(data) % 512)


END = bytes(1024)
