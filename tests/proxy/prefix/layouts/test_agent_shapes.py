"""Instructions of known agents, with what their sessions share in front."""

from typing import Any

import orjson
import pytest

from proxy.prefix.layouts.agent_shapes import (
    is_attribution,
    known_shape,
    longest_text,
    part_instructions,
    text_groups,
    without_attribution,
)
from proxy.prefix.message_cache import read_message
from proxy.prefix.prompts.prompt import Prompt, parse_prompt
from tests.proxy.prefix.sent_calls import fingerprint

LINE = "x-anthropic-billing-header: cc_version=2.1.197.d00; cc_entrypoint=sdk-cli;"
NAME = "You are a Claude agent, built on Anthropic's Claude Agent SDK."
RULES = "\nYou are an interactive agent that helps users with software engineering tasks.\n"
STABLE = RULES + "Never write to /dev/null, say /abs/path/app.py.\n" * 30
MARK = {"type": "ephemeral"}
TALK = [{"role": "user", "content": "Hi."}]


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def session(folder: str, suffix: str = "d00") -> list[dict[str, Any]]:
    """The system prompt of a session in a folder."""
    tail = f"Your memory is at `/home/{folder}/.claude/memory/`.\nToday is 2026-11-26.\n"
    return [
        text(LINE.replace("d00", suffix)),
        text(NAME, cache_control=MARK),
        text(STABLE + tail, cache_control=MARK),
    ]


def native(system: Any) -> Prompt:
    body = orjson.dumps({"model": "c", "system": system, "messages": TALK})
    return parse_prompt(body, is_native=True)


def system_and_semi_stable(system: Any) -> tuple[list[dict[str, Any]], tuple[int, int] | None]:
    parts = part_instructions(native(system))
    return orjson.loads(parts.render())["system"], parts.semi


def test_the_stable_text_of_claude_code_comes_first_and_its_line_behind_it():
    system, semi = system_and_semi_stable(session("ada"))

    assert [block["text"] for block in system[:3]] == [NAME, STABLE, LINE]
    assert system[3]["text"].startswith("Your memory is at `/home/ada/")
    assert [block.get("cache_control") for block in system] == [MARK, None, None, MARK]
    assert semi == (0, 2)


def test_sessions_in_two_folders_begin_with_the_same_bytes():
    (one, at), (two, _) = (
        system_and_semi_stable(session("ada")),
        system_and_semi_stable(session("grace", "47b")),
    )
    assert at is not None

    assert one[: at[1]] == two[: at[1]]
    assert one != two


def test_no_word_is_lost_or_changed():
    system, _ = system_and_semi_stable(session("ada"))
    came = "".join(block["text"] for block in session("ada")[1:])

    assert "".join(block["text"] for block in system if not block["text"].startswith("x-")) == came


def test_a_line_moves_behind_instructions_without_a_path():
    system, semi = system_and_semi_stable([text(LINE), text(NAME), text(STABLE)])

    assert [block["text"] for block in system] == [NAME, STABLE, LINE]
    assert semi == (0, 2)


@pytest.mark.parametrize(
    "system",
    [
        "Be brief. Work in /home/ada/project.",
        [text(NAME), text("Work in /home/ada/project.")],
        [text(LINE)],
        [text(NAME), text(STABLE)],
    ],
    ids=["an unknown agent", "too little is stable", "the line alone", "nothing varies"],
)
def test_instructions_of_another_shape_stay_unmodified(system: Any):
    prompt = native(system)

    assert part_instructions(prompt) is prompt


def test_a_text_alone_is_parted_too():
    words = NAME + STABLE + "Work in /home/ada/project.\n"
    system, semi = system_and_semi_stable(words)

    assert [block["text"] for block in system] == [NAME + STABLE, "Work in /home/ada/project.\n"]
    assert semi == (0, 1)


@pytest.mark.parametrize(("chars", "is_parted"), [(1_023, False), (1_024, True)])
def test_instructions_are_parted_behind_1024_characters_of_stable_text(
    chars: int,
    is_parted: bool,  # noqa: FBT001 - a parameter
):
    stable = NAME.ljust(chars - 1, "-") + "\n"
    prompt = native(stable + "Work in /home/ada/project.\n")

    assert (part_instructions(prompt) is not prompt) is is_parted


def test_a_known_agent_is_told_by_how_its_instructions_begin():
    assert known_shape(native(session("ada"))) == 1
    assert known_shape(native("You are Codex, based on GPT-6."))
    assert not known_shape(native("You are a poet."))


def test_the_line_is_taken_off_a_body_for_other_upstreams():
    body = orjson.dumps({"system": session("ada"), "messages": TALK})
    bare = orjson.loads(without_attribution(body))

    assert bare == {"system": session("ada")[1:], "messages": TALK}
    assert is_attribution(orjson.dumps(text(LINE)))


@pytest.mark.parametrize(
    "body",
    [
        b'{"system":"Be brief."}',
        orjson.dumps({"system": [text(LINE)]}),
        orjson.dumps({"system": LINE}),
        orjson.dumps({"messages": [{"role": "user", "content": LINE}]}),
        LINE.encode(),
    ],
)
def test_a_body_without_such_a_line_beside_others_stays_as_it_is(body: bytes):
    assert without_attribution(body) is body


@pytest.mark.parametrize(("size", "texts"), [(4_095, 0), (4_096, 1)])
def test_instructions_of_4096_bytes_are_long(size: int, texts: int):
    prompt = native("a" * size)
    readings = [read_message(fingerprint, raw) for raw in prompt.messages]

    groups = text_groups(readings)
    assert sum(longest_text(prompt, group) is not None for group in groups) == texts
