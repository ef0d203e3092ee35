#![allow(clippy::print_stdout)]

use protoseg::{ClassPack, Model, Segmenter, Support, read_image, write_image};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::builtin();
    let mut pack = ClassPack::new(&model);
    let report = model.register(&mut pack, "duck", [Support::read("pond.png", "pond_mask.png")?])?;
    println!("{report}");
    pack.save("my.pack")?;

    let segmenter = Segmenter::builder(&model).pack(&pack).build()?;
    let photo = read_image("lake.png")?;
    let prediction = segmenter.predict(&photo);
    prediction.areas().iter().for_each(|area| println!("{}: {:.1} %", area.class, 100.0 * area.share));
    write_image("lake_overlay.png", &prediction.overlay(&photo))?;
    Ok(())
}
