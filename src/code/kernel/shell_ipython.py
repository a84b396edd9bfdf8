# SPDX-License-Identifier: Apache-2.0
# shell_ipython.py - part of the kernel of Python: cells that IPython runs
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell


class KernelDisplayHook(DisplayHook):
    """Writes the value of a cell's last expression as its main result."""
    kernel = None

    def __call__(self, result=None):
        self.check_for_underscore()
        if result is None or self.quiet():
            return
        self.update_user_ns(result)
        found = self.kernel.bundle(result)
        self.log_output({"text/plain": found.get("text/plain", "")})
        self.kernel.result(found, True)


class KernelDisplayPublisher(DisplayPublisher):
    kernel = None

    def publish(self, data, *_, **__):
        self.kernel.result(data, False)

    def clear_output(self, wait=False):
        pass


class KernelShell(InteractiveShell):
    kernel = None

    def showtraceback(self, exc_tuple=None, *_, **__):
        self.kernel.failure = self._get_exc_info(exc_tuple)[1]

    def showsyntaxerror(self, *_, **__):
        self.kernel.failure = self._get_exc_info(None)[1]

    showindentationerror = showsyntaxerror

    def enable_matplotlib(self, gui=None):
        return "inline", "agg"  # figures are always displayed in line

    def enable_gui(self, gui=None):
        pass

    def ask_exit(self):
        raise SystemExit

    def system(self, command):
        """A command writes to the descriptors of the kernel, which are captured."""
        import subprocess
        command = self.var_expand(command, depth=1)
        shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        self.user_ns["_exit_code"] = subprocess.run([shell, "-c", command]).returncode

    system_piped = system_raw = system


def quiet_config():
    from traitlets.config import Config
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.colors = "NoColor"
    return config


def start(kernel):
    KernelShell.kernel = KernelDisplayHook.kernel = KernelDisplayPublisher.kernel = kernel
    hook, excepthook = sys.displayhook, sys.excepthook
    shell = KernelShell.instance(config=quiet_config(), user_module=kernel.module, user_ns=kernel.names,
                                 displayhook_class=KernelDisplayHook, display_pub_class=KernelDisplayPublisher)
    sys.displayhook, sys.excepthook = hook, excepthook
    builtins.input = no_input
    shell.display_formatter.mimebundle_formatter.for_type_by_name(
        "matplotlib.figure", "Figure", lambda figure, *_, **__: part("rich")["figure_bundle"](figure))
    shell.execution_count = kernel.count
    shell.loop_runner = kernel.wait_for
    shell.compile.get_code_name = lambda raw, code, number: f"Cell In[{number}]"
    import warnings
    warnings.filterwarnings("ignore", message="To exit: use")
    return shell


def run(kernel, code):
    shell, kernel.failure = kernel.shell, None
    shell.execution_count = kernel.count
    builtins.input = no_input
    shell.run_cell(code, store_history=True)
    if kernel.failure is not None:
        raise kernel.failure
