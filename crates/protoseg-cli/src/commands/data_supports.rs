//! `protoseg data supports`.

use anyhow::Result;
use protoseg_data::{save_supports, scan};

use super::data_check::open;
use crate::{cli::Supports, output};

pub fn run(args: &Supports) -> Result<()> {
    let benchmark = open(&args.source)?;
    let dataset = benchmark.dataset.as_ref();
    let stats = scan(dataset, &benchmark.train)?;
    let draw = benchmark.support_draw(args.shots, args.seed);
    let (list, _) = stats.draw_supports(dataset, benchmark.fold(args.fold)?, draw)?;
    let Some(path) = &args.output else {
        return output::json(&list);
    };
    output::refuse_overwrite(path, args.force)?;
    save_supports(path, &list)?;
    for class in &list.classes {
        output::line(format_args!("{}: {}", class.class, class.samples.join(", ")))?;
    }
    output::line(format_args!("{} supports -> {}", list.classes.len() * args.shots, path.display()))
}
