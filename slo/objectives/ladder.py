"""Decides if a fallback level can answer a call.

A model that lacks what a call needs (tools, images, a long prompt) would turn a slow answer into
none, so capabilities are checked first. One that the catalog does not declare counts as missing.
"""

import msgspec

TOOLS = "tools"
SCHEMA = "schema"
VISION = "vision"
"""The names of capabilities, as in ``Capabilities.can``."""

_FEATURE_TEXTS = {
    TOOLS: "use tools",
    SCHEMA: "answer by a JSON schema",
    VISION: "read images",
}

#: The features that a request may ask for, as in ``CallRequirements.needs``, with their meanings.
_PARAMETER_TEXTS = {
    "choices": "give several answers (n)",
    "logprobs": "tell log probabilities (logprobs)",
    "audio": "speak (modalities, audio)",
    "web_search": "search the web by itself (web_search_options)",
    "functions": "be asked with functions in place of tools",
    "custom_tools": "use custom tools",
    "hosted_tools": "use tools that another provider runs",
    "forced_tools": "be made to use a tool (tool_choice)",
    "server_tools": "use tools that Anthropic runs or defines",
    "stop": "end at stop sequences (stop)",
    "chat": "be asked in chat completions",
    "chat_tools": "use tools in chat completions",
    "chat_or_responses": "be asked in chat completions",
    "chat_or_responses_tools": "use tools in chat completions",
}


class CallRequirements(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements of a call on the model that answers it.

    Attributes:
        output: The most tokens its answer may have; 0 if it does not say.
        region: Region that must process it, such as ``eu``; "" for any.
        regions: Regions where it may be processed; None for anywhere.
        needs: Features its request asks for that cannot be translated, of ``_PARAMETER_TEXTS``.
    """

    tools: bool = False
    schema: bool = False
    vision: bool = False
    tokens: int = 0
    output: int = 0
    region: str = ""
    regions: frozenset[str] | None = None
    needs: tuple[str, ...] = ()


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of a fallback level.

    Attributes:
        can: Those of ``TOOLS``, ``SCHEMA`` and ``VISION`` that it has; None if not declared.
        window: The most tokens of prompt and answer together; None if not declared.
        max_output: The most tokens of an answer; None if not declared.
        region: Region in which it processes; "" if that is not bound.
        takes: Features its requests may ask for, of ``_PARAMETER_TEXTS``.
    """

    can: frozenset[str] | None = None
    window: int | None = None
    max_output: int | None = None
    region: str = ""
    takes: frozenset[str] = frozenset()


def missing_capability(wants: CallRequirements, offers: Capabilities) -> str:
    """The reason why the level cannot answer the call, in one short sentence; "" if it can."""
    if wants.region and wants.region != offers.region:
        return "It is not bound to the region that the call is bound to."
    if wants.regions is not None and offers.region not in wants.regions:
        return "It is in no region where the call may be processed."
    return _missing_feature(wants, offers) or _missing_size(wants, offers)


def _missing_feature(wants: CallRequirements, offers: Capabilities) -> str:
    """The feature that the call needs and the level lacks or does not declare."""
    needs = {TOOLS: wants.tools, SCHEMA: wants.schema, VISION: wants.vision}
    for name, needed in needs.items():
        if needed and offers.can is None:
            return f"It is not known whether it can {_FEATURE_TEXTS[name]}."
        if needed and offers.can is not None and name not in offers.can:
            return f"It cannot {_FEATURE_TEXTS[name]}."
    lacking = next((name for name in wants.needs if name not in offers.takes), None)
    return f"It cannot {_PARAMETER_TEXTS[lacking]}." if lacking is not None else ""


def _missing_size(wants: CallRequirements, offers: Capabilities) -> str:
    """The size that the call needs and the level lacks or does not declare."""
    if offers.window is None:
        return "The length of its window is not known."
    if wants.tokens + wants.output > offers.window:
        return f"Its window of {offers.window} tokens is too small."
    if wants.output and offers.max_output is None:
        return "The length of its answers is not known."
    if offers.max_output is not None and wants.output > offers.max_output:
        return f"Its answers have at most {offers.max_output} tokens."
    return ""
