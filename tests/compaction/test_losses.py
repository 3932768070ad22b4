"""Tests of what compaction says is lost is what an independent scan finds lost."""

import json
import re
import unicodedata
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.compact import compact
from compaction.losses import redact_values
from compaction.memory import CompactionMemory
from compaction.policy import CompactionPolicy
from compaction.value_tokens import find_name
from tests.examples import examples
from tests.fakes.chat_messages import assistant, system, tool_call_and_result, user

_POLICY = CompactionPolicy(force=True, once=True, keep_turns=1)
_CODE = "\n".join(f"{n}: def made_{n}_here(): return 0x{n:04}F" for n in range(400))


def read() -> list[bytes]:
    return [
        user("Read it."),
        *tool_call_and_result("read_file", {"path": "a/b.py"}, _CODE),
        assistant("So."),
    ]


def test_lost_values_are_named():
    compacted = compact(
        [*read(), user("Now?")], _POLICY, memory=CompactionMemory(), names_lost=True
    )

    facts_text = "\n".join(fact.text for segment in compacted.segments for fact in segment.facts)
    assert compacted.lost
    assert not [name for name in compacted.lost if find_name(facts_text, name) >= 0]


def test_a_thousand_lost_values_are_named():
    names = "\n".join(f"made_{number}_here" for number in range(1_300))
    raws = [user("Read it."), *tool_call_and_result("read_file", {"path": "a/b.py"}, names)]
    raws += [assistant("So."), user("Now?")]

    assert len(compact(raws, _POLICY, memory=CompactionMemory(), names_lost=True).lost) == 1_000


def test_numbers_of_turns_and_of_what_is_gone_keep_no_amount():
    raws = [user("Pay them")]
    for number, amount in enumerate((2, 3, 3)):
        raws += tool_call_and_result(
            "get_transfer", {"to": "Bo", "amount": amount}, "done", f"c{number}"
        )
    raws += [assistant("Paid."), user("Thanks"), assistant("Well."), user("Bye")]
    policy = CompactionPolicy(force=True, once=True, keep_turns=1, target=1)

    assert compact(raws, policy, memory=CompactionMemory(), names_lost=True).lost == ("2", "3")


def test_a_lost_secret_is_shown_as_one_and_other_lost_values_by_name():
    raws = [
        user("Log in"),
        *tool_call_and_result("login", {}, {"access_token": "q9Zk27xPfLm3", "session": "S-1188"}),
    ]

    assert redact_values(("q9Zk27xPfLm3", "S-1188"), raws) == ("[secret]", "S-1188")
    assert redact_values((), raws) == ()


def test_nothing_is_lost_where_nothing_was_compacted():
    assert not compact([user("Now?")], _POLICY, memory=CompactionMemory(), names_lost=True).lost


def needed_and_lost(raws: list[bytes]) -> tuple[int, int] | None:
    policy = CompactionPolicy(force=True, keep_turns=1, least=200)
    evidence = compact(raws, policy, memory=CompactionMemory()).evidence
    return None if evidence is None else (evidence.needed, evidence.lost)


def test_a_call_that_needs_what_was_compacted_is_counted():
    gone = compact(
        [*read(), user("Now?")], _POLICY, memory=CompactionMemory(), names_lost=True
    ).lost
    name = next(word for word in gone if word.startswith("made_"))
    raws = [*read(), user("Now?")]

    assert needed_and_lost([*raws, *tool_call_and_result("edit", {"name": name}, "ok")]) == (1, 1)
    assert needed_and_lost([*raws, *tool_call_and_result("edit", {"path": "a/b.py"}, "ok")]) == (
        1,
        0,
    )
    assert needed_and_lost([*raws, *tool_call_and_result("edit", {"path": "c/d.py"}, "ok")]) == (
        0,
        0,
    )


def test_where_no_call_was_made_there_is_no_evidence():
    assert needed_and_lost([*read(), user("Now?")]) is None
    assert needed_and_lost([*read(), user("Now?"), assistant("Well."), user("And?")]) is None


#: Values as people and tools write them; a number makes each of its own.
SHAPES = (
    "W-{n}", "#R{n}X", "${n}", "{n} EUR", "{n} %", "{n}", "{d} April {y}", "{d}. April {y}",
    "April {d}, {y}", "{y}-04-{d}", "{y}年4月{d}日", "{n}元", "order_{n}_id", "src/part{n}/main.py",
    "mei{n}@example.com", "Karla Mei{w}", "\uff11{n}", "\u0663{n}", "{y}-04-{d}T10:{d}:00Z",
)  # fmt: skip
#: Words without values, in several scripts.
PLAIN = (
    "the parcel is here",
    "bitte warten",
    "请稍等",
    "お待ちください",
    "انتظر",
    "one more thing",
)


