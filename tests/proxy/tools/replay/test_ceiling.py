"""The most that could be read."""

from proxy.tools.replay.ceiling import IdealCache
from proxy.tools.replay.line_limits import CacheBounds
from proxy.tools.replay.prompt_units import PromptUnits
from tests.proxy.tools.replay.scene import RULES, assistant, body, prompt_reader, system, tool, user


class IdealCacheReader:
    def __init__(self, vocabulary, limits: CacheBounds | None = None) -> None:
        self.ceiling = IdealCache(limits or CacheBounds(), PromptUnits(vocabulary.ends))
        self._reading = prompt_reader("blocks", vocabulary)
        self.vocabulary = vocabulary

    def call(self, *messages, answer: str = "", **fields) -> tuple[int, int]:
        """Tokens known of a call, and its tokens."""
        prompt = self._reading.read_prompt(body(*messages, **fields), 0.0)
        taken = self.ceiling.split(prompt, self.vocabulary.ids(answer))
        known = sum(piece.tokens for piece in self.ceiling.known_pieces(taken))
        self.ceiling.note(taken)
        return known, prompt.tokens


def test_the_first_call_knows_nothing(vocabulary):
    assert IdealCacheReader(vocabulary).call(system(*RULES), user("Hi"))[0] == 0


def test_the_same_call_again_is_known_whole(vocabulary):
    asked = IdealCacheReader(vocabulary)
    known, total = [asked.call(system(*RULES), user("Hi")) for _ in range(2)][1]

    assert known == total
    assert asked.ceiling.read(known, total, 0) == total - 1


def test_a_line_that_varies_costs_only_itself(vocabulary):
    asked = IdealCacheReader(vocabulary)
    asked.call(system("It is Monday.", *RULES), user("Hi"))

    known, total = asked.call(system("It is Tuesday, noon.", *RULES), user("Hi"))

    assert 5 <= total - known <= 7


def test_tools_that_are_shuffled_are_known(vocabulary):
    asked = IdealCacheReader(vocabulary)
    asked.call(user("Hi"), tools=[tool("a"), tool("b"), tool("c")])

    known, total = asked.call(user("Hi"), tools=[tool("c"), tool("a"), tool("b")])

    assert known == total


def test_a_conversation_is_known_as_far_as_it_went_before(vocabulary):
    asked = IdealCacheReader(vocabulary)
    start = [user("Hi"), assistant("Hello. " * 20)]
    asked.call(*start, user("One"))
    same, total = asked.call(*start, user("One"), assistant("1"), user("Two"))
    other, _ = asked.call(user("Ho"), *start[1:], user("One"))

    assert total - same < 15
    assert other == 0


def test_an_answer_is_known_only_where_answers_are_stored(vocabulary):
    answer = "An answer of some length, said once. " * 20
    first, then = [user("Hi")], [user("Hi"), assistant(answer), user("So?")]
    keeps, drops = (
        IdealCacheReader(vocabulary, CacheBounds(answers=True)),
        IdealCacheReader(vocabulary),
    )

    for asked in (keeps, drops):
        asked.call(*first, answer=answer)

    assert keeps.call(*then)[0] > 100 > drops.call(*then)[0]


def test_the_upper_bound_keeps_to_the_caches_limits():
    limits = CacheBounds(least=64, step=16)
    read = IdealCache(limits, PromptUnits(frozenset())).read

    assert read(100, 100, 0) == 96
    assert read(63, 100, 0) == 0
    assert read(65, 65, 0) == 64
    assert read(10, 100, 48) == 48
    assert read(0, 0, 0) == 0
    assert IdealCache(CacheBounds(caches=False), PromptUnits(frozenset())).read(100, 100, 0) == 0


def test_tokens_in_the_upper_bound_were_written_once(vocabulary):
    asked = IdealCacheReader(vocabulary)
    ceiling = asked.ceiling
    prompt = prompt_reader("blocks", vocabulary).read_prompt(body(system(*RULES), user("Hi")), 0.0)
    taken = ceiling.split(prompt, ())
    ceiling.note(taken)
    known = ceiling.known_pieces(taken)

    written = ceiling.written_tokens(known)
    ceiling.note(taken)

    assert written == sum(piece.tokens for piece in set(known)) > 0
    assert ceiling.written_tokens(ceiling.known_pieces(taken)) == 0


def test_nothing_is_read_up_to_an_answer_where_none_can_end_an_entry(vocabulary):
    said = [user("Hi"), assistant("Hello. " * 20)]
    asked = IdealCacheReader(vocabulary, CacheBounds(spoken=False))
    asked.call(*said, assistant("And more."))
    again, _ = asked.call(*said, assistant("Or less."))
    other, total = asked.call(*said, assistant("Or less."), user("So?"))
    after, _ = asked.call(*said, assistant("Or less."), user("So?"), assistant("Yes."))

    assert again < 15
    assert other < 15
    assert total - after < 15


def test_a_prefix_that_no_single_call_held_is_not_read(vocabulary):
    asked = IdealCacheReader(vocabulary)
    asked.call(system(RULES[0]), user("Hi"))
    asked.call(system(RULES[1]), user("Ho"))
    known, total = asked.call(system(*RULES[:2]), user("Hi"))

    assert 0 < known < total - 5
