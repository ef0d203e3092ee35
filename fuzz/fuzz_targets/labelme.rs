#![no_main]

use libfuzzer_sys::fuzz_target;
use protoseg_fuzz::{picture, read_data_set, with_file};

fuzz_target!(|bytes: &[u8]| {
    with_file("a.json", bytes, |folder| picture(folder, "a.png"), read_data_set);
});
