//! What methods keep of a support. Everything in it adds up, so that packs can be put together in any order.

/// What one support image says of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSum {
    /// Row of the class in the classifier.
    pub row: u16,
    /// Sum of the raw features over the class's pixels.
    pub sum: Vec<f32>,
    /// Number of those pixels.
    pub count: f32,
}

/// What one support image says: its own class and every base class labelled in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SupportSums {
    /// Row of the class that the image is a support of: a novel one, or a base class that it refines.
    pub novel: u16,
    /// One entry per class.
    pub sums: Vec<ClassSum>,
    /// The same pixels in groups of similar ones, if the method keeps several prototypes per class.
    pub clusters: Clusters,
}

/// Groups of similar pixels of one support.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clusters {
    /// Of the novel class.
    pub own: Vec<Pooled>,
    /// Of the background.
    pub rest: Vec<Pooled>,
    /// Rows of the model's background that are nearer to pixels of the class than any of these groups, and the number of
    /// those pixels.
    pub beaten_by: Vec<(u16, f32)>,
}

/// A sum of features and the number of positions it is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Pooled {
    /// The sum.
    pub sum: Vec<f32>,
    /// The number of positions.
    pub count: f32,
}

impl SupportSums {
    /// Without groups of pixels.
    pub fn new(novel: u16, sums: Vec<ClassSum>) -> Self {
        Self { novel, sums, clusters: Clusters::default() }
    }

    /// The class's own sum, if a pixel of it was seen.
    pub fn own(&self) -> Option<&ClassSum> {
        self.sums.iter().find(|sum| sum.row == self.novel && sum.count > 0.0)
    }
}

/// The supports of each of the first `count` rows.
pub(crate) fn by_class(supports: &[SupportSums], count: usize) -> Vec<Vec<&SupportSums>> {
    let mut classes = vec![Vec::new(); count];
    for support in supports {
        if let Some(class) = classes.get_mut(usize::from(support.novel)) {
            class.push(support);
        }
    }
    classes
}

/// A running mean in double precision, so that the order of supports does not show.
#[derive(Default)]
pub(crate) struct Mean {
    sum: Vec<f64>,
    count: f64,
}

impl Mean {
    pub fn add(&mut self, values: &[f32], count: f32) {
        self.sum.resize(values.len(), 0.0);
        self.sum.iter_mut().zip(values).for_each(|(sum, &value)| *sum += f64::from(value));
        self.count += f64::from(count);
    }

    pub fn get(self) -> Option<Vec<f32>> {
        (self.count > 0.0).then(|| self.sum.iter().map(|sum| (sum / self.count) as f32).collect())
    }
}
