import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import orjson
import pytest
import uvloop
from rich.console import Console
from typer.testing import CliRunner

from proxy.cli import main
from proxy.tools.demo.result import DemoResult
from proxy.tools.demo.run import demo, progress, run
from tests.proxy.tools.demo.scripts import NOW, Says, a_stage, plan, send_calls

COUNT = 12


@pytest.fixture
def level() -> Iterator[None]:
    """The command silences the log; other tests read it."""
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


@pytest.fixture(scope="module")
def result_and_output() -> tuple[DemoResult, str]:
    out = StringIO()
    results: list[DemoResult] = []
    playing = demo(
        Console(file=out, width=80), now=NOW, port=0, stays=False, tell=results.append, count=COUNT
    )
    result = uvloop.run(playing)
    assert results == [result]
    return result, out.getvalue()


def test_every_call_is_answered_and_in_the_ledger_once(
    result_and_output: tuple[DemoResult, str],
) -> None:
    result, _ = result_and_output

    assert result.is_sound
    assert len(result.calls) == result.ledger_calls == COUNT


def test_the_ledger_says_what_the_sdk_was_told(result_and_output: tuple[DemoResult, str]) -> None:
    result, _ = result_and_output
    (total,) = result.total

    assert total.usage.prompt_tokens == sum(call.input for call in result.calls)
    assert total.usage.cache_read == sum(call.cached for call in result.calls)
    assert total.usage.generated_tokens == sum(call.output for call in result.calls)
    assert total.cost_nanos
    assert not total.unpriced
    assert not total.estimated


def test_other_ways_are_reckoned_from_the_same_calls(
    result_and_output: tuple[DemoResult, str],
) -> None:
    result, text = result_and_output
    (total,) = result.total

    assert (
        sum(totals.prompt for totals in result.otherwise.direct.values())
        == total.usage.prompt_tokens
    )
    assert "directly" in text


def test_a_demo_shows_all_teams(result_and_output: tuple[DemoResult, str]) -> None:
    _, text = result_and_output

    assert "acme-support" in text
    assert "acme-engineering" in text
    assert "acme-docs" in text
    assert "shared prefix" in text
    assert f"{COUNT}/{COUNT}" in text


class InterruptingConsole(Console):
    """Somebody who stops it at the first word."""

    def print(self, *objects: Any, **style: Any) -> None:
        if "listens" in str(objects):
            os.kill(os.getpid(), signal.SIGTERM)


def status(console: Console, tell: Callable[[DemoResult], None]) -> int:
    return run(console, now=NOW, port=0, stays=True, tell=tell, count=4)


def test_a_termination_ends_it_with_status_0_once_the_result_is_told() -> None:
    results: list[DemoResult] = []

    def stop(result: DemoResult) -> None:
        results.append(result)
        os.kill(os.getpid(), signal.SIGTERM)

    assert status(Console(quiet=True), stop) == 0
    assert len(results) == 1


def test_a_demo_stopped_before_its_result_is_no_success() -> None:
    results: list[DemoResult] = []

    assert status(InterruptingConsole(file=StringIO()), results.append) == 130
    assert results == []


@pytest.mark.usefixtures("level")
def test_a_demo_with_json_prints_one_line() -> None:
    arguments = ["demo", "--exit", "--json", "--port", "0", "--calls", str(COUNT)]
    ran = CliRunner().invoke(main._commands, arguments)
    (line,) = ran.stdout.splitlines()
    document = orjson.loads(line)

    assert ran.exit_code == 0
    assert document["calls"] == document["ledger_calls"] == COUNT
    assert document["ledger_complete"] is True
    assert document["cost_usd"] > 0
    assert document["direct_cost_usd"] > 0
    assert 0 <= document["direct_hit_rate"] <= 1
    assert document["orders"].keys() == {"variable first", "stable first", "shared prefix"}
    assert document["orders"]["stable first"]["direct_cost_usd"] > 0


def test_without_its_extra_the_demo_says_what_to_install() -> None:
    code = "import sys; sys.modules['openai'] = None; from proxy.cli.main import main; main()"
    command = [sys.executable, "-c", code, "demo", "--exit"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own

    assert done.returncode == 1
    assert "pip install 'thriftgate[demo]'" in done.stderr


def test_the_bar_ends_with_all_calls_and_what_the_ledger_says_they_cost() -> None:
    out = StringIO()

    async def scene() -> int:
        async with a_stage() as staged:
            async with progress(Console(file=out, width=80), staged, 1) as tell:
                (answer,) = await send_calls(staged, plan(Says("Refunds. " * 4000)))
                tell(answer)
            return answer.input

    tokens = asyncio.run(scene())

    assert "1/1" in out.getvalue()
    assert "calls/s" in out.getvalue()
    assert f"${tokens * 2.5e-6:.2f}" in out.getvalue()


def test_a_quiet_console_shows_nothing() -> None:
    out = StringIO()

    async def scene() -> None:
        async with a_stage() as staged, progress(Console(file=out, quiet=True), staged, 1):
            pass

    asyncio.run(scene())

    assert out.getvalue() == ""
