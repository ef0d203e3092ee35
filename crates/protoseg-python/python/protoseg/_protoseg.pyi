from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, final

import numpy as np
import numpy.typing as npt

from ._types import ImageLike as _ImageLike
from ._types import PathLike as _Path
from ._types import SupportsLike as _SupportsLike

__version__: str

def main(args: Sequence[str]) -> int:
    """Carries out a command of the command line and returns its exit code. `args` begin with the program's name."""

def read_image(path: _Path) -> npt.NDArray[np.uint8]:
    """Reads an image file as a (height, width, 3) array of uint8, as `predict` reads it: turned by its EXIF
    orientation."""

def decode_image(data: bytes, name: str = "image") -> npt.NDArray[np.uint8]:
    """The same for the bytes of an image file, such as one from an object store. `name` is for errors."""

def recipes() -> list[str]:
    """Names of the recipes for training that come with the package."""

def train(
    out: _Path,
    data: _Path | None = None,
    *,
    recipe: _Path | None = None,
    settings: dict[str, Any] | None = None,
    root: _Path | None = None,
    callback: Callable[[dict[str, Any]], bool | None] | None = None,
    resume: bool = False,
    force: bool = False,
) -> TrainingResult:
    """Trains a model in the folder `out`, as `protoseg train` does.

    `recipe` is a name of `recipes()` or a `.toml` file. `data` is a data set as `Dataset` takes it. `settings` change
    single values of the recipe, by the names that the recipe uses: `{"training.epochs": 3}`. `callback` is called with
    a dictionary for every event. If it returns False, the run is saved and stops. On an exception and on Ctrl-C the run
    is saved, too, before they are raised. `resume` goes on with such a run; `force` starts a new one in its place.
    """

