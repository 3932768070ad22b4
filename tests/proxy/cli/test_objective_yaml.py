import yaml

from proxy.cli.objective_yaml import dump


def test_what_is_dumped_is_read_again():
    shared = {"name": "é\U0001f600", "lines": "a\nb\n"}
    said = dump([shared, {"twice": [shared, shared]}])

    assert list(yaml.safe_load_all(said)) == [shared, {"twice": [shared, shared]}]
    assert "lines: |\n  a\n  b\n" in said
    assert "&" not in said
