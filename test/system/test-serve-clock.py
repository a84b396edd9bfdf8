#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve-clock.py - changing the machine's clock neither extends nor shortens lifetimes

Prints TAP. A preloaded library (clock_set.c) adds an offset of the test to the service's system time.
"""
import contextlib
import datetime
import mmap
import os
import signal
import sqlite3
import struct
import time
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from reboot import reboot  # pylint: disable=wrong-import-position
from serve_world import WAIT, World, until  # pylint: disable=wrong-import-position

PRELOAD = os.path.join(BUILD, "test", "libclock_set.so")
DAY = 24 * 3600


class SetWorld(World):
    """A service whose system time the test controls: set(seconds)."""

    def __init__(self, *args, **kw):
        if not os.path.exists(PRELOAD):
            raise Skip("libclock_set.so is not built")
        self.page = None
        super().__init__(*args, start=False, **kw)
        self.clock = f"{self.dir}/clock"
        with open(self.clock, "wb") as f:
            f.write(bytes(8))
        with open(self.clock, "r+b") as f:
            self.page = mmap.mmap(f.fileno(), 8)
        try:
            self.start()
        except BaseException:
            self.discard()
            raise

    def start(self, wait=True):
        os.environ.update(LD_PRELOAD=PRELOAD, WARREN_CLOCK=self.clock)
        try:
            return super().start(wait)
        finally:
            del os.environ["LD_PRELOAD"], os.environ["WARREN_CLOCK"]

    def set(self, seconds):
        self.page[:] = struct.pack("q", seconds)

    def meta(self, change=None):
        """The stored state of the clock: boot id, offset, last clock time, and its system time."""
        with contextlib.closing(sqlite3.connect(f"{self.state}/serve/warren.db", timeout=WAIT)) as db, db:
            boot, *numbers = db.execute("SELECT value FROM meta WHERE key = 'clock'").fetchone()[0].split()
            kept = [boot, *map(int, numbers)]
            if change:
                change(kept)
                db.execute("UPDATE meta SET value = ? WHERE key = 'clock'", (" ".join(map(str, kept)),))
        return kept


def end_all(w):
    """Kills all processes of all sandboxes, while the service runs."""
    for p in w.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(p, signal.SIGKILL)


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def gone(w, box):
    return w.ask("GET", f"/v1/sandboxes/{box}").status == 404


def unknown(w, token):
    return w.ask("GET", "/v1/sandboxes", token=token, tcp=True).status == 401


@test
def a_clock_that_was_set_is_no_reboot():
    for days in (-400, 400):
        with SetWorld() as w:
            box = w.create()
            w.set(days * DAY)
            w.kill("api", "warden")
            w.start()
            w.ready()
            eq(w.run(box, "echo here")["stdout"], "here\n")
            end_all(w)
            until(lambda w=w, box=box: w.show(box)["state"] == "failed", lambda w=w, box=box: w.show(box))
            control = w.create()
            reboot(w)
            until(lambda w=w, box=control: w.show(box)["state"] == "lost", lambda w=w, box=control: w.show(box))
            for one in (box, control):
                w.delete(one)


@test
def a_change_of_the_clock_does_not_change_lifetimes():
    with SetWorld(tcp=True) as w:
        for seconds in (-DAY, DAY):
            w.set(0)
            lasting, token = w.create(ttl_ms=3600 * 1000), w.token("read", expires_in_ms=3600 * 1000)
            idle = w.create(idle_timeout_ms=3600 * 1000, on_idle="delete")
            short, brief = w.create(ttl_ms=4000), w.token("read", expires_in_ms=4000)
            sleepy = w.create(idle_timeout_ms=4000, on_idle="delete")
            ok(not unknown(w, token) and not unknown(w, brief), "tokens that are new")
            w.set(seconds)
            # Times are shown in the current system time.
            left = when(w.show(lasting)["expires_at"]) - (time.time() + seconds)
            ok(3000 < left <= 3600, f"{left} s are left of an hour")
            ok(abs(when(w.show(lasting)["created_at"]) - time.time() - seconds) < 120, w.show(lasting))
            if seconds < 0:
                w.kill("api", "warden")
            else:
                w.stop()
            w.start()
            until(lambda s=short: gone(w, s), "it outlives its time to live")
            until(lambda s=sleepy: gone(w, s), "it outlives its idle time")
            until(lambda b=brief: unknown(w, b), "a token outlives its time")
            time.sleep(0.5)
            ok(not unknown(w, token), f"a token of an hour is over, {seconds}")
            eq([w.show(x)["state"] for x in (lasting, idle)], ["running", "running"], f"what has an hour, {seconds}")
            w.delete(lasting)
            w.delete(idle)


@test
def lifetimes_continue_after_a_reboot():
    with SetWorld() as w:
        def reboot(away, seconds):
            """Simulates a reboot that took @away, during which the clock was changed by @seconds."""
            w.stop()
            before = w.meta()

            def other(kept):
                kept[0] = "another-boot"
                kept[1] = 12345
                kept[3] -= away * 1000
            w.meta(other)
            w.set(seconds)
            w.start()
            return (w.meta()[2] - before[2]) / 1000

        passed = reboot(1000, 0)
        ok(1000 <= passed < 1000 + WAIT, f"{passed} s by the time of day that passed")
        passed = reboot(0, -DAY)
        ok(0 <= passed < WAIT, f"{passed} s, though the time of day went back")
        w.set(0)
        passed = reboot(0, 0)
        ok(passed >= 0, f"{passed} s: it went back")
        box = w.create(ttl_ms=3600 * 1000)
        ok(abs(when(w.show(box)["created_at"]) - time.time()) < WAIT, "what is shown is the time of day")
        w.stop()

        # The service was down for longer than the sandbox's lifetime: it has expired.
        w.meta(lambda kept: (kept.__setitem__(0, "another-boot"), kept.__setitem__(3, kept[3] - 2 * 3600 * 1000)))
        w.start()
        until(lambda: gone(w, box), "it outlives its time, over a reboot")


@test
def expiry_times_of_an_older_database_are_kept():
    """A database without a stored clock contains system times."""
    with SetWorld() as w:
        short, long = w.create(ttl_ms=5000), w.create(ttl_ms=3600 * 1000)
        shown = w.show(long)
        w.stop()
        with contextlib.closing(sqlite3.connect(f"{w.state}/serve/warren.db")) as db, db:
            db.execute("DELETE FROM meta WHERE key = 'clock'")
        w.start()
        ok(abs(when(w.show(long)["expires_at"]) - when(shown["expires_at"])) < 1, (shown, w.show(long)))
        until(lambda: gone(w, short), "it outlives its time")
        eq(w.show(long)["state"], "running", "the other")


if __name__ == "__main__":
    run_tests()
