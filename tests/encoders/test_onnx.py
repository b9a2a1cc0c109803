"""Encoders in ONNX files: each record by itself, known by a digest, and foreign files refused in a line."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from onefold.encoders import OnnxEncoder, SentenceEncoder, condition, description, learns
from onefold.encoders import onnx as onnx_map
from onefold.exceptions import InvalidInputError, MissingDependencyError
from onefold.fabrication import MomentClassifier
from onnx_models import WORDS, image_model, row_model, sentence_folder, text_model, tokenizer

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")
pillow: Any = pytest.importorskip("PIL.Image")

TEXTS = ["fever and cough", "the knee", "no fever", "fracture", "cast"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sentence_folder(tmp_path / "sentences")


def image(path: Path, seed: int = 0, size: tuple[int, int] = (8, 8)) -> Path:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    pillow.fromarray(pixels).save(path)
    return path


def tokens(text: str) -> list[int]:
    return [WORDS.index("[CLS]"), *(WORDS.index(word) for word in text.split()), WORDS.index("[SEP]")]


def by_hand(path: Path, text: str, pooling: str = "mean") -> np.ndarray:
    """What the small model of texts computes, in NumPy."""
    import onnx
    from onnx import numpy_helper

    weights = {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}
    embedded = weights["table"].astype(float)[tokens(text)]
    found = np.tanh((embedded + embedded.mean(axis=0)) @ weights["mix"])
    vector = found.mean(axis=0) if pooling == "mean" else found[0]
    return vector / np.linalg.norm(vector)


# --- texts ------------------------------------------------------------------------------------------------


def test_a_folder_of_a_sentence_encoder_gives_the_mean_of_its_tokens(folder: Path) -> None:
    found = SentenceEncoder(folder).fit_transform(TEXTS)
    expected = [by_hand(folder / "onnx/model.onnx", text) for text in TEXTS]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-12)


def test_the_first_token_is_taken_where_the_folder_says_so(tmp_path: Path) -> None:
    folder = sentence_folder(tmp_path / "first", pooling="cls_token")
    found = SentenceEncoder(folder).fit_transform(TEXTS)
    expected = [by_hand(folder / "onnx/model.onnx", text, "cls") for text in TEXTS]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.exact
def test_a_text_is_encoded_by_itself(folder: Path) -> None:
    encoder = SentenceEncoder(folder).fit(["no"])
    together = encoder.transform([*TEXTS, " ".join(["fever"] * 10)])
    for text, row in zip(TEXTS, together, strict=False):
        np.testing.assert_array_equal(encoder.transform([text])[0], row)


def test_a_file_and_its_folder_are_the_same_encoder(folder: Path) -> None:
    one = SentenceEncoder(folder)
    other = OnnxEncoder(folder / "onnx/model.onnx", max_tokens=16)  # the tokenizer is found one folder above
    assert one.digest == other.digest
    np.testing.assert_array_equal(one.fit_transform(TEXTS), other.fit_transform(TEXTS))


def test_only_the_first_tokens_are_read(folder: Path) -> None:
    encoder = SentenceEncoder(folder, max_tokens=4).fit(TEXTS)
    kept, longer = encoder.transform(["fever cough", "fever cough knee knee knee"])
    np.testing.assert_array_equal(kept, longer)


def test_a_text_without_tokens_is_zero(tmp_path: Path) -> None:
    path = tokenizer(tmp_path / "tokenizer.json")
    content = json.loads(path.read_text(encoding="utf-8")) | {"post_processor": None}
    path.write_text(json.dumps(content), encoding="utf-8")
    encoder = OnnxEncoder(text_model(tmp_path / "model.onnx")).fit(["fever"])
    assert not encoder.transform([""]).any()


@pytest.mark.parametrize("last", ["Tanh", "Log"])
def test_zeros_and_numbers_that_are_not_finite_become_zeros(tmp_path: Path, last: str) -> None:
    encoder = OnnxEncoder(row_model(tmp_path / "rows.onnx", last=last)).fit(np.zeros((1, 5)))
    assert not encoder.transform(np.zeros((1, 5))).any()  # tanh is zero, the logarithm infinite
    rows = np.random.default_rng(0).normal(size=(50, 5))
    np.testing.assert_array_less(np.linalg.norm(encoder.transform(rows), axis=1), 1.0 + 1e-12)


@pytest.mark.parametrize("wrong", [[None], [1.5], [["a", "b"]], [], "a"])
def test_anything_but_texts_is_refused(folder: Path, wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"^X must"):
        SentenceEncoder(folder).fit(wrong)


@pytest.mark.parametrize("kind", ["Dense", "LSTM"])
def test_a_folder_with_a_further_layer_is_refused(folder: Path, kind: str) -> None:
    path = folder / "modules.json"
    path.write_text(path.read_text().replace("models.Normalize", f"models.{kind}"))
    with pytest.raises(InvalidInputError, match="layer beside"):
        SentenceEncoder(folder).fit(TEXTS)


def test_pooling_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="mean of the tokens or the first"):
        SentenceEncoder(sentence_folder(tmp_path / "x", pooling="max_tokens")).fit(TEXTS)


# --- images and rows --------------------------------------------------------------------------------------


def test_an_image_is_brought_to_the_range_and_order_of_the_model(tmp_path: Path) -> None:
    import onnx
    from onnx import numpy_helper

    path = image_model(tmp_path / "model.onnx")
    kernel = numpy_helper.to_array(onnx.load(path).graph.initializer[0]).astype(float)
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
    found = OnnxEncoder(path, mean=mean, std=std).fit_transform([image(tmp_path / "a.png")])[0]
    pixels = np.asarray(pillow.open(tmp_path / "a.png"), dtype=float) / 255
    scaled = ((pixels - mean) / std).transpose(2, 0, 1)
    windows = np.lib.stride_tricks.sliding_window_view(scaled, (3, 3), axis=(1, 2))
    edges = np.maximum(np.einsum("cyxij,kcij->kyx", windows, kernel), 0).mean(axis=(1, 2))
    np.testing.assert_allclose(found, edges / np.linalg.norm(edges), atol=1e-6)


def test_images_of_other_sizes_are_resized(tmp_path: Path) -> None:
    path = image_model(tmp_path / "any.onnx", size=None)
    with pytest.raises(InvalidInputError, match=r"give size=\(HEIGHT, WIDTH\)"):
        OnnxEncoder(path).fit(["a.png"])
    paths = [image(tmp_path / "a.png", size=(20, 9)), image(tmp_path / "b.png", size=(8, 8))]
    assert OnnxEncoder(path, size=(6, 5)).fit_transform(paths).shape == (2, 8)
    with pytest.raises(InvalidInputError, match="takes images of 8 x 8"):
        OnnxEncoder(image_model(tmp_path / "fixed.onnx"), size=(6, 5)).fit(paths)


def test_what_is_no_image_is_refused_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, good = image_model(tmp_path / "model.onnx"), image(tmp_path / "a.png")
    (tmp_path / "secret.txt").write_text("secret")
    encoder = OnnxEncoder(path).fit([good])
    with pytest.raises(InvalidInputError) as caught:
        encoder.transform([good, tmp_path / "secret.txt"])
    assert str(caught.value) == "row 2: cannot be read as an image"
    monkeypatch.setattr(onnx_map, "MOST_PIXELS", 63)
    with pytest.raises(InvalidInputError, match="row 1: cannot be read"):
        encoder.transform([good])


@pytest.mark.parametrize("name", ["../a.png", "/etc/hostname", "inside/../../a.png", "link.png", "\0"])
def test_no_path_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    outside = image(tmp_path / "a.png")
    (inside / "link.png").symlink_to(outside)
    encoder = OnnxEncoder(image_model(tmp_path / "model.onnx"), folder=inside)
    with pytest.raises(InvalidInputError, match="row 1: cannot be read as an image"):
        encoder.fit_transform([name])
    image(inside / "b.png")
    assert encoder.transform(["b.png"]).any()


def test_rows_of_numbers_go_through_a_model_of_rows(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(7, 5))
    encoder = OnnxEncoder(row_model(tmp_path / "rows.onnx")).fit(rows)
    assert encoder.transform(rows).shape == (7, 3)
    np.testing.assert_array_equal(encoder.transform(rows[3:4])[0], encoder.transform(rows)[3])
    with pytest.raises(InvalidInputError, match=r"X has 4 features, but .*rows.onnx takes rows of 5"):
        OnnxEncoder(tmp_path / "rows.onnx").fit(rows[:, :4])


# --- what identifies an encoder ---------------------------------------------------------------------------


def test_the_digest_is_that_of_contents_and_settings_not_of_places(folder: Path, tmp_path: Path) -> None:
    elsewhere = shutil.copytree(folder, tmp_path / "elsewhere")
    same = SentenceEncoder(folder), SentenceEncoder(elsewhere)
    assert same[0].digest == same[1].digest
    assert description(same[0]) == description(same[1])
    assert str(tmp_path) not in description(same[0])
    others = [
        SentenceEncoder(folder, max_tokens=7),
        OnnxEncoder(folder / "onnx/model.onnx", max_tokens=16, pooling="cls"),
        SentenceEncoder(sentence_folder(tmp_path / "other", seed=1)),
    ]
    tokenizer(elsewhere / "tokenizer.json", (*WORDS[:-2], *WORDS[:-3:-1]))  # the last two words change places
    others.append(SentenceEncoder(elsewhere))
    assert len({encoder.digest for encoder in (same[0], *others)}) == 5


def test_copies_are_the_same_encoder(folder: Path) -> None:
    encoder = SentenceEncoder(folder).fit(TEXTS)
    for other in (clone(encoder).fit(["cast"]), copy.deepcopy(encoder)):
        np.testing.assert_array_equal(other.transform(TEXTS), encoder.transform(TEXTS))


def test_fitting_again_takes_the_file_that_is_there_now(folder: Path) -> None:
    encoder = SentenceEncoder(folder).fit(TEXTS)
    before = encoder.digest
    text_model(folder / "onnx/model.onnx", seed=5)
    assert encoder.digest == before
    assert encoder.fit(TEXTS).digest != before


def test_a_copy_notices_that_its_file_is_another_one(folder: Path) -> None:
    sent = pickle.dumps(SentenceEncoder(folder).fit(TEXTS))
    text_model(folder / "onnx/model.onnx", seed=5)
    with pytest.raises(InvalidInputError, match="no longer what it was"):
        pickle.loads(sent)  # noqa: S301


def test_it_learns_nothing_here_but_was_trained_elsewhere(folder: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder(folder)
    assert not learns(encoder)
    assert condition(encoder) == "no encoder was trained on these records"
    rows, labels = np.random.default_rng(0).normal(size=(40, 5)), [0, 1] * 20
    model = MomentClassifier(1.0, classes=[0, 1], encoder=OnnxEncoder(row_model(tmp_path / "rows.onnx")))
    promise = model.fit(rows, labels).guarantee_
    assert promise.holds
    assert "no encoder was trained on these records" in promise.conditions
    assert "no encoder was trained" in str(promise)


# --- foreign files ----------------------------------------------------------------------------------------


def _external(path: Path) -> None:
    row_model(
        path, save_as_external_data=True, all_tensors_to_one_file=True, location="weights", size_threshold=0
    )


def _damaged(path: Path) -> None:
    content = row_model(path).read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (_external, "its weights are in another file"),
        (_damaged, "not an ONNX file"),
        (lambda path: path.write_bytes(b"PK\x03\x04 something else"), "not an ONNX file"),
        (lambda path: path.write_bytes(b""), "not an ONNX file"),
        (lambda path: None, "there is no such file"),
        (lambda path: path.mkdir(), "neither onnx/model.onnx nor model.onnx"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Any], told: str
) -> None:
    monkeypatch.chdir(tmp_path)  # where onnxruntime would look for further files
    make(tmp_path / "model.onnx")
    with pytest.raises(InvalidInputError, match=told) as caught:
        OnnxEncoder("model.onnx").fit(np.zeros((1, 5)))
    assert str(caught.value).startswith("model.onnx: ")
    assert "\n" not in str(caught.value)


def field(number: int, content: bytes, length: bytes | None = None) -> bytes:
    """A part of a protobuf message, with its length in as few bytes as it takes, or as told."""
    size, spelt = len(content), b""
    while size > 127:
        spelt, size = spelt + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + (length or spelt + bytes([size])) + content


def _in_initializer(tensor: bytes) -> bytes:
    matmul = field(1, field(1, b"rows") + field(1, b"weights") + field(2, b"out") + field(4, b"MatMul"))
    return matmul + field(5, tensor)


def _in_constant(tensor: bytes) -> bytes:
    value = field(5, field(1, b"value") + field(5, tensor) + b"\xa0\x01\x04")
    constant = field(1, field(2, b"weights") + field(4, b"Constant") + value)
    return constant + _in_initializer(b"").split(b"\x2a\x00")[0]


@pytest.mark.parametrize("length", [b"\x08", b"\x88\x00", b"\x88\x80\x80\x00"])
@pytest.mark.parametrize("place", [_in_initializer, _in_constant])
def test_weights_that_the_runtime_would_fetch_from_another_file_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Callable[[bytes], bytes], length: bytes
) -> None:
    """However the file spells where they are: the runtime itself follows them, so somebody must refuse."""
    import onnxruntime

    monkeypatch.chdir(tmp_path)
    weights = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    (tmp_path / "numbers").write_bytes(weights.tobytes())
    shape = {"rows": b"\x0a\x02\x08\x01\x0a\x02\x08\x05", "out": b"\x0a\x02\x08\x01\x0a\x02\x08\x03"}
    ends = {
        name: field(1, name.encode()) + field(2, field(1, b"\x08\x01" + field(2, sizes)))
        for name, sizes in shape.items()
    }
    where = field(13, field(1, b"location", length) + field(2, b"numbers"))
    tensor = b"\x08\x05\x08\x03\x10\x01" + field(8, b"weights") + where + b"\x70\x01"
    graph = place(tensor) + field(2, b"g") + field(11, ends["rows"]) + field(12, ends["out"])
    content = b"\x08\x09" + field(7, graph) + field(8, b"\x0a\x00\x10\x12")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    found = session.run(None, {"rows": np.ones((1, 5), np.float32)})[0]
    np.testing.assert_allclose(found[0], weights.sum(axis=0), rtol=1e-5)  # it is there, and was followed
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"^model.onnx: its weights are in another file"):
        OnnxEncoder("model.onnx").fit(np.zeros((1, 5)))


def test_model_in_the_own_format_of_the_runtime_is_refused(tmp_path: Path) -> None:
    import onnxruntime

    path, other = row_model(tmp_path / "rows.onnx"), tmp_path / "rows.ort"
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(other)
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    assert onnxruntime.InferenceSession(other.read_bytes(), providers=["CPUExecutionProvider"])
    with pytest.raises(InvalidInputError, match="not an ONNX file"):
        OnnxEncoder(other).fit(np.zeros((1, 5)))


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = row_model(tmp_path / "rows.onnx")
    monkeypatch.setattr(onnx_map, "LARGEST_MODEL", 10)
    with pytest.raises(InvalidInputError, match="larger than 10 bytes"):
        OnnxEncoder(path).fit(np.zeros((1, 5)))


def test_a_tokenizer_that_is_none_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    with pytest.raises(InvalidInputError, match=r"no tokenizer.json, or damaged"):
        SentenceEncoder(folder).fit(TEXTS)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InvalidInputError, match="needs a tokenizer"):
        SentenceEncoder(folder).fit(TEXTS)


def test_a_token_that_the_model_does_not_know_fails_without_the_text(folder: Path) -> None:
    tokenizer(folder / "tokenizer.json", (*WORDS, "secretword"))
    encoder = SentenceEncoder(folder).fit(TEXTS)
    with pytest.raises(InvalidInputError) as caught:
        encoder.transform(["fever", "secretword"])
    assert str(caught.value) == "row 2: the model fails on it"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"kind": "sound"}, "kind must be"),
        ({"pooling": "max"}, "pooling must be"),
        ({"output": "other"}, "has no output 'other'"),
        ({"max_tokens": 0}, "max_tokens must be"),
        ({"kind": "text"}, "needs a tokenizer"),
        ({"kind": "image"}, "no image of one or three channels"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        OnnxEncoder(row_model(tmp_path / "rows.onnx"), **settings).fit(np.zeros((1, 5)))


QUIET = """
import socket, sys

def refuse(*_: object, **__: object) -> None:
    raise AssertionError("the network is not for encoders")

socket.socket.connect = socket.getaddrinfo = refuse
from onefold.encoders import SentenceEncoder
assert SentenceEncoder(sys.argv[1]).fit_transform(["fever"]).any()
assert not {"huggingface_hub", "requests", "httpx"} & set(sys.modules)
"""


@pytest.mark.merge
def test_nothing_speaks_to_the_network(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", QUIET, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_missing_package_says_which_extra_brings_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(module: str, extra: str) -> Any:
        raise MissingDependencyError(f"{module} is needed here: pip install 'onefold[{extra}]'")

    monkeypatch.setattr(onnx_map, "require", absent)
    with pytest.raises(MissingDependencyError, match=r"onnxruntime.*onefold\[onnx\]"):
        SentenceEncoder(folder).fit(TEXTS)
