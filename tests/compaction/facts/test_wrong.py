import pytest

from compaction.facts.wrong import is_wrong


@pytest.mark.parametrize(
    "result",
    [
        "Error: no such user",
        " fatal: not a repository",
        '{"error": "denied"}',
        "ok\nKeyError: x",
        "<returncode>2</returncode>",
        "x" * 5_000 + "\nValueError: y",
        "sh: foo: command not found",
        "cat: a: No such file or directory",
        "Failed to build",
    ],
)
def test_a_failure_is_known(result):
    assert is_wrong(result)


@pytest.mark.parametrize(
    "result",
    [
        "",
        "ok",
        '{"error": null, "id": 1}',
        "<returncode>0</returncode>",
        "no errors found",
        "x" * 1_000 + "\nKeyError: y\n" + "x" * 1_000,
    ],
)
def test_other_results_are_none(result):
    assert not is_wrong(result)
