//! The paper, one idea a file.
//!
//! | equation | what | where |
//! |---|---|---|
//! | (1), (3) | prototypes by masked pooling | [`pooling`] |
//! | (2) | cosine scores | [`cosine`] |
//! | (4) | SCE: base prototypes enriched by the supports' context | [`support`] |
//! | (5), (6) | DQCE: base prototypes that follow the query image | [`query`] |
//! | (7) | the sum of both: an image's classifier | [`fusion`] |
//! | (8) | fake novel and fake context classes while training | [`fake`] |
//! | G | the gates that weigh old against new | [`gamma`] |
//!
//! [`options`] names every point in which the paper and its reference implementation differ, [`method`] the rows of the
//! paper's ablation table.

pub mod cosine;
pub mod fake;
pub mod fusion;
pub mod gate;
pub mod method;
pub mod options;
pub mod pooling;
pub mod query;
pub mod support;
