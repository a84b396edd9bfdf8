#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-image-build.py - images are built from Dockerfiles: files, configuration, cache, refusals

Prints TAP. $WARREN is the program, $WARREN_BUILD where it was built.
"""
import fcntl
import glob
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from build_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

# -------------------------------------------------------------------- files


@test
def a_build_runs_commands_and_copies_files():
    s = Builder()
    image = s.build("FROM base:1\nARG WHO=world\nENV GREETING=hello\nWORKDIR /src\nCOPY a.txt .\n"
                    "RUN echo \"$GREETING $WHO\" >out && cat a.txt >>out && rm /etc/group && pwd >>out\n"
                    "RUN test ! -e /etc/group && echo more >>out\nCMD [\"cat\", \"/src/out\"]\n",
                    "-t", "mine:1", "-t", "mine:2", files={"a.txt": "copied\n"})
    ok("[4/5] RUN echo" in s.said and "[1/5] FROM base:1" in s.said, s.said)
    eq(s.run("mine:1"), "hello world\ncopied\n/src\nmore\n")
    ok("group" not in s.run("mine:2", "ls", "/etc").split(), "the removed file is there")
    eq(s.run(image), "hello world\ncopied\n/src\nmore\n")


@test
def a_second_build_is_cached_completely():
    s = Builder()
    text = "FROM base:1\nWORKDIR /w\nCOPY . /src\nRUN date >/w/now 2>&1; echo ran\nLABEL a=b\n"
    context = folder()
    first = s.build(text, context=context, files={"f": "x"})
    eq(s.steps()[0], [])
    os.utime(f"{context}/f", (1, 1))
    eq(s.build(None, context=context), first, "image id")
    cached, executed = s.steps()
    eq((len(cached), executed), (3, []))
    again = s.build(None, "--no-cache", context=context)
    eq(s.steps()[0], [])
    ok(again != first, "--no-cache uses the cache")


@test
def a_changed_file_invalidates_the_steps_after_it():
    s = Builder()
    context = folder()
    text = "FROM base:1\nCOPY a /a\nRUN echo one\nCOPY b /b\nRUN echo two; cat /b >/c\n"
    s.build(text, context=context, files={"a": "a", "b": "b"})
    write_tree(context, {"b": "changed"})
    image = s.build(None, context=context)
    eq(s.steps(), (["COPY a /a", "RUN echo one"], ["COPY b /b", "RUN echo two; cat /b >/c"]))
    eq(s.run(image, "cat", "/c"), "changed")
    os.chmod(f"{context}/a", 0o600)
    s.build(None, context=context)
    eq(s.steps()[0], [])
    s.build(text.replace("RUN echo one", "ENV x=y\nRUN echo one"), context=context)
    eq(s.steps()[0], ["COPY a /a"])


@test
def metadata_does_not_invalidate_the_cache():
    s = Builder()
    s.build("FROM base:1\nRUN echo x\n")
    image = s.build("FROM base:1\nLABEL version=2\nEXPOSE 80\nRUN echo x\n")
    eq(s.steps(), (["RUN echo x"], []))
    eq(s.config(image)["config"]["Labels"], {"version": "2"})


@test
def stages_are_built_only_if_they_are_needed():
    s = Builder()
    text = ("FROM base:1 AS build\nRUN echo built >/out\nFROM base:1 AS unused\nRUN exit 1\n"
            "FROM base:1 AS test\nCOPY --from=build /out /tested\nFROM scratch\nCOPY --from=0 /out /final\n")
    image = s.build(text)
    eq(len(s.config(image)["rootfs"]["diff_ids"]), 1)
    eq(s.config(image)["config"], {})
    image = s.build(text, "--target", "test")
    eq(s.run(image, "cat", "/tested"), "built\n")
    s.refuse(text, "--target", "unused", words=["Dockerfile:4: the command exited with status 1"])
    s.refuse(text, "--target", "none", words=["the Dockerfile has no stage 'none'"])


@test
def copy_follows_dockers_rules():
    s = Builder()
    files = {"one": "1", "dir/a": "a", "dir/sub/b": "b", "dir/link": ("link", "a"), "tofile": ("link", "one"), "x1": "x", "x2": "y"}
    image = s.build("FROM base:1\nRUN mkdir -p /t/old/sub && echo old >/t/old/a && ln -s /t/old /t/abs && ln -s ../t/old/a /t/afile\n"
                    "COPY one /t/name\nCOPY one /t/new/\nCOPY one /t/old\nCOPY dir /t/old\nCOPY dir /t/abs/again/\nCOPY x* one /t/many/\n"
                    "COPY tofile /t/followed\nCOPY one /t/afile\nCOPY --chown=app:apps --chmod=640 dir /t/owned\nCOPY --chown=7:8 one /t/seven\n"
                    "WORKDIR /t\nCOPY one relative\nCOPY none* /t/empty/\n", files=files)
    got = s.listing(image)
    for line in ("t/name f 644 0:0 1", "t/new/one f 644 0:0 1", "t/old/one f 644 0:0 1", "t/old/a f 644 0:0 1", "t/old/sub/b f 644 0:0 b",
                 "t/old/link l 777 0:0 a", "t/old/again/sub/b f 644 0:0 b", "t/many/x1 f 644 0:0 x", "t/many/x2 f 644 0:0 y",
                 "t/many/one f 644 0:0 1", "t/followed f 644 0:0 1", "t/afile l 777 0:0 ../t/old/a", "t/abs l 777 0:0 /t/old",
                 "t/owned/a f 640 1234:1235 a", "t/owned d 755 1234:1235", "t/owned/sub d 640 1234:1235", "t/seven f 644 7:8 1",
                 "t/relative f 644 0:0 1", "t/empty d 755 0:0"):
        ok(line in got, f"{line!r} is not in {got}")


@test
def a_link_never_leads_out_of_the_context_or_the_image():
    outside = write_tree(folder(), {"secret": "host's"})
    s = Builder()
    files = {"abs": ("link", f"{outside}/secret"), "up": ("link", "../" * 20 + outside[1:] + "/secret"), "out": ("link", "/etc"),
             "dir/in": "in", "ok": ("link", "/dir/in")}
    s.refuse("FROM base:1\nCOPY abs /x\n", files=files, words=["Dockerfile:2: 'abs' does not exist"])
    s.refuse("FROM base:1\nCOPY up /x\n", files=files, words=["Dockerfile:2: 'up' does not exist"])
    s.refuse("FROM base:1\nCOPY out/passwd /x\n", files=files, words=["'out/passwd' does not exist"])
    s.refuse("FROM base:1\nCOPY ../../../../etc/passwd /x\n", files=files, words=["does not exist"])
    eq(s.run(s.build("FROM base:1\nCOPY ok /x\n", files=files), "cat", "/x"), "in")
    target = folder()
    image = s.build(f"FROM base:1\nRUN ln -s {target} /out && ln -s / /root2\nCOPY dir/in /out/\nCOPY dir/in /root2/y\n", files=files)
    eq(os.listdir(target), [])
    eq(s.run(image, "cat", f"{target}/in", "/y"), "inin")


@test
def files_can_come_from_heredocs():
    s = Builder()
    image = s.build("FROM base:1\nENV who=me\nCOPY <<A <<'B' /d/\nI am $who\nA\n$who\nB\nCOPY --chmod=755 <<run /script\n#!/bin/sh\necho script\nrun\n"
                    "RUN <<EOF\nset -e\necho one >/out\n/script >>/out\nEOF\nRUN cat <<X >>/out\nthree \\$who $who\nX\n"
                    "RUN <<EOF\n#!/bin/sh -e\necho \"$0\" | sed 's,.*/,,' >>/out\nEOF\n")
    eq(s.run(image, "cat", "/d/A", "/d/B", "/out"), "I am me\n$who\none\nscript\nthree $who me\nwarren-heredoc\n")
    eq(s.run(image, "ls", "/dev/shm"), "")


@test
def add_unpacks_local_archives():
    plain = tar({"x": "in the archive", "sub": directory(0o700, uid=1234, gid=1235), "sub/y": File("y", uid=1234, gid=1235)})
    files = {"a.tar": plain, "b.tgz": gzip.compress(plain, mtime=0), "c.gz": gzip.compress(b"no archive", mtime=0), "bad.tar.gz": gzip.compress(plain)[:-20],
             "plain": "text"}
    s = Builder()
    image = s.build("FROM base:1\nADD a.tar /t/a\nADD b.tgz /t/b/\nADD c.gz plain /t/c/\nADD --unpack=false a.tar /t/whole/\n"
                    "COPY a.tar /t/copied/\nADD --chown=5:6 a.tar /t/owned/\nRUN chmod 644 /t/whole/a.tar && rm /t/whole/a.tar /t/copied/a.tar\n", files=files)
    got = s.listing(image)
    for line in ("t/a/x f 644 0:0 in the archive", "t/a/sub d 700 1234:1235", "t/a/sub/y f 644 1234:1235 y", "t/b/x f 644 0:0 in the archive",
                 "t/c/plain f 644 0:0 text", "t/owned/x f 644 5:6 in the archive"):
        ok(line in got, f"{line!r} is not in {got}")
    eq(s.run(image, "wc", "-c", "/t/c/c.gz").split()[0], str(len(files["c.gz"])))
    s.refuse("FROM base:1\nADD bad.tar.gz /x/\n", files=files, words=["Dockerfile:2: unpack 'bad.tar.gz'"])


@test
def dockerignore_excludes_files():
    s = Builder()
    files = {".dockerignore": "*.md\n!README.md\nsecret\n**/tmp\ndir\n!dir/keep\n", "a.md": "x", "README.md": "x", "secret/key": "x", "d/tmp/x": "x",
             "d/y": "y", "dir/keep": "k", "dir/other": "o", "only/tmp": "x"}
    image = s.build("FROM base:1\nCOPY . /t/\n", files=files)
    names = [x.split()[0] for x in s.listing(image)]
    eq(names, ["t", "t/.dockerignore", "t/Dockerfile", "t/README.md", "t/d", "t/d/y", "t/dir", "t/dir/keep", "t/only"])
    s.refuse("FROM base:1\nCOPY a.md /x\n", files=files, words=["'a.md' is excluded by .dockerignore"])
    image = s.build("FROM base:1\nRUN --mount=type=bind,target=/c ls /c >/out\n", files=files)
    eq(s.run(image, "cat", "/out"), "Dockerfile\nREADME.md\nd\ndir\nonly\n")
    context = write_tree(folder(), {"Dockerfile": "FROM base:1\n", "dev.Dockerfile": "FROM base:1\nCOPY . /t/\n", ".dockerignore": "a\n",
                                    "dev.Dockerfile.dockerignore": "b\n*Dockerfile*\n.docker*\n", "a": "a", "b": "b"})
    image = s.image("build", "-f", f"{context}/dev.Dockerfile", context).strip()
    eq([x.split()[0] for x in s.listing(image)], ["t", "t/a"])


# ------------------------------------------------------------- configuration


@test
def a_dockerignore_that_cannot_be_read_is_an_error():
    s = Builder()
    text = "FROM base:1\nCOPY . /t\n"
    s.refuse(text, files={".dockerignore": ("dir", 0o755)}, words=[".dockerignore", "Is a directory"])
    s.refuse(text, files={".dockerignore": "#" * (2 << 20)}, words=[".dockerignore"])
    d = write_tree(folder(), {"c/secret": "x", "Other": text, "Other.dockerignore": ("dir", 0o755), "c/In": text, "c/In.dockerignore": ("dir", 0o755)})
    for f in ("Other", "c/In"):
        s.bad("image", "build", "-f", f"{d}/{f}", f"{d}/c", words=[".dockerignore", "Is a directory"])
    s.build(text, files={".dockerignore": "# nothing\n"})  # the control


@test
def the_configuration_is_recorded():
    s = Builder(config={"Env": ["PATH=/bin", "OLD=1"], "Cmd": ["inherited"], "Labels": {"old": "1"}, "ExposedPorts": {"1/tcp": {}}})
    image = s.build("FROM base:1\nMAINTAINER Jo\nENV NEW=$OLD\nLABEL new=\"a b\"\nEXPOSE 80 53/udp\nVOLUME /data\nUSER app:apps\nWORKDIR /home/app\n"
                    "STOPSIGNAL SIGINT\nHEALTHCHECK --interval=5s --retries=2 CMD true\nSHELL [\"/bin/sh\", \"-ec\"]\nENTRYPOINT echo entry\n",
                    "--label", "given=yes", "--label", "empty")
    config = s.config(image)
    eq(config["config"], {"Env": ["PATH=/bin", "OLD=1", "NEW=1"], "Labels": {"old": "1", "new": "a b", "given": "yes", "empty": ""},
                          "ExposedPorts": {"1/tcp": {}, "80/tcp": {}, "53/udp": {}}, "Volumes": {"/data": {}}, "User": "app:apps",
                          "WorkingDir": "/home/app", "StopSignal": "SIGINT", "Shell": ["/bin/sh", "-ec"],
                          "Healthcheck": {"Test": ["CMD-SHELL", "true"], "Interval": 5000000000, "Retries": 2},
                          "Entrypoint": ["/bin/sh", "-ec", "echo entry"]})
    eq(config["author"], "Jo")
    eq([h["created_by"] for h in config["history"]][-2:], ['SHELL ["/bin/sh", "-ec"]', "ENTRYPOINT echo entry"])
    eq(s.run(image), "entry\n")


@test
def arguments_have_their_scope():
    s = Builder()
    text = ("ARG TAG=1\nARG BOTH=global\nFROM base:${TAG}\nARG BOTH\nARG V=default\nARG TARGETARCH\nRUN echo $BOTH $V $TARGETARCH [$TAG] [$HTTP_PROXY] >/out\n")
    eq(s.run(s.build(text), "cat", "/out"), f"global default {ARCH} [] []\n")
    eq(s.run(s.build(text, "--build-arg", "V=given", "--build-arg", "BOTH", env={"BOTH": "caller's"}), "cat", "/out"),
       f"caller's given {ARCH} [] []\n")
    image = s.build(text, "--build-arg", "HTTP_PROXY=http://p")
    eq(s.steps()[1], [], "a proxy is no part of the key")
    ok("HTTP_PROXY" not in json.dumps(s.config(image)["config"]), "the proxy is in the image")
    image = s.build(text, "--no-cache", "--build-arg", "HTTP_PROXY=http://p")
    eq(s.run(image, "cat", "/out"), f"global default {ARCH} [] [http://p]\n")
    s.refuse(text, "--build-arg", "TAG=", words=["Dockerfile:3:"])
    s.build(text, "--build-arg", "WRONG=x")
    ok("note: the Dockerfile has no ARG 'WRONG'" in s.said, s.said)


@test
def files_and_ids_are_written():
    s, d = Builder(), folder()
    image = s.build("FROM base:1\nRUN true\n", "--iidfile", f"{d}/id", "-q")
    with open(f"{d}/id", encoding="ascii") as f:
        eq(f.read(), image)
    eq(s.said, "")
    eq(s.image("build", "-q", "-f", "-", d, input=b"FROM base:1\nRUN true\n").strip(), image)


@test
def links_of_a_step_do_not_lead_out_of_its_layer():
    s, outside = Builder(), folder()
    os.mkdir(f"{outside}/empty")
    text = (f"FROM base:1\nRUN --mount=type=tmpfs,target=/a{outside}/empty mv /a /z && ln -s / /a\n"
            "RUN test -L /a && echo made >/y\n")
    eq(s.run(s.build(text), "cat", "/y"), "made\n")
    ok(os.path.isdir(f"{outside}/empty"), "a directory of the machine was removed")


@test
def only_an_option_lets_a_dockerfile_read_directories_of_the_machine():
    s, tree = Builder(), write_tree(folder(), {"etc/x": "from a directory"})
    mounted = f"FROM base:1\nRUN --mount=type=bind,from=dir:{tree},target=/m cat /m/etc/x >/y\n"
    for text in (f"FROM dir:{tree}\nCOPY --from=base:1 /bin /bin\nRUN cat /etc/x >/y\n",
                 f"FROM base:1\nCOPY --from=dir:{tree} /etc/x /y\n", mounted):
        eq(s.run(s.build(text, "--allow-dir"), "cat", "/y"), "from a directory")
        s.refuse(text, "--no-cache", words=["use --allow-dir if you trust the Dockerfile"])


@test
def a_build_can_start_from_host():
    s = Builder()
    text = "FROM host\nWORKDIR /app\nCOPY f .\nRUN cat f >/out && mkdir /data && touch /data/x\nCMD [\"ls\", \"/app\", \"/data\"]\n"
    image = s.build(text, "-t", "onhost:1", files={"f": "f"})
    eq(s.run(image), "/app:\nf\n\n/data:\nx\n")
    eq(s.build(text, files={"f": "f"}), image)
    eq(s.steps()[1], [])
    eq(s.run(s.build("FROM onhost:1\nCOPY f /z\nRUN cat /z /out >/both\n", files={"f": "g"}), "cat", "/both"), "gf")
    for where in ("/bin/f", "/usr/new/f"):
        s.refuse(f"FROM host\nCOPY f {where}\n", files={"f": ""}, words=["Dockerfile:2: '/usr' is a directory of this machine"])


@test
@needs_root
def an_ordinary_user_can_build():
    for sub in (False, True) if shutil.which("newuidmap") and os.path.exists("/etc/subuid") else (False,):
        s = Builder(user=as_user(sub))
        text = ("FROM base:1\nCOPY --chown=1234:1235 dir /t\nRUN mkdir -p /t/new && echo made >/t/new/x && rm /t/b && chmod 500 /t/new && ln -s x /t/l\n"
                "RUN cat /t/new/x >/t/y\nFROM base:1\nCOPY --from=0 /t /t\n")
        files = {"dir/a": "a", "dir/b": "b"}
        image = s.build(text, files=files)
        ok("--chown has no effect" in s.said, s.said)
        eq(s.listing(image), ["t d 755 0:0", "t/a f 644 0:0 a", "t/l l 777 0:0 x", "t/new d 500 0:0", "t/new/x f 644 0:0 made", "t/y f 644 0:0 made"])
        eq(s.build(text, files=files), image)
        eq(s.steps()[1], [])
        # A home directory: what 'useradd -m' does, and what works.
        for change, words in (("chown 1000:1000 /home/u", "belongs to user 1000"), ("chgrp 1000 /home/u", "belongs to group 1000")) if sub else ():
            s.refuse(f"FROM base:1\nRUN mkdir -p /home/u; {change}\n", words=[words, "build as root, or leave the files to root"])
        if not sub:
            s.refuse("FROM base:1\nRUN touch /f; chown 1000:1000 /f\n", words=["the command exited with status 1"])
        home = s.build("FROM base:1\nRUN mkdir -p /home && mkdir -m 1777 /home/u && echo u:x:1000:1000::/home/u:/bin/sh >>/etc/passwd\n"
                       "USER 0\nRUN echo x >/home/u/f\n")
        ok(home != image, "built")
        s.image("prune", "-a")
        s.empty()


# -------------------------------------------------------------------- mounts


@test
def run_has_mounts():
    s = Builder()
    text = ("FROM base:1 AS other\nRUN mkdir /o && echo stage >/o/f\nFROM base:1\nWORKDIR /w\n"
            "RUN --mount=type=cache,target=/cache,id=c --mount=type=tmpfs,target=tmpfs --mount=from=other,source=o,target=/other "
            "--mount=type=bind,source=dir/f,target=/one --mount=type=secret,id=key --mount=type=secret,id=key,env=KEY "
            "cat /other/f /one /run/secrets/key; echo \"[$KEY]\"; echo x >>/cache/n; wc -l </cache/n; touch /w/tmpfs/x; touch /other/x 2>/dev/null || echo ro\n")
    secret = write_tree(folder(), {"key": "s3cret"}) + "/key"
    options = ["--secret", f"id=key,src={secret}"]
    image = s.build(text, *options, files={"dir/f": "bound\n"})
    for word in ("stage\nbound\ns3cret[s3cret]\n1\nro\n",):
        ok(word in s.said, s.said)
    eq(s.run(image, "sh", "-c", "ls -d /cache /w/tmpfs /other /one /run/secrets 2>/dev/null; echo /w/*"), "/w/*\n")
    s.build(text, "--no-cache", *options, files={"dir/f": "bound\n"})
    ok("\n2\nro\n" in s.said, s.said)
    # Installers set such bits; only Warren's user can reach the cache.
    s.build("FROM base:1\nRUN --mount=type=cache,target=/cache,id=c touch /w /cache/s; chmod 4755 /w /cache/s\n")
    s.build(text, files={"dir/f": "bound\n"})
    eq(s.steps()[1], [], "a secret is part of the key")
    s.build(text, *options, files={"dir/f": "changed\n"})
    eq(len(s.steps()[1]), 1)
    s.refuse("FROM base:1\nRUN --mount=type=secret,id=none,required=true true\n", words=["Dockerfile:2: the secret 'none' is required"])
    eq(glob.glob(f"{s.path}/layers/d/.new-*"), [], "temporary directories")
    s.image("prune", "-a")
    ok(not os.path.exists(f"{s.path}/images/build"), "the cache is there")


@test
def run_has_no_network_unless_it_is_allowed():
    s = Builder()
    text = "FROM base:1\nRUN nc -w 2 192.0.2.1 80 </dev/null 2>&1; echo status $?\n"
    s.build(text)
    ok("Network is unreachable\nstatus 1\n" in s.said, s.said)
    s.refuse("FROM base:1\nRUN true\n", "--network", "nonsense", words=["nonsense"])


# ------------------------------------------------------------------ refusals


@test
def each_refusal_names_its_line_before_anything_runs():
    s = Builder()
    rows = [("ONBUILD RUN x", "ONBUILD is not supported"), ("RNU x", "unknown instruction 'RNU'; did you mean 'RUN'?"), ("ADD https://example.com/x /", "'https://example.com/x': files are not downloaded"),
            ("COPY --parents a b", "--parents is not supported"), ("RUN --mount=type=ssh x", "--mount: the type 'ssh' is not supported"),
            ("RUN --network=host x", "--network=host is not supported"), ("RUN --security=insecure x", "--security=insecure is not supported"),
            ("RUN --device=x x", "--device is not supported"), ("SHELL sh", "SHELL needs a JSON array"), ("EXPOSE x", "'x' is not PORT"),
            ("RUN <<EOF", "the heredoc has no end"), ("USER ${x:?no user}", "the variable 'x' is not set"),
            ("FROM --platform=linux/s390x base:1", "--platform=linux/s390x is not supported")]
    for line, words in rows:
        said = s.refuse(f"FROM base:1\n\nRUN echo it ran\n{line}\n", words=[f"Dockerfile:4: {words}"])
        ok("it ran" not in said, said)
    s.refuse("# syntax=other/x\nFROM base:1\n", words=["Dockerfile:1: the directive 'syntax'"])
    ok("it ran" not in s.refuse("FROM base:1\nRUN echo it ran >&2\nCOPY --from=127.0.0.1:1/none /x /\n", words=["Dockerfile:3: pull"]), "it ran")
    s.refuse("", words=["Dockerfile: it has no FROM instruction"])
    s.refuse("FROM base:1\nCOPY missing /\n", words=["Dockerfile:2: 'missing' does not exist"])
    s.refuse("FROM base:1\nCOPY --chown=who x /\n", files={"x": ""}, words=["Dockerfile:2: --chown: the image has no user 'who'"])
    s.refuse("FROM base:1\nRUN mkdir /f\nCOPY d /\n", files={"d/f": ""}, words=["Dockerfile:3: '/f' is a directory in the image"])
    s.refuse("FROM scratch\nRUN true\n", words=["Dockerfile:2: the stage has no files yet"])
    s.bad("image", "build", f"{folder()}/none", words=["open the context"])
    s.bad("image", "build", folder(), words=["Dockerfile", "No such file"])


@test
def the_name_of_an_image_is_checked_first():
    Builder().bad("image", "build", "-t", "Bad:x:y", folder(), words=["--tag"])


@test
def a_failed_command_ends_the_build():
    s = Builder()
    s.refuse("FROM base:1\nRUN echo out; echo err >&2; exit 3\nRUN echo never\n", words=["Dockerfile:2: the command exited with status 3"])
    status, _, err = s.call("image", "build", "-q", write_tree(folder(), {"Dockerfile": "FROM base:1\nRUN echo said; exit 3\n"}))
    ok(status == 125 and err.startswith("said\n"), err)
    s.refuse("FROM base:1\nRUN kill -9 $$\n", words=["Dockerfile:2: the command was ended by signal 9"])
    s.refuse("FROM base:1\nRUN [\"/none\"]\n", words=["Dockerfile:2:", "/none"])
    eq([x for x in s.ls() if not x["names"]], [])


@test
def an_interrupted_build_leaves_nothing():
    s = Builder()
    context = write_tree(folder(), {"Dockerfile": "FROM base:1\nRUN --mount=type=bind,target=/c echo started; sleep 1000\n"})
    before = s.directories()
    p = s.start("image", "build", context)
    try:
        line = b""
        while b"started" not in line:
            line = p.stderr.readline()
            ok(line, "it ended")
        p.send_signal(signal.SIGINT)
        err = p.stderr.read().decode()
        eq(p.wait(timeout=WAIT), 130)
    finally:
        p.kill()
        p.wait()
    ok("interrupted" in err, err)
    eq(s.directories(), before)
    eq(glob.glob(f"{s.path}/layers/d/.new-*"), [])
    for n in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            with open(n, "rb") as f:
                ok(f.read() != b"sleep\x001000\x00", "the command is still running")


@test
def a_build_is_interrupted_within_a_large_file():
    s = Builder()
    before = s.directories()

    def interrupt(dockerfile, ready, **files):
        """Interrupts a build that would take hours."""
        context = write_tree(folder(), {"Dockerfile": dockerfile, "sparse": "", **files})
        os.truncate(f"{context}/sparse", 8 << 40)
        p = s.start("image", "build", context)
        try:
            until(lambda: ready(p), "large file")
            eq(p.poll(), None)
            p.send_signal(signal.SIGTERM)
            err = p.stderr.read().decode()
            eq(p.wait(timeout=WAIT), 128 + signal.SIGTERM, err)
        finally:
            p.kill()
            p.wait()
        ok("interrupted" in err, err)
        eq(glob.glob(f"{s.path}/layers/d/.new-*"), [])
        eq(s.directories(), before)

    def reads(p):
        return any(os.path.basename(os.path.realpath(n)) == "sparse" for n in glob.glob(f"/proc/{p.pid}/fd/*"))

    def copied(_p):
        return any(os.path.getsize(n) for n in glob.glob(f"{s.path}/layers/d/.new-*/sparse"))
    interrupt("FROM base:1\nCOPY sparse /\n", reads)
    interrupt("FROM base:1\nRUN --mount=type=bind,target=/m ls /m\n", reads)
    interrupt("FROM base:1\nRUN dd if=/dev/null of=/sparse bs=1 seek=60G\n", copied)
    interrupt("FROM base:1\nADD bomb.tar.zst /\n", copied, **{"bomb.tar.zst": zstd_bomb("sparse", 60 << 30)})


@test
def a_slow_reader_does_not_lock_the_store():
    s = Builder()
    tags = [f"{'n' * 100}:{i}" for i in range(100)]
    p = s.start("image", "build", *(f"-t{t}" for t in tags), write_tree(folder(), {"Dockerfile": "FROM base:1\nLABEL a=b\n"}))
    try:
        fcntl.fcntl(p.stderr, fcntl.F_SETPIPE_SZ, 4096)  # less than what it prints
        until(lambda: len(os.listdir(f"{s.path}/images/refs")) > len(tags), "names")

        def unlocked():
            with open(f"{s.path}/images/lock", "rb") as f:
                try:
                    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return True
                except BlockingIOError:
                    return False
        until(unlocked, "unlocked store")
        eq(p.poll(), None)  # it waits for its reader
        eq(p.stderr.read().decode().count("naming it "), len(tags))
        eq(p.wait(timeout=WAIT), 0)
    finally:
        p.kill()
        p.wait()


@test
def a_killed_build_leaves_no_process():
    s = Builder()
    context = write_tree(folder(), {"Dockerfile": "FROM base:1\nRUN sleep 100777 & dd if=/dev/zero of=/big bs=1M count=250 2>/dev/null\n"})

    def left():
        for n in glob.glob("/proc/[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                with open(n, "rb") as f:
                    if f.read() == b"sleep\x00100777\x00":
                        return True
        return False
    p = s.start("image", "build", "--memory", "1g", context)
    try:
        until(left, "the process that the command leaves behind")
        until(lambda: glob.glob(f"{s.path}/layers/d/.new-*/big"), "the copy of the layer")
        p.kill()
        p.wait()
    finally:
        p.kill()
        p.wait()
    until(lambda: not left(), "the end of that process")
    s.image("prune", "-a")
    s.empty()


@test
def prune_removes_the_cache():
    s = Builder()
    text = "FROM base:1\nRUN echo x >/x\n"
    image = s.build(text, "-t", "kept:1")
    eq([x["names"] for x in s.ls()], [["kept:1"], ["base:1"]])
    eq(len(json.loads(s.image("ls", "--all", "--json"))), 3)
    s.image("prune")
    ok(not os.path.exists(f"{s.path}/images/build"), "the cache is there")
    eq(s.run("kept:1", "cat", "/x"), "x\n")
    s.build(text)
    eq(s.steps()[0], [])
    s.image("rm", "kept:1")
    s.image("prune", "-a")
    ok(image not in s.image("ls", "-a", "--no-trunc"), "it is still there")


if __name__ == "__main__":
    sys.exit(main())
