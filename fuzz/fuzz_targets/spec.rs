#![no_main]

use libfuzzer_sys::fuzz_target;
use protoseg_fuzz::{picture, text, with_file};

fuzz_target!(|bytes: &[u8]| {
    let fill = |folder: &std::path::Path| {
        picture(folder, "images/a.png");
        picture(folder, "masks/a.png");
        text(folder, "train.txt", "images/a.png masks/a.png\n");
    };
    with_file("farm.toml", bytes, fill, |folder| {
        let path = folder.join("farm.toml");
        if let Ok(benchmark) = protoseg_data::Benchmark::open(&path.to_string_lossy(), None) {
            protoseg_data::check(&benchmark, protoseg_data::CheckOptions::default(), &protoseg_data::quiet);
        }
    });
});
