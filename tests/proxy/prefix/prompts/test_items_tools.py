"""Tools that stand in the input of a Responses body: they lead the prompt, and keep their bytes."""

from typing import Any

import msgspec
import orjson
import pytest

from proxy.prefix.prompts.fingerprints import team_fingerprint
from proxy.prefix.prompts.prompt import PromptSlot, count_leading, leading_text_blocks, parse_prompt

Json = dict[str, Any]

FINGERPRINT = team_fingerprint(b"secret", "team_1")
TOOL = {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}
RULES = {"role": "developer", "content": "Be brief."}
USER = {"role": "user", "content": "Where is my parcel?"}


def tools_item(name: str = "at_1", role: str = "developer", tool: Json = TOOL) -> Json:
    return {"type": "additional_tools", "id": name, "role": role, "tools": [tool]}


def body(*items: object) -> bytes:
    return orjson.dumps({"model": "gpt-6.1-sol", "input": items})


def digests(raw: bytes) -> list[bytes]:
    prompt = parse_prompt(raw)
    return [
        block.digest for block in leading_text_blocks(prompt, FINGERPRINT, count_leading(prompt))
    ]


@pytest.mark.parametrize("role", ["developer", "system"])
def test_tools_in_the_input_stay_as_they_are_whatever_their_role(role: str):
    came = body(tools_item(role=role), RULES, tools_item(role=role), USER)
    parsed = parse_prompt(came)

    assert len(parsed.messages) == 4
    assert parsed.render() == came


def test_tools_in_the_input_lead_the_prompt_and_are_stable():
    prompt = parse_prompt(body(tools_item(), RULES, USER))
    first = count_leading(prompt)

    assert first == 2
    assert [
        (block.role, block.slot, block.message)
        for block in leading_text_blocks(prompt, FINGERPRINT, first)
    ] == [("tools", PromptSlot.STABLE, 0), ("developer", PromptSlot.STABLE, 1)]


def test_ids_of_tools_in_the_input_are_no_part_of_the_prefix():
    assert digests(body(tools_item("at_1"), RULES, USER)) == digests(
        body(tools_item("at_2"), RULES, USER)
    )


def test_a_changed_tool_in_the_input_changes_the_prefix():
    other = {**TOOL, "name": "m"}

    assert digests(body(tools_item(), USER)) != digests(body(tools_item(tool=other), USER))


@pytest.mark.parametrize(
    "item",
    [
        b'{"type": "additional_tools", "role": "developer", "tools": []}',
        b'{"type":"additional_tools","role":"developer"}',
        b'{"type":"additional_tools","role":"developer","tools":null}',
    ],
    ids=["spaced", "without tools", "null"],
)
def test_tools_in_the_input_of_another_form_are_left_alone(item: bytes):
    came = b'{"model":"m","input":[' + item + b',{"role":"user","content":"Hi"}]}'
    prompt = parse_prompt(came)

    assert count_leading(prompt) == 0
    assert prompt.render() == came


def test_text_beside_tools_in_the_input_can_change_and_the_tools_stay():
    prompt = parse_prompt(body(tools_item(), RULES, USER))
    changed = orjson.dumps({**RULES, "content": "Be kind."})
    messages = (prompt.messages[0], changed, prompt.messages[2])
    rendered = msgspec.structs.replace(prompt, messages=messages).render()

    assert orjson.loads(rendered)["input"] == [tools_item(), {**RULES, "content": "Be kind."}, USER]
