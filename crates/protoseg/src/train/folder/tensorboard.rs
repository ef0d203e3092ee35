//! TensorBoard's event files. The crates that write them were last touched years ago and bring a second `image` and
//! protobuf compilers; of the format we need records of scalars alone.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::train::{Event, StepEvent};

/// One event file. TensorBoard joins those of a folder in the order of their names.
pub struct EventFile(File);

impl EventFile {
    /// Begins a file for a run that goes on after step `from_step`.
    pub fn create(folder: &Path, from_step: usize) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let (seconds, process) = (now() as u64, std::process::id());
        let name = format!("events.out.tfevents.{seconds:010}.protoseg.{process}.{from_step}");
        let mut file = Self(File::create(folder.join(name))?);
        file.record(&message(0, 3, b"brain.Event:2"))?;
        // "The session starts here": TensorBoard then forgets what a lost stretch of the run wrote from this step on.
        file.record(&message(from_step + 1, 7, &varint_field(1, 1)))?;
        Ok(file)
    }

    /// The scalars of an event, if it has any.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        let (step, scalars) = match event {
            Event::Step(step) => (step.step, step_scalars(step)),
            Event::Epoch(epoch) => (epoch.step, vec![("loss/epoch".to_string(), epoch.loss as f32)]),
            Event::Validation(of) => {
                let means = [("miou/base", of.base_miou), ("accuracy/pixel", of.pixel_accuracy)];
                (of.step, validation_scalars(means, &of.iou))
            }
            Event::EpisodeValidation(of) => {
                let means = [("miou/class", of.class_miou), ("iou/foreground-background", of.fb_iou)];
                (of.step, validation_scalars(means, &of.iou))
            }
            _ => return Ok(()),
        };
        let summary: Vec<u8> =
            scalars.iter().flat_map(|(tag, value)| bytes_field(1, &scalar(tag, *value))).collect();
        self.record(&message(step, 5, &summary))
    }

    /// A record: its length and its data, each with a checksum. One write, so that a crash tears the last one only.
    fn record(&mut self, data: &[u8]) -> io::Result<()> {
        let length = (data.len() as u64).to_le_bytes();
        let checks = [&length[..], data].map(|bytes| masked_crc(bytes).to_le_bytes());
        self.0.write_all(&[&length[..], &checks[0], data, &checks[1]].concat())
    }
}

fn step_scalars(step: &StepEvent) -> Vec<(String, f32)> {
    let mut scalars = vec![("loss/train", step.loss), ("loss/main", step.main_loss)];
    scalars.extend(step.aux_loss.map(|loss| ("loss/aux", loss)));
    scalars.extend([("rate", step.rate as f32), ("throughput", step.images_per_second as f32)]);
    scalars.into_iter().map(|(tag, value)| (tag.to_string(), value)).collect()
}

fn validation_scalars(means: [(&str, f64); 2], iou: &[(String, Option<f64>)]) -> Vec<(String, f32)> {
    let means = means.map(|(tag, value)| (tag.to_string(), value as f32));
    let classes = iou.iter().filter_map(|(class, iou)| Some((format!("iou/{class}"), (*iou)? as f32)));
    means.into_iter().chain(classes).collect()
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// An `Event`: wall time, step, and one of the things it can be.
fn message(step: usize, what: u32, content: &[u8]) -> Vec<u8> {
    let time = [&[1 << 3 | 1][..], &now().to_le_bytes()].concat();
    [time, varint_field(2, step as u64), bytes_field(what, content)].concat()
}

/// A `Summary.Value`: a tag and a number.
fn scalar(tag: &str, value: f32) -> Vec<u8> {
    [bytes_field(1, tag.as_bytes()), [&[2 << 3 | 5][..], &value.to_le_bytes()].concat()].concat()
}

fn varint_field(number: u32, value: u64) -> Vec<u8> {
    [varint(u64::from(number << 3)), varint(value)].concat()
}

fn bytes_field(number: u32, bytes: &[u8]) -> Vec<u8> {
    [&varint(u64::from(number << 3 | 2))[..], &varint(bytes.len() as u64), bytes].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// CRC-32C, turned and shifted as the format asks.
fn masked_crc(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let (mut table, mut index) = ([0; 256], 0);
        while index < 256 {
            let (mut crc, mut bit) = (index as u32, 0);
            while bit < 8 {
                crc = (crc >> 1) ^ ((crc & 1) * 0x82F6_3B78);
                bit += 1;
            }
            table[index] = crc;
            index += 1;
        }
        table
    };
    let crc = !bytes.iter().fold(!0u32, |crc, &byte| TABLE[(crc as u8 ^ byte) as usize] ^ crc >> 8);
    crc.rotate_right(15).wrapping_add(0xA282_EAD8)
}

#[cfg(test)]
mod tests {
    use super::{super::fake_run::events, *};

    /// The data of each record whose checksums, here counted bit by bit, are right.
    fn read(mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let check = |data: &[u8], got: &[u8]| {
            let mut crc = !0u32;
            for bit in data.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1)) {
                let low = crc & 1 ^ u32::from(bit);
                crc = (crc >> 1) ^ (low * 0x82F6_3B78);
            }
            let masked = (!crc).rotate_right(15).wrapping_add(0xA282_EAD8);
            assert_eq!(masked.to_le_bytes(), got);
        };
        let mut records = Vec::new();
        while !bytes.is_empty() {
            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            check(&bytes[..8], &bytes[8..12]);
            check(&bytes[12..][..length], &bytes[12 + length..][..4]);
            records.push(bytes[12..][..length].to_vec());
            bytes = &bytes[16 + length..];
        }
        records
    }

    #[test]
    fn the_checksum_is_the_published_one() {
        // CRC-32C of "123456789" is e3069283.
        assert_eq!(masked_crc(b"123456789"), 0xE306_9283u32.rotate_right(15).wrapping_add(0xA282_EAD8));
    }

    #[test]
    fn every_record_reads_back_with_its_tags() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = EventFile::create(folder.path(), 0).unwrap();
        let events = events(2, 3);
        events.iter().for_each(|event| file.event(event).unwrap());
        let path = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let records = read(&std::fs::read(path).unwrap());
        // A version, a session, 2 * 3 steps, 2 epochs, 2 validations.
        assert_eq!(records.len(), 2 + 6 + 2 + 2);
        let count = |tag: &str| {
            let tag = bytes_field(1, tag.as_bytes());
            records.iter().filter(|record| record.windows(tag.len()).any(|part| part == tag)).count()
        };
        assert_eq!(["loss/train", "loss/main", "loss/aux", "rate", "throughput"].map(count), [6; 5]);
        assert_eq!(["loss/epoch", "miou/base", "iou/cow"].map(count), [2; 3]);
        assert_eq!(count("iou/boat"), 0, "a class that does not occur has no score");
    }
}
