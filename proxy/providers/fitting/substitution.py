"""Translates a request for a substitute model into the fields which that model takes; pure.

What only steers an answer is said in other words or left out, each with a note. What would change
what the answer means is not touched here: a model that cannot take it is no substitute, and is
ruled out before anything is sent (``proxy.calls.eligibility.requirements``). The caller's own model
gets the caller's bytes.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from proxy.catalog.entries import Route
from proxy.providers.chat.chat_body import Fields, unsupported_parameter
from proxy.providers.fitting.chat_forms import goes_by_responses, has_tools, takes_chat_tools
from proxy.providers.fitting.chat_schemas import fit_chat_schemas
from proxy.providers.fitting.efforts import (
    THINKING_DISABLED,
    disable_unasked_thinking,
    effort_for_budget,
    nearest_effort,
    takes_effort,
)
from proxy.providers.fitting.provider_fields import (
    is_openai,
    refused_fields,
    refused_message_fields,
    refused_prediction,
    serves_claude,
    without_message_fields,
)
from proxy.providers.lenient import UNREADABLE, decode_or
from proxy.providers.port import PreparedRequest

_CHAT: Final = "chat/completions"
_COMPLETIONS: Final = "completions"
_RESPONSES: Final = "responses"

#: Taken where the catalog says nothing of a model's requests.
#: Source: OpenAI API reference (2026-11).
_OPENAI: Final = frozenset(
    {
        "max_completion_tokens", "developer", "stop", "choices", "forced_tools", "parallel_tools",
        "functions", "custom_tools", "hosted_tools", "openai_params", "seed",
    }
)  # fmt: skip
#: The same of all others that speak like OpenAI, as vLLM's server does (0.33.0).
_SHARED_FIELDS: Final = frozenset(
    {
        "max_tokens", "sampling", "penalties", "logit_bias", "extra_sampling", "stop", "choices",
        "logprobs", "forced_tools", "parallel_tools", "functions", "seed", "openai_params",
    }
)  # fmt: skip
#: Fields that every model of the Messages API takes, or its wire says in other words.
_MESSAGES: Final = frozenset({"server_tools", "stop", "functions"})
_LIMITS: Final = ("max_tokens", "max_completion_tokens")

#: Fields of a chat call by the trait that they need.
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "sampling": ("temperature", "top_p"),
    "penalties": ("presence_penalty", "frequency_penalty"),
    "logit_bias": ("logit_bias",),
    "extra_sampling": ("top_k", "min_p", "repetition_penalty"),
    "seed": ("seed",),
    "verbosity": ("verbosity",),
    "prediction": ("prediction",),
    "parallel_tools": ("parallel_tool_calls",),
    "openai_params": (
        "store", "metadata", "moderation", "safety_identifier", "service_tier", "user",
    ),
}  # fmt: skip
#: The trait whose fields a Responses call has, too.
_SAMPLING: Final = "sampling"

_RESPONSES_ONLY: Final = (
    "The provider serves this model by the Responses API alone, which lacks a field of this call or"
    " is not served there: ask another model."
)
_NO_CHAT_TOOLS: Final = (
    "In chat completions this model takes no tools, because it always reasons, and the Responses"
    " API lacks a field of this call or is not served there: ask another model."
)
_NULL: Final = b"null"
_ENCRYPTED: Final = msgspec.Raw(b'"reasoning.encrypted_content"')

_fields: Final = msgspec.json.Decoder(Fields).decode
_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class _Thinking(msgspec.Struct):
    type: str = ""
    budget_tokens: int = 0


_thinking: Final = msgspec.json.Decoder(_Thinking).decode


def accepted_traits(route: Route) -> frozenset[str]:
    """The traits of a route's model; those of its kind where the catalog says none of them."""
    if route.upstream.speaks_messages:
        return route.traits | _MESSAGES
    if not route.traits.isdisjoint(_LIMITS):
        return route.traits
    return route.traits | (_OPENAI if is_openai(route) else _SHARED_FIELDS)


def translate_for_substitute(prepared: PreparedRequest, route: Route) -> PreparedRequest:
    """The request as the route's model takes it, where its caller wrote it for another model.

    The Messages API has a wire of its own, which says all of a chat call in its words already.
    """
    endpoint = prepared.path.partition("?")[0].removeprefix("/")
    if route.upstream.kind != "openai" or endpoint not in {_CHAT, _COMPLETIONS, _RESPONSES}:
        return prepared
    try:
        translation = _Translation(_fields(prepared.body), route)
        translation.run(endpoint)
    except UNREADABLE:
        return prepared
    if not translation.notes:
        return prepared
    return msgspec.structs.replace(
        prepared,
        body=msgspec.json.encode(translation.fields),
        notes=(*prepared.notes, *translation.notes),
    )


