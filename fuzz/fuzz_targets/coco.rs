#![no_main]

use libfuzzer_sys::fuzz_target;
use protoseg_fuzz::{picture, read_data_set, with_file};

fuzz_target!(|bytes: &[u8]| {
    let fill = |folder: &std::path::Path| picture(folder, "images/a.png");
    with_file("annotations/instances_train.json", bytes, fill, read_data_set);
});
