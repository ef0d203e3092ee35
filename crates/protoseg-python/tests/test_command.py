"""The command line in the wheel, the binary, and the API give the same answers, byte for byte."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import protoseg
import pytest
from conftest import REPOSITORY, Photo


def answer(*args: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(arg) for arg in args], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done


def teach_and_predict(program: str, photos: list[Photo], folder: Path) -> None:
    supports = ",".join(f"{photo.path}:{photo.mask_path}" for photo in photos[:2])
    answer(program, "register", "--class", f"thing={supports}", "-o", folder / "my.pack")
    images = [photo.path for photo in photos[2:]]
    kinds = "index,palette,confidence,overlay,coco"
    answer(program, "predict", "--pack", folder / "my.pack", *images, "-o", folder / "out", "--write", kinds)


def compare(program: str, model: protoseg.Model, photos: list[Photo], folder: Path) -> None:
    teach_and_predict(program, photos, folder)
    pack = model.register("thing", [(photo.path, photo.mask_path) for photo in photos[:2]])
    pack.save(folder / "python.pack")
    assert (folder / "python.pack").read_bytes() == (folder / "my.pack").read_bytes()
    document = None
    for photo, prediction in zip(photos[2:], model.predict_many([photo.path for photo in photos[2:]], pack)):
        for kind in ("index", "palette", "confidence", "overlay"):
            written = (folder / "out" / kind / f"{photo.path.stem}.png").read_bytes()
            assert prediction.to_png(kind) == written, kind
        # Also of the image in memory.
        assert model.predict(photo.image, pack).to_png() == prediction.to_png()
        own = prediction.to_coco()
        if document is None:
            document = own
        else:
            for annotation in own["annotations"]:
                annotation.update(id=len(document["annotations"]) + 1, image_id=2)
                document["annotations"].append(annotation)
            document["images"].append({**own["images"][0], "id": 2})
    (coco,) = (folder / "out").glob("*coco*.json")
    assert json.loads(coco.read_text()) == document


def test_the_binary_and_python_agree(
    binary: str, model: protoseg.Model, photos: list[Photo], tmp_path: Path
) -> None:
    compare(binary, model, photos, tmp_path)


def test_the_command_and_python_agree(
    command: str, model: protoseg.Model, photos: list[Photo], tmp_path: Path
) -> None:
    compare(command, model, photos, tmp_path)


def test_the_binary_and_python_ask_the_same_episodes(
    binary: str, system_file: Path, system: protoseg.Model, scenes: protoseg.Dataset
) -> None:
    flags = ["--style", "hsnet", "--shots", "1,2", "--episodes", 8, "--runs", 2, "--seed", 5, "--json"]
    theirs = json.loads(answer(binary, "episodes", "--model", system_file, "--data", "scenes", *flags).stdout)
    ours = system.evaluate_episodes(scenes, style="hsnet", shots=[1, 2], episodes=8, runs=2, seed=5).to_dict()
    for result in (ours, theirs):
        for name in ("model", "seconds", "peak_memory"):
            del result[name]
    assert ours == theirs


def test_exit_codes_and_words_are_those_of_the_binary(binary: str, command: str, tmp_path: Path) -> None:
    for args, code in (
        (["--version"], 0),
        (["help", "predict"], 0),
        (["predict", tmp_path / "nowhere.jpg", "-o", tmp_path / "out"], 1),
        (["predict", "--no-such-flag"], 2),
        ([], 2),
    ):
        ours, theirs = answer(command, *args, code=code), answer(binary, *args, code=code)
        assert (ours.stdout, ours.stderr) == (theirs.stdout, theirs.stderr), args
    module = answer(sys.executable, "-m", "protoseg", "--version")
    assert module.stdout == f"protoseg {protoseg.__version__}\n"


def test_a_broken_pipe_is_no_error(command: str) -> None:
    line = f"{command} help predict | head -n 1; exit ${{PIPESTATUS[0]}}"
    assert answer("bash", "-c", line).stderr == ""


def test_ctrl_c_ends_a_command(command: str, labelled: Path, tmp_path: Path) -> None:
    # One that saves its work and listens itself, and one that has nothing to save.
    run = tmp_path / "run"
    recipe = REPOSITORY / "recipes/scenes-small.toml"
    training = [command, "train", recipe, "--data", labelled, "--validation", "none", "--epochs", 9999, "--out", run]
    evaluation = [command, "eval", "--data", "scenes", "-o", tmp_path / "o"]
    for args, begun, code in ((training, run / "metrics.jsonl", 130), (evaluation, tmp_path, -signal.SIGINT)):
        process = subprocess.Popen([str(arg) for arg in args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            # Its first step is written when it listens.
            for _ in range(600):
                if begun.exists() and (begun.is_dir() or begun.stat().st_size > 1000):
                    break
                time.sleep(0.2)
            time.sleep(2)
            assert process.poll() is None, process.communicate()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)
            assert process.returncode == code
        finally:
            process.kill()


@pytest.mark.parametrize("kind", ["index", "overlay"])
def test_files_are_those_that_the_api_writes(
    kind: str, command: str, model: protoseg.Model, photos: list[Photo], tmp_path: Path
) -> None:
    answer(command, "predict", photos[0].path, "-o", tmp_path / "out", "--write", kind)
    model.predict(photos[0].path).save(tmp_path / "own.png", kind)  # type: ignore[arg-type]
    written = tmp_path / "out" / kind / f"{photos[0].path.stem}.png"
    assert written.read_bytes() == (tmp_path / "own.png").read_bytes()
