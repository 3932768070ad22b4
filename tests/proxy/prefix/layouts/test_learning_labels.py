"""Labels of learned text that moves."""

import pytest

from tests.proxy.prefix.layouts.test_learning import TARGET, learner, template


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Time: 12:{}", "Current time"),
        ("Customer: no. {}", "Customer"),
        ("Parcels of {} are returned within a month. " * 8, "Document"),
        ("It rains {}", "Detail"),
    ],
)
def test_label_says_what_a_text_is(text: str, label: str):
    layout = learner(
        lambda number, call: template(text.replace("{}", f"{number:02}{call}"))
    ).proposal(TARGET)

    assert layout is not None
    assert [move.label for move in layout.moves] == [label]
