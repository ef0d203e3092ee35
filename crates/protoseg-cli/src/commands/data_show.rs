//! `protoseg data show`.

use std::path::Path;

use anyhow::{Result, bail};
use protoseg::{
    core::count,
    picture::{hex, name_sheet},
};
use protoseg_data::{Dataset, LegendEntry, SheetOptions, contact_sheet, picture::write_image};
use serde::Serialize;

use super::data_check::open;
use crate::{cli::Show, output};

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    sheet: &'a Path,
    samples: &'a [String],
    legend: &'a [LegendEntry],
}

pub fn run(args: &Show) -> Result<()> {
    output::refuse_overwrite(&args.output, args.force)?;
    let benchmark = open(&args.source)?;
    let dataset = benchmark.dataset.as_ref();
    let split = dataset.split(args.split.as_deref().unwrap_or(&benchmark.train))?;
    let mut order = split.samples.clone();
    protoseg::core::seed::shuffle(&mut order, &mut protoseg::core::seed::stream(args.seed, &[]));
    let chosen = choose(dataset, order, args)?;
    let options =
        SheetOptions { columns: args.columns as usize, cell: args.cell as usize, ..SheetOptions::default() };
    let sheet = contact_sheet(dataset, &chosen, options)?;
    write_image(&args.output, &name_sheet(&sheet))?;
    if args.json {
        let (samples, legend) = (&sheet.samples, &sheet.legend);
        return output::json(&Report {
            schema: "protoseg.data-show/1",
            sheet: &args.output,
            samples,
            legend,
        });
    }
    for LegendEntry { id, name, color, .. } in &sheet.legend {
        output::line(format_args!("{}  {id} {name}", hex(*color)))?;
    }
    for (row, names) in sheet.samples.chunks(args.columns as usize).enumerate() {
        output::line(format_args!("row {}  {}", row + 1, names.join("  ")))?;
    }
    let images = count(chosen.len(), "image");
    output::line(format_args!("{images} of `{}` -> {}", split.name, args.output.display()))
}

/// The first samples in this order, with the class that is asked for.
fn choose(dataset: &dyn Dataset, order: Vec<usize>, args: &Show) -> Result<Vec<usize>> {
    let count = args.count as usize;
    let Some(name) = &args.class else {
        return Ok(order.into_iter().take(count).collect());
    };
    let Some(class) = dataset.classes().classes().iter().find(|class| class.name == *name) else {
        let known: Vec<&str> = dataset.classes().classes().iter().map(|class| class.name.as_str()).collect();
        bail!(
            "data set `{}` has no class `{name}`\nhint: its classes are {}",
            dataset.name(),
            known.join(", ")
        );
    };
    let mut chosen = Vec::new();
    for index in order {
        if chosen.len() == count {
            break;
        }
        if dataset.labels(index)?.map.data.contains(&class.id.0) {
            chosen.push(index);
        }
    }
    if chosen.is_empty() {
        bail!("no image of this split holds class `{name}`\nhint: try another --split");
    }
    Ok(chosen)
}
