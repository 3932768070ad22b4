"""True if a call may be answered by another rung of a ladder, and whether that pays.

A rung that cannot do what a call needs would turn a slow answer into none, so capabilities come
first. What nobody said of a rung counts as what it cannot do.
"""

import msgspec

TOOLS = "tools"
SCHEMA = "schema"
VISION = "vision"
"""The names of what a rung can do, as in its ``Capabilities.can``."""

_FEATURE_TEXTS = {
    TOOLS: "use tools",
    SCHEMA: "answer by a JSON schema",
    VISION: "read images",
}

#: The names of what a request may ask for, as in ``CallRequirements.needs``, and what each means.
_PARAMETER_TEXTS = {
    "choices": "give several answers (n)",
    "logprobs": "tell log probabilities (logprobs)",
    "audio": "speak (modalities, audio)",
    "web_search": "search the web by itself (web_search_options)",
    "functions": "be asked with functions in place of tools",
    "custom_tools": "use custom tools",
    "hosted_tools": "use tools that another provider runs",
    "forced_tools": "be made to use a tool (tool_choice)",
    "stop": "end at stop sequences (stop)",
}


class CallRequirements(msgspec.Struct, frozen=True, kw_only=True):
    """What a call needs of whatever answers it.

    Attributes:
        tools: Whether it declares tools.
        schema: Whether its answer must follow a JSON schema.
        vision: Whether there are images in it.
        tokens: Tokens of its prompt.
        output: The most tokens its answer may have; 0 if it does not say.
        region: Where it must be processed, such as ``eu``; "" for anywhere.
        needs: What its request asks for that cannot be translated, of ``_PARAMETER_TEXTS``.
    """

    tools: bool = False
    schema: bool = False
    vision: bool = False
    tokens: int = 0
    output: int = 0
    region: str = ""
    needs: tuple[str, ...] = ()


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a rung can do.

    Attributes:
        can: ``TOOLS``, ``SCHEMA``, ``VISION``, those of them that it can; None if nobody said.
        window: The most tokens of prompt and answer together; None if nobody said.
        max_output: The most tokens of an answer; None if nobody said.
        region: Where it processes; "" if that is not bound.
        takes: What its requests may ask for, of ``_PARAMETER_TEXTS``.
    """

    can: frozenset[str] | None = None
    window: int | None = None
    max_output: int | None = None
    region: str = ""
    takes: frozenset[str] = frozenset()


def missing_capability(wants: CallRequirements, offers: Capabilities) -> str:
    """Why the rung cannot answer the call, in one short sentence; "" if it can."""
    if wants.region and wants.region != offers.region:
        return "It is not bound to the region that the call is bound to."
    return _missing_feature(wants, offers) or _missing_size(wants, offers)


def is_switch_worthwhile(
    cost_here_nanos: int | None,
    cost_there_cold_nanos: int | None,
    *,
    cost_there_warm_nanos: int | None = None,
    calls: int = 1,
) -> bool:
    """True if moving a conversation down saves money although the other cache is cold.

    What the lower price saves must be more than what reading the whole conversation anew costs. It
    is not worth it where a price is unknown.

    Args:
        cost_here_nanos: Of a call where the conversation is, with what its cache reads.
        cost_there_cold_nanos: Of the first call there: the whole prompt uncached, and what writing
            the cache costs.
        cost_there_warm_nanos: Of each later call there; needed only if there are later ones.
        calls: How many calls the conversation still has, this one included: 1 or more.
    """
    if cost_here_nanos is None or cost_there_cold_nanos is None:
        return False
    if calls <= 1:
        return cost_there_cold_nanos < cost_here_nanos
    if cost_there_warm_nanos is None:
        return False
    there = cost_there_cold_nanos + (calls - 1) * cost_there_warm_nanos
    return there < calls * cost_here_nanos


def _missing_feature(wants: CallRequirements, offers: Capabilities) -> str:
    """What the call needs to be done and the rung cannot, or is not known to."""
    needs = {TOOLS: wants.tools, SCHEMA: wants.schema, VISION: wants.vision}
    for name, needed in needs.items():
        if needed and offers.can is None:
            return f"Nobody said whether it can {_FEATURE_TEXTS[name]}."
        if needed and offers.can is not None and name not in offers.can:
            return f"It cannot {_FEATURE_TEXTS[name]}."
    lacking = next((name for name in wants.needs if name not in offers.takes), None)
    return f"It cannot {_PARAMETER_TEXTS[lacking]}." if lacking is not None else ""


def _missing_size(wants: CallRequirements, offers: Capabilities) -> str:
    """Which size the call needs and the rung has not, or is not known to have."""
    if offers.window is None:
        return "Nobody said how long its window is."
    if wants.tokens + wants.output > offers.window:
        return f"Its window of {offers.window} tokens is too small."
    if wants.output and offers.max_output is None:
        return "Nobody said how long its answers may be."
    if offers.max_output is not None and wants.output > offers.max_output:
        return f"Its answers have at most {offers.max_output} tokens."
    return ""
