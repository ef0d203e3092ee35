"""Predictions as other packages have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ._protoseg import Prediction


def to_supervision(prediction: Prediction) -> Any:
    """The regions of a prediction as `supervision.Detections`."""
    import supervision

    annotations = prediction.to_coco()["annotations"]
    if not annotations:
        return supervision.Detections.empty()
    boxes = np.array([annotation["bbox"] for annotation in annotations], dtype=np.float32)
    boxes[:, 2:] += boxes[:, :2]
    ids = np.array([annotation["category_id"] for annotation in annotations])
    return supervision.Detections(
        xyxy=boxes,
        mask=np.stack([prediction.labels == row for row in ids]),
        confidence=np.array([annotation["score"] for annotation in annotations], dtype=np.float32),
        class_id=ids,
        data={"class_name": np.array([prediction.classes[row] for row in ids])},
    )
