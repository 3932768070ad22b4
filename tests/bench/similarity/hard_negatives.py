"""Pairs of questions that look alike and want different answers, made from any sentences.

Each kind puts one difference into two copies of a sentence, or into a sentence and its paraphrase.
The words put in are listed here and not taken from the gates' tables; some stand in none of them.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple


def _split_words(words: str) -> tuple[str, ...]:
    """The words of a list parted by blanks."""
    return tuple(words.split())


_NAMES: Final = _split_words(
    "alice bob carlos diana erik fatima george hannah ivan julia kenji laura mehmet nadia "
    "oscar priya quentin rosa stefan tamara berlin boston cairo denver geneva hamburg "
    "istanbul jakarta kyoto lagos madrid nairobi oslo prague quito rome seoul toronto "
    "utrecht vienna walmart spotify netflix toyota siemens nestle python rust kubernetes "
    "postgres redis django"
)
_OBJECTS: Final = _split_words(
    "savings checking inbox archive warehouse kitchen office garage main backup staging "
    "production red blue green brake engine router switch invoice receipt contract chapter "
    "appendix"
)
_DATES: Final = _split_words(
    "monday tuesday wednesday thursday friday saturday sunday tomorrow yesterday today "
    "january february march april june july august september october november december"
)
_UNITS: Final = _split_words(
    "km miles meters feet inches kg pounds grams ounces liters gallons cups celsius "
    "fahrenheit dollars euros yen minutes hours days weeks months years percent gb mb"
)
_CONDITIONS: Final = (
    "if it rains",
    "unless i call you first",
    "only on my phone",
    "except for the newest one",
    "provided that it is free",
    "but only when i am abroad",
    "as long as nobody is home",
    "in case of fire",
    "assuming the shop is closed",
    "until further notice",
    "without telling my boss",
    "if the amount is large",
    "unless the manager agrees",
    "only for members",
    "excluding taxes",
    "once the parcel arrives",
    "even though it expired",
    "instead of the usual way",
    "when the server is overloaded",
    "given that my passport was stolen",
    "while on vacation",
    "for customers younger than retirement age",
    "on a shared computer",
)
_ANTONYMS: Final = tuple(
    tuple(pair.split())
    for pair in (
        *("increase decrease", "open close", "start stop", "enable disable", "add remove"),
        *("buy sell", "send receive", "lock unlock", "freeze unfreeze", "upload download"),
        *("before after", "first last", "old new", "more less", "maximum minimum", "high low"),
        *("big small", "long short", "fast slow", "hot cold", "good bad", "best worst"),
        *("cheap expensive", "easy difficult", "safe dangerous", "legal illegal", "left right"),
        *("north south", "public private", "include exclude", "accept reject", "arrive depart"),
        *("activate deactivate", "subscribe unsubscribe", "install uninstall", "borrow lend"),
        *("deposit withdraw", "approve deny", "connect disconnect", "show hide", "encrypt decrypt"),
        *("oldest newest", "earliest latest", "inbound outbound", "wholesale retail"),
        *("domestic international", "permanent temporary", "smooth rough", "ancient modern"),
        *("praise criticise", "hasten delay", "innocent guilty", "scarce abundant"),
        *("recto verso", "stalactite stalagmite", "bullish bearish", "benign malignant"),
    )
)
_NEGATED: Final = re.compile(r"\b(is|are|was|were|can|could|do|does|did|should|would|will|has)\b")


class HardNegative(NamedTuple):
    """A question that was answered, one that must not have its answer, and the difference."""

    kind: str
    kept: str
    asked: str


def hard_negatives(
    sentences: Sequence[tuple[str, str]], count: int, seed: int
) -> Iterator[HardNegative]:
    """So many pairs, of all kinds in turn.

    Args:
        sentences: Sentences, each with a paraphrase or with itself.
        count: Number of pairs.
        seed: Of the choice of sentences and words.
    """
    dice = random.Random(seed)  # noqa: S311 # no secret
    kinds = list(_KINDS.items())
    made = 0
    while made < count:
        kind, make = kinds[made % len(kinds)]
        one, other = (text.rstrip(" .?!") for text in dice.choice(sentences))
        yield HardNegative(kind, *make(one, other, dice))
        made += 1


def _fill_frame(
    frames: Sequence[str],
    words: Callable[[random.Random], str],
    one: str,
    other: str,
    dice: random.Random,
) -> tuple[str, str]:
    """Two texts in one frame with different words."""
    frame, first = dice.choice(frames), words(dice)
    second = next(word for word in iter(lambda: words(dice), None) if word != first)
    return frame.format(s=one, w=first), frame.format(s=other, w=second)


def _negation(one: str, other: str, dice: random.Random) -> tuple[str, str]:
    """A text and its negation, either of them kept."""
    if _NEGATED.search(other):
        negated = _NEGATED.sub(lambda verb: f"{verb[1]} {dice.choice(('not', 'never'))}", other, 1)
    else:
        negated = dice.choice(("do not ", "never ", "i don't want this: ", "no longer: ")) + other
    return (one, negated) if dice.random() < 0.5 else (negated, one)


def _antonym(one: str, other: str, dice: random.Random) -> tuple[str, str]:
    """Two texts with a word and its opposite."""
    pair = dice.choice(_ANTONYMS)
    first, second = pair if dice.random() < 0.5 else pair[::-1]
    frame = dice.choice(("{s}, the {w} one", "{w}: {s}", "{s} and {w} it", "the {w} {s}"))
    return frame.format(s=one, w=first), frame.format(s=other, w=second)


def _number(one: str, other: str, dice: random.Random) -> tuple[str, str]:
    """Two texts with different numbers."""
    frames = ("{s} for {w} people", "{s} (order {w})", "{s} up to {w}", "in {w} steps: {s}")
    return _fill_frame(frames, lambda dice: str(dice.randint(2, 9_999)), one, other, dice)


def _name(one: str, other: str, dice: random.Random) -> tuple[str, str]:
    """Two texts with different names, half of them written small."""

    def name(dice: random.Random) -> str:
        return dice.choice(_NAMES)

    frames = ["{s} for {w}", "{s} in {w}", "{w}: {s}", "{s}, asked by {w}"]
    kept, asked = _fill_frame(frames, name, one, other, dice)
    if dice.random() < 0.5:
        return kept, asked
    return _with_capitals(kept), _with_capitals(asked)


def _with_capitals(text: str) -> str:
    """A text whose names begin with a capital."""
    return " ".join(word.capitalize() if word in _NAMES else word for word in text.split(" "))


def _date(one: str, other: str, dice: random.Random) -> tuple[str, str]:
    """Two texts with different days or months."""
    return _fill_frame(
        ("{s} on {w}", "{s} since {w}", "{w}: {s}"),
        lambda dice: dice.choice(_DATES),
        one,
        other,
        dice,
    )


def _unit(one: str, other: str, dice: random.Random) -> tuple[str, str]:
    """Two texts with one amount in different units."""
    amount = dice.randint(2, 99)
    return _fill_frame(
        (f"{{s}} within {amount} {{w}}", f"{{s}}, {amount} {{w}}"),
        lambda dice: dice.choice(_UNITS),
        one,
        other,
        dice,
    )


def _order(one: str, other: str, dice: random.Random) -> tuple[str, str]:
    """Two texts whose arguments are exchanged."""
    words = _NAMES if dice.random() < 0.5 else _OBJECTS
    first, second = dice.sample(words, 2)
    frame = dice.choice(
        (
            "{s} from {a} to {b}",
            "{s}: move {a} before {b}",
            "{s}, is {a} cheaper than {b}",
            "{s} and convert {a} into {b}",
            "{s}: does {a} depend on {b}",
            "{s} if {a} sued {b}",
            "replace {a} with {b}: {s}",
            "{s} when {a} owes {b}",
        )
    )
    return frame.format(s=one, a=first, b=second), frame.format(s=other, a=second, b=first)


def _condition(one: str, other: str, dice: random.Random) -> tuple[str, str]:
    """A text and the same with a condition, or two with different ones."""
    first, second = dice.sample(_CONDITIONS, 2)
    with_first, with_second = f"{one} {first}", f"{other} {second}"
    return dice.choice(((one, with_second), (with_first, other), (with_first, with_second)))


#: By kind, the two texts made of a sentence and its paraphrase.
_KINDS: Final[dict[str, Callable[[str, str, random.Random], tuple[str, str]]]] = {
    "negation": _negation,
    "antonym": _antonym,
    "number": _number,
    "name": _name,
    "date": _date,
    "unit": _unit,
    "order of arguments": _order,
    "added condition": _condition,
}
