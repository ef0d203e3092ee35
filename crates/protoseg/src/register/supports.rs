//! Supports as people have them, gathered by class: in memory, in files, in a data set.

use std::{path::Path, sync::Arc};

use protoseg_core::{ClassId, ClassTable, Classes, Fold, Remap, SupportDraw, SupportList};
use protoseg_data::{
    Benchmark, DataError, Dataset, Support, SupportFiles,
    reader::coco::{self, CocoSplit},
    resolve_supports, scan,
};

use super::{RegisterError, Rest};
use crate::model::Model;

/// The supports of one or more classes, in the order they were given. Files are read when they are needed.
#[derive(Default)]
pub struct SupportSet {
    classes: Vec<ClassSources>,
}

/// The supports of one class.
pub(super) struct ClassSources {
    name: String,
    sources: Vec<Source>,
}

enum Source {
    Memory(Support),
    Files(SupportFiles),
    Sample { dataset: Arc<dyn Dataset>, index: usize, class: ClassId },
}

impl SupportSet {
    /// Without any class.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names of the classes, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().map(|class| class.name.as_str())
    }

    pub(super) fn classes(&self) -> &[ClassSources] {
        &self.classes
    }

    fn add_sources(&mut self, class: &str, sources: Vec<Source>) -> Result<(), RegisterError> {
        if self.names().any(|name| name == class) {
            return Err(RegisterError::GivenTwice { class: class.to_string() });
        }
        self.classes.push(ClassSources { name: class.to_string(), sources });
        Ok(())
    }

    /// A class from supports in memory.
    pub fn add(
        &mut self,
        class: &str,
        supports: impl IntoIterator<Item = Support>,
    ) -> Result<(), RegisterError> {
        self.add_sources(class, supports.into_iter().map(Source::Memory).collect())
    }

    /// A class from pairs of files.
    pub fn add_files(&mut self, class: &str, files: Vec<SupportFiles>) -> Result<(), RegisterError> {
        self.add_sources(class, files.into_iter().map(Source::Files).collect())
    }

    /// The classes of pairs of files that name theirs.
    pub fn add_named_files(&mut self, files: Vec<SupportFiles>) -> Result<(), RegisterError> {
        let mut classes: Vec<(String, Vec<SupportFiles>)> = Vec::new();
        for pair in files {
            match classes.iter_mut().find(|(class, _)| *class == pair.class) {
                Some((_, pairs)) => pairs.push(pair),
                None => classes.push((pair.class.clone(), vec![pair])),
            }
        }
        classes.into_iter().try_for_each(|(class, pairs)| self.add_files(&class, pairs))
    }

    /// Every class of a COCO file that the model does not have, with at most `shots` images each. `images` is the
    /// folder that the file's image names are in.
    pub fn add_coco(
        &mut self,
        annotations: &Path,
        images: &Path,
        shots: usize,
        model: &Model,
    ) -> Result<(), RegisterError> {
        let split = CocoSplit {
            name: "all".into(),
            annotations: annotations.to_path_buf(),
            images: images.to_path_buf(),
        };
        let dataset: Arc<dyn Dataset> = Arc::new(coco::open("coco", &[split], false)?);
        let classes: Vec<ClassId> = unknown_classes(dataset.classes(), model.classes()).collect();
        let found = first_samples(dataset.as_ref(), &classes, shots)?;
        for (class, found) in classes.into_iter().zip(found).filter(|(_, found)| !found.is_empty()) {
            self.add_samples(&dataset, class, found)?;
        }
        Ok(())
    }

    /// Novel classes of a fold, drawn at random from the training images; where the fold has none, every class that the
    /// model does not have.
    pub fn add_drawn(
        &mut self,
        benchmark: Benchmark,
        fold: usize,
        draw: SupportDraw,
        model: &Model,
    ) -> Result<(), RegisterError> {
        let mut fold = benchmark.fold(fold)?.clone();
        let dataset: Arc<dyn Dataset> = Arc::from(benchmark.dataset);
        if fold.novel().is_empty() {
            let unknown: Vec<ClassId> = unknown_classes(dataset.classes(), model.classes()).collect();
            fold = Fold::new(dataset.classes(), 0, &unknown).map_err(DataError::from)?;
        }
        let drawn = scan(dataset.as_ref(), &benchmark.train)?.draw_supports(dataset.as_ref(), &fold, draw)?.1;
        fold.novel()
            .iter()
            .zip(drawn)
            .try_for_each(|(&class, found)| self.add_samples(&dataset, class, found))
    }

    /// The supports that a list names, of a fold's novel classes.
    pub fn add_listed(&mut self, benchmark: Benchmark, list: &SupportList) -> Result<(), RegisterError> {
        let fold = benchmark.fold(list.fold)?.clone();
        let dataset: Arc<dyn Dataset> = Arc::from(benchmark.dataset);
        let found = resolve_supports(dataset.as_ref(), &fold, list)?;
        fold.novel()
            .iter()
            .zip(found)
            .try_for_each(|(&class, found)| self.add_samples(&dataset, class, found))
    }

    fn add_samples(
        &mut self,
        dataset: &Arc<dyn Dataset>,
        class: ClassId,
        found: Vec<usize>,
    ) -> Result<(), RegisterError> {
        let name = dataset.classes().name(class).map_or_else(|| class.to_string(), str::to_string);
        let source = |index| Source::Sample { dataset: Arc::clone(dataset), index, class };
        self.add_sources(&name, found.into_iter().map(source).collect())
    }
}

