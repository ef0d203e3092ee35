//! Class packs: what supports have taught a model, in a small file of its own.
//!
//! A pack keeps, for every support, the sum of the features over its class and over each base class labelled in it, and
//! how many positions those were. Prototypes and SCE follow from the sums, so classes can be added, removed and
//! merged in any order: the classifier is the one that all its classes registered at once would give, bit for bit.
//!
//! A class with the name of one of the model's own classes refines that class.

use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
};

use burn::tensor::TensorData;
use protoseg_core::{NameError, check_name};
use protoseg_data::Lock;
use serde::{Deserialize, Serialize};

use crate::{
    method::{
        Usage,
        support_sums::{ClassSum, Clusters, Pooled, SupportSums},
    },
    model::Model,
    register::{Classifier, RegisterError},
    weights::{TensorFile, WeightsError, serialize, write_checked},
};

/// Novel classes of one model, and supports that refine its own.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassPack {
    /// [`Model::fingerprint`] of the model.
    model: String,
    /// Length of a feature.
    dim: usize,
    /// Names of the model's own classes, which classes of the pack refine; empty in packs of older versions.
    base: Vec<String>,
    /// By name.
    classes: Vec<PackClass>,
}

/// A novel class, or a refined one of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct PackClass {
    /// Its name.
    pub name: String,
    /// Chosen by the user; without, the class gets the colour of its row.
    pub color: Option<[u8; 3]>,
    /// One per support, in an order that follows from their content.
    pub shots: Vec<Shot>,
}

/// What a pack keeps of one support.
#[derive(Clone, Debug, PartialEq)]
pub struct Shot {
    /// The image's name, for people.
    pub image: String,
    /// Pixels of the class in the mask.
    pub pixels: u64,
    /// Over the pixels of the class.
    pub own: Pooled,
    /// Over the pixels of base classes, by row.
    pub context: Vec<(u16, Pooled)>,
    /// Groups of similar pixels, if the model's method keeps several prototypes per class.
    pub clusters: Clusters,
}

/// A pack that cannot be read, changed or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// Its tensors cannot be read or written.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The file is not a pack, or a damaged one.
    #[error("`{}` is not a class pack: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The pack was made for another model.
    #[error(
        "the pack is for the model `{pack}`, but this model is `{model}`\n\
         hint: prototypes of one model mean nothing to another; register the classes again with this one"
    )]
    OtherModel {
        /// Fingerprint that the pack names.
        pack: String,
        /// Fingerprint of this model.
        model: String,
    },
    /// The pack says that it is this model's, but what it holds is not.
    #[error("the pack cannot be this model's: {reason}\nhint: it is damaged; register its classes again")]
    Unfit {
        /// What does not fit.
        reason: String,
    },
    /// The pack cannot be locked.
    #[error("cannot lock `{}`: {source}\nhint: check that its folder exists and may be written to", path.display())]
    Lock {
        /// The pack.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// What was written is not what is read again.
    #[error("`{}` could not be written: what was read back differs\nhint: check the disk; the file is as it was before", path.display())]
    ReadBack {
        /// The pack.
        path: PathBuf,
    },
    /// A class of that name is there.
    #[error("class `{0}` is already in the pack")]
    Twice(String),
    /// The model has a class of that name.
    #[error("`{class}` is the name of one of the model's own classes")]
    BaseName {
        /// The class.
        class: String,
    },
    /// No class of that name is there.
    #[error("class `{name}` is not in the pack\nhint: its classes are: {known}")]
    NoClass {
        /// The name that was asked for.
        name: String,
        /// Names that are there.
        known: String,
    },
    /// The name cannot be that of a class.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The class has no support.
    #[error("class `{class}` has no support\nhint: give it at least one image with a mask")]
    NoShots {
        /// The class.
        class: String,
    },
}

const KEY: &str = "protoseg-pack";
const SUMS: &str = "sums";
const CLUSTERS: &str = "clusters";
/// The layout that is written. Format 1, without clusters, is read too.
const FORMAT: u32 = 2;

