//! From a file's tensors to a module's parameters.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId},
    tensor::{Device, Tensor, TensorData},
};

use super::{TensorFile, WeightsError, error::Mismatch};
use crate::{encoder::Rename, nn::ConvWeights};

/// How many tensors a warning names.
const SAID: usize = 8;

/// `module` with its parameters read from `checkpoint`, whose names `rename` translates. Every parameter must be there
/// and everything there must be known; all that is not is listed in one error, before any value is read.
pub fn assign<M: Module>(
    module: M,
    checkpoint: &TensorFile,
    rename: impl Fn(&str) -> Rename,
) -> Result<M, WeightsError> {
    let sources = sources(&module, checkpoint, rename)?;
    let mut loader = Loader { checkpoint, sources, path: Path::default(), error: None };
    let module = module.map(&mut loader);
    match loader.error {
        Some(error) => Err(error),
        None => Ok(module),
    }
}

/// The tensor of a file for each parameter of a module, by their names.
fn sources<'a, M: Module>(
    module: &M,
    checkpoint: &'a TensorFile,
    rename: impl Fn(&str) -> Rename,
) -> Result<BTreeMap<String, &'a str>, WeightsError> {
    let expected = shapes(module);

    let mut wrong = Mismatch::default();
    let mut sources: BTreeMap<String, &str> = BTreeMap::new();
    for name in checkpoint.names() {
        match rename(name) {
            Rename::Skip => {}
            Rename::To(ours) if expected.contains_key(&ours) => {
                let (got, need) = (checkpoint.shape(name).unwrap_or_default(), &expected[&ours]);
                if got != need {
                    wrong.misshaped.push((name.to_string(), format!("{got:?}"), format!("{need:?}")));
                }
                sources.insert(ours, name);
            }
            _ => wrong.unexpected.push(name.to_string()),
        }
    }
    wrong.missing = expected.keys().filter(|name| !sources.contains_key(*name)).cloned().collect();
    if !wrong.is_empty() {
        return Err(WeightsError::Mismatch { path: checkpoint.path.clone(), wrong: Box::new(wrong) });
    }
    Ok(sources)
}

/// A model file that has what a module has. Values are in memory from when they were read and checked until somebody takes
/// them; after that they are read again.
#[derive(Clone)]
pub(crate) struct Checkpoint {
    file: Arc<TensorFile>,
    /// Sums of the values that were read, by name.
    sums: Arc<BTreeMap<String, u32>>,
    memory: Arc<Mutex<HashMap<String, TensorData>>>,
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint").field("path", &self.file.path).finish_non_exhaustive()
    }
}

