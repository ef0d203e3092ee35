"""Teaching: supports in every form in, packs and reports out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import protoseg
import pytest
from conftest import Photo
from PIL import Image


def test_every_form_of_a_support_teaches_the_same(model: protoseg.Model, photos: list[Photo]) -> None:
    photo = photos[0]
    ids = np.where(photo.mask, 3, 0)
    named = protoseg.Support(photo.image, photo.mask, name=photo.path.name)
    expected = model.register("thing", [named])
    others = np.where(photo.mask, 3, 5)
    forms: dict[str, object] = {
        "paths": (photo.path, photo.mask_path),
        "path and array": (str(photo.path), photo.mask),
        "array and path": protoseg.Support(photo.image, photo.mask_path, name=photo.path.name),
        "bytes": protoseg.Support(photo.image, (photo.mask * 255).astype(np.uint8), name=photo.path.name),
        "ids": protoseg.Support(photo.image, ids.astype(np.int64), name=photo.path.name),
        "chosen id": protoseg.Support(photo.path, others.astype(np.uint8), value=3),
        "Fortran": (photo.path, np.asfortranarray(photo.mask)),
        "strided": (photo.path, np.repeat(photo.mask, 2, axis=1)[:, ::2]),
        "PIL": (photo.path, Image.fromarray(photo.mask)),
        "bytes seen as bool": (photo.path, (photo.mask * np.uint8(7)).view(bool)),
    }
    for name, form in forms.items():
        assert model.register("thing", [form]) == expected, name  # type: ignore[list-item]
    assert model.register({"thing": [(photo.path, photo.mask)]}) == expected


def test_a_folder_stands_for_the_supports_of_a_class(
    model: protoseg.Model, photos: list[Photo], tmp_path: Path
) -> None:
    for photo in photos[:2]:
        Image.fromarray(photo.image).save(tmp_path / photo.path.name)
        Image.fromarray(photo.mask).save(tmp_path / photo.mask_path.name)
    pairs = [(photo.path, photo.mask_path) for photo in photos[:2]]
    assert model.register("thing", tmp_path) == model.register("thing", pairs)


def test_boxes_scribbles_and_cut_outs_teach(
    model: protoseg.Model, photos: list[Photo], tmp_path: Path
) -> None:
    photo = photos[0]
    rows, columns = np.nonzero(photo.mask)
    box = (columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1)
    boxed = model.register("thing", [protoseg.Support(photo.image, box=box)])  # type: ignore[arg-type]
    assert boxed.report is not None and boxed.report.to_dicts()[0]["weak"] == 1
    assert boxed.supports("thing") == [("support 1", box[2] * box[3])]
    scribble = photo.mask & (np.arange(photo.mask.shape[1]) % 2 == 0)
    Image.fromarray(scribble).save(tmp_path / "s.png")
    drawn = model.register("thing", [protoseg.Support(photo.path, scribble, scribble=True)])
    assert drawn == model.register("thing", [protoseg.Support(photo.path, tmp_path / "s.png", scribble=True)])
    assert drawn != model.register("thing", [protoseg.Support(photo.path, scribble)])
    Image.fromarray(np.dstack([photo.image, photo.mask * np.uint8(255)])).save(tmp_path / "c.png")
    cut = model.register("thing", [protoseg.Support(tmp_path / "c.png")])
    assert cut.supports("thing") == [("c.png", photo.mask.sum())]


def test_the_report_is_an_object_and_a_table(pack: protoseg.ClassPack) -> None:
    report = pack.report
    assert report is not None and len(report) == 1
    (row,) = report.to_dicts()
    assert row["class"] == "thing" and row["shots"] == 2 and len(row["leave_one_out_iou"]) == 2
    lines = str(report).splitlines()
    assert lines[0].startswith("class  supports") and lines[1].startswith("thing  2")
    assert "<td>thing</td>" in report._repr_html_()
    sheet = report.sheet()
    assert sheet is not None and sheet.ndim == 3
    pandas = pytest.importorskip("pandas")
    assert isinstance(report.to_pandas(), pandas.DataFrame)


def test_html_of_a_report_is_no_markup_of_strangers(model: protoseg.Model, photos: list[Photo]) -> None:
    pack = model.register("<b>thing</b>", [(photos[0].image, photos[0].mask)])
    assert pack.report is not None and "<td>&lt;b&gt;thing" in pack.report._repr_html_()


def test_packs_never_change_but_give_others(model: protoseg.Model, photos: list[Photo]) -> None:
    one = model.register("a", [(photos[0].image, photos[0].mask)])
    two = model.register("b", [(photos[1].image, photos[1].mask)], pack=one)
    assert (one.classes, two.classes) == (["a"], ["a", "b"])
    assert len(two) == 2 and "b" in two and "c" not in two and list(two) == ["a", "b"]
    assert two.without("b") == one and two.without("a") | one == two
    assert two.renamed("b", "c").classes == ["a", "c"]
    prediction = model.predict(photos[0].image, one.recolored("a", (1, 2, 3)))
    assert prediction.colors[1] == (1, 2, 3)
    assert "a (1 support)" in repr(one) and one.model == model.fingerprint
    with pytest.raises(protoseg.PackError, match="not in the pack"):
        one.without("b")
    with pytest.raises(KeyError):
        one.supports("b")


def test_a_class_that_is_there_is_refused_replaced_or_extended(
    model: protoseg.Model, pack: protoseg.ClassPack, photos: list[Photo]
) -> None:
    more = [(photos[2].image, photos[2].mask)]
    with pytest.raises(protoseg.PackError, match="already in the pack\nhint: .*known=\"extend\""):
        model.register("thing", more, pack=pack)
    assert len(model.register("thing", more, pack=pack, known="extend").supports("thing")) == 3
    assert len(model.register("thing", more, pack=pack, known="replace").supports("thing")) == 1
    assert len(pack.supports("thing")) == 2
    for wrong in ({"known": "maybe"}, {"rest": "maybe"}):
        with pytest.raises(protoseg.InputError, match="must be"):
            model.register("thing", more, **wrong)  # type: ignore[arg-type]


def test_classes_of_the_model_are_refined_only_if_asked(demo: protoseg.Model, photos: list[Photo]) -> None:
    own = demo.classes[1]
    with pytest.raises(protoseg.RegisterError, match="refine=True"):
        demo.register(own, [(photos[0].image, photos[0].mask)])
    assert demo.register(own, [(photos[0].image, photos[0].mask)], refine=True).classes == [own]


def test_packs_of_another_model_are_refused(
    demo: protoseg.Model, pack: protoseg.ClassPack, photos: list[Photo], tmp_path: Path
) -> None:
    with pytest.raises(protoseg.PackError, match="the pack is for the model"):
        demo.predict(photos[0].image, pack)
    pack.save(tmp_path / "my.pack")
    again = protoseg.ClassPack.load(tmp_path / "my.pack")
    assert again == pack and again.report is None
    with pytest.raises(protoseg.MissingFileError):
        protoseg.ClassPack.load(tmp_path / "no.pack")
    (tmp_path / "bad.pack").write_bytes(b"nothing")
    with pytest.raises(protoseg.Error):
        protoseg.ClassPack.load(tmp_path / "bad.pack")


def test_progress_is_told_and_its_exceptions_end_the_work(model: protoseg.Model, photos: list[Photo]) -> None:
    supports = [(photo.image, photo.mask) for photo in photos]
    told: list[tuple[int, int]] = []
    model.register("thing", supports, progress=lambda done, total: told.append((done, total)))
    assert told[0][0] == 0 and told[-1][0] == told[-1][1]

    def refuse(done: int, total: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        model.register("thing", supports, progress=refuse)
    # A function that is told may use the model itself.
    model.register("thing", supports[:1], progress=lambda *_: model.predict(photos[0].image))


def test_a_data_set_teaches_its_classes(model: protoseg.Model, scenes: protoseg.Dataset) -> None:
    pack = model.register_dataset(scenes, shots=1)
    assert pack.classes == sorted(scenes.folds[0])
    with pytest.raises(protoseg.InputError, match="at least 1"):
        model.register_dataset(scenes, shots=0)
