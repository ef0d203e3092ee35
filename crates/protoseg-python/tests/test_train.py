"""Training, evaluation and few-shot systems."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import protoseg
import pytest
from conftest import Photo

# A network and a run as small as they can be.
SMALL: dict[str, Any] = {
    "training.epochs": 3,
    "training.crop": 65,
    "training.batch": 4,
    "network": {"encoder": "resnet10", "width": 0.25, "dim": 16},
    "validation.images": 4,
}


def test_a_data_set_is_read(scenes: protoseg.Dataset) -> None:
    sample = scenes[0]
    assert sample.image.shape[:2] == sample.labels.shape and sample.labels.dtype == np.uint16
    assert np.array_equal(scenes[sample.name].image, sample.image)
    assert np.array_equal(scenes[-1].image, scenes[len(scenes) - 1].image)
    assert set(np.unique(sample.labels)) <= {*scenes.classes, protoseg.NO_LABEL}
    assert sum(scenes.splits.values()) == len(scenes) and len(scenes.folds) > 1
    assert len(scenes.split("val")) == scenes.splits["val"]
    with pytest.raises(IndexError):
        scenes[len(scenes)]
    with pytest.raises(protoseg.InputError, match="no sample"):
        scenes["nothing"]
    with pytest.raises(protoseg.DataError, match="no split"):
        scenes.split("nothing")


def test_novel_classes_of_a_fold_are_evaluated(demo: protoseg.Model, scenes: protoseg.Dataset) -> None:
    told: list[int] = []
    result = demo.evaluate(scenes, shots=[1], limit=6, progress=lambda done, _: told.append(done))
    assert result["schema"] == "protoseg.eval/1" and result["rows"][0]["shots"] == 1
    assert told == list(range(7))
    assert str(result).splitlines()[1].startswith("variant") and "| variant" in result.to_markdown()
    assert "<th>variant</th>" in result._repr_html_()
    frame = pytest.importorskip("pandas") and result.to_pandas()
    assert list(frame["shots"]) == ["1"]


def test_what_a_pack_adds_is_evaluated(demo: protoseg.Model, scenes: protoseg.Dataset) -> None:
    pack = demo.register_dataset(scenes, shots=2)
    result = demo.evaluate(scenes, pack, limit=6)
    assert result["schema"] == "protoseg.labelled/1" and result["taught"] > 0
    with pytest.raises(protoseg.InputError, match="protocol"):
        demo.evaluate(scenes, protocol="c")  # type: ignore[arg-type]
    with pytest.raises(protoseg.InputError, match="shots"):
        demo.evaluate(scenes, shots=[0])


def test_a_model_without_classes_is_taught_each_by_itself(
    model: protoseg.Model, scenes: protoseg.Dataset
) -> None:
    result = model.evaluate(scenes, shots=[1], limit=3)
    assert len(result["classes"]) == len(scenes.classes) - 1


def test_a_run_tells_every_step_and_can_be_stopped_and_resumed(
    tmp_path: Path, photos: list[Photo], labelled: Path
) -> None:
    events: list[dict[str, Any]] = []

    def stop_after_three(event: dict[str, Any]) -> bool | None:
        events.append(event)
        return False if event["event"] == "step" and event["step"] == 3 else None

    out = tmp_path / "run"
    stopped = protoseg.train(out, labelled, settings=SMALL, callback=stop_after_three)
    assert (stopped.step, stopped.finished, stopped.best) == (3, False, None)
    steps = [event for event in events if event["event"] == "step"]
    assert [step["step"] for step in steps] == [1, 2, 3] and all(step["loss"] > 0 for step in steps)
    with pytest.raises(protoseg.TrainError, match="resume=True"):
        protoseg.train(out, labelled, settings=SMALL)
    with pytest.raises(protoseg.InputError, match="as it was planned"):
        protoseg.train(out, labelled, resume=True)

    def fail(event: dict[str, Any]) -> None:
        if event["event"] == "step" and event["step"] == 5:
            raise RuntimeError("on fire")

    with pytest.raises(RuntimeError, match="on fire"):
        protoseg.train(out, resume=True, callback=fail)
    finished = protoseg.train(out, resume=True)
    assert finished.finished and finished.step > 5 and finished.best is not None
    assert (Path(os.fspath(finished.folder)) / "metrics.jsonl").exists() and "finished" in repr(finished)
    trained = protoseg.Model.load(finished.best)
    assert trained.predict(photos[0].image).shape == photos[0].image.shape[:2]

    # What was stopped twice is what was never stopped.
    whole = protoseg.train(tmp_path / "whole", labelled, settings=SMALL)
    assert whole.last is not None and finished.last is not None
    assert Path(os.fspath(whole.last)).read_bytes() == Path(os.fspath(finished.last)).read_bytes()


def test_recipes_come_with_the_package(tmp_path: Path) -> None:
    assert "scenes-small" in protoseg.recipes()
    stopped = protoseg.train(
        tmp_path / "run", recipe="scenes-small", settings={"training": {"crop": 65, "batch": 2}},
        callback=lambda event: event["event"] != "step",
    )
    assert stopped.step == 1


def test_few_shot_systems_find_a_class(system: protoseg.Model, photos: list[Photo]) -> None:
    assert system.is_few_shot and system.method.startswith("panet")
    supports = [(photo.image, photo.mask) for photo in photos[:2]]
    prediction = system.find("thing", photos[2].image, supports)
    assert prediction.classes == ["background", "thing"] and prediction.shape == photos[2].mask.shape
    again = system.find("thing", photos[2].path, [(photo.path, photo.mask_path) for photo in photos[:2]])
    assert np.array_equal(prediction, again)
    with pytest.raises(protoseg.ModelError, match="model.find.*model.evaluate_episodes"):
        system.predict(photos[2].image)
    with pytest.raises(protoseg.ModelError, match="no foreground"):
        # One pixel of 512 is none of the network's 65.
        large = np.tile(photos[0].image, (4, 4, 1))
        mask = np.zeros(large.shape[:2], bool)
        mask[1, 1] = True
        system.find("thing", photos[2].image, [(large, mask)])


def test_few_shot_systems_are_asked_episodes(
    model: protoseg.Model, system: protoseg.Model, scenes: protoseg.Dataset
) -> None:
    told: list[tuple[int, int]] = []
    result = system.evaluate_episodes(
        scenes, style="panet", shots=[2, 1], episodes=6, runs=2, progress=lambda *step: told.append(step)
    )
    assert sorted(told) == [(done, 12) for done in range(13)]
    assert result["schema"] == "protoseg.episode-results/1" and result["seeds"] == [1234, 1235]
    assert [row["shots"] for row in result["rows"]] == [1, 2] and result["classes"] == scenes.folds[0]
    lines = str(result).splitlines()
    assert lines[1].split() == ["shots", "class", "mIoU", "FB-IoU"]
    assert lines[4].startswith("note: 6 episodes per run; results of style `panet`")
    assert "| 1-shot IoU" in result.to_markdown() and "Note: 6 episodes" in result._repr_html_()
    again = pickle.loads(pickle.dumps(result))
    assert (str(again), again._repr_html_()) == (str(result), result._repr_html_())
    # The supports of fewer shots are the first of more.
    assert system.evaluate_episodes(scenes, style="panet", shots=[1], episodes=6, runs=2)["rows"] == result["rows"][:1]
    with pytest.raises(protoseg.ModelError, match="does not answer episodes"):
        model.evaluate_episodes(scenes)

    def refuse(done: int, total: int) -> None:
        if done == 3:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        system.evaluate_episodes(scenes, shots=[1], episodes=500, progress=refuse)
