"""What functions of the package take, for type checkers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from ._support import Support


class ArrayLike(Protocol):
    """A picture of PIL, or anything else that numpy makes an array of."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


PathLike: TypeAlias = Union[str, "os.PathLike[str]"]
#: An image: a path, an array of uint8, or a picture.
ImageLike: TypeAlias = Union[PathLike, "npt.NDArray[np.uint8]", ArrayLike]
#: A mask: a path, an array of bool or of ids, or a picture.
MaskLike: TypeAlias = Union[PathLike, "npt.NDArray[np.bool_ | np.integer[Any]]", ArrayLike]
#: The supports of a class: pairs, or a folder.
SupportsLike: TypeAlias = Union[Iterable[Union[tuple[ImageLike, MaskLike], Support]], PathLike]