def value(shape: str, number: int) -> str:
    word = "abcdefghij"[number % 10] + "klmnopqrst"[number // 10 % 10]
    return shape.format(n=1_000 + number, d=10 + number % 20, y=1_900 + number, w=word)


values = st.builds(value, st.sampled_from(SHAPES), st.integers(0, 120))
Turn = tuple[str, list[str], str]
turns = st.tuples(
    st.sampled_from(["says", "gets", "acts", "asks", "fails"]),
    st.lists(values, max_size=5),
    st.sampled_from(PLAIN),
)


def turn_with_values(number: int, turn: Turn) -> list[bytes]:
    """A turn that holds these values in somebody's words, a result, or a call."""
    kind, written, plain = turn
    sentence = long_sentence(number, written, plain)
    if kind == "says":
        return [user(plain), assistant(sentence)]
    if kind == "asks":
        return [user(sentence), assistant(plain)]
    if kind == "fails":
        wish = {"note": plain}
        return [
            user(sentence),
            *tool_call_and_result(tool_name(number), wish, "Error: refused", f"c{number}"),
            assistant(plain),
        ]
    record = {f"field{chr(97 + n)}": word for n, word in enumerate(written)} | {"note": plain * 9}
    if kind == "acts":
        return [
            user(plain),
            *tool_call_and_result("update_it", record, {"note": plain}, f"c{number}"),
            assistant(plain),
        ]
    return [
        user(plain),
        *tool_call_and_result("get_it", {"page": plain}, record, f"c{number}"),
        assistant(plain),
    ]


def opening(number: int) -> str:
    """A word that only one turn holds."""
    return "abcdefghijkl"[number] * 6


def long_sentence(number: int, written: list[str], plain: str) -> str:
    return f"{opening(number)} {plain}: {' | '.join(written)}. {opening(number)} {plain * 20}"


def tool_name(number: int) -> str:
    """A tool for each turn."""
    return f"update_{'abcdefghijkl'[number]}"


def spelt(text: str) -> str:
    """A text in one spelling: composed letters, digits of every script as 0 to 9, one day's dot."""
    composed = re.sub(r"(?<=\d)\.(?= April)", "", unicodedata.normalize("NFKC", text))
    return "".join(
        str(unicodedata.digit(c)) if unicodedata.category(c) == "Nd" else c for c in composed
    )


def is_apart(text: str, index: int, step: int) -> bool:
    """True if what stands beside a value is no part of a longer one, letter by letter."""
    if not 0 <= index < len(text):
        return True
    here, beyond = text[index], text[index + step : index + step + 1] if index + step >= 0 else ""
    if here.isalnum():
        return unicodedata.name(here).startswith("CJK")
    joins = "-.+@~," if step < 0 else "-.+@~/,"
    return here != "_" and not (here in joins and beyond.isalnum())


def is_contained(texts: list[str], wanted_value: str) -> bool:
    """True if a value stands somewhere as a whole: a scan of its own, without patterns."""
    bare = spelt(wanted_value).strip("#")
    for text in texts:
        start = text.find(bare)
        while start >= 0:
            if is_apart(text, start - 1, -1) and is_apart(text, start + len(bare), 1):
                return True
            start = text.find(bare, start + 1)
    return False


def sent_texts(messages: tuple[bytes, ...]) -> list[str]:
    """All that is sent, each string of it by itself."""
    strings: list[str] = []
    for raw in messages:
        fields: dict[str, Any] = orjson.loads(raw)
        texts = [fields.get("content") or ""]
        texts += [call["function"]["arguments"] for call in fields.get("tool_calls") or ()]
        for text in texts:
            try:
                read = json.loads(text)
            except ValueError:
                read = [text]
            strings += [str(field) for field in (read.values() if isinstance(read, dict) else read)]
    return [spelt(string) for string in strings]


def lost_failures(talk: list[Turn], lines: list[str]) -> list[str]:
    """Failed actions of which no line tells."""
    return [
        f"{tool_name(index)} (failed) in turn {index + 1}"
        for index, (kind, _, _) in enumerate(talk)
        if kind == "fails" and not any(f"{tool_name(index)}(" in line for line in lines)
    ]


def lost_answers(talk: list[Turn], lines: list[str], texts: list[str]) -> list[str]:
    """Openings of answers of which no line is, and most of whose words stand nowhere."""
    words = long_words(" ".join(texts))
    lost = []
    for number, (kind, written, plain) in enumerate(talk):
        needed = long_words(long_sentence(number, written, plain)) if kind == "says" else set()
        has_line = any(opening(number) in line for line in lines)
        if len(needed) >= 4 and 2 * len(needed - words) > len(needed) and not has_line:
            lost.append(f"answer: {opening(number)}")
    return lost


def long_words(text: str) -> set[str]:
    """Words of four letters and more, and pairs of letters where none part words."""
    words, run = set(), ""
    for letter in f"{text.lower()} ":
        if run and letter.isalpha() and is_cjk(letter) == is_cjk(run[-1]):
            run += letter
            continue
        if run and is_cjk(run[-1]):
            words |= {run[place : place + 2] for place in range(len(run) - 1)}
        elif len(run) >= 4:
            words.add(run)
        run = letter if letter.isalpha() else ""
    return words


def is_cjk(letter: str) -> bool:
    return unicodedata.name(letter).startswith(("CJK", "HIRAGANA", "KATAKANA"))


@pytest.mark.slow
@examples(75, deadline=None)
@given(st.lists(turns, min_size=3, max_size=12), st.sampled_from([0, 1, 60, 150, 300, 600, 1_200]))
def test_lost_values_equal_those_of_an_independent_scan(talk, target):
    raws = [
        system("s"),
        *(raw for index, turn in enumerate(talk) for raw in turn_with_values(index, turn)),
    ]
    raws += [user("thanks"), assistant("well"), user("bye")]
    policy = CompactionPolicy(force=True, once=True, keep_turns=1, target=target)

    chat = compact(raws, policy, memory=CompactionMemory(), names_lost=True)

    compacted = {word for _, written, _ in talk for word in written} if chat.segments else set()
    texts = sent_texts(chat.messages)
    lines = [line for segment in chat.segments for line in segment.text.split("\n")]
    named = [name[:14] if name.startswith("answer: ") else spelt(name) for name in chat.lost]
    assert set(named) == {
        *(spelt(word).strip("#") for word in compacted if not is_contained(texts, word)),
        *(lost_failures(talk, lines) if chat.segments else ()),
        *(lost_answers(talk, lines, texts) if chat.segments else ()),
    }


@pytest.mark.parametrize(
    "words",
    ["held until 30 April", "保留到2026年4月30日", "保留到４月３０日", "محجوز حتى ٣٠", "unit 3000"],
)
def test_lost_values_are_named_in_every_script(words):
    statement = "There is more to say of it, as ever, " * 12 + f"and it is {words}"
    raws = [user("Hi"), assistant(statement), user("unit 30005?"), assistant("Yes."), user("So?")]

    compacted = compact(
        raws,
        CompactionPolicy(force=True, once=True, keep_turns=1, target=70),
        memory=CompactionMemory(),
        names_lost=True,
    )

    assert compacted.segments
    assert spelt(words).endswith(compacted.lost[0])
    assert all(item.startswith("answer: It is ") for item in compacted.lost[1:])


def test_names_failures_and_answers_that_are_gone_are_named():
    rules = "You can pay by card at the front desk, and dogs are welcome in every cabin. "
    raws = [
        user("Who is it, and how do I pay?"),
        assistant("You see Karla Meier. " + rules * 9),
        user("Pay it."),
        *tool_call_and_result("transfer_money", {"to": "x" * 900}, "Error: refused"),
        assistant("No."),
        *(text for _ in range(4) for text in (user("Well"), assistant("Hm"))),
        user("Bye"),
    ]
    policy = CompactionPolicy(force=True, once=True, keep_turns=1, target=1)

    lost = compact(raws, policy, memory=CompactionMemory(), names_lost=True).lost

    assert "Karla Meier" in lost
    assert any(item.startswith("answer: You see Karla Meier.") for item in lost)
    failed = "transfer_money (failed) in turn 2"
    assert (failed in lost) is (b"transfer_money(" not in b"".join(facts_of(raws, policy)))


def facts_of(raws: list[bytes], policy: CompactionPolicy) -> tuple[bytes, ...]:
    return compact(raws, policy, memory=CompactionMemory()).messages


def test_courtesies_are_no_lost_answers():
    raws = [user("Thanks"), assistant("You are welcome."), *[user("Now?"), assistant("Yes.")] * 4]
    policy = CompactionPolicy(force=True, once=True, keep_turns=1, target=1)

    assert not compact(
        [*raws, user("Bye")], policy, memory=CompactionMemory(), names_lost=True
    ).lost


def test_of_a_lost_answer_60_characters_are_named():
    def lost_answer(chars: int) -> str:
        reply = "quick brown foxes jumped over lazy dogs again".ljust(chars, "z")
        raws = [user("So?"), assistant(reply), user("Well?"), assistant("Yes."), user("Bye")]
        policy = CompactionPolicy(force=True, once=True, keep_turns=1, target=1)
        lost = compact(raws, policy, memory=CompactionMemory(), names_lost=True).lost
        return next((value for value in lost if value.startswith("answer: ")), "")

    assert (
        lost_answer(60)
        == f"answer: {'quick brown foxes jumped over lazy dogs again'.ljust(60, 'z')}"
    )
    assert lost_answer(61).endswith(" …")
