#![no_main]

use libfuzzer_sys::fuzz_target;
use protoseg_fuzz::{picture, with_file};

fuzz_target!(|bytes: &[u8]| {
    // Lists of supports and of episodes, in each of their forms.
    let fill = |folder: &std::path::Path| picture(folder, "a.png");
    for file in ["list.json", "list.txt"] {
        with_file(file, bytes, fill, |folder| {
            let _ = protoseg_data::read_support_file(&folder.join("list.json"));
            let _ = protoseg_data::read_support_file(&folder.join("list.txt"));
            let _ = protoseg_data::read_episodes(&folder.join("list.json"));
        });
    }
});
