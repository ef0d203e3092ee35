//! Fields of a CSV file.

/// A name, in quotes.
pub(crate) fn field(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// A comma and a number that may not be there.
pub(crate) fn number(value: Option<f64>) -> String {
    value.map_or(",".to_string(), |value| format!(",{value:.4}"))
}
