#![no_main]

use libfuzzer_sys::fuzz_target;
use protoseg_data::rle::{decode_runs, unpack_runs};

fuzz_target!(|bytes: &[u8]| {
    // A size, then a packed mask.
    let [width, height, packed @ ..] = bytes else { return };
    let Ok(packed) = std::str::from_utf8(packed) else { return };
    if let Ok(counts) = unpack_runs(packed) {
        let (width, height) = (usize::from(*width) + 1, usize::from(*height) + 1);
        if let Ok(region) = decode_runs(&counts, width, height) {
            let again = protoseg_data::rle::encode_runs(&region, width, height);
            assert_eq!(decode_runs(&again, width, height).as_ref(), Ok(&region));
        }
    }
});
