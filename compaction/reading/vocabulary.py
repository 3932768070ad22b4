"""The published vocabularies, as tiktoken counts with them, without a download.

The bpe-openai distribution carries them compiled in. Its extension is loaded past the package's
own ``__init__``, which would build the same vocabularies again as Python dictionaries (half a
second and 64 MB that nothing here reads) and refuse texts of a million characters.
"""

import re
from collections.abc import Iterator
from importlib import machinery, util
from types import ModuleType
from typing import Any, Final, Literal

Vocabulary = Literal["o200k_base", "cl100k_base"]
#: Counts for models whose vocabulary is not published, too.
NEWEST: Final[Vocabulary] = "o200k_base"

#: Models of the older vocabulary; everything else, known or not, counts with the newer one.
#: Source: tiktoken 0.14.0, ``tiktoken/model.py``.
_OLDER = re.compile(r"(?:ft:)?(?:gpt-4(?![.o\d])|gpt-3\.5|gpt-35)|text-embedding-(3|ada-002)")
#: Models whose vocabulary is published. Source: as above; of GPT-5 those that were out by then.
_PUBLISHED = re.compile(
    r"(?:ft:)?(?:gpt-3\.5|gpt-35-turbo|gpt-4|gpt-4o|gpt-4\.[15]|gpt-5|o1|o3|o4-mini)(?![.\w])"
    r"|chatgpt-4o-|text-embedding-(?:3-|ada-002)"
)

#: One call into the extension holds the interpreter's lock; this many characters take < 1 ms.
_SLICE_CHARS = 16_384

#: No piece of either vocabulary's pattern holds a space behind anything but white space, so a text
#: cut there counts the same. Source: ``pat_str`` in tiktoken_ext/openai_public.py, 0.14.0.
_CUT = re.compile(r"(?<=\S) ")


def vocabulary(model: str) -> Vocabulary:
    """The vocabulary a model counts with; a provider's prefix such as ``openai/`` is skipped."""
    return "cl100k_base" if _OLDER.match(model.rpartition("/")[2]) else NEWEST


def is_published(model: str) -> bool:
    """True if the vocabulary a model counts with is published, and not only taken for its own."""
    return _PUBLISHED.match(model.rpartition("/")[2]) is not None


class Tokenizer:
    """Text to tokens, exactly as tiktoken's ``encode_ordinary``: nothing in a text is special.

    Making one takes 50 ms and 35 to 60 MB, the first time in a process.
    """

    def __init__(self, name: Vocabulary) -> None:
        self.name: Vocabulary = name
        self._compiled: Any = _extension().tokenizer_for_encoding(name)

    def count(self, text: str) -> int:
        """Number of tokens the text is."""
        if len(text) <= _SLICE_CHARS and text.isascii():
            return int(self._compiled.count(text))
        return sum(map(self._compiled.count, _slices(_storable(text))))

    def encode(self, text: str) -> list[int]:
        """The ids of the text's tokens, in order."""
        return [token for part in _slices(_storable(text)) for token in self._compiled.encode(part)]


def _extension(package: str = "bpe_openai") -> ModuleType:
    """The compiled tokenizer of bpe-openai, without its package."""
    spec = util.find_spec(package)
    places = spec.submodule_search_locations if spec is not None else None
    suffixes = (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES)
    for place in places or ():
        module_spec = machinery.FileFinder(place, suffixes).find_spec("_bindings")
        if module_spec is not None and module_spec.loader is not None:
            module = util.module_from_spec(module_spec)
            module_spec.loader.exec_module(module)
            return module
    raise ModuleNotFoundError("Install bpe-openai: it carries the vocabularies.")


def _storable(text: str) -> str:
    """The text with lone surrogates replaced, as tiktoken does."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _slices(text: str) -> Iterator[str]:
    """The text in parts of about ``_SLICE`` characters that count as the whole does."""
    start = 0
    while len(text) - start > _SLICE_CHARS:
        cut = _CUT.search(text, start + _SLICE_CHARS)
        if cut is None:
            break
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:] if start else text
