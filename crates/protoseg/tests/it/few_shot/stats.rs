//! How golden files describe maps that are too large to store.

use burn::tensor::Tensor;

use super::GoldenCase;

impl GoldenCase {
    /// Compares mean and population standard deviation per channel over the positions of `[n, c, h, w]` with
    /// `NAME_mean` and `NAME_std`.
    #[track_caller]
    pub fn assert_channels(&self, name: &str, maps: Tensor<4>, tolerance: f32) {
        let [n, channels, height, width] = maps.dims();
        let maps = maps.reshape([n, channels, height * width]);
        let mean = maps.clone().mean_dim(2);
        let std = (maps - mean.clone()).square().mean_dim(2).sqrt();
        self.assert(&format!("{name}_mean"), mean.reshape([n, channels]), tolerance);
        self.assert(&format!("{name}_std"), std.reshape([n, channels]), tolerance);
    }

    /// Compares some of the channels of `[n, c, h, w]`, evenly apart from the first.
    #[track_caller]
    pub fn assert_every(&self, name: &str, maps: Tensor<4>, tolerance: f32) {
        let (kept, all) = (self.golden.shape(name)[1], maps.dims()[1]);
        let step = all / kept;
        let some = (0..kept).map(|channel| maps.clone().slice_dim(1, channel * step..channel * step + 1));
        self.assert(name, Tensor::cat(some.collect(), 1), tolerance);
    }
}