/// What the file says beside the sums, whose rows are: of every class, of every shot, own, then context; and beside the
/// clusters, whose rows are: of every class, of every shot, own, then rest.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    format: u32,
    model: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    base: Vec<String>,
    classes: Vec<ListedClass>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedClass {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    color: Option<[u8; 3]>,
    shots: Vec<ListedShot>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedShot {
    image: String,
    pixels: u64,
    count: f32,
    /// Row of a base class and number of its positions.
    context: Vec<(u16, f32)>,
    #[serde(default, skip_serializing_if = "ListedClusters::is_empty")]
    clusters: ListedClusters,
}

/// Numbers of positions.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedClusters {
    own: Vec<f32>,
    rest: Vec<f32>,
    beaten_by: Vec<(u16, f32)>,
}

impl ListedClusters {
    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.rest.is_empty() && self.beaten_by.is_empty()
    }
}

impl ClassPack {
    /// A pack without classes, for this model.
    pub fn new(model: &Model) -> Self {
        let dim = model.manifest().method.remembered(model.config().dim);
        Self { model: model.fingerprint(), dim, base: base_names(model).collect(), classes: Vec::new() }
    }

    /// Fingerprint of the model the pack is for.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// By name.
    pub fn classes(&self) -> &[PackClass] {
        &self.classes
    }

    /// The class of that name.
    pub fn class(&self, name: &str) -> Result<&PackClass, PackError> {
        self.place(name).map(|place| &self.classes[place])
    }

    /// Whether a class of that name is there.
    pub fn has(&self, name: &str) -> bool {
        self.classes.binary_search_by(|class| class.name.as_str().cmp(name)).is_ok()
    }

