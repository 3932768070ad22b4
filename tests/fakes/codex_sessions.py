"""Calls shaped as Codex's: tools in the input, instructions, a folder, a key for each session.

The shape is that of captured calls of Codex 0.171 (2026-11); the words are made up.
"""

from typing import Any

from tests.fakes.handbook import handbook, question

Json = dict[str, Any]

RULES = "You are Codex, an agent based on GPT-5.\n" + handbook(32, "codex rules")
TEAMWORK = "You are `/root`, the primary agent in a team of agents.\n" + handbook(4, "team")
HEADERS = {"user-agent": "codex_exec/0.171.0 (Debian; x86_64)", "originator": "codex_exec"}
_TOOLS = 24


def _tool(number: int) -> Json:
    about = f"Does step {number} in the folder of the session. " * 12
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {
        "type": "function",
        "name": f"tool_{number}",
        "description": about,
        "parameters": schema,
    }


def _message(name: str, role: str, *texts: str) -> Json:
    parts = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "id": f"msg_{name}", "role": role, "content": parts}


def codex_body(session: str, folder: str, model: str, turns: int = 0) -> Json:
    """The body of a call of a session.

    Args:
        session: Its id.
        folder: Folder that it works in, below ``/home``.
        model: The model.
        turns: Answers before the call.
    """
    place = f"<environment_context>\n  <cwd>/home/{folder}</cwd>\n</environment_context>"
    skills = (
        f"## Skills\nA skill is a set of instructions.\n- Stored at /home/{folder}/.codex/skills"
    )
    tools = {
        "type": "additional_tools",
        "id": f"at_{session}",
        "role": "developer",
        "tools": [_tool(number) for number in range(_TOOLS)],
    }
    items: list[Json] = [
        tools,
        _message(f"{session}_1", "developer", RULES),
        _message(f"{session}_2", "developer", skills, TEAMWORK),
        _message(f"{session}_3", "user", place),
        _message(f"{session}_4", "user", question(folder)),
    ]
    for turn in range(turns):
        call = {"call_id": f"call_{turn}", "name": "tool_1", "arguments": "{}"}
        items.append({"type": "function_call", **call})
        output = f"{turn}: {question(f'{folder}/{turn}')}"
        items.append({"type": "function_call_output", "call_id": f"call_{turn}", "output": output})
    return {
        "model": model,
        "stream": False,
        "input": items,
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "store": False,
        "prompt_cache_key": session,
        "text": {"verbosity": "low"},
        "client_metadata": {"session_id": session},
    }


def stable_tokens(written: int, body: Json) -> int:
    """Tokens of tools and stable instructions, of so many that the whole prompt has.

    What else there is takes four bytes a token, about; this rounds up.
    """
    rest = body["input"][2:]
    texts = [part["text"] for item in rest for part in item.get("content", ())]
    return written - sum(map(len, texts)) // 6
