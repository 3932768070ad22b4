"""Tools, blocks and edits that only Anthropic runs."""

import pytest

from proxy.providers.messages.target import ChatTarget
from tests.fakes.messages_calls import WEATHER, Json, assistant, chat_body_and_notes, text, user
from tests.fakes.refusals import refusing

DROPS = ChatTarget(drops_server_tools=True)
SEARCH = {"type": "web_search_20260209", "name": "web_search"}
SEARCHED = [
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "s1",
        "content": [{"type": "web_search_result", "url": "https://x.test", "title": "T"}],
    },
]
MANAGED = {"edits": [{"type": "clear_tool_uses_20250919"}]}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [WEATHER, SEARCH]}, "tools[1].type"),
        ({"mcp_servers": [{"type": "url", "url": "https://x.test"}]}, "mcp_servers"),
        ({"messages": [user("Hi"), assistant(*SEARCHED)]}, "messages[1].content[0].type"),
        ({"context_management": MANAGED}, "context_management.edits[0].type"),
    ],
)
def test_server_tools_are_refused_by_name_with_a_fix(fields: Json, param: str) -> None:
    with refusing(400, "or ask a Claude model") as caught:
        chat_body_and_notes(**fields)

    assert caught.value.param == param


@pytest.mark.parametrize(
    ("fields", "notes"),
    [
        ({"tools": [SEARCH, WEATHER]},
         ["dropped the tool web_search_20260209: only Claude models have it"]),
        ({"mcp_servers": [{"type": "url"}]}, ["dropped mcp_servers: only Anthropic asks them"]),
        ({"messages": [user("Hi"), assistant(*SEARCHED, text("Found.")), user("And?")]},
         ["dropped server_tool_use blocks: only Claude models have such tools",
          "dropped web_search_tool_result blocks: only Claude models have such tools"]),
        ({"context_management": MANAGED},
         ["dropped the edit clear_tool_uses_20250919: only Anthropic makes it"]),
    ],
)  # fmt: skip
def test_by_the_operators_setting_they_are_left_out_with_a_note(
    fields: Json, notes: list[str]
) -> None:
    body, written = chat_body_and_notes(target=DROPS, **fields)

    assert [*written] == notes
    assert b"web_search" not in repr(body).encode()
    assert [tool["function"]["name"] for tool in body.get("tools", [])] in ([], ["weather"])


def test_an_edit_of_thinking_is_left_out_because_none_is_sent() -> None:
    _, notes = chat_body_and_notes(
        context_management={"edits": [{"type": "clear_thinking_20251015"}]}
    )

    assert notes == ("dropped the edit clear_thinking_20251015: only Anthropic makes it",)


def test_a_compaction_is_never_left_out() -> None:
    for target in (ChatTarget(), DROPS):
        with refusing(400, "send the messages it stands for"):
            chat_body_and_notes(
                user("Hi"), assistant({"type": "compaction", "content": "s"}), target=target
            )


def test_a_choice_of_a_tool_that_is_not_offered_is_refused() -> None:
    choice = {"type": "tool", "name": "web_search"}
    with refusing(400, "send it in `tools`") as caught:
        chat_body_and_notes(tools=[SEARCH, WEATHER], tool_choice=choice, target=DROPS)

    assert caught.value.param == "tool_choice.name"
