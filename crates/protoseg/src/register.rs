//! Registration: a few labelled images of new classes become a classifier of old and new ones. No gradient.

use burn::tensor::Tensor;
use protoseg_core::{ClassError, Classes, Image, RowMap};

use crate::{
    method::capl::{
        method::Parts,
        options::Options,
        pooling::masked_sums,
        support::{self, ClassSum, SupportSums},
    },
    model::Model,
};

/// A labelled image of a novel class.
#[derive(Clone, Debug)]
pub struct Support {
    /// The label of its class: any row behind the base classes.
    pub novel: u16,
    pub image: Image,
    /// At the image's size. Rows of base classes may be labelled too: SCE uses them. Other novel classes are passed over.
    pub label: RowMap,
}

/// A classifier of base and novel classes, ready for any image.
#[derive(Clone, Debug)]
pub struct PrototypeBank {
    /// `[base + novel, d]`
    pub rows: Tensor<2>,
    /// What the rows are.
    pub classes: Classes,
}

/// Supports that cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    #[error(
        "novel class `{class}` has no support in which a pixel of it is seen\n\
         hint: give it a mask that covers some 8 x 8 pixels or more at the model's input size"
    )]
    NoPixels { class: String },
    #[error("support label is {label:?} but its image is {image:?} (width, height)")]
    Size { label: (usize, usize), image: (usize, usize) },
    #[error(transparent)]
    Classes(#[from] ClassError),
}

impl Model {
    /// Feature sums of one support: what registration needs to keep of it.
    pub fn support_sums(&self, support: &Support) -> Result<SupportSums, RegisterError> {
        let (image, label) = (&support.image, &support.label);
        let (image_size, label_size) = ((image.width, image.height), (label.width, label.height));
        if image_size != label_size {
            return Err(RegisterError::Size { label: label_size, image: image_size });
        }
        let label = self.manifest.preprocess.label(label);
        Ok(self.pool_support(support.novel, self.features(image), &label))
    }

    /// The sums of a support whose features (`[1, d, h, w]`) are known. `label` is on the network's canvas.
    pub fn pool_support(&self, novel: u16, features: Tensor<4>, label: &RowMap) -> SupportSums {
        let n_base = self.manifest.classes.n_base();
        // Other novel classes in the picture speak through their own supports only.
        let mut wanted = label.present();
        wanted.retain(|&row| row == novel || usize::from(row) < n_base);
        if wanted.is_empty() {
            return SupportSums { novel, sums: Vec::new() };
        }
        let pooled = masked_sums(features, std::slice::from_ref(label), &wanted);
        let dim = pooled.sums.dims()[2];
        let sums: Vec<f32> = pooled.sums.try_into_vec_as().expect("features are f32");
        let sums = wanted.iter().zip(sums.chunks(dim)).zip(&pooled.counts[0]);
        let class_sum =
            |((&row, sum), &count): ((&u16, &[f32]), &f32)| ClassSum { row, sum: sum.to_vec(), count };
        let sums = sums.map(class_sum).filter(|sum| sum.count > 0.0).collect();
        SupportSums { novel, sums }
    }

    /// The classifier that these supports make. `novel` names the classes of the rows behind the base classes, in order;
    /// each needs at least one support.
    pub fn bank<S: AsRef<str>>(
        &self,
        novel: &[S],
        supports: &[SupportSums],
        parts: Parts,
        options: &Options,
    ) -> Result<PrototypeBank, RegisterError> {
        let classes = self.manifest.classes.with_novel(novel)?;
        let sce = parts.sce.map(|gate| self.network().sce(gate));
        let learned = self.network().learned_base(classes.n_base());
        let rows = support::register(learned, novel.len(), supports, sce, options)
            .map_err(|index| RegisterError::NoPixels { class: novel[index].as_ref().to_string() })?;
        Ok(PrototypeBank { rows, classes })
    }

    /// The classifier before any class is registered: the base classes as they were learned.
    pub fn base_bank(&self, options: &Options) -> PrototypeBank {
        self.bank::<&str>(&[], &[], Parts::PLAIN, options)
            .expect("without novel classes none can lack a support")
    }
}
