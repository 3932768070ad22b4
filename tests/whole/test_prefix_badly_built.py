"""Recorded conversations that are made to be built badly, as lines for ``thriftgate replay``."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import orjson
import pytest

from tests.bench.badly_built import with_good_order
from tests.fakes.badly_built import lines, raw_bodies
from tests.fakes.conversations import CONVERSATIONS, TOOLS
from tests.fakes.recorded import KINDS, PATHS, RecordedDialogue


def made(them: Iterable[RecordedDialogue] = CONVERSATIONS, **options: Any) -> list[dict[str, Any]]:
    return list(lines(them, **options))


def test_the_first_lines_hold_the_time_the_user_and_the_directory() -> None:
    for line in made():
        first, user, place, blank, *_ = line["body"]["messages"][0]["content"].split("\n")
        one = next(one for one in CONVERSATIONS if one.name == line["conversation"])

        assert first.startswith("Current time: Wednesday, 15 May 2024, 08:")
        assert user == f"User: {one.user}"
        assert place == f"Working directory: {one.place}"
        assert blank == ""


def test_the_rules_and_the_conversation_are_as_they_were() -> None:
    for line in made():
        one = next(one for one in CONVERSATIONS if one.name == line["conversation"])
        system, *messages = line["body"]["messages"]

        assert system["content"].endswith("\n\n" + one.rules)
        assert messages == list(one.messages[: len(messages)])
        assert line["reply"] == one.messages[len(messages)]


def test_mended_the_same_words_stand_in_order_the_time_last() -> None:
    for line in made():
        one = next(one for one in CONVERSATIONS if one.name == line["conversation"])
        ordered = with_good_order(line)
        system, *messages, last = ordered["body"]["messages"]

        assert (
            system["content"] == f"{one.rules}\n\nUser: {one.user}\nWorking directory: {one.place}"
        )
        assert messages == line["body"]["messages"][1:]
        assert last["role"] == "system"
        assert last["content"].startswith("Current time: ")
        assert {**ordered, "body": None} == {**line, "body": None}


def test_mended_the_tools_of_every_call_come_in_one_order() -> None:
    offered = [with_good_order(line)["body"].get("tools") for line in made()]

    assert {str(tools) for tools in offered} == {
        str(None),
        str(sorted(TOOLS, key=lambda tool: str(tool["function"]["name"]))),
    }


def test_tools_come_in_another_order_with_every_call() -> None:
    offered = [line["body"]["tools"] for line in made() if line["conversation"] == "tools"]

    assert all(sorted(map(str, tools)) == sorted(map(str, TOOLS)) for tools in offered)
    assert len({str(tools) for tools in offered}) == len(offered)


def test_lines_are_in_the_order_of_time_and_conversations_lie_over_each_other() -> None:
    built = made(gap=10.0)
    times = [line["t"] for line in built]
    names = [line["conversation"] for line in built]

    assert times == sorted(times)
    assert len(built) == sum(1 for one in CONVERSATIONS for _ in one.calls())
    assert sum(one != other for one, other in pairwise(names)) > 3


def test_the_next_call_comes_after_two_to_twenty_seconds() -> None:
    for one in CONVERSATIONS:
        times = [line["t"] for line in made([one])]
        waits = [after - before for before, after in pairwise(times)]

        assert all(2.0 <= wait <= 20.001 for wait in waits)


def test_recorded_times_are_kept() -> None:
    one = RecordedDialogue(
        name="timed",
        feature="f",
        user="u",
        place="/p",
        rules="R",
        began=1_790_000_000.0,
        waits=(7.5,),
        messages=CONVERSATIONS[0].messages[:4],
    )
    first, second = made([one])

    assert (first["t"], second["t"]) == (0.0, 7.5)
    assert "14:13:20" in first["body"]["messages"][0]["content"]
    assert "14:13:27" in second["body"]["messages"][0]["content"]


def test_the_same_seed_gives_the_same_lines_and_another_one_others() -> None:
    assert made(seed="1") == made(seed="1")
    assert made(seed="1") != made(seed="2")
    assert list(raw_bodies(CONVERSATIONS[1])) == list(raw_bodies(CONVERSATIONS[1]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_recorded_set_becomes_lines(kind: str) -> None:
    if not PATHS[kind].exists():
        pytest.skip(f"no recordings at {PATHS[kind]}")
    built = made(list(KINDS[kind](PATHS[kind]))[:8])

    assert len({line["conversation"] for line in built}) == 8
    assert all(line["body"]["messages"][0]["content"].startswith("Current") for line in built)
    assert all(orjson.loads(orjson.dumps(line)) == line for line in built)
