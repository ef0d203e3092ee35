//! What a class may be called: one rule for every file and every flag that names one.

/// Most bytes of a name.
pub const MAX_NAME: usize = 255;

/// Why a name cannot be that of a class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    #[error("a class needs a name\nhint: give it one")]
    Empty,
    #[error("the name of a class has {0} bytes, expected at most {MAX_NAME}\nhint: shorten it")]
    Long(usize),
    #[error(
        "the class name {0:?} holds control characters\nhint: write it in letters and signs that can be seen"
    )]
    Control(String),
}

/// Checks the name of a class: neither empty nor very long, and nothing in it that a terminal would obey.
pub fn check_name(name: &str) -> Result<(), NameError> {
    match name {
        _ if name.chars().all(is_invisible) => Err(NameError::Empty),
        _ if name.len() > MAX_NAME => Err(NameError::Long(name.len())),
        _ if name.chars().any(is_control) => Err(NameError::Control(name.to_string())),
        _ => Ok(()),
    }
}

/// Characters that leave no trace on paper.
fn is_invisible(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Characters that a terminal obeys instead of showing, or that turn the direction of the text around them.
pub fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_that_can_be_shown() {
        for name in ["duck", "großer Vogel", "アヒル", "a/b \"c\" <d>", &"x".repeat(MAX_NAME)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in [" ", "\u{200b}", "\u{feff} \u{ad}"] {
            assert_eq!(check_name(name), Err(NameError::Empty), "{name:?}");
        }
        assert_eq!(check_name(&"x".repeat(MAX_NAME + 1)), Err(NameError::Long(256)));
        for name in ["a\u{1b}[31m", "a\nb", "a\u{7f}", "a\u{9b}31m", "a\u{202e}b", "a\0"] {
            assert!(matches!(check_name(name), Err(NameError::Control(_))), "{name:?}");
        }
    }
}
