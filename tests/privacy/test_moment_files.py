"""Released moments as files: nothing executed, nothing believed that does not fit."""

from pathlib import Path

import numpy as np
import pytest

from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.privacy.moments import PrivateMoments
from reference.clouds import cloud


@pytest.mark.parametrize(
    "labels", [np.array([3, 5, 7]), np.array(["a", "bc", "d"]), np.array(["a", "b", "c"], object)]
)
def test_saved_and_loaded(tmp_path: Path, labels: np.ndarray) -> None:
    X, y = cloud()
    model = PrivateMoments(2.0, classes=labels, random_state=0).fit(X, labels[y])
    path = tmp_path / "moments.npz"
    model.save(path)
    found = PrivateMoments.load(path)
    assert [file.name for file in tmp_path.iterdir()] == ["moments.npz"]
    np.testing.assert_array_equal(found.classes_, model.classes_)
    np.testing.assert_array_equal(found.covariances_, model.covariances_)
    np.testing.assert_array_equal(found.embed(X), model.embed(X))
    assert found.guarantee_ == model.guarantee_
    assert found.add(model).guarantee_.n_owners == 2
    assert not any(np.shape(array)[:1] == (len(X),) for array in np.load(path).values())  # no row of the data


def test_files_that_are_not_moments_are_one_line(tmp_path: Path) -> None:
    X, y = cloud()
    good = tmp_path / "moments.npz"
    PrivateMoments(None).fit(X, y).save(good)
    arrays = dict(np.load(good))
    (tmp_path / "short.npz").write_bytes(good.read_bytes()[:200])
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    np.savez(tmp_path / "shape.npz", **{**arrays, "sums": arrays["sums"][:, :2]})
    np.savez(tmp_path / "nan.npz", **{**arrays, "sums": arrays["sums"] * np.nan})
    np.savez(
        tmp_path / "newer.npz",
        **{**arrays, "about": np.array(str(arrays["about"]).replace('"format": 1', '"format": 2'))},
    )
    np.savez(tmp_path / "object.npz", **{**arrays, "about": np.array([{}], dtype=object)})
    for name in ("short", "text", "other", "shape", "nan", "newer", "object"):
        with pytest.raises(FileFormatError) as caught:
            PrivateMoments.load(tmp_path / f"{name}.npz")
        assert "\n" not in str(caught.value)
    with pytest.raises(InvalidInputError, match="there are no moments"):
        PrivateMoments.load(tmp_path / "nowhere.npz")
