#![no_main]

use libfuzzer_sys::fuzz_target;
use protoseg_fuzz::with_file;

fuzz_target!(|bytes: &[u8]| {
    with_file("a.png", bytes, |_| (), |folder| drop(protoseg_data::mask::read_index_mask(&folder.join("a.png"))));
});
