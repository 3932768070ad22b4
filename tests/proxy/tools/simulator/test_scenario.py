"""Scenarios: read with every mistake named, and played alike each time."""

from importlib import resources

import pytest

from proxy.tools.simulator.fault_directives import FaultDirectives, parse_directives
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.scenario import Scenario, ScenarioPhase, read
from slo.toml.problems import InvalidFile
from tests.proxy.tools.simulator.scene import SimulatorHarness

MODELS = ("big", "small")
WHOLE = """
[[phases]]
at = "5m"
for = "10m"
models = ["big"]
slow = 3
fault = "503"
share = 0.25
requests_per_minute = 60
"""


def test_a_phase_is_read_and_told_in_words():
    (phase,) = read(WHOLE, "s.toml", MODELS)

    assert phase == ScenarioPhase(
        at=300.0,
        until=900.0,
        models=("big",),
        slow=3.0,
        fault="503",
        share=0.25,
        requests_per_minute=60,
    )
    assert str(phase) == (
        "from 5m to 15m, big: 3 times slower, fault 503 for 25% of calls, 60 requests a minute"
    )


def test_the_shipped_incident_is_sound_for_the_models_of_the_catalog():
    text = resources.files("proxy.tools.simulator").joinpath("incident.toml").read_text("utf8")

    assert next(str(problem) for problem in read(text, "incident", ["gpt-5.6-terra"])) == (
        "from 2m to 12m, gpt-5.6-terra: 3 times slower"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('for = "long"', 's.toml:4: phases[0].for: is "long"; write a duration, such as "90s"'),
        ("for = 10", 's.toml:4: phases[0].for: is 10; write for = "10m"'),
        ('models = ["bg"]', 'names "bg", which is not known; did you mean big?'),
        ("slow = 0", "phases[0].slow: is 0; write a number above 0 and up to 1000"),
        ("slow = true", "phases[0].slow: is true; write a number above 0"),
        ('fault = "dearth"', 'phases[0].fault: is "dearth"; write a status from 400 to 599'),
        ('fault = "stall=soon"', 'phases[0].fault: is "stall=soon"; write a status'),
        ("share = 0.5", "phases[0].share: is of no fault; write a fault, too"),
        ("share = 1.5", "phases[0].share: is 1.5; write a number above 0 and up to 1"),
        ("requests_per_minute = 0", 'is 0; write fault = "429" to refuse all calls'),
        ("slov = 3", "phases[0].slov: is not known; did you mean slow?"),
    ],
)
def test_a_wrong_field_is_named_with_line_and_fix(line, message):
    text = f'[[phases]]\nat = "1s"\nslow = 2\n{line}\n'
    if line.startswith("slow"):
        text = text.replace("slow = 2\n", "")

    with pytest.raises(InvalidFile) as bad:
        read(text, "s.toml", MODELS)

    assert message in str(bad.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.toml:1: has no phases; write a table [[phases]]"),
        ("[[phases]]\nslow = 2\n", 'phases[0]: has no `at`; write at = "0s"'),
        ('[[phases]]\nat = "0s"\n', "phases[0]: does nothing; write slow, fault or"),
        ("phases = 3\n", "s.toml:1: phases: is 3; write an [ array ]"),
        ("[[phase]]\n", "phase: is not known; did you mean phases?"),
        ("[[phases]\n", "s.toml:1: is not TOML"),
    ],
)
def test_a_file_of_another_form_is_refused(text, message):
    with pytest.raises(InvalidFile) as bad:
        read(text, "s.toml", MODELS)

    assert message in str(bad.value)


def test_a_phase_holds_for_its_time_and_its_models_alone():
    played = Scenario((ScenarioPhase(at=10, until=20, models=("big",), slow=3),), start=100)

    assert [played.cues("big", 100 + time) for time in (9, 10, 19, 20)] == [
        FaultDirectives(),
        parse_directives("slow=3"),
        parse_directives("slow=3"),
        FaultDirectives(),
    ]
    assert played.cues("small", 115) == FaultDirectives()


def test_a_share_of_calls_meets_a_fault_evenly_spread():
    played = Scenario((ScenarioPhase(at=0, fault="503", share=0.25),), start=0)

    met = [played.cues("big", 1).status for _ in range(8)]

    assert met == [0, 0, 0, 503, 0, 0, 0, 503]


def test_calls_beyond_a_rate_limit_are_told_when_to_come_back():
    played = Scenario((ScenarioPhase(at=0, requests_per_minute=2),), start=0)

    met = [played.cues("big", 0) for _ in range(3)]

    assert [directives.status for directives in met] == [0, 0, 429]
    assert met[2].number("429", 0) == 30


def test_the_simulator_plays_its_phases(vocabulary: Vocabulary):
    scene = SimulatorHarness(vocabulary)
    scene.lab._scenario = Scenario((ScenarioPhase(at=0, until=60, fault="503"),), scene.lab.clock())

    assert scene.chat().status_code == 503
