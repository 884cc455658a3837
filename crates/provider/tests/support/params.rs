//! Arrays of parameters, made of any bytes: right ones with something changed.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr;

use widelane_ossl_sys::core::{
    OsslParam, PARAM_INTEGER, PARAM_OCTET_PTR, PARAM_OCTET_STRING, PARAM_REAL,
    PARAM_UNSIGNED_INTEGER, PARAM_UTF8_PTR, PARAM_UTF8_STRING,
};
use widelane_testkit::fuzz::Decisions;

use super::is_since;

const TYPES: [c_uint; 8] = [
    PARAM_INTEGER,
    PARAM_UNSIGNED_INTEGER,
    PARAM_REAL,
    PARAM_UTF8_STRING,
    PARAM_OCTET_STRING,
    PARAM_UTF8_PTR,
    PARAM_OCTET_PTR,
    9,
];

/// Zeros around each value: OpenSSL looks at the byte before an empty number, reads text up to its
/// end, and an IV of a length that is not the parameter's.
pub const MARGIN: usize = 256;

/// Decisions about parameters.
pub struct Source<'a> {
    decisions: Decisions<'a>,
    /// All parameters that were made.
    pub made: Vec<Params>,
}

impl<'a> Source<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Source { decisions: Decisions::new(bytes), made: Vec::new() }
    }

    pub fn below(&mut self, count: usize) -> usize {
        self.decisions.below(count)
    }

    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        self.decisions.one(of)
    }

    pub fn is_chosen(&mut self) -> bool {
        self.decisions.is_chosen()
    }

    /// All of `right`, with up to three things changed.
    pub fn all_of(&mut self, right: &[Parameter], reader: Reader) -> Params {
        self.changed(right.to_vec(), right, reader)
    }

    /// Some of `right`, with up to three things changed.
    pub fn some_of(&mut self, right: &[Parameter], reader: Reader) -> Params {
        let count = self.below(4);
        let some = (0..count).map(|_| self.one(right)).collect();
        self.changed(some, right, reader)
    }

    /// One of `right`, with up to three things changed. Where the default provider looks at several
    /// in an order of its own, ours looks at them as they come.
    pub fn one_of(&mut self, right: &[Parameter], reader: Reader) -> Params {
        let one = vec![self.one(right)];
        let Params(mut made) = self.changed(one, right, reader);
        made.truncate(1);
        Params(made)
    }

    fn changed(&mut self, mut some: Vec<Parameter>, all: &[Parameter], reader: Reader) -> Params {
        for _ in 0..self.below(4) {
            if !some.is_empty() {
                self.change(&mut some, all, reader);
            }
        }
        self.make(some)
    }

    fn make(&mut self, params: Vec<Parameter>) -> Params {
        self.made.push(Params(params.clone()));
        Params(params)
    }

    /// One thing is not as it should be.
    fn change(&mut self, some: &mut Vec<Parameter>, all: &[Parameter], reader: Reader) {
        let index = self.below(some.len());
        let part = &mut some[index];
        match self.below(11) {
            0 => drop(some.remove(index)),
            1 => part.data_type = self.one(&TYPES),
            2 => {
                let bytes = self.below(part.bytes.len() + 1);
                part.bytes.truncate(bytes);
            }
            3 => {
                let bytes = part.bytes.len() + self.below(40);
                part.bytes.resize(bytes, 0);
            }
            4 if !part.bytes.is_empty() => {
                let at = self.below(part.bytes.len());
                part.bytes[at] ^= 1 << self.below(8);
            }
            5 => part.bytes.fill([0, 0xff][self.below(2)]),
            6 => part.name = self.one(all).name,
            7 => part.name = self.one(&[c"properties", c"", c"x", c"security-category"]),
            8 => {
                let twice = part.clone();
                let at = self.below(some.len() + 1);
                some.insert(at, twice);
            }
            9 if reader == Reader::Copies => part.is_null = true,
            10 if reader == Reader::Copies => {
                part.claimed = Some(self.one(&[usize::MAX, usize::MAX / 2, 1 << 40]));
            }
            _ => part.bytes = part.name.to_bytes().to_vec(),
        }
    }

    /// Questions for some of `names`, each once.
    pub fn questions(&mut self, names: &[&'static CStr]) -> Params {
        let mut questions: Vec<Parameter> = Vec::new();
        for _ in 0..self.below(5) {
            let (name, data_type) = (self.one(names), self.one(&TYPES[..7]));
            let bytes = vec![0; self.one(&[4, 8, 0, 1, 2, 12, 16, 32, 65, 97, 128, 255])];
            // OpenSSL writes numbers with a fraction wherever they are asked for.
            let is_null = self.below(8) == 0 && data_type != PARAM_REAL;
            // Since 3.6 it wants the type of an IV to be right even where there is no place for it.
            let is_right = [PARAM_OCTET_STRING, PARAM_OCTET_PTR].contains(&data_type)
                || ![c"iv", c"updated-iv"].contains(&name);
            let is_null = is_null && (is_right || !is_since(3, 6));
            // It reads in front of no bytes at all for the sign of a number.
            let has_sign = data_type != PARAM_INTEGER || !bytes.is_empty();
            if has_sign && questions.iter().all(|question| question.name != name) {
                questions.push(Parameter { name, data_type, bytes, claimed: None, is_null });
            }
        }
        self.make(questions)
    }
}

