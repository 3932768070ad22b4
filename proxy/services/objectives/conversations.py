"""True if a call goes on with a conversation, and which; pure."""

from hashlib import blake2b

from proxy.calls.requirements import request_traits
from proxy.records.call import Call


def is_bound(call: Call) -> bool:
    """True if only the upstream that keeps what came before can answer it."""
    return call.fields is not None and call.fields.needs_kept_state


def is_new(call: Call) -> bool:
    """True if nothing of the call's conversation that it says itself was answered before.

    Where its form is not known, what looks like an answer counts as one: then it stays where it is.
    """
    return not request_traits(call).is_answered


def conversation_key(call: Call) -> bytes:
    """16 bytes that a conversation's calls share: its name, else who asked and what came first.

    Conversations without a name that begin with the same words share them, too.
    """
    texts = (call.key.team, call.feature, call.end_user, call.conversation)
    parts = [text.encode(errors="replace") for text in texts]
    if not call.conversation:
        parts.append(request_traits(call).first)
    return blake2b(b"\0".join(parts), digest_size=16).digest()


def canary_draw(call: Call) -> float:
    """A number from 0 to below 1 that is the call's own, on every replica the same."""
    return int.from_bytes(blake2b(call.id.encode(), digest_size=6).digest(), "big") / 2.0**48
