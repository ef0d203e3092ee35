//! From a file's tensors to a module's parameters.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId},
    tensor::{Shape, Tensor, TensorData},
};

use super::{TensorFile, WeightsError, error::Mismatch};
use crate::encoder::Rename;

/// How many tensors a warning names.
const SAID: usize = 8;

/// `module` with its parameters read from `checkpoint`, whose names `rename` translates. Every parameter must be there
/// and everything there must be known; all that is not is listed in one error, before any value is read.
pub fn assign<M: Module>(
    module: M,
    checkpoint: &TensorFile,
    rename: impl Fn(&str) -> Rename,
) -> Result<M, WeightsError> {
    let expected = shapes(&module);

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
    let mut loader = Loader { checkpoint, sources, path: Path::default(), error: None };
    let module = module.map(&mut loader);
    match loader.error {
        Some(error) => Err(error),
        None => Ok(module),
    }
}

/// A file whose tensors [`assign`] gave to a module, to be read again.
#[derive(Clone)]
pub(crate) struct Checkpoint {
    pub file: Arc<TensorFile>,
    /// Sums of the values that were read, by name.
    sums: Arc<BTreeMap<String, u32>>,
}

impl Checkpoint {
    /// `module` has just been read from `file`, names and all.
    pub fn new<M: Module>(file: TensorFile, module: &M) -> Self {
        let mut sums = BTreeMap::new();
        for_each(module, |name, values| {
            sums.insert(name, crc32fast::hash(values.as_bytes()));
        });
        Self { file: Arc::new(file), sums: Arc::new(sums) }
    }

    /// `module` with parameters that are read when they are first used.
    pub fn assign_later<M: Module>(&self, module: M) -> M {
        module.map(&mut Later::new(self))
    }

    /// `module`, the weights of its convolutions apart from it. Those that are in memory are moved, others will be read
    /// from the file; what `module` has in their place is read when it is first used.
    pub fn take_weights<M: Module>(&self, module: M) -> (M, ConvWeights) {
        let mut take = Take { later: Later::new(self), taken: HashMap::new() };
        let module = module.map(&mut take);
        (module, ConvWeights(Mutex::new(take.taken)))
    }
}

/// How one weight is had.
type Read = Box<dyn FnOnce() -> Vec<f32> + Send>;

/// Weights of convolutions for whoever needs each of them once: none is in memory longer than it is needed. Those that
/// were not taken from their module are read there.
#[derive(Default)]
pub(crate) struct ConvWeights(Mutex<HashMap<ParamId, Read>>);

impl ConvWeights {
    /// The values of a weight, which is gone from here afterwards.
    pub fn of(&self, weight: &Param<Tensor<4>>) -> Vec<f32> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&weight.id);
        taken.map_or_else(|| values(weight.val()), |read| read())
    }
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.try_into_vec_as().expect("weights are f32")
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
    module.visit(&mut Values { path: Path::default(), each });
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

struct Values<F> {
    path: Path,
    each: F,
}

impl<F: FnMut(String, TensorData)> ModuleVisitor for Values<F> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        self.path.exit(name, container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        (self.each)(self.path.name(), param.val().into_data());
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

struct Later {
    checkpoint: Checkpoint,
    path: Path,
}

impl Later {
    fn new(checkpoint: &Checkpoint) -> Self {
        Self { checkpoint: checkpoint.clone(), path: Path::default() }
    }

    /// Reads the current parameter from the file, if it is there.
    fn read(&self, shape: Shape) -> Option<impl Fn() -> TensorData + Send + Sync + 'static> {
        let name = self.path.name();
        let sum = *self.checkpoint.sums.get(&name)?;
        let file = Arc::clone(&self.checkpoint.file);
        Some(move || file.read_again(&name, shape.clone(), sum))
    }
}

impl ModuleMapper for Later {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        self.path.exit(name, container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (shape, device) = (param.lazy_shape(), param.lazy_device());
        let Some(read) = self.read(shape.clone()) else { return param };
        Param::uninitialized(
            param.id,
            move |device, _| Tensor::from_data(read(), device),
            device,
            false,
            shape,
        )
    }
}

struct Take {
    later: Later,
    taken: HashMap<ParamId, Read>,
}

impl ModuleMapper for Take {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.later.enter_module(name, container);
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        self.later.exit_module(name, container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(read) = self.later.read(param.lazy_shape()).filter(|_| D == 4) else { return param };
        let taken: Read = if param.is_initialized() {
            let tensor = param.val();
            Box::new(|| values(tensor))
        } else {
            Box::new(move || read().try_into_vec().expect("weights are f32"))
        };
        self.taken.insert(param.id, taken);
        self.later.map_float(param)
    }
}
