//! Application work: scalar code that minifies a page and looks for repetitions in it, as servers
//! with scripts and compression do.

use std::hint::black_box;

/// A page, and the tables of its compression.
pub struct Application {
    page: Vec<u8>,
    minified: Vec<u8>,
    heads: Vec<u32>,
}

/// Bytes of a page.
const PAGE_BYTES: usize = 8 << 10;

/// Places of the table of beginnings.
const HEADS: usize = 1 << 12;

/// Bytes that a repetition has at least and at most.
const REPETITION: (usize, usize) = (4, 64);

/// What the page is made of.
const LINE: &str =
    "<div class=\"row\">  <!-- row -->\n    <a href=\"/item/#\">  Item no. #  </a>\n";

impl Application {
    /// Makes a page.
    pub fn new() -> Self {
        let mut page = Vec::with_capacity(PAGE_BYTES + LINE.len());
        let mut number = 1_u32;
        while page.len() < PAGE_BYTES {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            page.extend(LINE.replace('#', &(number >> 16).to_string()).bytes());
        }
        Application { page, minified: Vec::new(), heads: vec![0; HEADS] }
    }

    /// Minifies and compresses the page; returns how many tokens are left of it.
    pub fn turn(&mut self) -> usize {
        self.minify();
        black_box(self.compress())
    }

    /// Leaves out comments, and all but one of several blanks.
    fn minify(&mut self) {
        let Application { page, minified, .. } = self;
        minified.clear();
        let (mut index, mut blank) = (0, false);
        while index < page.len() {
            if page[index..].starts_with(b"<!--") {
                let rest = &page[index..];
                let end = rest.windows(3).position(|three| three == b"-->");
                index += end.map_or(rest.len(), |end| end + 3);
                continue;
            }
            let byte = page[index];
            if !byte.is_ascii_whitespace() {
                minified.push(byte);
            } else if !blank {
                minified.push(b' ');
            }
            blank = byte.is_ascii_whitespace();
            index += 1;
        }
    }

    /// Replaces repetitions by references; returns how many tokens that makes.
    fn compress(&mut self) -> usize {
        let Application { minified: text, heads, .. } = self;
        heads.fill(u32::MAX);
        let (shortest, longest) = REPETITION;
        let (mut index, mut tokens) = (0, 0);
        while index + shortest <= text.len() {
            let beginning = u32::from_le_bytes([
                text[index],
                text[index + 1],
                text[index + 2],
                text[index + 3],
            ]);
            let head = &mut heads[(beginning.wrapping_mul(0x9e37_79b1) >> 20) as usize];
            let before = *head as usize;
            *head = index as u32;
            let same = |length: &usize| text[before + length] == text[index + length];
            let length = match before < index {
                true => (0..longest.min(text.len() - index)).take_while(same).count(),
                false => 0,
            };
            index += if length < shortest { 1 } else { length };
            tokens += 1;
        }
        tokens + text.len() - index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_gets_smaller_and_stays_the_same() {
        let mut application = Application::new();
        let tokens = application.turn();
        let text = String::from_utf8(application.minified.clone()).unwrap();
        assert!(text.starts_with("<div class=\"row\"> <a href=\"/item/"), "{text}");
        assert!(!text.contains("<!--") && !text.contains("  "));
        assert!((10..text.len() / 2).contains(&tokens), "{tokens} of {}", text.len());
        assert_eq!(application.turn(), tokens);
    }
}
