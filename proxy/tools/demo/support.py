"""Support chat over documents, built the way people build it: date and passages before the rules.

The system message is made anew for every turn. Its first line is the time, then come the passages
a search found for the question in the order of their scores, and only then the handbook, which is
most of the prompt and never changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from proxy.tools.demo.conversation import Message, sections, seeded_random, table, text

_SORRY = "Sorry, something went wrong on our side. Could you send that once more?"
_PASSAGES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportCase:
    """The messages of one customer.

    Attributes:
        shop: Description of the customer.
        plan: Plan that the customer pays for.
        turns: Questions with the titles of the passages that speak to them.
    """

    shop: str
    plan: str
    turns: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportScript:
    """One customer's chat.

    Attributes:
        case: Messages of the customer.
        handbook: The rules, the same for everybody.
        passages: All documents a search can find, by title.
        seed: Decides what else a search finds and how it is ranked.
    """

    case: SupportCase
    handbook: str
    passages: dict[str, str]
    seed: str
    model: str
    team: str = "acme-support"
    feature: str = "support-chat"

    @property
    def length(self) -> int:
        """One call for each question."""
        return len(self.case.turns)

    def body(self, turn: int, at: datetime, answers: Sequence[Message | None]) -> dict[str, Any]:
        """The chat so far, below a system message made for this question."""
        history: list[Message] = []
        for number, (question, _) in enumerate(self.case.turns[: turn + 1]):
            if number:
                history.append(answers[number - 1] or {"role": "assistant", "content": _SORRY})
            history.append({"role": "user", "content": question})
        system = {"role": "system", "content": self._system(turn, at)}
        return {"messages": [system, *history], "max_completion_tokens": 400}

    def _system(self, turn: int, at: datetime) -> str:
        """Time, customer and passages, and the handbook below them."""
        return "\n\n".join(
            (
                f"Current date and time: {at:%A, %d %B %Y, %H:%M:%S} UTC",
                f"You are talking to: {self.case.shop} (plan: {self.case.plan})",
                "Passages found for the customer's question:",
                *(f"[{title}]\n{self.passages[title]}" for title in self._found(turn)),
                self.handbook,
            )
        )

    def _found(self, turn: int) -> list[str]:
        """Titles of passages as a search ranks them: the fitting ones among others."""
        rank = seeded_random(self.seed, "search", turn)
        fitting = self.case.turns[turn][1]
        others = rank.sample(sorted(self.passages.keys() - set(fitting)), _PASSAGES - len(fitting))
        found = [*fitting, *others]
        rank.shuffle(found)
        return found


@cache
def cases() -> tuple[SupportCase, ...]:
    """All customers there are."""
    return tuple(
        SupportCase(
            shop=entry["shop"],
            plan=entry["plan"],
            turns=tuple((turn["asks"], tuple(turn["found"])) for turn in entry["turns"]),
        )
        for entry in table("support.toml", "case")
    )


def chats(seed: str, models: Sequence[str]) -> list[SupportScript]:
    """One chat for each customer, in an order the seed decides, on the models in turn."""
    handbook, passages = text("handbook.md"), sections("passages.md")
    order = list(cases())
    seeded_random(seed, "customers").shuffle(order)
    return [
        SupportScript(
            case=case,
            handbook=handbook,
            passages=passages,
            seed=f"{seed}/{number}",
            model=models[number % len(models)],
        )
        for number, case in enumerate(order)
    ]
