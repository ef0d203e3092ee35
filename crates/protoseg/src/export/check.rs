//! An exported file run by another runtime: rten, which shares no code with us.

use burn::tensor::{DType, TensorData};
use rten::{Model, NodeId, Value, ValueOrView};

use super::sample::{Agreement, Sample};

/// A file that the runtime cannot read or run.
#[derive(Debug, thiserror::Error)]
#[error("the runtime cannot {what} the file: {reason}")]
pub struct CheckError {
    what: &'static str,
    reason: String,
}

impl CheckError {
    fn new(what: &'static str, reason: impl ToString) -> Self {
        Self { what, reason: reason.to_string() }
    }
}

/// What the runtime makes of a sample with a file of these bytes, beside our answer.
pub fn check(bytes: &[u8], sample: &Sample) -> Result<Agreement, CheckError> {
    let model = Model::load(bytes.to_vec()).map_err(|error| CheckError::new("read", error))?;
    let id = |name: &str| -> Result<NodeId, CheckError> {
        model.node_id(name).map_err(|error| CheckError::new("read", error))
    };
    let image = value(&[1, sample.height, sample.width, 3], sample.image.clone())?;
    let mut inputs: Vec<(NodeId, ValueOrView)> = vec![(id("image")?, image.into())];
    for (name, data) in &sample.more {
        inputs.push((id(name)?, rows(data)?.into()));
    }
    let outputs = [id("labels")?, id("scores")?];
    let answer = model.run(inputs, &outputs, None).map_err(|error| CheckError::new("run", error))?;
    let [labels, scores] = <[Value; 2]>::try_from(answer)
        .map_err(|answer| CheckError::new("run", format!("{} outputs instead of 2", answer.len())))?;
    let wrong = |error| CheckError::new("run", error);
    let (_, labels) = labels.into_shape_vec::<i32, 3>().map_err(wrong)?;
    let (_, scores) = scores.into_shape_vec::<f32, 4>().map_err(wrong)?;
    if (labels.len(), scores.len()) != (sample.labels.len(), sample.scores.len()) {
        return Err(CheckError::new("run", "its answer has another size than ours"));
    }
    Ok(sample.compare(&labels, &scores))
}

/// An input as the runtime takes it; it has no 64-bit integers.
fn rows(data: &TensorData) -> Result<Value, CheckError> {
    let shape = data.shape().as_slice();
    match data.dtype() {
        DType::U8 => value(shape, data.iter::<u8>().collect::<Vec<u8>>()),
        DType::I64 => value(shape, data.iter::<i32>().collect::<Vec<i32>>()),
        _ => value(shape, data.iter::<f32>().collect::<Vec<f32>>()),
    }
}

fn value<T>(shape: &[usize], data: Vec<T>) -> Result<Value, CheckError>
where
    Value: From<rten_tensor::Tensor<T>>,
{
    Value::from_shape(shape, data).map_err(|error| CheckError::new("run", error))
}
