#![no_main]

use libfuzzer_sys::fuzz_target;
use protoseg_fuzz::with_file;

fuzz_target!(|bytes: &[u8]| {
    with_file("a.mat", bytes, |_| (), |folder| drop(protoseg_data::read_sbd_labels(&folder.join("a.mat"))));
});
