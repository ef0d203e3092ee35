#![no_main]

use libfuzzer_sys::fuzz_target;
use protoseg_fuzz::with_file;

fuzz_target!(|bytes: &[u8]| {
    with_file("a.safetensors", bytes, |_| (), |folder| drop(protoseg::Model::load(folder.join("a.safetensors"))));
});
