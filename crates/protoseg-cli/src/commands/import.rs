//! `protoseg import`.

use anyhow::Result;
use protoseg::{core::Classes, device::cpu, model::Model};
use serde::Serialize;

use crate::{cli::Import, output};

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    model: &'a std::path::Path,
    architecture: String,
    base: usize,
    novel: usize,
}

pub fn run(args: &Import) -> Result<()> {
    let Import { checkpoint, output, .. } = args;
    output::refuse_overwrite(output, args.force)?;
    let trimmed = |names: &[String]| names.iter().map(|name| name.trim().to_string()).collect::<Vec<_>>();
    let classes = Classes::new(&trimmed(&args.base), &trimmed(&args.novel))?;
    let (base, novel) = (classes.n_base(), classes.n_novel());
    let model = Model::import(checkpoint, classes, args.size as usize, &cpu())?;
    model.save(output)?;
    let architecture = model.config().describe();
    if args.json {
        return output::json(&Report {
            schema: "protoseg.import/1",
            model: output,
            architecture,
            base,
            novel,
        });
    }
    output::line(format_args!(
        "{architecture}: {base} base and {novel} novel classes -> {}",
        output.display()
    ))?;
    output::line(format_args!("next: protoseg info {}", output::quoted(output)))
}
