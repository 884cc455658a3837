//! Alternatives with weights: `1.3=70,1.2=30`.

use widelane_loadgen::Weighted;

/// Reads a list of alternatives; one without a weight has weight 1.
pub fn weighted<T>(
    text: &str,
    value: impl Fn(&str) -> Result<T, String>,
) -> Result<Weighted<T>, String> {
    let alternative = |part: &str| {
        let (name, weight) = match part.rsplit_once('=') {
            Some((name, weight)) => {
                let weight = weight.trim().trim_end_matches('%').parse::<u32>();
                (name, weight.map_err(|_| format!("{part:?}: the weight is no whole number"))?)
            }
            None => (part, 1),
        };
        Ok((value(name.trim())?, weight))
    };
    let alternatives = text.split(',').map(alternative).collect::<Result<Vec<_>, String>>()?;
    Weighted::new(alternatives).ok_or_else(|| format!("{text:?}: every weight is zero"))
}

/// Finds a name among those known.
pub fn named<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("{text:?} is none of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<u8>, String> {
        let known = [("one", 1), ("two", 2)];
        weighted(text, |name| named(name, &known)).map(|found| found.iter().copied().collect())
    }

    #[test]
    fn reads_weights() {
        assert_eq!(names("one"), Ok(vec![1]));
        assert_eq!(names("one=70%, two=30"), Ok(vec![1, 2]));
        assert_eq!(names("one=0,two"), Ok(vec![2]));
    }

    #[test]
    fn says_what_is_wrong() {
        assert_eq!(names("three"), Err("\"three\" is none of one, two".to_owned()));
        assert_eq!(names("one=x"), Err("\"one=x\": the weight is no whole number".to_owned()));
        assert_eq!(names("one=-1"), Err("\"one=-1\": the weight is no whole number".to_owned()));
        assert_eq!(names("one=0"), Err("\"one=0\": every weight is zero".to_owned()));
        assert!(names("").is_err() && names("one,").is_err() && names("one=99999999999").is_err());
    }
}
