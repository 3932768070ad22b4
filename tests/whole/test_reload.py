"""Catalog and policies change while calls run, and no counter is lost."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.budget_gateway import FIVE, BudgetGateway, budget_gateway
from tests.fakes.plain_http import PLAIN

OBJECTIVE = """
[[objectives]]
name = "quick"
metric = "total"
p = 95
under = "{}"
"""


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[BudgetGateway]:
    monkeypatch.setenv("SIMULATOR_KEY", "simulator-key")
    with budget_gateway(tmp_path, FIVE + OBJECTIVE.format("60s")) as made:
        yield made


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def page(running: BudgetGateway, name: str) -> httpx.Response:
    return httpx.get(
        running.url.removesuffix("/v1") + name, timeout=30, trust_env=False, verify=PLAIN
    )


def metric(running: BudgetGateway, name: str) -> float:
    lines = page(running, "/metrics").text.splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(name)))


def reloads(running: BudgetGateway, result: str) -> float:
    return metric(running, f'thriftgate_config_reloads_total{{result="{result}"}}')


def cost(answer: httpx.Response) -> float:
    return float(answer.headers["x-thriftgate-cost-usd"])


def test_a_price_a_limit_and_an_objective_change_while_a_call_runs(running, tmp_path):
    before = running.call()
    good = 'thriftgate_objective_good_total{objective="quick"}'
    bad = 'thriftgate_objective_bad_total{objective="quick"}'
    until(lambda: metric(running, good) == 1)
    catalog = tmp_path / "catalog.toml"

    with ThreadPoolExecutor(1) as pool:
        running.gate.clear()
        under_way = pool.submit(running.call)
        front: Any = running.gateway.app
        until(lambda: front._in_flight == 1)
        catalog.write_text(catalog.read_text().replace('output = "100"', 'output = "50"'))
        (tmp_path / "policies.toml").write_text(FIVE + OBJECTIVE.format("1ms"))
        until(lambda: reloads(running, "success") == 1)
        running.gate.set()
        answers = [before, under_way.result(), running.call()]

    # A call under way keeps the price that it began with.
    assert cost(answers[1]) == pytest.approx(cost(before), rel=0.2)
    assert cost(answers[2]) == pytest.approx(cost(before) / 2, rel=0.2)
    # What was counted goes on, and what ends now is judged by the new objective.
    until(lambda: metric(running, bad) == 2)
    assert metric(running, good) == 1

    spent = sum(map(cost, answers))
    (tmp_path / "policies.toml").write_text(FIVE.replace('"5"', f'"{spent + 0.001:.6f}"'))
    until(lambda: reloads(running, "success") == 2)
    refused = running.call()
    assert refused.status_code == 429
    assert float(refused.json()["error"]["spent"]) == pytest.approx(spent)


def test_a_bad_file_is_refused_whole_and_the_gateway_says_so(running, tmp_path):
    catalog = tmp_path / "catalog.toml"
    first = cost(running.call())

    catalog.write_text(catalog.read_text().replace('output = "100"', 'output = "50"'))
    (tmp_path / "policies.toml").write_text(FIVE.replace('"5"', '"-1"'))
    until(lambda: reloads(running, "failure") >= 1)

    assert cost(running.call()) == pytest.approx(first, rel=0.2)
    ready = page(running, "/readyz")
    assert ready.status_code == 200
    assert "policies.toml:7: budgets.day.limit" in ready.json()["notes"][0]
    assert metric(running, "thriftgate_config_last_reload_successful") == 0

    (tmp_path / "policies.toml").write_text(FIVE)
    until(lambda: metric(running, "thriftgate_config_last_reload_successful") == 1)
    assert "notes" not in page(running, "/readyz").json()
    assert cost(running.call()) == pytest.approx(first / 2, rel=0.2)
