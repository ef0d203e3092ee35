//! Supports as people have them, gathered by class: in memory, in files, in a data set.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::Arc,
};

use protoseg_core::{ClassId, ClassTable, Classes, IGNORE, Remap, SupportDraw, SupportList, seed};
use protoseg_data::{
    Benchmark, DataError, Dataset, MaskSource, Support, SupportFiles,
    reader::coco::{self, CocoSplit},
    resolve_supports, scan,
};

use super::{RegisterError, Rest};
use crate::model::Model;

/// The supports of one or more classes, in the order they were given. Files are read when they are needed.
#[derive(Default)]
pub struct SupportSet {
    classes: Vec<ClassSources>,
    /// Names of the classes.
    taken: HashSet<String>,
}

/// The supports of one class.
pub(super) struct ClassSources {
    name: String,
    sources: Vec<Source>,
    /// What gathering them has to say.
    warnings: Vec<String>,
}

enum Source {
    Memory(Support),
    Files(SupportFiles),
    Sample {
        dataset: Arc<dyn Dataset>,
        index: usize,
        class: ClassId,
        /// Whether pixels of the data set's background are known to be none of the model's classes.
        knows_background: bool,
    },
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
        if !self.taken.insert(class.to_string()) {
            return Err(RegisterError::GivenTwice { class: class.to_string() });
        }
        self.classes.push(ClassSources { name: class.to_string(), sources, warnings: Vec::new() });
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
        let mut places: HashMap<String, usize> = HashMap::new();
        for pair in files {
            let place = *places.entry(pair.class.clone()).or_insert(classes.len());
            if place == classes.len() {
                classes.push((pair.class.clone(), Vec::new()));
            }
            classes[place].1.push(pair);
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
            self.add_samples(&dataset, class, found, false)?;
        }
        Ok(())
    }

    /// Every class of a data set without folds that the model does not have, with at most `draw.n_shots` of the
    /// training images that hold it, drawn at random. An image may hold other classes too; no rule of a benchmark
    /// applies. Pixels outside all labels say nothing: on people's own photos they may be anything.
    pub fn add_labelled(
        &mut self,
        benchmark: Benchmark,
        draw: SupportDraw,
        model: &Model,
    ) -> Result<(), RegisterError> {
        let dataset: Arc<dyn Dataset> = Arc::from(benchmark.dataset);
        let stats = scan(dataset.as_ref(), &benchmark.train)?;
        let mut is_empty = true;
        for class in unknown_classes(dataset.classes(), model.classes()) {
            let least = draw.min_pixels.max(1);
            let images = stats.indices.iter().zip(&stats.stats);
            let mut found: Vec<usize> =
                images.filter(|(_, stats)| stats.pixels(class) >= least).map(|(&index, _)| index).collect();
            if found.is_empty() {
                continue;
            }
            is_empty = false;
            seed::shuffle(&mut found, &mut seed::stream(draw.seed, &[u64::from(class.0)]));
            found.truncate(draw.n_shots);
            self.add_samples(&dataset, class, found, false)?;
        }
        match is_empty {
            false => Ok(()),
            true => Err(RegisterError::NothingNew {
                dataset: dataset.name().to_string(),
                classes: dataset
                    .classes()
                    .foreground()
                    .map(|class| format!("`{}`", class.name))
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
        }
    }

    /// Warns of every class that has fewer supports than were asked for.
    pub fn expect(&mut self, shots: usize) {
        for class in self.classes.iter_mut().filter(|class| class.sources.len() < shots) {
            let (name, got) = (&class.name, class.sources.len());
            class.warnings.push(format!("`{name}` has fewer supports than asked for: {got} of {shots}"));
        }
    }

    /// Novel classes of a fold, drawn at random from the training images by the rules of its benchmark.
    pub fn add_drawn(
        &mut self,
        benchmark: Benchmark,
        fold: usize,
        draw: SupportDraw,
    ) -> Result<(), RegisterError> {
        let fold = benchmark.fold(fold)?.clone();
        let dataset: Arc<dyn Dataset> = Arc::from(benchmark.dataset);
        let drawn = scan(dataset.as_ref(), &benchmark.train)?.draw_supports(dataset.as_ref(), &fold, draw)?.1;
        fold.novel()
            .iter()
            .zip(drawn)
            .try_for_each(|(&class, found)| self.add_samples(&dataset, class, found, true))
    }

    /// The supports that a list names, of a fold's novel classes.
    pub fn add_listed(&mut self, benchmark: Benchmark, list: &SupportList) -> Result<(), RegisterError> {
        let fold = benchmark.fold(list.fold)?.clone();
        let dataset: Arc<dyn Dataset> = Arc::from(benchmark.dataset);
        let found = resolve_supports(dataset.as_ref(), &fold, list)?;
        fold.novel()
            .iter()
            .zip(found)
            .try_for_each(|(&class, found)| self.add_samples(&dataset, class, found, true))
    }

    fn add_samples(
        &mut self,
        dataset: &Arc<dyn Dataset>,
        class: ClassId,
        found: Vec<usize>,
        knows_background: bool,
    ) -> Result<(), RegisterError> {
        let name = dataset.classes().name(class).map_or_else(|| class.to_string(), str::to_string);
        let source = |index| Source::Sample { dataset: Arc::clone(dataset), index, class, knows_background };
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

    /// What gathering its supports has to say.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// One support, with labels of the model's base classes where they are known, and what the rest is.
    pub fn load(&self, index: usize, model: &Model, rest: Rest) -> Result<Support, DataError> {
        let classes = model.classes();
        let background = (rest == Rest::Background && classes.has_background()).then_some(0);
        match &self.sources[index] {
            Source::Memory(support) => Ok(support.clone().with_rest(background)),
            Source::Files(files) => {
                let support = files.load(classes.n_base() as u16, classes.rows().len() as u16)?;
                // Beside a scribble the class goes on.
                let background = background.filter(|_| !matches!(files.mask, MaskSource::Scribble(_)));
                Ok(support.with_rest(background))
            }
            Source::Sample { dataset, index, class, knows_background } => {
                let (image, mut labels) = dataset.load(*index)?;
                if let (Some(outside), false, Rest::Ignore) =
                    (dataset.classes().background(), knows_background, rest)
                {
                    let is_outside = |label: &&mut u16| **label == outside.0;
                    labels.data.iter_mut().filter(is_outside).for_each(|label| *label = IGNORE);
                }
                // Other classes of a folder are new too, and no background.
                let background = background.filter(|_| *knows_background);
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
