import msgspec
import pytest

from proxy.prefix.planned import Passthrough, layout_place
from proxy.records.feature_mode import LayoutScope
from slo.price import TokenRates
from tests.cache_bounds import remembers_latest
from tests.proxy.prefix.planning_requests import (
    TARGETS,
    PlanningProcess,
    body,
    conversation_messages,
    planning_request,
)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("gpt-5.4-mini", "gpt"),
        ("GPT-6.1-sol", "gpt"),
        ("claude-sonnet-5-5", "claude-sonnet"),
        ("anthropic/claude-sonnet-5-5", "claude-sonnet"),
        ("llama3", "llama"),
        ("o4", "o"),
        ("7b", ""),
        ("", ""),
    ],
)
def test_layouts_are_kept_by_feature_and_family(model, family):
    assert layout_place(planning_request(b""), model) == LayoutScope("team_1", "desk", family)


def test_a_planned_call_knows_where_its_layout_is_kept():
    planned = PlanningProcess(TARGETS["implicit"]).plan(
        planning_request(body(*conversation_messages(0)), feature="mail")
    )

    assert planned.place == LayoutScope("team_1", "mail", "any")


def test_a_passthrough_may_lack_a_reason():
    assert Passthrough().why == ""


def test_a_draft_without_its_words_is_of_the_same_conversation():
    draft = (
        PlanningProcess(TARGETS["implicit"])
        .plan(planning_request(body(*conversation_messages(0))))
        .draft
    )
    wordless = draft.without_words()

    assert (wordless.conversation, wordless.fingerprint) == (draft.conversation, draft.fingerprint)
    assert (wordless.request.body, wordless.prompt.messages) == (b"", ())


@pytest.mark.parametrize(("dollars", "is_dearer"), [(29, True), (31, False)])
def test_a_model_without_a_price_counts_as_thirty_dollars_a_million_tokens(
    dollars: int,
    is_dearer: bool,  # noqa: FBT001 - a parameter
):
    unpriced = msgspec.structs.replace(TARGETS["implicit"], rates=None)
    priced = msgspec.structs.replace(unpriced, rates=TokenRates(input=dollars * 10**9))

    assert (unpriced.token_price > priced.token_price) is is_dearer


def test_the_first_sixteen_marks_of_a_prompt_are_shown():
    planned = PlanningProcess(TARGETS["implicit"]).plan(
        planning_request(body(*conversation_messages(10)))
    )
    sent = msgspec.structs.replace(planned.evidence.sent, marks=dict.fromkeys(range(20), "5m"))
    evidence = msgspec.structs.replace(planned.evidence, sent=sent)

    assert len(msgspec.structs.replace(planned, evidence=evidence).segments().marks) == 16


def test_the_latest_4096_scopes_are_remembered():
    request = planning_request(b"")

    assert remembers_latest(lambda number: layout_place(request, f"a{chr(0x4E00 + number)}"), 4_096)
