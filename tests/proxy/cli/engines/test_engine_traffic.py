"""PrefixReuse and load of engines as `engine status` shows them."""

import pytest
from rich.console import Console

from proxy.cli.engines.engine_traffic import print_traffic
from proxy.cli.terminal import Terminal
from proxy.engines.state.traffic_file import (
    EngineTraffic,
    PrefixReuse,
    ReplicaTraffic,
    SpeculationReport,
    WarmingReport,
)


def replica(number: int, **changes: object) -> ReplicaTraffic:
    text = {
        "name": f"house:{number}",
        "profile": "house",
        "model": "m",
        "base_url": "http://a/v1",
        "is_healthy": True,
        "running": 2.0,
        "waiting": 1.0,
        "kv_usage": 0.5,
        "kv_dtype": "fp8",
        "preemptions": 12.0,
        "calls_in_flight": 3,
    }
    return ReplicaTraffic(**{**text, **changes})  # type: ignore[arg-type]


HALF = PrefixReuse(prompt_tokens=2_000, available=1_500, captured=1_000, delivered=500)
TRAFFIC = EngineTraffic(
    pid=7,
    at=0.0,
    models={"m": HALF},
    replicas=(
        replica(0, reuse=HALF, events=True),
        replica(
            1,
            is_healthy=False,
            reason="its address refuses connections",
            running=None,
            kv_usage=None,
        ),
    ),
    speculation=(
        SpeculationReport(profile="house", recommended="", reason="r", kv_cache="More KV."),
        SpeculationReport(profile="other", recommended="", reason="r", kv_cache="Less KV."),
    ),
    warming=(
        WarmingReport(
            profile="house",
            kind="next_turn",
            prompts=12,
            computed_tokens=3_400,
            cost_nanos=2_500_000,
            used_calls=9,
            used_tokens=2_100,
            saved_s=4.25,
        ),
    ),
)


@pytest.fixture
def print_table():
    console = Console(width=200, force_terminal=False, color_system=None, markup=False)
    console.record = True

    def fail_if_called(*_):
        raise AssertionError

    def show(*args):
        print_traffic(Terminal(fail_if_called, lambda: 0.0, console, fail_if_called), *args)
        return [line.split() for line in console.export_text().splitlines() if line.strip()]

    return show


def test_each_route_has_its_reuse_and_load_and_the_model_the_sum_of_all(print_table):
    lines = [" ".join(line) for line in print_table([TRAFFIC])]

    assert lines[0] == "Gateway of process 7, since it started:"
    assert "house:0/m healthy 3 2 1 50% fp8 12 2,000 75% 50% 25% its events" in lines
    assert "house:1/m its address refuses connections 3 unknown 1 unknown fp8 12 0 a guess" in lines
    assert "all of m 2,000 75% 50% 25%" in lines


def test_prompts_that_were_read_ahead_are_shown_with_their_cost_and_gain(print_table):
    lines = [" ".join(line) for line in print_table([TRAFFIC], "house")]

    assert "house: next turn 12 3,400 $0.0025 9 2,100 4.2 s" in lines


def test_advice_on_the_kv_cache_is_shown_of_the_profile_that_was_asked_for(print_table):
    lines = [" ".join(line) for line in print_table([TRAFFIC], "house")]

    assert "house: More KV." in lines
    assert "other: Less KV." not in lines


def test_without_a_gateway_or_with_none_of_the_profile_it_says_what_is_not_known(print_table):
    for gateways, profile in (([], ""), ([TRAFFIC], "other")):
        (words,) = print_table(gateways, profile)
        assert " ".join(words).startswith("No gateway runs here")
