"""The conversations that were written for the bench: twins in nineteen languages, kinds of work."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from unicodedata import category

import orjson

from compaction.compact import ConversationContext, compact
from compaction.facts.fact import FactKind
from compaction.memory import CompactionMemory
from compaction.policy import CompactionPolicy
from tests.bench.compaction.cases import ChatCase, at_risk, plain, stands
from tests.bench.compaction.measuring import tokenizer
from tests.fakes.dialogue import Message
from tests.fakes.marked_conversations import TWINS, MarkedConversation, MarkedValue, twins, work

HELD_BACK_WISHES: Final = TWINS.with_name("held_back_wishes.toml")
#: Tokens into which nothing fits but what stands whatever room there is, as rules do.
_LEAST_TARGET: Final = 1
_ANSWER: Final[Message] = {"role": "assistant", "content": "OK."}


def assistant_values(languages: Sequence[str]) -> Iterator[ChatCase]:
    """Values that only the assistant said, in these languages."""
    for language in languages:
        talk = twins()[language]
        yield from _case(talk, [value for value in talk.values if not value.is_accepted])


def accepted_proposals() -> Iterator[ChatCase]:
    """Proposals that the user accepted, in all languages."""
    for talk in twins().values():
        yield from _case(talk, [value for value in talk.values if value.is_accepted])


def kinds_of_work() -> Iterator[ChatCase]:
    """Values of a shop, a help desk, a bank and a coding agent, whoever said them."""
    for talk in work().values():
        yield from _case(talk, talk.values)


def known_wishes() -> Mapping[str, tuple[int, int]]:
    """Standing wishes of each conversation that compaction keeps as rules, and all of them."""
    conversations = {**twins(), **work()}
    return {name: (_rules_among(talk), len(talk.wishes)) for name, talk in conversations.items()}


def held_back_wishes() -> Mapping[str, tuple[int, int, int]]:
    """Wishes of other words in each language that become rules, all, and other sentences that do.

    They stand in the place of those of the twin, each in a message of its own.
    """
    sentences = tomllib.loads(HELD_BACK_WISHES.read_text(encoding="utf8"))
    counts = {}
    for language, lists in sentences.items():
        talk = twins()[language]
        texts = [*lists["wishes"], *lists["others"]]
        added: list[Message] = [
            message for text in texts for message in ({"role": "user", "content": text}, _ANSWER)
        ]
        rules = _rules([*added, *talk.messages[4:]])
        kept, false = (sum(_is_among(text, rules) for text in lists[key]) for key in lists)
        counts[language] = (kept, len(lists["wishes"]), false)
    return counts


def _rules_among(talk: MarkedConversation) -> int:
    rules = _rules(talk.messages)
    return sum(_is_among(wish, rules) for wish in talk.wishes)


def _rules(messages: Sequence[Message]) -> str:
    """The plain text of all rules that compaction finds."""
    made = compact(
        [orjson.dumps(message) for message in messages],
        CompactionPolicy(force=True, once=True, target=_LEAST_TARGET),
        memory=CompactionMemory(),
        context=ConversationContext(count=tokenizer()),
    )
    return plain("\n".join(fact.text for fact in made.facts if fact.kind is FactKind.RULE))


def _is_among(wish: str, rules: str) -> bool:
    return stands(rules, _without_mark(plain(wish)))


def _without_mark(wish: str) -> str:
    """A wish without the mark that ends it, which a rule may lack."""
    return wish[:-1] if category(wish[-1]).startswith("P") else wish


def _case(talk: MarkedConversation, values: Sequence[MarkedValue]) -> Iterator[ChatCase]:
    needed = at_risk(talk.messages, len(talk.messages), [value.value for value in values])
    yield ChatCase(name=talk.name, messages=talk.messages, needed=[(value,) for value in needed])
