//! `.pth` files: PyTorch's own, damaged ones and hostile ones. An error each, never a crash, a hang or a flood.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use protoseg::{
    core::Classes,
    device::cpu,
    model::{Model, ModelError},
    weights::{TensorFile, WeightsError},
};
use zip::{ZipWriter, write::SimpleFileOptions};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Opens bytes as a checkpoint and gives the error's words.
fn refuse(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("strange file é.pth");
    fs::write(&path, bytes).unwrap();
    match TensorFile::open(&path) {
        Ok(_) => panic!("a bad file was accepted"),
        Err(error) => {
            assert!(error.to_string().contains("strange file é.pth"), "{error}");
            error.to_string()
        }
    }
}

#[test]
fn both_containers_of_pytorch_are_read() {
    for name in ["tiny_zip.pth", "tiny_legacy.pth"] {
        let checkpoint = TensorFile::open(&data(name)).unwrap();
        // Inside `state_dict`, without `module.`, and nothing of the optimiser.
        let names: Vec<&str> = checkpoint.names().collect();
        assert_eq!(names, ["a.weight", "b.weight", "bn.num_batches_tracked", "c.half", "d.double"], "{name}");
        assert_eq!(checkpoint.shape("a.weight"), Some(&[2, 2, 6][..]));
        let plain: Vec<f32> = (0..24).map(|i| i as f32).collect();
        assert_eq!(checkpoint.read("a.weight").unwrap(), plain);
        // Rows 1 to 3 of the transpose of a 4 x 6 matrix.
        let view = [1.0, 7.0, 13.0, 19.0, 2.0, 8.0, 14.0, 20.0, 3.0, 9.0, 15.0, 21.0];
        assert_eq!(checkpoint.read("b.weight").unwrap(), view);
        assert_eq!(checkpoint.read("c.half").unwrap(), [0.5, -2.0]);
        assert_eq!(checkpoint.read("d.double").unwrap(), [1e-3]);
        let error = checkpoint.read("bn.num_batches_tracked").unwrap_err().to_string();
        assert!(error.contains("not of a float type"), "{error}");
    }
}

#[test]
fn truncation_anywhere_is_an_error() {
    for name in ["tiny_zip.pth", "tiny_legacy.pth"] {
        let bytes = fs::read(data(name)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        for length in (0..bytes.len()).step_by(7) {
            fs::write(&path, &bytes[..length]).unwrap();
            // Listing may succeed while the values are cut off; then reading them must fail.
            let failed = match TensorFile::open(&path) {
                Err(_) => true,
                Ok(checkpoint) => {
                    let names: Vec<String> = checkpoint.names().map(String::from).collect();
                    names.is_empty() || names.iter().any(|name| checkpoint.read(name).is_err())
                }
            };
            assert!(failed, "{name} cut to {length} of {} bytes was taken for whole", bytes.len());
        }
    }
}

#[test]
fn damaged_bytes_never_panic() {
    for name in ["tiny_zip.pth", "tiny_legacy.pth"] {
        let bytes = fs::read(data(name)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        for position in (0..bytes.len()).step_by(3) {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x55;
            fs::write(&path, &damaged).unwrap();
            if let Ok(checkpoint) = TensorFile::open(&path) {
                let names: Vec<String> = checkpoint.names().map(String::from).collect();
                names.iter().for_each(|name| drop(checkpoint.read(name)));
            }
        }
    }
}

fn zip_with_pickle(pickle: impl FnOnce(&mut ZipWriter<std::io::Cursor<Vec<u8>>>)) -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("archive/data.pkl", SimpleFileOptions::default()).unwrap();
    pickle(&mut zip);
    zip.finish().unwrap().into_inner()
}

#[test]
fn a_pickle_that_unfolds_to_a_flood_is_refused() {
    // 90 MB of "None" in about 90 kB.
    let bytes = zip_with_pickle(|zip| {
        zip.write_all(b"\x80\x02").unwrap();
        for _ in 0..90 {
            zip.write_all(&vec![b'N'; 1 << 20]).unwrap();
        }
    });
    assert!(bytes.len() < 200_000);
    assert!(refuse(&bytes).contains("operations"));
}

#[test]
fn code_in_a_pickle_is_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("witness");
    // os.system("touch WITNESS")
    let call = format!("cos\nsystem\n(S'touch {}'\ntR.", witness.display());
    for bytes in [zip_with_pickle(|zip| zip.write_all(call.as_bytes()).unwrap()), call.as_bytes().to_vec()] {
        refuse(&bytes);
        assert!(!witness.exists());
    }
}

#[test]
fn a_tensor_that_claims_more_than_its_file_is_refused() {
    // The storage's element count in the legacy pickle's persistent id, raised to 2^31 - 1.
    let bytes = fs::read(data("tiny_legacy.pth")).unwrap();
    let count = bytes.windows(2).position(|pair| pair == [b'K', 24]).expect("a storage of 24 elements");
    let mut claim = bytes[..count].to_vec();
    claim.extend([b'J', 0xff, 0xff, 0xff, 0x7f]);
    claim.extend(&bytes[count + 2..]);
    refuse(&claim);
}

#[test]
fn files_that_are_no_checkpoints_are_named() {
    let words = refuse(b"GIF89a not weights at all, only some text that is long enough");
    assert!(words.contains("neither safetensors nor PyTorch"), "{words}");
    assert!(refuse(b"").contains("0 bytes"));
    let missing = TensorFile::open(Path::new("no such file.pth")).err().unwrap();
    assert!(matches!(missing, WeightsError::Read { .. }), "{missing}");
    // A safetensors header that promises more data than there is.
    let header = br#"{"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    assert!(refuse(&bytes).contains("truncated"));
}

#[test]
fn a_checkpoint_of_something_else_is_no_model() {
    let classes = Classes::new(&["background"], &[]).unwrap();
    let error = Model::import(&data("tiny_zip.pth"), classes, 97, &cpu()).unwrap_err().to_string();
    assert!(error.contains("`main_proto` is missing"), "{error}");
    let error = Model::load(data("frozen_step.safetensors")).unwrap_err();
    assert!(matches!(error, ModelError::NoManifest { .. }), "{error}");
}
