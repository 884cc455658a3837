//! Settings whose values are a few words.

/// Defines such a setting from one line for each value, and what becomes of other words: how the
/// values are read, written and serialised.
macro_rules! words {
    (
        $(#[$attribute:meta])*
        $name:ident { $($(#[$of_one:meta])* $value:ident = $word:literal,)+ }
        $(#[$of_unknown:meta])*
        $unknown:ident: $told:literal
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {
            $($(#[$of_one])* $value,)+
        }

        $(#[$of_unknown])*
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        #[error($told)]
        pub struct $unknown(pub String);

        impl std::str::FromStr for $name {
            type Err = $unknown;

            fn from_str(text: &str) -> Result<Self, $unknown> {
                match text {
                    $($word => Ok($name::$value),)+
                    _ => Err($unknown(text.to_owned())),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(match self {
                    $($name::$value => $word,)+
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

pub(super) use words;

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Display};
    use std::str::FromStr;

    use crate::policy::{Choose, Combine, Engine};

    fn check<T: FromStr<Err: Display> + Display + Debug>(words: &[&str], told: &str) {
        let read = |word: &str| word.parse::<T>().map_err(|error| error.to_string());
        for word in words {
            assert_eq!(read(word).unwrap().to_string(), *word);
        }
        assert_eq!(read("other").unwrap_err(), told);
    }

    #[test]
    fn words_are_read_and_written() {
        check::<Choose>(
            &["widest", "auto"],
            "the choice of rooms is widest or auto, not \"other\"",
        );
        check::<Combine>(&["on", "off", "auto"], "combining is on, off or auto, not \"other\"");
        check::<Engine>(
            &["cpu", "qat", "qat-first"],
            "an engine is cpu, qat or qat-first, not \"other\"",
        );
    }
}
