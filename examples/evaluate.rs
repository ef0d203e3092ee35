//! Scores a model on a data set: novel classes are taught from drawn supports, then every image of the other split
//! counts.
//!
//!     cargo run --release --example evaluate -- MODEL DATA [IMAGES]

#![allow(clippy::print_stdout)]

use protoseg::{
    Model,
    core::Protocol,
    data::Benchmark,
    evaluate::{Evaluation, SupportSource, evaluate},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, data, limit @ ..] = &arguments[..] else {
        return Err("usage: evaluate MODEL DATA [IMAGES]".into());
    };
    let model = Model::load(model)?;
    let plan = Evaluation {
        fold: model.manifest().training.fold.unwrap_or(0),
        protocol: Protocol::Exact,
        shots: vec![1, 5],
        supports: SupportSource::Drawn { seeds: vec![123], min_pixels: None },
        usages: vec![model.usage()?],
        size: None,
        limit: limit.first().map(|limit| limit.parse()).transpose()?,
        part: None,
        second_look: false,
    };
    let evaluated = evaluate(&model, &Benchmark::open(data, None)?, &plan, &|_, _| (), |_| ())?;
    for cell in evaluated.cells {
        let scores = cell.scores;
        println!(
            "{} shots: base {:.1}, novel {:.1}, total {:.1}",
            cell.shots, scores.base, scores.novel, scores.total
        );
    }
    Ok(())
}