    fn place(&self, name: &str) -> Result<usize, PackError> {
        let place = self.classes.binary_search_by(|class| class.name.as_str().cmp(name));
        place.map_err(|_| PackError::NoClass {
            name: name.to_string(),
            known: self
                .classes
                .iter()
                .map(|class| format!("`{}`", class.name))
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    /// Adds a class.
    pub fn add(&mut self, mut class: PackClass) -> Result<(), PackError> {
        check_name(&class.name)?;
        let Err(place) = self.classes.binary_search_by(|other| other.name.cmp(&class.name)) else {
            return Err(PackError::Twice(class.name));
        };
        if class.shots.is_empty() {
            return Err(PackError::NoShots { class: class.name });
        }
        // Sums of floats depend on their order, if only in the last bit: it must follow from what is there.
        class.shots.sort_by_cached_key(Shot::order);
        self.classes.insert(place, class);
        Ok(())
    }

    /// Takes a class out.
    pub fn remove(&mut self, name: &str) -> Result<PackClass, PackError> {
        let place = self.place(name)?;
        Ok(self.classes.remove(place))
    }

    /// Gives a novel class another name, which is not that of one of the model's own classes.
    pub fn rename(&mut self, name: &str, new: &str) -> Result<(), PackError> {
        let place = self.place(name)?;
        if new != name && self.has(new) {
            return Err(PackError::Twice(new.to_string()));
        }
        // Neither does a new class become a refined one, nor the other way round.
        if let Some(class) = [name, new].into_iter().find(|class| self.refines(class)) {
            return Err(PackError::BaseName { class: class.to_string() });
        }
        let class = self.classes.remove(place);
        self.add(PackClass { name: new.to_string(), ..class })
    }

    /// Gives a class a colour.
    pub fn recolor(&mut self, name: &str, color: [u8; 3]) -> Result<(), PackError> {
        let place = self.place(name)?;
        self.classes[place].color = Some(color);
        Ok(())
    }

    /// Takes in the classes of another pack of the same model.
    pub fn merge(&mut self, other: Self) -> Result<(), PackError> {
        if other.model != self.model {
            return Err(PackError::OtherModel { pack: other.model, model: self.model.clone() });
        }
        if other.dim != self.dim {
            let reason = format!("its sums have {} values, those of the other pack {}", self.dim, other.dim);
            return Err(PackError::Unfit { reason });
        }
        self.refuse_mistaken(&other.base)?;
        other.refuse_mistaken(&self.base)?;
        if self.base.is_empty() {
            self.base = other.base;
        }
        other.classes.into_iter().try_for_each(|class| self.add(class))
    }

    /// Refuses a model that the pack is not for, or that the pack was never meant to refine.
    pub fn check(&self, model: &Model) -> Result<(), PackError> {
        let fingerprint = model.fingerprint();
        if fingerprint != self.model {
            return Err(PackError::OtherModel { pack: self.model.clone(), model: fingerprint });
        }
        self.check_contents(model).map_err(|reason| PackError::Unfit { reason })?;
        self.refuse_mistaken(&base_names(model).collect::<Vec<_>>())
    }

    /// What a pack of this model holds has the model's sizes.
    fn check_contents(&self, model: &Model) -> Result<(), String> {
        let expected = model.manifest().method.remembered(model.config().dim);
        if self.dim != expected {
            return Err(format!("its sums have {} values, the model's have {expected}", self.dim));
        }
        let n_base = model.classes().n_base();
        for (class, shot) in self.shots() {
            if let Some((row, _)) = shot.context.iter().find(|(row, _)| usize::from(*row) >= n_base) {
                return Err(format!(
                    "class `{class}` names row {row}, but the model has {n_base} base classes"
                ));
            }
            let groups = shot.clusters.own.iter().chain(&shot.clusters.rest);
            if let Some(group) = groups.into_iter().find(|group| group.sum.len() != model.config().dim) {
                let (got, dim) = (group.sum.len(), model.config().dim);
                return Err(format!(
                    "clusters of class `{class}` have {got} values, the model's features {dim}"
                ));
            }
        }
        Ok(())
    }

    /// All supports, with the names of their classes.
    fn shots(&self) -> impl Iterator<Item = (&str, &Shot)> {
        self.classes.iter().flat_map(|class| class.shots.iter().map(|shot| (class.name.as_str(), shot)))
    }

    /// The right to change the pack at `path`: whoever reads it, changes it and writes it again holds this meanwhile.
    /// While another process has it, `waiting` is told which, and this waits.
    pub fn lock(path: impl AsRef<Path>, waiting: impl FnOnce(&str)) -> Result<Lock, PackError> {
        let path = path.as_ref();
        Lock::wait(path, waiting).map_err(|source| PackError::Lock { path: path.to_path_buf(), source })
    }

    /// Older versions let a class be renamed to the name of one of the model's own; it was not meant to refine that.
    fn refuse_mistaken(&self, base: &[String]) -> Result<(), PackError> {
        let is_mistaken = |class: &&PackClass| self.base.is_empty() && base.contains(&class.name);
        match self.classes.iter().find(is_mistaken) {
            Some(class) => Err(PackError::BaseName { class: class.name.clone() }),
            None => Ok(()),
        }
    }

    /// The same pack, with the names of the model's own classes if it is of an older version.
    pub(crate) fn knowing(self, model: &Model) -> Self {
        Self { base: base_names(model).collect(), ..self }
    }

    /// Whether the class of that name refines one of the model's own.
    pub fn refines(&self, name: &str) -> bool {
        self.base.iter().any(|base| base == name)
    }

    /// Novel classes in the order of their rows in a classifier of this model: those that the model's own description
    /// names as novel come first, in its order; the others follow by name.
    pub fn by_row(&self, model: &Model) -> Vec<&PackClass> {
        let classes = model.classes();
        let named: Vec<&str> = classes.names(protoseg_core::ClassRole::Novel).collect();
        let base: HashSet<String> = base_names(model).collect();
        let mut order: Vec<&PackClass> =
            self.classes.iter().filter(|class| !base.contains(&class.name)).collect();
        let named: HashMap<&str, usize> = (0..).zip(named).map(|(place, name)| (name, place)).collect();
        order.sort_by_key(|class| named.get(class.name.as_str()).copied().unwrap_or(usize::MAX));
        order
    }

    /// The classifier of the model's base classes and the pack's. The pack must be the model's ([`Self::check`]).
    pub fn classifier(&self, model: &Model, usage: &Usage) -> Result<Classifier, RegisterError> {
        let order = self.by_row(model);
        let names: Vec<&str> = order.iter().map(|class| class.name.as_str()).collect();
        let novel = (model.classes().n_base() as u16..).zip(order);
        let refined =
            (0u16..).zip(base_names(model)).filter_map(|(row, name)| Some((row, self.class(&name).ok()?)));
        let supports: Vec<SupportSums> = novel
            .chain(refined)
            .flat_map(|(row, class)| class.shots.iter().map(move |shot| shot.sums(row)))
            .collect();
        model.classifier(&names, &supports, usage)
    }

    /// What a file of the pack holds: tensors, and what is said of them.
    fn contents(&self) -> (Vec<(String, TensorData)>, HashMap<String, String>) {
        let listed = |shot: &Shot| ListedShot {
            image: shot.image.clone(),
            pixels: shot.pixels,
            count: shot.own.count,
            context: shot.context.iter().map(|(row, pooled)| (*row, pooled.count)).collect(),
            clusters: ListedClusters {
                own: shot.clusters.own.iter().map(|group| group.count).collect(),
                rest: shot.clusters.rest.iter().map(|group| group.count).collect(),
                beaten_by: shot.clusters.beaten_by.clone(),
            },
        };
        let classes = self.classes.iter().map(|class| ListedClass {
            name: class.name.clone(),
            color: class.color,
            shots: class.shots.iter().map(listed).collect(),
        });
        let (model, base) = (self.model.clone(), self.base.clone());
        let listing = Listing { format: FORMAT, model, base, classes: classes.collect() };
        let listing = serde_json::to_string(&listing).expect("a listing is plain data");
        let shots = self.classes.iter().flat_map(|class| &class.shots);
        let pooled =
            shots.flat_map(|shot| std::iter::once(&shot.own).chain(shot.context.iter().map(|(_, own)| own)));
        let shots = self.classes.iter().flat_map(|class| &class.shots);
        let groups = shots.flat_map(|shot| shot.clusters.own.iter().chain(&shot.clusters.rest));
        let mut tensors = vec![(SUMS.to_string(), table(pooled, self.dim))];
        if groups.clone().next().is_some() {
            let dim = groups.clone().next().map_or(self.dim, |group| group.sum.len());
            tensors.push((CLUSTERS.to_string(), table(groups, dim)));
        }
        (tensors, HashMap::from([(KEY.to_string(), listing)]))
    }

    /// Writes the pack, whole or not at all. It is read again before it replaces anything.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), PackError> {
        let (tensors, metadata) = self.contents();
        let path = path.as_ref();
        write_checked(path, tensors, metadata, |written| match Self::load(written) {
            Ok(again) if again == *self => Ok(()),
            _ => Err(PackError::ReadBack { path: path.to_path_buf() }),
        })
    }

    /// Reads a pack.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, PackError> {
        Self::of_file(&TensorFile::open(path.as_ref())?)
    }

    /// The bytes of the pack's file, to send the pack elsewhere ([`Self::from_bytes`]).
    pub fn to_bytes(&self) -> Result<Vec<u8>, PackError> {
        let (tensors, metadata) = self.contents();
        let failed = |source| WeightsError::Write { path: "the pack".into(), source };
        Ok(serialize(tensors, metadata).map_err(failed)?)
    }

    /// The pack of a file that is in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, PackError> {
        Self::of_file(&TensorFile::in_memory("the pack in memory", bytes)?)
    }

