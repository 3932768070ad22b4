"""Prompts taken apart."""

from proxy.tools.replay.prompt_units import PromptUnits, beginnings, history, place
from tests.proxy.tools.replay.scene import RULES, assistant, body, prompt_reader, system, tool, user


def prompt(vocabulary, *messages, **fields):
    return prompt_reader("blocks", vocabulary).read_prompt(body(*messages, **fields), 0.0)


def units(vocabulary) -> PromptUnits:
    return PromptUnits(vocabulary.ends)


def test_lines_in_another_order_are_the_same_units(vocabulary):
    taken = units(vocabulary)
    one = prompt(vocabulary, system("First.", "Second.", "Third.", ""), user("Hi"))
    two = prompt(vocabulary, system("Third.", "First.", "Second.", ""), user("Hi"))

    assert list(taken.heads(one)) != list(taken.heads(two))
    assert set(taken.heads(one)) == set(taken.heads(two))


def test_a_part_that_ends_with_a_line_ends_with_a_unit(vocabulary):
    vocabulary.ids("First.\nSecond.")
    parts = [{"type": "text", "text": text} for text in ("First.\n", "Second.")]
    one = prompt(vocabulary, {"role": "system", "content": parts}, user("Hi"))
    two = prompt(vocabulary, system("First.", "Second."), user("Hi"))
    taken = units(vocabulary)

    assert list(taken.heads(one)) == list(taken.heads(two))


def test_tools_in_another_order_are_the_same_units_whole(vocabulary):
    taken = units(vocabulary)
    one = prompt(vocabulary, user("Hi"), tools=[tool("a"), tool("b")])
    two = prompt(vocabulary, user("Hi"), tools=[tool("b"), tool("a")])

    assert set(taken.heads(one)) == set(taken.heads(two))
    assert len(set(taken.heads(one))) == 4


def test_units_and_history_are_the_whole_prompt(vocabulary):
    whole = prompt(vocabulary, system(*RULES), user("Hi"), assistant("Yes"), tools=[tool("a")])

    heads = sum(piece.tokens for piece in units(vocabulary).heads(whole))

    assert heads + sum(piece.tokens for piece in history(whole)) == whole.tokens
    assert sum(piece.tokens for piece in beginnings(whole)) == whole.tokens


def test_a_conversation_has_the_same_beginnings_under_another_system_text(vocabulary):
    one = prompt(vocabulary, system("Monday."), user("Hi"), assistant("Yes"), user("And?"))
    two = prompt(vocabulary, system("Tuesday."), user("Hi"), assistant("Yes"), user("So?"))

    same = len(set(history(one)) & set(history(two)))

    assert same == 2
    assert not set(beginnings(one)) & set(beginnings(two))


def test_an_answer_lengthens_the_last_beginning(vocabulary):
    asked = prompt(vocabulary, user("Hi"))

    answered = history(asked, vocabulary.ids("Yes, of course"))

    assert answered[:-1] == history(asked)[:-1]
    assert answered[-1].tokens == history(asked)[-1].tokens + 4


def test_a_prompt_of_another_scope_shares_nothing(vocabulary):
    one = prompt(vocabulary, system("Be brief."), user("Hi"))
    two = prompt(vocabulary, system("Be brief."), user("Hi"), reasoning_effort="high")
    taken = units(vocabulary)

    assert not set(taken.heads(one)) & set(taken.heads(two))
    assert not set(history(one)) & set(history(two))


def test_of_an_empty_prompt_there_are_no_pieces(vocabulary):
    empty = prompt(vocabulary, user("Hi")).__class__(blocks=())

    assert history(empty, (1, 2)) == []
    assert list(units(vocabulary).heads(empty)) == []


def test_remembered_prompt_units_are_bounded(vocabulary):
    taken = PromptUnits(vocabulary.ends, most=50)

    for number in range(100):
        list(taken.heads(prompt(vocabulary, system(f"Number {number}.", *RULES), user("Hi"))))

    assert taken._held <= 50
    assert sum(map(len, taken._known.values())) == taken._held


def test_a_place_has_a_name(vocabulary):
    whole = prompt(vocabulary, system(*RULES), user("Hi"), tools=[tool("a")])

    assert place(whole, 0) == "the tools"
    assert place(whole, 50) == "the system text"
    assert place(whole, whole.tokens - 1) == "the conversation"
    assert place(whole, whole.tokens) == "the conversation"


def test_a_beginning_knows_whether_the_assistant_spoke_last_or_is_about_to(vocabulary):
    found = history(prompt(vocabulary, user("Hi"), assistant("Yes"), user("And?")))

    assert [link.spoken for link in found] == [False, True, False, True]
