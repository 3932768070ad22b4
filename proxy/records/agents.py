"""Recognises coding agents by their headers or instructions; how each is pointed at a gateway.

Claude Code and Codex say in their headers who they are; the others are known by how their
instructions begin. A call that names no feature is booked on its agent's name, and what Claude Code
asks beside its sessions, such as their titles, on a name of its own.

Source: captured calls of Claude Code 2.1.197 and Codex 0.169 (2026-11); the agents' public sources
and documentation (2026-11).
"""

import re
from functools import lru_cache
from typing import Any, Final

import msgspec

from proxy.records.request_fields import RequestFields

#: Bytes of messages in which instructions begin: they come first, or behind a line of attribution.
_MAX_SEARCHED_BYTES: Final = 1024
#: The same of a Responses call's input, where tools may come before them.
_MAX_SEARCHED_INPUT_BYTES: Final = 64 * 1024
#: Beginnings of JSON strings that may begin instructions, by words that stand in each.
_STRING_STARTS: Final = {
    b"You are ": (b'"You are ', b'"\\nYou are '),
    b"Act as an ": (b'"Act as an ', b'"\\nAct as an '),
}
#: Bytes that tell which instructions they are.
_HEAD_BYTES: Final = 128
#: Values of ``user-agent`` that are remembered; most callers send the same few.
_MAX_CACHED_PRODUCTS: Final = 256
#: The product of a ``user-agent`` and, as the official SDKs name it, its language; no version.
_PRODUCT: Final = re.compile(
    r"[a-z][a-z0-9]*(?:[-_.+][a-z][a-z0-9]*)*(?:/[a-z]+(?![^ ]))?", re.IGNORECASE
)
#: Feature of the calls that Claude Code makes beside its sessions.
BACKGROUND_FEATURE: Final = "claude-code-background"
_CLAUDE_CODE: Final = "claude-code"
#: JSON of a field that offers no tools.
_NO_TOOLS: Final = frozenset({b"", b"null", b"[]"})
#: A cache mark; within a text its quotes would be escaped.
_MARK: Final = b'"cache_control"'
#: Members of Claude Code's ``user_id`` that hold still from session to session.
_STABLE_IDS: Final = ("account_uuid", "device_id")


#: Codex's table of the gateway, in TOML.
_CODEX_PROVIDER: Final = (
    'model_providers.thriftgate={name="Thriftgate",base_url="$url/v1",'
    'env_key="TG_API_KEY",wire_api="responses"}'
)


class AgentPreset(msgspec.Struct, frozen=True, kw_only=True):
    """An agent.

    Attributes:
        name: The feature that its calls are booked on.
        products: Beginnings of its ``user-agent``, in lower case.
        lines: The two lines that point it at a gateway, as templates of ``$url``,
            ``$key`` and ``$model``.
    """

    name: str
    title: str
    products: tuple[str, ...] = ()
    heads: tuple[str, ...]
    lines: tuple[str, str]


AGENTS: Final = (
    AgentPreset(
        name="claude-code",
        title="Claude Code",
        products=("claude-cli/",),
        heads=(
            "You are Claude Code",
            "You are a Claude agent",
            "You are an interactive agent that helps users with software engineering",
            "You are an interactive CLI tool that helps users with software engineering",
        ),
        lines=("export ANTHROPIC_BASE_URL=$url", "export ANTHROPIC_API_KEY=$key"),
    ),
    AgentPreset(
        name="codex",
        title="Codex",
        products=("codex_", "codex-"),
        heads=("You are Codex", "You are a coding agent running in the Codex CLI"),
        lines=(
            "export TG_API_KEY=$key",
            f"codex -c model_provider=thriftgate -c '{_CODEX_PROVIDER}'",
        ),
    ),
    AgentPreset(
        name="cursor",
        title="Cursor",
        heads=("You are an AI coding assistant, powered by",),
        lines=(
            "Settings, Models: Override OpenAI Base URL = $url/v1 (Cursor's servers call it)",
            "Settings, Models: OpenAI API Key = $key",
        ),
    ),
    AgentPreset(
        name="cline",
        title="Cline",
        heads=("You are Cline",),
        lines=(
            "Settings, API Provider: OpenAI Compatible, Base URL = $url/v1",
            "Settings, API Key = $key, Model ID = $model",
        ),
    ),
    AgentPreset(
        name="roo",
        title="Roo Code",
        heads=("You are Roo",),
        lines=(
            "Settings, Providers: OpenAI Compatible, Base URL = $url/v1",
            "Settings, Providers: API Key = $key, Model = $model",
        ),
    ),
    AgentPreset(
        name="openhands",
        title="OpenHands",
        heads=("You are OpenHands",),
        lines=(
            "export LLM_BASE_URL=$url/v1 LLM_API_KEY=$key",
            "export LLM_MODEL=openai/$model",
        ),
    ),
    AgentPreset(
        name="opencode",
        title="opencode",
        products=("opencode/",),
        heads=("You are opencode",),
        lines=(
            "In opencode.json, under provider.anthropic.options:",
            '{"baseURL": "$url/v1", "apiKey": "$key"}',
        ),
    ),
    AgentPreset(
        name="aider",
        title="aider",
        heads=("Act as an expert software developer",),
        lines=(
            "export OPENAI_API_BASE=$url/v1 OPENAI_API_KEY=$key",
            "aider --model openai/$model",
        ),
    ),
    AgentPreset(
        name="qwen-code",
        title="Qwen Code",
        products=("qwencode/",),
        heads=("You are Qwen Code",),
        lines=(
            "export OPENAI_BASE_URL=$url/v1 OPENAI_API_KEY=$key OPENAI_MODEL=$model",
            "qwen --auth-type openai",
        ),
    ),
    AgentPreset(
        name="goose",
        title="goose",
        heads=("You are a general-purpose AI agent called goose",),
        lines=(
            "export OPENAI_HOST=$url OPENAI_API_KEY=$key",
            "GOOSE_PROVIDER=openai GOOSE_MODEL=$model goose session",
        ),
    ),
    AgentPreset(
        name="crush",
        title="Crush",
        products=("charm-crush/",),
        heads=("You are Crush",),
        lines=(
            "In crush.json, under providers.thriftgate (and the models that you use):",
            (
                '{"type": "openai-compat", "base_url": "$url/v1", "api_key": "$key",'
                ' "models": [{"id": "$model", "name": "$model"}]}'
            ),
        ),
    ),
    AgentPreset(
        name="gemini-cli",
        title="Gemini CLI",
        heads=(),
        lines=(
            "Gemini CLI speaks Google's generateContent alone, which this gateway does not take.",
            "Qwen Code, which began as a fork of it, works: thriftgate agents qwen-code",
        ),
    ),
)
#: Beginnings of the instructions of all agents.
AGENT_HEADS: Final = tuple(head for agent in AGENTS for head in agent.heads)
_PRODUCTS: Final = tuple((product, agent.name) for agent in AGENTS for product in agent.products)
_HEADS: Final = tuple((head.encode(), agent.name) for agent in AGENTS for head in agent.heads)


