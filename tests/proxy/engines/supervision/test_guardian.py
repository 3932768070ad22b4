import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from proxy.engines.supervision import guardian
from tests.fakes.engines import engine_argv, is_alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="It traces processes on Linux.")


@contextmanager
def run_guardian(*argv, grace="0.2"):
    """A guardian's lifeline as a file of lines, and its process."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-S", guardian.__file__, grace, *argv]
    with ours, ours.makefile("rw") as lifeline:
        ours.settimeout(60)
        process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)  # noqa: S603 - ours
        theirs.close()
        try:
            yield lifeline, process
        finally:
            process.kill()
            process.wait()


def report(lifeline):
    return lifeline.readline().strip()


def order(lifeline, text):
    lifeline.write(f"{text}\n")
    lifeline.flush()


def read_pid(lifeline):
    word, pid = report(lifeline).split()
    assert word == "started"
    return int(pid)


def wait_for_daemon(file):
    """The id of the daemon that a fake engine starts."""
    while not (file.exists() and file.read_text()):
        time.sleep(0.01)
    return int(file.read_text())


def test_the_exit_status_of_the_engine_is_reported():
    with run_guardian(*engine_argv("--exit-code", "3")) as (lifeline, process):
        read_pid(lifeline)

        assert report(lifeline) == "ended 3 0"
        assert process.wait(60) == 0


def test_a_program_that_is_not_there_is_reported():
    with run_guardian("/nowhere/engine") as (lifeline, _):
        assert report(lifeline) == "failed 2 No such file or directory"


def test_a_kill_takes_daemons_in_sessions_of_their_own_along(tmp_path):
    file = tmp_path / "daemon"
    with run_guardian(*engine_argv("--daemon", str(file), "--say", "x")) as (lifeline, _):
        engine = read_pid(lifeline)
        daemon = wait_for_daemon(file)
        assert os.getsid(daemon) != engine

        order(lifeline, "kill")

        assert report(lifeline).startswith("ended ")
        assert not is_alive(daemon)
        assert not is_alive(engine)


def test_an_engine_that_ignores_sigterm_is_killed_after_its_time(tmp_path):
    file = tmp_path / "daemon"
    with run_guardian(*engine_argv("--ignore-sigterm", "--daemon", str(file))) as (lifeline, _):
        read_pid(lifeline)
        daemon = wait_for_daemon(file)

        order(lifeline, "stop 0.2")

        assert report(lifeline) == "ended -9 0"
        assert not is_alive(daemon)


def test_the_end_of_the_lifeline_ends_the_engine(tmp_path):
    file = tmp_path / "daemon"
    flags = ("--daemon", str(file), "--ignore-sigterm")
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-S", guardian.__file__, "0.2", *engine_argv(*flags)]
    with subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL) as process:  # noqa: S603 - ours
        theirs.close()
        with ours.makefile() as lines:
            engine = int(lines.readline().split()[1])
            daemon = wait_for_daemon(file)
        ours.close()

        assert process.wait(60) == 0

    assert not is_alive(engine)
    assert not is_alive(daemon)


def test_an_engine_dies_with_its_guardian():
    with run_guardian(*engine_argv("--start-delay", "600")) as (lifeline, process):
        engine = read_pid(lifeline)

        process.kill()
        process.wait()

        while is_alive(engine):
            time.sleep(0.01)


def test_sigterm_to_the_guardian_is_left_to_the_supervisor():
    with run_guardian(*engine_argv("--start-delay", "600")) as (lifeline, process):
        engine = read_pid(lifeline)

        process.send_signal(signal.SIGTERM)
        order(lifeline, "stop 60")

        assert report(lifeline) == "ended -15 0"
        assert not is_alive(engine)
