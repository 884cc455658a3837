//! QUIC: the vectors of RFC 9001, and handshakes with AWS-LC on the other side.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::quic::{
    ClientConnection, Connection, DirectionalKeys, KeyChange, Keys, ServerConnection, Version,
};
use rustls::{CipherSuite, Side, Tls13CipherSuite};
use widelane_testkit::hex;

use crate::common::{Kind, client, only, ours, server, theirs};

fn suite(name: CipherSuite) -> &'static Tls13CipherSuite {
    let suites = ours().cipher_suites;
    let suite = suites.iter().find(|suite| suite.suite() == name).expect("a suite");
    suite.tls13().expect("TLS 1.3")
}

/// Seals a packet and protects its header, of which the packet number is the end.
fn protect(
    keys: &DirectionalKeys,
    number: u64,
    header: &[u8],
    number_bytes: usize,
    payload: &[u8],
) -> Vec<u8> {
    let mut payload = payload.to_vec();
    let tag = keys.packet.encrypt_in_place(number, header, &mut payload).expect("a packet");
    payload.extend_from_slice(tag.as_ref());
    let mut header = header.to_vec();
    let (first, rest) = header.split_first_mut().expect("a first byte");
    let number_at = rest.len() - number_bytes;
    let sample = &payload[4 - number_bytes..][..16];
    keys.header.encrypt_in_place(sample, first, &mut rest[number_at..]).expect("a header");
    [header, payload].concat()
}

/// Undoes that.
fn unprotect(
    keys: &DirectionalKeys,
    number: u64,
    header_bytes: usize,
    number_bytes: usize,
    packet: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    let mut header = packet[..header_bytes].to_vec();
    let mut payload = packet[header_bytes..].to_vec();
    let (first, rest) = header.split_first_mut().expect("a first byte");
    let number_at = rest.len() - number_bytes;
    let sample = &payload[4 - number_bytes..][..16];
    keys.header.decrypt_in_place(sample, first, &mut rest[number_at..]).expect("a header");
    let plain =
        keys.packet.decrypt_in_place(number, &header, &mut payload).expect("a packet").to_vec();
    (header, plain)
}

fn initial(side: Side) -> Keys {
    let suite = suite(CipherSuite::TLS13_AES_128_GCM_SHA256);
    let quic = suite.quic.expect("QUIC");
    Keys::initial(Version::V1, suite, quic, &hex::decode("8394c8f03e515708"), side)
}

#[test]
fn a_client_initial_of_rfc_9001() {
    // A.2: a ClientHello, padded to 1162 bytes.
    let hello = "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e868\
                 04fe3a47f06a2b69484c00000413011302010000c000000010000e00000b6578\
                 616d706c652e636f6dff01000100000a00080006001d00170018001000070005\
                 04616c706e000500050100000000003300260024001d00209370b2c9caa47fba\
                 baf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b000302030400\
                 0d0010000e0403050306030203080408050806002d00020101001c0002400100\
                 3900320408ffffffffffffffff05048000ffff07048000ffff08011001048000\
                 75300901100f088394c8f03e51570806048000ffff";
    let mut payload = hex::decode(hello);
    payload.resize(1162, 0);
    let header = hex::decode("c300000001088394c8f03e5157080000449e00000002");
    let packet = protect(&initial(Side::Client).local, 2, &header, 4, &payload);
    assert_eq!(packet.len(), 1200);
    assert_eq!(packet[..22], hex::decode("c000000001088394c8f03e5157080000449e7b9aec34"));
    assert_eq!(
        packet[22..54],
        hex::decode("d1b1c98dd7689fb8ec11d242b123dc9bd8bab936b47d92ec356c0bab7df5976d")
    );
    assert_eq!(packet[1184..], hex::decode("e221af44860018ab0856972e194cd934"));
    let (opened, plain) = unprotect(&initial(Side::Server).remote, 2, 22, 4, &packet);
    assert_eq!((opened, plain), (header, payload));
}

#[test]
fn a_server_initial_of_rfc_9001() {
    // A.3.
    let payload = hex::decode(
        "02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf739\
                       88cfc79825df566dc5430b9a045a1200130100002e00330024001d00209d3c94\
                       0d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00\
                       020304",
    );
    let header = hex::decode("c1000000010008f067a5502a4262b50040750001");
    let packet = protect(&initial(Side::Server).local, 1, &header, 2, &payload);
    let expected = "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a\
                    5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3\
                    dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84\
                    022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc4\
                    2158407dd074ee";
    assert_eq!(packet, hex::decode(expected));
    let (opened, plain) = unprotect(&initial(Side::Client).remote, 1, 20, 2, &packet);
    assert_eq!((opened, plain), (header, payload));
}

