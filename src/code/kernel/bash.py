# SPDX-License-Identifier: Apache-2.0
# bash.py - the kernel of Bash: one interactive shell, which reads cells as commands from a pipe
#
# The shell is interactive, because only then an interrupt ends the whole cell but not the shell. It
# inherits descriptors 1 and 2, whose output becomes events. After each cell, it writes the exit
# status to a separate pipe. A status other than 0 is reported as an error with the name ExitStatus.
# This follows output.py in the same namespace.
import re
import subprocess

STATUS_FD, STDERR_FD = 199, 198
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# The standard error is connected late, because the shell complains that it controls no terminal.
SETUP = (f"PS1= PS2= PROMPT_COMMAND= __kernel_status=0; unset HISTFILE MAILCHECK; set +o history +H; "
         f"__kernel_again() {{ return $__kernel_status; }}; exec 2>&{STDERR_FD} {STDERR_FD}>&-\n")


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


class Bash(Kernel):
    def __init__(self):
        super().__init__()
        self.shell, self.stopped, self.terminal = None, False, None
        self.sending, self.end_of_cell = _thread.allocate_lock(), ""

    def open_terminal(self):
        """Returns a terminal whose modes an interactive shell can set, as it does when a child is killed."""
        if self.terminal is None:
            try:
                self.terminal = os.openpty()
            except OSError:
                self.terminal = (-1, subprocess.DEVNULL)
        return self.terminal[1]

    def start(self):
        self.status, writer = os.pipe()
        self.statuses = b""
        os.dup2(writer, STATUS_FD)
        os.close(writer)
        os.dup2(2, STDERR_FD)
        try:
            self.shell = subprocess.Popen(["bash", "--norc", "--noediting", "-i"], stdin=subprocess.PIPE, bufsize=0,
                                          stderr=self.open_terminal(), pass_fds=(STATUS_FD, STDERR_FD),
                                          start_new_session=True)
        finally:
            os.close(STATUS_FD)
            os.close(STDERR_FD)
        self.send(SETUP)

    def send(self, text):
        data = text.encode("utf-8", "surrogateescape")
        try:
            with self.sending:
                while data:
                    data = data[self.shell.stdin.write(data):]
        except (OSError, ValueError):
            pass  # the shell has ended, which is noticed when its status is read

    def on_interrupt(self, *_):
        pass  # the signal is for the shell

    def signal_cell(self, cell):
        self.stopped = True
        try:
            os.killpg(self.shell.pid, _signal.SIGINT)
        except (OSError, AttributeError):
            return  # the shell has ended
        self.send(self.end_of_cell)  # the signal can also end the command that reports the status

    def commands(self, code, env):
        """Returns what the shell reads for a cell: the code, and the end of it, which can be repeated."""
        before, after = [], []
        for name, value in env.items():
            had, old = f"__kernel_had_{name}", f"__kernel_old_{name}"
            before.append(f"{had}=${{{name}+x}} {old}=${{{name}-}}; export {name}={quoted(value)}; ")
            after.append(f'if [ "${{{had}+x}}" ]; then if [ "${had}" ]; then {name}=${old}; else unset {name}; fi; '
                         f"unset {had} {old}; fi; ")
        end = f"__kernel_status=$?; {''.join(after)}echo {self.count} $__kernel_status >&{STATUS_FD}\n"
        return f"{''.join(before)}__kernel_again; eval {quoted(code)} </dev/null {STATUS_FD}>&-\n", end

    def wait_status(self):
        """Returns the exit status, or None if the shell itself has ended."""
        while True:
            while b"\n" not in self.statuses:
                data = os_read(self.status, 64)
                if not data:
                    return None
                self.statuses += data
            line, _, self.statuses = self.statuses.partition(b"\n")
            cell, status = line.split()
            if int(cell) == self.count:
                return int(status)

    def ended(self):
        self.shell.stdin.close()
        os.close(self.status)
        code, self.shell = self.shell.wait(), None
        how = f"signal {-code}" if code < 0 else f"status {code}"
        self.error("ShellExit", str(code), f"the shell ended with {how}, and its variables are lost; "
                   "the next cell starts another shell")

    def execute(self, request):
        code, env = request["code"], request.get("env_vars") or {}
        wrong = [name for name in env if not NAME.match(name)]
        if wrong or "\0" in code:
            what = f"{wrong[0]!r} is not the name of a variable" if wrong else "the code contains a NUL character"
            return self.error("ValueError", what, f"ValueError: {what}")
        self.stopped = False
        try:
            if self.shell is None:
                self.start()
        except OSError as error:
            return self.error("OSError", str(error), f"cannot start bash: {error}")
        command, self.end_of_cell = self.commands(code, env)
        self.send(command + self.end_of_cell)
        status = self.wait_status()
        if status is None:
            return self.ended()
        if self.stopped and status > 128:
            return self.error("KeyboardInterrupt", "", "the cell was interrupted")
        if status != 0:
            return self.error("ExitStatus", str(status), f"exit status {status}")
        return None


def main():
    kernel = Bash()
    kernel.serve()
    if kernel.shell is not None:
        os.killpg(kernel.shell.pid, _signal.SIGHUP)
    kernel.output.flush()
    os._exit(0)


main()
