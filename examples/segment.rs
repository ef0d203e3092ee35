//! Segments photos with the classes that a model knows, and those of a pack if one is given.
//!
//!     cargo run --release --example segment -- MODEL PACK|- PHOTO...
//!
//! For each photo it prints how sure the model is and the regions of every class as COCO writes them.

#![allow(clippy::print_stdout)]

use protoseg::{ClassPack, Model, Segmenter, read_image};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, pack, photos @ ..] = &arguments[..] else {
        return Err("usage: segment MODEL PACK|- PHOTO...".into());
    };
    let model = Model::load(model)?;
    let pack = if pack == "-" { ClassPack::new(&model) } else { ClassPack::load(pack)? };
    let segmenter = Segmenter::builder(&model).pack(&pack).build()?;
    let photos = photos.iter().map(read_image).collect::<Result<Vec<_>, _>>()?;
    for (photo, prediction) in segmenter.predict_each(photos) {
        let sure: f32 = prediction.confidence().iter().sum::<f32>() / prediction.confidence().len() as f32;
        println!("{} x {} pixels, mean confidence {sure:.2}", photo.width, photo.height);
        for region in prediction.regions() {
            let class = &prediction.classes().rows()[usize::from(region.row)].name;
            println!(
                "  {class}: {} pixels in the box {:?}, runs {}",
                region.area, region.bbox, region.counts
            );
        }
    }
    Ok(())
}
