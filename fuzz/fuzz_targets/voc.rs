#![no_main]

use libfuzzer_sys::fuzz_target;
use protoseg_fuzz::{picture, read_data_set, with_file};

fuzz_target!(|bytes: &[u8]| {
    let fill = |folder: &std::path::Path| {
        picture(folder, "JPEGImages/a.jpg");
        picture(folder, "SegmentationClass/a.png");
    };
    with_file("ImageSets/Segmentation/train.txt", bytes, fill, read_data_set);
});
