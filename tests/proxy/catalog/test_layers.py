from proxy.catalog import layers
from slo.toml.nodes import Node, parse_toml
from slo.toml.problems import Problem
from slo.toml.table_reader import TableReader

TOP = ("upstreams", "models")


def files(*texts: str) -> tuple[list[TableReader], list[Problem]]:
    problems: list[Problem] = []
    return [
        TableReader(parse_toml(text, f"{number}.toml"), TOP, problems)
        for number, text in enumerate(texts, start=1)
    ], problems


def plain(node: Node) -> dict[str, object]:
    return {key: field.value for key, field in node.value.items()}


def models(*texts: str) -> tuple[dict[str, dict[str, object]], list[str]]:
    read, problems = files(*texts)
    fields_by_model = {name: plain(node) for name, node in layers.models(read).items()}
    return fields_by_model, [str(problem) for problem in problems]


def test_an_upstream_is_overridden_field_by_field() -> None:
    read, problems = files(
        "[upstreams.a]\nkind = 1\nbase_url = 2\n[upstreams.b]\n", "[upstreams.a]\nbase_url = 3\n"
    )
    merged = layers.upstreams(read)
    assert {name: plain(node) for name, node in merged.items()} == {
        "a": {"kind": 1, "base_url": 3},
        "b": {},
    }
    assert merged["a"].value["base_url"].file == "2.toml"
    assert merged["a"].value["kind"].file == "1.toml"
    assert problems == []


def test_an_upstream_that_is_no_table_is_said() -> None:
    read, problems = files("upstreams.a = 1")
    assert layers.upstreams(read) == {}
    assert [str(problem) for problem in problems] == [
        "1.toml:1: upstreams.a: is 1; write a { table }"
    ]


def test_a_model_is_overridden_field_by_field_and_keeps_its_place() -> None:
    merged, problems = models(
        '[[models]]\nid = "a"\nwindow = 1\nblock = 1\n[[models]]\nid = "b"\n',
        '[[models]]\nid = "c"\n[[models]]\nid = "a"\nwindow = 2\n',
    )
    assert list(merged) == ["a", "b", "c"]
    assert merged["a"] == {"id": "a", "window": 2, "block": 1}
    assert problems == []


def test_upstream_and_routes_of_a_model_are_replaced_as_one() -> None:
    shipped = '[[models]]\nid = "a"\nupstream = "x"\nmodel = "m"\nwindow = 1\n'
    routed = '[[models]]\nid = "a"\nroutes = []\n'
    moved = '[[models]]\nid = "a"\nupstream = "y"\n'
    assert models(shipped, routed)[0]["a"] == {"id": "a", "window": 1, "routes": []}
    assert models(shipped, moved)[0]["a"] == {"id": "a", "window": 1, "upstream": "y"}
    assert models(routed, moved)[0]["a"] == {"id": "a", "upstream": "y"}


def test_an_alias_has_all_of_its_model_whose_name_upstreams_know() -> None:
    merged, problems = models(
        '[[models]]\nid = "a"\nupstream = "x"\nwindow = 1\n'
        '[[models]]\nid = "b"\nlike = "a"\nwindow = 2\n'
        '[[models]]\nid = "c"\nlike = "a"\nupstream = "y"\nmodel = "deployed"\n'
    )
    assert merged["b"] == {"id": "b", "like": "a", "upstream": "x", "model": "a", "window": 2}
    assert merged["c"] == {
        "id": "c", "like": "a", "upstream": "y", "model": "deployed", "window": 1
    }  # fmt: skip
    assert problems == []


def test_an_alias_of_nothing_or_of_an_alias_is_said() -> None:
    _, problems = models(
        '[[models]]\nid = "first"\n'
        '[[models]]\nid = "b"\nlike = "fist"\n'
        '[[models]]\nid = "c"\nlike = "b"\n'
        '[[models]]\nid = "d"\nlike = 1\n'
    )
    assert problems == [
        (
            '1.toml:5: models.b.like: names "fist", which is no model with fields of its own;'
            " did you mean first?"
        ),
        (
            '1.toml:8: models.c.like: names "b", which is no model with fields of its own;'
            " known are: first"
        ),
        (
            '1.toml:11: models.d.like: names "1", which is no model with fields of its own;'
            " known are: first"
        ),
    ]


def test_a_model_twice_in_one_file_is_said() -> None:
    _, problems = models('[[models]]\nid = "a"\n\n[[models]]\nid = "a"\n')
    assert problems == ["1.toml:4: models.a: is here twice, first on line 1; make it one entry"]


def test_a_model_without_an_id_is_said() -> None:
    merged, problems = models('models = [1, {}, { id = 2 }, { id = "" }]')
    assert merged == {}
    assert problems == [
        "1.toml:1: models[0]: is 1; write a { table }",
        '1.toml:1: models[1]: has no id; write id = "the-name-callers-use"',
        '1.toml:1: models[2].id: is 2; write a "string"',
        '1.toml:1: models[2]: has no id; write id = "the-name-callers-use"',
        '1.toml:1: models[3]: has no id; write id = "the-name-callers-use"',
    ]
