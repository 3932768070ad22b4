import pytest

from proxy.tokens.declared import declaration


def declaration_of(*tools: object) -> str:
    text = declaration(tools)
    return text.removeprefix("namespace functions {\n\n").removesuffix("} // namespace functions")


def of(parameters: object, description: str | None = None) -> str:
    return declaration_of({"type": "function", "function": {"name": "f", "parameters": parameters}})


def test_a_tool_is_shown_as_a_type_with_comments() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "title": "City", "description": "Where.\nBig or small."},
            "days": {"type": "integer", "default": 3, "title": "Days"},
            "units": {"enum": ["c", "f", 1]},
        },
        "required": ["city"],
    }
    tool = {"name": "weather", "description": "Forecast.", "parameters": schema}

    assert declaration_of({"type": "function", "function": tool}) == (
        "// Forecast.\n"
        "type weather = (_: {\n"
        "// City\n//\n// Where.\n// Big or small.\ncity: string,\n"
        "// Days\ndays?: number, // default: 3\n"
        'units?: "c" | "f" | 1,\n'
        "}) => any;\n\n"
    )


def test_every_dialects_tools_are_shown_alike() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    shown = "type f = (_: {\na: string,\n}) => any;\n\n"

    assert declaration_of({"type": "function", "name": "f", "parameters": schema}) == shown
    assert declaration_of({"name": "f", "input_schema": schema}) == shown
    assert declaration_of({"type": "custom", "custom": {"name": "f"}}) == "type f = () => any;\n\n"


@pytest.mark.parametrize("tool", [None, {"type": "web_search"}, {"function": 7}, {"name": 7}])
def test_tools_without_a_name_are_left_out(tool: object) -> None:
    assert declaration_of(tool) == ""


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "array", "items": {"type": "string"}}, "string[]"),
        ({"type": "array"}, "any[]"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "string | number"),
        ({"oneOf": [{"type": "boolean"}]}, "boolean"),
        ({"$ref": "#/$defs/Page"}, "{\n  no: number,\n}"),
        ({"$ref": "#/definitions/Old"}, "string"),
        ({"$ref": "#/$defs/Absent"}, "Absent"),
        ({"type": "object"}, "object"),
        ({"type": "object", "properties": {"a": True}}, "{\n  a?: any,\n}"),
        ({}, "any"),
        (True, "any"),
    ],
)
def test_each_schema_has_its_type(schema: object, kind: str) -> None:
    named = {
        "Page": {"type": "object", "properties": {"no": {"type": "number"}}, "required": ["no"]}
    }
    parameters = {
        "properties": {"x": schema},
        "required": ["x"],
        "$defs": named,
        "definitions": {"Old": {"type": "string"}},
    }

    assert of(parameters) == f"type f = (_: {{\nx: {kind},\n}}) => any;\n\n"


def test_definitions_that_refer_to_each_other_are_written_out_once() -> None:
    any_of = {"anyOf": [{"$ref": f"#/$defs/D{n}"} for n in range(20)]}
    named = {f"D{n}": {"type": "array", "items": any_of} for n in range(20)}

    shown = of({"properties": {"x": any_of}, "required": 7, "$defs": named})

    assert shown.count("[]") == 20
    assert "D0" in shown


def test_a_schema_nested_without_end_does_not_exhaust_the_stack() -> None:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(300):
        schema = {"type": "object", "properties": {"x": schema}, "required": ["x"]}

    assert of(schema).count("x: {") < 40
