from proxy.prefix.openings import opening
from proxy.prefix.prompt import Block
from tests.proxy.prefix.sendings import block

TOOLS = [block("search", 400, role="tools", at=at) for at in range(2)]
RULES = block("rules", 9_000, role="system", leads=True)
HELLO = block("hello", 100, at=1)


def begins(*blocks: Block) -> tuple[int, int]:
    found = opening(blocks)
    return found.head, found.first


def test_tools_and_the_stable_slot_are_counted():
    found = opening([*TOOLS, RULES, HELLO])

    assert (found.tools, found.stable) == (2, 3)


def test_a_conversation_that_goes_on_begins_in_the_same_way():
    answer, question = block("yes", 50, role="assistant", at=2), block("and?", 50, at=3)

    assert opening([RULES, HELLO, answer, question]) == opening([RULES, HELLO])


def test_another_first_message_leaves_the_stable_slot_as_it_was():
    (head, first), (same, other) = begins(RULES, HELLO), begins(RULES, block("bye", 90, at=1))

    assert head == same
    assert first != other


def test_another_stable_slot_changes_all_behind_it():
    (head, first), (another, other) = (
        begins(RULES, HELLO),
        begins(block("news", 9_000, role="system", leads=True), HELLO),
    )

    assert head != another
    assert first != other


def test_an_empty_prompt_begins_with_nothing():
    assert (opening([]).tools, opening([]).stable) == (0, 0)
