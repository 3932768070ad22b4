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
def live_gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[BudgetGateway]:
    monkeypatch.setenv("SIMULATOR_KEY", "simulator-key")
    with budget_gateway(tmp_path, FIVE + OBJECTIVE.format("60s")) as running:
        yield running


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def page(live_gateway: BudgetGateway, name: str) -> httpx.Response:
    return httpx.get(
        live_gateway.url.removesuffix("/v1") + name, timeout=30, trust_env=False, verify=PLAIN
    )


def metric(live_gateway: BudgetGateway, name: str) -> float:
    lines = page(live_gateway, "/metrics").text.splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(name)))


def reloads(live_gateway: BudgetGateway, result: str) -> float:
    return metric(live_gateway, f'thriftgate_config_reloads_total{{result="{result}"}}')


def cost(answer: httpx.Response) -> float:
    return float(answer.headers["x-thriftgate-cost-usd"])


def test_a_price_a_limit_and_an_objective_change_while_a_call_runs(live_gateway, tmp_path):
    before = live_gateway.call()
    good = 'thriftgate_objective_good_total{objective="quick"}'
    bad = 'thriftgate_objective_bad_total{objective="quick"}'
    until(lambda: metric(live_gateway, good) == 1)
    catalog = tmp_path / "catalog.toml"

    with ThreadPoolExecutor(1) as pool:
        live_gateway.gate.clear()
        under_way = pool.submit(live_gateway.call)
        front: Any = live_gateway.gateway.app
        until(lambda: front._admission.body_memory.calls == 1)
        catalog.write_text(catalog.read_text().replace('output = "100"', 'output = "50"'))
        (tmp_path / "policies.toml").write_text(FIVE + OBJECTIVE.format("1ms"))
        until(lambda: reloads(live_gateway, "success") == 1)
        live_gateway.gate.set()
        answers = [before, under_way.result(), live_gateway.call()]

    # A call under way keeps the price that it began with.
    assert cost(answers[1]) == pytest.approx(cost(before), rel=0.2)
    assert cost(answers[2]) == pytest.approx(cost(before) / 2, rel=0.2)
    # What was counted goes on, and what ends now is judged by the new objective.
    until(lambda: metric(live_gateway, bad) == 2)
    assert metric(live_gateway, good) == 1

    spent = sum(map(cost, answers))
    (tmp_path / "policies.toml").write_text(FIVE.replace('"5"', f'"{spent + 0.001:.6f}"'))
    until(lambda: reloads(live_gateway, "success") == 2)
    refused = live_gateway.call()
    assert refused.status_code == 429
    assert float(refused.json()["error"]["spent"]) == pytest.approx(spent)


def test_a_bad_file_is_refused_whole_and_the_gateway_says_so(live_gateway, tmp_path):
    catalog = tmp_path / "catalog.toml"
    first = cost(live_gateway.call())

    catalog.write_text(catalog.read_text().replace('output = "100"', 'output = "50"'))
    (tmp_path / "policies.toml").write_text(FIVE.replace('"5"', '"-1"'))
    until(lambda: reloads(live_gateway, "failure") >= 1)

    assert cost(live_gateway.call()) == pytest.approx(first, rel=0.2)
    ready = page(live_gateway, "/readyz")
    assert ready.status_code == 200
    assert "policies.toml:7: budgets.day.limit" in ready.json()["notes"][0]
    assert metric(live_gateway, "thriftgate_config_last_reload_successful") == 0

    (tmp_path / "policies.toml").write_text(FIVE)
    until(lambda: metric(live_gateway, "thriftgate_config_last_reload_successful") == 1)
    assert "notes" not in page(live_gateway, "/readyz").json()
    assert cost(live_gateway.call()) == pytest.approx(first / 2, rel=0.2)
