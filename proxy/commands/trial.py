"""A conversation from a file, folded as the gateway would: what is sent, and what became of it."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from compaction.facts.fact import Fact
from compaction.fold import Around, Folded, fold
from compaction.guards import own
from compaction.memory import Memory
from compaction.policy import Policy
from compaction.reading.message import Count, Unfoldable
from compaction.reading.valid import faults
from proxy.chat import replaced
from proxy.tokens.counter import Counter
from proxy.tokens.ratios import Ratios
from proxy.tokens.vocabulary import Tokenizer, vocabulary

_CHAT: Final = "chat/completions"
_BOM: Final = b"\xef\xbb\xbf"
_EMPTY: Final = b"[]"
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class NoConversation(ValueError):
    """What was given holds no conversation; says why, as a sentence goes on."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A chat body.

    Attributes:
        body: All of it.
        messages: Each as JSON.
        fields: The names of all that it holds.
    """

    body: bytes
    messages: tuple[bytes, ...]
    fields: frozenset[str]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it.

    Attributes:
        messages: What would be sent, each as JSON.
        facts: What stands for the messages folded away.
        tokens_before: Tokens of the whole prompt as it came, tools included.
        tokens_after: The same of what would be sent.
        folded: Whether facts stand for any of it.
        reason: Why, or why not, as a code.
        changed: Whether anything would be sent otherwise than it came.
        folded_messages: How many messages the facts stand for.
        mode: How far it was allowed to go.
        model: Whose prices and tokens these are.
        break_even: N*: calls that pay the fold back, this one included; None where none do.
        segments: Which messages each part of the facts stands for, and what it weighs.
        lost: What stood in the folded messages and would not be sent any more.
    """

    messages: tuple[msgspec.Raw, ...]
    facts: tuple[Fact, ...]
    tokens_before: int
    tokens_after: int
    folded: bool
    reason: str
    changed: bool
    folded_messages: int
    mode: str
    model: str
    break_even: float | None
    segments: tuple[dict[str, Any], ...]
    lost: tuple[str, ...]


class Scale:
    """Counts as a model's provider does, near enough where its vocabulary is not published.

    Args:
        model: The name that the upstream knows it by.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._counter = Counter()
        self._ratios = Ratios()

    def prompt(self, body: bytes) -> int:
        """Tokens of a chat body's prompt."""
        counted = self._counter.prompt_tokens(body, _CHAT, self._model)
        return self._ratios.estimate(self._model, counted)

    def text(self) -> Count:
        """Counts texts."""
        tokenizer = Tokenizer(vocabulary(self._model))
        return lambda text: self._ratios.estimate(self._model, tokenizer.count(text))


def conversation(raw: bytes) -> Conversation:
    """The conversation that a file holds.

    Raises:
        NoConversation: If it holds none; says why.
    """
    try:
        fields = _fields(raw.removeprefix(_BOM))
    except msgspec.ValidationError:
        raise NoConversation('is no JSON object; it has to hold {"messages": […]}') from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NoConversation(f"is no JSON: {error}") from None
    if "messages" not in fields:
        raise NoConversation('has no "messages"')
    messages = _listed(fields["messages"], "messages")
    if not messages:
        raise NoConversation("has no message")
    if bytes(fields.get("tools", _EMPTY)) != b"null":
        _listed(fields.get("tools", msgspec.Raw(_EMPTY)), "tools")
    return Conversation(
        body=raw.removeprefix(_BOM),
        messages=tuple(map(bytes, messages)),
        fields=frozenset(fields),
    )


def trial(
    said: Conversation,
    policy: Policy,
    *,
    model: str,
    upstream_model: str,
    fold: Callable[..., Folded] = fold,
) -> Trial:
    """What the gateway would send of it, and what became of the rest.

    Args:
        said: The conversation.
        policy: How it may be folded.
        model: The public name of the model it goes to.
        upstream_model: The name that the upstream knows it by.
        fold: What folds.
    """
    scale = Scale(upstream_model)
    found = _folded(said, policy, scale, fold)
    before = scale.prompt(said.body)
    sent = replaced(said.body, {"messages": _joined(found.messages)})
    after = scale.prompt(sent) if found.changed else before
    if after > before:
        found, after = _as_it_came(said, "grew"), before
    return Trial(
        messages=tuple(
            msgspec.Raw(msgspec.json.format(each, indent=-1)) for each in found.messages
        ),
        facts=found.facts,
        tokens_before=before,
        tokens_after=after,
        folded=bool(found.segments),
        reason=found.reason,
        changed=found.changed,
        folded_messages=found.folded,
        mode=policy.mode.value,
        model=model,
        break_even=found.break_even,
        segments=tuple(
            {
                "start": each.start,
                "end": each.end,
                "rung": each.rung.name.lower(),
                "tokens_before": each.before,
                "tokens_after": each.tokens,
            }
            for each in found.segments
        ),
        lost=tuple(map(str, found.lost)),
    )


def _folded(
    said: Conversation, policy: Policy, scale: Scale, fold: Callable[..., Folded]
) -> Folded:
    """What is sent; as it came wherever the gateway would leave it alone."""
    if why := own(said.fields, said.messages):
        return _as_it_came(said, why)
    try:
        found = fold(
            said.messages,
            policy,
            memory=Memory(),
            around=Around(
                fixed=scale.prompt(replaced(said.body, {"messages": _EMPTY})),
                count=scale.text(),
            ),
            names_lost=True,
        )
    except Unfoldable as why:
        return _as_it_came(said, str(why) or "unfoldable")
    if found.changed and faults(found.messages, said.messages):
        return _as_it_came(said, "invalid")
    return found


def _as_it_came(said: Conversation, why: str) -> Folded:
    return Folded(
        messages=said.messages, changed=False, reason=why, tokens_before=0, tokens_after=0
    )


def _listed(raw: msgspec.Raw, name: str) -> list[msgspec.Raw]:
    try:
        return _list(raw)
    except (msgspec.DecodeError, RecursionError):
        raise NoConversation(f'has as "{name}" something else than a list') from None


def _joined(messages: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(messages) + b"]"
