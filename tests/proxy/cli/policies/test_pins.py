"""Pins by hand: what a person says holds, for as long as that person says."""

from collections.abc import Callable

import msgspec
import pytest
import typer

from proxy.cli.policies.objectives import objectives
from proxy.cli.terminal import Terminal
from proxy.settings import Settings
from slo.objectives.objective import Enforce, Metric, Objective, RequestKind
from slo.policies.file import Policies
from tests.fakes.admission_harness import NOW
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.objectives import objective

CHAT = objective(
    name="chat-ttft",
    metric=Metric.TTFT,
    under=0.5,
    enforce=Enforce.DEGRADE,
    ladder=("elsewhere", "small"),
)


def of(objective: Objective) -> Callable[[Terminal], typer.Typer]:
    return lambda terminal: objectives(
        terminal, Settings, lambda _: Policies(objectives=(objective,))
    )


group = of(CHAT)


@pytest.fixture
def runner(tmp_path):
    return CommandRunner(tmp_path, NOW)


def test_a_list_without_pins_says_so(runner):
    assert "Nothing is pinned." in runner.said(group, "pins")


def test_a_pin_is_set_listed_and_released(runner):
    output = runner.said(group, "pin", "chat-ttft", "2", "--for", "4h", "--why", "gpu 3 burns")
    shown = runner.said(group, "pins")

    assert "pinned to fallback level 2 (small) until" in output
    assert "chat-ttft" in shown
    assert "gpu 3 burns" in shown
    assert "follows measurements again" in runner.said(group, "release", "chat-ttft")
    assert "Nothing is pinned." in runner.said(group, "pins")


def test_a_pin_is_shown_with_the_person_who_set_it(runner):
    assert "Nothing was pinned." in runner.said(group, "pins", "--all")
    runner.said(group, "pin", "chat-ttft", "1", "--why", "a launch")
    runner.now += 60
    runner.said(group, "pin", "chat-ttft", "2", "--by", "[red]bob")
    runner.now += 60
    runner.said(group, "release", "chat-ttft")

    lines = [line.split() for line in runner.said(group, "pins", "--all").splitlines()]
    assert [(line[1], *line[8:]) for line in lines[1:]] == [
        ("2", "[red]bob"),
        ("1", "ann", "a", "launch"),
    ]


@pytest.mark.parametrize(
    ("level", "sentence"), [("small", "level 2 (small)"), ("elsewhere", "level 1 (")]
)
def test_a_fallback_level_may_be_given_by_its_name(runner, level, sentence):
    assert sentence in runner.said(group, "pin", "chat-ttft", level)


def test_a_number_is_a_fallback_levels_number_before_it_is_a_name(runner):
    two = msgspec.structs.replace(CHAT, ladder=("2", "1", "7b"))
    outputs = [runner.said(of(two), "pin", "chat-ttft", level) for level in ("1", "7b")]

    assert ["level 1 (2)" in outputs[0], "level 3 (7b)" in outputs[1]] == [True, True]


def test_a_pin_of_streams_alone_says_so(runner):
    streams = msgspec.structs.replace(CHAT, calls=RequestKind.STREAMS)

    assert "level 2 (small), streams only, until" in runner.said(
        of(streams), "pin", "chat-ttft", "2"
    )


def test_fallback_level_0_is_what_calls_ask_for(runner):
    assert "level 0 (what calls ask for)" in runner.said(group, "pin", "chat-ttft", "0")


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("nothing", "0"), "Known are: chat-ttft"),
        (("chat-ttft", "3"), "Its levels are: 0 (what calls ask for), 1 (elsewhere), 2 (small)."),
        (("chat-ttft", "smal"), "chat-ttft has no fallback level smal."),
        (("chat-ttft", "\N{SUPERSCRIPT TWO}"), "has no fallback level"),
        (("chat-ttft", "1", "--for", "soon"), "such as 30m, 4h or 2d"),
        (("chat-ttft", "1", "--for", "31d"), "up to 30 days"),
    ],
)
def test_an_impossible_pin_is_reported_with_its_fix(runner, words, fix):
    assert fix in runner.error_of(group, "pin", *words)


def test_an_objective_without_a_pin_cannot_be_released(runner):
    assert "is not pinned" in runner.error_of(group, "release", "chat-ttft")
