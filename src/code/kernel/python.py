# SPDX-License-Identifier: Apache-2.0
# python.py - the kernel of Python: cells in one namespace, with a fast path that imports nothing
#
# If a cell is not Python, but contains a magic or a shell command, IPython runs this cell and all
# that follow (shell_ipython.py). It also takes over when a cell imports it. Without IPython,
# magic.py has the most common ones.
#
# This follows output.py in the same namespace.
import _ast
import builtins

AWAIT = getattr(_ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0x2000)
CO_COROUTINE, FUTURES = 0x80, 0x1ff0000  # FUTURES: of "from __future__ import"
VALUE = "__kernel_value__"
LOCATION = ("lineno", "col_offset", "end_lineno", "end_col_offset")


def part(name):
    """Returns the namespace of a part of the kernel, which is compiled when it is first needed."""
    if name not in LOADED:
        found = {**globals(), "__name__": f"kernel_{name}"}
        exec(compile(PARTS[name], "<kernel>", "exec"), found)
        LOADED[name] = found
    return LOADED[name]


LOADED = {}


class StdinNotImplementedError(RuntimeError):
    pass


def no_input(prompt="", /):
    raise StdinNotImplementedError("input() is not available: a cell has no standard input")


class NullInput(io.TextIOBase):
    """sys.stdin, which is always at its end."""
    encoding, errors, name, mode = "utf-8", "strict", "<stdin>", "r"

    def readable(self):
        return True

    def fileno(self):
        return 0

    def read(self, _=-1):
        return ""

    def readline(self, _=-1):
        return ""

    def close(self):  # exit() does this
        pass


class AfterImport:
    """Finds a module as if it were not there, and then calls a function of the kernel with it."""

    def __init__(self, hooks):
        self.hooks = hooks

    def find_spec(self, name, path=None, target=None):
        hook = self.hooks.pop(name, None)
        if hook is None:
            return None
        import importlib.machinery
        try:
            importlib.import_module(name)
        except BaseException:
            self.hooks[name] = hook
            raise
        module = sys.modules[name]
        spec = importlib.machinery.ModuleSpec(name, self, origin=getattr(module, "__file__", None),
                                              is_package=hasattr(module, "__path__"))
        hook(module)
        # The import system prefers the spec of a module that it finds loaded.
        self.before, module.__spec__ = module.__spec__, spec
        return spec

    def create_module(self, spec):
        return sys.modules[spec.name]

    def exec_module(self, module):
        module.__spec__ = self.before