    fn of_file(file: &TensorFile) -> Result<Self, PackError> {
        let wrong = |reason: String| PackError::Format { path: file.path.clone(), reason };
        let listing = file.metadata.get(KEY).ok_or_else(|| wrong("it does not say that it is one".into()))?;
        let listing: Listing = serde_json::from_str(listing).map_err(|error| wrong(error.to_string()))?;
        if !(1..=FORMAT).contains(&listing.format) {
            let got = listing.format;
            return Err(wrong(format!("this version reads formats up to {FORMAT}, got `{got}`")));
        }
        let Some(&[rows, dim]) = file.shape(SUMS) else {
            return Err(wrong("it holds no table of sums".into()));
        };
        let sums = file.read(SUMS)?;
        if !sums.chunks_exact(dim.max(1)).all(has_length) {
            return Err(wrong("a sum of features is zero or far too large".into()));
        }
        let shots = || listing.classes.iter().flat_map(|class| &class.shots);
        let counts = shots()
            .flat_map(|shot| std::iter::once(shot.count).chain(shot.context.iter().map(|(_, count)| *count)));
        if counts.clone().count() != rows || dim == 0 {
            return Err(wrong(format!("{rows} sums of {dim} values are not what it lists")));
        }
        if counts.clone().any(|count| !(count.is_finite() && count > 0.0)) {
            return Err(wrong("a sum is over no positions".into()));
        }
        let groups = shots().flat_map(|shot| shot.clusters.own.iter().chain(&shot.clusters.rest));
        let clusters = match file.shape(CLUSTERS) {
            Some(&[rows, _]) if rows == groups.clone().count() => file.read(CLUSTERS)?,
            None if groups.clone().next().is_none() => Vec::new(),
            _ => return Err(wrong("its clusters are not those that it lists".into())),
        };
        let beaten = shots().flat_map(|shot| shot.clusters.beaten_by.iter().map(|(_, count)| count));
        if groups.chain(beaten).any(|count| !(count.is_finite() && *count > 0.0)) {
            return Err(wrong("a cluster is of no positions".into()));
        }
        let cluster_dim = file.shape(CLUSTERS).and_then(|shape| shape.last()).copied().unwrap_or(dim);
        if !clusters.chunks_exact(cluster_dim.max(1)).all(has_length) {
            return Err(wrong("a cluster of features is zero or far too large".into()));
        }
        let mut clusters = clusters.chunks_exact(cluster_dim.max(1));
        let mut sums = sums.chunks_exact(dim);
        let mut next = |count: f32| Pooled { sum: sums.next().unwrap_or_default().to_vec(), count };
        let mut groups = |counts: Vec<f32>| -> Vec<Pooled> {
            let group = |count| Pooled { sum: clusters.next().unwrap_or_default().to_vec(), count };
            counts.into_iter().map(group).collect()
        };
        let mut pack = Self { model: listing.model, dim, base: listing.base, classes: Vec::new() };
        for class in listing.classes {
            let mut shots = Vec::new();
            for shot in class.shots {
                let own = next(shot.count);
                let context = shot.context.into_iter().map(|(row, count)| (row, next(count))).collect();
                let ListedClusters { own: own_groups, rest, beaten_by } = shot.clusters;
                let clusters = Clusters { own: groups(own_groups), rest: groups(rest), beaten_by };
                shots.push(Shot { image: shot.image, pixels: shot.pixels, own, context, clusters });
            }
            pack.add(PackClass { name: class.name, color: class.color, shots })?;
        }
        Ok(pack)
    }
}

