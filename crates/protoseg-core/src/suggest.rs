//! What someone may have meant by a name that does not exist.

/// A known name that is close to `got`. Otherwise all names if they are few, or an example. `what` says what the names
/// are, in the plural.
pub(crate) fn suggest<S: AsRef<str>>(got: &str, known: &[S], what: &str) -> String {
    /// A list up to this length is shown whole.
    const FEW: usize = 24;
    let names = || known.iter().map(AsRef::as_ref);
    match (closest(got, known), known.first()) {
        (Some(close), _) => format!("did you mean `{close}`?"),
        (None, Some(_)) if known.len() <= FEW && what != SAMPLES => {
            let all: Vec<String> = names().map(|name| format!("`{name}`")).collect();
            format!("{what} are {}", all.join(", "))
        }
        (None, Some(first)) => format!("{what} are named like `{}`", first.as_ref()),
        (None, None) => format!("there are no {what}"),
    }
}

/// The known name that is close to `got`: one that contains it or is contained in it, or one that differs in a few
/// characters.
pub fn closest<'a, S: AsRef<str>>(got: &str, known: &'a [S]) -> Option<&'a str> {
    let names = || known.iter().map(AsRef::as_ref);
    let contains = names().find(|name| !got.is_empty() && (name.contains(got) || got.contains(name)));
    let nearest = || {
        let distances = names().map(|name| (distance(got, name), name));
        distances.min_by_key(|(distance, _)| *distance).filter(|(distance, _)| *distance <= 1 + got.len() / 8)
    };
    contains.or_else(|| nearest().map(|(_, name)| name))
}

/// Of samples, one is enough to show how all are named.
pub(crate) const SAMPLES: &str = "samples";

/// Number of characters to insert, delete or replace to turn one text into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        assert_eq!(distance("duck", "duck"), 0);
        assert_eq!(distance("dukc", "duck"), 2);
        assert_eq!(distance("", "duck"), 4);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn the_nearest_name_is_suggested_if_it_is_near() {
        assert_eq!(suggest("val/0013", &["val/0012", "val/0313"], SAMPLES), "did you mean `val/0012`?");
        assert_eq!(suggest("x", &["duck", "boat"], "classes"), "classes are `duck`, `boat`");
        assert_eq!(suggest("x", &["a.jpg", "b.jpg"], SAMPLES), "samples are named like `a.jpg`");
        assert_eq!(suggest("x", &[] as &[&str], SAMPLES), "there are no samples");
    }
}
