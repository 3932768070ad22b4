"""Tools, blocks and edits that only Anthropic runs: refused by name, or left out with a note.

Source: Anthropic, tool use, server tools, MCP connector, context editing (2026-11).
"""

from typing import Final

from proxy.providers.chat.chat_body import invalid_parameter, unsupported_parameter
from proxy.providers.messages.body import MessagesBlock, MessagesBody, MessagesTool
from proxy.providers.messages.target import ChatTarget

#: Blocks of an assistant's answer that a server tool wrote.
_SERVER_BLOCKS: Final = frozenset(
    {
        "server_tool_use", "web_search_tool_result", "web_fetch_tool_result",
        "code_execution_tool_result", "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result", "tool_search_tool_result", "mcp_tool_use",
        "mcp_tool_result", "advisor_tool_result", "fallback",
    }
)  # fmt: skip
#: Edits that take thinking out, which a model of another provider is not sent anyway.
_HARMLESS_EDITS: Final = ("clear_thinking",)
_SETTING: Final = "or ask a Claude model."


def own_tools(body: MessagesBody, target: ChatTarget, notes: list[str]) -> list[MessagesTool]:
    """The tools that the caller runs itself, described by a schema."""
    tools = []
    for number, tool in enumerate(body.tools or ()):
        if tool.type in {None, "custom"}:
            tools.append(tool)
            continue
        if not target.drops_server_tools:
            raise unsupported_parameter(
                f"tools[{number}].type",
                f"The tool {tool.type!r} is Anthropic's own: this model has none of it. Describe a"
                f" tool with `input_schema` and run it yourself, {_SETTING}",
            )
        notes.append(f"dropped the tool {tool.type}: only Claude models have it")
    if body.mcp_servers:
        if not target.drops_server_tools:
            raise unsupported_parameter(
                "mcp_servers",
                f"Anthropic alone asks MCP servers: offer their tools yourself, {_SETTING}",
            )
        notes.append("dropped mcp_servers: only Anthropic asks them")
    return tools


def is_server_block(block: MessagesBlock, path: str, target: ChatTarget, notes: list[str]) -> bool:
    """True if a server tool wrote this block, and it is left out."""
    if block.type == "compaction":
        raise unsupported_parameter(
            f"{path}.type",
            "A compaction can be read by Claude models alone: send the messages it stands for.",
        )
    if block.type not in _SERVER_BLOCKS:
        return False
    if not target.drops_server_tools:
        raise unsupported_parameter(
            f"{path}.type",
            f"{block.type!r} is of a tool that Anthropic runs: leave such blocks out, {_SETTING}",
        )
    notes.append(f"dropped {block.type} blocks: only Claude models have such tools")
    return True


def check_edits(body: MessagesBody, target: ChatTarget, notes: list[str]) -> None:
    """Note the edits of ``context_management`` that are not made."""
    edits = body.context_management.edits if body.context_management is not None else []
    for number, edit in enumerate(edits):
        if not edit.type.startswith(_HARMLESS_EDITS) and not target.drops_server_tools:
            raise unsupported_parameter(
                f"context_management.edits[{number}].type",
                f"The edit {edit.type!r} is made by Anthropic alone: shorten the conversation"
                f" yourself, {_SETTING}",
            )
        notes.append(f"dropped the edit {edit.type}: only Anthropic makes it")


def check_choice(name: str, offered: list[MessagesTool]) -> None:
    """Refuse a choice of a tool that is not offered."""
    if all(tool.name != name for tool in offered):
        raise invalid_parameter(
            "tool_choice.name", f"No tool is named {name!r}: send it in `tools`, or choose another."
        )