impl Checkpoint {
    /// Reads a file that must have every parameter of `module` by its name, and nothing else.
    pub fn read<M: Module>(file: TensorFile, module: &M) -> Result<Self, WeightsError> {
        let (mut sums, mut memory) = (BTreeMap::new(), HashMap::new());
        for name in sources(module, &file, |name| Rename::To(name.to_string()))?.into_values() {
            let values = TensorData::new(file.read(name)?, file.shape(name).unwrap_or_default());
            sums.insert(name.to_string(), crc32fast::hash(values.as_bytes()));
            memory.insert(name.to_string(), values);
        }
        Ok(Self { file: Arc::new(file), sums: Arc::new(sums), memory: Arc::new(Mutex::new(memory)) })
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<String, TensorData>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The values of a tensor, which are no longer in memory here.
    fn take(&self, name: &str) -> TensorData {
        let taken = self.memory().remove(name);
        taken.unwrap_or_else(|| self.file.read_again(name, self.sums[name]))
    }

    /// The same, but they stay where they are.
    fn copy(&self, name: &str) -> TensorData {
        let copy = self.memory().get(name).cloned();
        copy.unwrap_or_else(|| self.file.read_again(name, self.sums[name]))
    }

    /// `module` with parameters that are taken from here when they are first used.
    pub fn assign_later<M: Module>(&self, module: M) -> M {
        module.map(&mut Later { checkpoint: self, path: Path::default() })
    }

    /// The weights of the convolutions of `module`, whose parameters are from here.
    pub fn conv_weights<M: Module>(&self, module: &M) -> ConvWeights {
        let mut names = WeightNames::default();
        module.visit(&mut names);
        let (checkpoint, names) = (self.clone(), names.names);
        ConvWeights::read_by(move |id| checkpoint.take(&names[&id]))
    }

    /// As [`for_each`], of a `module` whose parameters are from here. None stays in memory that was not there before.
    pub fn for_each<M: Module>(&self, module: &M, each: impl FnMut(String, TensorData)) {
        module.visit(&mut Values { path: Path::default(), checkpoint: Some(self), each });
    }
}

/// `module` with those of its parameters that `wanted` names read from a file that has them under the same names and
/// shapes. The rest stays as it is; what was wanted and not found is said in words. A file of which nothing fits is
/// refused.
pub(crate) fn assign_fitting<M: Module>(
    module: M,
    checkpoint: &TensorFile,
    wanted: impl Fn(&str) -> bool,
) -> Result<(M, Option<String>), WeightsError> {
    let expected = shapes(&module);
    let (mut sources, mut left) = (BTreeMap::new(), Vec::new());
    for (name, shape) in expected.iter().filter(|(name, _)| wanted(name)) {
        match (checkpoint.names().find(|other| other == name), checkpoint.shape(name)) {
            (Some(theirs), Some(got)) if got == shape.as_slice() => {
                sources.insert(name.clone(), theirs);
            }
            (_, Some(got)) => left.push(format!("`{name}` has {got:?}, not {shape:?}")),
            (_, None) => left.push(format!("`{name}` is not in it")),
        }
    }
    if sources.is_empty() {
        let wrong = Mismatch {
            missing: expected.into_keys().filter(|name| wanted(name)).collect(),
            ..Mismatch::default()
        };
        return Err(WeightsError::Mismatch { path: checkpoint.path.clone(), wrong: Box::new(wrong) });
    }
    let mut loader = Loader { checkpoint, sources, path: Path::default(), error: None };
    let module = module.map(&mut loader);
    match loader.error {
        Some(error) => Err(error),
        None if left.is_empty() => Ok((module, None)),
        None => {
            let some = left.iter().take(SAID).cloned().collect::<Vec<_>>().join("; ");
            let more = if left.len() > SAID { "; ..." } else { "" };
            let verb = if left.len() == 1 { "starts" } else { "start" };
            let fresh = protoseg_core::count(left.len(), "tensor");
            Ok((module, Some(format!("{fresh} {verb} fresh: {some}{more}"))))
        }
    }
}

/// Names and shapes of every parameter and running statistic of a module. Nothing is drawn for it.
pub(crate) fn shapes<M: Module>(module: &M) -> BTreeMap<String, Vec<usize>> {
    let mut names = Names::default();
    module.visit(&mut names);
    names.shapes
}

/// Every parameter and running statistic of a module with its name.
pub(crate) fn collect<M: Module>(module: &M) -> Vec<(String, TensorData)> {
    let mut tensors = Vec::new();
    for_each(module, |name, values| tensors.push((name, values)));
    tensors
}

/// Calls `each` with the name and the values of every parameter and running statistic, one after the other.
pub(crate) fn for_each<M: Module>(module: &M, each: impl FnMut(String, TensorData)) {
    module.visit(&mut Values { path: Path::default(), checkpoint: None, each });
}

/// `module` with parameter ids that follow from their names, the same in every process.
pub(crate) fn with_ids_by_name<M: Module>(module: M) -> M {
    module.map(&mut Ids::default())
}

#[derive(Default)]
struct Ids {
    path: Path,
}

impl ModuleMapper for Ids {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        self.path.exit(name, container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        // FNV-1a: some fixed function of the name; two of a network's few hundred names never meet in 64 bits.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        let id = self.path.name().bytes().fold(0xCBF2_9CE4_8422_2325, hash);
        let value = param.val();
        param.transform_for_load(value, ParamId::from(id))
    }
}

/// Where a walk through a module is.
#[derive(Default)]
struct Path(Vec<String>);

/// Enum variants are not part of a name: the config says which one it is. Nor is the field that holds what a method
/// adds to a network: in files those tensors lie beside encoder and decoder.
fn is_named(name: &str, container: &str) -> bool {
    let is_method = name == "method" && container.ends_with("Network");
    !is_method && !container.starts_with("Enum:")
}

impl Path {
    fn enter(&mut self, name: &str, container: &str) {
        if is_named(name, container) {
            self.0.push(name.to_string());
        }
    }

    fn exit(&mut self, name: &str, container: &str) {
        if is_named(name, container) {
            self.0.pop();
        }
    }

    fn name(&self) -> String {
        self.0.join(".")
    }
}

#[derive(Default)]
struct Names {
    path: Path,
    shapes: BTreeMap<String, Vec<usize>>,
}

impl ModuleVisitor for Names {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        self.path.exit(name, container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        // Without drawing initial values that are about to be replaced.
        self.shapes.insert(self.path.name(), param.lazy_shape().to_vec());
    }
}

struct Values<'a, F> {
    path: Path,
    /// Where parameters are from that were not used yet.
    checkpoint: Option<&'a Checkpoint>,
    each: F,
}

impl<F: FnMut(String, TensorData)> ModuleVisitor for Values<'_, F> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        self.path.exit(name, container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let name = self.path.name();
        let values = match self.checkpoint {
            Some(checkpoint) if !param.is_initialized() => checkpoint.copy(&name),
            _ => param.val().into_data(),
        };
        (self.each)(name, values);
    }
}

#[derive(Default)]
struct WeightNames {
    path: Path,
    names: HashMap<ParamId, String>,
}

impl ModuleVisitor for WeightNames {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        self.path.exit(name, container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.names.insert(param.id, self.path.name());
    }
}

struct Loader<'a> {
    checkpoint: &'a TensorFile,
    /// Our name -> the file's.
    sources: BTreeMap<String, &'a str>,
    path: Path,
    error: Option<WeightsError>,
}

impl ModuleMapper for Loader<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        self.path.exit(name, container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.error.is_some() {
            return param;
        }
        let Some(&name) = self.sources.get(&self.path.name()) else { return param };
        match self.checkpoint.read(name) {
            Ok(values) => {
                let data = TensorData::new(values, param.lazy_shape());
                let tensor = Tensor::from_data(data, &param.lazy_device());
                let id = param.id;
                param.transform_for_load(tensor, id)
            }
            Err(error) => {
                self.error = Some(error);
                param
            }
        }
    }
}

struct Later<'a> {
    checkpoint: &'a Checkpoint,
    path: Path,
}

impl ModuleMapper for Later<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        self.path.exit(name, container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (shape, device, name) = (param.lazy_shape(), param.lazy_device(), self.path.name());
        let checkpoint = self.checkpoint.clone();
        let take = move |device: &Device, _| Tensor::from_data(checkpoint.take(&name), device);
        Param::uninitialized(param.id, take, device, false, shape)
    }
}
