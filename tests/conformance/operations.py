"""The operations of a provider's API, read from the resource classes of its installed SDK."""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from openai._utils import PropertyInfo

from tests.conformance.sdks import OPENAI, SdkUnderTest

_METHODS = {
    "_get": "GET",
    "_post": "POST",
    "_put": "PUT",
    "_patch": "PATCH",
    "_delete": "DELETE",
    "_get_api_list": "GET",
}
#: How the SDKs name the type of an answer that is bytes.
_BINARY = frozenset({"HttpxBinaryResponseContent", "BinaryAPIResponse"})
#: The same of an answer of JSON lines.
_LINES = "JSONLDecoder"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of the API at one path.

    Attributes:
        path: Below the base URL, with ``{names}`` for what varies.
        query: What the path always ends in behind a question mark; "" for nothing.
        answer: The type of an answer; NoneType for an empty one.
        events: The type of a stream's events; None where the operation never streams.
        params: The types of a body, any of which will do; none where it is not checked.
    """

    method: str
    path: str
    query: str
    answer: Any
    events: Any
    params: tuple[type, ...]

    @property
    def is_binary(self) -> bool:
        """The answer is bytes, not JSON."""
        return getattr(self.answer, "__name__", "") in _BINARY

    @property
    def line(self) -> Any:
        """The type of a line of an answer of JSON lines; None for any other answer."""
        origin = get_origin(self.answer)
        return get_args(self.answer)[0] if getattr(origin, "__name__", "") == _LINES else None

    def matches(self, method: str, path: str, query: str) -> bool:
        """The request is for this operation."""
        pattern = re.sub(r"\{[^}]*\}", "[^/]+", self.path)
        is_same = method == self.method and self.query in query
        return is_same and re.fullmatch(pattern, path) is not None

    def problem(self, names: frozenset[str]) -> str:
        """Return why a body with these top-level fields is not valid; "" where it is."""
        steps = frozenset(re.findall(r"\{([^}]*)\}", self.path))
        problems = [_field_problem(param, names, steps) for param in self.params]
        return "" if not problems or "" in problems else problems[0]


def operations(sdk: SdkUnderTest = OPENAI) -> list[Operation]:
    """All operations, those with a query of their own and with fixed paths first."""
    root = Path(str(importlib.import_module(sdk.name).__file__)).parent / "resources"
    beta = root / (sdk.beta_folder or "none")
    by_path: dict[tuple[str, str, str], Operation] = {}
    for file in sorted(root.rglob("*.py"), key=lambda path: (path.is_relative_to(beta), path)):
        module = ".".join((sdk.name, "resources", *file.relative_to(root).with_suffix("").parts))
        imported = importlib.import_module(module.removesuffix(".__init__"))
        for example in _operations_in(file, imported, sdk):
            by_path.setdefault((example.method, example.path, example.query), example)
            if file.is_relative_to(beta):
                operation = replace(example, query=example.query or sdk.beta_query)
                by_path.setdefault((operation.method, operation.path, operation.query), operation)
    return sorted(
        by_path.values(), key=lambda operation: (not operation.query, operation.path.count("{"))
    )


def fields(params: type) -> dict[str, bool]:
    """The fields of a TypedDict as they are sent, and whether each is required."""
    hints = get_type_hints(params, include_extras=True)
    required: frozenset[str] = getattr(params, "__required_keys__", frozenset())
    return dict(_field(name, hint, is_required=name in required) for name, hint in hints.items())


def _field(name: str, hint: Any, *, is_required: bool) -> tuple[str, bool]:
    while (origin := get_origin(hint)) in {Required, NotRequired, Annotated}:
        if origin is Annotated:
            for extra in get_args(hint)[1:]:
                name = extra.alias or name if isinstance(extra, PropertyInfo) else name
        else:
            is_required = origin is Required
        hint = get_args(hint)[0]
    return name, is_required


def _field_problem(params: type, names: frozenset[str], steps: frozenset[str]) -> str:
    names_of_fields = fields(params)
    if unknown := sorted(names - names_of_fields.keys()):
        return f"{params.__name__} has no field {unknown[0]}"
    required = {name for name, is_required in names_of_fields.items() if is_required}
    missing = sorted(required - names - steps)
    return f"{params.__name__} requires {missing[0]}" if missing else ""


def _operations_in(file: Path, module: ModuleType, sdk: SdkUnderTest) -> Iterator[Operation]:
    for part in ast.parse(file.read_text(encoding="utf8")).body:
        if isinstance(part, ast.ClassDef) and not part.name.startswith("Async"):
            for function in part.body:
                if isinstance(function, ast.FunctionDef):
                    yield from _operations_of(function, module, sdk)


def _operations_of(
    function: ast.FunctionDef, module: ModuleType, sdk: SdkUnderTest
) -> Iterator[Operation]:
    """The operations that a method of a resource asks for."""
    for call in ast.walk(function):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        if call.func.attr not in _METHODS or not call.args:
            continue
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        answer = _value(given.get("page") or given.get("cast_to"), module)
        if answer is None:  # computed from the call's arguments
            answer = _return_type(function, module)
        events = _value(given.get("stream_cls"), module)
        named = given.get("method")
        path, _, query = _path(call.args[0], dict(sdk.known_paths)).partition("?")
        yield Operation(
            method=str(named.value).upper()
            if isinstance(named, ast.Constant)
            else _METHODS[call.func.attr],
            path=path.removeprefix("/v1"),
            query=query,
            answer=answer,
            events=_event(events),
            params=_params(function, module, given.get("body")),
        )


def _event(stream: Any) -> Any:
    """The type of the events of a stream's class; None for no class."""
    if stream is None:
        return None
    bases = getattr(stream, "__orig_bases__", ()) if isinstance(stream, type) else (stream,)
    origins = [(getattr(get_origin(base), "__name__", ""), base) for base in bases]
    return next(get_args(base)[0] for name, base in origins if name == "Stream")


