import pytest

from compaction.facts.fact import Kind
from compaction.facts.plans import plans
from tests.compaction.facts.regions import assistant, parted, texts, user


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("- [ ] write the tests", Kind.TODO),
        ("TODO: the docs", Kind.TODO),
        ("Next: run it", Kind.TODO),
        ("- [x] read the code", Kind.DONE),
        ("✅ built", Kind.DONE),
        ("I chose SQLite because it needs no server", Kind.DECISION),
        ("The root cause is a typo", Kind.DECISION),
    ],
)
def test_a_line_tells_what_it_is(line, kind):
    found = list(plans(parted(assistant(f"Well then.\n{line}\nSo."))))

    assert [(fact.kind, fact.text) for fact in found] == [(kind, line)]


def test_other_lines_and_other_voices_tell_nothing():
    assert texts(plans(parted(user("TODO: this"), assistant("I am done with it.")))) == []
    assert texts(plans(parted(assistant("Hello there")))) == []


def test_lines_are_few_and_short():
    found = texts(plans(parted(assistant("TODO " + "x " * 300 + "\n" + "TODO y\n" * 9))))

    assert len(found) == 4
    assert len(found[0]) <= 202
