//! `protoseg data supports`.

use std::collections::HashSet;

use anyhow::{Result, bail};
use protoseg::core::count;
use protoseg_data::{save_supports, scan};

use super::data_check::open;
use crate::{cli::Supports, output};

pub fn run(args: &Supports) -> Result<()> {
    if args.shots == 0 {
        bail!("`--shots` must be at least 1, got 0");
    }
    let benchmark = open(&args.source)?;
    let dataset = benchmark.dataset.as_ref();
    let fold = benchmark.fold(args.fold)?;
    if fold.novel().is_empty() {
        bail!(
            "data set `{}` has no novel classes to draw supports of\n\
             hint: name them in a protoseg.toml (`novel = [\"duck\"]`), or let `protoseg register --data {}` \
             teach all classes that a model does not know",
            dataset.name(),
            output::quoted(args.source.source.as_ref())
        );
    }
    let draw = benchmark.support_draw(args.shots, args.seed);
    draw.check()?;
    let stats = scan(dataset, &benchmark.train)?;
    let (list, _) = stats.draw_supports(dataset, fold, draw)?;
    for class in &list.classes {
        let distinct = class.samples.iter().collect::<HashSet<_>>().len();
        if distinct < class.samples.len() {
            output::note(format_args!(
                "warning: class `{}` has only {}: the {} supports repeat {}",
                class.class,
                count(distinct, "usable image"),
                class.samples.len(),
                if distinct == 1 { "it" } else { "them" }
            ));
        }
    }
    let Some(path) = &args.output else {
        return output::json(&list);
    };
    output::refuse_overwrite(path, args.force)?;
    save_supports(path, &list)?;
    for class in &list.classes {
        output::line(format_args!("{}: {}", class.class, class.samples.join(", ")))?;
    }
    let supports = count(list.classes.len() * args.shots, "support");
    output::line(format_args!("{supports} -> {}", path.display()))
}
