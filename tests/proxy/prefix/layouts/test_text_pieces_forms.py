"""JSON and XML stay valid where pieces leave."""

import json
from itertools import chain
from xml.etree import ElementTree as ET

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.layouts.text_pieces import (
    TextForm,
    TextPiece,
    json_reference,
    keeps_form,
    text_form,
)
from proxy.prefix.prompts.prompt import PromptSlot
from tests.examples import examples
from tests.fakes.layout_workloads import badly_built
from tests.fakes.workloads import Workload
from tests.proxy.prefix.planning_requests import TARGETS, PlanningProcess, learned_layout


def piece_of(text: str, leaves: bool) -> TextPiece:  # noqa: FBT001 - as in the tables
    return TextPiece(PromptSlot.VARIABLE if leaves else PromptSlot.STABLE, text)


SHAPES = {shape.sent.name: shape.sent for shape in badly_built()}


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('{"a": 1}\n', TextForm.JSON),
        ('["a", {"b": [1]}]', TextForm.JSON),
        ('{"a": 1} and more', TextForm.PLAIN),
        ("{name}, answer in English.", TextForm.PLAIN),
        ("<a><b c='1'>d</b><e/></a>", TextForm.XML),
        ("<a>Is 1 < 2?</a>\n", TextForm.XML),
        ("<a><b></a></b>", TextForm.PLAIN),
        ("<p>One<br>", TextForm.PLAIN),
        ("Answer in <answer> tags.", TextForm.PLAIN),
        ("", TextForm.PLAIN),
        ('"\ud800"', TextForm.PLAIN),
    ],
)
def test_form_is_that_of_the_whole_text(text, form):
    assert text_form(text) is form


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ('  "now": "12:00",\n', '  "Detail 1": "given below",\n'),
        ('"now": "12:00"', '"Detail 1": "given below"'),
        ('"a": {"b": 1}, "c": [2] ,', '"Detail 1": "given below",'),
        ('"Be kind.",\n', '"Detail 1 is given below",\n'),
        ("{}, {}", '"Detail 1 is given below"'),
        (" \n", " \n"),
        ('{"a": 1, "b":', None),
        ('Be kind. Be brief."', None),
    ],
)
def test_reference_stands_in_place_of_whole_members_or_elements(text, reference):
    assert json_reference(text, "Detail 1", "below") == reference


@pytest.mark.parametrize(
    ("pieces", "remaining"),
    [
        ([('{"a": 1,', False), ('"b": 2,', True), ('"c": 3}', False)], True),
        ([('{"a": "Be kind. ', False), ("It is 12:00. ", True), ('Be brief."}', False)], False),
        ([("<a>\n", False), ("<b>12:00</b>\n", True), ("<c/></a>", False)], True),
        ([("<a>\n<b>", True), ("12:00</b>\n", False), ("<c/></a>", False)], False),
        ([("Be kind. ", False), ('{"b": ', True), ("Be brief.", False)], True),
    ],
)
def test_pieces_leave_only_texts_that_stay_valid(pieces, remaining):
    assert keeps_form([piece_of(*piece) for piece in pieces]) is remaining


@examples(50)
@given(
    st.dictionaries(st.text(max_size=6), st.one_of(st.text(max_size=8), st.integers()), min_size=1),
    st.integers(0, 9),
    st.sampled_from([0, 2]),
)
def test_object_without_any_of_its_members_is_valid(members, at, indent):
    lines = json.dumps(members, indent=indent).split("\n")
    at = 1 + at % (len(lines) - 2) if len(lines) > 2 else 0
    pieces = [piece_of(f"{line}\n", leaves=number == at) for number, line in enumerate(lines)]

    assert keeps_form(pieces) is (len(lines) > 2)


def arranged_systems(workload: Workload) -> list[tuple[str, str]]:
    """The system texts of a feature's later sessions, as they came and as they are sent."""
    target = TARGETS["block-chain"]
    bodies = [
        [orjson.dumps({**turn.body, "model": "any"}) for turn in session.turns]
        for session in workload.sessions[:6]
    ]
    layout = learned_layout(target, chain(*bodies[:4]))
    assert layout is not None
    process, prompts = PlanningProcess(target, layout=layout), []
    for raw in chain(*bodies[4:]):
        came, sent = orjson.loads(raw), orjson.loads(process.send(raw).body)
        prompts.append((came["messages"][0]["content"], sent["messages"][0]["content"]))
    return prompts


@pytest.mark.parametrize("name", ["JSON, pretty", "JSON, one line"])
def test_json_instructions_are_valid_once_their_clock_moved(name):
    for came, sent in arranged_systems(SHAPES[name]):
        before, after = json.loads(came), json.loads(sent)

        assert "current_time" not in after
        assert "Current time" in after
        assert list(after)[-1] == "customer"
        assert {key: after[key] for key in ("customer", "role", "rules")} == {
            key: before[key] for key in ("customer", "role", "rules")
        }


def test_xml_instructions_are_valid_once_their_clock_moved():
    for came, sent in arranged_systems(SHAPES["XML"]):
        before, after = (ET.fromstring(text) for text in (came, sent))  # noqa: S314 - ours

        assert after.find(".//time") is None
        assert "[Current time is given at the end of the conversation.]" in sent
        assert after.findtext("rules") == before.findtext("rules")
        assert after.findtext("customer") == before.findtext("context/customer")
