#![no_main]

use libfuzzer_sys::fuzz_target;
use protoseg_fuzz::with_file;

fuzz_target!(|bytes: &[u8]| {
    with_file("a.pth", bytes, |_| (), |folder| {
        if let Ok(file) = protoseg::weights::TensorFile::open(&folder.join("a.pth")) {
            let names: Vec<String> = file.names().map(String::from).collect();
            names.iter().for_each(|name| drop(file.read(name)));
        }
    });
});
