#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-setup-image.py - the image of a project is built or pulled for this project only

Prints TAP. $WARREN is the program (default build/warren). After every test, no trace of a sandbox may remain.
"""
import os
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, eq, ok  # pylint: disable=wrong-import-position
from cli_world import main  # pylint: disable=wrong-import-position
from setup_world import put, World  # pylint: disable=wrong-import-position


@test
def the_image_of_a_devcontainer_is_built():
    with World() as w:
        put(w.project, {".devcontainer/devcontainer.json": '{"build": {"dockerfile": "Dockerfile", "context": ".."}}',
                        ".devcontainer/Dockerfile": "FROM scratch\nCOPY file /file\n", "file": "x"})
        p = w.run("setup")
        eq(p.stdout, b"nothing to do\n")
        ok(b"warren-devcontainer" in w.run("image", "ls").stdout, "the image")
        eq(w.run("setup").stderr, b"")  # it is not built again
        put(w.project, {".devcontainer/Dockerfile": "FROM scratch\nCOPY no-such-file /file\n"})
        ok(b"could not be built" in w.run("setup", status=125).stderr, "a wrong Dockerfile")
        os.remove(f"{w.project}/.devcontainer/Dockerfile")
        os.symlink("/etc/passwd", f"{w.project}/.devcontainer/Dockerfile")
        ok(b"no such file" in w.run("setup", status=125).stderr, "a Dockerfile that leads out")


@test
def the_image_is_built_again_when_its_files_change():
    with World() as w:
        put(w.project, {".devcontainer/devcontainer.json": '{"build": {"dockerfile": "Dockerfile", "context": ".."}, '
                        '"postCreateCommand": "cp /srv/file seen"}',
                        ".devcontainer/Dockerfile": "FROM host\nCOPY file /srv/file\n", "file": "1\n"})
        eq(w.read(w.setup(), "project", "seen"), "1\n")
        put(w.project, {"file": "2\n"})
        eq(w.read(w.setup(), "project", "seen"), "2\n")


@test
def projects_share_no_cache_of_builds():
    mount = "RUN --mount=type=cache,target=/srv/c,id=pip"
    read = f"{mount} cat /srv/c/x >/srv/seen || echo nothing >/srv/seen\n"
    with World() as w:
        config = {".devcontainer.json": '{"build": {"dockerfile": "Dockerfile"}, "postCreateCommand": "cp /srv/seen seen"}',
                  ".gitignore": "seen\n"}
        one, other = w.project, f"{w.top}/other"
        put(one, config | {"Dockerfile": f"FROM host AS wrong\n{mount} echo wrong >/srv/c/x; touch /srv/m\nFROM host\n{read}"
                                         "COPY --from=wrong /srv/m /srv/h\n"})
        eq(w.read(w.setup(), "project", "seen"), "wrong\n")
        put(one, {"Dockerfile": f"FROM host\nWORKDIR /srv\n{read}"})
        eq(w.read(w.setup(), "project", "seen"), "wrong\n", "a control: the project's own cache")
        # Neither the directory nor the result of the same step of another project.
        w.project = other
        put(other, config | {"Dockerfile": f"FROM host\n{read}"})
        eq(w.read(w.setup(), "project", "seen"), "nothing\n")
        # Nor are those of projects used by the user's own builds, which share theirs.
        for text, want in ((read, "nothing"), (f"{mount} echo mine >/srv/c/x\n", None), (f"WORKDIR /srv\n{read}", "mine")):
            put(other, {"Dockerfile": f"FROM host\n{text}"})
            w.run("image", "build", "--tag", "mine:1", other)
            if want:
                eq(w.run("run", "--image", "mine:1", "cat", "/srv/seen").stdout.decode(), f"{want}\n")


@test
def the_image_of_one_project_is_not_for_others():
    with World() as w:
        build = {".devcontainer.json": '{"build": {"dockerfile": "Dockerfile"}}'}
        put(w.project, build | {"Dockerfile": "FROM host\nRUN echo private >/srv/x\n"})
        w.run("setup")
        (name,) = [line.split()[0] + ":" + line.split()[1] for line in w.run("image", "ls").stdout.decode().splitlines()
                   if line.startswith("warren-devcontainer")]
        w.project = f"{w.top}/other"
        put(w.project, {"warren.yaml": f"image: {name}\n"})
        ok(b"was built for a project" in w.run("setup", status=125).stderr, "an image")
        w.run("setup", "--image", name)  # a control
        put(w.project, build | {"Dockerfile": f"FROM docker.io/library/{name}\n"})
        ok(b"was built for a project" in w.run("setup", status=125).stderr, "a base")


def connects(w, port, seen):
    env = {"XDG_CONFIG_HOME": f"{w.top}/config"}
    build = {".devcontainer.json": '{"build": {"dockerfile": "Dockerfile"}}'}
    ways = [{"warren.yaml": f"image: 127.0.0.1:{port}/x\n"}, {"warren.yaml": f"image: localhost:{port}/x\n"},
            build | {"Dockerfile": f"FROM 127.0.0.1:{port}/x\n"},
            build | {"Dockerfile": f"FROM scratch\nCOPY --from=127.0.0.1:{port}/x / /\n"}]
    for way in ways:
        for name in ("warren.yaml", ".devcontainer.json"):
            if os.path.exists(f"{w.project}/{name}"):
                os.remove(f"{w.project}/{name}")
        put(w.project, way)
        p = w.run("setup", status=125, env=env)
        ok(b"its address is not public" in p.stderr and b"warren image pull" in p.stderr, p.stderr)
        eq(seen, [], f"{way}: {p.stderr}")
    # Nor when a work is continued, and the image has been removed.
    os.remove(f"{w.project}/.devcontainer.json")
    put(w.top, {"empty/Dockerfile": "FROM host\n"})
    w.run("image", "build", "--tag", f"127.0.0.1:{port}/x", f"{w.top}/empty")
    put(w.project, ways[0])
    w.run("work", "-q", "--name", "x", "--keep", "--", "true", env=env)  # a control: it can be used
    w.run("image", "rm", f"127.0.0.1:{port}/x")
    for words in ([], ["--no-setup"]):
        p = w.run("work", "-q", *words, "--resume", "x", "--", "true", status=125, env=env)
        ok(b"its address is not public" in p.stderr, f"{words}: {p.stderr}")
    eq(seen, [])
    # Controls: the user's own choice, and the user's list.
    w.run("setup", "--image", f"127.0.0.1:{port}/x", status=125, env=env)
    ok(seen, "an image that the user gives")
    seen.clear()
    put(w.top, {"config/warren/registries.conf": f"trusted 127.0.0.1:{port}\n"})
    w.run("setup", status=125, env=env)
    ok(seen, "a registry that the user trusts")


@test
def a_project_does_not_choose_private_addresses_to_connect_to():
    with World() as w, socket.create_server(("127.0.0.1", 0)) as s:
        port, seen = s.getsockname()[1], []

        def serve():
            while True:
                try:
                    s.accept()[0].close()
                    seen.append(1)
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            connects(w, port, seen)
        finally:
            s.shutdown(socket.SHUT_RDWR)
            thread.join()


if __name__ == "__main__":
    sys.exit(main())
