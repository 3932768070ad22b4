"""The conversations that were written for the bench: twins in nineteen languages, kinds of work."""

from collections.abc import Iterator, Mapping, Sequence
from unicodedata import category

import orjson

from compaction.compact import ConversationContext, compact
from compaction.facts.fact import FactKind
from compaction.memory import CompactionMemory
from compaction.policy import CompactionPolicy
from tests.bench.compaction.cases import ChatCase, at_risk, plain, stands
from tests.bench.compaction.measuring import tokenizer
from tests.fakes.marked_conversations import MarkedConversation, MarkedValue, twins, work


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


def known_wishes() -> Mapping[str, int]:
    """Standing wishes that compaction keeps as rules, of the three of each conversation."""
    return {name: _rules_among(talk) for name, talk in {**twins(), **work()}.items()}


def _rules_among(talk: MarkedConversation) -> int:
    policy = CompactionPolicy(force=True, once=True)
    made = compact(
        [orjson.dumps(message) for message in talk.messages],
        policy,
        memory=CompactionMemory(),
        context=ConversationContext(count=tokenizer()),
    )
    rules = plain("\n".join(fact.text for fact in made.facts if fact.kind is FactKind.RULE))
    return sum(stands(rules, _without_mark(plain(wish))) for wish in talk.wishes)


def _without_mark(wish: str) -> str:
    """A wish without the mark that ends it, which a rule may lack."""
    return wish[:-1] if category(wish[-1]).startswith("P") else wish


def _case(talk: MarkedConversation, values: Sequence[MarkedValue]) -> Iterator[ChatCase]:
    needed = at_risk(talk.messages, len(talk.messages), [value.value for value in values])
    yield ChatCase(name=talk.name, messages=talk.messages, needed=[(value,) for value in needed])
