"""Calls shaped as Claude Code's: an attribution line, marks of its own, a folder in the midst.

One of the marks moves with the conversation: it ends each call. The shape is that of captured
calls of Claude Code 2.1.197 (2026-11); the words are made up.
"""

from typing import Any

from tests.fakes.handbook import handbook, question

Json = dict[str, Any]

HEADERS = {
    "user-agent": "claude-cli/2.1.197 (external, sdk-cli)",
    "x-app": "cli",
    "anthropic-version": "2023-06-01",
}
STABLE = "\nYou are an interactive agent that helps users with software.\n" + handbook(60, "rules")
SUBAGENT = "\nYou are an agent for searching a code base.\n" + handbook(40, "subagent")
_NAME = "You are a Claude agent, built on Anthropic's Claude Agent SDK."
_MARK = {"type": "ephemeral"}
_TOOLS = 24


def _text(words: str, **more: Any) -> Json:
    return {"type": "text", "text": words, **more}


def _tool(number: int) -> Json:
    about = f"Does step {number} in the folder of the session. " * 12
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {"name": f"tool_{number}", "description": about, "input_schema": schema}


def session_title_body(session: str, model: str) -> Json:
    """The body of the call by which a session gets its title: no tools, no marks."""
    line = f"x-anthropic-billing-header: cc_version=2.1.197.{session[:3]}; cc_entrypoint=cli;"
    words = f"<session>\n{question(session)}\n</session>"
    return {
        "model": model,
        "max_tokens": 1_000,
        "system": [_text(line), _text(_NAME), _text("Name this session. " + handbook(2, "title"))],
        "tools": [],
        "messages": [{"role": "user", "content": [_text(words)]}],
        "metadata": {"user_id": f'{{"device_id":"d","session_id":"{session}"}}'},
    }


def claude_code_body(session: str, model: str, turns: int = 0, *, rules: str = STABLE) -> Json:
    """The body of a call of a session, which works in a folder of its own.

    Args:
        session: Its id; the folder and the attribution line's suffix follow from it.
        model: The model.
        turns: Answers with a call of a tool before the call.
        rules: The instructions that all sessions share, or all subagents.
    """
    place = f"Your memory is at `/home/{session}/.claude/memory/`.\nToday is 2026-11-26.\n"
    reminder = f"<system-reminder>\nThe folder is /home/{session}.\n</system-reminder>"
    words = [_text(reminder), _text(question(session))]
    messages: list[Json] = [{"role": "user", "content": words}]
    for turn in range(turns):
        use = {"type": "tool_use", "id": f"toolu_{turn}", "name": "tool_1", "input": {"path": "."}}
        text = f"{turn}: {question(f'{session}/{turn}')}"
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": text}
        messages.append({"role": "assistant", "content": [use]})
        messages.append({"role": "user", "content": [result]})
    messages[-1]["content"][-1]["cache_control"] = _MARK
    line = f"x-anthropic-billing-header: cc_version=2.1.197.{session[:3]}; cc_entrypoint=sdk-cli;"
    return {
        "model": model,
        "max_tokens": 1_000,
        "system": [
            _text(line),
            _text(_NAME, cache_control=_MARK),
            _text(rules + place, cache_control=_MARK),
        ],
        "tools": [_tool(number) for number in range(_TOOLS)],
        "messages": messages,
        "metadata": {"user_id": f'{{"device_id":"d","session_id":"{session}"}}'},
    }
