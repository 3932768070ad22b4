"""Parts of the fast path that are switched off for a feature."""

import pytest

from slo.policies.answer_cache import AnswerCachePolicy, answer_cache_of
from slo.policies.drafts import DraftRule, drafting_model
from slo.policies.fast_path_switches import (
    FastPathSwitch,
    SwitchedPart,
    split_switches,
    with_switches,
)
from slo.policies.file import Policies
from slo.policies.small_first import SmallFirst
from slo.policies.stream_continuation import StreamContinuation, continuations_allowed

POLICIES = Policies(
    answer_cache=(AnswerCachePolicy(name="faq"),),
    small_first=(SmallFirst(name="mini", small="gpt-mini"),),
    drafts=(DraftRule(name="quick", model="gpt-mini"),),
    stream_continuation=(StreamContinuation(name="all"),),
)
#: True for each part that is on for a feature of the team acme.
PARTS = {
    SwitchedPart.ANSWER_CACHE: lambda policies, feature: bool(
        answer_cache_of(policies.answer_cache, "acme", feature)
    ),
    SwitchedPart.SMALL_FIRST: lambda policies, feature: bool(
        next(rule for rule in policies.small_first if rule.applies_to("acme", feature)).small
    ),
    SwitchedPart.DRAFTS: lambda policies, feature: bool(
        drafting_model(policies.drafts, "acme", feature)
    ),
    SwitchedPart.STREAM_CONTINUATION: lambda policies, feature: bool(
        continuations_allowed(policies.stream_continuation, "acme", feature)
    ),
}


@pytest.mark.parametrize("off", SwitchedPart)
@pytest.mark.parametrize("feature", ["chat", ""])
def test_a_switch_turns_off_one_part_of_one_feature_alone(off: SwitchedPart, feature: str):
    policies = with_switches(POLICIES, [FastPathSwitch("acme", feature, off)])

    assert {part for part, is_on in PARTS.items() if not is_on(policies, feature)} == {off}
    assert all(is_on(policies, "other") for is_on in PARTS.values())


def test_another_teams_calls_follow_their_rules():
    policies = with_switches(
        POLICIES, [FastPathSwitch("other", "chat", part) for part in SwitchedPart]
    )

    assert all(is_on(policies, "chat") for is_on in PARTS.values())


def test_switches_and_rules_are_told_apart():
    switch = FastPathSwitch("acme", "chat", SwitchedPart.DRAFTS)

    rules, off = split_switches(with_switches(POLICIES, [switch]).drafts)

    assert tuple(rules) == POLICIES.drafts
    assert off == {("acme", "chat")}


def test_without_switches_the_policies_are_those_of_the_file():
    assert with_switches(POLICIES, []) == POLICIES