class _Translation:
    """The translation of one body for another model; what stays is byte for byte its own."""

    def __init__(self, fields: Fields, route: Route) -> None:
        self.fields = fields
        self.notes: list[str] = []
        self._route = route
        self._traits = accepted_traits(route)
        self._is_chat = True

    def run(self, endpoint: str) -> None:
        """Translate each field; one that cannot be read does not stop the others."""
        steps: tuple[Callable[[], None], ...] = ()
        if endpoint == _CHAT:
            steps = (
                self._limit, self._say_thinking, self._default_thinking, self._chat_effort,
                self._chat_tools, self._schemas, self._messages, self._prediction,
                self._unknown_fields,
            )  # fmt: skip
        elif endpoint == _RESPONSES:
            steps = self._responses_effort, self._responses_steering, self._responses_reasoning
        for step in steps:
            with suppress(*UNREADABLE):
                step()
        for trait, names in _FIELDS.items():
            if endpoint != _RESPONSES or trait == _SAMPLING:
                self._drop_without(trait, names)
        asks_usage = self._route.upstream.asks_usage or endpoint == _RESPONSES
        if not asks_usage and self.fields.pop("stream_options", None) is not None:
            self.notes.append("dropped stream_options: usage is sent unasked")

    def _unknown_fields(self) -> None:
        """Leave out what the provider does not know and would refuse."""
        if unknown := refused_fields(self.fields, self._route):
            for name in unknown:
                del self.fields[name]
            self.notes.append(f"dropped {', '.join(unknown)}: the model has no such parameter")

    def _prediction(self) -> None:
        """Leave out a prediction in a form that the provider refuses."""
        if "prediction" in self._traits and (why := refused_prediction(self.fields, self._route)):
            del self.fields["prediction"]
            self.notes.append(f"dropped prediction: {why}")

    def _limit(self) -> None:
        """Move the output limit to the field that the model knows."""
        for name, other in (_LIMITS, _LIMITS[::-1]):
            if name not in self.fields or name in self._traits or other not in self._traits:
                continue
            if _is_null(self.fields[name]) or not _is_null(self.fields.get(other)):
                del self.fields[name]
                self.notes.append(f"dropped {name}: the model takes {other}")
                continue
            self.fields.pop(other, None)
            self.fields = {other if key == name else key: raw for key, raw in self.fields.items()}
            self.notes.append(f"sent {name} as {other}")

    def _say_thinking(self) -> None:
        """Translate Anthropic's ``thinking`` to an effort; Claude takes it as it is."""
        if serves_claude(self._route):
            return
        raw = self.fields.pop("thinking", None)
        if raw is None:
            return
        thinking = decode_or(_thinking, raw, None)
        effort = "none" if thinking is not None and thinking.type == "disabled" else "high"
        if thinking is not None and thinking.type == "enabled":
            effort = effort_for_budget(thinking.budget_tokens)
        if (
            thinking is not None
            and "effort" in self._traits
            and "reasoning_effort" not in self.fields
        ):
            self.fields["reasoning_effort"] = _json(effort)
            self.notes.append(f"sent thinking as reasoning_effort {effort}")
        else:
            self.notes.append("dropped thinking: the model has no such parameter")

    def _default_thinking(self) -> None:
        if "thinks_by_default" in self._traits and disable_unasked_thinking(self.fields):
            self.notes.append(THINKING_DISABLED)

    def _chat_effort(self) -> None:
        self._fit_effort(self.fields, "reasoning_effort", "reasoning_effort")

    def _chat_tools(self) -> None:
        """Turn reasoning off where the model takes function tools in chat only without it.

        What goes by the Responses API keeps its effort, and its sealed reasoning.
        """
        self._is_chat = not goes_by_responses(self.fields, self._route)
        if not self._is_chat:
            return
        if "responses_only" in self._traits:
            raise unsupported_parameter("model", _RESPONSES_ONLY)
        if not has_tools(self.fields):
            return
        if not takes_chat_tools(self._route):
            raise unsupported_parameter("tools", _NO_CHAT_TOOLS)
        if "tools_at_none" in self._traits and not self._is_effort_none():
            self.fields["reasoning_effort"] = _json("none")
            self.notes.append(
                "sent reasoning_effort none: in chat completions the model takes tools with no"
                " other"
            )

    def _schemas(self) -> None:
        """Leave out keywords of schemas that the provider refuses; descriptions say them."""
        self.notes += fit_chat_schemas(self.fields, self._route)

    def _responses_effort(self) -> None:
        if not _is_null(self.fields.get("reasoning")):
            reasoning = _fields(self.fields["reasoning"])
            if self._fit_effort(reasoning, "effort", "reasoning.effort"):
                self.fields["reasoning"] = _json(reasoning)

    def _responses_steering(self) -> None:
        """Leave out what only reasoning models take: summaries, verbosity, encrypted reasoning."""
        if takes_effort(self._traits):
            return
        if "reasoning" in self.fields:
            del self.fields["reasoning"]
            self.notes.append("dropped reasoning: the model has no such parameter")
        if not _is_null(self.fields.get("include")):
            includes = _items(self.fields["include"])
            rest = [include for include in includes if include != _ENCRYPTED]
            if len(rest) < len(includes):
                self.fields["include"] = _json(rest)
                self.notes.append("dropped reasoning.encrypted_content: the model does not reason")
        if "verbosity" not in self._traits and not _is_null(self.fields.get("text")):
            text = _fields(self.fields["text"])
            if text.pop("verbosity", None) is not None:
                self.fields["text"] = _json(text)
                self.notes.append("dropped text.verbosity: the model does not take it")

    def _responses_reasoning(self) -> None:
        """Leave out reasoning items, which a model that does not reason refuses."""
        if takes_effort(self._traits):
            return
        raw = self.fields.get("input")
        if raw is None or not bytes(raw).startswith(b"[") or b'"reasoning"' not in bytes(raw):
            return
        items = [decode_or(_fields, item, item) for item in _items(raw)]
        rest = [
            item
            for item in items
            if not (isinstance(item, dict) and item.get("type") == _json("reasoning"))
        ]
        if len(rest) < len(items):
            self.fields["input"] = _json(rest)
            self.notes.append("dropped reasoning items: the model does not reason")

    def _fit_effort(self, fields: Fields, member: str, name: str) -> bool:
        """Say the nearest effort that the model knows; True if the fields were changed."""
        if _is_null(fields.get(member)):
            return False
        effort = msgspec.json.decode(fields[member])
        if not takes_effort(self._traits):
            del fields[member]
            self.notes.append(f"dropped {name}: the model has no such parameter")
            return True
        nearest = nearest_effort(effort, self._traits) if isinstance(effort, str) else effort
        if nearest == effort:
            return False
        fields[member] = _json(nearest)
        self.notes.append(f"sent {name} {effort} as {nearest}: the nearest that the model has")
        return True

    def _drop_without(self, trait: str, names: tuple[str, ...]) -> None:
        """Leave fields out whose trait the model lacks."""
        at_none = trait == _SAMPLING and "sampling_at_none" in self._traits
        if trait in self._traits or (at_none and self._is_effort_none()):
            return
        for name in names:
            if not _is_null(self.fields.get(name)):
                del self.fields[name]
                self.notes.append(f"dropped {name}: the model does not take it")

    def _is_effort_none(self) -> bool:
        raw = self.fields.get("reasoning_effort")
        if raw is None and "reasoning" in self.fields:
            with suppress(*UNREADABLE):
                raw = _fields(self.fields["reasoning"]).get("effort")
        return raw is not None and bytes(raw) == b'"none"'

    def _messages(self) -> None:
        """Make the role ``developer`` ``system``; leave out what only other providers know."""
        raw = self.fields.get("messages")
        if raw is None:
            return
        text = bytes(raw)
        says_role = "developer" not in self._traits and b'"developer"' in text
        takes_extra = "extra_sampling" in self._traits
        refused = refused_message_fields(
            self._route, takes_extra=takes_extra, takes_blocks=not self._is_chat
        )
        left_out = [name for name in refused if bytes(_json(name)) in text]
        if not says_role and not left_out:
            return
        messages = [decode_or(_fields, message, message) for message in _items(raw)]
        objects = [message for message in messages if isinstance(message, dict)]
        developers = [
            message
            for message in objects
            if says_role and message.get("role") == _json("developer")
        ]
        for message in developers:
            message["role"] = _json("system")
        dropped = set().union(*(without_message_fields(message, left_out) for message in objects))
        if developers:
            self.notes.append("sent the role developer as system")
        if dropped:
            self.notes.append(f"dropped {', '.join(sorted(dropped))}: the model does not take it")
        if developers or dropped:
            self.fields["messages"] = _json(messages)


def _is_null(raw: msgspec.Raw | None) -> bool:
    """True for a field that is absent or null."""
    return raw is None or bytes(raw) == _NULL


def _json(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
