"""Proteins from PDNET's files and from the small set: channels in their order, distances cleaned, bad files refused in one line."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pickle_support import Touch

from xdops.data.proteins import CHANNELS, Proteins, load_domains, load_pdnet
from xdops.data.proteins.protein import clean_distances
from xdops.errors import XDError
from xdops.search import Crops

SEQUENCE = "MKVLAAG"
LENGTH = len(SEQUENCE)

Features = dict[str, Any]


def features(seed: int = 0, length: int = LENGTH) -> Features:
    rng = np.random.default_rng(seed)
    return {
        "seq": (SEQUENCE * length)[:length],
        "ss": rng.normal(size=(3, length)),
        "pssm": rng.normal(size=(length, 22)).astype(np.float16),
        "sa": rng.normal(size=length),
        "entropy": rng.normal(size=length),
        "ccmpred": rng.normal(size=(length, length)),
        "freecon": rng.normal(size=(length, length)),
        "potential": rng.normal(size=(length, length)),
    }


def distances(length: int = LENGTH) -> np.ndarray:
    places = np.random.default_rng(1).normal(scale=5, size=(length, 3))
    return np.linalg.norm(places[:, None] - places[None], axis=-1)


def write(root: Path, name: str, given: object, cb: np.ndarray | None = None, folder: str = "psicov") -> None:
    for part in ("features", "distance"):
        (root / folder / part).mkdir(parents=True, exist_ok=True)
    (root / folder / "features" / f"{name}.pkl").write_bytes(pickle.dumps(given))
    saved = np.empty(3, dtype=object)
    cb = distances() if cb is None else cb
    sequence = given["seq"] if isinstance(given, dict) and "seq" in given else SEQUENCE
    saved[:] = [len(cb), sequence, cb]
    np.save(root / folder / "distance" / f"{name}-cb.npy", saved, allow_pickle=True)


def write_list(root: Path, *ids: str, name: str = "psicov") -> None:
    (root / f"{name}.lst").write_text("".join(f"{i} 12\n" for i in ids))


def test_the_57_channels_are_in_pdnets_order_rows_then_columns(tmp_path: Path) -> None:
    given = features()
    write(tmp_path, "1abcA", given)
    write_list(tmp_path, "1abcA")
    (protein,) = load_pdnet(tmp_path, "psicov")
    maps = protein.features()
    assert maps.shape == (CHANNELS, LENGTH, LENGTH) == (57, LENGTH, LENGTH)
    single = [*given["ss"], *given["pssm"].T, given["sa"], given["entropy"]]
    assert len(single) == 27
    for i, values in enumerate(single):
        for row in range(LENGTH):
            np.testing.assert_allclose(maps[2 * i, row], values.astype(np.float32), rtol=1e-6)
            np.testing.assert_allclose(maps[2 * i + 1, :, row], values.astype(np.float32), rtol=1e-6)
    for i, key in enumerate(("ccmpred", "freecon", "potential")):
        np.testing.assert_allclose(maps[54 + i], given[key].astype(np.float32), rtol=1e-6)


def test_each_list_has_its_folder_and_its_order(tmp_path: Path) -> None:
    for list_name, folder in (("deepcov", "deepcov"), ("psicov", "psicov"), ("cameo-hard", "cameo")):
        for name in ("b", "a"):
            write(tmp_path, name, features(), folder=folder)
        write_list(tmp_path, "b", "a", name=list_name)
        assert [p.id for p in load_pdnet(tmp_path, list_name)] == ["b", "a"]
    assert [p.id for p in load_pdnet(tmp_path, "deepcov", first=1)] == ["a"]


def test_short_distances_become_one_and_the_diagonal_the_mean_of_its_neighbours() -> None:
    cb = np.array([[0.0, 0.4, 9.0], [0.4, 0.0, 5.0], [9.0, 5.0, 0.0]])
    cleaned, known = clean_distances(cb, 3, "a file")
    np.testing.assert_array_equal(cleaned, [[1, 1, 9], [1, 3, 5], [9, 5, 5]])
    assert known.all()


def test_residues_without_coordinates_stay_masked(tmp_path: Path) -> None:
    cb = distances()
    cb[2, :] = cb[:, 2] = np.nan
    write(tmp_path, "x", features(), cb, folder="cameo")
    write_list(tmp_path, "x", name="cameo-hard")
    (protein,) = load_pdnet(tmp_path, "cameo-hard")
    expected = np.ones((LENGTH, LENGTH), dtype=bool)
    expected[2, :] = expected[:, 2] = False
    assert np.array_equal(protein.known, expected)
    assert torch.isfinite(protein.distances).all()
    assert float(protein.distances[1, 1]) == pytest.approx(cb[1, 0])  # its other neighbour is missing
    batch = Proteins((protein,)).batch(torch.tensor([0]))
    assert batch.mask is not None
    prediction = torch.rand(1, 1, LENGTH, LENGTH)
    counted, y = batch.counted(prediction)
    assert counted.shape == y.shape == ((LENGTH - 1) ** 2, 1)


def changed(**changes: Any) -> Features:
    return {key: value for key, value in (features() | changes).items() if value is not None}


BAD_FEATURES: dict[str, tuple[Callable[[], object], str]] = {
    "a residue too many": (lambda: changed(sa=np.zeros(LENGTH + 1)), "'sa' of shape"),
    "pssm the other way round": (lambda: changed(pssm=np.zeros((22, LENGTH))), "'pssm' of shape"),
    "a pair map too small": (lambda: changed(ccmpred=np.zeros((3, 3))), "'ccmpred' of shape"),
    "not a number": (lambda: changed(potential=np.full((LENGTH, LENGTH), np.nan)), "'potential' that are NaN"),
    "a feature missing": (lambda: changed(entropy=None), "without feature 'entropy'"),
    "whole numbers beyond all floats": (lambda: changed(sa=[10**400] * LENGTH), "'sa' that is not numeric"),
    "words": (lambda: changed(sa=["a"] * LENGTH), "'sa' that is not numeric"),
    "complex numbers": (lambda: changed(sa=np.full(LENGTH, 1j)), "'sa' that is not numeric"),
    "text": (lambda: changed(sa=np.full(LENGTH, "1.5")), r"'sa' that is not numeric \(text\)"),
    "no dict": (lambda: [1, 2], "no dict"),
    "no sequence": (lambda: changed(seq=None), "no dict with a sequence"),
}


@pytest.mark.parametrize("name", BAD_FEATURES)
def test_bad_features_are_refused_by_name(tmp_path: Path, name: str) -> None:
    make, expected = BAD_FEATURES[name]
    write(tmp_path, "x", make())
    write_list(tmp_path, "x")
    with pytest.raises(XDError, match=expected) as caught:
        load_pdnet(tmp_path, "psicov")
    assert "x.pkl" in str(caught.value)
    assert "\n" not in str(caught.value)


def crooked(i: int, j: int, value: float) -> np.ndarray:
    cb = distances()
    cb[i, j] = value
    return cb


BAD_MAPS = {
    "not square": (distances()[:, :-1], "not square"),
    "another length": (distances(LENGTH + 2), "the same sequence|residues"),
    "not symmetric": (crooked(1, 4, 60.0), r"not symmetric: 60 at \(1, 4\)"),
    "known one way only": (crooked(1, 4, np.nan), "not symmetric"),
    "complex": (distances() * 1j, "complex numbers"),
    "infinite": (crooked(2, 2, np.inf), "infinite"),
    "nothing known": (np.full((LENGTH, LENGTH), np.nan), "no distance at all"),
}


@pytest.mark.parametrize("name", BAD_MAPS)
def test_bad_distance_maps_are_refused(tmp_path: Path, name: str) -> None:
    cb, expected = BAD_MAPS[name]
    write(tmp_path, "x", features(), cb)
    write_list(tmp_path, "x")
    with pytest.raises(XDError, match=expected) as caught:
        load_pdnet(tmp_path, "psicov")
    assert "x-cb.npy" in str(caught.value)


def test_a_pickle_with_another_global_runs_nothing_and_is_refused_by_its_name(tmp_path: Path) -> None:
    marker = tmp_path / "it ran"
    write(tmp_path, "x", {"seq": Touch(marker)})
    write_list(tmp_path, "x")
    with pytest.raises(XDError, match=r"x\.pkl, a pickle with .*open"):
        load_pdnet(tmp_path, "psicov")
    assert not marker.exists()


def test_an_id_without_files_is_refused_before_any_is_read(tmp_path: Path) -> None:
    write(tmp_path, "x", ["not even a protein"])
    write(tmp_path, "y", features())
    (tmp_path / "psicov" / "distance" / "y-cb.npy").unlink()
    write_list(tmp_path, "x", "y")
    with pytest.raises(XDError, match=r"y in psicov\.lst, without .*y-cb\.npy"):
        load_pdnet(tmp_path, "psicov")


@pytest.mark.parametrize(
    ("prepare", "name", "expected"),
    [
        (lambda root: None, "psicov", "no PDNET data"),
        (lambda root: write_list(root, name="psicov"), "psicov", "empty"),
        (lambda root: write_list(root, "x", name="deepcov"), "psicov", r"psicov\.lst, which cannot be read"),
        (lambda root: (write_list(root, "x", name="deepcov"), os.mkfifo(root / "psicov.lst")), "psicov", "no regular file"),
        (lambda root: write_list(root, "x", name="psicov"), "casp", "set 'casp'"),
    ],
)
def test_missing_and_empty_lists_are_refused(tmp_path: Path, prepare: Callable[[Path], None], name: str, expected: str) -> None:
    prepare(tmp_path)
    with pytest.raises(XDError, match=expected):
        load_pdnet(tmp_path, name)


def test_batches_are_padded_with_what_does_not_count_and_cropped_like_any_other(tmp_path: Path) -> None:
    write(tmp_path, "short", features(length=4), distances(4))
    write(tmp_path, "long", features(length=9), distances(9))
    write_list(tmp_path, "short", "long")
    proteins = Proteins(tuple(load_pdnet(tmp_path, "psicov")))
    batch = proteins.batch(torch.tensor([0, 1]))
    assert batch.x.shape == (2, 57, 9, 9)
    assert batch.y.shape == (2, 9, 9, 1)
    assert batch.mask is not None
    assert batch.mask.flatten(1).sum(dim=1).tolist() == [16, 81]
    assert not batch.x[0, :, 4:].any()
    window = Crops(proteins, (6, 6), margin=1).batch(torch.tensor([0, 1]), torch.Generator().manual_seed(0))
    assert window.x.shape == (2, 57, 6, 6)
    assert window.mask is not None
    assert window.mask[0].sum() == 16
    assert (window.y[..., 0] > 0).equal(window.mask)


def write_domains(root: Path, **changes: Any) -> None:
    given = features()
    arrays = {
        "seq": np.array(SEQUENCE),
        "cb": distances(),
        "mfdca": given["ccmpred"],
        **{key: given[key] for key in ("pssm", "entropy", "freecon", "potential")},
    }
    kept = {key: value for key, value in (arrays | changes).items() if value is not None}
    np.savez(root / "kortemme40_features.npz", **{f"1XYZ_A/{key}": value for key, value in kept.items()})


def test_the_small_set_has_what_an_alignment_gives_and_zeros_for_the_rest(tmp_path: Path) -> None:
    write_domains(tmp_path)
    (protein,) = load_domains(tmp_path)
    maps, given = protein.features(), features()
    assert protein.id == "1XYZ_A"
    assert not maps[:6].any()  # ss
    assert not maps[50:52].any()  # sa
    assert maps[6:50].flatten(1).any(dim=1).all()  # pssm
    assert maps[52:].flatten(1).any(dim=1).all()
    np.testing.assert_allclose(maps[54], given["ccmpred"].astype(np.float32), rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mfdca": None}, "1XYZ_A without feature 'ccmpred'"),
        ({"cb": distances(3)}, "1XYZ_A with a distance map of shape"),
        ({"cb": None}, "array '1XYZ_A/cb'"),
        ({"entropy": np.full(LENGTH, np.inf)}, "'entropy' that are NaN or infinite"),
    ],
)
def test_a_bad_domain_is_refused(tmp_path: Path, changes: Features, expected: str) -> None:
    write_domains(tmp_path, **changes)
    with pytest.raises(XDError, match=expected):
        load_domains(tmp_path)


def test_a_missing_file_of_domains_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(XDError, match="kortemme40_features"):
        load_domains(tmp_path)
