//! Where the time of a run goes.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use serde::Serialize;

/// A part of the work on an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Read,
    Prepare,
    Network,
    Labels,
    Confidence,
    Index,
    Palette,
    Probability,
    Overlay,
    Gallery,
    Coco,
    Files,
}

impl Part {
    const ALL: [(Self, &str); 12] = [
        (Self::Read, "read and decode"),
        (Self::Prepare, "prepare"),
        (Self::Network, "network and classifier"),
        (Self::Labels, "labels"),
        (Self::Confidence, "confidence"),
        (Self::Index, "index PNG"),
        (Self::Palette, "palette PNG"),
        (Self::Probability, "probability PNGs"),
        (Self::Overlay, "overlay PNG"),
        (Self::Gallery, "gallery thumbnails"),
        (Self::Coco, "COCO regions"),
        (Self::Files, "writing files"),
    ];
}

/// Time spent on each part, over all images and threads.
#[derive(Debug, Default)]
pub struct Timings([AtomicU64; Part::ALL.len()]);

/// The time of one part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartTime {
    pub part: &'static str,
    pub seconds: f64,
}

impl Timings {
    /// Does some work and adds its time to a part.
    pub fn time<T>(&self, part: Part, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0[part as usize].fetch_add(nanos, Ordering::Relaxed);
        done
    }

    /// The parts that took any time.
    pub fn parts(&self) -> Vec<PartTime> {
        let seconds = self.0.iter().map(|nanos| nanos.load(Ordering::Relaxed) as f64 / 1e9);
        let all = Part::ALL.into_iter().zip(seconds);
        all.filter(|(_, seconds)| *seconds > 0.0)
            .map(|((_, part), seconds)| PartTime { part, seconds })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_own_name_and_time() {
        for (place, (part, _)) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, place);
        }
        let timings = Timings::default();
        assert_eq!(timings.time(Part::Overlay, || 7), 7);
        let parts = timings.parts();
        assert_eq!((parts.len(), parts[0].part), (1, "overlay PNG"));
    }
}