def _path(node: ast.expr, params: dict[str, str]) -> str:
    if isinstance(node, ast.Call):
        node = node.args[0]
    if (expression := ast.unparse(node)) in params:
        return params[expression]
    assert isinstance(node, ast.Constant), ast.dump(node)
    return str(node.value)


def _return_type(function: ast.FunctionDef, module: ModuleType) -> Any:
    """The first type that a method says it returns."""
    value = _value(function.returns, module)
    return get_args(value)[0] if get_origin(value) in {Union, UnionType} else value


def _params(
    function: ast.FunctionDef, module: ModuleType, body: ast.expr | None
) -> tuple[type, ...]:
    """The types of a body, from the transformation that the method makes of it."""
    if body is None:
        return ()
    if "maybe_transform" not in ast.unparse(function):
        return _written_params(function, body)
    for call in ast.walk(function):
        if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "maybe_transform"):
            continue
        if ast.unparse(call).endswith("QueryParams)"):
            continue
        kinds = call.args[1]
        branches = [kinds.body, kinds.orelse] if isinstance(kinds, ast.IfExp) else [kinds]
        values = [_value(node, module) for node in branches]
        flat = [one for kind in values for one in (get_args(kind) or (kind,))]
        return tuple(one for one in flat if hasattr(one, "__required_keys__"))
    return ()


def _written_params(function: ast.FunctionDef, body: ast.expr) -> tuple[type, ...]:
    """The type of a body that the method writes out as a dictionary of its own arguments."""
    if isinstance(body, ast.Name):
        assigned = (node for node in ast.walk(function) if isinstance(node, ast.Assign))
        body = next((a.value for a in assigned if ast.unparse(a.targets[0]) == body.id), body)
    if isinstance(body, ast.Call):
        body = body.args[0]
    if not isinstance(body, ast.Dict):
        return ()
    given = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    required = {argument.arg for argument, default in given if default is None}
    pairs = [(k, v) for k, v in zip(body.keys, body.values, strict=True) if k is not None]
    named = {ast.literal_eval(key): ast.unparse(value) for key, value in pairs}
    hints = {
        name: Any if annotation in required else NotRequired[Any]
        for name, annotation in named.items()
    }
    return (TypedDict(function.name, hints),)  # type: ignore[operator]


def _value(node: ast.expr | None, module: ModuleType) -> Any:
    """Value of an expression at the top of a module; None where it needs a call's arguments."""
    if node is None:
        return None
    source = compile(ast.Expression(node), module.__name__, "eval")
    try:
        value = eval(source, dict(vars(module)))  # noqa: S307 - the installed SDK's own code
    except NameError:
        return None
    return NoneType if value is None else value
