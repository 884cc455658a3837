//! Numbers as people read them.

/// A plain number: `1,769`.
pub fn count(count: u64) -> String {
    grouped(&count.to_string())
}

/// A number of things: `1 process`, `1,769 processes`.
pub fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", count(number as u64), if number == 1 { one } else { many })
}

/// A share of one: `93 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Digits in groups of three.
pub fn grouped(whole: &str) -> String {
    let mut grouped = String::with_capacity(whole.len() + whole.len() / 3);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_put_into_groups() {
        assert_eq!(
            (count(0), count(999), count(1_769)),
            ("0".into(), "999".into(), "1,769".into())
        );
        assert_eq!(count(12_345_678), "12,345,678");
        let processes = [0, 1, 2_000].map(|number| counted(number, "process", "processes"));
        assert_eq!(processes, ["0 processes", "1 process", "2,000 processes"]);
        assert_eq!(percent(0.925), "92 %");
    }
}
