//! Reading and writing a results file.

use serde::Deserialize;
use serde_json::error::Category;
use thiserror::Error;

use crate::{READABLE, Results, SCHEMA};

/// Why a text is not a results file that this version can read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The JSON ends in the middle.
    #[error(
        "the JSON ends too early, at line {line}: the file is truncated; \
         repeat the run or copy it again"
    )]
    Truncated {
        /// Line on which the text ends.
        line: usize,
    },
    /// It is JSON, but not a results file.
    #[error("not a results file: {0}; expected an object with \"schema\": \"{SCHEMA}\"")]
    NotResults(serde_json::Error),
    /// A results file with something in it that this version does not know.
    #[error(
        "these results are of a later version of widelane, or damaged: {0}; use the widelane \
         version that wrote them, or repeat the run"
    )]
    Unknown(serde_json::Error),
    /// A results file of another version.
    #[error(
        "results of schema {found:?}, but this widelane reads {} only; \
         use the widelane version that wrote them, or repeat the run",
        READABLE.join(" and ")
    )]
    OtherSchema {
        /// The schema that the file names.
        found: String,
    },
}

impl Results {
    /// Reads a results file.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn from_json(text: &str) -> Result<Results, ReadError> {
        #[derive(Deserialize)]
        struct Header {
            schema: String,
        }
        let Header { schema } =
            serde_json::from_str(text).map_err(|error| classify(error, ReadError::NotResults))?;
        if !READABLE.contains(&schema.as_str()) {
            return Err(ReadError::OtherSchema { found: schema });
        }
        serde_json::from_str(text).map_err(|error| classify(error, ReadError::Unknown))
    }

    /// The results as pretty-printed JSON with a final newline.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data with string keys");
        text.push('\n');
        text
    }
}

fn classify(error: serde_json::Error, otherwise: fn(serde_json::Error) -> ReadError) -> ReadError {
    match error.classify() {
        Category::Eof => ReadError::Truncated { line: error.line() },
        _ => otherwise(error),
    }
}
