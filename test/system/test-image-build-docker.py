#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-image-build-docker.py - the same Dockerfile gives the same files and configuration as with docker

Prints TAP. The daemon is started for these tests (dockerd.py). Its builder is the old one, which needs no plugin, so
the Dockerfiles contain only what both builders define in the same way.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from build_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from dockerd import Docker  # pylint: disable=wrong-import-position

FIELDS = ("Env", "Cmd", "Entrypoint", "User", "WorkingDir", "Labels", "ExposedPorts", "Volumes", "StopSignal", "Shell", "Healthcheck")

FILES = {
    "one": "1", "x1": "x", "x2": "y", "dir/a": "a", "dir/sub/b": "b", "dir/link": ("link", "a"), "dir/dangling": ("link", "/none"),
    "skip.md": "no", "README.md": "yes", "deep/node_modules/x": "no", "deep/y": "y", "exclude/keep": "kept", "exclude/other": "no",
    ".dockerignore": "# comment\n*.md\n!README.md\n**/node_modules\nexclude\n!exclude/keep\n",
    "archive.tar": tar({"in": "archive", "d": directory(0o711, uid=3, gid=4), "d/f": File("f", 0o600, uid=3, gid=4), "l": symlink("in")}),
}

# name: instructions after FROM
CASES = {
    "copies": ("COPY one /t/name\nCOPY one /t/new/\nCOPY dir /t/dir\nCOPY dir/ /t/dir2/\nCOPY x* one /t/many/\nCOPY . /t/all/\n"
               "WORKDIR /t/w\nCOPY one .\nCOPY one ../up\n"),
    "existing": "COPY dir /t/\nCOPY one /t/a\nCOPY one /t/sub\nCOPY dir /t/sub\n",
    "owners": "WORKDIR /t\nCOPY --chown=7:8 dir /t/owned\nCOPY --chown=app:apps one /t/app\nCOPY --chown=app:extra one /t/extra/\nCOPY --chown=9 one /t/nine\n",
    "archives": "ADD archive.tar /t/a\nADD archive.tar /t/b/\nADD one /t/one\nCOPY archive.tar /t/copied/\n",
    "variables": ("ARG V=default\nARG EMPTY\nENV A=1 B=\"two words\" C=a\\ b\nENV OLD form of it\nENV D=$A-${B:-no}-${NONE:-d}-${A:+set}-$V E='$A'\n"
                  "ENV A=2 F=$A\nLABEL \"l 1\"=\"$B\" l2=$V\nCOPY one /t/$A/${NONE:-x}\n"),
    "configuration": ("EXPOSE 80 53/udp 8000-8002\nVOLUME /v1 /v2\nVOLUME [\"/v 3\"]\nUSER app:apps\nSTOPSIGNAL SIGINT\nWORKDIR /home\nWORKDIR app\n"
                      "HEALTHCHECK --interval=1m30s --timeout=5s --retries=4 CMD echo $HOME\nENTRYPOINT [\"a\", \"b c\"]\nCMD d $E\nCOPY one /t/\n"),
    "shells": "SHELL [\"/bin/sh\", \"-ec\"]\nCMD echo \\\n  hello \\\n# comment\n  world\nENTRYPOINT exec x\nCOPY one /t/\n",
    "entrypoint": "ENTRYPOINT [\"x\"]\nHEALTHCHECK NONE\nCOPY one /t/\n",
    "commands": ("ARG V=1\nENV E=2\nWORKDIR /t/w\nCOPY dir /t/dir\nRUN echo $V$E$PWD >out && chmod 600 out && chown 7:8 out && ln -s out l && rm -r /t/dir/sub\n"
                 "RUN [\"cp\", \"out\", \"copy\"]\nRUN mv /t/dir /t/moved && mkdir /t/dir && echo new >/t/dir/x\nUSER app\nRUN id >/tmp/id && cp /tmp/id /home/app/id\n"
                 "USER root\nRUN cp /home/app/id /t/id\n"),
    "stages": "COPY dir /t/\nFROM base:1\nCOPY --from=0 /t/sub /t/sub\nCOPY --from=first /t/a /t/\nLABEL a=b\n",
}


def normal(config):
    return {k: config["config"][k] for k in FIELDS if config["config"].get(k)}


@test
@needs_root
def the_result_is_that_of_docker():
    config = {"Env": ["PATH=/bin", "BASE=1"], "Cmd": ["sh"], "Labels": {"base": "1"}, "ExposedPorts": {"1/tcp": {}}}
    s = Builder(config=config)
    with Docker() as docker:
        s.image("save", "-q", "-o", f"{docker.dir}/base.tar", "base:1")
        docker.call("load", "-i", f"{docker.dir}/base.tar")
        for name, text in CASES.items():
            context = write_tree(folder(), {**FILES, "Dockerfile": f"FROM base:1 AS first\n{text}"})
            ours = s.build(None, "--build-arg", "EMPTY=given", context=context)
            docker.call("build", "-q", "--network", "none", "--build-arg", "EMPTY=given", "-t", f"theirs:{name}", context)
            s.image("load", "-q", "-", input=docker.call("save", f"theirs:{name}"))
            eq(normal(s.config(ours)), normal(s.config(f"theirs:{name}")), f"configuration of {name}")
            eq(s.listing(ours), s.listing(f"theirs:{name}"), f"files of {name}")


if __name__ == "__main__":
    sys.exit(main())