/// Whether a vector can be brought to unit length.
fn has_length(vector: &[f32]) -> bool {
    let square: f32 = vector.iter().map(|value| value * value).sum();
    square.is_finite() && square > 0.0
}

/// Names of the model's own classes.
fn base_names(model: &Model) -> impl Iterator<Item = String> {
    let classes = model.classes();
    classes.rows()[..classes.n_base()].iter().map(|class| class.name.clone())
}

impl Shot {
    /// What registration pooled from an image of the class with this row; nothing where no position of it is left.
    pub fn new(image: &str, pixels: u64, sums: SupportSums) -> Option<Self> {
        let mut own = None;
        let mut context = Vec::new();
        for ClassSum { row, sum, count } in sums.sums {
            let pooled = Pooled { sum, count };
            match row == sums.novel {
                true => own = Some(pooled),
                false => context.push((row, pooled)),
            }
        }
        let clusters = sums.clusters;
        own.map(|own| Self { image: image.to_string(), pixels, own, context, clusters })
    }

    /// The same as registration takes it, with this row for its class.
    pub fn sums(&self, novel: u16) -> SupportSums {
        let sum = |row: u16, pooled: &Pooled| ClassSum { row, sum: pooled.sum.clone(), count: pooled.count };
        let context = self.context.iter().map(|(row, pooled)| sum(*row, pooled));
        let sums = std::iter::once(sum(novel, &self.own)).chain(context).collect();
        SupportSums { novel, sums, clusters: self.clusters.clone() }
    }

    /// Whether all it keeps can be compared with. The features of a model with damaged weights may be zero, or no numbers.
    pub fn is_usable(&self) -> bool {
        let context = self.context.iter().map(|(_, pooled)| pooled);
        let groups = self.clusters.own.iter().chain(&self.clusters.rest);
        std::iter::once(&self.own).chain(context).chain(groups).all(|pooled| has_length(&pooled.sum))
    }

    /// Something to sort by that depends on nothing but the shot.
    fn order(&self) -> (String, u64, Vec<u32>) {
        (self.image.clone(), self.pixels, self.own.sum.iter().map(|value| value.to_bits()).collect())
    }
}

/// Sums as a table, `[sums, dim]`.
fn table<'a>(sums: impl Iterator<Item = &'a Pooled>, dim: usize) -> TensorData {
    let values: Vec<f32> = sums.flat_map(|pooled| pooled.sum.iter().copied()).collect();
    let rows = values.len() / dim.max(1);
    TensorData::new(values, [rows, dim])
}