class Python(Kernel):
    def __init__(self):
        super().__init__()
        main = type(sys)("__main__")
        main.__builtins__, main.__doc__ = builtins, None
        sys.modules["__main__"] = main
        self.module, self.names = main, main.__dict__
        self.names["display"] = self.display
        builtins.input = no_input
        sys.stdin, sys.__stdin__ = NullInput(), None
        sys.stdout, sys.stderr = Stream(self.output, "stdout"), Stream(self.output, "stderr")
        sys.argv, sys.displayhook = [""], self.show
        if not SAFE_PATH:
            sys.path.insert(0, "")
        sys.excepthook = self.on_thread_error
        self.shell, self.starting, self.failure = None, False, None
        self.loop, self.flags, self.shown = None, AWAIT, []
        sys.meta_path.insert(0, AfterImport({
            "IPython": lambda _: self.start_shell(), "matplotlib.pyplot": self.hook_pyplot}))

    # -------------------------------------------------------------- results

    def bundle(self, value):
        return part("rich")["bundle"](self, value)

    def result(self, bundle, is_main):
        """Writes a result, given the representations of a value by their MIME types."""
        self.output.event(part("rich")["result_json"](bundle, is_main))

    def show(self, value):
        """The display hook: the value of a cell's last expression."""
        if value is None:
            return
        for name, older in (("___", "__"), ("__", "_")):
            if older in self.names:
                self.names[name] = self.names[older]
        self.names["_"] = value
        kind = type(value)
        if kind is int or kind is float or kind is str or kind is bool:
            # Nothing else than text: the code for rich results is not needed.
            text = repr(value)
            text = text[1:-1] if kind is str else text
            if len(text) <= 1 << 20:
                self.output.event('{"type":"result","is_main_result":true,"text":%s,"extra":{}}' %
                                  quote(clean(text)))
                return
        self.result(self.bundle(value), True)

    def display(self, *values, raw=False, **_):
        for value in values:
            self.result(value if raw else self.bundle(value), False)

    def hook_pyplot(self, pyplot):
        part("rich")["hook_pyplot"](self, pyplot)

    def show_figures(self):
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None:
            part("rich")["show_figures"](self, pyplot)

    # --------------------------------------------------------------- errors

    def traceback(self, error):
        """Formats an exception, without the frames of the kernel."""
        import traceback
        found = traceback.TracebackException(type(error), error, error.__traceback__)
        todo, seen = [found], set()
        while todo:
            one = todo.pop()
            if one is None or id(one) in seen:
                continue
            seen.add(id(one))
            one.stack[:] = self.frames(one.stack)
            todo += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]
        return "".join(found.format()).rstrip("\n")

    def frames(self, stack):
        """Returns the frames of a traceback from the first one of a cell on."""
        shown = [frame for frame in stack if frame.filename != "<kernel>"]
        cells = [i for i, frame in enumerate(shown) if frame.filename.startswith("Cell In[")]
        if cells:
            return shown[cells[0]:]
        return [] if shown and "/IPython/core/" in shown[0].filename else shown

    def report(self, error):
        """Writes the event of an exception that left a cell."""
        try:
            value = str(error)
        except (Exception, SystemExit):
            value = "<exception str() failed>"
        try:
            text = self.traceback(error)
        except (Exception, SystemExit) as why:
            text = f"{type(error).__name__}: {value}\n(no traceback: {type(why).__name__})"
        if self.output.is_child():
            sys.stderr.write(text + "\n")
            os._exit(1)
        self.error(type(error).__name__, value, text)

    def on_thread_error(self, _, error, __):
        sys.stderr.write(self.traceback(error) + "\n")

    # ---------------------------------------------------------------- cells

    def remember(self, code, name):
        """Lets tracebacks and the inspect module find the source of a cell."""
        linecache = sys.modules.get("linecache")
        if linecache is None:
            import linecache
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)

    def parse(self, code, name):
        return compile(code, name, "exec", self.flags | _ast.PyCF_ONLY_AST, True)

    def run(self, tree, name, quiet):
        """Runs the statements; shows the value if the last of them is an expression."""
        last = tree.body[-1] if tree.body else None
        shown = isinstance(last, _ast.Expr) and not quiet
        if shown:
            where = {field: getattr(last, field) for field in LOCATION}
            target = _ast.Name(id=VALUE, ctx=_ast.Store(), **where)
            tree.body[-1] = _ast.Assign(targets=[target], value=last.value, **where)
        code = compile(tree, name, "exec", self.flags, True)
        self.flags |= code.co_flags & FUTURES
        try:
            if code.co_flags & CO_COROUTINE:
                self.wait_for(eval(code, self.names))
            else:
                if self.loop is not None:
                    self.event_loop()
                exec(code, self.names)
        finally:
            value = self.names.pop(VALUE, None)
        if shown:
            sys.displayhook(value)

    def event_loop(self):
        import asyncio
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        return self.loop

    def wait_for(self, coroutine):
        loop = self.event_loop()
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        except (KeyboardInterrupt, SystemExit) as error:
            if task.done():  # it was in the middle of its own code
                raise
            task.cancel()
            try:
                loop.run_until_complete(task)
            except BaseException as end:  # its traceback is where the cell was waiting
                if isinstance(error, KeyboardInterrupt):
                    raise KeyboardInterrupt().with_traceback(end.__traceback__) from None
            raise

    def start_shell(self):
        """Creates the shell of IPython; returns None if it is not installed."""
        if self.shell is None and not self.starting:
            self.starting = True
            try:
                self.shell = part("shell_ipython")["start"](self)
            except ImportError:
                pass
            finally:
                self.starting = False
        return self.shell

    def run_cell(self, code, name):
        if self.shell is not None:
            return part("shell_ipython")["run"](self, code)
        try:
            tree = self.parse(code, name)
        except SyntaxError:
            magic = part("magic")
            if not magic["is_magic"](code):
                raise
            if self.start_shell() is not None:
                return part("shell_ipython")["run"](self, code)
            code = magic["transform"](code)
            self.names.setdefault("__magic__", magic["Magic"](self))
            self.remember(code, name)
            try:
                tree = self.parse(code, name)
            except SyntaxError as other:
                raise other from None
        return self.run(tree, name, code.rstrip()[-1:] == ";")

    def execute(self, request):
        code, env = request["code"], request.get("env_vars") or {}
        before = {name: os.environ.get(name) for name in env}
        name = f"Cell In[{self.count}]"
        try:
            if _signal.getsignal(_signal.SIGINT) != self.on_interrupt:
                _signal.signal(_signal.SIGINT, self.on_interrupt)  # a cell before has changed it
            os.environ.update(env)
            self.remember(code, name)
            self.run_cell(code, name)
            self.finish()
        except BaseException as error:
            self.report(error)
            self.finish_failed()
        finally:
            for variable, value in before.items():
                if value is None:
                    os.environ.pop(variable, None)
                else:
                    os.environ[variable] = value

    def finish(self):
        self.show_figures()
        for stream in (sys.stdout, sys.stderr):
            if not isinstance(stream, Stream):
                try:
                    stream.flush()
                except Exception:
                    pass  # what a cell put there can be closed
        ctypes = sys.modules.get("ctypes")
        if ctypes is not None:  # the code of the cell can have used the buffers of C
            ctypes.CDLL(None).fflush(None)

    def finish_failed(self):
        try:
            self.finish()
        except BaseException as error:
            self.on_thread_error(None, error, None)

    def wait(self):
        """Lets tasks that a cell left behind go on until the next request."""
        loop = self.loop
        if loop is None or self.queue or loop.is_closed() or not sys.modules["asyncio"].all_tasks(loop):
            return super().wait()
        loop.create_task(self.wait_in_loop(loop))
        try:
            loop.run_forever()
        except BaseException as error:
            self.on_thread_error(type(error), error, error.__traceback__)
        return super().wait()

    async def wait_in_loop(self, loop):
        import asyncio
        while not self.queue and len(asyncio.all_tasks(loop)) > 1:
            await asyncio.sleep(0.005)
        loop.stop()


def main():
    if sys.version_info < (3, 8):
        sys.exit("Python 3.8 or later is needed; this is %d.%d" % sys.version_info[:2])
    kernel = Python()
    kernel.serve()
    _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
    _signal.alarm(2)  # for functions of atexit that do not end
    import atexit
    atexit._run_exitfuncs()
    kernel.output.flush()
    os._exit(0)


main()
