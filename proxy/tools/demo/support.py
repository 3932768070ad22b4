"""Support chat over documents, in the three orders in which such prompts are built.

================  ===================================================================
variable first    time, customer and the passages of a search; below them the handbook
stable first      the same system message with the handbook on top
shared prefix     handbook; customer; conversation; last the passages and the time
================  ===================================================================

The handbook is most of the prompt and never changes. Passages are found anew for every question,
in the order of their scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

from proxy.tools.demo.conversation import Message, sections, seeded_random, table, text

_SORRY = "Sorry, something went wrong on our side. Could you send that once more?"
_PASSAGES = 4
_EXPLICIT = {"mode": "explicit"}


class PromptOrder(StrEnum):
    """The order of the parts of a prompt."""

    VARIABLE_FIRST = "variable first"
    STABLE_FIRST = "stable first"
    SHARED_PREFIX = "shared prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportCase:
    """The messages of one customer.

    Attributes:
        turns: Questions with the titles of the passages that speak to them.
    """

    shop: str
    plan: str
    turns: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportScript:
    """One customer's chat.

    Attributes:
        passages: All documents a search can find, by title.
        seed: Decides what else a search finds and how it is ranked.
        marks: True if its author marks what the cache is to keep, as GPT-5.6 and later want it;
            not where the variable text comes first, since nothing could be kept.
    """

    case: SupportCase
    handbook: str
    passages: dict[str, str]
    seed: str
    model: str
    order: PromptOrder = PromptOrder.VARIABLE_FIRST
    marks: bool = False
    team: str = "acme-support"
    feature: str = "support-chat"

    @property
    def length(self) -> int:
        """One call for each question."""
        return len(self.case.turns)

    def body(self, turn: int, time: datetime, answers: Sequence[Message | None]) -> dict[str, Any]:
        """The chat so far, with a system message made for this question."""
        history: list[Message] = []
        for number, (question, _) in enumerate(self.case.turns[: turn + 1]):
            if number:
                history.append(answers[number - 1] or {"role": "assistant", "content": _SORRY})
            history.append({"role": "user", "content": question})
        context = self._context(turn, time)
        if self.order is PromptOrder.VARIABLE_FIRST:
            system: Any = f"{context}\n\n{self._customer}\n\n{self.handbook}"
        elif self.order is PromptOrder.STABLE_FIRST:
            system = [self._with_mark(self.handbook), _part(f"{self._customer}\n\n{context}")]
        else:
            system = [self._with_mark(self.handbook), _part(self._customer)]
            for message in history[::2]:
                message["content"] = [self._with_mark(message["content"])]
            history[-1]["content"].append(_part(context))
        messages = [{"role": "system", "content": system}, *history]
        has_marks = self.marks and self.order is not PromptOrder.VARIABLE_FIRST
        options = {"prompt_cache_options": _EXPLICIT} if has_marks else {}
        return {"messages": messages, "max_completion_tokens": 400, **options}

    def _with_mark(self, text: str) -> dict[str, Any]:
        """A part up to which the cache is to keep the prompt."""
        return _part(text) | ({"prompt_cache_breakpoint": _EXPLICIT} if self.marks else {})

    @property
    def _customer(self) -> str:
        return f"You are talking to: {self.case.shop} (plan: {self.case.plan})"

    def _context(self, turn: int, time: datetime) -> str:
        """The text that is another one in each call: the time, and the passages."""
        return "\n\n".join(
            (
                f"Current date and time: {time:%A, %d %B %Y, %H:%M:%S} UTC",
                "Passages found for the customer's question:",
                *(f"[{title}]\n{self.passages[title]}" for title in self._found(turn)),
            )
        )

    def _found(self, turn: int) -> list[str]:
        """Titles of passages as a search ranks them: the fitting ones among others."""
        rank = seeded_random(self.seed, "search", turn)
        fitting = self.case.turns[turn][1]
        fillers = rank.sample(sorted(self.passages.keys() - set(fitting)), _PASSAGES - len(fitting))
        articles = [*fitting, *fillers]
        rank.shuffle(articles)
        return articles


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


def chats(
    seed: str,
    model: str,
    order: PromptOrder = PromptOrder.VARIABLE_FIRST,
    place: tuple[str, str] = ("acme-support", "support-chat"),
) -> list[SupportScript]:
    """One chat for each customer, in an order the seed decides; ``place`` is team and feature."""
    handbook, passages = text("handbook.md"), sections("passages.md")
    customers = list(cases())
    seeded_random(seed, "customers").shuffle(customers)
    team, feature = place
    return [
        SupportScript(
            case=case,
            handbook=handbook,
            passages=passages,
            seed=f"{seed}/{number}",
            model=model,
            order=order,
            team=team,
            feature=feature,
        )
        for number, case in enumerate(customers)
    ]


def _part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
