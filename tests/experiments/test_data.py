"""Files of data are made from what can be fetched, and compared with what was measured on."""

import argparse
import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from experiments import harness
from experiments.data import __main__ as commands
from experiments.data import encoders, fingerprints, named, stand_ins, tables


def write_idx(path: Path, values: np.ndarray) -> None:
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, dtype=">u4").tobytes()
    path.write_bytes(header + values.tobytes())


def test_digits_in_the_format_of_mnist_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    made = {}
    for part, name in (("train", "train"), ("test", "t10k")):
        made[f"X_{part}"] = rng.integers(0, 256, (3, 28, 28), dtype=np.uint8)
        made[f"y_{part}"] = rng.integers(0, 10, 3, dtype=np.uint8)
        write_idx(tmp_path / f"{name}-images-idx3-ubyte", made[f"X_{part}"])
        write_idx(tmp_path / f"{name}-labels.idx1-ubyte", made[f"y_{part}"])
    found = tables.mnist(tmp_path)
    assert set(found) == set(made)
    for name, values in made.items():
        np.testing.assert_array_equal(found[name], values)


def test_zip_codes_are_thousandths(tmp_path: Path) -> None:
    for part in ("train", "test"):
        line = "7.0000 " + " ".join(["-1.000"] * 255) + " 0.631\n"
        (tmp_path / f"zip.{part}.gz").write_bytes(gzip.compress((line * 2).encode()))
    found = tables.usps(tmp_path)
    assert found["X_train"].shape == (2, 256)
    assert found["X_test"][0, -2:].tolist() == [-1000, 631]
    assert found["y_train"].tolist() == [7, 7]


ADULT = "{}, {}, 226802, 11th, 7, Never-married, Sales, Own-child, Black, {}, 0, 0, 40, Peru, {}\n"


def test_census_rows_keep_unknown_as_a_category(tmp_path: Path) -> None:
    header = "age, workclass, fnlwgt, education, education-num, marital-status, occupation, relationship, "
    header += "race, sex, capital-gain, capital-loss, hours-per-week, native-country, Y\n"
    rows = ADULT.format(25, "Private", "Male", "<=50K") + ADULT.format(38, "?", "Female", ">50K")
    (tmp_path / "adult.data").write_text(rows)
    (tmp_path / "adult.test").write_text(header + ADULT.format(44, "Private", "Male", ">50K."))
    found = tables.adult(tmp_path)
    assert found["num_train"].tolist() == [[25, 226802, 7, 0, 0, 40], [38, 226802, 7, 0, 0, 40]]
    assert found["levels_workclass"].tolist() == ["?", "Private"]
    assert found["cat_train"][:, 0].tolist() == [1, 0]
    assert (found["y_train"].tolist(), found["y_test"].tolist()) == ([0, 1], [1])


def test_columns_of_loans_have_their_own_types(tmp_path: Path) -> None:
    (tmp_path / "loan_data.csv").write_text("fico,int.rate,purpose\n700,0.1,car\n650,NA,NA\n")
    found = tables.lending_club_2007_2010(tmp_path)
    assert found["columns"].tolist() == ["fico", "int.rate", "purpose"]
    assert found["c_fico"].dtype == np.int64
    assert np.isnan(found["c_int.rate"][1])
    assert found["c_purpose"].tolist() == ["car", ""]


def test_recordings_are_read_with_persons(tmp_path: Path) -> None:
    (tmp_path / "m14_merged.csv").write_text(
        ",BVP_std,subject,label,smoker_NO\n0,1.5,2,1,True\n1,2.5,3,2,False\n"
    )
    found = tables.wesad_features(tmp_path)
    assert found["feature_names"].tolist() == ["BVP_std", "smoker_NO"]
    assert found["X"].tolist() == [[1.5, 1.0], [2.5, 0.0]]
    assert (found["y"].tolist(), found["subject"].tolist()) == ([1, 2], [2, 3])
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        for signal in ("rr", "hr", "gsr", "temp"):
            (tmp_path / part / f"{signal}_{part}.csv").write_text("0.5,1.5\n2.5,3.5\n")
    (tmp_path / "train" / "labels_train.csv").write_text("0,5gpsc\n1,wjxci\n")
    found = tables.cogload_rr(tmp_path)
    assert found["rr_test"].tolist() == [[0.5, 1.5], [2.5, 3.5]]
    assert (found["y_train"].tolist(), found["user_train"].tolist()) == ([0, 1], ["5gpsc", "wjxci"])


