//! Enumerations whose values have a name in configuration files and on the command line.

/// Declares a plain enum together with its names: `ALL`, `name`, `Display` and `FromStr`.
macro_rules! switch {
    ($(#[$doc:meta])* $name:ident ($what:literal) { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name used in configurations.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::InputError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|value| value.name() == text).ok_or_else(|| {
                    let names: Vec<&str> = Self::ALL.iter().map(|value| value.name()).collect();
                    $crate::InputError::UnknownName {
                        what: $what,
                        found: text.to_owned(),
                        expected: names.join(", "),
                    }
                })
            }
        }
    };
}

pub(crate) use switch;