/// How the default provider takes bytes that are given to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// By functions that check pointer and length.
    Copies,
    /// As they are, so that wrong pointers and lengths end the process.
    Trusts,
}

/// One parameter.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: &'static CStr,
    data_type: c_uint,
    bytes: Vec<u8>,
    /// The length, if it is not that of the bytes.
    claimed: Option<usize>,
    is_null: bool,
}

impl Parameter {
    pub fn octets(name: &'static CStr, bytes: &[u8]) -> Self {
        let (bytes, data_type) = (bytes.to_vec(), PARAM_OCTET_STRING);
        Parameter { name, data_type, bytes, claimed: None, is_null: false }
    }

    pub fn text(name: &'static CStr, text: &str) -> Self {
        Parameter { data_type: PARAM_UTF8_STRING, ..Self::octets(name, text.as_bytes()) }
    }

    pub fn int(name: &'static CStr, number: c_int) -> Self {
        Parameter { data_type: PARAM_INTEGER, ..Self::octets(name, &number.to_ne_bytes()) }
    }

    pub fn size(name: &'static CStr, number: usize) -> Self {
        Parameter { data_type: PARAM_UNSIGNED_INTEGER, ..Self::octets(name, &number.to_ne_bytes()) }
    }

    /// A number of any length.
    pub fn number(name: &'static CStr, big_endian: &[u8]) -> Self {
        let little_endian: Vec<u8> = big_endian.iter().rev().copied().collect();
        Parameter { data_type: PARAM_UNSIGNED_INTEGER, ..Self::octets(name, &little_endian) }
    }

    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same by another name.
    pub fn named(&self, name: &'static CStr) -> Self {
        Parameter { name, ..self.clone() }
    }

    fn is_pointer(&self) -> bool {
        matches!(self.data_type, PARAM_UTF8_PTR | PARAM_OCTET_PTR)
    }

    /// Whether OpenSSL's own readers look at pointer and length first; those of text and numbers
    /// do not always, and that of TLS1-PRF takes any digest for a text.
    fn is_checked(&self) -> bool {
        self.data_type == PARAM_OCTET_STRING && self.name != c"digest"
    }
}

/// Some parameters.
#[derive(Clone, Debug, Default)]
pub struct Params(pub Vec<Parameter>);

impl Params {
    pub fn has(&self, name: &CStr) -> bool {
        self.0.iter().any(|param| param.name == name)
    }

    /// Passes them to a function as an array; answers its status.
    pub fn give(&self, take: impl FnOnce(*mut OsslParam) -> c_int) -> c_int {
        self.pass(false, take).0
    }

    /// Passes them to a function that answers them; answers its status, and what came out.
    pub fn ask(&self, answer: impl FnOnce(*mut OsslParam) -> c_int) -> (c_int, Vec<u8>) {
        self.pass(true, answer)
    }

    fn pass(&self, asks: bool, call: impl FnOnce(*mut OsslParam) -> c_int) -> (c_int, Vec<u8>) {
        let mut places: Vec<Vec<u8>> = self.0.iter().map(Parameter::place).collect();
        let data: Vec<*mut u8> =
            places.iter_mut().map(|place| place[MARGIN..].as_mut_ptr()).collect();
        let mut pointers: Vec<*mut u8> =
            if asks { vec![ptr::null_mut(); data.len()] } else { data.clone() };
        let mut array: Vec<OsslParam> = self
            .0
            .iter()
            .zip(data.iter().zip(&mut pointers))
            .map(|(param, (data, pointer))| {
                let direct = if param.is_pointer() { ptr::from_mut(pointer).cast() } else { *data };
                // OpenSSL's ChaCha20-Poly1305 writes its tag to a null pointer, too.
                let may = if asks { param.name != c"tag" } else { param.is_checked() };
                let null = param.is_null && may;
                let data: *mut c_void = if null { ptr::null_mut() } else { direct.cast() };
                let claimed = param.claimed.filter(|_| param.is_checked());
                let bytes = claimed.unwrap_or(param.bytes.len());
                OsslParam::new(param.name, param.data_type, data, bytes)
            })
            .collect();
        array.push(OsslParam::END);
        let status = call(array.as_mut_ptr());
        let mut said = Vec::new();
        if asks && status > 0 {
            for (index, param) in self.0.iter().enumerate() {
                let written = array[index].return_size;
                // OpenSSL's ChaCha20-Poly1305 does not tell how long the tag is that it writes.
                if param.name != c"tag" {
                    said.extend(written.to_le_bytes());
                }
                if !param.is_pointer() {
                    said.extend(&places[index]);
                } else if !pointers[index].is_null() {
                    // SAFETY: whoever answers with a pointer says how much is there.
                    said.extend(unsafe { std::slice::from_raw_parts(pointers[index], written) });
                }
            }
        }
        (status, said)
    }
}

impl Parameter {
    /// Its bytes, with a margin.
    fn place(&self) -> Vec<u8> {
        let margin = [0; MARGIN];
        [&margin, &self.bytes[..], &margin].concat()
    }
}
