"""``thriftgate engine costs``: bills of engines from the ledger."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer

from proxy.cli.engines.engine_costs import EngineBill, add_costs, engine_bill
from proxy.cli.terminal import Terminal
from proxy.engines.profiles import EngineProfile
from proxy.store.sql.ledger.engine_usage import ReplicaRun
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.engine_profiles import a_profile
from tests.fakes.receipts import START, an_engine_receipt

HOUSE = a_profile('replicas = 2\nprice_per_gpu_hour = "3.60"')
#: In the ledger half a GPU second each, at $0.001 a second.
NOW = START + 600
ALL_HOUR = [ReplicaRun(f"house:{n}", NOW - 9_000, NOW - 5) for n in range(2)]
CALLS = [an_engine_receipt(n, upstream=f"house:{n % 2}", cost_nanos=500_000) for n in range(10)]


def said(
    folder: Path, profile: EngineProfile, *words: str, runs: Sequence[ReplicaRun] = ALL_HOUR
) -> str:
    typed = CommandRunner(folder, NOW)
    typed.keep(*CALLS)
    store = typed.open()
    store.replica_time.extend_runs(runs)
    store.close(5)

    def group(terminal: Terminal) -> typer.Typer:
        commands = typer.Typer()
        commands.callback()(lambda: None)
        add_costs(commands, terminal, lambda: {profile.name: profile})
        return commands

    return typed.said(group, "costs", *words)


def test_used_and_idle_cost_of_an_engine_add_up_to_what_is_paid(tmp_path: Path) -> None:
    (bill,) = json.loads(said(tmp_path, HOUSE, "--json"))["engines"]
    paid, used, idle = (
        round(float(bill[f"{part}_usd"]) * 10**9) for part in ("paid", "used", "idle")
    )

    assert (bill["engine"], bill["calls"], used) == ("house", 10, 5_000_000)
    assert used + idle == paid
    assert (paid, bill["run_seconds"]) == (2 * 3_600_000_000, 7_200.0)
    assert bill["gpu_use"] == pytest.approx(5.0 / (paid / 1e6))
    assert bill["acceptance_rate"] == pytest.approx(300 / 445)


def test_the_table_names_the_engine_and_its_prices(tmp_path: Path) -> None:
    table = said(tmp_path, HOUSE)

    assert "per 1M paid" in table
    assert "house" in table


def test_without_a_price_the_money_is_unknown(tmp_path: Path) -> None:
    (bill,) = json.loads(said(tmp_path, a_profile(""), "--json"))["engines"]

    assert (bill["used_usd"], bill["idle_usd"], bill["paid_usd_per_million_tokens"]) == (None,) * 3


def test_replicas_that_never_ran_cost_nothing(tmp_path: Path) -> None:
    eight = a_profile('replicas = 8\ntensor_parallel = 4\nprice_per_gpu_hour = "2.49"')
    (bill,) = json.loads(said(tmp_path, eight, "--hours", "25", "--json", runs=()))["engines"]

    assert (bill["run_seconds"], bill["paid_usd"]) == (0, "0")


def test_only_the_part_of_the_hour_in_which_a_replica_ran_is_paid(tmp_path: Path) -> None:
    runs = [ReplicaRun("house:0", NOW - 4_000, NOW - 3_000), ReplicaRun("house:1", NOW - 90, NOW)]
    (bill,) = json.loads(said(tmp_path, HOUSE, "--json", runs=runs))["engines"]

    assert (bill["run_seconds"], bill["paid_usd"]) == (690, "0.69")


def test_an_engine_without_calls_is_idle_and_has_no_price_per_token() -> None:
    bill = engine_bill(HOUSE, [], 7_200.0)

    assert bill == EngineBill("house", 0, 0, 7_200.0, 0.0, 0, 7_200_000_000, None)
    assert bill.idle_nanos == 7_200_000_000
