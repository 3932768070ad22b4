"""Tools in namespaces, tools in the input and tools of free text, as the flat list that chat has.

::

    {"type": "namespace", "name": "agents", "tools": [{… "name": "spawn"}]}    agents__spawn
    {"type": "additional_tools", "tools": […]} in the input                    one list
    {"type": "custom", "name": "exec"}, where a model has none                 exec(input: string)

Calls come back as those of the tool that their caller knows.

Source: OpenAI API reference, Responses, namespace tools and additional tools; openai 3.52; Codex
0.171, captured calls (2026-11).
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from proxy.providers.chat.chat_options import short_tool_name
from proxy.providers.lenient import decode_or
from proxy.providers.responses.fields import Json, known_kinds

NAMESPACE: Final = "namespace"
ADDITIONAL: Final = "additional_tools"
_SPOKEN: Final = ("function", "custom")
_FIX: Final = (
    "Built-in tools run at OpenAI: offer a `function` tool and run it yourself, or have the"
    " gateway's operator set `drops_server_tools`."
)
#: The one parameter of a function that stands for a tool of free text.
_TEXT_PARAMETER: Final = "input"
_TEXT_SCHEMA: Final = {
    "type": "object",
    "properties": {_TEXT_PARAMETER: {"type": "string"}},
    "required": [_TEXT_PARAMETER],
    "additionalProperties": False,
}


class FlatTools(NamedTuple):
    """The tools of a call as chat has them.

    Attributes:
        places: The place of each in the caller's body.
    """

    tools: list[Any]
    places: list[str]
    notes: list[str]


class OwnName(NamedTuple):
    """A tool as its caller knows it.

    Attributes:
        namespace: Its namespace; "" for none.
    """

    name: str
    namespace: str
    is_custom: bool


def flat_name(namespace: str | None, name: str) -> str:
    """The name of a tool without its namespace's own field, of 64 characters at most."""
    return short_tool_name(f"{namespace}__{name}") if namespace else name


def flat_tools(
    request: Json, *, drops_hosted: bool = False, takes_custom: bool = True
) -> FlatTools:
    """All tools that a Responses body offers, in order; a name that comes again goes in its place.

    Args:
        drops_hosted: True if tools that OpenAI runs are left out with a note.
        takes_custom: False if tools of free text are said as functions with one text.
    """
    tools_by_name: dict[object, tuple[Any, str]] = {}
    dropped: list[str] = []
    notes: list[str] = []
    for path, tools in _lists(request):
        if not drops_hosted:
            known_kinds(tools, (*_SPOKEN, NAMESPACE), path, _FIX)
        for number, tool in enumerate(tools):
            place = f"{path}[{number}]"
            kind = tool.get("type") if isinstance(tool, dict) else None
            if kind == NAMESPACE:
                tools_by_name |= _tools_of_namespace(tool, place)
                if tool.get("description"):
                    notes.append("left out descriptions of namespaces: chat has none")
            elif isinstance(kind, str) and kind not in _SPOKEN:
                dropped.append(kind)
            else:
                name = tool.get("name") if isinstance(tool, dict) else place
                tools_by_name[name if isinstance(name, str) else place] = (tool, place)
    if dropped:
        notes.append(f"left out {', '.join(dict.fromkeys(dropped))}, which only OpenAI runs")
    flat = [
        (tool if takes_custom else _as_function(tool), place)
        for tool, place in tools_by_name.values()
    ]
    return FlatTools(
        [tool for tool, _ in flat], [place for _, place in flat], list(dict.fromkeys(notes))
    )


def own_names(request: Json) -> dict[str, OwnName]:
    """The tools that chat may know by another name or in another form, by their flat names."""
    names: dict[str, OwnName] = {}
    for _, tools in _lists(request):
        for tool in _dicts(tools):
            is_space = tool.get("type") == NAMESPACE
            space = str(tool.get("name") or "") if is_space else ""
            for inner_tool in _dicts(tool.get("tools")) if is_space else (tool,):
                own = OwnName(
                    str(inner_tool.get("name")), space, inner_tool.get("type") == "custom"
                )
                if own.namespace or own.is_custom:
                    names[flat_name(space, own.name)] = own
    return names


def as_function_call(call: Json) -> Json:
    """A call of a tool of free text as that of its function; other calls as they are."""
    custom = call.get("custom")
    if not isinstance(custom, dict):
        return call
    arguments = msgspec.json.encode({_TEXT_PARAMETER: custom["input"]}).decode()
    function = {"name": custom["name"], "arguments": arguments}
    return {"id": call["id"], "type": "function", "function": function}


def text_of_arguments(arguments: str) -> str:
    """The free text in the arguments of such a function; the arguments where they hold none."""
    parsed = decode_or(msgspec.json.decode, arguments.encode(), None)
    text = parsed.get(_TEXT_PARAMETER) if isinstance(parsed, dict) else None
    return text if isinstance(text, str) else arguments


def _lists(request: Json) -> Iterator[tuple[str, list[Any]]]:
    """The lists of tools of a body, each with its place."""
    tools, given = request.get("tools"), request.get("input")
    if isinstance(tools, list):
        yield "tools", tools
    for number, item in enumerate(given if isinstance(given, list) else ()):
        if isinstance(item, dict) and item.get("type") == ADDITIONAL:
            more = item.get("tools")
            yield f"input[{number}].tools", more if isinstance(more, list) else []


def _tools_of_namespace(tool: Json, place: str) -> dict[object, tuple[Any, str]]:
    """The tools of a namespace by their flat names."""
    inner = list(_dicts(tool.get("tools")))
    known_kinds(inner, _SPOKEN, f"{place}.tools", _FIX)
    tools_by_name: dict[object, tuple[Any, str]] = {}
    for number, inner_tool in enumerate(inner):
        name = flat_name(str(tool.get("name") or ""), str(inner_tool.get("name")))
        tools_by_name[name] = ({**inner_tool, "name": name}, f"{place}.tools[{number}]")
    return tools_by_name


def _dicts(given: object) -> Iterator[Json]:
    return (
        (element for element in given if isinstance(element, dict))
        if isinstance(given, list)
        else iter(())
    )


def _as_function(tool: object) -> object:
    """A tool of free text as a function with one text; any other as it is."""
    if not isinstance(tool, dict) or tool.get("type") != "custom":
        return tool
    form = tool.get("format")
    words = [tool.get("description") or ""]
    if isinstance(form, dict) and isinstance(form.get("definition"), str):
        words.append(f"`{_TEXT_PARAMETER}` follows this {form.get('syntax')} grammar:")
        words.append(form["definition"])
    members = {"description": "\n".join(filter(None, words)), "parameters": _TEXT_SCHEMA}
    return {"type": "function", "name": tool.get("name"), **members}
