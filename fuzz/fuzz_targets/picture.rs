#![no_main]

use libfuzzer_sys::fuzz_target;
use protoseg_fuzz::with_file;

fuzz_target!(|bytes: &[u8]| {
    with_file("a.bin", bytes, |_| (), |folder| drop(protoseg_data::picture::read_image(folder.join("a.bin"))));
});
