"""Small ONNX models with the structure of real ones, written by the tests that encode with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "fever", "cough", "fracture", "cast", "and", "no", "the", "knee")
WIDTH = 8


def text_model(path: Path, seed: int = 0, *, positions: bool = True) -> Path:
    """A transformer in small: numbers of tokens in, a vector for each token out, mixed by the mask."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(seed)
    table = rng.normal(size=(len(WORDS), WIDTH)).astype(np.float32)
    mix = rng.normal(size=(WIDTH, WIDTH)).astype(np.float32)
    whole, single = TensorProto.INT64, TensorProto.FLOAT
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["embedded"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=single),
        helper.make_node("Unsqueeze", ["mask", "last"], ["wide_mask"]),
        helper.make_node("Mul", ["embedded", "wide_mask"], ["seen"]),
        helper.make_node("ReduceMean", ["seen", "tokens"], ["context"], keepdims=1),
        helper.make_node("Add", ["seen", "context"], ["both"]),
        helper.make_node("MatMul", ["both", "mix"], ["mixed"]),
        helper.make_node("Tanh", ["mixed"], ["last_hidden_state"]),
    ]
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if positions else [])]
    if positions:
        nodes.insert(0, helper.make_node("Identity", ["token_type_ids"], ["unused"]))
    weights = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(mix, "mix"),
        numpy_helper.from_array(np.array([2], np.int64), "last"),
        numpy_helper.from_array(np.array([1], np.int64), "tokens"),
    ]
    graph = helper.make_graph(
        nodes,
        "texts",
        [helper.make_tensor_value_info(name, whole, ["batch", "sequence"]) for name in names],
        [helper.make_tensor_value_info("last_hidden_state", single, ["batch", "sequence", WIDTH])],
        weights,
    )
    return _saved(graph, path)


def image_model(path: Path, seed: int = 0, size: int | None = 8) -> Path:
    """A convolution and a mean over all places: images of three channels in, a vector out."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(seed)
    kernel = rng.normal(size=(WIDTH, 3, 3, 3)).astype(np.float32)
    side: Any = "side" if size is None else size
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["pixels", "kernel"], ["edges"], kernel_shape=[3, 3]),
            helper.make_node("Relu", ["edges"], ["bright"]),
            helper.make_node("GlobalAveragePool", ["bright"], ["pooled"]),
            helper.make_node("Flatten", ["pooled"], ["vector"]),
        ],
        "images",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 3, side, side])],
        [helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["batch", WIDTH])],
        [numpy_helper.from_array(kernel, "kernel")],
    )
    return _saved(graph, path)


def row_model(path: Path, seed: int = 0, n_features: int = 5, last: str = "Tanh", **saving: Any) -> Path:
    """One layer: rows of numbers in, a vector out."""
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(seed).normal(size=(n_features, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["rows", "weights"], ["sums"]),
            helper.make_node(last, ["sums"], ["out"]),
        ],
        "rows",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["batch", n_features])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(weights, "weights")],
    )
    return _saved(graph, path, **saving)


def _saved(graph: Any, path: Path, **saving: Any) -> Path:
    import onnx
    from onnx import helper

    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path, **saving)
    return path


def tokenizer(path: Path, words: tuple[str, ...] = WORDS) -> Path:
    """A tokenizer of whole words, with marks before and after a text."""
    vocabulary = {word: number for number, word in enumerate(words)}
    marks = [{"id": vocabulary[mark], "content": mark} for mark in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    mark = {name: {"id": name, "ids": [vocabulary[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    template = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [each | plain for each in marks],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": template,
            "pair": template,
            "special_tokens": mark,
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def sentence_folder(folder: Path, seed: int = 0, pooling: str = "mean_tokens", length: int = 16) -> Path:
    """A folder as sentence encoders are published in."""
    folder.mkdir(parents=True, exist_ok=True)
    text_model(folder / "onnx" / "model.onnx", seed)
    tokenizer(folder / "tokenizer.json")
    kinds = ("Transformer", "Pooling", "Normalize")
    modules = [{"idx": n, "type": f"sentence_transformers.models.{kind}"} for n, kind in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    modes = {f"pooling_mode_{mode}": mode == pooling for mode in ("cls_token", "mean_tokens", "max_tokens")}
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": WIDTH, **modes})
    )
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": length}))
    return folder
