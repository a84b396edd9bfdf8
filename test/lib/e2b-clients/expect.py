# SPDX-License-Identifier: Apache-2.0
"""expect.py - checks of the programs in this directory, which run with the Python of the SDK"""
import os
import sys
import time


def eq(got, wanted, what="value"):
    assert got == wanted, f"{what} is {got!r:.2000}, not {wanted!r:.2000}"


def raises(kind, f, text=""):
    """Returns the exception of this kind that f() raises; its message contains @text."""
    try:
        got = f()
    except kind as e:
        assert text in str(e), f"{text!r} is not in {e!r}"
        return e
    raise AssertionError(f"no {kind.__name__}, but {got!r}")


def until(condition, what):
    """Waits until it is true; returns its value."""
    for _ in range(300):
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"not within 30 s: {what}")


def step(name):
    """Has the test do something with the service."""
    print(f"step {name}", flush=True)
    return sys.stdin.readline().strip()


def done():
    """Ends the program, after all its checks. Threads of the SDK's transport may abort the interpreter when it ends."""
    print("done", flush=True)
    os._exit(0)
