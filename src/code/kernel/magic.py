# SPDX-License-Identifier: Apache-2.0
# magic.py - part of the kernel of Python: shell commands and magics for images without IPython
import re

LINE = re.compile(r"^(\s*)(?:([\w.\[\], ]+?)\s*=\s*)?([!%])(?![=%])(.*)$")
NEEDS = "%{} needs IPython, which this image does not have; to install it, run: %pip install ipython"


class UsageError(Exception):
    pass


def is_magic(code):
    return code.lstrip().startswith("%%") or any(
        LINE.match(line) or line.rstrip().endswith("?") for line in code.splitlines())


def transform(code):
    """Replaces lines that are magics or shell commands with calls."""
    if code.lstrip().startswith("%%"):
        first, _, rest = code.lstrip()[2:].partition("\n")
        return f"__magic__.cell({first!r}, {rest!r})"
    lines, out = iter(code.split("\n")), []
    for line in lines:
        found = LINE.match(line)
        if not found:
            out.append(line)
            continue
        indent, name, sign, rest = found.groups()
        while rest.endswith("\\"):
            rest = rest[:-1] + next(lines, "")
        method = "shell" if sign == "!" else "line"
        if name:
            out.append(f"{indent}{name} = __magic__.{method}({rest!r}, True)")
        else:
            out.append(f"{indent}__magic__.{method}({rest!r})")
    return "\n".join(out)


class Magic:
    def __init__(self, kernel):
        self.kernel = kernel

    def fill(self, text):
        """Replaces {expression} and $name, as IPython does."""
        def value(found):
            try:
                return str(eval(found[1] or found[2], self.kernel.names))
            except Exception:
                return found[0]
        return re.sub(r"\{(\w[^{}]*)\}|\$(?=[A-Za-z_])(\w+)", value, text)

    def shell(self, command, wanted=False):
        import subprocess
        command = self.fill(command.lstrip("!"))
        shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        if wanted or command.startswith("!"):
            return subprocess.run([shell, "-c", command], stdout=subprocess.PIPE, text=True,
                                  errors="replace").stdout.splitlines()
        self.kernel.names["_exit_code"] = subprocess.run([shell, "-c", command]).returncode
        return None

    def line(self, text, wanted=False):
        name, _, rest = text.strip().partition(" ")
        run = getattr(self, "do_" + name, None)
        if run is None:
            raise UsageError(NEEDS.format(name))
        return run(self.fill(rest.strip()))

    def cell(self, first, body):
        name, _, rest = first.strip().partition(" ")
        run = getattr(self, "cell_" + name, None)
        if run is None:
            raise UsageError(NEEDS.format("%" + name))
        return run(rest.strip(), body)

    def do_pip(self, rest):
        import importlib
        import subprocess
        subprocess.run([sys.executable, "-m", "pip", *rest.split()])
        importlib.invalidate_caches()

    def do_cd(self, rest):
        os.chdir(os.path.expanduser(rest.strip("'\"") or "~"))
        print(os.getcwd())

    def do_pwd(self, _):
        return os.getcwd()

    def do_env(self, rest):
        if not rest:
            return dict(os.environ)
        name, sign, value = rest.replace(" ", "=", "=" not in rest).partition("=")
        if not sign:
            return os.environ.get(name)
        os.environ[name.strip()] = value.strip()
        return print(f"env: {name.strip()}={value.strip()}")

    do_set_env = do_env

    def do_matplotlib(self, _):
        pass  # figures are always displayed in line

    def do_time(self, rest):
        start, used = time.perf_counter(), time.process_time()
        value = eval(rest, self.kernel.names)
        print(f"CPU times: {time.process_time() - used:.3g} s\nWall time: {time.perf_counter() - start:.3g} s")
        return value

    def cell_time(self, _, body):
        start, used = time.perf_counter(), time.process_time()
        name = f"Cell In[{self.kernel.count}]"
        self.kernel.remember(body, name)
        self.kernel.run(self.kernel.parse(body, name), name, body.rstrip().endswith(";"))
        print(f"CPU times: {time.process_time() - used:.3g} s\nWall time: {time.perf_counter() - start:.3g} s")

    def run_script(self, program, body):
        import subprocess
        done = subprocess.run(program, input=body.encode())
        if done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, program)

    def cell_bash(self, rest, body):
        self.run_script(["bash", *rest.split()], body)

    def cell_sh(self, rest, body):
        self.run_script(["sh", *rest.split()], body)

    def cell_writefile(self, rest, body):
        append = rest.startswith("-a ")
        path = os.path.expanduser((rest[3:] if append else rest).strip().strip("'\""))
        print(("Appending to " if append else "Overwriting " if os.path.exists(path) else "Writing ") + path)
        with open(path, "a" if append else "w", encoding="utf-8") as file:
            file.write(body)
