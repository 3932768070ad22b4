"""Tests of why none of a feature's text moved."""

from collections.abc import Iterable
from typing import Any

import msgspec

from proxy.prefix.layouts.layout import Layout
from proxy.prefix.layouts.learning import CALLS, CONVERSATIONS, LEAST
from proxy.tools.replay.planning import PlannedVariant
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.unmoved_text import FeatureNote, FeatureProgress
from slo.usage import Usage
from tests.proxy.tools.replay.scene import (
    RULES,
    assistant,
    call,
    prompt_reader,
    system,
    user,
    with_times,
)

LONG = [f"{rule} It stands in volume {number}." for number, rule in enumerate(RULES * 4)]


def numbered_call(number: int) -> RecordedCall:
    """A conversation of one call, whose number stands above the rules."""
    instructions = system(f"Call number {number}.", *LONG)
    return call(instructions, user(f"Who are you, {number}?"), conversation=str(number))


def numbered_calls(turns: int) -> list[RecordedCall]:
    """One conversation, whose instructions begin with the number of the call."""
    messages = [user("Who are you?")]
    calls = []
    for turn in range(turns):
        calls.append(call(system(f"Call number {turn}.", *LONG), *messages, conversation="long"))
        messages += [assistant(f"I am {turn}."), user(f"And then, after {turn}?")]
    return calls


def of(feature: str, calls: Iterable[RecordedCall]) -> list[RecordedCall]:
    return [msgspec.structs.replace(line, feature=feature) for line in calls]


def unmoved_features(
    vocabulary, calls: list[RecordedCall], model: str = "blocks", **more: Any
) -> list[FeatureNote]:
    variant = PlannedVariant(prompt_reader(model, vocabulary), 0.0, arranges=True, **more)
    for now, line in with_times(calls):
        variant.body(line, now)
        variant.record_answer(Usage(input=1))
    return list(variant.unmoved_features())


def why(vocabulary, calls: list[RecordedCall], model: str = "blocks") -> str:
    (feature,) = unmoved_features(vocabulary, calls, model)
    assert (feature.feature, feature.calls) == ("f", len(calls))
    return feature.why


def test_a_feature_whose_text_moved_needs_no_reason(vocabulary):
    assert unmoved_features(vocabulary, [numbered_call(number) for number in range(30)]) == []


def test_text_that_its_caller_declared_and_that_moved_needs_none_either(vocabulary):
    question = user("<tg:variable>It is noon.</tg:variable> What is there to eat?")

    assert unmoved_features(vocabulary, [call(question)]) == []


def test_marking_alone_moves_nothing_and_tells_nothing(vocabulary):
    variant = PlannedVariant(prompt_reader("blocks", vocabulary), 0.0, arranges=False)
    variant.body(call(user("Hi")), 0.0)

    assert variant.unmoved_features() == ()


def test_unmoved_features_name_calls_that_cannot_be_planned(vocabulary):
    reason = why(vocabulary, [call({"role": 7, "content": "Well?"})])

    assert reason.startswith("no call could be planned: ")
    assert len(reason) > len("no call could be planned: ")


def test_calls_without_instructions(vocabulary):
    about = "What is said of it in the handbook, and where? " * 50
    calls = [call(user(f"Question {n}. {about}"), conversation=str(n)) for n in range(30)]

    assert why(vocabulary, calls) == "its calls have no instructions"


def test_instructions_that_never_vary(vocabulary):
    calls = [call(system(*LONG), user(f"{n}"), conversation=str(n)) for n in range(30)]

    assert why(vocabulary, calls) == "its instructions are the same in every call"


def test_too_few_calls(vocabulary):
    assert why(vocabulary, [numbered_call(1), numbered_call(2), numbered_call(3)]) == (
        f"too little to learn from: 3 of {CALLS} calls and 3 of {CONVERSATIONS} conversations"
    )


def test_prompts_that_the_cache_does_not_keep(vocabulary):
    calls = [numbered_call(number) for number in range(30)]

    assert why(vocabulary, calls, "large") == (
        "moves would not reach the 100,000 tokens its cache keeps"
    )


def test_moves_that_no_conversation_could_begin_with(vocabulary):
    assert why(vocabulary, numbered_calls(12)) == "no conversation began after moves were learned"


def test_unmoved_features_name_moves_that_fit_no_later_conversation(vocabulary):
    later = [
        call(system("Other rules.", "Few." * 600), user(f"{n}"), conversation=f"{n}")
        for n in (1, 2)
    ]

    assert why(vocabulary, [*numbered_calls(12), *later]).startswith("Detail stays: ")


def test_texts_that_have_nothing_in_common(vocabulary):
    calls = [
        call(system(*(f"{n} says {n * k}." for k in range(200))), user("Hi"), conversation=f"{n}")
        for n in range(30)
    ]

    assert why(vocabulary, calls) == (
        f"no move of what varies would let an average call read {LEAST} tokens more"
    )


def test_prompts_too_small_to_be_planned_by_a_gateway_are_not_planned_here(vocabulary):
    reason = why(vocabulary, [call(system("Be brief."), user("Hi"))])

    assert reason == "no call could be planned: its prompts are under 2 KB"


def test_unmoved_features_are_those_of_most_calls(vocabulary):
    calls = [line for n in range(1, 9) for line in of(f"f{n}", [call(user("Hi"))] * n)]

    features = unmoved_features(vocabulary, calls)

    assert [(feature.feature, feature.calls) for feature in features] == [
        (f"f{n}", n) for n in (8, 7, 6, 5, 4)
    ]


def test_features_remembered_are_bounded_and_one_that_returns_goes_on(vocabulary):
    arranged = [numbered_call(number) for number in range(30)]
    rest = [line for n in range(5) for line in of(f"f{n}", [call(user("Hi"))])]

    features = unmoved_features(vocabulary, [*arranged, *rest, arranged[-1]], max_features=3)

    assert [(feature.feature, feature.calls) for feature in features] == [
        ("f3", 1),
        ("f4", 1),
        ("f", 1),
    ]


def test_a_layout_that_is_rolled_back_gives_way_to_the_one_before():
    progress = FeatureProgress()
    for _ in range(2):
        progress.approve(Layout())
    progress.step_back(1, 10.0)

    assert (progress.current_version, progress.closed_until) == (2, 0.0)
    progress.step_back(2, 10.0)
    assert (progress.current_version, progress.closed_until) == (1, 10.0)
    progress.step_back(1, 20.0)
    assert (progress.current_version, progress.layout_version(2)) == (0, Layout())
