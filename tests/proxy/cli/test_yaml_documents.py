import yaml

from proxy.cli.yaml_documents import dump_yaml


def test_yaml_that_is_dumped_is_read_again():
    shared = {"name": "é\U0001f600", "lines": "a\nb\n"}
    text = dump_yaml([shared, {"twice": [shared, shared]}])

    assert list(yaml.safe_load_all(text)) == [shared, {"twice": [shared, shared]}]
    assert "lines: |\n  a\n  b\n" in text
    assert "&" not in text
