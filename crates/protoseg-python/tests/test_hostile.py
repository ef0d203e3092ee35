"""Input that cannot be used gives an exception, never a crash, whatever it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import protoseg
import pytest
from conftest import Photo

ORDINARY = np.zeros((20, 30, 3), np.uint8)

IMAGES: dict[str, tuple[Any, type[Exception], str]] = {
    "empty": (np.zeros((0, 0, 3), np.uint8), protoseg.InputError, "empty"),
    "no rows": (np.zeros((0, 5, 3), np.uint8), protoseg.InputError, "empty"),
    "no columns": (np.zeros((5, 0), np.uint8), protoseg.InputError, "empty"),
    "no channels": (np.zeros((5, 5, 0), np.uint8), protoseg.InputError, "shape"),
    "no dimension": (np.uint8(3), protoseg.InputError, "shape"),
    "one dimension": (np.zeros(9, np.uint8), protoseg.InputError, "shape"),
    "a batch": (np.zeros((1, 5, 5, 3), np.uint8), protoseg.InputError, "shape"),
    "two channels": (np.zeros((5, 5, 2), np.uint8), protoseg.InputError, "shape"),
    "channels first": (np.zeros((3, 50, 60), np.uint8), protoseg.InputError, "transpose"),
    "float": (ORDINARY.astype(np.float32), protoseg.InputError, "dtype `float32`.*\nhint"),
    "NaN": (np.full((5, 5, 3), np.nan), protoseg.InputError, "dtype `float64`"),
    "16 bits": (ORDINARY.astype(np.uint16), protoseg.InputError, ">> 8"),
    "signed": (ORDINARY.astype(np.int8), protoseg.InputError, "dtype"),
    "64 bits": (ORDINARY.astype(np.int64), protoseg.InputError, "dtype"),
    "bool": (ORDINARY.astype(bool), protoseg.InputError, "dtype"),
    "complex": (ORDINARY.astype(complex), protoseg.InputError, "dtype"),
    "objects": (ORDINARY.astype(object), protoseg.InputError, "dtype"),
    "text": (np.full((5, 5, 3), "a"), protoseg.InputError, "dtype"),
    "records": (np.zeros((5, 5), [("r", "u1"), ("g", "u1")]), protoseg.InputError, "dtype"),
    "dates": (np.zeros((5, 5), "datetime64[s]"), protoseg.InputError, "dtype"),
    "huge": (np.broadcast_to(np.uint8(0), (1 << 17, 1 << 17, 3)), protoseg.DataError, "too large"),
    "a line": (np.broadcast_to(np.uint8(0), (1, 1 << 40)), protoseg.DataError, "too large"),
    "None": (None, TypeError, "must be a path"),
    "number": (7, TypeError, "must be a path"),
    "list": ([[1, 2], [3, 4]], TypeError, "must be a path"),
    "bytes": (b"abc", TypeError, "must be a path"),
    "no file": ("nowhere.jpg", protoseg.MissingFileError, "does not exist"),
    "empty path": ("", protoseg.Error, ""),
    "NUL in a path": ("a\0b", (protoseg.Error, ValueError), ""),  # type: ignore[dict-item]
    "surrogate in a path": ("a\udcff.jpg", protoseg.Error, ""),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_that_are_none(model: protoseg.Model, system: protoseg.Model, name: str) -> None:
    image, error, words = IMAGES[name]
    support = (ORDINARY, np.ones((20, 30), bool))
    with pytest.raises(error, match=words or None):
        model.predict(image)
    with pytest.raises(error, match=words or None):
        list(model.predict_many([image]))
    with pytest.raises(error, match=words or None):
        model.register("thing", [(image, support[1])])
    with pytest.raises(error, match=words or None):
        system.find("thing", image, [support])
    with pytest.raises(error, match=words or None):
        system.find("thing", ORDINARY, [(image, support[1])])


MASKS: dict[str, tuple[Any, type[Exception], str]] = {
    "empty": (np.zeros((0, 0), bool), protoseg.InputError, "empty"),
    "nothing marked": (np.zeros((20, 30), bool), protoseg.DataError, "no pixel of the class"),
    "other size": (np.ones((30, 20), bool), protoseg.DataError, "got a mask of"),
    "a picture": (np.ones((20, 30, 3), np.uint8), protoseg.InputError, "shape"),
    "float": (np.ones((20, 30)), protoseg.InputError, "mask > 0.5"),
    "NaN": (np.full((20, 30), np.nan), protoseg.InputError, "mask > 0.5"),
    "several ids": (np.arange(600, dtype=np.int32).reshape(20, 30), protoseg.DataError, "holds the ids"),
    "negative": (np.full((20, 30), -1), protoseg.InputError, "from -1"),
    "large ids": (np.full((20, 30), 1 << 40), protoseg.InputError, "ids from"),
    "largest ids": (np.full((20, 30), (1 << 64) - 1, np.uint64), protoseg.InputError, "ids from"),
    "huge": (np.broadcast_to(np.True_, (1 << 17, 1 << 17)), protoseg.DataError, "too large"),
    "objects": (np.full((20, 30), None), protoseg.InputError, "dtype"),
    "None": (None, TypeError, "must be a path"),
    "no file": ("nowhere.png", protoseg.MissingFileError, "does not exist"),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_that_are_none(model: protoseg.Model, system: protoseg.Model, name: str) -> None:
    mask, error, words = MASKS[name]
    with pytest.raises(error, match=words or None):
        model.register("thing", [(ORDINARY, mask)])
    with pytest.raises(error, match=words or None):
        system.find("thing", ORDINARY, [(ORDINARY, mask)])


EPISODES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no shots": ({"shots": []}, protoseg.InputError, "numbers of shots from 1"),
    "shots of 0": ({"shots": [0, 1]}, protoseg.InputError, "numbers of shots from 1"),
    "shots beyond any": ({"shots": [1 << 40]}, protoseg.DataError, "supports per episode"),
    "more shots than images": ({"shots": [5000]}, protoseg.DataError, "images of class"),
    "negative shots": ({"shots": [-1]}, OverflowError, ""),
    "text as shots": ({"shots": "15"}, TypeError, ""),
    "NaN as shots": ({"shots": [float("nan")]}, TypeError, ""),
    "no episodes": ({"episodes": 0}, protoseg.DataError, "episodes, got `0`"),
    "episodes beyond any": ({"episodes": 1 << 60}, protoseg.DataError, "episodes, got"),
    "half an episode": ({"episodes": 0.5}, TypeError, ""),
    "no runs": ({"runs": 0}, protoseg.InputError, "1 to 1000 runs"),
    "runs beyond any": ({"runs": 1 << 60}, protoseg.InputError, "1 to 1000 runs"),
    "seed too large": ({"seed": 1 << 70}, OverflowError, ""),
    "pixels beyond any": ({"min_pixels": (1 << 64) - 1}, protoseg.DataError, "images of class"),
    "unknown style": ({"style": "asgnet"}, protoseg.InputError, "choose `pfenet`"),
    "unknown fold": ({"fold": 99}, protoseg.DataError, "fold"),
    "progress that is no function": ({"progress": 3, "episodes": 2}, TypeError, "callable"),
}


@pytest.mark.parametrize("name", EPISODES)
def test_episodes_that_cannot_be(system: protoseg.Model, scenes: protoseg.Dataset, name: str) -> None:
    keywords, error, words = EPISODES[name]
    with pytest.raises(error, match=words or None):
        system.evaluate_episodes(scenes, **keywords)


def test_what_is_no_data_set_has_no_episodes(system: protoseg.Model, labelled: Path) -> None:
    for dataset in (ORDINARY, "scenes", None):
        with pytest.raises(TypeError):
            system.evaluate_episodes(dataset)  # type: ignore[arg-type]
    with pytest.raises(protoseg.EvaluateError, match="no split besides"):
        system.evaluate_episodes(protoseg.Dataset(labelled))


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n", b"GIF89a" + b"\xff" * 40, bytes(range(256)) * 9])
def test_bytes_that_are_no_picture(data: bytes) -> None:
    with pytest.raises(protoseg.DataError, match="`cat`"):
        protoseg.decode_image(data, "cat")


def test_what_is_no_bytes_is_not_decoded() -> None:
    for value in (ORDINARY, "text", None, 7):
        with pytest.raises(TypeError):
            protoseg.decode_image(value)  # type: ignore[arg-type]


CALLS: dict[str, tuple[Callable[[protoseg.Model], object], Any, str]] = {
    "no supports": (lambda m: m.register("a", []), protoseg.Error, "no support"),
    "supports left out": (lambda m: m.register("a"), protoseg.InputError, "no support"),
    "a pair, not a list": (lambda m: m.register("a", ("x.jpg", "x.png")), TypeError, "list of pairs"),
    "a triple": (lambda m: m.register("a", [(1, 2, 3)]), TypeError, "a tuple of 3"),
    "a number": (lambda m: m.register("a", 3), TypeError, "iterable"),
    "no name": (lambda m: m.register("", [(ORDINARY, ORDINARY[..., 0] == 0)]), protoseg.Error, ""),
    "control characters": (
        lambda m: m.register("a\x1b", [(ORDINARY, ORDINARY[..., 0] == 0)]), protoseg.Error, ""
    ),
    "number as name": (lambda m: m.register(3, []), TypeError, ""),
    "mask and box": (
        lambda m: m.register("a", [protoseg.Support(ORDINARY, ORDINARY[..., 0] == 0, box=(0, 0, 3, 3))]),
        protoseg.InputError, "a mask and a box",
    ),
    "box outside": (
        lambda m: m.register("a", [protoseg.Support(ORDINARY, box=(90, 90, 3, 3))]), protoseg.DataError, "outside"
    ),
    "NaN box": (
        lambda m: m.register("a", [protoseg.Support(ORDINARY, box=(float("nan"), 0, 3, 3))]),
        protoseg.InputError, "left, top",
    ),
    "box of text": (
        lambda m: m.register("a", [protoseg.Support(ORDINARY, box="abcd")]), protoseg.InputError, "left, top"
    ),
    "no cut-out": (lambda m: m.register("a", [protoseg.Support(ORDINARY)]), protoseg.DataError, "no mask"),
    "size of 0": (lambda m: m.with_size(0), protoseg.InputError, "8 to 8192"),
    "unknown device": (lambda m: protoseg.Model(device="tpu"), protoseg.InputError, "not built in"),
    "pack of another type": (lambda m: m.predict(ORDINARY, "my.pack"), TypeError, ""),
    "no model": (lambda m: protoseg.Model.load("nowhere.safetensors"), protoseg.MissingFileError, "nowhere"),
    "a folder as model": (lambda m: protoseg.Model.load("."), protoseg.Error, ""),
    "a forged pickle": (lambda m: protoseg.Model._restore("file", "cpu", b"\xff" * 99), protoseg.Error, ""),
    "a forged pack": (lambda m: protoseg.ClassPack._from_bytes(b""), protoseg.Error, ""),
    "no data": (lambda m: protoseg.Dataset("nowhere"), protoseg.DataError, "neither a benchmark"),
    "no root": (lambda m: protoseg.Dataset("pascal-5i"), protoseg.DataError, "root="),
    "no recipe": (lambda m: protoseg.train("x", recipe="nothing"), protoseg.DataError, ""),
    "wrong settings": (
        lambda m: protoseg.train("x", "scenes", settings={"training.epoch": 3}), protoseg.InputError, "epoch"
    ),
    "wrong value": (
        lambda m: protoseg.train("x", "scenes", settings={"training.epochs": 0}), protoseg.InputError, "epochs"
    ),
    "settings with None": (
        lambda m: protoseg.train("x", "scenes", settings={"seed": None}), protoseg.InputError, "settings"
    ),
    "seed too large": (lambda m: m.register_dataset(protoseg.Dataset("scenes"), seed=1 << 70), OverflowError, ""),
    "no image to evaluate": (
        lambda m: m.evaluate(protoseg.Dataset("scenes"), limit=0), protoseg.InputError, "at least 1"
    ),
    "no shots to evaluate": (
        lambda m: m.evaluate(protoseg.Dataset("scenes"), shots=[]), protoseg.InputError, "at least 1"
    ),
    "shots beyond any": (
        lambda m: m.evaluate(protoseg.Dataset("scenes"), shots=[1 << 60]), protoseg.DataError, "supports per class"
    ),
    "no seed": (lambda m: m.evaluate(protoseg.Dataset("scenes"), seeds=[]), protoseg.InputError, "no seed"),
    "unknown fold": (
        lambda m: m.evaluate(protoseg.Dataset("scenes"), fold=99), protoseg.DataError, "fold `99` does not exist"
    ),
    "register finds nothing": (
        lambda m: m.find("a", ORDINARY, [(ORDINARY, ORDINARY[..., 0] == 0)]), protoseg.ModelError, "episodes"
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_cannot_be(
    model: protoseg.Model, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call, error, words = CALLS[name]
    with pytest.raises(error, match=words or None) as raised:
        call(model)
    assert not isinstance(raised.value, protoseg.InternalError)
    assert not list(tmp_path.iterdir()), "something was written"


def test_the_smallest_pictures_are_pictures(model: protoseg.Model) -> None:
    for shape in ((1, 1, 3), (1, 700, 3), (700, 1, 3), (2, 1)):
        assert model.predict(np.zeros(shape, np.uint8)).shape == shape[:2]


def test_exceptions_say_what_to_do() -> None:
    with pytest.raises(protoseg.Error) as raised:
        protoseg.Model.load("nowhere.safetensors")
    assert raised.value.hint == "check the path and its permissions"
    assert isinstance(raised.value, FileNotFoundError)
    with pytest.raises(ValueError) as wrong:
        protoseg.Model(device="tpu")
    assert isinstance(wrong.value, protoseg.InputError)


def test_an_array_that_changes_meanwhile_does_no_harm(model: protoseg.Model, photos: list[Photo]) -> None:
    image = photos[0].image.copy()
    predictions = model.predict_many(image for _ in range(4))
    expected = np.array(next(predictions))
    # Those on their way were copied when they were taken.
    taken = next(predictions)
    image[:] = 0
    assert np.array_equal(taken, expected)
    image.resize((1, 1, 3), refcheck=False)
    list(predictions)