@final
class Model:
    """A segmentation model. `Model()` is the model in the box; `Model.load(path)` reads another."""

    def __new__(cls, *, device: str = "cpu") -> Model: ...
    @classmethod
    def load(cls, path: _Path, *, device: str = "cpu") -> Model:
        """Reads a model file."""

    @classmethod
    def demo(cls) -> Model:
        """The model of the demo, which knows 15 classes of the data set `scenes`."""

    def save(self, path: _Path, *, half: bool = False) -> None:
        """Writes the model to a file, whole or not at all; with `half`, in half the size."""

    @property
    def classes(self) -> list[str]:
        """Names of the classes that it knows without a pack."""

    @property
    def fingerprint(self) -> str:
        """A short name for its weights and preprocessing."""

    @property
    def parameters(self) -> int:
        """Number of trainable parameters."""

    @property
    def size(self) -> int:
        """Side of the square that images are fitted into."""

    @property
    def method(self) -> str:
        """The method, by name."""

    @property
    def is_few_shot(self) -> bool:
        """Whether it answers one query from its supports (`find`) rather than keeping classes."""

    @property
    def description(self) -> dict[str, Any]:
        """What its file says of it."""

    def with_size(self, size: int) -> Model:
        """The same weights for images of another size."""

    def register(
        self,
        classes: str | Mapping[str, _SupportsLike],
        supports: _SupportsLike | None = None,
        *,
        pack: ClassPack | None = None,
        known: Literal["refuse", "replace", "extend"] = "refuse",
        rest: Literal["background", "ignore"] | None = None,
        refine: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> ClassPack:
        """Teaches a class, or several in a dictionary, and returns a pack with it beside the classes of `pack`."""

    def register_dataset(
        self,
        dataset: Dataset,
        *,
        shots: int | None = None,
        fold: int = 0,
        seed: int = 123,
        pack: ClassPack | None = None,
        known: Literal["refuse", "replace", "extend"] = "refuse",
        rest: Literal["background", "ignore"] | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> ClassPack:
        """Teaches the classes of a labelled data set that the model does not know."""

    def predict(
        self,
        image: _ImageLike,
        pack: ClassPack | None = None,
        *,
        abstain: float | None = None,
        tiles: bool | float | None = None,
        fast: bool = False,
        second_look: bool = False,
    ) -> Prediction:
        """What the model, with the classes of `pack`, makes of an image."""

    def predict_many(
        self,
        images: _Path | Iterable[_ImageLike],
        pack: ClassPack | None = None,
        *,
        abstain: float | None = None,
        tiles: bool | float | None = None,
        fast: bool = False,
        second_look: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
    ) -> Predictions:
        """The predictions of many images, in order, several at a time."""

    def find(self, name: str, image: _ImageLike, supports: _SupportsLike) -> Prediction:
        """Where the class that the supports show is in an image. For few-shot systems, which keep no classes."""

    def evaluate(
        self,
        dataset: Dataset,
        pack: ClassPack | None = None,
        *,
        fold: int | None = None,
        shots: Sequence[int] = ...,
        seeds: Sequence[int] = ...,
        protocol: Literal["exact", "reference", "b"] = "exact",
        limit: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Evaluation:
        """Scores the model on a labelled data set, as `protoseg eval` does."""

    def evaluate_episodes(
        self,
        dataset: Dataset,
        *,
        fold: int | None = None,
        style: Literal["pfenet", "hsnet", "panet"] = "pfenet",
        shots: Sequence[int] = ...,
        episodes: int | None = None,
        runs: int | None = None,
        seed: int | None = None,
        min_pixels: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Evaluation:
        """Asks a few-shot system episodes of a labelled data set, as `protoseg episodes` does, and returns its class
        mIoU and FB-IoU."""

    @classmethod
    def _restore(cls, kind: str, device: str, bytes: bytes) -> Model: ...

@final
class ClassPack:
    """Classes that a model was taught. A pack never changes: its methods return other packs."""

    @classmethod
    def load(cls, path: _Path) -> ClassPack:
        """Reads a pack from a file, such as one that `protoseg register` wrote."""

    def save(self, path: _Path) -> None:
        """Writes the pack to a file, whole or not at all."""

    @property
    def classes(self) -> list[str]:
        """Names of its classes, in order."""

    @property
    def model(self) -> str:
        """Fingerprint of the model that it is for."""

    @property
    def report(self) -> Report | None:
        """What registration said of the supports; None for a pack from a file."""

    def supports(self, name: str) -> list[tuple[str, int]]:
        """The supports of a class: the name of each image and the pixels of the class in it."""

    def without(self, name: str) -> ClassPack:
        """The pack without a class."""

    def renamed(self, name: str, new: str) -> ClassPack:
        """The pack with another name for a class."""

    def recolored(self, name: str, color: tuple[int, int, int]) -> ClassPack:
        """The pack with a colour for a class."""

    def __or__(self, value: ClassPack, /) -> ClassPack: ...
    def __ror__(self, value: ClassPack, /) -> ClassPack: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: str, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __lt__(self, value: object, /) -> bool: ...
    def __le__(self, value: object, /) -> bool: ...
    def __gt__(self, value: object, /) -> bool: ...
    def __ge__(self, value: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]
    @staticmethod
    def _from_bytes(bytes: bytes) -> ClassPack: ...

@final
class Report:
    """How good the supports of the classes are that were just registered. Prints as a table."""

    @property
    def warnings(self) -> list[str]:
        """What is likely to go wrong."""

    @property
    def notes(self) -> list[str]:
        """How files were understood, where that could surprise."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """The numbers of each class, as `protoseg register --json` writes them."""

    def to_pandas(self) -> Any:
        """One row per class, as a pandas DataFrame."""

    def sheet(self) -> npt.NDArray[np.uint8] | None:
        """A picture of the supports, their masks, and what the other supports find in them."""

    def __len__(self) -> int: ...
    def _repr_html_(self) -> str: ...
    @staticmethod
    def _restore(classes: list[tuple[Any, ...]]) -> Report: ...

@final
class Prediction:
    """What a model makes of one image. numpy takes it for the (height, width) array of its class ids, and what it lacks
    itself (`dtype`, `max`, `astype`, ...) is that array's."""

    @property
    def labels(self) -> npt.NDArray[np.uint16]:
        """The id of the most probable class of every pixel: (height, width), read-only. 65535 is "no label"."""

    @property
    def confidence(self) -> npt.NDArray[np.float32]:
        """The probability of that class at every pixel: (height, width), read-only."""

    @property
    def classes(self) -> list[str]:
        """Names of the classes; a class's place is its id."""

    @property
    def colors(self) -> list[tuple[int, int, int]]:
        """The colour of every class."""

    @property
    def image(self) -> npt.NDArray[np.uint8]:
        """The image: (height, width, 3), read-only."""

    @property
    def path(self) -> Path | None:
        """The file that the image was read from, if it was."""

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width)."""

    @property
    def abstained(self) -> int:
        """Number of pixels without a label; 0 unless `abstain` was given."""

    def mask(self, name: str) -> npt.NDArray[np.bool_]:
        """Where a class is: (height, width)."""

    def probabilities(self) -> npt.NDArray[np.float32]:
        """The probability of every class at every pixel: (classes, height, width)."""

    def overlay(self) -> npt.NDArray[np.uint8]:
        """The image with its classes painted over it and a legend below: (height, width, 3)."""

    def areas(self) -> list[dict[str, Any]]:
        """The classes that occur, largest first: class, id, pixels and share of the image."""

    def to_coco(self, file_name: str | None = None) -> dict[str, Any]:
        """The region of every class as a COCO document, as `protoseg predict` writes it."""

    def to_pandas(self) -> Any:
        """The classes that occur, as a pandas DataFrame."""

    def to_supervision(self) -> Any:
        """The region of every class but the background as `supervision.Detections`."""

    def abstain_below(self, least: float) -> Prediction:
        """The same prediction without labels where the confidence is below `least`, from 0 to 1."""

    def to_png(self, kind: Literal["index", "palette", "confidence", "overlay"] = "index") -> bytes:
        """A PNG with the same bytes as the file that `protoseg predict` writes."""

    def save(
        self, path: _Path, kind: Literal["index", "palette", "confidence", "overlay"] = "index"
    ) -> None:
        """Writes such a PNG, whole or not at all."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> npt.NDArray[Any]: ...
    def __getattr__(self, name: str, /) -> Any: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[npt.NDArray[np.uint16]]: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __eq__(self, value: object, /) -> npt.NDArray[np.bool_]: ...  # type: ignore[override]
    def __ne__(self, value: object, /) -> npt.NDArray[np.bool_]: ...  # type: ignore[override]
    def __lt__(self, value: object, /) -> npt.NDArray[np.bool_]: ...
    def __le__(self, value: object, /) -> npt.NDArray[np.bool_]: ...
    def __gt__(self, value: object, /) -> npt.NDArray[np.bool_]: ...
    def __ge__(self, value: object, /) -> npt.NDArray[np.bool_]: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def _repr_png_(self) -> bytes: ...

@final
class Predictions:
    """Iterates over predictions."""

    def __iter__(self) -> Predictions: ...
    def __next__(self) -> Prediction: ...

@final
class Dataset:
    """A labelled data set: a folder, a `.toml` file, or a benchmark by name with its folder."""

    def __new__(cls, source: _Path, *, root: _Path | None = None) -> Dataset: ...
    @property
    def name(self) -> str: ...
    @property
    def classes(self) -> dict[int, str]:
        """Names of the classes by their ids in the labels."""

    @property
    def folds(self) -> list[list[str]]:
        """Names of the novel classes of every fold."""

    @property
    def splits(self) -> dict[str, int]:
        """Number of samples of every split."""

    def split(self, name: str) -> list[int]:
        """The indices of the samples of a split, to take them by."""

    def __len__(self) -> int: ...
    def __getitem__(self, key: int | str, /) -> Sample: ...
    @staticmethod
    def _restore(source: _Path, root: _Path | None) -> Dataset: ...

@final
class Sample:
    """An image of a data set with its labels."""

    @property
    def name(self) -> str: ...
    @property
    def image(self) -> npt.NDArray[np.uint8]:
        """(height, width, 3), read-only."""

    @property
    def labels(self) -> npt.NDArray[np.uint16]:
        """Class ids: (height, width). 65535 is "no label"."""

    @staticmethod
    def _restore(name: str, image: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint16]) -> Sample: ...

@final
class Evaluation:
    """What a model scored on a data set. Prints as a table."""

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as `--json` of the command writes them."""

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame of text, as it is printed."""

    def to_markdown(self) -> str:
        """Headline, tables and notes as Markdown."""

    def __getitem__(self, key: str, /) -> Any: ...
    def _repr_html_(self) -> str: ...
    @staticmethod
    def _restore(
        json: str, headline: str, titles: list[str], rows: list[list[str]], notes: list[str], markdown: str
    ) -> Evaluation: ...

@final
class TrainingResult:
    """How a run of training ended."""

    @property
    def folder(self) -> Path:
        """The run's folder."""

    @property
    def step(self) -> int:
        """Steps that are done."""

    @property
    def finished(self) -> bool:
        """Whether all steps are done. If not, `resume=True` goes on."""

    @property
    def best(self) -> Path | None:
        """The best model by validation, if the run is finished."""

    @property
    def last(self) -> Path | None:
        """The model after the last step, if the run is finished."""

    @staticmethod
    def _restore(
        folder: _Path, step: int, finished: bool, best: _Path | None, last: _Path | None
    ) -> TrainingResult: ...

@final
class _View:
    """Where an array's values lie, for numpy."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...
