"""Recorded and made-up instructions of every form stay whole where what varies in them moves."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.layouts.text_pieces import TextForm, text_form
from tests.examples import examples
from tests.fakes.badly_built import bodies, times
from tests.fakes.handbook import dice, handbook, question
from tests.fakes.recorded import KINDS, PATHS, RecordedDialogue
from tests.proxy.prefix.planning_requests import TARGETS, PlanningProcess, learned_layout

#: Conversations that a layout is learned from, those that it is applied to, and calls of each.
_LEARNED, _APPLIED, _CALLS = 6, 3, 3
_TARGET = TARGETS["block-chain"]
#: Ends a sentence that introduces what stands below it.
_INTRODUCTION = "The time, the user and the folder of this call are:"


class Facts(NamedTuple):
    """The parts of badly built instructions: what varies, by its name, and the rules."""

    varying: dict[str, str]
    rules: str


def facts(system: str) -> Facts:
    """The parts of instructions that ``tests.bench.badly_built`` makes."""
    above, _, rules = system.partition("\n\n")
    return Facts(dict(line.split(": ", 1) for line in above.split("\n")), rules)


def introduced_text(parts: Facts) -> str:
    lines = "\n".join(f"{name}: {value}" for name, value in parts.varying.items())
    return f"{_INTRODUCTION}\n{lines}\n\n{parts.rules}"


def as_json(parts: Facts, indent: int | None = None) -> str:
    return json.dumps({**parts.varying, "rules": parts.rules.split("\n\n")}, indent=indent)


def as_pretty_json(parts: Facts) -> str:
    return as_json(parts, indent=2)


def as_xml(parts: Facts) -> str:
    lines = "\n".join(
        f"<{name.replace(' ', '-')}>{escape(value)}</{name.replace(' ', '-')}>"
        for name, value in parts.varying.items()
    )
    rules = f"<rules>\n{escape(parts.rules)}\n</rules>"
    return f"<prompt>\n<context>\n{lines}\n</context>\n{rules}\n</prompt>"


FORMS: dict[str, Callable[[Facts], str]] = {
    form.__name__: form for form in (introduced_text, as_json, as_pretty_json, as_xml)
}


def made_dialogue(number: int, user: str, place: str) -> RecordedDialogue:
    """A conversation of our own, for one user in one folder."""
    messages = []
    for turn in range(_CALLS):
        messages += [
            {"role": "user", "content": question(f"{number}/{turn}")},
            {"role": "assistant", "content": f"Case {number}/{turn} is open."},
        ]
    rules = handbook(14, "forms").strip()
    return RecordedDialogue(
        name=f"{number}", feature="desk", user=user, place=place, rules=rules, messages=messages
    )


def sent_messages(
    dialogues: Sequence[RecordedDialogue], form: Callable[[Facts], str]
) -> Iterator[tuple[Facts, str, list[str]]]:
    """Of each call that a layout was applied to: its parts, its system text, other texts."""
    calls: list[list[tuple[Facts, bytes]]] = []
    for one in dialogues:
        roll = dice("forms", one.name)
        parts: list[tuple[Facts, bytes]] = []
        for body in islice(bodies(one, times(one, roll), roll), _CALLS):
            system, *rest = body["messages"]
            own = facts(system["content"])
            messages = [{"role": "system", "content": form(own)}, *rest]
            parts.append((own, orjson.dumps({"model": "any", "messages": messages})))
        calls.append(parts)
    layout = learned_layout(_TARGET, [raw for parts in calls[:_LEARNED] for _, raw in parts])
    process = PlanningProcess(_TARGET, layout=layout)
    for parts in calls[_LEARNED:]:
        for own, raw in parts:
            first, *rest = orjson.loads(process.send(raw).body)["messages"]
            yield own, _text(first), [_text(message) for message in rest]


def _text(message: dict[str, object]) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return str(content)


def check_form(form: str, system: str) -> None:
    """JSON and XML are valid; a sentence that introduces has what it introduces or a reference."""
    if form == "introduced_text":
        if _INTRODUCTION in system:
            below = system.partition(_INTRODUCTION)[2].lstrip()
            assert below.startswith(("[", "Current time: ", "User: ", "Working directory: "))
        return
    assert text_form(system) is (TextForm.XML if form == "as_xml" else TextForm.JSON)
    if form == "as_xml":
        ET.fromstring(system)  # noqa: S314 - ours
    else:
        json.loads(system)


def check_values(parts: Facts, system: str, rest: Sequence[str]) -> int:
    """Each value stands in the system text, or arrives under a label of its own topic.

    Returns:
        Number of those that moved.
    """
    moved = 0
    for name, value in parts.varying.items():
        spellings = {value, escape(value), json.dumps(value)[1:-1]}
        if any(spelling in system for spelling in spellings):
            continue
        moved += 1
        end = next(text for text in rest if any(spelling in text for spelling in spellings))
        at = min(stored for spelling in spellings if (stored := end.find(spelling)) >= 0)
        label = end[:at].rpartition("\n[")[2].partition("]")[0]
        assert name.lower().split()[-1] in label.lower()
    return moved


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_recorded_instructions_keep_their_form_once_what_varies_moved(kind: str, form: str):
    if not PATHS[kind].exists():
        pytest.skip(f"no recordings at {PATHS[kind]}")
    dialogues = list(islice(KINDS[kind](PATHS[kind]), _LEARNED + _APPLIED))
    moved = 0
    for parts, system, rest in sent_messages(dialogues, FORMS[form]):
        check_form(form, system)
        moved += check_values(parts, system, rest)

    assert moved


_VALUES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)


@examples(5)
@given(
    st.lists(st.tuples(_VALUES, _VALUES), min_size=_LEARNED + 1, max_size=_LEARNED + 1),
    st.sampled_from(sorted(FORMS)),
)
def test_instructions_of_any_form_and_words_stay_whole_once_what_varies_moved(names, form):
    dialogues = [made_dialogue(index, *pair) for index, pair in enumerate(names)]
    for parts, system, rest in sent_messages(dialogues, FORMS[form]):
        check_form(form, system)
        check_values(parts, system, rest)


@pytest.mark.parametrize("form", FORMS)
def test_varying_text_moves_out_of_made_instructions_of_every_form(form: str):
    dialogues = [
        made_dialogue(index, f"Ines {index}", f"/home/ines{index}/desk")
        for index in range(_LEARNED + 1)
    ]
    messages = list(sent_messages(dialogues, FORMS[form]))

    assert all(check_values(*call) for call in messages)
