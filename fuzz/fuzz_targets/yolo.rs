#![no_main]

use libfuzzer_sys::fuzz_target;
use protoseg_fuzz::{picture, read_data_set, text, with_file};

fuzz_target!(|bytes: &[u8]| {
    let fill = |folder: &std::path::Path| {
        picture(folder, "images/train/a.png");
        text(folder, "data.yaml", "train: images/train\nnc: 2\nnames:\n  0: cow\n  1: duck\n");
    };
    with_file("labels/train/a.txt", bytes, fill, read_data_set);
});
