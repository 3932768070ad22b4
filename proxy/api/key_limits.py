"""Limits of a caller's key: the time it expires, and the models that its calls may ask for."""

from datetime import UTC, datetime
from typing import Final

from proxy.catalog.catalog import Catalog
from proxy.errors import CallerError
from proxy.records.call import Call, Key

#: Methods of calls that have nothing generated.
_READING_METHODS: Final = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
_MAX_NAMED_MODELS: Final = 10


def expired_error(key: Key) -> CallerError:
    """The refusal of a call whose key has expired."""
    end = datetime.fromtimestamp(key.expires or 0.0, UTC)
    return CallerError(
        f"This API key ({key.id}) expired at {end:%Y-%m-%d %H:%M} UTC; ask the gateway's operator"
        " for a new one.",
        code="expired_api_key",
        status=401,
    )


def check_model_allowed(call: Call, catalog: Catalog) -> None:
    """Checks that a call asks for a model that its key may use.

    A call that has something generated and names no model, such as a batch, may use any; so a key
    with a list of models cannot send it. Of an alias, the model that it means is checked.

    Raises:
        CallerError: It does not.
    """
    allowed = call.key.models
    if allowed is None:
        return
    name = call.model or call.path_model
    if not name and call.method in _READING_METHODS:
        return
    if not is_model_allowed(call.key, name, catalog):
        why = f"not {name[:100]}" if name else "and this call names none that the gateway reads"
        if (target := catalog.aliases.target(name)) not in {"", name}:
            why = f"not {target}, which {name[:100]} means for your team"
        raise CallerError(
            f"This API key may ask for {_list_models(allowed)} only, {why}. Use one of these,"
            " or ask the gateway's operator for another key.",
            code="model_not_allowed",
            param="model",
            status=403,
        )


def is_model_allowed(key: Key, name: str, catalog: Catalog) -> bool:
    """True if the key may ask for a model of this name, or of which this names a snapshot.

    Of an alias, the model that it means has to be allowed, whether or not the alias is.
    """
    if key.models is None or (name in key.models and not catalog.aliases.target(name)):
        return True
    model = catalog.find(name)
    return model is not None and model.id in key.models


def _list_models(models: frozenset[str]) -> str:
    names = sorted(models)
    more = len(names) - _MAX_NAMED_MODELS
    shown = ", ".join(names[:_MAX_NAMED_MODELS]) or "no model"
    return f"{shown} and {more} more" if more > 0 else shown
