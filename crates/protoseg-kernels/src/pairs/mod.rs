//! Values for pairs of cells, one of a query's grid and one of a support's, in use: what comparing two images cell by
//! cell spends its time on.
//!
//! Cosines ([`unit_panels`], [`unit_rows`], and a product) come as maps over the query's cells, one per support cell.
//! Those maps have zeros around them ([`Padded`]), so that a convolution over the query's cells and one over the
//! support's are the same thing: a weighted sum of stretches of memory ([`weigh_rows`]). From then on the channels of a
//! pair lie together, `[support cells, query cells, channels]`, normalised in groups ([`group_norm`]); a convolution over
//! the query's cells is an ordinary one, and one over the support's a sum of products ([`add_products`]).

mod norm;
mod products;
mod rows;
#[cfg(test)]
mod tests;
mod units;

pub use norm::{GroupNorm, group_norm, group_norm_planes};
pub use products::add_products;
pub use rows::{Padded, weigh_rows};
pub use units::{unit_panels, unit_rows};
