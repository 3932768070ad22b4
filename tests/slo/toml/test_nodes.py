import time
from decimal import Decimal

import pytest

from slo.toml.nodes import decode_toml, parse_toml
from slo.toml.problems import InvalidFile


def test_values_know_their_file_their_line_and_their_name() -> None:
    top = parse_toml('default = "a"\n[[models]]\nid = "x"\nprice.input = 1.50\n', "c.toml")
    model = top.value["models"].value[0]
    price = model.value["price"].value["input"]
    assert (top.name, top.line) == ("", 1)
    assert (model.name, model.line) == ("models.x", 2)
    assert (price.name, price.line, price.file) == ("models.x.price.input", 4, "c.toml")
    assert price.value == Decimal("1.50")


def test_elements_are_named_by_their_id_or_name() -> None:
    top = parse_toml('[[a]]\nid = "x/Y-1"\n[[a]]\nname = "b"\nc = [3]\n', "c.toml")
    first, second = top.value["a"].value
    assert (first.name, second.name) == ("a.x/Y-1", "a.b")
    assert second.value["c"].value[0].name == "a.b.c[0]"


@pytest.mark.parametrize("table", ["id = 3", "traits = [1]", 'id = ""', r'name = "a\u001b"'])
def test_elements_without_a_name_that_can_be_printed_are_named_by_their_position(
    table: str,
) -> None:
    top = parse_toml(f"[[models]]\n{table}\n", "c.toml")
    assert [node.name for node in top.value["models"].value] == ["models[0]"]


def test_an_absent_entry_stands_where_its_table_does() -> None:
    top = parse_toml("[a]\n[b]\n", "c.toml")
    assert str(top.absent_entry("c").problem("is missing", "write it")).startswith("c.toml:1: c: ")
    absent = top.value["b"].absent_entry("c")
    assert (absent.name, absent.line, absent.value) == ("b.c", 2, None)


def test_a_problem_stands_where_its_node_does() -> None:
    node = parse_toml("a = 1\nb = 2\n", "c.toml").value["b"]
    assert str(node.problem("is 2", "write 3")) == "c.toml:2: b: is 2; write 3"
    assert node.problem("is 2", "write 3", warning=True).warning


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb 2\n", "c.toml:2: is not TOML: expected '=' after a key in a key/value pair"),
        ("a = 1\na = 2\n", "c.toml:2: is not TOML: cannot overwrite a value"),
        ('a = 1\n\nb = "', "c.toml:3: is not TOML: "),
    ],
)
def test_a_syntax_error_names_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        parse_toml(text, "c.toml")
    assert str(caught.value).startswith(message)


def test_bytes_that_are_no_text_name_their_line() -> None:
    with pytest.raises(InvalidFile) as caught:
        decode_toml('a = "ü"\nb = "'.encode() + b'\xe9"\n', "c.toml")
    assert str(caught.value) == (
        "c.toml:2: is not UTF-8: byte 0xe9 stands here; save the file as UTF-8"
    )


def test_lines_end_the_same_wherever_they_were_written() -> None:
    text = decode_toml("[a]\r\nb = 'ü'\r\nc = 1\r\n".encode(), "c.toml")
    assert text == "[a]\nb = 'ü'\nc = 1\n"


@pytest.mark.parametrize(
    "key",
    [
        ".".join("a" * 200_000) + " = 1",
        "[" + ".".join("a" * 200_000) + "]",
        " . ".join("a" * 70) + "y" * 4_000_000 + " = 1",
    ],
)
def test_a_key_of_many_dots_is_refused_with_its_line_and_at_once(key: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidFile) as caught:
        parse_toml(f'a = """\n.\n"""\n{key}\n', "c.toml")

    assert str(caught.value).startswith("c.toml:4: is nested too deeply: a key has more than 64")
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text",
    [
        ".".join("a" * 65) + " = 1",
        "a = [" + "1.5, " * 200 + "]",
        "a = {" + ", ".join(f"b.c{n} = 1.5" for n in range(200)) + "}",
        'a = "' + "." * 200 + '" # ' + "." * 200,
        "a = '" + "." * 200 + "' # \" " + "." * 200,
        'a = """' + "\n" + "." * 200 + '\\"' + "." * 200 + '"""',
        "a = '''\n" + "." * 200 + "\n'''",
    ],
)
def test_many_dots_that_are_in_no_key_are_parsed(text: str) -> None:
    assert "a" in parse_toml(text, "c.toml").value
