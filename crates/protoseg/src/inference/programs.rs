//! Programs of the parts of one network, made when they are first needed.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Extractor, Precision};
use crate::{
    network::{Network, Section},
    nn::ConvWeights,
};

/// Programs that are kept. A method needs two or three; each size of input needs its own, and photos of a folder may have
/// many shapes.
const KEPT: usize = 16;

/// What a program is for: a part of the network, and `[height, width, channels]` of its input.
type Key = (Section, [usize; 3]);

/// The programs of one network. Weights must not change while this lives.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    precision: Precision,
    /// Last used last; none where a layer has no kernel.
    made: Mutex<VecDeque<(Key, Option<Arc<Extractor>>)>>,
}

impl Programs {
    /// No program yet; those to come have this precision.
    pub fn new(precision: Precision) -> Self {
        Self { precision, made: Mutex::default() }
    }

    /// That of all programs.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// The program for a part of the network, or none if it has a layer without a kernel.
    pub fn get<'n>(
        &self,
        network: impl FnOnce() -> (&'n Network, ConvWeights),
        section: &Section,
        input: [usize; 3],
    ) -> Option<Arc<Extractor>> {
        if let Some(program) = self.find(section, input) {
            return program;
        }
        // Not while the list is locked: packing weights shares its loops with other threads, which may want a program.
        let (network, weights) = network();
        let program = Extractor::of(network, &weights, section, input, self.precision).ok().map(Arc::new);
        // Another thread may have made the same meanwhile.
        if let Some(program) = self.find(section, input) {
            return program;
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() == KEPT {
            made.pop_front();
        }
        made.push_back(((section.clone(), input), program.clone()));
        program
    }

    /// A program that was made before, which is then the last used.
    fn find(&self, section: &Section, input: [usize; 3]) -> Option<Option<Arc<Extractor>>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let place = made.iter().position(|((of, size), _)| of == section && *size == input)?;
        let found = made.remove(place)?;
        let program = found.1.clone();
        made.push_back(found);
        Some(program)
    }
}
