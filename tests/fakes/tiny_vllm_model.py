"""A model that vLLM can serve without a download: a configuration and a tokenizer of bytes.

Its weights are vLLM's own dummies (``--load-format dummy``), equal at each start. So its text means
nothing, and as its own draft model it accepts nearly every token.
"""

import json
from pathlib import Path
from typing import Any

_END = 256
_SPECIAL = ("<|end|>", "<|user|>", "<|assistant|>")
_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 8192,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "max_position_embeddings": 8192,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": _END,
    "dtype": "bfloat16",
}
_TEMPLATE = (
    "{% for message in messages %}<|user|>{{ message['content'] }}<|end|>{% endfor %}<|assistant|>"
)


def write_tiny_vllm_model(folder: Path, **shape: int | bool) -> Path:
    """Write the files of the model; returns the folder.

    Args:
        folder: Where they go; it is made.
        shape: Fields of its configuration that differ, such as ``hidden_size``.
    """
    folder.mkdir()
    config = {**_CONFIG, **shape}
    files = {
        "config.json": config,
        "generation_config.json": {"eos_token_id": _END},
        "tokenizer.json": _tokenizer(int(config["vocab_size"])),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": _SPECIAL[0],
            "model_max_length": config["max_position_embeddings"],
            "chat_template": _TEMPLATE,
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf8")
    return folder


def _tokenizer(size: int) -> dict[str, object]:
    """A token for each byte, the special ones, and words that only a model writes."""
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    special = [
        {
            "id": _END + n,
            "content": text,
            "special": True,
            **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
        }
        for n, text in enumerate(_SPECIAL)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {
                **{character: n for n, character in enumerate(_byte_characters())},
                **{f"Ġ{n:x}": n for n in range(_END + len(_SPECIAL), size)},
            },
            "merges": [],
        },
    }


def _byte_characters() -> list[str]:
    """The character that stands for each byte in such a vocabulary, by byte.

    Source: OpenAI, gpt-2, src/encoder.py, bytes_to_unicode (2019).
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    replacements = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(replacements)) for byte in range(256)]
