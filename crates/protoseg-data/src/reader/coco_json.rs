//! The part of COCO's instance JSON that labels need.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

#[derive(Deserialize)]
pub(super) struct Root {
    pub images: Vec<ImageEntry>,
    #[serde(default)]
    pub annotations: Vec<Annotation>,
    pub categories: Vec<Category>,
}

#[derive(Deserialize)]
pub(super) struct ImageEntry {
    pub id: u64,
    pub file_name: String,
    pub width: usize,
    pub height: usize,
}

#[derive(Deserialize)]
pub(super) struct Category {
    pub id: u64,
    pub name: String,
}

#[derive(Deserialize)]
pub(super) struct Annotation {
    #[serde(default)]
    pub id: u64,
    pub image_id: u64,
    pub category_id: u64,
    #[serde(default)]
    pub segmentation: Segmentation,
    #[serde(default, deserialize_with = "flag")]
    pub iscrowd: bool,
}

/// How the pixels of an instance are given. Corners are kept in single precision: a large file has tens of millions.
#[derive(Debug, Default, PartialEq)]
pub(super) enum Segmentation {
    /// Only a box.
    #[default]
    None,
    /// `[x, y, x, y, ...]` for each part.
    Polygons(Vec<Vec<f32>>),
    /// `size` is (height, width).
    Runs { size: (usize, usize), counts: Counts },
}

#[derive(Debug, PartialEq)]
pub(super) enum Counts {
    Plain(Vec<u32>),
    Packed(String),
}

/// `iscrowd` as 0, 1, true or false.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    struct Flag;
    impl Visitor<'_> for Flag {
        type Value = bool;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("0 or 1")
        }

        fn visit_bool<E>(self, value: bool) -> Result<bool, E> {
            Ok(value)
        }

        fn visit_u64<E>(self, value: u64) -> Result<bool, E> {
            Ok(value != 0)
        }

        fn visit_unit<E>(self) -> Result<bool, E> {
            Ok(false)
        }
    }
    deserializer.deserialize_any(Flag)
}

impl<'de> Deserialize<'de> for Segmentation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Segmentation;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of polygons, or `size` and `counts`")
            }

            fn visit_unit<E>(self) -> Result<Segmentation, E> {
                Ok(Segmentation::None)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Segmentation, A::Error> {
                let mut polygons = Vec::new();
                while let Some(polygon) = parts.next_element::<Vec<f32>>()? {
                    polygons.push(polygon);
                }
                Ok(if polygons.is_empty() { Segmentation::None } else { Segmentation::Polygons(polygons) })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Segmentation, A::Error> {
                use serde::de::Error;
                let (mut size, mut counts) = (None, None);
                while let Some(field) = fields.next_key::<String>()? {
                    match field.as_str() {
                        "size" => size = Some(fields.next_value()?),
                        "counts" => counts = Some(fields.next_value()?),
                        _ => drop(fields.next_value::<IgnoredAny>()?),
                    }
                }
                let size = size.ok_or_else(|| A::Error::missing_field("size"))?;
                let counts = counts.ok_or_else(|| A::Error::missing_field("counts"))?;
                Ok(Segmentation::Runs { size, counts })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Counts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("run lengths, plain or packed")
            }

            fn visit_str<E>(self, packed: &str) -> Result<Counts, E> {
                Ok(Counts::Packed(packed.to_string()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut runs: A) -> Result<Counts, A::Error> {
                let mut counts = Vec::new();
                while let Some(count) = runs.next_element()? {
                    counts.push(count);
                }
                Ok(Counts::Plain(counts))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Segmentation, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn every_form_of_segmentation_is_read() {
        assert_eq!(
            parse("[[0, 1.5, 2, 3]]").unwrap(),
            Segmentation::Polygons(vec![vec![0.0, 1.5, 2.0, 3.0]])
        );
        assert_eq!(parse("[]").unwrap(), Segmentation::None);
        assert_eq!(parse("null").unwrap(), Segmentation::None);
        let plain = Segmentation::Runs { size: (2, 3), counts: Counts::Plain(vec![1, 5]) };
        assert_eq!(parse(r#"{"counts": [1, 5], "size": [2, 3], "more": {"x": [1]}}"#).unwrap(), plain);
        let packed = Segmentation::Runs { size: (2, 3), counts: Counts::Packed("15".into()) };
        assert_eq!(parse(r#"{"size": [2, 3], "counts": "15"}"#).unwrap(), packed);
    }

    #[test]
    fn other_forms_are_refused_with_their_place() {
        for json in ["7", "[[1, \"x\"]]", "{\"size\": [1, 2]}", "{\"size\": [1, 2], \"counts\": [-3]}"] {
            assert!(parse(json).unwrap_err().to_string().contains("line 1 column"), "{json}");
        }
    }
}
