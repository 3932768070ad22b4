"""Tests of the forms and questions for a reader."""

import pytest

from tests.bench.compaction.reader import forms, write_forms
from tests.bench.compaction.rows import NO_TARGET
from tests.fakes.dialogue import words
from tests.fakes.marked_conversations import twins, work

WRITTEN = ["en", "de", "zh", "ar", "shop", "desk", "bank", "coder"]


def written_forms(tmp_path):
    return {form.case.name: form for form in forms(NO_TARGET, tmp_path) if len(form.case.name) < 6}


def test_written_forms_come_first_with_ten_questions_each(tmp_path):
    by_name = written_forms(tmp_path)

    assert list(by_name)[: len(WRITTEN)] == WRITTEN
    assert {len(by_name[name].questions) for name in WRITTEN} == {10}


@pytest.mark.parametrize("name", ["en", "de", "zh", "ar"])
def test_first_answers_stand_in_the_conversation(name, tmp_path):
    text = "\n".join(words(message) for message in {**twins(), **work()}[name].messages)
    answers = [answer for _, answer in written_forms(tmp_path)[name].questions]

    assert all(answer.rstrip(".") in text for answer in answers[1:3])


def test_answers_lie_apart_from_the_forms(tmp_path):
    written = list(written_forms(tmp_path).values())[:1]

    lines = list(write_forms(written, tmp_path))

    form, answers = tmp_path / "01.md", tmp_path / "answers" / "01.md"
    assert lines == ["01.md: en, size none, 10 questions"]
    assert "10. Which three standing wishes did the user state?" in form.read_text()
    assert "1. Harlow Clock Museum, 14 Cutler Street" in answers.read_text()
