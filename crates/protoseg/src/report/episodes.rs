//! The report of episodes: scores, a bar per class, and pictures of the best, middle and worst episodes.

use maud::{Markup, html};
use protoseg_core::{Classes, Image, RowMap};
use protoseg_data::fit_image;

use super::{chip, page, pictures::figure, section, tables};
use crate::{
    episodes::{AnsweredEpisode, EpisodeResults, EpisodeTest, EpisodesError},
    picture::Palette,
};

/// Side of the square that each picture is fitted into.
const CELL: usize = 180;
/// Number of episodes that are shown of the best, of the middle and of the worst.
const SHOWN: usize = 3;
/// Number of supports that are shown of an episode.
const SUPPORTS: usize = 5;

/// The whole page. The episodes that are shown are answered again, to see them.
pub fn episodes_html(test: &EpisodeTest<'_>, results: &EpisodeResults) -> Result<String, EpisodesError> {
    let title = format!("{} fold {}, style {}", results.data, results.fold, results.style);
    let mut groups = Vec::new();
    for (name, chosen) in choose(results) {
        let strips = chosen.into_iter().map(|episode| strip(test, results, episode));
        groups.push((name, strips.collect::<Result<Vec<Markup>, _>>()?));
    }
    let content = html! {
        (section("Results", scores(results)))
        (section("Each class", class_bars(results)))
        @for (name, strips) in groups {
            (section(name, html! { @for strip in strips { (strip) } }))
        }
        (footer(results))
    };
    Ok(page(&title, &results.headline(), &results.notes, content))
}

/// Episodes of the first run by their IoU at the most shots. A pair of class and query is shown once.
fn choose<'a>(results: &'a EpisodeResults) -> Vec<(&'static str, Vec<&'a AnsweredEpisode>)> {
    let iou = |episode: &AnsweredEpisode| episode.iou.last().copied().flatten();
    let mut ranked: Vec<&AnsweredEpisode> =
        results.answered().iter().filter(|episode| episode.run == 0 && iou(episode).is_some()).collect();
    ranked.sort_by(|a, b| {
        iou(b).partial_cmp(&iou(a)).expect("shares are numbers").then(a.episode.cmp(&b.episode))
    });
    let mut shown: Vec<(&str, &str)> = Vec::new();
    let mut take = |order: Vec<&'a AnsweredEpisode>| {
        let mut taken: Vec<&AnsweredEpisode> = Vec::new();
        for episode in order {
            let what = (episode.class(), episode.query());
            if taken.len() < SHOWN && !shown.contains(&what) {
                shown.push(what);
                taken.push(episode);
            }
        }
        taken
    };
    let best = take(ranked.clone());
    let worst = take(ranked.iter().rev().copied().collect());
    let middle = take(ranked[ranked.len().saturating_sub(SHOWN) / 2..].to_vec());
    vec![("Best episodes", best), ("Middling episodes", middle), ("Worst episodes", worst)]
}

/// Supports with their masks, the query, the truth, and the answer at every number of shots.
fn strip(
    test: &EpisodeTest<'_>,
    results: &EpisodeResults,
    answered: &AnsweredEpisode,
) -> Result<Markup, EpisodesError> {
    let episode = answered.of(test);
    let answer = test.answer(episode)?;
    let dataset = test.benchmark().dataset.as_ref();
    let classes =
        Classes::new(&["background"], &[answered.class()]).map_err(crate::model::ModelError::from)?;
    let palette = Palette::new(&classes);
    let painted = |image: Image, labels: &RowMap| palette.paint(&fit_image(image, CELL), labels);
    let mut figures = Vec::new();
    for &support in episode.supports.iter().take(SUPPORTS) {
        let (image, labels) = test.support(support, episode.class)?;
        figures.push(figure(&painted(image, &labels), "support")?);
    }
    let query = dataset.image(episode.query)?;
    figures.push(figure(&fit_image(query.clone(), CELL), "query")?);
    figures.push(figure(&painted(query.clone(), &answer.truth), "truth")?);
    for ((row, labels), iou) in results.rows.iter().zip(&answer.predicted).zip(&answered.iou) {
        let caption = format!("{}-shot: {:.1} %", row.shots, iou.unwrap_or(0.0));
        figures.push(figure(&painted(query.clone(), labels), &caption)?);
    }
    Ok(html! {
        div.strip { @for figure in figures { (figure) } }
        p.legend { (chip(&palette, 1)) b { (answered.class()) } small { (answered.query()) ", episode " (answered.episode) } }
    })
}

fn scores(results: &EpisodeResults) -> Markup {
    html! {
        (tables::plain(&EpisodeResults::TITLES, &results.table(), |_| Markup::default()))
        p.hint {
            "Class mIoU: intersections and unions of each class are summed over its episodes, then the mean over the \
             classes is taken. FB-IoU: the mean of the IoU of foreground and background, both summed over all episodes."
        }
    }
}

/// The IoU of every class as bars, one per number of shots.
fn class_bars(results: &EpisodeResults) -> Markup {
    let kind = |at: usize| if at + 1 == results.rows.len() { "main" } else { "other" };
    html! {
        div.bars {
            @for (place, class) in results.classes.iter().enumerate() {
                div.class { span { (class) } }
                div.pair {
                    @for (at, row) in results.rows.iter().enumerate() {
                        @let iou = format!("{:.1}", row.iou[place].map_or(0.0, |iou| iou.mean));
                        div.bar.(kind(at)) { i style={ "width:" (iou) "%" } {} b { (iou) } }
                    }
                }
            }
        }
        p.hint {
            @for (at, row) in results.rows.iter().enumerate() {
                i.key.(kind(at)) {} (row.shots) "-shot IoU in % "
            }
        }
    }
}

fn footer(results: &EpisodeResults) -> Markup {
    let seeds: Vec<String> = results.seeds.iter().flatten().map(u64::to_string).collect();
    html! {
        footer {
            "protoseg " (env!("CARGO_PKG_VERSION")) ", model " (results.model) " (" (results.fingerprint) "), "
            (results.method) ", seeds " (seeds.join(" ")) ", " (format!("{:.0}", results.seconds)) " s"
        }
    }
}
