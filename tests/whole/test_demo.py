"""``thriftgate demo`` as it stays up: the commands that it prints work until Ctrl-C."""

import os
import shlex
import signal
import subprocess
import sys

import orjson

from tests.fakes.terminal_command import TERMINAL_COMMAND


def output(command: list[str]) -> str:
    ran = subprocess.run(command, capture_output=True, check=True)  # noqa: S603 - as it was printed
    return ran.stdout.decode()


def test_demo_saves_at_least_60_percent_of_what_its_calls_cost_directly() -> None:
    document = orjson.loads(output([*TERMINAL_COMMAND, "demo", "--exit", "--json", "--port", "0"]))

    assert document["calls"] == 200
    assert document["cost_usd"] <= 0.4 * document["direct_cost_usd"]


def test_a_demo_stays_up_for_the_printed_commands_until_ctrl_c() -> None:
    options = ["demo", "--port", "0", "--calls", "4"]
    with subprocess.Popen(  # noqa: S603 - our own program
        [*TERMINAL_COMMAND, *options], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        lines = []
        for line in running.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                break
        _, _, after = "".join(lines).partition("pip install openai):\n\n")
        snippet, _, _ = after.partition("What the gateway would save")
        curl = next(line for line in lines if line.startswith("curl "))
        ran, fetched = output([sys.executable, "-c", snippet]), output(shlex.split(curl))
        running.send_signal(signal.SIGINT)
        ended = running.wait(60)

    assert "[simulated]" in ran
    assert "x-thriftgate-cost-usd" in fetched
    assert "[simulated]" in fetched
    assert ended == os.EX_OK
