"""The catalog finds listed models by name and snapshot, and nothing else."""

from tests.fakes.call_dependencies import catalog


def test_a_dated_snapshot_is_found_as_its_model_and_other_names_are_not():
    made = catalog()

    assert made.find("m-2026-01-31") is made.find("m") is made.models["m"]
    assert made.find("m-2") is None
    assert made.unlisted_model("m-2") is None
