import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import typer

from proxy.caches.regimes import REGIMES
from proxy.catalog.catalog import Catalog
from proxy.cli.terminal import Terminal
from proxy.cli.testing.simulator import _catalog_toml, _model, _welcome_text, simulator_command
from proxy.configuration import read_catalog
from proxy.settings import read
from tests.fakes.cli_runner import CommandRunner, single_command
from tests.fakes.receipts import START

PROGRAM = (sys.executable, "-c", "from proxy.cli.main import main; main()")


def shipped_catalog() -> Catalog:
    return read_catalog(read({}))


def output_and_answer(folder: Path, *options: str) -> tuple[list[str], str]:
    """Return what it says until it waits, and what a call to it answers, made as it says."""
    with subprocess.Popen(  # noqa: S603 - our own program
        [*PROGRAM, "simulator", "--port", "0", *options],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
    ) as running:
        assert running.stdout
        lines = []
        for line in running.stdout:
            lines.append(line.rstrip("\n"))
            if "Ctrl-C" in line:
                break
        answer = run_curl(next(line for line in reversed(lines) if line.startswith("curl ")))
        running.send_signal(signal.SIGINT)
        assert running.stdout.read() == "The simulator stopped.\n"
        assert running.wait(10) == os.EX_OK
    return lines, answer


def run_curl(curl: str) -> str:
    words = shlex.split(curl)
    headers = dict(word.split(": ") for word in words if ": " in word and not word.startswith("{"))
    request = Request(words[2], words[-1].encode(), headers)  # noqa: S310 - the simulator's own address
    with urlopen(request, timeout=10) as answer:  # noqa: S310
        assert answer.headers["x-simulator"] == "simulated"
        return str(json.load(answer)["choices"][0]["message"]["content"])


def catalog(lines: list[str], folder: Path) -> Catalog:
    """The catalog of a gateway that was given the lines as they stand."""
    start = next(n for n, line in enumerate(lines) if line.startswith("# "))
    end = next(n for n, line in enumerate(lines) if line.startswith("In another terminal"))
    path = folder / "simulator.toml"
    path.write_text("\n".join(lines[start:end]))
    return read_catalog(read({"THRIFTGATE_CATALOG": str(path)}))


def test_a_gateway_with_its_lines_sends_every_call_to_it_and_no_real_key(tmp_path: Path) -> None:
    lines, answer = output_and_answer(tmp_path)
    models = catalog(lines, tmp_path)

    assert "SIMULATED" in lines[0]
    assert {upstream.base_url for upstream in models.upstreams.values()} == {
        lines[0].split()[4][:-1]
    }
    assert not any(upstream.key_env for upstream in models.upstreams.values())
    assert answer.startswith("[simulated]")


def test_simulators_catalog_is_written_to_a_file(tmp_path: Path) -> None:
    lines, answer = output_and_answer(tmp_path, "--catalog", "simulator.toml")

    assert "simulat" in answer.lower()
    assert "The catalog that stands a gateway before it is in simulator.toml." in lines
    assert not any(line.startswith("[upstreams]") for line in lines)
    read_back = read_catalog(read({"THRIFTGATE_CATALOG": str(tmp_path / "simulator.toml")}))
    assert all("127.0.0.1" in upstream.base_url for upstream in read_back.upstreams.values())


def test_a_regime_option_serves_one_model(tmp_path: Path) -> None:
    lines, answer = output_and_answer(tmp_path, "--regime", "block-chain")

    assert "simulator-block-chain" in catalog(lines, tmp_path).models
    assert answer.startswith("[simulated]")


@pytest.mark.parametrize("regime", sorted(REGIMES))
def test_each_regime_has_lines_that_a_catalog_takes(tmp_path: Path, regime: str) -> None:
    lines = [
        *_welcome_text(
            "http://127.0.0.1:1/v1", _catalog_toml(regime, "http://127.0.0.1:1/v1"), "m", regime
        )
    ]
    (route,) = catalog(lines, tmp_path).models[f"simulator-{regime}"].routes

    assert (route.regime, route.tariff) == (regime, None)
    assert route.upstream.kind == _model(regime).wire
    curls = [line for line in lines if line.startswith("curl ")]
    assert len(curls) == (1 if regime.startswith("anthropic") else 2)


def command() -> Callable[[Terminal], typer.Typer]:
    return single_command(lambda terminal: simulator_command(terminal, shipped_catalog))


def test_a_port_that_is_taken_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])

        assert CommandRunner(tmp_path, START).error_of(command(), "--port", port) == (
            f"Cannot listen on port {port} of 127.0.0.1: it is taken."
            " --port names another; 0 takes any that is free."
        )


@pytest.mark.parametrize("words", [("--regime", "none"), ("--port", "99999")])
def test_an_invalid_simulator_option_is_refused_before_it_begins(
    tmp_path: Path, words: tuple[str, str]
) -> None:
    code, output = CommandRunner(tmp_path, START)._run(command(), words)

    assert code == 2
    assert words[0] in output


def test_a_scenario_is_said_and_played(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[[phases]]\nat = "0s"\nfault = "words=150"\n')

    lines, answer = output_and_answer(tmp_path, "--scenario", "s.toml")

    assert "Scenario: from 0s, all models: fault words=150." in lines
    assert len(answer.split()) > 100  # sixty words where nobody asks for more


def test_the_shipped_incident_names_models_of_the_catalog(tmp_path: Path) -> None:
    lines, _ = output_and_answer(tmp_path, "--scenario", "incident")

    assert "Scenario: from 2m to 12m, gpt-5.6-terra: 3 times slower." in lines


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[[phases]]\nat = "1s"\nslow = "x"\n', "s.toml:3: phases[0].slow: is the string"),
        (None, "s.toml cannot be read: No such file"),
    ],
)
def test_a_scenario_with_a_mistake_is_refused_with_its_line(
    tmp_path: Path, text: str | None, why: str
) -> None:
    if text is not None:
        (tmp_path / "s.toml").write_text(text)

    assert why in CommandRunner(tmp_path, START).error_of(
        command(), "--port", "0", "--scenario", str(tmp_path / "s.toml")
    )
