"""Models and packs in other processes, and Ctrl-C."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import protoseg
import pytest
from conftest import Photo


def test_models_and_packs_are_pickled(
    model: protoseg.Model, demo: protoseg.Model, pack: protoseg.ClassPack, photos: list[Photo]
) -> None:
    assert pickle.loads(pickle.dumps(pack)) == pack
    assert len(pickle.dumps(model)) < 500, "the model in the box is in every package"
    smaller = model.with_size(201)
    for one in (model, demo, smaller):
        again = pickle.loads(pickle.dumps(one))
        assert again.fingerprint == one.fingerprint and again.classes == one.classes
        assert np.array_equal(again.predict(photos[0].image), one.predict(photos[0].image))
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(photos[0].image, pack),
                          model.predict(photos[0].image, pack))
    assert repr(pickle.loads(pickle.dumps(protoseg.Dataset("scenes")))).startswith("<Dataset scenes")


def _rounded(numbers: dict[str, object]) -> object:
    return json.loads(json.dumps(numbers), parse_float=lambda text: round(float(text), 9))


def test_results_are_pickled(
    demo: protoseg.Model, pack: protoseg.ClassPack, scenes: protoseg.Dataset, tmp_path: Path
) -> None:
    report = pickle.loads(pickle.dumps(pack.report))
    assert pack.report is not None and str(report) == str(pack.report)
    assert report.to_dicts() == pack.report.to_dicts() and report.sheet() is None
    result = demo.evaluate(scenes, shots=[1], limit=2)
    again = pickle.loads(pickle.dumps(result))
    # Numbers travel as text, and may come back with another last bit.
    assert str(again) == str(result) and _rounded(again.to_dict()) == _rounded(result.to_dict())
    assert again.to_markdown() == result.to_markdown()
    sample = pickle.loads(pickle.dumps(scenes[3]))
    assert sample.name == scenes[3].name and np.array_equal(sample.image, scenes[3].image)
    assert np.array_equal(sample.labels, scenes[3].labels) and sample.labels.dtype == np.uint16
    stopped = protoseg.train(
        tmp_path / "run", recipe="scenes-small", settings={"training": {"crop": 65, "batch": 2}},
        callback=lambda event: event["event"] != "step",
    )
    again = pickle.loads(pickle.dumps(stopped))
    assert repr(again) == repr(stopped) and (again.folder, again.best) == (stopped.folder, None)


def test_models_are_written_and_read(
    model: protoseg.Model, pack: protoseg.ClassPack, photos: list[Photo], tmp_path: Path
) -> None:
    model.save(tmp_path / "m.safetensors")
    again = protoseg.Model.load(tmp_path / "m.safetensors")
    assert again.fingerprint == model.fingerprint
    assert np.array_equal(again.predict(photos[0].image, pack), model.predict(photos[0].image, pack))
    model.save(tmp_path / "h.safetensors", half=True)
    assert (tmp_path / "h.safetensors").stat().st_size < 0.6 * (tmp_path / "m.safetensors").stat().st_size
    assert model.parameters > 3_000_000 and model.size == again.description["preprocess"]["size"]
    assert "no class of its own" in repr(model) and not model.is_few_shot


def _sum(model: protoseg.Model, pack: protoseg.ClassPack, image: np.ndarray) -> int:  # type: ignore[type-arg]
    return int(np.asarray(model.predict(image, pack)).sum())


def _score(system: protoseg.Model, scenes: protoseg.Dataset) -> float:
    result = system.evaluate_episodes(scenes, shots=[1], episodes=4)
    return float(result["rows"][0]["class_miou"]["mean"])


@pytest.mark.parametrize("way", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_other_processes_are_asked_episodes(way: str, system: protoseg.Model, scenes: protoseg.Dataset) -> None:
    expected = _score(system, scenes)
    with multiprocessing.get_context(way).Pool(2) as pool:
        job = pool.starmap_async(_score, [(system, scenes)] * 2)
        assert job.get(timeout=120) == [expected] * 2


@pytest.mark.parametrize("way", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_other_processes_predict(
    way: str, model: protoseg.Model, pack: protoseg.ClassPack, photos: list[Photo]
) -> None:
    expected = _sum(model, pack, photos[0].image)
    # The threads of this process do not live on in a forked one.
    with multiprocessing.get_context(way).Pool(2) as pool:
        job = pool.starmap_async(_sum, [(model, pack, photos[0].image)] * 4)
        assert job.get(timeout=120) == [expected] * 4


INTERRUPTED = """
import sys, threading, os, signal, protoseg
model = protoseg.Model.demo()
scenes = protoseg.Dataset("scenes")
said = []
def told(done, total):
    if done >= 2 and not said:
        said.append(done)
        print("begun", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
CALLS = {
    "evaluate": "model.evaluate(scenes, shots=[1], progress=told)",
    "episodes": "protoseg.Model.load(sys.argv[1]).evaluate_episodes(scenes, episodes=100000, progress=told)",
    "register": "model.register({str(n): [(scenes[i].image, scenes[i].image[..., 0] > 90) for i in range(20)]"
    " for n in range(40)}, progress=told)",
    "register_dataset": "protoseg.Model().register_dataset(scenes, shots=40, progress=told)",
    "train": "import tempfile; out = tempfile.TemporaryDirectory();"
    "protoseg.train(out.name + '/run', recipe='scenes-small',"
    "callback=lambda event: told(event.get('step', 0), 0) if event['event'] == 'step' else None)",
    "tiles": "import numpy; print('begun', flush=True);"
    "model.predict(numpy.zeros((9000, 9000, 3), 'uint8'), tiles=True)",
    "many": "import itertools; p = model.predict_many(itertools.repeat(scenes[0].image));"
    "next(p); print('begun', flush=True); [None for _ in p]",
}


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends_long_calls(name: str, system_file: Path) -> None:
    code = INTERRUPTED.replace("{call}", CALLS[name])
    arguments = [sys.executable, "-c", code, str(system_file)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.3)
        assert process.poll() is None, "the call was over before it was interrupted"
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        answer, _ = process.communicate(timeout=60)
        assert answer == "interrupted\n" and process.returncode == 0
        assert time.monotonic() - start < 30
    finally:
        process.kill()


def test_an_interpreter_ends_while_work_is_on_its_way() -> None:
    code = (
        "import protoseg, itertools; m = protoseg.Model(); i = protoseg.Dataset('scenes')[0].image;"
        "p = m.predict_many(itertools.repeat(i)); next(p); raise SystemExit(7)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 7


def test_threads_can_be_limited() -> None:
    code = (
        "import protoseg; m = protoseg.Model(); i = protoseg.Dataset('scenes')[0].image; m.predict(i);"
        "m.register('a', [(i, i[..., 0] > 90)], progress=lambda *_: m.predict(i));"
        "print(sum(1 for _ in m.predict_many([i] * 5)))"
    )
    environment = {**os.environ, "RAYON_NUM_THREADS": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", code], env=environment, timeout=120, capture_output=True, text=True
    )
    assert answer.stdout == "5\n", answer.stderr
