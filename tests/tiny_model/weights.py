"""The tiny model's files: writes GGUF, and converts it to the format of Hugging Face.

``python -m tests.tiny_model.weights GGUF FOLDER`` converts, for engines that read no GGUF such as
vLLM. It needs ``gguf``, which brings NumPy.
"""

import argparse
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np

CONTEXT: Final = 4_096
HEAD: Final = 32
ROPE_BASE: Final = 10_000.0
NORM_EPSILON: Final = 1e-5
SPECIAL_TOKENS: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
END: Final = 2
_CONTROL: Final = 3
_NORMAL: Final = 1
CHAT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model; a key head serves two query heads."""

    name: str
    width: int
    layers: int
    heads: int
    inner: int

    @property
    def key_heads(self) -> int:
        """Heads of keys and values."""
        return max(1, self.heads // 2)


def write_gguf(path: Path, shape: Shape, tensors: Mapping[str, Any], tokenizer: str) -> None:
    """Write weights, tokenizer and chat template; matrices as 16-bit floats."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(shape.name)
    writer.add_license("apache-2.0")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.key_heads)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(NORM_EPSILON)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    _add_tokenizer(writer, json.loads(tokenizer)["model"])
    for name, tensor in tensors.items():
        kind = np.float32 if tensor.ndim == 1 else np.float16
        writer.add_tensor(name, np.ascontiguousarray(tensor.astype(kind)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: gguf.GGUFWriter, model: Mapping[str, Any]) -> None:
    words = sorted(model["vocab"], key=model["vocab"].get)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words)
    writer.add_token_types([_CONTROL if word in SPECIAL_TOKENS else _NORMAL for word in words])
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(END)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(value=False)
    writer.add_chat_template(CHAT_TEMPLATE)


def convert(path: Path, folder: Path) -> None:
    """Write a model in the format of Hugging Face: safetensors, configuration and tokenizer."""
    reader = gguf.GGUFReader(path)
    field = {name: entry.contents() for name, entry in reader.fields.items()}
    heads = {"attn_q": field["llama.attention.head_count"]}
    heads["attn_k"] = field["llama.attention.head_count_kv"]
    tensors = {}
    for tensor in reader.tensors:
        kind = tensor.name.removesuffix(".weight").rpartition(".")[2]
        data = np.asarray(tensor.data, dtype=np.float16)
        tensors[_hugging_face_name(tensor.name)] = _halves_apart(data, heads.get(kind, 0))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(_safetensors(tensors))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf8")
    for name, document in {
        "config.json": _config(field),
        "tokenizer.json": _tokenizer(field),
        "tokenizer_config.json": _tokenizer_config(),
        "generation_config.json": {"bos_token_id": 0, "eos_token_id": END, "pad_token_id": 0},
    }.items():
        (folder / name).write_text(json.dumps(document, indent=1), encoding="utf8")


_NAMES: Final = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _hugging_face_name(name: str) -> str:
    parts = name.split(".")
    layer = f"layers.{parts[1]}." if parts[0] == "blk" else ""
    return f"model.{layer}{_NAMES[parts[-2]]}.weight"


def _halves_apart(weight: Any, heads: int) -> Any:
    """Rows of a query or key weight as Hugging Face rotates them: halves, not neighbours."""
    if not heads:
        return weight
    rows, width = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, width)
    return pairs.swapaxes(1, 2).reshape(rows, width)


def _safetensors(tensors: Mapping[str, Any]) -> bytes:
    """A safetensors file: length of the header, header, tensors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data, start = [], 0
    for name, tensor in sorted(tensors.items()):
        raw = np.ascontiguousarray(tensor).tobytes()
        place = [start, start + len(raw)]
        header[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": place}
        data.append(raw)
        start += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def _config(field: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": field["llama.vocab_size"],
        "hidden_size": field["llama.embedding_length"],
        "intermediate_size": field["llama.feed_forward_length"],
        "num_hidden_layers": field["llama.block_count"],
        "num_attention_heads": field["llama.attention.head_count"],
        "num_key_value_heads": field["llama.attention.head_count_kv"],
        "head_dim": HEAD,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rope_theta": ROPE_BASE,
        "rope_parameters": {"rope_type": "default", "rope_theta": ROPE_BASE},
        "rms_norm_eps": NORM_EPSILON,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": END,
        "pad_token_id": 0,
        "dtype": "float16",
        "torch_dtype": "float16",
    }


def _tokenizer(field: Mapping[str, Any]) -> dict[str, Any]:
    """The tokenizer as the ``tokenizers`` library writes it."""
    words = field["tokenizer.ggml.tokens"]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    level["use_regex"] = True
    return {
        "version": "1.0",
        "added_tokens": [
            {
                "id": words.index(word),
                "content": word,
                "special": True,
                **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
            }
            for word in SPECIAL_TOKENS
        ],
        "pre_tokenizer": level,
        "decoder": level,
        "model": {
            "type": "BPE",
            "vocab": {word: number for number, word in enumerate(words)},
            "merges": [merge.split(" ") for merge in field["tokenizer.ggml.merges"]],
        },
    }


def _tokenizer_config() -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL_TOKENS[0],
        "eos_token": SPECIAL_TOKENS[END],
        "pad_token": SPECIAL_TOKENS[0],
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT,
        "chat_template": CHAT_TEMPLATE,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Convert a GGUF file that ``write_gguf`` wrote."""
    parser = argparse.ArgumentParser(description="Convert the tiny model to Hugging Face's format.")
    parser.add_argument("gguf", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(argv)
    convert(options.gguf, options.folder)


if __name__ == "__main__":
    main()
