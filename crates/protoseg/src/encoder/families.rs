//! The enums over all families, and their methods.

/// Writes [`EncoderConfig`] and [`Encoder`] with one variant per family. Each method goes to the family's own.
macro_rules! families {
    ($($variant:ident($config:ty => $encoder:ty),)*) => {
        /// Which encoder.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "lowercase")]
        #[allow(missing_docs)] // the families' own types say what they are
        pub enum EncoderConfig {
            $($variant($config),)*
        }

        /// Any encoder.
        #[derive(Module, Debug)]
        #[allow(clippy::large_enum_variant)] // one per network; an indirection would serve nobody
        #[allow(missing_docs)]
        pub enum Encoder {
            $($variant($encoder),)*
        }

        impl EncoderConfig {
            /// The names of all encoders, by family.
            const NAMES: &'static [&'static [&'static str]] = &[$(<$config as Family>::NAMES,)*];
            /// What a file of an encoder's weights holds, by family.
            pub(crate) const TENSORS: &'static [&'static str] = &[$(<$config as Family>::TENSORS,)*];

            fn find(name: &str) -> Option<Self> {
                None$(.or_else(|| <$config as Family>::parse(name).map(Self::$variant)))*
            }

            /// The encoder whose weights these are, at its own output stride.
            pub(crate) fn recognise(tensors: &dyn Tensors) -> Option<Result<Self, String>> {
                None$(.or_else(|| Some(<$config as Family>::recognise(tensors)?.map(Self::$variant))))*
            }

            /// What a tensor of a file of weights is to the encoder.
            pub(crate) fn rename(&self, name: &str) -> Rename {
                match self {
                    $(Self::$variant(_) => <$config as Family>::rename(name),)*
                }
            }

            /// A file of the encoder's weights in our own layout.
            pub(crate) fn adapt(&self, file: &TensorFile) -> Result<Option<TensorFile>, WeightsError> {
                match self {
                    $(Self::$variant(config) => Family::adapt(config, file),)*
                }
            }

            fn adjust(self, found: Option<&Self>, settings: &Settings) -> Self {
                match self {
                    $(Self::$variant(config) => {
                        let found = match found {
                            Some(Self::$variant(found)) => Some(found),
                            _ => None,
                        };
                        Self::$variant(config.adjust(found, settings))
                    })*
                }
            }

            /// Checks every value.
            pub fn validate(&self) -> Result<(), ConfigError> {
                match self {
                    $(Self::$variant(config) => Family::validate(config),)*
                }
            }

            /// How pictures become the input that the encoder's published weights expect.
            pub fn preprocess(&self, size: usize) -> Preprocess {
                match self {
                    $(Self::$variant(config) => Family::preprocess(config, size),)*
                }
            }

            /// Side of the input over the side of the last map.
            pub fn output_stride(&self) -> usize {
                match self {
                    $(Self::$variant(config) => Family::output_stride(config),)*
                }
            }

            /// Channels of the last map but one (where the auxiliary head sits) and of the last.
            pub fn channels(&self) -> [usize; 2] {
                match self {
                    $(Self::$variant(config) => Family::channels(config),)*
                }
            }

            /// The name by which it is chosen: `resnet50`.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(config) => Family::name(config),)*
                }
            }

            /// `ResNet-50 (deep stem, stride on the 3x3, output stride 8)`.
            pub fn describe(&self) -> String {
                match self {
                    $(Self::$variant(config) => Family::describe(config),)*
                }
            }

            /// With fresh weights.
            pub fn init(&self, device: &Device) -> Encoder {
                match self {
                    $(Self::$variant(config) => Encoder::$variant(Family::init(config, device)),)*
                }
            }
        }

        impl Encoder {
            /// The encoder's layers; returns the last node of every stage, finest first.
            pub(crate) fn describe<'a>(&'a self, graph: &mut Graph<'a>, image: Node) -> Vec<Node> {
                match self {
                    $(Self::$variant(encoder) => encoder.describe(graph, image),)*
                }
            }
        }
    };
}
