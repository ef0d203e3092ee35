"""The package itself: types, docs, examples."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import protoseg
import pytest
from conftest import REPOSITORY, Photo

EXAMPLES = REPOSITORY / "examples/python"


def test_the_stubs_are_those_of_the_module() -> None:
    pytest.importorskip("mypy")
    allowed = Path(__file__).with_name("stubtest.txt")
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "protoseg", "--allowlist", str(allowed)],
        capture_output=True, text=True, cwd=REPOSITORY, timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_examples_and_tests_pass_the_type_checker() -> None:
    pytest.importorskip("mypy")
    files = [str(path) for path in sorted(EXAMPLES.glob("*.py"))]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--follow-imports", "silent", *files],
        capture_output=True, text=True, cwd=REPOSITORY, timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_public_has_a_docstring() -> None:
    for name in protoseg.__all__:
        value = getattr(protoseg, name)
        if not inspect.isclass(value) and not callable(value):
            continue
        assert value.__doc__, name
        for member, inner in vars(value).items() if inspect.isclass(value) else ():
            if not member.startswith("_") and (callable(inner) or inspect.isdatadescriptor(inner)):
                is_plain = member in ("name", "args")
                assert is_plain or inner.__doc__, f"{name}.{member}"


def run(example: Path, *args: object, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(example), *(str(arg) for arg in args)],
        capture_output=True, text=True, cwd=folder, timeout=600, env=os.environ,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_six_lines_of_the_docs_run(photos: list[Photo], tmp_path: Path) -> None:
    answer = run(
        EXAMPLES / "teach.py", photos[0].path, photos[0].mask_path, photos[2].path, folder=tmp_path
    )
    assert answer.startswith("class") and (tmp_path / "overlay.png").exists()
    documents = [(REPOSITORY / name).read_text() for name in ("docs/python.md", "README.md")]
    code = (EXAMPLES / "teach.py").read_text().partition("import protoseg")[2]
    six = [line for line in code.splitlines() if line.strip()]
    for line in six:
        assert any(line.strip() in document for document in documents[:1]), line


@pytest.mark.parametrize("name", ["explore.py", "train_and_evaluate.py"])
def test_examples_run(name: str, tmp_path: Path) -> None:
    run(EXAMPLES / name, "--quick", folder=tmp_path)


def test_ray_predicts_a_folder(photos: list[Photo], pack: protoseg.ClassPack, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="SKIPPED LOUDLY: ray is not installed, so examples/python/ray_predict.py is untested")
    import numpy as np
    import pyarrow.parquet

    pack.save(tmp_path / "my.pack")
    model = protoseg.Model()
    answer = run(
        EXAMPLES / "ray_predict.py", photos[0].path.parent, tmp_path / "out", "--pack", tmp_path / "my.pack",
        "--actors", 2, folder=tmp_path,
    )
    assert "images per hour" in answer
    table = pyarrow.parquet.read_table(tmp_path / "out").to_pylist()
    pictures = {str(path) for path in photos[0].path.parent.glob("*.png")}
    assert {row["path"] for row in table} == pictures
    for row in table:
        labels = np.frombuffer(row["labels"], np.uint16).reshape(row["height"], row["width"])
        assert np.array_equal(labels, model.predict(row["path"], pack)), row["path"]