#[test]
fn a_short_header_of_rfc_9001() {
    // A.5, with keys as given there.
    let quic = suite(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256).quic.expect("QUIC");
    let key = |digits| <[u8; 32]>::try_from(&hex::decode(digits)[..]).expect("32 bytes").into();
    let packet_key = key("c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8");
    let header_key = key("25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4");
    let iv = <[u8; 12]>::try_from(&hex::decode("e0459b3474bdd0e44a41c144")[..]).expect("12 bytes");
    let keys = DirectionalKeys {
        packet: quic.packet_key(packet_key, iv.into()),
        header: quic.header_protection_key(header_key),
    };
    let packet = protect(&keys, 654_360_564, &hex::decode("4200bff4"), 3, &[1]);
    assert_eq!(packet, hex::decode("4cfe4189655e5cd55c41f69080575d7999c25a5bfb"));
}

#[test]
fn a_header_that_is_none_is_refused() {
    let keys = initial(Side::Client).local;
    let mut first = 0xc3;
    let mut number = [1, 2, 3, 4, 5];
    let header = keys.header;
    assert_eq!(header.sample_len(), 16);
    assert!(header.encrypt_in_place(&[0; 15], &mut first, &mut number[..4]).is_err());
    assert!(header.decrypt_in_place(&[0; 17], &mut first, &mut number[..4]).is_err());
    assert!(header.encrypt_in_place(&[0; 16], &mut first, &mut number).is_err());
    assert_eq!((first, number), (0xc3, [1, 2, 3, 4, 5]));
}

#[test]
fn changed_packets_are_refused_and_paths_are_apart() {
    for quic in ours().cipher_suites.iter().filter_map(|suite| suite.tls13()?.quic) {
        // Nobody but rustls makes a shorter key.
        if quic.aead_key_len() != 32 {
            continue;
        }
        let key = quic.packet_key([7; 32].into(), [9; 12].into());
        let mut packet = [5; 100];
        let tag = key.encrypt_in_place_for_path(1, 2, b"header", &mut packet).expect("a packet");
        let sealed = [&packet[..], tag.as_ref()].concat();
        let open = |path, number, header: &[u8], packet: &[u8]| {
            let mut packet = packet.to_vec();
            let plain = key.decrypt_in_place_for_path(path, number, header, &mut packet);
            plain.map(<[u8]>::to_vec).ok()
        };
        assert_eq!(open(1, 2, b"header", &sealed), Some(vec![5; 100]));
        assert_eq!(open(0, 2, b"header", &sealed), None);
        assert_eq!(open(1, 3, b"header", &sealed), None);
        assert_eq!(open(1, 2, b"other", &sealed), None);
        assert_eq!(open(1, 2, b"header", &sealed[..15]), None);
        assert_eq!(key.tag_len(), 16);
        assert!(key.confidentiality_limit() >= 1 << 23 && key.integrity_limit() >= 1 << 36);
    }
}

/// Both ends of a connection, and the keys for data that they have agreed on.
fn shake_hands(of_client: &CryptoProvider, of_server: &CryptoProvider) -> [Keys; 2] {
    let client = client(of_client.clone(), Kind::P256);
    let server = server(of_server.clone(), Kind::P256);
    let name = ServerName::try_from("localhost").expect("a name");
    let mut ends = [
        Connection::from(
            ClientConnection::new(Arc::new(client), Version::V1, name, b"client".to_vec())
                .expect("a client"),
        ),
        Connection::from(
            ServerConnection::new(Arc::new(server), Version::V1, b"server".to_vec())
                .expect("a server"),
        ),
    ];
    let mut data = [None, None];
    while ends.iter().any(|end| end.is_handshaking()) || data.iter().any(Option::is_none) {
        for (from, to) in [(0, 1), (1, 0)] {
            loop {
                let mut flight = Vec::new();
                let change = ends[from].write_hs(&mut flight);
                if flight.is_empty() && change.is_none() {
                    break;
                }
                ends[to].read_hs(&flight).expect("a good handshake");
                if let Some(KeyChange::OneRtt { keys, .. }) = change {
                    data[from] = Some(keys);
                }
            }
        }
    }
    assert_eq!(ends[0].quic_transport_parameters(), Some(&b"server"[..]));
    data.map(|keys| keys.expect("keys for data"))
}

#[test]
fn handshakes_with_every_suite() {
    for name in [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS13_AES_256_GCM_SHA384,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    ] {
        let group = rustls::NamedGroup::X25519MLKEM768;
        for (of_client, of_server) in [(ours(), theirs()), (theirs(), ours())] {
            let (of_client, of_server) =
                (only(&of_client, name, group), only(&of_server, name, group));
            let [client, server] = shake_hands(&of_client, &of_server);
            for bytes in [1, 5, 30, 1200, 1400] {
                let header = [0x43, 1, 2, 3, 4, 0, 0, 0, 9];
                let payload = vec![bytes as u8; bytes];
                for (from, to) in [(&client.local, &server.remote), (&server.local, &client.remote)]
                {
                    let packet = protect(from, 9, &header, 4, &payload);
                    let (opened, plain) = unprotect(to, 9, 9, 4, &packet);
                    assert_eq!((&opened[..], &plain), (&header[..], &payload));
                }
            }
        }
    }
}
