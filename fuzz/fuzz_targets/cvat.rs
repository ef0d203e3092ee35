#![no_main]

use libfuzzer_sys::fuzz_target;
use protoseg_fuzz::{picture, read_data_set, text, with_file};

fuzz_target!(|bytes: &[u8]| {
    let fill = |folder: &std::path::Path| {
        picture(folder, "JPEGImages/a.jpg");
        picture(folder, "SegmentationClass/a.png");
        text(folder, "ImageSets/Segmentation/default.txt", "a\n");
    };
    with_file("labelmap.txt", bytes, fill, read_data_set);
});
