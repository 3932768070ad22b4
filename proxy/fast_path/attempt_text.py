"""Says in one sentence what the fast path did with an attempt, for commands and pages alike."""

from collections.abc import Callable, Mapping
from typing import Final

from proxy.records.amounts import money
from proxy.records.receipt import Outcome, Receipt, ServedBy

#: With which the note begins of an attempt that goes on with a stream; it names the first part.
_CONTINUES: Final = "continues "
#: With which features of calls that warm replicas begin.
_WARMING: Final = "warming:"
#: With which the reason of a cascade's first attempt ends.
_CHECKED: Final = "checked"


def fast_path_text(receipt: Receipt) -> str:
    """A sentence on the fast path's part in an attempt; "" where it had none."""
    return _TEXTS[receipt.served_by](receipt)


def _cached_text(receipt: Receipt) -> str:
    if receipt.outcome is Outcome.HUNG_UP:
        return "The caller hung up before it had the answer to another call; it cost nothing."
    how = f" ({receipt.error})" if receipt.error else ""
    saved = receipt.fast_path_nanos
    worth = "" if saved is None else f"; its answer cost {money(saved)} the first time"
    return (
        f"The answer to another call answered it with {receipt.status}{how}, so nothing was sent"
        f"{worth}."
    )


def _small_text(receipt: Receipt) -> str:
    if receipt.outcome is Outcome.FAILED:
        return f"A small model was asked first and gave no answer that is accepted{_gain(receipt)}."
    is_checked = receipt.reroute_reason.endswith(_CHECKED)
    why = "its answer passed the checks" if is_checked else "the loss of answers is proved small"
    return f"A small model answered in place of {receipt.model}, as {why}{_gain(receipt)}."


def _large_text(receipt: Receipt) -> str:
    if receipt.attempt:
        return "The model asked for answered after a small model was tried."
    return (
        "A small model was weighed, and the model asked for was taken: not enough is proved of"
        " the small one on such calls, or it lost more answers than the rule allows."
    )


def _draft_text(receipt: Receipt) -> str:
    return f"It drafted while the model asked for made the answer{_gain(receipt)}."


def _other_text(receipt: Receipt) -> str:
    """The sentence on an attempt that no part of the fast path chose."""
    if receipt.fast_path_nanos is not None:
        is_warming = receipt.feature.startswith(_WARMING)
        why = "to read a prompt ahead" if is_warming else "to compare two answers"
        return f"The gateway made this call itself, {why}{_gain(receipt)}."
    if receipt.attempt and any(note.startswith(_CONTINUES) for note in receipt.notes):
        return "It goes on with a stream that broke off; both parts are billed."
    return ""


def _gain(receipt: Receipt) -> str:
    """The amount saved or spent, after a semicolon; "" where that is unknown."""
    nanos = receipt.fast_path_nanos
    if nanos is None:
        return ""
    return f"; that saved {money(nanos)}" if nanos >= 0 else f"; that cost {money(-nanos)}"


_TEXTS: Final[Mapping[ServedBy, Callable[[Receipt], str]]] = {
    ServedBy.NOBODY: _other_text,
    ServedBy.CACHE: _cached_text,
    ServedBy.SMALL: _small_text,
    ServedBy.LARGE: _large_text,
    ServedBy.DRAFT: _draft_text,
}