/// The first `shots` samples that hold each of the classes. Every label map is read once, whatever the number of
/// classes: maps of COCO are drawn from polygons.
fn first_samples(
    dataset: &dyn Dataset,
    classes: &[ClassId],
    shots: usize,
) -> Result<Vec<Vec<usize>>, DataError> {
    let mut found = vec![Vec::new(); classes.len()];
    for index in 0..dataset.samples().len() {
        if found.iter().all(|found| found.len() >= shots) {
            break;
        }
        let present = dataset.labels(index)?.map.present();
        for (class, found) in classes.iter().zip(&mut found) {
            if found.len() < shots && present.contains(&class.0) {
                found.push(index);
            }
        }
    }
    Ok(found)
}

/// Classes of a data set, other than its background, that are not base classes of the model.
fn unknown_classes<'a>(table: &'a ClassTable, model: &'a Classes) -> impl Iterator<Item = ClassId> + 'a {
    let base = &model.rows()[..model.n_base()];
    let is_unknown = |name: &str| base.iter().all(|class| class.name != name);
    table.foreground().filter(move |class| is_unknown(&class.name)).map(|class| class.id)
}

impl ClassSources {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// One support, with labels of the model's base classes where they are known, and what the rest is.
    pub fn load(&self, index: usize, model: &Model, rest: Rest) -> Result<Support, DataError> {
        let classes = model.classes();
        let background = (rest == Rest::Background && classes.has_background()).then_some(0);
        match &self.sources[index] {
            Source::Memory(support) => Ok(support.clone().with_rest(background)),
            Source::Files(files) => {
                let support = files.load(classes.n_base() as u16, classes.rows().len() as u16)?;
                Ok(support.with_rest(background))
            }
            Source::Sample { dataset, index, class } => {
                let (image, labels) = dataset.load(*index)?;
                let remap = Remap::for_support(dataset.classes(), classes, *class, background);
                let sample = &dataset.samples()[*index];
                let rows = remap.apply(&labels).map_err(|error| DataError::Labels {
                    path: sample.label.clone().unwrap_or_else(|| sample.image.clone()),
                    source: error,
                })?;
                Ok(Support::new(&sample.name, image, rows)?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use protoseg_data::{Contents, shapes::Labels};

    use super::*;

    /// Scenes, counting how often a label map is asked for.
    struct Counting {
        scenes: Benchmark,
        asked: AtomicUsize,
    }

    impl Dataset for Counting {
        fn contents(&self) -> &Contents {
            self.scenes.dataset.contents()
        }

        fn labels(&self, index: usize) -> Result<Labels, DataError> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.scenes.dataset.labels(index)
        }
    }

    #[test]
    fn every_label_map_is_read_once_for_all_classes() {
        let scenes = Benchmark::open("scenes", None).unwrap();
        let classes: Vec<ClassId> = scenes.dataset.classes().foreground().map(|class| class.id).collect();
        let counting = Counting { scenes, asked: AtomicUsize::new(0) };
        let found = first_samples(&counting, &classes, 2).unwrap();
        let last = found.iter().flatten().max().unwrap();
        assert!(found.iter().all(|found| found.len() == 2));
        assert_eq!(counting.asked.load(Ordering::Relaxed), last + 1);
    }
}
