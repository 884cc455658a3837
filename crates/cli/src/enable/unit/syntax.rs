//! The syntax of unit files: settings, words, escapes, specifiers (systemd.syntax(7),
//! systemd.unit(5)).

use std::mem;

/// The settings of the section `[Service]`.
pub(super) fn service_settings(text: &str) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let mut section = String::new();
    for line in joined_lines(text) {
        let line = line.trim();
        if line.starts_with('[') {
            section = line.to_owned();
        } else if section == "[Service]"
            && let Some((key, value)) = line.split_once('=')
        {
            settings.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    settings
}

/// The lines that are no comments, each joined with those that continue it. As for systemd, a
/// comment continues no line and is not continued: a backslash at its end means nothing.
pub(super) fn joined_lines(text: &str) -> Vec<String> {
    let mut joined = Vec::new();
    let mut line = String::new();
    for part in text.lines().filter(|part| !part.trim_start().starts_with(['#', ';'])) {
        line.push_str(part);
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        if backslashes.is_multiple_of(2) {
            joined.push(mem::take(&mut line));
        } else {
            // Odd: the last backslash is not escaped.
            line.pop();
            line.push(' ');
        }
    }
    joined.push(line);
    joined
}

/// Words apart by spaces, in quotes where they have some themselves, or escaped as in C.
pub(super) fn words(value: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut rest = value;
    while let Some(char) = rest.chars().next() {
        if let Some((escaped, behind)) = escape(rest) {
            words.last_mut().expect("never empty").push(escaped);
            rest = behind;
            continue;
        }
        rest = &rest[char.len_utf8()..];
        match quote {
            Some(open) if char == open => quote = None,
            None if matches!(char, '"' | '\'') => quote = Some(char),
            None if char.is_whitespace() => words.push(String::new()),
            _ => words.last_mut().expect("never empty").push(char),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The character that an escape at the beginning of a text stands for, and what is behind it.
fn escape(text: &str) -> Option<(char, &str)> {
    let behind = text.strip_prefix('\\')?;
    if let Some(hexadecimal) = behind.strip_prefix('x') {
        let byte = u8::from_str_radix(hexadecimal.get(..2)?, 16).ok().filter(u8::is_ascii)?;
        return Some((byte.into(), &hexadecimal[2..]));
    }
    let escaped = match behind.chars().next()? {
        's' => ' ',
        't' => '\t',
        char @ ('\\' | '"' | '\'') => char,
        _ => return None,
    };
    Some((escaped, &behind[1..]))
}

/// A word of a unit file with its specifiers replaced; none if it has one that is not known before
/// the service starts. A template (`haproxy@`) knows nothing of its instances.
pub(super) fn expanded(word: &str, name: &str) -> Option<String> {
    let (prefix, instance) = name.split_once('@').unwrap_or((name, ""));
    let is_template = name.ends_with('@');
    let last = prefix.rsplit_once('-').map_or(prefix, |(_, last)| last);
    let mut expanded = String::new();
    let mut chars = word.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            expanded.push(char);
            continue;
        }
        let value = match chars.next()? {
            '%' => "%".to_owned(),
            'p' => prefix.to_owned(),
            'P' => unescaped(prefix),
            'j' => last.to_owned(),
            'J' => unescaped(last),
            _ if is_template => return None,
            'n' => format!("{name}.service"),
            'N' => name.to_owned(),
            'i' => instance.to_owned(),
            'I' => unescaped(instance),
            _ => return None,
        };
        expanded.push_str(&value);
    }
    Some(expanded)
}

/// What `systemd-escape` made a part of a unit's name of.
fn unescaped(text: &str) -> String {
    let mut unescaped = String::new();
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let (char, behind) = match escape(rest) {
            Some(escaped) => escaped,
            None => (if char == '-' { '/' } else { char }, &rest[char.len_utf8()..]),
        };
        unescaped.push(char);
        rest = behind;
    }
    unescaped
}

/// Whether systemd takes `value` for yes.
pub(super) fn is_true(value: &str) -> bool {
    ["1", "yes", "y", "true", "t", "on"].iter().any(|yes| value.eq_ignore_ascii_case(yes))
}

/// Whether systemd takes `value` for no.
pub(super) fn is_false(value: &str) -> bool {
    ["0", "no", "n", "false", "f", "off"].iter().any(|no| value.eq_ignore_ascii_case(no))
}
