"""Documentation-like text, made up: the same for the same seed, as long as is asked for."""

import random
from functools import cache

_THINGS = (
    "parcel", "return label", "pick list", "supplier invoice", "stock count", "cold box",
    "delivery slot", "damage report", "customs form", "bulk order", "gift card", "store credit",
    "exchange", "carrier scan", "address change", "refund", "warranty claim", "back order",
)  # fmt: skip
_WHO = (
    "the floor lead", "a second agent", "the billing desk", "the carrier desk", "the night shift",
    "the account owner", "the branch office", "the quality team",
)  # fmt: skip
_STATES = ("open", "held", "released", "disputed", "settled", "archived", "sent back", "counted")
_RULES = (
    "A {thing} that is {state} may be changed by {who} within {n} hours, and by nobody afterwards.",
    "When a {thing} stays {state} for more than {n} days, ask {who} before anything is promised.",
    "Write down the number of the {thing} first; without it {who} cannot find it again.",
    "Do not offer more than {n} euros for a {thing} unless {who} has agreed in writing.",
    "If the {thing} and the {other} disagree, the {other} counts and {who} is told the same day.",
    "Say plainly that a {thing} which is {state} takes about {n} working days; never say sooner.",
    "A {other} that refers to a {thing} is closed together with it, once {who} has looked at both.",
    "Where a customer has {n} or more cases of a {thing}, hand all of them to {who} at once.",
)
_STEPS = (
    "Open the {thing} and read its last {n} entries.",
    "Check that the {other} is {state}.",
    "Ask {who} whether the {thing} can be {state}.",
    "Enter code {code} and wait for the green line.",
    "Tell the customer what happens next, in one sentence.",
    "Set the {thing} to {state} and note the time.",
)


def dice(*seed: object) -> random.Random:
    """Dice that fall the same way for the same seed."""
    return random.Random("/".join(map(str, seed)))  # noqa: S311 - repeatable, not secret


@cache
def handbook(sections: int = 110, seed: str = "handbook") -> str:
    """Numbered sections of rules and steps; 110 of them are some 12,000 tokens."""
    return "\n\n".join(section(number, f"{seed}/{number}") for number in range(1, sections + 1))


def section(number: int, seed: str) -> str:
    """One section, some 115 tokens."""
    roll = dice(seed)
    rules = " ".join(_fill(roll, rule) for rule in roll.sample(_RULES, 3))
    steps = "\n".join(f"{index}. {_fill(roll, step)}" for index, step in enumerate(_few(roll), 1))
    return f"## {number}. {roll.choice(_THINGS).capitalize()}\n{rules}\n{steps}"


def passages(question: str, count: int = 6) -> str:
    """Return what a search finds for a question: some 90 tokens each, found in no handbook."""
    filled = (_filled_passage(question, index) for index in range(count))
    return "\n\n".join(["Passages found for the question:", *filled])


def question(seed: str) -> str:
    """Return what a customer asks; no two seeds ask the same."""
    roll = dice("question", seed)
    thing, other, state = roll.choice(_THINGS), roll.choice(_THINGS), roll.choice(_STATES)
    number = roll.randrange(10_000, 99_999)
    return (
        f"My {thing} {number} has been {state} since the {roll.randrange(1, 29)}th, and the {other}"
        f" that came with it says something else. What happens now, and who do I write to?"
    )


def _few(roll: random.Random) -> list[str]:
    return roll.sample(_STEPS, 3)


def _filled_passage(question: str, index: int) -> str:
    roll = dice("passage", question, index)
    rules = " ".join(_fill(roll, rule) for rule in roll.sample(_RULES, 4))
    return f"[Note {roll.randrange(1000, 9999)}] {rules}"


def _fill(roll: random.Random, words: str) -> str:
    thing, other = roll.sample(_THINGS, 2)
    return words.format(
        thing=thing,
        other=other,
        who=roll.choice(_WHO),
        state=roll.choice(_STATES),
        n=roll.randrange(2, 60),
        code=f"{roll.choice('KLMNPRST')}{roll.randrange(100, 999)}",
    )
