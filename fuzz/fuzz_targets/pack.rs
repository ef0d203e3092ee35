#![no_main]

use libfuzzer_sys::fuzz_target;
use protoseg_fuzz::with_file;

fuzz_target!(|bytes: &[u8]| {
    with_file("a.pack", bytes, |_| (), |folder| {
        if let Ok(pack) = protoseg::ClassPack::load(folder.join("a.pack")) {
            pack.save(folder.join("b.pack")).expect("what was read can be written");
        }
    });
});
