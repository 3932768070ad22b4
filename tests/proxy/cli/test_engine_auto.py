"""``auto`` asks for a rolling change once measurements are sure, and not more than once an hour."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import pytest
import typer

from proxy.cli.engine_auto import (
    LOOK_INTERVAL_S,
    MIN_RUN_S,
    feature_reader,
    follow_measurements,
)
from proxy.engines.speculation.auto_choice import SpeculationChoice, SpeculationRecord
from proxy.engines.speculation.feature_advice import MIN_CALLS, FeatureSpeculation
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.engine_profiles import a_profile
from tests.fakes.receipts import START, an_engine_receipt
from tests.fakes.virtual_clock import run_in_virtual_time

PROFILE = a_profile('speculative = "auto"\ngpu = "H100"')


def measured_calls(with_drafts: float, without: float) -> Mapping[str, FeatureSpeculation]:
    """Calls of a feature at these tokens per second."""
    feature = FeatureSpeculation(MIN_CALLS, 300 * MIN_CALLS, 200 * MIN_CALLS)
    for _ in range(MIN_CALLS):
        feature.drafted.add_output(100, 100 / with_drafts)
        feature.plain.add_output(100, 100 / without)
    return {"chat": feature}


class Changes:
    """Counts the requests for rolling changes, and carries them out."""

    def __init__(self, record: SpeculationRecord) -> None:
        self.requests: list[bool] = []
        self._record = record

    def request(self, *, also_unchanged: bool = True) -> None:
        self.requests.append(also_unchanged)


class Clock:
    """Seconds since the epoch, as the loop's clock goes."""

    def now(self) -> float:
        return START + asyncio.get_running_loop().time()


def requests_after(
    seconds: float, features: Mapping[str, FeatureSpeculation]
) -> tuple[list[bool], SpeculationRecord]:
    async def story() -> tuple[list[bool], SpeculationRecord]:
        clock = Clock()
        choice = SpeculationChoice(setting="ngram:3", reason="first", since=clock.now())
        record = SpeculationRecord(choice=choice)
        changes = Changes(record)
        following = follow_measurements(
            PROFILE,
            record,
            changes,  # type: ignore[arg-type]
            clock,  # type: ignore[arg-type]
            lambda _since: features,
        )
        with suppress(TimeoutError):
            await asyncio.wait_for(following, seconds)
        return changes.requests, record

    return run_in_virtual_time(story)


def test_a_method_whose_own_calls_are_surely_slower_is_replaced_after_an_hour():
    early, _ = requests_after(MIN_RUN_S - 1, measured_calls(80, 100))
    late, record = requests_after(MIN_RUN_S + LOOK_INTERVAL_S + 1, measured_calls(80, 100))

    assert early == []
    assert late[:1] == [False]  # replicas whose command stays are left alone
    assert record.features == (0.8, 0.8, 0.8)


def test_a_method_whose_own_calls_are_quicker_stays():
    requests, record = requests_after(3 * MIN_RUN_S, measured_calls(150, 100))

    assert requests == []
    assert record.features == (1.5, 1.5, 1.5)


def test_calls_are_read_from_the_ledger_by_feature(tmp_path):
    runner = CommandRunner(tmp_path, START + 900)
    plain = {"draft_tokens": None, "accepted_tokens": None}
    runner.keep(
        *(an_engine_receipt(n, upstream="house:0", feature="chat") for n in range(1, 9)),
        *(an_engine_receipt(n, upstream="house:0", feature="chat", **plain) for n in (20, 21)),
        an_engine_receipt(30, upstream="other:0", feature="chat"),
    )
    features: dict[str, FeatureSpeculation] = {}

    def read(terminal):
        commands = typer.Typer()
        commands.callback()(lambda: None)
        features.update(feature_reader(terminal, PROFILE)(START))
        commands.command("nothing")(lambda: None)
        return commands

    runner.said(read, "nothing")
    chat = features["chat"]

    assert (chat.calls, chat.draft_tokens, chat.accepted_tokens) == (8, 8 * 40 + 36, 240)
    assert (chat.drafted.samples, chat.plain.samples) == (8, 2)
    assert chat.drafted.tokens == 8 * 23
    assert chat.drafted.decode_s == 8 * 0.75
    assert chat.drafted.rate_squares == pytest.approx(8 * 23 * 23 / 0.75)


def test_without_a_database_features_are_not_known():
    class Away:
        def store(self):
            raise OSError("away")

    assert feature_reader(Away(), PROFILE)(START) == {}  # type: ignore[arg-type]
