//! Rules as comma-separated values: a line of names, then one rule per line.
//!
//! ```text
//! source,destination,destination_port,protocol,result,priority
//! 10.1.0.0/16,*,25,6,0,
//! *,192.168.0.0/16,1024-65535,,3,10
//! ```
//!
//! The names are those of a five-field tuple, `source`, `destination`, `source_port`,
//! `destination_port` and `protocol`, and `result`, which must be there, `priority` (0 where
//! nothing stands; higher wins) and `categories` (numbers from 0 to 15 with spaces between; 0 where
//! nothing stands). A field is `*` or nothing for anything, `VALUE`, `FIRST-LAST`, `VALUE/LENGTH`
//! or `VALUE/0xMASK`. The first address decides between IPv4 and IPv6.

use super::parse::{Cursor, ParseError, lines};
use super::{CATEGORIES_MAX, Layout, Match, Rule, RuleSet};

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Field(usize),
    Result,
    Priority,
    Categories,
}

/// Reads the text of a file; `file` is what errors call it. A packet that no rule matches gets
/// `u32::MAX`.
///
/// # Errors
///
/// At the first place that is wrong, with line and column.
pub fn parse(file: &str, text: &str) -> Result<RuleSet, ParseError> {
    let mut cursors = Cursor::lines(file, text);
    let Some(mut header) = cursors.next() else {
        return Err(Cursor::new(file, 1, "").expected("a line of column names"));
    };
    // An IPv6 address has colons, and nothing else in such a file does.
    let is_v6 = lines(text).any(|line| !line.trim_start().starts_with('#') && line.contains(':'));
    let layout = if is_v6 { Layout::ipv6() } else { Layout::ipv4() };
    let columns = columns(&mut header, &layout)?;
    let mut set = RuleSet { default: u32::MAX, ..RuleSet::new(layout) };
    for mut cursor in cursors {
        let rule = rule(&mut cursor, &columns, &set.layout)?;
        set.categories = set.categories.max(16 - rule.categories.leading_zeros() as usize);
        set.rules.push(rule);
    }
    Ok(set)
}

fn columns(header: &mut Cursor<'_>, layout: &Layout) -> Result<Vec<Column>, ParseError> {
    let mut columns = Vec::new();
    while let Some(mut cell) = header.cell() {
        let name = cell.rest_trimmed();
        let field = layout.fields().iter().position(|field| field.name == name);
        let column = match (field, name) {
            (Some(field), _) => Column::Field(field),
            (None, "result") => Column::Result,
            (None, "priority") => Column::Priority,
            (None, "categories") => Column::Categories,
            _ => {
                let names: Vec<_> =
                    layout.fields().iter().map(|field| field.name.as_str()).collect();
                let names = names.join(", ");
                return Err(cell.expected(format!("{names}, result, priority or categories")));
            }
        };
        if columns.contains(&column) {
            return Err(cell.expected("a name that has not been there yet"));
        }
        columns.push(column);
    }
    if !columns.contains(&Column::Result) {
        return Err(header.expected("a column named result"));
    }
    Ok(columns)
}

fn rule(cursor: &mut Cursor<'_>, columns: &[Column], layout: &Layout) -> Result<Rule, ParseError> {
    let mut rule = Rule {
        matches: vec![Match::ANY; layout.fields().len()].into(),
        priority: 0,
        categories: 1,
        result: 0,
        line: cursor.number(),
    };
    for column in columns {
        let Some(mut cell) = cursor.cell() else {
            return Err(cursor.expected(format!("{} columns", columns.len())));
        };
        match *column {
            Column::Field(_) | Column::Priority | Column::Categories if cell.is_at_end() => {}
            Column::Field(index) => {
                rule.matches[index] = cell.comparison(layout.fields()[index].bytes)?;
            }
            Column::Result => rule.result = cell.integer("a result", u32::MAX.into())? as u32,
            Column::Priority => {
                let negative = cell.take('-');
                let size = cell.integer("a priority", i32::MAX as u128)? as i32;
                rule.priority = if negative { -size } else { size };
            }
            Column::Categories => {
                rule.categories = 0;
                while !cell.is_at_end() {
                    let category = cell.integer("a category", CATEGORIES_MAX as u128 - 1)?;
                    rule.categories |= 1 << category;
                }
            }
        }
        cell.end()?;
    }
    match cursor.cell() {
        None => Ok(rule),
        Some(mut cell) => Err(cell.expected(format!("{} columns", columns.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_in_any_order() {
        let text = "\
            # rules\n\
            result,source,destination_port,priority,categories\n\
            0, 10.1.0.0/16, 25, ,\n\
            7, *, 1024-65535, -3, 0 2\n";
        let set = parse("r.csv", text).unwrap();
        assert_eq!(set.categories, 3);
        assert_eq!(set.rules[0].matches[0], Match::prefix(0x0a01_0000, 16, 4));
        assert_eq!(set.rules[0].matches[3], Match::exact(25, 2));
        let [first, second] = set.rules.as_slice() else { panic!("two rules") };
        assert_eq!((first.result, first.priority, first.categories, first.line), (0, 0, 1, 3));
        assert_eq!((second.result, second.priority, second.categories), (7, -3, 5));
    }

    #[test]
    fn a_colon_makes_it_version_6() {
        let set = parse("r.csv", "source,result\n2001:db8::/32,1\n").unwrap();
        assert_eq!(set.layout, Layout::ipv6());
        let text = "\u{feff}# made: today\nsource,result\n10.0.0.0/8,1\n";
        assert_eq!(parse("r.csv", text).unwrap().layout, Layout::ipv4());
    }

    #[test]
    fn errors_name_the_cell() {
        let error = |text: &str| parse("r.csv", text).unwrap_err().to_string();
        assert_eq!(
            error("source,result\n10.0.0.0/33,1\n"),
            "r.csv:2:10: expected a prefix length, 0 to 32, found \"33\""
        );
        assert_eq!(
            error("source,result\n*\n"),
            "r.csv:2:2: expected 2 columns, found the end of the line"
        );
        assert_eq!(error("source,result\n*,1,2\n"), "r.csv:2:5: expected 2 columns, found \"2\"");
        assert_eq!(
            error("source\n*\n"),
            "r.csv:1:7: expected a column named result, found the end of the line"
        );
        assert!(error("sauce,result\n").starts_with("r.csv:1:1: expected source, destination"));
        assert_eq!(
            error("source,source,result\n"),
            "r.csv:1:8: expected a name that has not been there yet, found \"source\""
        );
        assert!(error("").starts_with("r.csv:1:1: expected a line of column names"));
    }
}
