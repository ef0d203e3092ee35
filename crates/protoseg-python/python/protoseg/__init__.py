"""Teach a segmentation model a new class from 1 to 10 example masks, in seconds, without retraining.

    import protoseg
    model = protoseg.Model()
    pack = model.register("duck", [("pond.jpg", "pond_mask.png")])
    print(pack.report)
    prediction = model.predict("lake.jpg", pack)
    prediction.save("lake_overlay.png", "overlay")

Images and masks are numpy arrays, PIL images or paths. All classes but `Support` are immutable and can be shared between
threads. Work runs without the GIL.
"""

from ._errors import (
    DataError,
    Error,
    EvaluateError,
    InputError,
    InternalError,
    MissingFileError,
    ModelError,
    PackError,
    RegisterError,
    TrainError,
)
from ._protoseg import (
    ClassPack,
    Dataset,
    Evaluation,
    Model,
    Prediction,
    Predictions,
    Report,
    Sample,
    TrainingResult,
    __version__,
    decode_image,
    read_image,
    recipes,
    train,
)
from ._support import Support

#: The id of a pixel without a label.
NO_LABEL = 65535

__all__ = [
    "NO_LABEL",
    "ClassPack",
    "DataError",
    "Dataset",
    "Error",
    "EvaluateError",
    "Evaluation",
    "InputError",
    "InternalError",
    "MissingFileError",
    "Model",
    "ModelError",
    "PackError",
    "Prediction",
    "Predictions",
    "RegisterError",
    "Report",
    "Sample",
    "Support",
    "TrainError",
    "TrainingResult",
    "__version__",
    "decode_image",
    "read_image",
    "recipes",
    "train",
]
