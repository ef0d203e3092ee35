//! `protoseg import`.

use anyhow::{Result, bail};
use protoseg::{core::Classes, device::cpu, model::Model};
use serde::Serialize;

use crate::{cli::Import, output};

/// Side of the reference's canvas on Pascal.
const SIZE: usize = 473;

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    model: &'a std::path::Path,
    method: String,
    architecture: String,
    base: usize,
    novel: usize,
}

pub fn run(args: &Import) -> Result<()> {
    let Import { checkpoint, output, .. } = args;
    output::refuse_overwrite(output, args.force)?;
    let size = args.size.map(|size| size as usize);
    let few_shot = Model::import_few_shot(checkpoint, size, &cpu())?;
    let is_few_shot = few_shot.is_some();
    let model = match few_shot {
        Some(model) => model,
        None => Model::import(checkpoint, classes(args)?, size.unwrap_or(SIZE), &cpu())?,
    };
    model.save(output)?;
    let (base, novel) = match is_few_shot {
        true => (0, 0),
        false => (model.classes().n_base(), model.classes().n_novel()),
    };
    let (method, architecture) = (model.manifest().method.name(), model.config().describe());
    if args.json {
        let schema = "protoseg.import/1";
        return output::json(&Report { schema, model: output, method, architecture, base, novel });
    }
    let to = output.display();
    if is_few_shot {
        output::line(format_args!("{method}, a few-shot system: {architecture} -> {to}"))?;
        let next = format!(
            "next: protoseg segment --model {} --query IMAGE --support IMAGE:MASK",
            output::quoted(output)
        );
        return output::line(next);
    }
    output::line(format_args!("{architecture}: {base} base and {novel} novel classes -> {to}"))?;
    output::line(format_args!("next: protoseg info {}", output::quoted(output)))
}

fn classes(args: &Import) -> Result<Classes> {
    if args.base.is_empty() {
        bail!(
            "`{}` is of no few-shot system that is known, so its classes must be named\n\
             hint: for a checkpoint of the GFS-Seg reference give --base and --novel, every row in order",
            args.checkpoint.display()
        );
    }
    let trimmed = |names: &[String]| names.iter().map(|name| name.trim().to_string()).collect::<Vec<_>>();
    Ok(Classes::new(&trimmed(&args.base), &trimmed(&args.novel))?)
}
