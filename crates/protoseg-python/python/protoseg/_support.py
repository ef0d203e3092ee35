"""Supports that say more than a pair of an image and a mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._types import ImageLike, MaskLike


@dataclass(frozen=True, eq=False)
class Support:
    """An image that shows a class, and where it does.

    Without a mask and a box, the image is the file of a cut-out: its opaque part is the class.
    """

    image: ImageLike
    #: Ids, or true where the class is.
    mask: MaskLike | None = None
    #: The id of the class in the mask; by default the only id besides 0.
    value: int | None = None
    #: Instead of a mask: left, top, width and height in pixels.
    box: tuple[float, float, float, float] | None = None
    #: Whether only a part of the class is marked in the mask.
    scribble: bool = False
    #: Its name in reports; by default that of the image's file.
    name: str | None = None
