"""What the tests share: models, and photos with masks from the procedural scenes that are in the package."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import protoseg
import pytest
from PIL import Image

REPOSITORY = Path(__file__).resolve().parents[3]


class Photo:
    """An image with the mask of one class, in memory and in files."""

    def __init__(self, folder: Path, sample: protoseg.Sample, class_id: int) -> None:
        self.image = np.array(sample.image)
        self.mask = np.asarray(sample.labels == class_id)
        self.path = folder / f"{sample.name.replace('/', '-')}.png"
        self.mask_path = self.path.with_name(f"{self.path.stem}_mask.png")
        Image.fromarray(self.image).save(self.path)
        Image.fromarray((self.mask * 255).astype(np.uint8)).save(self.mask_path)


@pytest.fixture(scope="session")
def scenes() -> protoseg.Dataset:
    return protoseg.Dataset("scenes")


@pytest.fixture(scope="session")
def photos(scenes: protoseg.Dataset, tmp_path_factory: pytest.TempPathFactory) -> list[Photo]:
    """Four photos that show the same class."""
    folder = tmp_path_factory.mktemp("photos")
    class_id = next(number for number, name in scenes.classes.items() if name == scenes.folds[0][0])
    found = []
    for index in scenes.split("val"):
        sample = scenes[index]
        if (sample.labels == class_id).mean() > 0.04:
            found.append(Photo(folder, sample, class_id))
            if len(found) == 4:
                return found
    raise AssertionError("too few photos show the class")


@pytest.fixture(scope="session")
def model() -> protoseg.Model:
    return protoseg.Model()


@pytest.fixture(scope="session")
def demo() -> protoseg.Model:
    return protoseg.Model.demo()


@pytest.fixture(scope="session")
def pack(model: protoseg.Model, photos: list[Photo]) -> protoseg.ClassPack:
    return model.register("thing", [(photo.image, photo.mask) for photo in photos[:2]])


@pytest.fixture(scope="session")
def system_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few-shot system that is hardly trained."""
    settings = {
        "task": "fs-seg", "method": "panet", "training.epochs": 1, "training.episodes": 2, "training.batch": 1,
        "training.crop": 65, "network.encoder": "resnet10", "validation.on": "none",
    }
    trained = protoseg.train(tmp_path_factory.mktemp("system") / "run", "scenes", settings=settings)
    assert trained.last is not None
    return Path(os.fspath(trained.last))


@pytest.fixture(scope="session")
def system(system_file: Path) -> protoseg.Model:
    return protoseg.Model.load(system_file)


@pytest.fixture(scope="session")
def labelled(scenes: protoseg.Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve labelled images in a folder."""
    folder = tmp_path_factory.mktemp("labelled")
    for part in ("images", "masks"):
        (folder / part).mkdir()
    for place in range(12):
        Image.fromarray(np.asarray(scenes[place].image)).save(folder / f"images/{place:02}.png")
        labels = np.minimum(scenes[place].labels, 255).astype(np.uint8)
        Image.fromarray(labels).save(folder / f"masks/{place:02}.png")
    (folder / "classes.txt").write_text("\n".join(scenes.classes[number] for number in range(len(scenes.classes))))
    return folder


@pytest.fixture(scope="session")
def binary() -> str:
    """The binary that cargo built. `.ci/run` names it; by hand, that in the target folder is taken."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    binary = Path(os.environ.get("PROTOSEG_BINARY", target / "release/protoseg"))
    if not binary.exists():
        pytest.skip(f"{binary} is not built: cargo build --release")
    return str(binary)


@pytest.fixture(scope="session")
def command() -> str:
    """The command of the wheel."""
    found = shutil.which("protoseg", path=str(Path(sys.executable).parent))
    assert found, "the wheel has installed no command"
    return found
