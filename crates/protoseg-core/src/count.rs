//! Counts as people read them.

use std::fmt::Display;

/// `1 image`, `2 images`, `0 classes`. The noun is given in the singular and takes a regular plural.
pub fn count(number: impl Display, noun: &str) -> String {
    let number = number.to_string();
    let ending = match number.as_str() {
        "1" => "",
        _ if ["s", "x", "sh", "tch"].iter().any(|ending| noun.ends_with(ending)) => "es",
        _ => "s",
    };
    format!("{number} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!([count(1, "epoch"), count(2, "epoch")], ["1 epoch", "2 epochs"]);
        assert_eq!(count(0, "image"), "0 images");
        assert_eq!([count(1, "class"), count(21, "class")], ["1 class", "21 classes"]);
    }
}
