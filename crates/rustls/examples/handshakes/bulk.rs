//! The server's time for records of full length.

use std::io::{Read, Write};
use std::time::Instant;

use rustls::{CipherSuite, NamedGroup};

use crate::ends::{Identity, Pair, Sink, Terms};
use crate::{Row, Unit};

/// Bytes of a record's text.
const BYTES: usize = 16 << 10;

/// How many records make a sample.
const RECORDS: usize = 400;

/// Measures nanoseconds for a record.
type Work = fn(&mut Pair) -> f64;

pub fn rows() -> Vec<Row> {
    let suites = [
        ("AES-128-GCM", CipherSuite::TLS13_AES_128_GCM_SHA256),
        ("AES-256-GCM", CipherSuite::TLS13_AES_256_GCM_SHA384),
        ("ChaCha20-Poly1305", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    ];
    let directions = [("sends", send as Work), ("receives", receive)];
    let rows = suites.into_iter().flat_map(|(cipher, suite)| {
        directions.map(|(verb, work)| Row {
            name: format!("{verb} records of 16 KiB, {cipher}"),
            unit: Unit::Bytes(BYTES),
            measure: Box::new(move |rival| {
                let identity = Identity::p256();
                let terms = Terms { suite, group: NamedGroup::X25519 };
                let server = identity.server(&rival.provider, terms).expect("all have X25519");
                let (mut pair, _) = Pair::connect(&identity.client(terms), &server);
                work(&mut pair)
            }),
            samples: Vec::new(),
        })
    });
    rows.collect()
}

/// Nanoseconds for a record, from the application's buffer to the network's.
fn send(pair: &mut Pair) -> f64 {
    let text = [7; BYTES];
    let mut send = |records| {
        for _ in 0..records {
            pair.server.writer().write_all(&text).expect("room in the buffer");
            while pair.server.wants_write() {
                pair.server.write_tls(&mut Sink).expect("a sink");
            }
        }
    };
    send(RECORDS / 10);
    let begin = Instant::now();
    send(RECORDS);
    begin.elapsed().as_nanos() as f64 / RECORDS as f64
}

/// Nanoseconds for a record, from the network's buffer to the application's.
fn receive(pair: &mut Pair) -> f64 {
    let mut text = [7; BYTES];
    let mut records = Vec::with_capacity(RECORDS);
    for _ in 0..RECORDS {
        pair.client.writer().write_all(&text).expect("room in the buffer");
        let mut record = Vec::with_capacity(BYTES + 64);
        while pair.client.wants_write() {
            pair.client.write_tls(&mut record).expect("memory");
        }
        records.push(record);
    }
    let begin = Instant::now();
    for record in &records {
        let mut rest = &record[..];
        while !rest.is_empty() {
            pair.server.read_tls(&mut rest).expect("memory");
            pair.server.process_new_packets().expect("good records");
        }
        pair.server.reader().read_exact(&mut text).expect("the whole text");
    }
    begin.elapsed().as_nanos() as f64 / RECORDS as f64
}
