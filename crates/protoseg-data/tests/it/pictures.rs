//! Pictures of every kind become upright 8-bit RGB.

use protoseg_core::{ClassTable, IdMap};
use protoseg_data::picture::{image_size, read_image};
use protoseg_data::reader::folder::{self, FolderOptions};
use protoseg_data::{Benchmark, DataError, Dataset, MaskKind, Place, SheetOptions, Size, contact_sheet};
use protoseg_testing::shared;

use crate::fixture::{Folder, gradient, scene};

/// A JPEG of 32 x 16, dark but for its upper left quarter, with an EXIF orientation.
fn oriented_jpeg(orientation: u8) -> Vec<u8> {
    let data: Vec<u8> = (0..32 * 16)
        .map(|at| if at % 32 < 16 && at / 32 < 8 { 250 } else { 5 })
        .flat_map(|v| [v; 3])
        .collect();
    let mut bytes = std::io::Cursor::new(Vec::new());
    image::write_buffer_with_format(
        &mut bytes,
        &data,
        32,
        16,
        image::ColorType::Rgb8,
        image::ImageFormat::Jpeg,
    )
    .unwrap();
    let exif = [
        b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".as_slice(),
        &[orientation],
        b"\0\0\0\0\0\0",
    ]
    .concat();
    let length = (exif.len() as u16 + 2).to_be_bytes();
    let mut file = bytes.into_inner();
    file.splice(2..2, [&[0xFF, 0xE1], &length[..], &exif].concat());
    file
}

#[test]
fn exif_orientation_turns_the_picture() {
    let folder = Folder::new();
    // Orientation, size, and a point that is bright.
    for (orientation, size, (x, y)) in [
        (1, Size(32, 16), (4, 3)),
        (2, Size(32, 16), (28, 3)),
        (3, Size(32, 16), (28, 12)),
        (4, Size(32, 16), (4, 12)),
        (5, Size(16, 32), (3, 4)),
        (6, Size(16, 32), (12, 4)),
        (7, Size(16, 32), (12, 28)),
        (8, Size(16, 32), (3, 28)),
    ] {
        let path = folder.write("photo.jpg", oriented_jpeg(orientation));
        let image = read_image(&path).unwrap();
        assert_eq!(Size(image.width, image.height), size, "orientation {orientation}");
        assert_eq!(image_size(&path).unwrap(), size);
        let bright = image.data.chunks(3).map(|pixel| pixel[0] > 128);
        assert_eq!(bright.clone().filter(|&bright| bright).count(), 128);
        assert!(bright.collect::<Vec<_>>()[y * image.width + x], "orientation {orientation}");
    }
}

/// JPEGs of 53 x 37, written by PIL 13 with quality 85, and the pixels that libjpeg-turbo 3 decodes from them, as
/// PNGs. PIL made the PNGs, and OpenCV for CMYK (where PIL's arithmetic is its own).
#[test]
fn jpegs_are_what_libjpeg_turbo_makes_of_them() {
    for name in ["jpeg_420", "jpeg_422_progressive", "jpeg_gray", "jpeg_cmyk"] {
        let read = |ending: &str| {
            let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
            read_image(data.join(format!("{name}.{ending}"))).unwrap()
        };
        let (got, want) = (read("jpg"), read("png"));
        assert_eq!((got.width, got.height), (53, 37));
        assert_eq!((want.width, want.height), (53, 37));
        let differ = got.data.iter().zip(&want.data).filter(|(got, want)| got != want).count();
        assert_eq!(differ, 0, "{name}: values that differ");
    }
}

#[test]
fn a_mask_drawn_before_turning_is_told_so() {
    let folder = Folder::new();
    folder.write("classes.txt", "background\ncow\n");
    folder.write("images/a.jpg", oriented_jpeg(6));
    folder.mask("masks/a.png", &IdMap::new(32, 16, vec![0; 512]));
    let error = folder::open(FolderOptions::new(folder.path())).unwrap().load(0).unwrap_err();
    assert!(matches!(&error, DataError::SizeMismatch { got: Size(32, 16), expected: Size(16, 32), .. }));
    assert!(error.to_string().contains("EXIF orientation"), "{error}");
}

#[test]
fn gray_sixteen_bits_alpha_and_palettes_become_rgb() {
    let folder = Folder::new();
    let save = |name: &str, bytes: &[u8], color| {
        let path = folder.write(name, []);
        image::save_buffer(&path, bytes, 1, 1, color).unwrap();
        read_image(&path).unwrap().data
    };
    assert_eq!(save("gray.png", &[77], image::ColorType::L8), [77; 3]);
    let words = |values: &[u16]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
    assert_eq!(save("gray16.png", &words(&[0x4D4D]), image::ColorType::L16), [0x4D; 3]);
    assert_eq!(save("rgb16.tiff", &words(&[0, 0x8080, 0xFFFF]), image::ColorType::Rgb16), [0, 0x80, 0xFF]);
    assert_eq!(save("alpha.png", &[1, 2, 3, 0], image::ColorType::Rgba8), [1, 2, 3]);
    assert_eq!(save("plain.bmp", &[9, 8, 7], image::ColorType::Rgb8), [9, 8, 7]);
    assert_eq!(save("plain.webp", &[9, 8, 7], image::ColorType::Rgb8), [9, 8, 7]);
    let palette = folder.mask("palette.png", &IdMap::new(1, 1, vec![2]));
    assert_eq!(read_image(&palette).unwrap().data, [0, 128, 0], "as a picture, a palette PNG is its colours");
    let misnamed = folder.write("really a png.jpg", std::fs::read(folder.path().join("gray.png")).unwrap());
    assert_eq!(read_image(&misnamed).unwrap().data, [77; 3]);
}