def test_posts_are_written_in_the_order_of_classes_and_stripped(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for group in ("b", "a"):
            folder = tmp_path / "20news" / f"20news-bydate-{part}" / group
            folder.mkdir(parents=True)
            (folder / "1").write_bytes(
                f"From: x\n\nIn article y\n> quoted\nHello   {group}\n\n--\nme".encode()
            )
    target = tmp_path / "20newsgroups.json.gz"
    encoders.write_newsgroups(tmp_path / "20news", target)
    content = json.loads(gzip.decompress(target.read_bytes()))
    assert content["target_names"] == ["a", "b"]
    assert content["train"]["target"] == [0, 1]
    assert encoders.stripped(content["test"]["text"][1]) == "Hello b"


def test_missing_encoder_is_one_line(tmp_path: Path, block_import, capsys) -> None:
    block_import("onnxruntime")
    (tmp_path / "20newsgroups.json.gz").write_bytes(
        gzip.compress(
            json.dumps({part: {"text": ["\n\na"], "target": [0]} for part in ("train", "test")}).encode()
        )
    )
    arguments = ["make", "20newsgroups_use_multilingual", str(tmp_path), str(tmp_path)]
    assert commands.main(arguments) == commands.BAD_INPUT
    assert capsys.readouterr().err.endswith(
        "onnxruntime is needed here: python -m experiments.data list says what to install\n"
    )


def test_made_file_is_compared_with_what_was_measured_on(tmp_path: Path, capsys, monkeypatch) -> None:
    (tmp_path / "loan_data.csv").write_text("fico\n700\n650\n")
    arguments = ["make", "lending_club_2007_2010", str(tmp_path), str(tmp_path / "data")]
    assert commands.main(arguments) == 0
    assert "differs, it has other arrays" in capsys.readouterr().out
    found = fingerprints.of_file(tmp_path / "data" / "lending_club_2007_2010.npz")
    monkeypatch.setattr(fingerprints, "stored", lambda: {"lending_club_2007_2010": found})
    assert commands.main(["check", str(tmp_path / "data")]) == 0
    assert "identical" in capsys.readouterr().out
    near = {**found, "c_fico": {**found["c_fico"], "sha256": "0", "mean": found["c_fico"]["mean"] + 0.1}}
    monkeypatch.setattr(fingerprints, "stored", lambda: {"lending_club_2007_2010": near})
    assert commands.main(["check", str(tmp_path / "data")]) == 0
    assert "close" in capsys.readouterr().out
    far = {**found, "c_fico": {**found["c_fico"], "sha256": "0", "mean": 1.0}}
    monkeypatch.setattr(fingerprints, "stored", lambda: {"lending_club_2007_2010": far})
    assert commands.main(["check", str(tmp_path / "data")]) == 1
    assert "differs in c_fico" in capsys.readouterr().out


def test_every_file_has_a_recipe_and_a_way_to_make_it(capsys) -> None:
    makers = {*tables.MAKERS, *encoders.MAKERS, *encoders.WRITERS, "fashion_mnist"}
    sources = fingerprints.sources()
    assert set(sources) == makers
    assert set(fingerprints.stored()) == makers - {"fashion_mnist"}
    for source in sources.values():
        assert set(source) == {"about", "licence", "fetch", "made_from"}
    assert commands.main(["list"]) == 0
    assert "git clone" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["mnist", "adult"])
def test_folder_that_is_not_there_is_one_line(tmp_path: Path, capsys, name: str) -> None:
    assert commands.main(["make", name, str(tmp_path / "gone"), str(tmp_path)]) == commands.BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stand_ins")
    stand_ins.write(folder)
    return folder


def test_stand_ins_have_the_arrays_of_the_real_files(small: Path) -> None:
    for name, arrays in fingerprints.stored().items():
        if name in ("20newsgroups", "xglue_nc_de_dev"):
            continue
        found = fingerprints.of_file(small / f"{name}.npz")
        assert set(found) >= {key for key in arrays if not key.startswith("n_empty")}, name
        for key, known in arrays.items():
            if key in found and known["dtype"] != "text":
                assert len(found[key]["shape"]) == len(known["shape"]), (name, key)
    assert set(json.loads(gzip.decompress((small / "xglue_nc_de_dev.json.gz").read_bytes()))) == {
        "labels",
        "y",
        "title",
        "body",
    }


@pytest.mark.parametrize(
    "name",
    [
        "mnist",
        "fashion_mnist",
        "usps",
        "adult",
        "cogload_rr:rr",
        "wesad_features",
        "grocery_store_effnetlite0:coarse",
        "cifar10_effnetlite0",
        "20newsgroups_use_multilingual",
        "xglue_nc_de_dev_use_multilingual",
        "office_caltech10_effnetlite0:dslr",
        "office_caltech10_surf:webcam",
    ],
)
def test_stand_ins_are_read_like_the_real_files(small: Path, name: str) -> None:
    data = named.load(name, small)
    assert np.isfinite(data.X_train).all()
    assert set(np.unique(data.y_test)) <= set(np.unique(data.y_train))


def test_quick_run_without_data_gets_stand_ins_and_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.delenv("ONEFOLD_DATA", raising=False)
    seen = []

    def experiment(args: argparse.Namespace) -> harness.Outcome:
        seen.append(Path(args.data_dir))
        assert (seen[0] / "mnist.npz").is_file()
        assert os.environ["ONEFOLD_DATA"] == args.data_dir
        return harness.Outcome({}, [])

    assert harness.main("folder/script.py", harness.parser(None), experiment, ["--quick"]) == 0
    assert "stand-ins" in capsys.readouterr().err
    assert not seen[0].exists()
    assert "ONEFOLD_DATA" not in os.environ


def test_folder_of_data_is_taken_where_there_is_one(tmp_path: Path, capsys) -> None:
    def experiment(args: argparse.Namespace) -> harness.Outcome:
        assert args.data_dir == str(tmp_path)
        return harness.Outcome({}, [])

    arguments = ["--quick", "--data-dir", str(tmp_path)]
    assert harness.main("folder/script.py", harness.parser(None), experiment, arguments) == 0
    assert capsys.readouterr().err == ""
