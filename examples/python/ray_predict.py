"""Predicts the images of a folder with Ray Data and writes their labels to Parquet.

    python examples/python/ray_predict.py FOLDER OUT [--pack my.pack] [--model m.safetensors] [--actors 2]

FOLDER is anything that Ray reads, such as s3://bucket/photos. Every actor loads the model once and predicts with the
CPUs that it was given. On a cluster, start Ray there and set RAY_ADDRESS; every machine needs the wheel.

Each row has: path, height, width, labels (uint16, line by line), classes (their names by id).
"""

from __future__ import annotations

import argparse
import logging
import os
import time
from typing import Any

import numpy as np
import protoseg
import ray


class Predictor:
    """A model in a process of its own."""

    def __init__(self, model: protoseg.Model, pack: protoseg.ClassPack | None) -> None:
        self.model, self.pack = model, pack

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        image = protoseg.decode_image(row["bytes"], row["path"])
        prediction = self.model.predict(image, self.pack)
        height, width = prediction.shape
        return {
            "path": row["path"],
            "height": height,
            "width": width,
            "labels": np.asarray(prediction).tobytes(),
            "classes": prediction.classes,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("out")
    parser.add_argument("--pack")
    parser.add_argument("--model")
    parser.add_argument("--actors", type=int, default=2, help="processes that predict")
    parser.add_argument("--cpus", type=int, default=1, help="CPUs of each")
    args = parser.parse_args()

    model = protoseg.Model.load(args.model) if args.model else protoseg.Model()
    pack = protoseg.ClassPack.load(args.pack) if args.pack else None

    # Threads of the network in each actor; otherwise every actor would take all CPUs of its machine.
    environment = {"env_vars": {"RAYON_NUM_THREADS": str(args.cpus)}}
    cpus = None if os.environ.get("RAY_ADDRESS") else args.actors * args.cpus + 1
    ray.init(num_cpus=cpus, runtime_env=environment, include_dashboard=False, logging_level=logging.WARNING)
    endings = ["jpg", "jpeg", "png", "bmp", "tif", "tiff", "webp"]
    images = ray.data.read_binary_files(args.folder, include_paths=True, file_extensions=endings)
    start = time.monotonic()
    predictor: Any = Predictor
    predicted = images.map(
        predictor,
        fn_constructor_args=(model, pack),
        num_cpus=args.cpus,
        compute=ray.data.ActorPoolStrategy(size=args.actors),
    )
    predicted.write_parquet(args.out)
    seconds = time.monotonic() - start
    count = ray.data.read_parquet(args.out).count()
    print(f"{count} images in {seconds:.1f} s: {3600 * count / seconds:.0f} images per hour")


if __name__ == "__main__":
    main()
