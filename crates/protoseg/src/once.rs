//! Values that are made when they are first asked for.

use std::sync::OnceLock;

/// The value of a cell, made first if there is none. Unlike in `get_or_init`, several threads may make it, and the first
/// to end keeps its own: a thread that waits for loops it shares with others may be handed work that asks for the same
/// value, and would wait for itself.
pub(crate) fn get_or_make<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    if let Some(value) = cell.get() {
        return value;
    }
    let value = make();
    cell.get_or_init(|| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_can_be_asked_for_while_it_is_made() {
        let cell = OnceLock::new();
        let value = get_or_make(&cell, || *get_or_make(&cell, || 1) + 1);
        assert_eq!(*value, 1, "the first that was made is kept");
        assert_eq!(*get_or_make(&cell, || unreachable!()), 1);
    }
}
