"""Merges one catalog file over another, field by field, before their values are checked."""

from dataclasses import replace

from slo.toml.nodes import Node
from slo.toml.problems import Problem
from slo.toml.table_reader import TableReader, checked_value, suggest_name

Table = dict[str, Node]


def upstreams(files: list[TableReader]) -> Table:
    """Each upstream's fields by name, later files over earlier ones."""
    merged: Table = {}
    for file in files:
        for name, node in file.entries("upstreams").items():
            if checked_value(node, dict, file.problems) is not None:
                fields = merged[name].value if name in merged else {}
                merged[name] = replace(node, value={**fields, **node.value})
    return merged


def models(files: list[TableReader]) -> Table:
    """Each model's fields by id, later files over earlier ones, ``like`` followed."""
    merged: Table = {}
    for file in files:
        listed: Table = {}
        for node in file.elements("models", named_by="id"):
            name = _name(node, file.problems)
            if name in listed:
                what = f"is here twice, first on line {listed[name].line}"
                file.problems.append(node.problem(what, "make it one entry"))
            elif name:
                listed[name] = node
                merged[name] = _merge_models(merged[name], node) if name in merged else node
    problems = files[0].problems
    return {name: _resolve_like(node, merged, problems) for name, node in merged.items()}


def _name(node: Node, problems: list[Problem]) -> str:
    """The model's id; "" if it has none that can be used."""
    table = checked_value(node, dict, problems)
    if table is None:
        return ""
    name = checked_value(table["id"], str, problems) if "id" in table else None
    if not name:
        problems.append(node.problem("has no id", 'write id = "the-name-callers-use"'))
    return name or ""


def _merge_models(below: Node, above: Node) -> Node:
    """A model's fields over another's; where calls go is one thing and is replaced as one."""
    fields: Table = dict(below.value)
    if "routes" in above.value or "upstream" in above.value:
        for key in ("routes", "upstream", "model"):
            fields.pop(key, None)
    return replace(above, value={**fields, **above.value})


def _resolve_like(node: Node, merged: Table, problems: list[Problem]) -> Node:
    """The model with all that it inherits from the one it is like, whose name upstreams know."""
    like = node.value.get("like")
    if like is None:
        return node
    independent = [name for name, other in merged.items() if "like" not in other.value]
    if like.value not in independent:
        what = f'names "{like.value}", which is no model with fields of its own'
        problems.append(like.problem(what, suggest_name(str(like.value), independent)))
        return node
    whole = _merge_models(merged[like.value], node)
    return replace(whole, value={"model": like, **whole.value})
