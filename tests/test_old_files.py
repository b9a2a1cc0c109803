"""Files that version 0.1 wrote still load, and what is in them answers as it did.

Labels must be equal. Distances were written by one processor, and another gives other last digits: they agree
to 1e-6. ``tests/data_0_1/expected.json`` holds the queries and the answers of version 0.1.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from onefold import FoldingClassifier, io
from onefold._base.archive import kind_of
from onefold._base.frames import unpack_frame
from onefold.exceptions import FileFormatError
from onefold.federated import LocalModel, messages
from onefold.privacy import Guarantee, Ledger, OptimalNoise, PrivateMoments
from onefold.privacy.guarantee import FLOAT_SAMPLER
from onefold.transfer import PrivateSource, TransferClassifier

FILES = Path(__file__).parent / "data_0_1"
EXPECTED = json.loads((FILES / "expected.json").read_text())
QUERIES = np.array(EXPECTED["queries"])
AUTOENCODERS = (
    "kahm",
    "kahm_more_features",
    "deep_kahm",
    "wide_kahm_float32",
    "deep_membership",
    "wide_membership",
    "deep_fuzzy",
    "wide_fuzzy",
)


def close(found: object, expected: object, tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", AUTOENCODERS)
def test_autoencoders_answer_as_before(name):
    model = io.load(FILES / f"{name}.onefold")
    queries = np.array(EXPECTED["wide_queries"]) if name == "kahm_more_features" else QUERIES
    single = name.endswith("float32")
    queries = queries.astype(np.float32) if single else queries
    tolerance = 1e-4 if single else 1e-6
    assert model.distance(queries).dtype == queries.dtype
    close(model.distance(queries), EXPECTED[name]["distance"], tolerance)
    close(model.transform(queries), EXPECTED[name]["image"], tolerance)


@pytest.mark.parametrize("name", ["folding", "autoencoder_classifier", "fuzzy_classifier"])
def test_classifiers_answer_as_before(name):
    model = io.load(FILES / f"{name}.onefold")
    assert model.predict(QUERIES).tolist() == EXPECTED[name]["labels"]
    close(model.distances(QUERIES), EXPECTED[name]["distances"])


def test_guarantee_and_extras_of_a_model_are_read():
    assert io.load(FILES / "folding.onefold").guarantee_.record[0] > 0.0
    extras = io.load_extras(FILES / "folding.onefold")
    np.testing.assert_array_equal(extras["rows"], EXPECTED["rows"][:2])


@pytest.mark.parametrize("name", ["folding", "local_model", "source", "moment_source", "transfer", "moments"])
def test_guarantees_of_the_float_sampler_do_not_hold_any_more(name):
    (path,) = FILES.glob(f"{name}.[on]*")
    guarantee = io.load(path).guarantee_
    assert guarantee.voided_by == (FLOAT_SAMPLER,)
    assert Guarantee.from_dict(guarantee.to_dict()) == guarantee


@pytest.mark.parametrize("name", ["membership_mapping", "deep_fuzzy_model"])
def test_regressions_answer_as_before(name):
    model = io.load(FILES / f"{name}.onefold")
    close(model.predict(QUERIES), EXPECTED[name]["predictions"])


def test_moments_are_read():
    moments, expected = PrivateMoments.load(FILES / "moments.npz"), EXPECTED["moments"]
    assert moments.classes_.tolist() == expected["classes"]
    assert moments.counts_.tolist() == expected["counts"]
    assert moments.sums_.tolist() == expected["sums"]
    assert list(moments.guarantee_.record) == expected["record"]


@pytest.mark.parametrize("name", ["source", "moment_source"])
def test_sources_answer_as_before(name):
    source = PrivateSource.load(FILES / f"{name}.onefold")
    assert source.predict(QUERIES).tolist() == EXPECTED[name]["labels"]


@pytest.mark.parametrize("name", ["transfer", "transfer_documented"])
def test_transfer_classifiers_answer_as_before(name):
    path = FILES / f"{name}.onefold"
    assert TransferClassifier.is_saved_at(path)
    assert TransferClassifier.load(path).predict(QUERIES).tolist() == EXPECTED[name]["labels"]


def test_a_ledger_that_does_not_say_which_noise_was_drawn_is_refused():
    with pytest.raises(FileFormatError, match="damaged"):
        Ledger.load(FILES / "ledger.json")


def test_local_model_answers_and_forgets_as_before():
    like = LocalModel(FoldingClassifier(2, batch_size=6), OptimalNoise(4.0, sensitivity=1.0), random_state=0)
    local, expected = LocalModel.load(FILES / "local_model.onefold", like=like), EXPECTED["local_model"]
    close(local.estimator_.distances(QUERIES), expected["distances"])
    assert local.estimator_.predict(QUERIES).tolist() == expected["labels"]
    local.forget([0, 1])
    close(local.estimator_.distances(QUERIES), expected["after_forgetting_two"])


def test_frame_of_a_query_key_file_is_read():
    """A real key takes megabytes: here it is a text."""
    header, arrays = unpack_frame((FILES / "query.lock").read_bytes(), 10**4)
    assert header == {"kind": "lock", "format": 1}
    assert arrays["keys"].tobytes() == b"evaluation keys"
    key = messages.from_bytes(arrays["lock"].tobytes())
    assert (key.content, list(key.classes), key.bits) == (b"a public key", ["ham", "spam"], 8)


def test_file_of_encrypted_answers_is_read():
    pytest.importorskip("flwr")
    pytest.importorskip("seal")
    from onefold.federated.flower.encrypted import load_answers

    key_id, classes, parts = load_answers(FILES / "answer.sealed")
    assert (key_id, list(classes)) == ("ab" * 32, ["ham", "spam"])
    assert [(part.query_id, part.sites, part.content) for part in parts] == [
        ("q1", ("north",), b"ciphertext"),
        ("q2", ("north",), b"more"),
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("kahm.onefold", "model"),
        ("moments.npz", "private moments"),
        ("source.onefold", "private source"),
        ("transfer.onefold", "transfer classifier"),
        ("ledger.json", "ledger"),
        ("expected.json", None),
        ("query.lock", None),
    ],
)
def test_kind_of_an_old_file_is_known(name, kind):
    assert kind_of(FILES / name) == kind