#[test]
fn a_contact_sheet_shows_masks_over_images() {
    let folder = Folder::new();
    for name in ["a", "b", "c"] {
        folder.picture(&format!("images/{name}.png"), &gradient(20, 12));
        folder.mask(&format!("masks/{name}.png"), &scene());
    }
    let classes = ClassTable::from_names(&["background", "cow", "duck"], &[255]).unwrap();
    let options =
        FolderOptions { classes: Some((classes, MaskKind::Index)), ..FolderOptions::new(folder.path()) };
    let dataset = folder::open(options).unwrap();
    let options = SheetOptions { columns: 2, cell: 20, opacity: 255 };
    let sheet = contact_sheet(&dataset, &[0, 1, 2], options).unwrap();
    // A row is as high as its highest picture: 12 pixels, with 16 for a name and gaps of 4.
    assert_eq!((sheet.image.width, sheet.image.height), (52, 68));
    assert_eq!(sheet.places[2], Place { left: 4, top: 36, width: 20, height: 12 });
    let pixel = |x: usize, y: usize| &sheet.image.data[(y * 52 + x) * 3..][..3];
    assert_eq!(pixel(4 + 5, 4 + 5), [128, 0, 0], "cow");
    assert_eq!(pixel(28 + 10, 4 + 7), [0, 128, 0], "duck of the second image");
    assert_eq!(pixel(4 + 15, 4 + 1), [191, 21, 128], "background stays");
    assert_eq!(pixel(40, 30), [32, 32, 32], "paper");
    let names: Vec<_> = sheet.legend.iter().map(|entry| (entry.name.as_str(), entry.pixels)).collect();
    assert_eq!(names, [("background", 3 * 156), ("cow", 3 * 68), ("duck", 3 * 16)]);
    assert_eq!(sheet.samples, ["a.png", "b.png", "c.png"]);
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn a_contact_sheet_of_real_photos() {
    let root = shared("data/msrc");
    let benchmark = Benchmark::folder(&root).unwrap();
    let indices: Vec<usize> = (0..12).collect();
    let sheet = contact_sheet(benchmark.dataset.as_ref(), &indices, SheetOptions::default()).unwrap();
    assert_eq!((sheet.image.width, sheet.image.height), (6 * 244 + 4, 2 * (164 + 16) + 4));
    assert!(
        sheet
            .legend
            .iter()
            .any(|entry| entry.name == "grass" && entry.color == [128, 128, 0] || entry.color == [0, 128, 0])
    );
}

#[test]
fn a_small_jpeg_cannot_take_a_thousand_passes() {
    let folder = Folder::new();
    let jpeg = oriented_jpeg(1);
    let scan = jpeg.windows(2).position(|marker| marker == [0xFF, 0xDA]).unwrap();
    let (head, scan) = (&jpeg[..scan], &jpeg[scan..jpeg.len() - 2]);
    let scans = |count: usize| [head, &scan.repeat(count), &[0xFF, 0xD9]].concat();
    let error = read_image(folder.write("photo.jpg", scans(1000))).unwrap_err().to_string();
    assert!(error.contains("it has 1000 scans, expected at most 100"), "{error}");
    assert!(read_image(folder.write("photo.jpg", scans(1))).is_ok());
}

#[test]
fn a_small_png_cannot_unpack_gigabytes_beside_its_pixels() {
    let chunk = |kind: &[u8; 4], data: &[u8]| {
        let checked = [&kind[..], data].concat();
        let mut crc = flate2::Crc::new();
        crc.update(&checked);
        [&(data.len() as u32).to_be_bytes()[..], &checked, &crc.sum().to_be_bytes()].concat()
    };
    let packed = |bytes: usize| {
        let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        for _ in 0..bytes >> 20 {
            std::io::Write::write_all(&mut packer, &vec![0; 1 << 20]).unwrap();
        }
        packer.finish().unwrap()
    };
    let folder = Folder::new();
    let plain = folder.write("plain.png", Vec::new());
    protoseg_data::picture::write_image(&plain, &gradient(20, 12)).unwrap();
    let plain = std::fs::read(plain).unwrap();
    // After the header of 33 bytes.
    let profile = chunk(b"iCCP", &[b"x\0\0".as_slice(), &packed(1 << 30)].concat());
    let bomb = folder.write("bomb.png", [&plain[..33], &profile, &plain[33..]].concat());
    // A profile is not needed to read the pixels, and not unpacked beyond a limit.
    assert_eq!(read_image(&bomb).unwrap(), gradient(20, 12));
}