@lru_cache(maxsize=_MAX_CACHED_PRODUCTS)
def agent_of_product(user_agent: str) -> str:
    """The name of the agent that a ``user-agent`` names; "" for none."""
    user_agent_start = user_agent[:_HEAD_BYTES].lower()
    return next((name for product, name in _PRODUCTS if user_agent_start.startswith(product)), "")


def agent_tag(user_agent: str, fields: RequestFields | None) -> str:
    """The coding agent that sent a call, else the product its ``user-agent`` names, in lower case.

    It is the same in all versions: ``openai-python`` of ``AsyncOpenAI/Python 3.52.0``.
    """
    if agent := agent_of_product(user_agent) or (agent_of_fields(fields) if fields else ""):
        return agent
    product = _PRODUCT.match(user_agent[:_HEAD_BYTES])
    return product[0].lower().removeprefix("async").replace("/", "-") if product else ""


def agent_feature(agent: str, fields: RequestFields) -> str:
    """The feature that a coding agent's call is booked on; "" where it is no agent's.

    Args:
        agent: The agent that its ``user-agent`` names; "" for none.
    """
    agent = agent or agent_of_fields(fields)
    is_background = agent == _CLAUDE_CODE and _is_beside_sessions(fields)
    return BACKGROUND_FEATURE if is_background else agent


def _is_beside_sessions(fields: RequestFields) -> bool:
    """True if a call of Claude Code's has neither tools nor marks in its instructions.

    So are the calls that name a session or a topic. Sessions and subagents have marks even without
    tools; calls that go on from a session, such as its compaction, have its tools.

    Source: captured calls of Claude Code 2.1.197 (2026-11).
    """
    return bytes(fields.tools) in _NO_TOOLS and _MARK not in bytes(fields.system)


def agent_of_fields(fields: RequestFields) -> str:
    """The name of the agent whose instructions a body begins a text with; "" for none."""
    for raw in (fields.messages, fields.system, fields.instructions):
        if raw and (agent := _agent_of_text(memoryview(raw)[:_MAX_SEARCHED_BYTES].tobytes())):
            return agent
    if not fields.input:
        return ""
    return _agent_of_text(memoryview(fields.input)[:_MAX_SEARCHED_INPUT_BYTES].tobytes())


def _agent_of_text(text: bytes) -> str:
    """The name of the agent whose instructions begin a JSON string; "" for none."""
    for words, starts in _STRING_STARTS.items():
        if text.find(words) < 0:
            continue
        for start in starts:
            start_index = text.find(start)
            head = (
                text[start_index + 1 : start_index + _HEAD_BYTES].removeprefix(b"\\n")
                if start_index >= 0
                else b""
            )
            if agent := next((name for begins, name in _HEADS if head.startswith(begins)), ""):
                return agent
    return ""


def stable_user(user_id: str) -> str:
    """The end user in a ``user_id`` of Anthropic's API, without the session of Claude Code's."""
    if not user_id.startswith("{"):
        return user_id
    try:
        ids_by_name: Any = msgspec.json.decode(user_id)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return user_id
    ids = (ids_by_name.get(name) for name in _STABLE_IDS) if isinstance(ids_by_name, dict) else ()
    return next(
        (stable_id for stable_id in ids if isinstance(stable_id, str) and stable_id), user_id
    )
